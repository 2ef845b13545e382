//! One fault of each kind, made in a copy of the real files: each must be found, and told with file and line.

use crate::{
    code::{Project, texts},
    problems,
};

const TABLE: &str = "terraform/modules/almanac/table.tf";
const NETWORK: &str = "terraform/modules/almanac/network.tf";
const SERVICES: &str = "terraform/modules/almanac/services.tf";
const IAM: &str = "terraform/modules/almanac/iam.tf";
const ALARMS: &str = "terraform/modules/almanac/alarms.tf";
const DASHBOARD: &str = "terraform/modules/almanac/dashboard.tf";
const VARIABLES: &str = "terraform/modules/almanac/variables.tf";
const OUTPUTS: &str = "terraform/modules/almanac/outputs.tf";
const EXAMPLE: &str = "terraform/examples/basic/main.tf";

/// The file, what is replaced in it and by what, what stands on the line of the fault, and the fault.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

const CASES: [Case; 56] = [
    // What the schema knows.
    (
        TABLE,
        "\"aws_dynamodb_table\" \"this\"",
        "\"aws_dynamo_table\" \"this\"",
        "aws_dynamo_table",
        "there is no resource type `aws_dynamo_table` in the schema",
    ),
    (
        SERVICES,
        "data \"aws_region\" \"current\"",
        "data \"aws_regions\" \"current\"",
        "\"aws_regions\"",
        "there is no data type `aws_regions` in the schema",
    ),
    (
        TABLE,
        "hash_key     = \"PK\"",
        "hashkey = \"PK\"",
        "hashkey = \"PK\"",
        "aws_dynamodb_table has no argument `hashkey`",
    ),
    (
        TABLE,
        "attribute_name = \"expires_at\"",
        "attribute = \"expires_at\"",
        "attribute = \"expires_at\"",
        "aws_dynamodb_table has no argument `attribute`",
    ),
    (
        TABLE,
        "stream_enabled   = true",
        "stream_enabled = \"yes\"",
        "stream_enabled",
        "`stream_enabled` of aws_dynamodb_table takes true or false, not a string",
    ),
    (
        NETWORK,
        "deregistration_delay = 60",
        "deregistration_delay = [60]",
        "deregistration_delay",
        "`deregistration_delay` of aws_lb_target_group takes",
    ),
    (
        NETWORK,
        "security_groups            = [aws_security_group.load_balancer.id]",
        "security_groups = \"sg\"",
        "security_groups = ",
        "`security_groups` of aws_lb takes a list, not a string",
    ),
    (
        NETWORK,
        "tags                       = var.tags",
        "tags = var.name",
        "tags = var.name",
        "`tags` of aws_lb takes a map, not a string",
    ),
    (
        NETWORK,
        "  listener_arn = aws_lb_listener.https.arn\n",
        "",
        "\"aws_lb_listener_rule\" \"query\"",
        "aws_lb_listener_rule needs `listener_arn`",
    ),
    (
        TABLE,
        "    projection_type = \"ALL\"\n",
        "",
        "global_secondary_index {",
        "aws_dynamodb_table needs `projection_type`",
    ),
    (
        ALARMS,
        "  metric_transformation {",
        "  transformation {",
        "transformation {",
        "aws_cloudwatch_log_metric_filter has no block `transformation`",
    ),
    (
        ALARMS,
        "  metric_transformation {",
        "  transformation {",
        "\"lag_seconds\" {",
        "aws_cloudwatch_log_metric_filter needs a block `metric_transformation`",
    ),
    (
        TABLE,
        "  point_in_time_recovery {",
        "  ttl {\n    enabled = true\n  }\n\n  point_in_time_recovery {",
        "\"aws_dynamodb_table\" \"this\"",
        "aws_dynamodb_table may have one block `ttl` only",
    ),
    (
        TABLE,
        "  ttl {\n    attribute_name = \"expires_at\"\n    enabled        = true\n  }",
        "  ttl = true",
        "ttl = true",
        "`ttl` of aws_dynamodb_table is a block, not an argument",
    ),
    (
        SERVICES,
        "dynamic \"load_balancer\"",
        "dynamic \"balancer\"",
        "dynamic \"balancer\"",
        "aws_ecs_service has no block `balancer`",
    ),
    (
        SERVICES,
        "ignore_changes = [desired_count]",
        "ignore_changes = [wanted_count]",
        "wanted_count",
        "aws_ecs_service has no argument `wanted_count` to ignore",
    ),
    (
        NETWORK,
        "resource \"aws_lb\" \"this\"",
        "resource \"aws_lb_target_group\" \"this\"",
        "resource \"aws_lb_target_group\" \"this\" {\n  for_each",
        "there are two of aws_lb_target_group.this",
    ),
    (TABLE, "name         = var.name", "name = var.name }", "name = var.name }", ""),
    // References.
    (TABLE, "name         = var.name", "name = var.nmae", "var.nmae", "there is no variable `nmae`"),
    (
        TABLE,
        "billing_mode = local.is_provisioned",
        "billing_mode = local.is_fixed",
        "local.is_fixed",
        "there is no local `is_fixed`",
    ),
    (
        NETWORK,
        "referenced_security_group_id = aws_security_group.load_balancer.id",
        "referenced_security_group_id = aws_security_group.balancer.id",
        "aws_security_group.balancer.id",
        "there is no resource aws_security_group.balancer",
    ),
    (
        IAM,
        "data.aws_caller_identity.current",
        "data.aws_caller_identity.me",
        "data.aws_caller_identity.me",
        "there is no data aws_caller_identity.me",
    ),
    (
        OUTPUTS,
        "aws_lb.this.zone_id",
        "aws_lb.this.zone",
        "aws_lb.this.zone",
        "aws_lb has no attribute `zone`",
    ),
    (
        OUTPUTS,
        "name => role.arn",
        "name => role.amazon_name",
        "role.amazon_name",
        "aws_iam_role has no attribute `amazon_name`",
    ),
    (
        NETWORK,
        "aws_security_group.service[each.key].id\n  description                  = \"From",
        "aws_security_group.service.id\n  description = \"From",
        "aws_security_group.service.id\n  description = \"From",
        "aws_security_group.service is several: say which",
    ),
    (
        NETWORK,
        "load_balancer_arn = aws_lb.this.arn",
        "load_balancer_arn = aws_lb.this[0].arn",
        "aws_lb.this[0].arn",
        "aws_lb.this is one, and has no index",
    ),
    (
        NETWORK,
        "priority     = 100",
        "priority = each.value",
        "each.value\n  tags",
        "`each` stands for nothing here",
    ),
    (DASHBOARD, "jsonencode({", "json({", "json({", "there is no function `json`"),
    (
        EXAMPLE,
        "[aws_route_table.public.id]",
        "[module.almanac.routes]",
        "module.almanac.routes",
        "the module `almanac` has no output `routes`",
    ),
    (
        EXAMPLE,
        "assign_public_ip         = true",
        "public_ip = true",
        "public_ip = true",
        "the module has no variable `public_ip`",
    ),
    (
        EXAMPLE,
        "  vpc_id                   = aws_vpc.this.id\n",
        "",
        "module \"almanac\"",
        "the module needs `vpc_id`",
    ),
    (
        EXAMPLE,
        "internal            = false",
        "internal = [false]",
        "internal = [false]",
        "the variable `internal` takes true or false, not a list",
    ),
    (
        EXAMPLE,
        "ingest    = { cpu = 256,",
        "ingest = { cpus = 256,",
        "cpus = 256",
        "the variable `ingest` has no field `cpus`",
    ),
    // What no schema knows.
    (TABLE, "\"PAY_PER_REQUEST\"", "\"ON_DEMAND\"", "ON_DEMAND", "`billing_mode` cannot be `ON_DEMAND`"),
    (TABLE, "\"KEYS_ONLY\"", "\"KEYS\"", "\"KEYS\"", "`stream_view_type` cannot be `KEYS`"),
    (SERVICES, "var.log_retention_days", "31", "31", "`retention_in_days` cannot be `31`"),
    (
        TABLE,
        "    name = \"GSI1SK\"",
        "    name = \"GSI1RANGE\"",
        "range_key       = \"GSI1SK\"",
        "the key `GSI1SK` is not declared as an attribute",
    ),
    (
        TABLE,
        "  attribute {\n    name = \"PK\"",
        "  attribute {\n    name = \"expires_at\"\n    type = \"N\"\n  }\n\n  attribute {\n    name = \"PK\"",
        "name = \"expires_at\"",
        "the attribute `expires_at` is declared but is no key",
    ),
    (
        ALARMS,
        "comparison_operator = \"LessThanThreshold\"",
        "comparison_operator = \"LessThan\"",
        "\"LessThan\"",
        "`comparison_operator` cannot be `LessThan`",
    ),
    (
        ALARMS,
        "statistic           = \"Maximum\"",
        "statistic = \"Max\"",
        "\"Max\"",
        "`statistic` cannot be `Max`",
    ),
    (ALARMS, "stat        = \"Sum\"", "stat = \"Total\"", "\"Total\"", "`stat` cannot be `Total`"),
    (
        ALARMS,
        "metric_name = \"SystemErrors\"",
        "metric_name = \"ServerErrors\"",
        "\"table_errors\" {",
        "there is no metric `ServerErrors` in `AWS/DynamoDB`",
    ),
    (
        ALARMS,
        "metric_name         = \"DeadLetters\"",
        "metric_name = \"Dead\"",
        "\"aws_cloudwatch_metric_alarm\" \"dead_letters\"",
        "there is no metric `Dead` in",
    ),
    (
        ALARMS,
        "period              = 120",
        "period = 90",
        "\"projector_lag\" {",
        "a period is 10, 20, 30 or a multiple of 60 seconds, not 90",
    ),
    (DASHBOARD, "\"LagSegments\"", "\"Segments\"", "\"Segments\"", "there is no metric `Segments` in"),
    (
        VARIABLES,
        "memory      = optional(number, 1024)",
        "memory = optional(number, 512)",
        "object({\n    cpu         = optional(number, 512)\n    memory = optional(number, 512)",
        "Fargate has no task of 512 CPU units with 512 MiB",
    ),
    (
        IAM,
        "\"dynamodb:DeleteItem\"",
        "\"dynamodb:RemoveItem\"",
        "RemoveItem",
        "IAM has no action `dynamodb:RemoveItem`",
    ),
    (
        IAM,
        "    resources = [\"${aws_dynamodb_table.this.arn}/stream/*\"]\n",
        "    resources = [\"${aws_dynamodb_table.this.arn}/stream/*\"]\n\n    condition {\n      test = \"StringLike\"\n      variable = \"dynamodb:LeadingKeys\"\n      values = [\"w#*\"]\n    }\n",
        "\"dynamodb:DescribeStream\"",
        "`dynamodb:DescribeStream` does not know the condition `dynamodb:LeadingKeys`",
    ),
    (
        IAM,
        "resources = [aws_dynamodb_table.this.arn]",
        "resources = [\"*\"]",
        "resources = [\"*\"]",
        "`dynamodb:DescribeTable` can be bound to a resource, so `*` is too much",
    ),
    (
        ALARMS,
        "datapoints_to_alarm = 3",
        "datapoints_to_alarm = 7",
        "\"table_throttles\" {",
        "7 of 5 periods cannot be above the threshold",
    ),
    (
        ALARMS,
        "return_data = true",
        "return_data = false",
        "\"table_throttles\" {",
        "exactly one query of an alarm returns data",
    ),
    (
        ALARMS,
        "\"throttles\"",
        "\"Throttles\"",
        "\"table_throttles\" {",
        "the id `Throttles` of a query must begin with a lower-case letter",
    ),
    (
        ALARMS,
        "  statistic           = \"Maximum\"\n",
        "",
        "\"projector_lag\" {",
        "an alarm on a metric needs `statistic`",
    ),
    (
        ALARMS,
        "  threshold           = 0\n",
        "  threshold = 0\n  metric_name = \"X\"\n",
        "\"table_throttles\" {",
        "an alarm has either a metric or metric queries",
    ),
    (
        VARIABLES,
        "  description = \"The VPC that everything runs in.\"\n",
        "",
        "variable \"vpc_id\"",
        "the variable `vpc_id` needs `description`",
    ),
    (
        IAM,
        "test     = \"ForAllValues:StringLike\"",
        "test = \"ForAllValues:Matches\"",
        "actions   = [\"dynamodb:PutItem\"]",
        "IAM has no condition `ForAllValues:Matches`",
    ),
];

#[test]
fn one_fault_of_each_kind_is_found_with_file_and_line() {
    let real = texts();
    for (path, from, to, on, what) in CASES {
        let mut copy = real.clone();
        let text = copy.get_mut(path).unwrap_or_else(|| panic!("there is no {path}"));
        assert!(text.contains(from), "{path} does not hold {from:?} any more");
        *text = text.replacen(from, to, 1);
        let at = text.find(on).unwrap_or_else(|| panic!("{path}: {on:?} is not in the copy"));
        let line = 1 + text[..at].matches('\n').count();
        let found = match Project::parse(copy) {
            Ok(project) => problems(&project),
            Err(fault) => vec![fault],
        };
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        let wanted = format!("{path}:{line}: {what}");
        assert!(
            told.iter().any(|one| one.starts_with(&wanted)),
            "wanted {wanted}\nfound\n{}",
            told.join("\n")
        );
    }
}
