//! Reviewing over HTTP: taking the next item, and answering it, with an account or by a link.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::{Extensions, HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{
    AnsweredBy, DEFAULT_LEASE_SECONDS, MAX_ARENA_PAIRS, MAX_LEASE_SECONDS, MAX_PAIR_ITEMS, MIN_LEASE_SECONDS,
    ReviewLink, Verdict, guest_reviewer,
    http::{answered_json, asked_json, delete_review, review_schemas, vote_schema},
};
use event::{Error, Id, Kind, Right};
use log::{audit::current, key::ReviewItemId};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    Demand, InPath, Operation, Problem, Routes, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::{api::JSON, charge};
use crate::{quota::Amounts, service::Ingest};

/// The routes of reviewers.
pub(super) fn routes(routes: Routes<Arc<Ingest>>) -> Routes<Arc<Ingest>> {
    let demand = || Demand::workspace(Right::Review).of_kinds(&[Kind::Outcomes, Kind::Metrics]);
    let routes = routes
        .add(delete_review(), Demand::workspace(Right::Maintain), delete)
        .add(next_operation(), demand(), next)
        .add(answer_operation(), demand(), give)
        .add(judge_operation(), Demand::nothing(), judge);
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
#[serde(deny_unknown_fields)]
struct Given {
    review: String,
    item: u32,
    label: Option<String>,
    value: Option<f64>,
    vote: Option<String>,
    #[serde(default)]
    skip: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    link: String,
    label: Option<String>,
    value: Option<f64>,
    vote: Option<String>,
    #[serde(default)]
    skip: bool,
}

fn bool(says: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean).description(Some(says))
}

/// The properties of what is said of an item.
fn said(body: ObjectBuilder) -> ObjectBuilder {
    let number = ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true));
    body.property("label", schema::nullable(schema::string()).description(Some("What class it is.")))
        .property("value", number.description(Some("What number it is, in the place of `label`.")))
        .property("vote", vote_schema())
        .property("skip", bool("Gives the item back without an answer; you are not shown it again."))
}

/// The answer of what was decided.
fn answered_schema() -> RefOr<Schema> {
    let state = schema::one_of(["answered", "skipped"]);
    schema::object([("state", state.into())])
        .property("appended", bool("Whether the outcome is in the log by now. If not, it will be."))
        .property("repeat", bool("Whether the same had been answered before."))
        .property("said", schema::array(schema::component("ReviewedPrediction")))
        .into()
}

fn next_operation() -> Operation {
    let lease = schema::integer(MIN_LEASE_SECONDS as usize..=MAX_LEASE_SECONDS as usize);
    let lease = lease.schema_type(schema::types(&[Type::Integer], true));
    let guest = schema::nullable(schema::name());
    let body = schema::object([("review", schema::name().into())])
        .property(
            "guest",
            guest.description(Some(
                "Takes it for somebody without an account, who is given the link and is known by this name.",
            )),
        )
        .property(
            "lease_seconds",
            lease.description(Some("For how long the item is had, and the link is good.")),
        );
    let example = json!({ "review": "june", "lease_seconds": DEFAULT_LEASE_SECONDS });
    let served = schema::any_of([schema::component("ReviewTask"), null()]);
    Operation::post("/v1/workspaces/{category}/{name}/reviews/next", "next_review_item")
        .tag("reviews")
        .summary("Take the next item of a review")
        .description("In the name of the caller, who has one item of a review at a time: asked for again while it is had, it is the same one, with a new link. Nobody has an item that somebody else has, and nobody is shown the same prediction twice.")
        .body("Of which review.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("The item; null, when none is left.", JSON, schema::object([("item", served)])))
}

fn null() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Null).into()
}

