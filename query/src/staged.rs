//! Maturity from what is stored: the stages of each day, which the projector keeps, and its evaluation. No event is read.

use std::{collections::BTreeMap, sync::Arc};

use catalog::Kept;
use event::{Day, Error, Id, Result, Timestamp};
use fold::{
    Evaluation,
    maturity::{AGES, Age},
};
use log::{
    key,
    staged::{self, Stage, StagedUntil, Stages},
};
use polars::prelude::DataFrame;
use table::{Query, Table};

use crate::{
    budget::Hold,
    evaluation_rows::frame_of,
    evaluations,
    maturity::{BYTES_OF_EVALUATION, Staged, Told, rows_of},
    request::{Request, What},
    series::held_items,
};

/// Whether a request asks for no more than what stages say.
pub(crate) fn is_of_stages(request: &Request) -> bool {
    let is_of_ages = request.what == What::Maturity || request.mature.is_some();
    let plain = Request { what: What::Evaluations, mature: None, ..request.clone() };
    is_of_ages && !plain.is_of_logs() && !request.is_of_snapshot
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
    let items = held_items(table, Query::table(key::stages_between(workspace, from, to)), hold).await?;
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

/// Maturity of a window, by the stages up to the instant `closed`; `None`, when a day that has its events lacks some.
pub(crate) async fn matured(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (request, kept, closed): (&Request, &Kept, Timestamp),
    hold: &Hold,
) -> Result<Option<DataFrame>> {
    let Some(until) = StagedUntil::load(&**table, workspace).await? else { return Ok(None) };
    let mut stages = stages_of(table, workspace, (request.window.from(), request.window.to()), hold).await?;
    // Read after the stages, so that no stage knows more.
    let latest = evaluations::stored(table, workspace, (request, false), hold).await?;
    let mut days = Vec::with_capacity(latest.len());
    for (day, latest) in latest {
        let of_day = stages.remove(&day).unwrap_or_default();
        let is_reached = |age: &Age, by: Timestamp| age.of(day).is_some_and(|at| at <= by);
        let last = of_day.last_key_value().map_or(0, |(hours, _)| *hours);
        let is_lacking = AGES.iter().any(|age| is_reached(age, until.at.min(closed)) && age.hours > last);
        if is_lacking && kept.keeps(day) {
            return Ok(None);
        }
        let mut staged = ages_of(day, &of_day, closed)?;
        // They are all kept until the answer is made.
        let kept: usize = staged.iter().map(Staged::releases).sum();
        hold.take(kept as u64 * BYTES_OF_EVALUATION).await?;
        staged.push(Staged::latest(Told::Stored(Arc::new(latest))));
        days.push((day, staged));
    }
    frame_of(rows_of(&days, &[], request), request, hold).await.map(Some)
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
