//! The stages of days, which the projector keeps, answer two questions: maturity, without reading an event, and what was known then
//! of days whose events have expired.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use catalog::{Catalog, Kept};
use event::{Day, Error, Id, Result, Timestamp, Window};
use fold::{
    Evaluation,
    maturity::{AGES, Age},
};
use log::{
    expired, key,
    staged::{self, Stage, StagedUntil, Stages},
};
use polars::prelude::DataFrame;
use table::{Query as TableQuery, Table};

use crate::{
    Query,
    budget::Hold,
    evaluation_rows::{EvaluationRow, frame_of},
    evaluations,
    maturity::{BYTES_OF_EVALUATION, Staged, Told, rows_of},
    read::Reading,
    request::{Request, What},
    series::held_items,
};

/// Whether a request asks for no more than what stages say.
pub(crate) fn is_of_stages(request: &Request) -> bool {
    let plain = Request { what: What::Evaluations, mature: None, ..request.clone() };
    request.is_of_ages() && !plain.is_of_logs() && !request.is_of_snapshot
}

/// The stages of a window: one query.
///
/// # Errors
/// Those of the table, `Corrupt`, and those of the bounds.
pub(crate) async fn stages_of(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (from, to): (Day, Day),
    hold: &Hold,
) -> Result<Stages> {
    let items = held_items(table, TableQuery::table(key::stages_between(workspace, from, to)), hold).await?;
    staged::assemble(&items)
}

/// What a stage says.
///
/// # Errors
/// `Corrupt`, when it cannot be read.
pub(crate) fn evaluation_of(day: Day, age: Age, stage: &Stage) -> Result<Evaluation> {
    let evaluation = Evaluation::from_states(&stage.states);
    evaluation.map_err(|error| Error::corrupt(format!("{day}, as it stood at {}: {error}", age.name)))
}

/// What stages answer, and a sentence on what they do not tell.
type Matured = (DataFrame, Option<String>);

impl Query {
    /// What is stored of stages; `None`, when that is not all that the window needs.
    pub(crate) async fn staged(
        &self,
        workspace: &Id,
        request: &Request,
        hold: &Hold,
    ) -> Result<Option<Matured>> {
        let kept = self.catalog.kept(workspace, request.days_read(), self.clock.now()).await?;
        matured(&self.table, workspace, (request, &kept, self.closed_instant()), hold).await
    }
}

/// Maturity of a window, by the stages up to the instant `closed`; `None`, when a day of it that has its events lacks some.
async fn matured(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (request, kept, closed): (&Request, &Kept, Timestamp),
    hold: &Hold,
) -> Result<Option<Matured>> {
    let Some(until) = StagedUntil::load(&**table, workspace).await? else { return Ok(None) };
    let window = request.days_read();
    let mut stages = stages_of(table, workspace, (window.from(), window.to()), hold).await?;
    // Read after the stages, so that no stage knows more.
    let read = Request { window, ..request.clone() };
    let latest = evaluations::stored(table, workspace, (&read, false), hold).await?;
    let mut days = Vec::with_capacity(latest.len());
    for (day, latest) in latest {
        let of_day = stages.remove(&day).unwrap_or_default();
        let is_reached = |age: &Age, by: Timestamp| age.of(day).is_some_and(|at| at <= by);
        let last = of_day.last_key_value().map_or(0, |(hours, _)| *hours);
        let is_lacking = AGES.iter().any(|age| is_reached(age, until.at.min(closed)) && age.hours > last);
        if is_lacking && kept.keeps(day) {
            // From a day before the window it is not learned then.
            if !request.window.contains(day) {
                continue;
            }
            return Ok(None);
        }
        let mut staged = ages_of(day, &of_day, closed)?;
        // They are all kept until the answer is made.
        let kept: usize = staged.iter().map(Staged::releases).sum();
        hold.take(kept as u64 * BYTES_OF_EVALUATION).await?;
        staged.push(Staged::latest(Told::Stored(Arc::new(latest))));
        days.push((day, staged));
    }
    let (rows, warning) = rows_of(&days, &[], request);
    Ok(Some((frame_of(rows, request, hold).await?, warning)))
}

