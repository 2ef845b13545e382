//! The projector follows a feed with all faults, and is right in the end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use catalog::Workspace;
use event::{Clock, Column, Columns, Day, Kind, Result, Timestamp, Values};
use log::{
    batch::{BatchId, BatchPart},
    key::LogId,
    segment_item::Segment,
};
use table::{Condition, Table, Write};
use tests::{
    engine::Fresh,
    faulty::{Fault, Faults, FaultyTable},
    register::register,
    world::at,
};
use tokio::time::Instant;

/// Maximum time that a test waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between looks.
const LOOK: Duration = Duration::from_millis(20);

const SEEDS: u64 = 2;
const BATCHES: usize = 60;
/// Two for each log.
const AT_ONCE: usize = 12;
const ROWS: usize = 3;

/// Each kind of fault also alone: a gap makes the projector look at everything, which would hide another missed change.
const PLANS: [Faults; 5] = [
    Faults { split: 8, ..Faults::NONE },
    Faults { trimmed: 2, ..Faults::NONE },
    Faults { expired: 2, ..Faults::NONE },
    Faults { duplicated: 2, reordered: 2, ..Faults::NONE },
    Faults::feed(8),
];

fn clock() -> Clock {
    Clock::from_fn(|| at("2026-06-10T00:00:00Z"))
}

/// Events of a batch: predictions, or outcomes of the same keys.
fn events(kind: Kind, day: Day, batch: usize) -> Columns {
    let time = |row: usize| day.start().micros() + (batch * ROWS + row) as i64;
    let text = |text: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..ROWS).map(text).collect();
        Values::Text(all.iter().map(String::as_str).collect())
    };
    let columns = vec![
        Column::new("key", text(&|row| format!("{}-{row}", batch / 2))),
        Column::new(kind.time_field(), Values::Time((0..ROWS).map(time).collect())),
        match kind {
            Kind::Predictions => Column::new("release", text(&|_| "v1".to_owned())),
            _ => Column::new("label", text(&|row| (row % 2).to_string())),
        },
        match kind {
            Kind::Predictions => Column::new("score", Values::Float(vec![0.25; ROWS])),
            _ => Column::new("value", Values::Float(vec![1.0; ROWS])),
        },
    ];
    Columns { rows: ROWS, columns }
}

/// Appends to the logs of three days and two kinds, some batches at a time, each time to another lane: no later change makes good
/// a missed change of a log.
async fn append(table: &Arc<dyn Table>, workspace: &Workspace) -> Result<()> {
    let mut heads = BTreeMap::<LogId, u64>::new();
    for first in (0..BATCHES).step_by(AT_ONCE) {
        let mut writes = Vec::new();
        for batch in first..first + AT_ONCE {
            let kind = if batch % 2 == 0 { Kind::Predictions } else { Kind::Outcomes };
            let day = Timestamp::parse(&format!("2026-06-0{}T00:00:00Z", 1 + batch / 2 % 3))?.day();
            let lane = (first / AT_ONCE) as u8;
            let log = LogId { workspace: workspace.id().clone(), day, kind, lane };
            let seq = heads.entry(log.clone()).or_default();
            *seq += 1;
            let part = BatchPart { batch: BatchId([batch as u8; 16]), first: 0, rows: ROWS };
            let segment = Segment::pack(log, *seq, clock().now(), vec![part], &events(kind, day, batch))?;
            // The first segment of lane 0 says how many there are.
            let lanes = (lane == 0 && *seq == 1).then_some((BATCHES / AT_ONCE) as u8);
            let segment = Segment { lanes, ..segment };
            writes.push(Write::Put(segment.to_item(), Condition::Absent));
        }
        table.transact(writes).await?;
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn run(seed: u64, faults: Faults) -> Vec<Fault> {
    let fresh = Fresh::sqlite(clock());
    let sound = Arc::clone(&fresh.table);
    let workspace = register(&sound, "sim/one", &["v1"], clock().now()).await;
    let below = fresh.open_again(clock());
    let faulty = Arc::new(FaultyTable::new(below, seed, faults));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move { _ = stopped.await };
    let projector = tokio::spawn(projector::run(Arc::clone(&faulty) as _, shutdown));
    append(&sound, &workspace).await.unwrap();

    let begin = Instant::now();
    loop {
        // While the projector writes, its recent writes may not be consistent yet.
        let report = projector::verify(&sound, workspace.id(), |_, _| {}).await.unwrap();
        let is_done = report.behind == 0 && report.events as usize == BATCHES * ROWS;
        if is_done && report.faults.is_empty() {
            break;
        }
        assert!(!projector.is_finished(), "seed {seed}, {faults:?}: the projector has ended");
        assert!(begin.elapsed() < PATIENCE, "seed {seed}, {faults:?}: {report:?}");
        tokio::time::sleep(LOOK).await;
    }
    stop.send(()).unwrap();
    projector.await.unwrap().unwrap();
    faulty.injected()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_right_in_the_end() {
    let mut runs = tokio::task::JoinSet::new();
    for seed in 0..SEEDS {
        PLANS.into_iter().for_each(|faults| _ = runs.spawn(run(seed, faults)));
    }
    let injected: Vec<Fault> = runs.join_all().await.concat();
    for fault in [Fault::Duplicated, Fault::Reordered, Fault::Split, Fault::Trimmed, Fault::Expired] {
        let count = injected.iter().filter(|one| **one == fault).count();
        assert!(count > 2 * SEEDS as usize, "{fault:?}: only {count} times");
    }
}
