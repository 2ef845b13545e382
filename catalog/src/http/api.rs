//! OpenAPI descriptions of entities.

use axum::http::StatusCode;
use log::key::EntityKind;
use serde_json::{Value, json};
use web::{
    Operation, answer, content, in_path,
    openapi::{
        Content, Header, ObjectBuilder, RefOr, Required, Response, Schema, Type,
        content::ContentBuilder,
        example::ExampleBuilder,
        path::{ParameterBuilder, ParameterIn, ParameterStyle},
    },
    parameter, schema,
};

use super::schemas::{self, new_entity};
use crate::MAX_PAGE;

pub(super) const JSON: &str = "application/json";

/// Names of entities in examples: one, and one that is deleted.
fn examples(kind: EntityKind) -> (&'static str, &'static str) {
    match kind {
        EntityKind::Category => ("credit", "drafts"),
        EntityKind::Workspace => ("credit/prod", "credit/test"),
        EntityKind::Model => ("credit/prod/churn", "credit/prod/old"),
        EntityKind::Configuration => ("credit/prod/deep", "credit/prod/flat"),
        EntityKind::Snapshot => ("credit/prod/june", "credit/prod/may"),
        EntityKind::Release => ("credit/prod/churn@c1", "credit/prod/churn@c2"),
        EntityKind::User => ("ann", "eve"),
        EntityKind::Group => ("risk", "guests"),
        EntityKind::System => ("nightly", "laptop"),
    }
}

/// Returns the parent in the example of a list.
fn parent(kind: EntityKind) -> Option<&'static str> {
    match kind.parent()? {
        EntityKind::Category => Some("credit"),
        _ => Some("credit/prod"),
    }
}

fn a(kind: EntityKind) -> String {
    format!("a {kind}")
}

pub(super) fn etag() -> Header {
    let mut header = Header::new(schema::string().pattern(Some("^\"[0-9]+\"$")));
    header.description = Some("The version, for `If-Match`.".to_owned());
    header
}

fn tagged(says: &str, schema: RefOr<Schema>) -> Response {
    answer(says, JSON, schema).header("ETag", etag()).build()
}

/// The bodies of the examples by which both entities of [`examples`] are created, and a model of a binary task.
fn bodies(kind: EntityKind) -> Content {
    let (kept, dropped) = examples(kind);
    let name = |path: &str| path.rsplit(['/', '@']).next().unwrap_or_default().to_owned();
    let body = |path: &str| -> Value {
        match kind {
            EntityKind::Workspace => json!({ "path": path }),
            EntityKind::Model => {
                json!({ "workspace": "credit/prod", "name": name(path), "task": "regression" })
            }
            EntityKind::Configuration => json!({ "workspace": "credit/prod", "name": name(path),
                "attributes": { "depth": 6, "features": { "$set": ["age", "income"] } } }),
            EntityKind::Snapshot => json!({ "workspace": "credit/prod", "name": name(path), "what": "joined",
                "from": "2026-06-01", "to": "2026-06-30", "columns": ["key", "score", "outcome_label"] }),
            EntityKind::Release => json!({ "workspace": "credit/prod", "name": name(path), "model": "churn",
                "configuration": "deep", "environment": "production", "commit": "9f2c1e7",
                "artefact_uri": "s3://models/churn/c1.onnx",
                "artefact_digest": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "snapshot_from": "2026-01-01", "snapshot_to": "2026-05-31", "metrics": { "rmse": 0.21 },
                "secrets": { "features/db-password": "3" },
                "notes": "Trained on five months.", "author": "ann" }),
            _ => json!({ "name": name(path), "attributes": { "team": "lending" } }),
        }
    };
    let example = |path: &str| ExampleBuilder::new().value(Some(body(path))).build();
    let mut examples = vec![("one", example(kept)), ("another", example(dropped))];
    if kind == EntityKind::Model {
        let binary = json!({ "workspace": "credit/prod", "name": "risk", "task": "binary", "positive_label": "default" });
        examples.push(("binary", ExampleBuilder::new().value(Some(binary)).build()));
    }
    ContentBuilder::new().schema(Some(new_entity(kind))).examples_from_iter(examples).build()
}

pub(super) fn create(kind: EntityKind) -> Operation {
    let more = match kind {
        EntityKind::Workspace => {
            " Without attributes, a workspace that is there is left as it is. Its category is created when it is new."
        }
        EntityKind::Model => {
            " Without attributes, a model that is there is left as it is; judged otherwise it is a conflict. The positive label of a binary task is `1` unless it is given."
        }
        EntityKind::Snapshot => {
            " The rows are read to digest them, and not copied: the snapshot keeps what was asked for, the columns, the read version and the digest."
        }
        EntityKind::Release => {
            " What a release is made of and its name never change. Its configuration is created when it is new. The event that registers it is appended to the log of releases."
        }
        _ => "",
    };
    Operation::post(format!("/v1/{}", kind.plural()), &format!("create_{kind}"))
        .tag("catalog")
        .summary(format!("Create {}", a(kind)))
        .description(format!("Names are unique among siblings.{more}"))
        .body("What it is.", [(JSON, bodies(kind))])
        .answers(StatusCode::CREATED, tagged("It, as it is now.", schema::component(schemas::name(kind))))
}

