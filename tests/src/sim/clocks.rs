//! Retention while clocks disagree and jump: what is deleted has expired, and what has expired is deleted in the end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec};
use event::{Clock, Day, Definition, Id, Kind, Task, Timestamp};
use log::{
    batch::{BatchId, BatchPart},
    key::{self, LogId},
    segment_cache::SegmentCache,
    segment_item::Segment,
};
use projector::{Options, Projector};
use table::{Condition, Table, Write};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{
    process::{Admission, Process},
    random::Random,
    scene::events,
    world::World,
};
use crate::hooked::{Asked, Hooked, Turn};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Calm enough for days to go by quickly.
const PERIOD: Duration = Duration::from_secs(120);
const SWEEP_EVERY: Duration = Duration::from_secs(15 * 60);

/// Number of workers.
const WORKERS: usize = 3;

/// For how many days events are kept, and how many days have some, up to the day on which all begins.
const KEPT_DAYS: u32 = 5;
const DAYS: i64 = 12;

/// For how many hours clocks are wrong, and for how many they are right again.
const WRONG_HOURS: u64 = 16;
const RIGHT_HOURS: u64 = 20;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Violations found.
    pub violations: Vec<String>,
    /// Number of deleted days.
    pub deleted: usize,
    /// Number of times that a clock jumped.
    pub jumps: u64,
}

/// The true time, which nobody knows.
fn begin() -> Timestamp {
    Timestamp::parse("2026-06-10T00:00:00Z").expect("a time")
}

struct Clocks {
    seed: u64,
    random: Random,
    world: Arc<World>,
    started: Instant,
    /// By how many seconds each worker's clock is ahead; behind, when less than 0.
    ahead: Vec<Arc<AtomicI64>>,
    workers: Vec<JoinHandle<()>>,
    workspace: Id,
    /// True if the first worker's clock is always right.
    is_witnessed: bool,
    tables: u64,
}

/// Runs workers whose clocks disagree and jump by up to 30 days, for some days of virtual time. With even seeds
/// one of them has a right clock: then nothing is deleted before an hour after it has expired. Else the time by
/// which things are deleted is ahead of the true one by what has gone by at most.
///
/// # Panics
/// When there can be no runtime.
pub fn clocks(seed: u64) -> Expired {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut clocks = Clocks::new(seed);
        clocks.prepare().await;
        clocks.run().await
    })
}

