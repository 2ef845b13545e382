//! Expectations from earlier days.

use super::*;

on_both_engines!(
    World::on:
    days_before_say_what_is_to_come,
    days_before_the_window_say_how_truth_comes,
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
