//! Settling outcomes without a date again. A decision is final; so a decided outcome is taken back by a retraction, and appended
//! again in its original form, without a date. It then waits like any other, and judges the predictions found now.
//!
//! All are ordinary batches under names made from the place of the outcome, which are remembered for good. First all is
//! retracted, day by day, then it is appended again: a repeat after a crash, or a second call, continues from there, and never
//! retracts rows that were appended again.

use std::collections::BTreeMap;

use catalog::Workspace;
use event::{
    Column, Columns, Day, Error, ErrorKind, Id, Kind, Result, Timestamp, Values, Window,
    fields::{MAX_KEY_BYTES, REASON, RETRACTED},
    lane::lane_of,
};
use log::{
    key::UnmatchedSegment,
    scan::{self, LogHead},
    segment_item::Segment,
    unmatched::{self, WAITS_DAYS},
};
use table::Table;

use crate::{Batch, Ingest, Remember, SubmitError};

/// Reason in the retraction of an outcome that is settled again.
const BECAUSE: &str = "it is settled again";

/// Fields of an unmatched outcome that its retraction names.
const NAMED: [&str; 2] = ["key", "observed_at"];

/// Maximum outcomes without a date that are settled again by one call.
const MAX_ROWS: usize = 1_000;

/// Default number of days that are searched, and number of segments read at once.
const DAYS: i64 = WAITS_DAYS + 10;
const SEGMENTS_AT_ONCE: u64 = 16;

/// Outcomes without a date that are to be settled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rematching {
    /// Key of the outcomes.
    pub key: String,
    /// Instant at which they were observed; any, when `None`.
    pub observed_at: Option<Timestamp>,
    /// Days on which they came.
    pub window: Window,
}

impl Rematching {
    /// Parses it from words; without days, the latest ones in which an outcome may wait.
    ///
    /// # Errors
    /// `Invalid`, when a word is wrong or the window has more than [`MAX_WINDOW_DAYS`](event::MAX_WINDOW_DAYS).
    pub fn parse(
        (key, observed_at): (&str, Option<&str>),
        (from, to): (Option<&str>, Option<&str>),
        now: Timestamp,
    ) -> Result<Self> {
        if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
            let what = format!("key: it has {} bytes; a key of outcomes has 1 to {MAX_KEY_BYTES}", key.len());
            return Err(Error::invalid(what));
        }
        let day = |name: &str, text: &str| {
            text.parse::<Day>().map_err(|error| Error::invalid(format!("{name}: {error}")))
        };
        let to = to.map_or(Ok(now.day()), |to| day("to", to))?;
        let first = || to.start().plus_seconds(-(DAYS - 1) * 24 * 60 * 60).day();
        let from = from.map_or_else(|| Ok(first()), |from| day("from", from))?;
        let observed_at = observed_at.map(Timestamp::parse).transpose()?;
        Ok(Self { key: key.to_owned(), observed_at, window: Window::new(from, to)?.bounded()? })
    }
}

/// Result for the outcomes of a key that were observed at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rematched {
    /// Instant of the observation.
    pub observed_at: Timestamp,
    /// Result for these outcomes.
    pub became: Became,
}

/// Result of settling outcomes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// They were taken back from the predictions of these instants, and the last waits again.
    Again(Vec<Timestamp>),
    /// The last of them waits already, and was not changed.
    Waiting,
    /// The last of them waited for too long and judges nothing; there is nothing to take back.
    Expired,
    /// The last of them would judge too many predictions and judges none; there is nothing to take back.
    Refused,
}

impl Became {
    /// Name in answers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Again(_) => Self::NAMES[0],
            Self::Waiting => Self::NAMES[1],
            Self::Expired => Self::NAMES[2],
            Self::Refused => Self::NAMES[3],
        }
    }

    /// Names of all results.
    pub const NAMES: [&'static str; 4] = ["again", "waiting", "expired", "refused"];
}

/// Place of an unmatched outcome.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnmatchedRow {
    /// Segment of the outcome.
    pub segment: UnmatchedSegment,
    /// Row in the segment.
    pub row: u32,
}

impl UnmatchedRow {
    /// Name in idempotency keys.
    fn name(&self) -> String {
        let UnmatchedSegment { log, seq } = &self.segment;
        format!("{}.{:02}.{seq}.{}", log.day, log.lane, self.row)
    }
}

/// Progress of an unmatched outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Appended,
    Expired,
    Refused,
}

/// Unmatched outcomes by the time of their observation: the time of arrival, the place and the progress of each.
type Found = BTreeMap<Timestamp, Vec<(Timestamp, UnmatchedRow, State)>>;

