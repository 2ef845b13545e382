//! Reviews over HTTP, as the document describes them. The query service makes and shows reviews, since it reads what they are picked
//! from; the append service takes answers.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use event::{Day, Timestamp};
use serde_json::{Value, json};
use web::{
    Operation, answer, content,
    openapi::{RefOr, Required, Schema, Type, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::{
    api::JSON,
    arena::{arena_properties, of_arena, ranking_schema, sides_json, sides_schema, with_arena},
};
use crate::{
    GivenAnswer, MAX_REVIEW_ITEMS, MAX_REVIEW_LABELS, PredictionSaid, Review, ReviewItem, ReviewPolicy,
    Verdict,
};

/// The operation that makes a review. The query service's reader answers it, since it reads what items are picked from.
pub fn create_review() -> Operation {
    let nullable = |schema: ObjectBuilder, says: &str| {
        schema.schema_type(schema::types(&[Type::String], true)).description(Some(says))
    };
    let whole = |most: usize, default: u32, says: &str| {
        let schema = schema::integer(1..=most).default(Some(json!(default)));
        schema.description(Some(says))
    };
    let policies = schema::one_of(ReviewPolicy::ALL.map(ReviewPolicy::name));
    let body = schema::object([
        ("name", schema::name().into()),
        ("from", schema::day().into()),
        ("to", schema::day().into()),
    ])
    .property("policy", policies.default(Some(json!(ReviewPolicy::Random.name()))))
    .property("n", whole(MAX_REVIEW_ITEMS, 100, "How many predictions are picked at most; with the policy `pairs` of each pair, at most 100 by the number of judges."))
    .property("seed", schema::integer(0..=u32::MAX as usize).default(Some(json!(0))))
    .property("model", nullable(schema::name(), "Only predictions of releases of this model."))
    .property("release", nullable(schema::name(), "Only predictions of this release."))
    .property(
        "by",
        nullable(schema::name(), "With the policy `segment`: the tag of which each value is picked alike."),
    )
    .property("labels", schema::array(schema::string()).max_items(Some(MAX_REVIEW_LABELS)).unique_items(true))
    .property("with_outcomes", boolean("Whether predictions are picked as well that have an outcome; with the policy `pairs` they are."));
    let body = of_arena(body);
    let example = json!({ "name": "june", "from": "2026-06-01", "to": "2026-06-01", "n": 50, "seed": 7, "with_outcomes": true });
    Operation::post("/v1/workspaces/{category}/{name}/reviews", "create_review")
        .tag("reviews")
        .summary("Make a review: predictions that people are to judge")
        .description("The items are picked now and written down: the same events, words and seed give the same items in the same order. Made again with the same words it is the one that is there.")
        .body("What it asks for.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::CREATED, answer("The review.", JSON, schema::component("Review")))
}

pub(super) fn boolean(says: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean).description(Some(says))
}

pub(super) fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true))
}

fn name(says: &str) -> web::openapi::path::ParameterBuilder {
    parameter(ParameterIn::Query, "review", schema::name(), says).example(Some(json!("june")))
}

/// The operation that lists reviews.
pub fn list_reviews() -> Operation {
    let reviews = schema::array(schema::component("Review"));
    Operation::get("/v1/workspaces/{category}/{name}/reviews", "list_reviews")
        .tag("reviews")
        .summary("List the reviews of a workspace")
        .takes(name("Only this one, with how many of its items are answered."))
        .answers(
            StatusCode::OK,
            answer("The reviews, by name.", JSON, schema::object([("reviews", reviews.into())])),
        )
}

/// The operation that deletes a review. The append service answers it, since it writes.
pub fn delete_review() -> Operation {
    Operation::delete("/v1/workspaces/{category}/{name}/reviews", "delete_review")
        .tag("reviews")
        .summary("Delete a review")
        .description("Its items are served no more. Outcomes that were appended stay. One that is not there is deleted already.")
        .takes(name("The review.").required(Required::True))
        .answers(StatusCode::NO_CONTENT, web::openapi::Response::new("It is deleted."))
}