/// A day at the ages up to that of its last stage. Where one is missing before that, nothing was known.
fn ages_of(day: Day, stages: &BTreeMap<u32, Stage>, closed: Timestamp) -> Result<Vec<Staged>> {
    let last = stages.last_key_value().map_or(0, |(hours, _)| *hours);
    let ages = AGES.into_iter().filter(|age| age.hours <= last);
    let reached = ages.filter_map(|age| Some((age, age.of(day)?))).filter(|(_, at)| *at <= closed);
    let staged = |(age, at): (Age, Timestamp)| {
        let evaluation = match stages.get(&age.hours) {
            Some(stage) => evaluation_of(day, age, stage)?,
            None => Evaluation::default(),
        };
        Ok(Staged { age: age.name, at: Some(at), told: Told::Stored(Arc::new(evaluation)) })
    };
    reached.map(staged).collect()
}

/// Whether a request asks what was known then, and no more of it than stages say.
pub(crate) fn is_as_of(request: &Request) -> bool {
    let plain = Request { as_of: None, ..request.clone() };
    let is_plain = !plain.is_of_logs() && !request.is_of_snapshot;
    request.as_of.is_some() && request.what.is_kept_at_ages() && is_plain
}

/// How good the predictions were by what was known then: of days whose events have expired as they stood at their last age.
///
/// # Errors
/// As [`of_expired`], and those of evaluations from events.
pub(crate) async fn known_then(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    let expired = of_expired(reading, request).await?;
    let prepared = evaluations::prepared_of_kept(reading, catalog, request).await?;
    let periods = evaluations::periods(reading, &prepared, request).await?;
    let expired =
        expired.iter().flat_map(|(day, of)| of.rows().map(|figures| EvaluationRow::new(*day, figures)));
    let rows = periods.iter().flat_map(|period| period.rows(request, &prepared.grouping.by));
    let mut rows: Vec<_> = rows.chain(expired).collect();
    rows.sort_by_key(|row| row.day);
    frame_of(rows, request, &reading.hold).await
}

/// What a day whose events have expired was known to be as of then.
enum Known {
    /// As it stood at an age.
    At(Age, Evaluation),
    /// As it was evaluated last: it had expired by then.
    Last(Evaluation),
    /// Nothing of it was known.
    Nothing,
}

/// The days of a reading whose events have expired, as they stood at their last age before the instant of the reading, or as
/// they were evaluated last if they had expired by then. The answer says of each which it is.
///
/// # Errors
/// `Gone`, when none is kept of a day that was there; those of the table, and `Corrupt`.
async fn of_expired(reading: &Reading, request: &Request) -> Result<Vec<(Day, Evaluation)>> {
    let is_there = |day: &Day| !reading.kept.keeps(*day) && day.start() <= reading.closed;
    let days: Vec<Day> = reading.window.days().filter(is_there).collect();
    let (Some(first), Some(last)) = (days.first(), days.last()) else { return Ok(Vec::new()) };
    let Reading { table, workspace, hold, closed, .. } = reading;
    let stages = stages_of(table, workspace, (*first, *last), hold).await?;
    let marks = expired::between(&**table, workspace, *first, *last).await?;
    let gone: BTreeMap<Day, Timestamp> = marks.into_iter().map(|mark| (mark.day, mark.at)).collect();
    let latest = evaluations::stored(table, workspace, (request, false), hold).await?;
    let mut latest: BTreeMap<Day, Evaluation> = latest.into_iter().collect();
    let (mut found, mut said) = (Vec::new(), BTreeMap::<_, Vec<Day>>::new());
    for day in days {
        let Some(last) = latest.remove(&day) else { continue };
        let is_last = gone.get(&day).is_some_and(|at| at <= closed);
        let known = match is_last {
            true => Known::Last(last),
            false => known_at(day, stages.get(&day), *closed)?,
        };
        let (age, evaluation) = match known {
            Known::At(age, evaluation) => (Some(age), evaluation),
            Known::Last(evaluation) => (None, evaluation),
            Known::Nothing => continue,
        };
        said.entry(age).or_default().push(day);
        found.push((day, evaluation));
    }
    for (age, days) in said {
        reading.warn(as_it_stood(age, &days));
        reading.has_stages.store(true, Ordering::Relaxed);
    }
    Ok(found)
}

fn as_it_stood(age: Option<Age>, days: &[Day]) -> String {
    let days = match days {
        [day] => format!("the events of {day}"),
        [first, .., last] => format!("the events of {} days from {first} to {last}", days.len()),
        [] => "no events".into(),
    };
    match age {
        Some(age) => format!(
            "{days} have expired: in the answer is what was known {} after the end of the day",
            age.name
        ),
        None => format!("{days} had expired by then: in the answer is what was known last"),
    }
}

