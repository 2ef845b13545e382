use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event::{Clock, Day, ErrorKind, Id, Kind, Timestamp};
use proptest::prelude::*;
use table::{Condition, Position, Table, Write, sqlite::SqliteTable};

use super::*;
use crate::segment_item::Segment;

fn workspace() -> Id {
    Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()
}

fn day(number: u8) -> Day {
    format!("2026-06-{number:02}").parse().unwrap()
}

fn log((day_of, kind, lane): Place) -> LogId {
    LogId { workspace: workspace(), day: day(day_of), kind: Kind::ALL[kind], lane }
}

fn open(folder: &tempfile::TempDir, name: &str) -> Arc<SqliteTable> {
    Arc::new(SqliteTable::open(&folder.path().join(name), Clock::system()).unwrap())
}

async fn pages(table: &dyn Table, mut query: Query) -> Vec<Item> {
    let mut items = Vec::new();
    loop {
        let page = table.query(&query).await.unwrap();
        assert!(query.limit.is_none_or(|limit| page.items.len() <= limit));
        items.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(Cursor::from_text(&next.to_text()).unwrap()),
            None => return items,
        }
    }
}

#[tokio::test]
async fn items_stand_where_they_should_and_are_shown_in_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let below = open(&folder, "t");
    let table = Store::over(Arc::clone(&below) as Arc<dyn Table>);
    let places = [(2, 0, 5, "/05"), (3, 0, 0, ""), (3, 0, 2, "/02"), (4, 1, 3, "/03")];
    for (at, (day, kind, lane, part)) in places.into_iter().enumerate() {
        let key = key::segment(&log((day, kind, lane)), 7);
        let stored = Key::new(format!("{}{part}", key.pk), key.sk.clone());
        let item = |number: i64| Item::new(key.clone()).with("n", number);
        match at % 3 {
            0 => table.put(item(1), Condition::Absent).await.unwrap(),
            1 => table.put_new(vec![item(1)], Duration::from_secs(9)).await.1.unwrap(),
            _ => table.transact(vec![Write::Put(item(1), Condition::Absent)]).await.unwrap(),
        }
        assert!(below.get(&stored).await.unwrap().is_some(), "{stored}");
        assert_eq!(table.get(&key).await.unwrap(), Some(item(1)));
        table.transact(vec![Write::Add(key.clone(), "n".into(), 4)]).await.unwrap();
        table.transact(vec![Write::Check(key.clone(), Condition::Equals("n", 5.into()))]).await.unwrap();
        assert_eq!(table.get(&key).await.unwrap(), Some(item(5)));
        let shard = table.shards().await.unwrap().remove(0);
        let changes = table.changes(&shard.id, &Position::Oldest, Duration::ZERO).await.unwrap();
        assert_eq!(changes.keys.last(), Some(&key));
        table.delete(&key, Condition::Exists).await.unwrap();
        assert_eq!(below.get(&stored).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_cursor_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = Store::over(open(&folder, "t"));
    let of = |parts: &[&str]| Cursor::of(parts.iter().map(|part| (*part).to_owned()).collect());
    for after in [of(&["x"]), of(&["lanes"]), of(&["lanes", "evil"]), of(&["lanes", "day#2026-06-03", "x"])] {
        let query = Query { after: Some(after), ..Query::table(key::segments(&workspace())) };
        assert_eq!(table.query(&query).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// Segments of all lanes are found if the first segment of lane 0 is lost.
#[tokio::test]
async fn a_lost_first_segment_hides_no_lane() {
    let folder = tempfile::tempdir().unwrap();
    let table = Store::over(open(&folder, "t"));
    let item = |lane, seq| Item::new(key::segment(&log((1, 0, lane)), seq)).with("v", 2);
    let items = [item(0, 2), item(3, 1), item(15, 1)];
    for item in &items {
        table.put(item.clone(), Condition::Absent).await.unwrap();
    }
    let query = Query::table(key::segments(&workspace()));
    assert_eq!(pages(&*table, query.clone()).await, items);
    let backward: Vec<Item> = items.into_iter().rev().collect();
    assert_eq!(pages(&*table, query.backward()).await, backward);
}

type Place = (u8, usize, u8);

/// The segments of lanes up to their heads; lane 0 of a day and kind with several says how many there are.
fn segments(logs: &BTreeMap<Place, u64>) -> Vec<Item> {
    let mut items = BTreeMap::new();
    for ((day, kind, lane), last) in logs {
        let lanes = lanes_of_kind(Kind::ALL[*kind], 2 + day % 6);
        let opening = Segment::opening(log((*day, *kind, 0)), lanes, Timestamp::default()).unwrap().to_item();
        items.insert(opening.key.clone(), if lanes > 1 { opening } else { without_lanes(opening) });
        for seq in 1..=*last {
            let item = Item::new(key::segment(&log((*day, *kind, *lane % lanes)), seq)).with("v", 2);
            items.entry(item.key.clone()).or_insert(item.with("n", seq as i64));
        }
    }
    items.into_values().collect()
}

fn without_lanes(mut item: Item) -> Item {
    item.attributes.remove(LANES);
    item
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Wherever lanes stand, every query answers as if all stood in one partition.
    #[test]
    fn lane_partitioned_reads_answer_like_one_partition(
        logs in prop::collection::btree_map((1u8..8, 0usize..3, 0u8..7), 1u64..5, 0..40),
        asked in prop::collection::vec(
            ((1u8..8, 0usize..3, 0u8..7), (1u8..8, 0usize..3, 0u8..7), any::<bool>(), 0usize..8, 0usize..8), 60,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let (below, plain) = (open(&folder, "below"), open(&folder, "plain"));
            let store = || Store::over(Arc::clone(&below) as Arc<dyn Table>);
            let mut table = store();
            for item in segments(&logs) {
                table.put(item.clone(), Condition::Absent).await.unwrap();
                plain.put(item, Condition::Absent).await.unwrap();
            }
            for (at, (one, other, is_backward, limit, what)) in asked.into_iter().enumerate() {
                if at % 3 == 0 {
                    table = store();
                }
                let query = Query::table(range(what, one, other));
                let query = if is_backward { query.backward() } else { query };
                let query = Query { limit: (limit > 0).then_some(limit), ..query };
                assert_eq!(pages(&*table, query.clone()).await, pages(&*plain, query.clone()).await, "{query:?}");
                let keys = query.only(&["v"]);
                assert_eq!(pages(&*table, keys.clone()).await, pages(&*plain, keys.clone()).await, "{keys:?}");
            }
        });
    }
}

fn range(what: usize, one: Place, other: Place) -> KeyRange {
    let (first, last) = (one.min(other), one.max(other));
    match what {
        0 => key::segments(&workspace()),
        1 => key::segments_since(&workspace(), day(one.0)),
        2 => key::segments_of_kind(&workspace(), day(one.0), Kind::ALL[one.1]),
        3 => key::segments_after(&log(one)),
        4 => KeyRange { to: key::segment(&log(last), 2).sk, ..key::segments_from(&log(first), 2) },
        5 => key::segments_from(&log(one), 2),
        6 => key::segments_of_days(&workspace(), day(first.0), day(last.0)),
        _ => key::segments_before(&workspace(), day(one.0)),
    }
}
