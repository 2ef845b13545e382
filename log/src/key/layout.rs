//! Key of the layout of a table.

use table::Key;

/// The layout of the table ([`crate::layout`]).
pub fn layout() -> Key {
    Key::new("sys/layout", "table")
}
