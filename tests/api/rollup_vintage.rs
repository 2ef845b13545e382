//! Rollups as of another time: from the events, and for expired days from their state at an age.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use event::{ErrorKind, Kind};
use log::{
    key, rollup_vintage,
    rollup_vintage::{RollupVintage, RollupVintages},
};
use projector::{
    rebuild::{Pace, rebuild},
    vintages::{self, Made},
};
use query::{Answer, Dataset, Params, Request, Sql, SqlParams};
use serde_json::{Value, json};
use table::{Condition, Query, query_all};
use tests::{
    between::{Between, Call},
    on_both_engines,
    scene::{Scene, csv},
    world::at,
};

use crate::erasure::{DAYS, KEY, assert_gone, begin_of, carry, erase, everything, filled};

on_both_engines!(
    Scene::on:
    past_counts_are_recomputed_from_events,
    expired_day_keeps_counts_of_its_ages,
    day_without_predictions_has_rollups_by_age,
    rebuild_keeps_aged_rollups_and_verify_finds_faults,
    rebuild_ending_during_rollup_copy_loses_nothing,
    erasure_removes_key_traces_from_aged_rollups,
);

const DAY: &str = "2026-06-01";
const NOW: &str = "2026-06-20T12:00:00Z";

/// Arrival of the events of a day: the kind, the number and the instant of each batch.
const ARRIVED: [(Kind, usize, &str); 6] = [
    (Kind::Predictions, 6, "2026-06-01T12:00:00Z"),
    (Kind::Metrics, 3, "2026-06-01T13:00:00Z"),
    (Kind::Outcomes, 2, "2026-06-02T03:00:00Z"),
    (Kind::Outcomes, 5, "2026-06-03T12:00:00Z"),
    (Kind::Predictions, 9, "2026-06-06T12:00:00Z"),
    (Kind::Metrics, 7, "2026-06-06T13:00:00Z"),
];

const BREAKDOWNS: [&str; 4] = ["release", "metric", "tag.shop", "feature"];

fn events(kind: Kind, count: usize) -> Value {
    let of = |names: &[&str], n: usize| names[n % names.len()].to_owned();
    let event = |n: usize| match kind {
        Kind::Predictions => json!({
            "key": format!("k{n}"), "predicted_at": format!("{DAY}T01:00:00Z"), "release": of(&["v1", "v2"], n),
            "score": n as f64 / 40.0, "tags": { "shop": of(&["north", "south", "west"], n) },
            "features": { "distance": n as f64 },
        }),
        Kind::Outcomes => json!({ "key": format!("k{n}"), "predicted_on": DAY,
            "observed_at": format!("{DAY}T23:00:00Z"), "label": "1" }),
        _ => json!({ "name": of(&["queue", "load"], n), "measured_at": format!("{DAY}T02:00:00Z"),
            "value": n as f64, "tags": { "shop": "north" } }),
    };
    (0..count).map(event).collect()
}

async fn ask(scene: &Scene, by: &str, as_of: Option<&str>) -> event::Result<Answer> {
    let words = Params { from: DAY, to: DAY, by: Some(by), as_of, ..Params::default() };
    scene.query(at(NOW)).run(scene.id(), &Request::parse(Dataset::Rollups, &words).unwrap()).await
}

fn statement(statement: &str, as_of: Option<&str>) -> Sql {
    Sql::parse(&SqlParams { statement, as_of, ..SqlParams::default() }).unwrap()
}

/// Counts by each breakdown.
async fn counted(scene: &Scene, as_of: Option<&str>) -> Vec<String> {
    let mut all = Vec::new();
    for by in BREAKDOWNS {
        all.push(csv(ask(scene, by, as_of).await.unwrap()));
    }
    all
}

