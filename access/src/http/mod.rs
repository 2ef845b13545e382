//! HTTP side of access: the guard before all routes, the tokens, and the sessions of browsers.

mod auth_layer;
mod once;
mod params;
mod session;
mod tokens;

pub use auth_layer::{guard, refuse_foreign_pages};
pub use session::session_record;
pub use tokens::{Tokening, operations, reads, record, routes};
