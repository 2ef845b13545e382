//! `almanac admin restore`: stores the items of an export in an empty table, or those of a workspace beside others.
//!
//! A marker names the export and counts its stored files. So a killed restore continues when it is called again, and no table
//! becomes a mixture of two. Until it has ended, no other command opens the table. A workspace cannot be found until it has ended:
//! its own item comes last. What a restore of it left that began from the start is deleted.

use std::{collections::HashSet, sync::Arc};

use catalog::Catalog;
use clap::Args;
use event::{Clock, Error, Id, Result, Timestamp};
use futures::{StreamExt, TryStreamExt, stream};
use log::{
    expired,
    key::{self, EntityId},
    layout::{self, LAYOUT},
};
use projector::heartbeat::heartbeats;
use table::{Condition, Item, Key, KeyRange, Query, Table, engine::Whole, item::Value};

use super::{Manifest, Part, Row, Sum, each, kind_of};
use crate::{
    blob_store::{Address, FORM},
    config::Config,
    open,
    progress::Progress,
    upgrade::is_alive,
};

/// Number of items written side by side: on SQLite they share a commit.
const WRITES: usize = 32;

/// Version of the marker.
const VERSION: i64 = 1;

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder of the export, or s3:// and its bucket and prefix. Of one that holds only what changed since another, name those that it
    /// goes on from as well, in any order.
    #[arg(long, value_name = FORM, required = true, value_parser = Address::parser())]
    from: Vec<Address>,
}

pub(crate) async fn restore(config: &Config, args: &RestoreArgs) -> anyhow::Result<()> {
    let store = &config.store.value;
    let row = Row::open(&args.from, config.region.value.as_deref()).await?;
    let Some(newest) = row.0.first() else { return Err(Error::invalid("no export is named").into()) };
    check_files(&row).await?;
    let (manifest, workspace) = (&newest.manifest, newest.manifest.workspace_id()?);
    let (entities, table) = match &workspace {
        Some(id) => (entities(&row, id).await?, open::to_write(config).await?),
        None => (Vec::new(), open::to_restore(config).await?),
    };
    let (whole, clock) = (open::whole(config).await?, config.surroundings().clock);
    let catalog = Catalog::new(Arc::clone(&table));
    let restore = Restore { table, whole, catalog, clock, manifest, workspace };
    let Some(mut marker) = restore.claim(&newest.digest, &entities).await? else {
        println!("{store}: the export of {} was restored before; nothing was changed", manifest.at);
        return Ok(());
    };
    restore.store(&row, &mut marker).await?;
    restore.compare(&mut marker).await?;
    for item in &entities {
        restore.catalog.adopt(item, restore.clock.now()).await?;
    }
    restore.put(&Marker { is_done: true, ..marker }, Condition::Exists).await?;
    let named = manifest.workspace.as_ref();
    println!(
        "{store}: {} items with {} events{}, as they were at {}",
        manifest.items,
        manifest.events,
        named.map(|named| format!(" of the workspace {}", named.path)).unwrap_or_default(),
        manifest.at
    );
    if named.is_some_and(|named| named.layout < LAYOUT) {
        println!(
            "{store}: it came from an older layout; `almanac admin upgrade` writes again what is in an older form"
        );
    }
    Ok(())
}

/// Checks all files, before anything is written.
async fn check_files(row: &Row) -> Result<()> {
    let files = row.files();
    let mut progress = Progress::new("checking", files.len() as u64);
    for (done, (one, file)) in files.iter().enumerate() {
        one.read(file).await?;
        progress.at(done as u64 + 1, "files");
    }
    progress.finish();
    Ok(())
}

/// Items that the catalog adopts in the end: users, groups and systems, then the workspace.
async fn entities(row: &Row, workspace: &Id) -> Result<Vec<Item>> {
    let (mut people, mut root, mut newest) = (Vec::new(), None, HashSet::new());
    for file in row.files().into_iter().filter(|(_, file)| kind_of(&file.name) == Some(1)) {
        for (item, _) in row.items(file, &mut newest).await? {
            match Part::of(Some(workspace), &item) {
                Some(Part::Own(_)) => {}
                Some(Part::Entity(EntityId::Workspace(_))) => root = Some(item),
                Some(Part::Entity(_)) => people.push(item),
                None => {
                    let message =
                        format!("item {} of the export is of something else than the workspace", item.key);
                    return Err(Error::corrupt(message));
                }
            }
        }
    }
    people.push(root.ok_or_else(|| Error::corrupt("the export has no item of its workspace"))?);
    Ok(people)
}

/// Refuses a table with an unfinished restore.
///
/// # Errors
/// `Incomplete`; errors of the table, and `Corrupt`.
pub(crate) async fn check_restored(table: &dyn Table) -> Result<()> {
    match Marker::load(table, &key::restored()).await? {
        Some(marker) if !marker.is_done => Err(Error::incomplete(
            "an export is being restored into this table, and not all of it is there; call `almanac admin restore` again with the same folders: \
             it goes on where it was broken off",
        )),
        _ => Ok(()),
    }
}

