//! Answers from the vintages of days, which the projector keeps: maturity, without reading an event, and the state as of a past
//! instant of days that have expired.

use std::{collections::BTreeMap, sync::Arc};

use catalog::{Catalog, Kept};
use event::{Day, Error, Id, Result, Timestamp};
use fold::{
    Evaluation,
    maturity::{AGES, Age},
};
use log::{
    key,
    vintage::{self, Vintage, VintageUntil, Vintages},
};
use polars::prelude::DataFrame;
use table::{Query as TableQuery, Table};

use crate::{
    Query,
    budget::Hold,
    evaluation_rows::{EvaluationRow, frame_of},
    evaluations,
    known::Expired,
    maturity::{BYTES_OF_EVALUATION, EvaluationAtAge, Told, rows_of},
    read::Reading,
    request::{Dataset, Request},
    series::held_items,
};

/// Returns true if vintages suffice for a request of maturity.
pub(crate) fn is_of_vintages(request: &Request) -> bool {
    let plain = Request { what: Dataset::Evaluations, mature: None, ..request.clone() };
    request.is_of_ages() && !plain.is_of_logs() && !request.is_of_snapshot
}

/// Reads the vintages of a window with one query.
///
/// # Errors
/// Errors of the table and of the bounds, and `Corrupt`.
pub(crate) async fn vintages_of(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (from, to): (Day, Day),
    hold: &Hold,
) -> Result<Vintages> {
    let items =
        held_items(table, TableQuery::table(key::vintages_between(workspace, from, to)), hold).await?;
    vintage::assemble(&items)
}

/// Reads the evaluation of a vintage.
///
/// # Errors
/// `Corrupt`, if it cannot be read.
pub(crate) fn evaluation_of(day: Day, age: Age, vintage: &Vintage) -> Result<Evaluation> {
    let evaluation = Evaluation::from_states(&vintage.states);
    evaluation.map_err(|error| Error::corrupt(format!("{day}, as it stood at {}: {error}", age.name)))
}

/// The answer from vintages, and warnings of unknown maturity.
type Matured = (DataFrame, Vec<String>);

impl Query {
    /// Answers a request from the vintages; `None`, if they do not suffice for the window.
    pub(crate) async fn at_ages(
        &self,
        workspace: &Id,
        request: &Request,
        hold: &Hold,
    ) -> Result<Option<Matured>> {
        let kept = self.catalog.kept(workspace, request.days_read(), self.clock.now()).await?;
        matured(&self.table, workspace, (request, &kept, self.closed_instant()), hold).await
    }
}

/// Computes maturity of a window from the vintages up to the instant `closed`; `None`, if a day of it that has its events lacks
/// some vintages.
async fn matured(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (request, kept, closed): (&Request, &Kept, Timestamp),
    hold: &Hold,
) -> Result<Option<Matured>> {
    let Some(until) = VintageUntil::load(&**table, workspace).await? else { return Ok(None) };
    let window = request.days_read();
    let mut vintages = vintages_of(table, workspace, (window.from(), window.to()), hold).await?;
    // Read after the vintages, so that no vintage is newer.
    let read = Request { window, ..request.clone() };
    let latest = evaluations::stored(table, workspace, (&read, false), hold).await?;
    let mut days = Vec::with_capacity(latest.len());
    for (day, latest) in latest {
        let of_day = vintages.remove(&day).unwrap_or_default();
        let is_reached = |age: &Age, by: Timestamp| age.of(day).is_some_and(|at| at <= by);
        let last = of_day.last_key_value().map_or(0, |(hours, _)| *hours);
        let is_lacking = AGES.iter().any(|age| is_reached(age, until.at.min(closed)) && age.hours > last);
        if is_lacking && kept.keeps(day) {
            // A day before the window is skipped: nothing is learned from it then.
            if !request.window.contains(day) {
                continue;
            }
            return Ok(None);
        }
        let mut at_ages = ages_of(day, &of_day, closed)?;
        // All of them are kept until the answer is made.
        let kept: usize = at_ages.iter().map(EvaluationAtAge::releases).sum();
        hold.take(kept as u64 * BYTES_OF_EVALUATION).await?;
        at_ages.push(EvaluationAtAge::latest(Told::Stored(Arc::new(latest))));
        days.push((day, at_ages));
    }
    let (rows, warnings) = rows_of(&days, &[], request);
    Ok(Some((frame_of(rows, request, hold).await?, warnings)))
}

/// Returns a day at the ages up to that of its last vintage. For a missing vintage before that, nothing was known.
fn ages_of(day: Day, vintages: &BTreeMap<u32, Vintage>, closed: Timestamp) -> Result<Vec<EvaluationAtAge>> {
    let last = vintages.last_key_value().map_or(0, |(hours, _)| *hours);
    let ages = AGES.into_iter().filter(|age| age.hours <= last);
    let reached = ages.filter_map(|age| Some((age, age.of(day)?))).filter(|(_, at)| *at <= closed);
    let at_ages = |(age, at): (Age, Timestamp)| {
        let evaluation = match vintages.get(&age.hours) {
            Some(vintage) => evaluation_of(day, age, vintage)?,
            None => Evaluation::default(),
        };
        Ok(EvaluationAtAge { age: age.name, at: Some(at), told: Told::Stored(Arc::new(evaluation)) })
    };
    reached.map(at_ages).collect()
}

/// Returns true if a request asks for a past state, and vintages suffice for it.
pub(crate) fn is_as_of(request: &Request) -> bool {
    let plain = Request { as_of: None, ..request.clone() };
    let is_plain = !plain.is_of_logs() && !request.is_of_snapshot;
    request.as_of.is_some() && request.what.is_kept_at_ages() && is_plain
}

/// Evaluates predictions as of a past instant; days that have expired are shown as of their last vintage by then.
///
/// # Errors
/// Errors of [`Expired::told`], and those of evaluations from events.
pub(crate) async fn known_then(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    let expired = of_expired(reading, request).await?;
    let prepared = evaluations::prepared_of_kept(reading, catalog, request).await?;
    let periods = evaluations::periods(reading, &prepared, request).await?;
    let expired =
        expired.iter().flat_map(|(day, of)| of.rows().map(|metrics| EvaluationRow::new(*day, metrics)));
    let rows = periods.iter().flat_map(|period| period.rows(request, &prepared.grouping.by));
    let mut rows: Vec<_> = rows.chain(expired).collect();
    rows.sort_by_key(|row| row.day);
    frame_of(rows, request, &reading.hold).await
}

/// Reads the evaluations of expired days of a reading as of its instant.
async fn of_expired(reading: &Reading, request: &Request) -> Result<Vec<(Day, Evaluation)>> {
    let (table, workspace, hold) = (&reading.table, &reading.workspace, &reading.hold);
    let expired = Expired::of(reading, request.days_read()).await?;
    let Some(days) = expired.ends() else { return Ok(Vec::new()) };
    let vintages = vintages_of(table, workspace, days, hold).await?;
    let latest = evaluations::stored(table, workspace, (request, false), hold).await?;
    expired.told(reading, (&vintages, |vintage: &Vintage| vintage.applied.is_empty()), latest, evaluation_of)
}
