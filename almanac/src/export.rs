//! `almanac admin export`, `restore` and `backup`: writes a table or one of its workspaces to files, reads it back, or copies the file.
//!
//! An export is a folder of files with an item a line, and a manifest with counts and checksums, which is written last. Exports of
//! what changed form a row with the one that they go on from.

mod restore;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::PathBuf,
};

use catalog::Catalog;
use clap::Args;
use event::{Error, Id, Result};
use log::{
    key::{self, EntityId, LogId, OfMoved},
    layout::{self, LAYOUT},
    merged,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use table::{Item, Key, Scan, engine::Whole, text};

pub(crate) use self::restore::{RestoreArgs, check_restored, restore};
use crate::{
    blob_store::{Address, BlobStore, FORM, hex},
    config::Config,
    open,
    progress::Progress,
};

/// The version of exports.
const VERSION: u32 = 1;

/// Name of the manifest.
const MANIFEST: &str = "manifest.json";

/// Kinds of files in the order of their restore: segments, then all other items, since no workspace is found without the catalog.
const KINDS: [&str; 2] = ["segments", "items"];

/// Bytes of lines after which the next file begins.
const FILE_BYTES: usize = 16 << 20;

/// Maximum bytes of the lines of a file: the last one is at most a few times the largest item of any engine.
const MAX_FILE_BYTES: usize = 2 * FILE_BYTES;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The folder to write to, which is made, or the bucket and prefix of S3; it must be empty or hold an export that was interrupted.
    #[arg(long, value_name = FORM, value_parser = Address::parser())]
    to: Address,
    /// Only this workspace, as category/name or by id: its events, projections and settings, and who has roles there or follows it.
    #[arg(long, short)]
    workspace: Option<String>,
    /// An earlier export: only what has changed since is written. Of one that was made so itself, name those that it goes on from as well.
    #[arg(long, value_name = FORM, value_parser = Address::parser())]
    since: Vec<Address>,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write; it must not be there.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// Copies the SQLite file while services go on.
pub(crate) async fn backup(config: &Config, args: &BackupArgs) -> anyhow::Result<()> {
    let store = &config.store.value;
    let mut progress = None;
    let tell = move |done, total| {
        progress.get_or_insert_with(|| Progress::new("copying", total)).at(done, "bytes");
    };
    store.engine.backup(&store.place, &args.to, Box::new(tell)).await?;
    println!("{} is a copy of {store}", args.to.display());
    Ok(())
}

/// Manifest of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// Version of the format.
    version: u32,
    /// The SHA-256 of the manifest of the export that this one goes on from; a whole one has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    /// Exported workspace; `None` for the whole table.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<Named>,
    /// Instant of the export.
    at: String,
    /// Number of items in the table or workspace, including those in the bases of this export.
    items: u64,
    /// Number of segments among them.
    segments: u64,
    /// Number of events in the segments.
    events: u64,
    /// Items that never expire.
    lasting: Sum,
    /// Files, in the order of their restore.
    files: Vec<FileOf>,
}

/// Exported workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    /// Id of the workspace.
    id: String,
    /// `category/name`.
    path: String,
    /// Layout of its items, as a whole.
    layout: u32,
}

/// File of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOf {
    name: String,
    /// Number of items, one on a line.
    items: u64,
    bytes: u64,
    /// SHA-256 of the bytes.
    sha256: String,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// `Invalid`, when it is no manifest, or has an unknown version.
    fn parse(text: &[u8]) -> Result<Self> {
        let wrong = |error| Error::invalid(format!("{MANIFEST} is not that of an export")).because(error);
        let found: serde_json::Value = serde_json::from_slice(text).map_err(wrong)?;
        if let Some(version) = found["version"].as_u64().filter(|version| *version != u64::from(VERSION)) {
            return Err(Error::invalid(format!(
                "this is an export of version {version}, this Almanac reads version {VERSION}; use the one that wrote it, or a newer one"
            )));
        }
        let manifest: Self = serde_json::from_value(found).map_err(wrong)?;
        // Names come from a file that anyone may have written: none leads out of the folder.
        match manifest.files.iter().find(|file| kind_of(&file.name).is_none()) {
            Some(FileOf { name, .. }) => {
                Err(Error::invalid(format!("{MANIFEST} names {name:?}, which is no file of an export")))
            }
            None => Ok(manifest),
        }
    }

    /// Id of the exported workspace; `None` for the whole table.
    ///
    /// # Errors
    /// `Invalid`, when the text is no id.
    fn workspace_id(&self) -> Result<Option<Id>> {
        self.workspace.as_ref().map(|named| Id::parse(&named.id)).transpose()
    }
}

