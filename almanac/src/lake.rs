//! `almanac lake sync`: closed days as Parquet, in tables of Delta Lake that other engines read.
//!
//! There is a table for each kind of events, and one of evaluations. Each day is a commit: its file first, then the commit that
//! names it, written only if its number is free. So a killed process leaves at most a file that no table names. An exporter keeps
//! no other state than the commits: a day is exported again when its commit differs from the logs.

mod delta;
mod history;
mod lacks;
mod objects;
mod schema;
mod store;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Seek, SeekFrom},
    sync::Arc,
};

use catalog::Kept;
use clap::{Args, Subcommand};
use event::{Clock, Day, Error, Id, Kind, Result, Window};
use log::{
    active,
    key::{self, LogId},
    scan, skipped,
};
use query::{Covered, DayRows, Query, WrittenDay};
use table::{KeyRange, Table};
use tokio::sync::OnceCell;

use self::{
    delta::{DataFile, Delta, Exported, Known},
    history::{Erased, ErasedOf, Erasures, erased_of},
    lacks::Left,
    schema::Schema,
    store::{Folder, Store},
};
use crate::{
    config::Config,
    depot::{Depot, FORM, Objects},
    moved::sha256,
    open,
    progress::Progress,
};

/// Maximum tries to export a day when other programs add commits at the same time.
const TRIES: u32 = 10;

/// Number of small reads, of commits and of items, side by side.
const READS: usize = 16;

#[derive(Debug, Subcommand)]
pub(crate) enum LakeCommand {
    /// Export the days that are over, and again those that have changed, as Delta tables with a partition a day.
    Sync(SyncArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// The folder of the tables, of this workspace alone, which is made when it is not there, or the bucket and prefix of S3.
    #[arg(long, value_name = FORM, value_parser = Depot::parser())]
    to: Depot,
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

/// Rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Events(Kind),
    Evaluations,
}

impl Of {
    /// Name of the table.
    fn name(self) -> &'static str {
        match self {
            Of::Events(kind) => kind.name(),
            Of::Evaluations => query::What::Evaluations.name(),
        }
    }
}

type Segments = BTreeSet<(LogId, u64)>;

/// Export of a workspace.
struct Lake {
    table: Arc<dyn Table>,
    query: Query,
    workspace: Id,
    store: Box<dyn Store>,
    /// First day to check.
    since: Option<Day>,
    /// Heads of the logs of closed days, from `since` on.
    heads: BTreeMap<(Day, Kind), BTreeMap<LogId, u64>>,
    /// Segments that queries leave out.
    skipped: Segments,
    /// Erasures before any log was read. An erasure rewrites segments, and moves no head.
    erasures: Erasures,
    /// Erased keys in the logs, once they were looked for.
    erased: OnceCell<ErasedOf>,
    kept: Kept,
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
    let store = stored(&args, config.region.value.as_deref()).await?;
    let lake = Lake::open((table, query, workspace), store, &args).await?;
    // Load all tables before anything is written: a foreign folder is left as it is.
    for (of, delta) in lake.tables().await? {
        let (delta, synced) = lake.sync(of, delta).await?;
        if let (Some(version), false) = (delta.version(), args.dry_run) {
            println!(
                "{}: {} days, version {version}; {} exported now and {} again, {} rows",
                of.name(),
                delta.days().len(),
                synced.new,
                synced.again,
                synced.rows
            );
        }
    }
    Ok(())
}

/// Opens the storage of the lake.
async fn stored(args: &SyncArgs, region: Option<&str>) -> Result<Box<dyn Store>> {
    Ok(match &args.to {
        Depot::Folder(folder) if args.dry_run => Box::new(Folder::look(folder)),
        Depot::Folder(folder) => Box::new(Folder::open(folder)?),
        Depot::S3(address) => Box::new(Objects::open(address, region).await?),
    })
}