impl Ingest {
    /// Settles the outcomes without a date of a key again: all their judgements are retracted, and the last of those observed at
    /// one instant is appended again without a date. Outcomes that wait already are not changed. Returns nothing, when none came
    /// on these days.
    ///
    /// # Errors
    /// `TooLarge`, when there are too many; as [`Ingest::rematch`].
    pub async fn rematch_key(
        &self,
        workspace: &Workspace,
        rematching: &Rematching,
    ) -> std::result::Result<Vec<Rematched>, SubmitError> {
        let table = &*self.appender.table;
        let found = find(table, workspace.id(), rematching).await?;
        let mut all = Vec::with_capacity(found.len());
        for (observed_at, mut same) in found {
            same.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            let became = match same.last().map(|(.., state)| *state) {
                Some(State::Appended) => {
                    // All that were ever decided are retracted, and the last is appended again.
                    let decided = same.into_iter().filter(|(.., state)| *state == State::Appended);
                    let rows: Vec<UnmatchedRow> = decided.map(|(_, row, _)| row).collect();
                    Became::Again(self.rematch(table, workspace, &rows).await?)
                }
                Some(State::Expired) => Became::Expired,
                Some(State::Refused) => Became::Refused,
                Some(State::Waiting) | None => Became::Waiting,
            };
            all.push(Rematched { observed_at, became });
        }
        Ok(all)
    }

    /// Takes back the decisions on unmatched outcomes of one key and one `observed_at`, and appends the last of them again without
    /// a date. Returns the instants of the predictions that they judged.
    ///
    /// # Errors
    /// `Conflict`, when one of them judges nothing or is not appended yet; `Incomplete`, when its events are gone; as [`Ingest::submit`].
    pub async fn rematch(
        &self,
        table: &dyn Table,
        workspace: &Workspace,
        rows: &[UnmatchedRow],
    ) -> std::result::Result<Vec<Timestamp>, SubmitError> {
        let Some(last) = rows.last() else { return Ok(Vec::new()) };
        let mut judged = Vec::with_capacity(rows.len());
        for row in rows {
            judged.push(judged_by(table, row).await?);
        }
        let again = events_of(table, last).await?;
        for (row, judged) in rows.iter().zip(&judged) {
            self.retract(workspace, &events_of(table, row).await?, (judged, last, row)).await?;
        }
        let today = self.clock().now().day();
        let batch = Batch { days: vec![today], waits: vec![true], ..batch(again) };
        let name = format!("rematch-{}-again", last.name());
        self.submit(workspace, batch, Some(&name), Remember::Forever).await?;
        Ok(judged.concat())
    }

    /// Retracts an unmatched outcome from the predictions that it judges, in a batch for each day. If there are several days, those
    /// that are gone are left out.
    async fn retract(
        &self,
        workspace: &Workspace,
        outcome: &Columns,
        (judged, last, row): (&[Timestamp], &UnmatchedRow, &UnmatchedRow),
    ) -> std::result::Result<(), SubmitError> {
        let (Some(first), Some(until)) = (judged.first(), judged.last()) else { return Ok(()) };
        let window = Window::new(first.day(), until.day())?;
        let kept = self.catalog().kept(workspace.id(), window, self.clock().now()).await?;
        let is_of_one = first.day() == until.day();
        for of_day in judged.chunk_by(|one, other| one.day() == other.day()) {
            let day = of_day[0].day();
            if !is_of_one && !kept.keeps(day) {
                continue;
            }
            let mut name = format!("rematch-{}-retract-{}", last.name(), row.name());
            if !is_of_one {
                name = format!("{name}-{day}");
            }
            let batch = Batch { days: vec![day; of_day.len()], ..batch(retraction(outcome, of_day)) };
            self.submit(workspace, batch, Some(&name), Remember::Forever).await?;
        }
        Ok(())
    }
}

