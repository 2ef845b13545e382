# The way in (a load balancer that speaks TLS), and who may talk to whom.

locals {
  # What nobody outside needs.
  probe_paths = ["/healthz", "/readyz", "/metrics"]

  jwt = var.load_balancer_jwt == null ? [] : [var.load_balancer_jwt]

  # The role of each target group. Readers that wait for new events have one of their own, so that their waits are no latency.
  target_groups = { ingest = "ingest", query = "query", follow = "query" }

  # Requests that do not go to ingest by default. MLflow's clients read from ingest as well; a statement is a read that is posted.
  forwards = {
    mlflow = { priority = 80, to = "ingest", methods = [], paths = ["/mlflow/*"], parameters = [] }
    follow = { priority = 90, to = "follow", methods = ["GET"], paths = [], parameters = ["wait"] }
    query  = { priority = 100, to = "query", methods = ["GET", "HEAD"], paths = [], parameters = [] }
    sql    = { priority = 110, to = "query", methods = ["POST"], paths = ["/v1/workspaces/*/sql"], parameters = [] }
  }

  # One chain of times, in seconds, each longer than what it waits for. A connection that a task closes before the load
  # balancer does is a 502, so the task keeps it for longer. A task that is stopped gets no new requests (deregistration), then ends
  # those that it has (drain), then hands its leases over, and only then is killed.
  times = {
    body           = var.request_seconds
    idle           = var.request_seconds
    keep_alive     = var.request_seconds + 15
    deregistration = var.request_seconds + 5
    drain          = var.request_seconds + 5
    stop           = var.request_seconds + 20
  }
}

resource "aws_vpc_endpoint" "dynamodb" {
  count = length(var.endpoint_route_table_ids) > 0 ? 1 : 0

  vpc_id            = var.vpc_id
  service_name      = "com.amazonaws.${data.aws_region.current.region}.dynamodb"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = var.endpoint_route_table_ids
  policy            = data.aws_iam_policy_document.endpoint.json
  tags              = merge(var.tags, { Name = "${var.name}-dynamodb" })
}

