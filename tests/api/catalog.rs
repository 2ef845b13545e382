//! The catalog under crashes and races: names stay unique, counts exact, and no
//! guard leads nowhere.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use catalog::{AnyEntity, Catalog, New, NewEntity, Patch, Role};
use dynamodb::DynamoTable;
use event::{Clock, Definition, ErrorKind, Task, Timestamp};
use log::key::{self, EntityId, EntityKind, Scope};
use proptest::prelude::*;
use table::{Index, Query, Table, item::Value, query_all, sqlite::SqliteTable};
use tests::{crashing::Crashing, local::fresh_table, register::release_of};

fn now() -> Timestamp {
    Timestamp::parse("2026-06-10T00:00:00Z").unwrap()
}

fn sqlite() -> (Arc<dyn Table>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Arc::new(SqliteTable::open(&folder.path().join("t.db"), Clock::from_fn(now)).unwrap()), folder)
}

async fn dynamodb() -> Arc<dyn Table> {
    let config = fresh_table(Clock::system());
    dynamodb::create(&config).await.unwrap();
    Arc::new(DynamoTable::connect(config).await.unwrap())
}

async fn workspace(catalog: &Catalog) -> EntityId {
    EntityId::Workspace(catalog.ensure_workspace("credit/prod", now()).await.unwrap().entity.id)
}

fn model(workspace: &EntityId, name: &str) -> NewEntity {
    NewEntity::new(
        name,
        New::Model { workspace: workspace.id().clone(), definition: Definition::of(Task::Regression) },
    )
}

/// Names, guards, counts and pointers of the models of a workspace agree; returns the names.
async fn assert_whole(table: &Arc<dyn Table>, workspace: &EntityId) -> Vec<String> {
    let all = query_all(&**table, Query::index(Index::Table, workspace.key().pk)).await.unwrap();
    let mut by_id = BTreeMap::new();
    for item in &all {
        if EntityId::of_key(&item.key).is_some_and(|at| at.kind() == EntityKind::Model) {
            by_id.insert(item.text("id").unwrap().to_owned(), item.text("name").unwrap().to_owned());
        }
    }
    let guards = Query::table(key::names_of(Some(workspace), EntityKind::Model));
    let guards = query_all(&**table, guards).await.unwrap();
    let guarded: BTreeMap<String, String> =
        guards.iter().map(|guard| (guard.text("id").unwrap().to_owned(), guard.key.sk.clone())).collect();
    assert_eq!(guarded.len(), guards.len(), "an entity has two names");
    assert_eq!(guarded, by_id, "every name leads to the one that has it, and nowhere else");
    let own = all.iter().find(|item| item.key == workspace.key()).unwrap();
    assert_eq!(own.int("count_of_models").unwrap(), by_id.len() as i64, "the count is the number");
    for id in by_id.keys() {
        let pointer = table.get(&key::pointer(&event::Id::parse(id).unwrap())).await.unwrap();
        assert_eq!(pointer.unwrap().text("workspace").unwrap(), workspace.id().as_str());
    }
    by_id.into_values().collect()
}

