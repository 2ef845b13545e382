//! Judgement of predictions by the definition in the release log at that time, whatever happens to the catalog.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use catalog::{Catalog, Patch};
use event::{Clock, Kind, Task};
use ingest::{Ingest, definitions::NewDefinition};
use log::key::EntityId;
use projector::verify::verify;
use query::{Dataset, Params, Request};
use serde_json::{Value, json};
use table::Condition;
use tests::{
    between::{Between, Call},
    on_both_engines,
    register::release_of,
    scene::{NOW, Scene},
    world::{World, at},
};

on_both_engines!(
    World::on:
    changed_positive_label_counts_from_its_day,
    release_registered_during_definition_is_defined_too,
    definitions_of_a_day_match_its_log,
    a_definition_changes_only_what_it_names,
    a_model_is_defined_by_one_batch,
    orphaned_outcomes_and_repeated_predictions_are_counted,
    labels_that_nothing_knows_are_warned_of,
    attribute_cannot_shadow_a_defined_field,
);

async fn changed_positive_label_counts_from_its_day(world: World) {
    let scene = Scene::new(world).await;
    for day in ["2026-06-01", "2026-06-02", "2026-06-03"] {
        scene.predict_many(day, "v1", 9, "2026-06-04T12:00:00Z").await;
        scene.observe_many(day, "yes", 9, "2026-06-04T12:00:00Z").await;
    }
    scene.project().await;
    let then = Some("2026-06-05T00:00:00Z");
    let before = scene.metrics(then).await;
    assert_eq!(before, scene.metrics(None).await);
    // The evaluations are behind, and consistent with their definitions.
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
    scene.assert_verified().await;
    let binary = async |day: &str, as_of: Option<&str>| {
        let columns = Some("positives,positive_label,definition_from,accuracy");
        let words = Params { from: day, to: day, columns, as_of, ..Params::default() };
        let request = Request::parse(Dataset::Evaluations, &words).unwrap();
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
    assert_eq!(scene.metrics(then).await, before, "as of an earlier instant");
    // New releases begin with it, earlier ones keep their first definition.
    scene.register("v3", "m").await.unwrap();
    let first = scene.world.catalog.definitions(scene.id()).await.unwrap();
    let label = |name: &str| first.first(name).unwrap().definition.task.positive_label().unwrap().to_owned();
    assert_eq!((label("v1"), label("v3")), ("1".to_owned(), "yes".to_owned()));
    // It may be changed back, for some of its days.
    scene.define("v1", "1", "2026-06-03", "2026-06-07T00:00:00Z").await;
    scene.project().await;
    scene.assert_verified().await;
    assert_eq!(binary("2026-06-02", None).await.1, mended);
    assert_eq!(binary("2026-06-03", None).await.1, old);
}

/// One release is registered right before the model is written, and begins with its old definition, and one right after.
async fn release_registered_during_definition_is_defined_too(world: World) {
    let scene = Scene::new(world).await;
    let model = scene.world.catalog.model_named(scene.id(), "m").await.unwrap();
    let model = EntityId::Model(scene.id().clone(), model).key();
    let page = log::key::workspace_page(scene.id());
    let (inner, workspace) = (Arc::clone(&scene.table), scene.id().clone());
    let mut comes = VecDeque::from(["before", "after"]);
    let table = Between::new(Arc::clone(&scene.table), move |call| {
        let is_time = match call {
            Call::Write(keys) => comes.len() == 2 && keys.contains(&model),
            Call::Query(query) => comes.len() == 1 && query.range.pk == page,
            Call::Get(_) => false,
        };
        let name = if is_time { comes.pop_front()? } else { return None };
        let (catalog, workspace) = (Catalog::new(Arc::clone(&inner)), workspace.clone());
        Some(Box::pin(async move {
            catalog.ensure_release(&workspace, &release_of("m", name), at(NOW)).await.unwrap();
        }))
    });
    let ingest = Ingest::replaying(Arc::new(table), Clock::from_fn(|| at("2026-06-06T00:00:00Z")));
    let new = NewDefinition {
        positive_label: Some("yes".into()),
        from: Some("2026-06-02".parse().unwrap()),
        ..NewDefinition::default()
    };
    let defined = ingest.define_model(&scene.workspace, "m", &new).await.unwrap();
    let defined: BTreeSet<&str> = defined.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(defined, BTreeSet::from(["before", "v1", "v2"]), "`after` begins with it");
    let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
    for release in ["before", "after", "v1", "v2"] {
        let definition = definitions.of_release(release, "2026-06-03".parse().unwrap()).unwrap();
        assert_eq!(definition.task.positive_label(), Some("yes"), "{release}");
    }
}

async fn definitions_of_a_day_match_its_log(world: World) {
    let scene = Scene::new(world).await;
    scene.define("v1", "a", "2026-06-05", "2026-06-06T00:00:00Z").await;
    scene.define("v1", "b", "2026-06-08", "2026-06-06T01:00:00Z").await;
    // It holds until the first day of an earlier definition.
    scene.define("v1", "c", "2026-06-07", "2026-06-06T02:00:00Z").await;
    let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
    let label = |day: &str| {
        let definition = definitions.of_release("v1", day.parse().unwrap()).unwrap();
        definition.task.positive_label().unwrap().to_owned()
    };
    let days = ["2026-06-04", "2026-06-05", "2026-06-07", "2026-06-08", "2026-06-30"];
    assert_eq!(days.map(label), ["1", "a", "c", "b", "b"]);
    // Folding the log again gives the same, and recording it again changes nothing.
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
    assert_eq!(stored().await, before);
    // Events with contradictory or missing fields are refused.
    for (wrong, says) in [
        (json!({ "action": "define", "task": "binary", "positive_label": "x" }), "effective_from"),
        (json!({ "action": "define", "effective_from": "2026-06-01" }), "says something"),
        (
            json!({ "action": "define", "interval_level": 0.5, "effective_from": "2026-06-01" }),
            "belongs to a regression",
        ),
        (json!({ "action": "define", "threshold": 0.5 }), "effective_from"),
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

async fn a_definition_changes_only_what_it_names(world: World) {
    let scene = Scene::new(world).await;
    let ingest = scene.ingest(at("2026-06-25T00:00:00Z"));
    let said = |from: &str| NewDefinition { from: from.parse().ok(), ..NewDefinition::default() };
    let threshold = |of: f64, from: &str| NewDefinition { threshold: Some(of), ..said(from) };
    let metric = |text: &str, from: &str| {
        let custom_metrics = Some([("mean".to_owned(), Some(text.to_owned()))].into());
        NewDefinition { custom_metrics, ..said(from) }
    };
    let workspace = &scene.workspace;
    let define = async |new| ingest.define_model(workspace, "m", &new).await.unwrap().len();
    assert_eq!(define(threshold(0.4, "2026-06-20")).await, 2);
    assert_eq!(define(metric("avg(score)", "2026-06-20")).await, 2);
    // From earlier days, but appended later.
    let dimension = NewDefinition { dimensions: Some(vec!["tag.place".into()]), ..said("2026-06-10") };
    assert_eq!(define(dimension).await, 2);
    assert_eq!(define(threshold(0.3, "2026-06-15")).await, 2);
    assert_eq!(define(metric("max(score)", "2026-06-15")).await, 2);
    assert_eq!(define(threshold(0.4, "2026-06-22")).await, 0, "it is so already");
    let label = NewDefinition { positive_label: Some("yes".into()), ..said("2026-06-01") };
    assert_eq!(ingest.define_release(workspace, "v1", &label).await.unwrap().len(), 1);
    scene.register("v3", "m").await.unwrap();
    let of = async |release: &str, day: &str| {
        let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
        let one = definitions.of_release(release, day.parse().unwrap()).unwrap();
        let metric = one.custom_metrics.first().map(|metric| metric.text.clone()).unwrap_or_default();
        let label = one.task.positive_label().unwrap().to_owned();
        (one.threshold, one.dimensions.len(), metric, label, one.from.map(|day| day.to_string()))
    };
    for (release, label) in [("v1", "yes"), ("v2", "1")] {
        for (day, threshold, dimensions, metric, from) in [
            ("2026-06-09", 0.5, 0, "", (release == "v1").then_some("2026-06-01")),
            ("2026-06-10", 0.5, 1, "", Some("2026-06-10")),
            ("2026-06-19", 0.3, 1, "max(score)", Some("2026-06-15")),
            ("2026-06-20", 0.4, 1, "avg(score)", Some("2026-06-20")),
            ("2026-06-30", 0.4, 1, "avg(score)", Some("2026-06-20")),
        ] {
            let expected =
                (threshold, dimensions, metric.to_owned(), label.to_owned(), from.map(str::to_owned));
            assert_eq!(of(release, day).await, expected, "{release} on {day}");
        }
    }
    // A new release begins with the latest definition.
    let first = (0.4, 1, "avg(score)".to_owned(), "1".to_owned(), None);
    assert_eq!(of("v3", "2026-06-01").await, first);
    // An event states only its own changes, and is checked against the definition of its day.
    let numbers = NewDefinition { task: Some("regression".into()), ..said("2026-06-28") };
    ingest.define_release(workspace, "v2", &numbers).await.unwrap();
    let event = |of: f64, from: &str| {
        json!([{ "release": "v2", "released_at": "2026-06-25T00:00:00Z", "model": "m", "action": "define",
            "threshold": of, "effective_from": from }])
    };
    let error =
        scene.append(Kind::Releases, event(0.6, "2026-06-29"), "2026-06-25T01:00:00Z").await.unwrap_err();
    assert!(format!("{error:?}").contains("belongs to a binary task"), "{error:?}");
    scene.append(Kind::Releases, event(0.6, "2026-06-27"), "2026-06-25T01:00:00Z").await.unwrap();
    assert_eq!(of("v2", "2026-06-27").await.0, 0.6);
    assert_eq!(of("v2", "2026-06-27").await.1, 1, "the dimension stays");
    let definitions = scene.world.catalog.definitions(scene.id()).await.unwrap();
    let last = definitions.of_release("v2", "2026-06-30".parse().unwrap()).unwrap();
    assert_eq!((last.task, last.dimensions.len()), (Task::Regression, 1));
}

async fn a_model_is_defined_by_one_batch(world: World) {
    const RELEASES: usize = 60;
    let scene = Scene::new(world).await;
    for n in 0..RELEASES {
        scene.register(&format!("many{n}"), "m").await.unwrap();
    }
    let ingest = scene.ingest(at("2026-06-25T00:00:00Z"));
    let new =
        NewDefinition { threshold: Some(0.4), from: "2026-06-20".parse().ok(), ..NewDefinition::default() };
    let defined = ingest.define_model(&scene.workspace, "m", &new).await.unwrap();
    assert_eq!(defined.len(), RELEASES + 2);
    let count = async |range| table::query_all(&*scene.table, table::Query::table(range)).await.unwrap();
    let day = "2026-06-25".parse().unwrap();
    let segments = count(log::key::segments_of_kind(scene.id(), day, Kind::Releases)).await;
    assert_eq!(segments.len(), 1, "its events stand in one segment");
    let items = count(log::key::definitions(scene.id())).await;
    let numbered = items.iter().filter(|item| log::key::parse_definition(&item.key).is_some());
    assert_eq!(numbered.count(), 1, "and are recorded as one change");
    // A refusal by one release refuses the definition for all.
    let numbers =
        NewDefinition { task: Some("regression".into()), from: new.from, ..NewDefinition::default() };
    ingest.define_release(&scene.workspace, "many7", &numbers).await.unwrap();
    let costs = NewDefinition { costs: Some("fp=1".into()), from: new.from, ..NewDefinition::default() };
    let error = ingest.define_model(&scene.workspace, "m", &costs).await.unwrap_err().to_string();
    assert_eq!(error, "`many7`: costs belong to a binary task, not to `regression`");
    assert_eq!(count(log::key::segments_of_kind(scene.id(), day, Kind::Releases)).await.len(), 2);
}

async fn orphaned_outcomes_and_repeated_predictions_are_counted(world: World) {
    let scene = Scene::new(world).await;
    scene.predict_many("2026-06-01", "v1", 6, "2026-06-04T12:00:00Z").await;
    // Two exports overlap, and there are more outcomes than predictions; the next day has no predictions.
    scene.predict_many("2026-06-01", "v1", 4, "2026-06-04T13:00:00Z").await;
    scene.observe_many("2026-06-01", "1", 9, "2026-06-04T14:00:00Z").await;
    scene.observe_many("2026-06-02", "1", 3, "2026-06-04T14:00:00Z").await;
    scene.project().await;
    scene.assert_verified().await;
    for as_of in [None, Some("2026-06-05T00:00:00Z")] {
        let columns = Some("release,predictions,repeated,orphaned");
        let words = Params { from: "2026-06-01", to: "2026-06-02", columns, as_of, ..Params::default() };
        let request = Request::parse(Dataset::Evaluations, &words).unwrap();
        let frame = scene.query(at(NOW)).run(scene.id(), &request).await.unwrap().frame;
        let count = |name: &str| frame.column(name).unwrap().i64().unwrap().iter().collect::<Vec<_>>();
        assert_eq!(count("predictions"), [Some(6), None]);
        assert_eq!(count("repeated"), [Some(4), None]);
        assert_eq!(count("orphaned"), [Some(3), Some(3)]);
    }
}

async fn labels_that_nothing_knows_are_warned_of(world: World) {
    let scene = Scene::new(world).await;
    let ingest = scene.ingest(at(NOW));
    let warnings = async |ingest: &Ingest, label: &str, rows: usize| {
        let events = (0..rows).map(|n| {
            let key = format!("k{n}");
            json!({ "key": key, "predicted_on": "2026-06-01", "observed_at": "2026-06-02T00:00:00Z", "label": label })
        });
        let events = events.collect::<Value>().to_string();
        let batch = ingest::json::read_json_array(Kind::Outcomes, events.as_bytes(), at(NOW)).unwrap();
        ingest.warnings(&scene.workspace, &batch).await
    };
    assert_eq!(warnings(&ingest, "1", 30).await, Vec::<String>::new());
    assert_eq!(warnings(&ingest, "yes", 19).await, Vec::<String>::new(), "too few");
    let found = warnings(&ingest, "yes", 20).await;
    assert!(found.len() == 1 && found[0].contains("`1`") && found[0].contains("`yes`"), "{found:?}");
    // With several classes any label may be one.
    let catalog = &scene.world.catalog;
    catalog.ensure_model(scene.id(), "several", &Task::Multiclass, at(NOW)).await.unwrap();
    catalog.ensure_release(scene.id(), &release_of("several", "s1"), at(NOW)).await.unwrap();
    assert_eq!(warnings(&scene.ingest(at(NOW)), "yes", 20).await, Vec::<String>::new());
}

async fn attribute_cannot_shadow_a_defined_field(world: World) {
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
    // An attribute stored by an older Almanac can be removed.
    let unset = Patch { attributes: [("task".to_owned(), None)].into(), ..Patch::default() };
    catalog.change(&model, &unset, None, at(NOW)).await.unwrap();
}
