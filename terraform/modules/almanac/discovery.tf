# How a Prometheus finds the tasks and reaches them: names in the VPC's DNS, and a way to their port. Only with `prometheus`.

resource "aws_service_discovery_private_dns_namespace" "this" {
  count = var.prometheus == null ? 0 : 1

  name        = "${var.name}.internal"
  description = "The tasks of Almanac, by role"
  vpc         = var.vpc_id
  tags        = var.tags
}

resource "aws_service_discovery_service" "role" {
  for_each = { for name, service in local.services : name => service if var.prometheus != null }

  name = each.key
  tags = var.tags

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this[0].id
    routing_policy = "MULTIVALUE"

    dns_records {
      type = "A"
      ttl  = 15
    }
  }
}

resource "aws_vpc_security_group_ingress_rule" "prometheus" {
  for_each = { for name, service in local.services : name => service if var.prometheus != null }

  security_group_id            = aws_security_group.service[each.key].id
  description                  = "From Prometheus"
  referenced_security_group_id = var.prometheus.security_group_id
  from_port                    = local.port
  to_port                      = local.port
  ip_protocol                  = "tcp"
  tags                         = var.tags
}
