//! Promotion gates over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use fold::metric::Direction;
use log::key::EntityId;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use web::{
    InPath, Operation, Problem, QueryParams, Requester, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::{api::JSON, schemas::ranking_metrics};
use crate::{
    Approval, GATE_DAYS, GATE_KINDS, MAX_APPROVAL_NOTE_BYTES, MAX_DELAY_DAYS, MAX_GATE_DAYS,
    MAX_GATE_ENVIRONMENTS, Model, PromotionGates, PromotionGatesBody, Release, Service,
};

/// The field that names the model.
const MODEL: &str = "model";

pub(super) fn list_operation() -> Operation {
    let lists = schema::object([
        ("gates", schema::array(schema::component("PromotionGates")).into()),
        ("approvals", schema::array(schema::component("Approval")).into()),
    ]);
    Operation::get("/v1/workspaces/{category}/{name}/promotion-gates", "list_promotion_gates")
        .tag("releases")
        .summary("List what the releases of each model must pass before they are live, and who approved which release")
        .takes(parameter(ParameterIn::Query, MODEL, schema::name(), "Only of this model.").example(Some("risk".into())))
        .answers(StatusCode::OK, answer("Models without gates are left out.", JSON, lists))
}

pub(super) fn set_operation() -> Operation {
    let new =
        fields().into_iter().fold(schema::object([(MODEL, schema::name().into())]), |new, (name, schema)| {
            new.property(name, schema)
        });
    let example = json!({
        "model": "risk", "environments": ["regulated"], "days": 14, "delay": 30, "min_n": 500, "metric": "accuracy", "margin": 0.01,
        "completeness": 0.9, "second_person": true,
    });
    let kinds = GATE_KINDS.map(|kind| format!("`{}`: {}", kind.name, kind.says)).join("; ");
    Operation::put("/v1/workspaces/{category}/{name}/promotion-gates", "set_promotion_gates")
        .tag("releases")
        .summary("Set what the releases of a model must pass before they are live")
        .description(format!("All gates of the model are set: what is not given is not asked for, and a model alone takes them away. The gates are {kinds}. Only an administrator changes gates that ask for a second person."))
        .body("The model and its gates.", [(JSON, content(new, Some(example)))])
        .answers(StatusCode::OK, answer("The gates, as they are then.", JSON, schema::component("PromotionGates")))
}

fn fields() -> [(&'static str, RefOr<Schema>); 9] {
    let number = || ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0));
    let environments = schema::array(schema::name())
        .max_items(Some(MAX_GATE_ENVIRONMENTS))
        .description(Some("The environments in which the gates hold; all, when none is named."));
    let days = schema::integer(1..=MAX_GATE_DAYS as usize).description(Some(format!(
        "How many whole days (UTC) before today are judged; {GATE_DAYS} when it is not given."
    )));
    let delay = schema::integer(0..=MAX_DELAY_DAYS as usize).description(Some(
        "For how many days a day must be over to be judged, for outcomes that come late; 0 when it is not given.",
    ));
    [
        ("environments", environments.into()),
        ("days", days.into()),
        ("delay", delay.into()),
        ("min_n", schema::count().description(Some("At least so many predictions of the release are judged.")).into()),
        ("metric", ranking_metrics()),
        ("direction", schema::one_of(Direction::ALL.map(Direction::name)).description(Some("Which way the metric is better, where that does not follow from it.")).into()),
        ("margin", number().maximum(Some(1e15)).description(Some("By how much the metric may be worse than that of the live release.")).into()),
        ("completeness", number().maximum(Some(1)).description(Some("The share of the predictions that will be judged in the end that is judged.")).into()),
        ("second_person", ObjectBuilder::new().schema_type(Type::Boolean).description(Some("Whether somebody must have approved it who neither created the release nor asks for it to be live.")).into()),
    ]
}

/// The schema of the gates of a model.
pub(super) fn gates_schema() -> RefOr<Schema> {
    let gates = schema::object([(MODEL, schema::name().into())]);
    fields().into_iter().fold(gates, |gates, (name, schema)| gates.property(name, schema)).into()
}

/// The schema of an approval.
pub(super) fn approval_schema() -> RefOr<Schema> {
    schema::object([
        ("release", schema::name().into()),
        ("environment", schema::name().into()),
        ("principal", schema::string().description(Some("Who, as the audit log names them.")).into()),
        ("at", schema::time().into()),
        ("note", schema::nullable(schema::string().max_length(Some(MAX_APPROVAL_NOTE_BYTES))).into()),
    ])
    .into()
}

/// The gates of a model, as they are answered.
pub fn gates_json(model: &str, gates: Option<&PromotionGates>) -> Value {
    let said = gates.and_then(|gates| serde_json::to_value(gates.body()).ok());
    let mut said = said.unwrap_or_else(|| json!({}));
    said[MODEL] = model.into();
    said
}

/// An approval of a release, as it is answered.
pub fn approval_json(release: &str, approval: &Approval) -> Value {
    json!({
        "release": release, "environment": approval.environment, "principal": approval.principal,
        "at": approval.at.to_string(), "note": approval.note,
    })
}

/// The gates of models and the approvals of releases, as they are answered.
pub fn gates_and_approvals(models: &[Model], releases: &[Release]) -> Value {
    let gates = models.iter().filter(|model| model.gates.is_some());
    let gates: Vec<Value> = gates.map(|model| gates_json(&model.entity.name, model.gates.as_ref())).collect();
    let of = |release: &Release| {
        let name = release.entity.name.clone();
        release.approvals.iter().map(|one| approval_json(&name, one)).collect::<Vec<_>>()
    };
    json!({ "gates": gates, "approvals": releases.iter().flat_map(of).collect::<Vec<_>>() })
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(OneModel { model }): QueryParams<OneModel>,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let mut page = service.catalog().page(workspace.id()).await?;
    if let Some(model) = &model {
        page.models.retain(|one| one.entity.name == *model);
        page.releases.retain(|one| one.model == *model);
        if page.models.is_empty() {
            return Err(
                event::Error::not_found(format!("there is no model `{model}` in this workspace")).into()
            );
        }
    }
    Ok(Json(gates_and_approvals(&page.models, &page.releases)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneModel {
    model: Option<String>,
}

pub(super) async fn set(
    State(service): State<Arc<Service>>,
    requester: Requester,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let mut new: Map<String, Value> = json_object(&headers, new)?;
    let wrong = |what: String| Problem::from(event::Error::invalid(what));
    let model = match new.remove(MODEL) {
        Some(Value::String(name)) => name,
        _ => return Err(wrong(format!("{MODEL}: name the model"))),
    };
    // A gate that is null is not asked for.
    new.retain(|_, value| !value.is_null());
    let body: PromotionGatesBody =
        serde_json::from_value(Value::Object(new)).map_err(|error| wrong(error.to_string()))?;
    let gates = PromotionGates::read(&body)?;
    let catalog = service.catalog();
    let workspace = catalog.workspace(&workspace).await?;
    let id = catalog.model_named(workspace.id(), &model).await?;
    let at = EntityId::Model(workspace.id().clone(), id);
    let (is_admin, now) = (requester.may_administer(), service.clock().now());
    catalog.set_promotion_gates(&at, gates.as_ref(), is_admin, now).await?;
    Ok(Json(gates_json(&model, gates.as_ref())).into_response())
}
