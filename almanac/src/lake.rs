//! `almanac admin lake sync`: closed days as Parquet, in tables of Delta Lake that other engines read.
//!
//! There is a table for each kind of events, and one of evaluations. Each day is a commit: its file first, then the commit that
//! names it, written only if its number is free. So a killed process leaves at most a file that no table names. An exporter keeps
//! no other state than the commits: a day is exported again when its commit differs from the logs.

mod delta;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs::File,
    future::ready,
    io::{self, Read, Seek},
    sync::Arc,
};

use catalog::Kept;
use clap::{Args, Subcommand};
use event::{Clock, Day, Error, ErrorKind, Id, Kind, Result, Window, pseudonym::is_pseudonym};
use futures::{StreamExt, TryStreamExt, stream};
use log::{
    active,
    erased::LAST,
    expired,
    key::{self, LogId},
    read_version::ReadVersion,
    scan::{self, LogHead},
    segment_item::{ERASED, Segment},
    skipped,
};
use query::{Covered, Dataset, Query};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use table::{KeyRange, Pages, Table, query_all};
use tokio::sync::OnceCell;

use self::delta::{DataFile, Delta, Exported};
use crate::{
    blob_store::{Address, BlobStore, FORM, hex},
    config::Config,
    open,
    progress::Progress,
};

/// Maximum tries to export a day when other programs add commits at the same time.
const TRIES: u32 = 10;

/// Number of small reads, of commits and of items, side by side.
const READS: usize = 16;

/// Placeholder for the content of an unreadable segment.
const UNREADABLE: &str = "unreadable";

