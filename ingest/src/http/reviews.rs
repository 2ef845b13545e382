//! Reviewing over HTTP: taking the next item, and answering it, with an account or by a link.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{Extensions, HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{
    AnsweredBy, DEFAULT_LEASE_SECONDS, ReviewLink, Verdict, Vote, guest_reviewer,
    http::{
        answer_review_item, answered_json, asked_json, delete_review, judge as judge_operation,
        next_review_item, review_schemas,
    },
};
use event::{Error, Kind, Right};
use log::{audit::current, key::ReviewItemId};
use serde::Deserialize;
use serde_json::json;
use web::{InPath, Problem, QueryParams, RequiredPermission, Routes, Whole, json_object};

use super::charge;
use crate::{quota::Amounts, service::Ingest};

/// The routes of reviewers.
pub(super) fn routes(routes: Routes<Arc<Ingest>>) -> Routes<Arc<Ingest>> {
    let demand = || RequiredPermission::workspace(Right::Review).of_kinds(&[Kind::Outcomes, Kind::Metrics]);
    let routes = routes
        .add(delete_review(), RequiredPermission::workspace(Right::Maintain), delete)
        .add(next_review_item(), demand(), next)
        .add(answer_review_item(), demand(), give)
        .add(judge_operation(), RequiredPermission::nothing(), judge);
    review_schemas().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Next {
    review: String,
    guest: Option<String>,
    lease_seconds: Option<i64>,
}

#[derive(Deserialize)]
struct Said {
    label: Option<String>,
    value: Option<f64>,
    vote: Option<Vote>,
    #[serde(default)]
    skip: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    review: String,
    item: u32,
    #[serde(flatten)]
    said: Said,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    link: String,
    #[serde(flatten)]
    said: Said,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    review: String,
}

async fn delete(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    QueryParams(one): QueryParams<One>,
) -> Result<Response, Problem> {
    let workspace = ingest.catalog().workspace(&workspace).await?;
    ingest.catalog().delete_review(workspace.id(), &one.review).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn next(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let asked: Next = json_object(&headers, body)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let guest = asked.guest.as_deref().map(guest_reviewer).transpose()?;
    let reviewer = guest.unwrap_or_else(|| current().principal.clone());
    let seconds = asked.lease_seconds.unwrap_or(DEFAULT_LEASE_SECONDS);
    let review = ingest.catalog().review(workspace.id(), &asked.review).await?;
    let served = ingest.next_of((workspace.id(), &review), (&reviewer, seconds)).await?;
    let item = served.map(|served| {
        let mut told = asked_json(&review, &served.item);
        told["link"] = served.link.text().into();
        told
    });
    Ok(Json(json!({ "item": item })).into_response())
}

async fn give(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    extensions: Extensions,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let Given { review, item, said } = json_object(&headers, body)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let review = ingest.catalog().review(workspace.id(), &review).await?;
    let id = ReviewItemId { workspace: workspace.id().clone(), review: review.id, number: item };
    let by = AnsweredBy::Reviewer(current().principal.clone());
    let none = "an answer has a `label`, a `value` or a `vote`, or gives the item back";
    let done = settled(&ingest, &extensions, (&id, &by), said).await?;
    done.ok_or_else(|| Error::invalid(none).into())
}

async fn judge(
    State(ingest): State<Arc<Ingest>>,
    extensions: Extensions,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let Judged { link, said } = json_object(&headers, body)?;
    let link = ReviewLink::parse(&link)?;
    let (id, by) = (link.item(), AnsweredBy::Link(link.digest()));
    if let Some(done) = settled(&ingest, &extensions, (id, &by), said).await? {
        return Ok(done);
    }
    let (review, item) = ingest.asked_by(&link).await?;
    Ok(Json(json!({ "item": asked_json(&review, &item) })).into_response())
}

/// Decides an answer, or gives an item back; `None`, when neither is asked for. An answer counts against the quotas of its workspace
/// and caller as an append of one row.
async fn settled(
    ingest: &Ingest,
    extensions: &Extensions,
    (id, by): (&ReviewItemId, &AnsweredBy),
    said: Said,
) -> Result<Option<Response>, Problem> {
    let (catalog, now) = (ingest.catalog(), ingest.clock().now());
    let is_answer = said.label.is_some() || said.value.is_some() || said.vote.is_some();
    let told = match (is_answer, said.skip) {
        (true, true) => return Err(Error::invalid("skip: an item is either given back or answered").into()),
        (false, false) => return Ok(None),
        (false, true) => {
            catalog.give_back(id, by, now).await?;
            json!({ "state": "skipped" })
        }
        (true, false) => {
            let verdict = Verdict::read(said.label, said.value, said.vote)?;
            // Who does not have the item counts against nobody.
            catalog.item_of(id, by, Some(&verdict), now).await?;
            let charge = charge(ingest, &id.workspace, extensions).await?;
            ingest.quotas.take(&charge, Amounts { requests: 1, rows: 1, bytes: 0 }).await?;
            let answered = ingest.answer(id, by, verdict).await?;
            answered_json(&answered.item, answered.is_appended, answered.is_repeat)
        }
    };
    Ok(Some(Json(told).into_response()))
}
