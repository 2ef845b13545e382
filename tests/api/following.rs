//! Following a log: nothing is lost, events of a key come in their order, missing events are reported, and a consumer continues
//! at its position. Each on a SQLite file and on DynamoDB Local.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{Catalog, Workspace};
use event::{Clock, Error, ErrorKind, Kind, Result};
use ingest::{Ingest, Remember, json::read_json_array};
use log::{
    key::{self, LogId},
    read_version::ReadVersion,
    scan,
    store::Store,
};
use query::{Follow, FollowParams, Followed, Params, Query};
use serde_json::{Value, json};
use table::{Condition, Item, Table, item::Value as Attribute};
use tests::{
    counted::Counted,
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    following_loses_nothing_and_keeps_key_order,
    waiting_follower_is_woken_by_any_process,
    nobody_waits_for_a_service_that_stops,
    consumer_resumes_and_never_moves_back,
    lag_of_many_consumers_reads_log_once,
    what_never_comes_is_told_once,
    invalid_follow_is_refused_with_reason,
);

/// Pseudorandom numbers, equal in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

const COLUMNS: Option<&str> = Some("day,key,score");

fn words(limit: &str) -> FollowParams<'_> {
    let words = Params { columns: COLUMNS, ..Params::default() };
    FollowParams { words, limit: Some(limit), ..FollowParams::default() }
}

fn predictions(words: &FollowParams<'_>) -> Follow {
    Follow::parse(Kind::Predictions, words).unwrap()
}

/// Rows of an answer: day, key and score.
fn rows(followed: &mut Followed) -> Vec<(String, String, f64)> {
    let text = csv(&mut followed.answer);
    let fields = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[0].to_owned(), fields[1].to_owned(), fields[2].parse().unwrap())
    };
    text.lines().skip(1).map(fields).collect()
}

fn read_version(followed: &Followed) -> ReadVersion {
    followed.answer.read_version.clone().unwrap()
}

/// Reads all events after a read version, and returns them with the new read version.
async fn drained(
    query: &Query,
    scene: &Scene,
    mut follow: Follow,
) -> (Vec<(String, String, f64)>, ReadVersion) {
    let mut all = Vec::new();
    loop {
        let mut followed = query.follow(scene.id(), &follow).await.unwrap();
        all.extend(rows(&mut followed));
        let read_version = read_version(&followed);
        if !follow.is_before(&read_version) {
            return (all, read_version);
        }
        follow = follow.after(read_version);
    }
}

fn prediction(day: &str, key: &str, score: f64) -> Value {
    json!({ "key": key, "predicted_at": format!("{day}T01:00:00Z"), "release": "v1", "score": score })
}

const DAYS: [&str; 4] = ["2026-06-03", "2026-06-01", "2026-05-20", "2026-06-02"];

