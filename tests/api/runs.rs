//! Runs: their parameters, their metrics, and the cost of reading them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use catalog::{
    HistoryPage, NewRun, Noted, Run, RunChange, RunQuery, RunStatus, new::NewRelease, record_metrics,
};
use event::{ErrorKind, Kind};
use ingest::{SubmitError, json::read_ndjson};
use log::key;
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use table::{Condition, Table};
use tests::{
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
    scene::{NOW, Scene, csv},
    world::{World, at, cost},
};

on_both_engines!(
    World::on:
    run_keeps_parameters_and_changes_tags,
    archived_run_is_changeable_unless_refused,
    latest_run_metrics_hold_before_and_after_projection,
    metric_history_reads_one_range_a_day,
    a_history_has_all_days_before_projection,
    non_numeric_values_count_but_enter_no_metric,
    meaningless_run_metrics_are_refused,
    expired_metrics_leave_history_but_keep_latest,
    a_page_of_runs_is_two_queries,
    run_keeps_very_many_metrics,
    parts_of_a_run_are_written_concurrently,
    release_from_run_has_its_finite_metrics,
);

const THEN: &str = "2026-06-01T12:00:00Z";

async fn new_run(scene: &Scene, new: NewRun) -> Run {
    scene.world.catalog.create_run(scene.id(), new, at(THEN)).await.unwrap()
}

/// Appends metrics of a run: the name, the step and the value of each, a second apart.
async fn measure(scene: &Scene, run: &Run, metrics: &[(&str, i64, Value)]) -> Result<(), SubmitError> {
    let event = |(n, (name, step, value)): (usize, &(&str, i64, Value))| {
        let measured_at = at(THEN).plus_seconds(*step * 10 + n as i64).to_string();
        json!({ "name": name, "measured_at": measured_at, "value": value, "run": run.id.as_str(), "step": step })
    };
    scene.append(Kind::Metrics, metrics.iter().enumerate().map(event).collect(), NOW).await
}

/// Latest values of a run, as text.
async fn latest(scene: &Scene, run: &Run) -> Vec<String> {
    let run = scene.world.catalog.run_with_metrics(scene.id(), &run.id).await.unwrap();
    let text = |(name, latest): (&String, &catalog::LatestValue)| {
        format!("{name}={:?} at {}", latest.value, latest.step.unwrap())
    };
    run.metrics.iter().map(text).collect()
}

async fn page(scene: &Scene, run: &Run, metric: &str, limit: usize, after: Option<&str>) -> HistoryPage {
    scene.world.catalog.metric_history(run, metric, (limit, after), at(NOW)).await.unwrap()
}

async fn history(scene: &Scene, run: &Run, metric: &str) -> Vec<(i64, f64)> {
    let page = page(scene, run, metric, 1_000, None).await;
    page.points.iter().map(|point| (point.step.unwrap(), point.value)).collect()
}

async fn run_keeps_parameters_and_changes_tags(world: World) {
    let scene = Scene::new(world).await;
    let catalog = &scene.world.catalog;
    let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let parent = new_run(&scene, NewRun::default()).await;
    assert_eq!((parent.experiment.as_str(), parent.experiment_id().as_str()), ("Default", "0"));
    let new = NewRun {
        experiment: Some("depths of trees".into()),
        name: Some("depth 6".into()),
        parent: Some(parent.id.clone()),
        snapshot: Some("june".into()),
        params: [text("depth", "6")].into(),
        ..NewRun::default()
    };
    let run = new_run(&scene, new.clone()).await;
    assert_eq!(catalog.run(scene.id(), &run.id).await.unwrap(), run);
    let later = at(THEN).plus_seconds(60);
    let change = RunChange {
        params: [text("depth", "6"), text("rate", "0.1")].into(),
        tags: [("team".to_owned(), Some("risk".to_owned()))].into(),
        ..RunChange::default()
    };
    let changed = catalog.change_run(scene.id(), &run.id, &change, later).await.unwrap();
    assert_eq!((changed.params.len(), changed.tags["team"].as_str(), changed.version), (2, "risk", 2));
    let again = catalog.change_run(scene.id(), &run.id, &change, later).await.unwrap();
    assert_eq!(again.version, 2, "nothing changes");
    let other = RunChange { params: [text("depth", "7")].into(), ..RunChange::default() };
    let refused = catalog.change_run(scene.id(), &run.id, &other, later).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(refused.to_string(), "the parameter `depth` is `6` and never changes");
    let ended = RunChange { status: Some(RunStatus::Failed), ..RunChange::default() };
    let ended = catalog.change_run(scene.id(), &run.id, &ended, later).await.unwrap();
    assert_eq!((ended.status, ended.ended_at), (RunStatus::Failed, Some(later)));
    let resumed = RunChange { status: Some(RunStatus::Running), ..RunChange::default() };
    assert_eq!(catalog.change_run(scene.id(), &run.id, &resumed, later).await.unwrap().ended_at, None);
    let taken = NewRun { id: Some(run.id.clone()), ..NewRun::default() };
    let taken = catalog.create_run(scene.id(), taken, later).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict, "an id has one run");
    let missing = NewRun { parent: Some(event::Id::new(later)), ..NewRun::default() };
    assert_eq!(catalog.create_run(scene.id(), missing, later).await.unwrap_err().kind(), ErrorKind::NotFound);
    let names: Vec<String> =
        catalog.experiments(scene.id()).await.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["Default", "depths of trees"]);
}

