# Almanac without anything public: a VPC of private subnets without a way to the internet, a load balancer with private addresses,
# and endpoints for the services of AWS that tasks call. Callers come by a VPN, a peering or a transit gateway, which
# is yours to add.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.25, < 7"
    }
  }
}

provider "aws" {
  region = var.region

  default_tags {
    tags = { Application = "almanac" }
  }
}

data "aws_caller_identity" "current" {}

data "aws_availability_zones" "available" {
  # checkov:skip=CKV_AWS_394:the first two zones of the region are as good as any
  state = "available"

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

resource "aws_vpc" "this" {
  # checkov:skip=CKV2_AWS_11:flow logs cost by traffic; this is an example
  cidr_block           = var.vpc_cidr_block
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

# Nothing uses it, so nothing gets through it.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
}

resource "aws_subnet" "private" {
  count = 2

  vpc_id            = aws_vpc.this.id
  cidr_block        = cidrsubnet(var.vpc_cidr_block, 8, count.index)
  availability_zone = data.aws_availability_zones.available.names[count.index]
  tags              = { Name = "${var.name}-private-${count.index}" }
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-private" }
}

resource "aws_route_table_association" "private" {
  count = 2

  subnet_id      = aws_subnet.private[count.index].id
  route_table_id = aws_route_table.private.id
}

# What a task needs: its image (whose layers are in S3), its secret, somewhere to write logs, and the stream of the table.
resource "aws_security_group" "endpoints" {
  name_prefix = "${var.name}-endpoints-"
  description = "Endpoints of AWS services"
  vpc_id      = aws_vpc.this.id
  tags        = { Name = "${var.name}-endpoints" }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "endpoints" {
  security_group_id = aws_security_group.endpoints.id
  description       = "HTTPS from the VPC"
  cidr_ipv4         = var.vpc_cidr_block
  from_port         = 443
  to_port           = 443
  ip_protocol       = "tcp"
}

# Through the endpoints go calls of this account. The layers of images are in a bucket of AWS, which only S3's has to name.
data "aws_iam_policy_document" "endpoints" {
  statement {
    sid       = "OwnAccount"
    actions   = ["ecr:*", "logs:*", "secretsmanager:*"]
    resources = ["*"]

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

data "aws_iam_policy_document" "streams" {
  statement {
    sid       = "OwnStreams"
    actions   = ["dynamodb:DescribeStream", "dynamodb:GetShardIterator", "dynamodb:GetRecords"]
    resources = ["arn:aws:dynamodb:${var.region}:${data.aws_caller_identity.current.account_id}:table/*/stream/*"]

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

data "aws_iam_policy_document" "s3" {
  # checkov:skip=CKV_AWS_283:the bucket is of AWS, and its layers are read with signed addresses
  statement {
    sid       = "LayersOfImages"
    actions   = ["s3:GetObject"]
    resources = ["arn:aws:s3:::prod-${var.region}-starport-layer-bucket/*"]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }
  }
}

resource "aws_vpc_endpoint" "service" {
  for_each = toset(["ecr.api", "ecr.dkr", "logs", "secretsmanager"])

  vpc_id              = aws_vpc.this.id
  service_name        = "com.amazonaws.${var.region}.${each.key}"
  vpc_endpoint_type   = "Interface"
  private_dns_enabled = true
  subnet_ids          = aws_subnet.private[*].id
  security_group_ids  = [aws_security_group.endpoints.id]
  policy              = data.aws_iam_policy_document.endpoints.json
  tags                = { Name = "${var.name}-${each.key}" }
}

# The projector follows the table by this one; a gateway endpoint does not serve streams. AWS has no private DNS for it, so the
# projector is told its name.
resource "aws_vpc_endpoint" "streams" {
  vpc_id             = aws_vpc.this.id
  service_name       = "com.amazonaws.${var.region}.dynamodb-streams"
  vpc_endpoint_type  = "Interface"
  subnet_ids         = aws_subnet.private[*].id
  security_group_ids = [aws_security_group.endpoints.id]
  policy             = data.aws_iam_policy_document.streams.json
  tags               = { Name = "${var.name}-dynamodb-streams" }
}

resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.private.id]
  policy            = data.aws_iam_policy_document.s3.json
  tags              = { Name = "${var.name}-s3" }
}

resource "aws_ecr_repository" "this" {
  name                 = var.name
  image_tag_mutability = "IMMUTABLE"

  encryption_configuration {
    encryption_type = "KMS"
  }

  image_scanning_configuration {
    scan_on_push = true
  }
}

# A key of one's own for the table, made here: its ARN is not known when this is planned, and need not be.
resource "aws_kms_key" "table" {
  description         = "The table of ${var.name}"
  enable_key_rotation = true
  policy              = data.aws_iam_policy_document.key.json
}

data "aws_iam_policy_document" "key" {
  # checkov:skip=CKV_AWS_109:a policy of a key is about that key alone
  # checkov:skip=CKV_AWS_111:a policy of a key is about that key alone
  # checkov:skip=CKV_AWS_356:a policy of a key is about that key alone
  statement {
    sid       = "TheAccountDecides"
    actions   = ["kms:*"]
    resources = ["*"]

    principals {
      type        = "AWS"
      identifiers = ["arn:aws:iam::${data.aws_caller_identity.current.account_id}:root"]
    }
  }
}

module "almanac" {
  source = "../../modules/almanac"

  name               = var.name
  image              = "${aws_ecr_repository.this.repository_url}:${var.image_tag}"
  images             = { for role, tag in var.image_tags : role => "${aws_ecr_repository.this.repository_url}:${tag}" }
  ecr_repository_arn = aws_ecr_repository.this.arn

  vpc_id                   = aws_vpc.this.id
  load_balancer_subnet_ids = aws_route_table_association.private[*].subnet_id
  task_subnet_ids          = aws_route_table_association.private[*].subnet_id
  endpoint_route_table_ids = [aws_route_table.private.id]
  streams_endpoint         = "https://${aws_vpc_endpoint.streams.dns_entry[0].dns_name}"

  certificate_arn     = var.certificate_arn
  allowed_cidr_blocks = concat([var.vpc_cidr_block], var.allowed_cidr_blocks)

  admin_token_secret_arn = var.admin_token_secret_arn

  use_kms_key = true
  kms_key_arn = aws_kms_key.table.arn

  page_topic_arns   = var.page_topic_arns
  ticket_topic_arns = var.ticket_topic_arns

  # What tasks call must be there before they start.
  depends_on = [aws_vpc_endpoint.service, aws_vpc_endpoint.streams, aws_vpc_endpoint.s3]
}
