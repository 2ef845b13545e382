//! Merging the days of a window when somebody asks for it.

use std::sync::Mutex;

use event::Kind;
use log::{compacted::Compacted, merged::QUIET};
use projector::compact::{
    Compactor,
    window::{Step, Window, merge_window, plan_window},
};
use tests::{
    on_both_engines,
    scene::{NOW, Scene},
    world::at,
};

use super::{DAY, answers, assert_answers, scene_on, stored, trickle, wait};

on_both_engines!(
    scene_on:
    requested_merge_follows_its_plan,
);

async fn requested_merge_follows_its_plan(scene: Scene) {
    const COUNT: i64 = 20;
    trickle(&scene, COUNT).await;
    let before = answers(&scene, 10, COUNT).await;
    let (table, day) = (&*scene.table, Some(DAY.parse().unwrap()));
    let plan = async |window| plan_window(table, scene.id(), window, at(NOW), |_| {}).await;
    let window = Window { from: day, to: day };
    let late = plan(Window { to: Some(at(NOW).day()), ..window }).await.unwrap_err().to_string();
    assert!(late.contains("is too late"), "{late}");
    let earlier = "2026-05-31".parse().unwrap();
    assert_eq!(plan(Window { from: Some(earlier), to: Some(earlier) }).await.unwrap().days, 0);

    let planned = plan(window).await.unwrap();
    let counts = (planned.days, planned.before.items, planned.after.items, planned.merged, planned.deleted);
    assert_eq!(counts, (1, 40, 4, 2, 36));
    assert!(planned.after.bytes * 4 < planned.before.bytes, "{planned:?}");
    assert_eq!(stored(&scene, Kind::Predictions).await.len(), COUNT as usize, "nothing was written");
    // A worker has put merged items and died: what it left is planned as well.
    let dead = Compactor::default().compact(table, scene.id(), at(NOW)).await.unwrap();
    assert_eq!((dead.merged, dead.deleted), (2, 0));
    let rest = plan(window).await.unwrap();
    assert_eq!((rest.merged, rest.deleted, rest.after), (0, 36, planned.after));

    let steps = Mutex::new(Vec::new());
    let merge = async || {
        let tell = |step| steps.lock().unwrap().push(step);
        merge_window(table, scene.id(), window, at(NOW), tell, async |_| wait().await).await.unwrap()
    };
    assert_eq!(merge().await, rest);
    let waits = |step: &&Step| matches!(step, Step::Waiting(left) if *left <= QUIET);
    assert_eq!(steps.lock().unwrap().iter().filter(waits).count(), 1);
    assert_eq!(steps.lock().unwrap().last(), Some(&Step::Days(1, 1)));
    for kind in [Kind::Predictions, Kind::Outcomes] {
        assert_eq!(stored(&scene, kind).await, [(1, 19), (20, 20)], "{kind:?}");
    }
    let noted = Compacted::load(table, scene.id()).await.unwrap();
    assert_eq!((noted.merged, noted.deleted), (2, 36), "by all that did it");
    let again = merge().await;
    assert_eq!((again.merged, again.deleted), (0, 0));
    assert_eq!((again.before, again.after), (planned.after, planned.after));
    assert_answers(&scene, &before).await;
    scene.assert_verified().await;
}
