use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use store::{
    Item,
    key::Key,
    scan,
    table::{Changes, Condition, Page, Position, Query, Shard, Write, sqlite::SqliteTable},
};

use super::*;
use crate::json::read_ndjson;

/// Counts what is written.
#[derive(Debug)]
struct Counting {
    inner: SqliteTable,
    writes: AtomicUsize,
}

#[async_trait::async_trait]
impl Table for Counting {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.inner.query(query).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.put(item, condition).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.inner.delete(key, condition).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.inner.transact(writes).await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.inner.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.inner.shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: std::time::Duration) -> Result<Changes> {
        self.inner.changes(shard, from, wait).await
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
        let table = Arc::new(Counting { inner, writes: AtomicUsize::new(0) });
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

    async fn append(&self, appender: &Appender, batch: Batch, key: Option<&str>) -> Result<bool> {
        let receipt = appender.append(&self.workspace, &Lanes::default(), batch, key, Remember::Week).await?;
        Ok(!receipt.replayed)
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
                let column = columns.column("key").unwrap();
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
    world.seconds.store(6 * 24 * 3600, Ordering::Relaxed);
    for other in 0..1_100 {
        world.append(&one, world.batch(100_000 + other, 1), None).await.unwrap();
    }
    let before = world.rows().await;
    assert!(!world.append(&world.appender(), world.batch(1, 1), Some("a")).await.unwrap());
    assert!(!world.append(&world.appender(), world.batch(300, 300), None).await.unwrap());
    assert_eq!(world.rows().await, before);
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
        lane: 3,
    };
    let claims =
        Claims { table: &*world.table, key: key::batch(&world.workspace, Kind::Predictions, "nightly") };
    let after = BTreeMap::from([(log.clone(), 0)]);
    let claim = Claim::new(&digest, after, 5, Remember::Week, world.clock.now());
    claims.open(&world.workspace, claim).await.unwrap();
    world.append(&world.appender(), world.batch(10, 1), None).await.unwrap();
    assert!(world.append(&world.appender(), batch.clone(), Some("nightly")).await.unwrap());
    assert!(!world.append(&world.appender(), batch, Some("nightly")).await.unwrap());
    // It went to the lane of its claim, not to the one of today.
    assert_eq!(world.stored().await[&log.to_string()].len(), 5);
}

#[tokio::test]
async fn many_at_once_share_segments_and_cost_one_write_together() {
    let world = World::new();
    let appender = world.appender();
    world.append(&appender, world.batch(1_000, 1), None).await.unwrap();
    world.writes();
    let appends = (0..64).map(|row| world.append(&appender, world.batch(row, 1), None));
    assert!(futures::future::try_join_all(appends).await.unwrap().iter().all(|appended| *appended));
    let writes = world.writes();
    assert!(writes <= 4, "{writes} writes for 64 events");
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

#[tokio::test]
async fn a_change_of_lanes_doubles_nothing() {
    let world = World::new();
    let catalog = store::catalog::Catalog::new(Arc::clone(&world.table) as _);
    let appender = world.appender();
    let append = async |appender: &Appender, row, key: Option<&str>| {
        let lanes = catalog.lanes(&world.workspace).await.unwrap();
        let batch = world.batch(row, 1);
        appender.append(&world.workspace, &lanes, batch, key, Remember::Week).await.unwrap().replayed
    };
    for row in 0..20 {
        assert!(!append(&appender, row, None).await);
        assert!(!append(&appender, 100 + row, Some(&format!("key-{row}"))).await);
    }
    catalog.set_lanes(&world.workspace, 4, world.clock.now()).await.unwrap();
    world.seconds.store(store::catalog::LANES_DELAY_SECONDS, Ordering::Relaxed);
    for row in 0..20 {
        assert!(append(&appender, row, None).await);
        assert!(append(&world.appender(), 100 + row, Some(&format!("key-{row}"))).await);
        assert!(!append(&appender, 200 + row, None).await);
    }
    let stored = world.stored().await;
    assert_eq!(stored.len(), 4, "all lanes are used");
    assert_eq!(stored.values().map(Vec::len).sum::<usize>(), 60);
}
