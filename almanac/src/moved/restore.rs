//! `almanac restore`: stores the items of an export in an empty table, or those of a workspace beside others
//! ([`super::workspace`]).
//!
//! A marker names the export and counts its stored files. So a killed restore continues when it is called again, and no table
//! becomes a mixture of two. Until it has ended, no other command opens the table.

use std::time::Duration;

use clap::Args;
use event::{Error, Result, Timestamp};
use futures::{StreamExt, TryStreamExt, stream};
use log::key;
use table::{Condition, Item, Key, KeyRange, Query, Scan, Table, engine::Whole, item::Value, text};

use super::{
    chain::{self, Link, Newest},
    files::Sort,
    manifest::FileOf,
    part::sum,
};
use crate::{
    config::Config,
    depot::{Depot, FORM},
    open,
    progress::Progress,
};

/// Number of items written side by side: on SQLite they share a commit.
const WRITES: usize = 32;

/// Maximum tries to write an item while the table is unavailable, and the pause between two tries.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Version of the marker.
const VERSION: i64 = 1;

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder of the export, or s3:// and its bucket and prefix. Of one that holds only what changed since another, name those that it
    /// goes on from as well, in any order.
    #[arg(long, value_name = FORM, required = true, value_parser = Depot::parser())]
    from: Vec<Depot>,
}

pub(crate) async fn restore(config: &Config, args: &RestoreArgs) -> anyhow::Result<()> {
    let store = &config.store.value;
    let row = chain::read(&args.from, config.region.value.as_deref()).await?;
    let Some(Link { manifest, digest, .. }) = row.first() else {
        return Err(Error::invalid("no folder of an export is named").into());
    };
    // All files are checked before anything is written.
    let files: Vec<(&Link, &FileOf)> =
        row.iter().flat_map(|link| link.manifest.files.iter().map(move |file| (link, file))).collect();
    let mut progress = Progress::new("checking", files.len() as u64);
    for (done, (link, file)) in files.iter().enumerate() {
        link.shelf.check(file).await?;
        progress.at(done as u64 + 1, "files");
    }
    progress.finish();
    if let Some(named) = &manifest.workspace {
        return Ok(super::workspace::restore(config, &row, named).await?);
    }
    let around = config.surroundings();
    let table = open::to_restore(config).await?;
    let whole = open::whole(config).await?;
    let mut marker = Marker::claim(&*table, &*whole, digest).await?;
    if marker.is_done {
        println!("{store}: the export of {} was restored before; nothing was changed", manifest.at);
        return Ok(());
    }
    let mut progress = Progress::new("restoring", files.iter().map(|(_, file)| file.items).sum());
    let (mut done, mut at) = (0, 0);
    for pass in in_order(&row) {
        let mut newest = Newest::default();
        for (link, file) in pass {
            let is_stored = at < marker.files;
            at += 1;
            // A single export leaves out no items, so stored files need not be read again.
            if row.len() > 1 || !is_stored {
                let mut items = left(link, file, &mut newest, row.len() > 1).await?;
                match is_stored || Sort::Gone.names(&file.name) {
                    true => items.try_for_each(|item| item.map(drop))?,
                    false => write(&*table, items, (around.clock.now(), &Condition::Absent)).await?,
                }
            }
            if !is_stored {
                marker.files = at;
                marker.put(&*table, Condition::Exists).await?;
            }
            done += file.items;
            progress.at(done, "items");
        }
    }
    progress.finish();
    let found = sum(&*whole, None).await?;
    if found != manifest.lasting {
        return Err(Error::corrupt(format!(
            "{store} is not what was exported: {} lasting items instead of {}, or others; did something write to it meanwhile? Restore \
             into a new table",
            found.items, manifest.lasting.items
        ))
        .into());
    }
    marker.is_done = true;
    marker.put(&*table, Condition::Exists).await?;
    println!(
        "{store}: {} items with {} events, as they were at {}",
        manifest.items, manifest.events, manifest.at
    );
    Ok(())
}

