//! The digest of a user over HTTP: what happened lately in what the user follows.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use web::{
    Operation, Problem, answer,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::{
    api::JSON,
    follow::{InPath, InSight, in_sight, user, user_of},
};
use crate::{MAX_DIGEST_ALERTS, MAX_DIGEST_RELEASES, Service, digest_json};

pub(super) fn operation() -> Operation {
    let body = schema::object([("digest", schema::array(schema::component("Digest")).into())]);
    Operation::get("/v1/users/{user}/digest", "user_digest")
        .tag("people")
        .takes(user())
        .summary("Tell what happened in the last 7 days in what a user follows")
        .description("Of each workspace and model: events, live releases with the primary metric, and alerts that fired, up to yesterday (UTC), beside the 7 days before. It is read from what is stored of days; no event is read.")
        .answers(StatusCode::OK, answer("That.", JSON, body))
}

/// What a digest tells of a workspace or a model.
pub(super) fn told_schema() -> RefOr<Schema> {
    let weeks = || schema::object([("last", schema::count().into()), ("before", schema::count().into())]);
    let nullable = |object: ObjectBuilder| object.schema_type(schema::types(&[Type::Object], true));
    let measure = || nullable(schema::object([("value", number().into()), ("n", schema::count().into())]));
    let live = schema::object([
        ("release", schema::name().into()),
        ("model", schema::name().into()),
        ("environments", schema::array(schema::name()).into()),
        ("predictions", weeks().into()),
        (
            "last",
            measure().description(Some("The primary metric, and of how many predictions it is.")).into(),
        ),
        ("before", measure().into()),
        ("change", number().schema_type(schema::types(&[Type::Number], true)).into()),
    ]);
    let alert = schema::object([
        ("id", schema::string().description(Some("The id of the crossing.")).into()),
        ("rule", schema::name().into()),
        ("model", schema::nullable(schema::name()).into()),
        ("day", schema::day().into()),
        ("at", schema::time().into()),
        ("text", schema::string().into()),
    ]);
    let model = nullable(schema::object([("id", schema::id().into()), ("name", schema::name().into())]));
    let better =
        schema::nullable(schema::string()).description(Some("Which way the metric is better: max or min."));
    schema::object([
        ("workspace", schema::id().into()),
        ("path", schema::string().into()),
        ("model", model.into()),
        ("from", schema::day().into()),
        ("to", schema::day().into()),
        ("predictions", weeks().into()),
        ("outcomes", nullable(weeks()).into()),
        ("metric", schema::nullable(schema::string()).into()),
        ("better", better.into()),
        ("live", schema::array(live).max_items(Some(MAX_DIGEST_RELEASES)).into()),
        ("more_live", schema::count().into()),
        ("alerts", schema::array(alert).max_items(Some(MAX_DIGEST_ALERTS)).into()),
        ("more_alerts", schema::count().into()),
        ("decided", schema::array(decided()).max_items(Some(MAX_DIGEST_ALERTS)).into()),
        ("more_decided", schema::count().into()),
    ])
    .into()
}

/// A comparison with a live release that was decided.
fn decided() -> ObjectBuilder {
    schema::object([
        ("at", schema::time().into()),
        ("model", schema::nullable(schema::string()).into()),
        (
            "challenger",
            schema::name().description(Some("The release that predicts beside the live one.")).into(),
        ),
        ("environment", schema::nullable(schema::string()).into()),
        ("text", schema::string().into()),
    ])
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Number)
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    sight: InSight,
    user: InPath,
) -> Result<Response, Problem> {
    let user = user_of(service.catalog(), user).await?;
    let now = service.clock().now();
    let digest = service.catalog().digest_of(&user, &in_sight(sight), now).await?;
    let digest: Vec<Value> = digest.iter().map(digest_json).collect();
    Ok(Json(json!({ "digest": digest })).into_response())
}