/// Marker of a restore, begun or done.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marker {
    /// SHA-256 of the manifest of the export.
    manifest: String,
    /// Number of its files that are stored.
    files: i64,
    is_done: bool,
}

impl Marker {
    async fn load(table: &dyn Table, key: &Key) -> Result<Option<Self>> {
        let Some(item) = table.get(key).await? else { return Ok(None) };
        item.check_version(VERSION)?;
        let (manifest, files) = (item.text("manifest")?.to_owned(), item.int("files")?);
        Ok(Some(Self { manifest, files, is_done: item.text("state")? == "done" }))
    }
}

/// Restore of a table, or of a workspace.
struct Restore<'a> {
    table: Arc<dyn Table>,
    whole: Box<dyn Whole>,
    catalog: Catalog,
    clock: Clock,
    manifest: &'a Manifest,
    workspace: Option<Id>,
}

impl Restore<'_> {
    fn key(&self) -> Key {
        self.workspace.as_ref().map_or_else(key::restored, key::restored_workspace)
    }

    /// Writes the marker.
    async fn put(&self, marker: &Marker, condition: Condition) -> Result<()> {
        let state = if marker.is_done { "done" } else { "begun" };
        let item = Item::new(self.key())
            .with("v", VERSION)
            .with("manifest", Value::S(marker.manifest.clone()))
            .with("files", marker.files)
            .with("state", state);
        self.table.put(item, condition).await
    }

    /// Returns the marker of the export with this digest of the manifest, and makes it where nothing is; `None`, when the export was
    /// restored before.
    ///
    /// # Errors
    /// `Invalid`, when the table holds other data, the workspace, or another one of its path; errors of [`Restore::check`].
    async fn claim(&self, digest: &str, entities: &[Item]) -> Result<Option<Marker>> {
        let found = Marker::load(&*self.table, &self.key()).await?;
        let is_of = found.as_ref().is_some_and(|found| found.manifest == digest);
        let is_done = found.as_ref().is_some_and(|found| found.is_done);
        let is_there = match &self.workspace {
            Some(id) => self.catalog.find(&EntityId::Workspace(id.clone())).await?.is_some(),
            None => is_done,
        };
        let new = Marker { manifest: digest.to_owned(), files: 0, is_done: false };
        if is_of && is_there {
            // A workspace is adopted last, after the comparison.
            self.put(&Marker { is_done: true, ..new }, Condition::Exists).await?;
            return Ok(None);
        }
        let refused = match &self.manifest.workspace {
            Some(named) if is_there => Some(format!("the table holds the workspace {} already", named.path)),
            Some(_) if is_done => Some("the workspace was restored into the table, and deleted there".into()),
            None if found.is_some() && !is_of => Some("the table was restored from another export".into()),
            _ => None,
        };
        if let Some(refused) = refused {
            return Err(Error::invalid(format!(
                "{refused}; a restore overwrites nothing, so restore into a new table"
            )));
        }
        if self.workspace.is_some() {
            self.check(entities).await?;
        }
        let marker = match found {
            Some(found) if is_of => found,
            // Its items were left by an unfinished restore of another export.
            Some(_) => {
                self.put(&new, Condition::Exists).await?;
                new
            }
            None => {
                self.check_empty().await?;
                self.put(&new, Condition::Absent).await?;
                new
            }
        };
        if let (Some(id), 0) = (&self.workspace, marker.files) {
            self.clear(id).await?;
        }
        Ok(Some(marker))
    }

    /// Refuses a table that an older Almanac, or a projector, may be writing to, and one in which somebody else has a name of the
    /// export.
    ///
    /// # Errors
    /// `Invalid`, when a layout is too old or too new; `Conflict`, while projectors are at work, and for a taken name.
    async fn check(&self, entities: &[Item]) -> Result<()> {
        let named = self.manifest.workspace.as_ref();
        if let Some(named) = named.filter(|named| named.layout > LAYOUT) {
            return Err(Error::invalid(format!(
                "the workspace is of layout {}, this Almanac knows up to {LAYOUT}; use the one that exported it, or a newer one",
                named.layout
            )));
        }
        if layout::load(&*self.table).await?.number < LAYOUT {
            return Err(Error::invalid(
                "the table is in an older layout: call `almanac admin upgrade` first",
            ));
        }
        let (workers, now) = (heartbeats(&*self.table).await?, self.clock.now());
        let alive = workers.iter().filter(|worker| is_alive(worker, now));
        let alive: Vec<&str> = alive.map(|worker| worker.worker.as_str()).collect();
        if !alive.is_empty() {
            return Err(Error::conflict(format!(
                "projectors are at work: {}; stop them until the workspace is restored (what is appended meanwhile is projected later), or wait a minute \
                 where they are gone",
                alive.join(", ")
            )));
        }
        for item in entities {
            self.catalog.check_adoptable(item).await.map_err(|error| match error.is_conflict() {
                true => Error::conflict(format!(
                    "{error}, and it is another one than that of the export; rename one of the two, such as by `almanac user rename`"
                )),
                false => error,
            })?;
        }
        Ok(())
    }

    /// Refuses a table with anything that would be exported.
    async fn check_empty(&self) -> Result<()> {
        each(&*self.whole, self.workspace.as_ref(), async |item: &Item, is_own| match is_own {
            true => Err(Error::invalid(format!(
                "the table holds something{}, such as item {}; a restore overwrites nothing, so restore into a new table",
                if self.workspace.is_some() { " of the workspace" } else { "" },
                item.key
            ))),
            false => Ok(()),
        })
        .await
    }

    /// Deletes what a restore of the workspace left that begins from the start.
    async fn clear(&self, workspace: &Id) -> Result<()> {
        expired::forget_notice(&*self.table, workspace).await?;
        each(&*self.whole, Some(workspace), async |item: &Item, is_own| match is_own {
            true => self.table.delete(&item.key, Condition::None).await,
            false => Ok(()),
        })
        .await
    }

    /// Stores the items of the files that are not stored yet.
    async fn store(&self, row: &Row, marker: &mut Marker) -> Result<()> {
        let files = row.files();
        let mut progress = Progress::new("restoring", files.iter().map(|(_, file)| file.items).sum());
        // Nobody else may write to the workspace: what a projector folded of it all the same is overwritten.
        let condition = if self.workspace.is_some() { Condition::None } else { Condition::Absent };
        let (mut done, mut newest) = (0, HashSet::new());
        for ((one, file), at) in files.into_iter().zip(1..) {
            // Of a row, stored files are read again to know their keys.
            if at > marker.files || row.0.len() > 1 {
                let items = row.items((one, file), &mut newest).await?;
                if at > marker.files {
                    let items = items.into_iter().map(|(item, _)| item);
                    let own = items
                        .filter(|item| matches!(Part::of(self.workspace.as_ref(), item), Some(Part::Own(_))));
                    write(&*self.table, own, (self.clock.now(), &condition)).await?;
                    marker.files = at;
                    self.put(marker, Condition::Exists).await?;
                }
            }
            done += file.items;
            progress.at(done, "items");
        }
        progress.finish();
        Ok(())
    }

    /// Compares the stored items with the exported ones.
    async fn compare(&self, marker: &mut Marker) -> Result<()> {
        let found = Sum::of(&*self.whole, self.workspace.as_ref()).await?;
        if found == self.manifest.lasting {
            return Ok(());
        }
        let advice = match self.workspace {
            Some(_) => {
                marker.files = 0;
                self.put(marker, Condition::Exists).await?;
                "did a projector write to it meanwhile? Called again, it begins from the start"
            }
            None => "did something write to it meanwhile? Restore into a new table",
        };
        Err(Error::corrupt(format!(
            "the table is not what was exported: {} lasting items instead of {}, or others; {advice}",
            found.items, self.manifest.lasting.items
        )))
    }
}

