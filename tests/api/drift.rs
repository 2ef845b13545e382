//! Drift of the columns of predictions, and the cost of its queries.

use std::iter;

use event::{Day, Kind};
use query::{Dataset, Params, Request, Sql, SqlParams};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    drift_columns_are_ranked_by_distance_from_reference,
    drift_compares_by_release_week_and_statement,
    drift_over_thirty_days_reads_only_ranges,
    what_is_exact_is_computed_from_the_events,
);

/// Reference of these tests.
const REFERENCE: &str = "2026-05-01..2026-05-02";

async fn predict(scene: &Scene, day: &str, rows: impl Iterator<Item = Value>) {
    let row = |(n, mut row): (usize, Value)| {
        let fields = row.as_object_mut().unwrap();
        fields.insert("key".into(), json!(format!("k{n}")));
        fields.insert("predicted_at".into(), json!(format!("{day}T01:00:00Z")));
        fields.entry("release").or_insert("v1".into());
        row
    };
    let rows: Vec<Value> = rows.enumerate().map(row).collect();
    scene.append(Kind::Predictions, Value::from(rows), "2026-06-04T12:00:00Z").await.unwrap();
}

fn words<'a>(from: &'a str, to: &'a str, columns: &'a str) -> Params<'a> {
    Params { from, to, columns: Some(columns), reference: Some(REFERENCE), ..Params::default() }
}