fn answer_operation() -> Operation {
    let item = schema::integer(0..=MAX_ARENA_PAIRS * MAX_PAIR_ITEMS as usize - 1);
    let body = said(schema::object([("review", schema::name().into()), ("item", item.into())]));
    let example = json!({ "review": "june", "item": 0, "label": "1" });
    Operation::post("/v1/workspaces/{category}/{name}/reviews/answers", "answer_review_item")
        .tag("reviews")
        .summary("Answer the item of a review that one has")
        .description("The answer is an outcome of the prediction, or a vote on the pair of an arena, appended once in the name of the caller. The same answer again is a success; another one is a conflict.")
        .body("What it is.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("It is decided.", JSON, answered_schema()))
}

fn judge_operation() -> Operation {
    let link =
        schema::string().description(Some("The link: a secret, which is good for one item and one answer."));
    let body = said(schema::object([("link", link.into())]));
    let shown = schema::object([("item", schema::component("ReviewTask"))]).into();
    Operation::post("/v1/judgements", "judge")
        .tag("reviews")
        .summary("Look at the item of a link, or answer it")
        .description("For somebody without an account. Without an answer it shows the item. The answer is appended in the name of the guest that the link was made for. A link that is not good any more is not found.")
        .body("The link, and what the item is.", [(JSON, content(body, Some(json!({ "link": EXAMPLE_LINK, "label": "1" }))))])
        .answers(StatusCode::OK, answer("The item, or that it is decided.", JSON, schema::any_of([answered_schema(), shown])))
}

/// What a link looks like; it was never given out.
const EXAMPLE_LINK: &str =
    "alj_2NBs0sLBnJxEcoDLgVnQdJkhEgV2NBs0tD5Ihm2PVFzM3kZvMYdQX900070123456789ABCDEFGHIJKLMNOPQRSTUV";

/// What an answer says; nothing, when it gives the item back or only looks.
fn verdict(
    (label, value): (Option<String>, Option<f64>),
    vote: Option<&str>,
    skip: bool,
) -> Result<Option<Verdict>, Error> {
    match (label, value, vote) {
        (None, None, None) => Ok(None),
        (label, value, vote) if !skip => Verdict::read(label, value, vote).map(Some),
        _ => Err(Error::invalid("skip: an item is either given back or answered")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    review: String,
}

async fn delete(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    one: Result<Query<One>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(one) = one.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
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
        let mut told = asked_json(&review, served.number, &served.item);
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
    let given: Given = json_object(&headers, body)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let review = ingest.catalog().review(workspace.id(), &given.review).await?;
    let at =
        ReviewItemId { workspace: workspace.id().clone(), review: review.id.clone(), number: given.item };
    let by = AnsweredBy::Reviewer(current().principal.clone());
    let said = verdict((given.label, given.value), given.vote.as_deref(), given.skip)?;
    let Some(verdict) = said else {
        return match given.skip {
            true => skipped(&ingest, &at, &by).await,
            false => {
                Err(Error::invalid("an answer has a `label`, a `value` or a `vote`, or gives the item back")
                    .into())
            }
        };
    };
    count(&ingest, workspace.id(), &extensions).await?;
    Ok(Json(decided(&ingest, &at, &by, verdict).await?).into_response())
}

async fn judge(
    State(ingest): State<Arc<Ingest>>,
    extensions: Extensions,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let judged: Judged = json_object(&headers, body)?;
    let link = ReviewLink::parse(&judged.link)?;
    let (at, by) = (link.item(), AnsweredBy::Link(link.digest()));
    let said = verdict((judged.label, judged.value), judged.vote.as_deref(), judged.skip)?;
    if let Some(verdict) = said {
        // Who has no good link counts against nobody.
        ingest.catalog().review_standing(at, &by, Some(&verdict), ingest.clock().now()).await?;
        count(&ingest, &at.workspace, &extensions).await?;
        let told = decided(&ingest, at, &by, verdict).await?;
        return Ok(Json(told).into_response());
    }
    if judged.skip {
        return skipped(&ingest, at, &by).await;
    }
    let (review, item) = ingest.asked_by(&link).await?;
    Ok(Json(json!({ "item": asked_json(&review, at.number, &item) })).into_response())
}

/// Counts an answer against the quotas of its workspace and caller, as an append of one row.
async fn count(ingest: &Ingest, workspace: &Id, extensions: &Extensions) -> Result<(), Problem> {
    let charge = charge(ingest, workspace, extensions).await?;
    Ok(ingest.quotas.take(&charge, Amounts { requests: 1, rows: 1, bytes: 0 }).await?)
}

async fn decided(
    ingest: &Ingest,
    at: &ReviewItemId,
    by: &AnsweredBy,
    verdict: Verdict,
) -> Result<Value, Problem> {
    let answered = ingest.answer(at, by, verdict).await?;
    Ok(answered_json(&answered.item, answered.is_appended, answered.is_repeat))
}

async fn skipped(ingest: &Ingest, at: &ReviewItemId, by: &AnsweredBy) -> Result<Response, Problem> {
    ingest.catalog().give_back(at, by, ingest.clock().now()).await?;
    Ok(Json(json!({ "state": "skipped" })).into_response())
}
