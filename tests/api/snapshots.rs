//! Snapshots: equal rows, byte for byte, despite later changes. Each on a SQLite file and on DynamoDB Local.

use std::sync::Arc;

use catalog::{AnyEntity, DetailedSpec, Patch, Pin, new::NewSnapshot};
use event::{Clock, ErrorKind, Kind, Result};
use log::{key, key::EntityId};
use projector::{
    expire::Deleted,
    rebuild::{Pace, rebuild},
};
use query::{Dataset, Query};
use serde_json::json;
use table::Condition;
use tests::{
    on_both_engines,
    register::release_of,
    scene::{NOW, Scene, csv},
    world::at,
};

on_both_engines!(
    Scene::on:
    a_snapshot_reads_the_same_rows_for_ever,
    snapshot_keeps_its_days_while_it_exists,
    snapshot_named_by_releases_needs_archiving_before_deletion,
    what_a_snapshot_cannot_keep_is_refused,
    snapshot_with_changed_segment_fails_verification,
);

const DAYS: [&str; 3] = ["2026-06-01", "2026-06-02", "2026-06-03"];

/// Three days of predictions, the first two judged.
async fn filled(scene: &Scene) {
    for day in DAYS {
        scene.predict_many(day, "v1", 5, "2026-06-04T00:00:00Z").await;
        scene.predict_many(day, "v2", 3, "2026-06-04T00:00:00Z").await;
    }
    for day in &DAYS[..2] {
        scene.observe_many(day, "1", 5, "2026-06-04T00:00:00Z").await;
    }
    scene.project().await;
}

/// June, as `what`.
pub(crate) fn june(name: &str, what: &str) -> NewSnapshot {
    let text = |text: &str| Some(text.to_owned());
    NewSnapshot {
        workspace: "credit/prod".into(),
        name: name.into(),
        what: text(what),
        from: text("2026-06-01"),
        to: text("2026-06-30"),
        ..NewSnapshot::default()
    }
}

pub(crate) async fn create(scene: &Scene, new: &NewSnapshot) -> Result<EntityId> {
    let (snapshot, warnings) = scene.query(at(NOW)).create_snapshot(new).await?;
    // A snapshot as of a time before the import of its days has no rows of them, and a warning.
    assert!(warnings.iter().all(|warning| warning.starts_with("as of ")), "{warnings:?}");
    Ok(AnyEntity::Snapshot(snapshot).at())
}

/// Rows of a snapshot, from a new service.
async fn read(scene: &Scene, what: Dataset, name: &str) -> String {
    let query = Query::new(Arc::clone(&scene.table), Clock::from_fn(|| at("2026-07-10T00:00:00Z")));
    let request = query.snapshot(scene.id(), what, name).await.unwrap();
    csv(query.run(scene.id(), &request).await.unwrap())
}

async fn a_snapshot_reads_the_same_rows_for_ever(scene: Scene) {
    filled(&scene).await;
    const PREDICTIONS: Dataset = Dataset::Events(Kind::Predictions);
    let mut row_filter = june("narrow", "predictions");
    row_filter.filter = Some("score > 0.1".into());
    row_filter.release = Some("v2".into());
    row_filter.order = Some("newest".into());
    row_filter.limit = Some(4.into());
    row_filter.columns = Some(vec!["score".into(), "key".into()]);
    let mut hours = june("hours", "predictions");
    (hours.from, hours.to) = (Some("2026-06-02T00:30:00Z".into()), Some("2026-06-03T00:30:00Z".into()));
    let some_joined = NewSnapshot { name: "some".into(), what: Some("joined".into()), ..row_filter.clone() };
    let mut earlier = june("earlier", "joined");
    earlier.as_of = Some("2026-06-03T00:00:00Z".into());
    let all = [
        (june("all", "predictions"), PREDICTIONS, 24),
        (june("judged", "joined"), Dataset::Joined, 24),
        (june("outcomes", "outcomes"), Dataset::Events(Kind::Outcomes), 10),
        (row_filter, PREDICTIONS, 4),
        (hours, PREDICTIONS, 8),
        (earlier, Dataset::Joined, 0),
        (some_joined, Dataset::Joined, 4),
    ];
    let (mut known, mut made) = (Vec::new(), Vec::new());
    for (new, what, rows) in &all {
        made.push(create(&scene, new).await.unwrap());
        let text = read(&scene, *what, &new.name).await;
        assert_eq!(text.lines().count(), rows + 1, "{text}");
        known.push(text);
    }
    assert_eq!(known[3].lines().nth(1).unwrap(), "0.2,k1", "{}", known[3]);
    assert!(known[1].contains("outcome_label"), "{}", known[1]);

    // Late rows with a new tag, late outcomes, another release, a deleted one, a rebuild.
    let late = json!([{
        "key": "k0", "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.99, "tags": { "branch": "x" },
    }]);
    scene.append(Kind::Predictions, late, "2026-06-20T00:00:00Z").await.unwrap();
    scene.observe_many("2026-06-03", "1", 5, "2026-06-20T00:00:00Z").await;
    scene.observe_many("2026-06-01", "other", 5, "2026-06-20T00:00:00Z").await;
    scene.delete_release("v2").await;
    scene.project().await;
    let pace = Pace { share: 1.0, clock: Clock::from_fn(|| at("2026-06-21T00:00:00Z")) };
    rebuild(&*scene.table, scene.id(), &pace, |_| {}).await.unwrap();
    for (((new, what, rows), known), at_snapshot) in all.iter().zip(&known).zip(&made) {
        assert_eq!(read(&scene, *what, &new.name).await, *known, "{}", new.name);
        let verified = scene.query(at("2026-07-10T00:00:00Z")).verify_snapshot(at_snapshot).await.unwrap();
        assert!(verified.is_same() && verified.rows == *rows as u64, "{}: {verified:?}", new.name);
    }
    // It is an entity like others: listed with the workspace, renamed, and read under its new name.
    let page = scene.world.catalog.page(scene.id()).await.unwrap();
    let names: Vec<&str> = page.snapshots.iter().map(|one| one.entity.name.as_str()).collect();
    assert_eq!(names.len(), all.len());
    scene.world.catalog.change(&made[0], &Patch::rename("june"), None, at(NOW)).await.unwrap();
    assert_eq!(read(&scene, PREDICTIONS, "june").await, known[0]);
    let wrong = scene.query(at(NOW)).snapshot(scene.id(), Dataset::Joined, "june").await.unwrap_err();
    assert!(wrong.to_string().contains("is of predictions, not of joined"), "{wrong}");
}

