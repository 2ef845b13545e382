//! Consumers over HTTP: who follows a workspace, and how far.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Day, Error, Id, Kind};
use log::read_version::ReadVersion;
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, QueryParams, Whole, answer, content, json_object,
    openapi::{
        RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn},
        schema::ObjectBuilder,
    },
    parameter, schema,
};

use super::api::JSON;
use crate::{Consumer, Service};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Commit {
    consumer: String,
    read_version: Option<String>,
    kind: Option<String>,
    from: Option<String>,
}

impl Commit {
    /// Returns the read version to commit.
    fn read_version(&self, workspace: &Id) -> Result<ReadVersion, Error> {
        let from = self.from.as_deref().map(str::parse::<Day>).transpose();
        let from = from.map_err(|error| Error::invalid(format!("from: {error}")))?;
        match (&self.read_version, &self.kind, from) {
            (Some(read_version), None, None) => read_version.parse(),
            (None, Some(kind), from) => {
                let unknown = || Error::invalid(format!("kind: `{kind}` is no kind of events"));
                let kind = Kind::from_name(kind).ok_or_else(unknown)?;
                Ok(ReadVersion::begin(workspace, kind, from.unwrap_or(Day::FIRST)))
            }
            _ => Err(Error::invalid("give either `read_version`, or `kind` and, to begin at a day, `from`")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct One {
    consumer: Option<String>,
}

fn name(says: &str) -> ParameterBuilder {
    parameter(ParameterIn::Query, "consumer", schema::name(), says).example(Some(json!("billing")))
}

pub(super) fn list_operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/consumers", "list_consumers")
        .tag("catalog")
        .summary("List the consumers of a workspace, and how far each is behind")
        .takes(name("Only this one."))
        .answers(
            StatusCode::OK,
            answer(
                "The consumers, by name.",
                JSON,
                schema::object([("consumers", schema::array(schema::component("Consumer")).into())]),
            ),
        )
}

pub(super) fn commit_operation() -> Operation {
    let nullable = |schema: ObjectBuilder| schema.schema_type(schema::types(&[Type::String], true));
    let read_version = nullable(schema::string().pattern(Some("^[A-Za-z0-9_-]+$")));
    let read_version =
        read_version.description(Some("What the header `Almanac-Read-Version` of an answer of events said."));
    let kind = schema::one_of(Kind::ALL.map(Kind::name));
    let kind = kind.description(Some(
        "In the place of `read_version`: the consumer follows this kind, and has read nothing.",
    ));
    let from = nullable(schema::day());
    let from = from.description(Some("With `kind`: the first day that it follows; all days by default."));
    let body = schema::object([("consumer", schema::name().into())])
        .property("read_version", read_version)
        .property("kind", kind)
        .property("from", from);
    let example = json!({ "consumer": "billing", "kind": "predictions", "from": "2026-06-01" });
    Operation::put("/v1/workspaces/{category}/{name}/consumers", "commit")
        .tag("catalog")
        .summary("Note how far a consumer has read")
        .description("The first commit makes the consumer, and it belongs to who sent it: others cannot commit for it, and one principal makes at most 100 in a workspace. A consumer never goes back: what it, or another process under its name, committed before stays read, whatever the order of commits.")
        .body("How far.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("How far it is now.", JSON, schema::component("Consumer")))
}

pub(super) fn delete_operation() -> Operation {
    Operation::delete("/v1/workspaces/{category}/{name}/consumers", "delete_consumer")
        .tag("catalog")
        .summary("Forget a consumer")
        .takes(name("The consumer.").required(Required::True))
        .answers(StatusCode::NO_CONTENT, web::openapi::Response::new("It is forgotten."))
}

pub(super) fn consumer_schema() -> RefOr<Schema> {
    let count = schema::count();
    let since = schema::time().schema_type(schema::types(&[Type::String], true));
    schema::object([
        ("name", schema::name().into()),
        ("kind", schema::one_of(Kind::ALL.map(Kind::name)).into()),
        ("read_version", schema::string().description(Some("How far it has read.")).into()),
        ("created_by", schema::string().description(Some("Who made it, and alone commits for it.")).into()),
        ("created_at", schema::time().into()),
        ("committed_at", schema::time().into()),
    ])
    .property("behind_segments", count.description(Some("How many segments it has not read; in lists.")))
    .property("behind_since", since.description(Some("When the oldest of them was appended; in lists.")))
    .into()
}

fn body(consumer: &Consumer) -> Value {
    json!({
        "name": consumer.name,
        "kind": consumer.kind().map(Kind::name),
        "read_version": consumer.read_version.to_string(),
        "created_by": consumer.created_by,
        "created_at": consumer.created_at.to_string(),
        "committed_at": consumer.committed_at.to_string(),
    })
}

async fn id(service: &Service, workspace: &str) -> Result<Id, Error> {
    Ok(service.catalog().workspace(workspace).await?.id().clone())
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(One { consumer }): QueryParams<One>,
) -> Result<Response, Problem> {
    let (workspace, catalog) = (id(&service, &workspace).await?, service.catalog());
    let consumers = match consumer {
        Some(name) => {
            vec![catalog.consumer(&workspace, &name).await?.ok_or_else(|| Consumer::missing(&name))?]
        }
        None => catalog.consumers(&workspace).await?,
    };
    let mut bodies = Vec::with_capacity(consumers.len());
    for (consumer, lag) in consumers.iter().zip(catalog.lags(&consumers).await?) {
        let mut told = body(consumer);
        told["behind_segments"] = lag.segments.into();
        told["behind_since"] = lag.since.map(|since| since.to_string()).into();
        bodies.push(told);
    }
    Ok(Json(json!({ "consumers": bodies })).into_response())
}

pub(super) async fn commit(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let said: Commit = json_object(&headers, body)?;
    let workspace = id(&service, &workspace).await?;
    let read_version = said.read_version(&workspace)?;
    let now = service.clock().now();
    let consumer = service.catalog().commit(&workspace, &said.consumer, &read_version, now).await?;
    Ok(Json(self::body(&consumer)).into_response())
}

pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(One { consumer }): QueryParams<One>,
) -> Result<Response, Problem> {
    let missing = || Problem::new(StatusCode::BAD_REQUEST, "`consumer` must say which one");
    let name = consumer.ok_or_else(missing)?;
    let workspace = id(&service, &workspace).await?;
    service.catalog().delete_consumer(&workspace, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
