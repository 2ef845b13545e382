//! D: tables, and lists by index with a key range.

use store::{
    Item, Table,
    catalog::{ListOptions, NewEntity},
    key::{EntityKind, Key},
    table::{Condition, Index, Query},
};

use crate::world::{World, at, cost, model, release, rows, workspace};

rows!(d3_releases_by_model_and_time);

/// Puts, queries and deletes, on a table that was just made.
async fn use_table(table: &dyn Table) {
    let item = Item::new(Key::new("p", "s")).with("n", 1);
    table.put(item.clone(), Condition::Absent).await.unwrap();
    let page = table.query(&Query::index(Index::Table, "p")).await.unwrap();
    assert_eq!(page.items, std::slice::from_ref(&item));
    table.delete(&item.key, Condition::Exists).await.unwrap();
    assert_eq!(table.get(&item.key).await.unwrap(), None);
}

mod sqlite_table {
    use store::{
        Clock, ErrorKind,
        table::sqlite::{self, SqliteTable},
    };

    #[tokio::test]
    async fn d1_create_describe_use_delete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let table = SqliteTable::open(&path, Clock::system()).unwrap();
        super::use_table(&table).await;
        drop(table);
        assert!(
            sqlite::describe(&path).unwrap().indexes.len() >= 2,
            "those of the file itself are there as well"
        );
        sqlite::delete(&path).unwrap();
        let gone = SqliteTable::open_existing(&path, Clock::system()).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}

mod dynamodb_local_table {
    use store::{
        Clock, ErrorKind,
        table::dynamodb::{self, DynamoTable},
    };
    use tests::local::fresh_table;

    #[tokio::test]
    async fn d1_create_describe_use_delete() {
        let config = fresh_table(Clock::system());
        dynamodb::create(&config).await.unwrap();
        super::use_table(&DynamoTable::connect(config.clone()).await.unwrap()).await;
        assert_eq!(dynamodb::describe(&config).await.unwrap().indexes.len(), 2);
        dynamodb::delete(&config).await.unwrap();
        let gone = DynamoTable::connect(config).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}

async fn d3_releases_by_model_and_time(world: World) {
    let workspace = workspace(&world).await;
    let churn = model(&world, &workspace, "churn", at("2026-01-01T00:00:00Z")).await;
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
