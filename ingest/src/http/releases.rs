//! Creating, promoting, rolling back and retiring releases over HTTP.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{Action, AnyEntity, Override, ReleaseChange, http::judging, new::NewRelease};
use event::{Error, Task};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, Requester, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::api::JSON;
use crate::{
    definitions::{DefinedRelease, NewDefinition},
    limits::MAX_NOTE_BYTES,
    service::Ingest,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promotion {
    release: String,
    environment: String,
    note: Option<String>,
    #[serde(rename = "override")]
    overridden: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollback {
    environment: String,
    model: Option<String>,
    to: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    release: Option<String>,
    model: Option<String>,
    task: Option<String>,
    positive_label: Option<String>,
    threshold: Option<f64>,
    costs: Option<String>,
    interval_level: Option<f64>,
    dimensions: Option<Vec<String>>,
    custom_metrics: Option<BTreeMap<String, Option<String>>>,
    from: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retirement {
    release: String,
    environment: Option<String>,
    note: Option<String>,
}

/// The operation `id` by which an action is posted.
fn operation(action: Action, id: &str) -> Operation {
    let segment = action.segment().unwrap_or_else(|| action.name());
    Operation::post(format!("/v1/workspaces/{{category}}/{{name}}/{segment}"), id).tag("releases")
}

pub(super) fn promote_operation() -> Operation {
    let reason = schema::nullable(schema::string().max_length(Some(MAX_NOTE_BYTES)).pattern(Some("[^\\s]")));
    let body = schema::object([("release", schema::name().into()), ("environment", schema::name().into())])
        .property("note", note())
        .property(
            "override",
            reason
                .description(Some("Why it is to be live although it does not pass the gates of its model.")),
        );
    let example = json!({ "release": "v1", "environment": "production", "note": "Better on June." });
    operation(Action::Promote, "promote")
        .summary("Make a release the live one of its model in an environment")
        .description("It takes the place of the release of this model that was live there. One that does not pass the promotion gates of its model is refused, unless `override` says why it is to be live all the same.")
        .body("Which release, and where.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, changes())
}

pub(super) fn roll_back_operation() -> Operation {
    let body = schema::object([("environment", schema::name().into())])
        .property("model", schema::nullable(schema::name()))
        .property("to", schema::nullable(schema::name()).description(Some("The release to go back to.")))
        .property("note", note());
    let example = json!({ "environment": "production", "to": "v1" });
    operation(Action::Rollback, "roll_back")
        .summary("Put the release back that was live in an environment before")
        .description("Or the one that is named. The model need not be named where only one is live.")
        .body("Where.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, changes())
}

pub(super) fn define_operation() -> Operation {
    let said = |says| schema::nullable(schema::string().min_length(Some(1))).description(Some(says));
    let body = schema::closed()
        .property("release", schema::nullable(schema::name()).description(Some("This release.")))
        .property(
            "model",
            schema::nullable(schema::name())
                .description(Some("Or all releases of this model, and those that will be registered.")),
        )
        .property("task", said("binary, multiclass, regression or ranking."))
        .property("positive_label", said("The positive label of a binary task or a ranking."))
        .property(
            "from",
            schema::nullable(schema::day()).description(Some("From this day on; today, when none is given.")),
        )
        .property("note", note());
    let body = judging().into_iter().fold(body, |body, (name, schema)| body.property(name, schema));
    let example = json!({ "model": "risk", "positive_label": "default", "from": "2026-06-01" });
    let defined = schema::object([
        ("release", schema::name().into()),
        ("task", schema::one_of(Task::NAMES).into()),
        ("from", schema::day().into()),
    ])
    .property("positive_label", schema::nullable(schema::string()))
    .property("threshold", ObjectBuilder::new().schema_type(Type::Number))
    .property("costs", schema::string())
    .property("interval_level", ObjectBuilder::new().schema_type(Type::Number))
    .property("dimensions", schema::array(schema::string()))
    .property("custom_metrics", schema::map(None, schema::string()));
    let answered = schema::object([("definitions", schema::array(defined).into())]);
    operation(Action::Define, "define")
        .summary("Say from a day on how the predictions of a release, or of all of a model, are judged")
        .description("What is not given stays as it is; what is given holds until a definition from a later day names it again, also one that was given before.")
        .body("What is said.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("The releases that are judged otherwise now.", JSON, answered))
}

pub(super) fn retire_operation() -> Operation {
    let body = schema::object([("release", schema::name().into())])
        .property("environment", schema::nullable(schema::name()))
        .property("note", note());
    let example = json!({ "release": "v1", "environment": "production" });
    operation(Action::Retire, "retire")
        .summary("Take a release out of an environment, or out of all in which it is live")
        .description("Where it is not live, that is a conflict.")
        .body("Which release.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, changes())
}

fn note() -> RefOr<Schema> {
    schema::nullable(schema::string().max_length(Some(MAX_NOTE_BYTES))).into()
}

fn changes() -> web::openapi::response::ResponseBuilder {
    let change = schema::object([
        ("action", schema::one_of(Action::of_live().map(Action::name)).into()),
        ("release", schema::name().into()),
        ("model", schema::name().into()),
        ("environment", schema::name().into()),
        ("released_at", schema::time().into()),
    ]);
    let body = schema::object([("changes", schema::array(change).into())]);
    answer("The release events that were appended.", JSON, body)
}

fn body(changes: impl IntoIterator<Item = ReleaseChange>) -> Response {
    let change = |change: ReleaseChange| -> Value {
        json!({
            "action": change.action.name(), "release": change.release, "model": change.model,
            "environment": change.environment, "released_at": change.at.to_string(),
        })
    };
    Json(json!({ "changes": changes.into_iter().map(change).collect::<Vec<_>>() })).into_response()
}

pub(super) async fn create(
    State(ingest): State<Arc<Ingest>>,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewRelease = json_object(&headers, new)?;
    let workspace = ingest.catalog().workspace(&new.workspace).await?;
    let new = new.with_run(ingest.catalog(), workspace.id()).await?;
    let created = ingest.create_release(&workspace, new.spec()?).await?;
    if !created.is_new {
        let name = &created.release.entity.name;
        return Err(Error::conflict(format!("there is a release called `{name}` already")).into());
    }
    Ok(catalog::http::created(&AnyEntity::Release(created.release)))
}

pub(super) async fn promote(
    State(ingest): State<Arc<Ingest>>,
    requester: Requester,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Promotion = json_object(&headers, new)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let is_by_admin = requester.may_administer();
    let overridden = new.overridden.as_deref().map(|reason| Override { reason, is_by_admin });
    let note = new.note.as_deref();
    let change = ingest.promote_despite(&workspace, &new.release, &new.environment, note, overridden).await?;
    Ok(body(change))
}

pub(super) async fn roll_back(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Rollback = json_object(&headers, new)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let (model, to) = (new.model.as_deref(), new.to.as_deref());
    let change = ingest.roll_back(&workspace, &new.environment, model, to, new.note.as_deref()).await?;
    Ok(body(change))
}

pub(super) async fn define(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let said: Said = json_object(&headers, new)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let from = said.from.as_deref().map(str::parse).transpose()?;
    let Said {
        release,
        model,
        task,
        positive_label,
        threshold,
        costs,
        interval_level,
        dimensions,
        custom_metrics,
        note,
        ..
    } = said;
    let new = NewDefinition {
        task,
        positive_label,
        threshold,
        costs,
        interval_level,
        dimensions,
        custom_metrics,
        from,
        note,
    };
    let defined = match (release, model) {
        (Some(release), None) => ingest.define_release(&workspace, &release, &new).await?,
        (None, Some(model)) => ingest.define_model(&workspace, &model, &new).await?,
        _ => return Err(Error::invalid("name either a release or a model").into()),
    };
    let said = |(release, definition): DefinedRelease| {
        let mut said = catalog::json::definition(&definition);
        let from = said.remove("effective_from").unwrap_or_default();
        said.extend([("release".to_owned(), release.into()), ("from".to_owned(), from)]);
        Value::Object(said)
    };
    Ok(Json(json!({ "definitions": defined.into_iter().map(said).collect::<Vec<_>>() })).into_response())
}

pub(super) async fn retire(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Retirement = json_object(&headers, new)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let changes =
        ingest.retire(&workspace, &new.release, new.environment.as_deref(), new.note.as_deref()).await?;
    Ok(body(changes))
}
