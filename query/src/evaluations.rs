//! Evaluations: stored ones, a row for each day and release, and ones computed from the events.

use std::{collections::BTreeMap, sync::Arc};

use catalog::{Catalog, Definitions};
use evaluate::{Failure, judge_day};
use event::{Day, Dimension, Error, ErrorKind, Id, Period, Result, Timestamp, Window, Zone};
use fold::{
    Evaluation,
    evaluation::{Buckets, By, Condition, Evaluator, Grouping, Judged, MAX_VALUES, Tested},
};
use futures::{StreamExt, TryStreamExt, stream};
use log::{
    evaluated::{self, At, Found},
    key::{self, Projection},
};
use polars::prelude::DataFrame;
use table::{Item, Query, Table};

use crate::{
    budget::Hold,
    day_reading::DayReading,
    evaluation_rows::{EvaluationRow, PeriodBuckets, frame_of},
    head_to_head, intervals,
    kept::Kept,
    read::Reading,
    request::{Dataset, LiveIn, Request},
    series::{active_items, held_items},
    survey::survey,
    vintage, work,
};

/// Number of days evaluated at once.
pub(crate) const DAYS_AT_ONCE: usize = 2;

/// Maximum number of rows whose metrics are computed without a thread of their own.
const SMALL_ROWS: u64 = 10_000;

