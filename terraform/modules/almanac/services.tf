# Ingest, projector and query: three roles of one image, each scaled by itself.

locals {
  port = 7171

  services = {
    ingest    = var.ingest
    projector = var.projector
    query     = var.query
  }

  # The settings of the issuer, as variables of the environment.
  oidc_environment = [for name, value in var.oidc : { name = "ALMANAC_OIDC_${upper(name)}", value = value }]

  # The token of the administrator: its SHA-256, which is no secret, or a secret.
  admin_environment = var.admin_token_sha256 == null ? [] : [{ name = "ALMANAC_ADMIN_TOKEN", value = "sha256:${var.admin_token_sha256}" }]
  admin_secrets     = var.admin_token_sha256 != null ? [] : [{ name = "ALMANAC_ADMIN_TOKEN", valueFrom = var.admin_token_secret_arn }]

  # Before the services is the load balancer.
  trusted_proxies = var.trusted_proxies == null ? data.aws_subnet.load_balancer[*].cidr_block : var.trusted_proxies

  # Only the projector follows the table. The SDK of AWS reads this variable.
  streams_environment = var.streams_endpoint == null ? [] : [{ name = "AWS_ENDPOINT_URL_DYNAMODB_STREAMS", value = var.streams_endpoint }]

  # All variables that the module sets itself.
  reserved_variables = "^(ALMANAC_STORE|ALMANAC_REGION|ALMANAC_LISTEN|ALMANAC_TRUSTED_PROXIES|ALMANAC_BODY_SECONDS|ALMANAC_KEEP_ALIVE_SECONDS|ALMANAC_DRAIN_SECONDS|ALMANAC_ADMIN_TOKEN|ALMANAC_OIDC_.*|AWS_ENDPOINT_URL_DYNAMODB_STREAMS)$"

  # What is given to a role besides.
  given_environment = { for role in keys(local.services) : role => [for name, value in lookup(var.environment, role, {}) : { name = name, value = value }] }
  given_secrets     = { for role in keys(local.services) : role => [for name, arn in lookup(var.secrets, role, {}) : { name = name, valueFrom = arn }] }

  # The secrets themselves, where an ARN goes on with a key of what is in it.
  secret_arns = distinct([for arn in flatten([for given in values(var.secrets) : values(given)]) : regex("^arn:[^:]+:secretsmanager:[^:]+:[^:]+:secret:[^:]+", arn)])

  # Those that the load balancer calls.
  http_services = { for name, service in local.services : name => service if name != "projector" }

  # The memory, in MiB, that Fargate has for each number of CPU units.
  fargate_memory = {
    "256"   = [512, 1024, 2048]
    "512"   = range(1024, 4097, 1024)
    "1024"  = range(2048, 8193, 1024)
    "2048"  = range(4096, 16385, 1024)
    "4096"  = range(8192, 30721, 1024)
    "8192"  = range(16384, 61441, 4096)
    "16384" = range(32768, 122881, 8192)
  }
}

data "aws_region" "current" {}

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

resource "aws_ecs_cluster" "this" {
  # checkov:skip=CKV_AWS_65:they cost by metric, so they are a choice: container_insights
  name = var.name
  tags = var.tags

  setting {
    name  = "containerInsights"
    value = var.container_insights
  }
}

resource "aws_cloudwatch_log_group" "service" {
  # checkov:skip=CKV_AWS_338:how long logs are kept is a choice: log_retention_days
  # checkov:skip=CKV_AWS_158:a key is a choice: logs_kms_key_arn
  for_each = local.services

  name              = "/${var.name}/${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.logs_kms_key_arn
  tags              = var.tags
}

