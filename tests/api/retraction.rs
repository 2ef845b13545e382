//! Retracted events: metrics, joined rows and answers about the past, statements, and the audit log. Each on a SQLite file and
//! on DynamoDB Local.

use event::{Kind, fields::RETRACTED};
use log::key::AuditLog;
use query::{
    AuditParams, AuditRequest, Dataset, HistoryParams, Params, PastStanding, Request, Sql, SqlParams,
};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    retracted_events_count_nowhere_until_resent,
    fully_retracted_release_has_no_row,
    statements_and_conditions_see_what_is_retracted,
    key_history_marks_retractions_that_change_nothing,
    the_audit_log_says_who_took_what_back,
);

const DAY: &str = "2026-06-01";

/// Instants of the appends; the past is read between them.
const SENT: &str = "2026-06-04T12:00:00Z";
const TAKEN_BACK: &str = "2026-06-05T12:00:00Z";
const AGAIN: &str = "2026-06-06T12:00:00Z";

fn outcome(key: &str, label: Option<&str>) -> Value {
    let mut event = json!({ "key": key, "predicted_on": DAY, "observed_at": format!("{DAY}T02:00:00Z") });
    match label {
        Some(label) => event["label"] = label.into(),
        None => (event["retracted"], event["reason"]) = (true.into(), "another customer".into()),
    }
    event
}

fn retracted_prediction(key: &str, release: &str) -> Value {
    json!({ "key": key, "predicted_at": format!("{DAY}T01:00:00Z"), "release": release, "retracted": "true", "reason": "a test" })
}

/// Three predictions of a release, and outcomes of which every other one is positive.
async fn filled(scene: &Scene) {
    scene.predict_many(DAY, "v1", 3, SENT).await;
    scene.observe_many(DAY, "1", 3, SENT).await;
}

async fn rows(scene: &Scene, what: Dataset, columns: &str, as_of: Option<&str>) -> String {
    let words = Params { from: DAY, to: DAY, columns: Some(columns), as_of, ..Params::default() };
    let request = Request::parse(what, &words).unwrap();
    let text = csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap());
    text.lines().skip(1).collect::<Vec<_>>().join(" | ")
}

/// Stored metrics, which must equal those of the events.
async fn metrics(scene: &Scene) -> String {
    const METRICS: &str = "release,predictions,repeated,labelled,positives,orphaned,accuracy";
    scene.project().await;
    scene.assert_verified().await;
    let stored = rows(scene, Dataset::Evaluations, METRICS, None).await;
    assert_eq!(rows(scene, Dataset::Evaluations, METRICS, Some(NOW)).await, stored);
    stored
}

async fn retracted_events_count_nowhere_until_resent(scene: Scene) {
    const JOINED: &str = "key,outcome_label";
    filled(&scene).await;
    let before = metrics(&scene).await;
    assert_eq!(before, "v1,3,0,3,2,0,0.3333333333333333");
    // An outcome and a prediction.
    scene.append(Kind::Outcomes, json!([outcome("k0", None)]), TAKEN_BACK).await.unwrap();
    assert_eq!(metrics(&scene).await, "v1,3,0,2,1,0,0.5");
    scene.append(Kind::Predictions, json!([retracted_prediction("k1", "v1")]), TAKEN_BACK).await.unwrap();
    let without = metrics(&scene).await;
    assert_eq!(without, "v1,2,0,1,1,1,0.0", "the outcome of k1 fits nothing");
    assert_eq!(rows(&scene, Dataset::Joined, JOINED, None).await, "k0, | k2,1");
    // Both again.
    scene.append(Kind::Outcomes, json!([outcome("k0", Some("other"))]), AGAIN).await.unwrap();
    let again =
        json!([{ "key": "k1", "predicted_at": format!("{DAY}T01:00:00Z"), "release": "v1", "score": 0.25 }]);
    scene.append(Kind::Predictions, again, AGAIN).await.unwrap();
    assert_eq!(metrics(&scene).await, "v1,3,0,3,1,0,0.6666666666666666");
    let now = rows(&scene, Dataset::Joined, JOINED, None).await;
    assert_eq!(now, "k0,other | k2,1 | k1,other");
    // Answers as of earlier instants are unchanged.
    let then = async |as_of| rows(&scene, Dataset::Joined, JOINED, Some(as_of)).await;
    assert_eq!(then("2026-06-05T00:00:00Z").await, "k0,1 | k1,other | k2,1");
    assert_eq!(then("2026-06-06T00:00:00Z").await, "k0, | k2,1");
    assert_eq!(then("2026-06-07T00:00:00Z").await, now);
    for (as_of, predictions) in
        [("2026-06-05T00:00:00Z", 3), ("2026-06-06T00:00:00Z", 2), ("2026-06-07T00:00:00Z", 3)]
    {
        let found = rows(&scene, Dataset::Evaluations, "predictions", Some(as_of)).await;
        assert_eq!(found, predictions.to_string(), "{as_of}");
    }
    // Rollups and counters count all appended events.
    assert_eq!(
        rows(&scene, Dataset::Rollups, "predictions,outcomes", None).await.split(" | ").next(),
        Some("5,5")
    );
}

async fn fully_retracted_release_has_no_row(scene: Scene) {
    filled(&scene).await;
    scene.predict_many(DAY, "v2", 2, SENT).await;
    assert!(metrics(&scene).await.contains("v2,2,0,2,"));
    let all = json!([retracted_prediction("k0", "v2"), retracted_prediction("k1", "v2")]);
    scene.append(Kind::Predictions, all, TAKEN_BACK).await.unwrap();
    assert_eq!(metrics(&scene).await, "v1,3,0,3,2,0,0.3333333333333333");
}

