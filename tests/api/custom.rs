//! Custom metrics of a model: stored with the evaluation of a day, computed for any window, shown and ranked like any other.

use std::collections::BTreeMap;

use catalog::PrimaryMetric;
use event::{Clock, ErrorKind, Kind, NewDefinition};
use ingest::SubmitError;
use projector::rebuild::{Pace, rebuild};
use query::{Answer, Dataset, LeaderboardParams, Params, Request, Source, Sql, SqlParams};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    custom_metric_equals_its_sql_aggregate,
    custom_metric_is_stored_rebuilt_and_shown,
    releases_are_ranked_by_a_custom_metric,
    custom_metrics_have_intervals_on_request,
);

const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
const APPENDED: &str = "2026-06-04T12:00:00Z";

/// Metrics that polars computes as well. All of them have values in the rows of the scene.
const METRICS: [(&str, &str); 12] = [
    ("count", "count(*)"),
    ("known", "count(outcome_label)"),
    ("mean", "avg(score)"),
    ("hits", "sum(case when (score >= 0.5) = (outcome_label = '1') then 1.0 else 0.0 end)"),
    (
        "cost",
        "sum(case when outcome_label = '1' and score < 0.5 then 50.0 when score >= 0.5 then 2.0 else 0.0 end) / count(*)",
    ),
    ("range", "max(feature.hours) - min(feature.hours)"),
    ("spread", "stddev(feature.hours)"),
    ("middle", "median(score * 100)"),
    ("high", "quantile_cont(feature.hours, 0.9)"),
    ("of_ua", "avg(case when tag.carrier in ('UA', 'AA') then score end)"),
    ("bent", "sum(sqrt(abs(score - 0.5)) + ln(1 + feature.hours))"),
    (
        "between",
        "sum(case when feature.hours between 3 and 11 and tag.carrier is not null then 1.0 else 0.0 end)",
    ),
];

/// Predictions of a release on a day with a tag and a feature, and the outcomes of two of three.
async fn predict(scene: &Scene, day: &str, release: &str, count: usize) {
    let prediction = |n: usize| {
        let carrier = ["UA", "AA", "DL"][n % 3];
        let tags = if n.is_multiple_of(5) { json!({}) } else { json!({ "carrier": carrier }) };
        json!({
            "key": format!("k{n}"), "predicted_at": format!("{day}T{:02}:{:02}:00Z", n / 60, n % 60),
            "release": release, "score": (n * 7 % 11) as f64 / 10.0 % 1.0, "tags": tags,
            "features": { "hours": n as f64 * 1.1 },
        })
    };
    let outcome = |n: usize| {
        let label = if n.is_multiple_of(4) { "1" } else { "0" };
        json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T23:00:00Z"), "label": label })
    };
    scene.append(Kind::Predictions, (0..count).map(prediction).collect(), APPENDED).await.unwrap();
    let outcomes = (0..count).filter(|n| n % 3 > 0).map(outcome).collect();
    scene.append(Kind::Outcomes, outcomes, APPENDED).await.unwrap();
}

/// Defines metrics; two equal definitions at one instant are one event.
async fn define(scene: &Scene, custom_metrics: &[(&str, &str)]) -> Result<(), SubmitError> {
    define_at(scene, custom_metrics, "2026-06-05T00:00:00Z").await
}

async fn define_at(scene: &Scene, custom_metrics: &[(&str, &str)], instant: &str) -> Result<(), SubmitError> {
    let custom_metrics: BTreeMap<_, _> =
        custom_metrics.iter().map(|(name, text)| ((*name).to_owned(), Some((*text).to_owned()))).collect();
    let new = NewDefinition {
        custom_metrics: Some(custom_metrics),
        from: Some(DAYS[0].parse().unwrap()),
        ..NewDefinition::default()
    };
    let ingest = scene.ingest(at(instant));
    ingest.define_model(&scene.workspace, "m", &new).await.map(drop)
}

async fn scene_of(world: World) -> Scene {
    let scene = Scene::new(world).await;
    for day in DAYS {
        predict(&scene, day, "v1", 40).await;
        predict(&scene, day, "v2", 23).await;
    }
    scene
}

fn words() -> Params<'static> {
    Params { from: DAYS[0], to: DAYS[1], ..Params::default() }
}

async fn run(scene: &Scene, words: &Params<'_>) -> Answer {
    let request = Request::parse(Dataset::Evaluations, words).unwrap();
    scene.query(at(NOW)).run(scene.id(), &request).await.unwrap()
}

async fn sql(scene: &Scene, statement: &str) -> Answer {
    let sql = Sql::parse(&SqlParams { statement, ..SqlParams::default() }).unwrap();
    scene.query(at(NOW)).sql(scene.id(), &sql).await.unwrap()
}

