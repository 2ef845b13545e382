# What a plan holds, with the values that come of variables.

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

run "as_it_is_called_in_the_readme" {
  command = plan

  assert {
    condition     = aws_lb.this.internal && aws_dynamodb_table.this.billing_mode == "PAY_PER_REQUEST" && aws_dynamodb_table.this.name == "almanac"
    error_message = "The load balancer is private, and the table is on demand and called as the deployment."
  }

  assert {
    condition     = aws_dynamodb_table.this.table_class == "STANDARD" && aws_dynamodb_table.this.stream_view_type == "KEYS_ONLY" && length(aws_dynamodb_table.this.warm_throughput) == 0 && alltrue([for role in aws_iam_role.service : role.permissions_boundary == null])
    error_message = "The table and the roles have nothing that was not asked for."
  }

  assert {
    condition     = length(aws_backup_selection.table) == 0 && length(aws_wafv2_web_acl_association.this) == 0 && length(aws_vpc_endpoint.dynamodb) == 0 && length(aws_service_discovery_service.role) == 0
    error_message = "There is nothing that was not asked for."
  }

  assert {
    condition     = alltrue([for service in aws_ecs_service.service : service.wait_for_steady_state && one(service.deployment_circuit_breaker).rollback && one(service.alarms).rollback])
    error_message = "A deployment that fails is taken back, and an apply waits for its end."
  }

  assert {
    condition     = length(aws_cloudwatch_event_target.this) == 2
    error_message = "The topic gets both kinds of failures."
  }
}

run "probes_are_not_there_for_the_world" {
  command = plan

  assert {
    condition     = toset(one(one(aws_lb_listener_rule.probes.condition).path_pattern).values) == toset(["/healthz", "/readyz", "/metrics"]) && one(one(aws_lb_listener_rule.probes.action).fixed_response).status_code == "404"
    error_message = "Probe paths answer 404 from outside."
  }

  assert {
    condition     = alltrue([for rule in aws_lb_listener_rule.forward : aws_lb_listener_rule.probes.priority < rule.priority])
    error_message = "The rule for probes comes first."
  }
}

run "requests_find_their_role" {
  command = plan

  assert {
    condition     = aws_lb_listener_rule.forward["mlflow"].priority < 100 && flatten(aws_lb_listener_rule.forward["mlflow"].condition[*].path_pattern[*].values[*]) == ["/mlflow/*"]
    error_message = "MLflow's clients are served by ingest, before reads go to query."
  }

  assert {
    condition     = aws_lb_listener_rule.forward["follow"].priority < aws_lb_listener_rule.forward["query"].priority && one(flatten(aws_lb_listener_rule.forward["follow"].condition[*].query_string)).key == "wait"
    error_message = "Readers that wait are apart from other reads."
  }

  assert {
    condition     = [for group, role in local.target_groups : group if role == "query"] == ["follow", "query"] && keys(aws_lb_target_group.this) == ["follow", "ingest", "query"]
    error_message = "The tasks of query answer both kinds of readers."
  }
}

run "a_token_by_its_digest" {
  command = plan

  variables {
    admin_token_secret_arn = null
    admin_token_sha256     = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : [for one in jsondecode(definition.container_definitions)[0].environment : one.value if one.name == "ALMANAC_ADMIN_TOKEN"] == ["sha256:${var.admin_token_sha256}"] && length(jsondecode(definition.container_definitions)[0].secrets) == 0])
    error_message = "The token's SHA-256 stands in place of the secret."
  }

  assert {
    condition     = !contains(data.aws_iam_policy_document.execution.statement[*].sid, "ReadSecrets")
    error_message = "No secret may be read where there is none."
  }
}

