//! Outcomes without a date: ingest services append them beside the predictions that they judge, and projectors that fail, die in the
//! middle and get into each other's way decide what each of them judges. In the end each is appended once, and judges what going
//! through all events says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{
    Columns, Kind, Result, Task, Timestamp,
    fields::{AppliesTo, JUDGES, RETRACTED},
};
use ingest::{Ingest, Remember, SubmitError, json::read_ndjson};
use log::{
    key::UnmatchedSegment,
    segment_item::{CLOSED_AFTER_SECONDS, Segment},
    store::{Store, shown},
    unmatched::{self, Decision},
};
use projector::{WorkspaceDay, project::project, sweep::sweep, unmatched::resolve};
use table::Table;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Planted,
    process::{Admission, Process},
    random::Random,
    world::{World, is_segment},
};
use crate::decided::ByIngest;

/// Number of services that append, of batches of each, and of projectors.
const WRITERS: u64 = 3;
const BATCHES: u64 = 14;
const WORKERS: u64 = 3;

/// Interval of the rounds of projectors, and the time within which all begin one: they are in each other's way in most
/// rounds.
const ROUND_MILLIS: u64 = 12_000;
const SPREAD_MILLIS: u64 = 400;

/// Number of keys that events have.
const KEYS: u64 = 4;

/// One call in so many fails.
const FAULTS: u64 = 400;

/// For how long a process goes on when it is to die.
const MAX_MILLIS: u64 = 900;

/// Maximum tries of a call before the simulation gives up.
const MAX_TRIES: usize = 500;

/// Prefix of the labels of outcomes without a date.
pub(super) const UNDATED: char = 'o';

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judging {
    /// Violations found.
    pub violations: Vec<String>,
    /// Number of outcomes that came without a date.
    pub came: usize,
    /// Number of them that judge something.
    pub judged: usize,
    /// Number of them that judge several predictions.
    pub several: usize,
    /// Number of decisions.
    pub decisions: usize,
    /// Number of deaths of projectors in a round.
    pub died: u64,
}

struct Scene {
    world: Arc<World>,
    random: Random,
    workspace: Workspace,
    began: Instant,
    is_over: AtomicBool,
    died: AtomicU64,
}

/// Runs a seed.
///
/// # Panics
/// When there can be no runtime.
pub fn resolving(seed: u64, planted: Option<Planted>) -> Judging {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(run(seed, planted)).expect("a catalog in memory")
}

async fn run(seed: u64, planted: Option<Planted>) -> Result<Judging> {
    let world = World::new();
    let setup = table(&world, (seed, 0), None);
    let catalog = Catalog::new(Arc::clone(&setup));
    let now = world.clock.now();
    let workspace = catalog.ensure_workspace("sim/one", now).await?;
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await?;
    let spec = ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
    catalog.ensure_release(workspace.id(), &spec, now).await?;
    let scene = Arc::new(Scene {
        world: Arc::clone(&world),
        random: Random::new(seed),
        workspace,
        began: Instant::now(),
        is_over: AtomicBool::new(false),
        died: AtomicU64::new(0),
    });
    world.faults.store(FAULTS, Ordering::Relaxed);
    let writers: Vec<_> =
        (1..=WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&scene), seed, writer))).collect();
    let workers: Vec<_> = (1..=WORKERS)
        .map(|worker| tokio::spawn(work(Arc::clone(&scene), (seed, WRITERS + worker), planted)))
        .collect();
    let mut judging = Judging::default();
    for task in writers {
        sleep(Duration::from_millis(700)).await;
        let lanes = Some(1 + scene.random.below(4) as u8);
        _ = catalog.change_settings(scene.workspace.id(), |settings| settings.lanes = lanes).await;
        if let Err(error) = task.await {
            judging.violations.push(format!("a writer gave up: {error}"));
        }
    }
    scene.is_over.store(true, Ordering::Relaxed);
    for task in workers {
        if let Err(error) = task.await {
            judging.violations.push(format!("a projector gave up: {error}"));
        }
    }
    // All is healed: what is there is closed, and two rounds later nothing is left that can be found.
    world.faults.store(0, Ordering::Relaxed);
    for _ in 0..3 {
        sleep(Duration::from_secs(2 * CLOSED_AFTER_SECONDS as u64)).await;
        round(&scene, &setup).await?;
    }
    judging.died = scene.died.load(Ordering::Relaxed);
    judge(&scene.world, &setup, &mut judging).await?;
    Ok(judging)
}

