//! Appending on a table that counts writes, dies after some, and holds writes back.

mod clocks;
mod group_commit;
mod histories;
mod lanes;
mod repeats;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use catalog::Catalog;
use event::{ErrorKind, lane::lane_of};
use log::{scan, segment_item::Segment};
use table::{Call, Layer, sqlite::SqliteTable};

use super::{
    idempotency::{IdempotencyRecord, IdempotencyRecords},
    *,
};
use crate::{json::read_ndjson, limits::REPEAT_SECONDS};

/// Counts what is written, dies after so many writes, fails in passing, and holds writes back.
#[derive(Debug)]
struct Counting {
    inner: SqliteTable,
    writes: AtomicUsize,
    left: AtomicI64,
    /// After how many writes one fails; that one alone.
    stumbles: AtomicI64,
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
            if self.stumbles.fetch_sub(1, Ordering::Relaxed) == 0 {
                return Err(Error::unavailable("another process holds the file"));
            }
            self.writes.fetch_add(1, Ordering::Relaxed);
            drop(self.gate.read().await);
        }
        Ok(())
    }
}

impl Appender {
    /// Number of writers that wait for their turn.
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
        let table = Arc::new(Counting { inner, writes, left, stumbles: AtomicI64::new(-1), gate });
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

    /// Appends a batch; true, if any of it was stored.
    async fn append(&self, appender: &Appender, batch: Batch, key: Option<&str>) -> Result<bool> {
        let receipt = appender.append(&self.workspace, 1, batch, key, Remember::Week).await?;
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
