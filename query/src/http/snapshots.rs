//! Making snapshots and verifying them over HTTP. All else that is done with them is done as with every entity.

use std::sync::Arc;

use axum::{
    Json,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use catalog::{
    AnyEntity,
    http::{MAX_BODY_BYTES, create_demand, create_snapshot, created},
    new::NewSnapshot,
};
use event::{Kind, Right};
use log::key::{EntityId, EntityKind};
use serde_json::{Value, json};
use web::{
    InPath, Operation, Place, Problem, RequiredPermission, Routes, Whole, answer, in_path, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::{reviews, said};
use crate::Query;

/// The routes that create snapshots and reviews. They read as a query does, and write to the catalog, so they belong to services that
/// may write.
pub fn creation(query: Arc<Query>) -> Routes {
    creations().with_state(query)
}

/// The operations of [`creation`], as they describe themselves.
pub fn creations() -> Routes<Arc<Query>> {
    let routes = Routes::new().add(create_snapshot(), create_demand(EntityKind::Snapshot), create);
    let routes = reviews::creation(routes);
    routes.map_router(|router| router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
}

pub(super) fn verification(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let kind = EntityKind::Snapshot.name();
    let demand = RequiredPermission::entity(Right::Read, kind, Place::Path(kind)).of_kinds(&Kind::ALL);
    routes.add(operation(), demand, verify)
}

fn operation() -> Operation {
    let is_same: RefOr<Schema> = ObjectBuilder::new().schema_type(Type::Boolean).into();
    let verified = schema::object([
        ("snapshot", schema::id().into()),
        ("rows", schema::count().description(Some("How many rows are read now.")).into()),
        ("digest", schema::string().description(Some("Their digest.")).into()),
        ("same", is_same),
        ("warnings", schema::array(schema::string()).into()),
    ]);
    let says = "Its id, or its path with the slashes written as `%2F`.";
    Operation::get("/v1/snapshots/{snapshot}/verify", "verify_snapshot")
        .tag("catalog")
        .summary("Read the rows of a snapshot again, and compare their digest")
        .takes(in_path("snapshot", schema::string().into(), "credit/prod/june", says))
        .answers(
            StatusCode::OK,
            answer("Whether they are those of which the snapshot was made.", "application/json", verified),
        )
}

async fn create(
    State(query): State<Arc<Query>>,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewSnapshot = json_object(&headers, new)?;
    let (snapshot, warnings) = query.create_snapshot(&new).await?;
    let mut response = created(&AnyEntity::Snapshot(snapshot));
    response.headers_mut().extend(said::warnings(&warnings));
    Ok(response)
}

async fn verify(State(query): State<Arc<Query>>, InPath(snapshot): InPath) -> Result<Json<Value>, Problem> {
    let at = query.catalog().resolve(EntityKind::Snapshot, &snapshot).await?;
    let verified = query.verify_snapshot(&at).await?;
    let found = &verified.snapshot;
    let id = EntityId::Snapshot(found.workspace.clone(), found.entity.id.clone());
    Ok(Json(json!({
        "snapshot": id.to_string(),
        "rows": verified.rows,
        "digest": verified.digest,
        "same": verified.is_same(),
        "warnings": verified.warnings,
    })))
}
