//! Metrics of evaluations in other forms than the stored one.

use event::{Column, Columns, Day, ErrorKind, Kind, NewDefinition, Values};
use log::{key::LogId, segment_item::Segment};
use query::{Bounds, Dataset, Params, Request};
use serde_json::json;
use table::Condition;
use tests::{
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at},
};

on_both_engines!(
    World::on:
    metrics_are_computed_at_any_threshold,
    metrics_of_a_period_cover_all_its_events,
    metrics_have_intervals_when_they_are_asked_for,
    intervals_vanish_when_combined_days_exceed_their_limit,
    interval_resampling_respects_query_budget,
    classes_are_shown_stored_and_for_any_period,
    costs_hold_from_day_unless_query_overrides_them,
    the_level_of_intervals_is_defined,
);

const DAY: &str = "2026-06-01";

impl Asked<'_> {
    async fn csv(self, scene: &Scene) -> String {
        let (columns, threshold, zero_division) = (Some(self.columns), self.threshold, self.zero_division);
        let words = Params { from: DAY, to: DAY, columns, threshold, zero_division, ..Params::default() };
        let request = Request::parse(Dataset::Evaluations, &words).unwrap();
        let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
        assert_eq!(
            answer.read_version.is_some(),
            threshold.is_some(),
            "only what is computed from events has a read version"
        );
        csv(answer).lines().nth(1).unwrap().to_owned()
    }
}

/// Question about the only release.
#[derive(Clone, Copy, Default)]
struct Asked<'a> {
    columns: &'a str,
    threshold: Option<&'a str>,
    zero_division: Option<&'a str>,
}

