//! Creating, listing, showing, changing and deleting entities of any type.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Day, Error, Timestamp};
use log::{
    audit::carried,
    key::{self, EntityId, EntityKind},
};
use serde::Deserialize;
use serde_json::{Value, json};
use table::Cursor;
use web::{Problem, QueryParams, Whole, json_object};

use super::follow::{InSight, in_sight};
use crate::{
    AnyEntity, ListOptions, Membership, Service, Sight, json,
    new::{Change, NewConfiguration, NewModel, NewRoot, NewWorkspace},
};

const IF_MATCH: HeaderName = header::IF_MATCH;

/// Query parameters of a list of entities.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    pub(super) of: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
    since: Option<String>,
    until: Option<String>,
    order: Option<String>,
    fields: Option<String>,
}

/// Answer to a request that created an entity.
pub fn created(any: &AnyEntity) -> Response {
    shown(StatusCode::CREATED, any.entity().version, json::any(any))
}

/// An entity with its version as the ETag.
fn shown(status: StatusCode, version: i64, value: Value) -> Response {
    let mut response = (status, Json(value)).into_response();
    if let Ok(tag) = HeaderValue::try_from(format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Version that `If-Match` demands.
fn if_version(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::parse);
    match number {
        Some(Ok(version)) => Ok(Some(version)),
        _ => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "If-Match should be a version in quotes, as ETag gives it",
        )),
    }
}

/// Creates an entity of any type but a release, whose creation is also an event.
pub(super) async fn create(
    kind: EntityKind,
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let (catalog, now) = (service.catalog(), service.clock().now());
    let any = match kind {
        EntityKind::Workspace => json_object::<NewWorkspace>(&headers, body)?.create(catalog, now).await?,
        EntityKind::Model => json_object::<NewModel>(&headers, body)?.create(catalog, now).await?,
        EntityKind::Configuration => {
            json_object::<NewConfiguration>(&headers, body)?.create(catalog, now).await?
        }
        _ => json_object::<NewRoot>(&headers, body)?.create(kind, catalog, now).await?,
    };
    Ok(created(&any))
}

pub(super) async fn list(
    kind: EntityKind,
    State(service): State<Arc<Service>>,
    sight: InSight,
    QueryParams(asked): QueryParams<Parameters>,
) -> Result<Response, Problem> {
    let sight = in_sight(sight);
    let fields = asked.fields.as_deref().map(|fields| json::parse_fields(kind, fields)).transpose()?;
    let catalog = service.catalog();
    let (mut entities, next) = match (kind, &asked.of) {
        (EntityKind::Workspace, None) if asked.is_of_all() => {
            let all = catalog.workspaces_in(&sight).await?;
            (all.into_iter().map(AnyEntity::Workspace).collect(), None)
        }
        (kind, None) if let Some(parent) = kind.parent() => {
            let detail = format!("of: name the {parent} whose {} are listed", kind.plural());
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        (EntityKind::Category, None) if let Sight::Only(scopes) = &sight => {
            (asked.some(catalog.categories_in(scopes).await?, fields.as_deref())?, None)
        }
        (kind, of) => {
            let parent = match of {
                Some(of) => Some(service.parent(kind, of).await?),
                None => None,
            };
            let listed = catalog.list(kind, parent.as_ref(), &asked.options(fields.as_deref())?).await?;
            (listed.entities, listed.next)
        }
    };
    catalog.name_parts(&mut entities).await?;
    let entities =
        entities.iter().map(|any| json::only(json::any(any), fields.as_deref())).collect::<Vec<_>>();
    let next = next.map(|cursor| cursor.to_text());
    Ok(Json(json!({ kind.plural(): entities, "next_cursor": next })).into_response())
}

impl Parameters {
    fn is_of_all(&self) -> bool {
        [&self.cursor, &self.since, &self.until, &self.order].iter().all(|word| word.is_none())
            && self.limit.is_none()
    }

    /// Filters `all`, the oldest first, by the parameters of the list. They are few, so there are no pages of them.
    fn some(&self, all: Vec<AnyEntity>, fields: Option<&[String]>) -> Result<Vec<AnyEntity>, Error> {
        let options = self.options(fields)?;
        let is_asked_for = |any: &AnyEntity| {
            let at = any.entity().created_at;
            options.since.is_none_or(|since| at >= since) && options.until.is_none_or(|until| at < until)
        };
        let mut some: Vec<AnyEntity> = all.into_iter().filter(is_asked_for).collect();
        if options.newest_first {
            some.reverse();
        }
        Ok(some)
    }

    fn options(&self, fields: Option<&[String]>) -> Result<ListOptions, Error> {
        let newest_first = match self.order.as_deref() {
            None | Some("oldest") => false,
            Some("newest") => true,
            Some(other) => {
                return Err(Error::invalid(format!("order: `{other}` is neither oldest nor newest")));
            }
        };
        let at = |name: &str, text: &Option<String>| {
            let at = text.as_deref().map(instant).transpose();
            at.map_err(|error| Error::invalid(format!("{name}: {error}")))
        };
        Ok(ListOptions {
            limit: self.limit.unwrap_or(ListOptions::default().limit),
            after: self.cursor.as_deref().map(Cursor::from_text).transpose()?,
            since: at("since", &self.since)?,
            until: at("until", &self.until)?,
            newest_first,
            only: fields.map(ListOptions::read_for),
        })
    }
}

/// Parses an instant, or the beginning of a day.
pub fn instant(text: &str) -> Result<Timestamp, Error> {
    match text.parse::<Day>() {
        Ok(day) => Ok(day.start()),
        Err(_) => Timestamp::parse(text),
    }
}

/// Type of the parent of entities of a type, which `of` names: for releases a workspace or a model.
///
/// # Errors
/// `Invalid`, when such entities have no parent.
pub fn parent_kind(kind: EntityKind, of: &str) -> Result<EntityKind, Error> {
    let is_model = of.matches('/').count() == 2
        || key::parse_id(of).is_some_and(|(found, _)| found == Some(EntityKind::Model));
    match kind.parent() {
        Some(_) if kind == EntityKind::Release && is_model => Ok(EntityKind::Model),
        Some(parent) => Ok(parent),
        None => Err(Error::invalid(format!("{} belong to nothing, so `of` has no place", kind.plural()))),
    }
}

impl Service {
    /// Reads the parent of a list: for releases a workspace or a model.
    ///
    /// # Errors
    /// `NotFound`, when there is none; `Invalid`, when such entities have no parent.
    pub async fn parent(&self, kind: EntityKind, of: &str) -> Result<EntityId, Error> {
        self.catalog().resolve(parent_kind(kind, of)?, of).await
    }
}

/// Additional query parameters of a page of a workspace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageParams {
    counts: Option<bool>,
}

