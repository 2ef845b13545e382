//! Numbers are those of SQL: whole ones have 64 bits and a sign, sums are of all rows, and no column stands beside an aggregate.

use event::{Day, Kind};
use query::{Dataset, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::at,
};

use super::{ask, filled, those_of};

on_both_engines!(
    Scene::on:
    numbers_are_those_of_sql,
    constants_and_casts_are_those_of_sql,
    day_and_instant_differences_have_sign_and_unit,
    times_are_read_version_off_to_units,
    each_unit_begins_where_the_calendar_says,
    value_undefined_per_row_is_refused,
);

async fn numbers_are_those_of_sql(scene: Scene) {
    filled(&scene).await;
    let of_sql = [
        ("count(*) - 20 as a, -count(*) as b, count(label) - count(*) as c", "", "-16,-4,-4"),
        ("count(*) * 3000000000 as a", "", "12000000000"),
        (
            "count(*) filter (where score > 0.6) - count(*) as a, count(distinct release) - 3 as b",
            "",
            "-2,-1",
        ),
        ("(count(*) - 7) * 1.0 / 2 as a", "", "-1.5"),
        ("sum(1) as a, sum(2.5) as b, sum(case when 1 = 1 then 1 else 0 end) as c", "", "4,10.0,4"),
        ("sum(1) as a, sum(score) as b", " and score > 9", ","),
        ("release, sum(1) as n, count(*) - 5 as c", " group by release order by release", "v1,2,-3\nv2,2,-3"),
        ("release", " group by release having count(*) - 3 < 0 order by release", "v1\nv2"),
        (
            "release",
            " group by day, release having day = '2026-06-01' and release > 'v1' and max(release) > 'v1'",
            "v2",
        ),
        (
            "upper(release) as r",
            " group by upper(release) having upper(release) <> 'V1' or min(score) > 2",
            "V2",
        ),
        ("key, sum(1) over (partition by release) as n", " and key < 'k3' order by key", "k1,2\nk2,2"),
        (
            "extract(hour from predicted_at) * 60 + extract(minute from predicted_at) as m",
            " and key = 'k4'",
            "240",
        ),
        (
            "extract(month from predicted_at) * 100 + extract(day from predicted_at) as m",
            " and key = 'k4'",
            "601",
        ),
        ("date_part('hour', predicted_at) * 100 as m", " and key = 'k4'", "400"),
        ("length(key) - 25 as l", " and key = 'k4'", "-23"),
        ("row_number() over (order by key) - 3 as n, key", " order by key limit 1", "-2,k1"),
        (
            "key",
            " and length(key) - 25 < 0 and extract(hour from predicted_at) * 60 >= 180 order by key",
            "k3\nk4",
        ),
        (
            "power(2, 40) as a, pow(10, 12) as b, power(2, -1) as c",
            " and key = 'k4'",
            "1099511627776.0,1000000000000.0,0.5",
        ),
        ("log(100) as a, log10(100) as b, log2(8) as c", " and key = 'k4'", "2.0,2.0,3.0"),
        ("count(*) as n", " and score > 25e-2", "3"),
        ("key", " and score in (0, 0.5, -1) order by key", "k2"),
    ];
    those_of(&scene, &of_sql).await;
    // Conditions are read in the same way.
    let (from, columns) = ("2026-06-01", Some("key"));
    let words = Params { from, to: from, columns, filter: Some("score > 75e-2"), ..Params::default() };
    let request = Request::parse(Dataset::Events(Kind::Predictions), &words).unwrap();
    assert_eq!(csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap()), "key\nk4\n");
}

async fn constants_and_casts_are_those_of_sql(scene: Scene) {
    filled(&scene).await;
    let of_sql = [
        (
            "min(1) as a, max('a') as b, avg(1) as c, median(1) as d, count(1 + 1) as e",
            " and score > 9",
            ",,,,0",
        ),
        ("min(1) as a, max('a') as b, avg(1) as c, median(1) as d, count(1 + 1) as e", "", "1,a,1.0,1.0,4"),
        (
            "release, max(2) as a, count(1 + 1) as b, avg(score) as c",
            " group by release order by release",
            "v1,2,2,0.375\nv2,2,2,0.875",
        ),
        (
            "count(*) filter (where null) as a, count(*) filter (where true) as b, count(*) filter (where value > 0) as c",
            "",
            "0,4,0",
        ),
        ("cast(2147483647 as integer) + 1 as a", " and key = 'k4'", "2147483648"),
        ("cast(1.5 as integer) as a, round(2.5) as b, -7 // 2 as c", " and key = 'k4'", "2,3.0,-3"),
        ("key", " and score in (5E-1, 1e0) and score > -1e3 order by key", "k2\nk4"),
        (
            "1e3 as a, -2E-1 as b, power(1e+1, 2) as c, 1.5e1 as d",
            " and key = 'k4'",
            "1000.0,-0.2,100.0,15.0",
        ),
    ];
    those_of(&scene, &of_sql).await;
}

