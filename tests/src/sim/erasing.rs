//! Keys are erased while events of them come: dated, without a date, corrected, taken back, over lanes that change, beside projectors that fold,
//! evaluate, decide and build again, and die. A worker that carries an erasure out dies as well, and two do it at once.
//!
//! The oracle (`naive`) knows every segment as it was appended, and applies the erasures to all of the past: the key becomes its pseudonym,
//! tags, features and texts go, and values where they are erased too. What is stored must be that, and so must every answer, as of now and as of any instant before.

pub(super) mod batches;
pub(super) mod judged;
pub(super) mod naive;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use catalog::{Catalog, Erasure, ErasurePhase, Workspace};
use event::{Error, ErrorKind, Id, Result, Timestamp};
use ingest::{Ingest, Receipt, Refused, Remember, SubmitError, json::read_ndjson};
use log::{active, segment_item::CLOSED_AFTER_SECONDS, store::Store};
use projector::{
    WorkspaceDay,
    erase::{Pace, carry_out},
    evaluate::evaluate,
    features::sketch,
    key_filters,
    project::{self, project},
    rebuild::{self, rebuild},
    sweep::sweep,
    unmatched::resolve,
};
use table::Table;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use self::batches::Sent;
use super::{
    process::{Admission, Process},
    random::Random,
    world::World,
};
use crate::{decided::ByIngest, register::register};

/// Number of services that append, of projectors, and of processes that carry out erasures.
const WRITERS: u64 = 3;
const WORKERS: u64 = 2;
const CARRIERS: u64 = 2;

/// Number of batches sent to each service, and the time within which each comes.
const BATCHES: u64 = 14;
const BATCH_MILLIS: u64 = 20_000;

/// Number of erasures, and the time within which each is begun.
const ERASURES: u64 = 2;
const ERASE_MILLIS: u64 = 70_000;

/// Within how much time a projector begins its next round, and a process looks for erasures.
const ROUND_MILLIS: u64 = 12_000;
const CARRY_MILLIS: u64 = 8_000;

/// Number of keys that events have.
const KEYS: u64 = 5;

/// One call in so many fails.
const FAULTS: u64 = 400;

/// Maximum tries of a call before the simulation gives up.
const MAX_TRIES: usize = 4_000;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasing {
    /// Violations found.
    pub violations: Vec<String>,
    /// Number of stored events.
    pub events: usize,
    /// Number of stored events with an erased key.
    pub erased: usize,
    /// Number of batches refused for an erased key.
    pub refused: u64,
    /// Number of stored batches that were sent again after a key of theirs was erased.
    pub replayed: usize,
    /// Number of deaths of projectors and of processes that carry out erasures.
    pub died: u64,
}

/// The pseudonyms of keys that were erased, each with whether values were erased as well.
type Pseudonyms = BTreeMap<String, (String, bool)>;

struct Scene {
    seed: u64,
    world: Arc<World>,
    random: Random,
    workspace: Workspace,
    /// Keys of which an erasure was begun, or is about to be.
    begun: Mutex<BTreeSet<String>>,
    pseudonyms: Mutex<Pseudonyms>,
    is_over: AtomicBool,
    refused: AtomicU64,
    died: AtomicU64,
}

/// Runs a seed.
///
/// # Panics
/// When there can be no runtime.
pub fn erasing(seed: u64) -> Erasing {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(run(seed)).expect("a catalog in memory")
}

async fn run(seed: u64) -> Result<Erasing> {
    let world = World::new();
    let setup = table(&world, (seed, 0));
    let workspace = register(&setup, "sim/one", &["v1", "v2"], world.clock.now()).await;
    let scene = Arc::new(Scene {
        seed,
        world: Arc::clone(&world),
        random: Random::new(seed),
        workspace,
        begun: Mutex::default(),
        pseudonyms: Mutex::default(),
        is_over: AtomicBool::new(false),
        refused: AtomicU64::new(0),
        died: AtomicU64::new(0),
    });
    world.faults.store(FAULTS, Ordering::Relaxed);
    let writers: Vec<_> =
        (1..=WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&scene), writer))).collect();
    let eraser = tokio::spawn(begin_all(Arc::clone(&scene)));
    let workers = (1..=WORKERS).map(|worker| tokio::spawn(work(Arc::clone(&scene), WRITERS + worker)));
    let carriers =
        (1..=CARRIERS).map(|carrier| tokio::spawn(carry(Arc::clone(&scene), WRITERS + WORKERS + carrier)));
    let others: Vec<JoinHandle<()>> = workers.chain(carriers).collect();
    let (mut erasing, mut sent, mut asked) = (Erasing::default(), Vec::new(), Vec::new());
    let catalog = Catalog::new(Arc::clone(&setup));
    for writer in writers {
        while !writer.is_finished() {
            sleep(Duration::from_millis(scene.random.below(40_000))).await;
            asked.push(world.clock.now().plus_seconds(-CLOSED_AFTER_SECONDS));
            // Faults hit this as well, and it is no matter when it is done.
            let lanes = Some(1 + scene.random.below(16) as u8);
            _ = catalog.change_settings(scene.workspace.id(), |settings| settings.lanes = lanes).await;
        }
        match writer.await {
            Ok(of_writer) => sent.extend(of_writer),
            Err(error) => erasing.violations.push(format!("a writer gave up: {error}")),
        }
    }
    if let Err(error) = eraser.await {
        erasing.violations.push(format!("keys could not be erased: {error}"));
    }
    scene.is_over.store(true, Ordering::Relaxed);
    for task in others {
        if let Err(error) = task.await {
            erasing.violations.push(format!("a process gave up: {error}"));
        }
    }
    settle(&scene, &setup).await?;
    erasing.refused = scene.refused.load(Ordering::Relaxed);
    erasing.died = scene.died.load(Ordering::Relaxed);
    judged::judge(&scene, &setup, (&sent, &asked), &mut erasing).await?;
    Ok(erasing)
}