pub(super) async fn show(
    kind: EntityKind,
    State(service): State<Arc<Service>>,
    sight: InSight,
    QueryParams(words): QueryParams<PageParams>,
    named: String,
) -> Result<Response, Problem> {
    let with_counts = words.counts.unwrap_or(false);
    let at = service.catalog().resolve(kind, &named).await?;
    let (version, value) = page(&service, &at, &in_sight(sight), with_counts).await?;
    Ok(shown(StatusCode::OK, version, value))
}

/// Reads an entity with its free counters and everything that belongs to it, by names, and its version. A page of a workspace or
/// user is one query and a look-up of each name; `with_counts`, the counts of events of a workspace are read by another query.
///
/// # Errors
/// `NotFound`, when it does not exist; those of the table.
pub async fn page(
    service: &Service,
    at: &EntityId,
    sight: &Sight,
    with_counts: bool,
) -> Result<(i64, Value), Error> {
    let catalog = service.catalog();
    Ok(match at.kind() {
        EntityKind::Workspace => {
            let page = match with_counts {
                true => catalog.page_with_counts(at.id()).await?,
                false => catalog.page(at.id()).await?,
            };
            let names = catalog.names(page.grants.iter().map(|one| one.principal.clone())).await?;
            let path = (page.workspace.id().clone(), page.workspace.path.clone());
            let names = names.into_iter().chain([path]).collect();
            (page.workspace.entity.version, json::workspace_page(&page, &names))
        }
        EntityKind::User => {
            let mut page = catalog.user_page(at.id(), service.clock().now()).await?;
            page.follows = catalog.in_sight(page.follows, sight).await?;
            page.answered = catalog.answered_in_sight(page.answered, sight).await?;
            let names = catalog.names(page.entities()).await?;
            (page.user.version, json::user_page(&page, &names))
        }
        _ => {
            let any = catalog.show(at).await?;
            let mut value = json::any(&any);
            value["counters"] = json!(catalog.counters(at).await?);
            if at.kind() == EntityKind::Group {
                let members = catalog.memberships(at).await?;
                let names = catalog.names(members.iter().flat_map(Membership::entities)).await?;
                value["members"] = members.iter().map(|one| json::membership(one, &names)).collect();
            }
            (any.entity().version, value)
        }
    })
}

pub(super) async fn change(
    kind: EntityKind,
    State(service): State<Arc<Service>>,
    named: String,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let patch = json_object::<Change>(&headers, body)?.patch()?;
    let version = if_version(&headers)?;
    let at = service.catalog().resolve(kind, &named).await?;
    let any = service.catalog().change(&at, &patch, version, service.clock().now()).await?;
    Ok(shown(StatusCode::OK, any.entity().version, json::any(&any)))
}

pub(super) async fn delete(
    kind: EntityKind,
    State(service): State<Arc<Service>>,
    named: String,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let version = if_version(&headers)?;
    let at = service.catalog().resolve(kind, &named).await?;
    // It goes on when the client hangs up: a half deleted workspace that stays closed is of no use.
    let deleting = tokio::spawn(carried(async move {
        let now = service.clock().now();
        service.catalog().delete(&at, version, now).await
    }));
    let deleted = deleting.await;
    deleted.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the deletion was broken off"))??;
    Ok(StatusCode::NO_CONTENT.into_response())
}
