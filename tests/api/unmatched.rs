//! Outcomes without a prediction wait until it is found, and are then ordinary outcomes. Each on a SQLite file and on DynamoDB
//! Local.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use event::{Clock, Kind, Timestamp};
use ingest::{Receipt, Remember, SubmitError, json::read_json_array};
use log::{
    key::{self, UnmatchedSegment},
    scan, unmatched as kept,
};
use projector::{
    Options, Projector, key_filters,
    unmatched::{Append, Resolved, resolve},
};
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use table::{Query, query_all};
use tests::{
    decided::ByIngest,
    on_both_engines,
    scene::{Scene, csv},
    world::at,
};
use tokio::time::timeout;

on_both_engines!(
    Scene::on:
    undated_outcome_judges_latest_earlier_prediction,
    orphaned_outcome_waits_for_later_predictions,
    old_outcome_is_sought_when_prediction_arrives,
    crash_during_resolution_repeats_its_decision,
    repeated_batch_of_another_day_is_stored_once,
    a_decision_is_final,
    what_waits_too_long_judges_nothing,
    deleted_day_takes_its_unmatched_outcomes_along,
    what_waits_is_looked_for_by_filters,
    an_orphaned_outcome_waits_for_no_sweep,
);

const DAYS: [&str; 3] = ["2026-06-01", "2026-06-02", "2026-06-03"];

/// Predictions of `k0` to `k9` on three days, appended a moment later.
pub(crate) async fn predicted(scene: &Scene) {
    for day in DAYS {
        scene.predict_many(day, "v1", 10, &format!("{day}T01:00:10Z")).await;
    }
}

/// Outcome without a date.
pub(crate) fn outcome(key: &str, observed_at: &str, label: &str) -> Value {
    json!({ "key": key, "observed_at": observed_at, "label": label })
}

/// Appends outcomes, under a claim that is not forgotten: the clock of the engine is far ahead of the instants of these tests.
pub(crate) async fn observe(
    scene: &Scene,
    events: Vec<Value>,
    key: Option<&str>,
    now: &str,
) -> Result<Receipt, SubmitError> {
    let events = Value::from(events);
    let batch = read_json_array(Kind::Outcomes, events.to_string().as_bytes(), at(now))?;
    scene.ingest(at(now)).submit(&scene.workspace, batch, key, Remember::Forever).await
}

pub(crate) fn append(scene: &Scene, now: &str) -> ByIngest {
    ByIngest::new(scene.ingest(at(now)))
}

pub(crate) async fn round(scene: &Scene, append: &dyn Append, now: &str) -> event::Result<Resolved> {
    scene.project().await;
    let days = (None, &BTreeSet::new());
    let resolved = resolve(&*scene.table, &scene.world.catalog, append, scene.id(), days, at(now)).await;
    scene.project().await;
    resolved
}

/// A worker between two sweeps, a quarter of an hour apart, matches an outcome that arrives meanwhile.
async fn an_orphaned_outcome_waits_for_no_sweep(scene: Scene) {
    let now = "2026-06-05T12:00:00Z";
    predicted(&scene).await;
    let append = Arc::new(append(&scene, now));
    let options = Options::new(Clock::from_fn(move || at(now))).appending_by(Arc::clone(&append) as _);
    let projector = Arc::new(Projector::new(Arc::clone(&scene.table), options));
    let (worker, until) = (Arc::clone(&projector), Duration::from_secs(120));
    let running = tokio::spawn(async move { worker.run(std::future::pending()).await });
    let is_so = async |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(until, is_so(&|| projector.health().has_swept)).await.unwrap();
    observe(&scene, vec![outcome("k3", "2026-06-05T11:00:00Z", "1")], None, now).await.unwrap();
    timeout(until, is_so(&|| append.rows.load(Ordering::Relaxed) == 1)).await.unwrap();
    running.abort();
}

/// Result of a sweep over the unmatched outcomes.
pub(crate) async fn resolved(scene: &Scene, now: &str) -> Resolved {
    round(scene, &append(scene, now), now).await.unwrap()
}

