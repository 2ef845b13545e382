//! Verification: folds the log again, from nothing, and compares with what is stored, byte by byte.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use catalog::Catalog;
use event::{Day, Error, ErrorKind, Id, Kind, Result};
use fold::{Evaluation, rollup::Folding};
use log::{
    active,
    erased::ErasureEpoch,
    evaluated::{self, At},
    expired,
    key::Counted,
    key_filter::{self, KINDS},
    projection::{Applied, Projected},
    scan::{self, LogHead},
};
use table::Table;

mod gone;
mod rollup_vintage;
mod vintage;

pub(crate) use vintage::is_of_then;

use crate::{
    WorkspaceDay, counters,
    day::{DayFold, PartFold, stored_parts},
    dead_letters::{self, LeftOut, Refused},
    evaluate::{self, compute, covers, judged, wanted},
    events::Events,
    features,
    key_filters::filter_of,
    project::{fold_from, read},
    sweep::applied,
};

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Days that have logs.
    pub days: usize,
    /// Segments that were read.
    pub segments: u64,
    /// Events that were folded again.
    pub events: u64,
    /// Rollups that were compared.
    pub rollups: usize,
    /// Parts of breakdowns that were compared.
    pub parts: usize,
    /// Evaluations that were compared.
    pub evaluations: usize,
    /// Evaluations at ages of their days that were compared.
    pub vintages: usize,
    /// Rollups at ages of their days that were compared.
    pub rollup_vintage: usize,
    /// Filters of keys that were compared.
    pub filters: usize,
    /// Counts that were compared.
    pub counts: usize,
    /// Segments that an operator left out of the rollups: no fault, but no part of them either.
    pub skipped: u64,
    /// Days whose events have expired and are gone; what is stored of them cannot be folded again, but must
    /// cover them and agree.
    pub expired: usize,
    /// Segments that are not folded yet, and evaluations that do not know a definition of their day yet: no fault,
    /// the projector is behind.
    pub behind: u64,
    /// Events whose keys were erased. What is decided once of such a day, its vintages, was decided with what went with the keys.
    pub erased: u64,
    /// What is wrong, a line each.
    pub faults: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} days, {} segments, {} events folded again: {} rollups, {} breakdowns, {} evaluations \
             and {} counts compared",
            self.days, self.segments, self.events, self.rollups, self.parts, self.evaluations, self.counts
        )
    }
}

/// Verifies a workspace; `progress` gets how many days are done, of how many.
///
/// # Errors
/// Those of the table. What is wrong with the stored data is not an error but a fault in the report.
pub async fn verify(
    table: &Arc<dyn Table>,
    workspace: &Id,
    progress: impl Fn(usize, usize),
) -> Result<Report> {
    let version = active::load(&**table, workspace).await?.version;
    let rollups = applied(&**table, version, workspace).await?.rollups;
    let mut days = BTreeMap::<Day, Vec<LogHead>>::new();
    for head in scan::heads(&**table, workspace).await? {
        days.entry(head.log.day).or_default().push(head);
    }
    let marks = expired::all(&**table, workspace).await?;
    let gone = marks.iter().map(|mark| &mark.day);
    let all: BTreeSet<Day> = days.keys().chain(rollups.keys()).chain(gone).copied().collect();
    let mut report = Report { days: all.len(), ..Report::default() };
    for (done, day) in all.iter().enumerate() {
        progress(done, all.len());
        let heads = days.remove(day).unwrap_or_default();
        let day = WorkspaceDay { workspace: workspace.clone(), day: *day };
        let mut found = check_day(table, &day, &heads).await?;
        // A projector at work changes a day while it is looked at: only a fault that stays is one.
        for _ in 0..SECOND_LOOKS {
            if found.faults.is_empty() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            found = check_day(table, &day, &heads_of(table, &day).await?).await?;
        }
        report.add(found);
    }
    progress(all.len(), all.len());
    Ok(report)
}

/// How often a day with faults is looked at again, and after what time.
const SECOND_LOOKS: usize = 3;
const PAUSE: Duration = Duration::from_millis(500);

async fn heads_of(table: &Arc<dyn Table>, day: &WorkspaceDay) -> Result<Vec<LogHead>> {
    let mut heads = Vec::new();
    for kind in Kind::STORED {
        heads.extend(scan::heads_of_kind(&**table, &day.workspace, day.day, kind).await?);
    }
    Ok(heads)
}

async fn check_day(table: &Arc<dyn Table>, day: &WorkspaceDay, heads: &[LogHead]) -> Result<Report> {
    let mut report = Report::default();
    // A rebuild may make another version the active one while this one is looked at.
    let version = active::load(&**table, &day.workspace).await?.version;
    let mut check = DayCheck { table: &**table, version, day, report: &mut report };
    let catalog = Catalog::new(Arc::clone(table));
    match check.run(heads, &catalog).await {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Incomplete) => {
            check.fault(&error);
        }
        Err(error) => return Err(error),
    }
    Ok(report)
}

