//! Unmatched outcomes, which do not name the prediction that they label, page by page, in the order of the days on which they came.
//!
//! The state of an outcome is read from the decisions; the reason for waiting follows from the last look. No prediction is looked
//! for here: a sweeping worker does that.

mod history;
mod request;
mod why;

use std::collections::BTreeMap;

use evaluate::latest::question;
use event::{
    Columns, Error, ErrorKind, Id, Kind, Result,
    fields::{JUDGES, PREDICTED_SINCE},
};
use futures::future::try_join_all;
use log::{
    key::{self, LogId, UnmatchedSegment},
    scan,
    segment_item::Segment,
    unmatched::{self, Decision, Waiting},
};
use serde::Serialize;
use table::{KeyRange, Query as TableQuery};
use tokio::time::Instant;
use utoipa::ToSchema;

pub(crate) use self::history::MAX_OUTCOMES as MAX_HISTORY;
pub use self::history::{HistoryParams, OutcomeHistory, PastOutcome, PastStanding};
pub(crate) use self::request::PLACE_PATTERN;
pub use self::request::{UnmatchedParams, UnmatchedPlace, UnmatchedRequest, UnmatchedState};
pub use self::why::UnmatchedOutcome;
use self::why::{LabelledInstants, UnexplainedOutcome};
use crate::{Query, work};

/// Name in paths and metrics.
pub(crate) const NAME: &str = "unmatched";

/// Number of segments read at once, and maximum number of segments per page.
const SEGMENTS_AT_ONCE: usize = 16;
const MAX_SEGMENTS: usize = 320;

/// Maximum number of searches for the next log per page.
const MAX_LOOKS: usize = 400;

/// The columns that are read.
const COLUMNS: [&str; 4] = ["key", "observed_at", PREDICTED_SINCE, JUDGES];

/// Some unmatched outcomes, in their order.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct UnmatchedPage {
    /// Number of outcomes that this page went through in each state, of the requested key if any, listed or not. Those of all pages add up.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub counts: BTreeMap<UnmatchedState, u64>,
    /// The listed outcomes.
    pub outcomes: Vec<UnmatchedOutcome>,
    /// After which place the next page begins; null on the last one.
    #[schema(required, value_type = Option<String>)]
    pub next: Option<UnmatchedPlace>,
    /// Segments that could not be read, with the reasons.
    pub warnings: Vec<String>,
}

/// A segment with its decisions.
struct DecidedSegment {
    segment: Segment,
    decisions: Vec<(u32, Decision)>,
    /// The first decision about each row that has one, as an index into `decisions`.
    decided: BTreeMap<u32, usize>,
    waiting: Option<Waiting>,
    is_taken: bool,
}

impl DecidedSegment {
    /// Returns the state of a row, and the decision behind it.
    fn state(&self, row: u32) -> (UnmatchedState, Option<&Decision>) {
        let Some((number, decision)) = self.decided.get(&row).map(|at| &self.decisions[*at]) else {
            return (UnmatchedState::Waiting, None);
        };
        let is_carried_out = self.waiting.as_ref().is_none_or(|waiting| *number <= waiting.decided);
        let state = match is_carried_out {
            _ if decision.expired.contains(&row) => UnmatchedState::Expired,
            _ if decision.refused.contains(&row) => UnmatchedState::Refused,
            true => UnmatchedState::Appended,
            false => UnmatchedState::Decided,
        };
        (state, Some(decision))
    }
}

/// A page as it grows.
struct Growing {
    request: UnmatchedRequest,
    page: UnmatchedPage,
    told: Vec<UnexplainedOutcome>,
    /// The place up to which everything was counted.
    place: Option<UnmatchedPlace>,
    segments: usize,
}

impl Query {
    /// Returns a page of the unmatched outcomes of a workspace that came in a window.
    ///
    /// # Errors
    /// `Unavailable`, if all memory is taken; errors of the table, and `Corrupt`.
    pub async fn unmatched(&self, workspace: &Id, request: &UnmatchedRequest) -> Result<UnmatchedPage> {
        let (_turn, _hold) = self.budget.enter(Some(workspace)).await?;
        let began = Instant::now();
        let counts = UnmatchedState::ALL.map(|state| (state, 0)).into();
        let growing = Growing {
            request: request.clone(),
            page: UnmatchedPage { counts, ..UnmatchedPage::default() },
            told: Vec::new(),
            place: request.after,
            segments: 0,
        };
        let (Growing { mut page, told, place, .. }, is_all) = self.grow(workspace, growing).await?;
        page.next = place.filter(|_| !is_all);
        page.outcomes = self.explained(workspace, told).await?;
        self.meters.answered(NAME, began.elapsed(), page.outcomes.len());
        Ok(page)
    }

