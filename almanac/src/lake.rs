//! `almanac lake sync`: closed days as Parquet, in tables of Delta Lake that other engines read.
//!
//! A table for each kind of events, and one of evaluations. Each day is a commit: its file first, then the commit that names it,
//! put where none is. So a process that is killed leaves at most a file that no table names. What a commit says of its day is all
//! that an exporter knows: a day is exported again when that is no longer what the logs say.

mod delta;
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
    erased::Turn,
    expired,
    key::{self, LogId},
    scan,
    segment_item::ERASED,
    skipped,
};
use query::{Covered, DayRows, Query};
use table::{KeyRange, Pages, Table};
use tokio::sync::OnceCell;

use self::{
    delta::{DataFile, Delta, Exported},
    store::{Folder, Store},
};
use crate::{
    config::Config,
    depot::{Depot, FORM, Objects},
    moved::sha256,
    open,
    progress::Progress,
};

/// How often a day is exported when other programs add commits at the same time.
const TRIES: u32 = 10;

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

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Events(Kind),
    Evaluations,
}

impl Of {
    /// The name of the table.
    fn name(self) -> &'static str {
        match self {
            Of::Events(kind) => kind.name(),
            Of::Evaluations => query::What::Evaluations.name(),
        }
    }
}

type Segments = BTreeSet<(LogId, u64)>;

/// How many events of erased keys there are by day and kind.
type ErasedOf = BTreeMap<(Day, Kind), u64>;

/// A workspace that is exported.
struct Lake {
    table: Arc<dyn Table>,
    query: Query,
    workspace: Id,
    store: Box<dyn Store>,
    /// The first day to look at.
    since: Option<Day>,
    /// The heads of the logs of closed days, from then on.
    heads: BTreeMap<(Day, Kind), BTreeMap<LogId, u64>>,
    /// What queries leave out.
    skipped: Segments,
    /// As it was before any log was read. An erasure writes segments again, and no head moves.
    turn: Turn,
    /// How many events of erased keys the logs have, once that was looked for.
    erased: OnceCell<ErasedOf>,
    kept: Kept,
    is_dry: bool,
}

