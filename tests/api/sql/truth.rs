//! Conditions hold of the rows of which SQL says so, of which values are missing too; in statements and in conditions of queries.

use event::Kind;
use query::{Dataset, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

use super::ask;

on_both_engines!(Scene::on: conditions_hold_where_sql_says_so);

/// Four predictions on each of two days; those of k2 and k4 have no value.
async fn with_missing_values(scene: &Scene) {
    for day in ["2026-06-01", "2026-06-02"] {
        let prediction = |n: u32| {
            let mut event = json!({
                "key": format!("k{n}"), "predicted_at": format!("{day}T{:02}:00:00Z", 5 * n),
                "release": "v1", "score": f64::from(n) / 4.0,
            });
            if !n.is_multiple_of(2) {
                event["value"] = json!(f64::from(n));
            }
            event
        };
        scene
            .append(Kind::Predictions, (1..=4).map(prediction).collect(), "2026-06-04T12:00:00Z")
            .await
            .unwrap();
    }
}

/// The rows for which a condition holds, of a statement and of a query: `1 k2` is k2 of the first day.
async fn rows_of(scene: &Scene, condition: &str) -> [String; 2] {
    let (from, to) = ("2026-06-01", "2026-06-02");
    let statement = format!(
        "select day, key from predictions where day between '{from}' and '{to}' and ({condition}) order by day, key"
    );
    let answer = ask(scene, &statement).await.unwrap_or_else(|error| panic!("{condition}: {error}"));
    let words = Params { from, to, columns: Some("day,key"), filter: Some(condition), ..Params::default() };
    let request = Request::parse(Dataset::Events(Kind::Predictions), &words).unwrap();
    let of_query = scene.query(at(NOW)).run(scene.id(), &request).await;
    let of_query = of_query.unwrap_or_else(|error| panic!("--where {condition}: {error}"));
    let in_short = |text: String| {
        let rows = text.lines().skip(1).map(|line| line["2026-06-0".len()..].replace(',', " "));
        rows.collect::<Vec<_>>().join(", ")
    };
    [in_short(csv(answer)), in_short(csv(of_query))]
}

async fn conditions_hold_where_sql_says_so(scene: Scene) {
    with_missing_values(&scene).await;
    for (condition, expected) in [
        ("day = '2026-06-01' and (value is distinct from 1) and score > 0.5", "1 k3, 1 k4"),
        ("(value is not distinct from 3) and day = '2026-06-02' or score < 0.3", "1 k1, 2 k1, 2 k3"),
        ("(day is not distinct from '2026-06-02') and score > 0.9", "2 k4"),
        ("not (value is distinct from 1) and day = '2026-06-01'", "1 k1"),
        ("(value > 2) is true and day = '2026-06-01'", "1 k3"),
        ("(value > 2) is not true and day = '2026-06-01'", "1 k1, 1 k2, 1 k4"),
        ("not ((value > 2) is true) and day = '2026-06-01'", "1 k1, 1 k2, 1 k4"),
        ("(value > 2) is false and day = '2026-06-01'", "1 k1"),
        ("(value > 2) is not false and day = '2026-06-01'", "1 k2, 1 k3, 1 k4"),
        ("(value > 2) is unknown and day = '2026-06-01'", "1 k2, 1 k4"),
        ("(value > 2) is not unknown and day = '2026-06-01'", "1 k1, 1 k3"),
        ("predicted_at >= day + interval '14 hours' and day = '2026-06-01'", "1 k3, 1 k4"),
        ("predicted_at < interval '12 hours' + day and day = '2026-06-01'", "1 k1, 1 k2"),
        (
            "predicted_at between day + interval '9 hours' and day + interval '960 minutes' and day = '2026-06-01'",
            "1 k2, 1 k3",
        ),
        (
            "predicted_at - interval '1 hour' >= day + interval '14 hours' and day = '2026-06-02'",
            "2 k3, 2 k4",
        ),
        ("day in ('2026-06-02', null)", "2 k1, 2 k2, 2 k3, 2 k4"),
        ("day in (null, '2026-06-01', '2026-05-31') and score > 0.5", "1 k3, 1 k4"),
        ("day not in ('2026-06-02', null)", ""),
        ("predicted_at in ('2026-06-01T05:00:00Z', null) and day = '2026-06-01'", "1 k1"),
        ("value in (3, null) and day = '2026-06-01'", "1 k3"),
        ("value not in (3, null) and day = '2026-06-01'", ""),
        ("cast(score as text) = '0.5' and day = '2026-06-01'", "1 k2"),
    ] {
        assert_eq!(rows_of(&scene, condition).await, [expected; 2], "{condition}");
    }
}
