//! Runs operations on a world with some processes, lets everything settle, and judges.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec};
use event::{Clock, Columns, Day, Definition, Id, Kind, Result, Task};
use log::{key::LogId, projection::Applied};
use projector::{deliver::WebhookSender, rebuild};
use table::Table;
use tokio::{task::JoinHandle, time::sleep};

mod appends;
mod changes;
mod compacting;
mod gone;
mod projectors;
mod reader;
mod settle;
mod transitions;

pub(super) use appends::events;
pub(super) use changes::ENVIRONMENT;
use changes::{MODEL, Names, SPARE};
pub use compacting::{Compacted, compacting};
pub use gone::{Gone, retained};
use projectors::Running;
pub use transitions::{RuleTransition, transitions};

use super::{
    Op, Planted, ops,
    ops::{LOGS, PROCESSES, RELEASE_LOGS},
    process::{Admission, Process},
    random::Random,
    world::World,
};

/// One call in so many fails.
const FAULTS: u64 = 60;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Violations; none, if all is well.
    pub violations: Vec<String>,
    /// Number of writes.
    pub writes: u64,
    /// Number of appended segments.
    pub segments: usize,
    /// Number of segments that were left out.
    pub skipped: usize,
    /// Number of recorded definitions.
    pub defined: usize,
    /// Number of rebuilds that came to their end.
    pub rebuilt: u64,
    /// Number of times that a lease changed its owner.
    pub taken: u64,
    /// Number of segments that projectors took from memory, and did not read.
    pub handed: u64,
}

/// Runs the operations of a seed.
pub fn run(seed: u64, planted: Option<Planted>) -> RunReport {
    run_ops(seed, &ops(seed), planted)
}

/// Runs operations; all chance comes from the seed.
///
/// # Panics
/// When there can be no runtime.
pub fn run_ops(seed: u64, ops: &[Op], planted: Option<Planted>) -> RunReport {
    runtime().block_on(async {
        let mut scene = Scene::new(seed, planted, 1).await.expect("a catalog in memory");
        for op in ops {
            scene.apply(*op).await;
            if !scene.world.lock().violations.is_empty() {
                break;
            }
        }
        scene.settle().await
    })
}

/// Appends segments to one log, a few milliseconds apart, beside one projector. Returns how many rows
/// there are in the end, and how many were joined in all evaluations together.
///
/// # Panics
/// When something is wrong.
pub fn grow(segments: usize) -> (u64, u64) {
    runtime().block_on(async {
        let mut scene = Scene::new(0, None, 1).await.expect("a catalog in memory");
        scene.world.faults.store(0, Ordering::Relaxed);
        scene.start(0);
        let projector = scene.processes[0].as_ref().expect("it runs").projector.clone();
        for _ in 0..segments {
            scene.append(0, false);
            sleep(Duration::from_millis(5)).await;
        }
        // Until the day was quiet, and was evaluated as it is now.
        sleep(Duration::from_secs(10)).await;
        let world = Arc::clone(&scene.world);
        let outcome = scene.settle().await;
        assert_eq!(outcome.violations, Vec::<String>::new());
        let state = world.lock();
        let rows: usize = state.logs.values().flatten().flatten().map(|columns| columns.rows).sum();
        (rows as u64, projector.health().evaluated_rows)
    })
}

/// Time goes by when everybody waits.
fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime")
}

struct Scene {
    seed: u64,
    random: Random,
    /// Draws who is handed what, apart from all else.
    handing: Random,
    /// Number of such segments that stopped projectors took.
    handed: u64,
    planted: Option<Planted>,
    world: Arc<World>,
    clock: Clock,
    workspace: Id,
    processes: [Option<Running>; PROCESSES],
    started: u64,
    rebuild: Option<JoinHandle<Result<rebuild::Report>>>,
    /// True if a change was lost that nothing tells of.
    is_lossy: bool,
    /// Number of releases that predict.
    releases: usize,
    /// Expected names in the catalog.
    names: Names,
    /// A day that expires, to which nothing is appended any more.
    closed: Option<Day>,
    /// True if small segments are merged.
    compacts: bool,
    /// WebhookSender of deliveries.
    sender: Option<Arc<dyn WebhookSender>>,
    /// Prefixes that readers saw, by version, day and log.
    seen: BTreeMap<(u32, Day), Applied>,
}

