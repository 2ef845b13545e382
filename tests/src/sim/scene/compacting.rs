//! Small segments are merged while everything else happens: what projections say, and what is read of the logs, stays what was appended.

use std::{sync::atomic::Ordering, time::Duration};

use event::Result;
use log::{key, layout, merged, segment_item::Segment, store::Store};
use projector::compact::Compactor;
use table::{Query, Table, query_all};
use tokio::{task::JoinHandle, time::sleep};

use super::{FAULTS, RunReport, Scene, runtime};
use crate::sim::{Op, ops};

/// Factor on the number of appended segments: few are not merged.
const MORE: u64 = 8;

/// Number of workers that merge, beside the projectors.
const WORKERS: usize = 2;

/// Wait of a worker between two looks, and time in the end until all is merged.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const AT_LAST: Duration = Duration::from_secs(600);

/// Result of a run in which small segments were merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Results besides the merges.
    pub report: RunReport,
    /// Number of items that hold several segments in the end.
    pub merged: usize,
    /// Number of segments that have no item of their own any more.
    pub gone: usize,
}

/// Runs the operations of a seed, with more segments, while workers that die merge small ones.
///
/// # Panics
/// When there can be no runtime.
pub fn compacting(seed: u64) -> Compacted {
    runtime().block_on(async {
        let mut scene = Scene::new(seed, None, 1).await.expect("a catalog in memory");
        scene.world.faults.store(0, Ordering::Relaxed);
        scene.compacts = true;
        scene.world.lock().logs = scene.logs();
        let (_, table) = scene.table("layout");
        layout::begin(&*table, scene.clock.now()).await.expect("a table in memory");
        scene.world.faults.store(FAULTS, Ordering::Relaxed);
        let mut workers: Vec<JoinHandle<()>> = (0..WORKERS).map(|_| scene.merges()).collect();
        for op in ops(seed) {
            let op = match op {
                Op::Append { log, segments, told } => Op::Append { log, segments: segments * MORE, told },
                op => op,
            };
            scene.apply(op).await;
            sleep(Duration::from_millis(scene.random.below(20_000))).await;
            if scene.random.hits(4) {
                let which = scene.random.below(WORKERS as u64) as usize;
                workers[which].abort();
                workers[which] = scene.merges();
            }
            if !scene.world.lock().violations.is_empty() {
                break;
            }
        }
        scene.world.faults.store(0, Ordering::Relaxed);
        sleep(AT_LAST).await;
        workers.iter().for_each(JoinHandle::abort);
        if let Err(error) = scene.compare_logs().await {
            scene.violated(format!("the logs cannot be read: {error}"));
        }
        let (merged, gone) = scene.stored();
        // All is folded again, from what is merged.
        scene.apply(Op::Rebuild).await;
        Compacted { report: scene.settle().await, merged, gone }
    })
}

impl Scene {
    /// A worker that merges what it finds, again and again.
    fn merges(&mut self) -> JoinHandle<()> {
        let (_, table) = self.table("merges");
        let (world, workspace, clock) = (self.world.clone(), self.workspace.clone(), self.clock.clone());
        tokio::spawn(async move {
            let mut compactor = Compactor::default();
            loop {
                sleep(LOOK_EVERY).await;
                // So that it looks at days again that are done.
                world.lock().items.remove(&key::compacted(&workspace));
                match compactor.compact(&*table, &workspace, clock.now()).await {
                    Ok(done) if !done.is_left => compactor = Compactor::default(),
                    _ => {}
                }
            }
        })
    }

    /// Reads all logs as everybody does, and compares them with what was appended.
    async fn compare_logs(&mut self) -> Result<()> {
        let (_, table) = self.table("compares");
        let logs = self.world.lock().logs.clone();
        for (log, appended) in logs {
            let found = query_all(&*table, Query::table(key::segments_from(&log, 0))).await?;
            if found.len() != appended.len() {
                self.violated(format!("{log}: {} segments of {}", found.len(), appended.len()));
            }
            for ((item, appended), seq) in found.into_iter().zip(appended).zip(1..) {
                let is_there = key::parse_segment(&item.key) == Some((log.clone(), seq));
                let unpacked = Segment::from_item(item).and_then(|segment| segment.unpack(|_| true));
                let is_same = appended.is_none_or(|appended| unpacked.is_ok_and(|found| found == appended));
                if !is_there || !is_same {
                    self.violated(format!("{log}: segment {seq} is not what was appended"));
                }
            }
        }
        Ok(())
    }

    /// Number of items that hold several segments, and number of segments without an item of their own.
    fn stored(&self) -> (usize, usize) {
        let state = self.world.lock();
        let spans = || state.items.values().filter_map(|stored| merged::span(&stored.item));
        let is_own = |log: &log::key::LogId, seq| {
            state
                .items
                .get(&key::segment(log, seq))
                .is_some_and(|stored| merged::span(&stored.item).is_none())
        };
        let gone = spans().map(|(log, from, last)| (from..=last).filter(|seq| !is_own(&log, *seq)).count());
        (spans().count(), gone.sum())
    }
}

/// A table as everybody sees it.
pub(super) fn seen(table: impl Table + 'static, compacts: bool) -> std::sync::Arc<dyn Table> {
    let table = std::sync::Arc::new(table);
    if compacts { Store::over(table) } else { table }
}
