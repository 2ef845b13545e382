//! Alert rules over HTTP.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{self, Query, rejection::QueryRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Day, Error, Id};
use fold::alert::{Crossing, State};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{
        RefOr, Schema, Type,
        path::{ParameterBuilder, ParameterIn},
        schema::ObjectBuilder,
    },
    parameter, schema,
};

use super::{alert_rule::new_rule, api::JSON, webhook};
use crate::{
    AlertRule, AlertRuleBody, Judged, MAX_ALERT_RULES, MAX_CROSSINGS, MAX_WEBHOOKS, Service, Webhook,
};

/// How many crossings or deliveries are listed, unless it is said.
const USUAL_LIMIT: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRules {
    rules: Vec<AlertRuleBody>,
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneRule {
    rule: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct One {
    rule: Option<String>,
    webhook: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Span {
    from: Option<String>,
    to: Option<String>,
    limit: Option<String>,
}

/// Days, and the most in an answer, as they were asked for.
pub(super) type AskedSpan = Result<Query<Span>, QueryRejection>;

fn wrong(rejection: &QueryRejection) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, rejection.body_text())
}

fn name(says: &str) -> ParameterBuilder {
    parameter(ParameterIn::Query, "rule", schema::name(), says)
}

/// The rules of the examples, of which the second and the third are deleted again.
fn examples() -> Value {
    json!({ "webhooks": [{ "name": "oncall", "url": "https://alerts.example.com/almanac", "secret": "oncall" }], "rules": [
        { "name": "auc-low", "figure": "auc", "release": "c1", "below": 0.7, "clear": 0.72, "min_n": 500, "for": 2, "delay": 3 },
        { "name": "few-predictions", "count": "predictions", "moved": 5, "window": 28 },
        { "name": "late-predictions", "missing": "predictions", "by": "06:00" },
        { "name": "scores-moved", "drift": "score", "statistic": "psi", "reference": "2026-04-01..2026-04-30", "above": 0.2 },
    ] })
}

fn rules_schema() -> ObjectBuilder {
    schema::object([
        ("rules", schema::array(schema::component("AlertRule")).into()),
        ("webhooks", schema::array(schema::component("Webhook")).into()),
    ])
}

/// Those that were applied.
fn applied_schema() -> ObjectBuilder {
    let warnings = schema::array(schema::string()).description(Some(
        "What should be looked at, though the rules are applied: that one is on a release or a model that is not there yet. Only there when there is something.",
    ));
    rules_schema().property("warnings", warnings)
}

pub(super) fn list_operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/alert-rules", "list_alert_rules")
        .tag("catalog")
        .summary("List the alert rules and the webhooks of a workspace")
        .takes(name("Only this rule.").example(Some(json!("auc-low"))))
        .answers(StatusCode::OK, answer("The rules and the webhooks, by name.", JSON, rules_schema()))
}

pub(super) fn apply_operation() -> Operation {
    let rules = schema::array(new_rule()).max_items(Some(MAX_ALERT_RULES));
    let webhooks = schema::array(webhook::new_webhook()).max_items(Some(MAX_WEBHOOKS));
    let body = schema::object([("rules", rules.into())]).property("webhooks", webhooks);
    Operation::put("/v1/workspaces/{category}/{name}/alert-rules", "apply_alert_rules")
        .tag("catalog")
        .summary("Create or change alert rules, and webhooks to which it is posted when they cross")
        .description("All of them or none. What has a name that is there is changed; what is not given stays. Applying the same again changes nothing.")
        .body("The rules and the webhooks.", [(JSON, content(body, Some(examples())))])
        .answers(StatusCode::OK, answer("These, as they are then.", JSON, applied_schema()))
}

pub(super) fn delete_operation() -> Operation {
    Operation::delete("/v1/workspaces/{category}/{name}/alert-rules", "delete_alert_rule")
        .tag("catalog")
        .summary("Delete an alert rule or a webhook")
        .takes(name("The rule.").example(Some(json!("few-predictions"))))
        .takes(parameter(ParameterIn::Query, "webhook", schema::name(), "Or the webhook."))
        .answers(StatusCode::NO_CONTENT, web::openapi::Response::new("It is deleted."))
}

pub(super) fn crossings_operation() -> Operation {
    let list = schema::object([("crossings", schema::array(schema::component("Crossing")).into())]);
    let operation = Operation::get("/v1/workspaces/{category}/{name}/crossings", "list_crossings")
        .tag("catalog")
        .summary("List when alert rules began to fire and were resolved");
    spanned(operation, MAX_CROSSINGS).answers(StatusCode::OK, answer("The latest days first.", JSON, list))
}

/// An operation that takes days, and the most in an answer.
pub(super) fn spanned(operation: Operation, most: usize) -> Operation {
    let query = |name, schema: ObjectBuilder, says| parameter(ParameterIn::Query, name, schema, says);
    let from = query("from", schema::day(), "The first day that was judged.");
    operation
        .takes(from.example(Some(json!("2026-06-01"))))
        .takes(query("to", schema::day(), "The last day."))
        .takes(query("limit", schema::integer(1..=most), "The most in an answer; 100 when it is not given."))
}

