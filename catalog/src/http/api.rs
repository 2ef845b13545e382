//! What the OpenAPI document says of the catalog.

use axum::http::StatusCode;
use serde_json::json;
use store::{
    catalog::{MAX_LANES, Task},
    id::MAX_NAME_BYTES,
};
use web::{
    Named, Operation, answer, content,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

pub(super) const JSON: &str = "application/json";

/// What any request may be answered, and those that write.
pub(super) const ALWAYS: [StatusCode; 3] =
    [StatusCode::BAD_REQUEST, StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
pub(super) const OF_BODY: [StatusCode; 3] =
    [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::UNPROCESSABLE_ENTITY];

pub(super) fn create_workspace() -> Operation {
    let new = schema::object([("path", schema::path().into())]);
    Operation::post("/v1/workspaces", "create_workspace")
        .tag("catalog")
        .summary("Create a workspace, and its category")
        .description("What is there already is left as it is. Some names are taken: those that stand for what is in a workspace, such as `joined`.")
        .body("Its path.", [(JSON, content(new, Some(json!({ "path": "credit/prod" }))))])
        .answers(StatusCode::CREATED, answer("The workspace.", JSON, schema::object([
            ("id", schema::id().into()),
            ("path", schema::path().into()),
        ])))
        .fails(&ALWAYS)
        .fails(&OF_BODY)
}

pub(super) fn create_model(named: Named) -> Operation {
    let [binary, others @ ..] = Task::NAMES;
    let label = || schema::string().min_length(Some(1)).max_length(Some(MAX_NAME_BYTES));
    let new = |tasks: &[&str], label: ObjectBuilder| -> RefOr<Schema> {
        schema::object([
            ("name", schema::name().into()),
            ("task", schema::one_of(tasks.iter().copied()).into()),
        ])
        .property("positive_label", label)
        .into()
    };
    let new = schema::any_of([
        new(&[binary], label().schema_type(schema::types(&[Type::String], true))),
        new(&others, ObjectBuilder::new().schema_type(Type::Null)),
    ]);
    let example = json!({ "name": "risk", "task": "binary", "positive_label": "default" });
    named
        .operation(Operation::post, "/models", "create_model")
        .tag("catalog")
        .summary("Create a model")
        .description("The same model again is left as it is; with another task it is a conflict. The positive label of a binary task is `1` unless it is given.")
        .body("Its name and what it predicts.", [(JSON, content(new, Some(example)))])
        .answers(StatusCode::CREATED, answer("The model.", JSON, schema::object([
            ("id", schema::id().into()),
            ("name", schema::name().into()),
            ("task", schema::one_of(Task::NAMES).into()),
            ("positive_label", label().schema_type(schema::types(&[Type::String], true)).into()),
        ])))
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND, StatusCode::CONFLICT])
        .fails(&OF_BODY)
}

pub(super) fn set_lanes(named: Named) -> Operation {
    let lanes = || -> RefOr<Schema> { schema::integer(1..=usize::from(MAX_LANES)).into() };
    named
        .operation(Operation::put, "/lanes", "set_lanes")
        .tag("catalog")
        .summary("Set over how many lanes the logs of a workspace are spread")
        .description("More lanes let more ingest services append to one day at one time. A change counts some seconds later; until then another one is a conflict.")
        .body("How many.", [(JSON, content(schema::object([("lanes", lanes())]), Some(json!({ "lanes": 2 }))))])
        .answers(StatusCode::OK, answer("How many, and since when.", JSON, schema::object([
            ("lanes", lanes()),
            ("since", schema::time().into()),
        ])))
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND, StatusCode::CONFLICT])
        .fails(&OF_BODY)
}

pub(super) fn list() -> Operation {
    let workspaces = schema::array(schema::component("Workspace"));
    let list = schema::object([("workspaces", workspaces.into())]);
    Operation::get("/v1/workspaces", "list_workspaces")
        .tag("catalog")
        .summary("List all workspaces")
        .answers(StatusCode::OK, answer("By the age of their category and then by their own.", JSON, list))
        .fails(&ALWAYS)
}

pub(super) fn show(named: Named) -> Operation {
    named
        .operation(Operation::get, "", "show_workspace")
        .tag("catalog")
        .summary("Show a workspace with all that belongs to it")
        .answers(StatusCode::OK, answer("The workspace.", JSON, schema::component("WorkspacePage")))
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND])
}

/// What the operations refer to.
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let workspace = || {
        schema::object([
            ("id", schema::id().into()),
            ("path", schema::path().into()),
            ("created_at", schema::time().into()),
        ])
    };
    let name = |nullable| schema::name().schema_type(schema::types(&[Type::String], nullable)).into();
    let label = schema::string().schema_type(schema::types(&[Type::String], true));
    let counts = || -> RefOr<Schema> {
        schema::map(None, schema::count()).description(Some("Events that were counted, by kind.")).into()
    };
    let model = schema::object([
        ("name", name(false)),
        ("task", schema::one_of(Task::NAMES).into()),
        ("positive_label", label.into()),
        ("counts", counts()),
    ]);
    let release = schema::object([
        ("name", name(false)),
        ("model", name(false)),
        ("configuration", name(true)),
        ("environment", name(true)),
        ("counts", counts()),
    ]);
    let configuration = schema::object([("name", name(false))]);
    let page = [
        ("models", schema::array(model).into()),
        ("configurations", schema::array(configuration).into()),
        ("releases", schema::array(release).into()),
        ("counts", counts()),
    ];
    let page = page.into_iter().fold(workspace(), |page, (name, schema): (&str, RefOr<Schema>)| {
        page.property(name, schema).required(name)
    });
    vec![("Workspace".to_owned(), workspace().into()), ("WorkspacePage".to_owned(), page.into())]
}
