//! Members of groups, roles on workspaces, and free counters.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::Error;
use log::key::{EntityId, EntityKind};
use serde::Deserialize;
use serde_json::{Number, json};
use web::{Problem, Whole, json_object};

use crate::{Catalog, Role, Service, json};

/// The most that is added or taken at once: up to here every whole number is exact as JSON has it.
pub(super) const MOST: i64 = 1 << 53;

/// The segments of a path.
pub(super) type Segments<T> = Result<Path<T>, PathRejection>;

fn segments<T>(path: Segments<T>) -> Result<T, Problem> {
    let Path(segments) =
        path.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
    Ok(segments)
}

async fn membership(catalog: &Catalog, group: &str, user: &str) -> Result<(EntityId, EntityId), Error> {
    let group = catalog.resolve(EntityKind::Group, group).await?;
    Ok((group, catalog.resolve(EntityKind::User, user).await?))
}

pub(super) async fn add_member(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String)>,
) -> Result<Response, Problem> {
    let (group, user) = segments(path)?;
    let (group, user) = membership(service.catalog(), &group, &user).await?;
    service.catalog().add_member(&group, &user, service.clock().now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove_member(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String)>,
) -> Result<Response, Problem> {
    let (group, user) = segments(path)?;
    let (group, user) = membership(service.catalog(), &group, &user).await?;
    service.catalog().remove_member(&group, &user, service.clock().now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn members(
    State(service): State<Arc<Service>>,
    path: Segments<String>,
) -> Result<Response, Problem> {
    let group = service.catalog().resolve(EntityKind::Group, &segments(path)?).await?;
    let members = service.catalog().memberships(&group).await?;
    let members = members.iter().map(json::membership).collect::<Vec<_>>();
    Ok(Json(json!({ "members": members })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRole {
    role: String,
}

impl Service {
    /// A principal as people write it: `user:ann`, `group:risk` or `system:nightly`.
    ///
    /// # Errors
    /// `Invalid`, when it is not of that form; `NotFound`, when there is none.
    pub async fn principal(&self, text: &str) -> Result<EntityId, Error> {
        let form =
            || Error::invalid(format!("`{text}` is not of the form user:NAME, group:NAME or system:NAME"));
        let (kind, name) = text.split_once(':').ok_or_else(form)?;
        let kind = EntityKind::parse(kind).map_err(|_| form())?;
        match kind {
            EntityKind::User | EntityKind::Group | EntityKind::System => {
                self.catalog().resolve(kind, name).await
            }
            _ => Err(form()),
        }
    }
}

pub(super) async fn grant(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String)>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let (workspace, principal) = segments(path)?;
    let role = Role::parse(&json_object::<NewRole>(&headers, body)?.role)?;
    let workspace = service.catalog().resolve(EntityKind::Workspace, &workspace).await?;
    let principal = service.principal(&principal).await?;
    service.catalog().grant(&workspace, &principal, role, service.clock().now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn revoke(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String)>,
) -> Result<Response, Problem> {
    let (workspace, principal) = segments(path)?;
    let workspace = service.catalog().resolve(EntityKind::Workspace, &workspace).await?;
    let principal = service.principal(&principal).await?;
    service.catalog().revoke(&workspace, &principal).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn grants(
    State(service): State<Arc<Service>>,
    path: Segments<String>,
) -> Result<Response, Problem> {
    let workspace = service.catalog().resolve(EntityKind::Workspace, &segments(path)?).await?;
    let grants = service.catalog().grants(&workspace).await?;
    Ok(Json(json!({ "grants": grants.iter().map(json::grant).collect::<Vec<_>>() })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct By {
    by: Number,
}

impl By {
    /// How much it is. 4.0 is a whole number in JSON, too.
    fn whole(&self) -> Result<i64, Problem> {
        let float = self.by.as_f64().filter(|by| by.fract() == 0.0 && by.abs() <= MOST as f64);
        let whole = self.by.as_i64().or(float.map(|by| by as i64)).filter(|by| by.abs() <= MOST);
        whole.ok_or_else(|| {
            let detail = format!("{} is not a whole number from -{MOST} to {MOST}", self.by);
            Problem::new(StatusCode::BAD_REQUEST, detail)
        })
    }
}

pub(super) async fn count(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String, String)>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let (kind, entity, name) = segments(path)?;
    let by = json_object::<By>(&headers, body)?.whole()?;
    let wrong = |_| Problem::new(StatusCode::BAD_REQUEST, "the header Idempotency-Key is not ASCII");
    let key = headers.get("idempotency-key").map(|key| key.to_str().map_err(wrong)).transpose()?;
    let of = service.catalog().resolve(EntityKind::parse(&kind)?, &entity).await?;
    let value = service.catalog().count(&of, &name, by, key).await?;
    Ok(Json(json!({ "name": name, "value": value })).into_response())
}

pub(super) async fn counter(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String, String)>,
) -> Result<Response, Problem> {
    let (kind, entity, name) = segments(path)?;
    let of = service.catalog().resolve(EntityKind::parse(&kind)?, &entity).await?;
    let value = service.catalog().counter(&of, &name).await?;
    Ok(Json(json!({ "name": name, "value": value })).into_response())
}
