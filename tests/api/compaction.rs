//! Merged segments: reads, repeated appends, erasures and deletions are unaffected, wherever the merging process dies. Each on a
//! SQLite file and on DynamoDB Local.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use event::{Clock, Error, Kind, Result, Timestamp};
use ingest::{Ingest, Remember, json::read_json_array};
use log::{
    key,
    merged::{self, QUIET},
    scan,
    store::Store,
};
use projector::compact::{Compactor, Done};
use query::{Dataset, Params, Request};
use serde_json::json;
use table::{Call, Layer, Query, Table, query_all};
use tests::{
    engine::Engine,
    on_both_engines,
    scene::{NOW, Scene, csv},
    short_pages::ShortPages,
    world::{World, at},
};

use super::erasure::{begin, carry};

mod window;

on_both_engines!(
    scene_on:
    crashed_merge_changes_no_answer,
    idle_writer_appends_nothing_into_merged_segments,
    keys_erased_from_merged_segments_count_once,
    what_is_merged_expires_as_a_whole,
    two_that_merge_at_once_lose_nothing,
    pages_of_a_few_items_end_no_merging,
);

const DAY: &str = "2026-06-01";
const BEGAN: &str = "2026-06-01T12:00:00Z";

async fn scene_on(engine: Engine) -> Scene {
    // By then no claim of the day is forgotten.
    let clock = Clock::from_fn(|| at("2026-06-05T00:00:00Z"));
    Scene::new(World::with(engine, clock).await).await
}

/// A minute of the day.
fn minute(minute: i64) -> Timestamp {
    at(BEGAN).plus_seconds(minute * 60)
}

/// Appends the prediction of a minute, or the outcome that judges it; returns the number of new events.
async fn send(scene: &Scene, ingest: &Ingest, kind: Kind, number: i64) -> usize {
    let key = format!("key-{number}");
    let (at, observed_at) = (minute(number).to_string(), minute(number + 1).to_string());
    let event = match kind {
        Kind::Predictions => {
            let release = if number % 2 == 0 { "v1" } else { "v2" };
            let score = (number * 7 % 10) as f64 / 10.0;
            json!([{ "key": key, "predicted_at": at, "release": release, "score": score,
                "features": { "income": number as f64 } }])
        }
        _ => {
            let label = (number % 3 % 2).to_string();
            json!([{ "key": key, "predicted_on": DAY, "observed_at": observed_at, "label": label }])
        }
    };
    let batch = read_json_array(kind, event.to_string().as_bytes(), minute(number)).unwrap();
    // Every other one has an idempotency key.
    let idempotency_key = (number % 2 == 0).then(|| format!("{}-{number}", kind.letter()));
    let receipt =
        ingest.submit(&scene.workspace, batch, idempotency_key.as_deref(), Remember::Week).await.unwrap();
    receipt.appended
}

/// Trickle of single events on a day.
async fn trickle(scene: &Scene, count: i64) {
    for number in 0..count {
        let ingest = scene.ingest(minute(number));
        for kind in [Kind::Predictions, Kind::Outcomes] {
            assert_eq!(send(scene, &ingest, kind, number).await, 1);
        }
    }
    scene.project().await;
}

async fn ask(scene: &Scene, what: Dataset, words: Params<'_>) -> (String, Option<String>) {
    let request = Request::parse(what, &Params { from: DAY, to: DAY, ..words }).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    let read_version = answer.read_version.as_ref().map(ToString::to_string);
    (csv(answer), read_version)
}

/// Answer with its question: the subject, the instant or read version, the rows.
struct Answered {
    what: Dataset,
    as_of: Option<String>,
    text: String,
    read_version: Option<String>,
}

const WHATS: [Dataset; 4] = [
    Dataset::Events(Kind::Predictions),
    Dataset::Events(Kind::Outcomes),
    Dataset::Joined,
    Dataset::Evaluations,
];

async fn answers(scene: &Scene, every: i64, count: i64) -> Vec<Answered> {
    let mut all = Vec::new();
    for what in WHATS {
        for number in (0..=count).step_by(every as usize) {
            let as_of = (number < count).then(|| minute(number).to_string());
            let (text, read_version) =
                ask(scene, what, Params { as_of: as_of.as_deref(), ..Params::default() }).await;
            all.push(Answered { what, as_of, text, read_version });
        }
    }
    all
}

async fn assert_answers(scene: &Scene, answers: &[Answered]) {
    for Answered { what, as_of, text, read_version } in answers {
        let again = ask(scene, *what, Params { as_of: as_of.as_deref(), ..Params::default() }).await;
        assert_eq!(&again, &(text.clone(), read_version.clone()), "{what:?} as of {as_of:?}");
        if let Some(read_version) = read_version {
            let again =
                ask(scene, *what, Params { read_version: Some(read_version), ..Params::default() }).await.0;
            assert_eq!(&again, text, "{what:?} at the read version of {as_of:?}");
        }
    }
}

