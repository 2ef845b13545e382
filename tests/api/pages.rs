//! Pages of a workspace and of a user: all of their data by one query.

use catalog::{AnyEntity, New, NewEntity, Role};
use event::Clock;
use log::key::{EntityKind, Scope};
use tests::{
    on_both_engines,
    world::{World, at, cost, release},
};

on_both_engines!(
    World::on:
    the_page_of_a_workspace_is_one_query,
    the_page_of_a_user_is_one_query,
);

/// Access pattern B1.
async fn the_page_of_a_workspace_is_one_query(world: World) {
    let now = at("2026-06-10T00:00:00Z");
    let catalog = &world.catalog;
    let workspace = world.workspace().await;
    let churn = world.model(&workspace, "churn", now).await;
    let v1 = catalog.create(NewEntity::new("v1", release(&workspace, "churn")), now).await.unwrap();
    let ann = catalog.create(NewEntity::new("ann", New::User), now).await.unwrap().at();
    catalog.grant(&Scope::of(&workspace).unwrap(), &ann, Role::Admin, now).await.unwrap();
    catalog.count(&churn, "reviews", 3, None).await.unwrap();
    let (page, reads) = world.reads(catalog.page(workspace.id())).await;
    assert_eq!(cost(reads), (0, 1), "one query");
    let page = page.unwrap();
    assert_eq!(AnyEntity::Workspace(page.workspace.clone()).children()[&EntityKind::Release], 1);
    assert_eq!(page.models[0].entity.name, "churn");
    assert_eq!(page.configurations[0].entity.name, "deep");
    assert_eq!(AnyEntity::Release(page.releases[0].clone()), v1);
    assert_eq!((page.grants[0].role, &page.grants[0].principal), (Role::Admin, &ann));
    assert_eq!(page.counters[&(EntityKind::Model, churn.id().clone())]["reviews"], 3);
}

/// Access pattern B1.
async fn the_page_of_a_user_is_one_query(world: World) {
    // Happenings expire, so the time must be that of the engine.
    let now = Clock::system().now();
    let catalog = &world.catalog;
    let workspace = world.workspace().await;
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
    catalog.grant(&Scope::of(&workspace).unwrap(), &ann, Role::Writer, now).await.unwrap();
    catalog.count(&ann, "logins", 2, None).await.unwrap();

    let (page, reads) = world.reads(catalog.user_page(ann.id(), now)).await;
    assert_eq!(cost(reads), (0, 1), "one query");
    let page = page.unwrap();
    assert_eq!((page.user.name.as_str(), page.groups.len(), page.grants.len()), ("ann", 2, 1));
    assert_eq!((page.grants[0].role, page.counters["logins"]), (Role::Writer, 2));
    let said: Vec<&str> = page.activity.iter().map(|one| one.what.as_str()).collect();
    assert!(
        said.contains(&"joined the group risk") && said.contains(&"became writer of credit/prod"),
        "{said:?}"
    );
    assert_eq!(catalog.user_page(eve.id(), now).await.unwrap().groups.len(), 1);
}