impl Lake {
    async fn open(
        (table, query, workspace): (Arc<dyn Table>, Query, Id),
        store: Box<dyn Store>,
        args: &SyncArgs,
    ) -> Result<Self> {
        let (is_dry, since) = (args.dry_run, args.since);
        let erasures = Erasures::load(&*table, &workspace).await?;
        let closed = query.closed_instant();
        let is_over = |day: Day| day.next().is_some_and(|next| next.start() <= closed);
        let mut heads: BTreeMap<_, BTreeMap<LogId, u64>> = BTreeMap::new();
        for head in scan::heads(&*table, &workspace).await? {
            if is_over(head.log.day) && Some(head.log.day) >= since {
                heads.entry((head.log.day, head.log.kind)).or_default().insert(head.log, head.seq);
            }
        }
        let (mut kept, mut left_out) = (Kept::default(), Segments::new());
        let days = heads.first_key_value().zip(heads.last_key_value());
        if let Some(((&(from, _), _), (&(to, _), _))) = days {
            kept = query.catalog().kept(&workspace, Window::new(from, to)?, query.now()).await?;
            let version = active::load(&*table, &workspace).await?.version;
            let counts = |refused: &str| refused == skipped::BY_ROLLUP;
            left_out = skipped::between(&*table, &workspace, version, (from, to), counts).await?;
        }
        Ok(Self {
            table,
            query,
            workspace,
            store,
            since,
            heads,
            skipped: left_out,
            erasures,
            erased: OnceCell::new(),
            kept,
            is_dry,
        })
    }

    /// Loads all tables from their logs.
    async fn tables(&self) -> Result<Vec<(Of, Delta)>> {
        let mut tables = Vec::new();
        for of in Kind::ALL.map(Of::Events).into_iter().chain([Of::Evaluations]) {
            tables.push((of, self.table(of).await?));
        }
        Ok(tables)
    }

    async fn table(&self, of: Of) -> Result<Delta> {
        Delta::load(&*self.store, of.name(), &self.workspace).await
    }

    /// Exports the days of a table that are missing or outdated.
    async fn sync(&self, of: Of, mut delta: Delta) -> Result<(Delta, Synced)> {
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
        let is_whole = delta.days().keys().next().is_none_or(|first| Some(*first) >= self.since);
        if erased.is_some() && is_whole && !self.is_dry {
            delta.note_erasures(&*self.store, &self.erasures, self.query.now()).await?;
        }
        Ok((delta, synced))
    }

    /// Finds erased keys in the logs, if the table may have days from before the erasures. Stored evaluations are compared by
    /// their digest.
    async fn erased(&self, of: Of, delta: &Delta) -> Result<Option<&ErasedOf>> {
        if of == Of::Evaluations || *delta.erasures() == self.erasures {
            return Ok(None);
        }
        let all = key::segments(&self.workspace);
        let first = self.since.map(|day| key::segments_of_day(&self.workspace, day).from);
        let range = KeyRange { from: first.unwrap_or(all.from), ..all };
        self.erased.get_or_try_init(|| erased_of(&*self.table, range)).await.map(Some)
    }

    /// Finds erased keys of a day, before its logs are read.
    async fn erased_on(&self, of: Of, day: Day, erased: Option<&ErasedOf>) -> Result<Erased> {
        let Of::Events(kind) = of else { return Ok(Erased::default()) };
        match erased {
            Some(erased) => Ok(erased_on(erased, (day, kind))),
            None if self.erasures == Erasures::default() => Ok(Erased::default()),
            None => {
                let range = key::segments_of_kind(&self.workspace, day, kind);
                Ok(erased_on(&erased_of(&*self.table, range).await?, (day, kind)))
            }
        }
    }

    /// Returns the identity of the history of rows.
    async fn history(&self, rows: &DayRows) -> Result<Option<String>> {
        match rows.covered() {
            Covered::Cut(cut) => history::of_heads(&*self.table, &cut.heads).await.map(Some),
            Covered::Digest(_) => Ok(None),
        }
    }