async fn statements_and_conditions_see_what_is_retracted(scene: Scene) {
    filled(&scene).await;
    scene.append(Kind::Outcomes, json!([outcome("k0", None)]), TAKEN_BACK).await.unwrap();
    let ask = async |statement: &str| {
        let sql = Sql::parse(&SqlParams { statement, ..SqlParams::default() }).unwrap();
        scene.query(at(NOW)).sql(scene.id(), &sql).await.map(csv)
    };
    let of_day = format!("day = '{DAY}'");
    let taken = ask(&format!("select key, reason from outcomes where {of_day} and retracted = 'true'")).await;
    assert_eq!(taken.unwrap(), "key,reason\nk0,another customer\n");
    let judged = ask(&format!("select count(outcome_label) as n from joined where {of_day}")).await;
    assert_eq!(judged.unwrap(), "n\n2\n");
    // Joined rows contain only valid events.
    let error = ask(&format!("select {RETRACTED} from joined where {of_day}")).await.unwrap_err();
    assert!(error.to_string().contains("retracted"), "{error}");
    let words = Params { from: DAY, to: DAY, columns: Some("key,reason"), ..Params::default() };
    let request = Request::parse(Dataset::Joined, &words).unwrap();
    let error = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap_err().to_string();
    assert!(error.starts_with("there is no column `reason`; there are day, outcome_label,"), "{error}");
    assert!(!error.contains(RETRACTED), "{error}");
    // Past outcomes of a key, in order.
    let words = Params { columns: Some("label,retracted,reason"), key: Some("k0"), ..words };
    let request = Request::parse(Dataset::Events(Kind::Outcomes), &words).unwrap();
    let history = csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap());
    assert_eq!(history, "label,retracted,reason\n1,,\n,true,another customer\n");
    let words = Params { filter: Some("retracted is null"), key: None, columns: Some("key"), ..words };
    let request = Request::parse(Dataset::Events(Kind::Outcomes), &words).unwrap();
    let kept = csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap());
    assert_eq!(kept, "key\nk0\nk1\nk2\n");
}

async fn key_history_marks_retractions_that_change_nothing(scene: Scene) {
    filled(&scene).await;
    let mut never_sent = outcome("k0", None);
    never_sent["observed_at"] = format!("{DAY}T02:00:01Z").into();
    scene.append(Kind::Outcomes, json!([never_sent]), TAKEN_BACK).await.unwrap();
    scene.append(Kind::Outcomes, json!([outcome("k0", None)]), AGAIN).await.unwrap();
    let words = HistoryParams { key: "k0".into(), from: DAY.parse().ok(), to: DAY.parse().ok() };
    let past = scene.query(at(NOW)).outcome_history(scene.id(), &words).await.unwrap().outcomes;
    let standings: Vec<_> = past.iter().map(|one| one.standing).collect();
    assert_eq!(standings, [PastStanding::Retracted, PastStanding::RetractsNothing, PastStanding::Retracts]);
}

async fn the_audit_log_says_who_took_what_back(scene: Scene) {
    filled(&scene).await;
    let two = json!([outcome("k0", None), outcome("k7", Some("1")), outcome("k1", None)]);
    scene.append(Kind::Outcomes, two, TAKEN_BACK).await.unwrap();
    let days =
        || AuditParams { from: DAY.parse().ok(), to: "2026-06-10".parse().ok(), ..AuditParams::default() };
    let asked = async |words: AuditParams| {
        let request = AuditRequest::parse(&words, at(NOW)).unwrap();
        let (answer, next) =
            scene.query(at(NOW)).audit(&AuditLog::Workspace(scene.id().clone()), &request).await.unwrap();
        let text = csv(answer);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let at = |name: &str| header.iter().position(|known| *known == name).unwrap();
        let (action, name) = (at("action"), at("name"));
        let rows = lines.map(|row| format!("{} {}", row[action], row[name])).collect::<Vec<_>>();
        (rows, next, text)
    };
    let (rows, _, text) = asked(AuditParams { action: Some("retract".into()), ..days() }).await;
    assert_eq!(rows, ["retract.outcomes k0", "retract.outcomes k1"]);
    assert!(text.contains("another customer") && text.contains("2026-06-01T02:00:00Z"), "{text}");
    let (rows, ..) = asked(AuditParams { action: Some("retract.predictions".into()), ..days() }).await;
    assert!(rows.is_empty(), "{rows:?}");
    // After the row of their batch, page by page.
    let (mut rows, ..) = asked(days()).await;
    assert!(
        rows.ends_with(&["append.outcomes ", "retract.outcomes k0", "retract.outcomes k1"].map(String::from)),
        "{rows:?}"
    );
    for order in ["oldest", "newest"] {
        for limit in 1..4 {
            let (mut paged, mut after) = (Vec::new(), None::<String>);
            loop {
                let order = Some(order.to_owned());
                let page = AuditParams { limit: Some(limit), after, order, ..days() };
                let (rows, next, _) = asked(page).await;
                paged.extend(rows);
                let Some(next) = next else { break };
                after = Some(next);
            }
            assert_eq!(paged, rows, "{order} {limit}");
        }
        rows.reverse();
    }
    let (changed, ..) =
        asked(AuditParams { to: DAY.parse().ok(), order: Some("newest".into()), ..days() }).await;
    let (same, ..) = asked(AuditParams { to: DAY.parse().ok(), ..days() }).await;
    assert!(changed.iter().rev().eq(&same), "{changed:?} {same:?}");
}
