//! Reads of a log that look for values of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{Catalog, NewRun};
use event::Kind;
use serde_json::json;
use tests::{
    between::Between,
    on_both_engines,
    scene::{NOW, Scene},
    world::{World, at},
};

on_both_engines!(World::on: log_is_paged_only_as_far_as_needed);

const THEN: &str = "2026-06-01T12:00:00Z";

async fn log_is_paged_only_as_far_as_needed(world: World) {
    let scene = Scene::new(world).await;
    let run = scene.world.catalog.create_run(scene.id(), NewRun::default(), at(THEN)).await.unwrap();
    for step in 0..30 {
        let metric = json!([
            { "name": "loss", "measured_at": THEN, "value": step, "run": run.id.as_str(), "step": step },
        ]);
        scene.append(Kind::Metrics, metric, NOW).await.unwrap();
    }
    scene.project().await;
    let in_pages = Catalog::new(Arc::new(Between::new(scene.world.table(), |_| None).pages_of(3)));
    let latest = in_pages.latest_metrics(scene.id(), &run.id).await.unwrap();
    let look = async |steps: &[i64]| {
        let steps: BTreeSet<Option<i64>> = steps.iter().map(|step| Some(*step)).collect();
        let wanted = BTreeMap::from([(at(THEN).day(), BTreeMap::from([("loss", steps)]))]);
        let looking = in_pages.not_in_logs(&run, &latest, wanted, |point| point.step);
        let (missing, reads) = scene.world.reads(looking).await;
        let missing = missing.unwrap().into_values().flatten().flat_map(|(_, steps)| steps);
        (missing.flatten().collect::<Vec<i64>>(), reads.queries)
    };
    let (missing, early) = look(&[0, 2]).await;
    assert_eq!(missing, [0; 0]);
    let (missing, whole) = look(&[2, 29, 99]).await;
    assert_eq!(missing, [99]);
    assert!(early + 9 <= whole, "{early} and {whole} pages");
    let history = async |limit: usize| {
        let reading = in_pages.metric_history(&run, "loss", (limit, None), at(NOW));
        let (page, reads) = scene.world.reads(reading).await;
        (page.unwrap().points.len(), reads.queries)
    };
    let ((few, early), (all, whole)) = (history(3).await, history(1_000).await);
    assert_eq!((few, all), (3, 30));
    assert!(early + 9 <= whole, "{early} and {whole} pages");
}
