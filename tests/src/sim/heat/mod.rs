//! Ingest services and a projector on a table whose partitions throttle as those of DynamoDB do, in virtual time.
//!
//! Everything above the table is the real code; `partitions` is the model. Clients send batches at a pace, each the next one when the
//! last one is stored or given up, so what is stored a second is what the table lets through.

mod load;
mod partitions;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{Error, ErrorKind, Kind, Result, Task, Timestamp};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::store::{Store, shown};
use projector::{Options, Projector, status::status};
use table::{
    Answer, Call, Key, Layer, Query, Table,
    units::{copies, read_units, write_units},
};
use tokio::time::{Instant, sleep, sleep_until};

pub use load::{Heated, Load, Span};
pub use partitions::{Limits, Partitions, Units};

use super::{
    process::{Admission, Process},
    random::Random,
    world::World,
};

/// For how long a request is tried again that is throttled, and how long is waited at first and at most (as the engine does).
const BUDGET: Duration = Duration::from_secs(8);
const FIRST_WAIT: Duration = Duration::from_millis(25);
const MAX_WAIT: Duration = Duration::from_secs(2);

/// After how long a client sends a batch again that was refused.
const AGAIN: Duration = Duration::from_secs(1);

/// Length of a span, in seconds.
pub const SPAN: u64 = 10;

#[derive(Debug)]
struct Heat {
    partitions: Partitions,
    throttled: BTreeMap<String, u64>,
    written: BTreeMap<String, f64>,
    spans: Vec<Span>,
}

/// State that several processes share: the partitions, and the counts.
#[derive(Debug)]
struct Shared {
    heat: Mutex<Heat>,
    begin: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Heat> {
        self.heat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts something in the span of now.
    fn count(&self, count: impl FnOnce(&mut Span)) {
        let at = (self.begin.elapsed().as_secs() / SPAN) as usize;
        let heat = &mut *self.lock();
        if heat.spans.len() <= at {
            heat.spans.resize(at + 1, Span::default());
        }
        heat.spans[at].partitions = heat.partitions.count();
        count(&mut heat.spans[at]);
    }
}

/// Contents of a partition key, without ids: `w#<id>/day` is `day`.
fn holds(pk: &str) -> String {
    let rest = pk.split_once('/').map_or(pk, |(_, rest)| rest);
    rest.split(['/', '#']).next().unwrap_or(rest).to_owned()
}

/// The table of one process.
#[derive(Debug)]
struct Throttled {
    inner: Process,
    shared: Arc<Shared>,
    random: Random,
}

impl Throttled {
    /// Waits until a request for an item is let through.
    async fn passes(&self, key: &Key, units: Units) -> Result<()> {
        let until = Instant::now() + BUDGET;
        let mut wait = FIRST_WAIT;
        loop {
            let now = self.shared.begin.elapsed();
            if self.shared.lock().partitions.lets_through(key, units, now) {
                return Ok(());
            }
            *self.shared.lock().throttled.entry(holds(&key.pk)).or_default() += 1;
            self.shared.count(|span| span.throttled += 1);
            if Instant::now() + wait > until {
                return Err(Error::new(ErrorKind::Throttled, format!("a simulated partition is hot: {key}")));
            }
            let most = wait.as_millis() as u64;
            sleep(Duration::from_millis(most / 2 + self.random.below(most / 2 + 1))).await;
            wait = (wait * 2).min(MAX_WAIT);
        }
    }

    /// Waits until all writes of a call are let through, which then cost what they cost.
    async fn write(&self, call: Call<'_>) -> Result<()> {
        let twice = if matches!(call, Call::Transact(_)) { 2.0 } else { 1.0 };
        let mut units: BTreeMap<&Key, f64> = call.written().into_iter().map(|key| (key, twice)).collect();
        for item in call.items() {
            units.insert(&item.key, twice * (write_units(item.size()) * copies(item)) as f64);
        }
        for (key, units) in &units {
            self.passes(key, Units::Write(*units)).await?;
        }
        let heat = &mut *self.shared.lock();
        for (key, units) in units {
            heat.partitions.charge(key, Units::Write(units));
            *heat.written.entry(holds(&key.pk)).or_default() += units;
        }
        Ok(())
    }
}

impl Layer for Throttled {
    /// Key of a read, whose size is known afterwards.
    type Kept = Option<Key>;
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<Self::Kept> {
        let read = match call {
            Call::Get(key) => key.clone(),
            Call::Query(Query { range, .. }) => Key::new(range.pk.clone(), range.from.clone()),
            Call::Shards | Call::Changes => return Ok(None),
            _ => return self.write(call).await.map(|()| None),
        };
        self.passes(&read, Units::Read(1.0)).await?;
        Ok(Some(read))
    }

