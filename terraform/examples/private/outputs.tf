output "url" {
  description = "The address of the load balancer."
  value       = module.almanac.url
}

output "repository_url" {
  description = "Where the image is pushed to."
  value       = aws_ecr_repository.this.repository_url
}

output "cluster_name" {
  description = "The name of the ECS cluster."
  value       = module.almanac.cluster_name
}

output "table_name" {
  description = "The name of the table."
  value       = module.almanac.table_name
}

output "task_definition_arns" {
  description = "The task definitions, by role."
  value       = module.almanac.task_definition_arns
}

output "task_security_group_ids" {
  description = "The security groups of the tasks, by role."
  value       = module.almanac.task_security_group_ids
}

output "subnet_ids" {
  description = "The subnets of the tasks."
  value       = aws_subnet.private[*].id
}
