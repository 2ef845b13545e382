//! Days that a table lacks, or has with other rows than the logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
};

use catalog::Kept;
use event::{Day, Error, Kind, Result, Window};
use futures::{StreamExt, TryStreamExt, stream};
use log::{
    expired,
    key::LogId,
    scan::{self, LogHead},
};
use query::{Covered, DayRows};

use super::{
    Lake, Of, READS,
    delta::{Delta, Known},
    erased_on,
    history::{self, ErasedOf},
};

/// Share of a day's logs that its rows cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// All of the logs.
    All,
    /// None, since the events have expired: the table keeps the rows it has.
    Expired,
    /// The part before a missing segment.
    Torn,
    /// None, though the events did not expire.
    Nothing,
}

impl Lake {
    /// Returns the days that may be missing or outdated: for events, the days whose logs differ from the export; for evaluations,
    /// all days that may have one.
    pub(super) async fn days(&self, of: Of, delta: &Delta, erased: Option<&ErasedOf>) -> Result<Vec<Day>> {
        let Of::Events(kind) = of else {
            let logged =
                self.heads.keys().filter(|(_, kind)| [Kind::Predictions, Kind::Outcomes].contains(kind));
            let expired = expired::all(&*self.table, &self.workspace).await?;
            let days = logged.map(|(day, _)| *day).chain(expired.iter().map(|mark| mark.day));
            let days = days.chain(delta.days().keys().copied());
            let days: BTreeSet<Day> = days.filter(|day| Some(*day) >= self.since).collect();
            return Ok(days.into_iter().collect());
        };
        let is_kept = |day: Day| is_kept(&self.kept, kind, day);
        let logged = self.heads.iter().filter(|((day, of), _)| *of == kind && is_kept(*day));
        let due = logged.map(|((day, _), heads)| async move {
            let lacks = self.lacks((*day, kind), heads, delta.days().get(day), erased).await?;
            Ok::<_, Error>(lacks.then_some(*day))
        });
        let due = stream::iter(due).buffered(READS).try_filter_map(|day| ready(Ok(day)));
        let due: BTreeSet<Day> = due.try_collect().await?;
        Ok(due.into_iter().chain(self.lost(kind, delta).await?).collect())
    }

    /// Days with events in the table but none in the logs, though they did not expire: the logs were restored from an older
    /// backup.
    async fn lost(&self, kind: Kind, delta: &Delta) -> Result<Vec<Day>> {
        let is_lost = |day: &Day, known: &Known| {
            Some(*day) >= self.since
                && !self.heads.contains_key(&(*day, kind))
                && matches!(&known.covered, Covered::Cut(cut) if !cut.heads.is_empty())
        };
        let days = delta.days().iter().filter(|(day, known)| is_lost(day, known));
        let mut lost: Vec<Day> = days.map(|(day, _)| *day).collect();
        if let (Some(first), Some(last)) = (lost.first(), lost.last()) {
            let kept = self.kept_in(Window::new(*first, *last)?).await?;
            lost.retain(|day| is_kept(&kept, kind, *day));
        }
        Ok(lost)
    }

    /// Days of a window that have not expired by now.
    async fn kept_in(&self, window: Window) -> Result<Kept> {
        self.query.catalog().kept(&self.workspace, window, self.query.now()).await
    }

    /// Heads of the logs of a day, before they are read.
    pub(super) async fn heads_on(&self, of: Of, day: Day) -> Result<Vec<LogHead>> {
        match of {
            Of::Events(kind) => scan::heads_of_kind(&*self.table, &self.workspace, day, kind).await,
            Of::Evaluations => Ok(Vec::new()),
        }
    }

    /// Returns the share of a day's logs that its rows cover; the heads were read before the rows.
    pub(super) async fn left(&self, of: Of, day: Day, heads: &[LogHead], rows: &DayRows) -> Result<Left> {
        let (Of::Events(kind), Covered::Cut(cut)) = (of, rows.covered()) else { return Ok(Left::All) };
        let is_behind = |head: &LogHead| cut.heads.get(&head.log).is_none_or(|seq| *seq < head.seq);
        let is_torn = heads.iter().any(is_behind);
        if !is_torn && !cut.heads.is_empty() {
            return Ok(Left::All);
        }
        let is_kept = is_kept(&self.kept_in(Window::of(day)).await?, kind, day);
        Ok(match (is_kept, is_torn) {
            (false, _) => Left::Expired,
            (true, true) => Left::Torn,
            (true, false) => Left::Nothing,
        })
    }

    /// Returns whether the exported rows of a day differ from its logs.
    async fn lacks(
        &self,
        (day, kind): (Day, Kind),
        heads: &BTreeMap<LogId, u64>,
        known: Option<&Known>,
        erased: Option<&ErasedOf>,
    ) -> Result<bool> {
        let Some(Known { covered: Covered::Cut(cut), history, erased: had }) = known else { return Ok(true) };
        let is_of = |(log, _): &&(LogId, u64)| log.day == day && log.kind == kind;
        let is_other = erased.is_some_and(|erased| *had != erased_on(erased, (day, kind)))
            || cut.heads != *heads
            || !cut.left_out.iter().eq(self.skipped.iter().filter(is_of));
        Ok(is_other || *history != Some(history::of_heads(&*self.table, heads).await?))
    }
}

/// Returns whether the events of a day have not expired. Release events never do.
fn is_kept(kept: &Kept, kind: Kind, day: Day) -> bool {
    kind == Kind::Releases || kept.keeps(day)
}
