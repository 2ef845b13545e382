//! Workers with clocks that are far apart.

use event::Clock;
use projector::{Options, heartbeat::heartbeats};
use tests::engine::Fresh;

use super::workers::{start, start_with, until};

/// A worker does not see items that have expired by its clock. A worker without a visible heartbeat counts as dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_hours_ahead_sees_other_workers() {
    let fresh = Fresh::sqlite(Clock::system());
    let clock = Clock::from_fn(|| Clock::system().now().plus_seconds(2 * 60 * 60));
    let ahead = fresh.open_again(clock.clone());
    let running = [start(&fresh.table, "right"), start_with(&ahead, Options::new(clock))];
    for table in [&fresh.table, &ahead] {
        until("the heartbeats of both", async || heartbeats(&**table).await.unwrap().len() == 2).await;
    }
    for one in running {
        one.stop.send(()).unwrap();
        one.task.await.unwrap().unwrap();
    }
}
