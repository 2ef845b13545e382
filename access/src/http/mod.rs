//! HTTP side of access: the guard before all routes, the tokens, and the sessions of browsers.

mod guard;
mod once;
mod session;
mod tokens;
mod words;

pub use guard::{guard, refuse_foreign_pages};
pub use session::session_record;
pub use tokens::{Tokening, operations, reads, record, routes};
