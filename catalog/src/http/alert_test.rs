//! Trying an alert rule over HTTP: when it would have fired. Nothing is written.

use std::sync::Arc;

use axum::{
    Json, extract,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Day, Error, Result, Timestamp, Window};
use fold::alert::{Crossing, JudgedDay, State};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::{alert, alert_rule::new_rule, api::JSON};
use crate::{AlertRule, AlertRuleBody, MAX_TEST_DAYS, Service};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// On how many days a rule is tried, unless it is said.
const USUAL_DAYS: i64 = 30;

/// The rule, and the days on which it is tried.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    name: Option<String>,
    rule: Option<AlertRuleBody>,
    from: Option<String>,
    to: Option<String>,
}

/// The days on which a rule is tried: up to yesterday, unless it is said, and 30 of them.
///
/// # Errors
/// `Invalid`, when the last day is before the first.
pub fn test_window(from: Option<Day>, to: Option<Day>, now: Timestamp) -> Result<Window> {
    let before = |day: Day, days: i64| day.start().plus_seconds(-days * DAY_SECONDS).day();
    let to = to.unwrap_or_else(|| before(now.day(), 1));
    Window::new(from.unwrap_or_else(|| before(to, USUAL_DAYS - 1)), to)
}

/// A day on which a rule was tried, as JSON.
pub fn judged_day_json(day: &JudgedDay) -> Value {
    json!({
        "day": day.day.to_string(),
        "value": day.reading.value,
        "n": day.reading.n,
        "measured": day.measured,
        "state": day.standing.state.name(),
        "crossing": day.crossing.map(Crossing::name),
    })
}

/// That as it is described.
pub(super) fn judged_day_schema() -> RefOr<Schema> {
    let number =
        |says| ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true)).description(Some(says));
    let n = schema::count().schema_type(schema::types(&[Type::Integer], true));
    let crossings = Crossing::ALL.map(Crossing::name).into_iter().map(Value::from).chain([Value::Null]);
    let crossing = schema::nullable(schema::string()).enum_values(Some(crossings));
    schema::object([
        ("day", schema::day().into()),
        ("value", number("The number of the day; null, where it is not known.").into()),
        ("n", n.description(Some("Of how many predictions it is made, where that matters.")).into()),
        ("measured", number("What was held against the threshold.").into()),
        ("state", schema::one_of(State::ALL.map(State::name)).into()),
        ("crossing", crossing.description(Some("Whether it began to fire, or was resolved.")).into()),
    ])
    .into()
}

pub(super) fn operation() -> Operation {
    let body = schema::closed()
        .property("name", schema::nullable(schema::name()).description(Some("A rule of the workspace.")))
        .property("rule", new_rule().description(Some("Or one that is not applied.")))
        .property(
            "from",
            schema::day()
                .description(Some("The first day; 29 days before the last one when it is not given.")),
        )
        .property("to", schema::day().description(Some("The last day; yesterday when it is not given.")));
    let example = json!({
        "rule": { "name": "auc-low", "figure": "auc", "release": "c1", "below": 0.7 },
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
        .body("One of `name` and `rule`, and the days.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("The days in their order.", JSON, tried))
}

pub(super) async fn test(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    asked: Whole,
) -> Result<Response, Problem> {
    let asked: Asked = json_object(&headers, asked)?;
    let now = service.clock().now();
    let day = |text: Option<String>| text.map(|text| text.parse::<Day>()).transpose();
    let window = test_window(day(asked.from)?, day(asked.to)?, now)?;
    let (workspace, catalog) = (alert::id(&service, &workspace).await?, service.catalog());
    let rule = match (asked.name, asked.rule) {
        (Some(name), None) => catalog.alert_rule(&workspace, &name).await?,
        (None, Some(body)) => AlertRule::of(catalog.with_days(&workspace, body).await?, now)?,
        _ => return Err(Error::invalid("one of `name` and `rule` must say which rule is tried").into()),
    };
    let days = catalog.test_alert_rule(&workspace, &rule, window, now).await?;
    let fired = days.iter().filter(|day| day.crossing == Some(Crossing::Fires)).count();
    let days: Vec<Value> = days.iter().map(judged_day_json).collect();
    let (from, to) = (window.from().to_string(), window.to().to_string());
    Ok(Json(json!({ "from": from, "to": to, "fired": fired, "days": days })).into_response())
}
