//! A10, B3, B4, C1, C2, E2: the life of releases, and how good they are.

use catalog::{Action, HistoryOf, Patch, PrimaryMetric, ReleaseChange};
use event::Kind;
use fold::evaluation::Record;
use log::{
    key::{self, EntityId},
    scan,
};
use query::{Request, What, Words};
use serde_json::json;
use tests::hooked::{Asked, Hooked, Turn};

use crate::{
    scene::Scene,
    world::{World, at, cost, rows},
};

rows!(
    a10_what_was_live_at_an_instant_is_one_query,
    a10_a_late_promotion_of_300_live_models,
    a10_what_cannot_be_recorded_as_live_fails_no_append,
    a10_unknown_releases_are_registered_where_that_is_set,
    b3_leaderboard_of_a_day,
    b4_e2_history_of_a_model_newest_first,
    c1_leaderboard_is_one_query_of_the_sparse_index,
    c1_one_right_answer_does_not_rank_above_days_of_a_hundred,
    c2_release_with_its_record,
);

async fn a10_what_was_live_at_an_instant_is_one_query(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, workspace) = (scene.world.catalog.clone(), &scene.workspace);
    let times =
        ["2026-06-02T09:00:00Z", "2026-06-05T09:00:00Z", "2026-06-07T09:00:00Z", "2026-06-09T09:00:00Z"]
            .map(at);
    let done = scene.ingest(times[0]).promote(workspace, "v1", "production", None).await.unwrap();
    assert_eq!(done.unwrap().release, "v1");
    let again = scene.ingest(times[0].plus_seconds(9)).promote(workspace, "v1", "production", None).await;
    assert_eq!(again.unwrap(), None, "it is live already");
    let unknown = scene.ingest(times[0]).promote(workspace, "v9", "production", None).await.unwrap_err();
    assert!(unknown.to_string().contains("no release `v9`"), "{unknown}");
    scene.ingest(times[1]).promote(workspace, "v2", "production", Some("better")).await.unwrap();
    let back = scene.ingest(times[2]).roll_back(workspace, "production", None, None, None).await.unwrap();
    assert_eq!(back.unwrap().release, "v1");
    scene.ingest(times[3]).retire(workspace, "v1", None, None).await.unwrap();
    let retired = scene.ingest(times[3]).retire(workspace, "v1", Some("production"), None).await.unwrap_err();
    assert!(retired.to_string().contains("is not live in production"), "{retired}");

    let live = async |time: &str| {
        let asked = catalog.live_at(scene.id(), "production", at(time));
        let (state, reads) = scene.world.reads(asked).await;
        assert_eq!((cost(reads), reads.items <= 1), ((0, 1), true), "one query of one item");
        state.unwrap().remove("m").map(|live| live.release)
    };
    let expected = [None, Some("v1"), Some("v1"), Some("v2"), Some("v1"), Some("v1"), None, None];
    let at_times = [
        "2026-06-02T08:59:59.999999Z",
        "2026-06-02T09:00:00Z",
        "2026-06-05T08:59:59Z",
        "2026-06-06T00:00:00Z",
        "2026-06-07T09:00:00Z",
        "2026-06-09T08:59:59Z",
        "2026-06-09T09:00:00Z",
        // Long after the last change it is one query still.
        "2027-06-09T09:00:00Z",
    ];
    for (time, expected) in at_times.into_iter().zip(expected) {
        assert_eq!(live(time).await.as_deref(), expected, "{time}");
    }

    // The log is the truth: refolding it gives what is stored, and so does projecting it from nothing.
    let mut changes = Vec::new();
    for head in scan::heads(&*scene.table, scene.id()).await.unwrap() {
        assert_eq!(head.log.kind, Kind::Releases);
        for segment in scan::segments(&*scene.table, &head.log, 1, head.seq).await.unwrap() {
            changes.extend(ReleaseChange::of(&segment.unpack(|_| true).unwrap()).unwrap());
        }
    }
    changes.sort();
    let actions: Vec<Action> = changes.iter().map(|change| change.action).collect();
    assert_eq!(actions, [Action::Promote, Action::Promote, Action::Rollback, Action::Retire]);
    let stored = async || {
        let range = key::live_changes(scene.id(), "production");
        let query = table::Query::table(range);
        table::query_all(&*scene.table, query).await.unwrap()
    };
    let before = stored().await;
    for item in &before {
        scene.table.delete(&item.key, table::Condition::None).await.unwrap();
    }
    scene.table.delete(&key::live(scene.id(), "production"), table::Condition::None).await.unwrap();
    scene.project().await;
    assert_eq!(stored().await, before);
    let mut state = Default::default();
    changes.iter().for_each(|change| change.apply(&mut state));
    assert_eq!(catalog.live_now(scene.id()).await.unwrap()["production"], state);
    let (page, reads) = scene.world.reads(catalog.page(scene.id())).await;
    assert_eq!(
        (cost(reads), &page.unwrap().live["production"]),
        ((0, 1), &state),
        "with the workspace's page"
    );
}