async fn archived_run_is_changeable_unless_refused(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, later) = (&scene.world.catalog, at(THEN).plus_seconds(60));
    let run = new_run(&scene, NewRun::default()).await;
    let archive = RunChange { archived: Some(true), ..RunChange::default() };
    let archived = catalog.change_run(scene.id(), &run.id, &archive, later).await.unwrap();
    let tags = [("team".to_owned(), Some("risk".to_owned()))].into();
    let tagged = RunChange { tags, ..RunChange::default() };
    let strict = RunChange { unless_archived: true, ..tagged.clone() };
    let refused = catalog.change_run(scene.id(), &run.id, &strict, later).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(catalog.run(scene.id(), &run.id).await.unwrap(), archived);
    assert!(catalog.change_run(scene.id(), &run.id, &tagged, later).await.is_ok());
    let restore = RunChange { archived: Some(false), ..RunChange::default() };
    catalog.change_run(scene.id(), &run.id, &restore, later).await.unwrap();
    assert!(catalog.change_run(scene.id(), &run.id, &strict, later).await.is_ok());
}

async fn latest_run_metrics_hold_before_and_after_projection(world: World) {
    let scene = Scene::new(world).await;
    scene.world.set_lanes(scene.id(), 4).await;
    let (run, other) = (new_run(&scene, NewRun::default()).await, new_run(&scene, NewRun::default()).await);
    let some =
        [("loss", 0, json!(0.5)), ("loss", 2, json!("NaN")), ("loss", 1, json!(0.4)), ("auc", 1, json!(0.8))];
    measure(&scene, &run, &some).await.unwrap();
    measure(&scene, &other, &[("loss", 9, json!("-Infinity"))]).await.unwrap();
    let expected = ["auc=0.8 at 1", "loss=NaN at 2"];
    assert_eq!(latest(&scene, &run).await, expected, "before any projection");
    let losses = history(&scene, &run, "loss").await;
    assert_eq!(
        losses.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
        [0, 2, 1],
        "in the order of the log"
    );
    assert!(losses[1].1.is_nan());
    scene.project().await;
    assert_eq!(latest(&scene, &run).await, expected);
    assert_eq!(history(&scene, &other, "loss").await, [(9, f64::NEG_INFINITY)]);
    // Values that ingest could not record, because it died, are recorded by the projector.
    let first = key::latest(scene.id(), &run.id);
    measure(&scene, &run, &[("loss", 3, json!(0.25))]).await.unwrap();
    scene.table.delete(&first, Condition::None).await.unwrap();
    scene.project().await;
    assert_eq!(latest(&scene, &run).await, ["loss=0.25 at 3"]);
    // A rebuild, which folds all days again, restores all of it; a second one changes nothing.
    for _ in 0..2 {
        let pace = projector::rebuild::Pace { share: 1.0, clock: event::Clock::system() };
        projector::rebuild::rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
        assert_eq!(latest(&scene, &run).await, ["auc=0.8 at 1", "loss=0.25 at 3"]);
        assert_eq!(history(&scene, &run, "loss").await.len(), 4);
    }
}