async fn day_and_instant_differences_have_sign_and_unit(scene: Scene) {
    filled(&scene).await;
    let deltas = "select day, n - lag(n) over (order by day) as more from (select day, count(*) n from predictions \
                  where (day = '2026-06-01' and key < 'k4') or (day = '2026-06-02' and key < 'k2') group by day) order by day";
    assert_eq!(csv(ask(&scene, deltas).await.unwrap()), "day,more\n2026-06-01,\n2026-06-02,-2\n");
    let waits = "select o.observed_at - p.predicted_at as wait from predictions p join outcomes o on p.key = o.key \
                 where p.day = '2026-06-01' and o.day = '2026-06-01' and p.key = 'k1'";
    assert_eq!(csv(ask(&scene, waits).await.unwrap()), "wait\nPT255600S\n");
    let within = async |condition: &str| {
        let words = Params {
            from: "2026-06-01",
            to: "2026-06-01",
            filter: Some(condition),
            columns: Some("key"),
            ..Params::default()
        };
        let request = query::Request::parse(Dataset::Events(Kind::Predictions), &words).unwrap();
        scene.query(at(NOW)).run(scene.id(), &request).await.map(csv)
    };
    assert_eq!(within("length(key) - 25 < 0").await.unwrap().lines().count(), 5);
    assert_eq!(within("power(2, 40) > score and key = 'k2'").await.unwrap(), "key\nk2\n");
}

