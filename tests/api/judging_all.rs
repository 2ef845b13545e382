//! Outcomes without a date that judge all predictions of their key. Each on a SQLite file and on DynamoDB Local.

use std::sync::atomic::Ordering;

use event::{Kind, Timestamp};
use ingest::{Became, Rematching};
use query::{
    Dataset, HistoryParams, Params, PastOutcome,
    PastStanding::{self, Counts, Retracted, Retracts},
    Request, UnmatchedOutcome, UnmatchedParams, UnmatchedRequest, UnmatchedState,
    UnmatchedState::{Appended, Refused},
};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{Scene, csv},
    world::at,
};

use crate::{
    unmatched::{append, counts, observe, outcome, predicted, resolved, round},
    unmatched_told::import,
};

on_both_engines!(
    Scene::on:
    outcome_judges_all_key_predictions_in_look_back,
    crash_repeats_the_decision_about_all_predictions,
    judging_too_many_predictions_is_refused_with_reason,
    outcome_judging_all_is_retracted_and_rematched,
    file_rows_say_which_predictions_they_judge,
);

const OBSERVED: &str = "2026-06-05T00:00:00Z";

/// An outcome that judges all predictions of its key.
fn of_all(key: &str, observed_at: &str, label: &str) -> Value {
    json!({ "key": key, "observed_at": observed_at, "label": label, "applies_to": "all" })
}

