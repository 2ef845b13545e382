use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use event::{Error, ErrorKind, Kind};
use proptest::prelude::*;
use table::{Answer, Condition, Cursor, Position, Write, sqlite::SqliteTable};

use super::*;

fn workspace() -> Id {
    Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()
}

fn day(number: u8) -> Day {
    format!("2026-06-{number:02}").parse().unwrap()
}

fn log((day_of, kind, lane): (u8, usize, u8)) -> LogId {
    LogId { workspace: workspace(), day: day(day_of), kind: Kind::ALL[kind], lane }
}

fn own() -> OwnPartitions {
    OwnPartitions([(day(3), 3), (day(5), 6)].into())
}

fn open(folder: &tempfile::TempDir, name: &str) -> Arc<SqliteTable> {
    Arc::new(SqliteTable::open(&folder.path().join(name), Clock::system()).unwrap())
}

/// A table whose engine has this time.
fn open_at(folder: &tempfile::TempDir, time: Timestamp) -> Arc<SqliteTable> {
    Arc::new(SqliteTable::open(&folder.path().join("t"), Clock::from_fn(move || time)).unwrap())
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

#[test]
fn its_item_is_stored_so() {
    let item = own().to_item(&workspace()).with("ver", 2);
    insta::assert_snapshot!(table::text::line(&item).unwrap());
    assert_eq!(OwnPartitions::from_item(&item).unwrap(), own());
    assert!(OwnPartitions::from_item(&item.clone().with("since", 1)).is_err());
    assert!(OwnPartitions::from_item(&item.with("v", 2)).is_err());
}

#[tokio::test]
async fn lanes_get_partitions_some_days_after_it_is_decided_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let now = Timestamp::parse("2026-06-10T23:59:59Z").unwrap();
    let table = open_at(&folder, now);
    let later = now.plus_seconds(9 * DAY_SECONDS);
    let ensure = async |lanes, now| ensure(&*table, &workspace(), lanes, now).await.unwrap();
    assert_eq!(ensure(1, now).await, None);
    assert_eq!(table.get(&key::own_partitions(&workspace())).await.unwrap(), None, "one lane needs nothing");
    assert_eq!(ensure(4, now).await, Some(day(13)));
    assert_eq!(ensure(4, later).await, Some(day(13)), "it is decided already");
    assert_eq!(ensure(2, later).await, Some(day(13)));
    assert_eq!(ensure(16, later).await, Some(day(22)));
    let item = table.get(&key::own_partitions(&workspace())).await.unwrap().unwrap();
    let own = OwnPartitions::from_item(&item).unwrap();
    assert_eq!([12, 13, 21, 22].map(|number| own.lanes_by(Some(day(number)))), [1, 4, 4, 16]);
}

/// Who decides may have a clock that is a month behind: then the engine's counts, or logs that others have begun would be looked for elsewhere.
#[tokio::test]
async fn a_clock_that_is_behind_decides_nothing_about_days_that_have_begun() {
    let folder = tempfile::tempdir().unwrap();
    let time = Timestamp::parse("2026-06-10T12:00:00Z").unwrap();
    let table = open_at(&folder, time);
    let behind = time.plus_seconds(-30 * DAY_SECONDS);
    assert_eq!(ensure(&*table, &workspace(), 4, behind).await.unwrap(), Some(day(13)));
}

/// However it came there: what stands in a log already is found where it is, by those who know nothing yet and by those who know.
#[tokio::test]
async fn a_log_that_has_begun_is_looked_for_where_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let time = Timestamp::parse("2026-06-10T12:00:00Z").unwrap();
    let below: Arc<dyn Table> = open_at(&folder, time);
    let layer = || LanePartitions::over(Arc::clone(&below), Clock::from_fn(move || time));
    let (early, late) = (log((20, 0, 1)), log((21, 0, 1)));
    let item = |log: &LogId| Item::new(key::segment(log, 1)).with("v", 1);
    let before = layer();
    before.put(item(&early), Condition::Absent).await.unwrap();
    assert_eq!(ensure(&*before, &workspace(), 4, time).await.unwrap(), Some(day(21)));
    let after = layer();
    after.put(item(&late), Condition::Absent).await.unwrap();
    for log in [&early, &late] {
        assert_eq!(after.get(&key::segment(log, 1)).await.unwrap(), Some(item(log)));
    }
    assert_eq!(pages(&*after, Query::table(key::segments(&workspace()))).await, [item(&early), item(&late)]);
    assert!(after.put(item(&early), Condition::Absent).await.is_err(), "there is one already");
}

#[tokio::test]
async fn items_stand_where_they_should_and_are_told_of_under_the_keys_that_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let below = open(&folder, "t");
    below.put(own().to_item(&workspace()), Condition::Absent).await.unwrap();
    let table = LanePartitions::over(Arc::clone(&below) as Arc<dyn Table>, Clock::system());
    let places =
        [(2, 0, 5, ""), (3, 0, 0, ""), (3, 0, 2, "/02"), (4, 1, 3, ""), (5, 1, 5, "/05"), (6, 0, 6, "")];
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
        let changes = table.changes("0", &Position::Oldest, Duration::ZERO).await;
        let shard = table.shards().await.unwrap().remove(0);
        let changes = match changes {
            Ok(changes) => changes,
            Err(_) => table.changes(&shard.id, &Position::Oldest, Duration::ZERO).await.unwrap(),
        };
        assert_eq!(changes.keys.last(), Some(&key));
        table.delete(&key, Condition::Exists).await.unwrap();
        assert_eq!(below.get(&stored).await.unwrap(), None);
    }
}

/// A table that counts how often the items are read, and may be out of order.
#[derive(Debug)]
struct Counted {
    below: Arc<SqliteTable>,
    reads: AtomicUsize,
    is_out: std::sync::atomic::AtomicBool,
    /// How many seconds a read of them takes.
    seconds: u64,
}

