# The way in (a load balancer that speaks TLS), and who may talk to whom.

resource "aws_vpc_endpoint" "dynamodb" {
  count = length(var.endpoint_route_table_ids) > 0 ? 1 : 0

  vpc_id            = var.vpc_id
  service_name      = "com.amazonaws.${data.aws_region.current.region}.dynamodb"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = var.endpoint_route_table_ids
  tags              = merge(var.tags, { Name = "${var.name}-dynamodb" })
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

resource "aws_security_group" "service" {
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
  description       = "DynamoDB, ECR and CloudWatch Logs"
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
  idle_timeout               = 120
  drop_invalid_header_fields = true
  enable_deletion_protection = var.deletion_protection
  tags                       = var.tags
}

resource "aws_lb_target_group" "this" {
  for_each = local.http_services

  name                 = "${var.name}-${each.key}"
  vpc_id               = var.vpc_id
  port                 = local.port
  protocol             = "HTTP"
  target_type          = "ip"
  deregistration_delay = 60
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

# Writes go to ingest and reads to query; their paths are the same. A statement is a read that is posted.
resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.this.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this["ingest"].arn
  }
}

resource "aws_lb_listener_rule" "query" {
  listener_arn = aws_lb_listener.https.arn
  priority     = 100
  tags         = var.tags

  action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this["query"].arn
  }

  condition {
    http_request_method {
      values = ["GET", "HEAD"]
    }
  }
}

resource "aws_lb_listener_rule" "sql" {
  listener_arn = aws_lb_listener.https.arn
  priority     = 110
  tags         = var.tags

  action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this["query"].arn
  }

  condition {
    http_request_method {
      values = ["POST"]
    }
  }

  condition {
    path_pattern {
      values = ["/v1/workspaces/*/sql"]
    }
  }
}