/// Refuses a table with an unfinished restore.
///
/// # Errors
/// `Incomplete`; errors of the table, and `Corrupt`.
pub(crate) async fn check_restored(table: &dyn Table) -> Result<()> {
    match Marker::load(table, key::restored()).await? {
        Some(marker) if !marker.is_done => Err(Error::incomplete(
            "an export is being restored into this table, and not all of it is there; call `almanac restore` again with the same folders: \
             it goes on where it was broken off",
        )),
        _ => Ok(()),
    }
}

/// Files of a row of exports in the order of their restore: first segments, then all other items, since workspaces cannot be
/// found without the catalog. In each group the newest export comes first, and its deleted keys follow its items.
pub(super) fn in_order(row: &[Link]) -> [Vec<(&Link, &FileOf)>; 2] {
    [Sort::Segments, Sort::Items].map(|sort| {
        let of = |link| [sort, Sort::Gone].map(|sort| Link::files(link, sort).map(move |file| (link, file)));
        row.iter().flat_map(|link| of(link).into_iter().flatten()).collect()
    })
}

/// Items of a file that no newer export has or deletes.
pub(super) async fn left(
    link: &Link,
    file: &FileOf,
    newest: &mut Newest,
    is_row: bool,
) -> Result<impl Iterator<Item = Result<Item>>> {
    let items = link.shelf.lines(file).await?.map(|line| text::item(&line?));
    Ok(items.filter(move |item| !is_row || item.as_ref().map_or(true, |item| newest.takes(&item.key))))
}

/// Stores items under a condition, or finds them stored.
pub(super) async fn write(
    table: &dyn Table,
    items: impl Iterator<Item = Result<Item>>,
    (now, condition): (Timestamp, &Condition),
) -> Result<()> {
    let seconds = now.micros().div_euclid(1_000_000);
    let lasts = |item: &Item| item.int("expires_at").map_or(true, |at| at > seconds);
    stream::iter(items)
        .try_filter(|item| std::future::ready(lasts(item)))
        .map(|item| async move { put(table, item?, condition).await })
        .buffer_unordered(WRITES)
        .try_collect::<()>()
        .await
}

