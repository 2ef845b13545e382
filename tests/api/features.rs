//! Partitions of the features of a day, by feature and release.

use event::{Clock, Kind, Share};
use ingest::{Ingest, Remember, json::read_json_array};
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    features_are_broken_down_by_feature_and_release,
    sampled_features_are_kept_and_repeats_count_once,
);

async fn asked(scene: &Scene, by: &str) -> Vec<String> {
    let columns = "day,feature,release,predictions,value_mean,value_min,value_p50,value_max,value_null_rate";
    let words = Params {
        from: "2026-06-01",
        to: "2026-06-02",
        by: Some(by),
        columns: Some(columns),
        ..Params::default()
    };
    let request = Request::parse(Dataset::Rollups, &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

async fn features_are_broken_down_by_feature_and_release(world: World) {
    let scene = Scene::new(world).await;
    let predict = async |day: &str, key: &str, release: &str, features: Value| {
        let predicted_at = format!("{day}T01:00:00Z");
        let mut event = json!({ "key": key, "predicted_at": predicted_at, "release": release, "score": 0.5 });
        if features != json!({}) {
            event["features"] = features;
        }
        scene.append(Kind::Predictions, json!([event]), "2026-06-04T12:00:00Z").await.unwrap();
    };
    predict("2026-06-01", "a", "v1", json!({ "distance": 719, "dep_delay": -2.5 })).await;
    predict("2026-06-01", "b", "v1", json!({ "distance": 1400 })).await;
    predict("2026-06-01", "c", "v1", json!({})).await;
    predict("2026-06-01", "a", "v2", json!({ "distance": 719 })).await;
    predict("2026-06-02", "d", "v1", json!({ "distance": 0.25 })).await;
    scene.project().await;
    let third = 1.0 / 3.0;
    let distance = [
        format!("2026-06-01,distance,v1,3,1059.5,719.0,1059.5,1400.0,{third}"),
        "2026-06-01,distance,v2,1,719.0,719.0,719.0,719.0,0.0".to_owned(),
        "2026-06-02,distance,v1,1,0.25,0.25,0.25,0.25,0.0".to_owned(),
    ];
    let delay = format!("2026-06-01,dep_delay,v1,3,-2.5,-2.5,-2.5,-2.5,{}", 2.0 * third);
    assert_eq!(asked(&scene, "feature.distance").await, distance);
    assert_eq!(asked(&scene, "feature.other").await, Vec::<String>::new());
    let warned = async |by: &str| {
        let words = Params { from: "2026-06-01", to: "2026-06-02", by: Some(by), ..Params::default() };
        let request = Request::parse(Dataset::Rollups, &words).unwrap();
        scene.query(at(NOW)).run(scene.id(), &request).await.unwrap().warnings
    };
    assert_eq!(warned("feature.other").await, ["no rollup on these days has `feature.other`"]);
    assert_eq!(warned("tag.other").await, ["no rollup on these days has `tag.other`"]);
    assert!(warned("feature.distance").await.is_empty());
    let of_both = [&[delay][..], &distance[..2], &distance[2..]].concat();
    assert_eq!(asked(&scene, "feature").await, of_both);
    scene.assert_verified().await;
}

async fn sampled_features_are_kept_and_repeats_count_once(world: World) {
    let scene = Scene::new(world).await;
    let event = |n: u32| {
        json!({ "key": format!("loan-{n}"), "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5,
                "features": { "age": n } })
    };
    let body = Value::from_iter((0..40).map(event)).to_string();
    let submit = async |share: Share, key: Option<&str>| {
        let ingest = Ingest::new(scene.world.table(), Clock::system()).sampling_features(share);
        let batch = read_json_array(Kind::Predictions, body.as_bytes(), at(NOW)).unwrap();
        ingest.submit(&scene.workspace, batch, key, Remember::Week).await.unwrap().appended
    };
    let half: Share = "0.5".parse().unwrap();
    for key in [Some("nightly"), None] {
        assert_eq!(submit(half, key).await, 40);
        assert_eq!(submit(Share::ALL, key).await, 0, "the same batch, whatever is kept of it: {key:?}");
    }
    let words = Params {
        from: "2026-06-01",
        to: "2026-06-01",
        columns: Some("key,score,feature.age"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::parse("predictions").unwrap(), &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    let expected = |n: u32| match half.has(&format!("loan-{n}")) {
        true => format!("loan-{n},0.5,{n}.0"),
        false => format!("loan-{n},0.5,"),
    };
    let expected: Vec<String> = (0..40).chain(0..40).map(expected).collect();
    let text = csv(answer);
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
    assert!((10..30).contains(&expected.iter().take(40).filter(|row| row.ends_with(',')).count()));
}