    /// Exports a day, unless the table has its rows; returns `false` if another program added a commit meanwhile.
    async fn day(
        &self,
        (of, day): (Of, Day),
        erased: Option<&ErasedOf>,
        delta: &mut Delta,
        synced: &mut Synced,
    ) -> Result<bool> {
        let before = delta.days().get(&day).cloned();
        let on_day = self.erased_on(of, day, erased).await?;
        let heads = self.heads_on(of, day).await?;
        let rows = match of {
            Of::Events(kind) => self.query.events_of(&self.workspace, kind, day).await?,
            Of::Evaluations => self.query.evaluation_of(&self.workspace, day).await?,
        };
        let history = self.history(&rows).await?;
        let is_before =
            |before: &Known| before.history == history && (erased.is_none() || before.erased == on_day);
        let before_same = before.as_ref().filter(|before| is_before(before));
        let is_known =
            |covered: &Covered| before_same.is_some_and(|before| is_same(&before.covered, covered));
        if is_known(&rows.covered()) {
            return Ok(true);
        }
        let warn = |what: &str| eprintln!("warning: {} {day}: {what}", of.name());
        match self.left(of, day, &heads, &rows).await? {
            Left::Expired => return Ok(true),
            Left::Torn if before.as_ref().is_some_and(|before| has_all(before, &rows, &on_day)) => {
                warn(
                    "segments are missing (`almanac verify` says which), so the table keeps what it has of the day",
                );
                return Ok(true);
            }
            Left::Nothing if before.is_some() => {
                warn(
                    "the store has no events of the day any more, so they leave the table; its files stay until `VACUUM`",
                );
            }
            _ => {}
        }
        if self.is_dry {
            println!("{} {day}: {}", of.name(), if before.is_some() { "again" } else { "new" });
            return Ok(true);
        }
        let Some((written, schema, file)) = self.written((of, day), delta, rows, is_known).await? else {
            return Ok(true);
        };
        let known = Known { covered: written.covered, history, erased: on_day };
        let exported = Exported { day, known, schema, file };
        // A day that has no rows and never had any gets no commit.
        if before.is_none() && exported.file.is_none() {
            return Ok(true);
        }
        if !delta.commit(&*self.store, &exported, self.query.now()).await? {
            return Ok(false);
        }
        synced.rows += written.rows;
        *if before.is_some() { &mut synced.again } else { &mut synced.new } += 1;
        Ok(true)
    }

    /// Writes the file of a day, which no table names yet. `None`, if its rows turn out to be known: an unreadable segment is
    /// left out only once the rows are made. Then no file is put.
    async fn written(
        &self,
        (of, day): (Of, Day),
        delta: &Delta,
        rows: DayRows,
        is_known: impl Fn(&Covered) -> bool,
    ) -> Result<Option<(WrittenDay, Schema, Option<DataFile>)>> {
        let mut schema = delta.schema().clone();
        let names = schema.names(&rows.columns())?;
        let unmade = |error| Error::unavailable(format!("the file of {day} cannot be made")).because(error);
        let mut draft = self.store.draft()?;
        let written = rows.write(names, draft.try_clone().map_err(unmade)?).await?;
        written.warnings.iter().for_each(|warning| eprintln!("warning: {} {day}: {warning}", of.name()));
        if is_known(&written.covered) {
            return Ok(None);
        }
        let mut file = None;
        if written.rows > 0 {
            let bytes = draft.seek(SeekFrom::End(0)).map_err(unmade)?;
            draft.seek(SeekFrom::Start(0)).map_err(unmade)?;
            let path = delta.path(day, &sha256(&draft).map_err(unmade)?);
            self.store.put_draft(&format!("{}/{path}", of.name()), &draft).await?;
            file = Some(DataFile { path, bytes, rows: written.rows });
        }
        Ok(Some((written, schema, file)))
    }
}

/// Erased keys of a day and kind.
fn erased_on(erased: &ErasedOf, of: (Day, Kind)) -> Erased {
    erased.get(&of).cloned().unwrap_or_default()
}

/// Returns whether the exported day has all remaining rows, with the same erased keys.
fn has_all(before: &Known, rows: &DayRows, erased: &Erased) -> bool {
    let (Covered::Cut(before_cut), Covered::Cut(cut)) = (&before.covered, rows.covered()) else {
        return false;
    };
    let has = |(log, seq): (&LogId, &u64)| before_cut.heads.get(log).is_some_and(|had| had >= seq);
    !before_cut.heads.is_empty() && before.erased == *erased && cut.heads.iter().all(has)
}

/// Returns whether two coverings stand for the same rows.
fn is_same(one: &Covered, other: &Covered) -> bool {
    match (one, other) {
        (Covered::Cut(one), Covered::Cut(other)) => {
            (&one.heads, &one.left_out) == (&other.heads, &other.left_out)
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests;
