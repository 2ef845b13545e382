//! Rollups as of a past instant: days with events are folded from these, expired days are taken from their vintages.

use std::{collections::BTreeMap, sync::Arc};

use event::{Day, Error, Kind, Result};
use fold::{
    Delta, LogSegment, Rollup,
    maturity::Age,
    rollup::{Folding, Merge, Part},
};
use futures::{StreamExt, TryStreamExt, stream};
use log::{
    key::{self, Breakdown},
    rollup_vintage::{self, RollupVintage},
    segment_item::Segment,
    walk::Admitted,
};
use meter::catalogue::QUERY_DECODED_BYTES;
use polars::prelude::DataFrame;
use table::Query;

use super::{DayParts, frame_of, stored};
use crate::{
    explain::Step,
    known::Expired,
    meters,
    read::Reading,
    request::{By, Request},
    series::held_items,
    work,
};

/// Number of days folded at once.
const DAYS_AT_ONCE: usize = 2;

/// The fold for a request: its result, the kinds of events, and the breakdown of its rows.
#[derive(Clone, Copy)]
struct FoldSpec {
    folding: Folding,
    kinds: &'static [Kind],
    by: key::By,
}

impl FoldSpec {
    fn of(by: &By) -> Self {
        let of_rollup = |kinds, by| Self { folding: Folding::Rollup, kinds, by };
        match by {
            By::Release => of_rollup(&Kind::ALL, key::By::Release),
            By::Metric => of_rollup(&[Kind::Metrics], key::By::Metric),
            By::Tag(_) => of_rollup(&[Kind::Predictions, Kind::Metrics], key::By::Tag),
            By::Feature(_) => {
                Self { folding: Folding::Features, kinds: &[Kind::Predictions], by: key::By::Feature }
            }
        }
    }
}

/// Returns the kinds of events folded into rollups with this breakdown.
pub(crate) fn kinds_by(by: &By) -> &'static [Kind] {
    FoldSpec::of(by).kinds
}

/// Builds counts, sums and quantiles as of a past instant, day by day.
///
/// # Errors
/// `Gone`, if the state of a day as of then is not kept; errors of the reading.
pub(crate) async fn known_then(reading: &Arc<Reading>, request: &Request) -> Result<DataFrame> {
    let wanted = FoldSpec::of(&request.by);
    let mut days: BTreeMap<Day, DayParts> = match request.as_of {
        Some(_) => of_expired(reading, (request, wanted)).await?.into_iter().collect(),
        None => {
            reading.warn_of_expired(request.window);
            BTreeMap::new()
        }
    };
    let kept: Vec<Day> = request.window.days().filter(|day| reading.kept.keeps(*day)).collect();
    let folds = kept.into_iter().map(|day| folded(reading, day, wanted));
    let folded: Vec<Option<(Day, DayParts)>> =
        stream::iter(folds).buffered(DAYS_AT_ONCE).try_collect().await?;
    days.extend(folded.into_iter().flatten());
    frame_of(&days, request)
}

/// Folds a day from its logs; `None`, if nothing is read.
async fn folded(reading: &Arc<Reading>, day: Day, wanted: FoldSpec) -> Result<Option<(Day, DayParts)>> {
    let mut all: Option<Delta> = None;
    for kind in wanted.kinds {
        let mut walk = reading.walk(day, *kind)?;
        while let Some(page) = reading.page(&mut walk, None).await? {
            let (taking, before) = (Arc::clone(reading), all.take());
            let folding = work::piece(move || taking.fold(wanted.folding, before, page));
            let interrupted = |error| Error::unavailable("reading was interrupted").because(error);
            all = folding.await.map_err(interrupted)??;
        }
    }
    reading.end_of_day(wanted.kinds.len());
    let Some(Delta { rollup, mut parts }) = all else { return Ok(None) };
    parts.retain(|breakdown, _| breakdown.by == wanted.by);
    let bytes: usize = parts.values().map(|part| part.to_state().len()).sum();
    reading.grow(bytes as u64).await?;
    Ok(Some((day, (Some(rollup), parts))))
}

impl Reading {
    /// Adds a page of segments to an earlier fold. A segment that cannot be read is left out.
    fn fold(
        &self,
        folding: Folding,
        mut before: Option<Delta>,
        page: Vec<Admitted>,
    ) -> Result<Option<Delta>> {
        let _timed = self.hold.step(Step::Make);
        for Admitted { log, seq, item } in page {
            self.hold.check()?;
            let folded = Segment::from_item(item).and_then(|segment| {
                let columns = segment.unpack(|name| folding.wants(log.kind, name))?;
                QUERY_DECODED_BYTES.counter([]).increment(segment.data.len() as u64);
                let folded = LogSegment { place: segment.place(), columns: &columns };
                let mut delta = Delta::folded(folding, log.kind, folded)?;
                if folding == Folding::Rollup {
                    delta.rollup.erased = segment.erased;
                }
                if let Some(tally) = self.hold.tally() {
                    tally.unpacked(&log, seq, segment.rows, segment.data.len());
                }
                Ok(delta)
            });
            match folded {
                Ok(delta) => before.get_or_insert_default().merge(&delta),
                Err(error) => {
                    self.leave_out(&log, seq, meters::UNREADABLE, &format!("it cannot be read ({error})"));
                }
            }
        }
        Ok(before)
    }
}

/// Reads the expired days of a window as of a past instant.
async fn of_expired(
    reading: &Reading,
    (request, wanted): (&Request, FoldSpec),
) -> Result<Vec<(Day, DayParts)>> {
    let (table, workspace, hold) = (&reading.table, &reading.workspace, &reading.hold);
    let expired = Expired::of(reading, request.window).await?;
    let Some((first, last)) = expired.ends() else { return Ok(Vec::new()) };
    let range = key::rollup_vintage_between(workspace, first, last);
    let vintages = rollup_vintage::assemble(&held_items(table, Query::table(range), hold).await?)?;
    let latest = stored(table, workspace, request, hold).await?;
    let is_empty = |vintage: &RollupVintage| vintage.applied.is_empty();
    expired
        .told(reading, (&vintages, is_empty), latest, |day, age, vintage| parts_of(day, age, vintage, wanted))
}

/// Returns the parts of a rollup at an age.
fn parts_of(day: Day, age: Age, vintage: &RollupVintage, wanted: FoldSpec) -> Result<DayParts> {
    let wrong = |error| Error::corrupt(format!("{day}, as it stood at {}: {error}", age.name));
    let state = match wanted.folding {
        Folding::Rollup => Some(&vintage.rollup),
        Folding::Features => vintage.features.as_ref(),
    };
    let rollup = state.filter(|_| !vintage.applied.is_empty());
    let rollup = rollup.map(|state| Rollup::from_state(state)).transpose().map_err(wrong)?;
    let parts = vintage.parts.iter().filter(|(breakdown, _)| breakdown.by == wanted.by);
    let part = |(breakdown, state): (&Breakdown, &Arc<str>)| {
        Ok((*breakdown, Part::from_state(breakdown.by, state).map_err(wrong)?))
    };
    Ok((rollup, parts.map(part).collect::<Result<_>>()?))
}
