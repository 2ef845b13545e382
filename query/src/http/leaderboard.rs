//! Leaderboards over HTTP: of what is live, and of a day.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use catalog::{MAX_LEADERBOARD, PrimaryMetric, RankedRelease, http::ranking_metrics};
use event::{Day, Error, custom::CUSTOM_METRICS};
use fold::{AnyMetric, Metric, metric::Direction};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, QueryParams, answer,
    openapi::{RefOr, Required, Schema, Type, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use crate::{LeaderboardParams, Place, Query};

const JSON: &str = "application/json";

/// How many releases are answered when the request does not say how many.
const PLACES: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    day: Option<String>,
    from: Option<String>,
    to: Option<String>,
    metric: Option<String>,
    direction: Option<String>,
    #[serde(rename = "min-n")]
    min_n: Option<u64>,
    environment: Option<String>,
    #[serde(rename = "as-of")]
    as_of: Option<String>,
    limit: Option<usize>,
}

impl Params {
    /// What is asked of a window, if one is named.
    fn window(&self) -> event::Result<Option<LeaderboardParams<'_>>> {
        let (metric, environment) = (self.metric.as_deref(), self.environment.as_deref());
        let (direction, as_of) = (self.direction.as_deref(), self.as_of.as_deref());
        let is_of_window = metric.is_some()
            || direction.is_some()
            || environment.is_some()
            || self.min_n.is_some()
            || as_of.is_some();
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if self.day.is_none() => Ok(Some(LeaderboardParams {
                from,
                to,
                metric,
                direction,
                min_n: self.min_n,
                environment,
                as_of,
            })),
            (None, None) if !is_of_window => Ok(None),
            _ => Err(Error::invalid(
                "a window has both `from` and `to`, which the other words need, and no `day`",
            )),
        }
    }
}

/// The metrics of predictions by which releases can be ranked, and for which this holds.
pub(super) fn metrics_that(holds: impl Fn(&AnyMetric) -> bool) -> RefOr<Schema> {
    let metrics = Metric::ranking_ones().filter(|metric| holds(&AnyMetric::from(*metric)));
    let names = schema::one_of(metrics.map(|metric| metric.name)).into();
    schema::any_of([names, schema::string().pattern(Some(CUSTOM_METRICS.pattern())).into()])
}