async fn asked(scene: &Scene, words: Params<'_>) -> Vec<String> {
    let request = Request::parse(Dataset::Drift, &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

/// Two even days, and a day on which only some columns moved.
async fn moved(world: World) -> Scene {
    let scene = Scene::new(world).await;
    let usual = |n: u32| {
        let carrier = if n.is_multiple_of(2) { "UA" } else { "AA" };
        json!({ "score": f64::from(n % 10) / 10.0, "label": if n.is_multiple_of(2) { "yes" } else { "no" },
                    "tags": { "carrier": carrier }, "features": { "age": n % 7 } })
    };
    predict(&scene, "2026-05-01", (0..40).map(usual)).await;
    predict(&scene, "2026-05-02", (0..40).map(usual)).await;
    predict(
        &scene,
        "2026-06-01",
        (0..40).map(|n| {
            let mut row = usual(n);
            row["features"] = json!({ "age": n % 7 + 20 });
            row["tags"] = match n % 4 {
                0 => json!({ "carrier": "B6" }),
                1 => json!({ "carrier": "UA" }),
                2 => json!({ "carrier": "AA" }),
                _ => json!({}),
            };
            row
        }),
    )
    .await;
    predict(&scene, "2026-06-02", (0..40).map(usual)).await;
    scene.project().await;
    scene
}

async fn drift_columns_are_ranked_by_distance_from_reference(world: World) {
    let scene = moved(world).await;
    let columns = "column,sort,n,n_reference,per_day,per_day_reference,null_rate,null_rate_reference,unseen,unseen_names";
    let found = asked(&scene, words("2026-06-01", "2026-06-01", columns)).await;
    assert_eq!(
        found,
        [
            "predictions,count,40,80,40.0,40.0,0.0,0.0,,",
            "feature.age,numbers,40,80,40.0,40.0,0.0,0.0,,",
            "tag.carrier,names,30,80,30.0,40.0,0.25,0.0,1,B6",
            "label,names,40,80,40.0,40.0,0.0,0.0,0,",
            "score,numbers,40,80,40.0,40.0,0.0,0.0,,",
        ]
    );
    // All ages are beyond those of the reference: nothing can be farther.
    let age =
        asked(&scene, words("2026-06-01", "2026-06-01", "column,js_distance,ks,ks_error,wasserstein")).await;
    assert_eq!(age[1], "feature.age,1.0,1.0,0.0,20.0");
    // Equal numbers on the next day have no distance, in any order.
    let same =
        asked(&scene, words("2026-06-02", "2026-06-02", "column,js_distance,psi,ks,wasserstein,p_value"))
            .await;
    assert!(same.contains(&"score,0.0,0.0,0.0,0.0,1.0".to_owned()), "{same:?}");
    // scipy.stats.chi2_contingency([[40, 40, 0], [10, 10, 10]], correction=False)
    let carrier = asked(&scene, words("2026-06-01", "2026-06-01", "column,chi2,l_infinity,p_value")).await;
    let cells: Vec<&str> = carrier[2].split(',').collect();
    let close =
        |cell: &str, to: f64| assert!((cell.parse::<f64>().unwrap() - to).abs() < 1e-12, "{cell} for {to}");
    close(cells[1], 29.333_333_333_333_332);
    close(cells[2], 1.0 / 3.0);
    scene.assert_verified().await;
}

async fn drift_compares_by_release_week_and_statement(world: World) {
    let scene = moved(world).await;
    predict(&scene, "2026-06-03", (0..10).map(|_| json!({ "release": "v2", "score": 0.95 }))).await;
    scene.project().await;
    let of = |release, period| Params {
        release,
        period,
        ..words("2026-06-01", "2026-06-07", "day,release,column,n")
    };
    let all = asked(&scene, of(None, Some("week"))).await;
    assert_eq!(all.iter().find(|row| row.contains("score")).unwrap(), "2026-06-01,,score,90");
    let days = asked(&scene, of(Some("v1"), None)).await;
    assert!(
        days.iter().all(|row| row.starts_with("2026-06-01,v1,") || row.starts_with("2026-06-02,v1,")),
        "{days:?}"
    );
    assert!(!days.iter().any(|row| row.contains("tag.")), "tags are not counted by release");
    let query = scene.query(at(NOW));
    let warned = async |words: Params<'_>| {
        let request = Request::parse(Dataset::Drift, &words).unwrap();
        query.run(scene.id(), &request).await.unwrap().warnings
    };
    let lacking = ["tags are not counted by release; `--exact` compares them"];
    assert_eq!(warned(of(Some("v1"), None)).await, lacking);
    assert_eq!(warned(Params { column: Some("score"), ..of(Some("v1"), None) }).await, [""; 0]);
    assert_eq!(warned(Params { exact: true, ..of(Some("v1"), None) }).await, [""; 0]);
    assert_eq!(warned(of(None, None)).await, [""; 0]);
    let refused = async |words: Params<'_>| {
        let request = Request::parse(Dataset::Drift, &words).unwrap();
        query.run(scene.id(), &request).await.unwrap_err().to_string()
    };
    let of_v2 = Params { columns: Some("column,n,n_reference,psi"), ..of(Some("v2"), None) };
    assert_eq!(
        asked(&scene, of_v2).await,
        ["predictions,10,0,", "score,10,0,"],
        "the reference has nothing of it"
    );
    let nothing = Params { reference: None, ..of(None, None) };
    assert!(refused(nothing).await.starts_with("reference: name the days to compare with"));

    let statement = async |text: &str| {
        let sql = Sql::parse(&SqlParams { statement: text, ..SqlParams::default() }).unwrap();
        query.sql(scene.id(), &sql).await.map(csv).map_err(|error| error.to_string())
    };
    let found = statement(
        "select column, n from drift where day = '2026-06-01' and reference = '2026-05-01..2026-05-02' and js_distance > 0.3 order by column",
    );
    assert_eq!(found.await.unwrap(), "column,n\nfeature.age,40\ntag.carrier,30\n");
    let found = "select column, release from drift where day = '2026-06-01' and reference = '2026-05-01' and release = 'v1' and column = 'score'";
    assert_eq!(statement(found).await.unwrap(), "column,release\nscore,v1\n");
    let without = statement("select column from drift where day = '2026-06-01'").await.unwrap_err();
    assert!(without.contains("where reference = "), "{without}");
    let other = statement(
        "select column from drift where day = '2026-06-01' and reference = '2026-05-01..2026-05-01'",
    );
    assert!(other.await.unwrap_err().contains("write the reference as '2026-05-01'"));
}