/// Outcomes of June.
async fn outcomes(scene: &Scene) -> String {
    let columns = Some("day,key,predicted_at,observed_at,label");
    let words = Params { from: "2026-06-01", to: "2026-06-30", columns, ..Params::default() };
    let request = Request::parse(Dataset::Events(Kind::Outcomes), &words).unwrap();
    let text = csv(scene.query(at("2026-06-30T00:00:00Z")).run(scene.id(), &request).await.unwrap());
    let mut lines: Vec<&str> = text.lines().skip(1).collect();
    lines.sort_unstable();
    lines.join("\n")
}

pub(crate) fn counts(found: u64, expired: u64, waiting: u64) -> Resolved {
    Resolved { found, expired, waiting, ..Resolved::default() }
}

async fn undated_outcome_judges_latest_earlier_prediction(scene: Scene) {
    predicted(&scene).await;
    let since = json!({
        "key": "k3", "observed_at": "2026-06-05T00:00:00Z", "label": "1", "predicted_since": "2026-06-03T02:00:00Z",
    });
    let dated = json!({
        "key": "k4", "observed_at": "2026-06-05T00:00:00Z", "label": "1", "predicted_at": "2026-06-01T01:00:00Z",
    });
    let events = vec![
        outcome("k0", "2026-06-05T00:00:00Z", "1"),
        outcome("k1", "2026-06-03T00:59:59Z", "0"),
        outcome("k2", "2026-06-01T01:00:00Z", "1"),
        since,
        dated,
        outcome("k5", "2026-06-01T00:59:59Z", "1"),
        outcome("other", "2026-06-05T00:00:00Z", "1"),
    ];
    let receipt = observe(&scene, events, None, "2026-06-05T10:00:00Z").await.unwrap();
    assert_eq!((receipt.rows, receipt.appended, receipt.unmatched, receipt.days.len()), (7, 7, 6, 1));
    assert_eq!(outcomes(&scene).await, "2026-06-01,k4,2026-06-01T01:00:00Z,2026-06-05T00:00:00Z,1");
    // Outcomes appended a moment ago are not closed yet, but are resolved with the closed ones.
    assert_eq!(resolved(&scene, "2026-06-05T10:01:00Z").await, counts(3, 0, 3));
    let expected = [
        "2026-06-01,k2,2026-06-01T01:00:00Z,2026-06-01T01:00:00Z,1",
        "2026-06-01,k4,2026-06-01T01:00:00Z,2026-06-05T00:00:00Z,1",
        "2026-06-02,k1,2026-06-02T01:00:00Z,2026-06-03T00:59:59Z,0",
        "2026-06-03,k0,2026-06-03T01:00:00Z,2026-06-05T00:00:00Z,1",
    ];
    assert_eq!(outcomes(&scene).await, expected.join("\n"));
    assert_eq!(resolved(&scene, "2026-06-05T11:00:00Z").await, counts(0, 0, 3), "it is done once");
    assert_eq!(outcomes(&scene).await, expected.join("\n"));
    scene.assert_verified().await;
    let retracted = json!({
        "key": "k0", "observed_at": "2026-06-05T00:00:00Z", "retracted": true, "reason": "wrong",
    });
    let late = json!({
        "key": "k0", "observed_at": "2026-06-05T00:00:00Z", "label": "1", "predicted_since": "2026-06-06T00:00:00Z",
    });
    let far = json!({
        "key": "k0", "observed_at": "2026-06-05T00:00:00Z", "label": "1", "predicted_since": "2025-01-01T00:00:00Z",
    });
    let both = json!({
        "key": "k0", "observed_at": "2026-06-05T00:00:00Z", "label": "1", "predicted_since": "2026-06-01T00:00:00Z",
        "predicted_on": "2026-06-02",
    });
    for (event, why) in [
        (retracted, "give the `predicted_at` that it has"),
        (late, "is after `observed_at`"),
        (far, "more than 400 days before"),
        (both, "neither `predicted_at` nor `predicted_on`"),
    ] {
        let refused = observe(&scene, vec![event], None, "2026-06-05T12:00:00Z").await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

async fn orphaned_outcome_waits_for_later_predictions(scene: Scene) {
    predicted(&scene).await;
    let events =
        vec![outcome("late", "2026-06-05T00:00:00Z", "1"), outcome("never", "2026-06-05T00:00:00Z", "1")];
    observe(&scene, events, None, "2026-06-05T10:00:00Z").await.unwrap();
    for now in ["2026-06-05T10:01:00Z", "2026-06-05T10:16:00Z"] {
        assert_eq!(resolved(&scene, now).await, counts(0, 0, 2));
    }
    // Without new events no prediction is read.
    let append = append(&scene, "2026-06-05T10:31:00Z");
    let days = BTreeSet::new();
    let resolving = resolve(
        &*scene.table,
        &scene.world.catalog,
        &append,
        scene.id(),
        (None, &days),
        at("2026-06-05T10:31:00Z"),
    );
    let (again, reads) = scene.world.reads(resolving).await;
    assert_eq!(again.unwrap(), counts(0, 0, 2));
    assert!(reads.queries <= 8 && reads.gets <= 8, "{reads:?}");
    let prediction = json!([
        { "key": "late", "predicted_at": "2026-06-02T07:00:00Z", "release": "v1", "score": 0.5 },
    ]);
    scene.append(Kind::Predictions, prediction, "2026-06-06T00:00:00Z").await.unwrap();
    // As of the instant of this round it had not arrived yet.
    assert_eq!(resolved(&scene, "2026-06-06T00:00:20Z").await, counts(0, 0, 2));
    assert_eq!(resolved(&scene, "2026-06-06T00:00:40Z").await, counts(1, 0, 1));
    assert!(outcomes(&scene).await.starts_with("2026-06-02,late,2026-06-02T07:00:00Z"));
    scene.assert_verified().await;
}

async fn old_outcome_is_sought_when_prediction_arrives(scene: Scene) {
    let now = "2026-06-05T10:00:00Z";
    let far = json!({
        "key": "old", "observed_at": "2022-03-02T00:00:00Z", "label": "1", "predicted_since": "2021-03-01T00:00:00Z",
    });
    observe(&scene, vec![far, outcome("k1", "2026-06-05T00:00:00Z", "0")], None, now).await.unwrap();
    for now in ["2026-06-05T10:01:00Z", "2026-06-05T10:16:00Z", "2026-06-05T10:31:00Z"] {
        assert_eq!(resolved(&scene, now).await, counts(0, 0, 2));
    }
    // Its day is further back than rounds look by themselves.
    let prediction =
        json!([{ "key": "old", "predicted_at": "2021-06-01T07:00:00Z", "release": "v1", "score": 0.5 }]);
    scene.append(Kind::Predictions, prediction, "2026-06-06T00:00:00Z").await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-06T00:01:00Z").await, counts(1, 0, 1));
    scene.assert_verified().await;
}

async fn crash_during_resolution_repeats_its_decision(scene: Scene) {
    scene.world.set_lanes(scene.id(), 4).await;
    predicted(&scene).await;
    let events =
        |label: &str| (0..10).map(|n| outcome(&format!("k{n}"), "2026-06-05T00:00:00Z", label)).collect();
    observe(&scene, events("1"), None, "2026-06-05T10:00:00Z").await.unwrap();
    let dying = append(&scene, "2026-06-05T10:01:00Z");
    // Each try gets a little further: it dies before an append, or before the answer of one.
    for _ in 0..8 {
        dying.lost.store(1, Ordering::Relaxed);
        _ = round(&scene, &dying, "2026-06-05T10:01:00Z").await;
        dying.lost.store(0, Ordering::Relaxed);
        dying.unheard.store(1, Ordering::Relaxed);
        _ = round(&scene, &dying, "2026-06-05T10:02:00Z").await;
        // A prediction that arrives meanwhile would be found now, and changes no decision.
        scene.predict_many("2026-06-04", "v1", 1, "2026-06-05T10:01:30Z").await;
        dying.unheard.store(0, Ordering::Relaxed);
    }
    resolved(&scene, "2026-06-05T12:00:00Z").await;
    let all = outcomes(&scene).await;
    assert_eq!(all.lines().count(), 10, "{all}");
    // The key with a new prediction may have been decided after it, other keys were not.
    let others = all.lines().filter(|line| !line.contains(",k0,"));
    assert!(
        others.clone().count() == 9 && others.clone().all(|line| line.starts_with("2026-06-03,")),
        "{all}"
    );
    scene.assert_verified().await;
}

async fn repeated_batch_of_another_day_is_stored_once(scene: Scene) {
    predicted(&scene).await;
    let events = |label: &str| {
        vec![outcome("k1", "2026-06-05T00:00:00Z", label), outcome("k2", "2026-06-05T00:00:00Z", label)]
    };
    for (label, key) in [("1", Some("nightly")), ("0", None)] {
        let first = observe(&scene, events(label), key, "2026-06-05T23:59:58Z").await.unwrap();
        let again = observe(&scene, events(label), key, "2026-06-06T00:00:02Z").await.unwrap();
        assert_eq!((first.appended, again.appended, again.replayed), (2, 0, true), "{label}");
    }
    let other = observe(&scene, events("other"), Some("nightly"), "2026-06-06T00:00:04Z").await.unwrap_err();
    assert!(other.to_string().contains("was used for other events"), "{other}");
    assert_eq!(resolved(&scene, "2026-06-06T00:01:00Z").await.found, 4);
    assert_eq!(outcomes(&scene).await.lines().count(), 4);
}

async fn a_decision_is_final(scene: Scene) {
    predicted(&scene).await;
    observe(&scene, vec![outcome("k1", "2026-06-05T00:00:00Z", "1")], None, "2026-06-05T10:00:00Z")
        .await
        .unwrap();
    assert_eq!(resolved(&scene, "2026-06-05T10:01:00Z").await.found, 1);
    let before = outcomes(&scene).await;
    // A prediction that would have been found comes too late.
    let prediction =
        json!([{ "key": "k1", "predicted_at": "2026-06-04T00:00:00Z", "release": "v1", "score": 0.5 }]);
    scene.append(Kind::Predictions, prediction, "2026-06-05T11:00:00Z").await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-05T12:00:00Z").await, Resolved::default());
    assert_eq!(outcomes(&scene).await, before);
    let log = log::key::LogId {
        workspace: scene.id().clone(),
        day: "2026-06-05".parse().unwrap(),
        kind: Kind::Unmatched,
        lane: 0,
    };
    let decisions = kept::decisions(&*scene.table, &UnmatchedSegment { log, seq: 1 }, 1).await.unwrap();
    let [(_, decision)] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!(decision.matched, [(0, vec![at("2026-06-03T01:00:00Z").micros()])].into());
    assert_eq!(decision.as_of, at("2026-06-05T10:00:30Z"));
}

async fn what_waits_too_long_judges_nothing(scene: Scene) {
    predicted(&scene).await;
    observe(&scene, vec![outcome("never", "2026-06-05T00:00:00Z", "1")], None, "2026-06-05T10:00:00Z")
        .await
        .unwrap();
    assert_eq!(resolved(&scene, "2026-09-03T09:00:00Z").await, counts(0, 0, 1));
    assert_eq!(resolved(&scene, "2026-09-03T11:00:00Z").await, counts(0, 1, 0));
    let late =
        json!([{ "key": "never", "predicted_at": "2026-06-04T00:00:00Z", "release": "v1", "score": 0.5 }]);
    scene.append(Kind::Predictions, late, "2026-09-03T12:00:00Z").await.unwrap();
    assert_eq!(resolved(&scene, "2026-09-03T13:00:00Z").await, Resolved::default());
    assert_eq!(outcomes(&scene).await, "");
}

async fn deleted_day_takes_its_unmatched_outcomes_along(scene: Scene) {
    predicted(&scene).await;
    let events =
        vec![outcome("k1", "2026-06-05T00:00:00Z", "1"), outcome("never", "2026-06-05T00:00:00Z", "1")];
    observe(&scene, events, None, "2026-06-05T10:00:00Z").await.unwrap();
    // It is decided, and the deciding worker died.
    let dying = append(&scene, "2026-06-05T10:01:00Z");
    dying.lost.store(1, Ordering::Relaxed);
    assert!(round(&scene, &dying, "2026-06-05T10:01:00Z").await.is_err());
    scene.world.catalog.set_retention(scene.id(), Some(10), at("2026-06-05T11:00:00Z")).await.unwrap();
    let now = at("2026-06-20T00:00:00Z");
    scene.expire(now).await;
    let later = now.plus_seconds(2 * 60 * 60);
    scene.expire(later).await;
    let day = "2026-06-05".parse().unwrap();
    let of_day = async || {
        let mut items = 0;
        for range in key::unmatched_of_day(scene.id(), day) {
            items += query_all(&*scene.table, Query::table(range)).await.unwrap().len();
        }
        let segments =
            scan::heads_of_kind(&*scene.table, scene.id(), day, Kind::Unmatched).await.unwrap().len();
        (items, segments)
    };
    // The decision is carried out first; its prediction is gone by now, so nothing is appended.
    assert_eq!(of_day().await, (3, 1));
    let resolve_at = |now: Timestamp| now.to_string();
    resolved(&scene, &resolve_at(later)).await;
    scene.expire(later.plus_seconds(3600)).await;
    assert_eq!(of_day().await, (0, 0));
    assert_eq!(resolved(&scene, &resolve_at(later.plus_seconds(7200))).await, Resolved::default());
    assert_eq!(of_day().await, (0, 0));
}

async fn what_waits_is_looked_for_by_filters(scene: Scene) {
    const DAYS: u32 = 10;
    scene.world.set_lanes(scene.id(), 4).await;
    for day in 1..=DAYS {
        let of = |number: u32| {
            json!({
                "key": format!("d{day}-{number}"), "predicted_at": format!("2026-06-{day:02}T01:00:00Z"),
                "release": "v1", "score": 0.5,
            })
        };
        for some in 0..4 {
            let events: Value = (some * 10..some * 10 + 10).map(of).collect();
            let then = format!("2026-06-{day:02}T0{}:00:00Z", some + 2);
            scene.append(Kind::Predictions, events, &then).await.unwrap();
        }
    }
    let asked = (1..=DAYS).map(|day| outcome(&format!("d{day}-7"), "2026-06-12T00:00:00Z", "1"));
    let asked: Vec<Value> = asked.chain([outcome("never", "2026-06-12T00:00:00Z", "1")]).collect();
    observe(&scene, asked, None, "2026-06-12T10:00:00Z").await.unwrap();
    scene.project().await;
    let (days, then) = (BTreeSet::new(), at("2026-06-12T10:00:00Z"));
    let made = key_filters::make(&*scene.table, scene.id(), (None, &days), then).await;
    assert_eq!(made.unwrap(), u64::from(DAYS));
    let append = append(&scene, "2026-06-12T10:01:00Z");
    let resolving = resolve(
        &*scene.table,
        &scene.world.catalog,
        &append,
        scene.id(),
        (None, &days),
        at("2026-06-12T10:01:00Z"),
    );
    let (done, reads) = scene.world.reads(resolving).await;
    assert_eq!(done.unwrap(), counts(u64::from(DAYS), 0, 1));
    // Each day has four lanes with four segments, and one item with the number of lanes; one lane of each is read.
    let all = u64::from(DAYS) * 17;
    assert!(reads.items < all * 2, "{reads:?}");
    scene.project().await;
    let found = outcomes(&scene).await;
    assert_eq!(found.lines().count(), DAYS as usize, "{found}");
}