/// Finds the unmatched outcomes of a key.
async fn find(table: &dyn Table, workspace: &Id, rematching: &Rematching) -> Result<Found> {
    let (mut found, mut rows) = (Found::new(), 0);
    for day in rematching.window.days() {
        let heads = scan::heads_of_kind(table, workspace, day, Kind::Unmatched).await?;
        let Some(first) = heads.first() else { continue };
        let first = scan::first_of(table, &log::key::LogId { lane: 0, ..first.log.clone() }).await?;
        let lanes = first.and_then(|first| first.lanes).unwrap_or(1);
        let lane = lane_of(&rematching.key, lanes);
        for LogHead { log, seq } in heads.into_iter().filter(|head| head.log.lane == lane) {
            for first in (1..=seq).step_by(SEGMENTS_AT_ONCE as usize) {
                let last = seq.min(first + SEGMENTS_AT_ONCE - 1);
                for segment in scan::segments(table, &log, first, last).await? {
                    rows += find_in(table, segment, rematching, &mut found).await?;
                }
            }
        }
        if rows > MAX_ROWS {
            let message =
                format!("the key has more than {MAX_ROWS} outcomes without a date there; name fewer days");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
    }
    Ok(found)
}

/// Finds the unmatched outcomes of the key in a segment, and returns their number.
async fn find_in(
    table: &dyn Table,
    segment: Segment,
    rematching: &Rematching,
    found: &mut Found,
) -> Result<usize> {
    let columns = segment.unpack(|name| NAMED.contains(&name))?;
    let [keys, times] = NAMED.map(|name| columns.column(name));
    let (Some(keys), Some(times)) = (keys, times) else { return Ok(0) };
    let of = |row: usize| {
        let at = times.time(row).and_then(Timestamp::from_micros)?;
        let is_wanted = keys.text(row) == Some(&*rematching.key)
            && rematching.observed_at.is_none_or(|wanted| wanted == at);
        is_wanted.then_some((row as u32, at))
    };
    let rows: Vec<(u32, Timestamp)> = (0..columns.rows).filter_map(of).collect();
    if rows.is_empty() {
        return Ok(0);
    }
    let place = UnmatchedSegment { log: segment.log.clone(), seq: segment.seq };
    // Decisions are read first: then the number of carried-out ones is no older.
    let decisions = unmatched::decisions(table, &place, 1).await?;
    let waiting = unmatched::of_segment(table, &place).await?;
    let state = |row: u32| {
        let about = decisions.iter().find(|(_, decision)| decision.rows().any(|one| one == row));
        match about {
            Some((_, decision)) if decision.expired.contains(&row) => State::Expired,
            Some((_, decision)) if decision.refused.contains(&row) => State::Refused,
            Some((id, _)) if waiting.as_ref().is_none_or(|waiting| id.number <= waiting.decided) => {
                State::Appended
            }
            _ => State::Waiting,
        }
    };
    for (row, at) in &rows {
        let stands = UnmatchedRow { segment: place.clone(), row: *row };
        found.entry(*at).or_default().push((segment.appended_at, stands, state(*row)));
    }
    Ok(rows.len())
}

/// Reads the instants of the predictions that an unmatched outcome judges.
async fn judged_by(
    table: &dyn Table,
    UnmatchedRow { segment, row }: &UnmatchedRow,
) -> Result<Vec<Timestamp>> {
    let decisions = unmatched::decisions(table, segment, 1).await?;
    let found = decisions.iter().find_map(|(id, decision)| Some((id.number, decision.matched.get(row)?)));
    let (number, judged) =
        found.ok_or_else(|| Error::conflict("it is not decided that the outcome judges a prediction"))?;
    let waiting = unmatched::of_segment(table, segment).await?;
    if waiting.is_some_and(|waiting| waiting.decided < number) {
        return Err(Error::conflict("what was decided of the outcome is not appended yet; try again"));
    }
    let missing = || Error::corrupt(format!("a decision about {segment} has no time"));
    judged.iter().map(|at| Timestamp::from_micros(*at).ok_or_else(missing)).collect()
}

/// Reads an unmatched outcome in its original form.
async fn events_of(table: &dyn Table, UnmatchedRow { segment, row }: &UnmatchedRow) -> Result<Columns> {
    let found = scan::segments(table, &segment.log, segment.seq, segment.seq).await?;
    let columns = found.first().map(|segment| segment.unpack(|_| true)).transpose()?;
    let columns = columns.filter(|columns| (*row as usize) < columns.rows);
    let missing = || Error::conflict(format!("the unmatched outcomes {segment} are gone"));
    Ok(columns.ok_or_else(missing)?.take(&[*row as usize]))
}

/// Makes a batch of outcomes.
fn batch(columns: Columns) -> Batch {
    Batch {
        kind: Kind::Outcomes,
        days: Vec::new(),
        waits: Vec::new(),
        numbers: (1..=columns.rows as u64).collect(),
        event_id: None,
        columns,
    }
}

/// Makes the retraction of an unmatched outcome from the predictions that it judges: a row for each.
fn retraction(columns: &Columns, judged: &[Timestamp]) -> Columns {
    let text = |text: &str| Values::Text(judged.iter().map(|_| text).collect());
    let columns = columns.take(&vec![0; judged.len()]);
    let named = columns.columns.iter().filter(|column| NAMED.contains(&column.name.as_str())).cloned();
    let mut by_name: Vec<Column> = named.collect();
    by_name.push(Column::new("predicted_at", Values::Time(judged.iter().map(|at| at.micros()).collect())));
    by_name.push(Column::new(RETRACTED, text("true")));
    by_name.push(Column::new(REASON, text(BECAUSE)));
    // Sorted in the order of the fields.
    let place = |column: &Column| Kind::Outcomes.fields().iter().position(|field| field.name == column.name);
    by_name.sort_by_key(place);
    Columns { rows: columns.rows, columns: by_name }
}
