//! Three projector processes on one table, killed at random and started again while events arrive; once, while none of them runs,
//! the feed forgets its changes. In the end all projections must be the fold of the log.
//!
//! The moments come from a seed. `ALMANAC_CHAOS_ROUNDS` requests more rounds than the few of a test run.

use std::{
    process::{Child, Stdio},
    sync::Arc,
    time::Duration,
};

use crate::support::{Located, Place, Store, almanac, alone, block_on, run_ok};
use catalog::{Catalog, ReleaseSpec};
use event::{Clock, Column, Columns, Day, Kind, Task, Values};
use log::{
    batch::{BatchId, BatchPart},
    key::{LogId, parse_segment},
    segment_item::Segment,
};
use table::{Condition, Item, Key, Position, Table, sqlite::SqliteTable};

/// Number of projectors.
const PROJECTORS: usize = 3;

/// Default number of rounds of appends and a kill. DynamoDB Local is slower.
const ROUNDS_ON_SQLITE: u64 = 12;
const ROUNDS_ON_DYNAMODB_LOCAL: u64 = 4;

/// Number of lanes of each day and kind.
const LANES: u8 = 2;

/// Number of events in a segment.
const ROWS: usize = 20;

/// Maximum time until the end.
const PATIENCE: Duration = Duration::from_secs(120);

fn rounds(usual: u64) -> u64 {
    let asked = std::env::var("ALMANAC_CHAOS_ROUNDS").ok();
    asked.map_or(usual, |rounds| rounds.parse().expect("ALMANAC_CHAOS_ROUNDS is a number"))
}

/// A process that ends with the test.
struct Projector(Child);

impl Projector {
    fn start(place: &Place) -> Self {
        let mut command = almanac(place, &["projector"]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Projector {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Number less than `bound`, from a sequence (splitmix64).
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % bound
}

fn events(kind: Kind, day: Day, seq: u64) -> Columns {
    let texts = |text: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..ROWS).map(text).collect();
        Values::Text(all.iter().map(String::as_str).collect())
    };
    let times = (0..ROWS).map(|row| day.start().micros() + (seq as usize * ROWS + row) as i64).collect();
    let numbers = (0..ROWS).map(|row| ((seq as usize + row) % 10) as f64 / 10.0).collect();
    let columns = vec![
        Column::new("key", texts(&|row| format!("{seq}-{row}"))),
        Column::new(kind.time_field(), Values::Time(times)),
        match kind {
            Kind::Predictions => Column::new("release", texts(&|_| "v1".to_owned())),
            _ => Column::new("label", texts(&|row| (row % 2).to_string())),
        },
        Column::new(if kind == Kind::Predictions { "score" } else { "value" }, Values::Float(numbers)),
    ];
    Columns { rows: ROWS, columns }
}

/// Registers a workspace and returns its logs: three days, two kinds, all lanes.
async fn register(table: &Arc<dyn Table>) -> Vec<LogId> {
    let catalog = Catalog::new(Arc::clone(table));
    let now = Clock::system().now();
    let workspace = catalog.ensure_workspace("chaos/one", now).await.unwrap();
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
    let spec = ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
    catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
    let mut logs = Vec::new();
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        for kind in [Kind::Predictions, Kind::Outcomes] {
            for lane in 0..LANES {
                let workspace = workspace.id().clone();
                logs.push(LogId { workspace, day: day.parse().unwrap(), kind, lane });
            }
            open(table, &logs[logs.len() - usize::from(LANES)]).await;
        }
    }
    logs
}

/// Opens a day and kind: the first segment of its lane 0 states the number of lanes.
async fn open(table: &Arc<dyn Table>, log: &LogId) {
    let opening = Segment::opening(log.clone(), LANES, Clock::system().now()).unwrap();
    table.put(opening.to_item(), Condition::Absent).await.unwrap();
}