async fn following_loses_nothing_and_keeps_key_order(scene: Scene) {
    scene.world.set_lanes(scene.id(), 3).await;
    let mut chance = Chance(16);
    let mut stored = BTreeMap::<(String, String), Vec<f64>>::new();
    let mut query = scene.query(at(NOW));
    // One reader goes on from each answer; the other one loses answers at times, and asks again.
    let (mut read_versions, mut known): ([Option<ReadVersion>; 2], [BTreeMap<_, Vec<f64>>; 2]) =
        Default::default();
    for step in 0..80 {
        match chance.below(6) {
            0..3 => {
                let events: Vec<Value> = (0..=chance.below(4))
                    .map(|_| {
                        let (day, key) = (DAYS[chance.below(4) as usize], format!("k{}", chance.below(9)));
                        let scores = stored.entry((day.to_owned(), key.clone())).or_default();
                        scores.push((f64::from(step) + scores.len() as f64 / 1_000.0) / 1_000.0);
                        prediction(day, &key, scores[scores.len() - 1])
                    })
                    .collect();
                scene.append(Kind::Predictions, json!(events), NOW).await.unwrap();
            }
            3 => query = scene.query(at(NOW)),
            reader => {
                let (reader, limit) = (reader as usize - 4, (1 + chance.below(5)).to_string());
                let follow = predictions(&words(&limit));
                let follow = read_versions[reader]
                    .clone()
                    .map_or(follow.clone(), |read_version| follow.after(read_version));
                let mut followed = query.follow(scene.id(), &follow).await.unwrap();
                if reader == 1 && chance.below(3) == 0 {
                    continue;
                }
                for (day, key, score) in rows(&mut followed) {
                    known[reader].entry((day, key)).or_default().push(score);
                }
                read_versions[reader] = Some(read_version(&followed));
            }
        }
    }
    for reader in 0..2 {
        let follow = predictions(&words("7"));
        let follow =
            read_versions[reader].clone().map_or(follow.clone(), |read_version| follow.after(read_version));
        for (day, key, score) in drained(&query, &scene, follow).await.0 {
            known[reader].entry((day, key)).or_default().push(score);
        }
        assert!(stored.values().map(Vec::len).sum::<usize>() > 40);
        assert_eq!(known[reader], stored, "reader {reader}: all of it, once, keys in their order");
    }
    // A reader that begins again gets the same; one with a filter gets its part.
    let all = drained(&query, &scene, predictions(&words("100"))).await.0;
    assert_eq!(all.len(), stored.values().map(Vec::len).sum::<usize>());
    let of_key = Params { key: Some("k1"), ..words("100").words };
    let (some, end) =
        drained(&query, &scene, predictions(&FollowParams { words: of_key, ..words("3") })).await;
    let expected =
        |of: &str| stored.iter().filter(|((_, key), _)| key == of).map(|(_, all)| all.len()).sum::<usize>();
    assert_eq!((some.len(), some.iter().all(|(_, key, _)| key == "k1")), (expected("k1"), true));
    let from = FollowParams { from: Some("2026-06-02"), ..words("100") };
    let days: BTreeSet<String> =
        drained(&query, &scene, predictions(&from)).await.0.into_iter().map(|(day, ..)| day).collect();
    assert_eq!(days.into_iter().collect::<Vec<_>>(), ["2026-06-02", "2026-06-03"]);
    assert!(drained(&query, &scene, predictions(&words("9")).after(end)).await.0.is_empty());
}

async fn append(table: &Arc<dyn Table>, workspace: &Workspace, events: Value) {
    let ingest = Ingest::replaying(Arc::clone(table), Clock::from_fn(|| at(NOW)));
    let batch = read_json_array(Kind::Predictions, events.to_string().as_bytes(), at(NOW)).unwrap();
    ingest.submit(workspace, batch, None, Remember::Week).await.unwrap();
}

async fn waiting_follower_is_woken_by_any_process(scene: Scene) {
    let store = Store::over(Arc::clone(&scene.table));
    let query = scene.query(at(NOW)).hearing(store.notifier().clone());
    let belled: Arc<dyn Table> = store;
    let mut follow = predictions(&FollowParams { wait: Some("30"), ..words("100") });
    // An old day, the present day, a new one: by this process and by another.
    let days = ["2026-06-09", "2026-01-01", "2026-06-09", "2026-06-10", "2026-01-01"];
    for (step, day) in days.iter().enumerate() {
        for (table, score) in [(&belled, 0.1), (&scene.table, 0.2)] {
            let score = score + step as f64 / 100.0;
            let next = async {
                let mut follow = follow.clone();
                loop {
                    let mut followed = query.follow(scene.id(), &follow).await.unwrap();
                    let (rows, read_version) = (rows(&mut followed), read_version(&followed));
                    if !rows.is_empty() {
                        return (rows, read_version);
                    }
                    follow = follow.after(read_version);
                }
            };
            let event = json!([prediction(day, "k", score)]);
            let ((rows, read_version), ()) = tokio::join!(next, append(table, &scene.workspace, event));
            assert_eq!(rows, [((*day).to_owned(), "k".to_owned(), score)], "step {step}");
            follow = follow.after(read_version);
        }
    }
}

