//! Several ingest services on one table: clocks that disagree and jump, lanes that change, calls that fail and
//! lose their answers, services that die in the middle. What counts is the order in which the table made the
//! writes; the join, which knows only the places of segments, must pick the last event of each key by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{
    Clock, Column, Columns, Day, Kind, Result, Task, Timestamp, fields::RETRACTED, lane::LogPosition,
};
use fold::LogSegment;
use ingest::{Ingest, Remember, SubmitError, json::read_ndjson};
use log::{
    segment_cache::SegmentCache,
    segment_item::{CLOSED_AFTER_SECONDS, Segment},
    store::{Store, shown},
};
use table::Table;
use tokio::time::{sleep, timeout};

use super::{
    process::{Admission, Process},
    random::Random,
    world::{World, is_segment},
};

/// Maximum bytes that each service hands over: all that it appends.
const SEGMENT_CACHE_BYTES: u64 = 1 << 20;

/// Number of services, and of batches sent to each of them.
const WRITERS: u64 = 4;
const BATCHES: u64 = 16;

/// Number of keys that events have, and of their days.
const KEYS: u64 = 6;
const DAYS: u64 = 3;

/// A clock is off by so many seconds at most; and now and then by so many, which must be refused.
const OFF_SECONDS: u64 = 8;
const WRONG_SECONDS: i64 = 40;

/// One call in so many fails.
const FAULTS: u64 = 25;

/// Maximum sends of a batch before the simulation gives up.
const MAX_TRIES: usize = 500;

/// Seconds before [`CLOSED_AFTER_SECONDS`] at which an instant is looked at: the share of the reader's clock.
const READER_SECONDS: i64 = CLOSED_AFTER_SECONDS / 3;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Violations found.
    pub violations: Vec<String>,
    /// Number of segments.
    pub segments: usize,
    /// Numbers of lanes that days got.
    pub lanes: BTreeSet<usize>,
    /// Number of refusals of a clock that was too far off.
    pub refused: u64,
    /// Number of deaths of a service with a batch in its hands.
    pub died: u64,
    /// Number of segments that were handed over, and found to be what the table has.
    pub handed: u64,
    /// Number of sent events that count no more, because they were taken back.
    pub retracted: usize,
    /// Number of keys with another event than their last one, if each batch had a lane of its own.
    pub misplaced_by_batch: usize,
}

struct Scene {
    world: Arc<World>,
    random: Random,
    workspace: Workspace,
    refused: AtomicI64,
    died: AtomicI64,
    handed: AtomicI64,
}

/// Runs a seed.
///
/// # Panics
/// When there can be no runtime.
pub fn writers(seed: u64) -> Written {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(run(seed)).expect("a catalog in memory")
}

async fn run(seed: u64) -> Result<Written> {
    let world = World::new();
    let setup = table(&world, seed, 0);
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
        refused: AtomicI64::new(0),
        died: AtomicI64::new(0),
        handed: AtomicI64::new(0),
    });
    world.faults.store(FAULTS, Ordering::Relaxed);
    let tasks: Vec<_> =
        (1..=WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&scene), seed, writer))).collect();
    let mut asked = Vec::new();
    while tasks.iter().any(|task| !task.is_finished()) {
        sleep(Duration::from_millis(700)).await;
        // Faults hit this as well, and it is no matter when it is done.
        let lanes = Some(1 + scene.random.below(4) as u8);
        _ = catalog.change_settings(scene.workspace.id(), |settings| settings.lanes = lanes).await;
        let closed = world.clock.now().plus_seconds(READER_SECONDS - CLOSED_AFTER_SECONDS);
        asked.push((closed, as_of(&segments(&world)?, closed)));
    }
    let mut written = Written::default();
    for task in tasks {
        if let Err(error) = task.await {
            written.violations.push(format!("a writer gave up: {error}"));
        }
    }
    let segments = segments(&world)?;
    for (closed, before) in asked {
        if as_of(&segments, closed) != before {
            written.violations.push(format!("what was appended by {closed} has changed"));
        }
    }
    written.segments = segments.len();
    written.refused = scene.refused.load(Ordering::Relaxed) as u64;
    written.handed = scene.handed.load(Ordering::Relaxed) as u64;
    written.died = scene.died.load(Ordering::Relaxed) as u64;
    judge(&segments, &mut written)?;
    Ok(written)
}

fn table(world: &Arc<World>, seed: u64, number: u64) -> Arc<dyn Table> {
    let seed = seed.wrapping_mul(1_000).wrapping_add(number);
    let table = Process::new(Arc::clone(world), seed, &number.to_string(), Arc::<Admission>::default(), None);
    Store::over(Arc::new(table))
}

