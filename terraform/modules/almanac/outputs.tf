output "url" {
  description = "URL of the API at the load balancer. The certificate's name needs an alias record of it."
  value       = "https://${aws_lb.this.dns_name}"
}

output "load_balancer_dns_name" {
  description = "DNS name of the load balancer, for an alias record."
  value       = aws_lb.this.dns_name
}

output "load_balancer_zone_id" {
  description = "Hosted zone of the load balancer, for an alias record."
  value       = aws_lb.this.zone_id
}

output "table_name" {
  description = "Table."
  value       = aws_dynamodb_table.this.name
}

output "table_arn" {
  description = "ARN of the table."
  value       = aws_dynamodb_table.this.arn
}

output "cluster_name" {
  description = "ECS cluster."
  value       = aws_ecs_cluster.this.name
}

output "service_names" {
  description = "Names of the ECS services by role."
  value       = { for name, service in aws_ecs_service.service : name => service.name }
}

output "task_definition_arns" {
  description = "Task definitions by role, for single commands."
  value       = { for name, definition in aws_ecs_task_definition.service : name => definition.arn }
}

output "task_role_arns" {
  description = "Roles of the tasks by role."
  value       = { for name, role in aws_iam_role.service : name => role.arn }
}

output "task_security_group_ids" {
  description = "Security groups of the tasks by role."
  value       = { for name, group in aws_security_group.service : name => group.id }
}

output "log_group_names" {
  description = "Log groups by role."
  value       = { for name, group in aws_cloudwatch_log_group.service : name => group.name }
}

output "dashboard_name" {
  description = "CloudWatch dashboard."
  value       = aws_cloudwatch_dashboard.this.dashboard_name
}
