# Almanac in a VPC of its own, as cheap as it gets: two public subnets and no NAT gateway. Tasks have public
# addresses, but only the load balancer reaches them, and only `allowed_cidr_blocks` reach that.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}

provider "aws" {
  region = var.region

  default_tags {
    tags = { Application = "almanac" }
  }
}

data "aws_availability_zones" "available" {
  state = "available"
}

resource "aws_vpc" "this" {
  cidr_block           = "10.71.0.0/16"
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
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

  image_scanning_configuration {
    scan_on_push = true
  }
}

resource "aws_sns_topic" "alarms" {
  name = "${var.name}-alarms"
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

  vpc_id                   = aws_vpc.this.id
  load_balancer_subnet_ids = aws_subnet.public[*].id
  task_subnet_ids          = aws_subnet.public[*].id
  assign_public_ip         = true
  endpoint_route_table_ids = [aws_route_table.public.id]

  internal            = false
  certificate_arn     = var.certificate_arn
  allowed_cidr_blocks = var.allowed_cidr_blocks

  admin_token_secret_arn = var.admin_token_secret_arn

  # One small task each. Leave these out for two of ingest and query, so that a zone may fail.
  ingest    = { cpu = 256, memory = 512, min = 1 }
  projector = { cpu = 256, memory = 1024, min = 1 }
  query     = { cpu = 256, memory = 1024, min = 1 }

  alarm_topic_arns = [aws_sns_topic.alarms.arn]
}
