//! How far the truth of each day has come: each age says what evaluations as of then say, and days before say what is to
//! come.

use event::{ErrorKind, Kind};
use query::{Bounds, Query, Request, What, Words};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    each_age_says_what_was_known_then,
    days_before_say_what_is_to_come,
    what_arrives_later_changes_no_age_that_was_reached,
    evaluations_that_are_kept_count_as_held,
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

/// A day that has all its truth, and one that has the first of it.
async fn scene(world: World) -> Scene {
    let scene = Scene::new(world).await;
    predict(&scene, FROM, 10, "2026-05-01T02:00:00Z").await;
    scene.observe_many(FROM, "1", 5, "2026-05-02T12:00:00Z").await;
    scene.observe_many(FROM, "1", 9, "2026-05-07T12:00:00Z").await;
    predict(&scene, TO, 20, "2026-06-20T02:00:00Z").await;
    scene.observe_many(TO, "1", 10, "2026-06-21T12:00:00Z").await;
    scene
}

fn words(columns: &str) -> Words<'_> {
    Words { from: FROM, to: TO, columns: Some(columns), ..Words::default() }
}

async fn rows(scene: &Scene, query: &Query, what: What, words: &Words<'_>) -> Vec<String> {
    let request = Request::parse(what, words).unwrap();
    let answer = query.run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

async fn each_age_says_what_was_known_then(world: World) {
    let (scene, figures) = (scene(world).await, "day,release,labelled,accuracy,auc,unmatched");
    scene.project().await;
    let query = scene.query(at(LATER));
    let staged =
        rows(&scene, &query, What::Maturity, &words("at,day,release,labelled,accuracy,auc,unmatched")).await;
    assert_eq!(staged.len(), 8 + 4, "{staged:?}");
    for row in &staged {
        let (instant, of_row) = row.split_once(',').unwrap();
        let day = &of_row[..10];
        let as_of = (!instant.is_empty()).then_some(instant);
        let then = Words { from: day, to: day, as_of, ..words(figures) };
        assert_eq!(rows(&scene, &query, What::Evaluations, &then).await, [of_row], "as of {instant}");
    }
}

async fn days_before_say_what_is_to_come(world: World) {
    let scene = scene(world).await;
    let query = scene.query(at(LATER));
    let columns = "day,age,labelled,expected_labelled,completeness";
    let found = rows(&scene, &query, What::Maturity, &words(columns)).await;
    // Of the first day 4 of 10 predictions were judged between 3 and 7 days; of the second 4 of 10 are to come.
    let expected = [
        "2026-05-01,1h,0,9.0,0.0",
        "2026-05-01,6h,0,9.0,0.0",
        "2026-05-01,1d,5,9.0,0.5555555555555556",
        "2026-05-01,3d,5,9.0,0.5555555555555556",
        "2026-05-01,7d,9,9.0,1.0",
        "2026-05-01,14d,9,9.0,1.0",
        "2026-05-01,30d,9,9.0,1.0",
        "2026-05-01,latest,9,9.0,1.0",
        "2026-06-20,1h,0,18.0,0.0",
        "2026-06-20,6h,0,18.0,0.0",
        "2026-06-20,1d,10,18.0,0.5555555555555556",
        "2026-06-20,latest,10,18.0,0.5555555555555556",
    ];
    assert_eq!(found, expected);
    let mature = |share| Words { mature: Some(share), ..words("day,labelled") };
    assert_eq!(rows(&scene, &query, What::Evaluations, &mature("0.9")).await, ["2026-05-01,9"]);
    let both = ["2026-05-01,9", "2026-06-20,10"];
    assert_eq!(rows(&scene, &query, What::Evaluations, &mature("0.5")).await, both);
    // Without a day that is old enough nobody knows what is to come, and no day is mature.
    let young = Words { from: TO, ..words(columns) };
    let found = rows(&scene, &query, What::Maturity, &young).await;
    assert_eq!(found[3], "2026-06-20,latest,10,,");
    assert_eq!(rows(&scene, &query, What::Evaluations, &Words { from: TO, ..mature("0") }).await, [""; 0]);
    let by_model = Words { by: Some("model"), ..words("day,model,age,labelled") };
    let found = rows(&scene, &query, What::Maturity, &by_model).await;
    assert_eq!(found[2], "2026-05-01,m,1d,5");
}

async fn what_arrives_later_changes_no_age_that_was_reached(world: World) {
    let scene = scene(world).await;
    let request = Request::parse(What::Maturity, &words("day,age,labelled,completeness")).unwrap();
    let then = scene.query(at(LATER)).run(scene.id(), &request).await.unwrap();
    let (cut, before) = (then.cut.clone().unwrap().to_string(), csv(then));
    scene.observe_many(TO, "1", 20, "2026-06-24T12:00:00Z").await;
    predict(&scene, TO, 25, "2026-06-24T12:00:00Z").await;
    let later = scene.query(at("2026-06-25T12:00:00Z"));
    let now = later.run(scene.id(), &request).await.unwrap();
    assert_ne!(csv(now), before);
    let again = Words { cut: Some(&cut), ..words("day,age,labelled,completeness") };
    let again = later.run(scene.id(), &Request::parse(What::Maturity, &again).unwrap()).await.unwrap();
    assert_eq!(csv(again), before);
    let as_of = Words { as_of: Some(LATER), ..words("day,age,labelled,completeness") };
    let as_of = later.run(scene.id(), &Request::parse(What::Maturity, &as_of).unwrap()).await.unwrap();
    assert_eq!(csv(as_of), before);
}

async fn evaluations_that_are_kept_count_as_held(world: World) {
    let scene = Scene::new(world).await;
    let event = |key: usize| {
        json!({ "key": format!("k{key}"), "predicted_at": format!("{FROM}T01:00:00Z"), "release": "v1",
                "score": 0.5, "tags": { "shop": format!("s{key}") } })
    };
    scene.append(Kind::Predictions, (0..250).map(event).collect(), "2026-05-01T02:00:00Z").await.unwrap();
    // Something more is known at each age.
    for day in [2, 3, 5, 9, 16] {
        scene.observe_many(FROM, "1", day, &format!("2026-05-{day:02}T00:30:00Z")).await;
    }
    let words = Words { to: FROM, by: Some("tag.shop"), ..words("day,labelled") };
    let within = |memory| scene.query(at(LATER)).within(Bounds { memory, ..Bounds::default() });
    let evaluations = Request::parse(What::Evaluations, &words).unwrap();
    within(4 << 20).run(scene.id(), &evaluations).await.unwrap();
    let maturity = Request::parse(What::Maturity, &words).unwrap();
    let refused = within(4 << 20).run(scene.id(), &maturity).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    within(64 << 20).run(scene.id(), &maturity).await.unwrap();
}