/// Kind of a file by its name, as an index of [`KINDS`]; `None`, when it is no file of an export.
fn kind_of(name: &str) -> Option<usize> {
    let (kind, number) = name.strip_suffix(".ndjson.zst")?.split_once('-')?;
    let is_number = number.len() >= 5 && number.bytes().all(|digit| digit.is_ascii_digit());
    KINDS.iter().position(|known| *known == kind && is_number)
}

/// Number and checksum of items. The checksum does not depend on their order: its four numbers are sums of those in the SHA-256 of
/// each line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    items: u64,
    checksum: [u64; 4],
}

impl Sum {
    /// Counts an item with its line, unless it expires: it may be gone at the next read.
    fn add(&mut self, item: &Item, line: &str) {
        if item.attributes.contains_key("expires_at") {
            return;
        }
        self.items += 1;
        for (sum, bytes) in self.checksum.iter_mut().zip(Sha256::digest(line).as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_be_bytes(*bytes));
        }
    }

    /// Sums the items of a table, or of one of its workspaces, that are restored unchanged.
    async fn of(whole: &dyn Whole, workspace: Option<&Id>) -> Result<Self> {
        let mut sum = Self::default();
        each(whole, workspace, async |item: &Item, is_own| {
            if is_own {
                sum.add(item, &text::line(item)?);
            }
            Ok(())
        })
        .await?;
        Ok(sum)
    }
}

/// Role of an item in an export.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// It is restored unchanged. It may belong to a user, a group or a system.
    Own(Option<EntityId>),
    /// It is the workspace, or a user, a group or a system, which the catalog of the other table adopts. Guards of their names are
    /// made again there.
    Entity(EntityId),
}

impl Part {
    /// Returns the part of an item in an export of a workspace or of a whole table. `None`, if it belongs to neither. A note of the
    /// retention is of the time of its table.
    fn of(workspace: Option<&Id>, item: &Item) -> Option<Self> {
        if key::stays_behind(&item.key) {
            return None;
        }
        let Some(workspace) = workspace else { return Some(Self::Own(None)) };
        match OfMoved::of(workspace, &item.key) {
            OfMoved::Own => (item.key != key::noticed(workspace)).then_some(Self::Own(None)),
            OfMoved::With(person) => Some(Self::Own(Some(person))),
            OfMoved::Pointer => {
                let is_of = item.optional_text("workspace") == Some(workspace.as_str());
                is_of.then_some(Self::Own(None))
            }
            OfMoved::Root => Some(Self::Entity(EntityId::Workspace(workspace.clone()))),
            OfMoved::Person(person) => Some(Self::Entity(person)),
            OfMoved::RootGuard | OfMoved::PersonGuard(_) | OfMoved::Other => None,
        }
    }
}

/// Gives all items of a table, or of one of its workspaces, and for each whether it is restored unchanged: those first, as they are
/// read. Then follow the workspace, and the users, groups and systems that have something in it.
///
/// # Errors
/// Errors of the table and of `to`.
async fn each(
    whole: &dyn Whole,
    workspace: Option<&Id>,
    mut to: impl AsyncFnMut(&Item, bool) -> Result<()>,
) -> Result<()> {
    let mut entities: BTreeMap<EntityId, Item> = BTreeMap::new();
    let mut wanted: BTreeSet<EntityId> = workspace.cloned().map(EntityId::Workspace).into_iter().collect();
    let mut scan = Scan::default();
    loop {
        let page = whole.page(&scan).await?;
        for item in page.items {
            match Part::of(workspace, &item) {
                Some(Part::Own(person)) => {
                    to(&item, true).await?;
                    wanted.extend(person);
                }
                Some(Part::Entity(entity)) => _ = entities.insert(entity, item),
                None => {}
            }
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => break,
        }
    }
    for (_, item) in entities.iter().filter(|(entity, _)| wanted.contains(entity)) {
        to(item, false).await?;
    }
    Ok(())
}