pub(super) fn operation() -> Operation {
    let number = || ObjectBuilder::new().schema_type(Type::Number);
    let place = schema::object([
        (
            "place",
            schema::nullable(schema::count())
                .minimum(Some(1))
                .description(Some("Null, when too few predictions were judged to rank it."))
                .into(),
        ),
        (
            "n",
            schema::count()
                .description(Some(
                    "How many judged predictions, or observations of a logged metric, the value is made of.",
                ))
                .into(),
        ),
        ("release", schema::name().into()),
        ("metric", ranking_metrics()),
        ("value", number().into()),
        ("day", schema::day().description(Some("The last of the days that the value is of.")).into()),
    ])
    .property("from", schema::day().description(Some("The first day of the window that was asked for.")))
    .property("days", schema::count().description(Some("On how many days the release was judged.")))
    .property("model", schema::name())
    .property("environments", schema::array(schema::name()))
    .property(
        "wins",
        schema::count().description(Some(
            "How often it was nearer to the truth than another release that predicted the same.",
        )),
    )
    .property("losses", schema::count().description(Some("How often it was farther from it.")))
    .property("ties", schema::count().description(Some("How often it was equally near.")))
    .property("labelled", schema::count().description(Some("How many predictions were judged.")));
    let body: RefOr<Schema> = schema::object([("places", schema::array(place).into())]).into();
    let limit = schema::integer(1..=MAX_LEADERBOARD).default(Some(json!(PLACES)));
    Operation::get("/v1/workspaces/{category}/{name}/leaderboard", "leaderboard")
        .tag("releases")
        .summary("Rank the releases by the primary metric of the workspace, the best first")
        .description("Without a day, those that are live, each by the days that are set (7) up to the latest on which any of them was judged, of which AUC is the weighted mean; with a day, all that were judged on it, for which the primary metric must be set; with a window, all that were judged on its days, by any metric of all of them together, computed from the events.")
        .takes(parameter(ParameterIn::Query, "day", schema::day(), "Of this day."))
        .takes(parameter(ParameterIn::Query, "from", schema::day(), "Of a window: its first day."))
        .takes(parameter(ParameterIn::Query, "to", schema::day(), "Of a window: its last day."))
        .takes(parameter(ParameterIn::Query, "metric", ranking_metrics(), "Of a window: the metric to rank by, instead of the primary metric."))
        .takes(parameter(ParameterIn::Query, "direction", schema::one_of(Direction::ALL.map(Direction::name)), "Of a window: which way the metric is better that is named; it follows from the metric, and of a custom one or a logged metric it is `max`."))
        .takes(parameter(ParameterIn::Query, "min-n", schema::count(), "Of a window: with fewer judged predictions a release stands behind, instead of what is set."))
        .takes(parameter(ParameterIn::Query, "environment", schema::name(), "Of a window: judge only what was live in this environment when it predicted."))
        .takes(parameter(ParameterIn::Query, "as-of", schema::any_of([schema::time().into(), schema::day().into()]), "Of a window: only what had been appended by this instant, or by the beginning of this day; of one that is not closed yet, by the last closed one."))
        .takes(parameter(ParameterIn::Query, "limit", limit, "At most so many.").required(Required::False))
        .answers(StatusCode::OK, answer("The places.", JSON, body))
}

pub(super) async fn leaderboard(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    QueryParams(words): QueryParams<Params>,
) -> Result<Response, Problem> {
    let day = words.day.as_deref().map(str::parse::<Day>).transpose()?;
    let limit = words.limit.unwrap_or(PLACES);
    let window = words.window()?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let places: Vec<Value> = match (window, day) {
        (Some(window), _) => {
            let (primary, ranked) = query.leaderboard_of_window(workspace.id(), &window, limit).await?;
            let days = (Some(window.from), window.to);
            (1..).zip(ranked).map(|(place, of)| json_of(place, &of, &primary, days)).collect()
        }
        (None, Some(day)) => {
            let (primary, ranked) = query.leaderboard_of(workspace.id(), day, limit).await?;
            let day = day.to_string();
            (1..).zip(ranked).map(|(place, of)| json_of(place, &of, &primary, (None, &day))).collect()
        }
        (None, None) => {
            let ranked = query.leaderboard(workspace.id(), limit).await?;
            let json_of = |(place, of): (usize, RankedRelease)| {
                let ranked = of.ranked?;
                Some(json!({
                    "place": ranked.is_ranked.then_some(place), "release": of.release, "model": of.model,
                    "metric": ranked.metric, "value": ranked.value, "n": ranked.n, "days": ranked.days,
                    "day": ranked.day.to_string(), "environments": ranked.environments,
                }))
            };
            (1..).zip(ranked).filter_map(json_of).collect()
        }
    };
    Ok(Json(json!({ "places": places })).into_response())
}

/// A place on a day; or in a window, which has a first day as well.
fn json_of(place: usize, of: &Place, by: &PrimaryMetric, (from, day): (Option<&str>, &str)) -> Value {
    let mut json = json!({
        "place": of.is_ranked.then_some(place), "release": of.release, "n": of.n, "metric": by.metric.name(),
        "value": of.value, "day": day,
    });
    if let Some((labelled, record)) = of.judged {
        json["labelled"] = labelled.into();
        json["wins"] = record.wins.into();
        json["losses"] = record.losses.into();
        json["ties"] = record.ties.into();
    }
    if let Some(from) = from {
        json["from"] = from.into();
    }
    json
}