impl Clocks {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Random::new(seed.wrapping_add(7 << 32)),
            world: World::new(),
            started: Instant::now(),
            ahead: (0..=WORKERS).map(|_| Arc::default()).collect(),
            workers: Vec::new(),
            workspace: Id::new(begin()),
            is_witnessed: seed.is_multiple_of(2),
            tables: 0,
        }
    }

    fn clock(&self, of: usize) -> Clock {
        let (ahead, started) = (Arc::clone(&self.ahead[of]), self.started);
        Clock::from_fn(move || {
            let seconds = started.elapsed().as_secs() as i64 + ahead.load(Ordering::Relaxed);
            begin().plus_seconds(seconds)
        })
    }

    /// A table for somebody, on which what is deleted is looked at.
    fn table(&mut self) -> Arc<dyn Table> {
        self.tables += 1;
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(self.tables);
        let process =
            Process::new(Arc::clone(&self.world), seed, "clocks", Arc::<Admission>::default(), None);
        let (world, started, is_witnessed) = (Arc::clone(&self.world), self.started, self.is_witnessed);
        Hooked::new(Arc::new(process), move |asked| {
            if let Asked::Write(key) = asked
                && let Some((log, _)) = key::parse_segment(key)
            {
                let elapsed = started.elapsed().as_secs() as i64;
                let latest = begin().plus_seconds(if is_witnessed { elapsed } else { 2 * elapsed });
                let expires = log.day.start().plus_seconds((1 + i64::from(KEPT_DAYS)) * DAY_SECONDS);
                if latest < expires.plus_seconds(3_600) {
                    let hours = elapsed / 3_600;
                    let what = format!("{log} is deleted after {hours} h, but expires at {expires}");
                    world.lock().violations.push(what);
                }
            }
            Turn::Pass
        })
    }

    fn day(number: i64) -> Day {
        begin().plus_seconds(-number * DAY_SECONDS).day()
    }

    async fn prepare(&mut self) {
        let catalog = Catalog::new(self.table());
        let workspace = catalog.ensure_workspace("sim/one", begin()).await.expect("a workspace");
        let (id, task) = (workspace.id().clone(), Task::Binary { positive_label: "1".into() });
        catalog.ensure_model(&id, "m", &task, begin()).await.expect("a model");
        let spec =
            ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
        catalog.ensure_release(&id, &spec, begin()).await.expect("a release");
        self.world.lock().definitions.insert("v1".into(), Definition::of(task));
        for number in 0..DAYS {
            let day = Self::day(number);
            let log = LogId { workspace: id.clone(), day, kind: Kind::Predictions, lane: 0 };
            let columns = events(&log, 0, 2);
            let part = BatchPart { batch: BatchId([number as u8; 16]), first: 0, rows: columns.rows };
            let segment = Segment::pack(log.clone(), 1, day.start().plus_seconds(60), vec![part], &columns);
            self.world.lock().logs.insert(log, vec![Some(columns)]);
            let write = Write::Put(segment.expect("a segment").to_item(), Condition::Absent);
            self.world.write(vec![write]).expect("an append");
        }
        self.workspace = id;
    }

    fn start(&mut self, worker: usize) -> JoinHandle<()> {
        let table = self.table();
        let options = Options {
            worker: format!("p{worker}-{}", self.tables),
            clock: self.clock(worker),
            period: PERIOD,
            sweep_every: SWEEP_EVERY,
            sender: None,
            append: None,
            segment_cache: SegmentCache::default(),
            compacts: true,
            rest: Duration::ZERO,
        };
        tokio::spawn(async move {
            let running = Projector::new(table, options);
            running.run(std::future::pending()).await.expect("a projector that goes on");
        })
    }

    /// A clock jumps by up to 30 days, or is right again.
    fn jump(&self, of: usize) {
        let days = self.random.below(61) as i64 - 30;
        let ahead = if self.random.hits(4) { 0 } else { days * DAY_SECONDS };
        self.ahead[of].store(ahead, Ordering::Relaxed);
    }

    async fn run(mut self) -> Expired {
        let jumps = AtomicU64::new(0);
        // The first one's clock is right when the count begins.
        for worker in 0..WORKERS {
            if worker > 0 {
                self.jump(worker);
            }
            let running = self.start(worker);
            self.workers.push(running);
            sleep(HOUR / 12).await;
        }
        // The retention is set by a process with a clock of its own.
        self.jump(WORKERS);
        let catalog = Catalog::new(self.table());
        let clock = self.clock(WORKERS);
        sleep(HOUR).await;
        catalog.set_retention(&self.workspace, Some(KEPT_DAYS), clock.now()).await.expect("a retention");
        for _ in 0..WRONG_HOURS {
            sleep(HOUR).await;
            let worker = self.random.below(WORKERS as u64) as usize;
            if worker == 0 && self.is_witnessed {
                continue;
            }
            self.jump(worker);
            jumps.fetch_add(1, Ordering::Relaxed);
            if self.random.hits(3) {
                self.workers[worker].abort();
                self.workers[worker] = self.start(worker);
            }
        }
        self.ahead.iter().for_each(|ahead| ahead.store(0, Ordering::Relaxed));
        let before = self.counted();
        for _ in 0..RIGHT_HOURS {
            sleep(HOUR).await;
        }
        self.judge(before, jumps.into_inner())
    }

    /// The date that the table has counted.
    fn counted(&self) -> Timestamp {
        let state = self.world.lock();
        let stored = state.items.get(&key::counted_time()).expect("somebody has counted");
        stored.item.field("at").expect("a time")
    }

    /// With right clocks the counted time has caught up by nearly two hours in an hour; and what had expired by it
    /// a day ago is gone.
    fn judge(&self, before: Timestamp, jumps: u64) -> Expired {
        let counted = self.counted();
        let state = self.world.lock();
        let mut expired = Expired { violations: state.violations.clone(), deleted: 0, jumps };
        let now = begin().plus_seconds(self.started.elapsed().as_secs() as i64);
        let least = before.plus_seconds(RIGHT_HOURS as i64 * 3_600 * 18 / 10).min(now.plus_seconds(-3_600));
        if counted < least {
            expired.violations.push(format!("{counted} was counted at {now}, after {before}"));
        }
        for number in 0..DAYS {
            let day = Self::day(number);
            let log = LogId { workspace: self.workspace.clone(), day, kind: Kind::Predictions, lane: 0 };
            let is_there = state.items.contains_key(&key::segment(&log, 1));
            expired.deleted += usize::from(!is_there);
            let expires = day.start().plus_seconds((1 + i64::from(KEPT_DAYS)) * DAY_SECONDS);
            if is_there && expires.plus_seconds(DAY_SECONDS) < counted.min(now) {
                expired.violations.push(format!("{log} expired at {expires} and is there still at {now}"));
            }
        }
        for worker in &self.workers {
            if worker.is_finished() {
                expired.violations.push("a worker has ended".into());
            }
        }
        expired
    }
}
