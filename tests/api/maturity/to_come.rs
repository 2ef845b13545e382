//! Expectations from earlier days.

use super::*;

on_both_engines!(
    World::on:
    days_before_say_what_is_to_come,
    days_before_the_window_say_how_truth_comes,
    older_days_predict_the_final_metric,
);

async fn days_before_say_what_is_to_come(world: World) {
    let scene = scene(world).await;
    let query = scene.query(at(LATER));
    let columns = "day,age,labelled,expected_labelled,completeness";
    let found = rows(&scene, &query, Dataset::Maturity, &words(columns)).await;
    // On the first day 4 of 10 predictions were judged between 3 and 7 days; on the second 4 of 10 are to come.
    let expected = [
        "2026-05-01,1h,0,9.0,0.0",
        "2026-05-01,6h,0,9.0,0.0",
        "2026-05-01,1d,5,9.0,0.5555555555555556",
        "2026-05-01,3d,5,9.0,0.5555555555555556",
        "2026-05-01,7d,9,9.0,1.0",
        "2026-05-01,14d,9,9.0,1.0",
        "2026-05-01,30d,9,9.0,1.0",
        "2026-05-01,latest,9,9.0,1.0",
        "2026-06-20,1h,0,18.0,0.0",
        "2026-06-20,6h,0,18.0,0.0",
        "2026-06-20,1d,10,18.0,0.5555555555555556",
        "2026-06-20,latest,10,18.0,0.5555555555555556",
    ];
    assert_eq!(found, expected);
    let mature = |share| Params { mature: Some(share), ..words("day,labelled") };
    assert_eq!(rows(&scene, &query, Dataset::Evaluations, &mature("0.9")).await, ["2026-05-01,9"]);
    let both = ["2026-05-01,9", "2026-06-20,10"];
    assert_eq!(rows(&scene, &query, Dataset::Evaluations, &mature("0.5")).await, both);
    // Without a day of sufficient age nothing is expected, and no day is mature.
    let young = Params { from: TO, ..words(columns) };
    let found = rows(&scene, &query, Dataset::Maturity, &young).await;
    assert_eq!(found[3], "2026-06-20,latest,10,,");
    assert_eq!(
        rows(&scene, &query, Dataset::Evaluations, &Params { from: TO, ..mature("0") }).await,
        [""; 0]
    );
    for (what, words, then) in [
        (Dataset::Maturity, young, "expected_labelled is empty"),
        (Dataset::Evaluations, Params { from: TO, ..mature("0") }, "they are left out"),
    ] {
        let answer = query.run(scene.id(), &Request::parse(what, &words).unwrap()).await.unwrap();
        let said = format!("how much of the truth of {TO} is to come is not known, so {then}: ");
        assert!(answer.warnings.len() == 1 && answer.warnings[0].starts_with(&said), "{:?}", answer.warnings);
    }
    let by_model = Params { by: Some("model"), ..words("day,model,age,labelled") };
    let found = rows(&scene, &query, Dataset::Maturity, &by_model).await;
    assert_eq!(found[2], "2026-05-01,m,1d,5");
}

async fn days_before_the_window_say_how_truth_comes(world: World) {
    let scene = arriving(world).await;
    predict(&scene, "2026-06-29", 10, "2026-06-29T02:00:00Z").await;
    scene.observe_many("2026-06-29", "1", 4, "2026-06-30T00:30:00Z").await;
    let now = at("2026-07-02T12:00:00Z");
    let answer = async |what, mature| {
        let columns = if what == Dataset::Maturity { "day,age,expected_labelled" } else { "day,labelled" };
        let (from, to) = ("2026-06-29", "2026-06-29");
        let words = Params { from, to, mature, columns: Some(columns), ..Params::default() };
        let request = Request::parse(what, &words).unwrap();
        let answer = scene.query(now).run(scene.id(), &request).await.unwrap();
        let (source, warnings) = (answer.source.unwrap(), answer.warnings.clone());
        (csv(answer).lines().skip(1).map(str::to_owned).collect::<Vec<_>>(), source, warnings)
    };
    // On the days of sufficient age 3 of 19 predictions were judged after the first day: 4 are judged, and 10 times as many are
    // to come.
    let expected = 4.0 + 10.0 * (1.0 / 19.0 + 2.0 / 19.0);
    let mut source = query::Source::Events;
    for _ in 0..2 {
        let (rows, from, warnings) = answer(Dataset::Maturity, None).await;
        assert_eq!((rows.len(), from, warnings), (4, source, Vec::new()), "{rows:?}");
        for row in rows {
            let found: f64 = row.rsplit_once(',').unwrap().1.parse().unwrap();
            assert!(row.starts_with("2026-06-29,") && (found - expected).abs() < 1e-9, "{row}");
        }
        let mature = answer(Dataset::Evaluations, Some("0.7")).await;
        assert_eq!(mature, (vec!["2026-06-29,4".to_owned()], source, Vec::new()));
        assert_eq!(answer(Dataset::Evaluations, Some("0.8")).await, (Vec::new(), source, Vec::new()));
        scene.project().await;
        scene.keep_vintages(now).await;
        source = query::Source::Stored;
    }
    // A statement uses them as well.
    let statement = "select age, expected_labelled from maturity where day = '2026-06-29' and age = 'latest'";
    let sql = Sql { statement: statement.into(), all_days: false, as_of: None, read_version: None };
    let told = csv(scene.query(now).sql(scene.id(), &sql).await.unwrap());
    let found: f64 = told.lines().nth(1).unwrap().strip_prefix("latest,").unwrap().parse().unwrap();
    assert!((found - expected).abs() < 1e-9, "{told}");
    // By a read version the days of the read version alone count: other days were not read.
    let words = Params { from: "2026-06-29", to: "2026-06-29", ..words("day,labelled") };
    let as_of = Params { as_of: Some("2026-07-02T12:00:00Z"), ..words.clone() };
    let request = Request::parse(Dataset::Evaluations, &as_of).unwrap();
    let read_version =
        scene.query(now).run(scene.id(), &request).await.unwrap().read_version.unwrap().to_string();
    let by_read_version =
        Params { read_version: Some(&read_version), columns: Some("age,expected_labelled"), ..words };
    let request = Request::parse(Dataset::Maturity, &by_read_version).unwrap();
    let by_read_version = scene.query(now).run(scene.id(), &request).await.unwrap();
    assert!(
        by_read_version.warnings[0].contains("the truth of 2026-06-29 is to come is not known"),
        "{by_read_version:?}"
    );
    assert_eq!(csv(by_read_version).lines().last().unwrap(), "latest,");
}

