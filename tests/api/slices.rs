//! Segments of poor predictions: ranked from stored evaluations, and equally from the events.

use event::{Kind, NewDefinition};
use fold::{evaluation::MAX_SLICES, metric::Direction};
use query::{Dataset, Params, Request, Source};
use serde_json::{Value, json};
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at, cost},
};

on_both_engines!(
    World::on:
    worst_slices_ranks_first_without_reading_events,
    ranking_from_events_equals_stored_ranking,
    losses_and_areas_are_tested_from_events,
    pairs_find_what_no_split_alone_shows,
    unstored_values_of_a_day_give_a_warning,
    wrong_words_of_slices_are_named,
);

const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
const LATER: &str = "2026-06-04T12:00:00Z";
const COLUMNS: &str = "release,slice,n,share,value,whole,gap";

/// 121 positive predictions on each day. The truth is positive except for two thirds of the predictions with carrier UA and
/// origin JFK. The last prediction is wrong, and the only one of its carrier.
async fn predict(scene: &Scene, day: &str, release: &str) {
    let prediction = |n: usize| {
        let carrier = if n == 120 { "XX" } else { ["UA", "AA"][n % 2] };
        let tags = json!({ "carrier": carrier, "origin": if n % 4 < 2 { "JFK" } else { "LGA" } });
        json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": 0.9,
                "tags": tags, "features": { "hours": n as f64 } })
    };
    let outcome = |n: usize| {
        let is_wrong = n.is_multiple_of(4) && !n.is_multiple_of(3) || n == 120;
        json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T23:00:00Z"),
                "label": if is_wrong { "0" } else { "1" } })
    };
    scene.append(Kind::Predictions, (0..121).map(prediction).collect(), LATER).await.unwrap();
    scene.append(Kind::Outcomes, (0..121).map(outcome).collect(), LATER).await.unwrap();
}

async fn scene(world: World, dimensions: &[&str]) -> Scene {
    let scene = Scene::new(world).await;
    for day in DAYS {
        predict(&scene, day, "v1").await;
    }
    declare(&scene, dimensions).await;
    scene
}

/// Declares the dimensions, and judges the predictions.
async fn declare(scene: &Scene, dimensions: &[&str]) {
    let new = NewDefinition {
        dimensions: Some(dimensions.iter().map(|dimension| (*dimension).to_owned()).collect()),
        from: Some(DAYS[0].parse().unwrap()),
        ..NewDefinition::default()
    };
    scene.ingest(at("2026-06-05T00:00:00Z")).define_model(&scene.workspace, "m", &new).await.unwrap();
    scene.project().await;
}

/// 120 predictions with all kinds of scores on each day, which are hardly informative for the carrier UA.
async fn scored(world: World) -> Scene {
    let scene = Scene::new(world).await;
    for day in DAYS {
        let prediction = |n: usize| {
            let (carrier, origin) = (["UA", "AA"][n % 2], ["JFK", "LGA", "EWR"][n % 3]);
            let tags = json!({ "carrier": carrier, "origin": origin });
            json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1",
                    "score": (n * 37 % 101) as f64 / 100.0, "tags": tags })
        };
        let outcome = |n: usize| {
            let score = (n * 37 % 101) as f64 / 100.0;
            let is_late = ((n * 53 % 97) as f64) < if n.is_multiple_of(2) { 48.0 } else { score * 97.0 };
            json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T23:00:00Z"),
                    "label": if is_late { "1" } else { "0" } })
        };
        scene.append(Kind::Predictions, (0..120).map(prediction).collect(), LATER).await.unwrap();
        scene.append(Kind::Outcomes, (0..120).map(outcome).collect(), LATER).await.unwrap();
    }
    declare(&scene, &["tag.carrier", "tag.origin"]).await;
    scene
}

fn words(columns: &str) -> Params<'_> {
    Params {
        from: DAYS[0],
        to: DAYS[1],
        metric: Some("accuracy"),
        columns: Some(columns),
        ..Params::default()
    }
}

