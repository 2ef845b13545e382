//! Days of which keys were erased are exported again.

use std::{fs, time::Duration};

use ::tests::{
    on_both_engines,
    scene::{NOW, Scene},
    world::at,
};
use event::Clock;
use projector::erase::{Pace, carry_out};
use serde_json::json;

use super::*;

on_both_engines!(Scene::on: an_erased_day_is_exported_again);

const DAYS: [&str; 2] = ["2026-06-01", "2026-06-02"];
const SENT: &str = "2026-06-04T12:00:00Z";

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
    let args =
        SyncArgs { to: Depot::Folder(to.clone()), workspace: String::new(), since: None, dry_run: false };
    let sync = async |of| {
        let (table, query) = (Arc::clone(&scene.table), scene.query(at(NOW)));
        let store = stored(&args, None).await.unwrap();
        let lake = Lake::open((table, query, scene.id().clone()), store, &args).await.unwrap();
        let (delta, synced) = lake.sync(of).await.unwrap();
        (delta.days().len(), synced.new, synced.again)
    };
    let [predictions, outcomes] = [Kind::Predictions, Kind::Outcomes].map(Of::Events);
    assert_eq!((sync(predictions).await, sync(outcomes).await), ((2, 2, 0), (2, 2, 0)));
    assert_eq!(sync(predictions).await, (2, 0, 0));
    let keys = ["person-17".to_owned()];
    let catalog = &scene.world.catalog;
    let begun = catalog.begin_erasure(scene.id(), (&keys, false), "a letter", at(NOW)).await.unwrap();
    let pace = Pace { wait: Duration::ZERO, ..Pace::new(Clock::from_fn(|| at(NOW))) };
    let done = carry_out(&scene.table, (scene.id(), &begun.id), &pace, &|_| ()).await.unwrap();
    assert_eq!(done.rows, 1);
    assert_eq!((sync(predictions).await, sync(outcomes).await), ((2, 0, 1), (2, 0, 0)));
    let commit = to.join(format!("predictions/_delta_log/{:020}.json", 2));
    let commit = fs::read_to_string(commit).unwrap();
    for action in ["remove", "add"] {
        let line = commit.lines().find(|line| line.starts_with(&format!("{{\"{action}\""))).unwrap();
        assert!(line.contains("day=2026-06-01/"), "{line}");
    }
    // The table says how many it has, so nothing is exported once more.
    assert_eq!(sync(predictions).await, (2, 0, 0));
}
