//! D5: stories that expire unless they are kept as a memory: retention of events, and pins.

use projector::{
    expire::{Deleted, expire},
    rebuild::{Pace, rebuild},
    sweep::sweep,
};
use query::{Format, Request, What, Words};
use serde_json::json;
use store::{Clock, Day, Error, Kind, Timestamp, catalog::Pin, expired, scan};

use crate::{
    scene::Scene,
    world::{World, at, rows},
};

rows!(d5_events_expire_unless_pinned, d5_a_rebuild_keeps_what_expired, d5_marked_days_are_deleted_to_the_end);

const DAYS: [&str; 4] = ["2026-06-01", "2026-06-02", "2026-06-03", "2026-06-04"];

/// `v1` predicts each of the days, `v2` on 2 June as well; all of it is projected.
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

impl Scene {
    async fn expire(&self, now: Timestamp) -> Deleted {
        expire(&*self.table, &self.world.catalog, self.id(), now).await.unwrap()
    }

    /// The days of which a query of June finds `what`.
    async fn days(&self, what: What, now: Timestamp) -> Vec<String> {
        let words = Words {
            from: "2026-06-01",
            to: "2026-06-30",
            release: None,
            columns: Some("day"),
            by: None,
            as_of: None,
        };
        let request = Request::parse(what, &words).unwrap();
        let mut frame = self.query(now).run(self.id(), &request).await.unwrap();
        let mut text = Vec::new();
        Format::Csv.write(&mut frame, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut days: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        days.dedup();
        days
    }

    async fn logs(&self) -> Vec<Day> {
        let heads = scan::heads(&*self.table, self.id()).await.unwrap();
        let mut days: Vec<Day> = heads.into_iter().map(|head| head.log.day).collect();
        days.dedup();
        days
    }
}

fn prediction(day: &str, release: &str) -> serde_json::Value {
    json!({ "key": "k", "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": 0.9 })
}

fn days(days: &[&str]) -> Vec<Day> {
    days.iter().map(|day| day.parse().unwrap()).collect()
}

async fn d5_events_expire_unless_pinned(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    // Two days are kept after their own: on 6 June those before 4 June have expired.
    let now = at("2026-06-06T00:00:00Z");
    assert_eq!(scene.days(What::Joined, now).await, DAYS);
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    assert_eq!(scene.days(What::Joined, now).await, ["2026-06-04"], "filtered on read, deleted or not");
    assert_eq!(scene.logs().await, days(&DAYS));

    // A pin brings back what is not deleted: a day, and the days of a release.
    catalog.pin(&id, &Pin::Day("2026-06-01".parse().unwrap()), true, now).await.unwrap();
    catalog.pin(&id, &Pin::Release("v2".into()), true, now).await.unwrap();
    let kept = ["2026-06-01", "2026-06-02", "2026-06-04"];
    assert_eq!(scene.days(What::Events(Kind::Predictions), now).await, kept);

    // Nothing is deleted within the hour, then only what is not pinned.
    assert_eq!(scene.expire(now.plus_seconds(3_599)).await, Deleted::default());
    let later = now.plus_seconds(3_600);
    assert_eq!(scene.expire(later).await, Deleted { days: 1, segments: 2, waiting: 0 });
    assert_eq!(scene.expire(later).await, Deleted::default());
    assert_eq!(scene.logs().await, days(&kept));
    // Its rollup and evaluation stay, nothing is behind, and verification says what it cannot compare.
    assert_eq!(scene.days(What::Rollups, later).await, DAYS);
    assert_eq!(scene.days(What::Evaluations, later).await, DAYS);
    let behind = sweep(&*scene.table, &id).await.unwrap();
    assert!(behind.logs.is_empty() && behind.evaluations.is_empty());
    let report = projector::verify(&scene.table, &id, |_, _| {}).await.unwrap();
    assert_eq!((report.faults.as_slice(), report.expired, report.rollups), ([].as_slice(), 1, 3));

    // Too late for a pin and for a longer retention, and for new events.
    let pin = catalog.pin(&id, &Pin::Day("2026-06-03".parse().unwrap()), true, later).await;
    assert!(pin.unwrap_err().is_conflict());
    catalog.set_retention(&id, None, later).await.unwrap();
    assert_eq!(scene.days(What::Joined, later).await, kept);
    let late = scene
        .append(Kind::Predictions, json!([prediction("2026-06-03", "v1")]), "2026-06-06T02:00:00Z")
        .await;
    let refused = late.unwrap_err().to_string();
    assert!(refused.contains("2026-06-03, whose events have expired"), "{refused}");
    // A pinned day takes more of them.
    catalog.set_retention(&id, Some(2), later).await.unwrap();
    let more = json!([prediction("2026-06-01", "v2")]);
    scene.append(Kind::Predictions, more, "2026-06-06T02:00:00Z").await.unwrap();
}

async fn d5_a_rebuild_keeps_what_expired(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let now = at("2026-06-06T00:00:00Z");
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    assert_eq!(scene.expire(now.plus_seconds(3_600)).await.days, 3);
    // What comes when a day is marked, if its writer slept for an hour, does not spoil its evaluation.
    let before = scene.days(What::Evaluations, now).await;
    let pace = Pace { share: 1.0, clock: Clock::from_fn(move || now) };
    let report = rebuild(&*scene.table, &catalog, &id, &pace, |_| {}).await.unwrap();
    assert_eq!((report.version, report.stopped.len()), (2, 0));
    assert!(report.deleted > 0);
    assert_eq!(scene.days(What::Rollups, now).await, DAYS);
    assert_eq!(scene.days(What::Evaluations, now).await, before);
    let report = projector::verify(&scene.table, &id, |_, _| {}).await.unwrap();
    assert_eq!((report.faults.as_slice(), report.expired), ([].as_slice(), 3));
    let behind = sweep(&*scene.table, &id).await.unwrap();
    assert!(behind.logs.is_empty() && behind.evaluations.is_empty());
}

async fn d5_marked_days_are_deleted_to_the_end(world: World) {
    let scene = scene(world).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let now = at("2026-06-06T02:00:00Z");
    // What is not projected waits.
    catalog.set_retention(&id, Some(2), at("2026-06-01T00:00:00Z")).await.unwrap();
    let key = store::key::evaluation(&id, 1, "2026-06-02".parse().unwrap());
    let evaluation = scene.table.get(&key).await.unwrap().unwrap();
    scene.table.delete(&key, store::table::Condition::None).await.unwrap();
    assert_eq!(scene.expire(now).await, Deleted { days: 2, segments: 4, waiting: 1 });
    scene.table.put(evaluation, store::table::Condition::None).await.unwrap();
    // A crash after the mark, and a setting that changed since: the rest is deleted still.
    let heads = scan::heads_before(&*scene.table, &id, "2026-06-03".parse().unwrap()).await.unwrap();
    let heads = heads.into_iter().map(|head| (head.log.name(), head.seq)).collect();
    let mark = expired::Expired { day: "2026-06-02".parse().unwrap(), heads, at: now };
    scene.table.put(mark.to_item(&id), store::table::Condition::Absent).await.unwrap();
    catalog.set_retention(&id, None, now).await.unwrap();
    assert_eq!(scene.days(What::Joined, now).await, ["2026-06-04"]);
    assert_eq!(scene.expire(now).await, Deleted { days: 1, segments: 3, waiting: 0 });
    assert_eq!(scene.logs().await, days(&["2026-06-04"]));
    let missing: Result<_, Error> = expired::load(&*scene.table, &id, "2026-06-04".parse().unwrap()).await;
    assert_eq!(missing.unwrap(), None);
}
