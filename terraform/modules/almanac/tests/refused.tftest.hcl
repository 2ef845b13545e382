# Values that variables refuse, when Terraform plans.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  image                    = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/almanac:0.2.0"
  ecr_repository_arn       = "arn:aws:ecr:eu-west-1:123456789012:repository/almanac"
  vpc_id                   = "vpc-1"
  load_balancer_subnet_ids = ["subnet-1", "subnet-2"]
  task_subnet_ids          = ["subnet-3", "subnet-4"]
  certificate_arn          = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
  admin_token_secret_arn   = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:almanac-admin-AbCdEf"
  allowed_cidr_blocks      = ["10.0.0.0/8"]
  page_topic_arns          = ["arn:aws:sns:eu-west-1:123456789012:pages"]
}

run "name_1" {
  command = plan

  variables {
    name = "Almanac"
  }

  expect_failures = [var.name]
}

run "name_2" {
  command = plan

  variables {
    name = "almanac-"
  }

  expect_failures = [var.name]
}

run "image_1" {
  command = plan

  variables {
    image = "almanac"
  }

  expect_failures = [var.image]
}

run "image_2" {
  command = plan

  variables {
    image = "almanac:latest"
  }

  expect_failures = [var.image]
}

run "images_1" {
  command = plan

  variables {
    images = { writer = "almanac:0.3.0" }
  }

  expect_failures = [var.images]
}

run "images_2" {
  command = plan

  variables {
    images = { query = "almanac:latest" }
  }

  expect_failures = [var.images]
}

run "ecr_repository_arn_1" {
  command = plan

  variables {
    ecr_repository_arn = "arn:aws:s3:::x"
  }

  expect_failures = [var.ecr_repository_arn]
}

run "cpu_architecture_1" {
  command = plan

  variables {
    cpu_architecture = "AMD64"
  }

  expect_failures = [var.cpu_architecture]
}

run "vpc_id_1" {
  command = plan

  variables {
    vpc_id = "1"
  }

  expect_failures = [var.vpc_id]
}

run "load_balancer_subnet_ids_1" {
  command = plan

  variables {
    load_balancer_subnet_ids = ["subnet-1"]
  }

  expect_failures = [var.load_balancer_subnet_ids]
}

run "task_subnet_ids_1" {
  command = plan

  variables {
    task_subnet_ids = ["subnet-1"]
  }

  expect_failures = [var.task_subnet_ids]
}

run "streams_endpoint_1" {
  command = plan

  variables {
    streams_endpoint = "vpce-1.streams.dynamodb.eu-west-1.vpce.amazonaws.com"
  }

  expect_failures = [var.streams_endpoint]
}

run "certificate_arn_1" {
  command = plan

  variables {
    certificate_arn = "x"
  }

  expect_failures = [var.certificate_arn]
}

run "admin_token_secret_arn_1" {
  command = plan

  variables {
    admin_token_secret_arn = "alm_x"
  }

  expect_failures = [var.admin_token_secret_arn]
}

run "admin_token_secret_arn_2" {
  command = plan

  variables {
    admin_token_secret_arn = null
  }

  expect_failures = [var.admin_token_secret_arn]
}

run "admin_token_secret_arn_3" {
  command = plan

  variables {
    admin_token_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  }

  expect_failures = [var.admin_token_secret_arn]
}

run "admin_token_sha256_1" {
  command = plan

  variables {
    admin_token_secret_arn = null
    admin_token_sha256     = "alm_x"
  }

  expect_failures = [var.admin_token_sha256]
}

run "oidc_1" {
  command = plan

  variables {
    oidc = { isuer = "https://login.example.com" }
  }

  expect_failures = [var.oidc]
}

run "oidc_2" {
  command = plan

  variables {
    oidc = { issuer = "http://login.example.com", audience = "almanac" }
  }

  expect_failures = [var.oidc]
}

run "oidc_3" {
  command = plan

  variables {
    oidc = { issuer = "https://login.example.com" }
  }

  expect_failures = [var.oidc]
}

run "environment_1" {
  command = plan

  variables {
    environment = { writer = { ALMANAC_QUERY_MEMORY = "1GiB" } }
  }

  expect_failures = [var.environment]
}

run "environment_2" {
  command = plan

  variables {
    environment = { query = { ALMANAC_STORE = "dynamodb:other" } }
  }

  expect_failures = [var.environment]
}

