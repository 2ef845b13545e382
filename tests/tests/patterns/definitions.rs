//! Then is judged by then: how predictions are judged is said by the release log, whatever becomes of the catalog.

use catalog::{Patch, ReleaseSpec};
use event::{Day, Definition, Kind, Task, Timestamp};
use ingest::definitions::NewDefinition;
use log::key::{EntityId, EntityKind};
use projector::verify::verify;
use query::{Request, What, Words};
use serde_json::{Value, json};
use table::Condition;

use crate::{
    scene::Scene,
    world::{World, at, rows},
};

rows!(
    a_deleted_release_changes_no_answer_about_the_past,
    a_name_that_was_used_stays_with_its_model,
    a_mended_positive_label_counts_from_its_day_on,
    definitions_of_a_day_are_those_of_its_log,
    outcomes_without_a_prediction_and_repeated_predictions_are_shown,
    what_an_older_almanac_wrote_is_judged_by_its_catalog,
    labels_that_nothing_knows_are_warned_of,
    an_attribute_does_not_stand_beside_the_positive_label,
    no_change_of_the_catalog_changes_an_answer_about_the_past,
);

const NOW: &str = "2026-06-10T00:00:00Z";

impl Scene {
    /// Evaluations of June, as they stand, or as of an instant.
    async fn figures(&self, as_of: Option<&str>) -> String {
        let words = Words {
            from: "2026-06-01",
            to: "2026-06-30",
            columns: Some(
                "day,release,predictions,positives,accuracy,repeated,unmatched,definition_from,positive_label,threshold",
            ),
            as_of,
            ..Words::default()
        };
        let request = Request::parse(What::Evaluations, &words).unwrap();
        let frame = self.query(at(NOW)).run(self.id(), &request).await.unwrap().frame;
        let cells = frame.columns().iter().map(|column| format!("{}: {:?}", column.name(), column));
        cells.collect::<Vec<_>>().join("\n")
    }

    /// Predictions of `k0`, `k1`, ... on a day, with scores 0.1, 0.2, ...
    async fn predict_many(&self, day: &str, release: &str, count: usize, now: &str) {
        let events = (0..count).map(|n| {
            let score = (n + 1) as f64 / 10.0;
            json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score })
        });
        self.append(Kind::Predictions, events.collect::<Value>(), now).await.unwrap();
    }

    /// Outcomes of the same, every other one with the label.
    async fn observe_many(&self, day: &str, label: &str, count: usize, now: &str) {
        let events = (0..count).map(|n| {
            let label = if n % 2 == 0 { label } else { "other" };
            json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"), "label": label })
        });
        self.append(Kind::Outcomes, events.collect::<Value>(), now).await.unwrap();
    }

    /// Everything is as the log says, and nothing is behind.
    async fn verified(&self) {
        let report = verify(&self.table, self.id(), |_, _| {}).await.unwrap();
        assert_eq!((report.faults, report.behind), (Vec::<String>::new(), 0));
    }

    async fn release(&self, name: &str) -> EntityId {
        let page = self.world.catalog.page(self.id()).await.unwrap();
        let id = page.releases.iter().find(|release| release.entity.name == name).unwrap().entity.id.clone();
        EntityId::Release(self.id().clone(), id)
    }

    async fn delete_release(&self, name: &str) {
        let at_release = self.release(name).await;
        self.world.catalog.change(&at_release, &Patch::archive(true), None, at(NOW)).await.unwrap();
        self.world.catalog.delete(&at_release, None, at(NOW)).await.unwrap();
    }

    async fn register(&self, name: &str, model: &str) -> event::Result<()> {
        let spec =
            ReleaseSpec { name: name.into(), model: model.into(), configuration: None, environment: None };
        self.world.catalog.ensure_release(self.id(), &spec, at(NOW)).await.map(|_| ())
    }

    async fn define(&self, release: &str, label: &str, from: &str, now: &str) {
        let new = NewDefinition {
            positive_label: Some(label.into()),
            from: Some(from.parse().unwrap()),
            ..NewDefinition::default()
        };
        let ingest = self.ingest(at(now));
        ingest.define_release(&self.workspace, release, &new).await.unwrap();
    }
}