async fn snapshot_keeps_its_days_while_it_exists(scene: Scene) {
    filled(&scene).await;
    let (catalog, id) = (scene.world.catalog.clone(), scene.id().clone());
    let mut two = june("two", "joined");
    two.to = Some("2026-06-02".into());
    let made = create(&scene, &two).await.unwrap();
    let known = read(&scene, Dataset::Joined, "two").await;
    // All three days expire; a pin beside the snapshot is set and removed.
    let now = at("2026-06-08T00:00:00Z");
    catalog.set_retention(&id, Some(2), now).await.unwrap();
    let day = Pin::Day("2026-06-02".parse().unwrap());
    catalog.pin(&id, &day, true, now).await.unwrap();
    catalog.pin(&id, &day, false, now).await.unwrap();
    assert_eq!(scene.expire(now).await, Deleted::default());
    let later = now.plus_seconds(3_600);
    assert_eq!(scene.expire(later).await.days, 1);
    assert_eq!(scene.logs().await, ["2026-06-01", "2026-06-02"].map(|day| day.parse().unwrap()));
    assert_eq!(read(&scene, Dataset::Joined, "two").await, known);
    // A window with expired days gives no snapshot, since it would look whole; the days before them do.
    let mut rest = june("rest", "predictions");
    let refused = scene.query(later).create_snapshot(&rest).await.unwrap_err().to_string();
    assert!(refused.contains("the events of 1 of the days, up to 2026-06-03, have expired"), "{refused}");
    rest.to = Some("2026-06-02".into());
    let (snapshot, warnings) = scene.query(later).create_snapshot(&rest).await.unwrap();
    assert_eq!((snapshot.content.rows, warnings), (16, Vec::new()));
    catalog.delete(&AnyEntity::Snapshot(snapshot).at(), None, later).await.unwrap();

    catalog.delete(&made, None, later).await.unwrap();
    assert!(catalog.retention(&id).await.unwrap().pinned_snapshots.is_empty());
    let error = scene.query(now).snapshot(&id, Dataset::Joined, "two").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // Another hour after the change.
    assert_eq!(scene.expire(later).await, Deleted::default());
    assert_eq!(scene.expire(later.plus_seconds(3_600)).await.days, 2);
    // The name is free again.
    catalog.set_retention(&id, None, later).await.unwrap();
    let mut two = june("two", "predictions");
    two.from = Some("2026-06-04".into());
    create(&scene, &two).await.unwrap();
}