/// What was known of a day at an instant, by its stages.
fn known_at(day: Day, stages: Option<&BTreeMap<u32, Stage>>, at: Timestamp) -> Result<Known> {
    let none = BTreeMap::new();
    let stages = stages.unwrap_or(&none);
    let reached = AGES.into_iter().rfind(|age| age.of(day).is_some_and(|reached| reached <= at));
    let until = reached.map_or(0, |age| age.hours);
    if let Some((hours, stage)) = stages.range(..=until).next_back() {
        let age = AGES.into_iter().find(|age| age.hours == *hours);
        let age = age
            .ok_or_else(|| Error::corrupt(format!("{day} has a stage of {hours} hours, which is no age")))?;
        return Ok(Known::At(age, evaluation_of(day, age, stage)?));
    }
    let first = stages
        .first_key_value()
        .and_then(|(hours, stage)| Some((AGES.into_iter().position(|age| age.hours == *hours)?, stage)));
    match first {
        // At the age before it, or by it, nothing was known.
        Some((number, stage)) if number > 0 || stage.applied.is_empty() => Ok(Known::Nothing),
        Some((number, _)) => Err(Error::gone(format!(
            "the events of {day} have expired, and what was known of it at {at} is not kept: the first that is kept is of {} ({} after the end of the day); ask as of then or later, or leave the day out",
            AGES[number].of(day).unwrap_or(at),
            AGES[number].name,
        ))),
        None => Err(Error::gone(format!(
            "the events of {day} have expired, and of what was known of it at {at} nothing is kept; ask without as-of for what was known of it last, or leave the day out"
        ))),
    }
}

impl Reading {
    /// Warns when events of a window have expired, so that they are not in what is made of the logs.
    pub(crate) fn warn_of_expired(&self, window: Window) {
        let expired: Vec<Day> = window.days().filter(|day| !self.kept.keeps(*day)).collect();
        if let (Some(last), count) = (expired.last(), expired.len()) {
            self.warn(format!(
                "the events of {count} of the days, up to {last}, have expired and are not in the answer"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use event::ErrorKind;
    use log::projection::Applied;

    use super::*;

    fn stages(hours: &[u32]) -> BTreeMap<u32, Stage> {
        let stage = |hours: &u32| {
            let applied = Applied::from([("p/00".to_owned(), 1)]);
            (*hours, Stage { applied, states: vec![Evaluation::default().to_state()], ..Stage::default() })
        };
        hours.iter().map(stage).collect()
    }

    #[test]
    fn the_nearest_earlier_age_is_told_or_why_there_is_none() {
        let day: Day = "2026-06-01".parse().unwrap();
        let told = |stages: &BTreeMap<u32, Stage>, at: &str| match known_at(
            day,
            Some(stages),
            Timestamp::parse(at).unwrap(),
        ) {
            Ok(Known::At(age, _)) => age.name.to_owned(),
            Ok(Known::Last(_)) => "last".into(),
            Ok(Known::Nothing) => "nothing".into(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Gone);
                error.to_string()
            }
        };
        let kept = stages(&[1, 6, 24]);
        assert_eq!(told(&kept, "2026-06-02T01:00:00Z"), "1h");
        assert_eq!(told(&kept, "2026-06-02T23:59:59Z"), "6h");
        // It had expired before it was three days old.
        assert_eq!(told(&kept, "2026-06-20T00:00:00Z"), "1d");
        let early = told(&kept, "2026-06-02T00:30:00Z");
        assert!(
            early.contains("the first that is kept is of 2026-06-02T01:00:00Z (1h after the end"),
            "{early}"
        );
        // One that is missing before a later one is empty.
        let late = stages(&[24, 72]);
        assert_eq!(
            ["2026-06-01T12:00:00Z", "2026-06-02T12:00:00Z"].map(|at| told(&late, at)),
            ["nothing"; 2]
        );
        let empty = BTreeMap::from([(1, Stage::default())]);
        assert_eq!(told(&empty, "2026-06-02T00:30:00Z"), "nothing");
        assert!(told(&stages(&[]), "2026-06-20T00:00:00Z").contains("ask without as-of"));
    }
}
