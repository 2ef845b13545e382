//! Days with erased keys are exported again; days with an unreadable segment are not.

use std::{fs, path::Path, time::Duration};

use ::tests::{
    on_both_engines,
    scene::{NOW, Scene},
    world::at,
};
use event::Clock;
use projector::erase::{Pace, carry_out};
use serde_json::json;
use table::{Condition, query_all};

use super::*;

on_both_engines!(
    Scene::on:
    an_erased_day_is_exported_again,
    sync_since_searches_erased_events_once,
    day_with_unreadable_segment_is_written_once,
    sync_after_restore_drops_lost_history,
    different_erasures_of_equal_count_are_distinguished,
    folder_of_another_workspace_is_left_unchanged,
    lake_day_missing_a_segment_stays_unchanged,
    erasure_reaches_day_with_missing_segment,
);

const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
const SENT: &str = "2026-06-04T12:00:00Z";

/// Syncs a table to a folder; returns its number of days, of new days and of days exported again.
async fn sync_to(scene: &Scene, to: &Path, of: Of) -> (usize, usize, usize) {
    let (delta, synced) = synced_since(scene, to, of, None).await;
    (delta.days().len(), synced.new, synced.again)
}

/// Syncs the days from `since` on.
async fn synced_since(scene: &Scene, to: &Path, of: Of, since: Option<&str>) -> (Delta, Synced) {
    let to = Depot::Folder(to.to_owned());
    let since = since.map(|day| day.parse().unwrap());
    let args = SyncArgs { to, workspace: String::new(), since, dry_run: false };
    let (table, query) = (Arc::clone(&scene.table), scene.query(at(NOW)));
    let store = stored(&args, None).await.unwrap();
    let lake = Lake::open((table, query, scene.id().clone()), store, &args).await.unwrap();
    lake.sync(of, lake.table(of).await.unwrap()).await.unwrap()
}

/// Erases keys, of one event each, from all that is stored.
async fn erase(scene: &Scene, keys: &[String]) {
    let catalog = &scene.world.catalog;
    let begun = catalog.begin_erasure(scene.id(), (keys, false), "a letter", at(NOW)).await.unwrap();
    let pace = Pace { wait: Duration::ZERO, ..Pace::new(Clock::from_fn(|| at(NOW))) };
    let done = carry_out(&scene.table, (scene.id(), &begun.id), &pace, &|_| ()).await.unwrap();
    assert_eq!(done.rows, keys.len() as u64);
}

async fn an_erased_day_is_exported_again(scene: Scene) {
    for day in DAYS {
        scene.predict_many(day, "v1", 3, SENT).await;
        scene.observe_many(day, "1", 3, SENT).await;
    }
    let person = json!([{ "key": "person-17", "predicted_at": format!("{}T02:00:00Z", DAYS[0]), "release": "v1",
        "score": 0.5, "tags": { "branch": "north" } }]);
    scene.append(Kind::Predictions, person, SENT).await.unwrap();
    scene.project().await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("lake");
    let sync = async |of| sync_to(&scene, &to, of).await;
    let [predictions, outcomes] = [Kind::Predictions, Kind::Outcomes].map(Of::Events);
    assert_eq!((sync(predictions).await, sync(outcomes).await), ((2, 2, 0), (2, 2, 0)));
    assert_eq!(sync(predictions).await, (2, 0, 0));
    erase(&scene, &["person-17".to_owned()]).await;
    assert_eq!((sync(predictions).await, sync(outcomes).await), ((2, 0, 1), (2, 0, 0)));
    let commit = to.join(format!("predictions/_delta_log/{:020}.json", 2));
    let commit = fs::read_to_string(commit).unwrap();
    for action in ["remove", "add"] {
        let line = commit.lines().find(|line| line.starts_with(&format!("{{\"{action}\""))).unwrap();
        assert!(line.contains("day=2026-06-01/"), "{line}");
    }
    // The table notes the number and the erasures, so nothing is exported once more.
    assert_eq!(sync(predictions).await, (2, 0, 0));
    let commits = fs::read_dir(to.join("predictions/_delta_log")).unwrap().count();
    assert_eq!(sync(predictions).await, (2, 0, 0));
    assert_eq!(fs::read_dir(to.join("predictions/_delta_log")).unwrap().count(), commits);
    // Later events are exported together with the erasures of their day, and compared with both.
    scene.predict_many(DAYS[0], "v1", 1, SENT).await;
    assert_eq!(sync(predictions).await, (2, 0, 1));
    assert_eq!(sync(predictions).await, (2, 0, 0));
}