/// Reads the stored evaluations of a window.
pub(crate) async fn stored_evaluations(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<DataFrame> {
    let evaluations = stored(table, workspace, (request, false), hold).await?;
    let rows =
        evaluations.iter().flat_map(|(day, of)| of.rows().map(|metrics| EvaluationRow::new(*day, metrics)));
    frame_of(rows.collect(), request, hold).await
}

/// Reads the stored evaluations by a dimension; `None`, if it is not stored for each release that predicted.
pub(crate) async fn stored_slices(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (request, dimension): (&Request, &Dimension),
    hold: &Hold,
) -> Result<Option<DataFrame>> {
    let evaluations = stored(table, workspace, (request, true), hold).await?;
    let mut periods = Vec::with_capacity(evaluations.len());
    for (day, evaluation) in &evaluations {
        let Some(rows) = evaluation.slices_of(dimension, request.release.as_deref()) else { return Ok(None) };
        let buckets = Buckets {
            buckets: rows.into_iter().map(|(bucket, of)| (bucket, of.clone())).collect(),
            outcomes: evaluation.outcomes,
            orphaned: evaluation.orphaned,
            ..Buckets::default()
        };
        periods.push(PeriodBuckets { day: *day, hours: Vec::new(), buckets, is_of_days: true });
    }
    let by = [match dimension.edges.is_empty() {
        true => By::Texts { column: dimension.column.clone(), kept: None },
        false => By::Bins { column: dimension.column.clone(), edges: dimension.edges.clone() },
    }];
    let rows = periods.iter().flat_map(|period| period.rows(request, &by));
    frame_of(rows.collect(), request, hold).await.map(Some)
}

/// Computes evaluations from the events: as of another time than now, or in another way than they are stored.
pub(crate) async fn computed_evaluations(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    if vintage::is_as_of(request) {
        return vintage::known_then(reading, catalog, request).await;
    }
    let (periods, by) = computed_periods(reading, catalog, request).await?;
    let rows = periods.iter().flat_map(|period| period.rows(request, &by));
    frame_of(rows.collect(), request, &reading.hold).await
}

/// Evaluates the periods of a window; returns them with the results of their buckets, and the columns of the breakdown.
pub(crate) async fn computed_periods(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<(Vec<PeriodBuckets>, Vec<By>)> {
    let prepared = prepared(reading, catalog, request).await?;
    Ok((periods(reading, &prepared, request).await?, prepared.grouping.by))
}

/// Data that is read before any day of an answer is evaluated.
pub(crate) struct Prepared {
    /// All definitions.
    pub(crate) all: Definitions,
    /// The definitions known at the time of the request: a metric is evaluated by the definition of its day as of then.
    pub(crate) known: Definitions,
    pub(crate) grouping: Grouping,
    /// The two releases of a comparison.
    pair: Option<[String; 2]>,
    /// True if all predictions have been read.
    pub(crate) is_surveyed: bool,
    /// The condition on the predictions that are evaluated; `None` for all.
    kept: Option<Arc<Kept>>,
}

impl Prepared {
    /// Warns of columns of the condition that no prediction read had.
    pub(crate) fn warn_of_unseen(&self, reading: &Reading) {
        self.kept.iter().flat_map(|kept| kept.unseen()).for_each(|column| warn_of_unseen(reading, column));
    }

    /// Returns the method of evaluating days, by the known definitions.
    pub(crate) fn way(&self) -> Way<'_> {
        let Self { known, grouping, pair, is_surveyed, .. } = self;
        Way {
            definitions: known,
            grouping,
            more: &[],
            pairs: pair.as_slice(),
            tested: None,
            is_surveyed: *is_surveyed,
        }
    }
}

/// Reads the definitions, and the values by which predictions are assigned to buckets. Warns of missing days.
pub(crate) async fn prepared(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<Prepared> {
    if request.read_version.is_none() {
        reading.warn_of_expired(if request.is_of_ages() { request.window } else { reading.window });
    }
    prepared_of_kept(reading, catalog, request).await
}

/// Prepares as [`prepared`], for callers that handle expired days themselves.
pub(crate) async fn prepared_of_kept(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<Prepared> {
    let all = catalog.definitions(&reading.workspace).await?;
    let known = all.known(|one| request.is_of_now() || one.appended_at <= reading.closed);
    let zone = request.zone.or(request.is_of_ages().then_some(Zone::UTC));
    let span = zone.map(|zone| zone.span(request.window));
    let (by, unseen) = survey(reading, request.breakdown.wanted(), span, MAX_VALUES).await?;
    unseen.iter().for_each(|column| warn_of_unseen(reading, column));
    let kept = Kept::of(request).await?.map(Arc::new);
    let condition = kept.clone().map(|kept| kept as Arc<dyn Condition>);
    let pair = head_to_head::pair(request);
    let grouping = Grouping {
        pools: request.breakdown.by_model.then(|| known.models()),
        by: request.breakdown.by(&by),
        judged: judged(reading, catalog, request).await?,
        only: pair.as_ref().map(head_to_head::met_only),
        condition,
        ..Grouping::default()
    };
    Ok(Prepared { all, known, grouping, pair, is_surveyed: !by.is_empty(), kept })
}

fn warn_of_unseen(reading: &Reading, column: &str) {
    reading.warn(format!("no prediction of these days has `{column}`"));
}

/// Evaluates the periods of a window, and returns them with the results of their buckets.
pub(crate) async fn periods(
    reading: &Reading,
    prepared: &Prepared,
    request: &Request,
) -> Result<Vec<PeriodBuckets>> {
    let way = prepared.way();
    let parts = request.period.parts(request.window).into_iter().map(async |part| {
        let borders = borders(part, request);
        let buckets = evaluate_part(reading, part, &borders, &way, request).await?;
        // Orphaned outcomes are known for whole UTC days and for all predictions only.
        let is_of_days = borders.is_empty() && request.judges_all();
        let hours = if request.period == Period::Hour { borders } else { Vec::new() };
        Ok::<_, Error>(PeriodBuckets { day: part.from(), hours, buckets, is_of_days })
    });
    let periods = stream::iter(parts).buffered(DAYS_AT_ONCE).try_collect().await?;
    prepared.warn_of_unseen(reading);
    Ok(periods)
}

/// Returns the releases that were live at each time, for evaluating predictions: as known now, or as known then.
async fn judged(reading: &Reading, catalog: &Catalog, request: &Request) -> Result<Option<Judged>> {
    let Some(LiveIn { environment, is_live }) = &request.live else { return Ok(None) };
    let last = reading.window.to();
    let until = last.next().map_or(last.start(), |next| next.start());
    let known_by = (!request.is_of_now()).then_some(reading.closed);
    let spans = catalog.live_spans(&reading.workspace, environment, until, known_by).await?;
    let micros =
        |(from, to): (Timestamp, Option<Timestamp>)| (from.micros(), to.map_or(i64::MAX, Timestamp::micros));
    let live = spans.into_iter().map(|(name, spans)| (name, spans.into_iter().map(micros).collect()));
    Ok(Some(Judged { live: live.collect(), is_live: *is_live }))
}

/// Returns the borders of the hours of a day, or of a period that is not made of UTC days; empty for other periods.
fn borders(part: Window, request: &Request) -> Vec<i64> {
    match (request.period, request.zone) {
        (Period::Hour, zone) => zone.unwrap_or(Zone::UTC).hours(part.from()),
        (_, Some(zone)) => {
            let (from, to) = zone.span(part);
            vec![from, to]
        }
        (_, None) => Vec::new(),
    }
}

/// The way in which all days of an answer are evaluated.
pub(crate) struct Way<'a> {
    pub(crate) definitions: &'a Definitions,
    pub(crate) grouping: &'a Grouping,
    /// Further groupings of the predictions: see [`Evaluator::dealt_by`].
    pub(crate) more: &'a [Arc<Grouping>],
    /// The pairs of releases that are compared: see [`Evaluator::between`].
    pub(crate) pairs: &'a [[String; 2]],
    /// The metric whose parts are tested: see [`Evaluator::tested_by`].
    pub(crate) tested: Option<Tested>,
    /// True if all predictions have been read once, and are now read up to the same heads again.
    pub(crate) is_surveyed: bool,
}

/// Evaluates some days together.
pub(crate) async fn evaluate_part(
    reading: &Reading,
    part: Window,
    borders: &[i64],
    way: &Way<'_>,
    request: &Request,
) -> Result<Buckets> {
    let grouping = Grouping { borders: borders.to_vec(), ..way.grouping.clone() };
    let mut evaluator = Evaluator::new(BTreeMap::new())
        .at_threshold(request.threshold)
        .at_costs(request.costs)
        .with_intervals(intervals::asked(request))
        .with_intervals_of(request.release.clone())
        .grouped(Arc::new(grouping))
        .dealt_by(way.more)
        .between(way.pairs)
        .tested_by(way.tested);
    if request.what == Dataset::Estimates {
        evaluator = evaluator.keeping_cases();
    }
    let mut rows = 0;
    for day in request.zone.map_or(part, |zone| zone.utc_days(part)).days() {
        let other_task = |error| Error::invalid(format!("{day}: {error}; ask for days on one side of it"));
        evaluator.next_day(way.definitions.of(day)).map_err(other_task)?;
        let judged =
            judge_day(&DayReading { reading, day, is_surveyed: way.is_surveyed }, evaluator, |_| ()).await;
        let joined;
        (evaluator, joined) = judged.map_err(|failure| match failure {
            Failure::Error(error) if error.kind() == ErrorKind::Corrupt => {
                Error::corrupt(format!("{day}: {error}"))
            }
            Failure::Error(error) => error,
            Failure::Stopped(segment) => Error::corrupt(format!("{day}: {}", segment.reason)),
        })?;
        rows += joined;
        reading.end_of_day(Dataset::Evaluations.kinds().len());
    }
    let bytes = evaluator.bytes() as u64;
    // Finishing sorts all scores, and draws from the keys for intervals.
    let finished = if rows < SMALL_ROWS && !request.has_intervals {
        evaluator.finish_buckets()
    } else {
        let hold = reading.hold.clone();
        let finishing = move || evaluator.finish_while(&mut |rows| hold.draw(rows));
        let finished = work::run(finishing).await;
        finished.map_err(|error| Error::unavailable("evaluating was interrupted").because(error))??
    };
    reading.hold.shrink(bytes.saturating_sub(finished.kept_bytes() as u64));
    Ok(finished)
}

/// Reads the stored evaluations of a window, with or without slices: one query, one for these, and one more for
/// each day that was evaluated while its parts were read.
pub(crate) async fn stored(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (request, has_slices): (&Request, bool),
    hold: &Hold,
) -> Result<Vec<(Day, Evaluation)>> {
    let read = |(day, states): (Day, Vec<String>)| {
        let evaluation = Evaluation::from_states(&states);
        Ok((day, evaluation.map_err(|error| Error::corrupt(format!("{day}: {error}")))?))
    };
    'read: loop {
        let (version, items) = active_items(table, workspace, request, hold).await?;
        let apart = match has_slices {
            true => {
                let (from, to) = (request.window.from(), request.window.to());
                let range = key::slices_between(workspace, version, from, to);
                held_items(table, Query::table(range), hold).await?
            }
            false => Vec::new(),
        };
        let mut dimensions = BTreeMap::<Day, Vec<&Item>>::new();
        for item in &apart {
            if let Some((day, ..)) = key::parse_slice(&item.key) {
                dimensions.entry(day).or_default().push(item);
            }
        }
        let mut days = BTreeMap::<Day, Vec<&Item>>::new();
        for item in &items {
            let (day, projection) = key::parse_projection(&item.key)?;
            if let Projection::Evaluation | Projection::EvaluationPart(..) = projection {
                days.entry(day).or_default().push(item);
            }
        }
        let mut states = Vec::new();
        for (day, items) in days {
            let mut found = evaluated::assemble(items)?;
            if has_slices {
                found = evaluated::with_slices(found, dimensions.remove(&day).unwrap_or_default())?;
            }
            match found {
                Found::Nothing => {}
                Found::Whole(_, found) => states.push((day, found)),
                Found::Torn(_) => {
                    let at = At { workspace, version, day };
                    let again = match has_slices {
                        true => evaluated::load(&**table, at).await?,
                        false => evaluated::load_plain(&**table, at).await?,
                    };
                    // A missing item means that a rebuild has deleted this version.
                    let Some((_, found)) = again else { continue 'read };
                    states.push((day, found));
                }
            }
        }
        return states.into_iter().map(read).collect();
    }
}