/// Exports the table. A SQLite file is read as of one instant. DynamoDB has no such read, so all is read twice: if both reads are
/// equal, nothing changed from the end of the first to the beginning of the second.
pub(crate) async fn export(config: &Config, args: &ExportArgs) -> anyhow::Result<()> {
    // The files contain digests of tokens: they are for their owner alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let named = named(config, args.workspace.as_deref()).await?;
    let region = config.region.value.as_deref();
    let to = BlobStore::open(&args.to, region).await?;
    // The lock is held until the manifest is written.
    let _lock = to.lock("export")?;
    clear(&to).await?;
    let row = Row::open(&args.since, region).await?;
    row.check_base(named.as_ref())?;
    let known = row.known().await?;
    let still = open::still(config).await?;
    let is_still = still.is_some();
    let whole = if let Some(whole) = still { whole } else { open::whole(config).await? };
    let mut manifest = Manifest {
        version: VERSION,
        base: row.0.first().map(|base| base.digest.clone()),
        workspace: named,
        at: config.surroundings().clock.now().to_string(),
        ..Manifest::default()
    };
    let gone = write(&*whole, &row, known, &mut manifest, &to).await?;
    if !is_still {
        stands(&*whole, manifest.workspace_id()?.as_ref(), &manifest.lasting).await?;
    }
    finish(&to, &manifest).await?;
    println!(
        "{}: {} items, of which {} segments with {} events, as of {}",
        args.to, manifest.items, manifest.segments, manifest.events, manifest.at
    );
    if let Some(base) = row.0.first() {
        let lines: u64 = manifest.files.iter().map(|file| file.items).sum();
        println!("{}: {} items changed since {}, {gone} are gone", args.to, lines - gone, base.manifest.at);
    }
    Ok(())
}

/// Finds the requested workspace in the table, which must be there.
async fn named(config: &Config, workspace: Option<&str>) -> Result<Option<Named>> {
    let table = open::existing(config).await?;
    let Some(workspace) = workspace else { return Ok(None) };
    let layout = layout::load(&*table).await?.number;
    if layout < LAYOUT {
        return Err(Error::invalid(
            "a workspace leaves only a table of the latest layout: call `almanac admin upgrade` first",
        ));
    }
    let workspace = Catalog::new(table).workspace(workspace).await?;
    Ok(Some(Named { id: workspace.id().to_string(), path: workspace.path, layout }))
}

/// Removes what an interrupted export has left.
///
/// # Errors
/// `Invalid`, when there is a whole export, or any other file; errors of the store.
async fn clear(to: &BlobStore) -> Result<()> {
    let names: Vec<String> = to.list("").await?.into_iter().map(|(name, _)| name).collect();
    let kind = to.kind();
    if names.iter().any(|name| name == MANIFEST) {
        return Err(Error::invalid(format!("{to} holds an export already; name another {kind}")));
    }
    match names.iter().find(|name| kind_of(name).is_none()) {
        Some(name) => {
            Err(Error::invalid(format!("{to} holds other files, such as {name}; name an empty {kind}")))
        }
        None => to.delete(&names).await,
    }
}

/// Writes the manifest, which completes the export, if its files and no others are there.
///
/// # Errors
/// `Conflict`, when something else wrote there meanwhile; errors of the store.
async fn finish(to: &BlobStore, manifest: &Manifest) -> Result<()> {
    let mut found = to.list("").await?;
    let mut expected: Vec<_> = manifest.files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
    found.sort();
    expected.sort();
    let text = serde_json::to_string_pretty(manifest);
    let text = text.map_err(|error| Error::unavailable("the manifest has no text").because(error))?;
    if found == expected && to.put_new(MANIFEST, &text).await? {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "{to} is not as it was written: something else, such as another export, wrote to it meanwhile; name another {}",
        to.kind()
    )))
}

