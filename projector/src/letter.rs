//! The common part of dead letters: those of segments ([`crate::dead_letters`]), of days ([`crate::unwritten`]) and of
//! workspaces ([`crate::undone`]).

use event::{Result, Timestamp};
use log::skipped::{REFUSED, SKIPPED, STATE};
use table::{Condition, Item, Key, Table, unless_overtaken};

/// Version of the items.
const ITEM_VERSION: i64 = 1;

/// The most bytes of a reason that are kept.
pub(crate) const MAX_REASON_BYTES: usize = 1_000;

/// What is being done about a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterState {
    /// Nothing yet: what refused the segment stands still.
    Stopped,
    /// The segment was left out.
    Skipped,
}

impl LetterState {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stopped, Self::Skipped];

    /// Its name, as stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Skipped => SKIPPED,
        }
    }
}

/// What became of another try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It is folded, written or done now, and has no dead letter any more.
    Done,
    /// It is refused still, and says why.
    Refused(String),
}

/// As much of a reason as is kept.
pub(crate) fn shortened(reason: &str) -> String {
    reason[..reason.floor_char_boundary(MAX_REASON_BYTES)].to_owned()
}

/// Why there is a dead letter, and since when.
#[derive(Debug)]
pub(crate) struct Why<'a> {
    pub(crate) reason: &'a str,
    pub(crate) at: Timestamp,
}

impl<'a> Why<'a> {
    /// The item of a letter about what `refused` names.
    pub(crate) fn to_item(&self, key: Key, refused: &str, state: LetterState) -> Item {
        Item::new(key)
            .with("v", ITEM_VERSION)
            .with(REFUSED, refused)
            .with("reason", self.reason)
            .with("at", self.at.micros())
            .with(STATE, state.name())
    }

    /// What an item says that has this version.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn of(item: &'a Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let at = Timestamp::from_micros(item.int("at")?).ok_or_else(|| item.corrupt("`at` is no time"))?;
        Ok(Self { reason: item.text("reason")?, at })
    }
}

/// Puts the item of a dead letter, unless there is one; whether it was new.
///
/// # Errors
/// Those of the table.
pub(crate) async fn record(table: &dyn Table, item: Item) -> Result<bool> {
    unless_overtaken(table.put(item, Condition::Absent).await).map(|new| new.is_some())
}
