//! B: item collections and an overloaded index.

use catalog::{
    AnyEntity, ListOptions, New, NewEntity, Role,
    counts::{Kinds, MonthCounts, counts_item},
};
use event::Clock;
use log::key::{self, Counted, EntityKind};
use projector::counters::move_old;
use table::{Condition, Item, Key, Query, query_all};

use crate::{
    scene::Scene,
    world::{World, at, cost, model, release, rows, workspace},
};

rows!(
    b1_workspace_page,
    b1_workspace_page_does_not_grow_with_counters,
    b1_counters_of_an_older_version_are_read_and_moved,
    b1_user_page,
    b4_the_releases_of_a_model_newest_first
);

async fn b1_workspace_page(world: World) {
    let now = at("2026-06-10T00:00:00Z");
    let catalog = &world.catalog;
    let workspace = workspace(&world).await;
    let churn = model(&world, &workspace, "churn", now).await;
    let v1 = catalog.create(NewEntity::new("v1", release(&workspace, "churn")), now).await.unwrap();
    let ann = catalog.create(NewEntity::new("ann", New::User), now).await.unwrap().at();
    catalog.grant(&workspace, &ann, Role::Owner, now).await.unwrap();
    catalog.count(&churn, "reviews", 3, None).await.unwrap();
    let (page, reads) = world.reads(catalog.page(workspace.id())).await;
    assert_eq!(cost(reads), (0, 1), "one query");
    let page = page.unwrap();
    assert_eq!(AnyEntity::Workspace(page.workspace.clone()).children()[&EntityKind::Release], 1);
    assert_eq!(page.models[0].entity.name, "churn");
    assert_eq!(page.configurations[0].entity.name, "deep");
    assert_eq!(AnyEntity::Release(page.releases[0].clone()), v1);
    assert_eq!((page.grants[0].role, &page.grants[0].principal), (Role::Owner, &ann));
    assert_eq!(page.counters[&(EntityKind::Model, churn.id().clone())]["reviews"], 3);
}

async fn b1_user_page(world: World) {
    // What happened ends by itself, so the time must be that of the engine.
    let now = Clock::system().now();
    let catalog = &world.catalog;
    let workspace = workspace(&world).await;
    let ann = catalog.create(NewEntity::new("ann", New::User), now).await.unwrap().at();
    let eve = catalog.create(NewEntity::new("eve", New::User), now).await.unwrap().at();
    for name in ["risk", "lending"] {
        let group = catalog.create(NewEntity::new(name, New::Group), now).await.unwrap().at();
        for user in [&ann, &eve] {
            catalog.add_member(&group, user, now).await.unwrap();
        }
    }
    let risk = catalog.resolve(EntityKind::Group, "risk").await.unwrap();
    let (members, reads) = world.reads(catalog.memberships(&risk)).await;
    assert_eq!((members.unwrap().len(), cost(reads)), (2, (0, 1)), "who is in a group");
    let (groups, reads) = world.reads(catalog.memberships(&ann)).await;
    assert_eq!((groups.unwrap().len(), cost(reads)), (2, (0, 1)), "where somebody is");
    catalog.remove_member(&risk, &eve, now).await.unwrap();
    catalog.grant(&workspace, &ann, Role::Writer, now).await.unwrap();
    catalog.count(&ann, "logins", 2, None).await.unwrap();

    let (page, reads) = world.reads(catalog.user_page(ann.id())).await;
    assert_eq!(cost(reads), (0, 1), "one query");
    let page = page.unwrap();
    assert_eq!((page.user.name.as_str(), page.groups.len(), page.grants.len()), ("ann", 2, 1));
    assert_eq!((page.grants[0].role, page.counters["logins"]), (Role::Writer, 2));
    let said: Vec<&str> = page.activity.iter().map(|one| one.what.as_str()).collect();
    assert!(
        said.contains(&"joined the group risk") && said.contains(&"became writer of credit/prod"),
        "{said:?}"
    );
    assert_eq!(catalog.user_page(eve.id()).await.unwrap().groups.len(), 1);
}

async fn b4_the_releases_of_a_model_newest_first(world: World) {
    let catalog = &world.catalog;
    let workspace = workspace(&world).await;
    let churn = model(&world, &workspace, "churn", at("2026-06-01T00:00:00Z")).await;
    model(&world, &workspace, "other", at("2026-06-01T00:00:00Z")).await;
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

/// Counts of a day, as a counter holds them.
fn counter(key: Key, day: &str, predictions: u64) -> Item {
    let kinds = Kinds::from([("predictions".to_owned(), predictions)]);
    counts_item(key, 1, &MonthCounts::from([(day.to_owned(), kinds)]))
}

async fn b1_workspace_page_does_not_grow_with_counters(world: World) {
    let workspace = workspace(&world).await;
    let (id, table) = (workspace.id(), world.table());
    let read = async || {
        let (page, reads) = world.reads(world.catalog.page(id)).await;
        page.unwrap();
        (cost(reads), reads.items)
    };
    let before = read().await;
    assert_eq!(before.0, (0, 1));
    let month = |number: usize| format!("{}-{:02}", 2024 + number / 12, number % 12 + 1);
    for number in 0..24 {
        for release in 0..10 {
            let key = key::counter(id, &Counted::Release(format!("v{release}")), &month(number));
            table.put(counter(key, &format!("{}-01", month(number)), 1), Condition::None).await.unwrap();
        }
    }
    assert_eq!(read().await, before, "not an item more");
    // Counts are read by months when they are asked for.
    let v3 = Counted::Release("v3".into());
    let (counts, reads) = world.reads(world.catalog.counts(id, &v3, ("2024-03", "2024-08"))).await;
    assert_eq!((counts.unwrap()["predictions"], reads.items, reads.gets), (6, 6, 0));
    let page = world.catalog.page_with_counts(id).await.unwrap();
    assert_eq!(page.counts[&v3]["predictions"], 24);
}

async fn b1_counters_of_an_older_version_are_read_and_moved(world: World) {
    let scene = Scene::new(world).await;
    let (catalog, id, table) = (&scene.world.catalog, scene.id(), &scene.table);
    let v1 = Counted::Release("v1".into());
    for counted in [&Counted::Workspace, &v1] {
        for month in ["2026-05", "2026-06"] {
            let key = key::old_counter(id, counted, month);
            table.put(counter(key, &format!("{month}-09"), 5), Condition::Absent).await.unwrap();
        }
    }
    let counted = async || catalog.counts(id, &v1, ("", "")).await.unwrap()["predictions"];
    let old = async || {
        let [_, old] = key::counters(id);
        query_all(&**table, Query::table(old)).await.unwrap().len()
    };
    assert_eq!((counted().await, old().await), (10, 4));
    // What is written is moved: what was counted stays, and the greater count holds.
    scene.predict("2026-06-02", "v1", 0.5).await;
    scene.project().await;
    assert_eq!((counted().await, old().await), (11, 2));
    let late = counter(key::old_counter(id, &v1, "2026-06"), "2026-06-09", 7);
    table.put(late, Condition::Absent).await.unwrap();
    assert_eq!(counted().await, 13, "an older projector that still runs counts as well");
    // The rest when the workspace is swept.
    assert_eq!(move_old(&**table, id).await.unwrap(), 3);
    assert_eq!((counted().await, old().await), (13, 0));
    let all = catalog.page_with_counts(id).await.unwrap().counts;
    assert_eq!(all[&Counted::Workspace]["predictions"], 11);
}
