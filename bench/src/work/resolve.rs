//! Outcomes without a date: the predictions of some days that they judge, found by the key filters of the days and
//! appended, beside polars that only joins the same keys with the predictions.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use almanac::{Embedded, adapters::ByIngest};
use anyhow::ensure;
use catalog::Catalog;
use event::{Clock, Id, Kind, Timestamp};
use log::{active, key::LogId, scan, store::Store};
use projector::{WorkspaceDay, key_filters, project::project, unmatched};
use table::{Table, sqlite::SqliteTable};
use tokio::time::Instant;

use crate::{
    context::Context,
    counting::ReadingTable,
    data::{LABELS, Outcome, Truth, frame},
    line::Line,
    peer,
    rounds::{Readings, Side, interleave},
    service::WORKSPACE,
};

/// Number of outcomes posted in a round.
const ASKED: usize = 10_000;

/// Delay of an outcome after its prediction, in microseconds.
const DELAY: i64 = 3_600_000_000;

/// Number of seconds that the clock is advanced, since appended outcomes are resolved only after half a minute.
const AHEAD_SECONDS: i64 = 60;

/// All events, with filters of their keys.
struct Filtered {
    table: Arc<dyn Table>,
    reads: Arc<ReadingTable>,
    almanac: Embedded,
    workspace: Id,
    clock: Clock,
    /// Number of seconds that the clock is ahead.
    ahead: Arc<AtomicI64>,
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let filtered = filtered(context)?;
    let asked = ASKED.min(context.data.rows());
    let questions = context.place.fresh("questions")?.join("questions.parquet");
    frame::parquet(frame::outcomes(&outcomes(context, asked, 0))?, &questions)?;
    let parquet = context.parquet()?.0.to_string_lossy().into_owned();
    let mut round = 0;
    let sides = vec![
        Side::new("Almanac", || {
            round += 1;
            resolved(context, &filtered, &outcomes(context, asked, round))
        }),
        Side::new("polars", || {
            let args = [&*parquet, &*questions.to_string_lossy()];
            let found = peer::run(&context.place, "polars_resolve.py", &args)?;
            ensure!(found.get("found") == Some(&(asked as f64)), "it found others: {found:?}");
            Ok(found)
        }),
    ];
    let found = interleave(context.rounds, sides);
    let days = context.data.days();
    let work = format!("{asked} outcomes without a date to the predictions that they judge, of {days} days");
    let rate = ("keys/s", "keys_per_s");
    let alone = |id, work, unit, name| Line::alone(id, work, unit, found[0].samples(name));
    Ok(vec![
        Line::of(
            "resolve/polars",
            work,
            rate,
            &found[0],
            ("polars joining Parquet, nothing stored", &found[1]),
        ),
        alone("resolve/bytes", "the same: bytes read", "MB", "mb"),
        alone("resolve/units", "the same: read units on DynamoDB for the bytes that came", "RRU", "units"),
    ])
}

/// Sends all events to a separate Almanac, and makes the filters of their keys.
fn filtered(context: &Context) -> anyhow::Result<Filtered> {
    let stored = context.store("resolve", context.data.days())?;
    let ahead = Arc::new(AtomicI64::new(AHEAD_SECONDS));
    let seconds = Arc::clone(&ahead);
    let clock = Clock::from_fn(move || Clock::system().now().plus_seconds(seconds.load(Ordering::Relaxed)));
    let file = SqliteTable::open_existing(&stored.folder.join("almanac.db"), clock.clone())?;
    let reads = Arc::new(ReadingTable::new(Arc::new(file)));
    let table: Arc<dyn Table> = Store::over(Arc::clone(&reads) as Arc<dyn Table>);
    let almanac = Embedded::on(Arc::clone(&reads) as Arc<dyn Table>, clock.clone());
    context.runtime.block_on(async {
        let workspace = almanac.catalog().workspace(WORKSPACE).await?.id().clone();
        key_filters::make(&*table, &workspace, (None, &BTreeSet::new()), clock.now()).await?;
        Ok(Filtered { table, reads, almanac, workspace, clock, ahead })
    })
}

/// Returns outcomes of predictions that are spread evenly over all days; different ones for each `round`.
fn outcomes(context: &Context, count: usize, round: usize) -> Vec<Outcome> {
    let data = &context.data;
    let every = (data.rows() / count).max(1);
    let all = data.batches().flat_map(|(day, batch)| data.predictions(day, batch));
    let of = |predicted: crate::data::Prediction| Outcome {
        key: predicted.key,
        predicted_at: predicted.predicted_at,
        truth: Truth { observed_at: predicted.predicted_at + DELAY, is_positive: false },
    };
    all.skip(round % every).step_by(every).take(count).map(of).collect()
}

/// Writes outcomes as NDJSON that does not name the predictions.
fn undated(outcomes: &[Outcome]) -> Vec<u8> {
    let line = |outcome: &Outcome| {
        let (key, label) = (String::from_utf8_lossy(&outcome.key), LABELS[0]);
        let observed = Timestamp::from_micros(outcome.truth.observed_at).unwrap_or_default();
        format!("{{\"key\":\"{key}\",\"observed_at\":\"{observed}\",\"label\":\"{label}\"}}\n")
    };
    outcomes.iter().map(line).collect::<String>().into_bytes()
}

/// Posts outcomes without a date, and times the resolution and append of all of them.
fn resolved(context: &Context, filtered: &Filtered, outcomes: &[Outcome]) -> anyhow::Result<Readings> {
    let Filtered { table, reads, almanac, workspace, clock, ahead } = filtered;
    context.runtime.block_on(async {
        almanac.append(WORKSPACE, Kind::Outcomes, &undated(outcomes), None).await?;
        let now = clock.now();
        let heads = scan::heads_of_kind(&**table, workspace, now.day(), Kind::Unmatched).await?;
        let logs: BTreeSet<LogId> = heads.into_iter().map(|head| head.log).collect();
        let of_day = WorkspaceDay { workspace: workspace.clone(), day: now.day() };
        project(&**table, active::load(&**table, workspace).await?.version, &of_day, &logs).await?;
        let catalog = Catalog::new(Arc::clone(table));
        let (append, none) = (ByIngest::at(Arc::clone(table), clock.clone()), BTreeSet::new());
        ahead.fetch_add(AHEAD_SECONDS, Ordering::Relaxed);
        let (days, later) = ((Some(now.day()), &none), clock.now());
        reads.take();
        let began = Instant::now();
        let resolved = unmatched::resolve(&**table, &catalog, &append, workspace, days, later).await?;
        let seconds = began.elapsed().as_secs_f64();
        let read = reads.take();
        ensure!(
            resolved.found == outcomes.len() as u64 && resolved.waiting == 0,
            "not all were found: {resolved:?}"
        );
        Ok(Readings::from([
            ("keys_per_s".to_owned(), outcomes.len() as f64 / seconds),
            ("mb".to_owned(), read.bytes as f64 / 1e6),
            ("units".to_owned(), read.units as f64),
        ]))
    })
}