/// Sends batches, each until it is acknowledged.
async fn write(scene: Arc<Scene>, seed: u64, writer: u64) {
    let off = Arc::new(AtomicI64::new(0));
    let table = table(&scene.world, seed, writer);
    let start = || {
        let (clock, off) = (scene.world.clock.clone(), Arc::clone(&off));
        let clock = Clock::from_fn(move || clock.now().plus_seconds(off.load(Ordering::Relaxed)));
        let segment_cache = SegmentCache::of(SEGMENT_CACHE_BYTES);
        (Ingest::new(Arc::clone(&table), clock).caching_segments(segment_cache.clone()), segment_cache)
    };
    let (mut ingest, mut segment_cache) = start();
    for number in 0..BATCHES {
        sleep(Duration::from_millis(scene.random.below(1_500))).await;
        let (kind, body) = scene.batch(writer, number);
        let key = scene.random.hits(2).then(|| format!("{writer}-{number}"));
        let mut is_done = false;
        for _ in 0..MAX_TRIES {
            let is_wrong = scene.random.hits(12);
            let right = scene.random.below(2 * OFF_SECONDS + 1) as i64 - OFF_SECONDS as i64;
            off.store(if is_wrong { WRONG_SECONDS } else { right }, Ordering::Relaxed);
            let batch = read_ndjson(kind, body.as_bytes(), scene.world.clock.now()).expect("good rows");
            let sent = ingest.submit(&scene.workspace, batch, key.as_deref(), Remember::Week);
            let patience = match scene.random.hits(6) {
                true => Duration::from_millis(scene.random.below(60)),
                false => Duration::from_secs(60),
            };
            match timeout(patience, sent).await {
                Ok(Ok(_)) => {
                    scene.check_handed(&segment_cache);
                    is_done = true;
                    break;
                }
                Ok(Err(SubmitError::Store(error))) => {
                    let is_refused = error.to_string().contains("the clock of this machine");
                    scene.refused.fetch_add(i64::from(is_refused), Ordering::Relaxed);
                    assert!(!is_refused || is_wrong, "{error}");
                    let passes = error.may_pass();
                    assert!(passes || error.is_conflict(), "{error}");
                }
                Ok(Err(error)) => panic!("{error}"),
                Err(_) => {
                    scene.died.fetch_add(1, Ordering::Relaxed);
                    (ingest, segment_cache) = start();
                }
            }
        }
        assert!(is_done, "batch {number} of writer {writer} was never acknowledged");
    }
}