/// What became of a table.
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
    for of in Kind::ALL.map(Of::Events).into_iter().chain([Of::Evaluations]) {
        let (delta, synced) = lake.sync(of).await?;
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

/// Where the lake is kept.
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
        let turn = Turn::load(&*table, &workspace).await?;
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
            turn,
            erased: OnceCell::new(),
            kept,
            is_dry,
        })
    }

    /// Exports the days of a table that lack something.
    async fn sync(&self, of: Of) -> Result<(Delta, Synced)> {
        let mut delta = Delta::load(&*self.store, of.name(), &self.workspace).await?;
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
                delta = Delta::load(&*self.store, of.name(), &self.workspace).await?;
            }
            progress.at(done as u64 + 1, of.name());
        }
        progress.finish();
        // All days of the table were looked at, unless it has one before the first to look at. Who adds a commit meanwhile has erased events
        // looked for once more.
        let is_whole = delta.days().keys().next().is_none_or(|first| Some(*first) >= self.since);
        if erased.is_some() && is_whole && !self.is_dry {
            delta.note_turn(&*self.store, self.turn.ver, self.query.now()).await?;
        }
        Ok((delta, synced))
    }

    /// The days that may lack something: of events those whose logs are not as they were exported; all that may have
    /// an evaluation.
    async fn days(&self, of: Of, delta: &Delta, erased: Option<&ErasedOf>) -> Result<Vec<Day>> {
        let Of::Events(kind) = of else {
            let logged =
                self.heads.keys().filter(|(_, kind)| [Kind::Predictions, Kind::Outcomes].contains(kind));
            let expired = expired::all(&*self.table, &self.workspace).await?;
            let days = logged.map(|(day, _)| *day).chain(expired.iter().map(|mark| mark.day));
            let days = days.chain(delta.days().keys().copied());
            let days: BTreeSet<Day> = days.filter(|day| Some(*day) >= self.since).collect();
            return Ok(days.into_iter().collect());
        };
        let lacks = |day: Day, heads: &BTreeMap<LogId, u64>| match delta.days().get(&day) {
            Some(Covered::Cut(cut)) => {
                let is_of = |(log, _): &&(LogId, u64)| log.day == day && log.kind == kind;
                is_erased(delta, erased, (day, kind))
                    || cut.heads != *heads
                    || !cut.left_out.iter().eq(self.skipped.iter().filter(is_of))
            }
            _ => true,
        };
        // Release events never expire.
        let is_kept = |day: Day| kind == Kind::Releases || self.kept.keeps(day);
        let logged = self.heads.iter().filter(|((_, of), _)| *of == kind);
        let due = logged.filter(|((day, _), heads)| is_kept(*day) && lacks(*day, heads));
        Ok(due.map(|((day, _), _)| *day).collect())
    }

    /// How many events of erased keys the logs have, where the table may have days of before they were erased. What is stored of evaluations is
    /// told apart by its digest.
    async fn erased(&self, of: Of, delta: &Delta) -> Result<Option<&ErasedOf>> {
        if of == Of::Evaluations || delta.turn() == self.turn.ver {
            return Ok(None);
        }
        let all = key::segments(&self.workspace);
        let first = self.since.map(|day| key::segments_of_day(&self.workspace, day).from);
        let range = KeyRange { from: first.unwrap_or(all.from), ..all };
        self.erased.get_or_try_init(|| erased_of(&*self.table, range)).await.map(Some)
    }

    /// How many events of a day have keys that were erased, before its logs are read.
    async fn erased_on(&self, of: Of, day: Day, erased: Option<&ErasedOf>) -> Result<u64> {
        let Of::Events(kind) = of else { return Ok(0) };
        if let Some(erased) = erased {
            return Ok(erased.get(&(day, kind)).copied().unwrap_or_default());
        }
        if self.turn == Turn::default() {
            return Ok(0);
        }
        let found = erased_of(&*self.table, key::segments_of_kind(&self.workspace, day, kind)).await?;
        Ok(found.into_values().sum())
    }

    /// Exports a day, unless the table has its rows; `false`, when another program added a commit meanwhile.
    async fn day(
        &self,
        (of, day): (Of, Day),
        erased: Option<&ErasedOf>,
        delta: &mut Delta,
        synced: &mut Synced,
    ) -> Result<bool> {
        let before = delta.days().get(&day).cloned();
        let on_day = self.erased_on(of, day, erased).await?;
        let is_erased = erased.is_some() && delta.erased(day) != on_day;
        let is_known =
            |covered: &Covered| !is_erased && before.as_ref().is_some_and(|before| is_same(before, covered));
        let rows = match of {
            Of::Events(kind) => self.query.events_of(&self.workspace, kind, day).await?,
            Of::Evaluations => self.query.evaluation_of(&self.workspace, day).await?,
        };
        if is_gone(&rows) || is_known(&rows.covered()) {
            return Ok(true);
        }
        if self.is_dry {
            println!("{} {day}: {}", of.name(), if before.is_some() { "again" } else { "new" });
            return Ok(true);
        }
        let Some((exported, count)) = self.written((of, day, on_day), delta, rows, is_known).await? else {
            return Ok(true);
        };
        // Of what has no rows and never had any, the table says nothing.
        if before.is_none() && exported.file.is_none() {
            return Ok(true);
        }
        if !delta.commit(&*self.store, &exported, self.query.now()).await? {
            return Ok(false);
        }
        synced.rows += count;
        *if before.is_some() { &mut synced.again } else { &mut synced.new } += 1;
        Ok(true)
    }

    /// Writes the file of a day, which no table names yet. `None`, when its rows turn out to be what is known: a segment that cannot be read
    /// is left out only once the rows are made. Then no file is put.
    async fn written(
        &self,
        (of, day, erased): (Of, Day, u64),
        delta: &Delta,
        rows: DayRows,
        is_known: impl Fn(&Covered) -> bool,
    ) -> Result<Option<(Exported, u64)>> {
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
        Ok(Some((Exported { day, covered: written.covered, erased, schema, file }, written.rows)))
    }
}

/// How many events of erased keys the segments of a range have.
async fn erased_of(table: &dyn Table, range: KeyRange) -> Result<ErasedOf> {
    let mut erased = ErasedOf::new();
    let query = table::Query::table(range).only(&["v", ERASED]);
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        for item in items.iter().filter(|item| item.attributes.contains_key(ERASED)) {
            if let Some((log, _)) = key::parse_segment(&item.key) {
                *erased.entry((log.day, log.kind)).or_default() += item.int(ERASED)?.unsigned_abs();
            }
        }
    }
    Ok(erased)
}

/// Whether keys of a day were erased since it was exported.
fn is_erased(delta: &Delta, erased: Option<&ErasedOf>, of: (Day, Kind)) -> bool {
    erased.is_some_and(|erased| delta.erased(of.0) != erased.get(&of).copied().unwrap_or_default())
}

/// Whether the events of a day have expired since its logs were looked at: the table keeps what it has of them.
fn is_gone(rows: &DayRows) -> bool {
    matches!(rows.covered(), Covered::Cut(cut) if cut.heads.is_empty())
}

/// Whether rows that are known so are the same.
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