async fn sync_since_searches_erased_events_once(scene: Scene) {
    for day in DAYS {
        let person = json!([{ "key": format!("person-{day}"), "predicted_at": format!("{day}T02:00:00Z"),
            "release": "v1", "score": 0.5 }]);
        scene.append(Kind::Predictions, person, SENT).await.unwrap();
    }
    scene.project().await;
    let folder = tempfile::tempdir().unwrap();
    let [all, later] = ["all", "later"].map(|name| folder.path().join(name));
    let predictions = Of::Events(Kind::Predictions);
    let since_second = async |to: &Path| {
        let (delta, synced) = synced_since(&scene, to, predictions, Some(DAYS[1])).await;
        (delta.days().len(), delta.erasures().turns, synced.new, synced.again)
    };
    assert_eq!(sync_to(&scene, &all, predictions).await, (2, 2, 0));
    assert_eq!(since_second(&later).await, (1, 0, 1, 0));
    erase(&scene, &DAYS.map(|day| format!("person-{day}"))).await;
    let Erasures { turns: turn, last } = Erasures::load(&*scene.table, scene.id()).await.unwrap();
    assert!(turn > 0 && last.is_some(), "{turn} {last:?}");
    // All days of the one table are checked; in the other the first day is outdated, so a sync of all days exports it again.
    assert_eq!(since_second(&later).await, (1, turn, 0, 1));
    assert_eq!(since_second(&all).await, (2, 0, 0, 1));
    assert_eq!(sync_to(&scene, &all, predictions).await, (2, 0, 1));
    assert_eq!(since_second(&all).await, (2, turn, 0, 0));
    // An earlier day is exported without the erased keys, and the table stays at the same erasures.
    assert_eq!(sync_to(&scene, &later, predictions).await, (2, 1, 0));
    assert_eq!(sync_to(&scene, &later, predictions).await, (2, 0, 0));
}

async fn day_with_unreadable_segment_is_written_once(scene: Scene) {
    scene.predict_many(DAYS[0], "v1", 3, SENT).await;
    let other = json!([{ "key": "other", "predicted_at": format!("{}T02:00:00Z", DAYS[0]), "release": "v1", "score": 0.5 }]);
    scene.append(Kind::Predictions, other, SENT).await.unwrap();
    let segments = query_all(&*scene.table, table::Query::table(key::segments(scene.id()))).await.unwrap();
    let is_second = |item: &&table::Item| {
        key::parse_segment(&item.key).is_some_and(|(log, seq)| log.kind == Kind::Predictions && seq == 2)
    };
    let damaged = segments.iter().find(is_second).unwrap().clone().with("data", vec![1, 2, 3]);
    scene.table.put(damaged, Condition::Exists).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("lake");
    let predictions = Of::Events(Kind::Predictions);
    assert_eq!(sync_to(&scene, &to, predictions).await, (1, 1, 0));
    assert_eq!(sync_to(&scene, &to, predictions).await, (1, 0, 0));
    let files = fs::read_dir(to.join(format!("predictions/day={}", DAYS[0]))).unwrap();
    assert_eq!(files.count(), 1, "each file is named by the table");
}

/// Items of a backup of the logs and of the erasures of a workspace.
async fn backup(scene: &Scene) -> Vec<table::Item> {
    let mut items = Vec::from_iter(scene.table.get(&key::erased(scene.id())).await.unwrap());
    for range in [key::segments(scene.id()), key::erased_pages(scene.id()), key::erasures(scene.id())] {
        items.extend(query_all(&*scene.table, table::Query::table(range)).await.unwrap());
    }
    items
}

/// Replaces the items by a backup.
async fn restore(scene: &Scene, items: Vec<table::Item>) {
    for item in backup(scene).await {
        scene.table.delete(&item.key, Condition::Exists).await.unwrap();
    }
    for item in items {
        scene.table.put(item, Condition::Absent).await.unwrap();
    }
}

async fn append(scene: &Scene, key: &str) {
    let predicted_at = format!("{}T02:00:00Z", DAYS[0]);
    let event = json!([{ "key": key, "predicted_at": predicted_at, "release": "v1", "score": 0.5 }]);
    scene.append(Kind::Predictions, event, SENT).await.unwrap();
}

async fn sync_after_restore_drops_lost_history(scene: Scene) {
    let folder = tempfile::tempdir().unwrap();
    let sync = async || sync_to(&scene, folder.path(), Of::Events(Kind::Predictions)).await;
    for day in DAYS {
        scene.predict_many(day, "v1", 3, SENT).await;
    }
    let before = backup(&scene).await;
    append(&scene, "lost").await;
    assert_eq!(sync().await, (2, 2, 0));
    restore(&scene, before.clone()).await;
    append(&scene, "found").await;
    // As many segments as before, appended at the same instant.
    assert_eq!(sync().await, (2, 0, 1));
    assert_eq!(sync().await, (2, 0, 0));
    // A repeated batch gives an equal history.
    restore(&scene, before.clone()).await;
    append(&scene, "found").await;
    assert_eq!(sync().await, (2, 0, 0));
    // A day with no events left leaves the table as well, and comes back.
    let is_second = |item: &table::Item| {
        key::parse_segment(&item.key).is_some_and(|(log, _)| log.day.to_string() == DAYS[1])
    };
    let found = backup(&scene).await;
    restore(&scene, found.iter().filter(|item| !is_second(item)).cloned().collect()).await;
    assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
    let commit = folder.path().join("predictions/_delta_log/00000000000000000003.json");
    let text = fs::read_to_string(commit).unwrap();
    assert!(text.contains("{\"remove\"") && !text.contains("{\"add\""), "{text}");
    restore(&scene, found).await;
    assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
}