async fn a_deleted_release_changes_no_answer_about_the_past(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many("2026-06-01", "v1", 8, "2026-06-04T12:00:00Z").await;
    scene.predict_many("2026-06-01", "v2", 8, "2026-06-04T12:00:00Z").await;
    scene.observe_many("2026-06-01", "1", 8, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let then = Some("2026-06-05T00:00:00Z");
    let before = (scene.figures(None).await, scene.figures(then).await);
    assert_eq!(before.0, before.1);
    scene.delete_release("v1").await;
    scene.world.catalog.ensure_model(scene.id(), "n", &Task::Regression, at(NOW)).await.unwrap();
    assert_eq!((scene.figures(None).await, scene.figures(then).await), before, "deleted");
    scene.verified().await;
    let refused = scene.register("v1", "n").await.unwrap_err();
    assert!(refused.is_conflict() && refused.to_string().contains("stays with the model"), "{refused}");
    // Nor by an event.
    let event = json!([{ "release": "v1", "released_at": "2026-06-05T00:00:00Z", "model": "n", "action": "register" }]);
    let refused = scene.append(Kind::Releases, event, NOW).await.unwrap_err();
    assert!(refused.to_string().contains("stays with the model"), "{refused}");
    // Of the model that it had it may be registered again. Late events find what they had.
    scene.register("v1", "m").await.unwrap();
    scene.predict_many("2026-06-02", "v1", 2, "2026-06-06T12:00:00Z").await;
    scene.project().await;
    assert!(scene.figures(None).await.contains("v1"));
    assert_eq!(scene.figures(then).await, before.1, "registered again");
    // The model goes with all its releases.
    let model = scene.world.catalog.model_named(scene.id(), "m").await.unwrap();
    let model = EntityId::Model(scene.id().clone(), model);
    let now_before = scene.figures(None).await;
    for patch in [Patch::rename("gone"), Patch::archive(true)] {
        scene.world.catalog.change(&model, &patch, None, at(NOW)).await.unwrap();
    }
    scene.world.catalog.delete(&model, None, at(NOW)).await.unwrap();
    assert_eq!((scene.figures(None).await, scene.figures(then).await), (now_before, before.1.clone()));
    scene.verified().await;
    scene.project().await;
    // A model of the same name is another one.
    scene.world.catalog.ensure_model(scene.id(), "m", &Task::Multiclass, at(NOW)).await.unwrap();
    assert!(scene.register("v1", "m").await.unwrap_err().is_conflict());
    assert_eq!(scene.figures(then).await, before.1);
    scene.verified().await;
}

async fn a_name_that_was_used_stays_with_its_model(world: World) {
    let scene = Scene::new(world).await;
    scene.world.catalog.ensure_model(scene.id(), "n", &Task::Regression, at(NOW)).await.unwrap();
    // Registered by mistake, never named by an event: the name is free again.
    let v2 = scene.release("v2").await;
    scene.world.catalog.delete(&v2, None, at(NOW)).await.unwrap();
    scene.register("v2", "n").await.unwrap();
    let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
    assert_eq!(definitions.of("2026-06-01".parse().unwrap())["v2"].task, Task::Regression);
    // One event, that no projector has counted yet.
    scene.predict("2026-06-01", "v1", 0.5).await;
    let v1 = scene.release("v1").await;
    let used = scene.world.catalog.delete(&v1, None, at(NOW)).await.unwrap_err();
    assert!(used.is_conflict() && used.to_string().contains("has events"), "{used}");
    scene.delete_release("v1").await;
    assert!(scene.register("v1", "n").await.unwrap_err().is_conflict());
    let again = scene.world.catalog.resolve(EntityKind::Release, "credit/prod/v1").await;
    assert!(again.is_err(), "refused as a whole");
}

async fn a_mended_positive_label_counts_from_its_day_on(world: World) {
    let scene = Scene::new(world).await;
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        scene.predict_many(day, "v1", 9, "2026-06-04T12:00:00Z").await;
        scene.observe_many(day, "yes", 9, "2026-06-04T12:00:00Z").await;
    }
    scene.project().await;
    let then = Some("2026-06-05T00:00:00Z");
    let before = scene.figures(then).await;
    assert_eq!(before, scene.figures(None).await);
    // The evaluations are behind, and right by what they knew.
    let new = NewDefinition {
        positive_label: Some("yes".into()),
        from: Some("2026-06-02".parse().unwrap()),
        ..NewDefinition::default()
    };
    let ingest = scene.ingest(at("2026-06-06T00:00:00Z"));
    let defined = ingest.define_model(&scene.workspace, "m", &new).await.unwrap();
    let names: Vec<_> =
        defined.iter().map(|(name, one)| (name.as_str(), one.task.positive_label())).collect();
    assert_eq!(names, [("v1", Some("yes")), ("v2", Some("yes"))]);
    assert_eq!(ingest.define_model(&scene.workspace, "m", &new).await.unwrap(), [], "it is said already");
    let report = verify(&scene.table, scene.id(), |_, _| {}).await.unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
    assert!(report.behind >= 2, "{}", report.behind);
    scene.project().await;
    scene.verified().await;
    let binary = async |day: &str, as_of: Option<&str>| {
        let columns = Some("positives,positive_label,definition_from,accuracy");
        let words = Words { from: day, to: day, columns, as_of, ..Words::default() };
        let request = Request::parse(What::Evaluations, &words).unwrap();
        let frame = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap().frame;
        let text = |name: &str| frame.column(name).unwrap().str().unwrap().get(0).map(str::to_owned);
        let positives = frame.column("positives").unwrap().i64().unwrap().get(0);
        (positives, text("positive_label"), text("definition_from"))
    };
    let (old, mended) = (Some("1".to_owned()), Some("yes".to_owned()));
    assert_eq!(binary("2026-06-01", None).await, (Some(0), old.clone(), None));
    for day in ["2026-06-02", "2026-06-03"] {
        let from = Some("2026-06-02".to_owned());
        assert_eq!(binary(day, None).await, (Some(5), mended.clone(), from.clone()));
        assert_eq!(binary(day, Some("2026-06-06T00:00:00Z")).await, (Some(5), mended.clone(), from));
        assert_eq!(binary(day, Some("2026-06-05T23:59:59Z")).await, (Some(0), old.clone(), None));
    }
    assert_eq!(scene.figures(then).await, before, "as of an earlier instant");
    // Releases that come begin with it, those before keep what they began with.
    scene.register("v3", "m").await.unwrap();
    let first = scene.world.catalog.definitions(scene.id()).await.unwrap();
    let label = |name: &str| first.first(name).unwrap().task.positive_label().unwrap().to_owned();
    assert_eq!((label("v1"), label("v3")), ("1".to_owned(), "yes".to_owned()));
    // And it may be changed back, for some days of it.
    scene.define("v1", "1", "2026-06-03", "2026-06-07T00:00:00Z").await;
    scene.project().await;
    scene.verified().await;
    assert_eq!(binary("2026-06-02", None).await.1, mended);
    assert_eq!(binary("2026-06-03", None).await.1, old);
}

