//! Making reviews over HTTP, and showing them. Reviewers are served by the append service.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{
    ReviewSpec,
    http::{
        create_review, given_json, list_reviews, rank_arena, refresh_arena, results_json, review_items,
        review_json, review_schemas, reviewed_answers,
    },
};
use event::{Day, Kind, Right, Window};
use log::audit::current;
use serde::Deserialize;
use serde_json::{Value, json};
use web::{InPath, Problem, QueryParams, RequiredPermission, Routes, Whole, json_object};

use super::said;
use crate::Query;

/// How many days of answers are shown, unless it is said.
const DAYS: i64 = 7;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The routes that show reviews.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let demand = || RequiredPermission::workspace(Right::Read);
    // An answer is an outcome, or a vote, which is a metric; beside it stands what releases predicted.
    let given_of = [Kind::Predictions, Kind::Outcomes, Kind::Metrics];
    let routes = routes
        .add(list_reviews(), demand(), list)
        .add(review_items(), demand().of_kinds(&given_of), items)
        .add(reviewed_answers(), demand().of_kinds(&given_of), given)
        .add(rank_arena(), demand().of_kinds(&[Kind::Metrics]), rank);
    review_schemas().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema))
}

/// The routes that make reviews.
pub(super) fn creation(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let demand =
        || RequiredPermission::workspace(Right::Maintain).of_kinds(&[Kind::Predictions, Kind::Outcomes]);
    routes.add(create_review(), demand(), create).add(refresh_arena(), demand(), refresh)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewReview {
    name: String,
    #[serde(flatten)]
    spec: ReviewSpec,
}

async fn create(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let NewReview { name, spec } = json_object(&headers, new)?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let (review, warnings) = query.create_review(&workspace, &name, spec).await?;
    let told = Json(review_json(&review, None));
    Ok((StatusCode::CREATED, said::warnings(&warnings), told).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refresh {
    review: String,
    to: Option<Day>,
}

async fn refresh(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let asked: Refresh = json_object(&headers, body)?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let (review, warnings) = query.refresh_arena(&workspace, &asked.review, asked.to).await?;
    Ok((said::warnings(&warnings), Json(review_json(&review, None))).into_response())
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
    QueryParams(one): QueryParams<OfArena>,
) -> Result<Response, Problem> {
    let workspace = query.catalog().workspace(&workspace).await?;
    let ranking = query.rank_arena(workspace.id(), &one.review, one.as_of.as_deref()).await?;
    Ok((said::warnings(&ranking.warnings), Json(ranking.to_json())).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    review: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneReview {
    review: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Days {
    reviewer: Option<String>,
    from: Option<Day>,
    to: Option<Day>,
}

async fn list(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    QueryParams(one): QueryParams<One>,
) -> Result<Response, Problem> {
    let catalog = query.catalog();
    let workspace = catalog.workspace(&workspace).await?;
    let reviews: Vec<Value> = match one.review {
        Some(name) => {
            let review = catalog.review(workspace.id(), &name).await?;
            let progress = catalog.review_progress(workspace.id(), &review).await?;
            vec![review_json(&review, Some(progress))]
        }
        None => {
            let reviews = catalog.reviews(workspace.id()).await?;
            reviews.iter().map(|review| review_json(review, None)).collect()
        }
    };
    Ok(Json(json!({ "reviews": reviews })).into_response())
}

async fn items(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    QueryParams(one): QueryParams<OneReview>,
) -> Result<Response, Problem> {
    let catalog = query.catalog();
    let workspace = catalog.workspace(&workspace).await?;
    let review = catalog.review(workspace.id(), &one.review).await?;
    let items = catalog.review_items(workspace.id(), &review.id).await?;
    let row = |item| {
        let mut row = given_json(item);
        row["answered_by"] = json!(item.answer.as_ref().map(|answer| &answer.reviewer));
        row
    };
    Ok(Json(json!({ "items": items.iter().map(row).collect::<Vec<_>>() })).into_response())
}

async fn given(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    QueryParams(days): QueryParams<Days>,
) -> Result<Response, Problem> {
    let to = days.to.unwrap_or_else(|| query.now().day());
    let first = to.start().plus_seconds(-(DAYS - 1) * DAY_SECONDS).day();
    let window = Window::new(days.from.unwrap_or(first), to)?;
    let workspace = query.catalog().workspace(&workspace).await?;
    let reviewer = days.reviewer.unwrap_or_else(|| current().principal.clone());
    let span = (window.from().start(), to.start().plus_seconds(DAY_SECONDS));
    let answers = query.catalog().given_answers(workspace.id(), &reviewer, span).await?;
    let (releases, of_days) = results_json(&answers);
    let answers: Vec<Value> = answers.iter().map(given_json).collect();
    Ok(Json(json!({
        "reviewer": reviewer,
        "from": window.from(),
        "to": to,
        "releases": releases,
        "days": of_days,
        "answers": answers,
    }))
    .into_response())
}
