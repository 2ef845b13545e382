//! Settles outcomes without a date again. A decision is final; so what was decided of one is taken back by a withdrawal, and the outcome is appended
//! again as it came, without a date. It then waits like any other, and judges what is found now.
//!
//! All are ordinary batches under names made of where the outcome stands, which are remembered for good. First all is withdrawn, day by day, then it is appended
//! again: who dies in between, or comes twice, goes on where that ended, and never withdraws what was appended again.

use std::collections::BTreeMap;

use catalog::Workspace;
use event::{
    Column, Columns, Day, Error, ErrorKind, Id, Kind, Result, Timestamp, Values, Window,
    fields::{MAX_KEY_BYTES, REASON, WITHDRAWN},
    lane::lane_of,
};
use log::{
    key::PendingSegment,
    pending::{self, WAITS_DAYS},
    scan::{self, LogHead},
    segment_item::Segment,
};
use table::Table;

use crate::{Batch, Ingest, Remember, SubmitError};

/// What the withdrawal of an outcome that is settled again gives as its reason.
const BECAUSE: &str = "it is settled again";

/// What of a pending outcome its withdrawal names.
const NAMED: [&str; 2] = ["key", "observed_at"];

/// The most outcomes without a date that are settled again by one call.
const MAX_ROWS: usize = 1_000;

/// How many days are gone through that nobody named, and how many segments are read at once.
const DAYS: i64 = WAITS_DAYS + 10;
const SEGMENTS_AT_ONCE: u64 = 16;

/// Which outcomes without a date are to be settled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resettling {
    /// Those of this key.
    pub key: String,
    /// Only those that were observed at this instant.
    pub observed_at: Option<Timestamp>,
    /// Those that came on these days.
    pub window: Window,
}

impl Resettling {
    /// Reads it from words; of no day named, the latest in which something may wait.
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

/// What became of the outcomes of a key that were observed at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resettled {
    /// The instant.
    pub observed_at: Timestamp,
    /// What became of them.
    pub became: Became,
}

/// What became of outcomes that were to be settled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// They were taken back from the predictions of these instants, and the last waits again.
    Again(Vec<Timestamp>),
    /// The last of them waits already, and was left alone.
    Waiting,
    /// The last of them waited for too long and judges nothing; nothing is to be taken back.
    Expired,
    /// The last of them would judge too many predictions and judges none; nothing is to be taken back.
    Refused,
}

impl Became {
    /// Its name in answers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Again(_) => Self::NAMES[0],
            Self::Waiting => Self::NAMES[1],
            Self::Expired => Self::NAMES[2],
            Self::Refused => Self::NAMES[3],
        }
    }

    /// The names of all of them.
    pub const NAMES: [&'static str; 4] = ["again", "waiting", "expired", "refused"];
}

/// Where a pending outcome stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingRow {
    /// Its segment.
    pub segment: PendingSegment,
    /// Its row there.
    pub row: u32,
}

impl PendingRow {
    /// Its name in idempotency keys.
    fn name(&self) -> String {
        let PendingSegment { log, seq } = &self.segment;
        format!("{}.{:02}.{seq}.{}", log.day, log.lane, self.row)
    }
}

/// How far a pending outcome has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Appended,
    Expired,
    Refused,
}

/// Pending outcomes by when they were observed: of each when it came, where it stands and how far it has come.
type Found = BTreeMap<Timestamp, Vec<(Timestamp, PendingRow, State)>>;

impl Ingest {
    /// Settles the outcomes without a date of a key again: what each was decided to judge is withdrawn, and the last of those that were observed at
    /// one instant is appended again without a date. What waits already is left alone. Nothing, when none came on these days.
    ///
    /// # Errors
    /// `TooLarge`, when there are too many; as [`Ingest::resettle`].
    pub async fn resettle_key(
        &self,
        workspace: &Workspace,
        resettling: &Resettling,
    ) -> std::result::Result<Vec<Resettled>, SubmitError> {
        let table = &*self.appender.table;
        let found = find(table, workspace.id(), resettling).await?;
        let mut all = Vec::with_capacity(found.len());
        for (observed_at, mut same) in found {
            same.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            let became = match same.last().map(|(.., state)| *state) {
                Some(State::Appended) => {
                    // Each that was ever decided is withdrawn, and the last is appended again.
                    let decided = same.into_iter().filter(|(.., state)| *state == State::Appended);
                    let rows: Vec<PendingRow> = decided.map(|(_, row, _)| row).collect();
                    Became::Again(self.resettle(table, workspace, &rows).await?)
                }
                Some(State::Expired) => Became::Expired,
                Some(State::Refused) => Became::Refused,
                Some(State::Waiting) | None => Became::Waiting,
            };
            all.push(Resettled { observed_at, became });
        }
        Ok(all)
    }

    /// Takes back what was decided of pending outcomes of one key and one `observed_at`, and appends the last of them again without a date.
    /// Returns the instants of the predictions that they judged.
    ///
    /// # Errors
    /// `Conflict`, when one of them judges nothing or is not appended yet; `Incomplete`, when its events are gone; as [`Ingest::submit`].
    pub async fn resettle(
        &self,
        table: &dyn Table,
        workspace: &Workspace,
        rows: &[PendingRow],
    ) -> std::result::Result<Vec<Timestamp>, SubmitError> {
        let Some(last) = rows.last() else { return Ok(Vec::new()) };
        let mut judged = Vec::with_capacity(rows.len());
        for row in rows {
            judged.push(judged_by(table, row).await?);
        }
        let again = events_of(table, last).await?;
        for (row, judged) in rows.iter().zip(&judged) {
            self.withdraw(workspace, &events_of(table, row).await?, (judged, last, row)).await?;
        }
        let today = self.clock().now().day();
        let batch = Batch { days: vec![today], waits: vec![true], ..batch(again) };
        let name = format!("resettle-{}-again", last.name());
        self.submit(workspace, batch, Some(&name), Remember::Forever).await?;
        Ok(judged.concat())
    }