async fn definitions_of_a_day_are_those_of_its_log(world: World) {
    let scene = Scene::new(world).await;
    scene.define("v1", "a", "2026-06-05", "2026-06-06T00:00:00Z").await;
    scene.define("v1", "b", "2026-06-08", "2026-06-06T01:00:00Z").await;
    // What is said later holds from its day on, also where something else was said before.
    scene.define("v1", "c", "2026-06-07", "2026-06-06T02:00:00Z").await;
    let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
    let label = |day: &str| {
        let definition = definitions.of_release("v1", day.parse().unwrap()).unwrap();
        definition.task.positive_label().unwrap().to_owned()
    };
    let days = ["2026-06-04", "2026-06-05", "2026-06-07", "2026-06-08", "2026-06-30"];
    assert_eq!(days.map(label), ["1", "a", "c", "c", "c"]);
    // Folding the log anew gives the same, and recording it again changes nothing.
    let range = log::key::definitions(scene.id());
    let stored = async || {
        let query = table::Query::table(range.clone());
        table::query_all(&*scene.table, query).await.unwrap()
    };
    let before = stored().await;
    let numbered = before.iter().filter(|item| log::key::parse_definition(&item.key).is_some());
    for item in numbered {
        scene.table.delete(&item.key, Condition::None).await.unwrap();
    }
    scene.project().await;
    scene.world.catalog.record_definitions(scene.id(), "2026-06-06".parse().unwrap()).await.unwrap();
    let adopted = log::key::definitions_adopted(scene.id());
    let after: Vec<_> = stored().await.into_iter().filter(|item| item.key != adopted).collect();
    assert_eq!(after, before.into_iter().filter(|item| item.key != adopted).collect::<Vec<_>>());
    // What an event may not say.
    for (wrong, says) in [
        (json!({ "action": "define", "task": "binary", "positive_label": "x" }), "effective_from"),
        (json!({ "action": "define", "effective_from": "2026-06-01" }), "task"),
        (
            json!({ "action": "define", "task": "regression", "positive_label": "x", "effective_from": "2026-06-01" }),
            "positive label",
        ),
        (
            json!({ "action": "define", "task": "multiclass", "threshold": 0.5, "effective_from": "2026-06-01" }),
            "threshold",
        ),
        (json!({ "action": "promote", "environment": "production", "task": "binary" }), "does not belong"),
        (json!({ "action": "register", "task": "regression" }), "begins with"),
        (json!({ "action": "define", "task": "binary", "effective_from": "2026-06-31" }), "effective_from"),
    ] {
        let mut event = json!({ "release": "v1", "released_at": "2026-06-06T03:00:00Z", "model": "m" });
        event.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let error = scene.append(Kind::Releases, json!([event]), NOW).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(says), "{wrong}: {text}");
    }
}

