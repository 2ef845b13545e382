//! The catalog over HTTP.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use event::{Kind, Right};
use log::key::EntityKind;
use web::{About, InPath, Operation, Place, RequiredPermission, Routes};

use crate::{Happening, Service, WeekOf};

mod alert;
mod api;
mod consumer;
mod demands;
mod entity;
mod erasure;
mod follow;
mod judging;
mod live;
mod people;
mod people_api;
mod promotion;
mod retention;
mod review;
mod run;
mod schemas;
mod settings;

pub use alert::standing_json;
pub use entity::{created, instant, page, parent_kind};
pub use erasure::erasure_json;
pub use judging::{costs, judging};
pub use promotion::{approval_json, gates_and_approvals, gates_json};
pub use retention::pinned_snapshots;
pub use review::{
    answer_review_item, answered_json, asked_json, create_review, delete_review, given_json, judge,
    list_reviews, next_review_item, rank_arena, refresh_arena, results_json, review_items, review_json,
    review_schemas, reviewed_answers,
};
pub(crate) use schemas::what_schema;
pub use schemas::{baselines_schema, ranking_metrics};
pub use settings::quota_schema;
pub(crate) use web::schema::id as id_schema;

/// Maximum bytes in a body. Attributes may take as many bytes in the table as
/// [`crate::MAX_ATTRIBUTES_BYTES`]; as JSON they can be a few times longer.
pub const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// The operation that creates a release. The append service answers it, since a release is created together with the
/// event that registers it.
pub fn create_release() -> Operation {
    api::create(EntityKind::Release)
}

/// The operation that creates a snapshot. The query service's reader answers it, since a snapshot is made of what it reads.
pub fn create_snapshot() -> Operation {
    api::create(EntityKind::Snapshot)
}

/// Returns the permission that creating an entity requires.
pub fn create_demand(kind: EntityKind) -> RequiredPermission {
    demands::create(kind)
}

/// The routes of the catalog. A workspace is named by its path in two segments (`/v1/workspaces/credit/prod/...`), or by its id behind
/// `-`; any other entity in one, by its id or by its path with the slashes escaped (`/v1/models/credit%2Fprod%2Fchurn`).
pub fn routes(service: Arc<Service>) -> Routes {
    operations().with_state(service)
}

/// Makes the routes of [`routes`] that change nothing.
pub fn reads(service: Arc<Service>) -> Routes {
    all(Routes::reads()).with_state(service)
}

/// The operations of [`routes`], as they describe themselves.
pub fn operations() -> Routes<Arc<Service>> {
    all(Routes::new())
}