/// Appends the events of the day, and returns the counts after each batch.
async fn arriving(scene: &Scene) -> Vec<(&'static str, Vec<String>)> {
    let mut said = Vec::new();
    for (kind, count, now) in ARRIVED {
        scene.append(kind, events(kind, count), now).await.unwrap();
        scene.project().await;
        said.push((now, counted(scene, None).await));
    }
    said
}

async fn past_counts_are_recomputed_from_events(scene: Scene) {
    let said = arriving(&scene).await;
    assert!(said.windows(2).all(|two| two[0].1 != two[1].1));
    for (instant, then) in &said {
        assert_eq!(&counted(&scene, Some(instant)).await, then, "as of {instant}");
    }
    let nothing = counted(&scene, Some("2026-06-01T00:00:00Z")).await;
    assert!(nothing.iter().all(|text| text.lines().count() == 1), "{nothing:?}");
    // By a read version the answer stays the same.
    let answer = ask(&scene, "tag.shop", Some(said[4].0)).await.unwrap();
    let read_version = answer.read_version.clone().unwrap().to_string();
    assert!(answer.warnings.is_empty());
    scene.append(Kind::Predictions, events(Kind::Predictions, 30), "2026-06-10T12:00:00Z").await.unwrap();
    let words = Params {
        from: DAY,
        to: DAY,
        by: Some("tag.shop"),
        read_version: Some(&read_version),
        ..Params::default()
    };
    let again = Request::parse(Dataset::Rollups, &words).unwrap();
    assert_eq!(csv(scene.query(at(NOW)).run(scene.id(), &again).await.unwrap()), csv(answer));
    // A statement reads them as of then, too.
    let text = format!("select sum(predictions) as n from rollups where day = '{DAY}' and release is null");
    let sql = statement(&text, Some(said[0].0));
    assert_eq!(csv(scene.query(at(NOW)).sql(scene.id(), &sql).await.unwrap()), "n\n6\n");
}

async fn vintages_of(scene: &Scene) -> RollupVintages {
    let day = DAY.parse().unwrap();
    rollup_vintage::between(&*scene.table, scene.id(), day, day).await.unwrap()
}

