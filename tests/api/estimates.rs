//! Expected metrics before there is truth, from the meaning of scores on other days.

use event::{Kind, Task};
use query::{Dataset, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    register::release_of,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    days_without_truth_have_metrics_that_are_expected,
    what_was_expected_then_is_read_again,
    estimate_of_tag_value_uses_its_own_calibration,
    what_predictions_are_expected_to_be_worth,
    what_is_expected_of_several_classes,
);

const REFERENCE: &str = "2026-05-01..2026-05-02";
const APPENDED: &str = "2026-06-04T12:00:00Z";

/// Eight predictions with a score of 0.2 and eight with 0.9, by a release.
async fn predict(scene: &Scene, day: &str, release: &str) {
    let event = |key: usize| {
        json!({ "key": format!("k{key}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release,
                "score": if key < 8 { 0.2 } else { 0.9 } })
    };
    scene.append(Kind::Predictions, (0..16).map(event).collect(), APPENDED).await.unwrap();
}

/// Outcomes in which these numbers of the eight with each score are of the positive class.
async fn observe(scene: &Scene, day: &str, [low, high]: [usize; 2]) {
    let event = |key: usize| {
        let is_positive = if key < 8 { key < low } else { key - 8 < high };
        json!({ "key": format!("k{key}"), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"),
                "label": if is_positive { "1" } else { "0" } })
    };
    scene.append(Kind::Outcomes, (0..16).map(event).collect(), APPENDED).await.unwrap();
}

async fn scene(world: World) -> Scene {
    let scene = Scene::new(world).await;
    predict(&scene, "2026-05-01", "v1").await;
    // A score of 0.9 was right in six of eight, one of 0.2 wrong in two of eight.
    observe(&scene, "2026-05-01", [2, 6]).await;
    predict(&scene, "2026-06-01", "v1").await;
    predict(&scene, "2026-06-02", "v1").await;
    observe(&scene, "2026-06-02", [4, 4]).await;
    scene
}

fn words(columns: &str) -> Params<'_> {
    Params {
        from: "2026-06-01",
        to: "2026-06-02",
        reference: Some(REFERENCE),
        columns: Some(columns),
        ..Params::default()
    }
}

