variable "name" {
  description = "Name of the deployment, and prefix of all names."
  type        = string
  default     = "almanac"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "The name must have 3 to 20 lower-case letters, digits and hyphens, begin with a letter and not end with a hyphen."
  }
}

variable "image" {
  description = "Container image with tag or digest."
  type        = string

  validation {
    condition     = can(regex("^[^\\s:]+(:[0-9]+/[^\\s:]+)?(:[^\\s:/]+|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "The image needs a tag other than latest, or a digest, so that a deployment says what it runs."
  }
}

variable "images" {
  description = "Other images by role (ingest, projector, query) during an update, readers first."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for role, image in var.images : contains(["ingest", "projector", "query"], role) && can(regex("^[^\\s:]+(:[0-9]+/[^\\s:]+)?(:[^\\s:/]+|@sha256:[0-9a-f]{64})$", image)) && !endswith(image, ":latest")])
    error_message = "The keys are ingest, projector and query, and each image needs a tag other than latest, or a digest."
  }
}

variable "ecr_repository_arn" {
  description = "ECR repository of the image; null for a public registry."
  type        = string
  default     = null

  validation {
    condition     = var.ecr_repository_arn == null || can(regex("^arn:[^:]+:ecr:", var.ecr_repository_arn))
    error_message = "This must be the ARN of an ECR repository."
  }
}

variable "cpu_architecture" {
  description = "Architecture of the image: X86_64 or ARM64."
  type        = string
  default     = "X86_64"

  validation {
    condition     = contains(["X86_64", "ARM64"], var.cpu_architecture)
    error_message = "The architecture is X86_64 or ARM64."
  }
}

variable "vpc_id" {
  description = "VPC of everything."
  type        = string

  validation {
    condition     = startswith(var.vpc_id, "vpc-")
    error_message = "The id of a VPC begins with vpc-."
  }
}

variable "load_balancer_subnet_ids" {
  description = "Subnets of the load balancer in two or more availability zones; public unless internal."
  type        = list(string)

  validation {
    condition     = length(var.load_balancer_subnet_ids) >= 2
    error_message = "A load balancer needs subnets in two availability zones."
  }
}

variable "task_subnet_ids" {
  description = "Subnets of the tasks in two or more availability zones, with a way to ECR, Secrets Manager, CloudWatch Logs and DynamoDB Streams: a NAT gateway in each zone, interface endpoints or public addresses."
  type        = list(string)

  validation {
    condition     = length(var.task_subnet_ids) >= 2
    error_message = "The tasks need subnets in two availability zones."
  }
}

variable "assign_public_ip" {
  description = "Whether tasks get public addresses: cheaper than NAT gateways, not reachable from outside."
  type        = bool
  default     = false
}

variable "endpoint_route_table_ids" {
  description = "Route tables of the tasks' subnets, for a free gateway endpoint of DynamoDB; empty when the VPC has one."
  type        = list(string)
  default     = []
}

variable "streams_endpoint" {
  description = "URL of an interface endpoint of DynamoDB Streams (it has no private DNS); null for the public one."
  type        = string
  default     = null

  validation {
    condition     = var.streams_endpoint == null || can(regex("^https://[^/\\s]+$", var.streams_endpoint))
    error_message = "The address begins with https:// and has no path."
  }
}

variable "certificate_arn" {
  description = "ACM certificate of the load balancer."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:acm:", var.certificate_arn))
    error_message = "This must be the ARN of an ACM certificate."
  }
}

variable "admin_token_secret_arn" {
  description = "Secret with a token of `almanac token generate`, whose holder may do everything; null with admin_token_sha256."
  type        = string
  default     = null

  validation {
    condition     = var.admin_token_secret_arn == null || can(regex("^arn:[^:]+:secretsmanager:", var.admin_token_secret_arn))
    error_message = "This must be the ARN of a secret of Secrets Manager."
  }

  validation {
    condition     = (var.admin_token_secret_arn == null) != (var.admin_token_sha256 == null)
    error_message = "Set admin_token_secret_arn or admin_token_sha256."
  }
}

