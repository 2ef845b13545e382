# What the account and AWS would answer. Everything else is made up by Terraform.

mock_data "aws_region" {
  defaults = { region = "eu-west-1" }
}

mock_data "aws_caller_identity" {
  defaults = { account_id = "123456789012" }
}

mock_data "aws_partition" {
  defaults = { partition = "aws" }
}

mock_data "aws_iam_policy_document" {
  defaults = { json = "{}" }
}

mock_resource "aws_dynamodb_table" {
  defaults = { arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/almanac" }
}

mock_resource "aws_ecs_cluster" {
  defaults = { arn = "arn:aws:ecs:eu-west-1:123456789012:cluster/almanac" }
}

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:eu-west-1:123456789012:log-group:/almanac/role" }
}

mock_resource "aws_ecr_repository" {
  defaults = { arn = "arn:aws:ecr:eu-west-1:123456789012:repository/almanac", repository_url = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/almanac" }
}

mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:eu-west-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef" }
}

mock_resource "aws_sns_topic" {
  defaults = { arn = "arn:aws:sns:eu-west-1:123456789012:almanac-alarms" }
}