async fn times_are_read_version_off_to_units(scene: Scene) {
    filled(&scene).await;
    for (statement, told) in [
        (
            "select date_trunc('hour', predicted_at) as hour, count(*) as n from predictions where day = '2026-06-01' \
             and key > 'k2' group by date_trunc('hour', predicted_at) order by hour",
            "hour,n\n2026-06-01T03:00:00Z,1\n2026-06-01T04:00:00Z,1\n",
        ),
        (
            "select DATE_TRUNC('month', day) as month, date_trunc('week', day) as week, count(*) as n from predictions \
             where day between '2026-06-01' and '2026-06-02' group by month, week",
            "month,week,n\n2026-06-01,2026-06-01,8\n",
        ),
        (
            "select key from predictions where day = '2026-06-01' and date_trunc('hour', predicted_at) = \
             '2026-06-01 04:00:00'",
            "key\nk4\n",
        ),
        (
            "select key from predictions where date_trunc('hour', predicted_at) >= '2026-06-01T04:00:00Z' \
             and date_trunc('day', day) = '2026-06-01'",
            "key\nk4\n",
        ),
        (
            "with h as (select date_trunc('hour', predicted_at) as hour, key from predictions where day = '2026-06-01') \
             select hour, max(key) as k from h where hour > timestamp('2026-06-01 02:30:00', '%Y-%m-%d %H:%M:%S') group by hour order by hour",
            "hour,k\n2026-06-01T03:00:00Z,k3\n2026-06-01T04:00:00Z,k4\n",
        ),
        (
            "select m from (select distinct date_trunc('month', day) as m from predictions where day = '2026-06-01') as months \
             union all select date_trunc('quarter', day) as m from predictions where day = '2026-06-02' and key = 'k1' order by m",
            "m\n2026-04-01\n2026-06-01\n",
        ),
        (
            "select key, day + interval '90 minutes' as t from predictions where day = '2026-06-01' and key = 'k1'",
            "key,t\nk1,2026-06-01T01:30:00Z\n",
        ),
        (
            "select date_trunc('year', observed_at) as y from joined where day = '2026-06-01' and key = 'k4'",
            "y\n2026-01-01T00:00:00Z\n",
        ),
    ] {
        let answer = ask(&scene, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(csv(answer), told, "{statement}");
    }
    for (call, why) in [
        ("date_trunc('fortnight', predicted_at)", "units are second, minute, hour"),
        ("date_trunc(predicted_at, 'hour')", "write date_trunc('hour', predicted_at)"),
        ("date_trunc('hour')", "write date_trunc('hour', predicted_at)"),
        ("date_trunc('hour', score)", ""),
    ] {
        let statement = format!("select {call} from predictions where day = '2026-06-01'");
        let refused = ask(&scene, &statement).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{statement}: {refused}");
    }
}

/// Every unit, of instants before 1970 and after, of each month, and of leap years; as the calendar says.
async fn each_unit_begins_where_the_calendar_says(scene: Scene) {
    let months = (1..=12).map(|month| format!("2024-{month:02}-29T12:34:56.789Z"));
    let others =
        ["2026-03-31T00:00:00Z", "2023-02-28T23:59:59Z", "1968-02-29T00:00:00Z", "1969-12-31T23:59:59.5Z"];
    let instants: Vec<String> = months.chain(others.map(str::to_owned)).collect();
    let row = |(at, instant): (usize, &String)| json!({ "key": format!("k{at:02}"), "predicted_at": instant, "release": "v1", "score": 0.5 });
    let rows = instants.iter().enumerate().map(row).collect();
    scene.append(Kind::Predictions, rows, "2026-06-04T12:00:00Z").await.unwrap();
    let units = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];
    let columns = units.map(|unit| format!("date_trunc('{unit}', predicted_at) as of_{unit}")).join(", ");
    let mut lines = Vec::new();
    for days in ["day > '2023-01-01'", "day between '1968-01-01' and '1970-01-01'"] {
        let statement = format!(
            "select {columns}, date_trunc('quarter', day) as q from predictions where {days} order by key"
        );
        let answer = csv(ask(&scene, &statement).await.unwrap());
        lines.extend(answer.lines().skip(1).map(str::to_owned));
    }
    assert_eq!(lines.len(), instants.len());
    for (line, instant) in lines.iter().zip(&instants) {
        let (day, time) = instant.split_once('T').unwrap();
        let (year, month): (&str, u32) = (&day[..4], day[5..7].parse().unwrap());
        let first = |month: u32| format!("{year}-{month:02}-01");
        let is_monday = |day: &Day| (day.number() + 3).rem_euclid(7) == 0;
        let mut week = std::iter::successors(day.parse::<Day>().ok(), |day| day.before());
        let monday = week.find(is_monday).unwrap().to_string();
        let quarter = first((month - 1) / 3 * 3 + 1);
        let midnight = |day: &str| format!("{day}T00:00:00Z");
        let expected = [
            format!("{day}T{}Z", &time[..8]),
            format!("{day}T{}:00Z", &time[..5]),
            format!("{day}T{}:00:00Z", &time[..2]),
            midnight(day),
            midnight(&monday),
            midnight(&first(month)),
            midnight(&quarter),
            midnight(&first(1)),
            quarter,
        ];
        assert_eq!(line.split(',').collect::<Vec<_>>(), expected, "{instant}");
    }
}

async fn value_undefined_per_row_is_refused(scene: Scene) {
    filled(&scene).await;
    let of_groups = "with g as (select release, count(*) n from predictions where day = '2026-06-01' group by release) \
                     select release, n, sum(n) over () as of_all from g order by release";
    assert_eq!(csv(ask(&scene, of_groups).await.unwrap()), "release,n,of_all\nv1,2,4\nv2,2,4\n");
    for (statement, why) in [
        ("select release, max(score) from predictions where day = '2026-06-01'", "`release` stands beside"),
        ("select count(*), p.key from predictions p where day = '2026-06-01'", "GROUP BY p.key"),
        ("select *, count(*) from predictions where day = '2026-06-01'", "stands beside"),
        (
            "select sum(count(*)) as n from predictions where day = '2026-06-01'",
            "`count(*)` is made of several rows",
        ),
        (
            "select release from predictions where day = '2026-06-01' group by release order by max(1 + avg(score))",
            "`avg(score)` is made of several rows",
        ),
        ("select cast(key as blob) from predictions where day = '2026-06-01'", "there is no type"),
        ("select cast(score as ubigint) from predictions where day = '2026-06-01'", "cast to bigint"),
        ("select strpos(key, '.') from predictions where day = '2026-06-01'", "key like '%x%'"),
        ("select position('k' in key) from predictions where day = '2026-06-01'", "key like '%x%'"),
    ] {
        let refused = ask(&scene, statement).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{statement}: {refused}");
    }
}