impl Report {
    fn add(&mut self, day: Report) {
        self.segments += day.segments;
        self.events += day.events;
        self.rollups += day.rollups;
        self.parts += day.parts;
        self.evaluations += day.evaluations;
        self.vintages += day.vintages;
        self.rollup_vintage += day.rollup_vintage;
        self.filters += day.filters;
        self.counts += day.counts;
        self.skipped += day.skipped;
        self.behind += day.behind;
        self.expired += day.expired;
        self.erased += day.erased;
        self.faults.extend(day.faults);
    }
}

struct DayCheck<'a> {
    table: &'a dyn Table,
    version: u32,
    day: &'a WorkspaceDay,
    report: &'a mut Report,
}

impl DayCheck<'_> {
    fn fault(&mut self, fault: impl fmt::Display) {
        self.report.faults.push(format!("{}: {fault}", self.day.day));
    }

    async fn run(&mut self, heads: &[LogHead], catalog: &Catalog) -> Result<()> {
        if ErasureEpoch::load(self.table, &self.day.workspace).await?.is_open {
            // What is folded is still of events with their keys, until it is folded again.
            self.report.behind += 1;
            return Ok(());
        }
        if let Some(mark) = expired::load(self.table, &self.day.workspace, self.day.day).await? {
            self.report.expired = 1;
            self.gone_vintages().await?;
            self.gone_rollups().await?;
            return self.gone(&mark).await;
        }
        self.logs(heads).await?;
        let (stored, _) = read(self.table, self.version, self.day).await?;
        let fresh = self.refold(Folding::Rollup, &stored.applied).await?;
        self.report.events += Kind::ALL.into_iter().map(|kind| fresh.rollup.events(kind)).sum::<u64>();
        if !stored.applied.is_empty() {
            self.report.rollups += 1;
            if fresh.rollup.to_state() != stored.state {
                self.fault("the rollup is not what its segments fold to");
            }
        }
        self.parts(&stored.applied, &fresh).await?;
        self.features(&stored.applied).await?;
        let behind: u64 = heads
            .iter()
            .map(|head| head.seq - stored.applied.get(&head.log.name()).copied().unwrap_or(0).min(head.seq))
            .sum();
        self.report.behind += behind;
        if behind == 0 {
            self.counters(&fresh).await?;
        }
        self.evaluation(&stored, behind == 0, catalog).await?;
        self.filters().await?;
        self.vintages(catalog).await?;
        self.rollup_vintage().await
    }

    /// Every segment is there, can be read, and holds as many events as it says.
    async fn logs(&mut self, heads: &[LogHead]) -> Result<()> {
        let skipped = dead_letters::skipped(self.table, self.version, self.day, Refused::ALL).await?;
        for head in heads {
            let left_out = |seq: u64| skipped.contains(&(head.log.name(), seq));
            let mut next = 1;
            while next <= head.seq {
                let until = (next..=head.seq).find(|seq| left_out(*seq)).unwrap_or(head.seq + 1) - 1;
                let segments = scan::grown(self.table, &head.log, next, until).await?;
                let found = next + segments.len() as u64 - 1;
                if found != until {
                    self.fault(format_args!("{} has a hole after segment {found}", head.log));
                }
                for segment in &segments {
                    self.report.erased += segment.erased;
                    if let Err(error) = segment.unpack(|_| true) {
                        self.fault(error);
                    }
                }
                self.report.segments += segments.len() as u64;
                next = until + 2;
            }
        }
        Ok(())
    }

    async fn refold(&mut self, folding: Folding, applied: &Applied) -> Result<DayFold<'static>> {
        let mut fresh = DayFold::fresh(folding);
        let left_out = LeftOut::of(self.table, self.version, self.day, folding).await?;
        if folding == Folding::Rollup {
            self.report.skipped += left_out.always.len() as u64;
        }
        for (name, last) in applied {
            let wrong = || Error::corrupt(format!("`applied` names `{name}`, which is no log"));
            let log = scan::log_named(&self.day.workspace, self.day.day, name).ok_or_else(wrong)?;
            let (folded, stopped) =
                fold_from(&Events::stored(self.table), &log, 0, *last, &left_out, &mut fresh).await?;
            if let Some(stopped) = stopped {
                self.fault(format_args!("{} cannot be folded at {}: {}", log, stopped.seq, stopped.reason));
            } else if folded != *last {
                self.fault(format_args!(
                    "its projections cover {name} up to {last}, but the log ends at {folded}"
                ));
            }
        }
        Ok(fresh)
    }

    /// Every part is what its segments fold to, and covers at least what the rollup does. One that is
    /// ahead of the rollup was written by a projector that did not come to the rollup.
    async fn parts(&mut self, applied: &Applied, fresh: &DayFold<'_>) -> Result<()> {
        let stored = stored_parts(self.table, self.version, self.day, fresh.folding).await?;
        for breakdown in fresh.parts.keys().filter(|breakdown| !stored.contains_key(breakdown)) {
            self.fault(format_args!("the breakdown {breakdown} is not there"));
        }
        for (breakdown, part) in stored {
            self.report.parts += 1;
            let known = |log: &String| applied.get(log).copied().unwrap_or(0);
            let is_ahead = part.applied.iter().any(|(log, seq)| *seq > known(log));
            let ahead = if is_ahead {
                let mut all = applied.clone();
                part.applied.iter().for_each(|(log, seq)| {
                    let known = all.entry(log.clone()).or_default();
                    *known = (*known).max(*seq);
                });
                Some(self.refold(fresh.folding, &all).await?)
            } else {
                None
            };
            let expected = ahead.as_ref().unwrap_or(fresh).parts.get(&breakdown);
            let is_same = |expected: &PartFold| {
                expected.applied == part.applied && expected.part.to_state() == part.stored_state()
            };
            if !expected.is_some_and(is_same) {
                self.fault(format_args!("the breakdown {breakdown} is not what its segments fold to"));
            }
        }
        Ok(())
    }

    /// The breakdown by feature is what the predictions fold to that its head covers.
    async fn features(&mut self, rollup: &Applied) -> Result<()> {
        let Some((head, counted)) = features::head(self.table, self.version, self.day).await? else {
            return Ok(());
        };
        let fresh = self.refold(Folding::Features, &head.applied).await?;
        if fresh.rollup != counted {
            self.fault("the predictions that its features are of are not counted right");
        }
        self.parts(&head.applied, &fresh).await?;
        if !covers(&head.applied, &features::wanted(rollup)) {
            self.report.behind += 1;
        }
        Ok(())
    }

    async fn counters(&mut self, fresh: &DayFold<'_>) -> Result<()> {
        for (counted, counts) in counters::of(fresh) {
            let stored = counters::of_day(self.table, self.day, &counted).await?;
            self.report.counts += counts.len();
            let counts: BTreeMap<String, u64> =
                counts.into_iter().map(|(kind, count)| (kind.name().to_owned(), count)).collect();
            // What operators leave out after it was folded stays counted, since it was appended.
            let is_at_least = |(kind, count): (&String, &u64)| stored.get(kind).is_some_and(|of| of >= count);
            let is_as_folded = match self.report.skipped {
                0 => stored == counts,
                _ => counts.iter().all(is_at_least),
            };
            if !is_as_folded {
                let whose = match counted {
                    Counted::Workspace => "the workspace".to_owned(),
                    Counted::Release(name) => format!("release {name}"),
                };
                self.fault(format_args!("the counter of {whose} says {stored:?}, the rollup {counts:?}"));
            }
        }
        Ok(())
    }

    async fn evaluation(&mut self, rollup: &Projected, is_complete: bool, catalog: &Catalog) -> Result<()> {
        let at = At { workspace: &self.day.workspace, version: self.version, day: self.day.day };
        let Some((stored, states)) = evaluated::load(self.table, at).await? else {
            if !judged(&rollup.applied).is_empty() && is_complete {
                self.report.behind += 1;
            }
            return Ok(());
        };
        self.report.evaluations += 1;
        // By the definitions that it says it knew; that there are others by now is no fault.
        let definitions = catalog.definitions(&self.day.workspace).await?;
        let by = definitions.covered(&stored.applied).of(self.day.day);
        let skipped = dead_letters::skipped(self.table, self.version, self.day, evaluate::SKIPPED).await?;
        let told = Evaluation::from_states(&states);
        let told = told.map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))?;
        match compute(self.table, self.day, &stored.applied, &by, &skipped).await? {
            Ok((fresh, rows)) => {
                if fresh.to_state() != told.to_state() || stored.rows.is_some_and(|stored| stored != rows) {
                    self.fault("the evaluation is not what its predictions and outcomes give");
                }
            }
            Err(stopped) => self.fault(format_args!("the evaluation cannot be repeated: {}", stopped.reason)),
        }
        if is_complete && !covers(&stored.applied, &wanted(self.day, &rollup.applied, &definitions)) {
            self.report.behind += 1;
        }
        Ok(())
    }

    /// Verifies the filters of keys of a day that has its events: each must match the keys of the segments that it covers.
    async fn filters(&mut self) -> Result<()> {
        for kind in KINDS {
            let at = key_filter::At {
                workspace: &self.day.workspace,
                version: self.version,
                day: self.day.day,
                kind,
            };
            let Some(head) = key_filter::head(self.table, at).await? else { continue };
            self.report.filters += 1;
            // Without readable keys there are no parts, and every query reads the day.
            if head.parts == 0 {
                continue;
            }
            let (fresh, parts) = filter_of(self.table, at, &head.applied, head.parts, head.made_at).await?;
            let fresh = key_filter::Head {
                ver: head.ver,
                parts: parts.len() as u32,
                digest: key_filter::digest(&parts),
                ..fresh
            };
            let mut is_same = fresh == head;
            for (number, part) in (0..).zip(&parts) {
                is_same =
                    is_same && key_filter::part(self.table, at, &head, number).await?.as_ref() == Some(part);
            }
            if !is_same {
                self.fault(format_args!("the filter of the keys of its {kind} is not that of its segments"));
            }
        }
        Ok(())
    }
}