/// The accuracy of the first `count` of 20 predictions, as [`predict`] and [`Scene::observe_many`] make them.
fn accuracy(count: usize) -> f64 {
    let is_right = |key: &usize| (*key >= 10) == key.is_multiple_of(2);
    (0..count).filter(is_right).count() as f64 / count as f64
}

async fn older_days_predict_the_final_metric(world: World) {
    let scene = Scene::new(world).await;
    let (young, now) = ("2026-06-10", "2026-06-11T02:00:00Z");
    let days: Vec<String> = (1..=25).map(|day| format!("2026-04-{day:02}")).collect();
    let counts: Vec<usize> = (0..25).map(|day| 6 + day * 7 % 14).collect();
    for (day, count) in days.iter().zip(&counts) {
        let next: event::Day = day.parse::<event::Day>().unwrap().next().unwrap();
        predict(&scene, day, 20, &format!("{day}T02:00:00Z")).await;
        scene.observe_many(day, "1", 5, &format!("{next}T00:30:00Z")).await;
        scene.observe_many(day, "1", *count, &format!("{next}T12:00:00Z")).await;
    }
    predict(&scene, young, 20, &format!("{young}T02:00:00Z")).await;
    scene.observe_many(young, "1", 5, "2026-06-11T00:30:00Z").await;
    let mut finals: Vec<f64> = counts.iter().map(|count| accuracy(*count)).collect();
    let expected = finals.iter().sum::<f64>() / 25.0;
    // Of 25 days, and of 24, one may be outside on each side.
    finals.sort_by(f64::total_cmp);
    let (low, high) = (finals[0], finals[24]);
    let is_outside = |at: usize| (at == 0 && low < finals[1]) || (at == 24 && high > finals[23]);
    let inside = (0..25).filter(|at| !is_outside(*at)).count() as f64 / 25.0;
    let request = |from, to, nowcast| {
        Request::parse(Dataset::Maturity, &Params { from, to, nowcast: Some(nowcast), ..Params::default() })
    };
    for _ in 0..2 {
        let answer = scene.query(at(now)).run(scene.id(), &request(young, young, "accuracy").unwrap()).await;
        let text = csv(answer.unwrap());
        let [names, row] = text.lines().collect::<Vec<_>>().try_into().unwrap();
        let nowcast = "nowcast,nowcast_low,nowcast_high,nowcast_days,nowcast_coverage";
        assert_eq!(names, format!("day,release,completeness,accuracy,{nowcast}"));
        let numbers: Vec<f64> = row.split(',').skip(3).map(|number| number.parse().unwrap()).collect();
        for (found, expected) in numbers.iter().zip([accuracy(5), expected, low, high, 25.0, inside]) {
            assert!((found - expected).abs() < 1e-12, "{row}: {expected}");
        }
        // The other way: from vintages.
        scene.project().await;
        scene.keep_vintages(at(now)).await;
    }
    let answer = async |day, metric| scene.query(at(now)).run(scene.id(), &request(day, day, metric)?).await;
    let old = answer("2026-04-25", "accuracy").await.unwrap();
    let value = accuracy(counts[24]);
    assert!(csv(old).ends_with(&format!(",{value},{value},{value},{value},0,\n")));
    // No day is 30 days old by then.
    let early = Params { as_of: Some("2026-04-26T02:00:00Z"), ..words("day,nowcast") };
    let early = Params { from: "2026-04-25", to: "2026-04-25", nowcast: Some("accuracy"), ..early };
    let early =
        scene.query(at(now)).run(scene.id(), &Request::parse(Dataset::Maturity, &early).unwrap()).await;
    let early = early.unwrap();
    let is_told = |warning: &String| warning.contains("at least 19 days that are 30 days old");
    assert!(early.warnings.iter().any(is_told), "{:?}", early.warnings);
    assert_eq!(csv(early), "day,nowcast\n2026-04-25,\n");
    for metric in ["nope", "metric.loss"] {
        let refused = answer(young, metric).await.unwrap_err();
        assert!(refused.to_string().starts_with("nowcast: "), "{refused}");
    }
}