async fn asked(scene: &Scene, words: &Params<'_>) -> (Vec<String>, Source) {
    let request = Request::parse(Dataset::Slices, words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    let source = answer.source.unwrap();
    (csv(answer).lines().skip(1).map(str::to_owned).collect(), source)
}

async fn refused(scene: &Scene, words: &Params<'_>) -> String {
    let request = Request::parse(Dataset::Slices, words).unwrap();
    scene.query(at(NOW)).run(scene.id(), &request).await.unwrap_err().to_string()
}

async fn worst_slices_ranks_first_without_reading_events(world: World) {
    let scene = scene(world, &["tag.carrier", "tag.origin", "feature.hours:40"]).await;
    let columns = "release,slice,n,value,whole";
    let request = Request::parse(Dataset::Slices, &words(columns)).unwrap();
    let query = scene.query(at(NOW));
    let (answer, reads) = scene.world.reads(query.run(scene.id(), &request)).await;
    let answer = answer.unwrap();
    assert_eq!(answer.source, Some(Source::Stored));
    // The settings, and the active version twice; evaluations and the rows of their dimensions.
    assert_eq!(cost(reads), (3, 2));
    let rows: Vec<String> = csv(answer).lines().skip(1).map(str::to_owned).collect();
    let whole = 200.0 / 242.0;
    // 80 of 122, as the last prediction is of JFK; 80 of 120; by the feature it is equally bad everywhere.
    let value = |row: &String| row.split(',').nth(3).unwrap().parse::<f64>().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.split(',').nth(1).unwrap()).collect();
    let expected = [
        "tag.origin=JFK",
        "tag.carrier=UA",
        "\"feature.hours=[40",
        "\"feature.hours=(-inf",
        "tag.carrier=AA",
        "tag.origin=LGA",
        "tag.carrier=XX",
    ];
    assert_eq!(names, expected);
    assert!((value(&rows[0]) - 80.0 / 122.0).abs() < 1e-12 && (value(&rows[1]) - 80.0 / 120.0).abs() < 1e-12);
    assert!(rows.iter().all(|row| row.ends_with(&whole.to_string())), "{rows:?}");
    // A slice with too few predictions to be ranked comes last, with any gap, and is not tested.
    let (tests, _) = asked(&scene, &words("slice,dimensions,n,p_value,p_adjusted")).await;
    assert_eq!(tests[6], "tag.carrier=XX,1,2,,");
    assert!(tests[0].starts_with("tag.origin=JFK,1,122,") && !tests[0].ends_with(','), "{tests:?}");
    let p = |row: &str| -> [f64; 2] {
        let numbers: Vec<f64> = row.rsplit(',').take(2).map(|text| text.parse().unwrap()).collect();
        [numbers[1], numbers[0]]
    };
    // 80 of 122 against 120 of 120: statsmodels.stats.proportion.proportions_ztest.
    assert!((p(&tests[0])[0] / 1.547770214852898e-12 - 1.0).abs() < 1e-9, "{}", tests[0]);
    for row in &tests[..6] {
        let [p_value, p_adjusted] = p(row);
        assert!(p_value <= p_adjusted && p_adjusted <= 1.0, "{row}");
    }
    // With a lower minimum it is ranked among all.
    let set =
        scene.world.catalog.change_settings(scene.id(), |settings| settings.leaderboard_min_n = Some(1));
    set.await.unwrap();
    assert!(asked(&scene, &words(COLUMNS)).await.0[0].starts_with("v1,tag.carrier=XX,2,"));
}

async fn ranking_from_events_equals_stored_ranking(world: World) {
    let scene = scene(world, &["tag.carrier", "tag.origin", "feature.hours:40"]).await;
    let all = "release,slice,dimensions,n,share,metric,value,whole,gap,p_value,p_adjusted";
    for metric in ["accuracy", "precision", "ece"] {
        let words = Params { metric: Some(metric), ..words(all) };
        let (stored, source) = asked(&scene, &words).await;
        assert_eq!(source, Source::Stored);
        let (computed, source) = asked(&scene, &Params { as_of: Some(NOW), ..words.clone() }).await;
        assert_eq!(source, Source::Events);
        assert_eq!(stored.len(), computed.len(), "{metric}");
        for (stored, computed) in stored.iter().zip(&computed) {
            let cells = |row: &str| row.rsplitn(8, ',').map(str::to_owned).collect::<Vec<_>>();
            for (one, other) in cells(stored).iter().zip(&cells(computed)) {
                let is_close = match (one.parse::<f64>(), other.parse::<f64>()) {
                    (Ok(one), Ok(other)) => (one - other).abs() < 1e-12,
                    _ => one == other,
                };
                assert!(is_close, "{metric}: {stored} is not {computed}");
            }
        }
        // A metric stored without its evidence is not tested.
        assert_eq!(stored[0].ends_with(",,"), metric == "ece", "{}", stored[0]);
    }
    // Before anything was appended there is nothing to rank.
    let (none, _) = asked(&scene, &Params { as_of: Some("2026-06-04"), ..words(COLUMNS) }).await;
    assert_eq!(none, [""; 0]);
    // At another threshold nothing is predicted positive, so wrong predictions become right.
    let (other, source) = asked(&scene, &Params { threshold: Some("0.95"), ..words(COLUMNS) }).await;
    assert_eq!(source, Source::Events);
    assert!(other[0].starts_with("v1,tag.carrier=AA,120,") && other[0].contains(",0.0,"), "{other:?}");
    let (unknown, _) = asked(&scene, &Params { release: Some("v2"), ..words(COLUMNS) }).await;
    assert_eq!(unknown, [""; 0]);
}

