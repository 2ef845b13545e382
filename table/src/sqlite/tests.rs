//! Tests of this engine alone. Tests of every engine are in the conformance suite of the `tests` crate.

mod expired;
mod forgotten;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Barrier,
        atomic::{AtomicI64, Ordering},
    },
    thread,
};

use event::{ErrorKind, Timestamp};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::{
    Direction, Index, KeyRange,
    item::{Number, Value},
    query_all,
};

const HOUR: i64 = 60 * 60;
const LONG: Duration = Duration::from_secs(10);

/// File in a folder of its own, and a clock that can be moved.
struct Place {
    folder: TempDir,
    seconds: Arc<AtomicI64>,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), seconds: Arc::new(AtomicI64::new(1_700_000_000)) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log.db")
    }

    fn clock(&self) -> Clock {
        let seconds = Arc::clone(&self.seconds);
        Clock::from_fn(move || Timestamp::default().plus_seconds(seconds.load(Ordering::SeqCst)))
    }

    fn forward(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    fn open(&self) -> Arc<SqliteTable> {
        Arc::new(SqliteTable::open(&self.path(), self.clock()).unwrap())
    }
}

fn item(sk: impl Into<String>) -> Item {
    Item::new(Key::new("p", sk))
}

fn whole_partition() -> Query {
    Query::index(Index::Table, "p")
}

