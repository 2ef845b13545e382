//! Reviews over HTTP: their operations, as the document describes them, and their JSON. The query service makes and shows reviews,
//! since it reads what they are picked from; the append service serves items and takes answers.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use event::{Day, Timestamp};
use serde_json::{Value, json};
use web::{
    Operation, answer, content,
    openapi::{
        RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn},
        schema::ObjectBuilder,
    },
    parameter, schema,
};

use super::api::JSON;
use crate::{
    DEFAULT_LEASE_SECONDS, MAX_ARENA_JUDGES, MAX_ARENA_PAIRS, MAX_ARENA_RELEASES, MAX_ARENA_TAGS,
    MAX_LEASE_SECONDS, MAX_PAIR_ITEMS, MAX_REVIEW_ITEMS, MAX_REVIEW_LABELS, MIN_LEASE_SECONDS, Review,
    ReviewItem, ReviewPolicy, Vote,
};

/// An example of a link, which was never given out.
const EXAMPLE_LINK: &str =
    "alj_2NBs0sLBnJxEcoDLgVnQdJkhEgV2NBs0tD5Ihm2PVFzM3kZvMYdQX900070123456789ABCDEFGHIJKLMNOPQRSTUV";

fn path(rest: &str) -> String {
    format!("/v1/workspaces/{{category}}/{{name}}/reviews{rest}")
}

fn said(schema: ObjectBuilder, says: &str) -> RefOr<Schema> {
    schema.description(Some(says)).into()
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true))
}

fn whole(most: u32, default: Option<u32>) -> ObjectBuilder {
    let schema = schema::integer(1..=most as usize);
    match default {
        Some(default) => schema.default(Some(json!(default))),
        None => schema.schema_type(schema::types(&[Type::Integer], true)),
    }
}

fn policy() -> ObjectBuilder {
    schema::string().enum_values(Some(ReviewPolicy::ALL.map(|policy| json!(policy))))
}

fn text() -> ObjectBuilder {
    schema::nullable(schema::string())
}

fn texts() -> RefOr<Schema> {
    schema::array(schema::string()).into()
}

