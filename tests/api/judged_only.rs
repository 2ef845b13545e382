//! Evaluations of the predictions for which a condition holds.

use event::Kind;
use query::{Answer, Dataset, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    condition_metrics_equal_those_of_tag_value,
    corrected_prediction_leaves_condition_from_then_on,
    a_condition_may_name_days_keys_and_scores,
    a_condition_that_cannot_be_computed_says_why,
);

const DAY: &str = "2026-06-01";
const NEXT: &str = "2026-06-02";
const LATER: &str = "2026-06-04T12:00:00Z";

/// Predictions of two releases on the same keys, in two segments of each day, and the outcomes of two thirds of them.
async fn scene(world: World) -> Scene {
    let scene = Scene::new(world).await;
    let prediction = |day: &str, release: &str, n: usize| {
        let shift = if release == "v1" { 0 } else { 3 };
        let (time, score) =
            (format!("{day}T{:02}:{:02}:00Z", n / 60, n % 60), ((n + shift) % 10) as f64 / 10.0);
        let mut event =
            json!({ "key": format!("k{n}"), "predicted_at": time, "release": release, "score": score });
        if !n.is_multiple_of(4) {
            event["tags"] = json!({ "carrier": if n.is_multiple_of(3) { "UA" } else { "AA" } });
        }
        event
    };
    for day in [DAY, NEXT] {
        for half in [0..20, 20..40] {
            let rows = half.flat_map(|n| ["v1", "v2"].map(|release| prediction(day, release, n)));
            scene.append(Kind::Predictions, rows.collect(), LATER).await.unwrap();
        }
        let outcome = |n: usize| {
            let label = if n.is_multiple_of(5) { "1" } else { "0" };
            json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T23:00:00Z"), "label": label })
        };
        let rows = (0..40).filter(|n| n % 3 < 2).map(outcome);
        scene.append(Kind::Outcomes, rows.collect(), LATER).await.unwrap();
    }
    scene.project().await;
    scene
}

async fn run(scene: &Scene, what: Dataset, words: Params<'_>) -> event::Result<Answer> {
    let request = Request::parse(what, &Params { from: DAY, to: NEXT, ..words })?;
    scene.query(at(NOW)).run(scene.id(), &request).await
}

async fn rows(scene: &Scene, what: Dataset, words: Params<'_>) -> Vec<String> {
    csv(run(scene, what, words).await.unwrap()).lines().map(str::to_owned).collect()
}

async fn condition_metrics_equal_those_of_tag_value(world: World) {
    let scene = scene(world).await;
    let metrics = "day,release,predictions,labelled,mean_score,accuracy,auc,log_loss,tp,fn,wins,losses,ties";
    for (what, columns) in [
        (Dataset::Evaluations, metrics),
        (Dataset::Classes, "day,release,class,support,predicted,correct,f1"),
        (Dataset::Confusion, "day,release,truth,predicted,count"),
    ] {
        let by_value = format!("tag.carrier,{columns}");
        let by = Params { by: Some("tag.carrier"), columns: Some(&by_value), ..Params::default() };
        let mut of_value = rows(&scene, what, by).await;
        of_value.retain(|row| row.starts_with("UA,"));
        let of_value: Vec<&str> = of_value.iter().filter_map(|row| row.strip_prefix("UA,")).collect();
        assert!(of_value.len() >= 4, "{of_value:?}");
        let kept = Params { columns: Some(columns), ..Params::default() };
        let tagged = rows(&scene, what, Params { tag: Some("carrier=UA"), ..kept.clone() }).await;
        assert_eq!(tagged[1..], of_value, "{}", what.name());
        let told = rows(&scene, what, Params { filter: Some("\"tag.carrier\" = 'UA'"), ..kept }).await;
        assert_eq!(told, tagged);
    }
    // As of an instant, at its read version, and on mature days.
    let kept = Params { tag: Some("carrier=UA"), columns: Some(metrics), ..Params::default() };
    let answer = run(&scene, Dataset::Evaluations, kept.clone()).await.unwrap();
    let read_version = answer.read_version.as_ref().unwrap().to_string();
    let now = csv(answer);
    for again in [
        Params { as_of: Some("2026-06-05"), ..kept.clone() },
        Params { read_version: Some(&read_version), ..kept.clone() },
    ] {
        assert_eq!(csv(run(&scene, Dataset::Evaluations, again).await.unwrap()), now);
    }
    let of_none =
        rows(&scene, Dataset::Evaluations, Params { as_of: Some("2026-06-04"), ..kept.clone() }).await;
    assert_eq!(of_none.len(), 1, "nothing had been appended by then");
    // Days of this age are mature.
    let mature = Params { from: DAY, to: NEXT, mature: Some("0.5"), ..kept };
    let mature = Request::parse(Dataset::Evaluations, &mature).unwrap();
    let later = scene.query(at("2026-08-01T00:00:00Z"));
    assert_eq!(csv(later.run(scene.id(), &mature).await.unwrap()), now);
}

