//! Changes of a run at one time.

use std::sync::Arc;

use catalog::{Catalog, NewRun, Run, RunChange};
use tests::{
    between::{Between, Happens},
    on_both_engines,
    scene::Scene,
    world::{World, at},
};

on_both_engines!(World::on: overtaken_run_change_is_redone_on_current_state);

const THEN: &str = "2026-06-01T12:00:00Z";

/// A change that adds a word to a tag.
fn adding(word: &'static str) -> impl Fn(&Run) -> event::Result<RunChange> {
    move |run: &Run| {
        let words = run.tags.get("words").map_or_else(|| word.to_owned(), |words| format!("{words} {word}"));
        let tags = [("words".to_owned(), Some(words))].into();
        Ok(RunChange { tags, ..RunChange::default() })
    }
}

async fn overtaken_run_change_is_redone_on_current_state(world: World) {
    let scene = Scene::new(world).await;
    let run = scene.world.catalog.create_run(scene.id(), NewRun::default(), at(THEN)).await.unwrap();
    let later = at(THEN).plus_seconds(60);
    let (inner, workspace, id) = (Arc::clone(&scene.table), scene.id().clone(), run.id.clone());
    let mut is_overtaken = false;
    let table = Between::new(Arc::clone(&scene.table), move |call| {
        if is_overtaken || !call.writes("/run", id.as_str()) {
            return None;
        }
        is_overtaken = true;
        let (other, workspace, id) = (Catalog::new(Arc::clone(&inner)), workspace.clone(), id.clone());
        Some(Box::pin(async move {
            other.change_run_by(&workspace, &id, later, adding("theirs")).await.unwrap();
        }) as Happens)
    });
    let catalog = Catalog::new(Arc::new(table));
    let changed = catalog.change_run_by(scene.id(), &run.id, later, adding("ours")).await.unwrap();
    assert_eq!((changed.tags["words"].as_str(), changed.version), ("theirs ours", 3));
    assert_eq!(scene.world.catalog.run(scene.id(), &run.id).await.unwrap(), changed);
}
