//! Finds the predictions labelled by outcomes that name none, and appends these as complete outcomes.
//!
//! A decision about an outcome is written before it is appended ([`log::unmatched`]), and its content is appended under its name.
//! So a worker that dies in between leaves a decision that the next one carries out, and two workers at one time decide and
//! append the same.
//!
//! An outcome labels the latest prediction of its key up to its `observed_at`, or all of them, within its look-back, among all
//! events appended by one closed instant for all outcomes of a round. An outcome without a match waits, and is searched for again
//! when predictions have come.

mod decide;
mod round;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Duration,
};

use async_trait::async_trait;
use catalog::Catalog;
use event::{Columns, Day, ErrorKind, Id, Kind, Result, Timestamp};
use futures::stream::{FuturesUnordered, StreamExt as _};
use log::{
    active,
    erased::ErasureEpoch,
    key::{DecisionId, LogId, UnmatchedSegment},
    projection::Applied,
    scan,
    segment_item::CLOSED_AFTER_SECONDS,
    unmatched,
};
use table::Table;
use tokio::time::Instant;

use self::round::Round;
use crate::{
    key_filters::{of_kind, rolled_up},
    lock,
    shared::{Shared, waits},
};

/// Number of waiting segments read at once.
const SEGMENTS_AT_ONCE: usize = 1_000;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Time after which all events appended by now are closed.
const UNTIL_CLOSED: Duration = Duration::from_secs(CLOSED_AFTER_SECONDS as u64 + 1);

/// Factor of the rest after a look, relative to the duration of the look, so that many waiting outcomes cost a bounded share of
/// the time.
const LOOK_REST: u32 = 20;

/// Appender of decided outcomes: matched ones, or answers of reviewers.
#[async_trait]
pub trait Append: Debug + Send + Sync {
    /// Reads, for each log that they will go to, a segment that stands before any of them.
    ///
    /// # Errors
    /// Errors of the table.
    async fn bounds(&self, workspace: &Id, outcomes: Columns) -> Result<BTreeMap<LogId, u64>>;

    /// Appends those that are not there yet. They are always the same under the name of a decision. Outcomes of days that are
    /// gone are left out.
    ///
    /// # Errors
    /// Errors of the table; `Conflict`, when the workspace is being deleted. It may be called again.
    async fn append(
        &self,
        workspace: &Id,
        id: &DecisionId,
        outcomes: Columns,
        after: &BTreeMap<LogId, u64>,
    ) -> Result<()>;

    /// Appends the answers of reviewers that were decided and not appended. Returns their number.
    ///
    /// # Errors
    /// Errors of the table; `Conflict`, when the workspace is being deleted. It may be called again.
    async fn finish_answers(&self, workspace: &Id) -> Result<u64>;
}

/// Result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Number of outcomes whose prediction was found.
    pub found: u64,
    /// Number of outcomes that have waited for too long.
    pub expired: u64,
    /// Number of outcomes that would label too many predictions.
    pub refused: u64,
    /// Number of outcomes that wait.
    pub waiting: u64,
}

/// Takes up the unmatched outcomes of a workspace on the days from `first` on (all days, when that is `None`) and on the days
/// `older`, searches the predictions of all waiting ones, and appends the matches.
///
/// # Errors
/// Errors of the table, and of `append`; `Corrupt`, after all else was done. It may be called again at any time.
pub async fn resolve(
    table: &dyn Table,
    catalog: &Catalog,
    append: &dyn Append,
    workspace: &Id,
    days: (Option<Day>, &BTreeSet<Day>),
    now: Timestamp,
) -> Result<Resolved> {
    resolve_within(table, catalog, append, workspace, days, (now, true)).await
}