fn all(mut routes: Routes<Arc<Service>>) -> Routes<Arc<Service>> {
    let (read, maintain) =
        (|| RequiredPermission::workspace(Right::Read), || RequiredPermission::workspace(Right::Maintain));
    // Rules can be on events of every kind, and tell what they found.
    let of_all = || read().of_kinds(&Kind::ALL);
    // Parents before children, and users before what they are members of: the examples of the
    // document are made in its order.
    for kind in EntityKind::ALL {
        if !matches!(kind, EntityKind::Release | EntityKind::Snapshot) {
            routes = routes.add(api::create(kind), demands::create(kind), move |service, headers, body| {
                entity::create(kind, service, headers, body)
            });
        }
        routes = routes.add(api::list(kind), demands::list(kind), move |service, sight, asked| {
            entity::list(kind, service, sight, asked)
        });
        routes = one(routes, kind);
        if kind == EntityKind::Workspace {
            routes = routes
                .add(retention::change_operation(), maintain(), retention::change)
                .add(retention::operation(), read(), retention::show)
                .add(erasure::begin_operation(), RequiredPermission::workspace(Right::Admin), erasure::begin)
                .add(erasure::list_operation(), RequiredPermission::workspace(Right::Admin), erasure::list)
                .add(settings::change_operation(), maintain(), settings::change)
                .add(settings::operation(), read(), settings::show)
                .add(settings::alert_operation(), maintain(), settings::raise)
                .add(alert::apply_operation(), maintain(), alert::apply)
                .add(alert::list_operation(), read(), alert::list)
                .add(alert::delete_operation(), maintain(), alert::delete)
                .add(alert::test_operation(), of_all(), alert::test)
                .add(alert::transitions_operation(), of_all(), alert::transitions)
                .add(alert::deliveries_operation(), of_all(), alert::deliveries)
                .add(follow::followers_operation(), read(), follow::followers)
                .add(consumer::list_operation(), read(), consumer::list)
                .add(consumer::commit_operation(), read(), consumer::commit)
                .add(consumer::delete_operation(), maintain(), consumer::delete)
                .add(live::live_operation(), read(), live::live)
                .add(live::history_operation(), read(), live::history);
        }
        if kind == EntityKind::Model {
            routes = routes.add(promotion::set_operation(), maintain(), promotion::set).add(
                promotion::list_operation(),
                read(),
                promotion::list,
            );
        }
    }
    let routes =
        run::add(people(routes)).map_router(|router| router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)));
    let routes = schemas::all()
        .into_iter()
        .chain(alert::schemas())
        .fold(routes, |routes, (name, schema)| routes.schema(name, schema));
    routes
        .schema("Approval", promotion::approval_schema())
        .schema("PromotionGates", promotion::gates_schema())
        .schema("Digest", web::schema::of::<WeekOf>())
        .schema("Consumer", consumer::consumer_schema())
        .schema("Erasure", erasure::erasure_schema())
        .schema("Happening", web::schema::of::<Happening>())
        .schema("Live", live::live_schema())
}

/// Roles, members of groups, counters, and what people follow.
fn people(routes: Routes<Arc<Service>>) -> Routes<Arc<Service>> {
    routes
        .add(people_api::grant(), demands::of_grants(Right::Admin), people::grant)
        .add(people_api::revoke(), demands::of_grants(Right::Admin), people::revoke)
        .add(people_api::grants(), demands::of_grants(Right::Read), people::grants)
        .add(people_api::add_member(), RequiredPermission::server(Right::Admin), people::add_member)
        .add(people_api::remove_member(), RequiredPermission::server(Right::Admin), people::remove_member)
        .add(people_api::count(), demands::of_counter(Right::Append), people::count)
        .add(people_api::counter(), demands::of_counter(Right::Read), people::counter)
        .add(
            follow::set_operation(),
            demands::of_user(Right::Admin).and(Right::Read, About::Followed(Place::Body("workspace"))),
            follow::set,
        )
        .add(follow::operation(), demands::of_user(Right::Read), follow::show)
        .add(follow::feed_operation(), demands::of_user(Right::Read), follow::feed)
        .add(follow::seen_operation(), demands::of_user(Right::Admin), follow::seen)
        .add(follow::has_seen_operation(), demands::of_user(Right::Read), follow::has_seen)
        .add(follow::digest_operation(), demands::of_digest(), follow::digest)
        .schema("Follow", follow::follow_schema())
}

/// Showing, changing and deleting one entity.
fn one(routes: Routes<Arc<Service>>, kind: EntityKind) -> Routes<Arc<Service>> {
    let operation = |method, verb| api::named(kind, method, &format!("{verb}_{kind}"));
    routes
        .add(
            api::show(kind, operation(Operation::get, "show")),
            demands::show(kind),
            move |service, sight, words, InPath(named)| entity::show(kind, service, sight, words, named),
        )
        .add(
            api::change(kind, operation(Operation::patch, "update")),
            demands::change(kind),
            move |service, InPath(named), headers, body| entity::change(kind, service, named, headers, body),
        )
        .add(
            api::delete(kind, operation(Operation::delete, "delete")),
            demands::delete(kind),
            move |service, InPath(named), headers| entity::delete(kind, service, named, headers),
        )
}