impl Scene {
    /// Checks that segments handed over are in the table, and are what it packs.
    fn check_handed(&self, segment_cache: &SegmentCache) {
        let mut heads = BTreeMap::new();
        for segment in segments(&self.world).expect("segments that can be read") {
            heads.insert(segment.log.clone(), segment.seq);
            for handed in segment_cache.take(&segment.log, (segment.seq, segment.seq), 0) {
                assert_eq!(handed.place, segment.place());
                assert_eq!(*handed.columns, segment.unpack(|_| true).expect("columns"));
                self.handed.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (log, head) in heads {
            let beyond = segment_cache.take(&log, (head + 1, u64::MAX), 0);
            assert!(beyond.is_empty(), "{log} was handed over beyond its end");
        }
    }

    /// One to three events of a kind; each has a value of its own. One in five takes back what came before of its key.
    fn batch(&self, writer: u64, number: u64) -> (Kind, String) {
        let kind = if self.random.hits(3) { Kind::Outcomes } else { Kind::Predictions };
        let day = 1 + self.random.below(DAYS);
        let row = |row: u64| {
            let (key, value) = (self.random.below(KEYS), writer * 1_000 + number * 10 + row);
            let at = format!("2026-06-0{day}T04:30:00Z");
            let more = if self.random.hits(5) { r#","retracted":true,"reason":"wrong""# } else { "" };
            match kind {
                Kind::Predictions => {
                    format!(
                        r#"{{"key":"k{key}","predicted_at":"{at}","release":"v1","value":{value}{more}}}"#
                    )
                }
                _ => format!(
                    r#"{{"key":"k{key}","predicted_at":"{at}","observed_at":"2026-06-09T00:00:00Z","value":{value}{more}}}"#
                ),
            }
        };
        let rows: Vec<String> = (0..1 + self.random.below(3)).map(row).collect();
        (kind, rows.join("\n"))
    }
}

/// All segments, in the order in which the table made them.
fn segments(world: &World) -> Result<Vec<Segment>> {
    let state = world.lock();
    let mut segments: Vec<_> = state.items.values().filter(|stored| is_segment(&stored.item.key)).collect();
    segments.sort_by_key(|stored| stored.created);
    segments.into_iter().map(|stored| Segment::from_item(shown(stored.item.clone()))).collect()
}

/// Segments that had been appended by an instant.
fn as_of(segments: &[Segment], instant: Timestamp) -> BTreeSet<String> {
    let then = segments.iter().filter(|segment| segment.appended_at <= instant);
    then.map(|segment| format!("{}/{}", segment.log, segment.seq)).collect()
}

/// An event as the oracle knows it: its kind, day and key.
type Named = (Kind, Day, String);

/// Compares what the join picks with the last event of each key.
fn judge(segments: &[Segment], written: &mut Written) -> Result<()> {
    let mut last = BTreeMap::<Named, f64>::new();
    let mut seen = BTreeSet::<(Named, u64)>::new();
    let mut unpacked = Vec::with_capacity(segments.len());
    let mut times = BTreeMap::new();
    let mut lanes = BTreeMap::<(Kind, Day), BTreeSet<u8>>::new();
    for segment in segments {
        let (kind, day) = (segment.log.kind, segment.log.day);
        lanes.entry((kind, day)).or_default().insert(segment.log.lane);
        let before = times.insert(segment.log.clone(), segment.appended_at);
        if before.is_some_and(|before| before > segment.appended_at) {
            written.violations.push(format!("the times of {} fall", segment.log));
        }
        let columns = segment.unpack(|_| true)?;
        for row in 0..columns.rows {
            let (key, value) = cells(&columns, row);
            let named = (kind, day, key);
            if !seen.insert((named.clone(), value.to_bits())) {
                written.violations.push(format!("{named:?} has {value} twice"));
            }
            let is_retracted = columns.column(RETRACTED).is_some_and(|column| column.text(row).is_some());
            match is_retracted {
                true => written.retracted += usize::from(last.remove(&named).is_some()),
                false => _ = last.insert(named, value),
            }
        }
        unpacked.push((segment, columns));
    }
    written.lanes = lanes.values().map(BTreeSet::len).collect();
    let by_key = picked(&unpacked, |segment, _| segment.place())?;
    for (named, value) in &by_key {
        if last.get(named) != Some(value) {
            let last = last.get(named);
            written.violations.push(format!("{named:?}: the join picks {value}, the last is {last:?}"));
        }
    }
    // Nothing else is lacking: each prediction that was not taken back, and each outcome of one.
    for named in last.keys() {
        let prediction = (Kind::Predictions, named.1, named.2.clone());
        if last.contains_key(&prediction) && !by_key.contains_key(named) {
            written.violations.push(format!("{named:?}: the join picks nothing"));
        }
    }
    // If every batch were in the lane of its name.
    let by_batch = picked(&unpacked, |segment, number| {
        let lane = segment.batches.first().map_or(0, |part| part.batch.0[0] % 4);
        LogPosition::of(lane, number as u64 + 1)
    })?;
    written.misplaced_by_batch =
        by_batch.iter().filter(|(named, value)| last.get(named) != Some(value)).count();
    Ok(())
}

fn cells(columns: &Columns, row: usize) -> (String, f64) {
    let key = columns.column("key").and_then(|column: &Column| column.text(row)).unwrap_or_default();
    let value = columns.column("value").and_then(|column| column.float(row)).unwrap_or_default();
    (key.to_owned(), value)
}

/// Predictions and judging outcomes that the join picks for each key.
fn picked(
    segments: &[(&Segment, Columns)],
    place: impl Fn(&Segment, usize) -> LogPosition,
) -> Result<BTreeMap<Named, f64>> {
    let mut picked = BTreeMap::new();
    let days: BTreeSet<Day> = segments.iter().map(|(segment, _)| segment.log.day).collect();
    for day in days {
        let of = |kind| -> Vec<LogSegment<'_>> {
            let all = segments.iter().enumerate();
            let of_kind = all.filter(|(_, (segment, _))| segment.log.day == day && segment.log.kind == kind);
            of_kind
                .map(|(at, (segment, columns))| LogSegment { place: place(segment, at), columns })
                .collect()
        };
        let (predictions, outcomes) = (of(Kind::Predictions), of(Kind::Outcomes));
        let joined = fold::join(&predictions, &outcomes)
            .map_err(|error| event::Error::corrupt(format!("{day} cannot be joined: {error}")))?;
        for pair in joined.pairs {
            let at = pair.prediction;
            let (key, value) = cells(predictions[at.segment as usize].columns, at.row as usize);
            picked.insert((Kind::Predictions, day, key.clone()), value);
            if let Some(at) = pair.outcome {
                let (_, value) = cells(outcomes[at.segment as usize].columns, at.row as usize);
                picked.insert((Kind::Outcomes, day, key), value);
            }
        }
    }
    Ok(picked)
}
