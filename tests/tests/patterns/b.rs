//! B: item collections and an overloaded index.

use store::{
    Clock,
    catalog::{AnyEntity, ListOptions, New, NewEntity, Role},
    key::EntityKind,
};

use crate::world::{World, at, cost, model, release, rows, workspace};

rows!(b1_workspace_page, b1_user_page, b4_the_releases_of_a_model_newest_first);

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
