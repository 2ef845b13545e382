//! One fault of each kind, made in a copy of the real files: each must be found, and told with file and line.

use crate::{
    code::{Project, texts},
    problems,
};

const TABLE: &str = "terraform/modules/almanac/table.tf";
const SERVICES: &str = "terraform/modules/almanac/services.tf";
const ALARMS: &str = "terraform/modules/almanac/alarms.tf";
const DASHBOARD: &str = "terraform/modules/almanac/dashboard.tf";
const VARIABLES: &str = "terraform/modules/almanac/variables.tf";

/// The file, what is replaced in it and by what, what stands on the line of the fault, and the fault.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

const CASES: [Case; 19] = [
    (TABLE, "name         = local.table_name", "name = local.table_name }", "name = local.table_name }", ""),
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
];

#[test]
fn each_fault_kind_is_found_with_its_line() {
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
