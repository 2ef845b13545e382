//! Making reviews over HTTP, and showing them. Reviewers are served by the append service.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{
    ArenaSpec, MAX_PAIR_ITEMS, ReviewPolicy, ReviewSpec,
    http::{
        create_review, given_json, list_reviews, rank_arena, refresh_arena, results_json, review_json,
        review_schemas, reviewed_answers, reviewed_json,
    },
};
use event::{Day, Error, Kind, Result, Right, Window};
use log::audit::current;
use serde::Deserialize;
use serde_json::{Value, json};
use web::{Demand, InPath, Problem, Routes, Whole, json_object};

use super::{
    asked::{Asked, asked},
    said,
};
use crate::Query;

/// How many predictions are picked, unless it is said.
const DEFAULT_ITEMS: u32 = 100;

/// How many days of answers are shown, unless it is said.
const DAYS: i64 = 7;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The routes that show reviews.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let demand = || Demand::workspace(Right::Read);
    // An answer is an outcome, or a vote, which is a metric; beside it stands what releases predicted.
    let given_of = [Kind::Predictions, Kind::Outcomes, Kind::Metrics];
    let routes = routes
        .add(list_reviews(), demand(), list)
        .add(reviewed_answers(), demand().of_kinds(&given_of), given)
        .add(rank_arena(), demand().of_kinds(&[Kind::Metrics]), rank);
    review_schemas().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema))
}

/// The routes that make reviews.
pub(super) fn creation(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let demand = || Demand::workspace(Right::Maintain).of_kinds(&[Kind::Predictions, Kind::Outcomes]);
    routes.add(create_review(), demand(), create).add(refresh_arena(), demand(), refresh)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewReview {
    name: String,
    from: String,
    to: String,
    policy: Option<String>,
    n: Option<u32>,
    #[serde(default)]
    seed: u32,
    model: Option<String>,
    release: Option<String>,
    by: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    with_outcomes: bool,
    #[serde(default)]
    releases: Vec<String>,
    judges: Option<u32>,
    #[serde(default)]
    tags: Vec<String>,
}

fn day_of(name: &str, text: &str) -> Result<Day> {
    text.parse::<Day>().map_err(|error| Error::invalid(format!("{name}: {error}")))
}

impl NewReview {
    fn spec(self) -> Result<(String, ReviewSpec)> {
        let policy = self.policy.as_deref().map_or(Ok(ReviewPolicy::Random), ReviewPolicy::parse)?;
        let is_arena = policy == ReviewPolicy::Pairs;
        let judges = self.judges.unwrap_or(1);
        let (releases, tags) = (self.releases, self.tags);
        if !is_arena && (self.judges.is_some() || !releases.is_empty() || !tags.is_empty()) {
            return Err(Error::invalid("policy: only `pairs` takes `releases`, `judges` and `tags`"));
        }
        let default = if is_arena { MAX_PAIR_ITEMS / judges.max(1) } else { DEFAULT_ITEMS };
        let spec = ReviewSpec {
            window: Window::new(day_of("from", &self.from)?, day_of("to", &self.to)?)?,
            model: self.model,
            release: self.release,
            policy,
            by: self.by,
            n: self.n.unwrap_or(default),
            seed: self.seed,
            labels: self.labels,
            with_outcomes: self.with_outcomes || is_arena,
            arena: is_arena.then_some(ArenaSpec { releases, judges, tags }),
        };
        Ok((self.name, spec))
    }
}

async fn create(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewReview = json_object(&headers, new)?;
    let (name, spec) = new.spec()?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let (review, warnings) = query.create_review(&workspace, &name, spec).await?;
    let mut response = (StatusCode::CREATED, Json(review_json(&review))).into_response();
    response.headers_mut().extend(said::warnings(&warnings));
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refresh {
    review: String,
    to: Option<String>,
}

async fn refresh(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let asked: Refresh = json_object(&headers, body)?;
    let to = asked.to.map(|to| day_of("to", &to)).transpose()?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let (review, warnings) = query.refresh_arena(&workspace, &asked.review, to).await?;
    let mut response = Json(review_json(&review)).into_response();
    response.headers_mut().extend(said::warnings(&warnings));
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfArena {
    review: String,
    #[serde(rename = "as-of")]
    as_of: Option<String>,
}

async fn rank(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    one: Asked<OfArena>,
) -> Result<Response, Problem> {
    let one = asked(one)?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let ranking = query.rank_arena(workspace.id(), &one.review, one.as_of.as_deref()).await?;
    let mut response = Json(ranking.to_json()).into_response();
    response.headers_mut().extend(said::warnings(&ranking.warnings));
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    review: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Days {
    from: Option<String>,
    to: Option<String>,
}

async fn list(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    one: Asked<One>,
) -> Result<Response, Problem> {
    let catalog = query.catalog();
    let workspace = catalog.workspace(&workspace).await?;
    let reviews: Vec<Value> = match asked(one)?.review {
        Some(name) => {
            let review = catalog.review(workspace.id(), &name).await?;
            let items = catalog.review_items(workspace.id(), &review.id).await?;
            vec![reviewed_json(&review, &items)]
        }
        None => catalog.reviews(workspace.id()).await?.iter().map(review_json).collect(),
    };
    Ok(Json(json!({ "reviews": reviews })).into_response())
}

async fn given(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    days: Asked<Days>,
) -> Result<Response, Problem> {
    let days = asked(days)?;
    let day = |name: &str, text: Option<String>| text.map(|text| day_of(name, &text)).transpose();
    let to = day("to", days.to)?.unwrap_or_else(|| query.now().day());
    let first = to.start().plus_seconds(-(DAYS - 1) * DAY_SECONDS).day();
    let window = Window::new(day("from", days.from)?.unwrap_or(first), to)?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let reviewer = current().principal.clone();
    let span = (window.from().start(), to.start().plus_seconds(DAY_SECONDS));
    let answers = query.catalog().given_answers(workspace.id(), &reviewer, span).await?;
    let (releases, of_days) = results_json(&answers);
    let answers: Vec<Value> = answers.iter().map(given_json).collect();
    Ok(Json(json!({
        "reviewer": reviewer,
        "from": window.from().to_string(),
        "to": to.to_string(),
        "releases": releases,
        "days": of_days,
        "answers": answers,
    }))
    .into_response())
}
