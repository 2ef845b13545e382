//! Following, feeds and the digest, over HTTP.

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
use web::{
    Asker, Operation, Problem, Whole, answer, content, json_object,
    openapi::{
        RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn},
        schema::ObjectBuilder,
    },
    parameter, schema,
};

use super::{
    api::JSON,
    live::{Asked, ENTRIES, asked, body, entry, happening_schema, limit},
};
use crate::{Catalog, FeedEntry, Follow, MAX_ENTRIES, MAX_MARKS, Service, Sight, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFollow {
    workspace: String,
    model: Option<String>,
    following: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    entries: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowsWords {
    order: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeenWords {
    entry: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FeedWords {
    limit: Option<usize>,
    per_publisher: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowersWords {
    model: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DigestWords {
    cursor: Option<String>,
}

pub(super) fn user() -> ParameterBuilder {
    parameter(ParameterIn::Path, "user", schema::string(), "The user, by id or name.")
        .required(Required::True)
        .example(Some(json!("ann")))
}

/// What the caller may see, where that is not everything.
pub(super) type InSight = Option<Extension<Arc<Sight>>>;

/// The same.
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

fn boolean() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Boolean).into()
}

pub(super) fn set_operation() -> Operation {
    let new = schema::object([("workspace", schema::workspace()), ("following", boolean())])
        .property("model", schema::nullable(schema::name()));
    let example = json!({ "workspace": "credit/prod", "following": true });
    let followers = schema::count().description(Some("Where the caller may read it."));
    let counted = schema::object([("changed", boolean())]).property("followers", followers);
    Operation::put("/v1/users/{user}/follows", "follow")
        .tag("people")
        .takes(user())
        .summary("Make a user follow a workspace or one of its models, or end that")
        .description("A repeat changes nothing and counts nothing. To end it, what is followed need not be read any more.")
        .body("What.", [(JSON, content(new, Some(example)))])
        .answers(StatusCode::OK, answer("How many follow it now.", JSON, counted))
}

pub(super) fn operation() -> Operation {
    let body = schema::object([("follows", schema::array(schema::component("Follow")).into())]);
    let order = schema::one_of(["newest", "oldest"]);
    let says = "Which come first; the newest when it is not given.";
    Operation::get("/v1/users/{user}/follows", "follows")
        .tag("people")
        .takes(user())
        .takes(parameter(ParameterIn::Query, "order", order, says))
        .summary("List what a user follows, in the order in which it was followed")
        .answers(StatusCode::OK, answer("That.", JSON, body))
}

pub(super) fn feed_operation() -> Operation {
    let entry = happening_schema()
        .property("path", schema::nullable(schema::string()).description(Some("The workspace, by its path.")))
        .required("path")
        .property("seen", boolean())
        .required("seen");
    let body = schema::object([("entries", schema::array(entry).into())]);
    Operation::get("/v1/users/{user}/feed", "feed")
        .tag("people")
        .takes(user())
        .takes(limit())
        .takes(per_publisher())
        .summary("Tell what is new in what a user follows")
        .description("New releases, promotions, rollbacks, retirements, alerts, and comparisons with a live release that are decided; what was not seen comes first, the latest first.")
        .answers(StatusCode::OK, answer("That.", JSON, body))
}

fn per_publisher() -> ParameterBuilder {
    let says = "At most so many of each workspace or model that the user follows.";
    parameter(ParameterIn::Query, "per_publisher", schema::integer(1..=MAX_ENTRIES), says)
        .required(Required::False)
}

pub(super) fn followers_operation() -> Operation {
    let user = schema::object([
        ("user", schema::id().into()),
        ("name", schema::nullable(schema::string()).into()),
        ("since", schema::time().into()),
    ]);
    let users = schema::array(user);
    let body = schema::object([("followers", schema::count().into()), ("users", users.into())]).property(
        "next",
        schema::string().description(Some("The cursor of the next page, if there is one.")),
    );
    let of_model = "Of this model instead of the workspace.";
    let cursor = "Where to go on: `next` of the page before.";
    Operation::get("/v1/workspaces/{category}/{name}/followers", "followers")
        .tag("people")
        .summary("List who follows a workspace or one of its models, in the order in which they came")
        .takes(parameter(ParameterIn::Query, "model", schema::name(), of_model))
        .takes(limit())
        .takes(parameter(ParameterIn::Query, "cursor", schema::string(), cursor))
        .answers(StatusCode::OK, answer("How many there are, and some of them.", JSON, body))
}

pub(super) fn seen_operation() -> Operation {
    let entries = schema::array(entry()).max_items(Some(MAX_MARKS));
    let name = "2NBs0sLBnJxEcoDLgVnQdJkhEgV:2026-06-02T00:00:00.000000Z/alert/drift/";
    let example = json!({ "entries": [name] });
    Operation::post("/v1/users/{user}/seen", "mark_seen")
        .tag("people")
        .takes(user())
        .summary("Mark entries of the feed as seen by a user")
        .body("Their names.", [(JSON, content(schema::object([("entries", entries.into())]), Some(example)))])
        .answers(
            StatusCode::OK,
            answer("How many.", JSON, schema::object([("marked", schema::count().into())])),
        )
}

pub(super) fn has_seen_operation() -> Operation {
    let body = schema::object([("entry", entry().into()), ("seen", boolean())]);
    let name = "2NBs0sLBnJxEcoDLgVnQdJkhEgV:2026-06-02T00:00:00.000000Z/alert/drift/";
    Operation::get("/v1/users/{user}/seen", "has_seen")
        .tag("people")
        .takes(user())
        .takes(
            parameter(ParameterIn::Query, "entry", entry(), "The entry, as the feed names it.")
                .required(Required::True)
                .example(Some(json!(name))),
        )
        .summary("Tell whether a user has seen an entry of the feed")
        .answers(StatusCode::OK, answer("It is one look-up of a key.", JSON, body))
}

pub(super) fn digest_operation() -> Operation {
    let user = schema::object([
        ("user", schema::id().into()),
        ("name", schema::nullable(schema::string()).into()),
        ("follows", schema::array(schema::component("Follow")).into()),
    ]);
    let body = schema::object([("users", schema::array(user).into())]).property(
        "next",
        schema::string().description(Some("The cursor of the next page, if there is one.")),
    );
    Operation::get("/v1/digest", "digest")
        .tag("people")
        .takes(parameter(
            ParameterIn::Query,
            "cursor",
            schema::string(),
            "Where to go on: `next` of the page before.",
        ))
        .summary("List all users with what they follow")
        .description("A user whose follows do not fit into a page goes on in the next.")
        .answers(StatusCode::OK, answer("They are.", JSON, body))
}

/// The user that a path names.
pub(super) type InPath = Result<Path<String>, PathRejection>;

pub(super) async fn user_of(catalog: &Catalog, path: InPath) -> Result<Id, Problem> {
    let Path(user) =
        path.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
    Ok(catalog.resolve(EntityKind::User, &user).await?.id().clone())
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

/// What a user follows no longer, and whether it is in sight. What is not is there for who follows it alone.
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
    words: Asked<FollowsWords>,
) -> Result<Response, Problem> {
    let newest_first = match asked(words)?.order.as_deref() {
        None | Some("newest") => true,
        Some("oldest") => false,
        Some(other) => {
            return Err(Error::invalid(format!("`order` is newest or oldest, not `{other}`")).into());
        }
    };
    let catalog = service.catalog();
    let user = user_of(catalog, user).await?;
    let mut follows = catalog.in_sight(catalog.follows(&user).await?, &in_sight(sight)).await?;
    if newest_first {
        follows.reverse();
    }
    let names = catalog.names(follows.iter().flat_map(|one| one.followed.entities())).await?;
    let follows: Vec<Value> = follows.iter().map(|one| json::follow(one, &names)).collect();
    Ok(Json(json!({ "follows": follows })).into_response())
}

pub(super) async fn has_seen(
    State(service): State<Arc<Service>>,
    user: InPath,
    words: Asked<SeenWords>,
) -> Result<Response, Problem> {
    let SeenWords { entry } = asked(words)?;
    let user = user_of(service.catalog(), user).await?;
    let seen = service.catalog().has_seen(&user, &entry).await?;
    Ok(Json(json!({ "entry": entry, "seen": seen })).into_response())
}

pub(super) async fn followers(
    State(service): State<Arc<Service>>,
    web::InPath(workspace): web::InPath,
    words: Asked<FollowersWords>,
) -> Result<Response, Problem> {
    let FollowersWords { model, limit, cursor } = asked(words)?;
    let catalog = service.catalog();
    let limit = limit.unwrap_or(ENTRIES);
    if !(1..=MAX_ENTRIES).contains(&limit) {
        return Err(Error::invalid(format!("the limit is 1 to {MAX_ENTRIES}")).into());
    }
    let followed = followed(catalog, &workspace, model.as_deref()).await?;
    let count = catalog.followers(&followed).await?;
    let after = cursor.as_deref().map(Cursor::from_text).transpose()?;
    let page = catalog.followers_page(&followed, limit, after).await?;
    let names = catalog.names(page.users.iter().map(|(user, _)| EntityId::User(user.clone()))).await?;
    let user = |(user, since): &(Id, event::Timestamp)| {
        let id = EntityId::User(user.clone()).to_string();
        json!({ "user": id, "name": names.get(user), "since": since.to_string() })
    };
    let users: Vec<Value> = page.users.iter().map(user).collect();
    let mut body = json!({ "followers": count, "users": users });
    if let Some(next) = page.next {
        body["next"] = next.to_text().into();
    }
    Ok(Json(body).into_response())
}

pub(super) async fn feed(
    State(service): State<Arc<Service>>,
    asker: Asker,
    sight: InSight,
    user: InPath,
    words: Asked<FeedWords>,
) -> Result<Response, Problem> {
    let FeedWords { limit, per_publisher } = asked(words)?;
    let limit = limit.unwrap_or(ENTRIES);
    let user = user_of(service.catalog(), user).await?;
    let feed = service.catalog().feed_in(&user, limit, per_publisher, &in_sight(sight)).await?;
    let workspaces = feed.iter().map(|entry| EntityId::Workspace(entry.happening.workspace.clone()));
    let names = service.catalog().names(workspaces).await?;
    let entry = |entry: &FeedEntry| {
        let mut row = body(&entry.happening, &asker);
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
    words: Asked<DigestWords>,
) -> Result<Response, Problem> {
    let cursor = asked(words)?.cursor.as_deref().map(Cursor::from_text).transpose()?;
    let digest = service.catalog().digest(cursor).await?;
    let names = service.catalog().names(digest.entities()).await?;
    let user = |(user, follows): &(Id, Vec<Follow>)| {
        let follows: Vec<Value> = follows.iter().map(|one| json::follow(one, &names)).collect();
        let id = EntityId::User(user.clone()).to_string();
        json!({ "user": id, "name": names.get(user), "follows": follows })
    };
    let mut page = json!({ "users": digest.users.iter().map(user).collect::<Vec<_>>() });
    if let Some(next) = digest.next {
        page["next"] = next.to_text().into();
    }
    Ok(Json(page).into_response())
}
