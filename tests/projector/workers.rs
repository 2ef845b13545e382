//! Projectors: their cost when idle, and how they share and hand over work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catalog::{Catalog, Workspace};
use event::{Clock, Column, Columns, Kind, Result, Timestamp, Values};
use log::{
    batch::{BatchId, BatchPart},
    key::{self, LogId},
    segment_item::Segment,
};
use projector::{Options, Projector, SMALL, WorkspaceDay, dead_letters, heartbeat, lease, project, sweep};
use table::{Condition, Direction, KeyRange, Query, Table};
use tests::{
    counted::Counted,
    engine::Fresh,
    hooked::{Asked, Hooked, Turn},
    register::register,
    world::at,
};
use tokio::{sync::oneshot, task::JoinHandle};

/// Maximum time that a test waits for an event that must come, and the interval between looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

async fn registered(table: &Arc<dyn Table>) -> Workspace {
    register(table, "sim/one", &["v1"], at("2026-06-10T00:00:00Z")).await
}

fn date(day: u32) -> event::Day {
    format!("2026-{:02}-{:02}", 1 + day / 28, 1 + day % 28).parse().unwrap()
}

async fn append(table: &Arc<dyn Table>, workspace: &Workspace, day: u32, lane: u8, seq: u64) {
    let day = date(day);
    let texts = |text: &str| Values::Text([text].into_iter().collect());
    let columns = vec![
        Column::new("key", texts("a")),
        Column::new("predicted_at", Values::Time(vec![day.start().micros()])),
        Column::new("release", texts("v1")),
        Column::new("score", Values::Float(vec![0.5])),
    ];
    let log = LogId { workspace: workspace.id().clone(), day, kind: Kind::Predictions, lane };
    let part = BatchPart { batch: BatchId([seq as u8; 16]), first: 0, rows: 1 };
    let columns = Columns { rows: 1, columns };
    let segment = Segment::pack(log, seq, Timestamp::default(), vec![part], &columns).unwrap();
    // The first segment of lane 0 says how many there are.
    let segment = Segment { lanes: (lane == 0 && seq == 1).then_some(8), ..segment };
    table.put(segment.to_item(), Condition::Absent).await.unwrap();
}

pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = tokio::time::Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        tokio::time::sleep(LOOK).await;
    }
}

async fn is_caught_up(table: &Arc<dyn Table>, workspace: &Workspace) -> bool {
    let behind = sweep::sweep(&**table, workspace.id()).await.unwrap();
    behind.logs.is_empty() && behind.evaluations.is_empty()
}

pub(super) struct Running {
    projector: Projector,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) task: JoinHandle<Result<()>>,
}

pub(super) fn start(table: &Arc<dyn Table>, worker: &str) -> Running {
    start_with(table, Options { worker: worker.to_owned(), ..Options::new(Clock::system()) })
}

pub(super) fn start_with(table: &Arc<dyn Table>, options: Options) -> Running {
    let options = Options { period: Duration::from_millis(100), ..options };
    let projector = Projector::new(Arc::clone(table), options);
    let (stop, stopped) = oneshot::channel();
    let runs = projector.clone();
    let task = tokio::spawn(async move { runs.run(async move { _ = stopped.await }).await });
    Running { projector, stop, task }
}

