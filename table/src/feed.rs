//! The change feed: its shards, the positions in them, and the changes that are read there.

use crate::Key;

/// A part of the change feed. Changes of one item are always in one shard, or in its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its id.
    pub id: String,
    /// The shard that it goes on from.
    pub parent: Option<String>,
}

impl Shard {
    /// The stream that it belongs to: what stands before the `/` of its id, else the name of the
    /// only stream that such an engine has.
    pub fn stream(&self) -> &str {
        self.id.rsplit_once('/').map_or("feed", |(stream, _)| stream)
    }
}

/// Where to read a shard from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// The oldest change still kept.
    Oldest,
    /// After this, from [`Changes::next`].
    After(String),
    /// Only what changes from now on.
    Latest,
}

/// Some changes of a shard, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The keys of the items that were written or deleted.
    pub keys: Vec<Key>,
    /// Where to go on; `None` when the shard is closed and read to its end.
    pub next: Option<Position>,
    /// Whether changes between the position and these are gone. Then the reader must look at the
    /// table itself for what it may have missed.
    pub gap: bool,
}