/// Stores an item, or finds it stored. A write with an unknown result is repeated.
async fn put(table: &dyn Table, item: Item, condition: &Condition) -> Result<()> {
    let mut tries = 1;
    loop {
        let Err(error) = table.put(item.clone(), condition.clone()).await else { return Ok(()) };
        if error.is_conflict() {
            return match as_stored(table, &item.key).await?.as_ref() == Some(&item) {
                true => Ok(()),
                false => Err(Error::invalid(format!(
                    "item {} is in the table, and differs from the export; restore into a new table",
                    item.key
                ))),
            };
        }
        if !error.may_pass() || tries == TRIES {
            return Err(error);
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads an item as stored: a merged one would appear as segments.
async fn as_stored(table: &dyn Table, key: &Key) -> Result<Option<Item>> {
    let range = KeyRange { pk: key.pk.clone(), from: key.sk.clone(), to: key.sk.clone() };
    Ok(table.query(&Query::table(range).as_stored()).await?.items.pop())
}

/// Marker of a restore, begun or done.
pub(super) struct Marker {
    key: Key,
    manifest: String,
    /// Number of its files that are stored.
    pub(super) files: i64,
    /// True when all files are stored.
    pub(super) is_done: bool,
}

impl Marker {
    /// Makes the marker of an export by the digest of its manifest, with no files stored.
    pub(super) fn new(key: Key, manifest: &str) -> Self {
        Self { key, manifest: manifest.to_owned(), files: 0, is_done: false }
    }

    /// Loads the marker under a key. `None`, when there is none.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub(super) async fn load(table: &dyn Table, key: Key) -> Result<Option<Self>> {
        let Some(item) = table.get(&key).await? else { return Ok(None) };
        item.check_version(VERSION)?;
        let (manifest, files) = (item.text("manifest")?.to_owned(), item.int("files")?);
        Ok(Some(Self { key, manifest, files, is_done: item.text("state")? == "done" }))
    }

    /// Notes that all files are stored.
    ///
    /// # Errors
    /// Errors of the table.
    pub(super) async fn done(self, table: &dyn Table) -> Result<()> {
        Self { is_done: true, ..self }.put(table, Condition::Exists).await
    }

    /// Returns whether it belongs to the export with this digest of the manifest.
    pub(super) fn is_of(&self, manifest: &str) -> bool {
        self.manifest == manifest
    }

    /// Returns the marker of the export with this digest of the manifest; makes it in an empty table.
    ///
    /// # Errors
    /// `Invalid`, when the table holds other data.
    async fn claim(table: &dyn Table, whole: &dyn Whole, manifest: &str) -> Result<Self> {
        if let Some(found) = Self::load(table, key::restored()).await? {
            return match found.is_of(manifest) {
                true => Ok(found),
                false => Err(Error::invalid(
                    "the table was restored from another export; restore into a new table",
                )),
            };
        }
        if let Some(key) = first_key(whole).await? {
            return Err(Error::invalid(format!(
                "the table holds something, such as item {key}; a restore overwrites nothing, so restore into a new table"
            )));
        }
        let new = Self::new(key::restored(), manifest);
        new.put(table, Condition::Absent).await?;
        Ok(new)
    }

    /// Writes the marker.
    ///
    /// # Errors
    /// Errors of the table.
    pub(super) async fn put(&self, table: &dyn Table, condition: Condition) -> Result<()> {
        let state = if self.is_done { "done" } else { "begun" };
        let item = Item::new(self.key.clone())
            .with("v", VERSION)
            .with("manifest", Value::S(self.manifest.clone()))
            .with("files", self.files)
            .with("state", state);
        table.put(item, condition).await
    }
}

/// Key of any item that would be exported.
async fn first_key(whole: &dyn Whole) -> Result<Option<Key>> {
    let mut scan = Scan { keys_only: true, ..Scan::default() };
    loop {
        let page = whole.page(&scan).await?;
        let found = page.items.into_iter().find(|item| !key::stays_behind(&item.key));
        match (found, page.next) {
            (Some(item), _) => return Ok(Some(item.key)),
            (None, Some(next)) => scan.after = Some(next),
            (None, None) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Clock, Column, Columns, Id, Kind, Values};
    use log::{
        batch::{BatchId, BatchPart},
        key::LogId,
        merged,
        segment_item::Segment,
        store::Store,
    };
    use table::sqlite::SqliteTable;

    use super::*;

    /// An item of the segments 1 to 3 of a log.
    fn merged_item() -> Item {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let log = LogId { workspace, day: "2026-06-01".parse().unwrap(), kind: Kind::Predictions, lane: 0 };
        let segment = |seq: u64| {
            let columns = Columns {
                rows: 1,
                columns: vec![
                    Column::new("predicted_at", Values::Time(vec![seq as i64])),
                    Column::new("release", Values::Text(["v1"].into_iter().collect())),
                ],
            };
            let batch = BatchPart { batch: BatchId([seq as u8; 16]), first: 0, rows: 1 };
            let appended_at = Timestamp::default().plus_seconds(seq as i64);
            Segment::pack(log.clone(), seq, appended_at, vec![batch], &columns).unwrap()
        };
        merged::merge(&[segment(1), segment(2), segment(3)]).unwrap()
    }

    #[tokio::test]
    async fn merged_items_that_are_stored_already_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let below = SqliteTable::open(&folder.path().join("log.db"), Clock::system()).unwrap();
        let table = Store::over(Arc::new(below));
        let (item, now) = (merged_item(), Timestamp::default());
        let restored = async |item: &Item| {
            write(&*table, std::iter::once(Ok(item.clone())), (now, &Condition::Absent)).await
        };
        restored(&item).await.unwrap();
        // A restore killed before its marker was updated writes the item again.
        restored(&item).await.unwrap();
        assert_eq!(as_stored(&*table, &item.key).await.unwrap().as_ref(), Some(&item));
        let other = item.clone().with("other", 1);
        assert!(restored(&other).await.unwrap_err().to_string().contains("differs from the export"));
    }
}
