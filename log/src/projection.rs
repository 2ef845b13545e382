//! Projections as items: the state of a fold, the covered prefix of the logs, and the version that keeps writers from
//! overwriting each other.

use std::collections::BTreeMap;

use event::Result;
use table::{Condition, Item, Key, item::Value};

/// Version of the item. The head of an evaluation with its states in other items has the next one
/// ([`crate::evaluated`]).
const ITEM_VERSION: i64 = 1;

/// Active version of the projections.
pub const PROJECTION_VERSION: u32 = 1;

/// Version of the items of counters.
pub const COUNTER_VERSION: i64 = 1;

/// Last folded segment of each log of a day, by its name (`p/00`).
pub type Applied = BTreeMap<String, u64>;

/// Attributes with the coverage of a projection.
pub const COVERAGE: &[&str] = &["v", "applied"];

/// Rollup or evaluation, with its covered prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projected {
    /// Number that grows by one with each write.
    pub ver: i64,
    /// Prefix of the day's logs that the state is a fold of.
    pub applied: Applied,
    /// State, in a text that is the same for the same prefix, byte for byte.
    pub state: String,
}

impl Projected {
    /// Creates one with nothing folded yet.
    pub fn empty() -> Self {
        Self { ver: 0, applied: Applied::new(), state: String::new() }
    }

    /// Returns the item that replaces the version of `self` by `state` up to `applied`, and the condition under which it may.
    pub fn replace(&self, key: Key, applied: &Applied, state: String) -> (Item, Condition) {
        let item = Item::new(key)
            .with("v", ITEM_VERSION)
            .with("ver", self.ver + 1)
            .with("applied", Value::record(applied))
            .with("state", state);
        (item, Condition::unchanged(self.ver))
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`, when the item is no projection, or of an unknown version.
    pub fn from_item(item: &Item) -> Result<Self> {
        let applied = Self::applied_of(item)?;
        Ok(Self { ver: item.int("ver")?, applied, state: item.text("state")?.to_owned() })
    }

    /// Reads only the prefix that a projection covers, from an item that was read with [`COVERAGE`]: of a rollup, a part of a
    /// breakdown, or the head of an evaluation.
    ///
    /// # Errors
    /// As [`Projected::from_item`].
    pub fn applied_of(item: &Item) -> Result<Applied> {
        if item.int("v")? != ITEM_VERSION + 1 {
            item.check_version(ITEM_VERSION)?;
        }
        item.field("applied")
    }
}
