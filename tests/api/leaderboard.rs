//! Ranking of releases: their records, and the leaderboard of the live ones.

use catalog::PrimaryMetric;
use event::{Kind, Task};
use fold::evaluation::Record;
use query::{Dataset, LeaderboardParams, Params, Request};
use serde_json::json;
use tests::{
    on_both_engines,
    register::release_of,
    scene::{NOW, Scene},
    world::{World, at, cost},
};

on_both_engines!(
    World::on:
    window_ranks_releases_by_any_metric,
    the_leaderboard_of_a_day_reads_one_evaluation,
    a_release_is_read_with_its_record,
    leaderboard_is_one_query_of_sparse_index,
    values_of_any_size_are_ranked,
    single_hit_does_not_outrank_many_judged_days,
    late_labels_are_ranked_after_a_delay,
);

/// 1 June is judged, 2 June is not yet; `v2` is better by the Brier score, where less is better.
async fn judged(world: World) -> Scene {
    let scene = Scene::new(world).await;
    for day in ["2026-06-01", "2026-06-02"] {
        scene.predict(day, "v1", 0.6).await;
        scene.predict(day, "v2", 0.9).await;
    }
    scene.judge("2026-06-01").await;
    let primary = PrimaryMetric::parse(Some("brier"), None).unwrap();
    let set = scene.world.catalog.change_settings(scene.id(), |settings| {
        settings.primary_metric.clone_from(&primary);
        settings.leaderboard_min_n = Some(1);
    });
    set.await.unwrap();
    scene.project().await;
    scene
}

/// Access pattern B3.
async fn the_leaderboard_of_a_day_reads_one_evaluation(world: World) {
    let scene = judged(world).await;
    let query = scene.query(at("2026-06-10T00:00:00Z"));
    let asked = query.leaderboard_of(scene.id(), "2026-06-01".parse().unwrap(), 10);
    let (ranked, reads) = scene.world.reads(asked).await;
    assert_eq!(cost(reads), (3, 0), "what is set, which projections are read, the evaluation");
    let (_, places) = ranked.unwrap();
    let names: Vec<_> = places
        .iter()
        .map(|place| (place.release.as_str(), place.judged.map(|(labelled, _)| labelled)))
        .collect();
    assert_eq!(names, [("v2", Some(1)), ("v1", Some(1))], "live or not");
    assert!((places[0].value - 0.01).abs() < 1e-12);
    let (_, none) = query.leaderboard_of(scene.id(), "2026-06-02".parse().unwrap(), 10).await.unwrap();
    assert_eq!(none, [], "nothing is judged yet");
}