async fn drift_over_thirty_days_reads_only_ranges(world: World) {
    let scene = Scene::new(world).await;
    let first: Day = "2026-05-01".parse().unwrap();
    let row = |n: u32| {
        let named = |prefix: &'static str| (0..9).map(move |of| (format!("{prefix}{of}"), n % (of + 2)));
        let tags: Vec<(String, Value)> =
            named("t").map(|(name, of)| (name, json!(format!("v{of}")))).collect();
        let features: Vec<(String, Value)> = named("f").map(|(name, of)| (name, json!(of))).collect();
        json!({ "score": f64::from(n) / 20.0, "label": format!("{}", n % 3),
                "tags": Value::from_iter(tags), "features": Value::from_iter(features) })
    };
    let days: Vec<String> =
        iter::successors(Some(first), |day| day.next()).take(31).map(|day| day.to_string()).collect();
    for day in &days {
        predict(&scene, day, (0..20).map(row)).await;
    }
    scene.project().await;
    let words = Params { reference: Some("2026-05-01"), ..words(&days[1], &days[30], "column,psi") };
    let request = Request::parse(Dataset::Drift, &words).unwrap();
    let query = scene.query(at(NOW));
    let (answer, reads) = scene.world.reads(query.run(scene.id(), &request)).await;
    assert_eq!(csv(answer.unwrap()).lines().count(), 1 + 30 * 21);
    // Each window needs one range of rollups and one of features. The active version is looked up before and after.
    assert_eq!((reads.queries, reads.gets), (4, 2));
    // For columns without a feature each window needs one range.
    let some = Params { column: Some("score,label,tag.t1"), ..words };
    let request = Request::parse(Dataset::Drift, &some).unwrap();
    let (answer, reads) = scene.world.reads(query.run(scene.id(), &request)).await;
    assert_eq!(csv(answer.unwrap()).lines().count(), 1 + 30 * 4);
    assert_eq!((reads.queries, reads.gets), (2, 2));
    let (answer, reads) = scene
        .world
        .reads(query.run(
            scene.id(),
            &Request::parse(Dataset::Drift, &Params { column: Some("feature.f1"), ..some.clone() }).unwrap(),
        ))
        .await;
    assert_eq!(csv(answer.unwrap()).lines().count(), 1 + 30 * 2);
    assert_eq!((reads.queries, reads.gets), (4, 2));
    let wrong = Params { column: Some("score,key"), ..some.clone() };
    let wrong = Request::parse(Dataset::Drift, &wrong).unwrap_err().to_string();
    assert!(wrong.starts_with("column: `key` is not compared"), "{wrong}");
    let wrong =
        Request::parse(Dataset::Rollups, &Params { reference: None, ..some }).unwrap_err().to_string();
    assert_eq!(wrong, "column: `rollups` does not take it; it is of drift");
}

/// Small days are exact in rollups, too, so both agree; statistics that need the events are available by release and as of an
/// instant.
async fn what_is_exact_is_computed_from_the_events(world: World) {
    let scene = moved(world).await;
    let columns = "day,release,column,sort,n,n_reference,per_day,js_distance,psi,wasserstein,ks,chi2,l_infinity,unseen_rate,p_adjusted,\
                   null_rate,null_rate_reference,unseen,unseen_names";
    let days = words("2026-06-01", "2026-06-02", columns);
    for period in ["day", "all"] {
        let days = Params { period: Some(period), ..days.clone() };
        let rolled_up = asked(&scene, days.clone()).await;
        assert!(rolled_up.len() > 4, "{rolled_up:?}");
        assert_eq!(asked(&scene, Params { exact: true, ..days.clone() }).await, rolled_up);
        let some = Params { column: Some("feature.age,score"), ..days };
        let rolled_up = asked(&scene, some.clone()).await;
        assert!(!rolled_up.is_empty() && rolled_up.iter().all(|row| !row.contains("tag.")), "{rolled_up:?}");
        assert_eq!(asked(&scene, Params { exact: true, ..some }).await, rolled_up);
    }
    let exact =
        Params { exact: true, ..words("2026-06-01", "2026-06-01", "column,n,n_reference,l_infinity") };
    let tag = |rows: Vec<String>| rows.into_iter().find(|row| row.starts_with("tag.carrier"));
    let of_all = tag(asked(&scene, exact.clone()).await).unwrap();
    assert_eq!(tag(asked(&scene, Params { release: Some("v1"), ..exact.clone() }).await).unwrap(), of_all);
    // All was appended at noon of the fourth.
    let before = Params { as_of: Some("2026-06-04T11:00:00Z"), exact: false, ..exact.clone() };
    assert_eq!(asked(&scene, before).await, [""; 0]);
    let after = Params { as_of: Some("2026-06-04T13:00:00Z"), ..exact.clone() };
    assert_eq!(asked(&scene, after).await, asked(&scene, exact.clone()).await);
    let request = Request::parse(Dataset::Drift, &exact).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    let read_version = answer.read_version.unwrap().to_string();
    let again = Params { read_version: Some(&read_version), exact: false, ..exact.clone() };
    assert_eq!(asked(&scene, again).await, asked(&scene, exact).await);
    let wrong = Request::parse(
        Dataset::Rollups,
        &Params { from: "2026-06-01", to: "2026-06-01", exact: true, ..Params::default() },
    );
    assert_eq!(wrong.unwrap_err().to_string(), "exact: `rollups` does not take it; it is of drift");
}