async fn snapshot_named_by_releases_needs_archiving_before_deletion(scene: Scene) {
    filled(&scene).await;
    let catalog = &scene.world.catalog;
    let made = create(&scene, &june("june", "joined")).await.unwrap();
    let named = |snapshot: &str| DetailedSpec {
        snapshot: Some(snapshot.to_owned()),
        ..DetailedSpec::from(release_of("m", "v3"))
    };
    let ingest = scene.ingest(at(NOW));
    let missing = ingest.create_release(&scene.workspace, named("may")).await.err().unwrap().to_string();
    assert!(missing.contains("there is no snapshot `may`"), "{missing}");
    let created = ingest.create_release(&scene.workspace, named("june")).await.unwrap();
    assert!(created.is_new);
    let again = ingest.create_release(&scene.workspace, named("june")).await.unwrap();
    assert!(!again.is_new && again.was_registered);
    catalog.change(&made, &Patch::rename("training"), None, at(NOW)).await.unwrap();
    let release = AnyEntity::Release(created.release).at();
    let AnyEntity::Release(shown) = catalog.show(&release).await.unwrap() else { panic!("a release") };
    let details = shown.details;
    assert_eq!(details.tuned_on.unwrap().name, "training");
    assert_eq!(details.snapshot.unwrap().to().to_string(), "2026-06-30");
    // Followers of the workspace see it.
    scene.project().await;
    let history = catalog.history(scene.id(), catalog::HistoryOf::Workspace, 1, None).await.unwrap();
    assert_eq!(history.happenings[0].note.as_deref(), Some("tuned on the snapshot june"));

    let refused = catalog.delete(&made, None, at(NOW)).await.unwrap_err();
    assert!(refused.is_conflict() && refused.to_string().contains("1 releases"), "{refused}");
    catalog.change(&made, &Patch::archive(true), None, at(NOW)).await.unwrap();
    catalog.delete(&made, None, at(NOW)).await.unwrap();
    let AnyEntity::Release(shown) = catalog.show(&release).await.unwrap() else { panic!("a release") };
    assert_eq!(shown.details.tuned_on.unwrap().name, "june", "the name that it was given");
}

async fn what_a_snapshot_cannot_keep_is_refused(scene: Scene) {
    filled(&scene).await;
    create(&scene, &june("june", "joined")).await.unwrap();
    let refused = async |new: NewSnapshot| {
        let error = create(&scene, &new).await.unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, taken) = refused(june("june", "predictions")).await;
    assert_eq!(kind, ErrorKind::Conflict, "{taken}");
    let invalid = [
        (june("a/b", "joined"), "name"),
        (june("e", "evaluations"), "a snapshot is of predictions"),
        (NewSnapshot { filter: Some("nothing = 1".into()), ..june("w", "joined") }, "nothing"),
        (NewSnapshot { from: None, ..june("f", "joined") }, "from: "),
        (NewSnapshot { release: Some("v9".into()), ..june("r", "joined") }, "there is no release `v9`"),
        (NewSnapshot { columns: Some(vec!["nonsense".into()]), ..june("c", "joined") }, "there is no column"),
    ];
    for (new, says) in invalid {
        let (kind, text) = refused(new).await;
        assert!(kind == ErrorKind::Invalid && text.contains(says), "{text}");
    }
    // All these have no effect, and no day is pinned twice.
    let page = scene.world.catalog.page(scene.id()).await.unwrap();
    assert_eq!(page.snapshots.len(), 1);
    let retention = scene.world.catalog.retention(scene.id()).await.unwrap();
    assert_eq!(retention.pinned_snapshots.len(), 1);
    let own = Patch { attributes: [("digest".to_owned(), Some("x".into()))].into(), ..Patch::default() };
    let at_june = AnyEntity::Snapshot(page.snapshots[0].clone()).at();
    let own = scene.world.catalog.change(&at_june, &own, None, at(NOW)).await.unwrap_err();
    assert!(own.to_string().contains("never changes"), "{own}");
}

async fn snapshot_with_changed_segment_fails_verification(scene: Scene) {
    filled(&scene).await;
    let made = create(&scene, &june("june", "joined")).await.unwrap();
    // A segment is never changed, except here by hand.
    let heads = log::scan::heads(&*scene.table, scene.id()).await.unwrap();
    let head = heads.iter().find(|head| head.log.kind == Kind::Outcomes).unwrap();
    let first = key::segment(&head.log, 1);
    let item = scene.table.get(&first).await.unwrap().unwrap();
    let broken = item.clone().with("data", b"no segment".to_vec());
    scene.table.put(broken, Condition::None).await.unwrap();
    let verified = scene.query(at(NOW)).verify_snapshot(&made).await.unwrap();
    assert!(!verified.is_same() && verified.rows == 24, "{verified:?}");
    assert!(verified.warnings[0].contains("cannot be read"), "{verified:?}");
    scene.table.put(item, Condition::None).await.unwrap();
    assert!(scene.query(at(NOW)).verify_snapshot(&made).await.unwrap().is_same());
    // Without the segment there is no answer at all.
    scene.table.delete(&first, Condition::None).await.unwrap();
    assert!(scene.query(at(NOW)).verify_snapshot(&made).await.is_err());
}
