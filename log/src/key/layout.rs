//! The key of what says in which layout a table is.

use table::Key;

/// The layout of the table ([`crate::layout`]).
pub fn layout() -> Key {
    Key::new("sys/layout", "table")
}
