//! Grouping statements agree with those over rows: polars groups rows that segments have grouped before.

use event::Kind;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{Scene, csv},
};

use super::ask;

on_both_engines!(
    Scene::on:
    groups_of_segments_answer_what_rows_do,
    groups_of_no_rows_are_none,
);

/// Selected columns, and their grouping.
const STATEMENTS: &[(&str, &str)] = &[
    ("release, count(*) n, sum(score), avg(score)", "group by release"),
    (
        "day, release, min(score), max(score), count(score), count(label)",
        "group by day, release order by day desc, release",
    ),
    ("count(*), avg(value), sum(value), min(predicted_at), max(predicted_at), count(lower)", ""),
    ("tag.city, label, count(*), avg(value)", "group by tag.city, label"),
    ("distinct tag.city, release", ""),
    (
        "date_trunc('month', day) as month, upper(tag.city) as city, count(*)",
        "group by month, city order by city",
    ),
    ("release, count(distinct tag.city) c, max(day), min(label)", "group by release having count(*) > 3"),
    ("release, round(avg(score) * 4) / count(*) + 1 as x", "group by release order by x, release limit 2"),
    ("day, count(*)", "group by day having day > '2026-06-01' and max(score) > 0.25"),
];

/// Conditions on rows. The days are always given.
const CONDITIONS: &[&str] = &[
    "",
    "and release = 'v2'",
    "and (tag.city = 'Ulm' or label is null)",
    "and day <> '2026-06-02' and release in ('v1', 'v3')",
];

const WINDOW: &str = "day between '2026-06-01' and '2026-06-03'";

/// All columns that statements use. Sums of eighths are exact in any order.
const COLUMNS: &str = "day, release, label, score, value, lower, predicted_at, tag.city";

fn prediction() -> impl Strategy<Value = Value> {
    let eighths = || prop::option::of((0_u32..=8).prop_map(|n| f64::from(n) / 8.0));
    let text = |of: &'static [&'static str]| prop::option::of(prop::sample::select(of));
    (1_u32..=3, 0_u32..24, 1_u32..=3, eighths(), eighths(), text(&["a", "b"]), text(&["Ulm", "Bern", "Köln"]))
        .prop_map(|(day, hour, release, score, value, label, city)| {
            let mut event = json!({
                "key": format!("k{day}{hour}"),
                "predicted_at": format!("2026-06-{day:02}T{hour:02}:00:00Z"),
                "release": format!("v{release}"),
                // One of these must be present.
                "score": score.unwrap_or(0.5),
            });
            if let Some(value) = value {
                event["value"] = json!(value);
            }
            if let Some(label) = label {
                event["label"] = json!(label);
            }
            if let Some(city) = city {
                event["tags"] = json!({ "city": city });
            }
            event
        })
}

async fn groups_of_segments_answer_what_rows_do(scene: Scene) {
    scene.register("v3", "m").await.unwrap();
    let mut runner = TestRunner::deterministic();
    // Segments of one row and of many, on three days; one of them has each column, since an unknown member is an error.
    let whole = json!([{
        "key": "k", "predicted_at": "2026-06-01T00:00:00Z", "release": "v1", "score": 0.25, "value": 3.5, "lower": 1.0,
        "upper": 4.0, "label": "a", "tags": { "city": "Ulm" },
    }]);
    scene.append(Kind::Predictions, whole, "2026-06-04T12:00:00Z").await.unwrap();
    for rows in [1, 30, 2, 200] {
        let batch = prop::collection::vec(prediction(), rows).new_tree(&mut runner).unwrap().current();
        scene.append(Kind::Predictions, Value::from(batch), "2026-06-04T12:00:00Z").await.unwrap();
    }
    for (select, rest) in STATEMENTS {
        for condition in CONDITIONS {
            let of_groups = format!("select {select} from predictions where {WINDOW} {condition} {rest}");
            // No segment groups the rows of a subquery.
            let of_rows = format!(
                "select {select} from (select {COLUMNS} from predictions where {WINDOW}) p where {WINDOW} {condition} {rest}"
            );
            let (of_groups, of_rows) = (ask(&scene, &of_groups).await, ask(&scene, &of_rows).await);
            assert_eq!(csv(of_groups.unwrap()), csv(of_rows.unwrap()), "{select} {condition} {rest}");
        }
    }
}

async fn groups_of_no_rows_are_none(scene: Scene) {
    let of = |day: &str| {
        format!(
            "select count(*) n, sum(score) s, avg(score) m, max(predicted_at) t from predictions where day = '{day}'"
        )
    };
    let by = "select release, count(*) n from predictions where day = '2026-06-05' group by release";
    assert_eq!(csv(ask(&scene, &of("2026-06-01")).await.unwrap()), "n,s,m,t\n0,,,\n");
    super::filled(&scene).await;
    assert_eq!(csv(ask(&scene, &of("2026-06-05")).await.unwrap()), "n,s,m,t\n0,,,\n");
    assert_eq!(csv(ask(&scene, by).await.unwrap()), "release,n\n");
    let unknown = "select tag.town, count(*) from predictions where day = '2026-06-01' group by tag.town";
    let refused = ask(&scene, unknown).await.unwrap_err();
    assert!(refused.to_string().contains("no event of the window has the tag `tag.town`"), "{refused}");
}
