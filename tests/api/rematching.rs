//! Rematching an outcome without a date whose prediction came too late: it happens once, despite deaths, and its history shows
//! the past states.

use std::sync::Arc;

use event::{Clock, Timestamp};
use ingest::{Became, Ingest, Rematching, UnmatchedRow};
use query::{HistoryParams, PastOutcome, UnmatchedParams, UnmatchedRequest, UnmatchedState};
use serde_json::json;
use table::Table;
use tests::{crashing::Crashing, on_both_engines, scene::Scene, world::at};

use super::unmatched::{counts, observe, outcome, resolved};

on_both_engines!(
    Scene::on:
    rematched_outcome_shows_it_in_history,
    it_is_settled_anew_once_whatever_dies,
    what_is_not_settled_is_not_settled_anew,
    the_outcomes_of_a_key_are_settled_anew,
);

const OBSERVED: &str = "2026-06-05T00:00:00Z";
const NOW: &str = "2026-06-07T10:00:00Z";

/// The outcome of `k0` judges the prediction of the second of June; then one of the third comes.
async fn scene(scene: Scene) -> Scene {
    for day in ["2026-06-01", "2026-06-02"] {
        scene.predict_many(day, "v1", 1, &format!("{day}T01:00:10Z")).await;
    }
    observe(&scene, vec![outcome("k0", OBSERVED, "1")], None, "2026-06-05T10:00:00Z").await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-05T11:00:00Z").await, counts(1, 0, 0));
    scene.predict_many("2026-06-03", "v1", 1, "2026-06-06T10:00:00Z").await;
    assert_eq!(resolved(&scene, "2026-06-06T11:00:00Z").await, counts(0, 0, 0), "a decision is final");
    scene
}

/// Places and states of the outcomes of `k0` that wait or waited, the last first.
async fn rows(scene: &Scene) -> Vec<(UnmatchedRow, UnmatchedState)> {
    let words = UnmatchedParams {
        key: Some("k0".into()),
        from: "2026-06-01".parse().ok(),
        to: "2026-06-30".parse().ok(),
        ..UnmatchedParams::default()
    };
    let request = UnmatchedRequest::parse(&words, at(NOW)).unwrap();
    let page = scene.query(at(NOW)).unmatched(scene.id(), &request).await.unwrap();
    let row = |one: &query::UnmatchedOutcome| {
        (UnmatchedRow { segment: one.place.segment(scene.id()), row: one.place.row }, one.state)
    };
    page.outcomes.iter().rev().map(row).collect()
}

/// Past outcomes of `k0`, in the order of their arrival: the day, and the standing.
async fn history(scene: &Scene) -> Vec<String> {
    let [from, to] = ["2026-06-01", "2026-06-30"].map(|day| day.parse().ok());
    let params = HistoryParams { key: "k0".into(), from, to };
    let query = scene.query(at("2026-06-10T00:00:00Z"));
    let past = query.outcome_history(scene.id(), &params).await.unwrap();
    assert_eq!(past.warnings, [""; 0]);
    let standing = |one: &PastOutcome| json!(one.standing).as_str().unwrap().to_owned();
    past.outcomes.iter().map(|one| format!("{} {}", one.day, standing(one))).collect()
}

const SETTLED_ANEW: [&str; 3] = ["2026-06-02 retracted", "2026-06-02 retracts", "2026-06-03 counts"];

async fn rematched_outcome_shows_it_in_history(new: Scene) {
    let scene = scene(new).await;
    assert_eq!(history(&scene).await, ["2026-06-02 counts"]);
    let (row, state) = rows(&scene).await.remove(0);
    assert_eq!(state, UnmatchedState::Appended);
    let ingest = scene.ingest(at(NOW));
    let judged = ingest.rematch(&*scene.table, &scene.workspace, std::slice::from_ref(&row)).await.unwrap();
    assert_eq!(judged, [at("2026-06-02T01:00:00Z")]);
    assert_eq!(history(&scene).await, SETTLED_ANEW[..2], "it waits");
    assert_eq!(rows(&scene).await[0].1, UnmatchedState::Waiting);
    assert_eq!(resolved(&scene, "2026-06-07T11:00:00Z").await, counts(1, 0, 0));
    assert_eq!(history(&scene).await, SETTLED_ANEW);
    // A repeated request changes nothing.
    ingest.rematch(&*scene.table, &scene.workspace, &[row]).await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-07T12:00:00Z").await, counts(0, 0, 0));
    assert_eq!(history(&scene).await, SETTLED_ANEW);
    scene.assert_verified().await;
}

