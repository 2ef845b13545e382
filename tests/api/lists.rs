//! Lists of children: by page, by time, by column, and by an index.

use catalog::{AnyEntity, ListOptions, New, NewEntity};
use event::{Definition, Task};
use log::key::EntityKind;
use tests::{
    on_both_engines,
    world::{World, at, cost, release},
};

on_both_engines!(
    World::on:
    children_list_by_page_time_and_column,
    releases_of_a_model_list_newest_first,
    releases_are_listed_by_model_and_time,
);

/// Access pattern A6.
async fn children_list_by_page_time_and_column(world: World) {
    let catalog = &world.catalog;
    let workspace = world.workspace().await;
    let days = ["2026-06-01", "2026-06-02", "2026-06-03", "2026-06-04", "2026-06-05"];
    for day in days {
        let mut new = NewEntity::new(
            &format!("m-{day}"),
            New::Model { workspace: workspace.id().clone(), definition: Definition::of(Task::Regression) },
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

/// Access pattern B4.
async fn releases_of_a_model_list_newest_first(world: World) {
    let catalog = &world.catalog;
    let workspace = world.workspace().await;
    let churn = world.model(&workspace, "churn", at("2026-06-01T00:00:00Z")).await;
    world.model(&workspace, "other", at("2026-06-01T00:00:00Z")).await;
    for (day, model) in [(1, "churn"), (2, "other"), (3, "churn"), (4, "churn")] {
        let now = at(&format!("2026-06-0{day}T00:00:00Z"));
        let new = NewEntity::new(&format!("v{day}"), release(&workspace, model));
        catalog.create(new, now).await.unwrap();
    }
    let options = ListOptions { limit: 2, newest_first: true, ..ListOptions::default() };
    let list = async || {
        let (listed, reads) = world.reads(catalog.list(EntityKind::Release, Some(&churn), &options)).await;
        (listed.unwrap().entities, reads)
    };
    // An index may lag behind the table.
    let mut listed = list().await;
    for _ in 0..1_000 {
        if listed.0.first().is_some_and(|any| any.entity().name == "v4") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        listed = list().await;
    }
    let (releases, reads) = listed;
    let names: Vec<&str> = releases.iter().map(|any| any.entity().name.as_str()).collect();
    assert_eq!(names, ["v4", "v3"]);
    assert_eq!((cost(reads), reads.items), ((0, 1), 2));
}

/// Access pattern D3.
async fn releases_are_listed_by_model_and_time(world: World) {
    let workspace = world.workspace().await;
    let churn = world.model(&workspace, "churn", at("2026-01-01T00:00:00Z")).await;
    for month in 1..=6 {
        let now = at(&format!("2026-0{month}-15T00:00:00Z"));
        let new = NewEntity::new(&format!("v{month}"), release(&workspace, "churn"));
        world.catalog.create(new, now).await.unwrap();
    }
    let options = ListOptions {
        since: Some(at("2026-03-01T00:00:00Z")),
        until: Some(at("2026-05-01T00:00:00Z")),
        ..ListOptions::default()
    };
    let mut names = Vec::new();
    // An index may lag behind the table.
    for _ in 0..1_000 {
        let (page, reads) =
            world.reads(world.catalog.list(EntityKind::Release, Some(&churn), &options)).await;
        assert_eq!(cost(reads), (0, 1));
        assert!(reads.items <= 2, "nothing but the range is read: {reads:?}");
        names = page.unwrap().entities.iter().map(|any| any.entity().name.clone()).collect::<Vec<_>>();
        if names.len() == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(names, ["v3", "v4"]);
}
