//! The catalog over HTTP.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use web::{Named, Routes};

use crate::Service;

mod api;
mod body;
mod follow;
mod live;
mod retention;
mod settings;
mod workspace;

/// The most bytes in a body.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The routes of the catalog. A workspace is named by its path in two segments
/// (`/v1/workspaces/credit/prod/...`), or by its id.
pub fn routes(service: Arc<Service>) -> Routes {
    let mut routes = Routes::new()
        .add(api::create_workspace(), workspace::create_workspace)
        .add(api::list(), workspace::list);
    for named in Named::BOTH {
        routes = routes
            .add(api::create_model(named), workspace::create_model)
            .add(api::set_lanes(named), workspace::set_lanes)
            .add(api::show(named), workspace::show)
            .add(retention::set_operation(named), retention::set)
            .add(retention::operation(named), retention::show)
            .add(retention::pin_operation(named), retention::pin)
            .add(settings::set_operation(named), settings::set)
            .add(settings::operation(named), settings::show)
            .add(settings::alert_operation(named), settings::raise)
            .add(live::live_operation(named), live::live)
            .add(live::history_operation(named), live::history);
    }
    let routes = routes
        .add(follow::set_operation(), follow::set)
        .add(follow::operation(), follow::show)
        .add(follow::feed_operation(), follow::feed)
        .add(follow::seen_operation(), follow::seen)
        .add(follow::digest_operation(), follow::digest);
    let routes = routes.map_router(|router| router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)));
    let routes =
        api::schemas().into_iter().fold(routes, |routes, (name, schema)| routes.schema(name, schema));
    routes.schema("Happening", live::happening_schema()).with_state(service)
}