async fn a_history_has_all_days_before_projection(world: World) {
    let scene = Scene::new(world).await;
    scene.world.set_lanes(scene.id(), 2).await;
    let run = new_run(&scene, NewRun::default()).await;
    let point = |day: i64, step: i64| {
        let measured_at = at(THEN).plus_seconds(day * 86_400 + step).to_string();
        json!({ "name": "loss", "measured_at": measured_at, "value": step, "run": run.id.as_str(), "step": step })
    };
    let append = async |points: &[(i64, i64)]| {
        let points = points.iter().map(|(day, step)| point(*day, *step)).collect();
        scene.append(Kind::Metrics, points, NOW).await.unwrap();
    };
    append(&[(0, 0), (1, 1), (2, 2)]).await;
    append(&[(1, 3)]).await;
    let steps = async |run: &Run| {
        history(&scene, run, "loss").await.into_iter().map(|(step, _)| step).collect::<Vec<_>>()
    };
    assert_eq!(steps(&run).await, [0, 1, 3, 2]);
    scene.project().await;
    let ended = RunChange { status: Some(RunStatus::Finished), ..RunChange::default() };
    let run = scene.world.catalog.change_run(scene.id(), &run.id, &ended, at(THEN)).await.unwrap();
    // A process may continue a run that has ended.
    append(&[(0, 4), (3, 5)]).await;
    assert_eq!(steps(&run).await, [0, 4, 1, 3, 2, 5]);
    scene.project().await;
    assert_eq!(steps(&run).await, [0, 4, 1, 3, 2, 5]);
}

async fn metric_history_reads_one_range_a_day(world: World) {
    let scene = Scene::new(world).await;
    let (run, short) = (new_run(&scene, NewRun::default()).await, new_run(&scene, NewRun::default()).await);
    measure(&scene, &short, &[("loss", 0, json!(1))]).await.unwrap();
    for step in 0..30 {
        measure(&scene, &run, &[("loss", step, json!(step)), ("auc", step, json!(0.5))]).await.unwrap();
    }
    scene.project().await;
    let ended = RunChange { status: Some(RunStatus::Finished), ..RunChange::default() };
    let mut costs = Vec::new();
    for run in [&run, &short] {
        let run = scene.world.catalog.change_run(scene.id(), &run.id, &ended, at(THEN)).await.unwrap();
        let (_, reads) = scene.world.reads(page(&scene, &run, "loss", 1_000, None)).await;
        costs.push(cost(reads));
    }
    assert_eq!(costs[0], costs[1], "thirty segments cost what one does");
    // The latest values, the skipped segments, and the range; the setting and the day of the retention, the active version.
    let (gets, queries) = costs[0];
    assert!(gets <= 3 && queries <= 4, "{gets} gets, {queries} queries");
    assert_eq!(
        history(&scene, &run, "loss").await,
        (0..30).map(|step| (step, step as f64)).collect::<Vec<_>>()
    );
    assert_eq!(history(&scene, &run, "no such metric").await, []);
    for limit in [1, 7, 30] {
        let (mut points, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = page(&scene, &run, "loss", limit, after.as_deref()).await;
            assert!(page.points.len() <= limit);
            points.extend(page.points.iter().map(|point| point.value as i64));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(points, (0..30).collect::<Vec<_>>(), "in pages of {limit}");
    }
}

async fn non_numeric_values_count_but_enter_no_metric(world: World) {
    let scene = Scene::new(world).await;
    let run = new_run(&scene, NewRun::default()).await;
    let loss = [json!(1.0), json!("NaN"), json!(3.0), json!("Infinity"), json!("-Infinity")];
    let all: Vec<(&str, i64, Value)> = (0..).zip(loss).map(|(step, value)| ("loss", step, value)).collect();
    measure(&scene, &run, &all).await.unwrap();
    measure(&scene, &run, &[("gap", 0, json!("NaN"))]).await.unwrap();
    scene.project().await;
    let words = Params {
        from: "2026-06-01",
        to: "2026-06-01",
        by: Some("metric"),
        columns: Some("metric,metrics,value_mean,value_min,value_p50,value_max,value_last"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::Rollups, &words).unwrap();
    let rollup = csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap());
    assert_eq!(
        rollup,
        "metric,metrics,value_mean,value_min,value_p50,value_max,value_last\nloss,2,2.0,1.0,2.0,3.0,3.0\n"
    );
    let words = Params {
        from: "2026-06-01",
        to: "2026-06-01",
        columns: Some("name,step,value"),
        ..Params::default()
    };
    let request = Request::parse(Dataset::Events(Kind::Metrics), &words).unwrap();
    let events = csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap());
    assert_eq!(
        events,
        "name,step,value\nloss,0.0,1.0\nloss,1.0,NaN\nloss,2.0,3.0\nloss,3.0,inf\nloss,4.0,-inf\ngap,0.0,NaN\n"
    );
    let words =
        Params { from: "2026-06-01", to: "2026-06-01", columns: Some("metrics"), ..Params::default() };
    let request = Request::parse(Dataset::Rollups, &words).unwrap();
    let day = csv(scene.query(at(NOW)).run(scene.id(), &request).await.unwrap());
    assert_eq!(day, "metrics\n6\n", "each is an event");
    scene.assert_verified().await;
}