run "pages_and_tickets" {
  command = plan

  variables {
    ticket_topic_arns = ["arn:aws:sns:eu-west-1:123456789012:tickets"]
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.ingest_down.alarm_actions == toset(var.page_topic_arns) && aws_cloudwatch_metric_alarm.read_budget.alarm_actions == toset(var.ticket_topic_arns)
    error_message = "What callers notice pages, a budget does not."
  }

  assert {
    condition     = toset([for target in aws_cloudwatch_event_target.this : target.arn]) == toset(var.ticket_topic_arns)
    error_message = "What ECS mends by itself is a ticket."
  }
}

# One chain of times, at both ends of what is taken and at the default. In each: what must be longer, and by how much.

run "times_of_short_requests" {
  command = plan

  variables {
    request_seconds = 35
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : { for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_BODY_SECONDS == "35"])
    error_message = "A body may take as long as a request."
  }

  assert {
    condition     = aws_lb.this.idle_timeout >= 35
    error_message = "The load balancer waits for as long as a request may take."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_KEEP_ALIVE_SECONDS) >= aws_lb.this.idle_timeout + 10])
    error_message = "A task keeps an idle connection for longer than the load balancer, or requests meet a connection that is just closed."
  }

  assert {
    condition     = alltrue([for group in aws_lb_target_group.this : group.deregistration_delay > 35])
    error_message = "A task is not taken from the load balancer before what it began has ended."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_DRAIN_SECONDS) > 35])
    error_message = "A task that is stopped ends what it began."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : jsondecode(definition.container_definitions)[0].stopTimeout >= tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_DRAIN_SECONDS) + 10 && jsondecode(definition.container_definitions)[0].stopTimeout <= 120])
    error_message = "A task is not killed before it has ended what it began and handed its leases over; Fargate waits for two minutes at most."
  }
}

run "times_as_they_are" {
  command = plan

  variables {
    request_seconds = 80
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : { for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_BODY_SECONDS == "80"])
    error_message = "A body may take as long as a request."
  }

  assert {
    condition     = aws_lb.this.idle_timeout >= 80
    error_message = "The load balancer waits for as long as a request may take."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_KEEP_ALIVE_SECONDS) >= aws_lb.this.idle_timeout + 10])
    error_message = "A task keeps an idle connection for longer than the load balancer, or requests meet a connection that is just closed."
  }

  assert {
    condition     = alltrue([for group in aws_lb_target_group.this : group.deregistration_delay > 80])
    error_message = "A task is not taken from the load balancer before what it began has ended."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_DRAIN_SECONDS) > 80])
    error_message = "A task that is stopped ends what it began."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : jsondecode(definition.container_definitions)[0].stopTimeout >= tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_DRAIN_SECONDS) + 10 && jsondecode(definition.container_definitions)[0].stopTimeout <= 120])
    error_message = "A task is not killed before it has ended what it began and handed its leases over; Fargate waits for two minutes at most."
  }
}

run "times_of_long_requests" {
  command = plan

  variables {
    request_seconds = 100
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : { for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_BODY_SECONDS == "100"])
    error_message = "A body may take as long as a request."
  }

  assert {
    condition     = aws_lb.this.idle_timeout >= 100
    error_message = "The load balancer waits for as long as a request may take."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_KEEP_ALIVE_SECONDS) >= aws_lb.this.idle_timeout + 10])
    error_message = "A task keeps an idle connection for longer than the load balancer, or requests meet a connection that is just closed."
  }

  assert {
    condition     = alltrue([for group in aws_lb_target_group.this : group.deregistration_delay > 100])
    error_message = "A task is not taken from the load balancer before what it began has ended."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_DRAIN_SECONDS) > 100])
    error_message = "A task that is stopped ends what it began."
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : jsondecode(definition.container_definitions)[0].stopTimeout >= tonumber({ for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_DRAIN_SECONDS) + 10 && jsondecode(definition.container_definitions)[0].stopTimeout <= 120])
    error_message = "A task is not killed before it has ended what it began and handed its leases over; Fargate waits for two minutes at most."
  }
}

run "a_load_balancer_in_one_zone" {
  command = plan

  override_data {
    target = data.aws_subnet.load_balancer
    values = { availability_zone = "eu-west-1a" }
  }

  expect_failures = [aws_lb.this]
}