/// Access pattern C2.
async fn a_release_is_read_with_its_record(world: World) {
    let scene = judged(world).await;
    scene.judge("2026-06-02").await;
    scene.project().await;
    let query = scene.query(at("2026-06-10T00:00:00Z"));
    // Over the whole time, and over a day.
    let words = Params {
        from: "2026-06-01",
        to: "2026-06-30",
        columns: Some("wins,losses,ties"),
        release: Some("v2"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::Evaluations, &words).unwrap();
    let (frame, reads) = scene.world.reads(query.run(scene.id(), &request)).await;
    assert_eq!(reads.queries, 2, "all days at once, and which have expired");
    let frame = frame.unwrap().frame;
    let sum = |name: &str| frame.column(name).unwrap().i64().unwrap().iter().flatten().sum::<i64>();
    assert_eq!(["wins", "losses", "ties"].map(sum), [2, 0, 0]);
    let asked = query.leaderboard_of(scene.id(), "2026-06-01".parse().unwrap(), 10);
    let records: Vec<_> =
        asked.await.unwrap().1.into_iter().map(|place| (place.release, place.judged.unwrap().1)).collect();
    let (won, lost) = (Record { wins: 1, ..Record::default() }, Record { losses: 1, ..Record::default() });
    assert_eq!(records, [("v2".to_owned(), won), ("v1".to_owned(), lost)]);
}

/// A number that an engine cannot store is ranked in its place, and disturbs no other.
async fn values_of_any_size_are_ranked(world: World) {
    let scene = Scene::new(world).await;
    let catalog = scene.world.catalog.clone();
    catalog.ensure_model(scene.id(), "numbers", &Task::Regression, at(NOW)).await.unwrap();
    let errors = [
        ("least", 5e-324),
        ("tiny", 1e-140),
        ("small", 1e-120),
        ("one", 1.0),
        ("great", 1e125),
        ("greater", 1e130),
        ("greatest", 1e300),
    ];
    let ingest = scene.ingest(at("2026-06-05T00:00:00Z"));
    for (name, error) in errors {
        scene.register(name, "numbers").await.unwrap();
        let event =
            json!([{ "key": "k", "predicted_at": "2026-06-01T01:00:00Z", "release": name, "value": error }]);
        scene.append(Kind::Predictions, event, "2026-06-04T12:00:00Z").await.unwrap();
        ingest.promote(&scene.workspace, name, &format!("as-{name}"), None).await.unwrap();
    }
    let truth = json!([{ "key": "k", "predicted_on": "2026-06-01", "observed_at": "2026-06-02T00:00:00Z", "value": 0.0 }]);
    scene.append(Kind::Outcomes, truth, "2026-06-04T12:00:00Z").await.unwrap();
    for direction in ["min", "max"] {
        let primary = PrimaryMetric::parse(Some("mae"), Some(direction)).unwrap();
        let set = catalog.change_settings(scene.id(), |settings| {
            settings.primary_metric.clone_from(&primary);
            settings.leaderboard_min_n = Some(1);
        });
        set.await.unwrap();
        scene.project().await;
        let leaderboard = catalog.leaderboard(scene.id(), 10).await.unwrap();
        let leaderboard = leaderboard.into_iter().map(|one| (one.release, one.ranked.unwrap().value));
        let mut expected = errors.map(|(name, error)| (name.to_owned(), error));
        if direction == "max" {
            expected.reverse();
        }
        assert_eq!(leaderboard.collect::<Vec<_>>(), expected, "{direction}");
    }
}

/// Access pattern C1.
async fn leaderboard_is_one_query_of_sparse_index(world: World) {
    let scene = judged(world).await;
    let (catalog, workspace) = (scene.world.catalog.clone(), &scene.workspace);
    let leaderboard = async |limit| {
        let (ranked, reads) = scene.world.reads(catalog.leaderboard(scene.id(), limit)).await;
        assert_eq!(cost(reads), (0, 1), "exactly one query");
        let ranked = ranked.unwrap();
        assert_eq!(reads.items, ranked.len() as u64, "of nothing but what is on the leaderboard");
        ranked.into_iter().map(|one| (one.release, one.ranked.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(leaderboard(10).await, [], "nothing is live");
    let now = at("2026-06-05T00:00:00Z");
    scene.ingest(now).promote(workspace, "v1", "production", None).await.unwrap();
    scene.ingest(now).promote(workspace, "v2", "staging", None).await.unwrap();
    scene.project().await;
    let names = |leaderboard: &[(String, catalog::Ranked)]| -> Vec<(String, Vec<String>)> {
        leaderboard.iter().map(|(name, of)| (name.clone(), of.environments.clone())).collect()
    };
    let both =
        [("v2".to_owned(), vec!["staging".to_owned()]), ("v1".to_owned(), vec!["production".to_owned()])];
    assert_eq!(names(&leaderboard(10).await), both);
    assert_eq!(names(&leaderboard(1).await), both[..1]);
    // The other day is judged: the latest counts, and other attributes of the release stay.
    let release = || async { catalog.page(scene.id()).await.unwrap().releases };
    let before = release().await;
    scene.judge("2026-06-02").await;
    scene.project().await;
    let days: Vec<_> = leaderboard(10).await.iter().map(|(_, of)| of.day.to_string()).collect();
    assert_eq!(days, ["2026-06-02"; 2]);
    assert_eq!(release().await, before);
    // By accuracy they are equal, by a metric without values there is none; a retired release is gone.
    let set = async |metric| {
        let primary = PrimaryMetric::parse(metric, None).unwrap();
        let change =
            catalog.change_settings(scene.id(), |settings| settings.primary_metric.clone_from(&primary));
        change.await.unwrap();
        scene.project().await;
    };
    set(Some("accuracy")).await;
    assert!(leaderboard(10).await.iter().all(|(_, of)| of.value == 1.0 && of.metric == "accuracy"));
    scene.ingest(now.plus_seconds(60)).retire(workspace, "v2", None, None).await.unwrap();
    scene.project().await;
    assert_eq!(names(&leaderboard(10).await), both[1..]);
    set(Some("rmse")).await;
    assert_eq!(leaderboard(10).await, []);
    set(Some("brier")).await;
    assert_eq!(leaderboard(10).await.len(), 1);
    let query = scene.query(now);
    let (shown, reads) = scene.world.reads(query.leaderboard(scene.id(), 10)).await;
    assert_eq!(cost(reads), (1, 1), "one query, and a read of the model");
    assert_eq!(shown.unwrap()[0].model, "m");
    set(None).await;
    assert_eq!(leaderboard(10).await, []);
}

/// Access pattern C1.
async fn single_hit_does_not_outrank_many_judged_days(world: World) {
    let scene = Scene::new(world).await;
    let catalog = &scene.world.catalog;
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(scene.id(), "n", &task, at("2026-06-01T00:00:00Z")).await.unwrap();
    catalog.ensure_release(scene.id(), &release_of("n", "lucky"), at("2026-06-01T00:00:00Z")).await.unwrap();
    let predict = async |day: usize, release: &str, rows: std::ops::Range<usize>| {
        let events = rows.map(|n| {
            json!({ "key": format!("k{n}"), "predicted_at": format!("2026-06-0{day}T01:00:00Z"), "release": release,
                    "score": if n % 10 == 0 { 0.4 } else { 0.9 } })
        });
        scene.append(Kind::Predictions, events.collect(), "2026-06-11T00:00:00Z").await.unwrap();
    };
    for day in 1..=9 {
        predict(day, "v1", 0..100).await;
        if day == 9 {
            predict(day, "lucky", 1..2).await;
        }
        let events = (0..100).map(|n| {
            json!({ "key": format!("k{n}"), "predicted_on": format!("2026-06-0{day}"), "observed_at": "2026-06-10T00:00:00Z", "label": "1" })
        });
        scene.append(Kind::Outcomes, events.collect(), "2026-06-11T00:00:00Z").await.unwrap();
    }
    let primary = PrimaryMetric::parse(Some("accuracy"), None).unwrap();
    catalog
        .change_settings(scene.id(), |settings| settings.primary_metric.clone_from(&primary))
        .await
        .unwrap();
    let now = at("2026-06-11T00:00:00Z");
    for release in ["v1", "lucky"] {
        scene.ingest(now).promote(&scene.workspace, release, "production", None).await.unwrap();
    }
    scene.project().await;
    let leaderboard = async || {
        let (ranked, reads) = scene.world.reads(catalog.leaderboard(scene.id(), 10)).await;
        assert_eq!(cost(reads), (0, 1), "exactly one query");
        let of = |one: catalog::RankedRelease| {
            let ranked = one.ranked.unwrap();
            (one.release, ranked.is_ranked, ranked.n, ranked.days, ranked.value)
        };
        ranked.unwrap().into_iter().map(of).collect::<Vec<_>>()
    };
    let v1 = |days| ("v1".to_owned(), true, 100 * days, days, 0.9);
    assert_eq!(leaderboard().await, [v1(7), ("lucky".to_owned(), false, 1, 1, 1.0)]);
    let day = scene.query(now).leaderboard_of(scene.id(), "2026-06-09".parse().unwrap(), 10).await.unwrap().1;
    let day: Vec<_> = day.iter().map(|place| (place.release.as_str(), place.is_ranked, place.n)).collect();
    assert_eq!(day, [("v1", true, 100), ("lucky", false, 1)]);
    // With other settings.
    let set = async |days, least| {
        let change = catalog.change_settings(scene.id(), |settings| {
            (settings.leaderboard_days, settings.leaderboard_min_n) = (Some(days), Some(least));
        });
        change.await.map(|_| ())
    };
    set(9, 1).await.unwrap();
    scene.project().await;
    assert_eq!(leaderboard().await, [("lucky".to_owned(), true, 1, 1, 1.0), v1(9)]);
    assert!(set(32, 1).await.unwrap_err().to_string().contains("1 to 31 days"));
}

async fn late_labels_are_ranked_after_a_delay(world: World) {
    let scene = Scene::new(world).await;
    let catalog = &scene.world.catalog;
    // The only label of the last day came early, and shows the prediction to be wrong.
    for (day, count, label) in [("2026-06-02", 4, "1"), ("2026-06-03", 4, "1"), ("2026-06-08", 1, "other")] {
        for release in ["v1", "v2"] {
            let events = (0..4).map(|n| {
                json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": 0.9 })
            });
            scene.append(Kind::Predictions, events.collect(), "2026-06-09T00:00:00Z").await.unwrap();
        }
        let events = (0..count).map(|n| {
            json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": "2026-06-09T00:00:00Z", "label": label })
        });
        scene.append(Kind::Outcomes, events.collect(), "2026-06-09T12:00:00Z").await.unwrap();
    }
    let now = at("2026-06-09T13:00:00Z");
    scene.ingest(now).promote(&scene.workspace, "v1", "production", None).await.unwrap();
    scene.project().await;
    let primary = PrimaryMetric::parse(Some("accuracy"), None).unwrap();
    let ranked = async |delay: Option<u32>, now: &str| {
        let change = catalog.change_settings(scene.id(), |settings| {
            settings.primary_metric.clone_from(&primary);
            (settings.leaderboard_min_n, settings.leaderboard_delay) = (Some(1), delay);
        });
        change.await.unwrap();
        catalog.rank_by_settings(scene.id(), at(now)).await;
        let leaderboard = catalog.leaderboard(scene.id(), 10).await.unwrap();
        leaderboard
            .into_iter()
            .map(|one| one.ranked.unwrap())
            .map(|one| (one.day.to_string(), one.n, one.value))
            .collect::<Vec<_>>()
    };
    assert_eq!(ranked(None, NOW).await, [("2026-06-08".to_owned(), 9, 8.0 / 9.0)]);
    assert_eq!(ranked(Some(6), NOW).await, [("2026-06-03".to_owned(), 8, 1.0)], "over for six days");
    assert_eq!(ranked(Some(6), "2026-06-09T23:59:59Z").await, [("2026-06-02".to_owned(), 4, 1.0)]);
    assert_eq!(ranked(Some(90), NOW).await, []);
}

async fn window_ranks_releases_by_any_metric(world: World) {
    let scene = Scene::new(world).await;
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        scene.predict_many(day, "v1", 9, "2026-06-04T12:00:00Z").await;
        scene.observe_many(day, "1", 9, "2026-06-04T12:00:00Z").await;
    }
    // One right answer on the last day.
    scene.predict_many("2026-06-03", "v2", 1, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let query = scene.query(at(NOW));
    let words_of_window =
        LeaderboardParams { from: "2026-06-01", to: "2026-06-03", ..LeaderboardParams::default() };
    let words = |metric, min_n| LeaderboardParams {
        from: "2026-06-01",
        to: "2026-06-03",
        metric,
        min_n,
        ..words_of_window
    };
    let places = async |words: LeaderboardParams<'_>| -> Vec<(String, u64, bool)> {
        let (_, places) = query.leaderboard_of_window(scene.id(), &words, 10).await.unwrap();
        places.into_iter().map(|place| (place.release, place.n, place.is_ranked)).collect()
    };
    let brier = |min_n| words(Some("brier"), Some(min_n));
    assert_eq!(places(brier(10)).await, [("v1".to_owned(), 27, true), ("v2".to_owned(), 1, false)]);
    assert!(places(brier(1)).await.iter().all(|(.., is_ranked)| *is_ranked));
    let (primary, found) =
        query.leaderboard_of_window(scene.id(), &words(Some("auc"), None), 10).await.unwrap();
    assert_eq!((primary.metric.name(), found.len()), ("auc", 1), "one class has no area");
    let words_of_all = Params {
        from: "2026-06-01",
        to: "2026-06-03",
        period: Some("all"),
        release: Some("v1"),
        columns: Some("auc"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::Evaluations, &words_of_all).unwrap();
    let frame = query.run(scene.id(), &request).await.unwrap().frame.clone();
    assert_eq!(frame.column("auc").unwrap().f64().unwrap().get(0), Some(found[0].value));
    let fails = async |words: LeaderboardParams<'_>| {
        query.leaderboard_of_window(scene.id(), &words, 10).await.unwrap_err().to_string()
    };
    let unset = "the workspace has no primary metric to rank by; name a metric";
    assert_eq!(fails(words(None, None)).await, unset);
    // As of an instant before anything was posted, and after it.
    let early = LeaderboardParams { as_of: Some("2026-06-04"), ..brier(1) };
    assert_eq!(places(early).await, []);
    let late = LeaderboardParams { as_of: Some("2026-06-05"), ..brier(1) };
    assert_eq!(places(late).await, places(brier(1)).await);
    assert!(fails(LeaderboardParams { as_of: Some("noon"), ..brier(1) }).await.starts_with("as-of: "));
    let live = LeaderboardParams { environment: Some("production"), ..brier(1) };
    assert_eq!(fails(live).await, "there is no environment `production`; there is none yet");
}
