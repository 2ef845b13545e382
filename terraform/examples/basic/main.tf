# Almanac in a VPC of its own, as cheap as it gets: two public subnets and no NAT gateway. Tasks have public
# addresses, but only the load balancer reaches them, and only `allowed_cidr_blocks` reach that. The example `private`
# has nothing public at all.

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

# Zones of the region itself, not Local Zones that the account has opted in to, where there is no load balancer.
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
  cidr_block           = "10.71.0.0/16"
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

# Nothing uses it, so nothing gets through it.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.name }
}

resource "aws_subnet" "public" {
  count = 2

  vpc_id            = aws_vpc.this.id
  cidr_block        = cidrsubnet(aws_vpc.this.cidr_block, 8, count.index)
  availability_zone = data.aws_availability_zones.available.names[count.index]
  tags              = { Name = "${var.name}-public-${count.index}" }
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-public" }

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.this.id
  }
}

resource "aws_route_table_association" "public" {
  count = 2

  subnet_id      = aws_subnet.public[count.index].id
  route_table_id = aws_route_table.public.id
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

resource "aws_sns_topic" "alarms" {
  name              = "${var.name}-alarms"
  kms_master_key_id = var.alarm_topic_kms_key_id
}

# Who may publish: the alarms, and the rules for failures of tasks and deployments.
data "aws_iam_policy_document" "alarms" {
  statement {
    sid       = "AlarmsAndEvents"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.alarms.arn]

    principals {
      type        = "Service"
      identifiers = ["cloudwatch.amazonaws.com", "events.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

data "aws_caller_identity" "current" {}

resource "aws_sns_topic_policy" "alarms" {
  arn    = aws_sns_topic.alarms.arn
  policy = data.aws_iam_policy_document.alarms.json
}

resource "aws_sns_topic_subscription" "alarms" {
  count = var.alarm_email == null ? 0 : 1

  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = var.alarm_email
}

module "almanac" {
  source = "../../modules/almanac"

  name               = var.name
  image              = "${aws_ecr_repository.this.repository_url}:${var.image_tag}"
  ecr_repository_arn = aws_ecr_repository.this.arn

  vpc_id = aws_vpc.this.id

  # By their associations, so that they have a way to the internet gateway before anything is put into them.
  load_balancer_subnet_ids = aws_route_table_association.public[*].subnet_id
  task_subnet_ids          = aws_route_table_association.public[*].subnet_id

  assign_public_ip         = true
  endpoint_route_table_ids = [aws_route_table.public.id]

  internal            = false
  certificate_arn     = var.certificate_arn
  allowed_cidr_blocks = var.allowed_cidr_blocks
  allow_everyone      = var.allow_everyone

  admin_token_secret_arn = var.admin_token_secret_arn

  # One small task each. Leave these out for two of ingest and query, so that a zone may fail.
  ingest    = { cpu = 256, memory = 512, min = 1 }
  projector = { cpu = 256, memory = 1024, min = 1 }
  query     = { cpu = 256, memory = 1024, min = 1 }

  page_topic_arns = [aws_sns_topic.alarms.arn]
}