impl Layer for Counted {
    type Kept = ();
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.below
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        if matches!(call, Call::Query(query) if query.range.pk == key::layout().pk) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(self.seconds)).await;
            if self.is_out.load(Ordering::SeqCst) {
                return Err(Error::unavailable("out of order"));
            }
        }
        Ok(())
    }

    fn after(&self, (): (), _: Result<Answer<'_>, &Error>) {}
}

#[tokio::test]
async fn the_items_are_read_once_an_hour_and_only_for_lanes_and_windows() {
    let folder = tempfile::tempdir().unwrap();
    let counted = Arc::new(Counted {
        below: open(&folder, "t"),
        reads: AtomicUsize::new(0),
        is_out: false.into(),
        seconds: 0,
    });
    let seconds = Arc::new(AtomicI64::new(0));
    let now = Arc::clone(&seconds);
    let clock = Clock::from_fn(move || Timestamp::default().plus_seconds(now.load(Ordering::SeqCst)));
    let table = LanePartitions::over(Arc::clone(&counted) as Arc<dyn Table>, clock);
    let (first, other) = (key::segment(&log((5, 0, 0)), 1), key::segment(&log((5, 0, 1)), 1));
    let reads = || counted.reads.load(Ordering::SeqCst);
    table.get(&first).await.unwrap();
    table.query(&Query::table(key::segments_from(&log((5, 0, 0)), 1))).await.unwrap();
    assert_eq!(reads(), 0, "the first lane is always where it is");
    table.get(&other).await.unwrap();
    table.query(&Query::table(key::segments(&workspace()))).await.unwrap();
    assert_eq!(reads(), 1);
    seconds.store(3_601, Ordering::SeqCst);
    table.get(&other).await.unwrap();
    assert_eq!(reads(), 2);
    counted.is_out.store(true, Ordering::SeqCst);
    seconds.store(9 * 3_600, Ordering::SeqCst);
    table.get(&other).await.unwrap();
    assert_eq!(reads(), 3);
    seconds.store(14 * 3_600, Ordering::SeqCst);
    assert_eq!(table.get(&other).await.unwrap_err().kind(), ErrorKind::Unavailable, "too old to be trusted");
    // Also a clock that went back does not make it newer.
    seconds.store(-14 * 3_600, Ordering::SeqCst);
    assert_eq!(table.get(&other).await.unwrap_err().kind(), ErrorKind::Unavailable);
    counted.is_out.store(false, Ordering::SeqCst);
    table.get(&other).await.unwrap();
}

/// A segment that is put later than it says closes no instant, so what the layer waits for is taken from the time that a put has.
#[tokio::test(start_paused = true)]
async fn a_put_is_not_begun_later_because_the_items_were_read_first() {
    let folder = tempfile::tempdir().unwrap();
    let below = open(&folder, "t");
    let slow =
        Counted { below: Arc::clone(&below), reads: AtomicUsize::new(0), is_out: false.into(), seconds: 9 };
    let table = LanePartitions::over(Arc::new(slow), Clock::system());
    let item = |lane| Item::new(key::segment(&log((5, 0, lane)), 1)).with("v", 1);
    let within = Duration::from_secs(8);
    let (written, result) = table.put_new(vec![item(1), item(2)], within).await;
    assert_eq!((written, result.unwrap_err().kind()), (0, ErrorKind::Throttled));
    assert_eq!(below.get(&item(1).key).await.unwrap(), None);
    let (written, result) = table.put_new(vec![item(1), item(2)], within).await;
    assert_eq!((written, result.is_ok()), (2, true), "they are read by now");
}

#[tokio::test]
async fn a_cursor_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let below = open(&folder, "t");
    below.put(own().to_item(&workspace()), Condition::Absent).await.unwrap();
    let table = LanePartitions::over(below, Clock::system());
    let of = |parts: &[&str]| Cursor::of(parts.iter().map(|part| (*part).to_owned()).collect());
    for after in [of(&["x"]), of(&["lanes"]), of(&["lanes", "day#2026-06-03", "w#other/day", "", "x"])] {
        let query = Query { after: Some(after), ..Query::table(key::segments(&workspace())) };
        assert_eq!(table.query(&query).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

type Place = (u8, usize, u8);

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Wherever lanes stand, every query answers as if all stood in one partition.
    #[test]
    fn every_read_answers_as_if_there_were_one_partition(
        logs in prop::collection::btree_map((1u8..8, 0usize..2, 0u8..7), 1u64..5, 0..40),
        asked in prop::collection::vec(
            ((1u8..8, 0usize..2, 0u8..7), (1u8..8, 0usize..2, 0u8..7), any::<bool>(), 0usize..8, 0usize..8), 60,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let (below, plain) = (open(&folder, "below"), open(&folder, "plain"));
            below.put(own().to_item(&workspace()), Condition::Absent).await.unwrap();
            let table = LanePartitions::over(Arc::clone(&below) as Arc<dyn Table>, Clock::system());
            for (place, last) in &logs {
                for seq in 1..=*last {
                    let item = Item::new(key::segment(&log(*place), seq)).with("v", 1).with("n", seq as i64);
                    table.put(item.clone(), Condition::Absent).await.unwrap();
                    plain.put(item, Condition::Absent).await.unwrap();
                }
            }
            for (one, other, is_backward, limit, what) in asked {
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
        4 => key::segments_between(&log(one), 2, 3),
        5 => key::segments_from(&log(one), 2),
        6 => key::segments_of_days(&workspace(), day(first.0), day(last.0)),
        _ => key::segments_of_day(&workspace(), day(one.0)),
    }
}
