//! Joins agree with SQL, or are refused with an alternative.

use event::ErrorKind;
use query::Sql;
use tests::{
    engine::Engine,
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

use super::{ask, filled, sql};

on_both_engines!(
    Scene::on:
    on_says_something_of_either_table,
    all_day_joins_need_not_name_day,
    in_subquery_chooses_by_days_of_both,
    what_is_shown_twice_is_shown_once,
);

/// Days of both tables.
const DAY: &str = "a.day = '2026-06-01' and b.day = '2026-06-01'";

/// Four keys a day; the last two are of release v2, and came true.
async fn on_says_something_of_either_table(scene: Scene) {
    filled(&scene).await;
    for (statement, rows) in [
        // Conditions on one table.
        (
            format!("select count(*) as n from predictions a join outcomes b on a.key = b.key and b.label = '1' where {DAY}"),
            "n\n2\n",
        ),
        (
            format!("select a.key as k from predictions a join predictions b on a.key = b.key and a.day = b.day and b.release = 'v2' where {DAY} order by k"),
            "k\nk3\nk4\n",
        ),
        (
            format!("select count(*) as n from predictions a join outcomes b on (b.key = a.key and (a.score > 0.75 or b.label = '0')) where {DAY}"),
            "n\n3\n",
        ),
        (
            "select count(*) as n from predictions a join outcomes b on a.key = b.key and a.day = '2026-06-01' and b.day = '2026-06-02'".to_owned(),
            "n\n4\n",
        ),
        // In a left join it selects the rows of the right table.
        (
            "select a.key as k, b.label as l from predictions a left join outcomes b on a.key = b.key and b.day = '2026-06-01' and b.label = '1' where a.day = '2026-06-01' order by k".to_owned(),
            "k,l\nk1,\nk2,\nk3,1\nk4,1\n",
        ),
        // Scores of four rows are 0.25, 0.5, 0.75 and 1, so six pairs rise.
        (
            format!("select count(*) as n from predictions a join predictions b on a.score < b.score where {DAY}"),
            "n\n6\n",
        ),
        (
            format!("select count(*) as n from predictions a join outcomes b on b.key = a.key join predictions c on c.key = b.key and c.day = '2026-06-02' and c.release <> a.label where {DAY}"),
            "n\n0\n",
        ),
        (
            format!("select count(*) as n from predictions a join outcomes b on b.key = a.key join predictions c on c.key = b.key and c.day = '2026-06-02' and c.release = a.release where {DAY}"),
            "n\n4\n",
        ),
        // Only keys whose score is at most 0.5.
        (
            format!("select count(*) as n from predictions a, predictions b where {DAY} and a.key = b.key and a.score - b.score >= a.score - 0.5"),
            "n\n2\n",
        ),
        (
            "select coalesce(p.key, o.key) as k, p.score as s from (select key, score from predictions where day = '2026-06-01' and key < 'k3') p right join (select key from outcomes where day = '2026-06-01') o using (key) order by k".to_owned(),
            "k,s\nk1,0.25\nk2,0.5\nk3,\nk4,\n",
        ),
    ] {
        let answer = ask(&scene, &statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(csv(answer), rows, "{statement}");
    }
}

async fn in_subquery_chooses_by_days_of_both(scene: Scene) {
    filled(&scene).await;
    let true_ones = "select key from outcomes where day = '2026-06-01' and label = '1'";
    for (statement, rows) in [
        (
            format!("select key, score from predictions where day = '2026-06-02' and key in ({true_ones}) order by key"),
            "key,score\nk3,0.75\nk4,1.0\n",
        ),
        // A repeated value selects a row once, and a subquery without rows selects none.
        (
            format!("select count(*) as n from predictions p where p.day = '2026-06-01' and p.release in (select release from predictions where day = '2026-06-01') and p.key in ({true_ones})"),
            "n\n2\n",
        ),
        (
            "select count(*) as n from predictions where day = '2026-06-01' and key in (select key from outcomes where day = '2026-06-01' and label = 'none')".to_owned(),
            "n\n0\n",
        ),
        (
            format!("select release, count(*) as n from predictions where day between '2026-06-01' and '2026-06-03' and key in ({true_ones}) group by release"),
            "release,n\nv2,6\n",
        ),
        (
            format!("select * exclude (predicted_at, label, value, lower, upper, latency_ms, \"group\", retracted, reason, appended_at) from predictions where day = '2026-06-01' and key in ({true_ones}) and score > 0.8"),
            "day,key,release,score\n2026-06-01,k4,v2,1.0\n",
        ),
        (
            format!("select a.key as k, b.label as l from predictions a join outcomes b on a.key = b.key where {DAY} and a.key in (select key from predictions where day = '2026-06-03' and key in ({true_ones}) and score < 1) order by k"),
            "k,l\nk3,1\n",
        ),
        (
            format!("select key from predictions where day = '2026-06-02' and key not in ({true_ones}) order by key"),
            "key\nk1\nk2\n",
        ),
        // The last of the subquery, by its own column name.
        (
            "select key from predictions where day = '2026-06-01' and key in (select substr(key, 1, 2) as label from outcomes where day = '2026-06-01' order by label desc limit 1)".to_owned(),
            "key\nk4\n",
        ),
        (
            format!("select key from predictions where day = '2026-06-02' and not (key in ({true_ones})) order by key"),
            "key\nk1\nk2\n",
        ),
        // No label is known to be none of several values if one of them is missing.
        (
            "select count(*) as n from predictions where day = '2026-06-01' and release not in (select label from predictions where day = '2026-06-01')".to_owned(),
            "n\n0\n",
        ),
        (
            "select key from predictions where day = '2026-06-01' except select key from outcomes where day = '2026-06-01' and label = '1' order by key".to_owned(),
            "key\nk1\nk2\n",
        ),
        // A list beside a join.
        (
            format!("select count(*) as n from predictions a join outcomes b on a.key = b.key where {DAY} and a.release in ('v1', 'v3', null) and b.label in ('0')"),
            "n\n2\n",
        ),
    ] {
        let answer = ask(&scene, &statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(csv(answer), rows, "{statement}");
    }
}

/// A tag beside `*` is shown once; a table without the tag is refused.
async fn what_is_shown_twice_is_shown_once(scene: Scene) {
    filled(&scene).await;
    // A named tag is among all columns, once.
    let all = "select *, tag.city from predictions where day = '2026-06-01' and key = 'k2'";
    let answer = csv(ask(&scene, all).await.unwrap());
    let (names, row) = answer.split_once('\n').unwrap();
    assert_eq!((names.matches("tag.city").count(), row.matches("Ulm").count()), (1, 1), "{answer}");
    for (lacking, says) in [
        ("select *, tag.city from outcomes where day = '2026-06-01'", "tag.city"),
        (
            "with t as (select key as k, tag.city as c from predictions where day = '2026-06-01') select *, tag.city from t",
            "tag.city",
        ),
        (
            "select key from predictions where day = '2026-06-01' and score > (select score from predictions where day = '2026-06-01')",
            "may have several rows",
        ),
        (
            "select key from predictions where day = '2026-06-01' and (key, day) in (('k1', 'x'))",
            "lists in parentheses",
        ),
    ] {
        let refused = ask(&scene, lacking).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{lacking}: {refused}");
    }
}

/// Each key has a prediction and an outcome on each of three days.
async fn all_day_joins_need_not_name_day(scene: Scene) {
    filled(&scene).await;
    for (statement, rows) in [
        ("select count(*) as n from predictions p join outcomes o on p.key = o.key", "n\n36\n"),
        (
            "select count(*) as n from predictions p join outcomes o on p.key = o.key where p.day = '2026-06-01'",
            "n\n12\n",
        ),
        (
            "select p.score as s, count(*) as n from predictions p join outcomes o on p.key = o.key where o.label = '1' and p.score < 0.8 group by p.score order by s",
            "s,n\n0.75,9\n",
        ),
    ] {
        let all = Sql { all_days: true, ..sql(statement) };
        let answer = scene.query(at(NOW)).sql(scene.id(), &all).await;
        assert_eq!(csv(answer.unwrap_or_else(|error| panic!("{statement}: {error}"))), rows, "{statement}");
    }
}

/// Statements that polars would misinterpret.
#[tokio::test]
async fn unsupported_join_is_refused_with_an_alternative() {
    let scene = Scene::on(Engine::Sqlite).await;
    filled(&scene).await;
    let by_query = "choose the rows of a table by a query in its place";
    for (select, from, says) in [
        ("count(*)", "predictions a left join outcomes b on a.key = b.key and a.score > 0.5", by_query),
        (
            "count(*)",
            "predictions a left join predictions b on a.key = b.key and a.score < b.score",
            by_query,
        ),
        ("count(*)", "predictions a right join outcomes b on a.key = b.key and b.label = '1'", by_query),
        ("count(*)", "predictions a full join outcomes b on a.key = b.key and b.label <> a.label", by_query),
        (
            "count(*)",
            "predictions a left join outcomes b on b.label = '1'",
            "an equality of columns of both tables",
        ),
        ("count(*)", "predictions a join outcomes b on key = b.key", "write a.key or b.key"),
        ("count(*)", "predictions a join outcomes b on a.key = b.key and count(*) > 1", "of several rows"),
    ] {
        let statement = format!("select {select} from {from} where {DAY}");
        let refused = ask(&scene, &statement).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{statement}: {refused}");
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{statement}");
    }
}