async fn append(table: &Arc<dyn Table>, log: &LogId, seq: u64) {
    let part = BatchPart { batch: BatchId([seq as u8; 16]), first: 0, rows: ROWS };
    let columns = events(log.kind, log.day, seq);
    let segment = Segment::pack(log.clone(), seq, Clock::system().now(), vec![part], &columns).unwrap();
    table.put(segment.to_item(), Condition::Absent).await.unwrap();
}

/// Lets a SQLite file forget its changes, as it does with those of yesterday: by a writer whose clock shows tomorrow. The
/// emulator of DynamoDB keeps them.
async fn forget_changes(place: &Place) {
    let Store::Sqlite(folder) = place.store() else { return };
    let now = Clock::system().now();
    let tomorrow = Clock::from_fn(move || now.plus_seconds(25 * 60 * 60));
    let table = SqliteTable::open(&folder.join("almanac.db"), tomorrow).unwrap();
    table.put(Item::new(Key::new("chaos", "tomorrow")), Condition::None).await.unwrap();
    let first = table.changes(&table.shards().await.unwrap()[0].id, &Position::Oldest, Duration::ZERO).await;
    // The remaining changes are of this write, and of items that expire until tomorrow.
    assert!(first.unwrap().keys.iter().all(|key| parse_segment(key).is_none()));
}

/// Kills projectors while events arrive, and waits until all is folded and evaluated.
fn kill_while_events_arrive(place: &Place, seed: u64, rounds: u64) {
    let _alone = alone();
    let mut state = seed;
    let mut projectors: Vec<Projector> = (0..PROJECTORS).map(|_| Projector::start(place)).collect();
    let appended = block_on(async {
        let table = place.store().open().await;
        let logs = register(&table).await;
        let mut heads: Vec<u64> = logs.iter().map(|log| u64::from(log.lane == 0)).collect();
        let opened: u64 = heads.iter().sum();
        for round in 0..rounds {
            if round == rounds / 2 {
                // No projector runs while the feed forgets its changes, read and unread.
                projectors.clear();
                heads[0] += 1;
                append(&table, &logs[0], heads[0]).await;
                forget_changes(place).await;
                projectors.extend((0..PROJECTORS).map(|_| Projector::start(place)));
            }
            for _ in 0..5 + below(&mut state, 15) {
                let at = below(&mut state, logs.len() as u64) as usize;
                heads[at] += 1;
                append(&table, &logs[at], heads[at]).await;
                tokio::time::sleep(Duration::from_millis(below(&mut state, 40))).await;
            }
            // Dropping it kills it at any moment.
            let victim = below(&mut state, PROJECTORS as u64) as usize;
            projectors[victim] = Projector::start(place);
        }
        let workspace = &logs[0].workspace;
        let begin = tokio::time::Instant::now();
        loop {
            let behind = projector::sweep::sweep(&*table, workspace).await.unwrap();
            if behind.logs.is_empty() && behind.evaluations.is_empty() {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "seed {seed}: {behind:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        heads.iter().sum::<u64>() - opened
    });
    let verified = run_ok(place, &["admin", "verify"]);
    assert!(verified.contains("all as the log says"), "seed {seed}: {verified}");
    assert!(verified.contains(&format!("{} events", appended as usize * ROWS)), "seed {seed}: {verified}");
    let status = run_ok(place, &["status", "--format", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["workspaces"][0]["lag_segments"], 0, "{status:#}");
    assert_eq!(status["workspaces"][0]["dead_letters"], 0, "{status:#}");
}

#[test]
fn killed_projectors_converge_to_fold_of_log() {
    for seed in [1, 2] {
        kill_while_events_arrive(&Place::sqlite(), seed, rounds(ROUNDS_ON_SQLITE));
    }
}

mod dynamodb_local {
    use super::{Place, ROUNDS_ON_DYNAMODB_LOCAL, kill_while_events_arrive, rounds};

    #[test]
    fn killed_projectors_converge_to_fold_of_log() {
        kill_while_events_arrive(&Place::dynamodb_local(), 3, rounds(ROUNDS_ON_DYNAMODB_LOCAL));
    }
}
