use std::sync::Arc;

use event::{Clock, Column, Columns, Day, Id, Kind, Timestamp, Values};
use proptest::prelude::*;
use table::{Condition, Table, query_all, sqlite::SqliteTable};

use super::*;
use crate::{
    batch::{BatchId, BatchPart},
    merged::merge,
    scan,
    segment_item::{SUMMARY, Segment},
};

fn log(lane: u8) -> LogId {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let day: Day = "2026-06-01".parse().unwrap();
    LogId { workspace, day, kind: Kind::Predictions, lane }
}

fn segment(lane: u8, seq: u64) -> Segment {
    let columns = Columns {
        rows: 1,
        columns: vec![
            Column::new("predicted_at", Values::Time(vec![seq as i64])),
            Column::new("release", Values::Text(["v1"].into_iter().collect())),
        ],
    };
    let parts = vec![BatchPart { batch: BatchId([seq as u8; 16]), first: 0, rows: 1 }];
    let at = Timestamp::default().plus_seconds(seq as i64);
    let segment = Segment::pack(log(lane), seq, at, parts, &columns).unwrap();
    Segment { lanes: (lane == 0 && seq == 1).then_some(4), ..segment }
}

struct Tables {
    /// Table with merged items.
    merged: Arc<dyn Table>,
    /// View of it without them.
    apart: Arc<dyn Table>,
    /// Table that never had any.
    plain: SqliteTable,
    _folder: tempfile::TempDir,
}

/// Tables of lanes with some segments, of which some are merged and still have own items up to some number.
async fn tables(lanes: &[Lane]) -> Tables {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| SqliteTable::open(&folder.path().join(name), Clock::system()).unwrap();
    let (merged, plain): (Arc<dyn Table>, _) = (Arc::new(open("merged")), open("plain"));
    let apart: Arc<dyn Table> = Store::over(Arc::clone(&merged));
    for (lane, head, merges) in lanes {
        for seq in 1..=*head {
            let item = segment(*lane, seq).to_item();
            apart.put(item.clone(), Condition::Absent).await.unwrap();
            plain.put(item, Condition::Absent).await.unwrap();
        }
        for (from, to, left) in merges {
            let segments: Vec<Segment> = (*from..=*to).map(|seq| segment(*lane, seq)).collect();
            apart.put(merge(&segments).unwrap(), Condition::Exists).await.unwrap();
            for seq in (*from..*to).filter(|seq| seq > left) {
                apart.delete(&key::segment(&log(*lane), seq), Condition::None).await.unwrap();
            }
        }
    }
    Tables { apart, merged, plain, _folder: folder }
}

async fn pages(table: &dyn Table, mut query: Query, limit: Option<usize>) -> Vec<Item> {
    query.limit = limit;
    let mut items = Vec::new();
    loop {
        let page = table.query(&query).await.unwrap();
        assert!(limit.is_none_or(|limit| page.items.len() <= limit));
        items.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(Cursor::from_text(&next.to_text()).unwrap()),
            None => return items,
        }
    }
}

#[tokio::test]
async fn one_segment_is_found_wherever_it_stands() {
    let tables = tables(&[(0, 9, vec![(2, 6, 3)])]).await;
    for seq in 0..=10 {
        let key = key::segment(&log(0), seq);
        assert_eq!(tables.apart.get(&key).await.unwrap(), tables.plain.get(&key).await.unwrap(), "{seq}");
    }
    let stored =
        query_all(&*tables.apart, Query::table(key::segments_from(&log(0), 0)).as_stored()).await.unwrap();
    let seqs: Vec<u64> = stored.iter().filter_map(|item| Some(key::parse_segment(&item.key)?.1)).collect();
    assert_eq!(seqs, [1, 2, 3, 6, 7, 8, 9]);
    assert_eq!(
        query_all(&*tables.merged, Query::table(key::segments_from(&log(0), 0))).await.unwrap(),
        stored
    );
    assert_eq!(scan::head(&*tables.apart, &log(0)).await.unwrap(), 9);
    assert_eq!(scan::segments(&*tables.apart, &log(0), 4, 5).await.unwrap(), [segment(0, 4), segment(0, 5)]);
}

/// An unreadable item is a dead letter of each of its segments, and hides no later one.
#[tokio::test]
async fn damaged_merged_item_yields_unreadable_segments() {
    let tables = tables(&[(0, 9, vec![(2, 6, 1)])]).await;
    let query = Query::table(key::segments_between(&log(0), 6, 6)).as_stored();
    let item = query_all(&*tables.merged, query).await.unwrap().remove(0);
    tables.merged.put(item.with(PARTS, vec![9u8; 9]), Condition::Exists).await.unwrap();
    let items = query_all(&*tables.apart, Query::table(key::segments_from(&log(0), 1))).await.unwrap();
    assert_eq!(items.len(), 9);
    for item in items {
        let (_, seq) = key::parse_segment(&item.key).unwrap();
        match Segment::from_item(item) {
            Ok(read) => assert_eq!(read, segment(0, seq)),
            Err(error) => {
                assert!((2..=6).contains(&seq), "{error}");
                assert!(error.to_string().contains("merged item"), "{error}");
            }
        }
    }
}

type Lane = (u8, u64, Vec<(u64, u64, u64)>);

/// Lane with some of its segments merged, the last never.
fn any_lane(lane: u8) -> impl Strategy<Value = Lane> {
    let cuts = prop::collection::vec((1u64..8, 1u64..8, 0u64..9), 0..4);
    (1u64..24, cuts).prop_map(move |(head, cuts)| {
        let (mut next, mut merges) = (1, Vec::new());
        for (gap, length, left) in cuts {
            let (from, to) = (next + gap, next + gap + length);
            if to < head {
                merges.push((from, to, from + left - 1));
            }
            next = to + 1;
        }
        (lane, head, merges)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    /// After any merges, and any deletion of the own items of segments, every query answers as without merges.
    #[test]
    fn every_read_answers_as_if_nothing_were_merged(
        one in any_lane(0), other in any_lane(3),
        asked in prop::collection::vec((0u64..26, 0u64..26, any::<bool>(), 0usize..8, 0usize..6), 80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tables = tables(&[one, other]).await;
            for (from, to, is_backward, limit, what) in asked {
                let range = match what {
                    0 => key::segments_from(&log(0), from),
                    1 => key::segments_of_kind(&log(0).workspace, log(0).day, Kind::Predictions),
                    2 => key::segments_after(&log(0)),
                    3 => KeyRange { from: key::segment(&log(0), from).sk, ..key::segments_between(&log(3), 0, to) },
                    _ => key::segments_between(&log(if to % 2 == 0 { 0 } else { 3 }), from.min(to), to),
                };
                let query = match from % 3 {
                    0 => Query::table(range),
                    1 => Query::table(range).only(SUMMARY),
                    _ => Query::table(range).only(&["v"]),
                };
                let query = if is_backward { query.backward() } else { query };
                let limit = (limit > 0).then_some(limit);
                let expected = pages(&tables.plain, query.clone(), limit).await;
                let found = pages(&*tables.apart, query.clone(), limit).await;
                assert_eq!(found, expected, "{query:?} {limit:?}");
            }
        });
    }
}
