//! Where events came from and what was made of them: rows, and events of OpenLineage.

use std::{collections::BTreeSet, sync::Arc};

use catalog::new::{NewRelease, NewSnapshot};
use event::{Kind, Timestamp};
use log::audit::{Author, by};
use query::{LineageRequest, LineageWords};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    a_dataset_is_followed_to_releases_and_back,
    events_of_openlineage_lead_from_a_dataset_to_evaluations,
    a_run_of_somebody_else_keeps_its_id,
    what_has_expired_has_no_lineage,
    a_release_is_followed_to_the_snapshot_of_its_training,
);

/// Does something as a program that appends what comes from a source.
async fn from(source: &str, work: impl Future<Output = ()>) {
    let author = Author::named("system:nightly").from_source(source).unwrap();
    by(Arc::new(author), work).await;
}

fn request(source: Option<&str>, release: Option<&str>) -> LineageRequest {
    let words = LineageWords { source, release, from: Some("2026-06-01"), to: Some("2026-06-02") };
    LineageRequest::parse(&words, at(NOW)).unwrap()
}

/// Two days: `v1` predicts by a job, `v2` by another one, and both are judged on the first day. `v1` is live.
async fn fed(scene: &Scene) {
    for (day, run) in [("2026-06-01", 1), ("2026-06-02", 2)] {
        let source = format!("dataset=s3://lake/loans; job=score; system=airflow; run={run}");
        from(&source, scene.predict_many(day, "v1", 3, "2026-06-03T12:00:00Z")).await;
    }
    from("job=shadow", scene.predict_many("2026-06-01", "v2", 2, "2026-06-03T13:00:00Z")).await;
    from("dataset=labels", scene.observe_many("2026-06-01", "1", 3, "2026-06-03T14:00:00Z")).await;
    let promoted = json!([
        { "release": "v1", "model": "m", "action": "promote", "environment": "prod", "released_at": "2026-06-02T00:00:00Z" },
    ]);
    scene.append(Kind::Releases, promoted, "2026-06-03T15:00:00Z").await.unwrap();
    scene.project().await;
}

async fn rows(scene: &Scene, source: Option<&str>, release: Option<&str>) -> Vec<String> {
    let answer = scene.query(at(NOW)).lineage(scene.id(), &request(source, release)).await.unwrap();
    let columns = ["day", "kind", "job", "run", "dataset", "release", "judges", "rows", "evaluated", "live"];
    let text = csv(answer.only(&columns).unwrap());
    text.lines().skip(1).map(str::to_owned).collect()
}

async fn a_dataset_is_followed_to_releases_and_back(scene: Scene) {
    fed(&scene).await;
    let of_v1 = [
        "2026-06-01,predictions,score,1,s3://lake/loans,v1,,3,3,prod",
        "2026-06-02,predictions,score,2,s3://lake/loans,v1,,3,3,prod",
    ];
    assert_eq!(rows(&scene, Some("dataset=s3://lake/loans"), None).await, of_v1);
    assert_eq!(rows(&scene, Some("system=airflow;run=2"), None).await, of_v1[1..]);
    assert_eq!(rows(&scene, Some("system=other;run=2"), None).await, [""; 0]);
    let outcomes = "2026-06-01,outcomes,,,labels,,\"v1, v2\",3,3,";
    let promotion = "2026-06-02,releases,,,,v1,,1,,prod";
    assert_eq!(rows(&scene, None, Some("v1")).await, [of_v1[0], outcomes, of_v1[1], promotion]);
    let of_v2 = "2026-06-01,predictions,shadow,,,v2,,2,2,";
    assert_eq!(rows(&scene, None, Some("v2")).await, [of_v2, outcomes]);
    assert_eq!(rows(&scene, None, None).await.len(), 5);

    // What comes after the evaluation is not in it.
    from("job=late", scene.predict("2026-06-01", "v1", 0.5)).await;
    assert_eq!(rows(&scene, Some("job=late"), None).await, ["2026-06-01,predictions,late,,,v1,,1,0,prod"]);
    scene.project().await;
    assert_eq!(rows(&scene, Some("job=late"), None).await, ["2026-06-01,predictions,late,,,v1,,1,1,prod"]);
}

async fn events(scene: &Scene, source: Option<&str>, release: Option<&str>) -> Vec<Value> {
    let query = scene.query(at(NOW));
    let lines = query.openlineage(scene.id(), &request(source, release), "almanac").await.unwrap();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in &events {
        assert!(Timestamp::parse(event["eventTime"].as_str().unwrap()).is_ok(), "{event}");
        assert!(event["producer"].is_string() && event["schemaURL"].is_string(), "{event}");
        assert!(event["job"]["namespace"].is_string() && event["job"]["name"].is_string(), "{event}");
        assert_eq!(event["run"]["runId"].as_str().unwrap().len(), 36, "{event}");
    }
    events
}

/// The datasets of one side of an event, as `namespace name`.
fn datasets(event: &Value, side: &str) -> BTreeSet<String> {
    let named = |of: &Value, word: &str| of[word].as_str().unwrap().to_owned();
    let sets = event[side].as_array().unwrap().iter();
    sets.map(|set| format!("{} {}", named(set, "namespace"), named(set, "name"))).collect()
}

