//! `almanac restore`: the items of an export, into a table that holds nothing else.
//!
//! A marker says which export is being restored and how many of its files are stored. So a restore that was killed goes on when
//! it is called again, and no table becomes a mixture of two.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use event::{Error, Result, Timestamp};
use futures::{StreamExt, TryStreamExt, stream};
use log::key;
use sha2::{Digest, Sha256};
use table::{Condition, Item, Scan, Table, engine::Whole, item::Value, text};

use super::{
    export,
    files::{self, failed},
    manifest::{Manifest, NAME, hex},
};
use crate::{config::Config, open, progress::Progress};

/// How many items are written side by side: on SQLite they share a commit.
const WRITES: usize = 32;

/// How often the write of an item is tried when the table cannot take it now, and the pause between two tries.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// The version of the marker.
const VERSION: i64 = 1;

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder of the export.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
}

pub(crate) async fn restore(config: &Config, args: &RestoreArgs) -> anyhow::Result<()> {
    let (folder, store) = (&args.from, &config.store.value);
    let path = folder.join(NAME);
    let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
    let manifest = Manifest::parse(&text)?;
    // All of it is looked at before anything is written.
    let mut progress = Progress::new("checking", manifest.files.len() as u64);
    for (done, file) in manifest.files.iter().enumerate() {
        files::check(folder, file)?;
        progress.at(done as u64 + 1, "files");
    }
    progress.finish();
    let around = config.surroundings();
    let table = open::create(config).await?;
    let whole = store.engine.open_whole(&store.place, &around).await?;
    let mut marker = Marker::claim(&*table, &*whole, &hex(&Sha256::digest(&text))).await?;
    if marker.is_done {
        println!("{store}: the export of {} was restored before; nothing was changed", manifest.at);
        return Ok(());
    }
    let mut progress = Progress::new("restoring", manifest.items);
    let mut done = 0;
    for (at, file) in manifest.files.iter().enumerate() {
        if at as i64 >= marker.files {
            write(&*table, folder, file, around.clock.now()).await?;
            marker.files = at as i64 + 1;
            marker.put(&*table, Condition::Exists).await?;
        }
        done += file.items;
        progress.at(done, "items");
    }
    progress.finish();
    let found = export::sum(&*whole).await?;
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

/// Stores the items of a file, and finds those that are stored.
async fn write(
    table: &dyn Table,
    folder: &Path,
    file: &super::manifest::FileOf,
    now: Timestamp,
) -> Result<()> {
    let items = files::lines(folder, file)?.map(|line| text::item(&line?));
    let seconds = now.micros().div_euclid(1_000_000);
    let lasts = |item: &Item| item.int("expires_at").map_or(true, |at| at > seconds);
    stream::iter(items)
        .try_filter(|item| std::future::ready(lasts(item)))
        .map(|item| async move { put(table, item?).await })
        .buffer_unordered(WRITES)
        .try_collect::<()>()
        .await
}

/// Stores an item, or finds it. A write of which nobody knows whether it was made is made again.
async fn put(table: &dyn Table, item: Item) -> Result<()> {
    let mut tries = 1;
    loop {
        let Err(error) = table.put(item.clone(), Condition::Absent).await else { return Ok(()) };
        if error.is_conflict() {
            return match table.get(&item.key).await?.as_ref() == Some(&item) {
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

/// What says that an export is being restored, or was.
struct Marker {
    manifest: String,
    files: i64,
    is_done: bool,
}

impl Marker {
    /// The marker of the export whose manifest has this digest: a new one, in a table that is empty.
    ///
    /// # Errors
    /// `Invalid`, when the table holds something else.
    async fn claim(table: &dyn Table, whole: &dyn Whole, manifest: &str) -> Result<Self> {
        if let Some(item) = table.get(&key::restored()).await? {
            item.check_version(VERSION)?;
            let found = Self {
                manifest: item.text("manifest")?.to_owned(),
                files: item.int("files")?,
                is_done: item.text("state")? == "done",
            };
            return match found.manifest == manifest {
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
        let new = Self { manifest: manifest.to_owned(), files: 0, is_done: false };
        new.put(table, Condition::Absent).await?;
        Ok(new)
    }

    async fn put(&self, table: &dyn Table, condition: Condition) -> Result<()> {
        let state = if self.is_done { "done" } else { "begun" };
        let item = Item::new(key::restored())
            .with("v", VERSION)
            .with("manifest", Value::S(self.manifest.clone()))
            .with("files", self.files)
            .with("state", state);
        table.put(item, condition).await
    }
}

/// The key of any item that would be exported.
async fn first_key(whole: &dyn Whole) -> Result<Option<table::Key>> {
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