/// Resolves unmatched outcomes, and lets them expire only if `expires` is set. A sweep sets it, after recording the instant up to
/// which it decides ([`crate::early`]).
pub(crate) async fn resolve_within(
    table: &dyn Table,
    catalog: &Catalog,
    append: &dyn Append,
    workspace: &Id,
    (first, older): (Option<Day>, &BTreeSet<Day>),
    (now, expires): (Timestamp, bool),
) -> Result<Resolved> {
    // A decision uses either the original events or those without their keys, with filters of the same keys, and no mixture.
    let epoch = ErasureEpoch::load(table, workspace).await?;
    if epoch.is_open {
        return Ok(Resolved::default());
    }
    let version = active::load(table, workspace).await?.version;
    for (day, applied) in rolled_up(table, workspace, version, (first, older)).await? {
        take_up(table, workspace, day, &applied).await?;
    }
    let mut resolved = Resolved::default();
    let (mut some, mut next) = unmatched::waiting(table, workspace, None, SEGMENTS_AT_ONCE).await?;
    if some.is_empty() || !takes_events(catalog, workspace).await? {
        return Ok(resolved);
    }
    let round = Round::begin(table, catalog, append, (workspace, version), epoch, (now, expires)).await?;
    let mut corrupt = None;
    loop {
        match round.resolve(some, &mut resolved).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => corrupt = Some(error),
            goes_on => {
                if !goes_on? {
                    break;
                }
            }
        }
        let Some(after) = next else { break };
        (some, next) = unmatched::waiting(table, workspace, Some(&after), SEGMENTS_AT_ONCE).await?;
    }
    corrupt.map_or(Ok(resolved), Err)
}

/// Number of workspaces searched at once.
const LOOKS_AT_ONCE: usize = 4;

/// Planned look at the unmatched outcomes of a workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    at: Instant,
    /// True if outcomes have come since the last look. If one of these has no match, it is searched for once more when the
    /// instant of its append is closed, since its prediction may have come just before it.
    is_of_new: bool,
}

/// Looks at a workspace.
#[derive(Debug)]
pub(crate) struct Looks {
    planned: Option<Look>,
    /// Instant before which no other begins; `None` while one goes on.
    rests_until: Option<Instant>,
}

impl Looks {
    fn plan(&mut self, look: Look) {
        let planned = self.planned.get_or_insert(look);
        planned.at = planned.at.min(look.at);
        planned.is_of_new |= look.is_of_new;
    }

    /// Instant at which the next one begins.
    fn begins(&self) -> Option<Instant> {
        Some(self.planned?.at.max(self.rests_until?))
    }
}

/// Searches the predictions of unmatched outcomes soon after these were folded, or after predictions in a workspace with waiting
/// ones. A sweep finds those folded by another worker, or by this one before it ended.
pub(crate) async fn run(shared: &Shared) -> Result<()> {
    let mut running = FuturesUnordered::new();
    loop {
        let next = lock(&shared.unmatched).values().filter_map(Looks::begins).min();
        tokio::select! {
            biased;
            Some(()) = running.next() => {}
            () = shared.unmatched_came.notified() => {}
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() && running.len() < LOOKS_AT_ONCE => {
                for (workspace, look) in shared.due(LOOKS_AT_ONCE - running.len()) {
                    running.push(shared.take_look(workspace, look));
                }
            }
        }
    }
}

impl Shared {
    /// Plans a look at unmatched outcomes: at once when some came, and when predictions came in a workspace with waiting ones,
    /// once these are closed; but not before the rest after the last look is over.
    pub(crate) fn look_for_unmatched(&self, workspace: &Id, has_new: bool, is_predicted: bool, now: Instant) {
        let waits = || lock(&self.stats.unmatched).get(workspace).is_some_and(|waiting| *waiting > 0);
        let look = match () {
            () if has_new => Look { at: now, is_of_new: true },
            () if is_predicted && waits() => Look { at: now + UNTIL_CLOSED, is_of_new: false },
            () => return,
        };
        let mut unmatched = lock(&self.unmatched);
        // Workspaces without a planned look need no place after their rest.
        unmatched
            .retain(|_, looks| looks.planned.is_some() || looks.rests_until.is_none_or(|until| now < until));
        let looks =
            unmatched.entry(workspace.clone()).or_insert(Looks { planned: None, rests_until: Some(now) });
        looks.plan(look);
        drop(unmatched);
        self.unmatched_came.notify_one();
    }

