//! Verification: folds the log again, from nothing, and compares the result with the stored one, byte by byte.

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

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of days that have logs.
    pub days: usize,
    /// Number of segments read.
    pub segments: u64,
    /// Number of events folded again.
    pub events: u64,
    /// Number of rollups compared.
    pub rollups: usize,
    /// Number of parts of breakdowns compared.
    pub parts: usize,
    /// Number of evaluations compared.
    pub evaluations: usize,
    /// Number of evaluation vintages compared.
    pub vintages: usize,
    /// Number of rollup vintages compared.
    pub rollup_vintage: usize,
    /// Number of key filters compared.
    pub filters: usize,
    /// Number of counts compared.
    pub counts: usize,
    /// Number of segments that an operator left out of the rollups. They are no faults.
    pub skipped: u64,
    /// Number of days whose events have expired and are gone. Their projections cannot be folded again, but must cover
    /// the events and agree.
    pub expired: usize,
    /// Number of segments that are not folded yet, and of evaluations that do not know a definition of their day yet.
    /// They are no faults: the projector is behind.
    pub behind: u64,
    /// Number of events with erased keys. Vintages of such a day were made before the erasure.
    pub erased: u64,
    /// Faults, a line each.
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

/// Verifies a workspace; `progress` gets the number of verified days, and of all days.
///
/// # Errors
/// Errors of the table. A fault of the stored data is no error but part of the report.
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
        // A working projector changes a day during its verification: only a fault that stays is one.
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

/// Number of times that a day with faults is verified again, and the time in between.
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
    // A rebuild may activate another version meanwhile.
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
            // The projections contain events with their keys until they are folded again.
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

    /// Checks that every segment is there, can be read, and has the number of events that its item states.
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

    /// Checks that every part equals the fold of its segments, and covers at least the rollup. A part ahead of the
    /// rollup was written by a projector that died before it wrote the rollup.
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

    /// Checks that the breakdown by feature equals the fold of the predictions that its head covers.
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
            // Counters keep events that were folded before an operator skipped their segment.
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
        // By the definitions that the evaluation states; newer ones are no fault.
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
            // A filter without parts has no readable keys: every query reads the day.
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
