//! `almanac export`: writes all items of the table, or of one workspace, to files.

use std::sync::Arc;

use catalog::Catalog;
use clap::Args;
use event::{Error, Id, Result, Timestamp};
use log::{
    key::{self, LogId},
    layout::{self, LAYOUT},
    merged,
};
use table::{Item, Key, Table, engine::Whole, text};

use super::{
    chain::{self, Known, Link},
    files::{Files, SORTS, Sort},
    manifest::{Manifest, Named, Sum, VERSION},
    part::{Part, each, sum},
    shelf::Shelf,
};
use crate::{
    config::Config,
    depot::{Depot, FORM},
};

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The folder to write to, which is made, or the bucket and prefix of S3; it must be empty or hold an export that was interrupted.
    #[arg(long, value_name = FORM, value_parser = Depot::parser())]
    to: Depot,
    /// Only this workspace, as category/name or by id: its events, projections and settings, and who has roles there or follows it.
    #[arg(long, short)]
    workspace: Option<String>,
    /// An earlier export: only what has changed since is written. Of one that was made so itself, name those that it goes on from as well.
    #[arg(long, value_name = FORM, value_parser = Depot::parser())]
    since: Vec<Depot>,
}

/// Exports the table. A SQLite file is read as of one instant. DynamoDB has no such read, so all is read twice: if both reads are
/// equal, nothing changed from the end of the first to the beginning of the second.
pub(crate) async fn export(config: &Config, args: &ExportArgs) -> anyhow::Result<()> {
    let store = &config.store.value;
    let table = crate::open::existing(config).await?;
    let named = match &args.workspace {
        Some(workspace) => Some(named(table, workspace).await?),
        None => {
            drop(table);
            None
        }
    };
    let region = config.region.value.as_deref();
    let shelf = Shelf::open(&args.to, region).await?;
    // The lock is held until the manifest is written.
    let _lock = shelf.clear().await?;
    let row = if args.since.is_empty() { Vec::new() } else { chain::read(&args.since, region).await? };
    check_base(&row, named.as_ref())?;
    let known = Known::of(&row).await?;
    let to = To { shelf: &shelf, row: &row, engine: store.engine.scheme(), named };
    let still = crate::open::still(config).await?;
    let at = config.surroundings().clock.now();
    let manifest = match still {
        Some(whole) => write(&*whole, &to, known, at).await?,
        None => {
            let whole = crate::open::whole(config).await?;
            let manifest = write(&*whole, &to, known, at).await?;
            stands(&*whole, manifest.of_workspace()?.as_ref(), &manifest.lasting).await?;
            manifest
        }
    };
    shelf.finish(&manifest.text()?, &manifest.files).await?;
    println!(
        "{}: {} items, of which {} segments with {} events, as of {}",
        args.to, manifest.items, manifest.segments, manifest.events, manifest.at
    );
    if let Some(base) = row.first() {
        let written = |is_gone: bool| {
            let files = manifest.files.iter().filter(|file| Sort::Gone.names(&file.name) == is_gone);
            files.map(|file| file.items).sum::<u64>()
        };
        println!(
            "{}: {} items changed since {}, {} are gone",
            args.to,
            written(false),
            base.manifest.at,
            written(true)
        );
    }
    Ok(())
}

/// Target and base of an export.
struct To<'a> {
    shelf: &'a Shelf,
    row: &'a [Link],
    engine: &'static str,
    named: Option<Named>,
}

/// Finds the requested workspace.
async fn named(table: Arc<dyn Table>, workspace: &str) -> Result<Named> {
    let found = layout::load(&*table).await?;
    if found.number < LAYOUT {
        return Err(Error::invalid(
            "a workspace leaves only a table of the latest layout: call `almanac upgrade` first",
        ));
    }
    let workspace = Catalog::new(table).workspace(workspace).await?;
    Ok(Named { id: workspace.id().to_string(), path: workspace.path, layout: found.number })
}

/// Refuses a base that is an export of another workspace or of the whole table.
fn check_base(row: &[Link], named: Option<&Named>) -> Result<()> {
    let Some(base) = row.first() else { return Ok(()) };
    let of = |named: Option<&Named>| named.map(|named| named.id.clone());
    if of(base.manifest.workspace.as_ref()) == of(named) {
        return Ok(());
    }
    let what = |named: Option<&Named>| {
        named.map_or_else(|| "all of a table".to_owned(), |named| format!("the workspace {}", named.path))
    };
    Err(Error::invalid(format!(
        "{} is an export of {}, and this is to be one of {}",
        base.shelf,
        what(base.manifest.workspace.as_ref()),
        what(named)
    )))
}