async fn losses_and_areas_are_tested_from_events(world: World) {
    let scene = scored(world).await;
    // The 120 predictions of UA against the rest: scipy.stats.ttest_ind(equal_var=False) of the losses, and
    // tests/reference/slices.py of the areas.
    for (metric, of_ua) in
        [("brier", 2.9089882996319675e-6), ("log_loss", 0.01564189683781226), ("auc", 7.764841252116949e-7)]
    {
        let words = Params { metric: Some(metric), ..words("slice,n,p_value,p_adjusted") };
        // Only the metrics of days are stored.
        let (stored, source) = asked(&scene, &words).await;
        assert_eq!((source, stored.len()), (Source::Stored, 5));
        assert!(stored.iter().all(|row| row.ends_with(",,")), "{stored:?}");
        let with_pairs = Params { pairs: true, ..words.clone() };
        let as_of = Params { as_of: Some(NOW), ..words.clone() };
        let at_threshold = Params { threshold: Some("0.9"), ..words };
        for (words, tested) in [(as_of, 5), (at_threshold, 5), (with_pairs, 5 + 6)] {
            let (rows, source) = asked(&scene, &words).await;
            assert_eq!((source, rows.len()), (Source::Events, tested), "{metric}");
            let p = |row: &str, at: usize| -> f64 { row.rsplit(',').nth(at).unwrap().parse().unwrap() };
            for row in &rows {
                let (p_value, p_adjusted) = (p(row, 1), p(row, 0));
                // Without an adjustment it may differ by rounding.
                let is_raised = p_value <= p_adjusted * (1.0 + 1e-12);
                assert!(0.0 < p_value && is_raised && p_adjusted <= 1.0, "{metric}: {row}");
            }
            let of = |carrier| rows.iter().find(|row| row.starts_with(carrier)).unwrap();
            let ua = of("tag.carrier=UA,120,");
            assert!((p(ua, 1) / of_ua - 1.0).abs() < 1e-9, "{metric}: {ua}");
            // The rest of the one is the other.
            assert!((p(of("tag.carrier=AA,120,"), 1) / of_ua - 1.0).abs() < 1e-9, "{metric}: {rows:?}");
        }
    }
}

async fn pairs_find_what_no_split_alone_shows(world: World) {
    let scene = scene(world, &["tag.carrier", "tag.origin"]).await;
    let with_pairs = Params { pairs: true, ..words("slice,dimensions,n,value,gap") };
    let (rows, source) = asked(&scene, &with_pairs).await;
    assert_eq!(source, Source::Events);
    assert!(rows[0].starts_with("\"tag.carrier=UA, tag.origin=JFK\",2,60,0.3333"), "{}", rows[0]);
    // Three of carriers, two of origins, and four of both: all of XX is of JFK, so that pair would be a repetition.
    assert_eq!(rows.len(), 3 + 2 + 4, "{rows:?}");
    let (alone, _) = asked(&scene, &Params { pairs: false, ..with_pairs.clone() }).await;
    let of_one: Vec<&String> = rows.iter().filter(|row| !row.starts_with('"')).collect();
    assert_eq!(of_one, alone.iter().collect::<Vec<_>>());
    // At the read version of an answer it stays the same.
    let request = Request::parse(Dataset::Slices, &with_pairs).unwrap();
    let read_version =
        scene.query(at(NOW)).run(scene.id(), &request).await.unwrap().read_version.unwrap().to_string();
    let late = json!([{ "key": "k0", "predicted_on": DAYS[0], "observed_at": "2026-06-03T00:00:00Z", "label": "0" }]);
    scene.append(Kind::Outcomes, late, "2026-06-09T12:00:00Z").await.unwrap();
    assert_eq!(
        asked(&scene, &Params { read_version: Some(&read_version), ..with_pairs.clone() }).await.0,
        rows
    );
    assert_ne!(asked(&scene, &with_pairs).await.0, rows);
}