/// Names of the greatest length, so that what was live after each of the later changes is 80 KB, and the changes
/// to be put right are more than a transaction takes.
async fn a10_a_late_promotion_of_300_live_models(world: World) {
    const MODELS: i64 = 300;
    let scene = Scene::new(world).await;
    let long = |what: &str, number: i64| format!("{what}{number:0>127}");
    let promotions = (0..MODELS).map(|number| ReleaseChange {
        at: at("2026-06-02T00:00:00Z").plus_seconds(number),
        action: Action::Promote,
        release: long("r", number),
        model: long("m", number),
        environment: Some("production".into()),
        note: None,
    });
    let promotions: Vec<_> = promotions.collect();
    scene.world.catalog.record(scene.id(), &promotions).await.unwrap();
    let late = json!([{
        "release": "v1", "released_at": "2026-06-01T12:00:00Z", "model": "m", "action": "promote",
        "environment": "production",
    }]);
    scene.append(Kind::Releases, late, "2026-06-03T00:00:00Z").await.unwrap();
    for (second, live) in [(-1, 1), (0, 2), (150, 152), (MODELS, 301)] {
        let then = at("2026-06-02T00:00:00Z").plus_seconds(second);
        let state = scene.world.catalog.live_at(scene.id(), "production", then).await.unwrap();
        assert_eq!((state.len(), state["m"].release.as_str()), (live, "v1"), "{second}");
    }
    scene.project().await;
    let behind = projector::sweep::sweep(&*scene.table, scene.id()).await.unwrap();
    assert_eq!(behind.segments, 0, "the rollup of the day goes on");
}

/// The event is in the log, so its append is a success; the projector goes on as well, and tells of it.
async fn a10_what_cannot_be_recorded_as_live_fails_no_append(world: World) {
    let mut scene = Scene::new(world).await;
    let is_live = |key: &table::Key| key::parse_live(&key.sk).is_some();
    let plain = std::mem::replace(
        &mut scene.table,
        Hooked::new(scene.world.table(), move |asked| match asked {
            Asked::Write(key) if is_live(key) => Turn::Fail(event::ErrorKind::Invalid),
            _ => Turn::Pass,
        }),
    );
    let promotion = json!([{
        "release": "v1", "released_at": "2026-06-01T12:00:00Z", "model": "m", "action": "promote",
        "environment": "production",
    }]);
    scene.append(Kind::Releases, promotion, "2026-06-03T00:00:00Z").await.unwrap();
    scene.project().await;
    let behind = projector::sweep::sweep(&*scene.table, scene.id()).await.unwrap();
    assert_eq!(behind.segments, 0, "the rollup of the day goes on");
    let now = async || scene.world.catalog.live_now(scene.id()).await.unwrap();
    assert!(now().await.is_empty());
    // A worker that could not record it does so later.
    let table = plain;
    let head = scan::heads(&*table, scene.id()).await.unwrap().remove(0);
    let day = projector::WorkspaceDay { workspace: scene.id().clone(), day: head.log.day };
    let version = 2;
    projector::project::project(&*table, version, &day, &[head.log].into()).await.unwrap();
    assert_eq!(now().await["production"]["m"].release, "v1");
}