/// One read a log and one beyond the last, one for the state of rollups and evaluations, and one for the active version; however
/// many segments the logs have. For the latest days alone it is one read if nothing was appended to them.
#[tokio::test]
async fn sweep_of_folded_logs_reads_one_key_each() {
    const DAYS: u32 = 20;
    const LANES: u8 = 2;
    let fresh = Fresh::sqlite(Clock::system());
    let table = Arc::clone(&fresh.table);
    let workspace = registered(&table).await;
    for day in 0..DAYS {
        for lane in 0..LANES {
            for seq in 1..=3 {
                append(&table, &workspace, day, lane, seq).await;
            }
        }
    }
    let running = start(&table, "w");
    until("the end of the folding", async || is_caught_up(&table, &workspace).await).await;
    running.stop.send(()).unwrap();
    running.task.await.unwrap().unwrap();
    let counting = Arc::new(Counted::new(table));
    let behind = sweep::sweep(&*counting, workspace.id()).await.unwrap();
    assert_eq!((behind.days, behind.segments), (DAYS as usize, 0));
    let logs = u64::from(DAYS) * u64::from(LANES);
    let reads = counting.take_reads();
    assert_eq!((reads.queries, reads.gets), (logs + 3, 1), "a page of what is covered, one of definitions");
    let day = |text: &str| text.parse::<event::Day>().unwrap();
    let latest = async |first, older: &[event::Day]| {
        let older = older.iter().copied().collect();
        let behind = sweep::sweep_days(&*counting, 1, workspace.id(), first, &older).await.unwrap();
        (
            counting.take_reads().queries,
            behind.logs.into_keys().map(|log| (log.day, log.lane)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(latest(day("2026-06-10"), &[]).await, (1, vec![]));
    // Its first segment, its state, its logs, the end of the logs, and the definitions.
    assert_eq!(latest(day("2026-01-20"), &[]).await, (6, vec![]));
    assert_eq!(latest(day("2026-06-10"), &[day("2026-01-03")]).await, (6, vec![]));
    append(&(Arc::clone(&counting) as _), &workspace, 2, 0, 4).await;
    append(&(Arc::clone(&counting) as _), &workspace, 2, 7, 1).await;
    let late = day("2026-01-03");
    assert_eq!(latest(day("2026-01-20"), &[late]).await.1, [(late, 0), (late, 7)]);
    assert_eq!(latest(day("2026-01-02"), &[]).await.1, [(late, 0), (late, 7)]);
    assert_eq!(sweep::sweep(&*counting, workspace.id()).await.unwrap().logs.len(), 2);
}

/// On an engine with paid writes, a day of many segments waits for more than one.
#[tokio::test]
async fn trickle_folds_wait_where_writes_are_paid() {
    let fresh = Fresh::sqlite(Clock::system());
    let table = Arc::clone(&fresh.table);
    let workspace = registered(&table).await;
    let many = 2 * SMALL;
    for seq in 1..=many {
        append(&table, &workspace, 1, 0, seq).await;
    }
    let running =
        start_with(&table, Options { rest: Duration::from_secs(3_600), ..Options::new(Clock::system()) });
    let covered = async |day: u32| {
        let day = WorkspaceDay { workspace: workspace.id().clone(), day: date(day) };
        project::read(&*table, 1, &day).await.unwrap().0.applied.values().sum::<u64>()
    };
    until("the first fold", async || covered(1).await == many).await;
    // Segments found by the sweeps at the start are folded at once; after them, a single further segment rests.
    let rests = async |more: u64| {
        append(&table, &workspace, 1, 0, many + more).await;
        for later in [2, 3] {
            append(&table, &workspace, later, 0, more).await;
            until("the fold of what came later", async || covered(later).await == more).await;
        }
        covered(1).await < many + more
    };
    let mut more = 1;
    while !rests(more).await {
        more += 1;
        assert!(more < 10, "one segment more of so many never rests");
    }
    for seq in (many + more + 1..).take(3) {
        append(&table, &workspace, 1, 0, seq).await;
    }
    until("the fold of more than a small part", async || covered(1).await > many + more).await;
    running.stop.send(()).unwrap();
    running.task.await.unwrap().unwrap();
}

/// A sweep at the start finds a lane without a change in the feed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_takes_over_from_stopped_or_dead_one() {
    let fresh = Fresh::sqlite(Clock::system());
    let table = Arc::clone(&fresh.table);
    let workspace = registered(&table).await;
    append(&table, &workspace, 1, 15, 1).await;
    let owner = async || {
        let leases = lease::leases(&*table, "feed").await.unwrap();
        leases.into_iter().find(|lease| lease.shard == "sqlite").and_then(|lease| lease.owner)
    };
    let first = start(&table, "first");
    until("the first lease", async || owner().await.as_deref() == Some("first")).await;
    until("the lane that nobody told of", async || is_caught_up(&table, &workspace).await).await;
    let second = start(&table, "second");
    until("the second heartbeat", async || heartbeat::heartbeats(&*table).await.unwrap().len() == 2).await;

    // It hands over when it stops, with a checkpoint.
    first.stop.send(()).unwrap();
    first.task.await.unwrap().unwrap();
    until("the second owner", async || owner().await.as_deref() == Some("second")).await;
    append(&table, &workspace, 1, 15, 2).await;
    until("what came under the second", async || is_caught_up(&table, &workspace).await).await;
    assert_eq!(second.projector.health().shards, 1);

    // And its lease is taken when it dies.
    let third = start(&table, "third");
    second.task.abort();
    append(&table, &workspace, 1, 15, 3).await;
    until("the third owner", async || owner().await.as_deref() == Some("third")).await;
    until("what came under the third", async || is_caught_up(&table, &workspace).await).await;
    third.stop.send(()).unwrap();
    third.task.await.unwrap().unwrap();
    assert_eq!(owner().await, None);
}

/// A segment that makes its reader panic becomes a dead letter. Its log stops there; other logs and days, and the process, go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panicking_segment_becomes_dead_letter_without_stopping_others() {
    let fresh = Fresh::sqlite(Clock::system());
    let plain = Arc::clone(&fresh.table);
    let workspace = registered(&plain).await;
    for (lane, seq) in [(0, 1), (0, 2), (0, 3), (1, 1)] {
        append(&plain, &workspace, 1, lane, seq).await;
    }
    append(&plain, &workspace, 2, 0, 1).await;
    let log = LogId {
        workspace: workspace.id().clone(),
        day: "2026-01-02".parse().unwrap(),
        kind: Kind::Predictions,
        lane: 0,
    };
    let bad = key::segment(&log, 2);
    let table = Hooked::new(Arc::clone(&plain), move |asked| match asked {
        Asked::Query(query)
            if query.attributes.is_none()
                && query.range.pk == bad.pk
                && (query.range.from.as_str()..=query.range.to.as_str()).contains(&bad.sk.as_str()) =>
        {
            Turn::Panic
        }
        _ => Turn::Pass,
    });
    let table: Arc<dyn Table> = table;
    let running = start(&table, "w");
    let letters = async || dead_letters::list(&*plain, workspace.id()).await.unwrap();
    until("the dead letter", async || !letters().await.is_empty()).await;
    let letter = letters().await.remove(0);
    assert_eq!((letter.log, letter.seq), (log.clone(), 2));
    assert!(letter.reason.contains("panicked: the hook of a test panics"), "{}", letter.reason);
    let left = async || sweep::sweep(&*plain, workspace.id()).await.unwrap().logs;
    until("segment 1 is folded", async || left().await.len() == 1).await;
    assert_eq!(left().await, [(log, 2)].into(), "segment 1 is folded, and 2 stops the log");
    assert!(!running.task.is_finished());
    running.stop.send(()).unwrap();
    running.task.await.unwrap().unwrap();
}

/// Evaluations that never end leave the places of folds free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evaluations_that_hang_hold_up_no_fold() {
    const DAYS: u32 = 12;
    let fresh = Fresh::sqlite(Clock::system());
    let plain = Arc::clone(&fresh.table);
    let workspace = registered(&plain).await;
    for day in 0..DAYS {
        append(&plain, &workspace, day, 0, 1).await;
    }
    let hanging = Arc::new(AtomicU64::new(0));
    let hung = Arc::clone(&hanging);
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&plain), move |asked| match asked {
        Asked::Write(key) if key.sk.contains("/eval") => {
            hung.fetch_add(1, Ordering::Relaxed);
            Turn::Hang
        }
        _ => Turn::Pass,
    });
    let running = start(&table, "w");
    until("evaluations", async || hanging.load(Ordering::Relaxed) >= 3).await;
    let mut seen = 0;
    // Up to the number of places, and then as long as days are folded.
    for seq in 2..6 {
        append(&plain, &workspace, 0, 0, seq).await;
        append(&plain, &workspace, DAYS + seq as u32, 0, 1).await;
        let behind = async || sweep::sweep(&*plain, workspace.id()).await.unwrap().logs;
        until("the fold beside them", async || behind().await.is_empty()).await;
        seen = hanging.load(Ordering::Relaxed);
    }
    assert!((3..=6).contains(&seen), "{seen} evaluations at once");
    drop(running.stop);
    running.task.abort();
}

