//! Rules beyond the schema: values of arguments, declared keys of the table, pairs of CPU and memory. The values are from
//! Amazon's API references.

use std::collections::BTreeSet;

use hcl_edit::{
    Span,
    expr::Expression,
    structure::{Block, Body},
};

use crate::{
    code::{Fault, File, Module, Project, label},
    values::{Value, attribute, evaluate, outcomes},
};

/// Resource type, the block in it (`` for itself), argument, and its allowed words.
const WORDS: [(&str, &str, &str, &[&str]); 36] = [
    ("aws_dynamodb_table", "", "billing_mode", &["PAY_PER_REQUEST", "PROVISIONED"]),
    (
        "aws_dynamodb_table",
        "",
        "stream_view_type",
        &["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"],
    ),
    ("aws_dynamodb_table", "", "table_class", &["STANDARD", "STANDARD_INFREQUENT_ACCESS"]),
    ("aws_dynamodb_table", "attribute", "type", &["S", "N", "B"]),
    ("aws_dynamodb_table", "global_secondary_index", "projection_type", &["ALL", "KEYS_ONLY", "INCLUDE"]),
    ("aws_ecs_service", "", "launch_type", &["FARGATE", "EC2", "EXTERNAL"]),
    ("aws_ecs_service", "", "propagate_tags", &["SERVICE", "TASK_DEFINITION", "NONE"]),
    ("aws_ecs_task_definition", "", "network_mode", &["awsvpc", "bridge", "host", "none"]),
    ("aws_ecs_task_definition", "", "requires_compatibilities", &["FARGATE", "EC2", "EXTERNAL"]),
    ("aws_ecs_task_definition", "runtime_platform", "operating_system_family", &["LINUX"]),
    ("aws_ecs_task_definition", "runtime_platform", "cpu_architecture", &["X86_64", "ARM64"]),
    ("aws_lb", "", "load_balancer_type", &["application", "network", "gateway"]),
    ("aws_lb_target_group", "", "protocol", &["HTTP", "HTTPS", "TCP", "TLS", "UDP", "TCP_UDP", "GENEVE"]),
    ("aws_lb_target_group", "", "target_type", &["instance", "ip", "lambda", "alb"]),
    ("aws_lb_listener", "", "protocol", &["HTTP", "HTTPS", "TCP", "TLS", "UDP", "TCP_UDP"]),
    (
        "aws_lb_listener",
        "",
        "ssl_policy",
        &[
            "ELBSecurityPolicy-TLS13-1-2-2021-06",
            "ELBSecurityPolicy-TLS13-1-3-2021-06",
            "ELBSecurityPolicy-TLS13-1-2-Res-2021-06",
        ],
    ),
    (
        "aws_lb_listener",
        "default_action",
        "type",
        &[
            "forward",
            "redirect",
            "fixed-response",
            "authenticate-cognito",
            "authenticate-oidc",
            "jwt-validation",
        ],
    ),
    (
        "aws_lb_listener_rule",
        "action",
        "type",
        &[
            "forward",
            "redirect",
            "fixed-response",
            "authenticate-cognito",
            "authenticate-oidc",
            "jwt-validation",
        ],
    ),
    (
        "aws_lb_listener_rule",
        "condition.http_request_method",
        "values",
        &["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"],
    ),
    (
        "aws_vpc_endpoint",
        "",
        "vpc_endpoint_type",
        &["Gateway", "Interface", "GatewayLoadBalancer", "Resource", "ServiceNetwork"],
    ),
    ("aws_vpc_security_group_ingress_rule", "", "ip_protocol", &["tcp", "udp", "icmp", "icmpv6", "-1"]),
    ("aws_vpc_security_group_egress_rule", "", "ip_protocol", &["tcp", "udp", "icmp", "icmpv6", "-1"]),
    ("aws_appautoscaling_target", "", "service_namespace", &["dynamodb", "ecs"]),
    (
        "aws_appautoscaling_target",
        "",
        "scalable_dimension",
        &[
            "dynamodb:table:ReadCapacityUnits",
            "dynamodb:table:WriteCapacityUnits",
            "dynamodb:index:ReadCapacityUnits",
            "dynamodb:index:WriteCapacityUnits",
            "ecs:service:DesiredCount",
        ],
    ),
    (
        "aws_appautoscaling_policy",
        "",
        "policy_type",
        &["StepScaling", "TargetTrackingScaling", "PredictiveScaling"],
    ),
    (
        "aws_appautoscaling_policy",
        "step_scaling_policy_configuration",
        "adjustment_type",
        &["ChangeInCapacity", "PercentChangeInCapacity", "ExactCapacity"],
    ),
    (
        "aws_appautoscaling_policy",
        "step_scaling_policy_configuration",
        "metric_aggregation_type",
        &["Minimum", "Maximum", "Average"],
    ),
    (
        "aws_appautoscaling_policy",
        "target_tracking_scaling_policy_configuration.predefined_metric_specification",
        "predefined_metric_type",
        &[
            "DynamoDBReadCapacityUtilization",
            "DynamoDBWriteCapacityUtilization",
            "ECSServiceAverageCPUUtilization",
            "ECSServiceAverageMemoryUtilization",
            "ALBRequestCountPerTarget",
        ],
    ),
    (
        "aws_cloudwatch_metric_alarm",
        "",
        "comparison_operator",
        &[
            "GreaterThanThreshold",
            "GreaterThanOrEqualToThreshold",
            "LessThanThreshold",
            "LessThanOrEqualToThreshold",
        ],
    ),
    ("aws_cloudwatch_metric_alarm", "", "statistic", &STATISTICS),
    (
        "aws_cloudwatch_metric_alarm",
        "",
        "treat_missing_data",
        &["missing", "ignore", "breaching", "notBreaching"],
    ),
    ("aws_cloudwatch_metric_alarm", "metric_query.metric", "stat", &STATISTICS),
    (
        "aws_cloudwatch_log_metric_filter",
        "metric_transformation",
        "unit",
        &["Seconds", "Milliseconds", "Count", "Bytes", "Percent", "None"],
    ),
    ("aws_cloudwatch_log_group", "", "retention_in_days", &RETENTION),
    ("aws_ecr_repository", "", "image_tag_mutability", &["MUTABLE", "IMMUTABLE"]),
    ("aws_sns_topic_subscription", "", "protocol", &["email", "email-json", "https", "sqs", "lambda", "sms"]),
];