async fn outcomes_without_a_prediction_and_repeated_predictions_are_shown(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many("2026-06-01", "v1", 6, "2026-06-04T12:00:00Z").await;
    // Two exports overlap, and more is observed than was predicted; on the next day nothing was.
    scene.predict_many("2026-06-01", "v1", 4, "2026-06-04T13:00:00Z").await;
    scene.observe_many("2026-06-01", "1", 9, "2026-06-04T14:00:00Z").await;
    scene.observe_many("2026-06-02", "1", 3, "2026-06-04T14:00:00Z").await;
    scene.project().await;
    scene.verified().await;
    for as_of in [None, Some("2026-06-05T00:00:00Z")] {
        let columns = Some("release,predictions,repeated,unmatched");
        let words = Words { from: "2026-06-01", to: "2026-06-02", columns, as_of, ..Words::default() };
        let request = Request::parse(What::Evaluations, &words).unwrap();
        let frame = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap().frame;
        let count = |name: &str| frame.column(name).unwrap().i64().unwrap().iter().collect::<Vec<_>>();
        assert_eq!(count("predictions"), [Some(6), None]);
        assert_eq!(count("repeated"), [Some(4), None]);
        assert_eq!(count("unmatched"), [Some(3), Some(3)]);
    }
}

/// Takes away what version 0.1 did not write.
async fn as_by_0_1(scene: &Scene) {
    let query = table::Query::table(log::key::definitions(scene.id()));
    for item in table::query_all(&*scene.table, query).await.unwrap() {
        scene.table.delete(&item.key, Condition::None).await.unwrap();
    }
}

async fn what_an_older_almanac_wrote_is_judged_by_its_catalog(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many("2026-06-01", "v1", 8, "2026-06-04T12:00:00Z").await;
    scene.observe_many("2026-06-01", "1", 8, "2026-06-04T12:00:00Z").await;
    scene.project().await;
    let before = scene.figures(Some("2026-06-05T00:00:00Z")).await;
    assert!(before.contains("\"1\"") || before.contains('1'));
    as_by_0_1(&scene).await;
    assert_eq!(scene.figures(Some("2026-06-05T00:00:00Z")).await, before);
    scene.verified().await;
    // Its releases keep what they have before anything changes.
    scene.delete_release("v1").await;
    assert_eq!(scene.figures(Some("2026-06-05T00:00:00Z")).await, before, "deleted before a projector came");
    scene.verified().await;
    as_by_0_1(&scene).await;
    scene.register("v1", "m").await.unwrap();
    as_by_0_1(&scene).await;
    let new = NewDefinition {
        positive_label: Some("other".into()),
        from: Some("2026-06-02".parse().unwrap()),
        ..NewDefinition::default()
    };
    let ingest = scene.ingest(at("2026-06-06T00:00:00Z"));
    assert_eq!(ingest.define_model(&scene.workspace, "m", &new).await.unwrap().len(), 2);
    scene.project().await;
    assert_eq!(scene.figures(None).await, before, "its day is before the change");
    scene.verified().await;
}

