//! Projectors that start, die, are held up and rebuild.

use std::{sync::Arc, time::Duration};

use event::Result;
use log::{key, segment_cache::SegmentCache};
use projector::{Options, Projector, rebuild};
use table::{Condition, Item, Write, item::Value};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

use super::{Scene, ops::PROCESSES};
use crate::sim::process::Admission;

/// Duration of a heartbeat, and interval between two sweeps.
const PERIOD: Duration = Duration::from_secs(1);
const SWEEP_EVERY: Duration = Duration::from_secs(300);

/// Rest of a day that grows a little between folds.
const REST: Duration = Duration::from_secs(5);

/// Maximum bytes handed over to a projector: some twenty segments, so that now and then there is no room.
const SEGMENT_CACHE_BYTES: u64 = 32 * 1024;

/// A projector that was started.
pub(super) struct Running {
    pub(super) name: String,
    pub(super) projector: Projector,
    pub(super) gate: Arc<Admission>,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<Result<()>>,
    pub(super) segment_cache: SegmentCache,
}

impl Scene {
    pub(super) fn start(&mut self, process: usize) {
        if self.processes[process].as_ref().is_some_and(|running| running.stop.is_some()) {
            return;
        }
        self.crash(process);
        let name = format!("p{process}-{}", self.started);
        let (gate, table) = self.table(&name);
        // Half of them take what is handed over in their process, as if the writers were in it.
        let segment_cache = if self.handing.hits(2) {
            SegmentCache::of(SEGMENT_CACHE_BYTES)
        } else {
            SegmentCache::default()
        };
        let options = Options {
            worker: name.clone(),
            clock: self.clock.clone(),
            period: PERIOD,
            sweep_every: SWEEP_EVERY,
            sender: self.sender.clone(),
            append: None,
            segment_cache: segment_cache.clone(),
            compacts: self.compacts,
            rest: REST,
        };
        let (stop, stopped) = oneshot::channel();
        let projector = Projector::new(table, options);
        let runs = projector.clone();
        let task = tokio::spawn(async move { runs.run(async move { _ = stopped.await }).await });
        self.processes[process] =
            Some(Running { name, projector, gate, stop: Some(stop), task, segment_cache });
    }

    pub(super) fn crash(&mut self, process: usize) {
        if let Some(running) = self.processes[process].take() {
            self.handed += running.segment_cache.taken();
            running.task.abort();
        }
    }

    pub(super) fn pause(&mut self, process: usize, millis: u64) {
        let Some(running) = &self.processes[process] else { return };
        let gate = Arc::clone(&running.gate);
        gate.close();
        tokio::spawn(async move {
            sleep(Duration::from_millis(millis)).await;
            gate.open();
        });
    }

    pub(super) fn steal(&self, process: usize) {
        let Some(running) = &self.processes[process] else { return };
        let mut writes = Vec::new();
        {
            let state = self.world.lock();
            let leases = state.items.values().filter(|stored| key::parse_lease(&stored.item.key).is_some());
            let others = leases.filter(|stored| stored.item.optional_text("owner") != Some(&running.name));
            let others: Vec<&Item> = others.map(|stored| &stored.item).collect();
            if !others.is_empty() {
                let item = others[self.random.below(others.len() as u64) as usize];
                let epoch = item.int("epoch").unwrap_or(0);
                let stolen = item.clone().with("owner", running.name.as_str()).with("epoch", epoch + 1);
                writes.push(Write::Put(stolen, Condition::Equals("epoch", Value::from(epoch))));
            }
        }
        _ = self.world.write(writes);
    }

    pub(super) fn begin_rebuild(&mut self) {
        if self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.is_finished()) {
            return;
        }
        let (_, table) = self.table("rebuild");
        let (workspace, clock) = (self.workspace.clone(), self.clock.clone());
        self.rebuild = Some(tokio::spawn(async move {
            let pace = rebuild::Pace { share: 1.0, clock };
            rebuild::rebuild(&*table, &workspace, &pace, |_| {}).await
        }));
    }

    pub(super) async fn look_at_processes(&mut self) {
        for process in 0..PROCESSES {
            let has_ended = self.processes[process].as_ref().is_some_and(|one| one.task.is_finished());
            if has_ended && let Some(running) = self.processes[process].take() {
                match running.task.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => self.violated(format!("{} has ended: {error}", running.name)),
                    Err(error) => self.violated(format!("{} has failed: {error}", running.name)),
                }
            }
        }
    }
}
