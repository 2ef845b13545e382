//! Runs operations on a world with some processes, lets everything settle, and judges.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec};
use event::{Clock, Column, Columns, Day, Definition, Id, Kind, Result, Task, Values};
use log::{
    active,
    batch::{BatchId, BatchPart},
    key::{self, LogId},
    projection::{Applied, Projected},
    segment_item::Segment,
};
use projector::{Options, Projector, dlq, rebuild};
use table::{Condition, Item, Query, Table, Write, item::Value, query_all};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};

mod gone;

pub use gone::{Gone, retained};

use super::{
    Op, Planted, ops,
    ops::{LOGS, PROCESSES},
    process::{Gate, Process},
    random::Random,
    world::{State, World},
};

/// How long a heartbeat lasts, and how long it is between two sweeps.
const PERIOD: Duration = Duration::from_secs(1);
const SWEEP_EVERY: Duration = Duration::from_secs(300);

/// How long it may take until all is written when no change was lost in silence: no sweep comes by.
const PROMPT: Duration = Duration::from_secs(100);

/// And when one was: the next sweep and the one after it.
const PATIENT: Duration = Duration::from_secs(800);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(250);

/// One call in so many fails.
const FAULTS: u64 = 60;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What was wrong; nothing, if all is well.
    pub violations: Vec<String>,
    /// How many writes there were.
    pub writes: u64,
    /// How many segments were appended.
    pub segments: usize,
    /// How many segments were left out.
    pub skipped: usize,
    /// How many rebuilds came to their end.
    pub rebuilt: u64,
    /// How often a lease changed its owner.
    pub taken: u64,
}

/// A version, and what its rollups cover.
type Seen = (u32, Vec<(Day, Applied)>);

/// Runs the operations of a seed.
pub fn run(seed: u64, planted: Option<Planted>) -> Outcome {
    run_ops(seed, &ops(seed), planted)
}