/// Stored items of the logs of the day: the first and last segment of each.
async fn stored(scene: &Scene, kind: Kind) -> Vec<(u64, u64)> {
    let range = key::segments_of_kind(scene.id(), DAY.parse().unwrap(), kind);
    let items = query_all(&*scene.table, Query::table(range).as_stored()).await.unwrap();
    let span = |item: &table::Item| match merged::span(item) {
        Some((_, from, last)) => (from, last),
        None => {
            let (_, seq) = key::parse_segment(&item.key).unwrap();
            (seq, seq)
        }
    };
    items.iter().map(span).collect()
}

/// Advances the clock until merged items may be deleted.
async fn wait() {
    tokio::time::pause();
    tokio::time::advance(QUIET).await;
    tokio::time::resume();
}

/// Merges all that is due.
async fn compact(scene: &Scene) -> Done {
    let (compactor, mut all) = (Compactor::default(), Done::default());
    loop {
        let done = compactor.compact(&*scene.table, scene.id(), at(NOW)).await.unwrap();
        (all.merged, all.deleted) = (all.merged + done.merged, all.deleted + done.deleted);
        if !done.is_left {
            return all;
        }
        wait().await;
    }
}

/// Table of a process that dies before or after one of its writes.
#[derive(Debug)]
struct Dying {
    below: Arc<dyn Table>,
    /// Number of writes that are left.
    left: AtomicI64,
    /// True if the last write is made, and its answer lost.
    is_after: bool,
}

impl Layer for Dying {
    type Kept = bool;

    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.below
    }

    async fn before(&self, call: Call<'_>) -> Result<bool> {
        let is_write = !call.written().is_empty();
        let left = if is_write {
            self.left.fetch_sub(1, Ordering::Relaxed)
        } else {
            self.left.load(Ordering::Relaxed)
        };
        match left {
            ..=0 if !(self.is_after && is_write && left == 0) => {
                Err(Error::unavailable("the process is dead"))
            }
            _ => Ok(is_write),
        }
    }
}