async fn events_of_openlineage_lead_from_a_dataset_to_evaluations(scene: Scene) {
    fed(&scene).await;
    let all = events(&scene, None, None).await;
    // Every run starts once and completes once: three that append by name, one for the outcomes, one for the release event, and the
    // evaluations of two days.
    let runs_of = |kind: &str| -> BTreeSet<&str> {
        let of_kind = all.iter().filter(|event| event["eventType"] == kind);
        of_kind.map(|event| event["run"]["runId"].as_str().unwrap()).collect()
    };
    assert_eq!(runs_of("START"), runs_of("COMPLETE"));
    assert_eq!((runs_of("START").len(), all.len()), (7, 14));
    let mut reached = BTreeSet::from(["s3://lake loans".to_owned()]);
    loop {
        let from_there = all.iter().filter(|event| !datasets(event, "inputs").is_disjoint(&reached));
        let next: BTreeSet<String> = from_there.flat_map(|event| datasets(event, "outputs")).collect();
        if next.is_subset(&reached) {
            break;
        }
        reached.extend(next);
    }
    let expected = [
        "almanac credit/prod/evaluations/v1",
        // Both releases are judged in one evaluation of the day.
        "almanac credit/prod/evaluations/v2",
        "almanac credit/prod/predictions/v1",
        "s3://lake loans",
    ];
    assert_eq!(reached.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let appended = all.iter().find(|event| {
        event["eventType"] == "COMPLETE"
            && datasets(event, "outputs").contains("almanac credit/prod/predictions/v1")
    });
    let appended = appended.unwrap();
    assert_eq!(appended["job"], json!({ "namespace": "airflow", "name": "score" }));
    assert!(datasets(appended, "inputs").contains("almanac credit/prod/releases/v1"), "{appended}");
    assert_eq!(appended["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"], 3, "{appended}");
    assert_eq!(events(&scene, None, None).await, all, "said again, it is the same");
    let some = events(&scene, Some("job=shadow"), None).await;
    assert!(some.iter().all(|event| !event.to_string().contains("predictions/v1")), "{some:#?}");
}

async fn a_run_of_somebody_else_keeps_its_id(scene: Scene) {
    let id = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
    let source = format!("system=airflow; job=score; run={id}");
    from(&source, scene.predict_many("2026-06-01", "v1", 2, "2026-06-03T12:00:00Z")).await;
    from(&source, scene.observe_many("2026-06-01", "1", 2, "2026-06-03T13:00:00Z")).await;
    let events = events(&scene, None, None).await;
    let said: Vec<_> = events.iter().map(|event| (&event["eventType"], &event["run"]["runId"])).collect();
    assert_eq!(said, [(&json!("OTHER"), &json!(id))]);
    assert_eq!(
        datasets(&events[0], "outputs").into_iter().collect::<Vec<_>>(),
        ["almanac credit/prod/outcomes", "almanac credit/prod/predictions/v1"]
    );
}

async fn what_has_expired_has_no_lineage(scene: Scene) {
    fed(&scene).await;
    assert_eq!(rows(&scene, None, Some("v2")).await.len(), 2);
    let now = at("2026-06-12T00:00:00Z");
    scene.world.catalog.set_retention(scene.id(), Some(10), now).await.unwrap();
    let query = scene.query(now);
    let left = query.lineage(scene.id(), &request(None, None)).await.unwrap();
    let days = csv(left.only(&["day"]).unwrap());
    assert!(!days.contains("2026-06-01") && days.contains("2026-06-02"), "{days}");
}

/// Access pattern A11.
async fn a_release_is_followed_to_the_snapshot_of_its_training(scene: Scene) {
    fed(&scene).await;
    let new = NewSnapshot {
        workspace: scene.id().to_string(),
        name: "june".into(),
        what: Some("predictions".into()),
        from: Some("2026-06-01".into()),
        to: Some("2026-06-01".into()),
        ..NewSnapshot::default()
    };
    let (snapshot, _) = scene.query(at(NOW)).create_snapshot(&new).await.unwrap();
    assert_eq!(snapshot.content.rows, 5);
    let trained = NewRelease {
        workspace: scene.id().to_string(),
        name: "v5".into(),
        model: "m".into(),
        snapshot: Some("june".into()),
        ..NewRelease::default()
    };
    let at_two = "2026-06-02T10:00:00Z";
    let ingest = scene.ingest(at(at_two));
    ingest.create_release(&scene.workspace, trained.spec().unwrap()).await.unwrap();
    scene.predict("2026-06-02", "v5", 0.5).await;
    let query = scene.query(at(NOW));
    let answer = query.lineage(scene.id(), &request(None, Some("v5"))).await.unwrap();
    let columns = ["kind", "release", "snapshot", "trained_on"];
    let text = csv(answer.only(&columns).unwrap());
    let expected = ["predictions", "releases"].map(|kind| format!("{kind},v5,june,2026-06-01"));
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
    // From the events of the snapshot to the release, and on to its predictions.
    let events = events(&scene, None, Some("v5")).await;
    let made_of = |output: &str| {
        let with = |event: &&Value| datasets(event, "outputs").contains(output);
        datasets(events.iter().find(with).unwrap(), "inputs")
    };
    assert!(made_of("almanac credit/prod/predictions/v5").contains("almanac credit/prod/releases/v5"));
    assert!(made_of("almanac credit/prod/releases/v5").contains("almanac credit/prod/snapshots/june"));
    let kept = ["v1", "v2"].map(|release| format!("almanac credit/prod/predictions/{release}"));
    assert_eq!(made_of("almanac credit/prod/snapshots/june"), kept.into());
}
