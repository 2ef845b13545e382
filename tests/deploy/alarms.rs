//! Demands of CloudWatch on alarms, beyond the schema: one source of metrics, existing periods, and existing metrics.

use hcl_edit::{
    expr::Array,
    structure::{Block, Body},
    visit::{self, Visit},
};

use crate::{
    code::{Fault, File, Module, Project, label},
    rules::bodies,
    values::{Value, attribute, evaluate},
};

/// Metrics that are used, or likely to be, by namespace. From the services' lists of metrics.
const METRICS: [(&str, &[&str]); 4] = [
    (
        "AWS/DynamoDB",
        &[
            "ConsumedReadCapacityUnits",
            "ConsumedWriteCapacityUnits",
            "ProvisionedReadCapacityUnits",
            "ProvisionedWriteCapacityUnits",
            "ReadThrottleEvents",
            "WriteThrottleEvents",
            "ThrottledRequests",
            "SystemErrors",
            "UserErrors",
            "ConditionalCheckFailedRequests",
            "TransactionConflict",
            "SuccessfulRequestLatency",
        ],
    ),
    (
        "AWS/ApplicationELB",
        &[
            "RequestCount",
            "HTTPCode_Target_5XX_Count",
            "HTTPCode_ELB_5XX_Count",
            "HealthyHostCount",
            "UnHealthyHostCount",
            "TargetResponseTime",
        ],
    ),
    ("AWS/ECS", &["CPUUtilization", "MemoryUtilization"]),
    ("AWS/CertificateManager", &["DaysToExpiry"]),
];

/// Maximum look-back of an alarm, with periods below an hour and with longer ones.
const MAX_LOOK_BACK: (f64, f64) = (86_400.0, 604_800.0);

/// Lists all faults of alarms.
pub(crate) fn check(project: &Project) -> Vec<Fault> {
    let mut faults = Vec::new();
    for module in &project.modules {
        for (file, block) in
            module.blocks("resource").filter(|(_, block)| label(block, 0) == "aws_cloudwatch_metric_alarm")
        {
            Alarm { module, file, block, faults: &mut faults }.check();
        }
        for file in &module.files {
            let mut series = Series { module, file, faults: Vec::new() };
            series.visit_body(&file.body);
            faults.extend(series.faults);
        }
    }
    faults
}

struct Alarm<'a> {
    module: &'a Module,
    file: &'a File,
    block: &'a Block,
    faults: &'a mut Vec<Fault>,
}

impl Alarm<'_> {
    fn check(&mut self) {
        let (block, body) = (self.block, &self.block.body);
        let queries = bodies(block, "metric_query");
        let has_metric = body.has_attribute("metric_name");
        if has_metric != queries.is_empty() {
            self.fault("an alarm has either a metric or metric queries");
        }
        if has_metric {
            for needed in ["namespace", "statistic", "period"] {
                let stands_for_it = needed == "statistic" && body.has_attribute("extended_statistic");
                if !body.has_attribute(needed) && !stands_for_it {
                    self.fault(&format!("an alarm on a metric needs `{needed}`"));
                }
            }
            self.metric(body);
        }
        let told = queries.iter().filter(|query| self.value(query, "return_data") == Some(Value::Bool(true)));
        if !queries.is_empty() && told.count() != 1 {
            self.fault("exactly one query of an alarm returns data");
        }
        for query in &queries {
            if query.has_attribute("expression") == query.has_blocks("metric") {
                self.fault("a query has either an expression or a metric");
            }
            if let Some(Value::Text(id)) = self.value(query, "id") {
                let is_good = id.starts_with(|first: char| first.is_ascii_lowercase())
                    && id.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
                if !is_good {
                    self.fault(&format!("the id `{id}` of a query must begin with a lower-case letter"));
                }
            }
        }
        for metric in bodies(block, "metric_query.metric") {
            self.metric(metric);
        }
        let number = |name: &str| attribute(self.module, body, name).and_then(|value| value.number());
        if let (Some(of), Some(datapoints)) = (number("evaluation_periods"), number("datapoints_to_alarm"))
            && datapoints > of
        {
            self.fault(&format!("{datapoints} of {of} periods cannot be above the threshold"));
        }
    }

    /// Checks that a metric exists, and that its period is valid.
    fn metric(&mut self, body: &Body) {
        if let Some(period) = self.value(body, "period").and_then(|value| value.number()) {
            if ![10.0, 20.0, 30.0].contains(&period) && (period < 60.0 || period % 60.0 != 0.0) {
                self.fault(&format!("a period is 10, 20, 30 or a multiple of 60 seconds, not {period}"));
            }
            let periods = self.value(&self.block.body, "evaluation_periods").and_then(|value| value.number());
            let most = if period < 3600.0 { MAX_LOOK_BACK.0 } else { MAX_LOOK_BACK.1 };
            if periods.is_some_and(|periods| periods * period > most) {
                self.fault(&format!("an alarm may look back for {most} seconds at most"));
            }
        }
        let text = |name: &str| self.value(body, name).and_then(|value| value.text());
        let (Some(namespace), Some(name)) = (text("namespace"), text("metric_name")) else { return };
        if name.contains("${") {
            return;
        }
        if !exists(self.module, &namespace, &name) {
            self.fault(&format!("there is no metric `{name}` in `{namespace}`"));
        }
    }

    fn value(&self, body: &Body, name: &str) -> Option<Value> {
        attribute(self.module, body, name)
    }

    fn fault(&mut self, what: &str) {
        self.faults.push(self.file.fault(self.block, what));
    }
}

/// Returns whether a metric exists: of a service, or made by a filter of logs.
fn exists(module: &Module, namespace: &str, name: &str) -> bool {
    if let Some((_, names)) = METRICS.iter().find(|(known, _)| *known == namespace) {
        return names.contains(&name);
    }
    let made = |local: &str| match module.local(local).map(|(_, value)| evaluate(module, value)) {
        Some(Value::Map(made)) => made.contains_key(name),
        _ => false,
    };
    namespace.starts_with("Almanac/") && (made("log_metrics") || made("log_levels"))
}

/// Finder of the series of a dashboard: lists that begin with a namespace and a metric.
struct Series<'a> {
    module: &'a Module,
    file: &'a File,
    faults: Vec<Fault>,
}

impl Visit for Series<'_> {
    fn visit_array(&mut self, node: &Array) {
        if let (Some(first), Some(second)) = (node.get(0), node.get(1)) {
            let namespace = evaluate(self.module, first).text().unwrap_or_default();
            let is_namespace =
                namespace.starts_with("AWS/") || first.to_string().trim() == "local.metric_namespace";
            if let Some(name) =
                second.as_str().filter(|name| is_namespace && !exists(self.module, &namespace, name))
            {
                self.faults
                    .push(self.file.fault(second, format!("there is no metric `{name}` in `{namespace}`")));
            }
        }
        visit::visit_array(self, node);
    }
}