/// Numbers of a column.
fn numbers(answer: &Answer, column: &str) -> Vec<f64> {
    let column = answer.frame.column(column).unwrap();
    column.f64().unwrap().iter().map(Option::unwrap).collect()
}

async fn custom_metric_equals_its_sql_aggregate(world: World) {
    let scene = scene_of(world).await;
    define(&scene, &METRICS).await.unwrap();
    scene.project().await;
    let by_day = run(&scene, &words()).await;
    assert_eq!(by_day.source, Some(Source::Stored));
    let of_all = run(&scene, &Params { period: Some("all"), ..words() }).await;
    let by_tag = run(&scene, &Params { period: Some("all"), by: Some("tag.carrier"), ..words() }).await;
    for (name, text) in METRICS {
        let column = format!("custom.{name}");
        let select = async |answer: &Answer, by: &str, order: &str| {
            let statement = format!(
                "select {by}, ({text}) * 1.0 as x from joined where day between '{}' and '{}' group by {by} order by {order}",
                DAYS[0], DAYS[1]
            );
            let expected = numbers(&sql(&scene, &statement).await, "x");
            let found = numbers(answer, &column);
            let is_close = |(one, other): (&f64, &f64)| (one - other).abs() <= 1e-9 * other.abs().max(1.0);
            let is_same = found.len() == expected.len() && found.iter().zip(&expected).all(is_close);
            assert!(is_same, "{name} by {by}: {found:?} is not {expected:?}");
        };
        select(&by_day, "day, release", "day, release").await;
        select(&of_all, "release", "release").await;
        // `of_ua` and `between` have no values in some of these rows.
        if !["of_ua", "between"].contains(&name) {
            select(&by_tag, "release, tag.carrier", "release, tag.carrier nulls last").await;
        }
    }
}

async fn custom_metric_is_stored_rebuilt_and_shown(world: World) {
    let scene = scene_of(world).await;
    scene.project().await;
    let before = run(&scene, &words()).await;
    assert!(before.frame.column("custom.mean").is_err());
    // Evaluated days are evaluated again, and so are days whose log grows.
    define(&scene, &METRICS[..4]).await.unwrap();
    scene.project().await;
    scene.register("v3", "m").await.unwrap();
    predict(&scene, DAYS[1], "v3", 5).await;
    scene.project().await;
    let stored = run(&scene, &words()).await;
    assert_eq!(stored.source, Some(Source::Stored));
    let stored = csv(stored);
    assert_eq!(stored.lines().next().unwrap().matches("custom.").count(), 4, "{stored}");
    let computed = run(&scene, &Params { as_of: Some(NOW), ..words() }).await;
    assert_eq!(computed.source, Some(Source::Events));
    assert_eq!(csv(computed), stored);
    scene.assert_verified().await;
    // By its name in SQL and among columns; an undefined metric is empty.
    let statement = format!(
        "select release, custom.known from evaluations where day = '{}' and custom.known > 20 order by release",
        DAYS[0]
    );
    assert_eq!(csv(sql(&scene, &statement).await), "release,custom.known\nv1,26.0\n");
    let columns = Some("release,custom.known,custom.unknown");
    let named = run(&scene, &Params { columns, to: DAYS[0], ..words() }).await;
    assert_eq!(csv(named), "release,custom.known,custom.unknown\nv1,26.0,\nv2,15.0,\n");
    // As of an instant before its definition: nothing had been appended then.
    let then = run(&scene, &Params { as_of: Some("2026-06-04"), ..words() }).await;
    assert_eq!(then.frame.height(), 0);
    // An expression without an aggregate is refused, and changes nothing.
    let refused = define(&scene, &[("mean", "score")]).await.unwrap_err();
    let why = "the metric `mean`: the column `score` stands outside of an aggregate";
    assert!(
        matches!(&refused, SubmitError::Store(error) if error.kind() == ErrorKind::Invalid && error.to_string() == why),
        "{refused:?}"
    );
    assert_eq!(csv(run(&scene, &words()).await), stored);
    define(&scene, &[("hits", "none"), ("mean", "none"), ("count", "none"), ("known", "none")])
        .await
        .unwrap();
    scene.project().await;
    assert!(!csv(run(&scene, &words()).await).contains("custom."));
    scene.assert_verified().await;
    // The scene projects the first version alone, so the rebuild comes last.
    define_at(&scene, &METRICS[..4], "2026-06-06T00:00:00Z").await.unwrap();
    scene.project().await;
    let stored = csv(run(&scene, &words()).await);
    assert!(stored.contains("custom.mean"));
    let pace = Pace { share: 1.0, clock: Clock::from_fn(|| at(NOW)) };
    rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    assert_eq!(csv(run(&scene, &words()).await), stored);
    scene.assert_verified().await;
}

