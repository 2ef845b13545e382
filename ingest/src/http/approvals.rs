//! Approving releases over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{MAX_APPROVAL_NOTE_BYTES, MAX_APPROVALS, http::approval_json};
use event::id::check_name;
use log::key::EntityKind;
use serde::Deserialize;
use serde_json::json;
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{Type, schema::ObjectBuilder},
    schema,
};

use super::api::JSON;
use crate::service::Ingest;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewApproval {
    release: String,
    environment: String,
    note: Option<String>,
    #[serde(default)]
    retract: bool,
}

pub(super) fn operation() -> Operation {
    let note = schema::nullable(schema::string().max_length(Some(MAX_APPROVAL_NOTE_BYTES)));
    let retract = ObjectBuilder::new().schema_type(Type::Boolean);
    let body = schema::object([("release", schema::name().into()), ("environment", schema::name().into())])
        .property("note", note)
        .property("retract", retract.description(Some("Whether the approval of the caller is taken back.")));
    let example = json!({ "release": "v1", "environment": "production", "note": "Read the report of June." });
    let approvals = schema::array(schema::component("Approval")).max_items(Some(MAX_APPROVALS));
    Operation::post("/v1/workspaces/{category}/{name}/approvals", "approve_release")
        .tag("releases")
        .summary("Approve that a release is live in an environment")
        .description("In the name of the caller, who has one approval of a release and an environment: given again, it takes the place of the one before. The gate `second_person` asks for one.")
        .body("Which release, and where.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("The approvals of the release.", JSON, schema::object([("approvals", approvals.into())])))
}

pub(super) async fn approve(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewApproval = json_object(&headers, new)?;
    check_name(&new.release)?;
    let catalog = ingest.catalog();
    let workspace = catalog.workspace(&workspace).await?;
    let at = catalog.resolve(EntityKind::Release, &format!("{}/{}", workspace.path, new.release)).await?;
    let said = (new.environment.as_str(), new.note.as_deref());
    let approvals = catalog.approve(&at, said, new.retract, ingest.clock().now()).await?;
    let approvals: Vec<_> = approvals.iter().map(|one| approval_json(&new.release, one)).collect();
    Ok(Json(json!({ "approvals": approvals })).into_response())
}
