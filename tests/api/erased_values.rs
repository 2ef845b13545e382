//! Keys erased together with their predicted, observed and measured values: events stay without content, and metrics are
//! recomputed. Each on a SQLite file and on DynamoDB Local.

use event::Kind;
use fold::Evaluation;
use log::{
    active,
    evaluated::{self, At},
    vintage,
};
use query::{Dataset, Params};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene},
    world::at,
};

use crate::erasure::{DAYS, KEY, SENT, assert_gone, begin_of, carry, erase, filled, rows};

on_both_engines!(
    Scene::on:
    erasing_values_keeps_events_and_recomputes_metrics,
    erasing_values_rebuilds_vintages_from_events,
    an_erasure_of_values_is_not_one_without,
);

async fn erased_with_values(scene: &Scene) -> catalog::Erasure {
    let begun = begin_of(scene, &[KEY], true).await.unwrap();
    carry(&scene.table, &begun).await.unwrap()
}

async fn column(scene: &Scene, what: Dataset, columns: &str) -> Vec<String> {
    let answer = rows(scene, what, Params { columns: Some(columns), ..Params::default() }).await;
    answer.lines().skip(1).map(str::to_owned).collect()
}

async fn erasing_values_keeps_events_and_recomputes_metrics(scene: Scene) {
    filled(&scene).await;
    let counts = "day,release,predictions,orphaned,repeated";
    let before = column(&scene, Dataset::Evaluations, counts).await;
    let (judged, rollup_vintage) =
        ("day,release,labelled", "day,predictions,metrics,outcomes,score_null_rate");
    assert_eq!(column(&scene, Dataset::Evaluations, judged).await[0], "2026-06-01,v1,12");
    let was = column(&scene, Dataset::Rollups, rollup_vintage).await;
    let done = erased_with_values(&scene).await;
    assert!(done.with_values && done.rows == 11, "{done:?}");
    assert_gone(&scene).await;
    // All events are counted as before; each release and day has one without content.
    assert_eq!(column(&scene, Dataset::Evaluations, counts).await, before);
    assert_eq!(column(&scene, Dataset::Evaluations, judged).await[0], "2026-06-01,v1,11");
    let is = column(&scene, Dataset::Rollups, rollup_vintage).await;
    let numbers = |line: &String| -> Vec<f64> {
        line.split(',').skip(1).map(|number| number.parse().unwrap_or_default()).collect()
    };
    for (was, is) in was.iter().map(numbers).zip(is.iter().map(numbers)) {
        assert_eq!(was[..3], is[..3], "counts of events stay");
        assert!(was[3] < is[3], "scores of the key are gone: {was:?} {is:?}");
    }
    let pseudonym = done.pseudonyms[0].as_str();
    let of = async |kind, columns| {
        let words = Params { key: Some(pseudonym), columns: Some(columns), ..Params::default() };
        rows(&scene, Dataset::Events(kind), words).await
    };
    for (kind, columns, left) in
        [(Kind::Predictions, "key,score,label,value", ",,,"), (Kind::Outcomes, "key,label,value", ",,")]
    {
        let events = of(kind, columns).await;
        assert!(events.lines().count() > 3, "{events}");
        assert!(events.lines().skip(1).all(|line| line == format!("{pseudonym}{left}")), "{events}");
    }
    let metrics = of(Kind::Metrics, "name,value").await;
    assert_eq!(metrics.lines().nth(1), Some("satisfaction,NaN"), "{metrics}");
    // Stored metrics equal those of the events.
    for what in [Dataset::Evaluations, Dataset::Classes] {
        let of = async |as_of| rows(&scene, what, Params { as_of, ..Params::default() }).await;
        assert_eq!(of(None).await, of(Some(NOW)).await);
    }
}

async fn erasing_values_rebuilds_vintages_from_events(scene: Scene) {
    filled(&scene).await;
    assert!(scene.keep_vintages(at(NOW)).await.vintages > 0);
    let day = DAYS[0].parse().unwrap();
    let last = async || {
        let vintages = vintage::between(&*scene.table, scene.id(), day, day).await.unwrap();
        let version = active::load(&*scene.table, scene.id()).await.unwrap().version;
        let of = At { workspace: scene.id(), version, day };
        let (_, stored) = evaluated::load_plain(&*scene.table, of).await.unwrap().unwrap();
        let (_, vintage) = vintages[&day].last_key_value().unwrap();
        (vintage.states.clone(), stored)
    };
    let (before, stored) = last().await;
    assert_eq!(before, stored, "nothing has come since");
    let judged = |states: &[String]| -> Vec<u64> {
        let Ok(evaluation) = Evaluation::from_states(states) else { return Vec::new() };
        evaluation.releases.values().map(|release| release.judged()).collect()
    };
    erased_with_values(&scene).await;
    let (after, stored) = last().await;
    assert_eq!(after, stored, "it is of the events as they are now");
    assert_ne!(after, before);
    assert_eq!((judged(&before), judged(&after)), (vec![12, 12], vec![11, 11]));
    scene.assert_verified().await;
}

async fn an_erasure_of_values_is_not_one_without(scene: Scene) {
    filled(&scene).await;
    let begun = begin_of(&scene, &[KEY], true).await.unwrap();
    let refused = begin_of(&scene, &[KEY], false).await.unwrap_err();
    assert!(refused.is_conflict() && refused.to_string().contains("with their values"), "{refused}");
    assert_eq!(begin_of(&scene, &[KEY], true).await.unwrap().id, begun.id);
    carry(&scene.table, &begun).await.unwrap();
    // A metric without a key keeps its value, and a key erased without values keeps its values.
    let metric = json!([{ "name": "size", "measured_at": SENT, "value": 4.5 }]);
    scene.append(Kind::Metrics, metric, SENT).await.unwrap();
    scene.project().await;
    let done = erase(&scene, &["person-0001"]).await;
    assert!(!done.with_values && done.rows > 0);
    let words = Params { key: Some(&done.pseudonyms[0]), columns: Some("score"), ..Params::default() };
    let scores = rows(&scene, Dataset::Events(Kind::Predictions), words).await;
    assert!(scores.lines().skip(1).all(|score| score.parse::<f64>().is_ok()), "{scores}");
}
