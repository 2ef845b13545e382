//! What is in Almanac's table, and the one way in.
//!
//! In reading order: [`time`] and [`id`]; the [`event`], the [`columns`] in which events
//! travel and the [`batch`] that they come in;
//! the [`segment`] that packs them; the [`key`] of everything, and the [`item`] under a key; the
//! [`log`] with its [`lane`]s, the [`rollup`] and what is [`evaluated`] as items, which version of the rollups is [`active`], of
//! which days the events have [`expired`], by the time that the table has [`counted`], which segments were
//! [`skipped`], and the [`cut`] that an answer was read at; the [`catalog`] of workspaces, models and
//! releases; and the
//! [`table`] with its engines.
//!
//! It is a library of formats and storage. It knows no HTTP, folds nothing and schedules nothing.

pub mod active;
pub mod batch;
pub mod catalog;
pub mod columns;
pub mod counted;
pub mod cut;
mod error;
pub mod evaluated;
pub mod event;
pub mod expired;
pub mod id;
pub mod indexes;
pub mod item;
pub mod key;
pub mod lane;
pub mod log;
pub mod rollup;
pub mod scan;
pub mod segment;
pub mod skipped;
pub mod table;
pub mod time;

pub use columns::{Column, Columns, Values};
pub use error::{Error, ErrorKind, Result};
pub use event::Kind;
pub use id::Id;
pub use item::Item;
pub use table::Table;
pub use time::{Clock, Day, Timestamp, Window};
