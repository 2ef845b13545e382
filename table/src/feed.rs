//! Change feed: its shards, positions in them, and changes read there.

use event::{Error, Result};
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Position {
    /// Oldest change still kept.
    Oldest,
    /// Position behind earlier changes, from [`Changes::next`].
    After(String),
    /// Position before the next change.
    Latest,
}

const OLDEST: &str = "oldest";
const AFTER: &str = "after:";
const LATEST: &str = "latest";

impl From<Position> for String {
    fn from(position: Position) -> Self {
        match position {
            Position::Oldest => OLDEST.to_owned(),
            Position::After(text) => format!("{AFTER}{text}"),
            Position::Latest => LATEST.to_owned(),
        }
    }
}

impl TryFrom<String> for Position {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match (text.as_str(), text.strip_prefix(AFTER)) {
            (OLDEST, _) => Ok(Self::Oldest),
            (LATEST, _) => Ok(Self::Latest),
            (_, Some(after)) => Ok(Self::After(after.to_owned())),
            _ => Err(Error::invalid(format!("`{text}` is no position in a feed"))),
        }
    }
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