/// Instants that outcomes of June with a label judge, with their keys.
async fn judged(scene: &Scene, label: &str) -> Vec<String> {
    let columns = Some("key,predicted_at,label,retracted");
    let words = Params { from: "2026-06-01", to: "2026-06-30", columns, ..Params::default() };
    let request = Request::parse(Dataset::Events(Kind::Outcomes), &words).unwrap();
    let text = csv(scene.query(at("2026-06-30T00:00:00Z")).run(scene.id(), &request).await.unwrap());
    let end = format!(",{label},");
    let mut lines: Vec<String> =
        text.lines().filter_map(|line| line.strip_suffix(&*end)).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Unmatched outcomes of a key in an answer.
async fn told(scene: &Scene, key: &str, now: &str) -> Vec<UnmatchedOutcome> {
    let words = UnmatchedParams { key: Some(key.into()), ..UnmatchedParams::default() };
    let request = UnmatchedRequest::parse(&words, at(now)).unwrap();
    scene.query(at(now)).unmatched(scene.id(), &request).await.unwrap().outcomes
}

/// Outcomes of a key about June.
async fn history(scene: &Scene, key: &str, now: &str) -> Vec<PastOutcome> {
    let days = ["2026-06-01", "2026-06-30"].map(|day| day.parse().ok());
    let params = HistoryParams { key: key.into(), from: days[0], to: days[1] };
    scene.query(at(now)).outcome_history(scene.id(), &params).await.unwrap().outcomes
}

async fn outcome_judges_all_key_predictions_in_look_back(scene: Scene) {
    scene.world.set_lanes(scene.id(), 4).await;
    predicted(&scene).await;
    let mut since = of_all("k2", OBSERVED, "1");
    since["predicted_since"] = "2026-06-01T01:00:01Z".into();
    let latest = json!({ "key": "k3", "observed_at": OBSERVED, "label": "1", "applies_to": "latest" });
    let events = vec![of_all("k0", OBSERVED, "1"), of_all("k1", "2026-06-02T01:00:00Z", "1"), since, latest];
    let receipt = observe(&scene, events, None, "2026-06-05T10:00:00Z").await.unwrap();
    assert_eq!((receipt.rows, receipt.unmatched), (4, 4));
    assert_eq!(resolved(&scene, "2026-06-05T10:01:00Z").await, counts(4, 0, 0));
    let expected = [
        "k0,2026-06-01T01:00:00Z",
        "k0,2026-06-02T01:00:00Z",
        "k0,2026-06-03T01:00:00Z",
        "k1,2026-06-01T01:00:00Z",
        "k1,2026-06-02T01:00:00Z",
        "k2,2026-06-02T01:00:00Z",
        "k2,2026-06-03T01:00:00Z",
        "k3,2026-06-03T01:00:00Z",
    ];
    assert_eq!(judged(&scene, "1").await, expected);
    assert_eq!(resolved(&scene, "2026-06-05T11:00:00Z").await, counts(0, 0, 0), "it is done once");
    assert_eq!(judged(&scene, "1").await, expected);
    let now = "2026-06-05T12:00:00Z";
    let unmatched = told(&scene, "k0", now).await;
    let [one] = &unmatched[..] else { panic!("{unmatched:?}") };
    assert_eq!((one.state, one.judged), (UnmatchedState::Appended, Some(3)));
    assert_eq!(one.predicted_at, Some(at("2026-06-03T01:00:00Z")));
    assert_eq!(
        one.why,
        "it labels the predictions of 3 instants from 2026-06-01T01:00:00Z to 2026-06-03T01:00:00Z"
    );
    assert_eq!((&json!(one)["applies_to"], &json!(one)["judged"]), (&json!("all"), &json!(3)));
    assert_eq!(json!(told(&scene, "k3", now).await[0])["applies_to"], "latest");
    let past = history(&scene, "k1", now).await;
    assert_eq!(past.iter().map(|one| one.standing).collect::<Vec<_>>(), [PastStanding::Counts; 2]);
    // A later prediction is not judged, and one of the judgements can be retracted alone.
    scene.predict_many("2026-06-04", "v1", 1, "2026-06-06T00:00:00Z").await;
    let wrong = json!({
        "key": "k1", "observed_at": "2026-06-02T01:00:00Z", "predicted_at": "2026-06-01T01:00:00Z",
        "retracted": true, "reason": "wrong",
    });
    observe(&scene, vec![wrong], None, "2026-06-06T00:00:00Z").await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-06T10:00:00Z").await, counts(0, 0, 0));
    assert_eq!(judged(&scene, "1").await, expected);
    let past = history(&scene, "k1", now).await;
    let standings: Vec<_> = past.iter().map(|one| (one.day.to_string(), one.standing)).collect();
    let expected = [("2026-06-01", Retracted), ("2026-06-02", Counts), ("2026-06-01", Retracts)];
    assert_eq!(standings, expected.map(|(day, standing)| (day.to_owned(), standing)));
    scene.assert_verified().await;
    let both = json!({
        "key": "k0", "observed_at": OBSERVED, "label": "1", "applies_to": "all", "predicted_on": "2026-06-01",
    });
    let other = json!({ "key": "k0", "observed_at": OBSERVED, "label": "1", "applies_to": "some" });
    for (event, why) in [
        (both, "`applies_to` is of an outcome that has neither `predicted_at` nor `predicted_on`"),
        (other, "`some` is none of latest, all"),
    ] {
        let refused = observe(&scene, vec![event], None, "2026-06-06T12:00:00Z").await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

async fn crash_repeats_the_decision_about_all_predictions(scene: Scene) {
    predicted(&scene).await;
    let events = (0..5).map(|n| of_all(&format!("k{n}"), OBSERVED, "1")).collect();
    observe(&scene, events, None, "2026-06-05T10:00:00Z").await.unwrap();
    let dying = append(&scene, "2026-06-05T10:01:00Z");
    for _ in 0..3 {
        dying.lost.store(1, Ordering::Relaxed);
        _ = round(&scene, &dying, "2026-06-05T10:01:00Z").await;
        dying.lost.store(0, Ordering::Relaxed);
        dying.unheard.store(1, Ordering::Relaxed);
        _ = round(&scene, &dying, "2026-06-05T10:02:00Z").await;
        dying.unheard.store(0, Ordering::Relaxed);
        // It comes after the decision, and does not change it.
        scene.predict_many("2026-06-04", "v1", 5, "2026-06-05T10:01:30Z").await;
    }
    resolved(&scene, "2026-06-05T12:00:00Z").await;
    let all = judged(&scene, "1").await;
    assert_eq!(all.len(), 15, "{all:?}");
    assert!(all.iter().all(|line| !line.contains("2026-06-04")), "{all:?}");
    scene.assert_verified().await;
}

/// Predictions of a key, a second apart, the last at this instant.
async fn often(scene: &Scene, key: &str, count: i64, last: &str) {
    let instant = |n: i64| at(last).plus_seconds(-n).to_string();
    let one = |n| json!({ "key": key, "predicted_at": instant(n), "release": "v1", "score": 0.5 });
    let events: Value = (0..count).map(one).collect();
    scene.append(Kind::Predictions, events, "2026-06-03T00:00:00Z").await.unwrap();
}

async fn judging_too_many_predictions_is_refused_with_reason(scene: Scene) {
    const MOST: i64 = 1_000;
    let last = "2026-06-02T12:00:00Z";
    often(&scene, "most", MOST, last).await;
    often(&scene, "more", MOST + 1, last).await;
    let mut later = of_all("more", OBSERVED, "later");
    later["predicted_since"] = at(last).plus_seconds(-4).to_string().into();
    let events = vec![of_all("most", OBSERVED, "most"), of_all("more", OBSERVED, "more"), later];
    observe(&scene, events, None, "2026-06-05T10:00:00Z").await.unwrap();
    let done = resolved(&scene, "2026-06-05T10:01:00Z").await;
    assert_eq!((done.found, done.refused, done.waiting), (2, 1, 0));
    assert_eq!(judged(&scene, "most").await.len(), MOST as usize);
    assert_eq!((judged(&scene, "more").await.len(), judged(&scene, "later").await.len()), (0, 5));
    let now = "2026-06-05T12:00:00Z";
    let told = told(&scene, "more", now).await;
    assert_eq!(told.iter().map(|one| one.state).collect::<Vec<_>>(), [Refused, Appended]);
    assert!(told[0].why.contains("more than 1000 instants from 2026-03-07 to 2026-06-05"), "{}", told[0].why);
    assert_eq!(resolved(&scene, "2026-06-05T13:00:00Z").await, counts(0, 0, 0), "that is final");
    let of = Rematching::parse(("more", Some(OBSERVED)), (None, None), at(now)).unwrap();
    let events = vec![of_all("more", OBSERVED, "again")];
    observe(&scene, events, None, "2026-06-05T13:30:00Z").await.unwrap();
    resolved(&scene, "2026-06-05T14:00:00Z").await;
    let all = scene.ingest(at(now)).rematch_key(&scene.workspace, &of).await.unwrap();
    assert_eq!(all.iter().map(|one| &one.became).collect::<Vec<_>>(), [&Became::Refused]);
    scene.assert_verified().await;
}

async fn outcome_judging_all_is_retracted_and_rematched(scene: Scene) {
    predicted(&scene).await;
    observe(&scene, vec![of_all("k0", OBSERVED, "1")], None, "2026-06-05T10:00:00Z").await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-05T11:00:00Z").await, counts(1, 0, 0));
    scene.predict_many("2026-06-04", "v1", 1, "2026-06-06T10:00:00Z").await;
    let now = at("2026-06-07T10:00:00Z");
    let of = Rematching::parse(("k0", None), (None, None), now).unwrap();
    let days = ["2026-06-01", "2026-06-02", "2026-06-03"];
    let instants: Vec<Timestamp> = days.iter().map(|day| at(&format!("{day}T01:00:00Z"))).collect();
    let all = scene.ingest(now).rematch_key(&scene.workspace, &of).await.unwrap();
    assert_eq!(all.into_iter().map(|one| one.became).collect::<Vec<_>>(), [Became::Again(instants)]);
    assert_eq!(resolved(&scene, "2026-06-07T11:00:00Z").await, counts(1, 0, 0));
    let past = history(&scene, "k0", "2026-06-10T00:00:00Z").await;
    let days_of = |standing: PastStanding| {
        past.iter().filter(|one| one.standing == standing).map(|one| one.day.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(days_of(Retracted), days);
    assert_eq!(days_of(Retracts), days);
    assert_eq!(days_of(Counts), ["2026-06-01", "2026-06-02", "2026-06-03", "2026-06-04"]);
    scene.assert_verified().await;
}

async fn file_rows_say_which_predictions_they_judge(scene: Scene) {
    predicted(&scene).await;
    let file = format!(
        "key,observed_at,predicted_at,label,applies_to\nk0,{OBSERVED},,1,all\nk1,{OBSERVED},,1,\nk2,{OBSERVED},,1,latest\nk3,{OBSERVED},2026-06-01T01:00:00Z,1,\n"
    );
    assert_eq!(import(&scene, &file, "2026-06-05T10:00:00Z").await, 4);
    assert_eq!(import(&scene, &file, "2026-06-06T10:00:00Z").await, 0);
    assert_eq!(resolved(&scene, "2026-06-06T11:00:00Z").await, counts(3, 0, 0));
    let expected = [
        "k0,2026-06-01T01:00:00Z",
        "k0,2026-06-02T01:00:00Z",
        "k0,2026-06-03T01:00:00Z",
        "k1,2026-06-03T01:00:00Z",
        "k2,2026-06-03T01:00:00Z",
        "k3,2026-06-01T01:00:00Z",
    ];
    assert_eq!(judged(&scene, "1").await, expected);
    // As they come over HTTP in one request of each kind.
    let events = vec![of_all("k4", OBSERVED, "1"), outcome("k5", OBSERVED, "1")];
    observe(&scene, events, Some("both"), "2026-06-07T10:00:00Z").await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-07T11:00:00Z").await, counts(2, 0, 0));
    assert_eq!(judged(&scene, "1").await.len(), expected.len() + 4);
    scene.assert_verified().await;
}
