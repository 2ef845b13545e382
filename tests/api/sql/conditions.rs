//! Conditions on days select the days that are read; other conditions are computed once.

use event::{ErrorKind, Kind};
use query::{Bounds, Dataset, Params, Request, Sql};
use serde_json::json;
use tests::{
    engine::Engine,
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

use super::{ask, filled, sql};

on_both_engines!(
    Scene::on:
    pushed_down_conditions_equal_full_filtering,
    days_before_1970_are_found_by_conditions,
);

/// An error names a text that is no day, or no instant, compared with a column of days or instants.
#[tokio::test]
async fn a_mistyped_day_is_named() {
    let scene = Scene::on(Engine::Sqlite).await;
    filled(&scene).await;
    let no_day = |day: &str| format!("`{day}` is not a day of the calendar, written YYYY-MM-DD");
    let no_time = |at: &str| format!("`{at}` is not a time such as 2013-06-01T04:30:00Z");
    for (condition, says) in [
        ("day between '2024-02-28' and '2024-02-30'", no_day("2024-02-30")),
        ("day >= '2026-11-31'", no_day("2026-11-31")),
        ("'2026-13-01' < day", no_day("2026-13-01")),
        ("day in ('2026-06-01', '2026-06-31')", no_day("2026-06-31")),
        ("day = '2026-06'", no_day("2026-06")),
        ("day = '2026-06-01' and predicted_at > '2026-11-10T25:00:00Z'", no_time("2026-11-10T25:00:00Z")),
        ("day = '2026-06-01' and predicted_at > 'noon'", no_time("noon")),
        ("day = '2026-06-01' and date_trunc('day', predicted_at) = '2026-06-31'", no_day("2026-06-31")),
    ] {
        let refused =
            ask(&scene, &format!("select key from predictions where {condition}")).await.unwrap_err();
        assert!(refused.to_string().starts_with(&format!("sql: {says}")), "{condition}: {refused}");
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{condition}");
        let words =
            Params { from: "2026-06-01", to: "2026-06-01", filter: Some(condition), ..Params::default() };
        let request = Request::parse(Dataset::Events(Kind::Predictions), &words).unwrap();
        let refused = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap_err();
        assert!(refused.to_string().starts_with(&format!("where: {says}")), "{condition}: {refused}");
    }
    // A tag may have the name `day`, and so may a column of the statement; both are texts.
    let tagged = json!([{ "key": "k9", "predicted_at": "2026-06-04T01:00:00Z", "release": "v1", "score": 0.5, "tags": { "day": "Monday" } }]);
    scene.append(Kind::Predictions, tagged, "2026-06-04T12:00:00Z").await.unwrap();
    let first = "predictions where day = '2026-06-01'";
    for (statement, rows) in [
        (
            "select key from predictions where day = '2026-06-04' and tag.day = 'Monday'".to_owned(),
            "key\nk9\n",
        ),
        (
            "select p.key as k from predictions p where p.day = '2026-06-04' and p.tag.day <> '2026-06-31'"
                .to_owned(),
            "k\nk9\n",
        ),
        (
            format!(
                "with m as (select substr(cast(day as text), 1, 7) as day from {first}) select count(*) as n from m where day = '2026-06'"
            ),
            "n\n4\n",
        ),
        (
            format!("select count(*) as n from (select release from {first}) m(day) where day = 'v1'"),
            "n\n2\n",
        ),
        (
            format!(
                "select count(*) as n from (select * replace (release as day) from {first}) m where day = 'v1'"
            ),
            "n\n2\n",
        ),
    ] {
        let answer = ask(&scene, &statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(csv(answer), rows, "{statement}");
    }
}

/// Imported histories may be old.
async fn days_before_1970_are_found_by_conditions(scene: Scene) {
    let days = ["1961-01-01", "1962-04-15", "1969-12-31", "1970-01-01"];
    for day in days {
        let row = json!([{ "key": "a", "predicted_at": format!("{day}T01:00:00Z"), "release": "v1", "score": 0.5 }]);
        scene.append(Kind::Predictions, row, "2026-06-04T12:00:00Z").await.unwrap();
    }
    for (condition, found) in [
        ("day < '1975-01-01'", &days[..]),
        ("day <= '1969-12-31'", &days[..3]),
        ("day between '1962-01-01' and '1962-12-31'", &days[1..2]),
        ("day <> '1970-01-01' and day > '1961-01-01'", &days[1..3]),
    ] {
        let statement = format!("select day from predictions where {condition} order by day");
        let answer = csv(ask(&scene, &statement).await.unwrap());
        assert_eq!(answer.lines().skip(1).collect::<Vec<_>>(), found, "{condition}");
    }
    // A promotion decades later does not make the history longer.
    let promotion = json!([{ "release": "v1", "model": "m", "released_at": "2026-06-04T11:00:00Z", "action": "promote",
        "environment": "production" }]);
    scene.append(Kind::Releases, promotion, "2026-06-04T12:00:00Z").await.unwrap();
    let all = Sql { all_days: true, ..sql("select count(*) as n from predictions") };
    assert_eq!(csv(scene.query(at(NOW)).sql(scene.id(), &all).await.unwrap()), "n\n4\n");
    // Polars panics on this, which is no reason to ask again.
    let words = Params {
        from: days[0],
        to: days[0],
        filter: Some("predicted_at + interval '999999 years' > predicted_at"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::Events(Kind::Predictions), &words).unwrap();
    let refused = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}

/// An unreachable limit keeps polars from handing a condition down, so there it filters all rows by itself.
async fn pushed_down_conditions_equal_full_filtering(scene: Scene) {
    filled(&scene).await;
    let conditions = [
        "day = '2026-06-02'",
        "day in ('2026-06-01', '2026-06-03') and release = 'v2'",
        "day <> '2026-06-02' and day >= '2026-06-01'",
        "not (day = '2026-06-01') and day < '2026-06-04' and score > 0.3",
        "day > '2026-06-01' and (release = 'v1' or day = '2026-06-03')",
        "(day = '2026-06-01' and score > 0.4) or (day = '2026-06-03' and score < 0.4)",
        "(day = '2026-06-01' or day = '2026-06-02') and (day = '2026-06-02' or score < 0.3)",
        "extract(day from day) = 3 and day >= '2026-06-01' and key <> 'k1'",
        "day between '2026-06-01' and '2026-06-03' and extract(hour from predicted_at) = extract(day from day)",
        "day = '2026-06-01' and 1 = 0",
        "day = '2026-06-01' and day = '2026-06-02'",
    ];
    let all = |table: &str| {
        format!("(select * from {table} where day between '2026-06-01' and '2026-06-03' limit 1000) t")
    };
    let mut found = Vec::new();
    for condition in conditions {
        for table in ["predictions", "joined"] {
            let rows = |from: &str| {
                format!("select day, key, release, score from {from} where {condition} order by day, key")
            };
            let [read, filtered] = [rows(table), rows(&all(table))];
            let read = csv(ask(&scene, &read).await.unwrap_or_else(|error| panic!("{read}: {error}")));
            assert_eq!(read, csv(ask(&scene, &filtered).await.unwrap()), "{table} where {condition}");
            found.push(read.lines().count() - 1);
        }
    }
    assert!(found.contains(&0) && found.contains(&4) && found.contains(&8), "{found:?}");
    // For a table used twice, the days of both uses are read.
    let twice = "select a.day, b.day as other, a.key from predictions a join predictions b on a.key = b.key \
                 where a.day = '2026-06-01' and b.day = '2026-06-03' and b.release = 'v2' order by a.key";
    let twice = csv(ask(&scene, twice).await.unwrap());
    assert_eq!(twice, "day,other,key\n2026-06-01,2026-06-03,k3\n2026-06-01,2026-06-03,k4\n");
    let both = "select count(*) as n from predictions where day = '2026-06-01' union all \
                select count(*) from predictions where day >= '2026-06-02' and score > 0.8 and day < '2026-06-04'";
    assert_eq!(csv(ask(&scene, both).await.unwrap()), "n\n2\n4\n");
}

/// The size of a join is estimated from its sides, each by itself, with the conditions of that side alone.
#[tokio::test]
async fn join_size_is_counted_from_its_sides() {
    let scene = Scene::on(Engine::Sqlite).await;
    let keys = (0..2_000).map(|n| {
        json!({ "key": format!("k{n}"), "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5 })
    });
    scene.append(Kind::Predictions, keys.collect(), "2026-06-04T12:00:00Z").await.unwrap();
    let query = scene.query(at(NOW)).within(Bounds { memory: 8 * 1024 * 1024, ..Bounds::default() });
    let side =
        |key: &str| format!("(select key, release from predictions where day = '2026-06-01' and key {key})");
    for (one, other, rows) in
        [("= 'k1'", "<> 'k1'", 1_999), ("<> 'k1'", "= 'k1'", 1_999), ("= 'k1'", "= 'k1'", 1)]
    {
        let statement = format!(
            "select count(*) as n from {} a join {} b on a.release = b.release",
            side(one),
            side(other)
        );
        let answer = query
            .sql(scene.id(), &sql(&statement))
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(csv(answer), format!("n\n{rows}\n"), "{statement}");
    }
}