async fn labels_that_nothing_knows_are_warned_of(world: World) {
    let scene = Scene::new(world).await;
    let ingest = scene.ingest(at(NOW));
    let warnings = async |label: &str, rows: usize| {
        let events = (0..rows).map(|n| {
            let key = format!("k{n}");
            json!({ "key": key, "predicted_on": "2026-06-01", "observed_at": "2026-06-02T00:00:00Z", "label": label })
        });
        let events = events.collect::<Value>().to_string();
        let batch = ingest::json::read_json_array(Kind::Outcomes, events.as_bytes(), at(NOW)).unwrap();
        ingest.warnings(&scene.workspace, &batch).await
    };
    assert_eq!(warnings("1", 30).await, Vec::<String>::new());
    assert_eq!(warnings("yes", 3).await, Vec::<String>::new(), "too few");
    let found = warnings("yes", 30).await;
    assert!(found.len() == 1 && found[0].contains("`1`") && found[0].contains("`yes`"), "{found:?}");
}

async fn an_attribute_does_not_stand_beside_the_positive_label(world: World) {
    let scene = Scene::new(world).await;
    let catalog = &scene.world.catalog;
    let model = catalog.model_named(scene.id(), "m").await.unwrap();
    let model = EntityId::Model(scene.id().clone(), model);
    let set = |name: &str| {
        let attributes = [(name.to_owned(), Some("yes".into()))].into();
        Patch { attributes, ..Patch::default() }
    };
    for (of, name, says) in [
        (&model, "positive_label", "almanac model define"),
        (&model, "task", "almanac model define"),
        (&model, "name", "rename"),
        (&scene.release("v1").await, "model", "never changes"),
    ] {
        let refused = catalog.change(of, &set(name), None, at(NOW)).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{name}: {refused}");
    }
    catalog.change(&model, &set("team"), None, at(NOW)).await.unwrap();
    // One that an older Almanac took can be taken away.
    let unset = Patch { attributes: [("task".to_owned(), None)].into(), ..Patch::default() };
    catalog.change(&model, &unset, None, at(NOW)).await.unwrap();
}

/// Changes of the catalog and the log in a random order. What was answered as of an instant is answered so
/// for ever, and everything is as a list of definitions says.
async fn no_change_of_the_catalog_changes_an_answer_about_the_past(world: World) {
    const ROUNDS: usize = 16;
    let scene = Scene::new(world).await;
    let mut random = fastrand::Rng::with_seed(20_260_601);
    let mut said: Vec<(String, Day, String)> = Vec::new();
    let mut firsts =
        std::collections::BTreeMap::from(["v1", "v2"].map(|name| (name.to_owned(), "1".to_owned())));
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
                let new = NewDefinition {
                    positive_label: Some(label.into()),
                    from: Some(parsed),
                    ..NewDefinition::default()
                };
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
                model = format!("m{round}");
                let at_model = EntityId::Model(scene.id().clone(), id);
                scene.world.catalog.change(&at_model, &Patch::rename(&model), None, hour).await.unwrap();
            }
            _ => {}
        }
        if random.bool() {
            scene.project().await;
            scene.verified().await;
        }
        let then = hour.plus_seconds(60).to_string();
        let answer = scene.figures(Some(&then)).await;
        answers.push((then, answer));
        let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
        for day in days {
            let day = day.parse::<Day>().unwrap();
            for (release, first) in &firsts {
                let last = said.iter().rfind(|(of, from, _)| of == release && *from <= day);
                let expected = last.map_or(first, |(_, _, label)| label);
                let found: Definition = definitions.of_release(release, day).unwrap();
                assert_eq!(
                    found.task.positive_label(),
                    Some(expected.as_str()),
                    "{release} on {day} in {round}"
                );
            }
        }
    }
    scene.project().await;
    scene.verified().await;
    for (then, answer) in answers {
        assert_eq!(scene.figures(Some(&then)).await, answer, "as of {then}");
    }
    assert_eq!(scene.figures(None).await, scene.figures(Some(NOW)).await);
}
