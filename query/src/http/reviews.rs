//! Making reviews over HTTP. All else that is done with them, the catalog and the append service do.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{
    ReviewPolicy, ReviewSpec,
    http::{create_review, review_json},
};
use event::{Day, Error, Kind, Result, Right, Window};
use serde::Deserialize;
use web::{Demand, InPath, Named, Problem, Routes, Whole, json_object};

use super::said;
use crate::Query;

/// How many predictions are picked, unless it is said.
const DEFAULT_ITEMS: u32 = 100;

/// The routes that make reviews.
pub(super) fn creation(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    Named::BOTH.into_iter().fold(routes, |routes, named| {
        let demand = Demand::workspace(Right::Maintain).of_kinds(&[Kind::Predictions, Kind::Outcomes]);
        routes.add(create_review(named), demand, create)
    })
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
}

impl NewReview {
    fn spec(self) -> Result<(String, ReviewSpec)> {
        let day = |name: &str, text: &str| {
            text.parse::<Day>().map_err(|error| Error::invalid(format!("{name}: {error}")))
        };
        let spec = ReviewSpec {
            window: Window::new(day("from", &self.from)?, day("to", &self.to)?)?,
            model: self.model,
            release: self.release,
            policy: self.policy.as_deref().map_or(Ok(ReviewPolicy::Random), ReviewPolicy::parse)?,
            by: self.by,
            n: self.n.unwrap_or(DEFAULT_ITEMS),
            seed: self.seed,
            labels: self.labels,
            with_outcomes: self.with_outcomes,
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
