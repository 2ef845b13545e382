//! Arenas over HTTP, as the document describes them: what they have besides reviews.

use axum::http::StatusCode;
use serde_json::{Value, json};
use web::{
    Operation, answer, content,
    openapi::{RefOr, Required, Schema, Type, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::{
    api::JSON,
    review::{boolean, number},
};
use crate::{ArenaPair, MAX_ARENA_JUDGES, MAX_ARENA_RELEASES, MAX_ARENA_TAGS, ReviewItem, ReviewSpec, Vote};

/// The properties of a new review that are of an arena.
pub(super) fn of_arena(body: ObjectBuilder) -> ObjectBuilder {
    let names = |most, says: &str| {
        schema::array(schema::name()).max_items(Some(most)).unique_items(true).description(Some(says))
    };
    let judges = schema::integer(1..=MAX_ARENA_JUDGES as usize);
    let judges = judges.schema_type(schema::types(&[Type::Integer], true));
    body.property(
        "releases",
        names(MAX_ARENA_RELEASES, "With the policy `pairs`: the releases that are compared; those that are live, when none is named."),
    )
    .property("judges", judges.description(Some("With the policy `pairs`: how many people judge the same; 1 by default.")))
    .property("tags", names(MAX_ARENA_TAGS, "With the policy `pairs`: the tags that are shown; all, when none is named."))
}

/// The same properties of one that was made.
pub(super) fn arena_properties(review: ObjectBuilder) -> ObjectBuilder {
    review
        .property(
            "releases",
            schema::array(schema::name()).description(Some("Of an arena: the releases that it names.")),
        )
        .property("judges", schema::count().description(Some("Of an arena: how many people judge the same.")))
        .property(
            "tags",
            schema::array(schema::name()).description(Some("Of an arena: the tags that it shows.")),
        )
}

/// An arena as JSON, besides what a review has.
pub(super) fn with_arena(mut told: Value, spec: &ReviewSpec) -> Value {
    if let Some(arena) = &spec.arena {
        told["releases"] = json!(arena.releases);
        told["judges"] = arena.judges.into();
        told["tags"] = json!(arena.tags);
    }
    told
}

/// The two sides of an item of an arena, without names.
pub(super) fn sides_schema() -> RefOr<Schema> {
    let side = schema::object([
        ("label", schema::nullable(schema::string()).into()),
        ("score", number().into()),
        ("value", number().into()),
        ("tags", schema::map(None, schema::string()).into()),
    ]);
    let says =
        "Of an arena: what the left and the right release predicted, and the tags that are not on both.";
    schema::array(side).min_items(Some(2)).max_items(Some(2)).description(Some(says)).into()
}

/// The same as JSON; `None`, of an item that is not of an arena.
pub(super) fn sides_json(item: &ReviewItem) -> Option<Value> {
    let sides = item.sides.as_ref()?;
    let side = |(said, tags): (&crate::PredictionSaid, _)| json!({ "label": said.label, "score": said.score, "value": said.value, "tags": tags });
    Some(item.said.iter().zip(sides).map(side).collect())
}

/// What a vote may be.
pub fn vote_schema() -> ObjectBuilder {
    let vote = schema::one_of(Vote::ALL.map(Vote::name)).schema_type(schema::types(&[Type::String], true));
    let all = Vote::ALL.map(Vote::name).map(Value::from).into_iter().chain([Value::Null]);
    vote.enum_values(Some(all)).description(Some("Of an arena: which side is better."))
}

/// The operation that picks more pairs of an arena. The query service's reader answers it, since it reads what they are picked from.
pub fn refresh_arena() -> Operation {
    let day = schema::day().schema_type(schema::types(&[Type::String], true));
    let body = schema::object([("review", schema::name().into())])
        .property("to", day.description(Some("The last day that is read; that of the arena by default.")));
    let example = json!({ "review": "duel", "to": "2026-06-01" });
    Operation::post("/v1/workspaces/{category}/{name}/reviews/refresh", "refresh_arena")
        .tag("reviews")
        .summary("Pick more for an arena: pairs of releases that are live now, and predictions of later days")
        .description("What was picked before stays. A pair gets up to `n` keys more, until it has 100 items; an arena has at most 100 pairs.")
        .body("Which arena.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("The arena.", JSON, schema::component("Review")))
}

/// The operation that ranks the releases of an arena.
pub fn rank_arena() -> Operation {
    let name =
        parameter(ParameterIn::Query, "review", schema::name(), "The arena.").example(Some(json!("duel")));
    let as_of = "As it was known at this time, an instant or a day that stands for its beginning: read from the votes in the log.";
    Operation::get("/v1/workspaces/{category}/{name}/reviews/ranking", "rank_arena")
        .tag("reviews")
        .summary("Rank the releases of an arena by its votes")
        .takes(name.required(Required::True))
        .takes(
            parameter(ParameterIn::Query, "as-of", schema::string(), as_of)
                .example(Some(json!("2026-06-02"))),
        )
        .answers(StatusCode::OK, answer("The ranking.", JSON, schema::component("ArenaRanking")))
}

/// What the ranking is.
pub(super) fn ranking_schema() -> RefOr<Schema> {
    let count = || -> RefOr<Schema> { schema::count().into() };
    let end = |says: &str| number().description(Some(says));
    let release = schema::object([
        ("release", schema::name().into()),
        ("wins", count()),
        ("losses", count()),
        ("ties", count()),
        (
            "strength",
            end("The logarithm of its odds against the mean of all that have votes; null without a vote.")
                .into(),
        ),
        ("lower", end("The lower end of the 95 percent interval.").into()),
        ("upper", end("The upper end.").into()),
    ]);
    let pair = schema::object([
        ("release", schema::name().into()),
        ("against", schema::name().into()),
        ("wins", count()),
        ("losses", count()),
        ("ties", count()),
    ])
    .property("items", schema::count().description(Some("How many items the pair has; not as of a time.")))
    .property("live", boolean("Whether both releases are live; not as of a time."));
    schema::object([
        ("review", schema::name().into()),
        ("votes", count()),
        ("connected", boolean("Whether each release won against each other one, directly or over others. Where not, how far some are apart rests on the prior alone.").into()),
        ("releases", schema::array(release).description(Some("The strongest first.")).into()),
        ("pairs", schema::array(pair).into()),
    ])
    .property("as_of", schema::nullable(schema::time()))
    .into()
}

/// A pair of an arena as JSON.
pub fn pair_json(pair: &ArenaPair, is_live: bool) -> Value {
    let [release, against] = &pair.releases;
    json!({
        "release": release, "against": against, "wins": pair.wins[0], "losses": pair.wins[1], "ties": pair.ties,
        "items": pair.items, "live": is_live,
    })
}