resource "aws_ecs_task_definition" "service" {
  for_each = local.services

  # The former one stays, for ECS to go back to.
  skip_destroy = true

  family                   = "${var.name}-${each.key}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = each.value.cpu
  memory                   = each.value.memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.service[each.key].arn
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.cpu_architecture
  }

  container_definitions = jsonencode([{
    name                   = "almanac"
    image                  = lookup(var.images, each.key, var.image)
    command                = ["up", "--role", each.key, "--log-format", "json"]
    essential              = true
    readonlyRootFilesystem = true
    stopTimeout            = local.times.stop

    environment = concat([
      { name = "ALMANAC_STORE", value = "dynamodb:${aws_dynamodb_table.this.name}" },
      { name = "ALMANAC_REGION", value = data.aws_region.current.region },
      { name = "ALMANAC_LISTEN", value = "0.0.0.0:${local.port}" },
      { name = "ALMANAC_TRUSTED_PROXIES", value = join(",", local.trusted_proxies) },
      { name = "ALMANAC_BODY_SECONDS", value = tostring(local.times.body) },
      { name = "ALMANAC_KEEP_ALIVE_SECONDS", value = tostring(local.times.keep_alive) },
      { name = "ALMANAC_DRAIN_SECONDS", value = tostring(local.times.drain) },
    ], local.admin_environment, local.oidc_environment, each.key == "projector" ? local.streams_environment : [], local.given_environment[each.key])

    # Services that others reach do not start without a token to know their callers by.
    secrets = concat(local.admin_secrets, local.given_secrets[each.key])

    portMappings = [{ containerPort = local.port, protocol = "tcp" }]

    healthCheck = {
      command     = ["CMD", "/usr/local/bin/almanac", "health"]
      interval    = 15
      timeout     = 5
      retries     = 3
      startPeriod = 30
    }

    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.service[each.key].name
        awslogs-region        = data.aws_region.current.region
        awslogs-stream-prefix = each.key
      }
    }
  }])

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_ecs_service" "service" {
  # checkov:skip=CKV_AWS_333:public addresses are a choice, off as a rule: assign_public_ip
  for_each = local.services

  name            = each.key
  cluster         = aws_ecs_cluster.this.id
  task_definition = aws_ecs_task_definition.service[each.key].arn
  launch_type     = "FARGATE"
  desired_count   = each.value.min
  propagate_tags  = "SERVICE"
  tags            = var.tags

  # An apply that is green has deployed.
  wait_for_steady_state = var.wait_for_steady_state

  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  health_check_grace_period_seconds  = contains(keys(local.http_services), each.key) ? 60 : null

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  # A version that starts and then fails is taken back as well. An alarm that is on when a deployment begins is not looked at.
  alarms {
    enable      = true
    rollback    = true
    alarm_names = local.deployment_alarms[each.key]
  }

  network_configuration {
    subnets          = var.task_subnet_ids
    security_groups  = [aws_security_group.service[each.key].id]
    assign_public_ip = var.assign_public_ip
  }

  dynamic "load_balancer" {
    for_each = [for group, role in local.target_groups : group if role == each.key]

    content {
      target_group_arn = aws_lb_target_group.this[load_balancer.value].arn
      container_name   = "almanac"
      container_port   = local.port
    }
  }

  dynamic "service_registries" {
    for_each = var.prometheus == null ? [] : [each.key]

    content {
      registry_arn = aws_service_discovery_service.role[service_registries.value].arn
    }
  }

  timeouts {
    create = "15m"
    update = "30m"
  }

  # A target group must have a listener before a service can use it, and a task needs its rights.
  depends_on = [aws_lb_listener.https, aws_lb_listener_rule.forward, aws_iam_role_policy.service, aws_iam_role_policy.key, aws_iam_role_policy.execution]

  lifecycle {
    # Autoscaling moves it.
    ignore_changes = [desired_count]

    precondition {
      condition     = length(distinct(data.aws_subnet.task[*].availability_zone)) >= 2
      error_message = "The subnets of task_subnet_ids must be in two availability zones."
    }

    # ECS goes back to the former one when a deployment fails, and is steady then as well.
    postcondition {
      condition     = self.task_definition == aws_ecs_task_definition.service[each.key].arn
      error_message = "The deployment failed, and ECS went back to the former task definition. The log of the service, and the failure that went to the alarm topics, tell why."
    }
  }
}

resource "aws_appautoscaling_target" "service" {
  for_each = local.services

  service_namespace  = "ecs"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.service[each.key].name}"
  scalable_dimension = "ecs:service:DesiredCount"
  min_capacity       = each.value.min
  max_capacity       = each.value.max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "cpu" {
  for_each = local.services

  name               = "${var.name}-${each.key}-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.service[each.key].service_namespace
  resource_id        = aws_appautoscaling_target.service[each.key].resource_id
  scalable_dimension = aws_appautoscaling_target.service[each.key].scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = each.value.cpu_percent
    scale_in_cooldown  = 300
    scale_out_cooldown = 60

    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

# Adds projectors while they lag, even if their CPU is idle; the policy above removes them again.
resource "aws_appautoscaling_policy" "lag" {
  name               = "${var.name}-projector-lag"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.service["projector"].service_namespace
  resource_id        = aws_appautoscaling_target.service["projector"].resource_id
  scalable_dimension = aws_appautoscaling_target.service["projector"].scalable_dimension

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    metric_aggregation_type = "Maximum"
    cooldown                = 180

    step_adjustment {
      metric_interval_lower_bound = 0
      metric_interval_upper_bound = var.lag_alarm_seconds
      scaling_adjustment          = 1
    }

    step_adjustment {
      metric_interval_lower_bound = var.lag_alarm_seconds
      scaling_adjustment          = 2
    }
  }
}