    fn after(&self, kept: Self::Kept, answer: Result<Answer<'_>, &Error>) {
        let Some(key) = kept else { return };
        let heat = &mut *self.shared.lock();
        let mut charge = |key: &Key, bytes: usize| {
            heat.partitions.charge(key, Units::Read(read_units(bytes) as f64));
        };
        match answer {
            // Items of a page may be in several partitions.
            Ok(Answer::Page(page)) if !page.items.is_empty() => {
                page.items.iter().for_each(|item| charge(&item.key, item.size()));
            }
            Ok(Answer::Item(item)) => charge(&key, item.size()),
            _ => charge(&key, 0),
        }
    }
}

/// Puts a load on services; all chance comes from the seed.
///
/// # Panics
/// When there can be no runtime.
pub fn heat(seed: u64, load: Load) -> Heated {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(run(seed, load)).expect("a catalog in memory")
}

struct Scene {
    load: Load,
    world: Arc<World>,
    shared: Arc<Shared>,
    workspace: Workspace,
    sent: AtomicU64,
    millis: Mutex<Vec<u64>>,
}

/// A workspace with a release that predicts.
async fn register(catalog: &Catalog, now: Timestamp, Load { lanes, .. }: Load) -> Result<Workspace> {
    let workspace = catalog.ensure_workspace("sim/one", now).await?;
    catalog.change_settings(workspace.id(), |settings| settings.lanes = Some(lanes)).await?;
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await?;
    let spec = ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
    catalog.ensure_release(workspace.id(), &spec, now).await?;
    Ok(workspace)
}

/// Options of the projector.
fn options(world: &World) -> Options {
    Options {
        worker: "p".into(),
        clock: world.clock.clone(),
        period: Duration::from_secs(2),
        sweep_every: Duration::from_secs(300),
        sender: None,
        append: None,
        segment_cache: log::segment_cache::SegmentCache::default(),
        compacts: false,
        rest: projector::PAID_REST,
    }
}

async fn run(seed: u64, load: Load) -> Result<Heated> {
    let world = World::new();
    world.lock().is_unjudged = true;
    let heat = Heat {
        partitions: Partitions::new(load.limits),
        throttled: BTreeMap::new(),
        written: BTreeMap::new(),
        spans: Vec::new(),
    };
    let shared = Arc::new(Shared { heat: Mutex::new(heat), begin: Instant::now() });
    let table = |number: u64| -> Arc<dyn Table> {
        let seed = seed.wrapping_mul(1_000).wrapping_add(number);
        let gate = Arc::<Admission>::default();
        let inner = Process::new(Arc::clone(&world), seed, &number.to_string(), gate, None);
        let table = Throttled { inner, shared: Arc::clone(&shared), random: Random::new(seed + 500) };
        Store::over(Arc::new(table))
    };
    let catalog = Catalog::new(table(0));
    let workspace = register(&catalog, world.clock.now(), load).await?;
    let (projector, projects) = (Projector::new(table(1), options(&world)), std::future::pending());
    let projector = tokio::spawn(async move { projector.run(projects).await });
    let (sent, millis) = (AtomicU64::new(0), Mutex::default());
    let scene = Arc::new(Scene {
        load,
        world: Arc::clone(&world),
        shared: Arc::clone(&shared),
        workspace,
        sent,
        millis,
    });
    let services: Vec<Arc<Ingest>> =
        (0..load.services).map(|of| Arc::new(Ingest::new(table(2 + of), world.clock.clone()))).collect();
    let clients: Vec<_> = (0..load.clients)
        .map(|client| {
            let service = Arc::clone(&services[(client % load.services) as usize]);
            tokio::spawn(send(Arc::clone(&scene), service, client))
        })
        .collect();
    let mut stored = 0;
    for client in clients {
        stored += client.await.expect("a client ends");
    }
    let caught_up = catch_up(&world, &scene).await?;
    let mut heated = Heated { caught_up, ..Heated::default() };
    if projector.is_finished() {
        heated.violations.push(format!("the projector has ended: {:?}", projector.await));
    } else {
        projector.abort();
    }
    heated.violations.extend(scene.misses(stored)?);
    let mut millis = std::mem::take(&mut *scene.millis.lock().unwrap_or_else(PoisonError::into_inner));
    millis.sort_unstable();
    heated.millis = [50, 99].map(|of| millis.get(millis.len() * of / 100).copied().unwrap_or_default());
    let heat = &mut *shared.lock();
    heated.spans = std::mem::take(&mut heat.spans);
    heated.spans.truncate((load.seconds / SPAN) as usize);
    heated.throttled = std::mem::take(&mut heat.throttled);
    heated.written = std::mem::take(&mut heat.written);
    Ok(heated)
}

/// Sends batch after batch until the time is up; returns how many predictions are stored.
async fn send(scene: Arc<Scene>, service: Arc<Ingest>, client: u64) -> u64 {
    let load = scene.load;
    // So many of its batches a second.
    let pace = load.rows_per_second as f64 / (load.batch * load.clients) as f64;
    let (begin, mut stored) = (scene.shared.begin, 0);
    for number in 0.. {
        let offset = (number as f64 + client as f64 / load.clients as f64) / pace;
        sleep_until(begin + Duration::from_secs_f64(offset)).await;
        let second = begin.elapsed().as_secs();
        if second >= load.seconds {
            break;
        }
        let body = scene.batch(second);
        let asked = Instant::now();
        loop {
            let batch = read_ndjson(Kind::Predictions, body.as_bytes(), scene.world.clock.now());
            let batch = batch.expect("good rows");
            match service.submit(&scene.workspace, batch, None, Remember::Week).await {
                Ok(_) => break,
                Err(_) => {
                    scene.shared.count(|span| span.refused += 1);
                    sleep(AGAIN).await;
                }
            }
        }
        stored += load.batch;
        scene.shared.count(|span| span.stored += load.batch);
        let took = asked.elapsed().as_millis() as u64;
        scene.millis.lock().unwrap_or_else(PoisonError::into_inner).push(took);
    }
    stored
}

/// Waits until the projector has folded all; returns after how many seconds, or nothing when that takes an hour.
async fn catch_up(world: &World, scene: &Scene) -> Result<Option<u64>> {
    // Reads of the observer are not throttled.
    let looks = Process::new(Arc::clone(&scene.world), 0, "looks", Arc::<Admission>::default(), None);
    let looks: Arc<dyn Table> = Store::over(Arc::new(looks));
    let catalog = Catalog::new(Arc::clone(&looks));
    let asked = Instant::now();
    while asked.elapsed() < Duration::from_secs(3_600) {
        let found = status(&*looks, &catalog, world.clock.now()).await?;
        if found.workspaces.iter().all(|one| one.lag_segments == 0) {
            return Ok(Some(asked.elapsed().as_secs()));
        }
        sleep(Duration::from_secs(1)).await;
    }
    Ok(None)
}

impl Scene {
    /// A batch of predictions of keys that no other has, on the day that it is then.
    fn batch(&self, second: u64) -> String {
        let day = if second < self.load.midnight { "2026-06-08T23:50:00Z" } else { "2026-06-09T00:10:00Z" };
        let first = self.sent.fetch_add(self.load.batch, Ordering::Relaxed);
        // Keys and scores that no packing makes smaller, as those of requests mostly are.
        let row = |number: u64| {
            let random = Random::new(number);
            let (key, score) = (random.below(u64::MAX), random.below(u64::MAX) as f64 / u64::MAX as f64);
            format!(
                "{{\"key\":\"{key:016x}\",\"predicted_at\":\"{day}\",\"release\":\"v1\",\"score\":{score}}}\n"
            )
        };
        (first..first + self.load.batch).map(row).collect()
    }

    /// Compares the predictions in the log with the acknowledged ones; a violation, if their numbers differ.
    fn misses(&self, stored: u64) -> Result<Option<String>> {
        let state = self.world.lock();
        let mut found = 0;
        for one in state.items.values().map(|one| shown(one.item.clone())) {
            if log::key::parse_segment(&one.key).is_some() {
                found += log::segment_item::Segment::from_item(one)?.rows as u64;
            }
        }
        Ok((found != stored)
            .then(|| format!("{stored} predictions were acknowledged, {found} are in the log")))
    }
}