# Through the endpoint go calls of this account on its own tables, and no data to another account's.
data "aws_iam_policy_document" "endpoint" {
  statement {
    sid       = "OwnTables"
    actions   = ["dynamodb:*"]
    resources = ["arn:${data.aws_partition.current.partition}:dynamodb:${data.aws_region.current.region}:${data.aws_caller_identity.current.account_id}:table/*"]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:PrincipalAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

# In which zones the subnets are, and of which addresses.
data "aws_subnet" "load_balancer" {
  count = length(var.load_balancer_subnet_ids)
  id    = var.load_balancer_subnet_ids[count.index]
}

data "aws_subnet" "task" {
  count = length(var.task_subnet_ids)
  id    = var.task_subnet_ids[count.index]
}

resource "aws_security_group" "load_balancer" {
  name_prefix = "${var.name}-load-balancer-"
  description = "Callers of the Almanac API"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-load-balancer" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "load_balancer" {
  for_each = toset(var.allowed_cidr_blocks)

  security_group_id = aws_security_group.load_balancer.id
  description       = "HTTPS from ${each.value}"
  cidr_ipv4         = each.value
  from_port         = 443
  to_port           = 443
  ip_protocol       = "tcp"
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "load_balancer" {
  for_each = local.http_services

  security_group_id            = aws_security_group.load_balancer.id
  description                  = "To ${each.key}"
  referenced_security_group_id = aws_security_group.service[each.key].id
  from_port                    = local.port
  to_port                      = local.port
  ip_protocol                  = "tcp"
  tags                         = var.tags
}

# The keys of the issuer.
resource "aws_vpc_security_group_egress_rule" "load_balancer_jwt" {
  count = var.load_balancer_jwt == null ? 0 : 1

  security_group_id = aws_security_group.load_balancer.id
  description       = "To the keys of the issuer"
  cidr_ipv4         = "0.0.0.0/0"
  from_port         = 443
  to_port           = 443
  ip_protocol       = "tcp"
  tags              = var.tags
}

resource "aws_security_group" "service" {
  # checkov:skip=CKV2_AWS_5:aws_ecs_service.service has them; checkov does not follow for_each
  for_each = local.services

  name_prefix = "${var.name}-${each.key}-"
  description = "Almanac ${each.key}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-${each.key}" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "service" {
  for_each = local.http_services

  security_group_id            = aws_security_group.service[each.key].id
  description                  = "From the load balancer"
  referenced_security_group_id = aws_security_group.load_balancer.id
  from_port                    = local.port
  to_port                      = local.port
  ip_protocol                  = "tcp"
  tags                         = var.tags
}

resource "aws_vpc_security_group_egress_rule" "service" {
  for_each = local.services

  security_group_id = aws_security_group.service[each.key].id
  description       = "DynamoDB and its streams, ECR, Secrets Manager and CloudWatch Logs"
  cidr_ipv4         = "0.0.0.0/0"
  from_port         = 443
  to_port           = 443
  ip_protocol       = "tcp"
  tags              = var.tags
}

resource "aws_lb" "this" {
  name                       = var.name
  load_balancer_type         = "application"
  internal                   = var.internal
  subnets                    = var.load_balancer_subnet_ids
  security_groups            = [aws_security_group.load_balancer.id]
  idle_timeout               = local.times.idle
  drop_invalid_header_fields = true
  enable_deletion_protection = var.deletion_protection
  tags                       = var.tags

  dynamic "access_logs" {
    for_each = var.access_logs_bucket == null ? [] : [var.access_logs_bucket]

    content {
      bucket  = access_logs.value
      prefix  = var.name
      enabled = true
    }
  }

  lifecycle {
    precondition {
      condition     = length(distinct(data.aws_subnet.load_balancer[*].availability_zone)) >= 2
      error_message = "The subnets of load_balancer_subnet_ids must be in two availability zones."
    }
  }
}

resource "aws_lb_target_group" "this" {
  # checkov:skip=CKV_AWS_378:TLS ends at the load balancer; behind it security groups let only that in
  for_each = local.target_groups

  name                 = "${var.name}-${each.key}"
  vpc_id               = var.vpc_id
  port                 = local.port
  protocol             = "HTTP"
  target_type          = "ip"
  deregistration_delay = local.times.deregistration
  tags                 = var.tags

  # Not /readyz: a projector that lags must not take away those who append and read.
  health_check {
    path                = "/healthz"
    matcher             = "200"
    interval            = 15
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 3
  }
}

# Writes go to ingest and reads to query; their paths are the same.
resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.this.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn
  tags              = var.tags

  dynamic "default_action" {
    for_each = local.jwt

    content {
      type  = "jwt-validation"
      order = 1

      jwt_validation {
        issuer        = default_action.value.issuer
        jwks_endpoint = default_action.value.jwks_url
      }
    }
  }

  default_action {
    type             = "forward"
    order            = 2
    target_group_arn = aws_lb_target_group.this["ingest"].arn
  }
}

# Probes and metrics are for the load balancer, for ECS and for Prometheus, which ask tasks themselves.
resource "aws_lb_listener_rule" "probes" {
  listener_arn = aws_lb_listener.https.arn
  priority     = 10
  tags         = var.tags

  action {
    type = "fixed-response"

    fixed_response {
      content_type = "text/plain"
      message_body = "not found"
      status_code  = "404"
    }
  }

  condition {
    path_pattern {
      values = local.probe_paths
    }
  }
}

resource "aws_lb_listener_rule" "forward" {
  for_each = local.forwards

  listener_arn = aws_lb_listener.https.arn
  priority     = each.value.priority
  tags         = var.tags

  dynamic "action" {
    for_each = local.jwt

    content {
      type  = "jwt-validation"
      order = 1

      jwt_validation {
        issuer        = action.value.issuer
        jwks_endpoint = action.value.jwks_url
      }
    }
  }

  action {
    type             = "forward"
    order            = 2
    target_group_arn = aws_lb_target_group.this[each.value.to].arn
  }

  dynamic "condition" {
    for_each = length(each.value.methods) == 0 ? [] : [each.value.methods]

    content {
      http_request_method {
        values = condition.value
      }
    }
  }

  dynamic "condition" {
    for_each = length(each.value.paths) == 0 ? [] : [each.value.paths]

    content {
      path_pattern {
        values = condition.value
      }
    }
  }

  dynamic "condition" {
    for_each = each.value.parameters

    content {
      query_string {
        key   = condition.value
        value = "*"
      }
    }
  }
}

resource "aws_wafv2_web_acl_association" "this" {
  count = var.web_acl == null ? 0 : 1

  resource_arn = aws_lb.this.arn
  web_acl_arn  = var.web_acl.arn
}
