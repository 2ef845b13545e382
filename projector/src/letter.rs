//! The common part of dead letters: those of segments ([`crate::dead_letters`]), of days ([`crate::unwritten`]) and of
//! workspaces ([`crate::undone`]).

use event::{Result, Timestamp};
use log::skipped::{REFUSED, SKIPPED, STATE};
use serde::Deserialize;
use table::{Condition, Item, Key, Table, unless_overtaken};

/// Version of the items.
const ITEM_VERSION: i64 = 1;

/// Maximum bytes of a stored reason.
pub(crate) const MAX_REASON_BYTES: usize = 1_000;

/// State of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LetterState {
    /// No decision yet: the projection stops at the segment.
    Stopped,
    /// Skipped by an operator.
    Skipped,
}

impl LetterState {
    /// Name, as stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Skipped => SKIPPED,
        }
    }
}

/// Result of a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It succeeded, and the dead letter was deleted.
    Done,
    /// It failed again, with this reason.
    Refused(String),
}

/// Returns a reason shortened to the stored length.
pub(crate) fn shortened(reason: &str) -> String {
    reason[..reason.floor_char_boundary(MAX_REASON_BYTES)].to_owned()
}

/// Reason and time of a dead letter.
#[derive(Debug)]
pub(crate) struct Why<'a> {
    pub(crate) reason: &'a str,
    pub(crate) at: Timestamp,
}

impl<'a> Why<'a> {
    /// Item of a letter about `refused`.
    pub(crate) fn to_item(&self, key: Key, refused: &str, state: LetterState) -> Item {
        Item::new(key)
            .with("v", ITEM_VERSION)
            .with(REFUSED, refused)
            .with("reason", self.reason)
            .with("at", self.at.to_string())
            .with(STATE, state.name())
    }

    /// Reads an item of this version.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn of(item: &'a Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Ok(Self { reason: item.text("reason")?, at: item.field("at")? })
    }
}

/// Puts the item of a dead letter, unless there is one. Returns whether it was new.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn record(table: &dyn Table, item: Item) -> Result<bool> {
    unless_overtaken(table.put(item, Condition::Absent).await).map(|new| new.is_some())
}
