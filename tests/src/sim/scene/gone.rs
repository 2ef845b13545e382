//! Retention against rebuild, with items so small that an evaluation takes several: a day expires while it is
//! folded, evaluated and rebuilt. What is said of it in the end is the fold of all that was appended.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use catalog::Catalog;
use event::{Clock, Day, Id, Result};
use log::{
    counted::{self, CountedTime},
    key,
};
use projector::expire::expire;
use table::Table;
use tokio::time::sleep;

use super::{Op, Planted, RunReport, Scene, ops, runtime};

/// The most bytes of an item of an evaluation: two releases or three fit.
const ITEM_BYTES: usize = 2_400;

/// Number of releases that predict.
const RELEASES: usize = 5;

/// For how many days after their own events are kept: those of the first day have expired, of the second not.
const KEPT_DAYS: u32 = 7;

/// Maximum tries of a deletion, and the wait between two: a day waits until it is projected.
const TRIES: usize = 60;
const WAIT: Duration = Duration::from_millis(200);

/// The day that expires.
pub(super) const EXPIRES: &str = "2026-06-01";

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// As of any run.
    pub outcome: RunReport,
    /// True if the day was marked.
    pub expired: bool,
    /// Number of items of evaluations, without their heads.
    pub parts: usize,
}

/// Runs the operations of a seed, and somewhere among them a rebuild and the expiry of a day.
///
/// # Panics
/// When there can be no runtime.
pub fn retained(seed: u64, planted: Option<Planted>) -> Gone {
    runtime().block_on(async {
        let mut scene = Scene::new(seed, planted, RELEASES).await.expect("a catalog in memory");
        scene.world.item_bytes.store(ITEM_BYTES, Ordering::Relaxed);
        let ops = ops(seed);
        let at = scene.random.below(ops.len() as u64 + 1) as usize;
        for op in &ops[..at] {
            scene.apply(*op).await;
        }
        // Predictions and outcomes of the day, in both lanes.
        for log in [0, 2, 4, 6] {
            scene.apply(Op::Append { log, segments: 1 + scene.random.below(4), told: true }).await;
        }
        scene.apply(Op::Start { process: 0 }).await;
        scene.apply(Op::Advance { millis: 500 + scene.random.below(1_500) }).await;
        scene.begin_expiry();
        scene.apply(Op::Advance { millis: scene.random.below(600) }).await;
        scene.apply(Op::Rebuild).await;
        for op in &ops[at..] {
            scene.apply(*op).await;
            if !scene.world.lock().violations.is_empty() {
                break;
            }
        }
        let world = Arc::clone(&scene.world);
        let workspace = scene.workspace.clone();
        let outcome = scene.settle().await;
        let state = world.lock();
        let expired = state.items.contains_key(&key::expired(&workspace, day()));
        let is_part = |key: &&table::Key| {
            matches!(key::parse_projection(key), Ok((_, key::Projection::EvaluationPart(..))))
        };
        Gone { outcome, expired, parts: state.items.keys().filter(is_part).count() }
    })
}

fn day() -> Day {
    EXPIRES.parse().expect("a day")
}

impl Scene {
    /// Deletes the day, as a sweep does; from now on nothing is appended to it.
    fn begin_expiry(&mut self) {
        self.closed = Some(day());
        let (_, table) = self.table("sweeper");
        let (workspace, clock) = (self.workspace.clone(), self.clock.clone());
        tokio::spawn(async move {
            for _ in 0..TRIES {
                if sweep(&table, &workspace, &clock).await.is_ok_and(|is_over| is_over) {
                    break;
                }
                sleep(WAIT).await;
            }
        });
    }
}

/// True if the day is gone.
async fn sweep(table: &Arc<dyn Table>, workspace: &Id, clock: &Clock) -> Result<bool> {
    let (catalog, now) = (Catalog::new(Arc::clone(table)), clock.now());
    if catalog.retention(workspace).await?.days != Some(KEPT_DAYS) {
        catalog.set_retention(workspace, Some(KEPT_DAYS), now).await?;
    }
    let before = counted::load(&**table).await?;
    let (ver, minutes) = before.map_or((0, 0), |time| (time.ver, time.minutes));
    CountedTime { ver: ver + 1, minutes: minutes + 60, at: now }.write(&**table).await?;
    Ok(expire(&**table, &catalog, workspace, now).await?.days > 0)
}