async fn nobody_waits_for_a_service_that_stops(scene: Scene) {
    let query = scene.query(at(NOW));
    let follow = predictions(&FollowParams { wait: Some("30"), ..words("100") });
    let (followed, ()) = tokio::join!(query.follow(scene.id(), &follow), async { query.close() });
    assert!(rows(&mut followed.unwrap()).is_empty());
    assert!(rows(&mut query.follow(scene.id(), &follow).await.unwrap()).is_empty());
    append(&scene.table, &scene.workspace, json!([prediction("2026-06-01", "k", 1.0)])).await;
    let ended = predictions(&words("100"));
    assert_eq!(
        rows(&mut query.follow(scene.id(), &ended).await.unwrap()).len(),
        1,
        "what is there is answered"
    );
}

async fn consumer_resumes_and_never_moves_back(scene: Scene) {
    let (query, catalog) = (scene.query(at(NOW)), scene.world.catalog.clone());
    scene.world.set_lanes(scene.id(), 2).await;
    for n in 0..6 {
        let events = json!([prediction("2026-06-01", &format!("k{n}"), f64::from(n) / 10.0)]);
        scene.append(Kind::Predictions, events, NOW).await.unwrap();
    }
    let resumed = async || query.of_consumer(scene.id(), "billing", predictions(&words("1"))).await.unwrap();
    let commit = async |read_version: &ReadVersion| {
        catalog.commit(scene.id(), "billing", read_version, at(NOW)).await.unwrap()
    };
    assert_eq!(
        catalog.consumer(scene.id(), "billing").await.unwrap(),
        None,
        "it is made by its first commit"
    );

    // Two processes read from the same position, and commit in either order.
    let mut ahead = query.follow(scene.id(), &resumed().await).await.unwrap();
    let first = read_version(&ahead);
    let mut seen = rows(&mut ahead);
    assert_eq!(rows(&mut query.follow(scene.id(), &resumed().await).await.unwrap()), seen);
    let mut ahead = query.follow(scene.id(), &resumed().await.after(first.clone())).await.unwrap();
    seen.extend(rows(&mut ahead));
    let second = read_version(&ahead);
    let (later, earlier) = tokio::join!(commit(&second), commit(&first));
    assert!([&later.read_version, &earlier.read_version].contains(&&second));
    assert_eq!(commit(&first).await.read_version, second, "a late commit takes nothing back");
    let consumer = catalog.consumer(scene.id(), "billing").await.unwrap().unwrap();
    let lag = catalog.lag(&consumer).await.unwrap();
    assert_eq!((lag.segments, lag.since), (4, Some(at(NOW))), "two were read");

    // A process that died goes on after the committed position.
    let (rest, end) = drained(&query, &scene, resumed().await).await;
    seen.extend(rest);
    let keys: BTreeSet<String> = seen.iter().map(|(_, key, _)| key.clone()).collect();
    assert_eq!((seen.len(), keys.len()), (6, 6));
    let consumer = commit(&end).await;
    assert_eq!(catalog.lag(&consumer).await.unwrap().segments, 0);
    assert_eq!(catalog.consumers(scene.id()).await.unwrap(), [consumer]);

    // Concurrent commits are all stored.
    let commits = (0..8u64).map(|lane| {
        let log = LogId { lane: lane as u8, ..end.heads.keys().next().unwrap().clone() };
        let mut read_version = end.clone();
        read_version.heads.insert(log, 100 + lane);
        let catalog = catalog.clone();
        let workspace = scene.id().clone();
        async move { catalog.commit(&workspace, "parallel", &read_version, at(NOW)).await.map(drop) }
    });
    futures::future::try_join_all(commits).await.unwrap();
    let all = catalog.consumer(scene.id(), "parallel").await.unwrap().unwrap().read_version.heads;
    assert_eq!(all.values().copied().collect::<Vec<_>>(), (100..108).collect::<Vec<u64>>());

    let outcomes = ReadVersion::begin(scene.id(), Kind::Outcomes, at(NOW).day());
    let refused = catalog.commit(scene.id(), "billing", &outcomes, at(NOW)).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.to_string()),
        (ErrorKind::Conflict, "the consumer `billing` follows predictions".into())
    );
    let other = Follow::parse(Kind::Outcomes, &FollowParams::default()).unwrap();
    assert!(query.of_consumer(scene.id(), "billing", other).await.unwrap_err().is_conflict());
    catalog.delete_consumer(scene.id(), "billing").await.unwrap();
    let again = catalog.delete_consumer(scene.id(), "billing").await.unwrap_err();
    assert_eq!(
        (again.kind(), again.to_string()),
        (ErrorKind::NotFound, "there is no consumer `billing` in this workspace".into())
    );
    assert_eq!(drained(&query, &scene, resumed().await).await.0.len(), 6, "who begins again sees all");
}

