//! Lineage: the sources of events, and their uses.

use std::sync::Arc;

use catalog::new::{NewRelease, NewSnapshot};
use event::Kind;
use log::audit::{Author, by};
use query::{LineageParams, LineageRequest};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    a_dataset_is_followed_to_releases_and_back,
    what_has_expired_has_no_lineage,
    release_lineage_leads_to_training_snapshot,
);

/// Runs `work` as a program that appends events from a source.
async fn from(source: &str, work: impl Future<Output = ()>) {
    let author = Author::named("system:nightly").from_source(source).unwrap();
    by(Arc::new(author), work).await;
}

fn request(source: Option<&str>, release: Option<&str>) -> LineageRequest {
    let [source, release] = [source, release].map(|text| text.map(str::to_owned));
    let [from, to] = ["2026-06-01", "2026-06-02"].map(|day| day.parse().ok());
    let words = LineageParams { source, release, from, to, format: None };
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
    let columns = ["day", "kind", "job", "run", "dataset", "release", "labels", "rows", "evaluated", "live"];
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

    // Later events are not in the evaluation.
    from("job=late", scene.predict("2026-06-01", "v1", 0.5)).await;
    assert_eq!(rows(&scene, Some("job=late"), None).await, ["2026-06-01,predictions,late,,,v1,,1,0,prod"]);
    scene.project().await;
    assert_eq!(rows(&scene, Some("job=late"), None).await, ["2026-06-01,predictions,late,,,v1,,1,1,prod"]);
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
async fn release_lineage_leads_to_training_snapshot(scene: Scene) {
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
}
