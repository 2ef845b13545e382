//! Functions over windows answer what SQL says of the window, or are refused with what to write instead.

use tests::{
    on_both_engines,
    scene::{Scene, csv},
};

use super::{ask, filled, those_of};

on_both_engines!(
    Scene::on:
    windows_are_those_of_sql,
    windows_that_polars_computes_otherwise_are_refused,
);

async fn windows_are_those_of_sql(scene: Scene) {
    filled(&scene).await;
    let of_sql = [
        (
            "key, sum(score) over (order by key rows between unbounded preceding and current row) as s",
            " order by key",
            "k1,0.25\nk2,0.75\nk3,1.5\nk4,2.5",
        ),
        (
            "key, sum(score) over (order by key) / count(score) over (order by key) as mean",
            " and key < 'k3' order by key",
            "k1,0.25\nk2,0.375",
        ),
        (
            "key, avg(score) over (partition by release) as mean",
            " order by key",
            "k1,0.375\nk2,0.375\nk3,0.875\nk4,0.875",
        ),
        (
            "key, last_value(score) over (partition by release order by key) as l",
            " and key > 'k2' order by key",
            "k3,0.75\nk4,1.0",
        ),
    ];
    those_of(&scene, &of_sql).await;
    let numbered = "with g as (select release, count(*) n from predictions where day = '2026-06-01' group by release) \
                    select release, row_number() over (order by release) as place from g order by release";
    assert_eq!(csv(ask(&scene, numbered).await.unwrap()), "release,place\nv1,1\nv2,2\n");
}

async fn windows_that_polars_computes_otherwise_are_refused(scene: Scene) {
    filled(&scene).await;
    let of_a_day = "predictions where day = '2026-06-01'";
    for (select, rest, why) in [
        ("avg(score) over (order by key) as x", "", "leave ORDER BY out"),
        ("median(score) over (partition by release order by key) as x", "", "leave ORDER BY out"),
        ("count(distinct release) over (order by key) as x", "", "leave ORDER BY out"),
        ("quantile_cont(score, 0.5) over (partition by release) as x", "", "compute it with GROUP BY"),
        ("covar_pop(score, value) over (partition by release) as x", "", "compute it with GROUP BY"),
        ("sum(score) over (order by key nulls last) as x", "", "where nulls come first"),
        ("last(score) over (order by key) as x", "", "write last_value"),
        ("last_value(score) over (partition by release) as x", "", "write ORDER BY in OVER"),
        (
            "last_value(score) over (order by key rows between unbounded preceding and unbounded following) as x",
            "",
            "write first_value",
        ),
        (
            "sum(score) over (rows between unbounded preceding and current row) as x",
            "",
            "write ORDER BY in OVER",
        ),
        ("upper(key) over (partition by release) as x", "", "has no OVER"),
        ("sum(score) over (w) as x", " window w as (partition by release)", "write the window out"),
        ("avg(score) over w as x", " window w as (order by key)", "leave ORDER BY out"),
        ("count(*) over w as x", " window w as (order by key)", "write the window in OVER"),
        (
            "release, row_number() over (order by release) as x",
            " group by release",
            "in a query of the groups, named by WITH",
        ),
        (
            "release, count(*) as n",
            " group by release order by row_number() over (order by release)",
            "in a query of the groups, named by WITH",
        ),
        ("count(*) as n, sum(score) over () as x", "", "in a query of the groups, named by WITH"),
        ("key", " and row_number() over (order by key) = 1", "stands in WHERE"),
    ] {
        let statement = format!("select {select} from {of_a_day}{rest}");
        let refused = ask(&scene, &statement).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{statement}: {refused}");
    }
}
