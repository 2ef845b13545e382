//! Two releases compared on their common keys: as their evaluations count them, by week and by tag, and as of an instant.

use event::Kind;
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    releases_are_compared_on_what_both_predicted,
    a_clear_advantage_is_decided_on_a_day,
    reversed_advantage_is_decided_the_other_way,
    what_arrives_later_changes_nothing_that_was_known,
);

fn words<'a>(from: &'a str, to: &'a str, columns: &'a str) -> Params<'a> {
    Params { from, to, columns: Some(columns), release: Some("v2"), against: Some("v1"), ..Params::default() }
}

async fn asked(scene: &Scene, words: Params<'_>) -> Vec<String> {
    let request = Request::parse(Dataset::HeadToHead, &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

fn prediction(day: &str, release: &str, key: usize, score: f64) -> Value {
    let city = if key.is_multiple_of(2) { "Ulm" } else { "Bonn" };
    json!({ "key": format!("k{key}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score,
            "tags": { "city": city } })
}

/// `keys` predictions of each release; every third is positive. `v2` predicts well, `v1` worse.
async fn day(scene: &Scene, name: &str, keys: usize, appended: &str) {
    day_of(scene, name, keys, appended, [0.4, 0.9]).await;
}

/// A day with these scores of `v1` and `v2` for the true label.
async fn day_of(scene: &Scene, day: &str, keys: usize, appended: &str, sure: [f64; 2]) {
    let is_positive = |key: usize| key.is_multiple_of(3);
    let score = |key, sure: f64| if is_positive(key) { sure } else { 1.0 - sure };
    let of_key = |key| {
        [prediction(day, "v1", key, score(key, sure[0])), prediction(day, "v2", key, score(key, sure[1]))]
    };
    let mut predictions: Vec<Value> = (0..keys).flat_map(of_key).collect();
    // A prediction of one release alone is not compared.
    predictions.push(prediction(day, "v1", keys, 0.1));
    scene.append(Kind::Predictions, Value::from(predictions), appended).await.unwrap();
    let outcome = |key: usize| {
        json!({ "key": format!("k{key}"), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"),
                "label": if is_positive(key) { "1" } else { "0" } })
    };
    let outcomes: Vec<Value> = (0..=keys).map(outcome).collect();
    scene.append(Kind::Outcomes, Value::from(outcomes), appended).await.unwrap();
}

async fn releases_are_compared_on_what_both_predicted(world: World) {
    let scene = Scene::new(world).await;
    day(&scene, "2026-06-01", 6, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let columns =
        "day,release,against,n,wins,losses,ties,measure,accuracy,accuracy_against,auc,auc_against,decided_at";
    let found = asked(&scene, words("2026-06-01", "2026-06-01", columns)).await;
    assert_eq!(found, ["2026-06-01,v2,v1,6,6,0,0,brier,1.0,0.0,1.0,0.0,"]);
    let by_city =
        Params { by: Some("tag.city"), ..words("2026-06-01", "2026-06-01", "tag.city,n,wins,losses") };
    assert_eq!(asked(&scene, by_city).await, ["Bonn,3,3,0", "Ulm,3,3,0"]);
    // The record of the evaluation has equal counts.
    let record = Request::parse(
        Dataset::Evaluations,
        &Params {
            from: "2026-06-01",
            to: "2026-06-01",
            release: Some("v2"),
            columns: Some("wins,losses,ties"),
            ..Params::default()
        },
    );
    let answer = scene.query(at(NOW)).run(scene.id(), &record.unwrap()).await.unwrap();
    assert_eq!(csv(answer), "wins,losses,ties\n6,0,0\n");
    let unknown = Params { against: Some("v9"), ..words("2026-06-01", "2026-06-01", "n") };
    let unknown = Request::parse(Dataset::HeadToHead, &unknown).unwrap();
    let error = scene.query(at(NOW)).run(scene.id(), &unknown).await.unwrap_err().to_string();
    assert!(error.contains("there is no release `v9`"), "{error}");
}

async fn a_clear_advantage_is_decided_on_a_day(world: World) {
    let scene = Scene::new(world).await;
    for name in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        day(&scene, name, 40, "2026-06-04T12:00:00Z").await;
    }
    let columns = "day,n,n_so_far,decided_at";
    let by_day = asked(&scene, words("2026-06-01", "2026-06-03", columns)).await;
    assert_eq!(by_day, ["2026-06-01,40,40,", "2026-06-02,40,80,2026-06-02", "2026-06-03,40,120,2026-06-02"]);
    let few = asked(
        &scene,
        Params { by: Some("tag.city"), ..words("2026-06-01", "2026-06-03", "tag.city,day,n_so_far") },
    )
    .await;
    assert_eq!(few.len(), 6, "{few:?}");
    let all = Params { period: Some("all"), ..words("2026-06-01", "2026-06-03", columns) };
    assert_eq!(asked(&scene, all).await, ["2026-06-01,120,120,2026-06-02"]);
    let turned = Params {
        release: Some("v1"),
        against: Some("v2"),
        period: Some("all"),
        ..words("2026-06-01", "2026-06-03", "wins,losses,decided_at,winner")
    };
    assert_eq!(asked(&scene, turned).await, ["0,120,2026-06-02,v2"], "decided against it");
}

/// `v2` is better on three days, and then `v1`: each answer names the better release by its last day, and the decision's time.
async fn reversed_advantage_is_decided_the_other_way(world: World) {
    let scene = Scene::new(world).await;
    for number in 1..10 {
        let sure = if number <= 3 { [0.4, 0.9] } else { [0.9, 0.4] };
        day_of(&scene, &format!("2026-06-0{number}"), 60, "2026-06-09T12:00:00Z", sure).await;
    }
    let by_day = asked(&scene, words("2026-06-01", "2026-06-09", "day,decided_at,winner")).await;
    let of_day = |number: u32| match number {
        1..=5 => format!("2026-06-0{number},2026-06-01,v2"),
        6..=8 => format!("2026-06-0{number},,"),
        _ => format!("2026-06-0{number},2026-06-09,v1"),
    };
    assert_eq!(by_day, (1..10).map(of_day).collect::<Vec<_>>());
    for (to, says) in [("2026-06-05", "2026-06-01,v2"), ("2026-06-08", ","), ("2026-06-09", "2026-06-09,v1")]
    {
        let all = Params { period: Some("all"), ..words("2026-06-01", to, "decided_at,winner") };
        assert_eq!(asked(&scene, all).await, [says], "up to {to}");
    }
}

async fn what_arrives_later_changes_nothing_that_was_known(world: World) {
    let scene = Scene::new(world).await;
    day(&scene, "2026-06-01", 6, "2026-06-02T12:00:00Z").await;
    let columns = "day,n,wins,auc,brier_low,low_so_far";
    let window = || words("2026-06-01", "2026-06-02", columns);
    let before = asked(&scene, window()).await;
    assert_eq!(before.len(), 1, "{before:?}");
    let request = Request::parse(Dataset::HeadToHead, &window()).unwrap();
    let read_version =
        scene.query(at("2026-06-02T13:00:00Z")).read_version(scene.id(), &request).await.unwrap().to_string();
    day(&scene, "2026-06-02", 9, "2026-06-04T12:00:00Z").await;
    assert_eq!(asked(&scene, window()).await.len(), 2);
    assert_eq!(asked(&scene, Params { as_of: Some("2026-06-03"), ..window() }).await, before);
    assert_eq!(asked(&scene, Params { read_version: Some(&read_version), ..window() }).await, before);
}