fn table(world: &Arc<World>, (seed, number): (u64, u64), planted: Option<Planted>) -> Arc<dyn Table> {
    let seed = seed.wrapping_mul(1_000).wrapping_add(number);
    let table =
        Process::new(Arc::clone(world), seed, &number.to_string(), Arc::<Admission>::default(), planted);
    Store::over(Arc::new(table))
}

/// Sends batches, each until it is acknowledged.
async fn write(scene: Arc<Scene>, seed: u64, writer: u64) {
    let ingest = Ingest::new(table(&scene.world, (seed, writer), None), scene.world.clock.clone());
    for number in 0..BATCHES {
        sleep(Duration::from_millis(scene.random.below(20_000))).await;
        let (kind, body) = scene.batch(writer, number);
        let key = scene.random.hits(2).then(|| format!("{writer}-{number}"));
        let mut is_done = false;
        for _ in 0..MAX_TRIES {
            let batch = read_ndjson(kind, body.as_bytes(), scene.world.clock.now()).expect("good rows");
            let sent = ingest.submit(&scene.workspace, batch, key.as_deref(), Remember::Week);
            match sent.await {
                Ok(_) => is_done = true,
                Err(SubmitError::Store(error)) => {
                    assert!(error.may_pass() || error.is_conflict(), "{error}");
                }
                Err(error) => panic!("{error}"),
            }
            // Acknowledged batches may come again.
            if is_done && !scene.random.hits(5) {
                break;
            }
        }
        assert!(is_done, "batch {number} of writer {writer} was never acknowledged");
    }
}

