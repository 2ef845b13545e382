//! Identity of batches, on every engine: keys that expire, repeats without a key, and rows of files that become good later.

use std::sync::Arc;

use catalog::Workspace;
use event::{Kind, Timestamp};
use ingest::{Ingest, Remember, file::Origin, json::read_ndjson};
use log::scan;
use table::Table;
use tests::{
    conformance::TestClock,
    engine::{Engine, Fresh},
    on_both_engines,
    register::register,
    world::at,
};

on_both_engines!(
    World::on:
    batch_key_is_reusable_after_seven_days,
    keyless_batch_is_recognized_for_ten_minutes,
    chunk_row_is_stored_once_despite_other_rows,
);

const WEEK: i64 = 7 * 24 * 60 * 60;
const TEN_MINUTES: i64 = 10 * 60;

struct World {
    table: Arc<dyn Table>,
    clock: TestClock,
    workspace: Workspace,
    _fresh: Fresh,
}

impl World {
    /// The time is in the future, so that no engine deletes by its own clock what must last by this one.
    async fn on(engine: Engine) -> Self {
        let clock = TestClock::new(at("2036-01-15T12:00:00Z"));
        let fresh = engine.fresh(clock.clock()).await;
        let table = Arc::clone(&fresh.table);
        let workspace = register(&table, "credit/prod", &["v1"], clock.now()).await;
        Self { table, clock, workspace, _fresh: fresh }
    }

    fn ingest(&self) -> Ingest {
        Ingest::replaying(Arc::clone(&self.table), self.clock.clock())
    }

    async fn send(&self, rows: usize, key: Option<&str>, remember: Remember) -> usize {
        let batch = batch(rows, self.clock.now());
        self.ingest().submit(&self.workspace, batch, key, remember).await.unwrap().appended
    }

    async fn stored(&self) -> usize {
        let mut rows = 0;
        for head in scan::heads(&*self.table, self.workspace.id()).await.unwrap() {
            let segments = scan::segments(&*self.table, &head.log, 1, head.seq).await.unwrap();
            rows += segments.iter().map(|segment| segment.rows).sum::<usize>();
        }
        rows
    }
}

fn batch(rows: usize, now: Timestamp) -> ingest::Batch {
    let row = |row| {
        format!(r#"{{"key":"k{row}","predicted_at":"2036-01-14T04:30:00Z","release":"v1","score":0.5}}"#)
    };
    read_ndjson(Kind::Predictions, (0..rows).map(row).collect::<Vec<_>>().join("\n").as_bytes(), now).unwrap()
}

async fn batch_key_is_reusable_after_seven_days(world: World) {
    for round in 1..=3 {
        assert_eq!(world.send(2_500, Some("nightly"), Remember::Week).await, 2_500);
        assert_eq!(world.send(2_500, Some("nightly"), Remember::Week).await, 0);
        assert_eq!(world.stored().await, round * 2_500);
        world.clock.forward(WEEK + 1);
    }
}

async fn keyless_batch_is_recognized_for_ten_minutes(world: World) {
    for round in 1..=2 {
        assert_eq!(world.send(150, None, Remember::Week).await, 150);
        world.clock.forward(TEN_MINUTES - 1);
        assert_eq!(world.send(150, None, Remember::Week).await, 0, "as a retry");
        world.clock.forward(1);
        assert_eq!(world.stored().await, round * 150);
    }
    assert_eq!(world.send(150, None, Remember::Never).await, 150, "as often as it comes");
}

async fn chunk_row_is_stored_once_despite_other_rows(world: World) {
    let origin = Origin { digest: "0af1".repeat(16), first: 1 };
    let batch = batch(3_000, world.clock.now());
    let mut stored = 0;
    for (every, appended) in [(2, 1_500), (2, 0), (3, 500), (1, 1_000), (1, 0)] {
        let good: Vec<usize> = (0..3_000).filter(|row| row % every == 0).collect();
        let receipt = world.ingest().submit_chunk(&world.workspace, &origin, &batch, &good).await.unwrap();
        assert_eq!((receipt.rows, receipt.appended), (good.len(), appended));
        stored += appended;
        assert_eq!(world.stored().await, stored);
        world.clock.forward(WEEK);
    }
}