impl Scene {
    async fn new(seed: u64, planted: Option<Planted>, releases: usize) -> Result<Self> {
        let world = World::new();
        let clock = world.clock.clone();
        let base = clock.now();
        let mut scene = Self {
            seed,
            random: Random::new(seed.wrapping_add(1 << 32)),
            handing: Random::new(seed.wrapping_add(1 << 33)),
            handed: 0,
            planted,
            world,
            clock,
            workspace: Id::new(base),
            processes: [const { None }; PROCESSES],
            started: 0,
            rebuild: None,
            is_lossy: false,
            releases,
            names: Names::default(),
            closed: None,
            compacts: false,
            sender: None,
            seen: BTreeMap::new(),
        };
        scene.register().await?;
        scene.world.faults.store(FAULTS, Ordering::Relaxed);
        Ok(scene)
    }

    async fn register(&mut self) -> Result<()> {
        let catalog = Catalog::new(self.table("setup").1);
        let now = self.clock.now();
        let workspace = catalog.ensure_workspace("sim/one", now).await?;
        let task = Task::Binary { positive_label: "1".into() };
        catalog.ensure_model(workspace.id(), MODEL, &task, now).await?;
        let spare = catalog.ensure_model(workspace.id(), SPARE, &task, now).await?;
        self.names = Names::new(spare.entity.id);
        for release in 1..=self.releases {
            let (name, model) = (format!("v{release}"), MODEL.to_owned());
            let spec = ReleaseSpec { name, model, configuration: None, environment: None };
            catalog.ensure_release(workspace.id(), &spec, now).await?;
        }
        self.workspace = workspace.id().clone();
        let mut state = self.world.lock();
        for release in 1..=self.releases {
            state.definitions.insert(format!("v{release}"), Definition::of(task.clone()));
        }
        state.logs = self.logs();
        Ok(())
    }

    /// All logs, in which nothing is yet.
    fn logs(&self) -> BTreeMap<LogId, Vec<Option<Columns>>> {
        let logs =
            (0..LOGS).map(|log| self.log(log)).chain((0..RELEASE_LOGS).map(|log| self.release_log(log)));
        logs.map(|log| (log, Vec::new())).collect()
    }

    /// Appends come in any order, and only the first one to lane 0 says that there are others: so of what is merged, other days take their place.
    fn log(&self, number: usize) -> LogId {
        let (day, lane) =
            if self.compacts { ((number & 1) + 2 * (number >> 2), 0) } else { (number & 1, number >> 2) };
        LogId {
            workspace: self.workspace.clone(),
            day: format!("2026-06-0{}", day + 1).parse().expect("a day"),
            kind: if number & 2 == 0 { Kind::Predictions } else { Kind::Outcomes },
            lane: lane as u8,
        }
    }

    /// A table for a process, and what holds its calls up.
    fn table(&mut self, name: &str) -> (Arc<Admission>, Arc<dyn Table>) {
        self.started += 1;
        let gate = Arc::<Admission>::default();
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(self.started);
        let world = Arc::clone(&self.world);
        let table = Process::new(world, seed, name, Arc::clone(&gate), self.planted);
        (gate, compacting::seen(table, self.compacts))
    }

    fn violated(&self, what: String) {
        self.world.lock().violations.push(what);
    }

    async fn apply(&mut self, op: Op) {
        match op {
            Op::Append { log, segments, told } => {
                self.world.lock().is_holding = !told;
                for _ in 0..segments {
                    self.append(log, false);
                    sleep(Duration::from_millis(1)).await;
                }
                self.world.lock().is_holding = false;
            }
            Op::Repeat { log } => self.repeat(log),
            Op::Break { log } => self.append(log, true),
            Op::Skip => self.skip().await,
            Op::Deliver => self.world.deliver(),
            Op::Redeliver { count } => {
                (0..count).for_each(|_| self.world.redeliver(self.random.below(1_000)))
            }
            Op::Reorder => {
                let mut state = self.world.lock();
                for at in (1..state.held.len()).rev() {
                    state.held.swap(at, self.random.below(at as u64 + 1) as usize);
                }
            }
            Op::Drop => self.is_lossy |= self.world.lock().held.pop().is_some(),
            Op::SplitShard => self.world.split(self.random.below(1_000)),
            Op::TrimStream => self.world.trim(),
            Op::Crash { process } => self.crash(process),
            Op::Stop { process } => {
                if let Some(stop) = self.processes[process].as_mut().and_then(|running| running.stop.take()) {
                    _ = stop.send(());
                }
            }
            Op::Start { process } => self.start(process),
            Op::Pause { process, millis } => self.pause(process, millis),
            Op::StealLease { process } => self.steal(process),
            Op::Advance { millis } => sleep(Duration::from_millis(millis)).await,
            Op::Rebuild => self.begin_rebuild(),
            Op::CrashRebuild => {
                if let Some(rebuild) = self.rebuild.take() {
                    rebuild.abort();
                }
            }
            Op::Query => self.query().await,
            Op::Catalog { change, recorded } => self.change_catalog(change, recorded).await,
        }
        self.look_at_processes().await;
    }
}
