//! The audit trail: who changed what, when, and what it was before.
//!
//! A change of the catalog, of access, of settings or of what an operator decided is written together with its
//! [`Record`]: [`Audited`] is a table that adds the record to the transaction of the change, so there is neither without
//! the other. Which items are watched is one list (`subject`). Everything else, such as segments and projections, passes
//! through; who appended a batch stands in its segments ([`crate::segment_item`]).
//!
//! The records of a workspace, and those of the server, are one log each ([`Trail`](crate::key::Trail)): numbered
//! without holes, in the order in which the changes were made, and each with the digest of the one before ([`chain`]).
//! Writers that meet try again under the next number, so what a record says of before is what was there.
//!
//! By whom a change is made travels with the task ([`by`], [`carried`]), not through every signature.

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