fn after(changes: &Changes) -> &Position {
    changes.next.as_ref().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_handles_create_a_key_once() {
    let place = Place::new();
    let tables = [place.open(), place.open()];
    for round in 0..50 {
        let racers = tables.clone().map(|table| {
            tokio::spawn(async move { table.put(item(format!("{round:02}")), Condition::Absent).await })
        });
        let mut won = 0;
        for racer in racers {
            match racer.await.unwrap() {
                Ok(()) => won += 1,
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
        assert_eq!(won, 1);
    }
    assert_eq!(query_all(&*tables[1], whole_partition()).await.unwrap().len(), 50);
}

#[tokio::test]
async fn a_handle_waits_for_the_changes_of_another() {
    let place = Place::new();
    let (here, there) = (place.open(), place.open());
    let start = here.changes(feed::SHARD, &Position::Latest, Duration::ZERO).await.unwrap();
    let write = there.put(item("a"), Condition::None);
    let (changes, written) = tokio::join!(here.changes(feed::SHARD, after(&start), LONG), write);
    written.unwrap();
    assert_eq!(changes.unwrap().keys, [Key::new("p", "a")]);
    assert!(here.get(&Key::new("p", "a")).await.unwrap().is_some());
}

#[tokio::test]
async fn unmatched_writes_survive_dropping_the_last_handle() {
    let place = Place::new();
    let table = place.open();
    for at in 0..100 {
        // Polled once, then given up: the write is on its way.
        let write = table.put(item(format!("{at:03}")), Condition::Absent);
        let _ = tokio::time::timeout(Duration::ZERO, write).await;
    }
    drop(table);
    let table = SqliteTable::open_existing(&place.path(), place.clock()).unwrap();
    assert_eq!(query_all(&table, whole_partition()).await.unwrap().len(), 100);
    drop(table);
    let mut files: Vec<_> =
        fs::read_dir(place.folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["log.db"], "the write-ahead log is folded in when the file is closed");
}

#[tokio::test]
async fn feed_follows_the_order_of_writes() {
    let place = Place::new();
    let table = place.open();
    let mut expected = Vec::new();
    for round in 0..30 {
        let keys = (0..50).map(|at| Key::new("p", format!("{}", (at * 7 + round) % 50)));
        let write = |key| match round % 3 {
            2 => Write::Delete(key, Condition::Exists),
            _ => Write::Put(Item::new(key), Condition::None),
        };
        table.transact(keys.clone().map(write).collect()).await.unwrap();
        expected.extend(keys);
    }
    // Deleting a missing item changes nothing.
    table.delete(&Key::new("p", "0"), Condition::None).await.unwrap();
    let (mut found, mut position) = (Vec::new(), Position::Oldest);
    while found.len() < expected.len() {
        let changes = table.changes(feed::SHARD, &position, Duration::ZERO).await.unwrap();
        assert!(!changes.keys.is_empty() && !changes.gap);
        position = after(&changes).clone();
        found.extend(changes.keys);
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn reader_behind_feed_retention_sees_gap_once() {
    let place = Place::new();
    let table = place.open();
    let start = table.changes(feed::SHARD, &Position::Latest, Duration::ZERO).await.unwrap();
    table.put(item("old"), Condition::None).await.unwrap();
    place.forward(25 * HOUR);
    table.put(item("new"), Condition::None).await.unwrap();
    let changes = table.changes(feed::SHARD, after(&start), LONG).await.unwrap();
    assert!(changes.gap);
    assert_eq!(changes.keys, [Key::new("p", "new")]);
    let changes = table.changes(feed::SHARD, after(&changes), Duration::ZERO).await.unwrap();
    assert_eq!((changes.gap, changes.keys.len()), (false, 0));
    let oldest = table.changes(feed::SHARD, &Position::Oldest, LONG).await.unwrap();
    assert_eq!((oldest.gap, oldest.keys.len()), (false, 1));
}

#[tokio::test]
async fn a_position_in_another_file_is_a_gap() {
    let place = Place::new();
    let table = place.open();
    table.put(item("a"), Condition::None).await.unwrap();
    let elsewhere = Position::After("17".into());
    let changes = table.changes(feed::SHARD, &elsewhere, LONG).await.unwrap();
    assert_eq!((changes.gap, changes.keys.len()), (true, 1));
    let nonsense = Position::After("shardId-0001".into());
    let error = table.changes(feed::SHARD, &nonsense, LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = table.changes("other", &Position::Oldest, LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn pages_end_between_equal_entries_of_an_index() {
    let place = Place::new();
    let table = place.open();
    // Scores that differ in the last bit, and many equal ones.
    let scores = [0.1 + 0.2, 0.3, -1.5, 0.0, 1e100, 0.1 + 0.2];
    for at in 0..60 {
        let score = Number::parse(&scores[at % scores.len()].to_string()).unwrap();
        let item = Item::new(Key::new(format!("p{}", at % 5), format!("{at:02}")))
            .with("GSI1PK", "g")
            .with("GSI1SK", format!("{}", at % 3))
            .with("board", "b")
            .with("score", Value::N(score));
        table.put(item, Condition::Absent).await.unwrap();
    }
    for (index, pk) in [(Index::Gsi1, "g"), (Index::Board, "b")] {
        for direction in [Direction::Forward, Direction::Backward] {
            let query = Query { direction, ..Query::index(index, pk) };
            let all: Vec<_> = query_all(&*table, query.clone()).await.unwrap();
            assert_eq!(all.len(), 60);
            for limit in [1, 7, 59, 60] {
                assert_eq!(query_all(&*table, query.clone().limit(limit)).await.unwrap(), all);
            }
            let last = table.query(&query.limit(60)).await.unwrap();
            assert_eq!(last.next, None, "nothing is left");
        }
    }
}

#[tokio::test]
async fn cursor_outside_range_does_not_widen_it() {
    let place = Place::new();
    let table = place.open();
    for sk in ["a", "b", "c", "d"] {
        table.put(item(sk), Condition::None).await.unwrap();
    }
    let cursor = table.query(&whole_partition().limit(1)).await.unwrap().next;
    let range = KeyRange { pk: "p".into(), from: "c".into(), to: "c".into() };
    let query = Query { after: cursor, ..Query::table(range) };
    let found = table.query(&query).await.unwrap().items;
    assert_eq!(found, [item("c")]);
}

#[tokio::test]
async fn lock_held_by_another_process_is_reported() {
    let place = Place::new();
    let table =
        SqliteTable::open_with(&place.path(), place.clock(), Create::Missing, Duration::from_millis(20))
            .unwrap();
    let other = Connection::open(place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = table.put(item("a"), Condition::None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "a limit would be one of this engine: {error}");
    assert!(error.to_string().contains("log.db: another process holds the file"), "{error}");
    assert_eq!(table.get(&Key::new("p", "a")).await.unwrap(), None, "reads go on meanwhile");
    other.execute_batch("ROLLBACK").unwrap();
    table.put(item("a"), Condition::None).await.unwrap();
}

#[tokio::test]
async fn unreadable_item_is_named_and_isolated() {
    let place = Place::new();
    let table = place.open();
    table.put(item("bad"), Condition::None).await.unwrap();
    table.put(item("good"), Condition::None).await.unwrap();
    let other = Connection::open(place.path()).unwrap();
    other.execute("UPDATE item SET attributes = '{\"a\":1}' WHERE sk = 'bad'", []).unwrap();
    let error = table.get(&Key::new("p", "bad")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().starts_with("item p / bad: "), "{error}");
    assert!(table.get(&Key::new("p", "good")).await.unwrap().is_some());
    let changed = Condition::Equals("a", Value::from(1));
    assert_eq!(table.put(item("bad"), changed).await.unwrap_err().kind(), ErrorKind::Corrupt);
    table.put(item("bad"), Condition::Exists).await.unwrap();
}

#[test]
fn foreign_file_is_refused_with_its_path() {
    let place = Place::new();
    let clock = place.clock();
    let path = |name: &str| place.folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("text"), "these are no tables, however long the text may be\n".repeat(100)).unwrap();
    fs::write(path("empty"), "").unwrap();
    Connection::open(path("foreign")).unwrap().execute_batch("CREATE TABLE item (x)").unwrap();
    drop(SqliteTable::open(&path("newer"), clock.clone()).unwrap());
    Connection::open(path("newer")).unwrap().execute_batch("PRAGMA user_version = 9").unwrap();
    let cases = [
        ("folder", Create::Missing, ErrorKind::Invalid, "is a folder"),
        ("text", Create::Missing, ErrorKind::Invalid, "is not a file of Almanac"),
        ("foreign", Create::Missing, ErrorKind::Invalid, "not one of Almanac"),
        ("newer", Create::Missing, ErrorKind::Invalid, "newer Almanac (file version 9)"),
        ("text/log.db", Create::Missing, ErrorKind::Unavailable, "cannot be created"),
        ("absent", Create::Never, ErrorKind::NotFound, "does not exist"),
        ("empty", Create::Never, ErrorKind::NotFound, "is empty"),
    ];
    for (name, create, kind, text) in cases {
        let error = SqliteTable::open_with(&path(name), clock.clone(), create, LONG).unwrap_err();
        let line = error.to_string();
        assert_eq!(error.kind(), kind, "{line}");
        assert!(line.contains(text) && !line.contains('\n'), "{line}");
        assert!(line.contains(name.split('/').next().unwrap()), "{line}");
    }
    assert_eq!(fs::metadata(path("empty")).unwrap().len(), 0, "a refused file is left as it is");
    SqliteTable::open(&path("deep/er/log.db"), clock).unwrap();
}

#[test]
fn new_file_can_be_opened_concurrently() {
    for _ in 0..20 {
        let place = Place::new();
        let barrier = Arc::new(Barrier::new(4));
        let openers: Vec<_> = (0..4)
            .map(|_| {
                let (barrier, path, clock) = (Arc::clone(&barrier), place.path(), place.clock());
                thread::spawn(move || {
                    barrier.wait();
                    SqliteTable::open(&path, clock).map(drop)
                })
            })
            .collect();
        for opener in openers {
            opener.join().unwrap().unwrap();
        }
    }
}

#[test]
fn file_is_set_up_with_expected_pragmas() {
    let place = Place::new();
    let _table = place.open();
    let connection = open::reader(&place.path(), LONG).unwrap();
    let pragma = |name: &str| {
        let value = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
        format!("{:?}", connection.pragma_query_value(None, name, value).unwrap())
    };
    assert_eq!(pragma("page_size"), "Integer(16384)");
    assert_eq!(pragma("journal_mode"), "Text(\"wal\")");
    assert_eq!(pragma("synchronous"), "Integer(2)", "FULL");
    assert_eq!(pragma("application_id"), "Integer(1097624942)");
    assert!(connection.execute("DELETE FROM item", []).is_err(), "readers cannot write");
    assert!(rusqlite::version_number() >= 3_051_003, "older ones can lose commits when a log is reset");
}

#[tokio::test]
async fn file_in_use_is_describable_but_not_deletable() {
    let place = Place::new();
    assert_eq!(describe(&place.path()).unwrap_err().kind(), ErrorKind::NotFound);
    let table = place.open();
    table.put(item("a"), Condition::Absent).await.unwrap();
    let described = describe(&place.path()).unwrap();
    assert_eq!((described.items, described.changes, described.key.as_str()), (1, 1, "pk, sk"));
    let names: Vec<_> = described.indexes.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(names, ["item_board", "item_expiry", "item_gsi1"]);

    let refused = delete(&place.path()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    table.put(item("b"), Condition::Absent).await.unwrap();
    drop(table);
    assert_eq!(describe(&place.path()).unwrap().items, 2, "a refused deletion changes nothing");

    delete(&place.path()).unwrap();
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 0);
    delete(&place.path()).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn deleting_a_linked_file_removes_its_target() {
    let place = Place::new();
    drop(place.open());
    let link = place.folder.path().join("link.db");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    delete(&link).unwrap();
    assert!(!place.path().exists());
}