    /// Takes at most `at_most` looks that are due.
    fn due(&self, at_most: usize) -> Vec<(Id, Look)> {
        let now = Instant::now();
        let mut unmatched = lock(&self.unmatched);
        let due = unmatched.iter_mut().filter(|(_, looks)| looks.begins().is_some_and(|at| at <= now));
        due.take(at_most)
            .filter_map(|(workspace, looks)| {
                looks.rests_until = None;
                Some((workspace.clone(), looks.planned.take()?))
            })
            .collect()
    }

    async fn take_look(&self, workspace: Id, look: Look) {
        let began = Instant::now();
        let looked = self.resolve_unmatched(&workspace, (false, false), &BTreeSet::new()).await;
        let ended = Instant::now();
        let is_left = || lock(&self.stats.unmatched).get(&workspace).is_some_and(|waiting| *waiting > 0);
        let again = match looked {
            Ok(()) => {
                (look.is_of_new && is_left()).then_some(Look { at: ended + UNTIL_CLOSED, is_of_new: false })
            }
            Err(error) if error.may_pass() => {
                waits(
                    &error,
                    &workspace,
                    "the table is not available; unmatched outcomes are looked at later",
                );
                Some(Look { at: ended + UNTIL_CLOSED, ..look })
            }
            Err(error) => {
                tracing::error!(%workspace, %error, "its unmatched outcomes cannot be looked at");
                None
            }
        };
        if let Some(looks) = lock(&self.unmatched).get_mut(&workspace) {
            looks.rests_until = Some(ended + LOOK_REST * (ended - began));
            if let Some(look) = again {
                looks.plan(look);
            }
        }
    }
}

/// Returns whether a workspace exists and is not being deleted.
async fn takes_events(catalog: &Catalog, workspace: &Id) -> Result<bool> {
    match catalog.workspace(workspace.as_str()).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        workspace => Ok(workspace?.check_open().is_ok()),
    }
}

/// Checks that all items about waiting outcomes of a workspace can be read.
///
/// # Errors
/// `Corrupt`, when one cannot; errors of the table.
pub async fn check(table: &dyn Table, workspace: &Id) -> Result<()> {
    let (mut some, mut next) = unmatched::waiting(table, workspace, None, SEGMENTS_AT_ONCE).await?;
    loop {
        for (segment, waiting) in some {
            unmatched::decisions(table, &segment, waiting.decided + 1).await?;
            let events = scan::segments(table, &segment.log, segment.seq, segment.seq).await?;
            events.first().map(|segment| segment.unpack(|_| true)).transpose()?;
        }
        let Some(after) = next else { return Ok(()) };
        (some, next) = unmatched::waiting(table, workspace, Some(&after), SEGMENTS_AT_ONCE).await?;
    }
}

/// Takes up the unmatched outcomes of a day that a rollup covers.
async fn take_up(table: &dyn Table, workspace: &Id, day: Day, applied: &Applied) -> Result<()> {
    for (name, last) in of_kind(applied, Kind::Unmatched) {
        let Some(log) = scan::log_named(workspace, day, &name) else { continue };
        let mut taken = unmatched::taken_up(table, &log).await?;
        while taken < last {
            let Some(next) = scan::after(table, &log, taken).await? else { break };
            let segment = UnmatchedSegment { log: log.clone(), seq: next.seq };
            if next.seq != taken + 1
                || !unmatched::take_up(table, &segment, (next.appended_at, next.rows)).await?
            {
                // Another worker takes them up, or the day is gone.
                break;
            }
            taken = next.seq;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_look_begins_before_the_rest() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let mut looks = Looks { planned: None, rests_until: Some(began) };
        assert_eq!(looks.begins(), None, "nothing is planned");
        looks.plan(Look { at: began + UNTIL_CLOSED, is_of_new: false });
        looks.plan(Look { at: began, is_of_new: true });
        assert_eq!(looks.begins(), Some(began), "the earlier of both");
        assert!(looks.planned.take().is_some_and(|look| look.is_of_new));
        // While a look goes on, a new one waits for its end, and for the rest after it.
        looks.rests_until = None;
        looks.plan(Look { at: began + second, is_of_new: true });
        assert_eq!(looks.begins(), None);
        looks.rests_until = Some(began + second + LOOK_REST * second);
        assert_eq!(looks.begins(), Some(began + 21 * second));
    }
}