variable "admin_token_sha256" {
  description = "SHA-256 of that token in hexadecimal, in place of a secret: the token itself is nowhere in AWS."
  type        = string
  default     = null

  validation {
    condition     = var.admin_token_sha256 == null || can(regex("^[0-9a-f]{64}$", var.admin_token_sha256))
    error_message = "A SHA-256 has 64 hexadecimal digits in lower case: printf %s TOKEN | sha256sum."
  }
}

variable "oidc" {
  description = "OpenID Connect settings, such as { issuer = \"https://login.example.com\", audience = \"almanac\" }; empty for none."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name in keys(var.oidc) : contains(["issuer", "audience", "jwks_url", "algorithms", "principal_claim", "system_claim", "domain", "groups_claim", "create_users", "admin"], name)])
    error_message = "Each key must be a setting of the table oidc in docs/security.md."
  }

  validation {
    condition     = length(var.oidc) == 0 || (startswith(lookup(var.oidc, "issuer", ""), "https://") && lookup(var.oidc, "audience", "") != "")
    error_message = "An issuer needs https:// and an audience."
  }
}

variable "environment" {
  description = "Environment variables by role, such as { query = { ALMANAC_QUERY_MEMORY = \"1GiB\" } }; see docs/operating.md."
  type        = map(map(string))
  default     = {}

  validation {
    condition     = alltrue([for role in keys(var.environment) : contains(["ingest", "projector", "query"], role)])
    error_message = "The keys are ingest, projector and query."
  }

  validation {
    condition     = alltrue(flatten([for role, given in var.environment : [for name in keys(given) : can(regex("^[A-Z_][A-Z0-9_]*$", name)) && !can(regex(local.reserved_variables, name))]]))
    error_message = "Each is a variable of the environment in capitals, and none that the module sets itself."
  }

  validation {
    condition     = alltrue([for role, given in var.environment : length(setintersection(keys(given), keys(lookup(var.secrets, role, {})))) == 0])
    error_message = "A variable is in environment or in secrets of a role, not in both."
  }
}

variable "secrets" {
  description = "Environment variables by role from Secrets Manager, such as { projector = { ALMANAC_WEBHOOK_SECRET_ONCALL = \"arn:aws:secretsmanager:eu-west-1:123456789012:secret:oncall-AbCdEf\" } }."
  type        = map(map(string))
  default     = {}

  validation {
    condition     = alltrue([for role in keys(var.secrets) : contains(["ingest", "projector", "query"], role)])
    error_message = "The keys are ingest, projector and query."
  }

  validation {
    condition     = alltrue(flatten([for role, given in var.secrets : [for name in keys(given) : can(regex("^[A-Z_][A-Z0-9_]*$", name)) && !can(regex(local.reserved_variables, name))]]))
    error_message = "Each is a variable of the environment in capitals, and none that the module sets itself."
  }

  validation {
    condition     = alltrue(flatten([for role, given in var.secrets : [for arn in values(given) : can(regex("^arn:[^:]+:secretsmanager:[^:]+:[^:]+:secret:[^:]+", arn))]]))
    error_message = "Each must be the ARN of a secret of Secrets Manager."
  }
}

variable "trusted_proxies" {
  description = "IPv4 ranges of proxies whose forwarding headers are believed; null for the load balancer's subnets, empty for none."
  type        = list(string)
  default     = null

  validation {
    condition     = alltrue([for block in var.trusted_proxies == null ? [] : var.trusted_proxies : can(cidrnetmask(block))])
    error_message = "Each must be an IPv4 range such as 10.0.0.0/24."
  }
}

variable "internal" {
  description = "Whether the load balancer has only private addresses."
  type        = bool
  default     = true
}

variable "allowed_cidr_blocks" {
  description = "IPv4 ranges that may call the API; wider than /8 with allow_everyone."
  type        = list(string)

  validation {
    condition     = length(var.allowed_cidr_blocks) > 0 && alltrue([for block in var.allowed_cidr_blocks : can(cidrnetmask(block))])
    error_message = "At least one IPv4 range such as 10.0.0.0/8 is needed."
  }

  validation {
    condition     = var.allow_everyone || alltrue([for block in var.allowed_cidr_blocks : can(regex("/([89]|[1-3][0-9])$", block))])
    error_message = "A range wider than a /8, such as 0.0.0.0/0, is open to the world. Name who calls, or set allow_everyone."
  }
}

