//! Entities: their ids, the keys of children, their counts on the parent, their names and their size.

use std::sync::Arc;

use catalog::{Catalog, ListOptions, New, NewEntity, Patch};
use event::{Definition, ErrorKind, Task, Timestamp};
use log::key::{EntityId, EntityKind};
use table::item::Value;
use tests::{
    between::{Between, Call, Happens},
    on_both_engines,
    register::release_of,
    world::{World, at, cost, release, snapshot},
};

on_both_engines!(
    World::on:
    every_entity_is_found_by_its_id,
    the_key_of_a_child_carries_its_parent,
    child_is_counted_by_parent_or_not_created,
    names_are_unique_and_found,
    first_release_and_model_rename_exclude_each_other,
    name_precedes_id_within_its_workspace,
    each_child_has_its_own_400_kb,
);

fn now() -> Timestamp {
    at("2026-06-10T00:00:00Z")
}

/// Access pattern A1.
async fn every_entity_is_found_by_its_id(world: World) {
    let catalog = &world.catalog;
    let at = world.workspace().await;
    let within = || at.id().clone();
    world.model(&at, "churn", now()).await;
    let category = catalog.get(&at).await.unwrap().parent().unwrap();
    let mut all = vec![(category, "credit"), (at.clone(), "credit/prod")];
    for (what, path) in [
        (
            New::Model { workspace: within(), definition: Definition::of(Task::Multiclass) },
            "credit/prod/next",
        ),
        (New::Configuration { workspace: within() }, "credit/prod/deep"),
        (snapshot(&at), "credit/prod/june"),
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

/// Access pattern A2.
async fn the_key_of_a_child_carries_its_parent(world: World) {
    let at = world.workspace().await;
    let child = world.model(&at, "churn", now()).await;
    let key = child.key();
    assert!(key.pk.contains(at.id().as_str()) && key.sk.contains(child.id().as_str()));
    assert_eq!(EntityId::of_key(&key), Some(child.clone()));
    // An equal name in another workspace is another child.
    let other = world.catalog.ensure_workspace("credit/test", now()).await.unwrap();
    let other = EntityId::Workspace(other.entity.id);
    let twin = world.model(&other, "churn", now()).await;
    assert_ne!(twin, child);
    let moved = EntityId::Model(other.id().clone(), child.id().clone());
    let (found, reads) = world.reads(world.catalog.find(&moved)).await;
    assert_eq!((found.unwrap(), cost(reads)), (None, (1, 0)));
}

/// Access pattern A3.
async fn child_is_counted_by_parent_or_not_created(world: World) {
    let catalog = &world.catalog;
    let at = world.workspace().await;
    for (n, name) in (1..).zip(["a", "b", "c"]) {
        world.model(&at, name, now()).await;
        let (known, reads) = world.reads(catalog.get(&at)).await;
        assert_eq!(known.unwrap().children()[&EntityKind::Model], n);
        assert_eq!(cost(reads), (1, 0));
    }
    let first = catalog.resolve(EntityKind::Model, "credit/prod/a").await.unwrap();
    catalog.delete(&first, None, now()).await.unwrap();
    assert_eq!(catalog.get(&at).await.unwrap().children()[&EntityKind::Model], 2);
    let category = catalog.get(&catalog.get(&at).await.unwrap().parent().unwrap()).await.unwrap();
    assert_eq!(category.children()[&EntityKind::Workspace], 1);
    // No child of a parent that does not exist.
    let nowhere = EntityId::Workspace(first.id().clone());
    let new = NewEntity::new(
        "x",
        New::Model { workspace: nowhere.id().clone(), definition: Definition::of(Task::Multiclass) },
    );
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

/// Access pattern A5.
async fn names_are_unique_and_found(world: World) {
    let catalog = &world.catalog;
    let at = world.workspace().await;
    let churn = world.model(&at, "churn", now()).await;
    let again = NewEntity::new(
        "churn",
        New::Model { workspace: at.id().clone(), definition: Definition::of(Task::Multiclass) },
    );
    assert!(catalog.create(again, now()).await.unwrap_err().is_conflict());
    // Names are unique among siblings of one type: a configuration may have the name of a model.
    catalog.ensure_configuration(at.id(), "churn", now()).await.unwrap();
    let (found, reads) = world.reads(catalog.resolve(EntityKind::Model, "credit/prod/churn")).await;
    assert_eq!((found.unwrap(), cost(reads)), (churn.clone(), (3, 0)), "a guard a name");
    let other = world.model(&at, "other", now()).await;
    let taken = catalog.change(&other, &Patch::rename("churn"), None, now()).await.unwrap_err();
    assert!(taken.is_conflict(), "{taken}");
    catalog.change(&churn, &Patch::rename("leaving"), None, now()).await.unwrap();
    assert_eq!(catalog.resolve(EntityKind::Model, "credit/prod/leaving").await.unwrap(), churn);
    let gone = catalog.resolve(EntityKind::Model, "credit/prod/churn").await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    catalog.change(&other, &Patch::rename("churn"), None, now()).await.unwrap();
}

/// A model may have any name, even the id of another one.
async fn name_precedes_id_within_its_workspace(world: World) {
    let catalog = &world.catalog;
    let at = world.workspace().await;
    let churn = world.model(&at, "churn", now()).await;
    let model = async |text: String| catalog.resolve(EntityKind::Model, &text).await;
    // A text that is no name is looked up as an id, within this workspace.
    for id in [churn.id().to_string(), churn.to_string()] {
        assert_eq!(model(format!("credit/prod/{id}")).await.unwrap(), churn);
    }
    let elsewhere = catalog.ensure_workspace("credit/test", now()).await.unwrap();
    let elsewhere = world.model(&EntityId::Workspace(elsewhere.entity.id), "churn", now()).await;
    let missing = model(format!("credit/prod/{elsewhere}")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    let wrong = catalog.resolve(EntityKind::Release, &format!("credit/prod/{churn}")).await.unwrap_err();
    assert!(wrong.to_string().contains("is the id of a model, not of a release"), "{wrong}");
    for id in [churn.id().to_string(), churn.to_string()] {
        let named = world.model(&at, &id, now()).await;
        assert_eq!(model(format!("credit/prod/{id}")).await.unwrap(), named);
        assert_eq!(model(id).await.unwrap(), churn);
    }
}

/// Access pattern A7.
async fn each_child_has_its_own_400_kb(world: World) {
    let at = world.workspace().await;
    let large = |bytes: usize| {
        let mut new = NewEntity::new(
            &format!("m{bytes}"),
            New::Model { workspace: at.id().clone(), definition: Definition::of(Task::Regression) },
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

/// A catalog in which something else happens before the first write of a model.
fn before_its_write(world: &World, model: &EntityId, happens: Happens) -> Catalog {
    let (model, mut happens) = (model.key(), Some(happens));
    let table = Between::new(world.table(), move |call| match call {
        Call::Write(keys) if keys.contains(&model) => happens.take(),
        _ => None,
    });
    Catalog::new(Arc::new(table))
}

/// A rename between the read of a model and the write of its first release, and the other way round: one of both is refused.
async fn first_release_and_model_rename_exclude_each_other(world: World) {
    let at = world.workspace().await;
    let releases = async || world.catalog.page(at.id()).await.unwrap().releases;
    let model = world.model(&at, "churn", now()).await;
    let (catalog, of) = (world.catalog.clone(), model.clone());
    let renamed =
        async move { drop(catalog.change(&of, &Patch::rename("leaving"), None, now()).await.unwrap()) };
    let late = before_its_write(&world, &model, Box::pin(renamed));
    let refused = late.ensure_release(at.id(), &release_of("churn", "v1"), now()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    assert_eq!(releases().await, []);

    let (catalog, workspace) = (world.catalog.clone(), at.id().clone());
    let created = async move {
        drop(catalog.ensure_release(&workspace, &release_of("leaving", "v1"), now()).await.unwrap());
    };
    let late = before_its_write(&world, &model, Box::pin(created));
    let refused = late.change(&model, &Patch::rename("churn"), None, now()).await.unwrap_err().to_string();
    assert!(refused.contains("keeps its name"), "{refused}");
    assert_eq!(releases().await[0].model, "leaving");
}