/// Writes all items that are not as in the row, and the keys that are gone since; returns the number of these.
async fn write(
    whole: &dyn Whole,
    row: &Row,
    mut known: HashMap<Mark, Mark>,
    manifest: &mut Manifest,
    to: &BlobStore,
) -> Result<u64> {
    let (workspace, mut events) = (manifest.workspace_id()?, Events::default());
    let mut writer = Writer::new(to);
    each(whole, workspace.as_ref(), async |item: &Item, is_own| {
        let line = text::line(item)?;
        manifest.items += 1;
        if is_own {
            manifest.lasting.add(item, &line);
        }
        if let Some(segment) = key::parse_segment(&item.key) {
            manifest.segments += 1;
            events.add(segment, item)?;
        }
        match known.remove(&mark_of(&item.key)) == Some(mark(line.as_bytes())) {
            true => Ok(()),
            false => writer.add(&item.key, &line).await,
        }
    })
    .await?;
    let (mut newest, mut gone) = (HashSet::new(), 0);
    for file in row.files() {
        // Usually no keys remain.
        if known.is_empty() {
            break;
        }
        for (Item { key, .. }, _) in row.items(file, &mut newest).await? {
            if known.remove(&mark_of(&key)).is_some() {
                writer.add(&key, &text::line(&Item::new(key.clone()))?).await?;
                gone += 1;
            }
        }
    }
    manifest.events = events.total;
    manifest.files = writer.finish().await?;
    Ok(gone)
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
    if Sum::of(whole, workspace).await? == *before {
        return Ok(());
    }
    Err(Error::unavailable(
        "what is exported changed while it was read, so there is no export: stop what writes to it (ingest, projectors, commands), \
         or restore it to a point in time as another table, and export that one",
    ))
}

/// Writer of files: lines by kind, each file compressed by zstd.
struct Writer<'a> {
    to: &'a BlobStore,
    open: [(String, u64); 2],
    done: [Vec<FileOf>; 2],
}

impl<'a> Writer<'a> {
    fn new(to: &'a BlobStore) -> Self {
        Self { to, open: Default::default(), done: Default::default() }
    }

    /// Adds the line of a key.
    ///
    /// # Errors
    /// A file that cannot be written.
    async fn add(&mut self, key: &Key, line: &str) -> Result<()> {
        let kind = usize::from(key::parse_segment(key).is_none());
        let (text, lines) = &mut self.open[kind];
        text.push_str(line);
        text.push('\n');
        *lines += 1;
        if text.len() < FILE_BYTES { Ok(()) } else { self.close(kind).await }
    }

    async fn close(&mut self, kind: usize) -> Result<()> {
        let (text, items) = std::mem::take(&mut self.open[kind]);
        if items == 0 {
            return Ok(());
        }
        let name = format!("{}-{:05}.ndjson.zst", KINDS[kind], self.done[kind].len() + 1);
        let bytes = zstd::bulk::compress(text.as_bytes(), 1)
            .map_err(|error| Error::unavailable(format!("{name} cannot be compressed")).because(error))?;
        self.to.put(&name, &bytes[..]).await?;
        eprintln!("{name}: {items} items");
        let sha256 = hex(&Sha256::digest(&bytes));
        self.done[kind].push(FileOf { name, items, bytes: bytes.len() as u64, sha256 });
        Ok(())
    }

    /// Completes and returns the files.
    ///
    /// # Errors
    /// A last file that cannot be written.
    async fn finish(mut self) -> Result<Vec<FileOf>> {
        for kind in 0..KINDS.len() {
            self.close(kind).await?;
        }
        Ok(self.done.concat())
    }
}

/// Digest of a key or a line, unique in practice.
type Mark = [u8; 16];

fn mark(bytes: &[u8]) -> Mark {
    Sha256::digest(bytes).first_chunk().copied().unwrap_or_default()
}

fn mark_of(key: &Key) -> Mark {
    mark(format!("{}\0{}", key.pk, key.sk).as_bytes())
}

/// An export with its place.
#[derive(Debug)]
struct Exported {
    from: BlobStore,
    manifest: Manifest,
    /// SHA-256 of the text of the manifest.
    digest: String,
}

impl Exported {
    /// Reads a file, and checks that it is as in the manifest.
    ///
    /// # Errors
    /// `Corrupt`, when it is not; errors of the store.
    async fn read(&self, file: &FileOf) -> Result<Vec<u8>> {
        let bytes = self.from.get(&file.name).await?;
        match hex(&Sha256::digest(&bytes)) == file.sha256 {
            true => Ok(bytes),
            false => Err(Error::corrupt(format!(
                "{}/{} is not the file that was exported: its SHA-256 differs",
                self.from, file.name
            ))),
        }
    }
}

