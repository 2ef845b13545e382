//! Audit log: the author, the time, and the values before and after of each change.
//!
//! A change of the catalog, of access, of settings or of an operator's decisions is written together with its
//! [`Record`]: [`Audited`] is a table that adds the record to the transaction of the change, so neither exists without
//! the other. One list names the watched items (`subject`). Other items, such as segments and projections, have no
//! records; the author of an appended batch is in its segments ([`crate::segment_item`]).
//!
//! The records of a workspace, and those of the server, are one log each ([`AuditLog`](crate::key::AuditLog)): numbered
//! without gaps, in the order of the changes, each with the digest of the previous one ([`chain`]). A writer that loses
//! a number tries again with the next, so the value before the change in a record is true.
//!
//! The author of a change travels with the task ([`by`], [`carried`]), not as an argument.

mod author;
pub mod chain;
mod record;
mod subject;
mod table;
#[cfg(test)]
mod tests;

pub use author::{Author, MAX_SOURCE_VALUE_BYTES, SOURCE_WORDS, SourceValues, by, carried, current};
pub use record::{Digest, MAX_VALUE_BYTES, Record};
pub use table::{Audited, note};
