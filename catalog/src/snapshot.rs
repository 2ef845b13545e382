//! Snapshots: repeatable queries of events.
//!
//! A snapshot holds no events, but the request and the read version of its rows. The transaction that creates it pins
//! the days of the read version; the one that deletes it unpins them. So the same rows can be read as long as the
//! snapshot exists, and their digest proves it.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, Id, Kind, Result, Timestamp, Window};
use log::{
    key,
    layout::{self, LAYOUT},
    read_version::ReadVersion,
};
use serde::{Deserialize, Serialize};
use table::{Condition, Write};

use super::{AnyEntity, Catalog, Entity, Retention};

/// Attribute of the read version, which lists leave unread.
pub(super) const READ_VERSION: &str = "read_version";

/// Maximum snapshots of a workspace.
pub const MAX_SNAPSHOTS: usize = 200;

/// Maximum bytes in the read version of a snapshot.
pub const MAX_SNAPSHOT_READ_VERSION_BYTES: usize = 32 * 1024;

/// Maximum bytes of the parameters of a snapshot, with the names of its columns.
pub const MAX_SNAPSHOT_WORDS_BYTES: usize = 14 * 1024;

/// Datasets that a read version makes repeatable. The first is the default of a snapshot.
pub const SNAPSHOTS_OF: [&str; 5] = ["predictions", "outcomes", "metrics", "releases", "joined"];

/// Parameters of a snapshot, besides its dataset: those of a query.
pub const SNAPSHOT_WORDS: [&str; 9] =
    ["from", "to", "release", "where", "tag", "key", "limit", "sample", "order"];

/// Number of the first days of a snapshot for which the transaction that creates it requires that they are not marked
/// as expired. Days expire in order, and a kept day is marked at the earliest an hour after it expires.
const CHECKED_DAYS: usize = 10;

/// A snapshot of the events of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Id, name, age.
    #[serde(flatten)]
    pub entity: Entity,
    /// The workspace it belongs to.
    #[serde(skip_serializing)]
    pub workspace: Id,
    /// Its request and its rows, which never change.
    #[serde(flatten)]
    pub content: SnapshotContent,
}

/// Request and rows of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotContent {
    /// Dataset, such as `predictions` or `joined`.
    pub what: String,
    /// Parameters, by name ([`SNAPSHOT_WORDS`]).
    pub words: BTreeMap<String, String>,
    /// The UTC days of the window.
    pub window: Window,
    /// The columns, in their order.
    pub columns: Vec<String>,
    /// Time as of which the rows were known.
    pub as_of: Timestamp,
    /// Number of rows.
    pub rows: u64,
    /// Digest of the rows.
    #[serde(rename = "sha256")]
    pub digest: String,
    /// Read version of the rows, encoded by [`ReadVersion::to_bytes`]; empty in lists.
    #[serde(skip)]
    pub read_version: Vec<u8>,
}

impl SnapshotContent {
    /// Refuses a snapshot that is too large to be stored.
    ///
    /// # Errors
    /// `Invalid`, saying what is too large.
    pub fn check(&self) -> Result<()> {
        if self.read_version.len() > MAX_SNAPSHOT_READ_VERSION_BYTES {
            return Err(Error::invalid(format!(
                "a snapshot has a read version of at most {MAX_SNAPSHOT_READ_VERSION_BYTES} bytes; this one has {}: ask for fewer days",
                self.read_version.len()
            )));
        }
        let words: usize = self.words.iter().map(|(name, word)| name.len() + word.len()).sum();
        let bytes = words + self.columns.iter().map(|name| name.len() + 1).sum::<usize>();
        if bytes > MAX_SNAPSHOT_WORDS_BYTES {
            return Err(Error::invalid(format!(
                "a snapshot has at most {MAX_SNAPSHOT_WORDS_BYTES} bytes of words and names of columns; these have {bytes}: name fewer columns"
            )));
        }
        Ok(())
    }

    /// Returns the read version.
    ///
    /// # Errors
    /// `Corrupt`, when it is no read version.
    pub fn read_version(&self) -> Result<ReadVersion> {
        ReadVersion::from_bytes(&self.read_version)
            .map_err(|why| Error::corrupt(format!("a snapshot has no read version: {why}")))
    }

    /// Returns the days whose events are read, and may expire.
    fn days(&self) -> Result<BTreeSet<Day>> {
        let read_version = self.read_version()?;
        Ok(read_version.heads.keys().filter(|log| log.kind != Kind::Releases).map(|log| log.day).collect())
    }
}

impl Catalog {
    /// Reads the snapshot called `name` of a workspace.
    ///
    /// # Errors
    /// `NotFound`, when there is none.
    pub async fn snapshot(&self, workspace: &Id, name: &str) -> Result<Snapshot> {
        let at = key::EntityId::Workspace(workspace.clone());
        match self.named(Some(&at), key::EntityKind::Snapshot, name).await? {
            Some(AnyEntity::Snapshot(snapshot)) => Ok(snapshot),
            _ => Err(Error::not_found(format!("there is no snapshot `{name}` in this workspace"))),
        }
    }

    /// Makes the writes that pin the days of a new snapshot, conditional on the present retention.
    ///
    /// # Errors
    /// `Conflict`, when the events of such a day have expired meanwhile; `Invalid`, when there are too many snapshots.
    pub(super) async fn pin_of(&self, any: &AnyEntity, now: Timestamp) -> Result<Vec<Write>> {
        let AnyEntity::Snapshot(Snapshot { entity, workspace, content }) = any else {
            return Ok(Vec::new());
        };
        let known = self.retention(workspace).await?;
        let kept = self.kept_by(workspace, &known, content.window, now).await?;
        let days = content.days()?;
        if let Some(day) = days.iter().find(|day| !kept.keeps(**day)) {
            return Err(Error::conflict(format!("the events of {day} have expired; ask for other days")));
        }
        let unchanged = known.unchanged();
        let mut wanted = known.changed(now);
        wanted.pinned_snapshots.insert(entity.id.clone(), content.window);
        if wanted.pinned_snapshots.len() > MAX_SNAPSHOTS {
            return Err(Error::invalid(format!(
                "a workspace has at most {MAX_SNAPSHOTS} snapshots; delete some"
            )));
        }
        let layout = layout::load(&*self.table).await?.number;
        let mut writes = vec![Write::Put(wanted.to_item(workspace, layout)?, unchanged)];
        // Days marked before the retention was read are not kept by it.
        let first = days.into_iter().take(CHECKED_DAYS);
        writes.extend(first.map(|day| Write::Check(key::expired(workspace, day), Condition::Absent)));
        Ok(writes)
    }

    /// Makes the write that unpins the days of a deleted snapshot.
    pub(super) async fn unpin_of(&self, any: &AnyEntity, now: Timestamp) -> Result<Option<Write>> {
        let AnyEntity::Snapshot(Snapshot { entity, workspace, .. }) = any else { return Ok(None) };
        let known = self.retention(workspace).await?;
        if !known.pinned_snapshots.contains_key(&entity.id) {
            return Ok(None);
        }
        let unchanged = known.unchanged();
        let mut wanted: Retention = known.changed(now);
        wanted.pinned_snapshots.remove(&entity.id);
        Ok(Some(Write::Put(wanted.to_item(workspace, LAYOUT)?, unchanged)))
    }
}
