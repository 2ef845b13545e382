//! One search for the predictions of all waiting outcomes of a workspace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{Catalog, Kept};
use evaluate::latest::{Answer, Looking, question};
use event::{Columns, Day, Error, ErrorKind, Id, Result, Timestamp, Window};
use fold::latest::Asked;
use log::{
    erased::ErasureEpoch,
    expired,
    key::{DecisionId, UnmatchedSegment},
    scan,
    segment_item::CLOSED_AFTER_SECONDS,
    unmatched::{self, Decision, Looked, WAITS_DAYS, Waiting},
};
use table::Table;

use super::{
    Append, DAY_SECONDS, Resolved, SEGMENTS_AT_ONCE,
    decide::{decisions, digest, outcomes_of, parted, weight},
};
use crate::{key_filters::rolled_up, vintages::closed};

/// Days before the round within which new predictions are always noticed. An outcome with a longer look-back extends it.
const SEEN_DAYS: i64 = 400 + WAITS_DAYS;

/// Maximum outcomes searched together, by their [`weight`].
const WEIGHT_AT_ONCE: usize = 100_000;

/// Common values of a round.
pub(super) struct Round<'a> {
    table: &'a dyn Table,
    catalog: &'a Catalog,
    append: &'a dyn Append,
    workspace: &'a Id,
    version: u32,
    epoch: ErasureEpoch,
    as_of: Timestamp,
    now: Timestamp,
    /// True if outcomes that have waited for long enough expire.
    expires: bool,
    /// First day whose predictions were checked.
    first: Day,
    /// Digest of the covered predictions from then on, and of the segments left out.
    of: u64,
    /// True if all waiting outcomes were searched with the same digest before. Else all are searched: of two outcomes of one key
    /// neither is matched before the other.
    is_quiet: bool,
}

/// Segment in work: its events, and the question of each waiting row.
struct OpenSegment {
    segment: UnmatchedSegment,
    waiting: Waiting,
    columns: Columns,
    asked: Vec<(u32, Asked)>,
    /// True if everything read for the questions so far was readable.
    is_complete: bool,
}

/// Sign that another worker processes the waiting outcomes, which are left to it. Going on could append a later outcome before an
/// earlier one of its key.
struct Overtaken;

type Step<T> = std::result::Result<T, Overtaken>;

impl<'a> Round<'a> {
    pub(super) async fn begin(
        table: &'a dyn Table,
        catalog: &'a Catalog,
        append: &'a dyn Append,
        (workspace, version): (&'a Id, u32),
        epoch: ErasureEpoch,
        (now, expires): (Timestamp, bool),
    ) -> Result<Self> {
        let as_of = closed(table, now);
        let first = now.plus_seconds(-SEEN_DAYS * DAY_SECONDS).day();
        let round = Self {
            table,
            catalog,
            append,
            workspace,
            version,
            epoch,
            as_of,
            now,
            expires,
            first,
            of: 0,
            is_quiet: false,
        };
        round.seen().await
    }

    /// Checks the present predictions, so that nothing is searched if nothing has come.
    async fn seen(mut self) -> Result<Self> {
        let mut looked = BTreeSet::new();
        let mut is_all = true;
        let mut after = None;
        loop {
            let (some, next) =
                unmatched::waiting(self.table, self.workspace, after.as_ref(), SEGMENTS_AT_ONCE).await?;
            for (_, waiting) in some {
                is_all &= waiting.looked.is_some_and(|looked| looked.is_all);
                looked.extend(waiting.looked.map(|looked| (looked.from, looked.of)));
            }
            let Some(next) = next else { break };
            after = Some(next);
        }
        self.first = looked.first().map_or(self.first, |(from, _)| self.first.min(*from));
        let days = (Some(self.first), &BTreeSet::new());
        let covered = rolled_up(self.table, self.workspace, self.version, days).await?;
        self.of = digest(&covered, &self.left_out(self.first).await?);
        self.is_quiet = is_all && looked.iter().all(|(_, of)| *of == self.of);
        Ok(self)
    }

    /// Last day that a question may concern.
    fn last(&self) -> Day {
        self.now.plus_seconds(DAY_SECONDS).day()
    }

    /// Segments that were skipped from a day on.
    async fn left_out(&self, first: Day) -> Result<BTreeSet<(log::key::LogId, u64)>> {
        let counts = |by: &str| by != log::skipped::BY_FEATURES;
        let days = (first, self.last());
        log::skipped::between(self.table, self.workspace, self.version, days, counts).await
    }

    /// Searches the predictions of some segments, in their order, or carries out earlier decisions about them. Returns whether to
    /// go on.
    ///
    /// # Errors
    /// Errors of the table, and of `append`; `Corrupt`, after the rest was done.
    pub(super) async fn resolve(
        &self,
        some: Vec<(UnmatchedSegment, Waiting)>,
        resolved: &mut Resolved,
    ) -> Result<bool> {
        let (mut open, mut sum, mut corrupt) = (Vec::new(), 0, None);
        for (segment, waiting) in some {
            match self.hold(segment, waiting, resolved).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => corrupt = Some(error),
                one => match one? {
                    Ok(one) => {
                        sum += one.as_ref().map_or(0, OpenSegment::weight);
                        open.extend(one);
                    }
                    Err(Overtaken) => return Ok(false),
                },
            }
            if sum >= WEIGHT_AT_ONCE {
                sum = 0;
                if !self.look(std::mem::take(&mut open), resolved).await? {
                    return Ok(false);
                }
            }
        }
        let goes_on = self.look(open, resolved).await?;
        corrupt.map_or(Ok(goes_on), Err)
    }