async fn corrected_prediction_leaves_condition_from_then_on(world: World) {
    let scene = scene(world).await;
    let kept =
        Params { tag: Some("carrier=UA"), columns: Some("day,release,predictions"), ..Params::default() };
    let before = run(&scene, Dataset::Evaluations, kept.clone()).await.unwrap();
    let read_version = before.read_version.as_ref().unwrap().to_string();
    let before = csv(before);
    assert!(before.contains("2026-06-01,v1,10"), "{before}");
    let again = json!([{ "key": "k3", "predicted_at": "2026-06-01T00:03:00Z", "release": "v1", "score": 0.3, "tags": { "carrier": "AA" } }]);
    scene.append(Kind::Predictions, again, "2026-06-06T12:00:00Z").await.unwrap();
    for then in [
        Params { as_of: Some("2026-06-06"), ..kept.clone() },
        Params { read_version: Some(&read_version), ..kept.clone() },
    ] {
        assert_eq!(csv(run(&scene, Dataset::Evaluations, then).await.unwrap()), before);
    }
    let now = csv(run(&scene, Dataset::Evaluations, kept).await.unwrap());
    assert_eq!(now, before.replace("2026-06-01,v1,10", "2026-06-01,v1,9"));
}

async fn a_condition_may_name_days_keys_and_scores(world: World) {
    let scene = scene(world).await;
    let columns = Some("day,release,predictions,labelled");
    let kept = Params { columns, ..Params::default() };
    let asked = async |words| rows(&scene, Dataset::Evaluations, words).await[1..].to_vec();
    let of_day = Params { filter: Some("day = '2026-06-02' and score >= 0.5"), ..kept.clone() };
    assert_eq!(asked(of_day).await, ["2026-06-02,v1,20,13", "2026-06-02,v2,20,13"]);
    let of_key = Params { key: Some("k7"), release: Some("v2"), ..kept.clone() };
    assert_eq!(asked(of_key).await, ["2026-06-01,v2,1,1", "2026-06-02,v2,1,1"]);
    let all = Params { filter: Some("1 = 1"), period: Some("all"), ..kept.clone() };
    assert_eq!(asked(all).await, ["2026-06-01,v1,80,54", "2026-06-01,v2,80,54"]);
    let none = Params { filter: Some("score > 2"), ..kept.clone() };
    assert!(asked(none).await.is_empty());
    let compared = Params {
        release: Some("v1"),
        against: Some("v2"),
        tag: Some("carrier=UA"),
        period: Some("all"),
        columns: Some("n"),
        ..Params::default()
    };
    // Each day 10 of the 40 keys are of UA: multiples of 3 but not of 4, all with outcomes.
    assert_eq!(rows(&scene, Dataset::HeadToHead, compared).await, ["n", "20"]);
}

async fn a_condition_that_cannot_be_computed_says_why(world: World) {
    let scene = scene(world).await;
    let refused = async |what, words| run(&scene, what, words).await.unwrap_err().to_string();
    let filter = |filter| Params { filter: Some(filter), ..Params::default() };
    let lines = [
        refused(Dataset::Evaluations, filter("appended_at > '2026-06-01'")).await,
        refused(Dataset::Evaluations, filter("outcome_label = '1'")).await,
        refused(Dataset::Evaluations, filter("score >")).await,
        refused(Dataset::Evaluations, Params { limit: Some("3"), ..Params::default() }).await,
        refused(Dataset::Maturity, filter("score > 0.5")).await,
        refused(Dataset::Rollups, Params { tag: Some("carrier=UA"), ..Params::default() }).await,
    ];
    let expected = [
        "where: evaluations know no `appended_at` of predictions; as-of says what had been appended",
        "where: there is no column `outcome_label`; there are day, key, predicted_at, release, score, label, value, lower, upper, latency_ms, group, retracted, reason, appended_at (line 1, column 1)",
        "where: sql parser error: Expected: an expression, found: EOF",
        "limit: `evaluations` does not take it; it is of predictions, outcomes, metrics, releases, joined",
        "where: `maturity` does not take it; it is of predictions, outcomes, metrics, releases, joined, evaluations, classes, confusion, head-to-head",
        "tag: `rollups` does not take it; it is of predictions, metrics, joined, evaluations, classes, confusion, head-to-head",
    ];
    assert_eq!(lines, expected);
    let unseen = Params { tag: Some("n=1"), ..Params::default() };
    let answer = run(&scene, Dataset::Evaluations, unseen).await.unwrap();
    assert_eq!(answer.warnings, ["no prediction of these days has `tag.n`"]);
    assert_eq!(answer.frame.height(), 0);
}