/// Repeated failures to read one workspace do not restart the sweep of other workspaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_goes_on_where_a_read_failed() {
    const FAILURES: u64 = 4;
    let fresh = Fresh::sqlite(Clock::system());
    let plain = Arc::clone(&fresh.table);
    let catalog = Catalog::new(Arc::clone(&plain));
    let mut partitions = Vec::new();
    for name in ["one", "two", "three"] {
        let now = at("2026-06-10T00:00:00Z");
        let workspace = catalog.ensure_workspace(&format!("sim/{name}"), now).await.unwrap();
        partitions.push(key::segments(workspace.id()).pk);
        append(&plain, &workspace, 1, 0, 1).await;
    }
    let [good, bad] = [partitions[0].clone(), partitions[2].clone()];
    let (failed, swept) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (fails, sweeps) = (Arc::clone(&failed), Arc::clone(&swept));
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&plain), move |asked| match asked {
        Asked::Query(query) if query.attributes.is_some() && query.direction == Direction::Forward => {
            let is_first = query.range.from == "day#";
            if is_first && query.range.pk == good {
                sweeps.fetch_add(1, Ordering::Relaxed);
            }
            match query.range.pk == bad && fails.load(Ordering::Relaxed) < FAILURES {
                true => {
                    fails.fetch_add(1, Ordering::Relaxed);
                    Turn::Fail(event::ErrorKind::Unavailable)
                }
                false => Turn::Pass,
            }
        }
        _ => Turn::Pass,
    });
    let running = start(&table, "w");
    until("the sweep", async || running.projector.health().has_swept).await;
    assert_eq!(failed.load(Ordering::Relaxed), FAILURES);
    // Once for the start and once for each shard that is read from its newest position, not for each failure.
    let swept = swept.load(Ordering::Relaxed);
    assert!((1..=3).contains(&swept), "{swept}");
    running.stop.send(()).unwrap();
    running.task.await.unwrap().unwrap();
}

