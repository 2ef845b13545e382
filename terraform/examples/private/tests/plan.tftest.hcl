# That a plan can be made at all, where nothing exists yet and no ARN is known.

mock_provider "aws" {
  source = "../../modules/almanac/tests/mocks"
}

variables {
  region                 = "eu-west-1"
  image_tag              = "0.2.0"
  certificate_arn        = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
  admin_token_secret_arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:almanac-admin-AbCdEf"
  page_topic_arns        = ["arn:aws:sns:eu-west-1:123456789012:alarms"]
  ticket_topic_arns      = ["arn:aws:sns:eu-west-1:123456789012:alarms"]
}

run "plan" {
  command = plan

  override_data {
    target = data.aws_availability_zones.available
    values = { names = ["eu-west-1a", "eu-west-1b", "eu-west-1c"] }
  }

  assert {
    condition     = toset(aws_subnet.private[*].availability_zone) == toset(["eu-west-1a", "eu-west-1b"])
    error_message = "The subnets are in two zones."
  }

  assert {
    condition     = aws_vpc_endpoint.streams.service_name == "com.amazonaws.eu-west-1.dynamodb-streams" && aws_vpc_endpoint.streams.vpc_endpoint_type == "Interface"
    error_message = "The projector has a way to the stream of the table."
  }
}
