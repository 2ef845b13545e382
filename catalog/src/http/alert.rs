//! Alert rules over HTTP: applying and trying them, their transitions, and what is posted to webhooks.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, extract,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Day, Error, Id, Timestamp, Window};
use fold::alert::{JudgedDay, State, Transition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use web::{
    InPath, Operation, Problem, QueryParams, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::api::JSON;
use crate::{
    AlertRule, AlertRuleBody, Delivery, Judged, MAX_ALERT_RULES, MAX_TEST_DAYS, MAX_WEBHOOKS, RuleTransition,
    Service, Webhook,
};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Days on which a rule is tried by default, and transitions or deliveries that are listed.
const USUAL_DAYS: i64 = 30;
const USUAL_LIMIT: usize = 100;

const RULES: &str = "/v1/workspaces/{category}/{name}/alert-rules";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRules {
    rules: Vec<AlertRuleBody>,
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct OneRule {
    /// Only this rule.
    #[param(example = "auc-low")]
    rule: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct One {
    /// The rule.
    #[param(example = "few-predictions")]
    rule: Option<String>,
    /// Or the webhook.
    webhook: Option<String>,
}

/// Days, and the maximum of an answer.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Span {
    /// The first day that was judged.
    #[param(value_type = Option<String>, format = Date, example = "2026-06-01")]
    from: Option<Day>,
    /// The last day.
    #[param(value_type = Option<String>, format = Date)]
    to: Option<Day>,
    /// The most in an answer; 100 when it is not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Rule, and the days on which it is tried.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Try {
    /// The rule.
    name: String,
    /// Rules that are not applied, of which it is one; without them it is a rule of the workspace.
    #[schema(inline)]
    #[serde(default)]
    rules: Vec<AlertRuleBody>,
    /// The webhooks beside such rules, so that the body may be one that is to be applied; they are checked.
    #[schema(inline)]
    #[serde(default)]
    webhooks: Vec<Webhook>,
    /// The first day; 29 days before the last one when it is not given.
    #[schema(value_type = Option<String>, format = Date)]
    from: Option<Day>,
    /// The last day; yesterday when it is not given.
    #[schema(value_type = Option<String>, format = Date)]
    to: Option<Day>,
}

/// The rules of the examples, of which the second and the third are deleted again.
fn examples() -> Value {
    json!({ "webhooks": [{ "name": "oncall", "url": "https://alerts.example.com/almanac", "secret": "oncall" }], "rules": [
        { "name": "auc-low", "metric": "auc", "release": "c1", "below": 0.7, "clear": 0.72, "min_n": 500, "for": 2, "delay": 3 },
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

pub(super) fn list_operation() -> Operation {
    Operation::get(RULES, "list_alert_rules")
        .tag("catalog")
        .summary("List the alert rules and the webhooks of a workspace")
        .query::<OneRule>()
        .answers(StatusCode::OK, answer("The rules and the webhooks, by name.", JSON, rules_schema()))
}

pub(super) fn apply_operation() -> Operation {
    let rules = schema::array(schema::of::<AlertRuleBody>()).max_items(Some(MAX_ALERT_RULES));
    let webhooks = schema::array(schema::of::<Webhook>()).max_items(Some(MAX_WEBHOOKS));
    let body = schema::object([("rules", rules.into())]).property("webhooks", webhooks);
    let warnings = schema::array(schema::string()).description(Some(
        "What should be looked at, though the rules are applied: that one is on a release or a model that is not there yet. Only there when there is something.",
    ));
    let applied = rules_schema().property("warnings", warnings);
    Operation::put(RULES, "apply_alert_rules")
        .tag("catalog")
        .summary("Create or change alert rules, and webhooks to which it is posted when they cross")
        .description("All of them or none. What has a name that is there is changed; what is not given stays. Applying the same again changes nothing.")
        .body("The rules and the webhooks.", [(JSON, content(body, Some(examples())))])
        .answers(StatusCode::OK, answer("These, as they are then.", JSON, applied))
}

pub(super) fn delete_operation() -> Operation {
    Operation::delete(RULES, "delete_alert_rule")
        .tag("catalog")
        .summary("Delete an alert rule or a webhook")
        .query::<One>()
        .answers(StatusCode::NO_CONTENT, web::openapi::Response::new("It is deleted."))
}

pub(super) fn test_operation() -> Operation {
    let example = json!({
        "name": "auc-low", "rules": [{ "name": "auc-low", "metric": "auc", "release": "c1", "below": 0.7 }],
        "from": "2026-06-01", "to": "2026-06-03",
    });
    let tried = schema::object([
        ("from", schema::day().into()),
        ("to", schema::day().into()),
        ("fired", schema::count().description(Some("On how many days it would have begun to fire.")).into()),
        ("days", schema::array(schema::component("JudgedDay")).max_items(Some(MAX_TEST_DAYS)).into()),
    ]);
    Operation::post("/v1/workspaces/{category}/{name}/alert-rules/test", "test_alert_rule")
        .tag("catalog")
        .summary("Try an alert rule on days that are over")
        .description("When it would have fired, by what is known now. Nothing is written, and days that are not due yet are left out.")
        .body("The rule and the days.", [(JSON, content(schema::of::<Try>(), Some(example)))])
        .answers(StatusCode::OK, answer("The days in their order.", JSON, tried))
}

pub(super) fn transitions_operation() -> Operation {
    of_days("transitions", "Transition").summary("List when alert rules began to fire and were resolved")
}

pub(super) fn deliveries_operation() -> Operation {
    of_days("deliveries", "Delivery")
        .summary("List what was or is to be posted to webhooks: that alert rules crossed, and digests")
}

/// Operation that lists records of days.
fn of_days(list: &str, record: &str) -> Operation {
    let records = schema::object([(list, schema::array(schema::component(record)).into())]);
    Operation::get(format!("/v1/workspaces/{{category}}/{{name}}/{list}"), &format!("list_{list}"))
        .tag("catalog")
        .query::<Span>()
        .answers(StatusCode::OK, answer("The latest days first.", JSON, records))
}

/// Schemas of answers, by name.
pub(super) fn schemas() -> [(String, RefOr<Schema>); 5] {
    let day = schema::nullable(schema::day()).description(Some("The last day that was judged; in lists."));
    let state = schema::one_of(State::NAMES)
        .description(Some("Where it stands; `no_data` before its first day is judged; in lists."));
    let rule = schema::of::<AlertRuleBody>().property("created_at", schema::time()).required("created_at");
    let number =
        |says| ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true)).description(Some(says));
    let n = schema::count().schema_type(schema::types(&[Type::Integer], true));
    let transitions = Transition::NAMES.into_iter().map(Value::from).chain([Value::Null]);
    let transition = schema::nullable(schema::string()).enum_values(Some(transitions));
    let judged = schema::object([
        ("day", schema::day().into()),
        ("value", number("The number of the day; null, where it is not known.").into()),
        ("n", n.description(Some("Of how many predictions it is made, where that matters.")).into()),
        ("measured", number("What was held against the threshold.").into()),
        ("state", schema::one_of(State::NAMES).into()),
        (
            "days",
            schema::count().description(Some("Days in a row beyond the threshold, while pending.")).into(),
        ),
        ("transition", transition.description(Some("Whether it began to fire, or was resolved.")).into()),
    ]);
    [
        ("AlertRule", rule.property("state", state).property("evaluated_day", day).into()),
        ("Webhook", schema::of::<Webhook>().required("format").into()),
        ("Transition", schema::of::<RuleTransition>().into()),
        ("JudgedDay", judged.into()),
        ("Delivery", schema::of::<Delivery>().into()),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
}

/// The JSON of what people wrote, without what they did not say.
fn given(of: &impl Serialize) -> Value {
    let mut told = json!(of);
    told.as_object_mut().into_iter().for_each(|told| told.retain(|_, value| !value.is_null()));
    told
}

/// A rule as JSON.
fn alert_rule_json(rule: &AlertRule) -> Value {
    let mut told = given(&rule.body);
    told["created_at"] = json!(rule.created_at);
    told
}

/// A rule as JSON with where it stands.
pub fn standing_json(rule: &AlertRule, judged: &BTreeMap<String, Judged>) -> Value {
    let judged = judged.get(rule.name()).filter(|judged| judged.is_of(rule));
    let mut told = alert_rule_json(rule);
    told["state"] = json!(judged.map_or(State::NoData, |judged| judged.standing.state));
    told["evaluated_day"] = json!(judged.map(|judged| judged.day));
    told
}

/// A delivery as JSON, without its body.
fn delivery_json(delivery: &Delivery) -> Value {
    let mut told = json!(delivery);
    let hidden = ["ver", "source", "body"];
    told.as_object_mut().into_iter().for_each(|told| told.retain(|name, _| !hidden.contains(&name.as_str())));
    told
}

/// The days on which a rule is tried: up to yesterday, unless it is said, and 30 of them.
fn test_window(from: Option<Day>, to: Option<Day>, now: Timestamp) -> Result<Window, Error> {
    let before = |day: Day, days: i64| day.start().plus_seconds(-days * DAY_SECONDS).day();
    let to = to.unwrap_or_else(|| before(now.day(), 1));
    Window::new(from.unwrap_or_else(|| before(to, USUAL_DAYS - 1)), to)
}

/// The id of a workspace.
async fn id(service: &Service, workspace: &str) -> Result<Id, Error> {
    Ok(service.catalog().workspace(workspace).await?.id().clone())
}

pub(super) async fn list(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(one): QueryParams<OneRule>,
) -> Result<Response, Problem> {
    let (workspace, catalog) = (id(&service, &workspace).await?, service.catalog());
    let mut alerts = catalog.alerts(&workspace).await?;
    if let Some(name) = one.rule {
        alerts.rules = vec![catalog.alert_rule(&workspace, &name).await?];
    }
    let judged = catalog.judged_rules(&workspace).await?;
    let rules: Vec<Value> = alerts.rules.iter().map(|rule| standing_json(rule, &judged)).collect();
    let webhooks: Vec<Value> = alerts.webhooks.iter().map(given).collect();
    Ok(Json(json!({ "rules": rules, "webhooks": webhooks })).into_response())
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
    let webhooks: Vec<Value> = made.webhooks.iter().map(given).collect();
    let mut told = json!({ "rules": rules, "webhooks": webhooks });
    if !made.warnings.is_empty() {
        told["warnings"] = json!(made.warnings);
    }
    Ok(Json(told).into_response())
}

pub(super) async fn delete(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(one): QueryParams<One>,
) -> Result<Response, Problem> {
    let catalog = service.catalog();
    match one {
        One { rule: Some(rule), webhook: None } => {
            catalog.delete_alert_rule(&id(&service, &workspace).await?, &rule).await?;
        }
        One { rule: None, webhook: Some(webhook) } => {
            catalog.delete_webhook(&id(&service, &workspace).await?, &webhook).await?;
        }
        _ => return Err(Error::invalid("one of `rule` and `webhook` must say which one").into()),
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn test(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    wanted: Whole,
) -> Result<Response, Problem> {
    let Try { name, rules, webhooks, from, to } = json_object(&headers, wanted)?;
    let now = service.clock().now();
    let window = test_window(from, to, now)?;
    webhooks.iter().try_for_each(Webhook::check)?;
    let (workspace, catalog) = (id(&service, &workspace).await?, service.catalog());
    let is_applied = rules.is_empty();
    let rule = match rules.into_iter().find(|rule| rule.name == name) {
        Some(body) => AlertRule::of(catalog.with_days(&workspace, body).await?, now)?,
        None if is_applied => catalog.alert_rule(&workspace, &name).await?,
        None => return Err(Error::not_found(format!("there is no alert rule `{name}` in `rules`")).into()),
    };
    let days = catalog.test_alert_rule(&workspace, &rule, window, now).await?;
    let fires = |day: &&JudgedDay| day.transition == Some(Transition::Fires);
    let fired = days.iter().filter(fires).count();
    let told = json!({ "from": window.from(), "to": window.to(), "fired": fired, "days": days });
    Ok(Json(told).into_response())
}

pub(super) async fn transitions(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(span): QueryParams<Span>,
) -> Result<Response, Problem> {
    let (from, to, limit) = span_of(span, &service);
    let workspace = id(&service, &workspace).await?;
    let transitions = service.catalog().transitions(&workspace, from, to, limit).await?;
    Ok(Json(json!({ "transitions": transitions })).into_response())
}

pub(super) async fn deliveries(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(span): QueryParams<Span>,
) -> Result<Response, Problem> {
    let (from, to, limit) = span_of(span, &service);
    let workspace = id(&service, &workspace).await?;
    let deliveries = service.catalog().deliveries(&workspace, from, to, limit).await?;
    let deliveries: Vec<Value> = deliveries.iter().map(delivery_json).collect();
    Ok(Json(json!({ "deliveries": deliveries })).into_response())
}

fn span_of(Span { from, to, limit }: Span, service: &Service) -> (Day, Day, usize) {
    let to = to.unwrap_or_else(|| service.clock().now().day());
    (from.unwrap_or(Day::FIRST), to, limit.unwrap_or(USUAL_LIMIT))
}