async fn crashed_merge_changes_no_answer(scene: Scene) {
    const COUNT: i64 = 24;
    trickle(&scene, COUNT).await;
    let before = answers(&scene, 5, COUNT).await;
    let verified = projector::verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
    let mut deaths = 0;
    for writes in 1.. {
        // A process merges, and lives long enough to delete; it dies at some write of either.
        let dying = Dying { below: Arc::clone(&scene.table), left: writes.into(), is_after: writes % 2 == 0 };
        let (dying, compactor) = (Store::over(Arc::new(dying)), Compactor::default());
        let mut done = Ok(Done { is_left: true, ..Done::default() });
        while done.as_ref().is_ok_and(|done| done.is_left) {
            done = compactor.compact(&*dying, scene.id(), at(NOW)).await;
            wait().await;
        }
        if writes % 4 == 1 || done.is_ok() {
            assert_answers(&scene, &before).await;
        }
        if done.is_ok() {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 3, "{deaths}");
    for kind in [Kind::Predictions, Kind::Outcomes] {
        assert_eq!(stored(&scene, kind).await, [(1, 23), (24, 24)], "{kind:?}");
    }
    let again = projector::verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
    assert_eq!((again.segments, again.events), (verified.segments, verified.events));
    scene.assert_verified().await;
    // Stored events are not stored again, and late ones are appended after them.
    for number in 0..COUNT {
        let ingest = scene.ingest(minute(number));
        if number % 2 == 0 || number > 15 {
            assert_eq!(send(&scene, &ingest, Kind::Predictions, number).await, 0, "{number}");
        }
    }
    for number in COUNT..COUNT + 10 {
        assert_eq!(send(&scene, &scene.ingest(minute(number)), Kind::Predictions, number).await, 1);
    }
    assert_answers(&scene, &before[..4]).await;
    scene.project().await;
    scene.assert_verified().await;
}

async fn idle_writer_appends_nothing_into_merged_segments(scene: Scene) {
    let idle = scene.ingest(minute(0));
    assert_eq!(send(&scene, &idle, Kind::Predictions, 0).await, 1);
    for number in 1..20 {
        assert_eq!(send(&scene, &scene.ingest(minute(number)), Kind::Predictions, number).await, 1);
    }
    let done = compact(&scene).await;
    assert_eq!((done.merged, done.deleted), (1, 18));
    assert_eq!(stored(&scene, Kind::Predictions).await, [(1, 19), (20, 20)]);
    // Its cached place behind the head is free, but it does not use it.
    assert_eq!(send(&scene, &idle, Kind::Predictions, 21).await, 1);
    assert_eq!(stored(&scene, Kind::Predictions).await, [(1, 19), (20, 20), (21, 21)]);
    let head = scan::heads(&*scene.table, scene.id()).await.unwrap().remove(0);
    let all = scan::segments(&*scene.table, &head.log, 1, head.seq).await.unwrap();
    assert_eq!(all.iter().map(|segment| segment.rows).sum::<usize>(), 21);
}

async fn keys_erased_from_merged_segments_count_once(scene: Scene) {
    trickle(&scene, 16).await;
    // Both the merged items and the items of their segments are there.
    let compactor = Compactor::default();
    let done = compactor.compact(&*scene.table, scene.id(), at(NOW)).await.unwrap();
    assert_eq!((done.merged, done.deleted, done.is_left), (2, 0, true));
    let is_stored = async |key: &str| {
        let items =
            query_all(&*scene.table, Query::table(key::segments(scene.id())).as_stored()).await.unwrap();
        let has = |item: table::Item| {
            let segments = match merged::span(&item) {
                Some(_) => merged::split(&item).unwrap(),
                None => vec![log::segment_item::Segment::from_item(item).unwrap()],
            };
            let columns = |segment: &log::segment_item::Segment| segment.unpack(|_| true).unwrap();
            segments.iter().any(|segment| format!("{:?}", columns(segment)).contains(key))
        };
        items.into_iter().any(has)
    };
    for (keys, left) in [(["key-3", "key-11"], true), (["key-5", "key-12"], false)] {
        assert!(is_stored(keys[0]).await && is_stored(keys[1]).await);
        let begun = begin(&scene, &keys).await.unwrap();
        // Nothing is merged while keys are being erased.
        assert_eq!(compact(&scene).await, Done::default());
        let erased = carry(&scene.table, &begun).await.unwrap();
        assert_eq!(erased.rows, 4, "{erased:?}");
        assert!(!is_stored(keys[0]).await && !is_stored(keys[1]).await);
        scene.assert_verified().await;
        if left {
            let done = compact(&scene).await;
            assert_eq!(done.deleted, 2 * 14, "{done:?}");
        }
        assert_eq!(stored(&scene, Kind::Outcomes).await, [(1, 15), (16, 16)]);
    }
    let texts = ask(&scene, Dataset::Events(Kind::Predictions), Params::default()).await.0;
    assert_eq!(texts.lines().count(), 17);
    for number in [3, 5, 11, 12] {
        assert!(!texts.contains(&format!("key-{number},")), "{texts}");
    }
}

async fn what_is_merged_expires_as_a_whole(scene: Scene) {
    trickle(&scene, 12).await;
    let compactor = Compactor::default();
    assert!(compactor.compact(&*scene.table, scene.id(), at(NOW)).await.unwrap().is_left);
    scene.world.catalog.set_retention(scene.id(), Some(2), at("2026-06-05T00:00:00Z")).await.unwrap();
    for hour in [0, 2] {
        scene.expire(at(NOW).plus_seconds(hour * 3_600)).await;
    }
    for kind in [Kind::Predictions, Kind::Outcomes] {
        assert_eq!(stored(&scene, kind).await, []);
    }
    wait().await;
    assert!(!compactor.compact(&*scene.table, scene.id(), at(NOW)).await.unwrap().is_left);
    scene.assert_verified().await;
}

async fn two_that_merge_at_once_lose_nothing(scene: Scene) {
    const COUNT: i64 = 20;
    trickle(&scene, COUNT).await;
    let before = answers(&scene, 10, COUNT).await;
    let [one, other] = [Compactor::default(), Compactor::default()];
    loop {
        let (now, table) = (at(NOW), &*scene.table);
        let (one, other) =
            tokio::join!(one.compact(table, scene.id(), now), other.compact(table, scene.id(), now));
        wait().await;
        if !one.unwrap().is_left && !other.unwrap().is_left {
            break;
        }
    }
    assert_answers(&scene, &before).await;
    assert_eq!(stored(&scene, Kind::Predictions).await, [(1, 19), (20, 20)]);
    scene.assert_verified().await;
}

/// Pages of a few items, as of large ones, do not stop the merging.
async fn pages_of_a_few_items_end_no_merging(mut scene: Scene) {
    trickle(&scene, 20).await;
    let whole = Arc::clone(&scene.table);
    scene.table = ShortPages::new(Arc::clone(&whole));
    let done = compact(&scene).await;
    assert_eq!((done.merged, done.deleted), (2, 36));
    scene.table = whole;
    for kind in [Kind::Predictions, Kind::Outcomes] {
        assert_eq!(stored(&scene, kind).await, [(1, 19), (20, 20)], "{kind:?}");
    }
    scene.assert_verified().await;
}