#[derive(Debug, Subcommand)]
pub(crate) enum LakeCommand {
    /// Export the days that are over, and again those that have changed, as Delta tables with a partition a day.
    Sync(SyncArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// The folder of the tables, of this workspace alone, which is made when it is not there, or the bucket and prefix of S3.
    #[arg(long, value_name = FORM, value_parser = Address::parser())]
    to: Address,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// The first day to look at, 2026-01-31 for example; days before it stay in the tables as they are.
    #[arg(long, value_name = "DAY")]
    since: Option<Day>,
    /// Say which days would be exported, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Export of a workspace.
struct Lake {
    table: Arc<dyn Table>,
    query: Query,
    workspace: Id,
    store: BlobStore,
    /// First day to check.
    since: Option<Day>,
    /// Heads of the logs of closed days, from `since` on.
    heads: BTreeMap<(Day, Kind), BTreeMap<LogId, u64>>,
    /// Segments that queries leave out.
    skipped: BTreeSet<(LogId, u64)>,
    /// Erasures before any log was read. An erasure rewrites segments, and moves no head.
    erasures: String,
    /// Erased keys in the logs, once they were looked for.
    erased: OnceCell<ErasedOf>,
    is_dry: bool,
}

/// Counts of an exported table.
#[derive(Default)]
struct Synced {
    new: usize,
    again: usize,
    rows: u64,
}

pub(crate) async fn command(config: &Config, command: LakeCommand) -> anyhow::Result<()> {
    let LakeCommand::Sync(args) = command;
    let table = open::existing(config).await?;
    let query = Query::new(Arc::clone(&table), Clock::system());
    let workspace = query.catalog().workspace(&args.workspace).await?.id().clone();
    let store = BlobStore::open(&args.to, config.region.value.as_deref()).await?;
    let _lock = if args.dry_run { None } else { store.lock("lake sync")? };
    let lake = Lake::open((table, query, workspace), store, &args).await?;
    // Load all tables before anything is written: a foreign folder is left as it is.
    for (of, delta) in lake.tables().await? {
        let (delta, synced) = lake.sync(of, delta).await?;
        if let (Some(version), false) = (delta.version(), args.dry_run) {
            println!(
                "{}: {} days, version {version}; {} exported now and {} again, {} rows",
                of.name(),
                delta.days.len(),
                synced.new,
                synced.again,
                synced.rows
            );
        }
    }
    Ok(())
}

impl Lake {
    async fn open(
        (table, query, workspace): (Arc<dyn Table>, Query, Id),
        store: BlobStore,
        args: &SyncArgs,
    ) -> Result<Self> {
        let erasures = erasures(&*table, &workspace).await?;
        let closed = query.closed_instant();
        let is_over = |day: Day| day.next().is_some_and(|next| next.start() <= closed);
        let mut heads: BTreeMap<_, BTreeMap<LogId, u64>> = BTreeMap::new();
        for head in scan::heads(&*table, &workspace).await? {
            if is_over(head.log.day) && Some(head.log.day) >= args.since {
                heads.entry((head.log.day, head.log.kind)).or_default().insert(head.log, head.seq);
            }
        }
        let mut left_out = BTreeSet::new();
        if let (Some(((from, _), _)), Some(((to, _), _))) = (heads.first_key_value(), heads.last_key_value())
        {
            let version = active::load(&*table, &workspace).await?.version;
            let counts = |refused: &str| refused == skipped::BY_ROLLUP;
            left_out = skipped::between(&*table, &workspace, version, (*from, *to), counts).await?;
        }
        Ok(Self {
            table,
            query,
            workspace,
            store,
            since: args.since,
            heads,
            skipped: left_out,
            erasures,
            erased: OnceCell::new(),
            is_dry: args.dry_run,
        })
    }

    /// Loads all tables from their logs.
    async fn tables(&self) -> Result<Vec<(Dataset, Delta)>> {
        let mut tables = Vec::new();
        for of in Kind::ALL.map(Dataset::Events).into_iter().chain([Dataset::Evaluations]) {
            tables.push((of, self.table(of).await?));
        }
        Ok(tables)
    }

    async fn table(&self, of: Dataset) -> Result<Delta> {
        Delta::load(&self.store, of.name(), &self.workspace).await
    }

    /// Exports the days of a table that are missing or outdated.
    async fn sync(&self, of: Dataset, mut delta: Delta) -> Result<(Delta, Synced)> {
        let erased = self.erased(of, &delta).await?;
        let days = self.days(of, &delta, erased).await?;
        let (mut synced, mut progress) = (Synced::default(), Progress::new("syncing", days.len() as u64));
        for (done, day) in days.into_iter().enumerate() {
            let mut tries = 1;
            while !self.day((of, day), erased, &mut delta, &mut synced).await? {
                if tries == TRIES {
                    let message = "other programs add commits to the table all the time; try again";
                    return Err(Error::unavailable(format!("{}: {message}", of.name())));
                }
                tries += 1;
                delta = self.table(of).await?;
            }
            progress.at(done as u64 + 1, of.name());
        }
        progress.finish();
        // All days of the table were checked, unless it has one before `since`. A commit added meanwhile causes another search
        // for erased events.
        let is_whole = delta.days.keys().next().is_none_or(|first| Some(*first) >= self.since);
        if erased.is_some() && is_whole && !self.is_dry {
            delta.note_erasures(&self.store, &self.erasures, self.query.now()).await?;
        }
        Ok((delta, synced))
    }

    /// Finds erased keys in the logs, if the table may have days from before the erasures. Stored evaluations are compared by
    /// their digest.
    async fn erased(&self, of: Dataset, delta: &Delta) -> Result<Option<&ErasedOf>> {
        if of == Dataset::Evaluations || delta.erasures == self.erasures {
            return Ok(None);
        }
        let all = key::segments(&self.workspace);
        let first = self.since.map(|day| key::segments_of_day(&self.workspace, day).from);
        let range = KeyRange { from: first.unwrap_or(all.from), ..all };
        self.erased.get_or_try_init(|| erased_of(&*self.table, range)).await.map(Some)
    }

    /// Finds erased keys of a day, before its logs are read.
    async fn erased_on(&self, kind: Kind, day: Day, erased: Option<&ErasedOf>) -> Result<String> {
        match erased {
            Some(erased) => Ok(erased.get(&(day, kind)).cloned().unwrap_or_default()),
            None if self.erasures.is_empty() => Ok(String::new()),
            None => {
                let range = key::segments_of_kind(&self.workspace, day, kind);
                Ok(erased_of(&*self.table, range).await?.remove(&(day, kind)).unwrap_or_default())
            }
        }
    }

    /// Returns the days that may be missing or outdated: for events, the days that did not expire whose logs differ from the
    /// export, or are gone since they were restored from an older backup; for evaluations, all days that may have one.
    async fn days(&self, of: Dataset, delta: &Delta, erased: Option<&ErasedOf>) -> Result<Vec<Day>> {
        let is_of = |kind: Kind| match of {
            Dataset::Events(of) => of == kind,
            _ => matches!(kind, Kind::Predictions | Kind::Outcomes),
        };
        let logged = self.heads.keys().filter(|(_, kind)| is_of(*kind)).map(|(day, _)| *day);
        let mut days: BTreeSet<Day> = logged.chain(delta.days.keys().copied()).collect();
        if of == Dataset::Evaluations {
            let expired = expired::all(&*self.table, &self.workspace).await?;
            days.extend(expired.iter().map(|mark| mark.day));
        }
        days.retain(|day| Some(*day) >= self.since);
        let (Dataset::Events(kind), Some(first), Some(last)) = (of, days.first(), days.last()) else {
            return Ok(days.into_iter().collect());
        };
        let kept = self.kept_in(Window::new(*first, *last)?).await?;
        let due = days.into_iter().filter(|day| is_kept(&kept, kind, *day)).map(|day| async move {
            let is_due = self.is_due((day, kind), delta.days.get(&day), erased).await?;
            Ok::<_, Error>(is_due.then_some(day))
        });
        stream::iter(due).buffered(READS).try_filter_map(|day| ready(Ok(day))).try_collect().await
    }

    /// Returns whether the exported rows of a day differ from its logs.
    async fn is_due(
        &self,
        (day, kind): (Day, Kind),
        known: Option<&Known>,
        erased: Option<&ErasedOf>,
    ) -> Result<bool> {
        let Some(known) = known else { return Ok(true) };
        let is_of = |(log, _): &&(LogId, u64)| log.day == day && log.kind == kind;
        let read_version = ReadVersion {
            heads: self.heads.get(&(day, kind)).cloned().unwrap_or_default(),
            left_out: self.skipped.iter().filter(is_of).cloned().collect(),
            ..ReadVersion::begin(&self.workspace, kind, day)
        };
        let pseudonyms = erased.and_then(|erased| erased.get(&(day, kind))).cloned().unwrap_or_default();
        let now = Known::of(&*self.table, &Covered::ReadVersion(Box::new(read_version)), pseudonyms).await?;
        Ok(!known.is_same(&now, erased.is_some()))
    }

    /// Days of a window that have not expired by now.
    async fn kept_in(&self, window: Window) -> Result<Kept> {
        self.query.catalog().kept(&self.workspace, window, self.query.now()).await
    }

    /// Exports a day, unless the table has its rows; returns `false` if another program added a commit meanwhile.
    async fn day(
        &self,
        (of, day): (Dataset, Day),
        erased: Option<&ErasedOf>,
        delta: &mut Delta,
        synced: &mut Synced,
    ) -> Result<bool> {
        let before = delta.days.get(&day).cloned();
        let (mut pseudonyms, mut heads) = (String::new(), Vec::new());
        let rows = match of {
            Dataset::Events(kind) => {
                pseudonyms = self.erased_on(kind, day, erased).await?;
                heads = scan::heads_of_kind(&*self.table, &self.workspace, day, kind).await?;
                self.query.events_of(&self.workspace, kind, day).await?
            }
            _ => self.query.evaluation_of(&self.workspace, day).await?,
        };
        let mut known = Known::of(&*self.table, &rows.covered(), pseudonyms).await?;
        let is_known =
            |known: &Known| before.as_ref().is_some_and(|before| before.is_same(known, erased.is_some()));
        if is_known(&known) || self.stays((of, day), &heads, before.as_ref(), &known).await? {
            return Ok(true);
        }
        if self.is_dry {
            println!("{} {day}: {}", of.name(), if before.is_some() { "again" } else { "new" });
            return Ok(true);
        }
        let mut schema = delta.schema.clone();
        let names = schema.names(&rows.columns())?;
        let unmade = |error| Error::unavailable(format!("the file of {day} cannot be made")).because(error);
        let mut draft = self.store.draft()?;
        let written = rows.write(names, draft.try_clone().map_err(unmade)?).await?;
        written.warnings.iter().for_each(|warning| eprintln!("warning: {} {day}: {warning}", of.name()));
        // An unreadable segment is left out only once the rows are made. A day that has no rows and never had any gets no commit.
        known.set_covered(&written.covered);
        if is_known(&known) || before.is_none() && written.rows == 0 {
            return Ok(true);
        }
        let mut file = None;
        if written.rows > 0 {
            let path = delta.path(day, &sha256(&mut draft).map_err(unmade)?);
            let bytes = draft.stream_position().map_err(unmade)?;
            draft.rewind().map_err(unmade)?;
            self.store.put(&format!("{}/{path}", of.name()), &draft).await?;
            file = Some(DataFile { path, bytes, rows: written.rows });
        }
        let exported = Exported { day, known, schema, file };
        if !delta.commit(&self.store, &exported, self.query.now()).await? {
            return Ok(false);
        }
        synced.rows += written.rows;
        *if before.is_some() { &mut synced.again } else { &mut synced.new } += 1;
        Ok(true)
    }

    /// Returns whether the table keeps what it has of a day, since its logs hold less: the events have expired, or segments are
    /// missing. The heads were read before the rows.
    async fn stays(
        &self,
        (of, day): (Dataset, Day),
        heads: &[LogHead],
        before: Option<&Known>,
        known: &Known,
    ) -> Result<bool> {
        let (Dataset::Events(kind), Some(read_version)) = (of, known.read_version()) else {
            return Ok(false);
        };
        let is_torn =
            heads.iter().any(|head| read_version.heads.get(&head.log).is_none_or(|seq| *seq < head.seq));
        if !is_torn && !read_version.heads.is_empty() {
            return Ok(false);
        }
        if !is_kept(&self.kept_in(Window::of(day)).await?, kind, day) {
            return Ok(true);
        }
        let warn = |what: &str| eprintln!("warning: {} {day}: {what}", of.name());
        let Some(before) = before else { return Ok(false) };
        if !is_torn {
            warn(
                "the store has no events of the day any more, so they leave the table; its files stay until `VACUUM`",
            );
            return Ok(false);
        }
        // The exported day has all remaining rows, with the same erased keys.
        let had = before.read_version().map(|had| had.heads).unwrap_or_default();
        let has = |(log, seq): (&LogId, &u64)| had.get(log).is_some_and(|had| had >= seq);
        let stays =
            before.pseudonyms == known.pseudonyms && !had.is_empty() && read_version.heads.iter().all(has);
        if stays {
            warn(
                "segments are missing (`almanac admin verify` says which), so the table keeps what it has of the day",
            );
        }
        Ok(stays)
    }
}

/// SHA-256 of a file, in hexadecimal.
fn sha256(file: &mut File) -> io::Result<String> {
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    file.rewind()?;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

/// Half of a SHA-256, in hexadecimal.
fn digest(text: &str) -> String {
    hex(&Sha256::digest(text)[..16])
}

/// Identity of the rows of a day. Numbers of segments are not enough: a table restored from a backup reaches the same numbers with
/// other events, and an erasure rewrites segments without moving a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Read version that the events were read from, as text, or digest of the evaluation.
    covered: String,
    /// History of the logs that the events were read from; empty for evaluations.
    history: String,
    /// Digest of the erased keys in the rows; empty if there are none.
    pseudonyms: String,
}

impl Known {
    /// Makes the identity of rows with these erased keys.
    async fn of(table: &dyn Table, covered: &Covered, pseudonyms: String) -> Result<Self> {
        let mut known = Self { pseudonyms, ..Self::default() };
        known.set_covered(covered);
        if let Covered::ReadVersion(read_version) = covered {
            known.history = of_heads(table, &read_version.heads).await?;
        }
        Ok(known)
    }

    /// Sets the read version or the digest.
    fn set_covered(&mut self, covered: &Covered) {
        self.covered = match covered {
            Covered::ReadVersion(read_version) => read_version.to_string(),
            Covered::Digest(digest) => digest.clone(),
        };
    }

    /// Read version that the events were read from; `None` for an evaluation.
    fn read_version(&self) -> Option<ReadVersion> {
        self.covered.parse().ok()
    }

    /// Returns whether these are the same rows. Erased keys are compared on demand.
    fn is_same(&self, other: &Self, with_erased: bool) -> bool {
        let covers_same = match (self.read_version(), other.read_version()) {
            (Some(one), Some(other)) => (one.heads, one.left_out) == (other.heads, other.left_out),
            _ => self.covered == other.covered,
        };
        covers_same && self.history == other.history && (!with_erased || self.pseudonyms == other.pseudonyms)
    }
}

/// Reads the erasures that a workspace has gone through: the number of changes of the epoch ([`log::erased::ErasureEpoch`]) and the last
/// erasure, which identify their history. Empty if no key was ever erased.
async fn erasures(table: &dyn Table, workspace: &Id) -> Result<String> {
    let Some(item) = table.get(&key::erased(workspace)).await? else { return Ok(String::new()) };
    Ok(format!("{}/{}", item.int("ver")?, item.optional_text(LAST).unwrap_or_default()))
}

/// Digests of the erased keys in the events of days and kinds; days without any are left out.
type ErasedOf = BTreeMap<(Day, Kind), String>;

/// Finds erased keys in the segments of a range.
async fn erased_of(table: &dyn Table, range: KeyRange) -> Result<ErasedOf> {
    let mut found = Vec::new();
    let mut pages = Pages::of(table, table::Query::table(range).only(&["v", ERASED]));
    while let Some(items) = pages.next().await? {
        for item in items.iter().filter(|item| item.attributes.contains_key(ERASED)) {
            if let Some((log, seq)) = key::parse_segment(&item.key) {
                found.push((log, seq, item.int(ERASED)?));
            }
        }
    }
    let read = found.into_iter().map(|(log, seq, events)| async move {
        let line = format!("{}/{seq} {events} {}\n", log.name(), pseudonyms(table, &log, seq).await?);
        Ok::<_, Error>(((log.day, log.kind), line))
    });
    let mut read = stream::iter(read).buffered(READS);
    let mut lines = ErasedOf::new();
    while let Some((of, line)) = read.try_next().await? {
        lines.entry(of).or_default().push_str(&line);
    }
    Ok(lines.into_iter().map(|(of, lines)| (of, digest(&lines))).collect())
}

/// Returns the pseudonyms in a segment, sorted. They are random, so a key that is erased again has another one.
async fn pseudonyms(table: &dyn Table, log: &LogId, seq: u64) -> Result<String> {
    let query = table::Query::table(key::segments_between(log, seq, seq));
    let items = query_all(table, query).await?;
    let unpack = |item| Segment::from_item(item)?.unpack(|name| log.kind.is_key(name));
    let columns = match items.into_iter().next().map(unpack) {
        Some(Ok(columns)) => columns,
        Some(Err(error)) if error.kind() == ErrorKind::Corrupt => return Ok(UNREADABLE.into()),
        Some(Err(error)) => return Err(error),
        // The segment has been deleted since.
        None => return Ok(String::new()),
    };
    let rows = columns.columns.iter().flat_map(|column| (0..columns.rows).map(move |row| column.text(row)));
    let pseudonyms: BTreeSet<&str> = rows.flatten().filter(|key| is_pseudonym(key)).collect();
    Ok(pseudonyms.into_iter().collect::<Vec<_>>().join(","))
}

/// Returns the history of the heads of some logs: the times and batches of their last segments. Segments never change and follow
/// each other in time, so logs with equal last segments have equal earlier ones.
async fn of_heads(table: &dyn Table, heads: &BTreeMap<LogId, u64>) -> Result<String> {
    let read = heads.iter().map(|(log, seq)| async move {
        let mut line = format!("{}/{seq} ", log.name());
        match scan::after(table, log, seq.saturating_sub(1)).await {
            Ok(Some(segment)) => {
                line += &format!("{}/{}", segment.seq, segment.appended_at.micros());
                for part in &segment.batches {
                    _ = write!(line, " {}:{}+{}", part.batch, part.first, part.rows);
                }
            }
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::Corrupt => line += UNREADABLE,
            Err(error) => return Err(error),
        }
        Ok::<_, Error>(line)
    });
    let lines: Vec<String> = stream::iter(read).buffered(READS).try_collect().await?;
    Ok(digest(&lines.join("\n")))
}

/// Returns whether the events of a day have not expired. Release events never do.
fn is_kept(kept: &Kept, kind: Kind, day: Day) -> bool {
    kind == Kind::Releases || kept.keeps(day)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use ::tests::{
        on_both_engines,
        scene::{NOW, Scene},
        world::at,
    };
    use event::Clock;
    use projector::erase::{Pace, carry_out};
    use serde_json::json;
    use table::{Condition, query_all};

    use super::*;

    on_both_engines!(
        Scene::on:
        an_erased_day_is_exported_again,
        sync_since_searches_erased_events_once,
        day_with_unreadable_segment_is_written_once,
        sync_after_restore_drops_lost_history,
        different_erasures_of_equal_count_are_distinguished,
        folder_of_another_workspace_is_left_unchanged,
        lake_day_missing_a_segment_stays_unchanged,
        erasure_reaches_day_with_missing_segment,
    );

    const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
    const SENT: &str = "2026-06-04T12:00:00Z";

    /// Syncs a table to a folder; returns its number of days, of new days and of days exported again.
    async fn sync_to(scene: &Scene, to: &Path, of: Dataset) -> (usize, usize, usize) {
        let (delta, synced) = synced_since(scene, to, of, None).await;
        (delta.days.len(), synced.new, synced.again)
    }

    /// Opens a lake, which is locked as long as the returned file is kept.
    async fn lake(scene: &Scene, to: &Path, workspace: &Id, since: Option<&str>) -> (Lake, Option<fs::File>) {
        let to = Address::Folder(to.to_owned());
        let since = since.map(|day| day.parse().unwrap());
        let args = SyncArgs { to, workspace: String::new(), since, dry_run: false };
        let (table, query) = (Arc::clone(&scene.table), scene.query(at(NOW)));
        let store = BlobStore::open(&args.to, None).await.unwrap();
        let lock = store.lock("lake sync").unwrap();
        (Lake::open((table, query, workspace.clone()), store, &args).await.unwrap(), lock)
    }

    /// Syncs the days from `since` on.
    async fn synced_since(scene: &Scene, to: &Path, of: Dataset, since: Option<&str>) -> (Delta, Synced) {
        let (lake, _lock) = lake(scene, to, scene.id(), since).await;
        lake.sync(of, lake.table(of).await.unwrap()).await.unwrap()
    }

    /// Erases keys, of one event each, from all that is stored.
    async fn erase(scene: &Scene, keys: &[String]) {
        let catalog = &scene.world.catalog;
        let begun = catalog.begin_erasure(scene.id(), (keys, false), "a letter", at(NOW)).await.unwrap();
        let pace = Pace { wait: Duration::ZERO, ..Pace::new(Clock::from_fn(|| at(NOW))) };
        let done = carry_out(&scene.table, (scene.id(), &begun.id), &pace, &|_| ()).await.unwrap();
        assert_eq!(done.rows, keys.len() as u64);
    }

    async fn an_erased_day_is_exported_again(scene: Scene) {
        for day in DAYS {
            scene.predict_many(day, "v1", 3, SENT).await;
            scene.observe_many(day, "1", 3, SENT).await;
        }
        let person = json!([{ "key": "person-17", "predicted_at": format!("{}T02:00:00Z", DAYS[0]), "release": "v1",
            "score": 0.5, "tags": { "branch": "north" } }]);
        scene.append(Kind::Predictions, person, SENT).await.unwrap();
        scene.project().await;
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("lake");
        let sync = async |of| sync_to(&scene, &to, of).await;
        let [predictions, outcomes] = [Kind::Predictions, Kind::Outcomes].map(Dataset::Events);
        assert_eq!((sync(predictions).await, sync(outcomes).await), ((2, 2, 0), (2, 2, 0)));
        assert_eq!(sync(predictions).await, (2, 0, 0));
        erase(&scene, &["person-17".to_owned()]).await;
        assert_eq!((sync(predictions).await, sync(outcomes).await), ((2, 0, 1), (2, 0, 0)));
        let commit = to.join(format!("predictions/_delta_log/{:020}.json", 2));
        let commit = fs::read_to_string(commit).unwrap();
        for action in ["remove", "add"] {
            let line = commit.lines().find(|line| line.starts_with(&format!("{{\"{action}\""))).unwrap();
            assert!(line.contains("day=2026-06-01/"), "{line}");
        }
        // The table notes the number and the erasures, so nothing is exported once more.
        assert_eq!(sync(predictions).await, (2, 0, 0));
        let commits = fs::read_dir(to.join("predictions/_delta_log")).unwrap().count();
        assert_eq!(sync(predictions).await, (2, 0, 0));
        assert_eq!(fs::read_dir(to.join("predictions/_delta_log")).unwrap().count(), commits);
        // Later events are exported together with the erasures of their day, and compared with both.
        scene.predict_many(DAYS[0], "v1", 1, SENT).await;
        assert_eq!(sync(predictions).await, (2, 0, 1));
        assert_eq!(sync(predictions).await, (2, 0, 0));
    }

    async fn sync_since_searches_erased_events_once(scene: Scene) {
        for day in DAYS {
            let person = json!([{ "key": format!("person-{day}"), "predicted_at": format!("{day}T02:00:00Z"),
                "release": "v1", "score": 0.5 }]);
            scene.append(Kind::Predictions, person, SENT).await.unwrap();
        }
        scene.project().await;
        let folder = tempfile::tempdir().unwrap();
        let [all, later] = ["all", "later"].map(|name| folder.path().join(name));
        let predictions = Dataset::Events(Kind::Predictions);
        let since_second = async |to: &Path| {
            let (delta, synced) = synced_since(&scene, to, predictions, Some(DAYS[1])).await;
            (delta.days.len(), delta.erasures.clone(), synced.new, synced.again)
        };
        assert_eq!(sync_to(&scene, &all, predictions).await, (2, 2, 0));
        assert_eq!(since_second(&later).await, (1, String::new(), 1, 0));
        erase(&scene, &DAYS.map(|day| format!("person-{day}"))).await;
        let erasures = erasures(&*scene.table, scene.id()).await.unwrap();
        assert!(!erasures.is_empty() && !erasures.starts_with('0') && !erasures.ends_with('/'), "{erasures}");
        // All days of the one table are checked; in the other the first day is outdated, so a sync of all days exports it again.
        assert_eq!(since_second(&later).await, (1, erasures.clone(), 0, 1));
        assert_eq!(since_second(&all).await, (2, String::new(), 0, 1));
        assert_eq!(sync_to(&scene, &all, predictions).await, (2, 0, 1));
        assert_eq!(since_second(&all).await, (2, erasures, 0, 0));
        // An earlier day is exported without the erased keys, and the table stays at the same erasures.
        assert_eq!(sync_to(&scene, &later, predictions).await, (2, 1, 0));
        assert_eq!(sync_to(&scene, &later, predictions).await, (2, 0, 0));
    }

    async fn day_with_unreadable_segment_is_written_once(scene: Scene) {
        scene.predict_many(DAYS[0], "v1", 3, SENT).await;
        let other = json!([{ "key": "other", "predicted_at": format!("{}T02:00:00Z", DAYS[0]), "release": "v1", "score": 0.5 }]);
        scene.append(Kind::Predictions, other, SENT).await.unwrap();
        let segments =
            query_all(&*scene.table, table::Query::table(key::segments(scene.id()))).await.unwrap();
        let is_second = |item: &&table::Item| {
            key::parse_segment(&item.key).is_some_and(|(log, seq)| log.kind == Kind::Predictions && seq == 2)
        };
        let damaged = segments.iter().find(is_second).unwrap().clone().with("data", vec![1, 2, 3]);
        scene.table.put(damaged, Condition::Exists).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("lake");
        let predictions = Dataset::Events(Kind::Predictions);
        assert_eq!(sync_to(&scene, &to, predictions).await, (1, 1, 0));
        assert_eq!(sync_to(&scene, &to, predictions).await, (1, 0, 0));
        let files = fs::read_dir(to.join(format!("predictions/day={}", DAYS[0]))).unwrap();
        assert_eq!(files.count(), 1, "each file is named by the table");
    }

    /// Items of a backup of the logs and of the erasures of a workspace.
    async fn backup(scene: &Scene) -> Vec<table::Item> {
        let mut items = Vec::from_iter(scene.table.get(&key::erased(scene.id())).await.unwrap());
        for range in [key::segments(scene.id()), key::erased_pages(scene.id()), key::erasures(scene.id())] {
            items.extend(query_all(&*scene.table, table::Query::table(range)).await.unwrap());
        }
        items
    }

    /// Replaces the items by a backup.
    async fn restore(scene: &Scene, items: Vec<table::Item>) {
        for item in backup(scene).await {
            scene.table.delete(&item.key, Condition::Exists).await.unwrap();
        }
        for item in items {
            scene.table.put(item, Condition::Absent).await.unwrap();
        }
    }

    async fn append(scene: &Scene, key: &str) {
        let predicted_at = format!("{}T02:00:00Z", DAYS[0]);
        let event = json!([{ "key": key, "predicted_at": predicted_at, "release": "v1", "score": 0.5 }]);
        scene.append(Kind::Predictions, event, SENT).await.unwrap();
    }

    async fn sync_after_restore_drops_lost_history(scene: Scene) {
        let folder = tempfile::tempdir().unwrap();
        let sync = async || sync_to(&scene, folder.path(), Dataset::Events(Kind::Predictions)).await;
        for day in DAYS {
            scene.predict_many(day, "v1", 3, SENT).await;
        }
        let before = backup(&scene).await;
        append(&scene, "lost").await;
        assert_eq!(sync().await, (2, 2, 0));
        restore(&scene, before.clone()).await;
        append(&scene, "found").await;
        // As many segments as before, appended at the same instant.
        assert_eq!(sync().await, (2, 0, 1));
        assert_eq!(sync().await, (2, 0, 0));
        // A repeated batch gives an equal history.
        restore(&scene, before.clone()).await;
        append(&scene, "found").await;
        assert_eq!(sync().await, (2, 0, 0));
        // A day with no events left leaves the table as well, and comes back.
        let is_second = |item: &table::Item| {
            key::parse_segment(&item.key).is_some_and(|(log, _)| log.day.to_string() == DAYS[1])
        };
        let found = backup(&scene).await;
        restore(&scene, found.iter().filter(|item| !is_second(item)).cloned().collect()).await;
        assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
        let commit = folder.path().join("predictions/_delta_log/00000000000000000003.json");
        let text = fs::read_to_string(commit).unwrap();
        assert!(text.contains("{\"remove\"") && !text.contains("{\"add\""), "{text}");
        restore(&scene, found).await;
        assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
    }

    async fn different_erasures_of_equal_count_are_distinguished(scene: Scene) {
        let folder = tempfile::tempdir().unwrap();
        let sync = async || sync_to(&scene, folder.path(), Dataset::Events(Kind::Predictions)).await;
        let [one, other] = ["person-1", "person-2"].map(str::to_owned);
        for key in [&one, &other] {
            append(&scene, key).await;
        }
        scene.predict_many(DAYS[1], "v1", 3, SENT).await;
        scene.project().await;
        assert_eq!(sync().await, (2, 2, 0));
        let before = backup(&scene).await;
        erase(&scene, std::slice::from_ref(&one)).await;
        assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
        let turns = async || {
            let erasures = erasures(&*scene.table, scene.id()).await.unwrap();
            erasures.split_once('/').unwrap().0.to_owned()
        };
        let erased = turns().await;
        // As many events of the same day, in as many turns.
        restore(&scene, before.clone()).await;
        erase(&scene, &[other]).await;
        assert_eq!(turns().await, erased);
        assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
        // A key erased again has another pseudonym.
        restore(&scene, before.clone()).await;
        erase(&scene, &[one]).await;
        assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
        // The state without any erasure.
        restore(&scene, before).await;
        assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
    }

    async fn folder_of_another_workspace_is_left_unchanged(scene: Scene) {
        scene.predict_many(DAYS[0], "v1", 3, SENT).await;
        let folder = tempfile::tempdir().unwrap();
        // A table of another workspace, the last to be read.
        let other = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let (owner, lock) = lake(&scene, folder.path(), &other, None).await;
        let known = Known { covered: "0".into(), ..Known::default() };
        let mut evaluations = owner.table(Dataset::Evaluations).await.unwrap();
        let schema = evaluations.schema.clone();
        let day = DAYS[0].parse().unwrap();
        let exported = Exported { day, known, schema, file: None };
        assert!(evaluations.commit(&owner.store, &exported, at(NOW)).await.unwrap());
        drop(lock);
        let (lake, _lock) = lake(&scene, folder.path(), scene.id(), None).await;
        let refused = lake.tables().await.unwrap_err().to_string();
        assert!(refused.contains("the table `evaluations` is of the workspace 2NBs"), "{refused}");
        assert!(!folder.path().join("predictions").exists());
    }

    async fn lake_day_missing_a_segment_stays_unchanged(scene: Scene) {
        let folder = tempfile::tempdir().unwrap();
        let sync = async |of| sync_to(&scene, folder.path(), of).await;
        let predictions = Dataset::Events(Kind::Predictions);
        for day in DAYS {
            scene.predict_many(day, "v1", 3, SENT).await;
        }
        append(&scene, "second").await;
        assert_eq!(sync(predictions).await, (2, 2, 0));
        append(&scene, "third").await;
        let whole = backup(&scene).await;
        for lost in [1, 2] {
            let is_lost = |item: &table::Item| {
                let of = key::parse_segment(&item.key);
                of.is_some_and(|(log, seq)| log.day.to_string() == DAYS[0] && seq == lost)
            };
            restore(&scene, whole.iter().filter(|item| !is_lost(item)).cloned().collect()).await;
            assert_eq!(sync(predictions).await, (2, 0, 0), "without segment {lost}");
        }
        restore(&scene, whole).await;
        assert_eq!((sync(predictions).await, sync(predictions).await), ((2, 0, 1), (2, 0, 0)));
    }

    /// An erasure applies even to a day that is kept because a segment is missing.
    async fn erasure_reaches_day_with_missing_segment(scene: Scene) {
        let folder = tempfile::tempdir().unwrap();
        let sync = async || sync_to(&scene, folder.path(), Dataset::Events(Kind::Predictions)).await;
        for key in ["person-1", "second", "third"] {
            append(&scene, key).await;
        }
        scene.project().await;
        assert_eq!(sync().await, (1, 1, 0));
        let is_lost = |item: &table::Item| key::parse_segment(&item.key).is_some_and(|(_, seq)| seq == 2);
        // State after an erasure, then without a segment.
        erase(&scene, &["person-1".to_owned()]).await;
        let erased = backup(&scene).await;
        restore(&scene, erased.iter().filter(|item| !is_lost(item)).cloned().collect()).await;
        assert_eq!((sync().await, sync().await), ((1, 0, 1), (1, 0, 0)));
        // The day is whole once the segment is back.
        restore(&scene, erased).await;
        assert_eq!((sync().await, sync().await), ((1, 0, 1), (1, 0, 0)));
    }
}