/// Properties of one schema.
fn all(schema: impl Fn() -> ObjectBuilder, names: &[&'static str]) -> Vec<(&'static str, RefOr<Schema>)> {
    names.iter().map(|name| (*name, schema().into())).collect()
}

fn query(name: &str, schema: ObjectBuilder, example: &str, says: &str) -> ParameterBuilder {
    parameter(ParameterIn::Query, name, schema, says).example(Some(json!(example)))
}

fn body(operation: Operation, schema: impl Into<RefOr<Schema>>, example: Value) -> Operation {
    operation.body("What it asks for.", [(JSON, content(schema, Some(example)))])
}

fn ok(operation: Operation, says: &str, schema: impl Into<RefOr<Schema>>) -> Operation {
    operation.answers(StatusCode::OK, answer(says, JSON, schema))
}

/// The operation that makes a review.
pub fn create_review() -> Operation {
    let name = || schema::nullable(schema::name());
    let names = |most, says: &str| {
        schema::array(schema::name()).max_items(Some(most)).unique_items(true).description(Some(says))
    };
    let labels = schema::array(schema::string()).max_items(Some(MAX_REVIEW_LABELS)).unique_items(true);
    let asked = schema::object([
        ("name", schema::name().into()),
        ("from", schema::day().into()),
        ("to", schema::day().into()),
    ])
    .property("policy", policy().default(Some(json!(ReviewPolicy::default()))))
    .property("n", said(whole(MAX_REVIEW_ITEMS, None), "How many predictions are picked at most, 100 by default; with the policy `pairs` of each pair, 100 by the number of judges."))
    .property("seed", schema::integer(0..=u32::MAX as usize).default(Some(json!(0))))
    .property("model", said(name(), "Only predictions of releases of this model."))
    .property("release", said(name(), "Only predictions of this release."))
    .property("by", said(name(), "With the policy `segment`: the tag of which each value is picked alike."))
    .property("labels", labels)
    .property("with_outcomes", said(schema::boolean(), "Whether predictions are picked as well that have an outcome; with the policy `pairs` they are."))
    .property("releases", names(MAX_ARENA_RELEASES, "With the policy `pairs`: the releases that are compared; those that are live, when none is named."))
    .property("judges", said(whole(MAX_ARENA_JUDGES, Some(1)), "With the policy `pairs`: how many people judge the same."))
    .property("tags", names(MAX_ARENA_TAGS, "With the policy `pairs`: the tags that are shown; all, when none is named."));
    let example = json!({ "name": "june", "from": "2026-06-01", "to": "2026-06-01", "n": 50, "seed": 7, "with_outcomes": true });
    let operation = Operation::post(path(""), "create_review")
        .tag("reviews")
        .summary("Make a review: predictions that people are to judge")
        .description("The items are picked now and written down: the same events, words and seed give the same items in the same order.")
        .answers(StatusCode::CREATED, answer("The review.", JSON, schema::component("Review")));
    body(operation, asked, example)
}

/// The operation that lists reviews.
pub fn list_reviews() -> Operation {
    let reviews = schema::array(schema::component("Review"));
    let says = "Only this one, with how many of its items are answered.";
    let operation = Operation::get(path(""), "list_reviews")
        .tag("reviews")
        .summary("List the reviews of a workspace")
        .takes(query("review", schema::name(), "june", says));
    ok(operation, "The reviews, by name.", schema::object([("reviews", reviews.into())]))
}

/// The operation that lists the items of a review.
pub fn review_items() -> Operation {
    let by = said(text(), "Who answered it; null as long as nobody has.");
    let item = schema::object(given_fields()).property("answered_by", by);
    let operation = Operation::get(path("/items"), "review_items")
        .tag("reviews")
        .summary("List the items of a review, with their answers")
        .takes(query("review", schema::name(), "june", "The review.").required(Required::True));
    ok(operation, "The items, in their order.", schema::object([("items", schema::array(item).into())]))
}

/// The operation that deletes a review. The append service answers it, since it writes.
pub fn delete_review() -> Operation {
    Operation::delete(path(""), "delete_review")
        .tag("reviews")
        .summary("Delete a review")
        .description("Its items are served no more.")
        .takes(query("review", schema::name(), "june", "The review.").required(Required::True))
        .answers(StatusCode::NO_CONTENT, web::openapi::Response::new("It is deleted."))
}

/// The operation that picks more for an arena.
pub fn refresh_arena() -> Operation {
    let to =
        said(schema::nullable(schema::day()), "The last day that is read; that of the arena by default.");
    let asked = schema::object([("review", schema::name().into())]).property("to", to);
    let operation = Operation::post(path("/refresh"), "refresh_arena")
        .tag("reviews")
        .summary("Pick more for an arena: pairs of releases that are live now, and predictions of later days")
        .description("What was picked before stays. A pair gets up to `n` keys more, until it has 100 items; an arena has at most 100 pairs.");
    let operation = body(operation, asked, json!({ "review": "duel", "to": "2026-06-01" }));
    ok(operation, "The arena.", schema::component("Review"))
}

/// The operation that ranks the releases of an arena.
pub fn rank_arena() -> Operation {
    let as_of = "As it was known at this time, an instant or a day that stands for its beginning: read from the votes in the log.";
    let operation = Operation::get(path("/ranking"), "rank_arena")
        .tag("reviews")
        .summary("Rank the releases of an arena by its votes")
        .takes(query("review", schema::name(), "duel", "The arena.").required(Required::True))
        .takes(query("as-of", schema::string(), "2026-06-02", as_of));
    ok(operation, "The ranking.", schema::component("ArenaRanking"))
}

/// The operation that serves the next item.
pub fn next_review_item() -> Operation {
    let lease = schema::integer(MIN_LEASE_SECONDS as usize..=MAX_LEASE_SECONDS as usize)
        .schema_type(schema::types(&[Type::Integer], true));
    let guest = "Takes it for somebody without an account, who is given the link and is known by this name.";
    let asked = schema::object([("review", schema::name().into())])
        .property("guest", said(schema::nullable(schema::name()), guest))
        .property("lease_seconds", said(lease, "For how long the item is had, and the link is good."));
    let null = ObjectBuilder::new().schema_type(Type::Null).into();
    let served = schema::any_of([schema::component("ReviewTask"), null]);
    let operation = Operation::post(path("/next"), "next_review_item")
        .tag("reviews")
        .summary("Take the next item of a review")
        .description("In the name of the caller, who has one item of a review at a time: asked for again while it is had, it is the same one, with a new link.");
    let operation =
        body(operation, asked, json!({ "review": "june", "lease_seconds": DEFAULT_LEASE_SECONDS }));
    ok(operation, "The item; null, when none is left.", schema::object([("item", served)]))
}

/// Adds the properties of a verdict to a body.
fn with_verdict(body: ObjectBuilder) -> ObjectBuilder {
    let votes = Vote::ALL.map(|vote| json!(vote)).into_iter().chain([Value::Null]);
    let vote = text().enum_values(Some(votes));
    body.property("label", said(text(), "What class it is."))
        .property("value", said(number(), "What number it is, in the place of `label`."))
        .property("vote", said(vote, "Of an arena: which side is better."))
        .property(
            "skip",
            said(schema::boolean(), "Gives the item back without an answer; you are not shown it again."),
        )
}

/// The result of an answer.
fn decided() -> RefOr<Schema> {
    schema::object([("state", schema::one_of(["answered", "skipped"]).into())])
        .property(
            "appended",
            said(schema::boolean(), "Whether the outcome is in the log by now. If not, it will be."),
        )
        .property("repeat", said(schema::boolean(), "Whether the same had been answered before."))
        .property("said", schema::array(schema::component("ReviewedPrediction")))
        .into()
}

/// The operation that answers an item.
pub fn answer_review_item() -> Operation {
    let item = schema::integer(0..=(MAX_ARENA_PAIRS * MAX_PAIR_ITEMS) as usize - 1);
    let asked = with_verdict(schema::object([("review", schema::name().into()), ("item", item.into())]));
    let operation = Operation::post(path("/answers"), "answer_review_item")
        .tag("reviews")
        .summary("Answer the item of a review that one has")
        .description("The answer is an outcome of the prediction, or a vote on the pair of an arena, appended once in the name of the caller. The same answer again is a success; another one is a conflict.");
    let operation = body(operation, asked, json!({ "review": "june", "item": 0, "label": "1" }));
    ok(operation, "It is decided.", decided())
}

/// The operation of a link.
pub fn judge() -> Operation {
    let link = said(schema::string(), "The link: a secret, which is good for one item and one answer.");
    let shown = schema::object([("item", schema::component("ReviewTask"))]).into();
    let operation = Operation::post("/v1/judgements", "judge")
        .tag("reviews")
        .summary("Look at the item of a link, or answer it")
        .description("For somebody without an account. Without an answer it shows the item. The answer is appended in the name of the guest that the link was made for. A link that is not good any more is not found.");
    let asked = with_verdict(schema::object([("link", link)]));
    let operation = body(operation, asked, json!({ "link": EXAMPLE_LINK, "label": "1" }));
    ok(operation, "The item, or that it is decided.", schema::any_of([decided(), shown]))
}

/// The fields of an item as it was answered, if it was.
fn given_fields() -> Vec<(&'static str, RefOr<Schema>)> {
    let predictions = schema::array(schema::component("ReviewedPrediction")).into();
    let answered_at = schema::nullable(schema::time()).into();
    let given = [
        all(schema::id, &["review_id"]),
        all(schema::count, &["item"]),
        all(schema::string, &["key"]),
        all(schema::time, &["predicted_at"]),
        all(text, &["label", "vote"]),
        all(number, &["value"]),
        vec![("answered_at", answered_at), ("said", predictions)],
    ];
    given.concat()
}

/// The operation that shows what a reviewer answered.
pub fn reviewed_answers() -> Operation {
    let agree = said(schema::count(), "How often the release had said the same label.");
    let differ = said(schema::count(), "How often it had said another one.");
    let own = vec![("agree", agree), ("differ", differ)];
    let release = [all(schema::name, &["release"]), all(schema::count, &["answers"]), own].concat();
    let day = [all(schema::day, &["day"]), all(schema::count, &["answers"])].concat();
    let rows = |row| schema::array(schema::object(row)).into();
    let results = [
        all(schema::string, &["reviewer"]),
        all(schema::day, &["from", "to"]),
        vec![("releases", rows(release)), ("days", rows(day)), ("answers", rows(given_fields()))],
    ];
    let operation = Operation::get(path("/answers"), "reviewed_answers")
        .tag("reviews")
        .summary("Show what a reviewer answered, and how often releases had said the same")
        .takes(query(
            "reviewer",
            schema::string(),
            "local:ann",
            "Whose answers; those of the caller by default.",
        ))
        .takes(query(
            "from",
            schema::day(),
            "2026-06-01",
            "The first day; by default so that they are seven.",
        ))
        .takes(query("to", schema::day(), "2026-06-01", "The last day; today by default."));
    ok(operation, "The answers, the first ones first.", schema::object(results.concat()))
}

/// Makes the schemas that the operations refer to.
pub fn review_schemas() -> [(&'static str, RefOr<Schema>); 4] {
    let tags = "Of an arena: the tags that are not on both sides.";
    let prediction = [
        all(text, &["label"]),
        all(number, &["score", "value"]),
        vec![("tags", said(schema::map(None, schema::string()), tags))],
    ];
    let prediction = prediction.concat();
    let sides = schema::array(schema::object(prediction.clone())).min_items(Some(2)).max_items(Some(2));
    let sides = sides.description(Some("Of an arena: what the left and the right release predicted."));
    let link = "The secret by which somebody without an account can judge it, once.";
    let until = said(schema::time(), "Up to when it may be answered.");
    let task = [
        all(schema::name, &["review"]),
        all(schema::count, &["item"]),
        all(schema::string, &["key"]),
        all(schema::time, &["predicted_at"]),
        all(|| schema::map(None, schema::string()), &["tags"]),
        vec![("labels", texts()), ("until", until)],
    ];
    let task = schema::object(task.concat()).property("sides", sides);
    let task = task.property("link", said(schema::string(), link));
    let reviewed = schema::object([prediction, all(schema::name, &["release"])].concat());
    [
        ("Review", review_schema()),
        ("ReviewTask", task.into()),
        ("ReviewedPrediction", reviewed.into()),
        ("ArenaRanking", ranking_schema()),
    ]
}

fn review_schema() -> RefOr<Schema> {
    let appended = "Of how many of those the outcome is noted as appended; of one review.";
    let review = [
        all(schema::id, &["id"]),
        all(schema::name, &["name"]),
        all(schema::day, &["from", "to"]),
        all(policy, &["policy"]),
        all(schema::count, &["n", "seed", "judges", "items"]),
        all(text, &["model", "release", "by"]),
        all(schema::boolean, &["with_outcomes"]),
        all(schema::string, &["created_by"]),
        all(schema::time, &["created_at", "expires_at"]),
        vec![("labels", texts()), ("releases", texts()), ("tags", texts())],
    ];
    schema::object(review.concat())
        .property("answered", said(schema::count(), "How many of the items are answered; of one review."))
        .property("appended", said(schema::count(), appended))
        .into()
}

fn ranking_schema() -> RefOr<Schema> {
    let record = || all(schema::count, &["wins", "losses", "ties"]);
    let strength = "The logarithm of its odds against the mean of all that have votes; null without a vote.";
    let own = vec![
        ("strength", said(number(), strength)),
        ("lower", said(number(), "The lower end of the 95 percent interval.")),
        ("upper", said(number(), "The upper end.")),
    ];
    let release = schema::object([all(schema::name, &["release"]), record(), own].concat());
    let pair = schema::object([all(schema::name, &["release", "against"]), record()].concat())
        .property("items", said(schema::count(), "How many items the pair has; not as of a time."))
        .property("live", said(schema::boolean(), "Whether both releases are live; not as of a time."));
    let connected = "Whether each release won against each other one, directly or over others. Where not, how far some are apart rests on the prior alone.";
    let ranking = [
        all(schema::name, &["review"]),
        all(|| schema::nullable(schema::time()), &["as_of"]),
        all(schema::count, &["votes"]),
        vec![
            ("connected", said(schema::boolean(), connected)),
            ("releases", schema::array(release).description(Some("The strongest first.")).into()),
            ("pairs", schema::array(pair).into()),
        ],
    ];
    schema::object(ranking.concat()).into()
}

/// A review as JSON, with how many of its items are answered and how many of those are appended, when that is known.
pub fn review_json(review: &Review, progress: Option<[usize; 2]>) -> Value {
    let mut told = json!(review);
    let expires_at = Timestamp::from_micros(review.expires_at.saturating_mul(1_000_000));
    told["expires_at"] = json!(expires_at.unwrap_or_default());
    if let Some([answered, appended]) = progress {
        told["answered"] = answered.into();
        told["appended"] = appended.into();
    }
    told
}

/// An item as its reviewer is shown it: without what releases said, and in an arena without their names.
pub fn asked_json(review: &Review, item: &ReviewItem) -> Value {
    let mut told = json!({
        "review": review.name,
        "item": item.id.number,
        "key": item.key,
        "predicted_at": item.predicted_at,
        "tags": item.tags,
        "labels": review.spec.labels,
        "until": item.lease.as_ref().map(|lease| lease.until),
    });
    if item.is_pair {
        let mut sides = json!(item.said);
        let all = sides.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        all.for_each(|side| _ = side.remove("release"));
        told["sides"] = sides;
    }
    told
}

/// An item that was answered, with what releases had said.
pub fn answered_json(item: &ReviewItem, is_appended: bool, is_repeat: bool) -> Value {
    json!({ "state": "answered", "appended": is_appended, "repeat": is_repeat, "said": item.said })
}

/// An item as its reviewer answered it.
pub fn given_json(item: &ReviewItem) -> Value {
    let answer = json!(item.answer);
    json!({
        "review_id": item.id.review,
        "item": item.id.number,
        "key": item.key,
        "predicted_at": item.predicted_at,
        "answered_at": answer["at"],
        "label": answer["label"],
        "value": answer["value"],
        "vote": answer["vote"],
        "said": item.said,
    })
}

/// The results of some answered items: by release, and how many there were on each day.
pub fn results_json(items: &[ReviewItem]) -> (Vec<Value>, Vec<Value>) {
    let mut releases = BTreeMap::<&str, [u64; 3]>::new();
    let mut days = BTreeMap::<Day, u64>::new();
    for (item, answer) in items.iter().filter_map(|item| Some((item, item.answer.as_ref()?))) {
        *days.entry(answer.at.day()).or_default() += 1;
        // A release may have predicted the same once more at the same instant; the last one counts, and is alone here.
        let distinct: BTreeSet<&str> = item.said.iter().map(|said| said.release.as_str()).collect();
        distinct.into_iter().for_each(|release| releases.entry(release).or_default()[0] += 1);
        for said in &item.said {
            if let Some(agrees) = answer.verdict.agrees(said) {
                releases.entry(&said.release).or_default()[if agrees { 1 } else { 2 }] += 1;
            }
        }
    }
    let releases = releases.into_iter().map(|(release, [answers, agree, differ])| {
        json!({ "release": release, "answers": answers, "agree": agree, "differ": differ })
    });
    let days = days.into_iter().map(|(day, answers)| json!({ "day": day, "answers": answers }));
    (releases.collect(), days.collect())
}