async fn releases_are_ranked_by_a_custom_metric(world: World) {
    let scene = scene_of(world).await;
    define(&scene, &[("rows", "count(*)")]).await.unwrap();
    let query = scene.query(at(NOW));
    let ranked = async |direction| {
        let leaderboard = LeaderboardParams {
            from: DAYS[0],
            to: DAYS[1],
            metric: Some("custom.rows"),
            direction,
            min_n: Some(1),
            ..LeaderboardParams::default()
        };
        let (primary, places) = query.leaderboard_of_window(scene.id(), &leaderboard, 10).await.unwrap();
        assert_eq!(primary.metric.name(), "custom.rows");
        places.into_iter().map(|place| (place.release, place.value, place.n)).collect::<Vec<_>>()
    };
    let (v1, v2) = (("v1".to_owned(), 80.0, 80), ("v2".to_owned(), 46.0, 46));
    assert_eq!(ranked(None).await, [v1.clone(), v2.clone()]);
    assert_eq!(ranked(Some("min")).await, [v2, v1]);
    // As the primary metric of the workspace, on a day.
    let primary = PrimaryMetric::parse(Some("custom.rows"), Some("min")).unwrap();
    let catalog = scene.query(at(NOW)).catalog().clone();
    catalog
        .change_settings(scene.id(), |settings| {
            settings.primary_metric.clone_from(&primary);
            settings.leaderboard_min_n = Some(1);
        })
        .await
        .unwrap();
    assert_eq!(catalog.settings(scene.id()).await.unwrap().primary_metric, primary);
    scene.project().await;
    let (_, places) = query.leaderboard_of(scene.id(), DAYS[0].parse().unwrap(), 10).await.unwrap();
    let places: Vec<_> = places.iter().map(|place| (place.release.as_str(), place.value)).collect();
    assert_eq!(places, [("v2", 23.0), ("v1", 40.0)]);
}

async fn custom_metrics_have_intervals_on_request(world: World) {
    let scene = scene_of(world).await;
    define(&scene, &[("count", "count(*)"), ("mean", "avg(score)")]).await.unwrap();
    scene.project().await;
    let names = |answer: &Answer| {
        let names = answer.frame.columns().iter().map(|column| column.name().to_string());
        names.filter(|name| name.starts_with("custom.")).collect::<Vec<_>>().join(",")
    };
    let plain = run(&scene, &words()).await;
    assert_eq!((plain.source, &*names(&plain)), (Some(Source::Stored), "custom.count,custom.mean"));
    let asked = run(&scene, &Params { interval: true, ..words() }).await;
    let columns = "custom.count,custom.mean,custom.count_n,custom.count_low,custom.count_high,custom.mean_n,custom.mean_low,custom.mean_high";
    assert_eq!((asked.source, &*names(&asked)), (Some(Source::Events), columns));
    // No key repeats on a day, so each draw has as many predictions as there are.
    let counts = numbers(&asked, "custom.count");
    assert_eq!(counts, [40.0, 23.0, 40.0, 23.0]);
    assert_eq!(
        (numbers(&asked, "custom.count_low"), numbers(&asked, "custom.count_high")),
        (counts.clone(), counts)
    );
    let ends = numbers(&asked, "custom.mean_low").into_iter().zip(numbers(&asked, "custom.mean_high"));
    for (mean, (low, high)) in numbers(&asked, "custom.mean").into_iter().zip(ends) {
        assert!(low < mean && mean < high && high - low < 0.3, "{mean}: {low} {high}");
    }
    // Naming a column of an interval requests it, also in SQL. For an undefined metric it is empty.
    let columns = Some("release,custom.mean_n,custom.mean_low,custom.unknown_high");
    let named = run(&scene, &Params { columns, to: DAYS[0], ..words() }).await;
    assert_eq!(numbers(&named, "custom.mean_low"), numbers(&asked, "custom.mean_low")[..2]);
    let named = csv(named);
    assert!(
        named.starts_with("release,custom.mean_n,custom.mean_low,custom.unknown_high\nv1,40,0."),
        "{named}"
    );
    let statement = format!(
        "select release, custom.mean_n, custom.mean_high > custom.mean as is_more from evaluations where day = '{}' order by release",
        DAYS[0]
    );
    let found = csv(sql(&scene, &statement).await);
    assert_eq!(found, "release,custom.mean_n,is_more\nv1,40,true\nv2,23,true\n");
    // So no metric may have such a name.
    let refused = define(&scene, &[("mean_low", "min(score)")]).await.unwrap_err();
    assert!(
        matches!(&refused, SubmitError::Store(error) if error.kind() == ErrorKind::Invalid && error.to_string().contains("ends with _low")),
        "{refused:?}"
    );
}