pub(super) fn list(kind: EntityKind) -> Operation {
    let plural = kind.plural();
    let list = schema::object([
        (plural, schema::array(schema::component(schemas::name(kind))).into()),
        ("next_cursor", schema::string().schema_type(schema::types(&[Type::String], true)).into()),
    ]);
    let operation = Operation::get(format!("/v1/{plural}"), &format!("list_{plural}"))
        .tag("catalog")
        .summary(format!("List {plural}"));
    let operation = match (kind, parent(kind)) {
        (_, None) => operation,
        (EntityKind::Workspace, Some(parent)) => operation.takes(of(parent).description(Some(
            "The category, by id or name. Without it, and without any other parameter but `fields`, all workspaces are listed at once.",
        ))),
        (EntityKind::Release, Some(parent)) => {
            operation.takes(of(parent).required(Required::True).description(Some("The workspace or the model, by id or path.")))
        }
        (_, Some(parent)) => {
            operation.takes(of(parent).required(Required::True).description(Some("The workspace, by id or path.")))
        }
    };
    let field = schema::string().pattern(Some("^([a-z_]+|attributes\\..+)$"));
    let fields = schema::array(field).min_items(Some(1)).unique_items(true);
    let instant = || schema::any_of([schema::time().into(), schema::day().into()]);
    let query =
        |name: &str, schema: RefOr<Schema>, says: &str| parameter(ParameterIn::Query, name, schema, says);
    let operation = operation
        .takes(query("limit", schema::integer(1..=MAX_PAGE).into(), "The most in an answer; 100 when it is not given.").example(Some(json!(20))))
        .takes(query("cursor", schema::string().into(), "Go on after an answer, by its `next_cursor`."))
        .takes(query("since", instant(), "Only what was created at this instant (or the beginning of this day) or later.").example(Some(json!("2026-01-01"))))
        .takes(query("until", instant(), "Only what was created before it."))
        .takes(query("order", schema::one_of(["oldest", "newest"]).into(), "Which come first; the oldest when it is not given."))
        .takes(
            query("fields", fields.into(), "Only these fields, with commas between, also `attributes.NAME` for a single attribute; `id` and `name` always.")
                .style(Some(ParameterStyle::Form))
                .explode(Some(false)),
        );
    operation.answers(StatusCode::OK, answer("By the time of their creation.", JSON, list))
}

fn of(example: &str) -> ParameterBuilder {
    parameter(ParameterIn::Query, "of", schema::string(), "").example(Some(example.into()))
}

/// An operation on one entity; the one that deletes has an example of its own.
pub(super) fn named(kind: EntityKind, method: fn(String, &str) -> Operation, id: &str) -> Operation {
    let (kept, dropped) = examples(kind);
    let example = if id.starts_with("delete") { dropped } else { kept };
    if let (EntityKind::Workspace, Some((_, name))) = (kind, example.split_once('/')) {
        let operation = method("/v1/workspaces/{category}/{name}".to_owned(), id);
        return operation.takes(in_path(
            "name",
            schema::name().into(),
            name,
            "Its name in the category, or behind `-` its id.",
        ));
    }
    let says = match kind.parent() {
        None => "Its id or its name.".to_owned(),
        Some(_) => "Its id, or its path with the slashes written as `%2F`.".to_owned(),
    };
    method(format!("/v1/{}/{{{kind}}}", kind.plural()), id).takes(in_path(
        kind.name(),
        schema::string().into(),
        example,
        &says,
    ))
}

pub(super) fn show(kind: EntityKind, operation: Operation) -> Operation {
    let summary = match kind {
        EntityKind::Workspace | EntityKind::User | EntityKind::Group => {
            format!("Show {} with all that belongs to it", a(kind))
        }
        _ => format!("Show {}", a(kind)),
    };
    let operation = match kind {
        EntityKind::Workspace => {
            let boolean = ObjectBuilder::new().schema_type(Type::Boolean);
            let says = "Also how many events were counted, of the workspace, its models and releases.";
            operation.takes(parameter(ParameterIn::Query, "counts", boolean, says))
        }
        _ => operation,
    };
    operation
        .tag("catalog")
        .summary(summary)
        .answers(StatusCode::OK, tagged("It, as it is now.", schema::component(schemas::name(kind))))
}

fn if_match() -> ParameterBuilder {
    let tag = schema::string().pattern(Some("^\"[0-9]{1,18}\"$"));
    parameter(ParameterIn::Header, "If-Match", tag, "Only if this is its version, as `ETag` gave it.")
}

pub(super) fn change(kind: EntityKind, operation: Operation) -> Operation {
    let example = json!({ "attributes": { "owner": "ann", "stage": "trial" } });
    let more = match kind {
        EntityKind::Release => " A release keeps its name.",
        EntityKind::Category => " Its workspaces come along to a new name.",
        _ => "",
    };
    operation
        .tag("catalog")
        .summary(format!("Change {}: its attributes, its name, whether it is archived", a(kind)))
        .description(format!(
            "Attributes that are given are set, those that are `null` are taken away, others stay.{more}"
        ))
        .takes(if_match())
        .body("What is to change.", [(JSON, content(schemas::change(), Some(example)))])
        .answers(StatusCode::OK, tagged("It, as it is now.", schema::component(schemas::name(kind))))
}

pub(super) fn delete(kind: EntityKind, operation: Operation) -> Operation {
    let mut gone = Response::new("It is gone.");
    gone.content.clear();
    operation
        .tag("catalog")
        .summary(format!("Delete {}", a(kind)))
        .description(match kind {
            EntityKind::Workspace => "It takes no more events from then on, and is gone after some seconds unless it is changed before; its events stay in the table.",
            _ => "What has children or events is deleted only once it is archived, and then with its children.",
        })
        .takes(if_match())
        .answers(StatusCode::NO_CONTENT, gone)
}
