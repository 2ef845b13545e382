variable "region" {
  description = "The AWS region."
  type        = string
}

variable "name" {
  description = "Name of the deployment, and the beginning of all names."
  type        = string
  default     = "almanac"
}

variable "image_tag" {
  description = "The tag of the image in the repository that this makes."
  type        = string
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
  description = "Who may call the API: IPv4 ranges."
  type        = list(string)
}

variable "alarm_email" {
  description = "Who gets a mail when there is an alarm; null for nobody."
  type        = string
  default     = null
}

variable "allow_everyone" {
  description = "Whether allowed_cidr_blocks may hold 0.0.0.0/0."
  type        = bool
  default     = false
}

variable "alarm_topic_kms_key_id" {
  description = "A KMS key of your own that encrypts the topic of the alarms, and that CloudWatch and EventBridge may use; null for no encryption by a key."
  type        = string
  default     = null
}
