mod histories;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use catalog::Catalog;
use event::{
    ErrorKind,
    lane::{Placed, lane_of},
};
use log::{key, scan, segment_item::Segment};
use table::{Call, Condition, Item, Layer, item::Value, sqlite::SqliteTable};

use super::*;
use crate::{json::read_ndjson, limits::REPEAT_SECONDS};

/// Counts what is written, dies after so many writes, and holds writes back.
#[derive(Debug)]
struct Counting {
    inner: SqliteTable,
    writes: AtomicUsize,
    left: AtomicI64,
    /// While it is locked, writes wait.
    gate: tokio::sync::RwLock<()>,
}

impl Layer for Counting {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        if let Call::Put(_) = call {
            if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
                return Err(
                    Error::unavailable("the process is dead").because(std::io::Error::other("no power"))
                );
            }
            self.writes.fetch_add(1, Ordering::Relaxed);
            drop(self.gate.read().await);
        }
        Ok(())
    }
}

impl Appender {
    /// How many writers wait for their turn.
    fn waiting(&self) -> usize {
        self.logs.lock().unwrap().known.values().map(|log| log.queue().len()).sum()
    }
}

struct World {
    table: Arc<Counting>,
    clock: Clock,
    seconds: Arc<AtomicI64>,
    workspace: Id,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let start = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let seconds = Arc::new(AtomicI64::new(0));
        let clock = Clock::from_fn({
            let seconds = Arc::clone(&seconds);
            move || start.plus_seconds(seconds.load(Ordering::Relaxed))
        });
        let inner = SqliteTable::open(&dir.path().join("t.db"), clock.clone()).unwrap();
        let (writes, left, gate) = (AtomicUsize::new(0), AtomicI64::new(i64::MAX), Default::default());
        let table = Arc::new(Counting { inner, writes, left, gate });
        Self { table, workspace: Id::new(start), clock, seconds, _dir: dir }
    }

    fn appender(&self) -> Appender {
        Appender::new(Arc::clone(&self.table) as _, self.clock.clone())
    }

    fn batch(&self, first: usize, rows: usize) -> Batch {
        self.batch_of(first, rows, "2026-06-01", 0.5)
    }

    fn batch_of(&self, first: usize, rows: usize, day: &str, score: f64) -> Batch {
        let row = |row| {
            format!(r#"{{"key":"k{row}","predicted_at":"{day}T04:30:00Z","release":"v1","score":{score}}}"#)
        };
        let body = (first..first + rows).map(row).collect::<Vec<_>>().join("\n");
        read_ndjson(Kind::Predictions, body.as_bytes(), self.clock.now()).unwrap()
    }

    /// Whether any of it was stored.
    async fn append(&self, appender: &Appender, batch: Batch, key: Option<&str>) -> Result<bool> {
        let receipt = appender.append(&self.workspace, &Lanes::default(), batch, key, Remember::Week).await?;
        Ok(!receipt.replayed)
    }

    /// The process makes so many writes and no more, until [`World::live`].
    fn die_after(&self, writes: i64) {
        self.table.left.store(writes, Ordering::Relaxed);
    }

    fn live(&self) {
        self.die_after(i64::MAX);
    }

    fn wait(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The keys of all events, by log.
    async fn stored(&self) -> BTreeMap<String, Vec<String>> {
        let mut stored = BTreeMap::new();
        for head in scan::heads(&*self.table, &self.workspace).await.unwrap() {
            let keys: &mut Vec<String> = stored.entry(head.log.to_string()).or_default();
            let segments = scan::segments(&*self.table, &head.log, 1, head.seq).await.unwrap();
            assert_eq!(segments.len() as u64, head.seq, "a hole in {}", head.log);
            for segment in segments {
                assert_eq!(segment.batches.iter().map(|part| part.rows).sum::<usize>(), segment.rows);
                let columns = segment.unpack(|name| name == "key").unwrap();
                // The first segment of several lanes has no events.
                let Some(column) = columns.column("key") else { continue };
                keys.extend((0..columns.rows).map(|row| column.text(row).unwrap().to_owned()));
            }
        }
        stored
    }

    async fn rows(&self) -> usize {
        self.stored().await.values().map(Vec::len).sum()
    }

    fn writes(&self) -> usize {
        self.table.writes.swap(0, Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_repeat_is_found_by_key_and_by_content_in_every_process() {
    let world = World::new();
    let (one, two) = (world.appender(), world.appender());
    for (rows, key) in [(1, None), (1, Some("a")), (300, None), (300, Some("b")), (25_000, Some("c"))] {
        let batch = world.batch(rows, rows);
        let before = world.rows().await;
        assert!(world.append(&one, batch.clone(), key).await.unwrap());
        for appender in [&one, &two, &world.appender()] {
            assert!(!world.append(appender, batch.clone(), key).await.unwrap(), "{rows} rows, {key:?}");
        }
        assert_eq!(world.rows().await, before + rows);
    }
    // Days later, after a thousand others, a key is still known.
    world.wait(6 * 24 * 3600);
    for other in 0..1_100 {
        world.append(&one, world.batch(100_000 + other, 1), None).await.unwrap();
    }
    let before = world.rows().await;
    assert!(!world.append(&world.appender(), world.batch(1, 1), Some("a")).await.unwrap());
    assert_eq!(world.rows().await, before);
}

/// Whether a sequence of single predictions of one key, without idempotency keys, ends with the last one.
async fn ends_with_the_last(scores: &[f64], rows: usize, apart: i64) {
    let world = World::new();
    let appender = world.appender();
    for score in scores {
        let batch = world.batch_of(0, rows, "2026-06-01", *score);
        assert!(world.append(&appender, batch.clone(), None).await.unwrap(), "{score}: {rows} rows");
        assert!(!world.append(&appender, batch.clone(), None).await.unwrap(), "a repeat at once");
        assert!(!world.append(&world.appender(), batch, None).await.unwrap(), "and by another process");
        world.wait(apart);
    }
    assert_eq!(world.rows().await, rows * scores.len());
}

#[tokio::test]
async fn what_is_set_back_without_a_key_is_stored_after_ten_minutes() {
    for rows in [1, 500, 12_000] {
        ends_with_the_last(&[0.9, 0.1, 0.9], rows, REPEAT_SECONDS / 2).await;
        ends_with_the_last(&[0.25, 0.25], rows, REPEAT_SECONDS).await;
    }
}

#[tokio::test]
async fn a_repeat_is_told_with_what_it_repeats_and_stored_where_that_is_wanted() {
    let world = World::new();
    let appender = world.appender();
    let append = async |key, remember| {
        let lanes = Lanes::default();
        appender.append(&world.workspace, &lanes, world.batch(0, 3), key, remember).await.unwrap()
    };
    let first = append(None, Remember::Week).await;
    assert_eq!((first.appended, first.replayed), (3, false));
    let again = append(None, Remember::Week).await;
    assert_eq!((again.appended, again.replayed, &again.batch), (0, true, &first.batch));
    for (key, remember) in
        [(None, Remember::Never), (Some("a"), Remember::Week), (Some("b"), Remember::Never)]
    {
        assert_eq!(append(key, remember).await.appended, 3, "{key:?}, {remember:?}");
    }
    assert_eq!(append(Some("b"), Remember::Never).await.appended, 0, "a key names a batch in any case");
    assert_eq!(append(None, Remember::Never).await.appended, 3);
    assert_eq!(world.rows().await, 15);
}

/// A service that forgets a log, or starts again, reads back as far as the promise goes, however much came
/// since.
#[tokio::test]
async fn a_log_that_was_forgotten_is_read_back_and_not_doubled() {
    let world = World::new();
    let appender = Appender { most_logs: 1, ..world.appender() };
    world.append(&appender, world.batch(0, 1), None).await.unwrap();
    let busy = world.appender();
    for other in 1..=1_100 {
        world.append(&busy, world.batch(other, 1), None).await.unwrap();
    }
    for day in ["2026-06-02", "2026-06-03"] {
        world.append(&appender, world.batch_of(0, 1, day, 0.5), None).await.unwrap();
    }
    assert_eq!(appender.logs.lock().unwrap().known.len(), 1, "the others were forgotten");
    assert!(!world.append(&appender, world.batch(0, 1), None).await.unwrap());
    assert!(!world.append(&appender, world.batch_of(0, 1, "2026-06-02", 0.5), None).await.unwrap());
    world.append(&appender, world.batch(2_000, 100_000), Some("large")).await.unwrap();
    assert!(!world.append(&world.appender(), world.batch(1, 1), None).await.unwrap());
    assert_eq!(world.rows().await, 101_103);
}

/// More batches than may be remembered: those with a key are stored, one without is refused rather than
/// stored twice.
#[tokio::test]
async fn what_cannot_be_compared_is_refused_until_it_can() {
    let world = World::new();
    let appender = Appender { budget: Budget::of(50), ..world.appender() };
    world.append(&appender, world.batch(0, 1), None).await.unwrap();
    for other in 1..100 {
        world.append(&appender, world.batch(other, 1), Some(&format!("k{other}"))).await.unwrap();
    }
    let error = world.append(&appender, world.batch(0, 1), None).await.unwrap_err();
    assert_eq!(error.kind(), event::ErrorKind::Throttled);
    assert!(error.to_string().contains("send it with an Idempotency-Key, or later"), "{error}");
    assert!(world.append(&appender, world.batch(100, 1), Some("k100")).await.unwrap());
    world.wait(REPEAT_SECONDS);
    assert!(world.append(&appender, world.batch(101, 1), Some("k101")).await.unwrap());
    assert!(world.append(&appender, world.batch(0, 1), None).await.unwrap(), "that is another one by now");
}

/// Bug 4 of a key that is used again: its rows of before are no rows of it.
#[tokio::test]
async fn a_key_that_is_used_again_after_it_was_forgotten_and_broken_off_is_stored_whole() {
    let world = World::new();
    let batch = world.batch(0, 30_000);
    assert!(world.append(&world.appender(), batch.clone(), Some("nightly")).await.unwrap());
    world.wait(crate::limits::IDEMPOTENCY_SECONDS + 1);
    for segments in 1..3 {
        // The marker, if it is not there yet, and a segment.
        world.die_after(if segments == 1 { 2 } else { 1 });
        world.append(&world.appender(), batch.clone(), Some("nightly")).await.unwrap_err();
        world.live();
        assert_eq!(world.rows().await, 30_000 + 10_000 * segments);
    }
    let appender = world.appender();
    assert!(world.append(&appender, batch.clone(), Some("nightly")).await.unwrap());
    assert_eq!(world.rows().await, 60_000);
    assert!(!world.append(&appender, batch, Some("nightly")).await.unwrap());
}

/// Those who wait for one log are appended together, and fail together.
#[tokio::test]
async fn a_failure_is_told_with_its_cause_to_all_who_waited() {
    let world = World::new();
    let appender = world.appender();
    world.table.left.store(0, Ordering::Relaxed);
    let append = |first| world.append(&appender, world.batch(first, 2), None);
    let outcomes = futures::future::join_all([0, 2, 4, 6].map(append)).await;
    let mut causes = std::collections::BTreeSet::new();
    for error in outcomes.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), "the process is dead: no power");
        causes.insert(std::ptr::from_ref(error.cause().unwrap()).cast::<()>());
    }
    assert!(causes.len() < 4, "those of one group have one cause");
}

#[tokio::test]
async fn other_events_under_one_key_are_refused_with_what_differs() {
    let world = World::new();
    let appender = world.appender();
    world.append(&appender, world.batch(0, 2), Some("k")).await.unwrap();
    let mut said = String::new();
    for batch in [
        world.batch(0, 3),
        world.batch_of(0, 2, "2026-06-02", 0.5),
        world.batch_of(0, 2, "2026-06-01", 0.25),
        world.batch(7, 2),
    ] {
        let error = world.append(&appender, batch, Some("k")).await.unwrap_err();
        assert!(error.is_conflict());
        said += &format!("{error}\n");
    }
    insta::assert_snapshot!(said);
    assert_eq!(world.rows().await, 2);
}

#[tokio::test]
async fn a_claim_without_its_events_is_fulfilled_later_by_another_process() {
    let world = World::new();
    let batch = world.batch(0, 5);
    let (digest, parts) = (batch.digest(), batch.clone().into_parts());
    let log = LogId {
        workspace: world.workspace.clone(),
        day: *parts.keys().next().unwrap(),
        kind: Kind::Predictions,
        lane: 0,
    };
    let (workspace, kind) = (&world.workspace, Kind::Predictions);
    let claims = Claims { table: &*world.table, workspace, kind, name: "nightly" };
    let mut claim = Claim::new(&digest, 5, Remember::Week, world.clock.now());
    claim.after.insert(log, 0);
    claims.open(claim).await.unwrap();
    world.append(&world.appender(), world.batch(10, 1), None).await.unwrap();
    assert!(world.append(&world.appender(), batch.clone(), Some("nightly")).await.unwrap());
    assert!(!world.append(&world.appender(), batch, Some("nightly")).await.unwrap());
    assert_eq!(world.rows().await, 6);
}

#[tokio::test]
async fn many_at_once_share_segments_and_cost_one_write_together() {
    let world = World::new();
    let appender = world.appender();
    world.append(&appender, world.batch(1_000, 1), None).await.unwrap();
    world.writes();
    // While the first is written, 63 come.
    let gate = world.table.gate.write().await;
    let append = |row| world.append(&appender, world.batch(row, 1), None);
    let first = append(0);
    let following = async {
        while world.table.writes.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        futures::future::try_join_all((1..64).map(append)).await
    };
    let release = async {
        while appender.waiting() < 63 {
            tokio::task::yield_now().await;
        }
        drop(gate);
        Ok(())
    };
    let (first, following, ()) = tokio::try_join!(first, following, release).unwrap();
    assert!(first && following.iter().all(|appended| *appended));
    assert_eq!(world.writes(), 2);
    // All of them again, twice at one time, and by two processes.
    let other = world.appender();
    let appends = (0..128).map(|row| {
        world.append(if row % 2 == 0 { &other } else { &appender }, world.batch(row / 2, 1), None)
    });
    assert!(!futures::future::try_join_all(appends).await.unwrap().contains(&true));
    assert_eq!(world.rows().await, 65);
    // The same new one at one time is stored by one of them.
    let appends = (0..8).map(|_| world.append(&appender, world.batch(77, 1), None));
    let appended = futures::future::try_join_all(appends).await.unwrap();
    assert_eq!(appended.iter().filter(|appended| **appended).count(), 1);
    assert_eq!(world.rows().await, 66);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_append_to_one_log_without_holes() {
    let world = Arc::new(World::new());
    let mut tasks = tokio::task::JoinSet::new();
    for process in 0..4 {
        let world = Arc::clone(&world);
        tasks.spawn(async move {
            let appender = world.appender();
            for round in 0..20 {
                let first = (process * 20 + round) * 10_000;
                let small = (0..5).map(|row| world.append(&appender, world.batch(first + row, 1), None));
                futures::future::try_join_all(small).await.unwrap();
                let rows = 1 + 577 * (round % 5);
                world.append(&appender, world.batch(first + 10, rows), None).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let stored = world.stored().await;
    assert_eq!(stored.len(), 1);
    let mut keys: Vec<String> = stored.into_values().flatten().collect();
    let expected: usize = 4 * (20 * 5 + 4 * (0..5).map(|round| 1 + 577 * round).sum::<usize>());
    assert_eq!(keys.len(), expected);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), expected, "some events are there twice");
}

/// Bug 13: with a lane by the batch, a second change of lanes within an hour made a repeat look in the
/// wrong place.
#[tokio::test]
async fn lanes_changed_twice_within_an_hour_double_nothing() {
    let world = World::new();
    let catalog = Catalog::new(Arc::clone(&world.table) as _);
    let appender = world.appender();
    let append = async |appender: &Appender, row, day: &str, key: Option<&str>| {
        let lanes = catalog.lanes(&world.workspace).await.unwrap();
        let batch = world.batch_of(row, 3, day, 0.5);
        appender.append(&world.workspace, &lanes, batch, key, Remember::Week).await.unwrap().replayed
    };
    for (count, day) in [(1, "2026-06-01"), (4, "2026-06-02"), (2, "2026-06-03")] {
        catalog.set_lanes(&world.workspace, count).await.unwrap();
        for row in 0..20 {
            assert!(!append(&appender, 10 * row, day, None).await);
            assert!(!append(&appender, 1_000 + 10 * row, day, Some(&format!("{day}-{row}"))).await);
        }
    }
    world.wait(REPEAT_SECONDS / 2);
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        for row in 0..20 {
            assert!(append(&appender, 10 * row, day, None).await, "{day}: a repeat");
            assert!(append(&world.appender(), 10 * row, day, None).await, "{day}: a repeat elsewhere");
            let key = format!("{day}-{row}");
            assert!(append(&world.appender(), 1_000 + 10 * row, day, Some(&key)).await, "{day}: with a key");
        }
    }
    let stored = world.stored().await;
    let lanes = |day: &str| stored.keys().filter(|log| log.contains(day)).count();
    assert_eq!(["2026-06-01", "2026-06-02", "2026-06-03"].map(lanes), [1, 4, 2]);
    assert_eq!(stored.values().map(Vec::len).sum::<usize>(), 3 * 2 * 60);
}

/// The scores that stand in the order of places, for one key.
async fn last_scores(world: &World) -> BTreeMap<String, f64> {
    let mut segments = Vec::new();
    for head in scan::heads(&*world.table, &world.workspace).await.unwrap() {
        segments.extend(scan::segments(&*world.table, &head.log, 1, head.seq).await.unwrap());
    }
    segments.sort_by_key(Segment::place);
    let mut last = BTreeMap::new();
    for segment in segments {
        let columns = segment.unpack(|_| true).unwrap();
        for row in 0..columns.rows {
            let key = columns.column("key").unwrap().text(row).unwrap().to_owned();
            last.insert(key, columns.column("score").unwrap().float(row).unwrap());
        }
    }
    last
}

/// Bug 5: with a lane by the batch, 79 of 200 corrected predictions kept the old score.
#[tokio::test]
async fn a_corrected_prediction_counts_with_four_lanes() {
    let world = World::new();
    let catalog = Catalog::new(Arc::clone(&world.table) as _);
    let lanes = catalog.set_lanes(&world.workspace, 4).await.unwrap();
    for score in [0.9, 0.1, 0.7] {
        for row in 0..200 {
            let batch = world.batch_of(row, 1, "2026-06-01", score);
            // Each by a process of its own.
            let receipt =
                world.appender().append(&world.workspace, &lanes, batch, None, Remember::Week).await;
            assert_eq!(receipt.unwrap().appended, 1);
        }
    }
    assert_eq!(world.stored().await.len(), 4);
    let last = last_scores(&world).await;
    assert_eq!(last.values().filter(|score| **score != 0.7).count(), 0, "of {}", last.len());
    assert_eq!(last.len(), 200);
}

/// The first writer of a day sets how many lanes it has; the second one deals its events again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_begin_a_day_with_other_numbers_of_lanes_agree() {
    let world = Arc::new(World::new());
    let catalog = Catalog::new(Arc::clone(&world.table) as _);
    let one = Lanes::default();
    let four = catalog.set_lanes(&world.workspace, 4).await.unwrap();
    let mut found = BTreeMap::<usize, usize>::new();
    for day in 1..=28 {
        let mut tasks = tokio::task::JoinSet::new();
        for (process, lanes) in [one, four, one].into_iter().enumerate() {
            let world = Arc::clone(&world);
            tasks.spawn(async move {
                let day = format!("2026-05-{day:02}");
                let appender = world.appender();
                for (row, key) in [(0, None), (10, Some("a")), (20, None), (30, Some("b"))] {
                    let key = key.map(|key| format!("{day}-{process}-{key}"));
                    let batch = world.batch_of(row + 100 * process, 10, &day, 0.5);
                    let append = async |batch| {
                        let remember = Remember::Week;
                        appender.append(&world.workspace, &lanes, batch, key.as_deref(), remember).await
                    };
                    assert_eq!(append(batch.clone()).await.unwrap().appended, 10);
                    assert_eq!(append(batch).await.unwrap().appended, 0);
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let name = format!("2026-05-{day:02}");
        let stored = world.stored().await;
        let logs: Vec<_> = stored.iter().filter(|(log, _)| log.contains(&name)).collect();
        assert_eq!(logs.iter().map(|(_, keys)| keys.len()).sum::<usize>(), 120, "{name}");
        for (log, keys) in &logs {
            let lane: u8 = log.rsplit_once('/').unwrap().1.parse().unwrap();
            assert!(keys.iter().all(|key| lane_of(key, logs.len() as u8) == lane), "{log}: {keys:?}");
        }
        *found.entry(logs.len()).or_default() += 1;
    }
    assert!(found.keys().all(|lanes| [1, 4].contains(lanes)), "{found:?}");
}

/// What 0.1 has claimed goes on where its claim says, in the form that it had, before all that is placed by
/// key.
#[tokio::test]
async fn a_claim_of_version_1_is_fulfilled_in_its_lane_before_what_is_placed_by_key() {
    let world = World::new();
    let catalog = Catalog::new(Arc::clone(&world.table) as _);
    let lanes = catalog.set_lanes(&world.workspace, 4).await.unwrap();
    let batch = world.batch(0, 50);
    let claim = Item::new(key::old_batch(&world.workspace, Kind::Predictions, "nightly"))
        .with("v", 1)
        .with("digest", batch.digest())
        .with("n", 50)
        .with("claimed_at", world.clock.now().micros())
        .with("state", "open")
        .with("after", BTreeMap::from([("day#2026-06-01/p/03".to_owned(), Value::from(0))]))
        .with("expires_at", world.clock.now().micros() / 1_000_000 + 1_000);
    world.table.put(claim, Condition::Absent).await.unwrap();
    let appender = world.appender();
    let append = async |batch, key| {
        appender.append(&world.workspace, &lanes, batch, key, Remember::Week).await.unwrap().appended
    };
    let corrected = world.batch_of(0, 50, "2026-06-01", 0.1);
    assert_eq!(append(corrected, None).await, 50);
    assert_eq!(append(batch.clone(), Some("nightly")).await, 50);
    assert_eq!(append(batch, Some("nightly")).await, 0);
    assert_eq!(last_scores(&world).await.values().filter(|score| **score != 0.1).count(), 0);
    let log = LogId {
        workspace: world.workspace.clone(),
        day: "2026-06-01".parse().unwrap(),
        kind: Kind::Predictions,
        lane: 3,
    };
    let last = scan::last_of(&*world.table, &log).await.unwrap().unwrap();
    assert_eq!((last.placed, last.rows), (Placed::ByBatch, 50));
}

/// A day that 0.1 has begun, in lane 0, goes on in that one lane.
#[tokio::test]
async fn a_day_that_was_begun_by_version_1_goes_on_in_one_lane() {
    let world = World::new();
    let catalog = Catalog::new(Arc::clone(&world.table) as _);
    let lanes = catalog.set_lanes(&world.workspace, 4).await.unwrap();
    let log = LogId {
        workspace: world.workspace.clone(),
        day: "2026-06-01".parse().unwrap(),
        kind: Kind::Predictions,
        lane: 0,
    };
    let old = world.batch_of(0, 10, "2026-06-01", 0.9).columns;
    let old = Segment::pack(log.clone(), 1, world.clock.now(), Vec::new(), &old).unwrap();
    let old = Segment { placed: Placed::ByBatch, ..old };
    world.table.put(old.to_item(), Condition::Absent).await.unwrap();
    let batch = world.batch_of(0, 10, "2026-06-01", 0.1);
    world.appender().append(&world.workspace, &lanes, batch, None, Remember::Week).await.unwrap();
    assert_eq!(scan::heads(&*world.table, &world.workspace).await.unwrap().len(), 1);
    assert_eq!(scan::head(&*world.table, &log).await.unwrap(), 2);
    assert!(last_scores(&world).await.values().all(|score| *score == 0.1));
}

#[tokio::test]
async fn release_events_stay_in_one_lane() {
    let world = World::new();
    let catalog = Catalog::new(Arc::clone(&world.table) as _);
    let lanes = catalog.set_lanes(&world.workspace, 16).await.unwrap();
    let row = |row: usize| {
        format!(
            r#"{{"release":"v{row}","released_at":"2026-06-01T00:00:00Z","model":"m","action":"register"}}"#
        )
    };
    let body = (0..20).map(row).collect::<Vec<_>>().join("\n");
    let batch = read_ndjson(Kind::Releases, body.as_bytes(), world.clock.now()).unwrap();
    world.appender().append(&world.workspace, &lanes, batch, None, Remember::Week).await.unwrap();
    let heads = scan::heads(&*world.table, &world.workspace).await.unwrap();
    assert_eq!(heads.iter().map(|head| (head.log.lane, head.seq)).collect::<Vec<_>>(), [(0, 1)]);
}

/// The clock of the table, moved.
fn off(world: &World, seconds: i64) -> Clock {
    let clock = world.clock.clone();
    Clock::from_fn(move || clock.now().plus_seconds(seconds))
}

#[tokio::test]
async fn a_clock_that_is_off_by_more_than_the_bound_is_refused_with_both_times() {
    let world = World::new();
    for (seconds, said) in [(11, "2026-06-10T00:00:11Z"), (-11, "2026-06-09T23:59:49Z")] {
        let appender = Appender::new(Arc::clone(&world.table) as _, off(&world, seconds));
        for (key, lanes) in [(None, 1), (Some("key"), 1), (Some("other"), 4)] {
            let lanes = if lanes == 1 { Lanes::default() } else { four_lanes(&world).await };
            let batch = world.batch(0, 3);
            let appended = appender.append(&world.workspace, &lanes, batch, key, Remember::Week).await;
            let error = appended.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let error = error.to_string();
            assert!(error.contains(said) && error.contains("2026-06-10T00:00:00Z"), "{error}");
        }
        assert_eq!(world.stored().await.len(), 0);
    }
    for seconds in [10, -10] {
        let appender = Appender::new(Arc::clone(&world.table) as _, off(&world, seconds));
        let batch = world.batch(10 + seconds as usize % 7, 1);
        assert!(world.append(&appender, batch, None).await.unwrap());
    }
    // The times of a history are not compared with those of today.
    let appender = Appender::replaying(Arc::clone(&world.table) as _, off(&world, -400 * 24 * 3600));
    assert!(world.append(&appender, world.batch_of(0, 1, "2025-05-01", 0.5), None).await.unwrap());
}

async fn four_lanes(world: &World) -> Lanes {
    Catalog::new(Arc::clone(&world.table) as _).set_lanes(&world.workspace, 4).await.unwrap()
}

#[tokio::test]
async fn the_times_of_a_log_never_fall() {
    let world = World::new();
    let ahead = Appender::new(Arc::clone(&world.table) as _, off(&world, 8));
    let behind = Appender::new(Arc::clone(&world.table) as _, off(&world, -8));
    for row in 0..20 {
        let appender = if row % 2 == 0 { &ahead } else { &behind };
        assert!(world.append(appender, world.batch(row, 1), None).await.unwrap());
        // One that knows nothing of the log.
        let new = Appender::new(Arc::clone(&world.table) as _, off(&world, -8));
        assert!(world.append(&new, world.batch(100 + row, 1), None).await.unwrap());
        world.wait(1);
    }
    let head = scan::heads(&*world.table, &world.workspace).await.unwrap().remove(0);
    let segments = scan::segments(&*world.table, &head.log, 1, head.seq).await.unwrap();
    assert_eq!(segments.len(), 40);
    assert!(segments.is_sorted_by_key(|segment| segment.appended_at));
}