async fn different_erasures_of_equal_count_are_distinguished(scene: Scene) {
    let folder = tempfile::tempdir().unwrap();
    let sync = async || sync_to(&scene, folder.path(), Of::Events(Kind::Predictions)).await;
    let [one, other] = ["person-1", "person-2"].map(str::to_owned);
    for key in [&one, &other] {
        append(&scene, key).await;
    }
    scene.predict_many(DAYS[1], "v1", 3, SENT).await;
    scene.project().await;
    assert_eq!(sync().await, (2, 2, 0));
    let before = backup(&scene).await;
    erase(&scene, std::slice::from_ref(&one)).await;
    assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
    let erased = Erasures::load(&*scene.table, scene.id()).await.unwrap();
    // As many events of the same day, in as many turns.
    restore(&scene, before.clone()).await;
    erase(&scene, &[other]).await;
    assert_eq!(Erasures::load(&*scene.table, scene.id()).await.unwrap().turns, erased.turns);
    assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
    // A key erased again has another surrogate.
    restore(&scene, before.clone()).await;
    erase(&scene, &[one]).await;
    assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
    // The state without any erasure.
    restore(&scene, before).await;
    assert_eq!((sync().await, sync().await), ((2, 0, 1), (2, 0, 0)));
}

async fn folder_of_another_workspace_is_left_unchanged(scene: Scene) {
    scene.predict_many(DAYS[0], "v1", 3, SENT).await;
    let folder = tempfile::tempdir().unwrap();
    let args = SyncArgs {
        to: Depot::Folder(folder.path().to_owned()),
        workspace: String::new(),
        since: None,
        dry_run: false,
    };
    // A table of another workspace, the last to be read.
    let other = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let open = async |workspace: &Id| {
        let (table, query) = (Arc::clone(&scene.table), scene.query(at(NOW)));
        let store = stored(&args, None).await.unwrap();
        Lake::open((table, query, workspace.clone()), store, &args).await.unwrap()
    };
    let owner = open(&other).await;
    let covered = Covered::Digest("0".into());
    let known = Known { covered, history: None, erased: Erased::default() };
    let mut evaluations = owner.table(Of::Evaluations).await.unwrap();
    let schema = evaluations.schema().clone();
    let day = DAYS[0].parse().unwrap();
    let exported = Exported { day, known, schema, file: None };
    assert!(evaluations.commit(&*owner.store, &exported, at(NOW)).await.unwrap());
    drop(owner);
    let refused = open(scene.id()).await.tables().await.unwrap_err().to_string();
    assert!(refused.contains("the table `evaluations` is of the workspace 2NBs"), "{refused}");
    assert!(!folder.path().join("predictions").exists());
}

async fn lake_day_missing_a_segment_stays_unchanged(scene: Scene) {
    let folder = tempfile::tempdir().unwrap();
    let sync = async |of| sync_to(&scene, folder.path(), of).await;
    let predictions = Of::Events(Kind::Predictions);
    for day in DAYS {
        scene.predict_many(day, "v1", 3, SENT).await;
    }
    append(&scene, "second").await;
    assert_eq!(sync(predictions).await, (2, 2, 0));
    append(&scene, "third").await;
    let whole = backup(&scene).await;
    for lost in [1, 2] {
        let is_lost = |item: &table::Item| {
            let of = key::parse_segment(&item.key);
            of.is_some_and(|(log, seq)| log.day.to_string() == DAYS[0] && seq == lost)
        };
        restore(&scene, whole.iter().filter(|item| !is_lost(item)).cloned().collect()).await;
        assert_eq!(sync(predictions).await, (2, 0, 0), "without segment {lost}");
    }
    restore(&scene, whole).await;
    assert_eq!((sync(predictions).await, sync(predictions).await), ((2, 0, 1), (2, 0, 0)));
}

/// An erasure applies even to a day that is kept because a segment is missing.
async fn erasure_reaches_day_with_missing_segment(scene: Scene) {
    let folder = tempfile::tempdir().unwrap();
    let sync = async || sync_to(&scene, folder.path(), Of::Events(Kind::Predictions)).await;
    for key in ["person-1", "second", "third"] {
        append(&scene, key).await;
    }
    scene.project().await;
    assert_eq!(sync().await, (1, 1, 0));
    let is_lost = |item: &table::Item| key::parse_segment(&item.key).is_some_and(|(_, seq)| seq == 2);
    // State after an erasure, then without a segment.
    erase(&scene, &["person-1".to_owned()]).await;
    let erased = backup(&scene).await;
    restore(&scene, erased.iter().filter(|item| !is_lost(item)).cloned().collect()).await;
    assert_eq!((sync().await, sync().await), ((1, 0, 1), (1, 0, 0)));
    // The day is whole once the segment is back.
    restore(&scene, erased).await;
    assert_eq!((sync().await, sync().await), ((1, 0, 1), (1, 0, 0)));
}
