//! The catalog over HTTP.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use log::key::EntityKind;
use web::{InPath, Named, Operation, Routes};

use crate::Service;

mod api;
mod entity;
mod follow;
mod live;
mod people;
mod people_api;
mod retention;
mod schemas;
mod settings;
mod workspace;

pub use entity::{created, instant};

/// The most bytes in a body. Attributes may take as many bytes in the table as
/// [`crate::MAX_ATTRIBUTES_BYTES`]; as JSON they can be a few times longer.
pub const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// The operation that creates a release. The append service answers it, since a release is created together with the
/// event that registers it.
pub fn create_release() -> Operation {
    api::create(EntityKind::Release)
}

/// The routes of the catalog. An entity is named by its id, or by its path in one segment, slashes
/// escaped (`/v1/models/credit%2Fprod%2Fchurn`). What existed before, workspaces and what is in them, is
/// named by the path of the workspace in two segments as well (`/v1/workspaces/credit/prod/...`).
pub fn routes(service: Arc<Service>) -> Routes {
    all(Routes::new(), service)
}

/// Those of [`routes`] that change nothing.
pub fn reads(service: Arc<Service>) -> Routes {
    all(Routes::reads(), service)
}

fn all(mut routes: Routes<Arc<Service>>, service: Arc<Service>) -> Routes {
    // Parents before children, and users before what they are members of: the examples of the
    // document are made in its order.
    for kind in EntityKind::ALL {
        if kind != EntityKind::Release {
            routes = routes.add(api::create(kind), move |service, headers, body| {
                entity::create(kind, service, headers, body)
            });
        }
        routes = routes.add(api::list(kind), move |service, asked| entity::list(kind, service, asked));
        if kind != EntityKind::Workspace {
            routes = one(routes, kind, |method, id| api::named(kind, method, id));
        }
        if kind == EntityKind::Workspace {
            for named in Named::BOTH {
                routes = one(routes, kind, |method, id| api::named_workspace(named, method, id))
                    .add(api::create_model(named), workspace::create_model)
                    .add(api::set_lanes(named), workspace::set_lanes)
                    .add(retention::set_operation(named), retention::set)
                    .add(retention::operation(named), retention::show)
                    .add(retention::pin_operation(named), retention::pin)
                    .add(settings::set_operation(named), settings::set)
                    .add(settings::operation(named), settings::show)
                    .add(settings::alert_operation(named), settings::raise)
                    .add(follow::followers_operation(named), follow::followers)
                    .add(live::live_operation(named), live::live)
                    .add(live::history_operation(named), live::history);
            }
        }
    }
    let routes = routes
        .add(people_api::add_member(), people::add_member)
        .add(people_api::remove_member(), people::remove_member)
        .add(people_api::members(), people::members)
        .add(people_api::grant(), people::grant)
        .add(people_api::revoke(), people::revoke)
        .add(people_api::grants(), people::grants)
        .add(people_api::count(), people::count)
        .add(people_api::counter(), people::counter)
        .add(follow::set_operation(), follow::set)
        .add(follow::operation(), follow::show)
        .add(follow::feed_operation(), follow::feed)
        .add(follow::seen_operation(), follow::seen)
        .add(follow::digest_operation(), follow::digest)
        .map_router(|router| router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)));
    let routes =
        schemas::all().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema));
    routes
        .schema("Happening", live::happening_schema())
        .schema("Live", live::live_schema())
        .with_state(service)
}

/// Showing, changing and deleting one entity, at the path that `operation` gives.
fn one(
    routes: Routes<Arc<Service>>,
    kind: EntityKind,
    operation: impl Fn(fn(String, &str) -> Operation, &str) -> Operation,
) -> Routes<Arc<Service>> {
    let id = |verb: &str| format!("{verb}_{}", kind.name());
    routes
        .add(api::show(kind, operation(Operation::get, &id("show"))), move |service, InPath(named)| {
            entity::show(kind, service, named)
        })
        .add(
            api::change(kind, operation(Operation::patch, &id("update"))),
            move |service, InPath(named), headers, body| entity::change(kind, service, named, headers, body),
        )
        .add(
            api::delete(kind, operation(Operation::delete, &id("delete"))),
            move |service, InPath(named), headers| entity::delete(kind, service, named, headers),
        )
}