async fn asked(scene: &Scene, words: &Params<'_>) -> (Vec<String>, Vec<String>) {
    let request = Request::parse(Dataset::Estimates, words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    let warnings = answer.warnings.clone();
    (csv(answer).lines().skip(1).map(str::to_owned).collect(), warnings)
}

async fn days_without_truth_have_metrics_that_are_expected(world: World) {
    let scene = scene(world).await;
    let columns =
        "day,release,n,labelled,accuracy_expected,accuracy,accuracy_gap,recall_expected,auc_expected,auc";
    let (rows, warnings) = asked(&scene, &words(columns)).await;
    let expected =
        ["2026-06-01,v1,16,0,0.75,,,0.75,0.75,", "2026-06-02,v1,16,16,0.75,0.5,-0.25,0.75,0.75,0.5"];
    assert_eq!((&*rows, &*warnings), (&expected.map(str::to_owned)[..], &[][..]));
    // Predictions with a label and no score are neither among the expected nor among the realised ones.
    let alone = |key: usize| json!({ "key": format!("l{key}"), "predicted_at": "2026-06-02T01:00:00Z", "release": "v1", "label": "1" });
    scene.append(Kind::Predictions, (0..8).map(alone).collect(), APPENDED).await.unwrap();
    let wrong = |key: usize| json!({ "key": format!("l{key}"), "predicted_on": "2026-06-02", "observed_at": "2026-06-02T02:00:00Z", "label": "0" });
    scene.append(Kind::Outcomes, (0..8).map(wrong).collect(), APPENDED).await.unwrap();
    assert_eq!(asked(&scene, &words(columns)).await.0, expected);
    let (both, _) =
        asked(&scene, &Params { period: Some("all"), ..words("day,n,labelled,accuracy_expected") }).await;
    assert_eq!(both, ["2026-06-01,32,16,0.75"]);
    // If all are predicted positive, the share of right ones is the share of positives.
    let (low, _) =
        asked(&scene, &Params { threshold: Some("0.1"), ..words("accuracy_expected,precision_expected") })
            .await;
    assert_eq!(low, ["0.5,0.5", "0.5,0.5"]);
    // The reference has no predictions of the other release.
    predict(&scene, "2026-06-01", "v2").await;
    let (rows, warnings) = asked(&scene, &words("day,release")).await;
    assert_eq!(rows, ["2026-06-01,v1", "2026-06-02,v1"]);
    assert!(warnings.len() == 1 && warnings[0].starts_with("nothing is expected of v2"), "{warnings:?}");
    let (_, none) = asked(&scene, &Params { release: Some("v1"), ..words("day") }).await;
    assert_eq!(none, [""; 0]);
    for (wrong, because) in [
        (Params { reference: None, ..words("day") }, "reference: name the days"),
        (Params { by: Some("model"), ..words("day") }, "so estimates are by release, not by model"),
        (Params { period: Some("hour"), ..words("day") }, "not of hours"),
        (Params { bins: Some("3"), ..words("day") }, "bins: only features have bins"),
        (Params { interval: true, ..words("day") }, "`estimates` does not take it"),
    ] {
        let refusal = Request::parse(Dataset::Estimates, &wrong).unwrap_err().to_string();
        assert!(refusal.contains(because), "{refusal}");
    }
}

async fn what_was_expected_then_is_read_again(world: World) {
    let scene = scene(world).await;
    let columns = "day,accuracy_expected,accuracy,brier_expected,brier_gap";
    let request = Request::parse(Dataset::Estimates, &words(columns)).unwrap();
    let then = scene.query(at("2026-06-05T00:00:00Z")).run(scene.id(), &request).await.unwrap();
    let (read_version, before) =
        (then.read_version.clone().unwrap().to_string(), asked(&scene, &words(columns)).await);
    // The truth of the reference changes, and truth comes.
    let event = json!([{ "key": "k15", "predicted_on": "2026-05-01", "observed_at": "2026-05-01T03:00:00Z", "label": "1" }]);
    scene.append(Kind::Outcomes, event, "2026-06-06T12:00:00Z").await.unwrap();
    assert_ne!(asked(&scene, &words(columns)).await, before);
    assert_eq!(asked(&scene, &Params { as_of: Some("2026-06-05"), ..words(columns) }).await, before);
    assert_eq!(asked(&scene, &Params { read_version: Some(&read_version), ..words(columns) }).await, before);
    // A read version without the days of the reference does not fit the request.
    let other = Params { reference: Some("2026-04-01"), read_version: Some(&read_version), ..words(columns) };
    let refusal = Request::parse(Dataset::Estimates, &other).unwrap_err().to_string();
    assert!(refusal.contains("read-version: it is of 2026-05-01 to 2026-06-02"), "{refusal}");
}

/// `n` predictions with a tag, of which the first `positive` are of the positive class; without truth when `None`.
async fn tagged(scene: &Scene, day: &str, tag: &str, n: usize, positive: Option<usize>) {
    let key = |number: usize| format!("{tag}{number}");
    let event = |number: usize| {
        json!({ "key": key(number), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1",
                "score": if number.is_multiple_of(2) { 0.9 } else { 0.2 }, "tags": { "city": tag } })
    };
    scene.append(Kind::Predictions, (0..n).map(event).collect(), APPENDED).await.unwrap();
    let Some(positive) = positive else { return };
    let event = |number: usize| {
        json!({ "key": key(number), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"),
                "label": if number < positive { "1" } else { "0" } })
    };
    scene.append(Kind::Outcomes, (0..n).map(event).collect(), APPENDED).await.unwrap();
}

async fn estimate_of_tag_value_uses_its_own_calibration(world: World) {
    let scene = Scene::new(world).await;
    // In Oslo a score of 0.9 comes true in three of four and 0.2 in two of four; in Rome in one of four, and never.
    let mut number = 0;
    for (city, high, low) in [("oslo", 3, 2), ("rome", 1, 0)] {
        for (score, positive) in [(0.9, high), (0.2, low)] {
            for of in 0..4 {
                number += 1;
                let prediction = json!([{ "key": format!("r{number}"), "predicted_at": "2026-05-01T01:00:00Z", "release": "v1",
                                          "score": score, "tags": { "city": city } }]);
                let outcome = json!([{ "key": format!("r{number}"), "predicted_on": "2026-05-01", "observed_at": "2026-05-01T02:00:00Z",
                                       "label": if of < positive { "1" } else { "0" } }]);
                scene.append(Kind::Predictions, prediction, APPENDED).await.unwrap();
                scene.append(Kind::Outcomes, outcome, APPENDED).await.unwrap();
            }
        }
    }
    tagged(&scene, "2026-06-01", "oslo", 4, None).await;
    tagged(&scene, "2026-06-01", "rome", 4, Some(1)).await;
    tagged(&scene, "2026-06-01", "bern", 2, None).await;
    let columns = "day,release,tag.city,n,labelled,accuracy_expected,accuracy,accuracy_gap";
    let by = Params { by: Some("tag.city"), ..words(columns) };
    let (rows, warnings) = asked(&scene, &by).await;
    assert_eq!(rows, ["2026-06-01,v1,oslo,4,0,0.625,,", "2026-06-01,v1,rome,4,4,0.625,0.75,0.125"]);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("nothing is expected of v1 with tag.city=bern: in the reference"),
        "{warnings:?}"
    );
    // Over all cities a score has its common meaning.
    let (all, _) = asked(&scene, &words("release,n,labelled,accuracy_expected")).await;
    assert_eq!(all, ["v1,10,4,0.625"]);
}