async fn metrics_are_computed_at_any_threshold(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many(DAY, "v1", 9, "2026-06-04T12:00:00Z").await;
    scene.observe_many(DAY, "1", 9, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let asked = Asked { columns: "threshold,tp,fp,tn,fn,labelled,unlabelled", ..Asked::default() };
    let at = |threshold| Asked { threshold: Some(threshold), ..asked };
    assert_eq!(asked.csv(&scene).await, "0.5,3,2,2,2,9,0");
    assert_eq!(at("0.5").csv(&scene).await, "0.5,3,2,2,2,9,0");
    assert_eq!(at("0.25").csv(&scene).await, "0.25,4,3,1,1,9,0");
    assert_eq!(at("0.95").csv(&scene).await, "0.95,0,0,4,5,9,0");
    let shares = Asked { columns: "precision,recall,f1,specificity", ..at("0.95") };
    assert_eq!(shares.csv(&scene).await, ",0.0,0.0,1.0");
    for (word, expected) in [("null", ",0.0,0.0,1.0"), ("0", "0.0,0.0,0.0,1.0"), ("1", "1.0,0.0,0.0,1.0")] {
        assert_eq!(Asked { zero_division: Some(word), ..shares }.csv(&scene).await, expected, "{word}");
    }
}

async fn csv_of(scene: &Scene, words: Params<'_>) -> Vec<String> {
    let words = Params { from: "2026-06-01", to: "2026-06-03", ..words };
    let request = Request::parse(Dataset::Evaluations, &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    csv(answer).lines().skip(1).map(str::to_owned).collect()
}

async fn costs_hold_from_day_unless_query_overrides_them(world: World) {
    let scene = Scene::new(world).await;
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        scene.predict_many(day, "v1", 9, "2026-06-04T12:00:00Z").await;
        scene.observe_many(day, "1", 9, "2026-06-04T12:00:00Z").await;
    }
    scene.project().await;
    let ingest = scene.ingest(at("2026-06-05T00:00:00Z"));
    let define = async |costs: &str, from: &str| {
        let new = NewDefinition {
            costs: Some(costs.into()),
            from: Some(from.parse().unwrap()),
            ..NewDefinition::default()
        };
        ingest.define_model(&scene.workspace, "m", &new).await.unwrap().len()
    };
    assert_eq!(define("tp=10,fp=2,fn=5", "2026-06-02").await, 2);
    assert_eq!(define("fn=5,fp=2,tp=10", "2026-06-02").await, 0, "it is said already");
    assert_eq!(define("fp=1", "2026-06-03").await, 2);
    scene.project().await;
    // 3 true positives, 2 false ones, 2 true negatives and 2 false ones a day.
    let columns = Some("costs,value,value_per_prediction,best_threshold,best_value,threshold");
    let daily = csv_of(&scene, Params { columns, ..Params::default() }).await;
    assert_eq!(
        daily,
        [
            ",,,,,0.5",
            "\"tp=10,tn=0,fp=2,fn=5\",16.0,1.7777777777777777,0.1,42.0,0.5",
            "\"tp=0,tn=0,fp=1,fn=0\",-2.0,-0.2222222222222222,0.9000000000000001,0.0,0.5"
        ]
    );
    // Over all days, for the 18 predictions with known costs; two costs have no common best threshold.
    let all = Params { columns, period: Some("all"), ..Params::default() };
    assert_eq!(csv_of(&scene, all.clone()).await, ["\"tp=0,tn=0,fp=1,fn=0\",14.0,0.7777777777777778,,,0.5"]);
    let named =
        Params { columns: Some("value,best_threshold,best_value"), costs: Some("tp=10,fp=2,fn=5"), ..all };
    assert_eq!(csv_of(&scene, named.clone()).await, ["48.0,0.1,126.0"]);
    let at_best = Params { threshold: Some("0.1"), ..named };
    assert_eq!(csv_of(&scene, at_best).await, ["126.0,0.1,126.0"]);
    let then = Params { columns, as_of: Some("2026-06-04T23:00:00Z"), ..Params::default() };
    assert_eq!(csv_of(&scene, then).await, [",,,,,0.5"; 3], "nothing was said of costs then");
    assert_eq!(define("none", "2026-06-02").await, 2);
    scene.project().await;
    assert_eq!(csv_of(&scene, Params { columns, ..Params::default() }).await[1], ",,,,,0.5");
    scene.assert_verified().await;
}

async fn the_level_of_intervals_is_defined(world: World) {
    let scene = Scene::new(world).await;
    let ingest = scene.ingest(at("2026-06-04T00:00:00Z"));
    let regression = NewDefinition {
        task: Some("regression".into()),
        interval_level: Some(0.8),
        from: DAY.parse().ok(),
        ..NewDefinition::default()
    };
    ingest.define_release(&scene.workspace, "v1", &regression).await.unwrap();
    let prediction = |key: &str, lower: f64, upper: f64| json!({ "key": key, "predicted_at": format!("{DAY}T01:00:00Z"), "release": "v1", "value": lower, "lower": lower, "upper": upper });
    let predictions = json!([prediction("a", 1.0, 3.0), prediction("b", 2.0, 4.0)]);
    scene.append(Kind::Predictions, predictions, "2026-06-04T12:00:00Z").await.unwrap();
    let outcome = |key: &str, value: f64| json!({ "key": key, "predicted_on": DAY, "observed_at": "2026-06-04T00:00:00Z", "value": value });
    let outcomes = json!([outcome("a", 2.0), outcome("b", 5.0)]);
    scene.append(Kind::Outcomes, outcomes, "2026-06-04T12:00:00Z").await.unwrap();
    scene.project().await;
    let columns = Some("coverage,interval_level,pinball");
    // The lower ends lose 0.1 and 0.3, the upper ones 0.1 and 0.9.
    let found = csv_of(&scene, Params { columns, ..Params::default() }).await;
    assert_eq!(found.len(), 1);
    let numbers: Vec<f64> = found[0].split(',').map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers[..2], [0.5, 0.8]);
    assert!((numbers[2] - 0.35).abs() < 1e-12, "{numbers:?}");
    let unknown =
        NewDefinition { interval_level: Some(0.0), from: DAY.parse().ok(), ..NewDefinition::default() };
    ingest.define_release(&scene.workspace, "v1", &unknown).await.unwrap();
    scene.project().await;
    assert_eq!(csv_of(&scene, Params { columns, ..Params::default() }).await, ["0.5,,"]);
    scene.assert_verified().await;
}

