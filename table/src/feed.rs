//! Change feed: its shards, positions in them, and changes read there.

use crate::Key;

/// Part of the change feed. Changes of one item are always in one shard, or in its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Id of the shard.
    pub id: String,
    /// Shard that it continues.
    pub parent: Option<String>,
}

impl Shard {
    /// Stream of the shard: the part of its id before the `/`, else the name of the only stream of such an engine.
    pub fn stream(&self) -> &str {
        self.id.rsplit_once('/').map_or("feed", |(stream, _)| stream)
    }
}

/// Position from which a shard is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// Oldest change still kept.
    Oldest,
    /// Position behind earlier changes, from [`Changes::next`].
    After(String),
    /// Position before the next change.
    Latest,
}

/// Changes of a shard, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Keys of the items that were written or deleted.
    pub keys: Vec<Key>,
    /// Position to continue from; `None` when the shard is closed and read to its end.
    pub next: Option<Position>,
    /// True if changes between the position and these are gone. Then the reader must read the table itself for missed changes.
    pub gap: bool,
}
