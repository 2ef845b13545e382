//! Delay between predictions and the arrival of their outcomes.

use event::{ErrorKind, Kind};
use query::{Bounds, Dataset, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    ages_of_predictions_begin_with_them,
    pairs_are_held_within_the_memory_of_queries,
);

const TO: &str = "2026-06-20";
const LATER: &str = "2026-06-23T12:00:00Z";

/// Two predictions of an early and two of a late hour; one of each has an outcome half an hour later.
async fn ages_of_predictions_begin_with_them(world: World) {
    let scene = Scene::new(world).await;
    for (key, time) in [("a", "00:10"), ("b", "00:10"), ("c", "23:40"), ("d", "23:40")] {
        let one = json!([{ "key": key, "predicted_at": format!("{TO}T{time}:00Z"), "release": "v1", "score": 0.9 }]);
        scene.append(Kind::Predictions, one, "2026-06-20T23:50:00Z").await.unwrap();
    }
    let observe = async |key: &str, now: &str| {
        let one = json!([{ "key": key, "predicted_on": TO, "observed_at": now, "label": "1" }]);
        scene.append(Kind::Outcomes, one, now).await.unwrap();
    };
    observe("c", "2026-06-21T00:10:00Z").await;
    observe("a", "2026-06-21T00:10:00Z").await;
    observe("b", "2026-06-22T12:00:00Z").await;
    let columns = "day,release,age,predictions,arrived,arrived_share";
    let words =
        Params { from: TO, to: TO, columns: Some(columns), after_prediction: true, ..Params::default() };
    let asked = async |words: &Params<'_>, now: &str| {
        let request = Request::parse(Dataset::Maturity, words).unwrap();
        let answer = scene.query(at(now)).run(scene.id(), &request).await.unwrap();
        csv(answer).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    // Counted from the end of the day, all would be an hour old at once. The first prediction was a day old when its outcome
    // came.
    let found = asked(&words, LATER).await;
    let expected = ["1h,4,1,0.25", "6h,4,1,0.25", "1d,4,2,0.5", "3d,2,2,1.0", "latest,4,3,0.75"];
    assert_eq!(found, expected.map(|row| format!("{TO},v1,{row}")));
    // The kept vintages of days are not used for it, and days before the window are not read.
    let before =
        json!([{ "key": "z", "predicted_at": "2026-06-10T01:00:00Z", "release": "v1", "score": 0.9 }]);
    scene.append(Kind::Predictions, before, "2026-06-23T11:00:00Z").await.unwrap();
    scene.project().await;
    scene.keep_vintages(at(LATER)).await;
    assert_eq!(asked(&words, LATER).await, found);
    // As of an hour after the late predictions, which have not reached the age of six hours.
    let then = Params { as_of: Some("2026-06-21T01:00:00Z"), ..words.clone() };
    let expected = ["1h,4,1,0.25", "6h,2,0,0.0", "1d,2,1,0.5", "latest,4,2,0.5"];
    assert_eq!(asked(&then, LATER).await, expected.map(|row| format!("{TO},v1,{row}")));
    for (wrong, why) in [
        (Params { by: Some("tag.a"), ..words.clone() }, "group-by: after-prediction counts outcomes"),
        (Params { threshold: Some("0.5"), ..words.clone() }, "threshold: after-prediction counts outcomes"),
    ] {
        let refused = Request::parse(Dataset::Maturity, &wrong).unwrap_err().to_string();
        assert!(refused.starts_with(why), "{refused}");
    }
    let refused =
        Request::parse(Dataset::Evaluations, &Params { columns: None, ..words }).unwrap_err().to_string();
    assert_eq!(refused, "after-prediction: `evaluations` does not take it; it is of maturity");
}

/// The memory for the join of a day is requested before the join, as for `joined`.
async fn pairs_are_held_within_the_memory_of_queries(world: World) {
    let scene = Scene::new(world).await;
    let row = |n: u32| json!({ "key": format!("k{n}"), "predicted_at": format!("{TO}T01:00:00Z"), "release": "v1", "score": 0.9 });
    scene.append(Kind::Predictions, (0..5_000).map(row).collect(), "2026-06-20T02:00:00Z").await.unwrap();
    let words = Params { from: TO, to: TO, after_prediction: true, ..Params::default() };
    let request = Request::parse(Dataset::Maturity, &words).unwrap();
    let asked = async |memory| {
        let query = scene.query(at(LATER)).within(Bounds { memory, ..Bounds::default() });
        query.run(scene.id(), &request).await.map(|answer| answer.frame.height())
    };
    assert_eq!(asked(8 << 20).await.unwrap(), 5, "at 1 h, 6 h, 1 day, 3 days and now");
    let mut least = 64 << 10;
    while asked(least).await.is_err_and(|error| error.kind() == ErrorKind::TooLarge) {
        least += 32 << 10;
    }
    // The pairs of 5,000 predictions take 200,000 bytes, the columns half as many.
    assert!(least > 200_000, "{least}");
}