/// Damages a segment; its item can still be read.
async fn damage(scene: &Scene, log: &LogId, seq: u64) {
    let item = scene.table.get(&key::segment(log, seq)).await.unwrap().unwrap();
    scene.table.put(item.with("data", Attribute::B(vec![1, 2, 3])), Condition::Exists).await.unwrap();
}

/// Puts a copy of a segment under another number.
async fn copy(scene: &Scene, log: &LogId, from: u64, to: u64) {
    let item = scene.table.get(&key::segment(log, from)).await.unwrap().unwrap();
    let copied = Item { key: key::segment(log, to), ..item };
    scene.table.put(copied, Condition::Absent).await.unwrap();
}

async fn lag_of_many_consumers_reads_log_once(scene: Scene) {
    let catalog = &scene.world.catalog;
    for n in 0..3 {
        let events = json!([prediction("2026-06-01", &format!("k{n}"), f64::from(n) / 10.0)]);
        scene.append(Kind::Predictions, events, NOW).await.unwrap();
    }
    let day = "2026-06-01".parse().unwrap();
    let begin = ReadVersion::begin(scene.id(), Kind::Predictions, day);
    let fresh = catalog.commit(scene.id(), "fresh", &begin, at(NOW)).await.unwrap();
    let mut read = begin.clone();
    let log = LogId { workspace: scene.id().clone(), day, kind: Kind::Predictions, lane: 0 };
    read.heads.insert(log, 1);
    let ahead = catalog::Consumer { read_version: read, ..fresh.clone() };
    let lags = catalog.lags(&[fresh.clone(), ahead, fresh.clone()]).await.unwrap();
    let segments: Vec<u64> = lags.iter().map(|lag| lag.segments).collect();
    assert_eq!(segments, [3, 2, 3], "each by its own read version");
    let counted = Arc::new(Counted::new(Arc::clone(&scene.table)));
    let catalog = Catalog::new(Arc::<Counted>::clone(&counted));
    catalog.lag(&fresh).await.unwrap();
    let of_one = counted.take_reads();
    catalog.lags(&vec![fresh; 20]).await.unwrap();
    assert_eq!(counted.take_reads(), of_one, "twenty that stand at one place are one look");
}