async fn expired_day_keeps_counts_of_its_ages(scene: Scene) {
    arriving(&scene).await;
    // At 1 h, 6 h, one day, three and seven; the breakdowns changed only once between them.
    let ages = [
        "2026-06-02T01:00:00Z",
        "2026-06-02T06:00:00Z",
        "2026-06-03T00:00:00Z",
        "2026-06-05T00:00:00Z",
        "2026-06-09T00:00:00Z",
    ];
    let mut before = Vec::new();
    for instant in ages {
        before.push(counted(&scene, Some(instant)).await);
    }
    let last = counted(&scene, None).await;
    let vintages = scene.keep_vintages(at("2026-06-09T01:00:00Z")).await;
    assert_eq!((vintages.rollups, vintages.waiting), (5, 0), "{vintages:?}");
    let kept = vintages_of(&scene).await.remove(&DAY.parse().unwrap()).unwrap();
    let parts =
        query_all(&*scene.table, Query::table(key::rollup_vintage_parts(scene.id(), DAY.parse().unwrap())))
            .await
            .unwrap();
    let of_first = kept[&1].parts.len();
    assert!(kept[&72].parts == kept[&1].parts && kept[&72].rollup != kept[&1].rollup);
    assert_eq!(parts.len(), of_first + kept[&168].parts.len(), "what did not change stands once");
    scene.assert_verified().await;

    let catalog = scene.world.catalog.clone();
    catalog.set_retention(scene.id(), Some(8), at("2026-06-09T00:00:00Z")).await.unwrap();
    scene.expire(at("2026-06-10T00:00:00Z")).await;
    let expired = scene.expire(at("2026-06-10T12:00:00Z")).await;
    assert_eq!((expired.days, expired.waiting), (1, 0));
    for ((instant, then), age) in ages.into_iter().zip(&before).zip(["1h", "6h", "1d", "3d", "7d"]) {
        assert_eq!(&counted(&scene, Some(instant)).await, then, "as of {instant}");
        let answer = ask(&scene, "release", Some(instant)).await.unwrap();
        let says = format!(
            "the events of {DAY} have expired: in the answer is what was known {age} after the end of the day"
        );
        assert_eq!((answer.read_version.is_none(), &answer.warnings), (true, &vec![says]));
    }
    // Between two ages the state is that of the earlier one, after the events have gone it is the present one, and before the
    // first age it is unknown.
    assert_eq!(counted(&scene, Some("2026-06-04T12:00:00Z")).await, before[2]);
    assert_eq!(counted(&scene, Some("2026-06-19T00:00:00Z")).await, last);
    let error = ask(&scene, "tag.shop", Some("2026-06-02T00:30:00Z")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert!(error.to_string().contains("the first that is kept is of 2026-06-02T01:00:00Z"), "{error}");
    assert_eq!(counted(&scene, None).await, last);
    let text = format!("select predictions from rollups where release is null and day = '{DAY}'");
    let sql = |as_of| statement(&text, as_of);
    let asked = async |sql: Sql| csv(scene.query(at(NOW)).sql(scene.id(), &sql).await.unwrap());
    assert_eq!(asked(sql(Some(ages[0]))).await, "predictions\n6\n");
    assert_eq!(asked(sql(None)).await, "predictions\n15\n");
    scene.assert_verified().await;
}

async fn day_without_predictions_has_rollups_by_age(scene: Scene) {
    let metrics = events(Kind::Metrics, 4);
    scene.append(Kind::Metrics, metrics, "2026-06-02T12:00:00Z").await.unwrap();
    // Without an evaluation they are folded from the events, as if no worker had come before.
    let made = scene.keep_vintages(at("2026-06-05T01:00:00Z")).await;
    // At the ages of one and six hours the day had no events.
    assert_eq!(made, Made { vintages: 0, rollups: 2, waiting: 0 });
    let folded = vintages_of(&scene).await;
    assert_eq!(folded[&DAY.parse().unwrap()].keys().copied().collect::<Vec<_>>(), [24, 72]);
    scene.project().await;
    let later = scene.keep_vintages(at("2026-06-09T01:00:00Z")).await;
    assert_eq!(later, Made { vintages: 0, rollups: 1, waiting: 0 });
    let copied = vintages_of(&scene).await.remove(&DAY.parse().unwrap()).unwrap();
    assert_eq!(copied[&168], copied[&72], "what is stored says the same as its events");
    scene.assert_verified().await;
}

async fn rebuild_keeps_aged_rollups_and_verify_finds_faults(scene: Scene) {
    arriving(&scene).await;
    let now = at("2026-06-16T12:00:00Z");
    assert_eq!(scene.keep_vintages(now).await.rollups, 6);
    let before = vintages_of(&scene).await;
    let pace = Pace { share: 1.0, clock: event::Clock::from_fn(move || now) };
    rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    scene.append(Kind::Predictions, events(Kind::Predictions, 30), "2026-06-16T13:00:00Z").await.unwrap();
    scene.project().await;
    assert_eq!(scene.keep_vintages(now.plus_seconds(7_200)).await, Made::default());
    assert_eq!(vintages_of(&scene).await, before);
    let verified = async || projector::verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
    let report = verified().await;
    assert_eq!((report.faults, report.rollup_vintage), (Vec::<String>::new(), 6));

    let day = DAY.parse().unwrap();
    let head =
        async |hours| scene.table.get(&key::rollup_vintage(scene.id(), day, hours)).await.unwrap().unwrap();
    let (early, late) = (head(24).await, head(168).await);
    scene.table.put(table::Item { key: early.key.clone(), ..late }, Condition::Exists).await.unwrap();
    let wrong = head(72).await;
    let state = wrong.text("state").unwrap().replace("\"labelled\":7", "\"labelled\":8");
    assert_ne!(state, wrong.text("state").unwrap());
    scene.table.put(wrong.with("state", state), Condition::Exists).await.unwrap();
    assert_eq!(
        verified().await.faults,
        [
            "2026-06-01: its rollup at 1d is not of what had been appended by then; `almanac admin rebuild` makes it again",
            "2026-06-01: its rollup at 3d is not what its segments fold to",
        ]
    );
}

/// The version being copied is deleted between its rollup and its parts.
async fn rebuild_ending_during_rollup_copy_loses_nothing(scene: Scene) {
    arriving(&scene).await;
    let (now, day) = (at("2026-06-09T01:00:00Z"), DAY.parse().unwrap());
    let parts_of = key::projections(scene.id(), 1, day, day);
    let (inner, workspace) = (Arc::clone(&scene.table), scene.id().clone());
    let rebuilt = Arc::new(AtomicBool::new(false));
    let is_rebuilt = Arc::clone(&rebuilt);
    let table = Between::new(Arc::clone(&scene.table), move |call| {
        let is_parts = matches!(call, Call::Query(query) if query.range == parts_of);
        if !is_parts || is_rebuilt.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (inner, workspace) = (Arc::clone(&inner), workspace.clone());
        Some(Box::pin(async move {
            let pace = Pace { share: 1.0, clock: event::Clock::from_fn(move || now) };
            rebuild(&*inner, &workspace, &pace, |_| {}).await.unwrap();
        }))
    });
    let made = vintages::make(&table, scene.id(), &BTreeSet::new(), now).await.unwrap();
    assert_eq!((made.rollups, made.waiting), (5, 0));
    assert!(rebuilt.load(Ordering::Relaxed), "it was copied, and not folded from the events at once");
    let kept = vintages_of(&scene).await.remove(&day).unwrap();
    assert!(kept.values().all(|vintage| !vintage.parts.is_empty()));
    scene.assert_verified().await;
}

async fn erasure_removes_key_traces_from_aged_rollups(scene: Scene) {
    filled(&scene).await;
    let now = at("2026-06-12T12:00:00Z");
    assert!(scene.keep_vintages(now).await.rollups > 0);
    let of_first = async || {
        let day = DAYS[0].parse().unwrap();
        let mut vintages = rollup_vintage::between(&*scene.table, scene.id(), day, day).await.unwrap();
        vintages.remove(&day).unwrap()
    };
    let before = of_first().await;
    let says = |vintage: &RollupVintage| vintage.parts.values().any(|state| state.contains("tag-of-smith"));
    let has_events = |vintage: &RollupVintage| vintage.applied.keys().any(|log| log.starts_with('p'));
    assert!(before.values().filter(|vintage| says(vintage)).count() > 1);
    assert!(before.values().all(|vintage| says(vintage) == has_events(vintage)));
    erase(&scene, &[KEY]).await;
    let after = of_first().await;
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(!after.values().any(says));
    assert!(!everything(&scene).await.contains("tag-of-smith"), "old parts are gone");
    assert_gone(&scene).await;
    let now = csv(ask_of_first(&scene, None).await);
    let then = csv(ask_of_first(&scene, Some("2026-06-05T00:00:00Z")).await);
    assert_eq!(now, then, "nothing has come since");
    // And again, for another key with its values.
    let begun = begin_of(&scene, &["person-0001"], true).await.unwrap();
    carry(&scene.table, &begun).await.unwrap();
    assert_ne!(of_first().await, after);
    scene.assert_verified().await;
}

async fn ask_of_first(scene: &Scene, as_of: Option<&str>) -> Answer {
    let words = Params { from: DAYS[0], to: DAYS[0], by: Some("tag.branch"), as_of, ..Params::default() };
    let request = Request::parse(Dataset::Rollups, &words).unwrap();
    scene.query(at(NOW)).run(scene.id(), &request).await.unwrap()
}