async fn meaningless_run_metrics_are_refused(world: World) {
    let scene = Scene::new(world).await;
    let run = new_run(&scene, NewRun::default()).await;
    let metric =
        json!({ "name": "loss", "measured_at": THEN, "value": 1, "run": run.id.as_str(), "step": 1 });
    let refused = async |change: &dyn Fn(&mut Value)| {
        let mut metric = metric.clone();
        change(&mut metric);
        metric.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        scene.append(Kind::Metrics, json!([metric]), NOW).await.unwrap_err().to_string()
    };
    for (change, reason) in [
        (json!({ "run": "2NBs0sLBnJxEcoDLgVnQdJkhEgV" }), "is no run of this workspace; create it first"),
        (json!({ "run": "first" }), "is not an id"),
        (json!({ "step": 1.5 }), "should be a whole number"),
        (json!({ "step": (1_i64 << 53) + 1 }), "from -9007199254740991 to 9007199254740991, but"),
        (json!({ "run": null }), "`step` needs `run` beside it"),
        (
            json!({ "run": null, "step": null, "value": "NaN" }),
            "is not a finite number, which only a metric of a run",
        ),
        (json!({ "value": "much" }), "should be a number, but is a string"),
        (json!({ "step": "NaN" }), "should be a number, but is a string"),
    ] {
        let message = refused(&|metric: &mut Value| {
            for (name, value) in change.as_object().unwrap() {
                metric[name] = value.clone();
            }
        })
        .await;
        assert!(message.contains(reason), "{change}: {message}");
    }
    assert!(latest(&scene, &run).await.is_empty());
}

async fn expired_metrics_leave_history_but_keep_latest(world: World) {
    let scene = Scene::new(world).await;
    let run = new_run(&scene, NewRun::default()).await;
    measure(&scene, &run, &[("loss", 0, json!(0.5)), ("loss", 1, json!(0.4))]).await.unwrap();
    scene.project().await;
    scene.world.catalog.set_retention(scene.id(), Some(1), at(THEN)).await.unwrap();
    assert_eq!(history(&scene, &run, "loss").await, [], "its day has expired");
    assert_eq!(latest(&scene, &run).await, ["loss=0.4 at 1"]);
}

