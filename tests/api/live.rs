//! Live releases: promotions, rollbacks, and the live release at an instant.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use catalog::{Action, Catalog, DetailedSpec, HistoryOf, Patch, ReleaseChange, ReleaseDetails};
use event::{ErrorKind, Kind};
use log::{
    key::{self, EntityId},
    scan,
};
use serde_json::json;
use tests::{
    between::{Between, Call},
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
    register::release_of,
    scene::Scene,
    world::{World, at, cost},
};

on_both_engines!(
    World::on:
    live_releases_at_an_instant_take_one_query,
    late_promotion_among_300_models_is_placed_correctly,
    repeated_creation_completes_failed_release_event,
    unrecordable_live_release_fails_no_append,
    a_release_that_is_live_is_not_deleted,
    unknown_releases_are_registered_where_that_is_set,
    model_history_is_read_newest_first,
);

/// Access pattern A10.
async fn live_releases_at_an_instant_take_one_query(world: World) {
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
    let nowhere = async || {
        let ingest = scene.ingest(times[3]);
        ingest.roll_back(workspace, "prodution", None, None, None).await.unwrap_err().to_string()
    };
    assert_eq!(nowhere().await, "nothing is live in `prodution`, and something is in `production`");
    scene.ingest(times[3]).retire(workspace, "v1", None, None).await.unwrap();
    assert_eq!(nowhere().await, "nothing is live in `prodution`, nor in any other environment");
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
        // Long after the last change it is still one query.
        "2027-06-09T09:00:00Z",
    ];
    for (time, expected) in at_times.into_iter().zip(expected) {
        assert_eq!(live(time).await.as_deref(), expected, "{time}");
    }

    the_log_says_what_is_live(&scene).await;
}

/// The log is the truth: folding it again gives the stored state, and so does projecting it from nothing.
async fn the_log_says_what_is_live(scene: &Scene) {
    let catalog = scene.world.catalog.clone();
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

/// Access pattern A10. Names of maximum length, so that the live releases after each of the later changes take 80 KB, and the
/// changes to be corrected exceed a transaction.
async fn late_promotion_among_300_models_is_placed_correctly(world: World) {
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

/// Access pattern A10. A release in the catalog whose event is not in the log is completed by a repeated request.
async fn repeated_creation_completes_failed_release_event(world: World) {
    let mut scene = Scene::new(world).await;
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    scene.table = Hooked::new(scene.world.table(), move |asked| match asked {
        Asked::Write(key) if key::parse_segment(key).is_some() && failing.load(Ordering::Relaxed) => {
            Turn::Fail(event::ErrorKind::Unavailable)
        }
        _ => Turn::Pass,
    });
    let asked = |notes: &str| {
        let details = ReleaseDetails { notes: Some(notes.into()), ..ReleaseDetails::default() };
        DetailedSpec { details, ..release_of("m", "v9").into() }
    };
    let ingest = scene.ingest(at("2026-06-05T00:00:00Z"));
    let create = async |notes| ingest.create_release(&scene.workspace, asked(notes)).await;
    assert!(create("the first").await.is_err());
    assert!(create("the first").await.is_err());
    fails.store(false, Ordering::Relaxed);
    let created = create("the first").await.unwrap();
    assert!(created.is_new && !created.was_registered);
    let again = create("the first").await.unwrap();
    assert!(!again.is_new && again.was_registered, "it is there");
    // With other notes it is not the requested release, though it is registered now.
    fails.store(true, Ordering::Relaxed);
    let other = |notes: &str| DetailedSpec { spec: release_of("m", "v10"), ..asked(notes) };
    assert!(ingest.create_release(&scene.workspace, other("the first")).await.is_err());
    fails.store(false, Ordering::Relaxed);
    let created = ingest.create_release(&scene.workspace, other("a second")).await.unwrap();
    assert!(!created.is_new && !created.was_registered);
    assert_eq!(created.release.details.notes.as_deref(), Some("the first"));
}

async fn unrecordable_live_release_fails_no_append(world: World) {
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

/// A deleted release could not be retired.
async fn a_release_that_is_live_is_not_deleted(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, now) = (scene.world.catalog.clone(), at("2026-06-05T00:00:00Z"));
    let promoted = |release: &str, seconds: i64| ReleaseChange {
        at: now.plus_seconds(seconds),
        action: Action::Promote,
        release: release.to_owned(),
        model: "m".to_owned(),
        environment: Some("production".to_owned()),
        note: None,
    };
    catalog.record(scene.id(), &[promoted("v1", 0)]).await.unwrap();
    let release = scene.release("v1").await;
    let model = EntityId::Model(scene.id().clone(), catalog.model_named(scene.id(), "m").await.unwrap());
    for of in [&release, &model] {
        let is_refused = async || {
            let refused = catalog.delete(of, None, now).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict);
            assert_eq!(refused.to_string(), "the release `v1` is live in production; retire it first");
        };
        is_refused().await;
        catalog.change(of, &Patch::archive(true), None, now).await.unwrap();
        is_refused().await;
    }
    // Nor is one deleted that goes live right before.
    catalog.record(scene.id(), &[promoted("v2", 1)]).await.unwrap();
    let (inner, workspace) = (Arc::clone(&scene.table), scene.id().clone());
    let (key, mut meanwhile) = (release.key(), Some(promoted("v1", 2)));
    let table = Between::new(Arc::clone(&scene.table), move |call| {
        let is_time = matches!(call, Call::Write(keys) if keys.contains(&key));
        let change = if is_time { meanwhile.take()? } else { return None };
        let (catalog, workspace) = (Catalog::new(Arc::clone(&inner)), workspace.clone());
        Some(Box::pin(async move { catalog.record(&workspace, &[change]).await.unwrap() }))
    });
    let refused = Catalog::new(Arc::new(table)).delete(&release, None, now).await.unwrap_err();
    assert!(refused.to_string().ends_with("is live in production; retire it first"), "{refused}");
    // A retired release can be deleted, and so can its model without live releases.
    let later = now.plus_seconds(3);
    scene.ingest(later).retire(&scene.workspace, "v1", None, None).await.unwrap();
    catalog.delete(&release, None, later).await.unwrap();
    catalog.delete(&model, None, later).await.unwrap();
    assert!(catalog.page(scene.id()).await.unwrap().releases.is_empty());
}

/// Access pattern A10.
async fn unknown_releases_are_registered_where_that_is_set(world: World) {
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

    // With two models the model must be named.
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

/// Access patterns B4 and E2.
async fn model_history_is_read_newest_first(world: World) {
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
