//! D: tables, and lists by index with a key range.

use catalog::{ListOptions, NewEntity};
use log::key::EntityKind;
use table::{Condition, Index, Item, Key, Query, Table};

use crate::world::{World, at, cost, model, release, rows, workspace};

rows!(d3_releases_by_model_and_time);

/// Some items in two partitions, gone through page by page.
macro_rules! scanned {
    ($table:expr, $prefix:expr, $keys_only:expr) => {{
        let mut scan = table::Scan { prefix: $prefix.to_owned(), keys_only: $keys_only, after: None };
        let (mut items, mut pages) = (Vec::new(), 0);
        loop {
            let page = $table.scan(&scan).await.unwrap();
            items.extend(page.items);
            pages += 1;
            match page.next {
                Some(next) => {
                    let text = next.to_text();
                    scan.after = Some(table::Cursor::from_text(&text).unwrap());
                }
                None => break,
            }
        }
        items.sort_by(|one: &Item, other| (&one.key.pk, &one.key.sk).cmp(&(&other.key.pk, &other.key.sk)));
        (items, pages)
    }};
}

/// Items of which not all fit into a page, and one that has expired.
async fn fill(table: &dyn Table) -> Vec<Item> {
    let mut items = Vec::new();
    for (pk, count) in [("p#1", 4), ("p#2", 2), ("q", 1)] {
        for number in 0..count {
            items.push(Item::new(Key::new(pk, format!("s{number}"))).with("data", vec![7; 300_000]));
        }
    }
    let expired = Item::new(Key::new("p#1", "old")).with("expires_at", 1);
    for item in items.iter().chain([&expired]) {
        table.put(item.clone(), Condition::None).await.unwrap();
    }
    items
}

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
    use event::{Clock, ErrorKind};
    use table::{
        Item,
        sqlite::{self, SqliteTable},
    };

    #[tokio::test]
    async fn d1_create_describe_use_delete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let table = SqliteTable::open(&path, Clock::system()).unwrap();
        super::use_table(&table).await;
        let items = super::fill(&table).await;
        let (all, pages) = scanned!(table, "", false);
        assert!(all == items && pages > 1, "{} items in {pages} pages", all.len());
        assert_eq!(scanned!(table, "p#", false).0, items[..6]);
        let (keys, _) = scanned!(table, "p#2", true);
        assert!(keys.len() == 2 && keys.iter().all(|item| item.attributes.is_empty()), "{keys:?}");
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
    use event::{Clock, ErrorKind};
    use table::{
        Item,
        dynamodb::{self, DynamoTable},
    };
    use tests::local::fresh_table;

    #[tokio::test]
    async fn d1_create_describe_use_delete() {
        let config = fresh_table(Clock::system());
        dynamodb::create(&config).await.unwrap();
        let table = DynamoTable::connect(config.clone()).await.unwrap();
        super::use_table(&table).await;
        let items = super::fill(&table).await;
        let (all, pages) = scanned!(table, "", false);
        assert!(all == items && pages > 1, "{} items in {pages} pages", all.len());
        assert_eq!(scanned!(table, "p#", false).0, items[..6]);
        let (keys, _) = scanned!(table, "p#2", true);
        assert!(keys.len() == 2 && keys.iter().all(|item| item.attributes.is_empty()), "{keys:?}");
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