/// Runs operations; all chance comes from the seed.
///
/// # Panics
/// When there can be no runtime.
pub fn run_ops(seed: u64, ops: &[Op], planted: Option<Planted>) -> Outcome {
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

struct Running {
    name: String,
    projector: Projector,
    gate: Arc<Gate>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
}

struct Scene {
    seed: u64,
    random: Random,
    planted: Option<Planted>,
    world: Arc<World>,
    clock: Clock,
    workspace: Id,
    processes: [Option<Running>; PROCESSES],
    started: u64,
    rebuild: Option<JoinHandle<Result<rebuild::Report>>>,
    /// Whether a change was lost that nothing tells of.
    is_lossy: bool,
    /// How many releases are predicted by.
    releases: usize,
    /// A day that expires, to which nothing is appended any more.
    closed: Option<Day>,
    /// What readers saw, by version, day and log.
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
            planted,
            world,
            clock,
            workspace: Id::new(base),
            processes: [const { None }; PROCESSES],
            started: 0,
            rebuild: None,
            is_lossy: false,
            releases,
            closed: None,
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
        catalog.ensure_model(workspace.id(), "m", &task, now).await?;
        for release in 1..=self.releases {
            let (name, model) = (format!("v{release}"), "m".to_owned());
            let spec = ReleaseSpec { name, model, configuration: None, environment: None };
            catalog.ensure_release(workspace.id(), &spec, now).await?;
        }
        self.workspace = workspace.id().clone();
        let mut state = self.world.lock();
        for release in 1..=self.releases {
            state.definitions.insert(format!("v{release}"), Definition::of(task.clone()));
        }
        for log in 0..LOGS {
            let log = self.log(log);
            state.logs.insert(log, Vec::new());
        }
        Ok(())
    }

    fn log(&self, number: usize) -> LogId {
        let day = if number.is_multiple_of(2) { "2026-06-01" } else { "2026-06-02" };
        LogId {
            workspace: self.workspace.clone(),
            day: day.parse().expect("a day"),
            kind: if number & 2 == 0 { Kind::Predictions } else { Kind::Outcomes },
            lane: (number >> 2) as u8,
        }
    }

    /// A table for a process, and what holds its calls up.
    fn table(&mut self, name: &str) -> (Arc<Gate>, Arc<dyn Table>) {
        self.started += 1;
        let gate = Arc::<Gate>::default();
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(self.started);
        let world = Arc::clone(&self.world);
        let table = Process::new(world, seed, name, Arc::clone(&gate), self.planted);
        (gate, Arc::new(table))
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
        }
        self.look_at_processes().await;
    }

    fn append(&mut self, log: usize, is_broken: bool) {
        let log = self.log(log);
        if self.closed == Some(log.day) {
            return;
        }
        let at = self.world.lock().logs.get(&log).map_or(0, Vec::len);
        let columns = events_of(&log, at, 1 + self.random.below(3) as usize, self.releases);
        let part = BatchPart { batch: BatchId([at as u8; 16]), first: 0, rows: columns.rows };
        let segment = Segment::pack(log.clone(), at as u64 + 1, self.clock.now(), vec![part], &columns);
        let mut item = segment.expect("a segment").to_item();
        if is_broken {
            item = item.with("data", vec![7, 7, 7]);
        }
        // First into the list: a projector may see it at once.
        let known = (!is_broken).then_some(columns);
        self.world.lock().logs.entry(log).or_default().push(known);
        if let Err(error) = self.world.write(vec![Write::Put(item, Condition::Absent)]) {
            self.violated(format!("an append was refused: {error}"));
        }
    }

    fn repeat(&self, log: usize) {
        let log = self.log(log);
        if self.closed == Some(log.day) {
            return;
        }
        let segments = self.world.lock().logs.get(&log).map_or(0, Vec::len) as u64;
        let again = Item::new(key::segment(&log, segments.max(1)));
        if segments > 0 && self.world.write(vec![Write::Put(again, Condition::Absent)]).is_ok() {
            self.violated(format!("{log}: an append that was repeated was made twice"));
        }
    }

    async fn skip(&mut self) {
        let (_, table) = self.table("operator");
        let letters = dlq::list(&*table, &self.workspace).await.unwrap_or_default();
        if let Some(letter) = letters.iter().find(|letter| letter.state == dlq::State::Stopped) {
            // It may fail, or not be what stops the log; then nothing must have changed.
            _ = dlq::skip(&*table, letter).await;
        }
    }

    fn start(&mut self, process: usize) {
        if self.processes[process].as_ref().is_some_and(|running| running.stop.is_some()) {
            return;
        }
        self.crash(process);
        let name = format!("p{process}-{}", self.started);
        let (gate, table) = self.table(&name);
        let options = Options {
            worker: name.clone(),
            clock: self.clock.clone(),
            period: PERIOD,
            sweep_every: SWEEP_EVERY,
        };
        let (stop, stopped) = oneshot::channel();
        let projector = Projector::new(table, options);
        let runs = projector.clone();
        let task = tokio::spawn(async move { runs.run(async move { _ = stopped.await }).await });
        self.processes[process] = Some(Running { name, projector, gate, stop: Some(stop), task });
    }

    fn crash(&mut self, process: usize) {
        if let Some(running) = self.processes[process].take() {
            running.task.abort();
        }
    }

    fn pause(&mut self, process: usize, millis: u64) {
        let Some(running) = &self.processes[process] else { return };
        let gate = Arc::clone(&running.gate);
        gate.close();
        tokio::spawn(async move {
            sleep(Duration::from_millis(millis)).await;
            gate.open();
        });
    }

    fn steal(&self, process: usize) {
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

    fn begin_rebuild(&mut self) {
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

    /// A reader never sees less of a version than a reader before it.
    async fn query(&mut self) {
        let (_, table) = self.table("reader");
        let read = async || -> Result<Option<Seen>> {
            let version = active::load(&*table, &self.workspace).await?.version;
            let range = key::all_projections(&self.workspace, version);
            let mut found = Vec::new();
            for item in query_all(&*table, Query::table(range)).await? {
                if let (day, key::Projection::Rollup) = key::parse_projection(&item.key)? {
                    found.push((day, Projected::from_item(&item)?.applied));
                }
            }
            let is_still = active::load(&*table, &self.workspace).await?.version == version;
            Ok(is_still.then_some((version, found)))
        };
        let Ok(Some((version, found))) = read().await else { return };
        let days: BTreeSet<Day> = found.iter().map(|(day, _)| *day).collect();
        let is_gone = |(of, day): &&(u32, Day)| *of == version && !days.contains(day);
        if let Some((_, day)) = self.seen.keys().find(is_gone) {
            self.violated(format!("the rollup of {day} was there and is gone"));
        }
        for (day, applied) in found {
            let before = self.seen.insert((version, day), applied.clone()).unwrap_or_default();
            if before.iter().any(|(log, seq)| applied.get(log).is_none_or(|now| now < seq)) {
                self.violated(format!(
                    "a reader of {day} sees less than one before: {before:?}, {applied:?}"
                ));
            }
        }
    }

    async fn look_at_processes(&mut self) {
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

    /// Heals everything, waits until all should be written, and says what is wrong.
    async fn settle(mut self) -> Outcome {
        self.world.faults.store(0, Ordering::Relaxed);
        self.world.deliver();
        for running in self.processes.iter().flatten() {
            running.gate.open();
        }
        if self.processes.iter().flatten().all(|running| running.stop.is_none()) {
            self.start(0);
        }
        let begin = Instant::now();
        let patience = if self.is_lossy { PATIENT } else { PROMPT };
        loop {
            self.look_at_processes().await;
            let left = self.left_to_rebuild();
            if let Some(outcome) = self.world.lock().settled(left, begin.elapsed() > patience) {
                return outcome;
            }
            sleep(LOOK).await;
        }
    }

    /// Goes on with a rebuild that died or failed; what is left of it.
    fn left_to_rebuild(&mut self) -> Option<String> {
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
    /// What came of it, if it is over: nothing is `left` or unfinished, it is too late, or something is
    /// wrong.
    fn settled(&mut self, left: Option<String>, is_late: bool) -> Option<Outcome> {
        let unfinished = if left.is_some() { Vec::new() } else { self.unfinished() };
        let is_done = left.is_none() && unfinished.is_empty();
        if is_late && !is_done {
            self.violations.extend(left.into_iter().chain(unfinished));
        }
        (is_done || is_late || !self.violations.is_empty()).then(|| self.outcome())
    }

    fn outcome(&self) -> Outcome {
        let number = |item: &Item, name| item.int(name).unwrap_or(0) as u64;
        let items = || self.items.values().map(|stored| &stored.item);
        let leases = items().filter(|item| key::parse_lease(&item.key).is_some());
        let active = items().filter(|item| key::parse_active(&item.key).is_some());
        Outcome {
            violations: self.violations.clone(),
            writes: self.writes,
            segments: self.logs.values().map(Vec::len).sum(),
            skipped: self.skipped.len(),
            rebuilt: active.map(|item| number(item, "version") - 1).sum(),
            taken: leases.map(|item| number(item, "epoch") - 1).sum(),
        }
    }
}

/// The events of a segment: predictions, or outcomes of the same keys.
pub(super) fn events(log: &LogId, at: usize, rows: usize) -> Columns {
    events_of(log, at, rows, 1)
}

/// The same by several releases.
fn events_of(log: &LogId, at: usize, rows: usize, releases: usize) -> Columns {
    let texts = |text: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..rows).map(text).collect();
        Values::Text(all.iter().map(String::as_str).collect())
    };
    let times = (0..rows).map(|row| log.day.start().micros() + (at * 10 + row) as i64).collect();
    let scores = (0..rows).map(|row| ((at * 7 + row * 3 + usize::from(log.lane)) % 10) as f64 / 10.0);
    let columns = vec![
        Column::new("key", texts(&|row| format!("{at}-{row}-{}", log.lane))),
        Column::new(log.kind.time_field(), Values::Time(times)),
        match log.kind {
            Kind::Predictions => {
                Column::new("release", texts(&|row| format!("v{}", 1 + (at + row) % releases)))
            }
            _ => Column::new("label", texts(&|row| ((at + row) % 2).to_string())),
        },
        match log.kind {
            Kind::Predictions => Column::new("score", Values::Float(scores.collect())),
            _ => Column::new("value", Values::Float(scores.collect())),
        },
    ];
    Columns { rows, columns }
}
