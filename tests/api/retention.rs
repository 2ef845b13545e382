//! Events that expire unless they are pinned.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use catalog::{AnyEntity, Catalog, Pin, ReviewSpec, Verdict, new::NewSnapshot};
use event::{Clock, Day, Error, ErrorKind, Id, Kind, Timestamp, Window, lane::MAX_LANES};
use log::{counted::CountedTime, expired, key, layout, scan};
use projector::{
    expire::{Deleted, expire},
    rebuild::{Pace, rebuild},
    sweep::sweep,
};
use query::{Dataset, Params, Request, Sql, SqlParams};
use serde_json::json;
use table::{Condition, KeyRange, Query, Table, query_all};
use tests::{
    between::{Between, Call, Happens},
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
    scene::{Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    events_expire_unless_they_are_pinned,
    answers_of_events_say_which_days_have_expired,
    a_rebuild_keeps_what_expired,
    marked_days_are_deleted_to_the_end,
    one_clock_ahead_deletes_nothing_for_good,
    the_time_of_another_table_holds_nothing_up,
    items_of_reviews_come_back_with_their_days,
    new_retention_expires_old_days_in_steps,
    expired_day_keeps_metrics_of_its_ages,
    settings_never_lag_behind_a_raised_layout,
    interrupted_expiry_loses_sight_of_no_lane,
);

use crate::reviews;

const DAYS: [&str; 4] = ["2026-06-01", "2026-06-02", "2026-06-03", "2026-06-04"];

/// `v1` predicts on each of the days, `v2` on 2 June as well; all of it is projected.
async fn scene(world: World) -> Scene {
    let scene = Scene::new(world).await;
    for day in DAYS {
        scene.predict(day, "v1", 0.9).await;
        scene.judge(day).await;
    }
    scene.predict("2026-06-02", "v2", 0.9).await;
    scene.project().await;
    scene
}

fn prediction(day: &str, release: &str) -> serde_json::Value {
    json!({ "key": "k", "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": 0.9 })
}

/// Warnings of an answer about the days up to the last one.
async fn warnings(scene: &Scene, what: Dataset, from: &str, now: Timestamp) -> Vec<String> {
    let words = Params { from, to: DAYS[3], ..Params::default() };
    let request = Request::parse(what, &words).unwrap();
    scene.query(now).run(scene.id(), &request).await.unwrap().warnings
}

fn days(days: &[&str]) -> Vec<Day> {
    days.iter().map(|day| day.parse().unwrap()).collect()
}

/// Access pattern D5.
async fn events_expire_unless_they_are_pinned(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    // Two days are kept after their own: on 6 June the days before 4 June have expired.
    let now = at("2026-06-06T00:00:00Z");
    assert_eq!(scene.days(Dataset::Joined, now).await, DAYS);
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    assert_eq!(scene.days(Dataset::Joined, now).await, ["2026-06-04"], "filtered on read, deleted or not");
    assert_eq!(scene.logs().await, days(&DAYS));

    // A pin brings back events that are not deleted: of a day, and of the days of a release.
    catalog.pin(&id, &Pin::Day("2026-06-01".parse().unwrap()), true, now).await.unwrap();
    catalog.pin(&id, &Pin::Release("v2".into()), true, now).await.unwrap();
    let kept = ["2026-06-01", "2026-06-02", "2026-06-04"];
    assert_eq!(scene.days(Dataset::Events(Kind::Predictions), now).await, kept);

    // Nothing is deleted within the hour after the setting was noticed, then only unpinned days.
    assert_eq!(scene.expire(now).await, Deleted::default());
    assert_eq!(scene.expire(now.plus_seconds(3_599)).await, Deleted::default());
    let later = now.plus_seconds(3_600);
    assert_eq!(scene.expire(later).await, Deleted { days: 1, segments: 2, waiting: 0 });
    assert_eq!(scene.expire(later).await, Deleted::default());
    assert_eq!(scene.logs().await, days(&kept));
    // Its rollup and evaluation stay, nothing is behind, and verification reports the days that it cannot compare.
    assert_eq!(scene.days(Dataset::Rollups, later).await, DAYS);
    assert_eq!(scene.days(Dataset::Evaluations, later).await, DAYS);
    let behind = sweep(&*scene.table, &id).await.unwrap();
    assert!(behind.logs.is_empty() && behind.evaluations.is_empty());
    let report = projector::verify(&scene.table, &id, |_, _| {}).await.unwrap();
    assert_eq!((report.faults.as_slice(), report.expired, report.rollups), ([].as_slice(), 1, 3));

    // Too late for a pin and for a longer retention, and for new events.
    let pin = catalog.pin(&id, &Pin::Day("2026-06-03".parse().unwrap()), true, later).await;
    assert!(pin.unwrap_err().is_conflict());
    catalog.set_retention(&id, None, later).await.unwrap();
    assert_eq!(scene.days(Dataset::Joined, later).await, kept);
    let late = scene
        .append(Kind::Predictions, json!([prediction("2026-06-03", "v1")]), "2026-06-06T02:00:00Z")
        .await;
    let refused = late.unwrap_err().to_string();
    assert!(refused.contains("2026-06-03, whose events have expired"), "{refused}");
    // A pinned day accepts new events.
    catalog.set_retention(&id, Some(2), later).await.unwrap();
    let more = json!([prediction("2026-06-01", "v2")]);
    scene.append(Kind::Predictions, more, "2026-06-06T02:00:00Z").await.unwrap();
}

/// A moved workspace may carry the time at which its retention was noticed by the clock of its old table.
async fn the_time_of_another_table_holds_nothing_up(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let now = at("2026-06-06T00:00:00Z");
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    let ver = catalog.keeping(&id).await.unwrap().retention.ver;
    expired::noticed(&*scene.table, &id, ver, i64::MAX - 60).await.unwrap();
    assert_eq!(scene.expire(now).await, Deleted::default(), "it is noticed again");
    // A restore forgets the note, and the hour begins again.
    expired::forget_notice(&*scene.table, &id).await.unwrap();
    assert_eq!(scene.expire(now.plus_seconds(3_600)).await, Deleted::default());
    assert_eq!(scene.expire(now.plus_seconds(7_199)).await, Deleted::default());
    assert_eq!(scene.expire(now.plus_seconds(7_200)).await.days, 3);
}

/// A reviewer whose position is past expired items is served those as well once they are kept.
async fn items_of_reviews_come_back_with_their_days(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let window = Window::new(DAYS[0].parse().unwrap(), DAYS[3].parse().unwrap()).unwrap();
    let spec = ReviewSpec {
        model: None,
        from: window.from(),
        to: window.to(),
        with_outcomes: true,
        ..reviews::spec(100)
    };
    let now = "2026-06-06T00:00:00Z";
    let (review, _) = scene.query(at(now)).create_review(&scene.workspace, "all", spec).await.unwrap();
    catalog.set_retention(&id, Some(2), at(now)).await.unwrap();
    let served = async || reviews::next(&scene, &review, "user:ann", now).await;
    let first = served().await.unwrap();
    assert_eq!(first.item.predicted_at.day(), DAYS[3].parse().unwrap());
    assert!(first.item.id.number > 0, "others stand before it");
    let asked = scene.ingest(at(now));
    let at_first = reviews::item(&scene, &review, first.item.id.number);
    asked.answer(&at_first, &reviews::by("user:ann"), Verdict::Label("1".into())).await.unwrap();
    assert!(served().await.is_none());
    catalog.set_retention(&id, None, at(now)).await.unwrap();
    assert_eq!(served().await.unwrap().item.id.number, 0);
}

/// An answer of events warns of the missing ones, and no snapshot is made of it.
async fn answers_of_events_say_which_days_have_expired(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let now = at("2026-06-06T00:00:00Z");
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    let lacks = ["the events of 3 of the days, up to 2026-06-03, have expired and are not in the answer"];
    for what in [Dataset::Joined, Dataset::Events(Kind::Predictions), Dataset::Events(Kind::Outcomes)] {
        assert_eq!(warnings(&scene, what, DAYS[0], now).await, lacks, "{what:?}");
    }
    assert_eq!(warnings(&scene, Dataset::Joined, DAYS[3], now).await, [""; 0]);
    assert_eq!(warnings(&scene, Dataset::Events(Kind::Releases), DAYS[0], now).await, [""; 0]);
    let asked = async |now: Timestamp, days: &str| {
        let statement = format!("select count(*) n from predictions where day in ({days})");
        let sql = Sql::parse(&SqlParams { statement: &statement, ..SqlParams::default() }).unwrap();
        let answer = scene.query(now).sql(&id, &sql).await.unwrap();
        (answer.warnings.clone(), csv(answer))
    };
    let one = |day: &str| {
        vec![format!("the events of 1 of the days, up to {day}, have expired and are not in the answer")]
    };
    assert_eq!(asked(now, "'2026-06-02', '2026-06-04'").await, (one("2026-06-02"), "n\n1\n".to_owned()));
    let snapshot = |what: &str, to: &str| NewSnapshot {
        workspace: scene.workspace.path.clone(),
        name: what.into(),
        what: Some(what.into()),
        from: Some(DAYS[2].into()),
        to: Some(to.into()),
        ..NewSnapshot::default()
    };
    for what in ["joined", "predictions"] {
        let refused =
            scene.query(now).create_snapshot(&snapshot(what, DAYS[3])).await.unwrap_err().to_string();
        assert!(refused.contains("the events of 1 of the days, up to 2026-06-03, have expired"), "{refused}");
    }
    // Release events never expire.
    let (made, _) = scene.query(now).create_snapshot(&snapshot("releases", DAYS[3])).await.unwrap();

    // A statement on a deleted day lacks all its events; days that never had any give no warning.
    catalog.delete(&AnyEntity::Snapshot(made).at(), None, now).await.unwrap();
    assert_eq!(scene.expire(now).await, Deleted::default());
    let later = now.plus_seconds(3_600);
    assert_eq!(scene.expire(later).await.days, 3);
    assert_eq!(asked(later, "'2026-06-03'").await, (one("2026-06-03"), "n\n0\n".to_owned()));
    assert_eq!(asked(later, "'2026-01-03', '2026-06-04'").await, (Vec::new(), "n\n1\n".to_owned()));
    assert_eq!(warnings(&scene, Dataset::Joined, "2026-01-01", later).await, lacks);
}

/// Access pattern D5.
async fn a_rebuild_keeps_what_expired(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let now = at("2026-06-06T00:00:00Z");
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    assert_eq!(scene.expire(now).await, Deleted::default());
    assert_eq!(scene.expire(now.plus_seconds(3_600)).await.days, 3);
    // Events that arrive while a day is marked, from a writer that slept for an hour, do not spoil its evaluation.
    let before = scene.days(Dataset::Evaluations, now).await;
    let pace = Pace { share: 1.0, clock: Clock::from_fn(move || now) };
    let report = rebuild(&*scene.table, &id, &pace, |_| {}).await.unwrap();
    assert_eq!((report.version, report.stopped.len()), (2, 0));
    assert!(report.deleted > 0);
    assert_eq!(scene.days(Dataset::Rollups, now).await, DAYS);
    assert_eq!(scene.days(Dataset::Evaluations, now).await, before);
    let report = projector::verify(&scene.table, &id, |_, _| {}).await.unwrap();
    assert_eq!((report.faults.as_slice(), report.expired), ([].as_slice(), 3));
    let behind = sweep(&*scene.table, &id).await.unwrap();
    assert!(behind.logs.is_empty() && behind.evaluations.is_empty());
}

/// Access pattern D5.
async fn marked_days_are_deleted_to_the_end(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let now = at("2026-06-06T02:00:00Z");
    // Days that are not projected wait.
    catalog.set_retention(&id, Some(2), at("2026-06-01T00:00:00Z")).await.unwrap();
    assert_eq!(scene.expire(at("2026-06-01T00:00:00Z")).await, Deleted::default());
    let key = log::key::evaluation(&id, 1, "2026-06-02".parse().unwrap());
    let evaluation = scene.table.get(&key).await.unwrap().unwrap();
    scene.table.delete(&key, table::Condition::None).await.unwrap();
    assert_eq!(scene.expire(now).await, Deleted { days: 2, segments: 4, waiting: 1 });
    scene.table.put(evaluation, table::Condition::None).await.unwrap();
    // After a crash behind the mark, and a change of the setting, the rest is still deleted.
    let heads = scan::heads_before(&*scene.table, &id, "2026-06-03".parse().unwrap()).await.unwrap();
    let heads = heads.into_iter().map(|head| (head.log.name(), head.seq)).collect();
    let mark = expired::Expired { day: "2026-06-02".parse().unwrap(), heads, at: now };
    scene.table.put(mark.to_item(&id), table::Condition::Absent).await.unwrap();
    catalog.set_retention(&id, None, now).await.unwrap();
    assert_eq!(scene.days(Dataset::Joined, now).await, ["2026-06-04"]);
    assert_eq!(scene.expire(now).await, Deleted { days: 1, segments: 3, waiting: 0 });
    assert_eq!(scene.logs().await, days(&["2026-06-04"]));
    let missing: Result<_, Error> = expired::load(&*scene.table, &id, "2026-06-04".parse().unwrap()).await;
    assert_eq!(missing.unwrap(), None);
}

/// Access pattern D5. The clock of a worker, or of the process that sets the retention, is 25 days ahead: expiry follows the
/// table's own time. Readers with such a clock leave days out only until it is corrected.
async fn one_clock_ahead_deletes_nothing_for_good(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let now = at("2026-06-05T12:00:00Z");
    let ahead = now.plus_seconds(25 * 24 * 60 * 60);
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    // No time has been counted yet; then the setting is new; then an hour has passed, and 2 June has not expired.
    assert_eq!(scene.expire_by_clock(ahead).await, Deleted::default());
    for hours in 0..3 {
        scene.expire(now.plus_seconds(hours * 3_600)).await;
    }
    let left = days(&["2026-06-03", "2026-06-04"]);
    assert_eq!(scene.logs().await, left, "1 and 2 June have expired by both");
    assert_eq!(scene.expire_by_clock(ahead).await, Deleted::default());
    assert_eq!(scene.logs().await, left);
    assert!(scene.days(Dataset::Joined, ahead).await.is_empty(), "left out while the clock is wrong");
    assert_eq!(scene.days(Dataset::Joined, now).await, ["2026-06-03", "2026-06-04"]);
    // With a setting made by such a clock, the grace begins when it is noticed, and no day is older for it.
    catalog.set_retention(&id, Some(3), ahead).await.unwrap();
    let behind = now.plus_seconds(-25 * 24 * 60 * 60);
    assert_eq!(scene.expire_by_clock(behind).await, Deleted::default());
    assert_eq!(scene.expire_by_clock(ahead).await, Deleted::default());
    assert_eq!(scene.logs().await, left);
}

/// Access pattern D5. Days that had expired by the table's time when retention was set go after the grace; the rest as that
/// time moves, by a day in twelve hours at most.
async fn new_retention_expires_old_days_in_steps(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let start = at("2026-06-03T12:00:00Z");
    let ahead = start.plus_seconds(25 * 24 * 60 * 60);
    catalog.set_retention(&id, Some(1), start).await.unwrap();
    let mut time = CountedTime::first(start);
    time.write(&*scene.table).await.unwrap();
    let mut left = Vec::new();
    for _ in 0..12 {
        scene.expire_by_clock(ahead).await;
        left.push(scene.logs().await.len());
        time = time.after(3 * 60, ahead);
        time.write(&*scene.table).await.unwrap();
    }
    // 1 June at once, after the hour of grace; one day for every twelve hours counted.
    assert_eq!((left[0], left[1]), (4, 3), "{left:?}");
    assert!(left.windows(2).all(|two| two[0] - two[1] <= 1), "{left:?}");
    assert_eq!([2, 3, 6, 7, 10, 11].map(|at| left[at]), [3, 2, 2, 1, 1, 0], "{left:?}");
}

/// Predictions of two days; the outcomes of the first arrive at several of its ages.
async fn judge_late(scene: &Scene) {
    for day in ["2026-06-01", "2026-06-04"] {
        scene.predict_many(day, "v1", 10, &format!("{day}T02:00:00Z")).await;
    }
    for (count, now) in
        [(2, "2026-06-02T00:10:00Z"), (5, "2026-06-02T12:00:00Z"), (9, "2026-06-06T12:00:00Z")]
    {
        scene.observe_many("2026-06-01", "1", count, now).await;
    }
    scene.project().await;
}

/// Access pattern D5. The states of a day at the ages it had reached stay when its events go.
async fn expired_day_keeps_metrics_of_its_ages(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    judge_late(&scene).await;
    let words = |as_of| Params {
        from: "2026-06-01",
        to: "2026-06-04",
        columns: Some("day,release,labelled,accuracy,auc"),
        as_of,
        ..Params::default()
    };
    let ask = async |as_of| {
        let request = Request::parse(Dataset::Evaluations, &words(Some(as_of))).unwrap();
        scene.query(at("2026-06-20T12:00:00Z")).run(&id, &request).await
    };
    let instants =
        ["2026-06-02T01:00:00Z", "2026-06-03T00:00:00Z", "2026-06-05T00:00:00Z", "2026-06-20T00:00:00Z"];
    let mut before = Vec::new();
    for as_of in instants {
        let answer = ask(as_of).await.unwrap();
        assert!(answer.read_version.is_some() && answer.warnings.is_empty());
        before.push(csv(answer));
    }
    // They expire before any vintage was made: the first day at the age of seven days, its retention.
    catalog.set_retention(&id, Some(7), at("2026-06-09T00:00:00Z")).await.unwrap();
    assert_eq!(scene.expire(at("2026-06-10T00:00:00Z")).await, Deleted::default());
    assert_eq!(scene.expire(at("2026-06-10T01:00:00Z")).await, Deleted { days: 1, segments: 4, waiting: 0 });
    catalog
        .pin(&id, &Pin::Day("2026-06-04".parse().unwrap()), true, at("2026-06-10T02:00:00Z"))
        .await
        .unwrap();
    let after = "have expired: in the answer is what was known";
    let expected = [
        Some(format!("the events of 2026-06-01 {after} 1h after the end of the day")),
        Some(format!("the events of 2026-06-01 {after} 1d after the end of the day")),
        Some(format!("the events of 2026-06-01 {after} 3d after the end of the day")),
        Some("the events of 2026-06-01 had expired by then: in the answer is what was known last".into()),
    ];
    for ((as_of, before), expected) in instants.into_iter().zip(&before).zip(expected) {
        let answer = ask(as_of).await.unwrap();
        assert!(answer.read_version.is_none(), "{as_of}");
        assert_eq!(answer.warnings, Vec::from_iter(expected), "{as_of}");
        assert_eq!(answer.as_of.map(|at| at.to_string()).as_deref(), Some(as_of));
        assert_eq!(&csv(answer), before, "as of {as_of}");
    }
    // Between two ages the state is that of the earlier one; before the first one it is unknown.
    assert!(csv(ask("2026-06-02T18:00:00Z").await.unwrap()).contains("2026-06-01,v1,2,"));
    let error = ask("2026-06-02T00:30:00Z").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert!(error.to_string().contains("ask as of then or later"), "{error}");
    // Before the day there were no events.
    assert_eq!(csv(ask("2026-05-31T12:00:00Z").await.unwrap()).lines().count(), 1);
    // A question that the kept state cannot answer gives a warning that the day is left out.
    let request = Params { threshold: Some("0.3"), ..words(Some(instants[1])) };
    let request = Request::parse(Dataset::Evaluations, &request).unwrap();
    let answer = scene.query(at("2026-06-20T12:00:00Z")).run(&id, &request).await.unwrap();
    assert!(answer.warnings[0].contains("have expired and are not in the answer"), "{:?}", answer.warnings);
    // A day that expires later has its maturity from the kept vintages.
    let request = Params { columns: Some("day,age,labelled"), ..words(None) };
    let request = Request::parse(Dataset::Maturity, &request).unwrap();
    scene.keep_vintages(at("2026-06-20T12:00:00Z")).await;
    let answer = scene.query(at("2026-06-20T12:00:00Z")).run(&id, &request).await.unwrap();
    let rows = csv(answer);
    assert!(rows.contains("2026-06-01,3d,5\n2026-06-01,7d,9\n2026-06-01,latest,9"), "{rows}");
    assert!(rows.contains("2026-06-04,14d,0\n2026-06-04,latest,0"), "{rows}");
    let report = projector::verify(&scene.table, &id, |_, _| {}).await.unwrap();
    assert_eq!((report.faults.as_slice(), report.expired, report.vintages), ([].as_slice(), 1, 6));
}

/// A setting is not stored in the older form once the layout was raised, also if the raise falls between its read and its write.
async fn settings_never_lag_behind_a_raised_layout(world: World) {
    let now = at("2026-06-06T00:00:00Z");
    let workspace = world.catalog.ensure_workspace("credit/prod", now).await.unwrap().entity.id;
    let (table, retention) = (world.table(), key::retention(&workspace));
    let item = table.get(&key::layout()).await.unwrap().expect("the world begins its table");
    table.put(item.with("layout", 1), Condition::Exists).await.unwrap();
    let mut upgrades = vec![(Arc::clone(&table), Catalog::new(Arc::clone(&table)), workspace.clone())];
    let wanted = retention.clone();
    let between = Between::new(Arc::clone(&table), move |call| {
        let Call::Write(keys) = call else { return None };
        let (table, catalog, workspace) = keys.contains(&wanted).then(|| upgrades.pop())??;
        Some(Box::pin(async move {
            layout::raise(&*table, now).await.unwrap();
            assert!(!catalog.renew_retention(&workspace, true).await.unwrap(), "nothing is set yet");
        }) as Happens)
    });
    let catalog = Catalog::new(Arc::new(between));
    catalog.set_retention(&workspace, Some(9), now).await.unwrap();
    let stored = table.get(&retention).await.unwrap().unwrap();
    assert_eq!((stored.int("v").unwrap(), stored.int("days").unwrap()), (2, 9));
}

/// Segments that the engine has of a day, in all partitions of lanes.
async fn stored(engine: &dyn Table, workspace: &Id, day: &str) -> usize {
    let mut found = 0;
    for lane in 0..MAX_LANES {
        let pk = match lane {
            0 => key::segments(workspace).pk,
            lane => key::lane_partition(workspace, lane),
        };
        let range = KeyRange::prefix(pk, &format!("day#{day}"));
        found += query_all(engine, Query::table(range)).await.unwrap().len();
    }
    found
}

/// A day of several lanes whose deletion dies again and again: as long as the engine has a segment, the day has logs, and the next try
/// goes on.
async fn interrupted_expiry_loses_sight_of_no_lane(world: World) {
    let (day, early, now) = (DAYS[0], at("2026-06-01T00:00:00Z"), at("2026-06-06T00:00:00Z"));
    let scene = Scene::new(world).await;
    scene.world.set_lanes(scene.id(), 4).await;
    for count in [8, 9] {
        scene.predict_many(day, "v1", count, "2026-06-01T12:00:00Z").await;
        scene.observe_many(day, "1", count, "2026-06-01T13:00:00Z").await;
    }
    scene.project().await;
    let (catalog, engine) = (&scene.world.catalog, Arc::clone(&scene.world.fresh.engine));
    catalog.set_retention(scene.id(), Some(2), early).await.unwrap();
    assert_eq!(scene.expire(early).await, Deleted::default());
    let time = CountedTime { ver: 2, minutes: now.micros() / 60_000_000, at: now };
    time.write(&*scene.table).await.unwrap();
    let begun = stored(&*engine, scene.id(), day).await;
    assert!(begun > 8, "{begun} segments");
    let mut died = 0;
    // Each try may delete one segment more than the one before.
    for allowed in 0.. {
        let deletions = AtomicUsize::new(0);
        let dies = Hooked::new(Arc::clone(&scene.table), move |asked| match asked {
            Asked::Write(key)
                if key::parse_segment(key).is_some()
                    && deletions.fetch_add(1, Ordering::Relaxed) >= allowed =>
            {
                Turn::Fail(ErrorKind::Unavailable)
            }
            _ => Turn::Pass,
        });
        let ended = expire(&*dies, catalog, scene.id(), now).await;
        let left = stored(&*engine, scene.id(), day).await;
        assert_eq!(scene.logs().await.is_empty(), left == 0, "{left} segments are left");
        if left == 0 {
            break;
        }
        assert!(ended.is_err());
        assert!(allowed <= begun, "{left} of {begun} are left");
        died += 1;
    }
    assert!(died > 4, "{died} tries died");
}
