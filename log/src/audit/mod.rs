//! Audit log: the author, the time, and the values before and after of each change.
//!
//! A change of the catalog, of access, of settings or of an operator's decisions is written together with its [`Record`]:
//! [`Audited`] is a table that adds the record to the transaction of the change, so there is neither without the other. The
//! watched items are one list (`subject`). All others, such as segments and projections, pass through; the author of an appended
//! batch stands in its segments ([`crate::segment_item`]).
//!
//! The records of a workspace, and those of the server, are one log each ([`AuditLog`](crate::key::AuditLog)): numbered without holes,
//! in the order in which the changes were made, and each with the digest of the one before ([`chain`]). Writers that meet try
//! again under the next number, so the value before in a record is the one that was there.
//!
//! The author of a change travels with the task ([`by`], [`carried`]), not through every signature.

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