run "environment_3" {
  command = plan

  variables {
    environment = { projector = { ALMANAC_WEBHOOK_SECRET_CHAT = "x" } }
    secrets     = { projector = { ALMANAC_WEBHOOK_SECRET_CHAT = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:chat-AbCdEf" } }
  }

  expect_failures = [var.environment]
}

run "secrets_1" {
  command = plan

  variables {
    secrets = { projector = { ALMANAC_WEBHOOK_SECRET_CHAT = "whsec_x" } }
  }

  expect_failures = [var.secrets]
}

run "secrets_2" {
  command = plan

  variables {
    secrets = { query = { ALMANAC_OIDC_ISSUER = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:issuer-AbCdEf" } }
  }

  expect_failures = [var.secrets]
}

run "trusted_proxies_1" {
  command = plan

  variables {
    trusted_proxies = ["everybody"]
  }

  expect_failures = [var.trusted_proxies]
}

run "allowed_cidr_blocks_1" {
  command = plan

  variables {
    allowed_cidr_blocks = []
  }

  expect_failures = [var.allowed_cidr_blocks]
}

run "allowed_cidr_blocks_2" {
  command = plan

  variables {
    allowed_cidr_blocks = ["everybody"]
  }

  expect_failures = [var.allowed_cidr_blocks]
}

run "allowed_cidr_blocks_3" {
  command = plan

  variables {
    allowed_cidr_blocks = ["10.0.0.0/8", "0.0.0.0/0"]
  }

  expect_failures = [var.allowed_cidr_blocks]
}

run "allowed_cidr_blocks_4" {
  command = plan

  variables {
    allowed_cidr_blocks = ["0.0.0.0/1", "128.0.0.0/1"]
  }

  expect_failures = [var.allowed_cidr_blocks]
}

run "load_balancer_jwt_1" {
  command = plan

  variables {
    load_balancer_jwt = { issuer = "http://x", jwks_url = "https://x" }
  }

  expect_failures = [var.load_balancer_jwt]
}

run "web_acl_1" {
  command = plan

  variables {
    web_acl = { arn = "arn:aws:wafv2:us-east-1:123456789012:global/webacl/x/1" }
  }

  expect_failures = [var.web_acl]
}

run "permissions_boundary_arn_1" {
  command = plan

  variables {
    permissions_boundary_arn = "boundary"
  }

  expect_failures = [var.permissions_boundary_arn]
}

run "request_seconds_1" {
  command = plan

  variables {
    request_seconds = 34
  }

  expect_failures = [var.request_seconds]
}

run "request_seconds_2" {
  command = plan

  variables {
    request_seconds = 101
  }

  expect_failures = [var.request_seconds]
}

run "request_seconds_3" {
  command = plan

  variables {
    request_seconds = 30.5
  }

  expect_failures = [var.request_seconds]
}

run "ingest_1" {
  command = plan

  variables {
    ingest = { memory = 512 }
  }

  expect_failures = [var.ingest]
}

run "ingest_2" {
  command = plan

  variables {
    ingest = { min = 0 }
  }

  expect_failures = [var.ingest]
}

run "projector_1" {
  command = plan

  variables {
    projector = { cpu = 300 }
  }

  expect_failures = [var.projector]
}

run "projector_2" {
  command = plan

  variables {
    projector = { min = 3, max = 2 }
  }

  expect_failures = [var.projector]
}

run "query_1" {
  command = plan

  variables {
    query = { min = 3, max = 2 }
  }

  expect_failures = [var.query]
}

run "query_2" {
  command = plan

  variables {
    query = { cpu = 256, memory = 4096 }
  }

  expect_failures = [var.query]
}

run "provisioned_1" {
  command = plan

  variables {
    provisioned = { read_min = 0, read_max = 1, write_min = 1, write_max = 1 }
  }

  expect_failures = [var.provisioned]
}

run "provisioned_2" {
  command = plan

  variables {
    provisioned = { read_min = 1, read_max = 1, write_min = 1, write_max = 1, target_percent = 95 }
  }

  expect_failures = [var.provisioned]
}

run "on_demand_limits_1" {
  command = plan

  variables {
    on_demand_limits = { read = 0, write = 1 }
  }

  expect_failures = [var.on_demand_limits]
}

run "warm_throughput_1" {
  command = plan

  variables {
    warm_throughput = { read = 100, write = 4000 }
  }

  expect_failures = [var.warm_throughput]
}

run "backup_1" {
  command = plan

  variables {
    backup = { plan_id = "1", role_arn = "backup" }
  }

  expect_failures = [var.backup]
}

run "kms_key_arn_1" {
  command = plan

  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:1:alias/x"
  }

  expect_failures = [var.kms_key_arn]
}

run "kms_key_arn_2" {
  command = plan

  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:1:key/1"
  }

  expect_failures = [var.kms_key_arn]
}

run "logs_kms_key_arn_1" {
  command = plan

  variables {
    logs_kms_key_arn = "alias/x"
  }

  expect_failures = [var.logs_kms_key_arn]
}

run "table_name_1" {
  command = plan

  variables {
    table_name = "a/b"
  }

  expect_failures = [var.table_name]
}

run "container_insights_1" {
  command = plan

  variables {
    container_insights = "on"
  }

  expect_failures = [var.container_insights]
}

run "log_retention_days_1" {
  command = plan

  variables {
    log_retention_days = 2
  }

  expect_failures = [var.log_retention_days]
}

run "page_topic_arns_1" {
  command = plan

  variables {
    page_topic_arns = ["mail@example.com"]
  }

  expect_failures = [var.page_topic_arns]
}

run "ticket_topic_arns_1" {
  command = plan

  variables {
    ticket_topic_arns = ["mail@example.com"]
  }

  expect_failures = [var.ticket_topic_arns]
}

run "latency_alarm_seconds_1" {
  command = plan

  variables {
    latency_alarm_seconds = 0
  }

  expect_failures = [var.latency_alarm_seconds]
}

run "unevaluated_alarm_days_1" {
  command = plan

  variables {
    unevaluated_alarm_days = 0
  }

  expect_failures = [var.unevaluated_alarm_days]
}

run "lag_alarm_seconds_1" {
  command = plan

  variables {
    lag_alarm_seconds = 5
  }

  expect_failures = [var.lag_alarm_seconds]
}

run "read_budget_units_per_hour_1" {
  command = plan

  variables {
    read_budget_units_per_hour = 0
  }

  expect_failures = [var.read_budget_units_per_hour]
}

run "write_budget_units_per_hour_1" {
  command = plan

  variables {
    write_budget_units_per_hour = 0
  }

  expect_failures = [var.write_budget_units_per_hour]
}