const STATISTICS: [&str; 5] = ["SampleCount", "Average", "Sum", "Minimum", "Maximum"];

/// Numbers of days for which CloudWatch can keep logs; 0 is forever.
pub(crate) const RETENTION: [&str; 23] = [
    "0", "1", "3", "5", "7", "14", "30", "60", "90", "120", "150", "180", "365", "400", "545", "731", "1096",
    "1827", "2192", "2557", "2922", "3288", "3653",
];

/// Bodies in `block` at `path`, through dynamic blocks as well.
pub(crate) fn bodies<'a>(block: &'a Block, path: &str) -> Vec<&'a Body> {
    let mut found = vec![&block.body];
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let inner = |body: &'a Body| {
            let plain = body.blocks().filter(move |block| block.has_ident(name)).map(|block| &block.body);
            let dynamic =
                body.blocks().filter(move |block| block.has_ident("dynamic") && label(block, 0) == name);
            let contents = |block: &'a Block| {
                block.body.blocks().filter(|inner| inner.has_ident("content")).map(|inner| &inner.body)
            };
            plain.chain(dynamic.flat_map(contents)).collect::<Vec<_>>()
        };
        found = found.into_iter().flat_map(inner).collect();
    }
    found
}

/// Lists all violations of the rules.
pub(crate) fn check(project: &Project) -> Vec<Fault> {
    let mut faults = Vec::new();
    for module in &project.modules {
        for (file, block) in module.blocks("resource") {
            for (_, path, argument, allowed) in WORDS.iter().filter(|(type_, ..)| *type_ == label(block, 0)) {
                for body in bodies(block, path) {
                    if let Some(attribute) = body.get_attribute(argument) {
                        words(module, file, &attribute.value, (argument, allowed), &mut faults);
                    }
                }
            }
            if label(block, 0) == "aws_dynamodb_table" {
                keys(module, file, block, &mut faults);
            }
        }
        for (file, block) in module.blocks("variable") {
            let sizes = block.body.get_attribute("type").and_then(|type_| {
                let fields = type_.value.as_func_call()?.args.iter().next()?;
                Some((evaluate(module, fields), &type_.value))
            });
            sizes.into_iter().for_each(|(sizes, at)| fargate(file, at, &sizes, &mut faults));
        }
        for (file, block) in module.blocks("module") {
            for attribute in block.body.attributes() {
                fargate(file, &attribute.value, &evaluate(module, &attribute.value), &mut faults);
            }
        }
    }
    faults
}