    /// Searches the predictions of the open segments, and settles these. Returns whether to go on. The result as of one instant
    /// does not depend on the division into parts.
    async fn look(&self, mut open: Vec<OpenSegment>, resolved: &mut Resolved) -> Result<bool> {
        let Some(first) = open.iter().map(OpenSegment::first).min() else { return Ok(true) };
        let left_out = Arc::new(self.left_out(first).await?);
        let days = Window::new(first, self.last().max(first))?;
        let kept: Kept = self.catalog.kept(self.workspace, days, self.now).await?;
        let Self { workspace, version, as_of, .. } = *self;
        let looking = Looking { workspace, version, as_of, left_out };
        let questions = open.iter().enumerate().flat_map(|(of, open)| {
            open.asked.iter().enumerate().map(move |(at, (_, asked))| ((of, at), weight(asked)))
        });
        for part in parted(questions.collect::<Vec<_>>(), WEIGHT_AT_ONCE) {
            let asked: Vec<Asked> = part.iter().map(|(of, at)| open[*of].asked[*at].1.clone()).collect();
            let answers = looking.look(self.table, &asked, &|day| kept.keeps(day)).await?;
            let mut answers = answers.into_iter();
            for same in part.chunk_by(|one, other| one.0 == other.0) {
                let open = &mut open[same[0].0];
                let rows = same.iter().map(|(_, at)| open.asked[*at].0);
                let of_rows: Vec<(u32, Answer)> = rows.zip(answers.by_ref()).collect();
                if self.settle(open, &of_rows, resolved).await?.is_err() {
                    return Ok(false);
                }
            }
        }
        for open in open {
            self.note(open, resolved).await?;
        }
        Ok(true)
    }

    /// Carries out earlier decisions about a segment, and reads the rows that still wait if they are to be searched.
    async fn hold(
        &self,
        segment: UnmatchedSegment,
        mut waiting: Waiting,
        resolved: &mut Resolved,
    ) -> Result<Step<Option<OpenSegment>>> {
        // A worker that died may have left a decision here; its predictions were not covered then, and once they are the round is
        // not quiet.
        if self.is_quiet && !self.is_due(&waiting) {
            resolved.waiting += waiting.left.len() as u64;
            return Ok(Ok(None));
        }
        let known = unmatched::decisions(self.table, &segment, waiting.decided + 1).await?;
        let columns = match scan::segments(self.table, &segment.log, segment.seq, segment.seq).await {
            Ok(segments) => segments.first().map(|segment| segment.unpack(|_| true)).transpose()?,
            Err(error) if error.kind() == ErrorKind::Incomplete => None,
            Err(error) => return Err(error),
        };
        let Some(columns) = columns else {
            let log = &segment.log;
            if expired::load(self.table, &log.workspace, log.day).await?.is_none() {
                return Err(Error::corrupt(format!("the unmatched outcomes {segment} are missing")));
            }
            // Expiry deletes waiting outcomes.
            return Ok(Ok(None));
        };
        for (id, decision) in known {
            if self.carry_out(&id, &decision, &columns, &mut waiting).await?.is_err() {
                return Ok(Err(Overtaken));
            }
        }
        if waiting.left.is_empty() {
            return Ok(Ok(None));
        }
        let asked = waiting.left.iter().map(|row| Ok((*row, question(&columns, *row as usize)?)));
        let asked = asked.collect::<Result<_>>()?;
        Ok(Ok(Some(OpenSegment { segment, waiting, columns, asked, is_complete: true })))
    }