/// The days that were asked for, and the most in an answer.
pub(super) fn span_of(asked: AskedSpan, today: Day) -> Result<(Day, Day, usize), Problem> {
    let Query(asked) = asked.map_err(|rejection| wrong(&rejection))?;
    let day = |text: Option<String>, usual| text.map_or(Ok(usual), |text| text.parse::<Day>());
    let limit = asked.limit.map_or(Ok(USUAL_LIMIT), |limit| limit.parse());
    let limit = limit.map_err(|_| Error::invalid("limit: it is a whole number"))?;
    Ok((day(asked.from, Day::FIRST)?, day(asked.to, today)?, limit))
}

/// A rule as it is answered.
pub(super) fn rule_schema() -> RefOr<Schema> {
    let day = schema::nullable(schema::day()).description(Some("The last day that was judged; in lists."));
    let state = schema::one_of(State::ALL.map(State::name))
        .description(Some("Where it stands; `no_data` before its first day is judged; in lists."));
    new_rule()
        .property("created_at", schema::time())
        .required("created_at")
        .property("state", state)
        .property("judged_day", day)
        .into()
}

/// A crossing as it is answered.
pub(super) fn crossing_schema() -> RefOr<Schema> {
    let number = || ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true));
    let id = schema::string().description(Some("What tells it from all others of the workspace."));
    let measured = number().description(Some("What was held against the threshold."));
    let cut = schema::map(None, schema::count());
    schema::object([
        ("id", id.into()),
        ("rule", schema::name().into()),
        ("day", schema::day().into()),
        ("what", schema::one_of(Crossing::ALL.map(Crossing::name)).into()),
        ("at", schema::time().description(Some("When the day was judged.")).into()),
        ("value", number().into()),
        ("measured", measured.into()),
        ("cut", cut.description(Some("Up to which segment of each log of the day, at least.")).into()),
        ("text", schema::string().into()),
    ])
    .into()
}

/// A rule as JSON.
pub fn alert_rule_json(rule: &AlertRule) -> Value {
    let mut told = json!(rule.body);
    told["created_at"] = rule.created_at.to_string().into();
    told
}

/// A rule as JSON with where it stands.
pub fn standing_json(rule: &AlertRule, judged: &BTreeMap<String, Judged>) -> Value {
    let judged = judged.get(rule.name()).filter(|judged| judged.is_of(rule));
    let mut told = alert_rule_json(rule);
    told["state"] = judged.map_or(State::NoData, |judged| judged.standing.state).name().into();
    told["judged_day"] = judged.map(|judged| judged.day.to_string()).into();
    told
}

/// The id of a workspace.
pub(super) async fn id(service: &Service, workspace: &str) -> Result<Id, Error> {
    Ok(service.catalog().workspace(workspace).await?.id().clone())
}

pub(super) async fn list(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    asked: Result<Query<OneRule>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(one) = asked.map_err(|rejection| wrong(&rejection))?;
    let (workspace, catalog) = (id(&service, &workspace).await?, service.catalog());
    let mut alerts = catalog.alerts(&workspace).await?;
    if let Some(name) = one.rule {
        alerts.rules = vec![catalog.alert_rule(&workspace, &name).await?];
    }
    let judged = catalog.judged_rules(&workspace).await?;
    let rules: Vec<Value> = alerts.rules.iter().map(|rule| standing_json(rule, &judged)).collect();
    Ok(Json(json!({ "rules": rules, "webhooks": alerts.webhooks })).into_response())
}

pub(super) async fn crossings(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    asked: AskedSpan,
) -> Result<Response, Problem> {
    let (from, to, limit) = span_of(asked, service.clock().now().day())?;
    let workspace = id(&service, &workspace).await?;
    let crossings = service.catalog().crossings(&workspace, from, to, limit).await?;
    let crossings: Vec<Value> = crossings.iter().map(crate::json::crossing).collect();
    Ok(Json(json!({ "crossings": crossings })).into_response())
}

pub(super) async fn apply(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let NewRules { rules, webhooks } = json_object(&headers, new)?;
    let (workspace, catalog) = (id(&service, &workspace).await?, service.catalog());
    let made = catalog.apply_alerts(&workspace, rules, webhooks, service.clock().now()).await?;
    let rules: Vec<Value> = made.rules.iter().map(alert_rule_json).collect();
    let mut told = json!({ "rules": rules, "webhooks": made.webhooks });
    if !made.warnings.is_empty() {
        told["warnings"] = json!(made.warnings);
    }
    Ok(Json(told).into_response())
}

pub(super) async fn delete(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    asked: Result<Query<One>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(one) = asked.map_err(|rejection| wrong(&rejection))?;
    let catalog = service.catalog();
    match (one.rule, one.webhook) {
        (Some(rule), None) => {
            catalog.delete_alert_rule(&id(&service, &workspace).await?, &rule).await?;
        }
        (None, Some(webhook)) => {
            catalog.delete_webhook(&id(&service, &workspace).await?, &webhook).await?;
        }
        _ => {
            let detail = "one of `rule` and `webhook` must say which one";
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}