fn words(
    module: &Module,
    file: &File,
    value: &Expression,
    (name, allowed): (&str, &[&str]),
    faults: &mut Vec<Fault>,
) {
    for (node, value) in outcomes(module, value) {
        let values = match value {
            Value::List(values) => values,
            value => vec![value],
        };
        for value in values.iter().filter(|value| !matches!(value, Value::Unknown(_) | Value::Null)) {
            let text = value.text().unwrap_or_default();
            if !allowed.contains(&text.as_str()) {
                faults.push(
                    file.fault(node, format!("`{name}` cannot be `{text}`; it takes {}", allowed.join(", "))),
                );
            }
        }
    }
}

/// Checks that the attributes that a table declares are exactly those of its keys.
fn keys(module: &Module, file: &File, table: &Block, faults: &mut Vec<Fault>) {
    let named = |body: &Body, name: &str| attribute(module, body, name).and_then(|value| value.text());
    let mut wanted = BTreeSet::new();
    let indexes =
        ["", "global_secondary_index", "local_secondary_index"].map(|path| bodies(table, path)).concat();
    for body in indexes {
        for name in ["hash_key", "range_key"] {
            if let (Some(key), Some(node)) = (named(body, name), body.get_attribute(name)) {
                let is_declared =
                    bodies(table, "attribute").iter().any(|body| named(body, "name").as_ref() == Some(&key));
                if !is_declared {
                    faults.push(
                        file.fault(&node.value, format!("the key `{key}` is not declared as an attribute")),
                    );
                }
                wanted.insert(key);
            }
        }
    }
    for body in bodies(table, "attribute") {
        if let (Some(name), Some(node)) = (named(body, "name"), body.get_attribute("name"))
            && !wanted.contains(&name)
        {
            let what = format!("the attribute `{name}` is declared but is no key; DynamoDB refuses that");
            faults.push(file.fault(&node.value, what));
        }
    }
}

/// Memory sizes, in MiB, that Fargate offers for this number of CPU units.
pub(crate) fn fargate_memory(cpu: f64) -> Vec<f64> {
    let (from, to, step) = match cpu as u32 {
        256 => return vec![512.0, 1024.0, 2048.0],
        512 => (1024, 4096, 1024),
        1024 => (2048, 8192, 1024),
        2048 => (4096, 16384, 1024),
        4096 => (8192, 30720, 1024),
        8192 => (16384, 61440, 4096),
        16384 => (32768, 122_880, 8192),
        _ => return Vec::new(),
    };
    (from..=to).step_by(step).map(f64::from).collect()
}

fn fargate(file: &File, at: &dyn Span, sizes: &Value, faults: &mut Vec<Fault>) {
    let Value::Map(sizes) = sizes else { return };
    let number = |name: &str| sizes.get(name).and_then(Value::number);
    if let (Some(cpu), Some(memory)) = (number("cpu"), number("memory"))
        && !fargate_memory(cpu).contains(&memory)
    {
        faults.push(file.fault(at, format!("Fargate has no task of {cpu} CPU units with {memory} MiB")));
    }
}