    /// Returns whether the rest of a segment has waited for long enough.
    fn is_due(&self, waiting: &Waiting) -> bool {
        self.expires && waiting.arrived_at.plus_seconds(WAITS_DAYS * DAY_SECONDS) <= self.as_of
    }

    /// Decides the matched rows of a segment, and those that have waited for too long.
    async fn settle(
        &self,
        open: &mut OpenSegment,
        answers: &[(u32, Answer)],
        resolved: &mut Resolved,
    ) -> Result<Step<()>> {
        open.is_complete &= !answers.iter().any(|(_, answer)| matches!(answer, Answer::Unreadable(..)));
        let OpenSegment { segment, waiting, columns, .. } = open;
        for decision in decisions(answers, self.is_due(waiting), self.as_of) {
            let id = DecisionId { segment: segment.clone(), number: waiting.decided + 1 };
            let outcomes = outcomes_of(&decision, columns)?;
            let after = match outcomes.rows {
                0 => BTreeMap::new(),
                _ => self.append.bounds(self.workspace, outcomes).await?,
            };
            let decision = Decision { after, ..decision };
            if !unmatched::decide(self.table, self.epoch, &id, &decision).await?
                || self.carry_out(&id, &decision, columns, waiting).await?.is_err()
            {
                return Ok(Err(Overtaken));
            }
            resolved.found += decision.matched.len() as u64;
            resolved.expired += decision.expired.len() as u64;
            resolved.refused += decision.refused.len() as u64;
        }
        Ok(Ok(()))
    }

    /// Records the search of a segment of which some outcomes still wait.
    async fn note(&self, open: OpenSegment, resolved: &mut Resolved) -> Result<()> {
        let from = open.first();
        let OpenSegment { segment, mut waiting, is_complete, .. } = open;
        if waiting.left.is_empty() {
            return Ok(());
        }
        resolved.waiting += waiting.left.len() as u64;
        let at = waiting.looked.filter(|looked| looked.of == self.of).map_or(self.now, |looked| looked.at);
        // Unreadable rows, and rows beyond the checked days, are searched again.
        let is_all = is_complete && from >= self.first && at.plus_seconds(CLOSED_AFTER_SECONDS) <= self.as_of;
        waiting.looked = Some(Looked { at, from, of: self.of, is_all });
        unmatched::write(self.table, &segment, &mut waiting).await.map(drop)
    }

    /// Appends the outcomes of a decision, and records that.
    async fn carry_out(
        &self,
        id: &DecisionId,
        decision: &Decision,
        columns: &Columns,
        waiting: &mut Waiting,
    ) -> Result<Step<()>> {
        let outcomes = outcomes_of(decision, columns)?;
        if outcomes.rows > 0 {
            self.append.append(self.workspace, id, outcomes, &decision.after).await?;
        }
        *waiting = waiting.clone().after(decision);
        let is_noted = unmatched::write(self.table, &id.segment, waiting).await?;
        Ok(if is_noted { Ok(()) } else { Err(Overtaken) })
    }
}

impl OpenSegment {
    /// Weight among the segments searched together.
    fn weight(&self) -> usize {
        self.asked.iter().map(|(_, asked)| weight(asked)).sum()
    }

    /// First day that a question concerns.
    fn first(&self) -> Day {
        let first = self.asked.iter().map(|(_, asked)| asked.from).min();
        first.and_then(Timestamp::from_micros).map_or(Day::FIRST, Timestamp::day)
    }
}