    /// Withdraws a pending outcome from the predictions that it judges, in a batch for each day. Of several days those are left out that
    /// are gone.
    async fn withdraw(
        &self,
        workspace: &Workspace,
        outcome: &Columns,
        (judged, last, row): (&[Timestamp], &PendingRow, &PendingRow),
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
            let mut name = format!("resettle-{}-withdraw-{}", last.name(), row.name());
            if !is_of_one {
                name = format!("{name}-{day}");
            }
            let batch = Batch { days: vec![day; of_day.len()], ..batch(withdrawal(outcome, of_day)) };
            self.submit(workspace, batch, Some(&name), Remember::Forever).await?;
        }
        Ok(())
    }
}

/// Looks for the pending outcomes of a key.
async fn find(table: &dyn Table, workspace: &Id, resettling: &Resettling) -> Result<Found> {
    let (mut found, mut rows) = (Found::new(), 0);
    for day in resettling.window.days() {
        let heads = scan::heads_of_kind(table, workspace, day, Kind::Pending).await?;
        let Some(first) = heads.first() else { continue };
        let first = scan::first_of(table, &log::key::LogId { lane: 0, ..first.log.clone() }).await?;
        let lanes = first.and_then(|first| first.lanes).unwrap_or(1);
        let lane = lane_of(&resettling.key, lanes);
        for LogHead { log, seq } in heads.into_iter().filter(|head| head.log.lane == lane) {
            for first in (1..=seq).step_by(SEGMENTS_AT_ONCE as usize) {
                let last = seq.min(first + SEGMENTS_AT_ONCE - 1);
                for segment in scan::segments(table, &log, first, last).await? {
                    rows += find_in(table, segment, resettling, &mut found).await?;
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

/// Looks for them in a segment; how many there are.
async fn find_in(
    table: &dyn Table,
    segment: Segment,
    resettling: &Resettling,
    found: &mut Found,
) -> Result<usize> {
    let columns = segment.unpack(|name| NAMED.contains(&name))?;
    let [keys, times] = NAMED.map(|name| columns.column(name));
    let (Some(keys), Some(times)) = (keys, times) else { return Ok(0) };
    let of = |row: usize| {
        let at = times.time(row).and_then(Timestamp::from_micros)?;
        let is_wanted = keys.text(row) == Some(&*resettling.key)
            && resettling.observed_at.is_none_or(|wanted| wanted == at);
        is_wanted.then_some((row as u32, at))
    };
    let rows: Vec<(u32, Timestamp)> = (0..columns.rows).filter_map(of).collect();
    if rows.is_empty() {
        return Ok(0);
    }
    let place = PendingSegment { log: segment.log.clone(), seq: segment.seq };
    // Decisions first: what is said of how many were carried out is no older then.
    let decisions = pending::decisions(table, &place, 1).await?;
    let waiting = pending::of_segment(table, &place).await?;
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
        let stands = PendingRow { segment: place.clone(), row: *row };
        found.entry(*at).or_default().push((segment.appended_at, stands, state(*row)));
    }
    Ok(rows.len())
}

/// The instants of the predictions that a pending outcome judges.
async fn judged_by(table: &dyn Table, PendingRow { segment, row }: &PendingRow) -> Result<Vec<Timestamp>> {
    let decisions = pending::decisions(table, segment, 1).await?;
    let found = decisions.iter().find_map(|(id, decision)| Some((id.number, decision.judges.get(row)?)));
    let (number, judged) =
        found.ok_or_else(|| Error::conflict("it is not decided that the outcome judges a prediction"))?;
    let waiting = pending::of_segment(table, segment).await?;
    if waiting.is_some_and(|waiting| waiting.decided < number) {
        return Err(Error::conflict("what was decided of the outcome is not appended yet; try again"));
    }
    let missing = || Error::corrupt(format!("a decision about {segment} has no time"));
    judged.iter().map(|at| Timestamp::from_micros(*at).ok_or_else(missing)).collect()
}

/// A pending outcome as it came.
async fn events_of(table: &dyn Table, PendingRow { segment, row }: &PendingRow) -> Result<Columns> {
    let found = scan::segments(table, &segment.log, segment.seq, segment.seq).await?;
    let columns = found.first().map(|segment| segment.unpack(|_| true)).transpose()?;
    let columns = columns.filter(|columns| (*row as usize) < columns.rows);
    let missing = || Error::conflict(format!("the pending outcomes {segment} are gone"));
    Ok(columns.ok_or_else(missing)?.take(&[*row as usize]))
}

/// A batch of outcomes.
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

/// What withdraws a pending outcome from the predictions that it judges: a row for each.
fn withdrawal(columns: &Columns, judged: &[Timestamp]) -> Columns {
    let text = |text: &str| Values::Text(judged.iter().map(|_| text).collect());
    let columns = columns.take(&vec![0; judged.len()]);
    let named = columns.columns.iter().filter(|column| NAMED.contains(&column.name.as_str())).cloned();
    let mut by_name: Vec<Column> = named.collect();
    by_name.push(Column::new("predicted_at", Values::Time(judged.iter().map(|at| at.micros()).collect())));
    by_name.push(Column::new(WITHDRAWN, text("true")));
    by_name.push(Column::new(REASON, text(BECAUSE)));
    // In the order of the fields.
    let place = |column: &Column| Kind::Outcomes.fields().iter().position(|field| field.name == column.name);
    by_name.sort_by_key(place);
    Columns { rows: columns.rows, columns: by_name }
}