/// A row of exports, the newest first: each but the last holds what changed since the next one.
#[derive(Debug)]
struct Row(Vec<Exported>);

impl Row {
    /// Opens exports, named in any order, as a row.
    ///
    /// # Errors
    /// `Invalid`, when they do not form one; errors of [`Manifest::parse`] and of the store.
    async fn open(addresses: &[Address], region: Option<&str>) -> Result<Self> {
        let (mut left, mut row): (Vec<Exported>, Vec<Exported>) = (Vec::new(), Vec::new());
        for address in addresses {
            let from = BlobStore::open(address, region).await?;
            let text = from.get(MANIFEST).await?;
            let (manifest, digest) = (Manifest::parse(&text)?, hex(&Sha256::digest(&text)));
            if let Some(other) = left.iter().find(|other| other.digest == digest) {
                let message = format!("{} and {from} hold the same export", other.from);
                return Err(Error::invalid(message));
            }
            left.push(Exported { from, manifest, digest });
        }
        let is_base =
            |one: &Exported| left.iter().any(|other| other.manifest.base.as_ref() == Some(&one.digest));
        let mut next = left.iter().find(|one| !is_base(one)).map(|one| one.digest.clone());
        while let Some(digest) = next {
            let Some(at) = left.iter().position(|one| one.digest == digest) else {
                return Err(Error::invalid(format!(
                    "{} holds only what changed since an earlier export, whose manifest has the SHA-256 {digest}; name its folder too",
                    row.last().map(|one| one.from.to_string()).unwrap_or_default()
                )));
            };
            let one = left.swap_remove(at);
            next = one.manifest.base.clone();
            row.push(one);
        }
        match left.is_empty() {
            true => Ok(Self(row)),
            false => Err(Error::invalid(
                "these exports are not one row: one of them must be whole, and every other one must go on from one of them",
            )),
        }
    }

    /// Refuses a row of another workspace or of the whole table as the base of an export.
    fn check_base(&self, named: Option<&Named>) -> Result<()> {
        let Some(Exported { from, manifest, .. }) = self.0.first() else { return Ok(()) };
        let base = manifest.workspace.as_ref();
        if base.map(|base| &base.id) == named.map(|named| &named.id) {
            return Ok(());
        }
        let what =
            base.map_or_else(|| "all of a table".into(), |base| format!("the workspace {}", base.path));
        Err(Error::invalid(format!("{from} is an export of {what}, and this is to be one of something else")))
    }

    /// Files in the order of their restore; of each kind those of the newest export come first.
    fn files(&self) -> Vec<(&Exported, &FileOf)> {
        let of_kind = |kind| {
            let files = self.0.iter().flat_map(|one| one.manifest.files.iter().map(move |file| (one, file)));
            files.filter(move |(_, file)| kind_of(&file.name) == Some(kind))
        };
        (0..KINDS.len()).flat_map(of_kind).collect()
    }

    /// Items of a file, with their lines, that no newer export has or deletes: files come in their order, and their keys are
    /// noted. An item without attributes says that its key is gone.
    ///
    /// # Errors
    /// `Corrupt`, when the file is not as in the manifest, or has a line that is no item; errors of the store.
    async fn items(
        &self,
        (one, file): (&Exported, &FileOf),
        newest: &mut HashSet<Mark>,
    ) -> Result<Vec<(Item, String)>> {
        let wrong = |why: String| Error::corrupt(format!("{}/{}: {why}", one.from, file.name));
        let bytes = zstd::bulk::decompress(&one.read(file).await?, MAX_FILE_BYTES);
        let text = String::from_utf8(bytes.map_err(|error| wrong(error.to_string()))?);
        let mut items = Vec::new();
        for line in text.map_err(|error| wrong(error.to_string()))?.lines() {
            let item = text::item(line).map_err(|error| wrong(error.to_string()))?;
            // A single export has each key once.
            let is_newest = self.0.len() == 1 || newest.insert(mark_of(&item.key));
            let is_gone = one.manifest.base.is_some() && item.attributes.is_empty();
            if is_newest && !is_gone {
                items.push((item, line.to_owned()));
            }
        }
        Ok(items)
    }

