variable "region" {
  description = "The AWS region."
  type        = string
}

variable "name" {
  description = "Name of the deployment, and the beginning of all names."
  type        = string
  default     = "almanac"
}

variable "vpc_cidr_block" {
  description = "The IPv4 range of the VPC, a /16; the first two /24 of it are the subnets."
  type        = string
  default     = "10.71.0.0/16"
}

variable "image_tag" {
  description = "The tag of the image in the repository that this makes."
  type        = string
}

variable "image_tags" {
  description = "Other tags for some roles, while a new version is rolled out, such as { query = \"0.3.0\" }."
  type        = map(string)
  default     = {}
}

variable "certificate_arn" {
  description = "The ACM certificate of the name by which the API is called."
  type        = string
}

variable "admin_token_secret_arn" {
  description = "The secret of Secrets Manager that holds the administrator's token."
  type        = string
}

variable "allowed_cidr_blocks" {
  description = "Who may call the API besides the VPC: IPv4 ranges of the networks that are connected to it."
  type        = list(string)
  default     = []
}

variable "page_topic_arns" {
  description = "SNS topics of alarms that wake somebody. Their policies let cloudwatch.amazonaws.com publish."
  type        = list(string)
}

variable "ticket_topic_arns" {
  description = "SNS topics of all other alarms and failures. Their policies let events.amazonaws.com publish as well."
  type        = list(string)
}
