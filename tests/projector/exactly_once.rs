//! Exactly once, under faults: writers and projectors on an engine that refuses calls and loses answers, each of them dying and
//! starting again at any failure. The oracle is a list.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{Catalog, Workspace};
use event::{Clock, ErrorKind, Kind};
use ingest::{Ingest, Remember, SubmitError, json::read_ndjson};
use log::{key, projection::PROJECTION_VERSION, scan};
use projector::{WorkspaceDay, evaluate, project};
use table::Table;
use tests::{
    engine::Fresh,
    faulty::{Faults, FaultyTable},
    register::register,
    world::at,
};

const SEEDS: u64 = 48;
const BATCHES: usize = 12;
const ROWS: usize = 6;
/// Maximum tries of a call before the test gives up.
const MAX_TRIES: usize = 2_000;

fn clock() -> Clock {
    let now = at("2026-06-10T00:00:00Z");
    Clock::from_fn(move || now)
}

/// A batch with rows on several days.
fn body(batch: usize) -> String {
    let row = |row: usize| {
        let day = 1 + (batch + row) % 3;
        format!(
            r#"{{"key":"{batch}-{row}","predicted_at":"2026-06-0{day}T04:30:00Z","release":"v1","score":0.5,"tags":{{"batch":"{batch}"}}}}"#
        )
    };
    (0..ROWS).map(row).collect::<Vec<_>>().join("\n")
}

/// Submits a batch until it is acknowledged, each time by a process without state.
async fn submit(table: &Arc<dyn Table>, workspace: &Workspace, batch: usize, key: Option<String>) {
    let events = read_ndjson(Kind::Predictions, body(batch).as_bytes(), clock().now()).unwrap();
    let mut ingest = Ingest::new(Arc::clone(table), clock());
    for attempt in 0..MAX_TRIES {
        match ingest.submit(workspace, events.clone(), key.as_deref(), Remember::Week).await {
            Ok(receipt) => {
                assert_eq!(receipt.rows, ROWS);
                return;
            }
            Err(SubmitError::Store(error)) if error.kind() == ErrorKind::Unavailable => {
                if attempt % 2 == 0 {
                    ingest = Ingest::new(Arc::clone(table), clock());
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("batch {batch} was never acknowledged");
}

/// Brings all days up to date, trying again until it worked.
async fn project_all(table: &Arc<dyn Table>, workspace: &Workspace) {
    for _ in 0..MAX_TRIES {
        let step = async || -> event::Result<()> {
            let mut days = BTreeMap::<WorkspaceDay, BTreeSet<key::LogId>>::new();
            for head in scan::heads(&**table, workspace.id()).await? {
                let day = WorkspaceDay { workspace: workspace.id().clone(), day: head.log.day };
                days.entry(day).or_default().insert(head.log);
            }
            for (day, logs) in &days {
                let version = PROJECTION_VERSION;
                let projection = project::project(&**table, version, day, logs).await?;
                evaluate::evaluate(&**table, version, day, &projection.applied).await?;
            }
            Ok(())
        };
        match step().await {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    panic!("the projector never caught up");
}

/// Checks that every row is there once, without holes, and that rollups and counters match the log.
async fn check(table: &Arc<dyn Table>, workspace: &Workspace, seed: u64) {
    let mut keys = Vec::new();
    for head in scan::heads(&**table, workspace.id()).await.unwrap() {
        let segments = scan::segments(&**table, &head.log, 1, head.seq).await.unwrap();
        assert_eq!(segments.len() as u64, head.seq, "seed {seed}: a hole in {}", head.log);
        for segment in segments {
            let columns = segment.unpack(|name| name == "key").unwrap();
            // The first segment of several lanes has no events.
            let Some(column) = columns.column("key") else { continue };
            keys.extend((0..columns.rows).map(|row| column.text(row).unwrap().to_owned()));
        }
    }
    keys.sort();
    let mut expected: Vec<String> =
        (0..BATCHES).flat_map(|batch| (0..ROWS).map(move |row| format!("{batch}-{row}"))).collect();
    expected.sort();
    assert_eq!(keys, expected, "seed {seed}");

    let report = projector::verify(table, workspace.id(), |_, _| {}).await.unwrap();
    assert_eq!(report.faults, Vec::<String>::new(), "seed {seed}");
    assert_eq!(report.behind, 0, "seed {seed}");
    assert_eq!(report.events as usize, BATCHES * ROWS, "seed {seed}");
    let page = Catalog::new(Arc::clone(table)).page_with_counts(workspace.id()).await.unwrap();
    let counts = page.counts_of(&key::Counted::Workspace).unwrap();
    assert_eq!(counts["predictions"] as usize, BATCHES * ROWS, "seed {seed}");
}

async fn run(seed: u64) -> usize {
    let fresh = Fresh::sqlite(clock());
    let sound = Arc::clone(&fresh.table);
    let workspace = register(&sound, "sim/one", &["v1"], clock().now()).await;
    let lanes = 1 + (seed % 3) as u8;
    let catalog = Catalog::new(Arc::clone(&sound));
    catalog.change_settings(workspace.id(), |settings| settings.lanes = Some(lanes)).await.unwrap();
    let faulty = Arc::new(FaultyTable::new(Arc::clone(&sound), seed, Faults::doubts(12 + seed % 24)));
    let table: Arc<dyn Table> = Arc::clone(&faulty) as _;
    let mut tasks = tokio::task::JoinSet::new();
    // Two writers retry the same batches at the same time, under common keys or by digest.
    for writer in 0..2 {
        let (table, workspace) = (Arc::clone(&table), workspace.clone());
        tasks.spawn(async move {
            for batch in 0..BATCHES {
                let batch = if writer == 0 { batch } else { BATCHES - 1 - batch };
                let key = (batch % 2 == 0).then(|| format!("key-{batch}"));
                submit(&table, &workspace, batch, key).await;
            }
        });
    }
    // And two projectors follow.
    for _ in 0..2 {
        let (table, workspace) = (Arc::clone(&table), workspace.clone());
        tasks.spawn(async move {
            for _ in 0..3 {
                project_all(&table, &workspace).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    project_all(&table, &workspace).await;
    check(&sound, &workspace, seed).await;
    faulty.faults()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_is_counted_twice() {
    let mut faults = 0;
    for seed in 0..SEEDS {
        faults += run(seed).await;
    }
    assert!(faults > 500, "only {faults} faults were injected");
}
