//! Members of groups, roles on workspaces, and free counters.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::Error;
use log::key::{EntityId, EntityKind, Scope};
use serde::Deserialize;
use serde_json::{Number, json};
use utoipa::IntoParams;
use web::{Problem, QueryParams, Whole, json_object, schema};

use crate::{Catalog, Grant, Role, Service, json};

/// Maximum amount added or subtracted at once: up to here every whole number is exact in JSON.
pub(super) const MOST: i64 = 1 << 53;

/// The segments of a path.
pub(super) type Segments<T> = Result<Path<T>, PathRejection>;

fn segments<T>(path: Segments<T>) -> Result<T, Problem> {
    let Path(segments) =
        path.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
    Ok(segments)
}

impl Service {
    /// Resolves a group, and a user or system as people write it: `user:ann`, `system:nightly`, or only the user's name or id.
    ///
    /// # Errors
    /// `NotFound`, when there is none; `Invalid`, when it is something that cannot be in a group.
    pub async fn membership(&self, group: &str, member: &str) -> Result<(EntityId, EntityId), Error> {
        let group = self.catalog().resolve(EntityKind::Group, group).await?;
        let member = match member.contains(':') {
            true => self.principal(member).await?,
            false => self.catalog().resolve(EntityKind::User, member).await?,
        };
        match member.kind() {
            EntityKind::User | EntityKind::System => Ok((group, member)),
            other => Err(Error::invalid(format!("a {other} cannot be in a group; a user or a system can"))),
        }
    }
}

pub(super) async fn add_member(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String)>,
) -> Result<Response, Problem> {
    let (group, member) = segments(path)?;
    let (group, member) = service.membership(&group, &member).await?;
    service.catalog().add_member(&group, &member, service.clock().now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove_member(
    State(service): State<Arc<Service>>,
    path: Segments<(String, String)>,
) -> Result<Response, Problem> {
    let (group, member) = segments(path)?;
    let (group, member) = service.membership(&group, &member).await?;
    service.catalog().remove_member(&group, &member, service.clock().now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRole {
    role: String,
}

impl Service {
    /// Resolves a principal as people write it: `user:ann`, `group:risk` or `system:nightly`.
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

/// Scope of roles: a workspace or a category, or else the server.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ScopeParams {
    /// Roles on this workspace, by id or path; without it and `category`, on the server.
    #[param(value_type = schema::Workspace, inline, required = false, example = "credit/prod")]
    workspace: Option<String>,
    /// Roles on this category and all its workspaces, by id or name.
    category: Option<String>,
}

impl ScopeParams {
    async fn scope(&self, catalog: &Catalog) -> Result<Scope, Error> {
        let (kind, text) = match (&self.workspace, &self.category) {
            (None, None) => return Ok(Scope::Server),
            (Some(workspace), None) => (EntityKind::Workspace, workspace),
            (None, Some(category)) => (EntityKind::Category, category),
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "category: it takes the place of `workspace`, so give one of them",
                ));
            }
        };
        let at = catalog.resolve(kind, text).await?;
        Scope::of(&at).ok_or_else(|| Error::invalid(format!("a {kind} gives no roles")))
    }
}

pub(super) async fn grant(
    State(service): State<Arc<Service>>,
    path: Segments<String>,
    QueryParams(params): QueryParams<ScopeParams>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let role = Role::parse(&json_object::<NewRole>(&headers, body)?.role)?;
    let scope = params.scope(service.catalog()).await?;
    let principal = service.principal(&segments(path)?).await?;
    service.catalog().grant(&scope, &principal, role, service.clock().now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn revoke(
    State(service): State<Arc<Service>>,
    path: Segments<String>,
    QueryParams(params): QueryParams<ScopeParams>,
) -> Result<Response, Problem> {
    let scope = params.scope(service.catalog()).await?;
    let principal = service.principal(&segments(path)?).await?;
    service.catalog().revoke(&scope, &principal).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn grants(
    State(service): State<Arc<Service>>,
    QueryParams(params): QueryParams<ScopeParams>,
) -> Result<Response, Problem> {
    let scope = params.scope(service.catalog()).await?;
    let grants = service.catalog().grants(&scope).await?;
    let names = service.catalog().names(grants.iter().flat_map(Grant::entities)).await?;
    let grants = grants.iter().map(|one| json::grant(one, &names)).collect::<Vec<_>>();
    Ok(Json(json!({ "grants": grants })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct By {
    by: Number,
}

impl By {
    /// Amount of the change. 4.0 is a whole number in JSON, too.
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
