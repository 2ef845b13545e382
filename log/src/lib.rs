//! Almanac's logs in the table: every key, and the items under them.
//!
//! In reading order: every [`key`]; a [`segment_item`] with the [`batch`]es that it holds; [`scan`], which reads
//! logs; the [`projection`] of a day and what is [`evaluated`] as items, and which version of them is [`active`]; of
//! which days the events have [`expired`], by the minutes that the table has [`counted`]; which segments were
//! [`skipped`]; and the [`cut`] that an answer was read at.
//!
//! It knows no HTTP and folds nothing.

pub mod active;
pub mod batch;
pub mod counted;
pub mod cut;
pub mod evaluated;
pub mod expired;
pub mod indexes;
pub mod key;
pub mod projection;
pub mod scan;
pub mod segment_item;
pub mod skipped;
