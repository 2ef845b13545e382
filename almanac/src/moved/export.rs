//! `almanac export`: all items of the table as files.

use std::path::PathBuf;

use clap::Args;
use event::{Error, Result, Timestamp};
use log::key;
use table::{Item, Scan, engine::Whole, text};

use super::{
    files::{self, Files, SORTS},
    manifest::{Manifest, Sum, VERSION},
};
use crate::config::Config;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The folder to write to; it is made, or must be empty or hold an export that was interrupted.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Exports the table. A SQLite file is read as it stands at one instant. Of DynamoDB, which has no such reading, all is read
/// twice: when both readings are the same, nothing was changed from the end of the first to the beginning of the second.
pub(crate) async fn export(config: &Config, args: &ExportArgs) -> anyhow::Result<()> {
    let store = &config.store.value;
    let around = config.surroundings();
    drop(crate::open::existing(config).await?);
    files::clear(&args.to)?;
    let still = store.engine.open_still(&store.place, &around).await?;
    let at = around.clock.now();
    let manifest = match still {
        Some(whole) => write(&*whole, &args.to, at, store.engine.scheme()).await?,
        None => {
            let whole = store.engine.open_whole(&store.place, &around).await?;
            let manifest = write(&*whole, &args.to, at, store.engine.scheme()).await?;
            stands(&*whole, &manifest.lasting).await?;
            manifest
        }
    };
    files::finish(&args.to, &manifest.text()?)?;
    println!(
        "{}: {} items, of which {} segments with {} events, as of {}",
        args.to.display(),
        manifest.items,
        manifest.segments,
        manifest.events,
        manifest.at
    );
    Ok(())
}

async fn write(whole: &dyn Whole, to: &std::path::Path, at: Timestamp, engine: &str) -> Result<Manifest> {
    let [mut segments, mut others] = SORTS.map(|sort| Files::new(to, sort));
    let mut manifest = Manifest {
        version: VERSION,
        at: at.to_string(),
        engine: engine.to_owned(),
        items: 0,
        segments: 0,
        events: 0,
        lasting: Sum::default(),
        files: Vec::new(),
    };
    each(whole, |item, line| {
        manifest.items += 1;
        manifest.lasting.add(item, line);
        if key::parse_segment(&item.key).is_none() {
            return others.add(line);
        }
        manifest.segments += 1;
        manifest.events += u64::try_from(item.int("n")?).unwrap_or(0);
        segments.add(line)
    })
    .await?;
    // Segments come back first: before the catalog is there, nobody finds the workspaces.
    manifest.files = segments.finish()?;
    manifest.files.extend(others.finish()?);
    Ok(manifest)
}

/// Gives all items of the table, with their lines, that go where the table goes.
pub(super) async fn each(whole: &dyn Whole, mut to: impl FnMut(&Item, &str) -> Result<()>) -> Result<()> {
    let mut scan = Scan::default();
    loop {
        let page = whole.page(&scan).await?;
        for item in page.items.iter().filter(|item| !key::stays_behind(&item.key)) {
            to(item, &text::line(item)?)?;
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// The lasting items of a table.
pub(super) async fn sum(whole: &dyn Whole) -> Result<Sum> {
    let mut sum = Sum::default();
    each(whole, |item, line| {
        sum.add(item, line);
        Ok(())
    })
    .await?;
    Ok(sum)
}

/// Reads the table once more, and demands that nothing has changed.
async fn stands(whole: &dyn Whole, before: &Sum) -> Result<()> {
    if sum(whole).await? == *before {
        return Ok(());
    }
    Err(Error::unavailable(
        "the table changed while it was read, so there is no export: stop what writes to it (ingest, projectors, commands), \
         or restore it to a point in time as another table, and export that one",
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use async_trait::async_trait;
    use table::{Key, Page};

    use super::*;

    /// A table of which one item counts up to a number, once with each reading.
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

    #[tokio::test]
    async fn a_table_that_changes_between_two_readings_is_refused() {
        for (most, is_good) in [(0, true), (1, false)] {
            let whole = Growing { readings: AtomicI64::new(0), most };
            let before = sum(&whole).await.unwrap();
            assert_eq!(before.items, 1, "heartbeats stay behind");
            assert_eq!(stands(&whole, &before).await.is_ok(), is_good);
        }
    }
}