fn table(world: &Arc<World>, (seed, number): (u64, u64)) -> Arc<dyn Table> {
    let seed = seed.wrapping_mul(1_000).wrapping_add(number);
    let table = Process::new(Arc::clone(world), seed, &number.to_string(), Arc::<Admission>::default(), None);
    Store::over(Arc::new(table))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All is healed: what was begun is carried out, what is there is closed, and some rounds later nothing is left to do.
async fn settle(scene: &Scene, setup: &Arc<dyn Table>) -> Result<()> {
    scene.world.faults.store(0, Ordering::Relaxed);
    carry_open(scene, setup).await?;
    for _ in 0..3 {
        sleep(Duration::from_secs(2 * CLOSED_AFTER_SECONDS as u64)).await;
        round(scene, setup).await?;
    }
    // Folds what the last round appended.
    fold(scene, setup).await
}

/// Sends batches, each until it is acknowledged or refused for a key that is being erased; what was sent.
async fn write(scene: Arc<Scene>, writer: u64) -> Vec<Sent> {
    let ingest = Ingest::new(table(&scene.world, (scene.seed, writer)), scene.world.clock.clone());
    let mut sent = Vec::new();
    for number in 0..BATCHES {
        sleep(Duration::from_millis(scene.random.below(BATCH_MILLIS))).await;
        let batch = batches::draw(&scene.random, (writer, number));
        for attempt in 0.. {
            assert!(attempt < MAX_TRIES, "{batch:?} is never acknowledged");
            match scene.submit(&ingest, &batch).await {
                // Acknowledged batches may come again.
                Ok(_) if scene.random.hits(5) => {}
                Ok(_) => {
                    sent.push(batch);
                    break;
                }
                Err(error) if scene.is_for_erased(&batch, &error) => {
                    scene.refused.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(SubmitError::Store(error)) => {
                    assert!(error.may_pass() || error.is_conflict(), "{error}");
                }
                Err(error) => panic!("{batch:?}: {error}"),
            }
        }
    }
    sent
}

impl Scene {
    async fn submit(&self, ingest: &Ingest, sent: &Sent) -> std::result::Result<Receipt, SubmitError> {
        let batch = read_ndjson(sent.kind, sent.body.as_bytes(), self.world.clock.now())?;
        ingest.submit(&self.workspace, batch, sent.idempotency_key.as_deref(), Remember::Week).await
    }

    /// True if a batch was refused for an erased key of it; checks that nothing else of it was refused.
    fn is_for_erased(&self, sent: &Sent, error: &SubmitError) -> bool {
        let begun = lock(&self.begun);
        let is_begun = sent.keys.iter().any(|key| begun.contains(key));
        match error {
            SubmitError::Store(error) => error.is_conflict() && error.to_string().contains("was erased"),
            SubmitError::Refused(Refused::Rows { errors, .. }) => {
                assert!(is_begun, "{sent:?} is refused, and no key of it is erased: {errors:?}");
                errors.iter().all(|error| {
                    let key = error.row.checked_sub(1).and_then(|row| sent.keys.get(row as usize));
                    key.is_some_and(|key| begun.contains(key)) && error.message.contains("was erased")
                })
            }
            SubmitError::Refused(_) => false,
        }
    }
}

/// Begins erasures, of a key or two each, one after the other.
async fn begin_all(scene: Arc<Scene>) {
    let table = table(&scene.world, (scene.seed, 99));
    let catalog = Catalog::new(Arc::clone(&table));
    for _ in 0..ERASURES {
        sleep(Duration::from_millis(scene.random.below(ERASE_MILLIS))).await;
        let keys: Vec<String> =
            (0..1 + scene.random.below(2)).map(|_| batches::key(scene.random.below(KEYS))).collect();
        let with_values = scene.random.hits(2);
        lock(&scene.begun).extend(keys.iter().cloned());
        let mut last = None;
        for attempt in 0.. {
            assert!(attempt < MAX_TRIES, "the erasure of {keys:?} never begins: {last:?}");
            let now = scene.world.clock.now();
            match catalog.begin_erasure(scene.workspace.id(), (&keys, with_values), "asked for", now).await {
                Ok(_) => break,
                Err(error) => {
                    assert!(error.may_pass() || error.is_conflict(), "{error}");
                    last = Some(error);
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Carries out what was begun, and dies in the middle of it now and then.
async fn carry(scene: Arc<Scene>, number: u64) {
    let table = table(&scene.world, (scene.seed, number));
    while !scene.is_over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(scene.random.below(CARRY_MILLIS))).await;
        scene.mortal(25_000, carry_open(&scene, &table)).await;
    }
}

impl Scene {
    /// Does some work, or dies in the middle of it, within so many milliseconds.
    async fn mortal(&self, millis: u64, work: impl Future<Output = Result<()>>) {
        let patience = match self.random.hits(2) {
            true => Duration::from_millis(self.random.below(millis)),
            false => Duration::from_secs(600),
        };
        match timeout(patience, work).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let passes = error.may_pass() || error.is_conflict() || is_overtaken(&error);
                assert!(passes, "{error}");
            }
            Err(_) => _ = self.died.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Remembers which pseudonyms were drawn.
    fn note(&self, erasure: &Erasure) {
        if erasure.phase > ErasurePhase::Looking {
            let mut known = lock(&self.pseudonyms);
            for (key, pseudonym) in &erasure.keys {
                // Erased once more, a key is found nowhere.
                known.entry(key.clone()).or_insert_with(|| (pseudonym.clone(), erasure.with_values));
            }
        }
    }
}

/// True if another process has done the work.
fn is_overtaken(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

async fn carry_open(scene: &Scene, table: &Arc<dyn Table>) -> Result<()> {
    let catalog = Catalog::new(Arc::clone(table));
    for (workspace, id) in catalog.open_erasures().await? {
        let pace = Pace::new(scene.world.clock.clone());
        carry_out(table, (&workspace, &id), &pace, &|erasure| scene.note(erasure)).await?;
    }
    Ok(())
}

/// A projector that goes round after round, and dies in some of them.
async fn work(scene: Arc<Scene>, number: u64) {
    let table = table(&scene.world, (scene.seed, number));
    while !scene.is_over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(scene.random.below(ROUND_MILLIS))).await;
        let is_again = scene.random.hits(6);
        let work = async {
            match is_again {
                true => build_again(&scene, &table).await,
                false => round(&scene, &table).await,
            }
        };
        scene.mortal(2_000, work).await;
    }
}

async fn build_again(scene: &Scene, table: &Arc<dyn Table>) -> Result<()> {
    let pace = rebuild::Pace { share: 1.0, clock: scene.world.clock.clone() };
    rebuild(&**table, scene.workspace.id(), &pace, |_| ()).await.map(drop)
}

/// Folds and evaluates what is behind, makes key filters, and decides what can be decided.
async fn round(scene: &Scene, table: &Arc<dyn Table>) -> Result<()> {
    fold(scene, table).await?;
    let (workspace, now): (&Id, Timestamp) = (scene.workspace.id(), scene.world.clock.now());
    key_filters::make(&**table, workspace, (None, &BTreeSet::new()), now).await?;
    let catalog = Catalog::new(Arc::clone(table));
    let append = ByIngest::new(Ingest::new(Arc::clone(table), scene.world.clock.clone()));
    resolve(&**table, &catalog, &append, workspace, (None, &BTreeSet::new()), now).await.map(drop)
}

/// Folds and evaluates what is behind, and sketches its features.
async fn fold(scene: &Scene, table: &Arc<dyn Table>) -> Result<()> {
    let workspace = scene.workspace.id();
    let version = active::load(&**table, workspace).await?.version;
    let behind = sweep(&**table, workspace).await?;
    for log in behind.logs.into_keys() {
        let day = WorkspaceDay { workspace: workspace.clone(), day: log.day };
        project(&**table, version, &day, &[log].into()).await?;
    }
    let behind = sweep(&**table, workspace).await?;
    for day in behind.evaluations.union(&behind.features) {
        let (stored, _) = project::read(&**table, version, day).await?;
        evaluate(&**table, version, day, &stored.applied).await?;
        sketch(&**table, version, day, &stored.applied).await?;
    }
    Ok(())
}