async fn unstored_values_of_a_day_give_a_warning(world: World) {
    let scene = Scene::new(world).await;
    // More tails than are stored fly twice on the first day, and N0 once; on the second day only N0 does.
    let prediction = |day: &str, n: usize, tail: usize| {
        json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1", "score": 0.9,
                "tags": { "tail": format!("N{tail}") } })
    };
    let first: Value = (0..=MAX_SLICES * 2 + 2).map(|n| prediction(DAYS[0], n, n.div_ceil(2))).collect();
    let second = json!([prediction(DAYS[1], 0, 0)]);
    for predictions in [first, second] {
        scene.append(Kind::Predictions, predictions, LATER).await.unwrap();
    }
    declare(&scene, &["tag.tail"]).await;
    let warnings = async |from, as_of| {
        let words = Params { from, as_of, ..words("slice,n") };
        let request = Request::parse(Dataset::Slices, &words).unwrap();
        scene.query(at(NOW)).run(scene.id(), &request).await.unwrap().warnings
    };
    let told = warnings(DAYS[0], None).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("`tag.tail` had more values on 2026-06-01 than are stored"), "{told:?}");
    assert_eq!(warnings(DAYS[1], None).await, [""; 0]);
    let computed = warnings(DAYS[0], Some(NOW)).await;
    assert!(!computed.iter().any(|warning| warning.contains("tag.tail")), "{computed:?}");
}

async fn wrong_words_of_slices_are_named(world: World) {
    let scene = scene(world, &["tag.carrier"]).await;
    for (wrong, because) in [
        (
            Params { metric: Some("goodness"), ..words("day") },
            "metric: `goodness` is no metric to rank by; there are",
        ),
        (Params { metric: Some("bias"), ..words("day") }, "metric: `bias` is no metric to rank by"),
        (Params { by: Some("tag.carrier"), ..words("day") }, "group-by: `slices` does not take it"),
        (Params { period: Some("week"), ..words("day") }, "period: `slices` does not take it"),
        (
            Params { environment: Some("production"), ..words("day") },
            "environment: `slices` does not take it",
        ),
    ] {
        let refusal = Request::parse(Dataset::Slices, &wrong).unwrap_err().to_string();
        assert!(refusal.contains(because), "{refusal}");
    }
    let evaluations = Params { metric: None, pairs: true, ..words("day") };
    let refusal = Request::parse(Dataset::Evaluations, &evaluations).unwrap_err().to_string();
    assert!(refusal.contains("pairs: `evaluations` does not take it; it is of slices"), "{refusal}");
    let refusal = Request::parse(Dataset::Evaluations, &words("day")).unwrap_err().to_string();
    assert!(refusal.contains("metric: `evaluations` does not take it; it is of slices"), "{refusal}");
    // Without a metric the primary metric ranks, in its own direction.
    let unnamed = Params { metric: None, ..words("slice,metric") };
    assert!(refused(&scene, &unnamed).await.contains("no primary metric to rank by; name a metric"));
    let set = scene.world.catalog.change_settings(scene.id(), |settings| {
        settings.primary_metric = catalog::PrimaryMetric::parse(Some("accuracy"), Some("min")).unwrap();
    });
    assert_eq!(set.await.unwrap().primary_metric.unwrap().direction, Direction::Min);
    let (rows, _) = asked(&scene, &unnamed).await;
    assert_eq!(rows[0], "tag.carrier=AA,accuracy");
    // A named metric that is the primary metric has the same direction.
    assert_eq!(asked(&scene, &words("slice,metric")).await.0, rows);
    let sum = Params { metric: Some("value"), ..words("day") };
    assert!(refused(&scene, &sum).await.contains("metric: `value` is a sum"));
    let column = Params { columns: Some("accuracy"), ..words("day") };
    let refusal = refused(&scene, &column).await;
    assert!(refusal.contains("there is no column `accuracy`; there are day, release, slice"), "{refusal}");
    assert_eq!(Value::from(rows.len()), json!(3));
}
