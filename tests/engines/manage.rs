//! Tables that are made, described, read item by item, and deleted.

use dynamodb::DynamoTable;
use event::{Clock, ErrorKind};
use table::{
    Condition, Cursor, Index, Item, Key, Query, Scan, Table,
    sqlite::{self, SqliteTable},
};
use tests::local::fresh_table;

/// All items of the partitions that begin with a prefix, gone through page by page, and the number of pages.
macro_rules! scanned {
    ($table:expr, $prefix:expr, $keys_only:expr) => {{
        let mut scan = Scan { prefix: $prefix.to_owned(), keys_only: $keys_only, after: None };
        let (mut items, mut pages) = (Vec::new(), 0);
        loop {
            let page = $table.scan(&scan).await.unwrap();
            items.extend(page.items);
            pages += 1;
            match page.next {
                Some(next) => scan.after = Some(Cursor::from_text(&next.to_text()).unwrap()),
                None => break,
            }
        }
        items.sort_by(|one: &Item, other| (&one.key.pk, &one.key.sk).cmp(&(&other.key.pk, &other.key.sk)));
        (items, pages)
    }};
}

/// Puts items into a new table and reads all of them, and some. (Scans belong to engines, not to the trait, so this is
/// a macro.)
macro_rules! use_and_scan {
    ($table:expr) => {{
        use_table(&$table).await;
        let items = fill(&$table).await;
        let (all, pages) = scanned!($table, "", false);
        assert!(all == items && pages > 1, "{} items in {pages} pages", all.len());
        assert_eq!(scanned!($table, "p#", false).0, items[..6]);
        let (keys, _) = scanned!($table, "p#2", true);
        assert!(keys.len() == 2 && keys.iter().all(|item| item.attributes.is_empty()), "{keys:?}");
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

/// Access pattern D1.
#[tokio::test]
async fn a_file_is_made_described_used_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let table = SqliteTable::open(&path, Clock::system()).unwrap();
    use_and_scan!(table);
    drop(table);
    assert!(
        sqlite::describe(&path).unwrap().indexes.len() >= 2,
        "those of the file itself are there as well"
    );
    sqlite::delete(&path).unwrap();
    let gone = SqliteTable::open_existing(&path, Clock::system()).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

mod dynamodb_local {
    use super::*;

    /// Access pattern D1.
    #[tokio::test]
    async fn a_table_is_made_described_used_and_deleted() {
        let config = fresh_table(Clock::system());
        dynamodb::create(&config).await.unwrap();
        let table = DynamoTable::connect(config.clone()).await.unwrap();
        use_and_scan!(table);
        assert_eq!(dynamodb::describe(&config).await.unwrap().indexes.len(), 2);
        dynamodb::delete(&config).await.unwrap();
        let read = table.get(&Key::new("p", "s")).await.unwrap_err();
        assert_eq!(read.kind(), ErrorKind::Unavailable, "{read}");
        let gone = DynamoTable::connect(config).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}