async fn thousand_of_one_name(table: Arc<dyn Table>, callers: usize) {
    let catalog = Catalog::new(Arc::clone(&table));
    let workspace = workspace(&catalog).await;
    let calls: Vec<_> = (0..callers)
        .map(|_| {
            let (catalog, new) = (catalog.clone(), model(&workspace, "churn"));
            tokio::spawn(async move { catalog.create(new, now()).await })
        })
        .collect();
    let (mut created, mut conflicts) = (0, 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => created += 1,
            Err(error) => {
                assert_eq!(error.to_string(), "there is a model called `churn` already");
                assert!(error.is_conflict());
                conflicts += 1;
            }
        }
    }
    assert_eq!((created, conflicts), (1, callers - 1));
    assert_eq!(assert_whole(&table, &workspace).await, ["churn"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_creations_of_one_name_yield_one() {
    let (table, _folder) = sqlite();
    thousand_of_one_name(table, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamodb_local_creates_contested_name_once() {
    thousand_of_one_name(dynamodb().await, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creations_and_counter_changes_all_count() {
    let (table, _folder) = sqlite();
    let callers = 300;
    let catalog = Catalog::new(Arc::clone(&table));
    let workspace = workspace(&catalog).await;
    let before = assert_whole(&table, &workspace).await.len();
    let calls: Vec<_> = (0..callers)
        .map(|n| {
            let (catalog, workspace) = (catalog.clone(), workspace.clone());
            let name = format!("m{n}");
            tokio::spawn(async move {
                catalog.create(model(&workspace, &name), now()).await.unwrap();
                if n % 10 == 0 {
                    // Twice, as by a client that had no answer.
                    for _ in 0..2 {
                        catalog.count(&workspace, "seen", 1, Some(&name)).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(assert_whole(&table, &workspace).await.len(), before + callers);
    assert_eq!(catalog.counter(&workspace, "seen").await.unwrap(), 30);
}

#[tokio::test]
async fn crashed_catalog_change_is_all_or_nothing() {
    for steps in 0..3 {
        let (table, _folder) = sqlite();
        let catalog = Catalog::new(Arc::clone(&table));
        let workspace = workspace(&catalog).await;
        let dying = |steps| Catalog::new(Arc::new(Crashing::new(Arc::clone(&table), steps)));
        let is_made = |name: &'static str| {
            let (catalog, path) = (catalog.clone(), format!("credit/prod/{name}"));
            async move { catalog.resolve(EntityKind::Model, &path).await.is_ok() }
        };

        // A creation: after it, the name is taken or it is free.
        let made = dying(steps).create(model(&workspace, "a"), now()).await;
        assert_eq!(made.is_ok(), steps >= 1, "{steps}");
        let was_there = is_made("a").await;
        assert!(was_there || made.is_err());
        match catalog.create(model(&workspace, "a"), now()).await {
            Ok(_) => assert!(!was_there, "{steps}"),
            Err(error) => assert!(was_there && error.is_conflict(), "{steps}: {error}"),
        }
        assert_eq!(assert_whole(&table, &workspace).await, ["a"]);

        // A rename: it has one of the two names, and the other one is free.
        let at = catalog.resolve(EntityKind::Model, "credit/prod/a").await.unwrap();
        _ = dying(steps).change(&at, &Patch::rename("b"), None, now()).await;
        let name = catalog.get(&at).await.unwrap().entity().name.clone();
        let other = if name == "a" { "b" } else { "a" };
        assert!(!is_made(if name == "a" { "b" } else { "a" }).await, "{steps}");
        catalog.create(model(&workspace, other), now()).await.unwrap();
        let mut names = assert_whole(&table, &workspace).await;
        names.sort();
        assert_eq!(names, ["a", "b"], "{steps}");

        // A deletion: it is there, or gone with all that was its own.
        _ = dying(steps).delete(&at, None, now()).await;
        let is_there = catalog.find(&at).await.unwrap().is_some();
        assert_eq!(assert_whole(&table, &workspace).await.len(), 1 + usize::from(is_there), "{steps}");
    }
}

/// One thing that somebody does, and after how many writes they die.
#[derive(Clone, Debug)]
enum Op {
    Create(u8),
    Rename(u8, u8),
    Delete(u8),
}

fn ops() -> impl Strategy<Value = Vec<(Op, Option<u32>)>> {
    let op = prop_oneof![
        (0..5u8).prop_map(Op::Create),
        (0..5u8, 0..5u8).prop_map(|(from, to)| Op::Rename(from, to)),
        (0..5u8).prop_map(Op::Delete),
    ];
    proptest::collection::vec((op, proptest::option::weighted(0.4, 0..7u32)), 1..24)
}

async fn run(ops: Vec<(Op, Option<u32>)>) {
    let (table, _folder) = sqlite();
    let catalog = Catalog::new(Arc::clone(&table));
    let workspace = workspace(&catalog).await;
    let named = async |name: u8| catalog.resolve(EntityKind::Model, &format!("credit/prod/m{name}")).await;
    for (op, dies) in &ops {
        let actor = match dies {
            Some(writes) => Catalog::new(Arc::new(Crashing::new(Arc::clone(&table), *writes))),
            None => catalog.clone(),
        };
        let outcome = match op {
            Op::Create(name) => {
                let is_free = named(*name).await.is_err();
                let made = actor.create(model(&workspace, &format!("m{name}")), now()).await;
                assert!(dies.is_some() || made.is_ok() == is_free, "{made:?}");
                made.map(drop)
            }
            Op::Rename(from, to) => match named(*from).await {
                Ok(at) => {
                    let is_free = named(*to).await.is_err() || from == to;
                    let patch = Patch::rename(&format!("m{to}"));
                    let made = actor.change(&at, &patch, None, now()).await;
                    assert!(dies.is_some() || made.is_ok() == is_free, "{made:?}");
                    made.map(drop)
                }
                Err(_) => continue,
            },
            Op::Delete(name) => match named(*name).await {
                Ok(at) => {
                    let made = actor.delete(&at, None, now()).await;
                    assert!(dies.is_some() || made.is_ok(), "{made:?}");
                    made
                }
                Err(_) => continue,
            },
        };
        if let Err(error) = outcome {
            assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable), "{error}");
        }
    }
    for name in assert_whole(&table, &workspace).await {
        let at = catalog.resolve(EntityKind::Model, &format!("credit/prod/{name}")).await.unwrap();
        assert_eq!(catalog.get(&at).await.unwrap().entity().name, name);
        catalog.delete(&at, None, now()).await.unwrap();
    }
    assert!(assert_whole(&table, &workspace).await.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn catalog_invariants_hold_under_interleaved_crashes(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(ops));
    }
}

#[tokio::test]
async fn change_of_a_stale_version_is_refused() {
    let (table, _folder) = sqlite();
    let catalog = Catalog::new(table);
    let at = workspace(&catalog).await;
    let version = catalog.get(&at).await.unwrap().entity().version;
    let mut patch = Patch::default();
    patch.attributes.insert("owner".into(), Some(format!("ann{version}").into()));
    let changed = catalog.change(&at, &patch, Some(version), now()).await.unwrap();
    assert_eq!(changed.entity().version, version + 1);
    assert_eq!(catalog.get(&at).await.unwrap(), changed);
    let error = catalog.change(&at, &Patch::archive(true), Some(version), now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert_eq!(catalog.delete(&at, Some(version), now()).await.unwrap_err().kind(), ErrorKind::Stale);
    // A change that changes nothing is none.
    assert_eq!(catalog.change(&at, &patch, None, now()).await.unwrap(), changed);
    // A child counts in its parent, but is no change of it.
    catalog.ensure_model(at.id(), &format!("m{version}"), &Task::Multiclass, now()).await.unwrap();
    assert_eq!(catalog.get(&at).await.unwrap().entity().version, version + 1);
}

#[tokio::test]
async fn used_entity_is_deleted_only_when_archived() {
    let (table, _folder) = sqlite();
    let catalog = Catalog::new(Arc::clone(&table)).waiting(Duration::ZERO);
    let at = workspace(&catalog).await;
    let category = catalog.get(&at).await.unwrap().parent().unwrap();
    let made = catalog.create(model(&at, "churn"), now()).await.unwrap();
    let details = catalog::ReleaseDetails { author: Some("ann".into()), ..Default::default() };
    let user = catalog.create(NewEntity::new("ann", New::User), now()).await.unwrap().at();
    let group = catalog.create(NewEntity::new("risk", New::Group), now()).await.unwrap().at();
    let release = New::Release {
        workspace: at.id().clone(),
        model: "churn".into(),
        configuration: Some("deep".into()),
        environment: None,
        details: Box::new(details),
    };
    let release = catalog.create(NewEntity::new("v1", release), now()).await.unwrap();
    catalog.add_member(&group, &user, now()).await.unwrap();
    let scope = Scope::of(&at).unwrap();
    catalog.grant(&scope, &user, Role::Admin, now()).await.unwrap();
    catalog.grant(&scope, &group, Role::Reader, now()).await.unwrap();
    catalog.count(&made.at(), "views", 3, None).await.unwrap();
    for (used, why) in [
        (&category, "has 1 workspace;"),
        (&at, "has 1 model;"),
        (&made.at(), "has 1 releases;"),
        (&group, "has members;"),
    ] {
        let error = catalog.delete(used, None, now()).await.unwrap_err();
        assert!(error.is_conflict() && error.to_string().contains(why), "{error}");
    }
    let error = catalog.change(&release.at(), &Patch::rename("v2"), None, now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);

    // An archived parent takes no more children.
    catalog.change(&at, &Patch::archive(true), None, now()).await.unwrap();
    let error = catalog.create(model(&at, "late"), now()).await.unwrap_err();
    assert_eq!(error.to_string(), "`late` cannot be created: the workspace `prod` is archived");
    catalog.change(&at, &Patch::archive(false), None, now()).await.unwrap();

    let page = catalog.user_page(user.id(), now()).await.unwrap();
    assert_eq!((page.groups.len(), page.grants.len(), page.activity.len()), (1, 1, 3));
    catalog.delete(&user, None, now()).await.unwrap();
    assert!(catalog.memberships(&group).await.unwrap().is_empty());
    assert_eq!(catalog.grants(&scope).await.unwrap().len(), 1);
    catalog.delete(&group, None, now()).await.unwrap();
    catalog.change(&category, &Patch::archive(true), None, now()).await.unwrap();
    catalog.delete(&category, None, now()).await.unwrap();
    for gone in [&category, &at, &made.at(), &release.at()] {
        assert_eq!(catalog.find(gone).await.unwrap(), None);
        assert_eq!(table.get(&key::pointer(gone.id())).await.unwrap(), None);
    }
    let left = query_all(&*table, Query::index(Index::Table, at.key().pk)).await.unwrap();
    assert_eq!(left, []);
    let names = key::names_of(Some(&at), EntityKind::Model);
    assert_eq!(query_all(&*table, Query::table(names)).await.unwrap(), []);
}

#[tokio::test]
async fn renamed_category_keeps_its_workspaces() {
    let (table, _folder) = sqlite();
    let catalog = Catalog::new(table).waiting(Duration::ZERO);
    let at = workspace(&catalog).await;
    catalog.create(model(&at, "churn"), now()).await.unwrap();
    let category = catalog.get(&at).await.unwrap().parent().unwrap();
    catalog.change(&category, &Patch::rename("lending"), None, now()).await.unwrap();
    let found = catalog.workspace("lending/prod").await.unwrap();
    assert_eq!((found.path.as_str(), found.id()), ("lending/prod", at.id()));
    assert!(catalog.workspace("credit/prod").await.is_err());
    catalog.resolve(EntityKind::Model, "lending/prod/churn").await.unwrap();
    catalog.change(&at, &Patch::rename("current"), None, now()).await.unwrap();
    assert_eq!(catalog.workspace("lending/current").await.unwrap().path, "lending/current");
    // A model is renamed until it has a release, which events name with it.
    let churn = catalog.resolve(EntityKind::Model, "lending/current/churn").await.unwrap();
    catalog.change(&churn, &Patch::rename("leaving"), None, now()).await.unwrap();
    let spec = release_of("leaving", "v1");
    catalog.ensure_release(at.id(), &spec, now()).await.unwrap();
    let kept = catalog.change(&churn, &Patch::rename("churn"), None, now()).await.unwrap_err().to_string();
    assert!(kept.contains("the model `leaving` keeps its name: events name it with its 1 release"), "{kept}");
    let page = catalog.page(at.id()).await.unwrap();
    assert_eq!(page.releases[0].model, "leaving");
    let definitions = catalog.definitions(at.id()).await.unwrap();
    assert_eq!(definitions.of(now().day())["v1"].task, Task::Regression);
    let release = catalog.resolve(EntityKind::Release, "lending/current/leaving@v1").await.unwrap();
    let AnyEntity::Release(shown) = catalog.show(&release).await.unwrap() else { panic!() };
    assert_eq!(shown.model, "leaving");
    let AnyEntity::Category(category) = catalog.get(&category).await.unwrap() else { panic!() };
    let at = EntityId::Category(category.entity.id.clone());
    catalog.change(&at, &Patch::archive(true), None, now()).await.unwrap();
    catalog.delete(&at, None, now()).await.unwrap();
}

#[tokio::test]
async fn counter_key_allows_only_an_identical_change() {
    let (table, _folder) = sqlite();
    let catalog = Catalog::new(table);
    let at = workspace(&catalog).await;
    assert_eq!(catalog.count(&at, "example", 1, None).await.unwrap(), 1);
    assert_eq!(catalog.count(&at, "example", 5, Some("k")).await.unwrap(), 6);
    assert_eq!(catalog.count(&at, "example", -2, None).await.unwrap(), 4);
    assert_eq!(catalog.count(&at, "example", 5, Some("k")).await.unwrap(), 6, "the first answer");
    assert_eq!(catalog.counter(&at, "example").await.unwrap(), 4);
    assert!(catalog.count(&at, "example", 6, Some("k")).await.unwrap_err().is_conflict());
    assert_eq!(catalog.count(&at, "most", i64::MAX, None).await.unwrap(), i64::MAX);
    assert_eq!(catalog.count(&at, "most", 1, None).await.unwrap_err().kind(), ErrorKind::Invalid);
    let page = catalog.page(at.id()).await.unwrap();
    assert_eq!(page.counters[&(EntityKind::Workspace, at.id().clone())]["example"], 4);
    let nobody = EntityId::User(at.id().clone());
    assert_eq!(catalog.count(&nobody, "example", 1, None).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn attributes_keep_their_types_and_have_a_limit() {
    let (table, _folder) = sqlite();
    let catalog = Catalog::new(table);
    let at = workspace(&catalog).await;
    let mut new = model(&at, "churn");
    new.attributes.insert("tags".into(), Value::Ss(["a".to_owned(), "b".to_owned()].into()));
    let made = catalog.create(new.clone(), now()).await.unwrap();
    assert_eq!(catalog.get(&made.at()).await.unwrap().entity().attributes, new.attributes);
    new.name = "large".into();
    new.attributes.insert("text".into(), "x".repeat(350 * 1024).into());
    let error = catalog.create(new, now()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the attributes have 358415 bytes, more than the 358400 that an entity may have"
    );
}