run "tasks_in_one_zone" {
  command = plan

  override_data {
    target = data.aws_subnet.task
    values = { availability_zone = "eu-west-1a" }
  }

  expect_failures = [aws_ecs_service.service]
}

run "a_key_of_ones_own" {
  command = plan

  variables {
    use_kms_key = true
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/1"
  }

  assert {
    condition     = length(aws_iam_role_policy.key) == 3 && one(aws_dynamodb_table.this.server_side_encryption).kms_key_arn == var.kms_key_arn
    error_message = "The table is encrypted by the key, and each role may use it."
  }
}

run "another_image_for_readers" {
  command = plan

  variables {
    images = { query = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/almanac:0.3.0" }
  }

  assert {
    condition     = { for role, definition in aws_ecs_task_definition.service : role => reverse(split(":", jsondecode(definition.container_definitions)[0].image))[0] } == { ingest = "0.2.0", projector = "0.2.0", query = "0.3.0" }
    error_message = "Only query runs the new version."
  }
}

run "everything_that_can_be_asked_for" {
  command = plan

  variables {
    name                     = "al2"
    table_name               = "almanac-restored"
    image                    = "ghcr.io:443/x/almanac@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    ecr_repository_arn       = null
    cpu_architecture         = "ARM64"
    internal                 = false
    allowed_cidr_blocks      = ["0.0.0.0/0"]
    allow_everyone           = true
    load_balancer_jwt        = { issuer = "https://login.example.com", jwks_url = "https://login.example.com/keys" }
    oidc                     = { issuer = "https://login.example.com", audience = "almanac", domain = "example.com" }
    trusted_proxies          = ["10.0.0.0/24", "10.0.1.0/24"]
    endpoint_route_table_ids = ["rtb-1"]
    prometheus               = { security_group_id = "sg-1" }
    provisioned              = { read_min = 5, read_max = 50, write_min = 5, write_max = 50 }
    ingest                   = { cpu = 256, memory = 512, min = 1, max = 1 }
    projector                = { cpu = 16384, memory = 122880 }
    query                    = { cpu = 8192, memory = 20480 }
    logs_kms_key_arn         = "arn:aws:kms:eu-west-1:123456789012:key/2"
    log_retention_days       = 3653
    access_logs_bucket       = "logs"
    container_insights       = "enhanced"
    page_topic_arns          = []
    ticket_topic_arns        = []
    web_acl                  = { arn = "arn:aws:wafv2:eu-west-1:123456789012:regional/webacl/x/1" }
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    warm_throughput          = { read = 20000, write = 8000 }
    infrequent_access        = true
    stream_images            = true
    backup                   = { plan_id = "1", role_arn = "arn:aws:iam::123456789012:role/backup" }
  }

  assert {
    condition     = aws_dynamodb_table.this.name == "almanac-restored" && aws_lb.this.name == "al2"
    error_message = "The table keeps its name when the deployment has another."
  }

  assert {
    condition     = [for action in aws_lb_listener.https.default_action : action.type] == ["jwt-validation", "forward"]
    error_message = "The load balancer demands a token before it sends a request on."
  }

  assert {
    condition     = length(aws_service_discovery_service.role) == 3 && length(aws_vpc_security_group_ingress_rule.prometheus) == 3
    error_message = "Prometheus finds and reaches every role."
  }

  assert {
    condition     = length(aws_cloudwatch_event_target.this) == 0
    error_message = "Nobody is told when nobody is to be told."
  }

  assert {
    condition     = aws_dynamodb_table.this.table_class == "STANDARD_INFREQUENT_ACCESS" && aws_dynamodb_table.this.stream_view_type == "NEW_AND_OLD_IMAGES"
    error_message = "The class of the table and the images of its stream are as asked for."
  }

  assert {
    condition     = one(aws_dynamodb_table.this.warm_throughput).write_units_per_second == 8000 && alltrue([for index in aws_dynamodb_table.this.global_secondary_index : one(index.warm_throughput).read_units_per_second == 20000])
    error_message = "The table and its indexes are warm."
  }

  assert {
    condition     = alltrue([for role in concat(values(aws_iam_role.service), [aws_iam_role.execution]) : role.permissions_boundary == var.permissions_boundary_arn])
    error_message = "Every role has the boundary."
  }

  assert {
    condition     = one(aws_backup_selection.table).plan_id == "1" && one(aws_wafv2_web_acl_association.this).web_acl_arn == var.web_acl.arn
    error_message = "The table is backed up, and the load balancer has its web ACL."
  }
}

run "a_way_of_its_own_to_the_stream" {
  command = plan

  variables {
    streams_endpoint = "https://vpce-1.streams.dynamodb.eu-west-1.vpce.amazonaws.com"
  }

  assert {
    condition     = { for role, definition in aws_ecs_task_definition.service : role => [for one in jsondecode(definition.container_definitions)[0].environment : one.value if one.name == "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"] } == { ingest = [], projector = [var.streams_endpoint], query = [] }
    error_message = "The projector, and no other role, is told of the endpoint."
  }
}

run "the_load_balancer_is_trusted" {
  command = plan

  override_data {
    target = data.aws_subnet.load_balancer[0]
    values = { availability_zone = "eu-west-1a", cidr_block = "10.0.0.0/24" }
  }

  override_data {
    target = data.aws_subnet.load_balancer[1]
    values = { availability_zone = "eu-west-1b", cidr_block = "10.0.1.0/24" }
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : { for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_TRUSTED_PROXIES == "10.0.0.0/24,10.0.1.0/24"])
    error_message = "What the load balancer says of a client is believed."
  }
}

