//! The OpenAPI document, put together from what the routes say of themselves, and served beside them.

use std::sync::{Arc, LazyLock};

use axum::{
    body::Bytes,
    http::{StatusCode, header},
};
use serde::Serialize;
use serde_json::Value;
use web::{
    Operation, PROBLEM, RequiredPermission, Routes, answer,
    openapi::{Components, Info, License, ObjectBuilder, OpenApi, OpenApiBuilder, Tag, Type, path::PathsMap},
    problem_response, problem_schemas, schema,
};

mod shared;

/// Where it is.
pub(crate) const PATH: &str = "/openapi.json";

const JSON: &str = "application/json";

/// Introduction of the document: rules of all operations.
const INTRODUCTION: &str = "A workspace is named by its category and its name, as in `/v1/workspaces/credit/prod/live`, or by its id \
    with `-` in the place of the category, as in `/v1/workspaces/-/w_2NBs0sLBnJxEcoDLgVnQdJkhEgV/live`.\n\n\
    Where callers must say who they are, an operation needs the rights that it names. `HEAD` in the place of `GET` checks the parameters of a \
    query, its workspace and its release, and reads no events.";

/// The groups of operations, and what is in them.
const TAGS: [(&str, &str); 6] = [
    ("catalog", "Workspaces and what belongs to them; users, groups and systems."),
    ("people", "Who is in which group and may do what."),
    ("releases", "What is live, what was, what happens, and how good it is."),
    ("append", "Events on their way into the log."),
    ("query", "Events, and what was computed from them."),
    ("service", "The service itself."),
];

/// The operation of the workers.
pub(crate) fn workers() -> Operation {
    let says = |says: &'static str| {
        ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).description(Some(says))
    };
    let counts = |says: &'static str| schema::count().description(Some(says));
    let worker = [
        ("worker", schema::string().description(Some("What the worker is called.")).into()),
        ("heartbeat_seconds_ago", says("When it last showed that it is alive, by its own clock.").into()),
        ("shards", counts("How many shards of the change feed it reads.").into()),
        ("dirty_days", counts("How many days it has to write.").into()),
        ("oldest_dirty_seconds", says("For how long the oldest of them has waited.").into()),
        ("cas_retries", counts("How often it folded again, since somebody else wrote in between.").into()),
        ("layout", counts("The layout that it writes.").into()),
    ];
    let list = schema::object([("workers", schema::array(schema::object(worker)).into())]);
    Operation::get("/v1/workers", "workers")
        .tag("service")
        .summary("List the workers of the projector that were there in the last hour")
        .answers(StatusCode::OK, answer("By name.", JSON, list))
}

/// Adds the route of the document that describes all that `all` has: where roles are apart, one address stands before them.
pub(crate) fn with_document(routes: Routes, all: Routes) -> Routes {
    // Most processes are never asked for it.
    let text = Arc::new(LazyLock::new(move || {
        Bytes::from(text(document(&all)).expect("a document of strings and numbers can be written"))
    }));
    let answer = async move || ([(header::CONTENT_TYPE, JSON)], Bytes::clone(&text));
    routes.serve("GET", PATH, RequiredPermission::nothing(), answer)
}

/// A document as it is written, with its paths in their order.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    rest: Value,
    paths: PathsMap<String, Value>,
}

fn text(mut document: OpenApi) -> serde_json::Result<Vec<u8>> {
    let paths = std::mem::take(&mut document.paths.paths).into_iter();
    let paths = paths.map(|(path, item)| Ok((path, serde_json::to_value(item)?)));
    let mut paths = paths.collect::<serde_json::Result<PathsMap<_, _>>>()?;
    let mut rest = serde_json::to_value(document)?;
    if let Value::Object(rest) = &mut rest {
        rest.remove("paths");
    }
    paths.values_mut().for_each(without_defaults);
    shared::share(paths.values_mut(), &mut rest["components"]);
    serde_json::to_vec(&Written { rest, paths })
}

/// Leaves out of the parameters of a path what holds without being said.
fn without_defaults(path: &mut Value) {
    let operations = path.as_object_mut().into_iter().flatten().map(|(_, operation)| operation);
    let parameters = operations.filter_map(|operation| operation.get_mut("parameters")?.as_array_mut());
    for parameter in parameters.flatten().filter_map(Value::as_object_mut) {
        parameter.retain(|name, value| !(name == "required" && value == false || name == "style"));
    }
}

fn document(routes: &Routes) -> OpenApi {
    let mut info = Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    info.description = Some(format!("{}.\n\n{INTRODUCTION}", env!("CARGO_PKG_DESCRIPTION")));
    info.license = Some(License::new(env!("CARGO_PKG_LICENSE")));
    let mut components = Components::new();
    components.schemas = routes.schemas().clone();
    components.schemas.extend(problem_schemas().map(|(name, schema)| (name.to_owned(), schema)));
    components.responses.insert(PROBLEM.to_owned(), problem_response().into());
    let tags = TAGS.map(|(name, says)| {
        let mut tag = Tag::new(name);
        tag.description = Some(says.to_owned());
        tag
    });
    OpenApiBuilder::new()
        .info(info)
        .paths(routes.paths().clone())
        .components(Some(components))
        .tags(Some(tags))
        .build()
}
