//! Grouped columns have one value in each group, and orders refer to the named columns.

use event::ErrorKind;
use tests::{
    engine::Engine,
    on_both_engines,
    scene::{Scene, csv},
};

use super::{ask, filled};

on_both_engines!(
    Scene::on:
    what_rows_are_grouped_by_is_computed_once,
    an_order_is_of_what_it_names,
);

const JOINED: &str =
    "predictions p join outcomes o on p.key = o.key where p.day = '2026-06-01' and o.day = '2026-06-01'";

async fn answers(scene: &Scene, statements: &[(String, &str)]) {
    for (statement, rows) in statements {
        let answer = ask(scene, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(csv(answer), *rows, "{statement}");
    }
}

async fn what_rows_are_grouped_by_is_computed_once(scene: Scene) {
    filled(&scene).await;
    let of = |shown: &str, rest: &str| {
        format!("select {shown}, count(*) as n from predictions where day = '2026-06-01' {rest}")
    };
    answers(
        &scene,
        &[
            // 0.5 * 8 + 0.5.
            (of("score * 8 + 0.5 as u", "and score = 0.5 group by score * 8"), "u,n\n4.5,1\n"),
            (
                of("upper(substr(release, 2)) as u", "group by substr(release, 2) order by u"),
                "u,n\n1,2\n2,2\n",
            ),
            (
                of("substr(release, 2) as s, upper(SUBSTR(release, 2)) as u", "group by s order by s"),
                "s,u,n\n1,1,2\n2,2,2\n",
            ),
            (
                of("substr(release, 2) as s, upper(substr(release, 2)) as u", "group by 1 order by 1"),
                "s,u,n\n1,1,2\n2,2,2\n",
            ),
            // Ordered by city, not by the reversed city.
            (
                of(
                    "reverse(tag.city) as c",
                    "group by reverse(tag.city) order by reverse(reverse(tag.city))",
                ),
                "c,n\nnreB,2\nmlU,2\n",
            ),
            (of("release as g, upper(release) as u", "group by g order by g"), "g,u,n\nv1,V1,2\nv2,V2,2\n"),
            (
                of("release as g, case when release = 'v1' then 1 else 0 end as e", "group by 1 order by g"),
                "g,e,n\nv1,1,2\nv2,0,2\n",
            ),
            (
                of("upper(release) as u, substr(release, 2) as s", "group by u, 2 having u > 'V1' order by u"),
                "u,s,n\nV2,2,2\n",
            ),
            // Grouped by the release of the table, not by the column shown under its name.
            (
                of("release in ('v1', 'v3') as release", "group by release order by release"),
                "release,n\nfalse,2\ntrue,2\n",
            ),
            (
                format!("select o.label as l, upper(o.label) as u, count(*) as n from {JOINED} group by l order by l"),
                "l,u,n\n0,0,2\n1,1,2\n",
            ),
            (
                format!("select p.key as pk, o.key as ok, count(*) as n from {JOINED} and p.key < 'k3' group by p.key, o.key order by pk"),
                "pk,ok,n\nk1,k1,1\nk2,k2,1\n",
            ),
        ],
    )
    .await;
}

async fn an_order_is_of_what_it_names(scene: Scene) {
    filled(&scene).await;
    let of = |shown: &str, rest: &str| {
        format!("select {shown} from predictions p where day = '2026-06-01' {rest}")
    };
    answers(
        &scene,
        &[
            (
                of("-score as score, score as s", "and score < 0.9 order by p.score"),
                "score,s\n-0.25,0.25\n-0.5,0.5\n-0.75,0.75\n",
            ),
            (
                of("-score as score", "and score < 0.9 order by p.score limit 2"),
                "score\n-0.25\n-0.5\n",
            ),
            (
                of("-score as score, score as s", "and score < 0.9 order by score"),
                "score,s\n-0.75,0.75\n-0.5,0.5\n-0.25,0.25\n",
            ),
            // A name within an expression is a column of the table, and alone it is a shown column.
            (
                of("key as k, -score as score", "order by score + 0, key limit 2"),
                "k,score\nk1,-0.25\nk2,-0.5\n",
            ),
            (
                of("key as k, upper(release) as release", "order by case when release = 'v2' then 0 else 1 end, key limit 3"),
                "k,release\nk3,V2\nk4,V2\nk1,V1\n",
            ),
            (of("-score as score, 2 as n", "order by score * n limit 1"), "score,n\n-0.25,2\n"),
            (of("-score as score", "and score < 0.9 order by (score) limit 1"), "score\n-0.75\n"),
            // One row of v1 and two of v2.
            (of("release", "and score > 0.3 group by release order by count(*) desc"), "release\nv2\nv1\n"),
            (of("release, count(*) as n", "and score > 0.3 group by release order by n / max(score), release"), "release,n\nv1,1\nv2,2\n"),
            (of("upper(release) as r, count(*) as n", "group by release order by max(score) desc limit 1"), "r,n\nV2,2\n"),
            (
                format!("select p.release, o.label, count(*) as n from {JOINED} group by p.release, o.label order by o.label desc, p.release"),
                "release,label,n\nv2,1,2\nv1,0,2\n",
            ),
            (
                format!("select o.label as l, count(*) as n from {JOINED} group by o.label order by l"),
                "l,n\n0,2\n1,2\n",
            ),
        ],
    )
    .await;
}

/// Columns with several values in a group, and orders by rows that are grouped away.
#[tokio::test]
async fn what_has_no_one_value_is_refused() {
    let scene = Scene::on(Engine::Sqlite).await;
    filled(&scene).await;
    for (shown, rest, says) in [
        ("release, upper(key) as k, count(*) as n", "group by release", "`key` stands beside"),
        ("key, count(*) as n", "group by release", "`key` stands beside"),
        ("upper(key) as release, count(*) as n", "group by release", "`key` stands beside"),
        ("release, upper(release) as release, count(*) as n", "group by 1", "name one of both with AS"),
        ("score + count(*) as n", "group by release, score * 2", "`score` stands beside"),
        ("release, max(score) as score", "group by release order by score + 1", "`score` stands beside"),
        ("distinct release", "group by release order by max(score)", "SELECT DISTINCT has an order"),
    ] {
        let statement = format!("select {shown} from predictions where day = '2026-06-01' {rest}");
        let refused = ask(&scene, &statement).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{statement}: {refused}");
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{statement}");
    }
}