async fn it_is_settled_anew_once_whatever_dies(new: Scene) {
    let scene = scene(new).await;
    let (row, _) = rows(&scene).await.remove(0);
    let mut deaths = 0;
    loop {
        let dying: Arc<dyn Table> = Arc::new(Crashing::new(Arc::clone(&scene.table), deaths));
        let now = at(NOW).plus_seconds(i64::from(deaths));
        let ingest = Ingest::replaying(Arc::clone(&dying), Clock::from_fn(move || now));
        match ingest.rematch(&*dying, &scene.workspace, std::slice::from_ref(&row)).await {
            Ok(judged) => {
                assert_eq!(judged, [Timestamp::parse("2026-06-02T01:00:00Z").unwrap()]);
                break;
            }
            Err(error) => assert!(error.to_string().contains("dead"), "{error}"),
        }
        deaths += 1;
        assert!(deaths < 40, "{deaths} deaths");
    }
    assert!(deaths >= 2, "{deaths} deaths");
    assert_eq!(rows(&scene).await.len(), 2, "it waits once");
    assert_eq!(resolved(&scene, "2026-06-07T11:00:00Z").await, counts(1, 0, 0));
    assert_eq!(history(&scene).await, SETTLED_ANEW);
    scene.assert_verified().await;
}

async fn what_is_not_settled_is_not_settled_anew(new: Scene) {
    let scene = scene(new).await;
    observe(&scene, vec![outcome("k0", "2026-05-30T00:00:00Z", "1")], None, NOW).await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-07T11:00:00Z").await, counts(0, 0, 1));
    let waits: Vec<_> =
        rows(&scene).await.into_iter().filter(|(_, state)| *state == UnmatchedState::Waiting).collect();
    let refused = scene.ingest(at(NOW)).rematch(&*scene.table, &scene.workspace, &[waits[0].0.clone()]).await;
    assert!(refused.unwrap_err().to_string().contains("it is not decided"));
    let nowhere = UnmatchedRow { row: 7, ..rows(&scene).await.remove(1).0 };
    assert!(scene.ingest(at(NOW)).rematch(&*scene.table, &scene.workspace, &[nowhere]).await.is_err());
    assert_eq!(history(&scene).await, ["2026-06-02 counts"]);
}

/// All outcomes of a key: decided ones are settled again, waiting ones are left alone, and a key without outcomes gives nothing.
async fn the_outcomes_of_a_key_are_settled_anew(new: Scene) {
    new.world.set_lanes(new.id(), 4).await;
    let scene = scene(new).await;
    observe(&scene, vec![outcome("k0", "2026-05-30T00:00:00Z", "1")], None, NOW).await.unwrap();
    assert_eq!(resolved(&scene, "2026-06-07T11:00:00Z").await, counts(0, 0, 1));
    let rematch = async |key: &str, observed_at: Option<&str>| {
        let of = Rematching::parse((key, observed_at), (None, None), at(NOW)).unwrap();
        let all = scene.ingest(at(NOW)).rematch_key(&scene.workspace, &of).await.unwrap();
        all.into_iter().map(|one| (one.observed_at.to_string(), one.became)).collect::<Vec<_>>()
    };
    let again = Became::Again(vec![at("2026-06-02T01:00:00Z")]);
    let all = [("2026-05-30T00:00:00Z".to_owned(), Became::Waiting), (OBSERVED.to_owned(), again)];
    assert_eq!(rematch("k0", None).await, all);
    assert_eq!(rematch("k1", None).await, []);
    // It waits by now.
    assert_eq!(rematch("k0", Some(OBSERVED)).await, [(OBSERVED.to_owned(), Became::Waiting)]);
    assert_eq!(resolved(&scene, "2026-06-07T12:00:00Z").await, counts(1, 0, 1));
    assert_eq!(history(&scene).await, SETTLED_ANEW);
    assert!(Rematching::parse(("k0", None), (Some("June"), None), at(NOW)).is_err());
    let ever = (Some("0001-01-01"), Some("9999-12-31"));
    let long = Rematching::parse(("k0", None), ever, at(NOW)).unwrap_err().to_string();
    assert!(long.contains("longer than 3660 days"), "{long}");
    scene.assert_verified().await;
}