impl Scene {
    /// A prediction, one in six taken back, or one to three outcomes that do not say which one they judge, or that judge all.
    fn batch(&self, writer: u64, number: u64) -> (Kind, String) {
        let instant = || format!("2026-06-0{}T0{}:00:00Z", 1 + self.random.below(7), self.random.below(10));
        let key = || format!("k{}", self.random.below(KEYS));
        if self.random.hits(2) {
            let (key, at) = (key(), instant());
            let more = if self.random.hits(6) { r#","retracted":true,"reason":"wrong""# } else { "" };
            let row = format!(r#"{{"key":"{key}","predicted_at":"{at}","release":"v1","score":0.5{more}}}"#);
            return (Kind::Predictions, row);
        }
        let row = |row: u64| {
            format!(
                r#"{{"key":"{}","observed_at":"{}","label":"{UNDATED}{writer}-{number}-{row}"{}}}"#,
                key(),
                instant(),
                applies_to(&self.random)
            )
        };
        let rows: Vec<String> = (0..1 + self.random.below(3)).map(row).collect();
        (Kind::Outcomes, rows.join("\n"))
    }
}

/// Draws which predictions an outcome without a date judges: it says nothing, the latest, or all.
pub(super) fn applies_to(random: &Random) -> String {
    match random.below(4) {
        0 => format!(r#","{JUDGES}":"{}""#, AppliesTo::Latest.name()),
        1 => format!(r#","{JUDGES}":"{}""#, AppliesTo::All.name()),
        _ => String::new(),
    }
}

/// A projector that goes round after round, and dies in some of them.
async fn work(scene: Arc<Scene>, of: (u64, u64), planted: Option<Planted>) {
    let table = table(&scene.world, of, planted);
    while !scene.is_over.load(Ordering::Relaxed) {
        let into = scene.began.elapsed().as_millis() as u64 % ROUND_MILLIS;
        sleep(Duration::from_millis(ROUND_MILLIS - into + scene.random.below(SPREAD_MILLIS))).await;
        let patience = match scene.random.hits(3) {
            true => Duration::from_millis(scene.random.below(MAX_MILLIS)),
            false => Duration::from_secs(600),
        };
        match timeout(patience, round(&scene, &table)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => assert!(error.may_pass() || error.is_conflict(), "{error}"),
            Err(_) => _ = scene.died.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Folds what is behind, and decides what can be decided.
async fn round(scene: &Scene, table: &Arc<dyn Table>) -> Result<()> {
    let workspace = scene.workspace.id();
    for log in sweep(&**table, workspace).await?.logs.into_keys() {
        let day = WorkspaceDay { workspace: workspace.clone(), day: log.day };
        project(&**table, 1, &day, &[log].into()).await?;
    }
    let (catalog, now) = (Catalog::new(Arc::clone(table)), scene.world.clock.now());
    let append = ByIngest::new(Ingest::new(Arc::clone(table), scene.world.clock.clone()));
    resolve(&**table, &catalog, &append, workspace, (None, &BTreeSet::new()), now).await.map(drop)
}

/// A prediction: its key, its instant, when it was appended, whether it takes back what came before, and its release.
type Predicted = (String, i64, Timestamp, bool, String);

/// Match that an outcome asks for: the key, when it was observed, and true if it judges all predictions.
type Question<'a> = (&'a str, i64, bool);

/// The latest prediction of a key up to an instant, of those that had been appended by another one, or all of them.
fn naive(predicted: &[Predicted], (key, observed_at, is_all): Question<'_>, as_of: Timestamp) -> Vec<i64> {
    let known: Vec<&Predicted> = predicted.iter().filter(|one| one.2 <= as_of).collect();
    let counts = |(number, one): &(usize, &&Predicted)| {
        let is_taken_back = || {
            known[*number..]
                .iter()
                .any(|later| (&later.0, later.1, &later.4) == (&one.0, one.1, &one.4) && later.3)
        };
        one.0 == key && one.1 <= observed_at && !one.3 && !is_taken_back()
    };
    let found: BTreeSet<i64> = known.iter().enumerate().filter(counts).map(|(_, one)| one.1).collect();
    match is_all {
        true => found.into_iter().collect(),
        false => found.last().copied().into_iter().collect(),
    }
}

/// All segments, in the order in which the table made them.
fn segments(world: &World) -> Result<Vec<(Segment, Columns)>> {
    let mut found: Vec<_> = {
        let state = world.lock();
        let all = state.items.values().filter(|stored| is_segment(&stored.item.key));
        all.map(|stored| (stored.created, stored.item.clone())).collect()
    };
    found.sort_by_key(|(created, _)| *created);
    let unpacked = found.into_iter().map(|(_, item)| {
        let segment = Segment::from_item(shown(item))?;
        let columns = segment.unpack(|_| true)?;
        Ok((segment, columns))
    });
    unpacked.collect()
}

fn text(columns: &Columns, name: &str, row: usize) -> String {
    columns.column(name).and_then(|column| column.text(row)).unwrap_or_default().to_owned()
}

fn time(columns: &Columns, name: &str, row: usize) -> i64 {
    columns.column(name).and_then(|column| column.time(row)).unwrap_or_default()
}

/// Instants that rows of segments judge, and the instant as of which that was decided.
type Decided = BTreeMap<(UnmatchedSegment, u32), (Vec<i64>, Timestamp)>;

/// Reads the decisions about some segments.
async fn decided(
    table: &dyn Table,
    segments: BTreeSet<UnmatchedSegment>,
    judging: &mut Judging,
) -> Result<Decided> {
    let mut decided = Decided::new();
    for segment in segments {
        for (_, Decision { matched, as_of, .. }) in unmatched::decisions(table, &segment, 1).await? {
            judging.decisions += 1;
            decided
                .extend(matched.into_iter().map(|(row, judged)| ((segment.clone(), row), (judged, as_of))));
        }
    }
    Ok(decided)
}

/// Compares what was appended with what going through all events says. The label of an outcome without a date begins with [`UNDATED`], and
/// is one of its own; one that was erased is not looked at.
pub(super) async fn judge(world: &World, table: &Arc<dyn Table>, judging: &mut Judging) -> Result<()> {
    let segments = segments(world)?;
    let rows = |kind| {
        let of_kind = segments.iter().filter(move |(segment, _)| segment.log.kind == kind);
        of_kind.flat_map(|(segment, columns)| (0..columns.rows).map(move |row| (segment, columns, row)))
    };
    let predicted: Vec<Predicted> = rows(Kind::Predictions)
        .map(|(segment, columns, row)| {
            let is_retracted = columns.column(RETRACTED).is_some_and(|column| column.text(row).is_some());
            let (key, at) = (text(columns, "key", row), time(columns, "predicted_at", row));
            (key, at, segment.appended_at, is_retracted, text(columns, "release", row))
        })
        .collect();
    // Appended outcomes by label, in the order of their appends.
    let mut appended = BTreeMap::<String, Vec<(usize, i64)>>::new();
    for (number, (_, columns, row)) in rows(Kind::Outcomes).enumerate() {
        appended
            .entry(text(columns, "label", row))
            .or_default()
            .push((number, time(columns, "predicted_at", row)));
    }
    let all: BTreeSet<UnmatchedSegment> = rows(Kind::Unmatched)
        .map(|(segment, ..)| UnmatchedSegment { log: segment.log.clone(), seq: segment.seq })
        .collect();
    let decided = decided(&**table, all, judging).await?;
    let mut last = BTreeMap::<(String, i64, i64), usize>::new();
    for (segment, columns, row) in rows(Kind::Unmatched) {
        judging.came += 1;
        let (key, observed_at) = (text(columns, "key", row), time(columns, "observed_at", row));
        let label = text(columns, "label", row);
        if label.is_empty() {
            // It was erased, with its key and what was made of it.
            continue;
        }
        let is_all = text(columns, JUDGES, row) == AppliesTo::All.name();
        let of = (UnmatchedSegment { log: segment.log.clone(), seq: segment.seq }, row as u32);
        let mut found = appended.remove(&label).unwrap_or_default();
        found.sort_unstable_by_key(|(_, judged)| *judged);
        let Some((judged, as_of)) = decided.get(&of) else {
            let known = naive(&predicted, (&key, observed_at, is_all), world.clock.now());
            if !known.is_empty() || !found.is_empty() {
                judging.violations.push(format!("{label} waits, and is {found:?}; there is {known:?}"));
            }
            continue;
        };
        judging.judged += 1;
        judging.several += usize::from(judged.len() > 1);
        let known = naive(&predicted, (&key, observed_at, is_all), *as_of);
        if known != *judged || !found.iter().map(|(_, judged)| judged).eq(judged) {
            judging
                .violations
                .push(format!("{label} is {found:?}, decided {judged:?}; as of {as_of} there is {known:?}"));
            continue;
        }
        // Two outcomes observed at once that judge one prediction: the later one must be the later one in the log.
        for (number, judged) in found {
            if let Some(before) = last.insert((key.clone(), observed_at, judged), number)
                && before > number
            {
                judging.violations.push(format!("{label} was appended before what came before it"));
            }
        }
    }
    appended.retain(|label, _| label.starts_with(UNDATED));
    if !appended.is_empty() {
        judging.violations.push(format!("nobody sent {appended:?}"));
    }
    Ok(())
}
