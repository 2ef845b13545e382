//! Functions over windows answer what SQL says of the window, or are refused with what to write instead.

use tests::{
    on_both_engines,
    scene::{Scene, csv},
};

use super::{ask, filled, those_of};

on_both_engines!(
    Scene::on:
    windows_are_those_of_sql,
    windows_without_such_function_are_refused,
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
        (
            "release, count(*) as n, row_number() over (order by release desc) as x",
            " group by release order by row_number() over (order by release desc)",
            "v2,2,1\nv1,2,2",
        ),
        (
            "key, count(*) over w as x",
            " window w as (order by release) order by key",
            "k1,2\nk2,2\nk3,4\nk4,4",
        ),
        (
            "key, last_value(score) over (order by key rows between unbounded preceding and unbounded following) as x",
            " and key < 'k3' order by key",
            "k1,0.5\nk2,0.5",
        ),
    ];
    those_of(&scene, &of_sql).await;
    let numbered = "with g as (select release, count(*) n from predictions where day = '2026-06-01' group by release) \
                    select release, row_number() over (order by release) as place from g order by release";
    assert_eq!(csv(ask(&scene, numbered).await.unwrap()), "release,place\nv1,1\nv2,2\n");
}

async fn windows_without_such_function_are_refused(scene: Scene) {
    filled(&scene).await;
    let of_a_day = "predictions where day = '2026-06-01'";
    for (select, rest, why) in [
        ("median(score) over (partition by release order by key) as x", "", "compute it with GROUP BY"),
        ("count(distinct release) over (order by key) as x", "", "without ORDER BY only"),
        ("quantile_cont(score, 0.5) over (partition by release) as x", "", "compute it with GROUP BY"),
        ("covar_pop(score, value) over (partition by release) as x", "", "compute it with GROUP BY"),
        ("last(score) over (order by key) as x", "", "compute it with GROUP BY"),
        ("last_value(score) over (partition by release) as x", "", "write ORDER BY in OVER"),
        (
            "sum(score) over (rows between unbounded preceding and current row) as x",
            "",
            "write ORDER BY in OVER",
        ),
        ("sum(score) over (order by key rows between 100 preceding and current row) as x", "", "at most 64"),
        ("upper(key) over (partition by release) as x", "", "not computed over such a window"),
        ("sum(score) over (w) as x", " window w as (partition by release)", "write the window out"),
        ("count(*) as n, sum(score) over () as x", "", "`score` stands beside"),
        ("key", " and row_number() over (order by key) = 1", "has no window yet"),
    ] {
        let statement = format!("select {select} from {of_a_day}{rest}");
        let refused = ask(&scene, &statement).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{statement}: {refused}");
    }
}