async fn a_page_of_runs_is_two_queries(world: World) {
    let scene = Scene::new(world).await;
    let mut ids = Vec::new();
    for n in 0..12 {
        let experiment = if n % 3 == 0 { "thirds" } else { "rest" };
        let new = NewRun { experiment: Some(experiment.into()), ..NewRun::default() };
        let now = at(THEN).plus_seconds(n);
        let run = scene.world.catalog.create_run(scene.id(), new, now).await.unwrap();
        measure(&scene, &run, &[("n", n, json!(n))]).await.unwrap();
        ids.push(run.id);
    }
    let asked = |experiment: Option<&str>| RunQuery {
        experiment: experiment.map(key::experiment_id),
        limit: 5,
        after: None,
        newest_first: true,
    };
    for (experiment, expected) in
        [(None, vec![11, 10, 9, 8, 7]), (Some("thirds"), vec![9, 6, 3, 0]), (Some("none"), vec![])]
    {
        let asking = scene.world.catalog.runs(scene.id(), &asked(experiment)).await.unwrap();
        let found: Vec<f64> = asking.runs.iter().map(|run| run.metrics["n"].value).collect();
        assert_eq!(found, expected.iter().map(|n| f64::from(*n)).collect::<Vec<_>>(), "{experiment:?}");
        let (_, reads) = scene.world.reads(scene.world.catalog.runs(scene.id(), &asked(experiment))).await;
        assert!(reads.gets == 0 && reads.queries <= 2, "{experiment:?}: {reads:?}");
    }
    let (mut all, mut query) = (Vec::new(), asked(None));
    loop {
        let page = scene.world.catalog.runs(scene.id(), &query).await.unwrap();
        all.extend(page.runs.into_iter().map(|run| run.run.id));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    all.reverse();
    assert_eq!(all, ids, "page by page");
}

async fn run_keeps_very_many_metrics(world: World) {
    let scene = Scene::new(world).await;
    let run = new_run(&scene, NewRun::default()).await;
    let names: Vec<String> = (0..700).map(|n| format!("metric {n:03}")).collect();
    for step in 0..2 {
        let all: Vec<(&str, i64, Value)> =
            names.iter().map(|name| (name.as_str(), step, json!(step))).collect();
        measure(&scene, &run, &all).await.unwrap();
        scene.project().await;
    }
    let found = scene.world.catalog.run_with_metrics(scene.id(), &run.id).await.unwrap().metrics;
    assert_eq!(found.len(), names.len());
    assert!(found.values().all(|latest| latest.step == Some(1)), "in the first item and beyond it");
    for experiment in [None, Some(run.experiment_id())] {
        let asked = RunQuery { experiment, limit: 5, after: None, newest_first: true };
        let listed = scene.world.catalog.runs(scene.id(), &asked).await.unwrap().runs;
        assert_eq!(listed[0].metrics, found, "of {:?}", asked.experiment);
    }
    assert_eq!(history(&scene, &run, "metric 699").await, [(0, 0.0), (1, 1.0)]);
}

async fn parts_of_a_run_are_written_concurrently(world: World) {
    let scene = Scene::new(world).await;
    let run = new_run(&scene, NewRun::default()).await;
    let metric = |n: usize| {
        json!({ "name": format!("metric {n}"), "measured_at": THEN, "value": 1, "run": run.id.as_str() })
            .to_string()
    };
    let metrics: Vec<String> = (0..400).map(metric).collect();
    let metrics = read_ndjson(Kind::Metrics, metrics.join("\n").as_bytes(), at(NOW)).unwrap();
    let mut noted = Noted::default();
    noted.add(&metrics.columns, None);
    // No write of a part ever ends, so the started ones are those made at one time.
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let hooked: Arc<dyn Table> = Hooked::new(Arc::clone(&scene.table), move |asked| match asked {
        Asked::Write(key) if key.sk.starts_with("run#") && key.sk.contains('/') => {
            counted.fetch_add(1, Ordering::SeqCst);
            Turn::Hang
        }
        _ => Turn::Pass,
    });
    let recorded = record_metrics(&*hooked, scene.id(), noted);
    tokio::time::timeout(Duration::from_secs(3), recorded).await.unwrap_err();
    assert!(begun.load(Ordering::SeqCst) >= 32, "{begun:?}");
}

async fn release_from_run_has_its_finite_metrics(world: World) {
    let scene = Scene::new(world).await;
    let run = new_run(&scene, NewRun::default()).await;
    let measured = [
        ("auc", 1, json!(0.8)),
        ("p_value", 1, json!(1e-200)),
        ("huge", 1, json!(-1e200)),
        ("gap", 1, json!("NaN")),
        ("zero", 1, json!(0.0)),
    ];
    measure(&scene, &run, &measured).await.unwrap();
    let new = || NewRelease { name: "v9".into(), model: "m".into(), ..NewRelease::default() };
    let from_run = NewRelease { from_run: Some(run.id.to_string()), ..new() };
    let spec = from_run.with_run(&scene.world.catalog, scene.id()).await.unwrap().spec().unwrap();
    let metrics = spec.details.metrics.iter().map(|(name, number)| (name.as_str(), number.as_f64()));
    let finite = [("auc", 0.8), ("huge", -1e200), ("p_value", 1e-200), ("zero", 0.0)];
    assert_eq!(metrics.collect::<Vec<_>>(), finite);
    let metrics = [("p_value".to_owned(), serde_json::Number::from_f64(1e-200).unwrap())];
    NewRelease { metrics: Some(metrics.into()), ..new() }.spec().unwrap();
}