variable "allow_everyone" {
  description = "Whether allowed_cidr_blocks may be wider than /8."
  type        = bool
  default     = false
}

variable "load_balancer_jwt" {
  description = "OpenID Connect issuer and keys (jwks_url) whose tokens the load balancer requires. It refuses Almanac's own, so set oidc too. Null leaves it to the services."
  type = object({
    issuer   = string
    jwks_url = string
  })
  default = null

  validation {
    condition     = var.load_balancer_jwt == null || try(startswith(var.load_balancer_jwt.issuer, "https://") && startswith(var.load_balancer_jwt.jwks_url, "https://"), false)
    error_message = "Both addresses begin with https://."
  }
}

variable "web_acl" {
  description = "Web ACL of AWS WAF before the load balancer, as { arn = \"arn:aws:wafv2:...\" }; null for none."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.web_acl == null || try(can(regex("^arn:[^:]+:wafv2:[^:]+:[^:]+:regional/webacl/", var.web_acl.arn)), false)
    error_message = "This must be the ARN of a regional web ACL."
  }
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the IAM roles; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null || can(regex("^arn:[^:]+:iam::[^:]*:policy/", var.permissions_boundary_arn))
    error_message = "This must be the ARN of an IAM policy."
  }
}

variable "request_seconds" {
  description = "Maximum seconds of a request; other times follow from it."
  type        = number
  default     = 80

  # A question for what is new waits for it for up to 30 s. A task has two minutes to stop, by Fargate, and needs 20 s more than a request.
  validation {
    condition     = var.request_seconds >= 35 && var.request_seconds <= 100 && floor(var.request_seconds) == var.request_seconds
    error_message = "Whole seconds from 35 to 100: a reader that follows the log waits for up to 30 s, and Fargate ends a task that takes more than 120 s to stop."
  }
}

variable "ingest" {
  description = "Ingest service: a task's CPU units and MiB, least and most tasks, and autoscaling's CPU percentage."
  type = object({
    cpu         = optional(number, 512)
    memory      = optional(number, 1024)
    min         = optional(number, 2)
    max         = optional(number, 6)
    cpu_percent = optional(number, 60)
  })
  default = {}

  validation {
    condition     = var.ingest.min >= 1 && var.ingest.max >= var.ingest.min
    error_message = "At least one task must run, and the most cannot be fewer than the least."
  }

  validation {
    condition     = contains(lookup(local.fargate_memory, tostring(var.ingest.cpu), []), var.ingest.memory)
    error_message = "Fargate has no such pair of CPU and memory; 512 goes with 1024 to 4096, for example."
  }
}

variable "projector" {
  description = "Projector service, as ingest; several share the work."
  type = object({
    cpu         = optional(number, 512)
    memory      = optional(number, 2048)
    min         = optional(number, 1)
    max         = optional(number, 4)
    cpu_percent = optional(number, 70)
  })
  default = {}

  validation {
    condition     = var.projector.min >= 1 && var.projector.max >= var.projector.min
    error_message = "At least one task must run, and the most cannot be fewer than the least."
  }

  validation {
    condition     = contains(lookup(local.fargate_memory, tostring(var.projector.cpu), []), var.projector.memory)
    error_message = "Fargate has no such pair of CPU and memory; 512 goes with 1024 to 4096, for example."
  }
}

variable "query" {
  description = "Query service, as ingest."
  type = object({
    cpu         = optional(number, 512)
    memory      = optional(number, 2048)
    min         = optional(number, 2)
    max         = optional(number, 6)
    cpu_percent = optional(number, 60)
  })
  default = {}

  validation {
    condition     = var.query.min >= 1 && var.query.max >= var.query.min
    error_message = "At least one task must run, and the most cannot be fewer than the least."
  }

  validation {
    condition     = contains(lookup(local.fargate_memory, tostring(var.query.cpu), []), var.query.memory)
    error_message = "Fargate has no such pair of CPU and memory; 512 goes with 1024 to 4096, for example."
  }
}