/// The operation that shows what a reviewer answered.
pub fn reviewed_answers() -> Operation {
    let day = |name: &str, says: &str| {
        parameter(ParameterIn::Query, name, schema::day(), says).example(Some(json!("2026-06-01")))
    };
    Operation::get("/v1/workspaces/{category}/{name}/reviews/answers", "reviewed_answers")
        .tag("reviews")
        .summary("Show what the caller answered, and how often releases had said the same")
        .takes(day("from", "The first day; by default so that they are seven."))
        .takes(day("to", "The last day; today by default."))
        .answers(StatusCode::OK, answer("The answers, the first ones first.", JSON, results_schema()))
}

fn results_schema() -> RefOr<Schema> {
    let text = || -> RefOr<Schema> { schema::string().into() };
    let given = schema::object([
        ("review_id", schema::id().into()),
        ("item", schema::count().into()),
        ("key", text()),
        ("predicted_at", schema::time().into()),
        ("answered_at", schema::time().into()),
        ("label", schema::nullable(schema::string()).into()),
        ("value", number().into()),
        ("vote", schema::nullable(schema::string()).into()),
        ("said", schema::array(schema::component("ReviewedPrediction")).into()),
    ]);
    let release = schema::object([
        ("release", schema::name().into()),
        ("answers", schema::count().into()),
        ("agree", schema::count().description(Some("How often the release had said the same label.")).into()),
        ("differ", schema::count().description(Some("How often it had said another one.")).into()),
    ]);
    let day = schema::object([("day", schema::day().into()), ("answers", schema::count().into())]);
    schema::object([
        ("reviewer", text()),
        ("from", schema::day().into()),
        ("to", schema::day().into()),
        ("releases", schema::array(release).into()),
        ("days", schema::array(day).into()),
        ("answers", schema::array(given).into()),
    ])
    .into()
}

