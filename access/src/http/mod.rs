//! Access over HTTP: the guard before all routes, and the tokens.

mod guard;
mod once;
mod tokens;
mod words;

pub use guard::guard;
pub use tokens::{reads, record, routes};