variable "provisioned" {
  description = "Provisioned units of the table a second, autoscaled from least to most; indexes have fixed ones. Null is on demand."
  type = object({
    read_min       = number
    read_max       = number
    write_min      = number
    write_max      = number
    target_percent = optional(number, 70)
    index_read     = optional(number, 5)
    index_write    = optional(number, 5)
  })
  default = null

  validation {
    condition = var.provisioned == null || try(
      var.provisioned.read_min >= 1 && var.provisioned.read_max >= var.provisioned.read_min &&
      var.provisioned.write_min >= 1 && var.provisioned.write_max >= var.provisioned.write_min &&
      var.provisioned.index_read >= 1 && var.provisioned.index_write >= 1,
      false
    )
    error_message = "Every least is at least 1, and no most is below its least."
  }

  validation {
    condition     = try(var.provisioned.target_percent, 70) >= 20 && try(var.provisioned.target_percent, 70) <= 90
    error_message = "DynamoDB's autoscaling aims at 20 to 90 percent."
  }
}

variable "on_demand_limits" {
  description = "Most units a second of the table and of each index on demand; more is throttled. Null for the account's limits."
  type = object({
    read  = number
    write = number
  })
  default = null

  validation {
    condition     = var.on_demand_limits == null || try(var.on_demand_limits.read >= 1 && var.on_demand_limits.write >= 1, false)
    error_message = "Each limit is at least 1."
  }

  validation {
    condition     = var.on_demand_limits == null || var.provisioned == null
    error_message = "A table of provisioned capacity has no limits of demand: set on_demand_limits or provisioned."
  }
}

variable "warm_throughput" {
  description = "Units a second of the table and of each index that DynamoDB is ready for at once, paid once; AWS never lowers them. Null for its own."
  type = object({
    read  = number
    write = number
  })
  default = null

  validation {
    condition     = var.warm_throughput == null || try(var.warm_throughput.read >= 12000 && var.warm_throughput.write >= 4000, false)
    error_message = "DynamoDB is ready for 12,000 read and 4,000 write units a second by itself."
  }
}

variable "infrequent_access" {
  description = "Whether the table has the class STANDARD_INFREQUENT_ACCESS: cheaper to store, dearer to read and write."
  type        = bool
  default     = false
}

variable "stream_images" {
  description = "Whether changes in the stream hold NEW_AND_OLD_IMAGES, as global tables need; else the keys. A change makes another stream, and projectors sweep."
  type        = bool
  default     = false
}

variable "backup" {
  description = "Plan of AWS Backup that takes the table, with a role for it: { plan_id, role_arn }; null for none."
  type = object({
    plan_id  = string
    role_arn = string
  })
  default = null

  validation {
    condition     = var.backup == null || try(var.backup.plan_id != "" && can(regex("^arn:[^:]+:iam::[^:]*:role/", var.backup.role_arn)), false)
    error_message = "A backup needs the id of a plan and the ARN of a role."
  }
}

variable "use_kms_key" {
  description = "Whether kms_key_arn encrypts the table; must be known when Terraform plans."
  type        = bool
  default     = false
}

variable "kms_key_arn" {
  description = "Your KMS key of the table, with use_kms_key; else DynamoDB's free one."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[^:]+:kms:[^:]*:[^:]*:key/", var.kms_key_arn))
    error_message = "This must be the ARN of a KMS key, not of an alias."
  }

  validation {
    condition     = var.use_kms_key == (var.kms_key_arn != null)
    error_message = "Set use_kms_key and kms_key_arn, or neither of them."
  }
}

variable "logs_kms_key_arn" {
  description = "KMS key of the logs, which CloudWatch Logs may use; null for CloudWatch's."
  type        = string
  default     = null

  validation {
    condition     = var.logs_kms_key_arn == null || can(regex("^arn:[^:]+:kms:[^:]*:[^:]*:key/", var.logs_kms_key_arn))
    error_message = "This must be the ARN of a KMS key, not of an alias."
  }
}