/// What the operations refer to.
pub fn review_schemas() -> [(&'static str, RefOr<Schema>); 4] {
    [
        ("Review", review_schema()),
        ("ReviewTask", task_schema()),
        ("ReviewedPrediction", said_schema()),
        ("ArenaRanking", ranking_schema()),
    ]
}

fn review_schema() -> RefOr<Schema> {
    let text = || schema::nullable(schema::string());
    let count = |says: &str| schema::count().description(Some(says));
    let review = schema::object([
        ("id", schema::id().into()),
        ("name", schema::name().into()),
        ("model", text().into()),
        ("release", text().into()),
        ("from", schema::day().into()),
        ("to", schema::day().into()),
        ("policy", schema::one_of(ReviewPolicy::ALL.map(ReviewPolicy::name)).into()),
        ("by", text().into()),
        ("n", schema::count().into()),
        ("seed", schema::count().into()),
        ("labels", schema::array(schema::string()).into()),
        ("with_outcomes", ObjectBuilder::new().schema_type(Type::Boolean).into()),
        ("items", count("How many items it has.").into()),
        ("created_at", schema::time().into()),
        ("created_by", schema::string().into()),
        ("expires_at", schema::time().into()),
    ])
    .property("answered", count("How many of the items are answered; of one review."))
    .property("appended", count("Of how many of those the outcome is noted as appended; of one review."));
    arena_properties(review).into()
}

fn task_schema() -> RefOr<Schema> {
    schema::object([
        ("review", schema::name().into()),
        ("item", schema::count().into()),
        ("key", schema::string().into()),
        ("predicted_at", schema::time().into()),
        ("tags", schema::map(None, schema::string()).into()),
        ("labels", schema::array(schema::string()).into()),
        ("until", schema::time().description(Some("Up to when it may be answered.")).into()),
    ])
    .property("sides", sides_schema())
    .property(
        "link",
        schema::string()
            .description(Some("The secret by which somebody without an account can judge it, once.")),
    )
    .into()
}

fn said_schema() -> RefOr<Schema> {
    schema::object([
        ("release", schema::name().into()),
        ("label", schema::nullable(schema::string()).into()),
        ("score", number().into()),
        ("value", number().into()),
    ])
    .into()
}

/// A review as JSON.
pub fn review_json(review: &Review) -> Value {
    let spec = &review.spec;
    let expires_at = Timestamp::from_micros(review.expires_at.saturating_mul(1_000_000));
    let told = json!({
        "id": review.id.as_str(),
        "name": review.name,
        "model": spec.model,
        "release": spec.release,
        "from": spec.window.from().to_string(),
        "to": spec.window.to().to_string(),
        "policy": spec.policy.name(),
        "by": spec.by,
        "n": spec.n,
        "seed": spec.seed,
        "labels": spec.labels,
        "with_outcomes": spec.with_outcomes,
        "items": review.items,
        "created_at": review.created_at.to_string(),
        "created_by": review.created_by,
        "expires_at": expires_at.unwrap_or_default().to_string(),
    });
    with_arena(told, spec)
}

/// The same, with how many of its items are answered.
pub fn reviewed_json(review: &Review, items: &[(u32, ReviewItem)]) -> Value {
    let answers = || items.iter().filter_map(|(_, item)| item.answer.as_ref());
    let mut told = review_json(review);
    told["answered"] = answers().count().into();
    told["appended"] = answers().filter(|answer| answer.is_appended).count().into();
    told
}

/// What a reviewer is shown of an item: what releases said is not part of it, and of an arena which releases they are.
pub fn asked_json(review: &Review, number: u32, item: &ReviewItem) -> Value {
    let mut told = json!({
        "review": review.name,
        "item": number,
        "key": item.key,
        "predicted_at": item.predicted_at.to_string(),
        "tags": item.tags,
        "labels": review.spec.labels,
        "until": item.lease.as_ref().map(|lease| lease.until.to_string()),
    });
    if let Some(sides) = sides_json(item) {
        told["sides"] = sides;
    }
    told
}

/// An item that was answered, with what releases had said.
pub fn answered_json(item: &ReviewItem, is_appended: bool, is_repeat: bool) -> Value {
    let said: Vec<Value> = item.said.iter().map(said_json).collect();
    json!({ "state": "answered", "appended": is_appended, "repeat": is_repeat, "said": said })
}

fn said_json(said: &PredictionSaid) -> Value {
    json!({ "release": said.release, "label": said.label, "score": said.score, "value": said.value })
}

/// An answer that a reviewer gave.
pub fn given_json(given: &GivenAnswer) -> Value {
    let (label, value, vote) = match &given.verdict {
        Verdict::Label(label) => (Some(label), None, None),
        Verdict::Value(value) => (None, Some(value), None),
        Verdict::Vote(vote) => (None, None, Some(vote.name())),
    };
    json!({
        "review_id": given.item.review.as_str(),
        "item": given.item.number,
        "key": given.key,
        "predicted_at": given.predicted_at.to_string(),
        "answered_at": given.at.to_string(),
        "label": label,
        "value": value,
        "vote": vote,
        "said": given.said.iter().map(said_json).collect::<Vec<_>>(),
    })
}

/// The results of some answers: by release, and how many there were on each day.
pub fn results_json(answers: &[GivenAnswer]) -> (Vec<Value>, Vec<Value>) {
    let mut releases = BTreeMap::<&str, [u64; 3]>::new();
    let mut days = BTreeMap::<Day, u64>::new();
    for given in answers {
        *days.entry(given.at.day()).or_default() += 1;
        // A release may have predicted the same once more at the same instant; the last one counts, and is alone here.
        let distinct: BTreeSet<&str> = given.said.iter().map(|said| said.release.as_str()).collect();
        for release in distinct {
            releases.entry(release).or_default()[0] += 1;
        }
        for said in &given.said {
            match given.verdict.agrees(said) {
                Some(true) => releases.entry(&said.release).or_default()[1] += 1,
                Some(false) => releases.entry(&said.release).or_default()[2] += 1,
                None => {}
            }
        }
    }
    let releases = releases.into_iter().map(|(release, [answers, agree, differ])| {
        json!({ "release": release, "answers": answers, "agree": agree, "differ": differ })
    });
    let days = days.into_iter().map(|(day, answers)| json!({ "day": day.to_string(), "answers": answers }));
    (releases.collect(), days.collect())
}