async fn a10_unknown_releases_are_registered_where_that_is_set(world: World) {
    let scene = Scene::new(world).await;
    let prediction = |release: &str| json!([{ "key": "k", "predicted_at": "2026-06-02T01:00:00Z", "release": release, "score": 0.5 }]);
    let now = "2026-06-02T02:00:00Z";
    let refused = scene.append(Kind::Predictions, prediction("v3"), now).await.unwrap_err();
    assert!(refused.to_string().contains("`v3` is no release of this workspace"), "{refused}");
    let settings =
        scene.world.catalog.change_settings(scene.id(), |settings| settings.accept_unknown_releases = true);
    assert!(settings.await.unwrap().accept_unknown_releases);
    scene.append(Kind::Predictions, prediction("v3"), now).await.unwrap();
    scene.append(Kind::Predictions, prediction("v3"), now).await.unwrap();
    let bad = scene.append(Kind::Predictions, prediction("v 4"), now).await.unwrap_err();
    assert!(bad.to_string().contains("release"), "{bad}");
    let page = scene.world.catalog.page(scene.id()).await.unwrap();
    let names: Vec<_> = page.releases.iter().map(|release| release.entity.name.as_str()).collect();
    assert_eq!(names, ["v1", "v2", "v3"]);
    // Its registration is in the release log, once.
    scene.project().await;
    let history = scene.world.catalog.history(scene.id(), HistoryOf::Workspace, 10, None).await.unwrap();
    let found: Vec<_> =
        history.happenings.iter().map(|one| (one.what.as_str(), one.about.as_str())).collect();
    assert_eq!(found, [("register", "v3")]);

    // With two models it must be said of which it is.
    let task = event::Task::Regression;
    scene.world.catalog.ensure_model(scene.id(), "n", &task, at(now)).await.unwrap();
    let unclear = scene.append(Kind::Predictions, prediction("v5"), now).await.unwrap_err();
    assert!(unclear.to_string().contains("of which of the 2 models"), "{unclear}");
    let unknown = scene
        .world
        .catalog
        .change_settings(scene.id(), |settings| settings.model_of_unknown = Some("x".into()));
    assert!(unknown.await.is_err());
    let known = scene
        .world
        .catalog
        .change_settings(scene.id(), |settings| settings.model_of_unknown = Some("n".into()));
    known.await.unwrap();
    scene.append(Kind::Predictions, prediction("v5"), now).await.unwrap();
    let page = scene.world.catalog.page(scene.id()).await.unwrap();
    assert_eq!(page.releases.iter().find(|release| release.entity.name == "v5").unwrap().model, "n");
}

/// 1 June is judged, 2 June is not yet; `v2` is better by the Brier score, which is better when less.
async fn judged(world: World) -> Scene {
    let scene = Scene::new(world).await;
    for day in ["2026-06-01", "2026-06-02"] {
        scene.predict(day, "v1", 0.6).await;
        scene.predict(day, "v2", 0.9).await;
    }
    scene.judge("2026-06-01").await;
    let primary = PrimaryMetric::parse(Some("brier"), None).unwrap();
    let set = scene.world.catalog.change_settings(scene.id(), |settings| {
        settings.primary_metric = primary;
        settings.board_min_n = Some(1);
    });
    set.await.unwrap();
    scene.project().await;
    scene
}

async fn b3_leaderboard_of_a_day(world: World) {
    let scene = judged(world).await;
    let query = scene.query(at("2026-06-10T00:00:00Z"));
    let asked = query.leaderboard_of(scene.id(), "2026-06-01".parse().unwrap(), 10);
    let (ranked, reads) = scene.world.reads(asked).await;
    assert_eq!(cost(reads), (2, 1), "what is set, which projections are read, the evaluation with its parts");
    let (_, places) = ranked.unwrap();
    let names: Vec<_> = places.iter().map(|place| (place.release.as_str(), place.labelled)).collect();
    assert_eq!(names, [("v2", 1), ("v1", 1)], "live or not");
    assert!((places[0].value - 0.01).abs() < 1e-12);
    let (_, none) = query.leaderboard_of(scene.id(), "2026-06-02".parse().unwrap(), 10).await.unwrap();
    assert_eq!(none, [], "nothing is judged yet");
}