/// A worker that merges nothing, as that reads the range of a sweep.
fn unmerged(worker: &str) -> Options {
    Options { worker: worker.to_owned(), compacts: false, ..Options::new(Clock::system()) }
}

/// A worker dies in the middle of the sweep of all days that a shard without a checkpoint demands. The next worker finds the
/// demand in the table, and continues after the workspaces that are noted.
#[tokio::test]
async fn a_full_sweep_goes_on_in_another_process() {
    // Swept in rows of 16. The sweeps at the start of both workers take the first 40 in turns of 10.
    const WRITTEN: usize = 32;
    const LAST: usize = 59;
    let fresh = Fresh::sqlite(Clock::system());
    let plain = Arc::clone(&fresh.table);
    let catalog = Catalog::new(Arc::clone(&plain));
    for number in 0..=LAST {
        let now = at("2026-06-10T00:00:00Z").plus_seconds(number as i64);
        catalog.ensure_workspace(&format!("sim/{number}"), now).await.unwrap();
    }
    let mut all = catalog.workspaces().await.unwrap();
    all.sort_by(|one, other| one.id().cmp(other.id()));
    // An old day of the last one, without a change in the feed: only a sweep of all its days finds it.
    append(&plain, &all[LAST], 1, 0, 1).await;
    // Counting time reads the same range backwards.
    let sweeps =
        |query: &Query, range: &KeyRange| query.range == *range && query.direction == Direction::Forward;
    let [first, third_row] = [0, WRITTEN + 1].map(|at| key::segments(all[at].id()));
    let hangs = Hooked::new(Arc::clone(&plain), move |asked| match asked {
        Asked::Query(query) if sweeps(query, &third_row) => Turn::Hang,
        _ => Turn::Pass,
    });
    let dies = start_with(&(hangs as Arc<dyn Table>), unmerged("dies"));
    let demand = async || plain.get(&key::full_sweep()).await.unwrap();
    until("the first workspaces and the checkpoint", async || {
        let leases = lease::leases(&*plain, "feed").await.unwrap();
        let after = demand().await.and_then(|item| item.optional_text("after").map(str::to_owned));
        after.as_deref() == Some(all[WRITTEN - 1].id().as_str())
            && leases.iter().any(|lease| lease.shard != lease::SWEEP && lease.checkpoint.is_some())
    })
    .await;
    dies.task.abort();
    assert!(dies.task.await.unwrap_err().is_cancelled());
    assert!(!is_caught_up(&plain, &all[LAST]).await, "the last workspace was not swept");

    let again = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&again);
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&plain), move |asked| {
        if matches!(asked, Asked::Query(query) if sweeps(query, &first)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Turn::Pass
    });
    let running = start_with(&table, unmerged("goes on"));
    until("the end of the sweep", async || demand().await.is_none()).await;
    assert!(is_caught_up(&plain, &all[LAST]).await, "what the sweep found is written before it ends");
    assert_eq!(again.load(Ordering::Relaxed), 0, "what was written is not swept again");
    running.stop.send(()).unwrap();
    running.task.await.unwrap().unwrap();
}