async fn metrics_of_a_period_cover_all_its_events(world: World) {
    let scene = Scene::new(world).await;
    let days = ["2026-05-31", "2026-06-01", "2026-06-02", "2026-06-08"];
    for (at, day) in days.into_iter().enumerate() {
        scene.predict_many(day, "v1", 2 * at + 3, "2026-06-09T12:00:00Z").await;
        scene.observe_many(day, "1", 2 * at + 3, "2026-06-09T12:00:00Z").await;
    }
    scene.project().await;
    let run = async |period: Option<&str>, columns: &str, as_of: Option<&str>| {
        let (columns, period) = (Some(columns), period);
        let words =
            Params { from: "2026-05-30", to: "2026-06-09", columns, period, as_of, ..Params::default() };
        let request = Request::parse(Dataset::Evaluations, &words).unwrap();
        let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
        csv(answer).lines().skip(1).collect::<Vec<_>>().join(" ")
    };
    let counts = "day,predictions,labelled,tp,fp,tn,fn";
    let daily = run(None, counts, None).await;
    assert_eq!(run(Some("day"), counts, None).await, daily);
    let numbers = |rows: &str| -> Vec<Vec<u64>> {
        let of_row = |row: &str| row.split(',').skip(1).map(|number| number.parse().unwrap()).collect();
        rows.split(' ').map(of_row).collect()
    };
    let sum = |days: &[usize]| -> Vec<u64> {
        let rows = numbers(&daily);
        (0..rows[0].len()).map(|column| days.iter().map(|day| rows[*day][column]).sum()).collect()
    };
    let weekly = run(Some("week"), counts, None).await;
    assert_eq!(numbers(&weekly), [sum(&[0]), sum(&[1, 2]), sum(&[3])]);
    let first_days = weekly.split(' ').map(|row| &row[..10]).collect::<Vec<_>>();
    assert_eq!(first_days, ["2026-05-30", "2026-06-01", "2026-06-08"]);
    assert_eq!(numbers(&run(Some("month"), counts, None).await), [sum(&[0]), sum(&[1, 2, 3])]);
    assert_eq!(numbers(&run(Some("quarter"), counts, None).await), [sum(&[0, 1, 2, 3])]);
    assert_eq!(numbers(&run(Some("all"), counts, None).await), [sum(&[0, 1, 2, 3])]);
    // Metrics that do not add up are computed from all events: the area under the curve is not a mean of days.
    let areas = run(None, "auc", None).await;
    let areas = areas.split(' ').map(|area| area.parse::<f64>().unwrap()).collect::<Vec<_>>();
    let all: f64 = run(Some("all"), "auc", None).await.parse().unwrap();
    assert!((all - areas.iter().sum::<f64>() / areas.len() as f64).abs() > 1e-3, "{all} of {areas:?}");
    // Also as of an instant before anything was appended.
    assert_eq!(run(Some("all"), counts, Some("2026-06-09T00:00:00Z")).await, "");
}

async fn metrics_have_intervals_when_they_are_asked_for(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many(DAY, "v1", 9, "2026-06-04T12:00:00Z").await;
    scene.observe_many(DAY, "1", 9, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let frame = async |words: Params<'_>| {
        let request = Request::parse(Dataset::Evaluations, &Params { from: DAY, to: DAY, ..words }).unwrap();
        let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
        let names = answer.frame.columns().iter().map(|column| column.name().to_string());
        let names = names.collect::<Vec<_>>().join(",");
        (answer.read_version.is_some(), answer.frame.clone(), names)
    };
    // Naming a column of an interval requests it.
    let columns = Some("keys,accuracy,accuracy_n,accuracy_low,accuracy_high,f1_low,mae_low");
    let (is_of_events, named, _) = frame(Params { columns, ..Params::default() }).await;
    let number = |name: &str| named.column(name).unwrap().f64().unwrap().get(0);
    let count = |name: &str| named.column(name).unwrap().i64().unwrap().get(0);
    assert!(is_of_events);
    assert_eq!((count("keys"), count("accuracy_n"), number("accuracy")), (Some(9), Some(9), Some(5.0 / 9.0)));
    // scipy.stats.binomtest(5, 9).proportion_ci(method="wilson")
    let ends = [number("accuracy_low").unwrap(), number("accuracy_high").unwrap()];
    assert!(
        (ends[0] - 0.2666512934954931).abs() < 1e-12 && (ends[1] - 0.8112214789023354).abs() < 1e-12,
        "{ends:?}"
    );
    assert!(number("f1_low").is_some() && number("mae_low").is_none());
    let (is_of_events, _, plain) = frame(Params::default()).await;
    assert!(!is_of_events);
    let (_, _, all) = frame(Params { interval: true, ..Params::default() }).await;
    assert!(all.starts_with(&format!("{plain},keys,accuracy_n,accuracy_low,accuracy_high,auc_n")), "{all}");
}