async fn c2_release_with_its_record(world: World) {
    let scene = judged(world).await;
    scene.judge("2026-06-02").await;
    scene.project().await;
    let query = scene.query(at("2026-06-10T00:00:00Z"));
    // Of the whole time, and of a day.
    let words = Words {
        from: "2026-06-01",
        to: "2026-06-30",
        columns: Some("wins,losses,ties"),
        release: Some("v2"),
        by: None,
        as_of: None,
        cut: None,
    };
    let request = Request::parse(What::Evaluations, &words).unwrap();
    let (frame, reads) = scene.world.reads(query.run(scene.id(), &request)).await;
    assert_eq!(reads.queries, 2, "all days at once, and which have expired");
    let frame = frame.unwrap().frame;
    let sum = |name: &str| frame.column(name).unwrap().i64().unwrap().iter().flatten().sum::<i64>();
    assert_eq!(["wins", "losses", "ties"].map(sum), [2, 0, 0]);
    let asked = query.leaderboard_of(scene.id(), "2026-06-01".parse().unwrap(), 10);
    let records: Vec<_> =
        asked.await.unwrap().1.into_iter().map(|place| (place.release, place.record)).collect();
    let (won, lost) = (Record { wins: 1, ..Record::default() }, Record { losses: 1, ..Record::default() });
    assert_eq!(records, [("v2".to_owned(), won), ("v1".to_owned(), lost)]);
}

