//! The end of a run: everything is healed and must be written soon.

use std::{sync::atomic::Ordering, time::Duration};

use log::key;
use table::Item;
use tokio::time::{Instant, sleep};

use super::{RunReport, Scene};
use crate::sim::world::State;

/// Time until all is written when no change was lost in silence: no sweep comes by.
const PROMPT: Duration = Duration::from_secs(100);

/// And when one was: the next sweep and the one after it.
const PATIENT: Duration = Duration::from_secs(800);

/// Interval between looks.
const LOOK: Duration = Duration::from_millis(250);

impl Scene {
    /// Heals everything, waits until all should be written, and says what is wrong.
    pub(super) async fn settle(mut self) -> RunReport {
        self.world.faults.store(0, Ordering::Relaxed);
        self.world.deliver();
        for running in self.processes.iter().flatten() {
            running.gate.open();
        }
        if self.processes.iter().flatten().all(|running| running.stop.is_none()) {
            self.start(0);
        }
        self.look_at_names().await;
        let begin = Instant::now();
        let patience = if self.is_lossy { PATIENT } else { PROMPT };
        loop {
            self.look_at_processes().await;
            let left = self.left_to_rebuild();
            if let Some(outcome) = self.world.lock().settled(left, begin.elapsed() > patience) {
                let running = self.processes.iter().flatten().map(|running| running.segment_cache.taken());
                return RunReport { handed: self.handed + running.sum::<u64>(), ..outcome };
            }
            sleep(LOOK).await;
        }
    }

    /// Goes on with a rebuild that died or failed; what is left of it.
    pub(super) fn left_to_rebuild(&mut self) -> Option<String> {
        let item = self.world.lock().items.get(&key::active(&self.workspace)).map(|one| one.item.clone())?;
        let number = |name| item.int(name).unwrap_or(0);
        let is_over = number("building") == 0 && number("oldest") == number("version");
        let runs = self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.is_finished());
        if !is_over && !runs {
            self.begin_rebuild();
        }
        (!is_over || runs).then(|| "the rebuild has not ended".to_owned())
    }
}

impl State {
    /// Report of the run, if it is over: nothing is `left` or unfinished, it is too late, or something is wrong.
    fn settled(&mut self, left: Option<String>, is_late: bool) -> Option<RunReport> {
        let unfinished = if left.is_some() { Vec::new() } else { self.unfinished() };
        let is_done = left.is_none() && unfinished.is_empty();
        if is_late && !is_done {
            self.violations.extend(left.into_iter().chain(unfinished));
        }
        (is_done || is_late || !self.violations.is_empty()).then(|| self.outcome())
    }

    pub(super) fn outcome(&self) -> RunReport {
        let number = |item: &Item, name| item.int(name).unwrap_or(0) as u64;
        let items = || self.items.values().map(|stored| &stored.item);
        let leases = items().filter(|item| key::parse_lease(&item.key).is_some());
        let active = items().filter(|item| key::parse_active(&item.key).is_some());
        RunReport {
            violations: self.violations.clone(),
            writes: self.writes,
            segments: self.logs.values().map(Vec::len).sum(),
            skipped: self.skipped.len(),
            defined: self.said.recorded(),
            rebuilt: active.map(|item| number(item, "version") - 1).sum(),
            taken: leases.map(|item| number(item, "epoch") - 1).sum(),
            handed: 0,
        }
    }
}