    /// Content of the row: digests of lines by digests of keys. It takes 32 bytes an item plus the overhead of a hash map.
    async fn known(&self) -> Result<HashMap<Mark, Mark>> {
        let (mut newest, mut known) = (HashSet::new(), HashMap::new());
        for file in self.files() {
            let items = self.items(file, &mut newest).await?;
            known.extend(items.iter().map(|(item, line)| (mark_of(&item.key), mark(line.as_bytes()))));
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::{
            Arc,
            atomic::{AtomicI64, Ordering},
        },
    };

    use async_trait::async_trait;
    use event::{ErrorKind, Kind};
    use object_store::{ObjectStoreExt, memory::InMemory};
    use table::Page;

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

    fn item(name: &str) -> Item {
        Item::new(Key::new("p", name)).with("n", 1)
    }

    fn sum(items: &[Item]) -> Sum {
        let mut sum = Sum::default();
        items.iter().for_each(|item| sum.add(item, &text::line(item).unwrap()));
        sum
    }

    fn manifest(files: Vec<FileOf>) -> Manifest {
        Manifest {
            version: VERSION,
            base: None,
            workspace: None,
            at: "2026-06-01T04:30:00Z".into(),
            items: 2,
            segments: 0,
            events: 0,
            lasting: sum(&[item("1"), Item::new(Key::new("p", "2"))]),
            files,
        }
    }

    fn text_of(manifest: &Manifest) -> String {
        serde_json::to_string_pretty(manifest).unwrap()
    }

    /// Exports are kept, so this text is read for ever.
    #[test]
    fn golden_text() {
        let file =
            FileOf { name: "items-00001.ndjson.zst".into(), items: 2, bytes: 90, sha256: "07".repeat(32) };
        let whole = manifest(vec![file]);
        let named = Named { id: "2NBs0sLBnJxEcoDLgVnQdJkhEgV".into(), path: "flights/nyc".into(), layout: 2 };
        let of_one = Manifest { base: Some("09".repeat(32)), workspace: Some(named), ..whole.clone() };
        insta::assert_snapshot!(text_of(&of_one));
        for one in [&whole, &of_one, &Manifest { base: None, ..of_one.clone() }] {
            assert_eq!(Manifest::parse(text_of(one).as_bytes()).unwrap(), *one);
        }
        for (from, to, says) in [
            ("\"version\": 1", "\"version\": 2", "an export of version 2"),
            ("items-00001", "../items-00001", "which is no file of an export"),
            ("\"events\"", "\"others\"", "is not that of an export"),
        ] {
            let changed = text_of(&whole).replace(from, to);
            let error = Manifest::parse(changed.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn names_stay_in_the_folder() {
        assert_eq!(kind_of("segments-00001.ndjson.zst"), Some(0));
        assert_eq!(kind_of("items-100000.ndjson.zst"), Some(1));
        for name in [
            "../items-00001.ndjson.zst",
            "items-1.ndjson.zst",
            "items-0000a.ndjson.zst",
            "others-00001.ndjson.zst",
        ] {
            assert_eq!(kind_of(name), None, "{name}");
        }
    }

    #[test]
    fn checksum_ignores_order_and_expiring_items() {
        let [a, b] = [item("a"), item("b")];
        assert_eq!(sum(&[a.clone(), b.clone()]), sum(&[b.clone(), a.clone()]));
        assert_ne!(sum(&[a.clone(), b.clone()]), sum(&[a.clone(), a.clone()]));
        assert_ne!(sum(std::slice::from_ref(&a)), sum(&[a.clone().with("n", 2)]));
        assert_eq!(sum(&[a.clone(), b.with("expires_at", 1)]), sum(&[a]));
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
            let before = Sum::of(&whole, None).await.unwrap();
            assert_eq!(before.items, 1, "heartbeats stay behind");
            assert_eq!(stands(&whole, None, &before).await.is_ok(), is_good);
        }
    }

    /// A folder and a prefix, which do the same, and the store of the prefix.
    async fn both(folder: &tempfile::TempDir) -> ([BlobStore; 2], Arc<InMemory>) {
        let (store, address) =
            (Arc::new(InMemory::new()), Address::S3 { bucket: "mine".into(), prefix: "out".into() });
        let in_folder = BlobStore::open(&Address::Folder(folder.path().to_owned()), None).await.unwrap();
        ([in_folder, BlobStore::of(store.clone(), &address)], store)
    }

    async fn put(store: &BlobStore, name: &str) {
        store.put(name, &b"half"[..]).await.unwrap();
    }

    #[tokio::test]
    async fn clearing_removes_only_interrupted_export_files() {
        let folder = tempfile::tempdir().unwrap();
        let (stores, objects) = both(&folder).await;
        objects.put(&"out2/items-00001.ndjson.zst".into(), "half".into()).await.unwrap();
        for store in stores {
            put(&store, "items-00001.ndjson.zst").await;
            clear(&store).await.unwrap();
            assert_eq!(store.list("").await.unwrap(), []);
            for (other, named) in [("thesis.tex", "thesis.tex"), ("day=1/rows.parquet", "day=1")] {
                put(&store, other).await;
                let error = clear(&store).await.unwrap_err().to_string();
                assert!(error.contains(&format!("{store} holds other files, such as {named}")), "{error}");
                store.delete(&[other.to_owned()]).await.unwrap();
                _ = fs::remove_dir(folder.path().join(named));
            }
            finish(&store, &manifest(Vec::new())).await.unwrap();
            assert!(clear(&store).await.unwrap_err().to_string().contains("holds an export already"));
        }
        assert!(objects.head(&"out2/items-00001.ndjson.zst".into()).await.is_ok());
    }

    #[tokio::test]
    async fn prefix_written_by_another_export_gets_no_manifest() {
        for other in ["items-00001.ndjson.zst", "items-00002.ndjson.zst", MANIFEST] {
            let folder = tempfile::tempdir().unwrap();
            for store in both(&folder).await.0 {
                let mut writer = Writer::new(&store);
                writer.add(&item("a").key, "one").await.unwrap();
                let files = writer.finish().await.unwrap();
                put(&store, other).await;
                let error = finish(&store, &manifest(files)).await.unwrap_err().to_string();
                assert!(error.contains("wrote to it meanwhile"), "{error}");
                assert!(store.get(MANIFEST).await.is_err() || other == MANIFEST);
            }
        }
    }

    #[tokio::test]
    async fn file_that_unpacks_to_too_much_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [store, _] = both(&folder).await.0;
        let bytes = zstd::bulk::compress(&vec![b'a'; MAX_FILE_BYTES + 1], 1).unwrap();
        let (name, sha256) = ("items-00001.ndjson.zst".to_owned(), hex(&Sha256::digest(&bytes)));
        store.put(&name, &bytes[..]).await.unwrap();
        let files = vec![FileOf { name, items: 1, bytes: bytes.len() as u64, sha256 }];
        let row = Row(vec![Exported { from: store, manifest: manifest(files), digest: String::new() }]);
        let error = row.items(row.files()[0], &mut HashSet::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }

    #[tokio::test]
    async fn export_files_round_trip_and_reject_changes() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = Vec::new();
        for store in both(&folder).await.0 {
            let mut writer = Writer::new(&store);
            let items = [item("a"), item("b")].map(|item| (text::line(&item).unwrap(), item));
            for (line, item) in &items {
                writer.add(&item.key, line).await.unwrap();
            }
            let files = writer.finish().await.unwrap();
            written.push(files.clone());
            finish(&store, &manifest(files)).await.unwrap();
            let from = Exported {
                from: store.clone(),
                manifest: manifest(written[0].clone()),
                digest: String::new(),
            };
            let row = Row(vec![from]);
            let read = async || row.items(row.files()[0], &mut HashSet::new()).await;
            assert_eq!(read().await.unwrap(), items.map(|(line, item)| (item, line)));
            let name = &written[0][0].name;
            let mut bytes = store.get(name).await.unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            store.put(name, &bytes[..]).await.unwrap();
            let error = read().await.unwrap_err().to_string();
            assert!(error.contains(&format!("{store}/{name} is not the file that was exported")), "{error}");
        }
        assert_eq!(written[0], written[1], "an export has the same bytes in either");
    }
}