async fn c1_leaderboard_is_one_query_of_the_sparse_index(world: World) {
    let scene = judged(world).await;
    let (catalog, workspace) = (scene.world.catalog.clone(), &scene.workspace);
    let board = async |limit| {
        let (ranked, reads) = scene.world.reads(catalog.leaderboard(scene.id(), limit)).await;
        assert_eq!(cost(reads), (0, 1), "exactly one query");
        let ranked = ranked.unwrap();
        assert_eq!(reads.items, ranked.len() as u64, "of nothing but what is on the board");
        ranked.into_iter().map(|one| (one.release, one.ranked.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(board(10).await, [], "nothing is live");
    let now = at("2026-06-05T00:00:00Z");
    scene.ingest(now).promote(workspace, "v1", "production", None).await.unwrap();
    scene.ingest(now).promote(workspace, "v2", "staging", None).await.unwrap();
    scene.project().await;
    let names = |board: &[(String, catalog::Ranked)]| -> Vec<(String, Vec<String>)> {
        board.iter().map(|(name, of)| (name.clone(), of.environments.clone())).collect()
    };
    let both =
        [("v2".to_owned(), vec!["staging".to_owned()]), ("v1".to_owned(), vec!["production".to_owned()])];
    assert_eq!(names(&board(10).await), both);
    assert_eq!(names(&board(1).await), both[..1]);
    // The other day is judged: the latest counts, and other attributes of the release stay.
    let release = || async { catalog.page(scene.id()).await.unwrap().releases };
    let before = release().await;
    scene.judge("2026-06-02").await;
    scene.project().await;
    let days: Vec<_> = board(10).await.iter().map(|(_, of)| of.day.to_string()).collect();
    assert_eq!(days, ["2026-06-02"; 2]);
    assert_eq!(release().await, before);
    // By accuracy they are equal, by what cannot be judged there is nobody; who is retired is gone.
    let set = async |metric| {
        let primary = PrimaryMetric::parse(metric, None).unwrap();
        let change = catalog.change_settings(scene.id(), |settings| settings.primary_metric = primary);
        change.await.unwrap();
        scene.project().await;
    };
    set(Some("accuracy")).await;
    assert!(board(10).await.iter().all(|(_, of)| of.value == 1.0 && of.metric == "accuracy"));
    scene.ingest(now.plus_seconds(60)).retire(workspace, "v2", None, None).await.unwrap();
    scene.project().await;
    assert_eq!(names(&board(10).await), both[1..]);
    set(Some("rmse")).await;
    assert_eq!(board(10).await, []);
    set(Some("brier")).await;
    assert_eq!(board(10).await.len(), 1);
    // As it is shown: with the name that the model has now.
    let model = catalog.page(scene.id()).await.unwrap().models[0].entity.id.clone();
    let model = EntityId::Model(scene.id().clone(), model);
    catalog.change(&model, &Patch::rename("renamed"), None, now).await.unwrap();
    let query = scene.query(now);
    let (shown, reads) = scene.world.reads(query.leaderboard(scene.id(), 10)).await;
    assert_eq!(cost(reads), (1, 1), "one query, and a read of the model");
    assert_eq!(shown.unwrap()[0].model, "renamed");
    set(None).await;
    assert_eq!(board(10).await, []);
}

async fn c1_one_right_answer_does_not_rank_above_days_of_a_hundred(world: World) {
    let scene = Scene::new(world).await;
    let catalog = &scene.world.catalog;
    catalog
        .ensure_model(
            scene.id(),
            "n",
            &event::Task::Binary { positive_label: "1".into() },
            at("2026-06-01T00:00:00Z"),
        )
        .await
        .unwrap();
    let spec = catalog::ReleaseSpec {
        name: "lucky".into(),
        model: "n".into(),
        configuration: None,
        environment: None,
    };
    catalog.ensure_release(scene.id(), &spec, at("2026-06-01T00:00:00Z")).await.unwrap();
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
    catalog.change_settings(scene.id(), |settings| settings.primary_metric = primary).await.unwrap();
    let now = at("2026-06-11T00:00:00Z");
    for release in ["v1", "lucky"] {
        scene.ingest(now).promote(&scene.workspace, release, "production", None).await.unwrap();
    }
    scene.project().await;
    let board = async || {
        let (ranked, reads) = scene.world.reads(catalog.leaderboard(scene.id(), 10)).await;
        assert_eq!(cost(reads), (0, 1), "exactly one query");
        let of = |one: catalog::RankedRelease| {
            let ranked = one.ranked.unwrap();
            (one.release, ranked.is_ranked, ranked.n, ranked.days, ranked.value)
        };
        ranked.unwrap().into_iter().map(of).collect::<Vec<_>>()
    };
    let v1 = |days| ("v1".to_owned(), true, 100 * days, days, 0.9);
    assert_eq!(board().await, [v1(7), ("lucky".to_owned(), false, 1, 1, 1.0)]);
    let day = scene.query(now).leaderboard_of(scene.id(), "2026-06-09".parse().unwrap(), 10).await.unwrap().1;
    let day: Vec<_> = day.iter().map(|place| (place.release.as_str(), place.is_ranked, place.n)).collect();
    assert_eq!(day, [("v1", true, 100), ("lucky", false, 1)]);
    // As it is set.
    let set = async |days, least| {
        let change = catalog.change_settings(scene.id(), |settings| {
            (settings.board_days, settings.board_min_n) = (Some(days), Some(least));
        });
        change.await.map(|_| ())
    };
    set(9, 1).await.unwrap();
    scene.project().await;
    assert_eq!(board().await, [("lucky".to_owned(), true, 1, 1, 1.0), v1(9)]);
    assert!(set(32, 1).await.unwrap_err().to_string().contains("1 to 31 days"));
}

async fn b4_e2_history_of_a_model_newest_first(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, workspace) = (scene.world.catalog.clone(), &scene.workspace);
    for hour in 0..9 {
        let release = if hour % 2 == 0 { "v1" } else { "v2" };
        let now = at(&format!("2026-06-02T0{hour}:00:00Z"));
        scene.ingest(now).promote(workspace, release, "production", None).await.unwrap();
    }
    let staging = scene.ingest(at("2026-06-03T00:00:00Z"));
    staging.promote(workspace, "v2", "staging", Some("to try")).await.unwrap();
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    for (of, count) in [
        (HistoryOf::Model(&model), 10),
        (HistoryOf::Environment("production"), 9),
        (HistoryOf::Workspace, 10),
    ] {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let (page, reads) = scene.world.reads(catalog.history(scene.id(), of, 4, cursor)).await;
            let page = page.unwrap();
            assert_eq!((cost(reads), reads.items), ((0, 1), page.happenings.len() as u64));
            assert!(page.happenings.len() <= 4);
            found.extend(page.happenings);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found.len(), count);
        assert!(found.is_sorted_by(|a, b| a.at > b.at), "newest first");
    }
    let latest = catalog.history(scene.id(), HistoryOf::Model(&model), 1, None).await.unwrap();
    let latest = &latest.happenings[0];
    assert_eq!((latest.about.as_str(), latest.environment.as_deref()), ("v2", Some("staging")));
    assert_eq!(latest.note.as_deref(), Some("to try"));
}