variable "table_name" {
  description = "Name of the table, if not the deployment's: after a restore, or to rename all else."
  type        = string
  default     = null

  validation {
    condition     = var.table_name == null || can(regex("^[A-Za-z0-9_.-]{3,255}$", var.table_name))
    error_message = "A table's name has 3 to 255 letters, digits, underscores, dots and hyphens."
  }
}

variable "access_logs_bucket" {
  description = "Bucket that the load balancer may write access logs to; null for none."
  type        = string
  default     = null
}

variable "container_insights" {
  description = "CloudWatch's Container Insights, paid by metric: disabled, enabled or enhanced."
  type        = string
  default     = "disabled"

  validation {
    condition     = contains(["disabled", "enabled", "enhanced"], var.container_insights)
    error_message = "Container Insights are disabled, enabled or enhanced."
  }
}

variable "prometheus" {
  description = "Security group of a Prometheus, which finds tasks as ROLE.NAME.internal in the VPC's DNS; null for none."
  type        = object({ security_group_id = string })
  default     = null
}

variable "wait_for_steady_state" {
  description = "Whether an apply succeeds only once the new services run."
  type        = bool
  default     = true
}

variable "point_in_time_recovery" {
  description = "Whether the table can be restored to any second of the last 35 days."
  type        = bool
  default     = true
}

variable "deletion_protection" {
  description = "Whether table and load balancer must be unlocked before deletion."
  type        = bool
  default     = true
}

variable "log_retention_days" {
  description = "Days that logs are kept, of CloudWatch's values."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653 days."
  }
}

variable "page_topic_arns" {
  description = "SNS topics of alarms that wake somebody, which let cloudwatch.amazonaws.com publish; empty for none."
  type        = list(string)

  validation {
    condition     = alltrue([for arn in var.page_topic_arns : can(regex("^arn:[^:]+:sns:", arn))])
    error_message = "These must be ARNs of SNS topics."
  }
}

variable "ticket_topic_arns" {
  description = "SNS topics of all other alarms and of failed tasks and deployments, which let events.amazonaws.com publish as well; null for the same as pages."
  type        = list(string)
  default     = null

  validation {
    condition     = alltrue([for arn in var.ticket_topic_arns == null ? [] : var.ticket_topic_arns : can(regex("^arn:[^:]+:sns:", arn))])
    error_message = "These must be ARNs of SNS topics."
  }
}

variable "latency_alarm_seconds" {
  description = "Seconds of the slowest 1 % of requests before the alarm."
  type        = number
  default     = 10

  validation {
    condition     = var.latency_alarm_seconds > 0
    error_message = "The bound must be more than nothing."
  }
}

variable "unevaluated_alarm_days" {
  description = "Unevaluated days, for two hours, before the alarm."
  type        = number
  default     = 10

  validation {
    condition     = var.unevaluated_alarm_days >= 1
    error_message = "Below 1 the alarm would go off in ordinary work."
  }
}

variable "lag_alarm_seconds" {
  description = "Seconds until a day is folded before the alarm; autoscaling adds projectors at half."
  type        = number
  default     = 300

  validation {
    condition     = var.lag_alarm_seconds >= 20
    error_message = "Below 20 seconds the alarm would go off in ordinary work."
  }
}

variable "read_budget_units_per_hour" {
  description = "Read units of table and indexes an hour before the alarm. The default is over twice the 205,000 modelled for a million predictions a day."
  type        = number
  default     = 500000

  validation {
    condition     = var.read_budget_units_per_hour > 0
    error_message = "The budget must be more than nothing."
  }
}

variable "write_budget_units_per_hour" {
  description = "Write units of table and indexes an hour before the alarm. The default is about ten times those of 10 million predictions a day in batches of 10,000."
  type        = number
  default     = 100000

  validation {
    condition     = var.write_budget_units_per_hour > 0
    error_message = "The budget must be more than nothing."
  }
}

variable "tags" {
  description = "Tags of everything that can have some."
  type        = map(string)
  default     = {}
}