async fn write(whole: &dyn Whole, to: &To<'_>, mut known: Known, at: Timestamp) -> Result<Manifest> {
    let [mut segments, mut others, mut gone] = SORTS.map(|sort| Files::new(to.shelf, sort));
    let base = to.row.first().map(|link| link.digest.clone());
    let mut manifest = Manifest {
        version: VERSION,
        base,
        workspace: to.named.clone(),
        at: at.to_string(),
        engine: to.engine.to_owned(),
        items: 0,
        segments: 0,
        events: 0,
        lasting: Sum::default(),
        files: Vec::new(),
    };
    let (workspace, mut events) = (manifest.of_workspace()?, Events::default());
    each(whole, workspace.as_ref(), async |part, item: &Item, line: &str| {
        manifest.items += 1;
        if part == Part::Own {
            manifest.lasting.add(item, line);
        }
        let segment = key::parse_segment(&item.key);
        let is_segment = segment.is_some();
        if let Some(segment) = segment {
            manifest.segments += 1;
            events.add(segment, item)?;
        }
        match (known.takes_out(item, line), is_segment) {
            (true, _) => Ok(()),
            (false, true) => segments.add(line).await,
            (false, false) => others.add(line).await,
        }
    })
    .await?;
    known.left(to.row, async |key: &Key| gone.add(&text::line(&Item::new(key.clone()))?).await).await?;
    manifest.events = events.total;
    // Segments are restored first: without the catalog the workspaces cannot be found.
    manifest.files = segments.finish().await?;
    manifest.files.extend(others.finish().await?);
    manifest.files.extend(gone.finish().await?);
    Ok(manifest)
}

/// Counter of events. While small segments are merged, some of their items are still there before the merged item; their events
/// count once.
#[derive(Default)]
struct Events {
    total: u64,
    /// Current log, and its segments not covered by a merged item, with their events.
    log: Option<LogId>,
    own: Vec<(u64, u64)>,
}

impl Events {
    /// Counts the events of the next item of a log; items of a log come in the order of their numbers.
    ///
    /// # Errors
    /// `Corrupt`, when the item lacks its number of events.
    fn add(&mut self, (log, seq): (LogId, u64), item: &Item) -> Result<()> {
        let events = u64::try_from(item.int("n")?).unwrap_or(0);
        if self.log.as_ref() != Some(&log) {
            self.log = Some(log);
            self.own.clear();
        }
        match merged::span(item) {
            Some((_, from, _)) => {
                let held = self.own.drain(..).filter(|(seq, _)| *seq >= from);
                self.total -= held.map(|(_, events)| events).sum::<u64>();
            }
            None => self.own.push((seq, events)),
        }
        self.total += events;
        Ok(())
    }
}

/// Reads the table once more, and requires that the exported items have not changed.
async fn stands(whole: &dyn Whole, workspace: Option<&Id>, before: &Sum) -> Result<()> {
    if sum(whole, workspace).await? == *before {
        return Ok(());
    }
    Err(Error::unavailable(
        "what is exported changed while it was read, so there is no export: stop what writes to it (ingest, projectors, commands), \
         or restore it to a point in time as another table, and export that one",
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use async_trait::async_trait;
    use event::Kind;
    use table::{Page, Scan};

    use super::*;

    /// A table in which one item counts the reads, up to a maximum.
    struct Growing {
        readings: AtomicI64,
        most: i64,
    }

    #[async_trait]
    impl Whole for Growing {
        async fn page(&self, _: &Scan) -> Result<Page> {
            let readings = self.readings.fetch_add(1, Ordering::Relaxed).min(self.most);
            let beat = Item::new(key::worker("one")).with("beat", readings);
            let items = vec![Item::new(Key::new("w#1", "a")).with("n", readings), beat];
            Ok(Page { items, ..Page::default() })
        }
    }

    #[test]
    fn export_counts_merged_segments_once() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let log = |lane| LogId {
            workspace: workspace.clone(),
            day: "2026-06-01".parse().unwrap(),
            kind: Kind::Predictions,
            lane,
        };
        let own = |lane, seq| Item::new(key::segment(&log(lane), seq)).with("n", 10);
        let merged = |lane, from: i64, last| own(lane, last).with(merged::FROM, from).with("n", 30);
        // The items of 3 and 4, which the merged item 3 to 5 covers, are not deleted yet.
        let items = [own(0, 1), own(0, 2), own(0, 3), own(0, 4), merged(0, 3, 5), own(0, 6), merged(1, 1, 3)];
        let mut events = Events::default();
        for item in items {
            events.add(key::parse_segment(&item.key).unwrap(), &item).unwrap();
        }
        assert_eq!(events.total, 10 + 10 + 30 + 10 + 30);
    }

    #[tokio::test]
    async fn table_changed_between_readings_is_refused() {
        for (most, is_good) in [(0, true), (1, false)] {
            let whole = Growing { readings: AtomicI64::new(0), most };
            let before = sum(&whole, None).await.unwrap();
            assert_eq!(before.items, 1, "heartbeats stay behind");
            assert_eq!(stands(&whole, None, &before).await.is_ok(), is_good);
        }
    }
}
