//! A: entities, the composite keys of children, counters, names, lists, attributes, and time series.

use std::sync::Arc;

use catalog::{AnyEntity, ListOptions, New, NewEntity, Patch};
use event::{Clock, ErrorKind, Kind, Task, Timestamp};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::key::{EntityId, EntityKind};
use query::{Query, Request, What, Words};
use table::item::Value;

use crate::world::{World, at, cost, model, release, rows, workspace};

rows!(
    a1_every_entity_has_an_id_and_is_found_by_it,
    a2_the_key_of_a_child_carries_its_parent,
    a3_a_child_counts_on_its_parent_or_is_not_made,
    a4_free_counters,
    a5_names_are_unique_and_found,
    a6_children_by_page_by_time_and_by_column,
    a7_each_child_has_its_own_400_kb,
    a8_a_window_of_a_time_series,
);

fn now() -> Timestamp {
    at("2026-06-10T00:00:00Z")
}

async fn a1_every_entity_has_an_id_and_is_found_by_it(world: World) {
    let catalog = &world.catalog;
    let at = workspace(&world).await;
    let within = || at.id().clone();
    model(&world, &at, "churn", now()).await;
    let category = catalog.get(&at).await.unwrap().parent().unwrap();
    let mut all = vec![(category, "credit"), (at.clone(), "credit/prod")];
    for (what, path) in [
        (New::Model { workspace: within(), task: Task::Multiclass }, "credit/prod/next"),
        (New::Configuration { workspace: within() }, "credit/prod/deep"),
        (release(&at, "churn"), "credit/prod/churn@v1"),
        (New::User, "ann"),
        (New::Group, "risk"),
        (New::System, "nightly"),
    ] {
        let name = path.rsplit(['/', '@']).next().unwrap();
        all.push((catalog.create(NewEntity::new(name, what), now()).await.unwrap().at(), path));
    }
    let kinds: Vec<EntityKind> = all.iter().map(|(at, _)| at.kind()).collect();
    assert_eq!(kinds, EntityKind::ALL);
    for (at, path) in all {
        // With its prefix, without it, and by its path.
        for text in [at.to_string(), at.id().to_string(), path.to_owned()] {
            let (found, reads) = world.reads(catalog.resolve(at.kind(), &text)).await;
            assert_eq!(found.unwrap(), at, "{text}");
            assert_eq!(reads.queries, 0);
            assert!(reads.gets <= 5, "{text}: {reads:?}");
        }
        let (any, reads) = world.reads(catalog.get(&at)).await;
        assert_eq!((any.unwrap().at(), cost(reads)), (at, (1, 0)));
    }
}

async fn a2_the_key_of_a_child_carries_its_parent(world: World) {
    let at = workspace(&world).await;
    let child = model(&world, &at, "churn", now()).await;
    let key = child.key();
    assert!(key.pk.contains(at.id().as_str()) && key.sk.contains(child.id().as_str()));
    assert_eq!(EntityId::of_key(&key), Some(child.clone()));
    // The same name in another workspace is another child.
    let other = world.catalog.ensure_workspace("credit/test", now()).await.unwrap();
    let other = EntityId::Workspace(other.entity.id);
    let twin = model(&world, &other, "churn", now()).await;
    assert_ne!(twin, child);
    let moved = EntityId::Model(other.id().clone(), child.id().clone());
    let (found, reads) = world.reads(world.catalog.find(&moved)).await;
    assert_eq!((found.unwrap(), cost(reads)), (None, (1, 0)));
}