/// Stores items that have not expired under a condition, or finds them stored.
async fn write(
    table: &dyn Table,
    items: impl Iterator<Item = Item>,
    (now, condition): (Timestamp, &Condition),
) -> Result<()> {
    let seconds = now.micros().div_euclid(1_000_000);
    let lasting = items.filter(|item| item.int("expires_at").map_or(true, |at| at > seconds));
    let writes = stream::iter(lasting).map(|item| put(table, item, condition)).buffer_unordered(WRITES);
    writes.try_collect::<()>().await
}

/// Stores an item under a condition, or finds it stored.
async fn put(table: &dyn Table, item: Item, condition: &Condition) -> Result<()> {
    match table.put(item.clone(), condition.clone()).await {
        Err(error) if error.is_conflict() => match as_stored(table, &item.key).await?.as_ref() == Some(&item)
        {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "item {} is in the table, and differs from the export; restore into a new table",
                item.key
            ))),
        },
        put => put,
    }
}

/// Reads an item as stored: a merged one would appear as segments.
async fn as_stored(table: &dyn Table, key: &Key) -> Result<Option<Item>> {
    let range = KeyRange { pk: key.pk.clone(), from: key.sk.clone(), to: key.sk.clone() };
    Ok(table.query(&Query::table(range).as_stored()).await?.items.pop())
}

#[cfg(test)]
mod tests {
    use event::{Column, Columns, Kind, Values};
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
            write(&*table, std::iter::once(item.clone()), (now, &Condition::Absent)).await
        };
        restored(&item).await.unwrap();
        // A restore killed before its marker was updated writes the item again.
        restored(&item).await.unwrap();
        assert_eq!(as_stored(&*table, &item.key).await.unwrap().as_ref(), Some(&item));
        let other = item.clone().with("other", 1);
        assert!(restored(&other).await.unwrap_err().to_string().contains("differs from the export"));
    }
}
