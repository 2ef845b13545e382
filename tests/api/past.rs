//! Answers about the past, which no change of the catalog changes.

use std::collections::BTreeMap;

use catalog::Patch;
use event::{Day, Definition, Kind, Task, Timestamp};
use ingest::definitions::NewDefinition;
use log::key::{EntityId, EntityKind};
use serde_json::json;
use tests::{
    on_both_engines,
    scene::{NOW, Scene},
    world::{World, at},
};

on_both_engines!(
    World::on:
    deleting_a_release_keeps_past_answers,
    used_release_name_stays_with_its_model,
    catalog_changes_never_alter_past_answers,
);

async fn deleting_a_release_keeps_past_answers(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many("2026-06-01", "v1", 8, "2026-06-04T12:00:00Z").await;
    scene.predict_many("2026-06-01", "v2", 8, "2026-06-04T12:00:00Z").await;
    scene.observe_many("2026-06-01", "1", 8, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let then = Some("2026-06-05T00:00:00Z");
    let before = (scene.metrics(None).await, scene.metrics(then).await);
    assert_eq!(before.0, before.1);
    scene.delete_release("v1").await;
    scene.world.catalog.ensure_model(scene.id(), "n", &Task::Regression, at(NOW)).await.unwrap();
    assert_eq!((scene.metrics(None).await, scene.metrics(then).await), before, "deleted");
    scene.assert_verified().await;
    let refused = scene.register("v1", "n").await.unwrap_err();
    assert!(refused.is_conflict() && refused.to_string().contains("stays with the model"), "{refused}");
    // Nor by an event.
    let event = json!([{ "release": "v1", "released_at": "2026-06-05T00:00:00Z", "model": "n", "action": "register" }]);
    let refused = scene.append(Kind::Releases, event, NOW).await.unwrap_err();
    assert!(refused.to_string().contains("stays with the model"), "{refused}");
    // It may be registered again for its old model. Late events find that model.
    scene.register("v1", "m").await.unwrap();
    scene.predict_many("2026-06-02", "v1", 2, "2026-06-06T12:00:00Z").await;
    scene.project().await;
    assert!(scene.metrics(None).await.contains("v1"));
    assert_eq!(scene.metrics(then).await, before.1, "registered again");
    // The model goes with all its releases.
    let model = scene.world.catalog.model_named(scene.id(), "m").await.unwrap();
    let model = EntityId::Model(scene.id().clone(), model);
    let now_before = scene.metrics(None).await;
    scene.world.catalog.change(&model, &Patch::archive(true), None, at(NOW)).await.unwrap();
    scene.world.catalog.delete(&model, None, at(NOW)).await.unwrap();
    assert_eq!((scene.metrics(None).await, scene.metrics(then).await), (now_before, before.1.clone()));
    scene.assert_verified().await;
    scene.project().await;
    // A model of the same name is another one.
    scene.world.catalog.ensure_model(scene.id(), "m", &Task::Multiclass, at(NOW)).await.unwrap();
    assert!(scene.register("v1", "m").await.unwrap_err().is_conflict());
    assert_eq!(scene.metrics(then).await, before.1);
    scene.assert_verified().await;
}

async fn used_release_name_stays_with_its_model(world: World) {
    let scene = Scene::new(world).await;
    scene.world.catalog.ensure_model(scene.id(), "n", &Task::Regression, at(NOW)).await.unwrap();
    // Registered by mistake, never named by an event: the name is free again.
    let v2 = scene.release("v2").await;
    scene.world.catalog.delete(&v2, None, at(NOW)).await.unwrap();
    scene.register("v2", "n").await.unwrap();
    let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
    assert_eq!(definitions.of("2026-06-01".parse().unwrap())["v2"].task, Task::Regression);
    // One event, not yet counted by any projector.
    scene.predict("2026-06-01", "v1", 0.5).await;
    let v1 = scene.release("v1").await;
    let used = scene.world.catalog.delete(&v1, None, at(NOW)).await.unwrap_err();
    assert!(used.is_conflict() && used.to_string().contains("has events"), "{used}");
    scene.delete_release("v1").await;
    assert!(scene.register("v1", "n").await.unwrap_err().is_conflict());
    let again = scene.world.catalog.resolve(EntityKind::Release, "credit/prod/v1").await;
    assert!(again.is_err(), "refused as a whole");
}

/// Another positive label from a day on.
fn labelled(label: &str, from: &str) -> NewDefinition {
    NewDefinition {
        positive_label: Some(label.into()),
        from: Some(from.parse().unwrap()),
        ..NewDefinition::default()
    }
}

/// Checks that the definitions of a day are the last ones given for it, or else the first ones of the releases.
async fn assert_defined(
    scene: &Scene,
    day: Day,
    firsts: &BTreeMap<String, String>,
    said: &[(String, Day, String)],
    round: usize,
) {
    let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
    for (release, first) in firsts {
        let last = said.iter().rfind(|(of, from, _)| of == release && *from <= day);
        let expected = last.map_or(first, |(_, _, label)| label);
        let found: Definition = definitions.of_release(release, day).unwrap();
        let found = found.task.positive_label();
        assert_eq!(found, Some(expected.as_str()), "{release} on {day} in {round}");
    }
}

/// Changes of the catalog and the log in a random order. An answer as of an instant stays the same for ever, and all definitions
/// agree with a list of them.
async fn catalog_changes_never_alter_past_answers(world: World) {
    const ROUNDS: usize = 16;
    let scene = Scene::new(world).await;
    let mut random = fastrand::Rng::with_seed(20_260_601);
    let mut said: Vec<(String, Day, String)> = Vec::new();
    let mut firsts = BTreeMap::from(["v1", "v2"].map(|name| (name.to_owned(), "1".to_owned())));
    let (mut label_of_model, mut model, mut answers) = ("1".to_owned(), "m".to_owned(), Vec::new());
    let days = ["2026-06-01", "2026-06-02", "2026-06-03"];
    for round in 0..ROUNDS {
        let hour = Timestamp::parse("2026-06-04T00:00:00Z").unwrap().plus_seconds(3_600 * round as i64);
        let now = hour.to_string();
        let day = days[random.usize(..days.len())];
        let release = ["v1", "v2"][random.usize(..2)];
        let label = ["1", "yes", "other"][random.usize(..3)];
        let exists =
            scene.world.catalog.resolve(EntityKind::Release, &format!("credit/prod/{release}")).await.is_ok();
        let parsed = day.parse::<Day>().unwrap();
        match random.usize(..7) {
            0 if exists => scene.predict_many(day, release, 4 + random.usize(..5), &now).await,
            1 => scene.observe_many(day, label, 6, &now).await,
            2 if exists => {
                scene.define(release, label, day, &now).await;
                said.push((release.to_owned(), parsed, label.to_owned()));
            }
            3 => {
                let new = labelled(label, day);
                let defined = scene.ingest(hour).define_model(&scene.workspace, &model, &new).await.unwrap();
                said.extend(defined.into_iter().map(|(name, _)| (name, parsed, label.to_owned())));
                label_of_model = label.to_owned();
            }
            4 if exists => {
                let used = scene.world.catalog.definitions(scene.id()).await.unwrap();
                let used = used.first(release).unwrap().is_used;
                scene.delete_release(release).await;
                if !used {
                    firsts.remove(release);
                }
            }
            5 if !exists => {
                scene.register(release, &model).await.unwrap();
                firsts.entry(release.to_owned()).or_insert_with(|| label_of_model.clone());
            }
            6 => {
                let id = scene.world.catalog.model_named(scene.id(), &model).await.unwrap();
                let at_model = EntityId::Model(scene.id().clone(), id);
                let (name, catalog) = (format!("m{round}"), &scene.world.catalog);
                let has_releases = !catalog.page(scene.id()).await.unwrap().releases.is_empty();
                let renamed = catalog.change(&at_model, &Patch::rename(&name), None, hour).await;
                assert_eq!(renamed.is_err(), has_releases, "{renamed:?}");
                model = if has_releases { model } else { name };
            }
            _ => {}
        }
        if random.bool() {
            scene.project().await;
            scene.assert_verified().await;
        }
        let then = hour.plus_seconds(60).to_string();
        answers.push((then.clone(), scene.metrics(Some(&then)).await));
        for day in days {
            assert_defined(&scene, day.parse().unwrap(), &firsts, &said, round).await;
        }
    }
    scene.project().await;
    scene.assert_verified().await;
    for (then, answer) in answers {
        assert_eq!(scene.metrics(Some(&then)).await, answer, "as of {then}");
    }
    assert_eq!(scene.metrics(None).await, scene.metrics(Some(NOW)).await);
}
