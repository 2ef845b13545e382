//! Following, feeds and digests, over HTTP.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Error, ErrorKind, Id};
use log::key::{EntityId, EntityKind, Followed};
use serde::Deserialize;
use serde_json::{Value, json};
use table::Cursor;
use utoipa::{IntoParams, ToSchema};
use web::{
    Operation, Problem, QueryParams, Requester, Whole, answer, content, json_object,
    openapi::{RefOr, Required, Schema, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::{
    api::JSON,
    live::{ENTRIES, body, entry},
};
use crate::{Catalog, FeedEntry, Follow, Happening, MAX_ENTRIES, MAX_MARKS, Service, Sight, json};

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewFollow {
    #[schema(schema_with = schema::workspace)]
    workspace: String,
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    model: Option<String>,
    following: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    entries: Vec<String>,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Newest,
    Oldest,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowsParams {
    /// Which come first; the newest when it is not given.
    #[param(inline)]
    order: Option<Order>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct SeenParams {
    /// The entry, as the feed names it.
    #[param(pattern = "^[0-9A-Za-z]{27}:[!-\"$-}]{0,512}$", example = json!(ENTRY))]
    entry: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct FeedParams {
    /// At most so many.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// At most so many of each workspace or model that the user follows.
    #[param(minimum = 1, maximum = 1000)]
    per_publisher: Option<usize>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowersParams {
    /// Model, in place of the whole workspace.
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    model: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct DigestParams {
    /// The user whose digest of the last 7 days is answered, in place of the list of users.
    #[param(example = "ann")]
    user: Option<String>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
}

/// Entry of the examples.
const ENTRY: &str = "2NBs0sLBnJxEcoDLgVnQdJkhEgV:2026-06-02T00:00:00.000000Z/alert/drift/";

/// Visible part of the catalog for the caller, where that is not everything.
pub(super) type InSight = Option<Extension<Arc<Sight>>>;

pub(super) fn in_sight(sight: InSight) -> Sight {
    sight.map_or(Sight::Everything, |Extension(sight)| Sight::clone(&sight))
}

/// Something that a user follows.
pub(super) fn follow_schema() -> RefOr<Schema> {
    let name = || schema::nullable(schema::string());
    schema::object([
        ("workspace", schema::id().into()),
        ("path", name().into()),
        ("since", schema::time().into()),
    ])
    .property("model", schema::id())
    .property("model_name", name())
    .into()
}

/// A user, by id and name, with `more`.
fn user_with(more: (&str, RefOr<Schema>)) -> ObjectBuilder {
    let name = schema::nullable(schema::string());
    schema::object([("user", schema::id().into()), ("name", name.into()), more])
}

fn paged(page: ObjectBuilder) -> ObjectBuilder {
    page.property("next", schema::string().description(Some("The cursor of the next page, if there is one.")))
}

fn of_user(operation: Operation) -> Operation {
    let user = parameter(ParameterIn::Path, "user", schema::string(), "The user, by id or name.");
    operation.tag("people").takes(user.required(Required::True).example(Some(json!("ann"))))
}

pub(super) fn set_operation() -> Operation {
    let example = json!({ "workspace": "credit/prod", "following": true });
    let followers = schema::count().description(Some("Where the caller may read it."));
    let counted = schema::object([("changed", schema::boolean().into())]).property("followers", followers);
    of_user(Operation::put("/v1/users/{user}/follows", "follow"))
        .summary("Make a user follow a workspace or one of its models, or end that")
        .description("A repeat changes nothing and counts nothing. To end it, what is followed need not be read any more.")
        .body("What.", [(JSON, content(schema::of::<NewFollow>(), Some(example)))])
        .answers(StatusCode::OK, answer("How many follow it now.", JSON, counted))
}

pub(super) fn operation() -> Operation {
    let body = schema::object([("follows", schema::array(schema::component("Follow")).into())]);
    of_user(Operation::get("/v1/users/{user}/follows", "follows"))
        .query::<FollowsParams>()
        .summary("List what a user follows, in the order in which it was followed")
        .answers(StatusCode::OK, answer("That.", JSON, body))
}

pub(super) fn feed_operation() -> Operation {
    let path = schema::nullable(schema::string()).description(Some("The workspace, by its path."));
    let entry = schema::of::<Happening>()
        .property("path", path)
        .required("path")
        .property("seen", schema::boolean())
        .required("seen");
    let body = schema::object([("entries", schema::array(entry).into())]);
    of_user(Operation::get("/v1/users/{user}/feed", "feed"))
        .query::<FeedParams>()
        .summary("Tell what is new in what a user follows")
        .description("New releases, promotions, rollbacks, retirements, alerts, and comparisons with a live release that are decided; what was not seen comes first, the latest first.")
        .answers(StatusCode::OK, answer("That.", JSON, body))
}

pub(super) fn followers_operation() -> Operation {
    let users = schema::array(user_with(("since", schema::time().into())));
    let body = schema::object([("followers", schema::count().into()), ("users", users.into())]);
    Operation::get("/v1/workspaces/{category}/{name}/followers", "followers")
        .tag("people")
        .summary("List who follows a workspace or one of its models, in the order in which they came")
        .query::<FollowersParams>()
        .answers(StatusCode::OK, answer("How many there are, and some of them.", JSON, paged(body)))
}

pub(super) fn seen_operation() -> Operation {
    let entries = schema::array(entry()).max_items(Some(MAX_MARKS));
    let body = schema::object([("entries", entries.into())]);
    let marked = schema::object([("marked", schema::count().into())]);
    of_user(Operation::post("/v1/users/{user}/seen", "mark_seen"))
        .summary("Mark entries of the feed as seen by a user")
        .body("Their names.", [(JSON, content(body, Some(json!({ "entries": [ENTRY] }))))])
        .answers(StatusCode::OK, answer("How many.", JSON, marked))
}

pub(super) fn has_seen_operation() -> Operation {
    let body = schema::object([("entry", entry().into()), ("seen", schema::boolean().into())]);
    of_user(Operation::get("/v1/users/{user}/seen", "has_seen"))
        .query::<SeenParams>()
        .summary("Tell whether a user has seen an entry of the feed")
        .answers(StatusCode::OK, answer("It is one look-up of a key.", JSON, body))
}

pub(super) fn digest_operation() -> Operation {
    let user = user_with(("follows", schema::array(schema::component("Follow")).into()));
    let body = schema::closed()
        .property("digest", schema::array(schema::component("Digest")))
        .property("users", schema::array(user));
    Operation::get("/v1/digest", "digest")
        .tag("people")
        .query::<DigestParams>()
        .summary("Tell what happened in the last 7 days in what a user follows, or list what all users follow")
        .description("Of each workspace and model: events, live releases with the primary metric, and alerts that fired, up to yesterday (UTC), beside the 7 days before.")
        .answers(StatusCode::OK, answer("The `digest` of the user, or the `users`.", JSON, paged(body)))
}

/// The user that a path names.
pub(super) type InPath = Result<Path<String>, PathRejection>;

async fn user_of(catalog: &Catalog, path: InPath) -> Result<Id, Problem> {
    let Path(user) =
        path.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
    Ok(catalog.resolve(EntityKind::User, &user).await?.id().clone())
}

/// A page of users as JSON: each with what `row` says of it.
fn user_row(user: &Id, names: &crate::Names, mut row: Value) -> Value {
    row["user"] = EntityId::User(user.clone()).to_string().into();
    row["name"] = json!(names.get(user));
    row
}

fn page(mut body: Value, next: Option<Cursor>) -> Response {
    if let Some(next) = next {
        body["next"] = next.to_text().into();
    }
    Json(body).into_response()
}

async fn followed(catalog: &Catalog, workspace: &str, model: Option<&str>) -> Result<Followed, Error> {
    let workspace = catalog.workspace(workspace).await?.id().clone();
    Ok(match model {
        Some(model) => {
            let model = catalog.model_named(&workspace, model).await?;
            Followed::Model(workspace, model)
        }
        None => Followed::Workspace(workspace),
    })
}

/// Finds the entity that a user no longer follows, and whether it is visible. An invisible one is found only if the
/// user follows it.
async fn unfollowed(
    catalog: &Catalog,
    user: &Id,
    new: &NewFollow,
    sight: &Sight,
) -> Result<(Followed, bool), Error> {
    let workspace = catalog.workspace(&new.workspace).await?;
    let found = followed(catalog, &new.workspace, new.model.as_deref()).await;
    if sight.has(workspace.id(), &workspace.category) {
        return Ok((found?, true));
    }
    let follows = catalog.follows(user).await?;
    match found {
        Ok(found) if follows.iter().any(|one| one.followed == found) => Ok((found, false)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Err(Catalog::missing(EntityKind::Workspace, &new.workspace)),
    }
}

pub(super) async fn set(
    State(service): State<Arc<Service>>,
    sight: InSight,
    user: InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewFollow = json_object(&headers, new)?;
    let catalog = service.catalog();
    let user = user_of(catalog, user).await?;
    let (followed, is_seen) = match new.following {
        true => (followed(catalog, &new.workspace, new.model.as_deref()).await?, true),
        false => unfollowed(catalog, &user, &new, &in_sight(sight)).await?,
    };
    let changed = match new.following {
        true => catalog.follow(&user, &followed, service.clock().now()).await?,
        false => catalog.unfollow(&user, &followed).await?,
    };
    let mut told = json!({ "changed": changed });
    if is_seen {
        told["followers"] = catalog.followers(&followed).await?.into();
    }
    Ok(Json(told).into_response())
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    sight: InSight,
    user: InPath,
    QueryParams(params): QueryParams<FollowsParams>,
) -> Result<Response, Problem> {
    let order = params.order.unwrap_or_default();
    let catalog = service.catalog();
    let user = user_of(catalog, user).await?;
    let mut follows = catalog.in_sight(catalog.follows(&user).await?, &in_sight(sight)).await?;
    if let Order::Newest = order {
        follows.reverse();
    }
    let names = catalog.names(follows.iter().flat_map(|one| one.followed.entities())).await?;
    let follows: Vec<Value> = follows.iter().map(|one| json::follow(one, &names)).collect();
    Ok(Json(json!({ "follows": follows })).into_response())
}

pub(super) async fn has_seen(
    State(service): State<Arc<Service>>,
    user: InPath,
    QueryParams(SeenParams { entry }): QueryParams<SeenParams>,
) -> Result<Response, Problem> {
    let user = user_of(service.catalog(), user).await?;
    let seen = service.catalog().has_seen(&user, &entry).await?;
    Ok(Json(json!({ "entry": entry, "seen": seen })).into_response())
}

pub(super) async fn followers(
    State(service): State<Arc<Service>>,
    web::InPath(workspace): web::InPath,
    QueryParams(FollowersParams { model, limit, cursor }): QueryParams<FollowersParams>,
) -> Result<Response, Problem> {
    let catalog = service.catalog();
    let limit = limit.unwrap_or(ENTRIES);
    if !(1..=MAX_ENTRIES).contains(&limit) {
        return Err(Error::invalid(format!("the limit is 1 to {MAX_ENTRIES}")).into());
    }
    let followed = followed(catalog, &workspace, model.as_deref()).await?;
    let count = catalog.followers(&followed).await?;
    let after = cursor.as_deref().map(Cursor::from_text).transpose()?;
    let found = catalog.followers_page(&followed, limit, after).await?;
    let names = catalog.names(found.users.iter().map(|(user, _)| EntityId::User(user.clone()))).await?;
    let user = |(user, since): &(Id, event::Timestamp)| user_row(user, &names, json!({ "since": since }));
    let users: Vec<Value> = found.users.iter().map(user).collect();
    Ok(page(json!({ "followers": count, "users": users }), found.next))
}

pub(super) async fn feed(
    State(service): State<Arc<Service>>,
    requester: Requester,
    sight: InSight,
    user: InPath,
    QueryParams(FeedParams { limit, per_publisher }): QueryParams<FeedParams>,
) -> Result<Response, Problem> {
    let limit = limit.unwrap_or(ENTRIES);
    let user = user_of(service.catalog(), user).await?;
    let feed = service.catalog().feed(&user, limit, per_publisher, &in_sight(sight)).await?;
    let workspaces = feed.iter().map(|entry| EntityId::Workspace(entry.happening.workspace.clone()));
    let names = service.catalog().names(workspaces).await?;
    let entry = |entry: &FeedEntry| {
        let mut row = body(&entry.happening, &requester);
        row["path"] = json!(names.get(&entry.happening.workspace));
        row["seen"] = entry.is_seen.into();
        row
    };
    let entries: Vec<Value> = feed.iter().map(entry).collect();
    Ok(Json(json!({ "entries": entries })).into_response())
}

pub(super) async fn seen(
    State(service): State<Arc<Service>>,
    user: InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Seen = json_object(&headers, new)?;
    let user = user_of(service.catalog(), user).await?;
    service.catalog().mark_seen(&user, &new.entries, service.clock().now()).await?;
    Ok(Json(json!({ "marked": new.entries.len() })).into_response())
}

pub(super) async fn digest(
    State(service): State<Arc<Service>>,
    sight: InSight,
    QueryParams(DigestParams { user, cursor }): QueryParams<DigestParams>,
) -> Result<Response, Problem> {
    let catalog = service.catalog();
    if let Some(user) = user {
        if cursor.is_some() {
            return Err(Error::invalid("cursor: the digest of a user has one page").into());
        }
        let user = catalog.resolve(EntityKind::User, &user).await?;
        let digest = catalog.digest_of(user.id(), &in_sight(sight), service.clock().now()).await?;
        return Ok(Json(json!({ "digest": digest })).into_response());
    }
    let digest = catalog.digest(cursor.as_deref().map(Cursor::from_text).transpose()?).await?;
    let names = catalog.names(digest.entities()).await?;
    let user = |(user, follows): &(Id, Vec<Follow>)| {
        let follows: Vec<Value> = follows.iter().map(|one| json::follow(one, &names)).collect();
        user_row(user, &names, json!({ "follows": follows }))
    };
    let users: Vec<Value> = digest.users.iter().map(user).collect();
    Ok(page(json!({ "users": users }), digest.next))
}