async fn a3_a_child_counts_on_its_parent_or_is_not_made(world: World) {
    let catalog = &world.catalog;
    let at = workspace(&world).await;
    for (n, name) in (1..).zip(["a", "b", "c"]) {
        model(&world, &at, name, now()).await;
        let (known, reads) = world.reads(catalog.get(&at)).await;
        assert_eq!(known.unwrap().children()[&EntityKind::Model], n);
        assert_eq!(cost(reads), (1, 0));
    }
    let first = catalog.resolve(EntityKind::Model, "credit/prod/a").await.unwrap();
    catalog.delete(&first, None, now()).await.unwrap();
    assert_eq!(catalog.get(&at).await.unwrap().children()[&EntityKind::Model], 2);
    let category = catalog.get(&catalog.get(&at).await.unwrap().parent().unwrap()).await.unwrap();
    assert_eq!(category.children()[&EntityKind::Workspace], 1);
    // Never on a parent that does not exist.
    let nowhere = EntityId::Workspace(first.id().clone());
    let new = NewEntity::new("x", New::Model { workspace: nowhere.id().clone(), task: Task::Multiclass });
    assert_eq!(catalog.create(new, now()).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(catalog.find(&nowhere).await.unwrap(), None);
    assert!(
        catalog
            .list(EntityKind::Model, Some(&nowhere), &ListOptions::default())
            .await
            .unwrap()
            .entities
            .is_empty()
    );
}

async fn a4_free_counters(world: World) {
    let catalog = &world.catalog;
    let at = workspace(&world).await;
    let churn = model(&world, &at, "churn", now()).await;
    for of in [&at, &churn] {
        assert_eq!(catalog.counter(of, "example").await.unwrap(), 0);
        assert_eq!(catalog.count(of, "example", 1, None).await.unwrap(), 1);
        let (two, reads) = world.reads(catalog.count(of, "example", 1, Some("k"))).await;
        assert_eq!((two.unwrap(), cost(reads)), (2, (2, 0)), "the entity and the counter");
        assert_eq!(catalog.count(of, "example", 1, Some("k")).await.unwrap(), 2, "a retry");
        assert_eq!(catalog.count(of, "example", -5, None).await.unwrap(), -3);
        catalog.count(of, "other", 7, None).await.unwrap();
        let (value, reads) = world.reads(catalog.counter(of, "example")).await;
        assert_eq!((value.unwrap(), cost(reads)), (-3, (1, 0)));
        let (all, reads) = world.reads(catalog.counters(of)).await;
        assert_eq!((all.unwrap().len(), cost(reads)), (2, (0, 1)));
    }
}

async fn a5_names_are_unique_and_found(world: World) {
    let catalog = &world.catalog;
    let at = workspace(&world).await;
    let churn = model(&world, &at, "churn", now()).await;
    let again = NewEntity::new("churn", New::Model { workspace: at.id().clone(), task: Task::Multiclass });
    assert!(catalog.create(again, now()).await.unwrap_err().is_conflict());
    // Among siblings of one type: a configuration may have the same name.
    catalog.ensure_configuration(at.id(), "churn", now()).await.unwrap();
    let (found, reads) = world.reads(catalog.resolve(EntityKind::Model, "credit/prod/churn")).await;
    assert_eq!((found.unwrap(), cost(reads)), (churn.clone(), (3, 0)), "a guard a name");
    let other = model(&world, &at, "other", now()).await;
    let taken = catalog.change(&other, &Patch::rename("churn"), None, now()).await.unwrap_err();
    assert!(taken.is_conflict(), "{taken}");
    catalog.change(&churn, &Patch::rename("leaving"), None, now()).await.unwrap();
    assert_eq!(catalog.resolve(EntityKind::Model, "credit/prod/leaving").await.unwrap(), churn);
    let gone = catalog.resolve(EntityKind::Model, "credit/prod/churn").await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    catalog.change(&other, &Patch::rename("churn"), None, now()).await.unwrap();
}

async fn a6_children_by_page_by_time_and_by_column(world: World) {
    let catalog = &world.catalog;
    let workspace = workspace(&world).await;
    let days = ["2026-06-01", "2026-06-02", "2026-06-03", "2026-06-04", "2026-06-05"];
    for day in days {
        let mut new = NewEntity::new(
            &format!("m-{day}"),
            New::Model { workspace: workspace.id().clone(), task: Task::Regression },
        );
        new.attributes.insert("large".into(), "x".repeat(1_000).into());
        catalog.create(new, at(&format!("{day}T12:00:00Z"))).await.unwrap();
    }
    let names = |entities: &[AnyEntity]| -> Vec<String> {
        entities.iter().map(|any| any.entity().name[2..].to_owned()).collect()
    };
    // Page by page.
    let mut options = ListOptions { limit: 2, ..ListOptions::default() };
    let mut seen = Vec::new();
    loop {
        let (page, reads) = world.reads(catalog.list(EntityKind::Model, Some(&workspace), &options)).await;
        let page = page.unwrap();
        assert_eq!(cost(reads), (0, 1));
        assert!(reads.items <= 2);
        seen.extend(names(&page.entities));
        match page.next {
            Some(next) => options.after = Some(table::Cursor::from_text(&next.to_text()).unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, days);
    // Some of them, by the time of their creation, and some columns.
    let options = ListOptions {
        since: Some(at("2026-06-02T00:00:00Z")),
        until: Some(at("2026-06-04T12:00:00Z")),
        newest_first: true,
        only: Some(Vec::new()),
        ..ListOptions::default()
    };
    let (page, reads) = world.reads(catalog.list(EntityKind::Model, Some(&workspace), &options)).await;
    let page = page.unwrap();
    assert_eq!(names(&page.entities), ["2026-06-03", "2026-06-02"]);
    assert_eq!(cost(reads), (0, 1));
    assert!(reads.items <= 3, "no more than the range holds: {reads:?}");
    assert!(page.entities.iter().all(|any| any.entity().attributes.is_empty()), "it was not read");
}

async fn a7_each_child_has_its_own_400_kb(world: World) {
    let at = workspace(&world).await;
    let large = |bytes: usize| {
        let mut new = NewEntity::new(
            &format!("m{bytes}"),
            New::Model { workspace: at.id().clone(), task: Task::Regression },
        );
        let text = Value::L(vec![Value::from("x".repeat(bytes)), Value::Ss(["a".to_owned()].into())]);
        new.attributes.insert("large".into(), Value::M([("in".to_owned(), text)].into()));
        new
    };
    for bytes in [340_000, 345_000, 350_000] {
        let made = world.catalog.create(large(bytes), now()).await.unwrap();
        let (found, reads) = world.reads(world.catalog.get(&made.at())).await;
        assert_eq!((found.unwrap(), cost(reads)), (made, (1, 0)));
    }
    let error = world.catalog.create(large(360_000), now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("358400"), "{error}");
}

async fn a8_a_window_of_a_time_series(world: World) {
    let at = workspace(&world).await;
    model(&world, &at, "churn", now()).await;
    world.catalog.create(NewEntity::new("v1", release(&at, "churn")), now()).await.unwrap();
    let later = Timestamp::parse("2026-08-01T00:00:00Z").unwrap();
    let ingest = Ingest::replaying(world.table(), Clock::from_fn(move || later));
    let workspace = world.catalog.workspace("credit/prod").await.unwrap();
    let append = async |days: &[&str]| {
        for day in days {
            let row = format!(r#"{{"key":"k","predicted_at":"{day}T04:30:00Z","release":"v1","score":0.5}}"#);
            let batch = read_ndjson(Kind::Predictions, row.as_bytes(), later).unwrap();
            ingest.submit(&workspace, batch, None, Remember::Week).await.unwrap();
        }
    };
    let words = Words {
        from: "2026-06-01",
        to: "2026-06-30",
        release: None,
        columns: Some("key,predicted_at"),
        by: None,
        as_of: None,
        cut: None,
    };
    let request = Request::parse(What::parse("predictions").unwrap(), &words).unwrap();
    let query = Query::new(Arc::clone(&world.table()), event::Clock::system());
    append(&["2026-06-01", "2026-06-15", "2026-06-30"]).await;
    let (rows, before) = world.reads(query.run(workspace.id(), &request)).await;
    assert_eq!(rows.unwrap().frame.height(), 3);
    // What lies outside of the window costs nothing.
    append(&["2026-05-01", "2026-05-31", "2026-07-01", "2026-07-02", "2026-07-31"]).await;
    let (rows, after) = world.reads(query.run(workspace.id(), &request)).await;
    assert_eq!((rows.unwrap().frame.height(), after), (3, before));
}
