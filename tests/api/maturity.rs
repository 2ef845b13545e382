//! Maturity of each day: each age agrees with evaluations as of then, and earlier days predict the truth to come.

mod to_come;

use std::sync::Arc;

use event::{Clock, ErrorKind, Kind};
use log::{
    key::{self, LogId},
    vintage,
};
use projector::{
    WorkspaceDay,
    dead_letters::{self, DeadLetter, Refused, Stopped},
    rebuild::{Pace, rebuild},
    vintages::{self, Made},
};
use query::{Bounds, Dataset, Params, Query, Request, Sql};
use serde_json::json;
use table::{Condition, Item, Table};
use tests::{
    on_both_engines,
    recorded::{self, Recorded},
    scene::{Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    each_age_says_what_was_known_then,
    later_events_change_no_reached_age,
    evaluations_that_are_kept_count_as_held,
    vintages_answer_from_one_range_without_events,
    known_state_is_kept_despite_late_folding,
    a_rebuild_and_a_replay_change_no_vintage,
    import_of_old_days_leaves_ages_unknown,
    a_definition_of_later_changes_no_vintage,
    what_was_skipped_is_named_by_the_vintage,
    vintage_stays_valid_after_skipping_its_segment,
);

const FROM: &str = "2026-05-01";
const TO: &str = "2026-06-20";
const LATER: &str = "2026-06-23T12:00:00Z";

async fn predict(scene: &Scene, day: &str, count: usize, now: &str) {
    let event = |key: usize| {
        json!({ "key": format!("k{key}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1",
                "score": key as f64 / count as f64 })
    };
    scene.append(Kind::Predictions, (0..count).map(event).collect(), now).await.unwrap();
}

/// A day with all its truth, and one with the first part of it.
async fn scene(world: World) -> Scene {
    let scene = Scene::new(world).await;
    predict(&scene, FROM, 10, "2026-05-01T02:00:00Z").await;
    scene.observe_many(FROM, "1", 5, "2026-05-02T12:00:00Z").await;
    scene.observe_many(FROM, "1", 9, "2026-05-07T12:00:00Z").await;
    predict(&scene, TO, 20, "2026-06-20T02:00:00Z").await;
    scene.observe_many(TO, "1", 10, "2026-06-21T12:00:00Z").await;
    scene
}

fn words(columns: &str) -> Params<'_> {
    Params { from: FROM, to: TO, columns: Some(columns), ..Params::default() }
}

async fn rows(scene: &Scene, query: &Query, what: Dataset, words: &Params<'_>) -> Vec<String> {
    let request = Request::parse(what, words).unwrap();
    let answer = query.run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

async fn each_age_says_what_was_known_then(world: World) {
    let (scene, metrics) = (scene(world).await, "day,release,labelled,accuracy,auc,orphaned");
    scene.project().await;
    let query = scene.query(at(LATER));
    let vintage =
        rows(&scene, &query, Dataset::Maturity, &words("at,day,release,labelled,accuracy,auc,orphaned"))
            .await;
    assert_eq!(vintage.len(), 8 + 4, "{vintage:?}");
    for row in &vintage {
        let (instant, of_row) = row.split_once(',').unwrap();
        let day = &of_row[..10];
        let as_of = (!instant.is_empty()).then_some(instant);
        let then = Params { from: day, to: day, as_of, ..words(metrics) };
        assert_eq!(rows(&scene, &query, Dataset::Evaluations, &then).await, [of_row], "as of {instant}");
    }
}

async fn later_events_change_no_reached_age(world: World) {
    let scene = scene(world).await;
    let request = Request::parse(Dataset::Maturity, &words("day,age,labelled,completeness")).unwrap();
    let then = scene.query(at(LATER)).run(scene.id(), &request).await.unwrap();
    let (read_version, before) = (then.read_version.clone().unwrap().to_string(), csv(then));
    scene.observe_many(TO, "1", 20, "2026-06-24T12:00:00Z").await;
    predict(&scene, TO, 25, "2026-06-24T12:00:00Z").await;
    let later = scene.query(at("2026-06-25T12:00:00Z"));
    let now = later.run(scene.id(), &request).await.unwrap();
    assert_ne!(csv(now), before);
    let again = Params { read_version: Some(&read_version), ..words("day,age,labelled,completeness") };
    let again = later.run(scene.id(), &Request::parse(Dataset::Maturity, &again).unwrap()).await.unwrap();
    assert_eq!(csv(again), before);
    let as_of = Params { as_of: Some(LATER), ..words("day,age,labelled,completeness") };
    let as_of = later.run(scene.id(), &Request::parse(Dataset::Maturity, &as_of).unwrap()).await.unwrap();
    assert_eq!(csv(as_of), before);
}

async fn evaluations_that_are_kept_count_as_held(world: World) {
    let scene = Scene::new(world).await;
    let event = |key: usize| {
        json!({ "key": format!("k{key}"), "predicted_at": format!("{FROM}T01:00:00Z"), "release": "v1",
                "score": 0.5, "tags": { "shop": format!("s{key}") } })
    };
    scene.append(Kind::Predictions, (0..250).map(event).collect(), "2026-05-01T02:00:00Z").await.unwrap();
    // More outcomes are known at each age.
    for day in [2, 3, 5, 9, 16] {
        scene.observe_many(FROM, "1", day, &format!("2026-05-{day:02}T00:30:00Z")).await;
    }
    let words = Params { to: FROM, by: Some("tag.shop"), ..words("day,labelled") };
    let within = |memory| scene.query(at(LATER)).within(Bounds { memory, ..Bounds::default() });
    let evaluations = Request::parse(Dataset::Evaluations, &words).unwrap();
    within(4 << 20).run(scene.id(), &evaluations).await.unwrap();
    let maturity = Request::parse(Dataset::Maturity, &words).unwrap();
    let refused = within(4 << 20).run(scene.id(), &maturity).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    within(64 << 20).run(scene.id(), &maturity).await.unwrap();
}

/// Predictions and outcomes that arrive at several ages of a day, each of one of two releases.
async fn arriving(world: World) -> Scene {
    let scene = Scene::new(world).await;
    predict(&scene, "2026-06-01", 10, "2026-06-01T02:00:00Z").await;
    for (count, now) in [
        (2, "2026-06-02T00:30:00Z"),
        (4, "2026-06-02T03:00:00Z"),
        (6, "2026-06-02T23:00:00Z"),
        (7, "2026-06-06T12:00:00Z"),
        (9, "2026-06-10T12:00:00Z"),
    ] {
        scene.observe_many("2026-06-01", "1", count, now).await;
    }
    predict(&scene, "2026-06-10", 5, "2026-06-10T02:00:00Z").await;
    scene.predict_many("2026-06-10", "v2", 4, "2026-06-10T02:00:00Z").await;
    scene.observe_many("2026-06-10", "1", 3, "2026-06-11T00:10:00Z").await;
    scene
}

fn june() -> Params<'static> {
    Params { from: "2026-06-01", to: "2026-06-10", ..Params::default() }
}

/// Rows of maturity, and their source.
async fn matured(scene: &Scene, words: &Params<'_>, now: &str) -> (Vec<String>, Option<query::Source>) {
    let request = Request::parse(Dataset::Maturity, words).unwrap();
    let answer = scene.query(at(now)).run(scene.id(), &request).await.unwrap();
    let source = answer.source;
    (csv(answer).lines().map(str::to_owned).collect(), source)
}

async fn vintages_answer_from_one_range_without_events(world: World) {
    let scene = arriving(world).await;
    scene.project().await;
    let now = "2026-06-18T12:00:00Z";
    let (computed, source) = matured(&scene, &june(), now).await;
    assert_eq!((computed.len(), source), (1 + 7 + 2 * 6, Some(query::Source::Events)));
    assert_eq!(scene.keep_vintages(at(now)).await, Made { vintages: 6 + 5, rollups: 6 + 5, waiting: 0 });
    let (stored, source) = matured(&scene, &june(), now).await;
    assert_eq!((&stored, source), (&computed, Some(query::Source::Stored)));
    let recorded = Recorded::new(scene.world.table());
    let query = query::Query::new(Arc::clone(&recorded) as Arc<dyn Table>, Clock::from_fn(move || at(now)));
    let request = Request::parse(Dataset::Maturity, &june()).unwrap();
    query.run(scene.id(), &request).await.unwrap();
    let is_of_events = |call: &recorded::Call| call.partition.as_ref().is_some_and(|pk| pk.ends_with("/day"));
    assert!(!recorded.calls().iter().any(is_of_events), "no event is read");
    for words in [&june(), &Params { release: Some("v1"), ..june() }] {
        let request = Request::parse(Dataset::Maturity, words).unwrap();
        let query = scene.query(at(now));
        let (answer, reads) = scene.world.reads(query.run(scene.id(), &request)).await;
        assert!(answer.unwrap().read_version.is_none());
        // The vintages, and the evaluations with the rollups beside them; three more for expired days and the existing releases.
        assert!(reads.queries <= 2 + 3 && reads.items < 80, "{reads:?}");
    }
    let mature = Params { mature: Some("0.5"), ..june() };
    let request = Request::parse(Dataset::Evaluations, &mature).unwrap();
    let answer = scene.query(at(now)).run(scene.id(), &request).await.unwrap();
    assert_eq!(answer.source, Some(query::Source::Stored));
    // A question with a condition of its own is computed from events.
    for words in [Params { threshold: Some("0.3"), ..june() }, Params { as_of: Some(now), ..june() }] {
        assert_eq!(matured(&scene, &words, now).await.1, Some(query::Source::Events));
    }
    // An age reached since appears once it is kept; a day without vintages is computed, and all others with it.
    let (later, source) = matured(&scene, &june(), "2026-06-25T12:00:00Z").await;
    assert_eq!((later, source), (stored, Some(query::Source::Stored)));
    scene.observe_many("2026-06-05", "1", 1, "2026-06-05T12:00:00Z").await;
    predict(&scene, "2026-06-05", 3, "2026-06-05T12:00:00Z").await;
    scene.project().await;
    assert_eq!(matured(&scene, &june(), now).await.1, Some(query::Source::Events));
}

async fn known_state_is_kept_despite_late_folding(world: World) {
    let scene = arriving(world).await;
    scene.project().await;
    // One vintage is made at each age, in time; the other one long after.
    let all =
        ["2026-06-02T01:00:29Z", "2026-06-02T01:00:31Z", "2026-06-09T00:10:00Z", "2026-06-18T12:00:00Z"];
    let mut made = Vec::new();
    for now in all {
        made.push(scene.keep_vintages(at(now)).await.vintages);
        assert_eq!(scene.keep_vintages(at(now)).await, Made::default(), "nothing is made twice");
    }
    assert_eq!(made, [0, 1, 4, 1 + 5]);
    let (stored, _) = matured(&scene, &june(), all[3]).await;
    let as_computed = Params { as_of: Some(all[3]), ..june() };
    assert_eq!(matured(&scene, &as_computed, all[3]).await.0, stored);
    scene.assert_verified().await;
    // A worker with a clock ahead of the engine's decides nothing before its time.
    let ahead = at("2126-06-18T00:00:00Z");
    let today = Clock::system().now();
    let past = today.plus_seconds(-40 * 24 * 3_600).day();
    predict(&scene, &past.to_string(), 3, &format!("{past}T02:00:00Z")).await;
    predict(&scene, &today.day().to_string(), 3, &today.to_string()).await;
    let make = async |day| {
        let day = WorkspaceDay { workspace: scene.id().clone(), day };
        vintages::make_day(&*scene.table, &day, ahead).await.unwrap().vintages
    };
    assert_eq!((make(today.day()).await, make(past).await), (0, 7));
}

async fn a_rebuild_and_a_replay_change_no_vintage(world: World) {
    let scene = arriving(world).await;
    scene.project().await;
    let now = at("2026-06-18T12:00:00Z");
    scene.keep_vintages(now).await;
    let (from, to) = ("2026-06-01".parse().unwrap(), "2026-06-10".parse().unwrap());
    let before = vintage::between(&*scene.table, scene.id(), from, to).await.unwrap();
    assert_eq!(before[&from].len(), 6);
    let pace = Pace { share: 1.0, clock: Clock::from_fn(move || now) };
    rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    // Repeated outcomes of before, and new ones, long after.
    scene.observe_many("2026-06-01", "1", 9, "2026-06-18T12:00:00Z").await;
    scene.observe_many("2026-06-01", "other", 10, "2026-06-18T13:00:00Z").await;
    assert_eq!(scene.keep_vintages(now.plus_seconds(7_200)).await, Made::default());
    let after = vintage::between(&*scene.table, scene.id(), from, to).await.unwrap();
    assert_eq!(after, before);
    let report = projector::verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
    assert_eq!((report.faults, report.vintages), (Vec::<String>::new(), 11));

    // Verification finds a vintage with other content, and one of other segments.
    let key = key::vintage(scene.id(), from, 24);
    let item = scene.table.get(&key).await.unwrap().unwrap();
    let wrong = item.text("state").unwrap().replace("\"labelled\":6", "\"labelled\":5");
    scene.table.put(item.clone().with("state", wrong), Condition::Exists).await.unwrap();
    let later = scene.table.get(&key::vintage(scene.id(), from, 336)).await.unwrap().unwrap();
    let moved = Item { key: key::vintage(scene.id(), from, 72), ..later };
    scene.table.put(moved, Condition::Exists).await.unwrap();
    let report = projector::verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
    assert_eq!(
        report.faults,
        [
            "2026-06-01: its vintage of 1d is not what its predictions and outcomes give",
            "2026-06-01: its vintage of 3d is not of what had been appended by then; `almanac admin rebuild` makes it again",
        ]
    );
    // A rebuild replaces a wrong vintage.
    scene.table.put(item, Condition::Exists).await.unwrap();
    rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    assert_eq!(vintage::between(&*scene.table, scene.id(), from, to).await.unwrap(), before);
    scene.assert_verified().await;
}

async fn import_of_old_days_leaves_ages_unknown(world: World) {
    let scene = Scene::new(world).await;
    for day in ["2026-05-01", "2026-05-02"] {
        predict(&scene, day, 4, "2026-06-18T12:00:00Z").await;
        scene.observe_many(day, "1", 4, "2026-06-18T12:00:00Z").await;
    }
    scene.project().await;
    let now = "2026-06-18T13:00:00Z";
    assert_eq!(scene.keep_vintages(at(now)).await, Made { vintages: 2, rollups: 2, waiting: 0 });
    let columns = Some("day,age,labelled,completeness");
    let words = Params { from: "2026-05-01", to: "2026-05-02", columns, ..june() };
    let (rows, source) = matured(&scene, &words, now).await;
    assert_eq!(rows[1..], ["2026-05-01,latest,4,1.0", "2026-05-02,latest,4,1.0"]);
    assert_eq!(source, Some(query::Source::Stored));
    // Days whose first instant is long past get no vintages: replayed months are appended by another clock.
    for day in ["2026-01-05", "2026-03-01"] {
        predict(&scene, day, 4, &format!("{day}T12:00:00Z")).await;
        let day = WorkspaceDay { workspace: scene.id().clone(), day: day.parse().unwrap() };
        assert_eq!(vintages::make_day(&*scene.table, &day, at(now)).await.unwrap(), Made::default());
    }
    scene.project().await;
    scene.assert_verified().await;
}

async fn a_definition_of_later_changes_no_vintage(world: World) {
    let scene = arriving(world).await;
    scene.project().await;
    let now = "2026-06-18T12:00:00Z";
    scene.define("v1", "other", "2026-06-01", "2026-06-05T12:00:00Z").await;
    scene.project().await;
    scene.keep_vintages(at(now)).await;
    let words = Params { columns: Some("day,age,release,labelled,positive_label,accuracy"), ..june() };
    let (stored, source) = matured(&scene, &words, now).await;
    assert_eq!(source, Some(query::Source::Stored));
    assert!(
        stored[1].starts_with("2026-06-01,1h,v1,2,1,") && stored[5].starts_with("2026-06-01,7d,v1,7,other,")
    );
    let computed = Params { as_of: Some(now), ..words };
    assert_eq!(matured(&scene, &computed, now).await.0, stored);
    scene.assert_verified().await;
}

async fn damage(scene: &Scene, log: &LogId, seq: u64) {
    let segment = scene.table.get(&key::segment(log, seq)).await.unwrap().unwrap();
    scene.table.put(segment.with("data", vec![1u8, 2, 3]), Condition::Exists).await.unwrap();
}

async fn skip(scene: &Scene, log: &LogId, seq: u64, refused: Refused) {
    let stopped = Stopped { log: log.clone(), seq, reason: "damaged".into() };
    let letter = DeadLetter::new(1, stopped, refused, at("2026-06-18T12:00:00Z"));
    dead_letters::record(&*scene.table, &letter).await.unwrap();
    dead_letters::skip(&*scene.table, &letter).await.unwrap();
}

async fn what_was_skipped_is_named_by_the_vintage(world: World) {
    let scene = arriving(world).await;
    let log = log::scan::log_named(scene.id(), "2026-06-01".parse().unwrap(), "o/00").unwrap();
    damage(&scene, &log, 2).await;
    let now = at("2026-06-18T12:00:00Z");
    // The second segment cannot be read: vintages before it are kept, later ones wait.
    assert_eq!(scene.keep_vintages(now).await, Made { vintages: 1 + 5, rollups: 1 + 5, waiting: 1 });
    scene.project().await;
    skip(&scene, &log, 2, Refused::Rollup).await;
    assert_eq!(scene.keep_vintages(now).await, Made { vintages: 5, rollups: 5, waiting: 0 });
    let vintages = vintage::between(&*scene.table, scene.id(), log.day, log.day).await.unwrap();
    let left_out: Vec<usize> = vintages[&log.day].values().map(|vintage| vintage.left_out.len()).collect();
    // After six hours it was the last one.
    assert_eq!(left_out, [0, 0, 1, 1, 1, 1]);
}

async fn vintage_stays_valid_after_skipping_its_segment(world: World) {
    let scene = arriving(world).await;
    scene.project().await;
    assert_eq!(scene.keep_vintages(at("2026-06-18T12:00:00Z")).await.vintages, 6 + 5);
    let log = log::scan::log_named(scene.id(), "2026-06-01".parse().unwrap(), "o/00").unwrap();
    // Faults of vintages alone: the segments and the current evaluation have faults of their own.
    let faults = async || {
        let report = projector::verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
        let of_vintage =
            |fault: String| Some(fault.split_once("its vintage of ")?.1.split(':').next()?.to_owned());
        report.faults.into_iter().filter_map(of_vintage).collect::<Vec<_>>()
    };
    damage(&scene, &log, 3).await;
    damage(&scene, &log, 4).await;
    let unread = |age: &str| format!("{age} cannot be repeated");
    assert_eq!(faults().await, ["1d", "3d", "7d", "14d"].map(unread));
    // A skipped segment excuses no other one.
    skip(&scene, &log, 3, Refused::Evaluation).await;
    assert_eq!(faults().await, ["7d", "14d"].map(unread));
    skip(&scene, &log, 4, Refused::Evaluation).await;
    assert_eq!(faults().await, [""; 0]);
    // Holds also if it is deleted by now.
    scene.table.delete(&key::segment(&log, 3), Condition::Exists).await.unwrap();
    assert_eq!(faults().await, [""; 0]);
}
