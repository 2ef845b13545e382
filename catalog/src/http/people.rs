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
use web::{Problem, Whole, json_object};

use crate::{Catalog, Grant, Membership, Role, Service, json};

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

pub(super) async fn members(
    State(service): State<Arc<Service>>,
    path: Segments<String>,
) -> Result<Response, Problem> {
    let group = service.catalog().resolve(EntityKind::Group, &segments(path)?).await?;
    let members = service.catalog().memberships(&group).await?;
    let names = service.catalog().names(members.iter().flat_map(Membership::entities)).await?;
    let members = members.iter().map(|one| json::membership(one, &names)).collect::<Vec<_>>();
    Ok(Json(json!({ "members": members })).into_response())
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

/// Scope of a role: the entity that the path names first, or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Workspace,
    Category,
    Server,
}

impl Of {
    /// All scopes.
    pub(super) const ALL: [Self; 3] = [Self::Workspace, Self::Category, Self::Server];

    /// Type of the entity, if it is one.
    pub(super) fn kind(self) -> Option<EntityKind> {
        match self {
            Self::Workspace => Some(EntityKind::Workspace),
            Self::Category => Some(EntityKind::Category),
            Self::Server => None,
        }
    }

    /// Resolves the scope, and returns the segments after its name in the path.
    async fn scope(self, catalog: &Catalog, mut path: Vec<String>) -> Result<(Scope, Vec<String>), Problem> {
        let Some(kind) = self.kind() else { return Ok((Scope::Server, path)) };
        if path.is_empty() {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "the path names nothing"));
        }
        let rest = path.split_off(1);
        let at = catalog.resolve(kind, &path.concat()).await?;
        let none = || Problem::new(StatusCode::BAD_REQUEST, format!("a {kind} gives no roles"));
        Ok((Scope::of(&at).ok_or_else(none)?, rest))
    }
}

/// All segments of a path that are parameters, with their names.
pub(super) type All = Segments<Vec<(String, String)>>;

fn values(path: All) -> Result<Vec<String>, Problem> {
    Ok(segments(path)?.into_iter().map(|(_, value)| value).collect())
}

pub(super) async fn grant(
    of: Of,
    State(service): State<Arc<Service>>,
    path: All,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let role = Role::parse(&json_object::<NewRole>(&headers, body)?.role)?;
    let (scope, principal) = of.scope(service.catalog(), values(path)?).await?;
    let principal = service.principal(&principal.concat()).await?;
    service.catalog().grant(&scope, &principal, role, service.clock().now()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn revoke(
    of: Of,
    State(service): State<Arc<Service>>,
    path: All,
) -> Result<Response, Problem> {
    let (scope, principal) = of.scope(service.catalog(), values(path)?).await?;
    let principal = service.principal(&principal.concat()).await?;
    service.catalog().revoke(&scope, &principal).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn grants(
    of: Of,
    State(service): State<Arc<Service>>,
    path: All,
) -> Result<Response, Problem> {
    let (scope, _) = of.scope(service.catalog(), values(path)?).await?;
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