    /// Takes the segments behind the place, until the page is full; returns true if there are no more.
    async fn grow(&self, workspace: &Id, mut growing: Growing) -> Result<(Growing, bool)> {
        let days = growing.request.window;
        let first = growing.place.max(Some(UnmatchedPlace::before(days.from())));
        let first = first.unwrap_or_else(|| UnmatchedPlace::before(days.from()));
        let log =
            LogId { workspace: workspace.clone(), day: first.day, kind: Kind::Unmatched, lane: first.lane };
        let end = key::segments_of_days(workspace, days.from(), days.to()).to;
        let mut range = KeyRange { to: end.clone(), ..key::segments_from(&log, first.seq) };
        for _ in 0..MAX_LOOKS {
            // Nothing is behind the last day.
            if range.from > range.to {
                return Ok((growing, true));
            }
            let Some((log, seq)) = scan::first_within(&*self.table, range.clone()).await? else {
                return Ok((growing, true));
            };
            if log.kind != Kind::Unmatched {
                // Unmatched outcomes are the last kind of a day.
                growing.place = growing.place.max(Some(UnmatchedPlace::before(log.day)));
                range = KeyRange {
                    to: end.clone(),
                    ..key::segments_of_kind(workspace, log.day, Kind::Unmatched)
                };
                continue;
            }
            if growing.segments >= MAX_SEGMENTS {
                return Ok((growing, false));
            }
            let some = self.known(&log, seq).await?;
            let Some(last) = some.last().map(|known| known.segment.seq) else { continue };
            // A segment may have many rows, so they are not processed on the threads that answer.
            let taking = work::piece(move || {
                let has_room = growing.take_all(&some)?;
                Ok::<_, Error>((growing, has_room))
            });
            let taken = taking.await;
            let taken =
                taken.map_err(|error| Error::unavailable("reading was interrupted").because(error))?;
            let has_room;
            (growing, has_room) = taken?;
            if !has_room {
                return Ok((growing, false));
            }
            range = KeyRange { to: end.clone(), ..key::segments_from(&log, last + 1) };
        }
        Ok((growing, false))
    }

    /// Reads some segments of a log from one on, with their decisions.
    async fn known(&self, log: &LogId, first: u64) -> Result<Vec<DecidedSegment>> {
        let taken = unmatched::taken_up(&*self.table, log).await?;
        let query = TableQuery::table(key::segments_from(log, first)).limit(SEGMENTS_AT_ONCE);
        let known = self.table.query(&query).await?.items.into_iter().map(async |item| {
            let segment = Segment::from_item(item)?;
            let of = UnmatchedSegment { log: log.clone(), seq: segment.seq };
            // Decisions are read first, so that the number of those carried out is no older.
            let decisions = unmatched::decisions(&*self.table, &of, 1).await?;
            let decisions: Vec<_> =
                decisions.into_iter().map(|(id, decision)| (id.number, decision)).collect();
            let waiting = unmatched::of_segment(&*self.table, &of).await?;
            let decided = decided(&decisions);
            Ok::<_, Error>(DecidedSegment {
                is_taken: segment.seq <= taken,
                segment,
                decisions,
                decided,
                waiting,
            })
        });
        try_join_all(known).await
    }
}

/// Returns the first decision about each row that has one, by its index.
fn decided(decisions: &[(u32, Decision)]) -> BTreeMap<u32, usize> {
    let mut decided = BTreeMap::new();
    for (at, (_, decision)) in decisions.iter().enumerate() {
        let rows = decision.matched.keys().chain(&decision.expired).chain(&decision.refused);
        rows.for_each(|row| _ = decided.entry(*row).or_insert(at));
    }
    decided
}

impl Growing {
    /// Takes the rows of some segments; returns true if all of them had room.
    fn take_all(&mut self, some: &[DecidedSegment]) -> Result<bool> {
        for known in some {
            if !self.take(known)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the rows of a segment that are behind the place; returns true if all of them had room.
    fn take(&mut self, known: &DecidedSegment) -> Result<bool> {
        self.segments += 1;
        let of = UnmatchedSegment { log: known.segment.log.clone(), seq: known.segment.seq };
        let columns = match known.segment.unpack(|name| COLUMNS.contains(&name)) {
            Ok(columns) => columns,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.page.warnings.push(format!("segment {of} cannot be read and is left out: {error}"));
                let last = UnmatchedPlace::of(&of, known.segment.rows.saturating_sub(1) as u32);
                self.place = self.place.max(Some(last));
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        for row in 0..columns.rows as u32 {
            let place = UnmatchedPlace::of(&of, row);
            if self.request.after.is_some_and(|after| place <= after) {
                continue;
            }
            if !self.take_row(known, &columns, place)? {
                return Ok(false);
            }
            self.place = Some(place);
        }
        Ok(true)
    }

    /// Takes a row; returns true if it had room.
    fn take_row(&mut self, known: &DecidedSegment, columns: &Columns, place: UnmatchedPlace) -> Result<bool> {
        let asked = question(columns, place.row as usize)?;
        if self.request.key.as_ref().is_some_and(|key| *key != asked.key) {
            return Ok(true);
        }
        let (state, decision) = known.state(place.row);
        if self.request.lists(state) && self.request.limit > 0 {
            if self.told.len() >= self.request.limit {
                return Ok(false);
            }
            let matched = decision.and_then(|decision| decision.matched.get(&place.row));
            self.told.push(UnexplainedOutcome {
                place,
                state,
                arrived_at: known.segment.appended_at,
                judged: matched.and_then(|judged| LabelledInstants::of(judged)),
                as_of: decision.map(|decision| decision.as_of),
                looked: known.waiting.as_ref().and_then(|waiting| waiting.looked).filter(|_| known.is_taken),
                asked,
            });
        }
        *self.page.counts.entry(state).or_default() += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The walk goes from any other log of a day to the logs of unmatched outcomes.
    #[test]
    fn unmatched_outcomes_are_the_last_of_their_day() {
        assert!(Kind::ALL.iter().all(|kind| kind.letter() < Kind::Unmatched.letter()));
    }
}