/// The first day has few enough predictions for intervals, both days together have too many.
async fn intervals_vanish_when_combined_days_exceed_their_limit(world: World) {
    const ROWS: usize = 10_000;
    let scene = Scene::new(world).await;
    for day in [DAY, "2026-06-02"] {
        for (kind, seq) in (1..=11).flat_map(|seq| [(Kind::Predictions, seq), (Kind::Outcomes, seq)]) {
            let keys = (0..ROWS).map(|row| format!("{seq}-{row}")).collect::<Vec<_>>();
            let text = |text: &str| Values::Text(vec![text; ROWS].into_iter().collect());
            let time = Values::Time(vec![day.parse::<Day>().unwrap().start().micros(); ROWS]);
            let mut columns =
                vec![Column::new("key", Values::Text(keys.iter().map(String::as_str).collect()))];
            columns.extend(match kind {
                Kind::Predictions => vec![
                    Column::new("predicted_at", time),
                    Column::new("release", text("v1")),
                    Column::new("score", Values::Float(vec![0.75; ROWS])),
                ],
                _ => vec![Column::new("observed_at", time), Column::new("label", text("1"))],
            });
            let log = LogId { workspace: scene.id().clone(), day: day.parse().unwrap(), kind, lane: 0 };
            let appended_at = at("2026-06-03T00:00:00Z");
            let columns = Columns { rows: ROWS, columns };
            let segment = Segment::pack(log, seq, appended_at, Vec::new(), &columns).unwrap();
            scene.table.put(segment.to_item(), Condition::Absent).await.unwrap();
        }
    }
    let words = Params {
        from: DAY,
        to: "2026-06-02",
        columns: Some("labelled,accuracy,accuracy_n,accuracy_low"),
        period: Some("all"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::Evaluations, &words).unwrap();
    let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
    assert_eq!(csv(answer).lines().nth(1), Some("220000,1.0,,"));
}

async fn interval_resampling_respects_query_budget(world: World) {
    let scene = Scene::new(world).await;
    for day in [DAY, "2026-06-02"] {
        scene.predict_many(day, "v1", 9, "2026-06-04T12:00:00Z").await;
        scene.observe_many(day, "1", 9, "2026-06-04T12:00:00Z").await;
    }
    let run = async |to, interval, drawn| {
        let request =
            Request::parse(Dataset::Evaluations, &Params { from: DAY, to, interval, ..Params::default() });
        let query = scene.query(at(NOW)).within(Bounds { drawn, ..Bounds::default() });
        query.run(scene.id(), &request.unwrap()).await.map(|answer| answer.frame.height())
    };
    // A day counts its nine predictions once, and 1,000 times for the bootstraps, each of which counts as 500 more.
    assert_eq!(run(DAY, true, 509_009).await.unwrap(), 1);
    for (to, drawn) in [(DAY, 509_008), ("2026-06-02", 509_009), ("2026-06-02", 1_018_017)] {
        let error = run(to, true, drawn).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        assert!(error.to_string().contains("--interval"), "{error}");
    }
    assert_eq!(run("2026-06-02", true, 1_018_018).await.unwrap(), 2);
    assert_eq!(run("2026-06-02", false, 0).await.unwrap(), 0, "nothing is stored, and nothing drawn");
}

async fn classes_are_shown_stored_and_for_any_period(world: World) {
    let scene = Scene::new(world).await;
    for day in [DAY, "2026-06-02"] {
        scene.predict_many(day, "v1", 9, "2026-06-04T12:00:00Z").await;
        scene.observe_many(day, "1", 9, "2026-06-04T12:00:00Z").await;
    }
    scene.project().await;
    let csv = async |what, words: Params<'_>| {
        let request = Request::parse(what, &words).unwrap();
        let answer = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap();
        (answer.read_version.is_some(), csv(answer))
    };
    let words = Params { from: DAY, to: DAY, ..Params::default() };
    let (is_of_events, classes) = csv(Dataset::Classes, words.clone()).await;
    let header = "day,release,class,support,predicted,correct,precision,recall,f1";
    assert_eq!(
        classes,
        format!("{header}\n{DAY},v1,1,5,5,3,0.6,0.6,0.6\n{DAY},v1,(others),4,4,2,0.5,0.5,0.5\n")
    );
    assert!(!is_of_events, "they are stored");
    let (is_of_events, confusion) = csv(Dataset::Confusion, words.clone()).await;
    let header = "day,release,truth,predicted,count";
    let row = |of: &str| format!("{DAY},v1,{of}\n");
    let rows = ["1,1,3", "1,(others),2", "(others),1,2", "(others),(others),2"].map(row).concat();
    assert_eq!(confusion, format!("{header}\n{rows}"));
    assert!(!is_of_events);
    // Over both days, and at a threshold that nothing reaches.
    let both = Params { to: "2026-06-02", period: Some("all"), ..words.clone() };
    let columns = Some("truth,predicted,count");
    let (is_of_events, confusion) = csv(Dataset::Confusion, Params { columns, ..both.clone() }).await;
    assert_eq!(confusion, "truth,predicted,count\n1,1,6\n1,(others),4\n(others),1,4\n(others),(others),4\n");
    assert!(is_of_events);
    let columns = Some("class,support,precision,f1");
    let never = Params { threshold: Some("2"), zero_division: Some("0"), columns, ..both };
    let (_, classes) = csv(Dataset::Classes, never).await;
    assert_eq!(classes.lines().nth(1), Some("1,10,0.0,0.0"));
    let as_of = Params { as_of: Some("2026-06-04T00:00:00Z"), ..words };
    assert_eq!(csv(Dataset::Classes, as_of).await.1.lines().count(), 1, "nothing was there yet");
}