async fn what_predictions_are_expected_to_be_worth(world: World) {
    let scene = scene(world).await;
    // Six of eight with 0.9 are expected to be right, and two of eight with 0.2 to be positive after all.
    let costs = Params {
        costs: Some("tp=10,tn=1,fp=4,fn=20"),
        ..words("day,value_expected,value,value_gap,value_per_prediction_expected")
    };
    let (rows, _) = asked(&scene, &costs).await;
    let worth = 6.0 * 10.0 - 2.0 * 4.0 + 6.0 - 2.0 * 20.0;
    let real = 4.0 * 10.0 - 4.0 * 4.0 + 4.0 - 4.0 * 20.0;
    let per = worth / 16.0;
    let gap: f64 = real - worth;
    assert_eq!(
        rows,
        [format!("2026-06-01,{worth:?},,,{per:?}"), format!("2026-06-02,{worth:?},{real:?},{gap:?},{per:?}")]
    );
    let (without, _) = asked(&scene, &words("value_expected,value_per_prediction_expected")).await;
    assert_eq!(without, [",", ","]);
}

/// Predictions of classes, with the scores of `a`, `b` and `c`, and the real class if it is known.
async fn classified(scene: &Scene, day: &str, rows: &[([f64; 3], Option<&str>)]) {
    let prediction = |(number, (scores, _)): (usize, &([f64; 3], Option<&str>))| {
        json!({ "key": format!("c{number}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "c1",
                "scores": { "a": scores[0], "b": scores[1], "c": scores[2] } })
    };
    scene
        .append(Kind::Predictions, rows.iter().enumerate().map(prediction).collect(), APPENDED)
        .await
        .unwrap();
    let outcome = |(number, (_, real)): (usize, &([f64; 3], Option<&str>))| {
        let label = (*real)?;
        Some(
            json!({ "key": format!("c{number}"), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"), "label": label }),
        )
    };
    let outcomes: Vec<_> = rows.iter().enumerate().filter_map(outcome).collect();
    if !outcomes.is_empty() {
        scene.append(Kind::Outcomes, outcomes.into(), APPENDED).await.unwrap();
    }
}

async fn what_is_expected_of_several_classes(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, now) = (&scene.world.catalog, at("2026-05-01T00:00:00Z"));
    catalog.ensure_model(scene.id(), "mc", &Task::Multiclass, now).await.unwrap();
    catalog.ensure_release(scene.id(), &release_of("mc", "c1"), now).await.unwrap();
    let (says_a, says_b) = ([0.8, 0.1, 0.1], [0.1, 0.8, 0.1]);
    let of = |scores: [f64; 3], reals: &'static str| {
        reals.split(' ').map(move |real| (scores, Some(real))).collect::<Vec<_>>()
    };
    // Six of eight predicted as `a` are of that class, four of eight predicted as `b`; `c` is real in three of all sixteen.
    let reference = [of(says_a, "a a a a a a b c"), of(says_b, "b b b b a a c c")].concat();
    classified(&scene, "2026-05-01", &reference).await;
    classified(&scene, "2026-06-01", &[(says_a, None), (says_b, None)]).await;
    classified(&scene, "2026-06-02", &[(says_a, Some("a")), (says_b, Some("a"))]).await;
    let columns =
        "day,release,n,labelled,accuracy_expected,accuracy,accuracy_gap,macro_f1_expected,precision_expected";
    let (rows, warnings) = asked(&scene, &words(columns)).await;
    assert_eq!(warnings, [""; 0]);
    // The expectations of a prediction over all classes are divided by their sum.
    let (right_a, right_b) = (0.75 / (0.75 + 0.125 + 0.1875), 0.5 / (0.25 + 0.5 + 0.1875));
    let cells: Vec<Vec<&str>> = rows.iter().map(|row| row.split(',').collect()).collect();
    assert_eq!(
        (&cells[0][..4], &cells[1][..4]),
        (&["2026-06-01", "c1", "2", "0"][..], &["2026-06-02", "c1", "2", "2"][..])
    );
    let number = |row: usize, column: usize| cells[row][column].parse::<f64>().unwrap();
    for row in [0, 1] {
        assert!((number(row, 4) - (right_a + right_b) / 2.0).abs() < 1e-12, "{rows:?}");
        assert!((0.0..1.0).contains(&number(row, 7)), "{rows:?}");
        assert_eq!(cells[row][8], "", "of one class against the other alone");
    }
    assert_eq!((cells[0][5], cells[1][5]), ("", "0.5"));
    assert!((number(1, 6) - (0.5 - number(1, 4))).abs() < 1e-12);
}