async fn what_never_comes_is_told_once(scene: Scene) {
    for (day, count) in [("2026-06-01", 3), ("2026-06-05", 4)] {
        for n in 0..count {
            scene.predict(day, "v1", f64::from(n) / 10.0).await;
        }
    }
    let log = scan::log_named(scene.id(), "2026-06-05".parse().unwrap(), "p/00").unwrap();
    damage(&scene, &log, 2).await;
    let asked = async |query: &Query, follow: Follow| {
        let mut followed = query.follow(scene.id(), &follow).await.unwrap();
        (rows(&mut followed).len(), followed.answer.warnings.join("; "), read_version(&followed))
    };
    // The first of three segments is read; then the day expires.
    let query = scene.query(at("2026-06-06T00:00:00Z"));
    let (read, warning, early) = asked(&query, predictions(&words("1"))).await;
    assert_eq!((read, &*warning), (1, ""));
    scene.project().await;
    let later = at("2026-06-07T00:00:00Z");
    scene.world.catalog.set_retention(scene.id(), Some(4), later).await.unwrap();
    assert_eq!(scene.expire(later).await.segments, 0);
    assert_eq!(scene.expire(later.plus_seconds(3_600)).await.days, 1);
    let query = scene.query(later.plus_seconds(7_200));
    let all = || predictions(&words("100"));
    let (read, warning, next) = asked(&query, all().after(early.clone())).await;
    assert_eq!(read, 3, "{warning}");
    assert!(warning.contains("2026-06-05/p/00/2"), "{warning}");
    assert!(
        warning.ends_with("1 of the days, up to 2026-06-01, expired before they were read: 2 segments"),
        "{warning}"
    );
    assert_eq!(next.left_out, [(log.clone(), 2)].into());
    let (read, warning, _) = asked(&query, all().after(next.clone())).await;
    assert_eq!((read, &*warning), (0, ""), "that was told");
    let (_, warning, _) = asked(&query, all()).await;
    assert!(warning.ends_with("2026-06-01, expired before they were read: 3 segments"), "{warning}");

    // A missing segment stops its log, which is reported as long as it lasts, and no other log.
    copy(&scene, &log, 4, 6).await;
    scene.predict("2026-06-04", "v1", 0.9).await;
    let (read, warning, end) = asked(&query, all().after(next)).await;
    let missing = "segment 2026-06-05/p/00/5 is missing, and what follows it is left out";
    assert_eq!((read, &*warning), (1, missing));
    let (read, warning, _) = asked(&query, all().after(end)).await;
    assert_eq!((read, &*warning), (0, missing));
}

async fn invalid_follow_is_refused_with_reason(scene: Scene) {
    scene.predict("2026-06-01", "v1", 0.5).await;
    let query = scene.query(at(NOW));
    let followed = query.follow(scene.id(), &predictions(&words("1"))).await.unwrap();
    let text = read_version(&followed).to_string();
    let asked = async |kind, words: &FollowParams<'_>| -> Result<()> {
        query.follow(scene.id(), &Follow::parse(kind, words)?).await.map(drop)
    };
    let after = Some(&*text);
    let none = FollowParams::default;
    let columns = Params { columns: Some("colour"), ..Params::default() };
    let release = Params { release: Some("v9"), ..Params::default() };
    for (kind, words, why) in [
        (
            Kind::Outcomes,
            FollowParams { after, ..none() },
            "after: the read version is not of outcomes alone",
        ),
        (Kind::Predictions, FollowParams { after: Some("x"), ..none() }, "after: this is not a read version"),
        (
            Kind::Predictions,
            FollowParams { wait: Some("31"), ..none() },
            "wait: `31` is not a number from 0 to 30",
        ),
        (
            Kind::Predictions,
            FollowParams { limit: Some("0"), ..none() },
            "limit: `0` is not a number from 1 to",
        ),
        (Kind::Predictions, FollowParams { from: Some("June"), ..none() }, "from: `June` is not a day"),
        (Kind::Predictions, FollowParams { words: columns, ..none() }, "there is no column `colour`"),
        (Kind::Predictions, FollowParams { words: release, ..none() }, "there is no release `v9`"),
    ] {
        let error = asked(kind, &words).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
    }
    // The table was set back: silence would lose the events until it reaches its old position.
    let log = scan::log_named(scene.id(), "2026-06-01".parse().unwrap(), "p/00").unwrap();
    scene.table.delete(&key::segment(&log, 1), Condition::None).await.unwrap();
    let query = scene.query(at(NOW));
    let follow = predictions(&FollowParams { after, ..words("1") });
    let refused: Error = query.follow(scene.id(), &follow).await.unwrap_err();
    assert!(
        refused.to_string().contains("names the segment 2026-06-01/p/00/1, which is not there"),
        "{refused}"
    );
}