run "nobody_is_trusted" {
  command = plan

  variables {
    trusted_proxies = []
  }

  assert {
    condition     = alltrue([for definition in aws_ecs_task_definition.service : { for one in jsondecode(definition.container_definitions)[0].environment : one.name => one.value }.ALMANAC_TRUSTED_PROXIES == ""])
    error_message = "Nobody is believed where that is asked for."
  }
}

run "settings_and_secrets_of_roles" {
  command = plan

  variables {
    environment = { query = { ALMANAC_QUERY_MEMORY = "1GiB" } }
    secrets     = { projector = { ALMANAC_WEBHOOK_SECRET_CHAT = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hooks-AbCdEf:chat::" } }
  }

  assert {
    condition     = { for role, definition in aws_ecs_task_definition.service : role => [for one in jsondecode(definition.container_definitions)[0].environment : one.value if one.name == "ALMANAC_QUERY_MEMORY"] } == { ingest = [], projector = [], query = ["1GiB"] }
    error_message = "Only query gets its setting."
  }

  assert {
    condition     = { for role, definition in aws_ecs_task_definition.service : role => [for one in jsondecode(definition.container_definitions)[0].secrets : one.name] } == { ingest = ["ALMANAC_ADMIN_TOKEN"], projector = ["ALMANAC_ADMIN_TOKEN", "ALMANAC_WEBHOOK_SECRET_CHAT"], query = ["ALMANAC_ADMIN_TOKEN"] }
    error_message = "Only the projector gets its secret."
  }

  assert {
    condition     = one(local.secret_arns) == "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hooks-AbCdEf"
    error_message = "The right to read is to the secret, not to the key in it."
  }
}

run "a_bound_for_demand" {
  command = plan

  variables {
    on_demand_limits = { read = 4000, write = 2000 }
  }

  assert {
    condition     = one(aws_dynamodb_table.this.on_demand_throughput).max_write_request_units == 2000 && alltrue([for index in aws_dynamodb_table.this.global_secondary_index : one(index.on_demand_throughput).max_read_request_units == 4000])
    error_message = "The table and its indexes have a bound."
  }
}
