//! Under faults: the conformance suite with every call failing now and then, the fault engine
//! itself, and the projector on a change feed that repeats, reorders, splits and forgets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{Clock, Column, Columns, Day, ErrorKind, Kind, Result, Task, Timestamp, Values};
use log::{
    batch::{BatchId, BatchPart},
    key::LogId,
    segment_item::Segment,
};
use table::{
    Condition, Index, Item, Key, Position, Query, Shard, Table, Write,
    dynamodb::{self, DynamoTable},
    query_all,
    sqlite::SqliteTable,
};
use tests::{
    conformance::{Subject, TestClock},
    faulty::{Fault, Faults, FaultyTable, Settled},
    local::fresh_table,
};
use tokio::time::Instant;

/// How long a test waits for what must happen, before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it looks whether it has happened.
const LOOK: Duration = Duration::from_millis(20);

/// Calls are throttled and slow, indexes lag. The outcome of every call is certain in the end, so
/// the whole suite must hold.
const DELAYS: Faults = Faults { late_index: 2, late_reads: 3, ..Faults::delays(4) };

/// And calls fail without saying whether they were made.
const DOUBTS: Faults = Faults { throttled: 6, slow: 10, ..Faults::doubts(3) };

/// The checks of the suite that must hold also when a caller is left in doubt.
macro_rules! certain_checks {
    ($($then:ident)::+ ! $($first:tt)*) => {
        $($then)::+! { $($first)*
            conditions {
                an_absent_key_can_be_claimed_once
                an_item_must_exist
                a_put_replaces_the_whole_item
                of_many_writers_of_one_key_one_wins
                what_was_written_is_read_at_once
            }
            order {
                sort_keys_are_compared_by_utf8_bytes
                ranges_include_both_ends
                limits_bound_a_page
                pages_end_at_a_megabyte
                partitions_are_apart
                only_the_attributes_asked_for_are_read
                writes_between_pages_do_no_harm
            }
            values {
                every_type_comes_back_as_it_was
                numbers_come_back_as_they_were
                text_comes_back_as_it_was
                bytes_come_back_wherever_they_are
                items_up_to_the_limit_are_taken
                keys_up_to_the_limit_are_taken
                what_an_index_cannot_hold_is_refused
            }
            transactions {
                all_or_nothing
                every_kind_of_write_together
                updates_change_what_they_name
                add_counts_from_nothing
                add_needs_a_whole_number_in_an_item
                no_item_twice_and_not_too_many
                concurrent_adds_are_never_lost
            }
            indexes {
                an_item_appears_moves_and_disappears
                half_a_key_is_not_in_the_index
                an_index_is_read_by_range_and_in_both_directions
                scores_are_ordered_as_numbers
                pages_of_an_index_miss_nothing
            }
            feed {
                a_reader_does_not_wait_forever
                a_position_is_where_one_left_off
            }
            expiry {
                what_has_expired_is_not_found
                what_has_expired_takes_no_place_in_a_page
                a_new_item_takes_the_place_of_an_expired_one
            }
            time {
                an_engine_that_has_answered_tells_the_time
            }
        }
    };
}

/// The checks that cannot hold when a caller is left in doubt, and why.
const LEFT_OUT: [(&str, &str); 7] = [
    ("an_attribute_must_be_equal", "puts what is stored already, which looks like the put that was in doubt"),
    (
        "deletes_have_conditions_too",
        "deletes what is not there, which looks like the delete that was in doubt",
    ),
    ("what_has_expired_counts_as_absent", "deletes what has expired: the same"),
    ("increments_under_a_condition_are_never_lost", "two writers put equal items, and overwrite each other"),
    ("every_write_is_told", "counts changes, but a write in doubt is made, and told, again"),
    ("what_did_not_happen_is_not_told", "counts changes too"),
    ("a_reader_waits_for_a_change", "counts changes too"),
];

/// A check that is added to the suite must be sorted into one of the two lists.
#[test]
fn no_check_is_left_out_in_silence() {
    let suite = include_str!("../src/conformance.rs").split_once("macro_rules! conformance").unwrap().1;
    let is_name = |line: &&str| line.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    let all: BTreeSet<&str> =
        suite.lines().map(str::trim).filter(|line| !line.is_empty()).filter(is_name).collect();
    let certain = certain_checks!(stringify!);
    let modules = ["conditions", "order", "values", "transactions", "indexes", "feed", "expiry", "time"];
    let certain = certain.split(['{', '}', ' ', '\n']).filter(|name| !name.is_empty());
    let listed = certain.filter(|name| !modules.contains(name)).chain(LEFT_OUT.map(|(name, _)| name));
    assert!(all.len() > 30);
    assert_eq!(listed.collect::<BTreeSet<_>>(), all);
}

fn start() -> Timestamp {
    Timestamp::parse("2026-01-15T12:00:00.5Z").unwrap()
}

fn open(folder: &Path, name: &str, clock: Clock) -> Arc<dyn Table> {
    Arc::new(SqliteTable::open(&folder.join(name), clock).expect("a new file"))
}

/// A subject that does what its table must do although everything goes wrong beneath it.
fn under(inner: Arc<dyn Table>, clock: TestClock, seed: u64, faults: Faults) -> Subject {
    let folder = tempfile::tempdir().expect("a folder for the copy");
    let faulty = FaultyTable::new(inner, seed, faults);
    let faulty = match faults.late_index {
        0 => faulty,
        _ => faulty.indexes_on(open(folder.path(), "copy.db", clock.clock())),
    };
    let table = Arc::new(Settled::new(Arc::new(faulty)));
    Subject { table, clock, scope: "suite".to_owned(), keep: Box::new(folder) }
}

async fn on_sqlite(seed: u64, faults: Faults) -> Subject {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let clock = TestClock::new(start());
    let subject = under(open(folder.path(), "log.db", clock.clock()), clock, seed, faults);
    Subject { keep: Box::new((folder, subject.keep)), ..subject }
}

async fn on_dynamodb_local(seed: u64, faults: Faults) -> Subject {
    let clock = TestClock::new(start());
    let config = fresh_table(clock.clock());
    dynamodb::create(&config).await.expect("a new table");
    let table = DynamoTable::connect(config).await.expect("the table");
    under(Arc::new(table), clock, seed, faults)
}

/// The suite on an engine, once for each seed.
macro_rules! suites {
    ($engine:ident: delays { $($delays:ident = $delays_seed:literal)* } doubts { $($doubts:ident = $doubts_seed:literal)* }) => {
        $(mod $delays {
            async fn subject() -> tests::conformance::Subject {
                crate::$engine($delays_seed, crate::DELAYS).await
            }
            tests::conformance!(subject);
        })*
        $(mod $doubts {
            async fn subject() -> tests::conformance::Subject {
                crate::$engine($doubts_seed, crate::DOUBTS).await
            }
            certain_checks!(tests::conformance! @tests subject);
        })*
    };
}

mod sqlite {
    suites!(on_sqlite: delays { delays_1 = 1 delays_2 = 2 } doubts { doubts_1 = 1 doubts_2 = 2 doubts_3 = 3 });
}

mod dynamodb_local {
    suites!(on_dynamodb_local: delays { delays_1 = 1 } doubts { doubts_1 = 1 });
}

/// The fault engine itself.
mod engine {
    use super::*;

    fn key(at: usize) -> Key {
        Key::new("p", format!("{at:03}"))
    }

    fn item(at: usize) -> Item {
        Item::new(key(at)).with("at", at as i64)
    }

    /// A sound table, the same one with faults, and its folder.
    fn tables(seed: u64, faults: Faults) -> (Arc<dyn Table>, FaultyTable, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let clock = || Clock::from_fn(start);
        let sound = open(folder.path(), "t.db", clock());
        let faulty = FaultyTable::new(Arc::clone(&sound), seed, faults);
        (sound, faulty.indexes_on(open(folder.path(), "copy.db", clock())), folder)
    }

    #[tokio::test]
    async fn the_same_seed_gives_the_same_faults() {
        let faults = Faults { throttled: 5, refused: 5, answer_lost: 5, late_index: 3, ..Faults::feed(4) };
        let run = async |seed| {
            let (_, table, _folder) = tables(seed, faults);
            let mut said = Vec::new();
            for at in 0..60 {
                said.push(table.put(item(at % 20), Condition::Absent).await.err().map(|e| e.to_string()));
                said.push(table.get(&key(at)).await.err().map(|e| e.to_string()));
                said.push(
                    table
                        .changes("faulty-0", &Position::Oldest, Duration::ZERO)
                        .await
                        .err()
                        .map(|e| e.to_string()),
                );
            }
            (said, table.injected())
        };
        let first = run(7).await;
        assert_eq!(first, run(7).await);
        assert_ne!(first, run(8).await);
    }

    #[tokio::test]
    async fn nothing_goes_wrong_unless_it_should() {
        let (_, table, _folder) = tables(1, Faults::NONE);
        assert_eq!(Faults::default(), Faults::NONE);
        for at in 0..50 {
            table.put(item(at), Condition::Absent).await.unwrap();
        }
        assert_eq!(query_all(&table, Query::index(Index::Table, "p")).await.unwrap().len(), 50);
        assert_eq!(table.injected(), []);
    }

    #[tokio::test]
    async fn what_is_refused_did_not_happen_and_what_lost_its_answer_did() {
        let cases = [
            (Faults { throttled: 1, ..Faults::NONE }, ErrorKind::Throttled, false),
            (Faults { refused: 1, ..Faults::NONE }, ErrorKind::Unavailable, false),
            (Faults { answer_lost: 1, ..Faults::NONE }, ErrorKind::Unavailable, true),
        ];
        for (faults, kind, happens) in cases {
            let (sound, table, _folder) = tables(1, faults);
            let error = table.put(item(0), Condition::Absent).await.unwrap_err();
            assert_eq!(error.kind(), kind);
            let error = table.transact(vec![Write::Put(item(1), Condition::Absent)]).await.unwrap_err();
            assert_eq!(error.kind(), kind);
            assert_eq!(table.get(&key(0)).await.unwrap_err().kind(), kind);
            for at in 0..2 {
                assert_eq!(sound.get(&key(at)).await.unwrap().is_some(), happens, "{faults:?}");
            }
            let error = table.delete(&key(0), Condition::Exists).await.unwrap_err();
            assert_eq!(error.kind(), kind, "a refusal of the engine is lost like any answer");
            assert!(sound.get(&key(0)).await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn slow_calls_are_slow() {
        let (_, table, _folder) = tables(1, Faults { slow: 1, ..Faults::NONE });
        let begin = Instant::now();
        for at in 0..5 {
            table.get(&key(at)).await.unwrap();
        }
        assert!(begin.elapsed() >= Duration::from_millis(5));
    }

    #[tokio::test]
    async fn a_late_index_shows_what_was_there_before_and_then_what_is() {
        let (_, table, _folder) = tables(1, Faults { late_index: 1, late_reads: 3, ..Faults::NONE });
        let indexed = |n: i64| {
            let item = item(0).with("n", n).with("GSI1PK", "i").with("GSI1SK", "1");
            item.with("board", "i").with("score", n)
        };
        let queries = [Query::index(Index::Gsi1, "i"), Query::index(Index::Board, "i")];
        let mut before = None;
        for now in [Some(indexed(1)), Some(indexed(2)), None] {
            match &now {
                Some(item) => table.put(item.clone(), Condition::None).await.unwrap(),
                None => table.delete(&key(0), Condition::None).await.unwrap(),
            }
            assert_eq!(table.get(&key(0)).await.unwrap(), now, "the table itself is never late");
            for read in 0..5 {
                let page = table.query(&queries[read % 2]).await.unwrap();
                let expected = if read < 3 { &before } else { &now };
                assert_eq!(page.items.first(), expected.as_ref(), "read {read}");
            }
            before = now;
        }
    }

    /// What every shard has told, in order, once there is nothing more; and whether with a gap.
    async fn told(table: &FaultyTable) -> (BTreeMap<String, Vec<Key>>, bool) {
        let (mut told, mut gap) = (BTreeMap::<String, Vec<Key>>::new(), false);
        let mut positions = BTreeMap::<String, Option<Position>>::new();
        let mut quiet = 0;
        // A change may be held back until the next look, and a shard may appear; not more than that.
        while quiet < 4 {
            quiet += 1;
            for Shard { id, parent } in table.shards().await.unwrap() {
                assert!(parent.is_none_or(|parent| positions.contains_key(&parent)), "parents come first");
                let position = positions.entry(id.clone()).or_insert(Some(Position::Oldest));
                let Some(from) = position else { continue };
                let changes = table.changes(&id, from, Duration::ZERO).await.unwrap();
                if !changes.keys.is_empty() {
                    quiet = 0;
                }
                gap |= changes.gap;
                *position = changes.next;
                told.entry(id).or_default().extend(changes.keys);
            }
        }
        (told, gap)
    }

    /// Writes 60 items through the sound table, some of them before the first look at the feed.
    async fn feed(seed: u64, faults: Faults) -> (BTreeMap<String, Vec<Key>>, bool, FaultyTable) {
        let (sound, table, _folder) = tables(seed, faults);
        for at in 0..60 {
            sound.put(item(at), Condition::Absent).await.unwrap();
            if at % 7 == 0 {
                table.changes("faulty-0", &Position::Oldest, Duration::ZERO).await.unwrap();
            }
        }
        let (told, gap) = told(&table).await;
        (told, gap, table)
    }

    fn counts(told: &BTreeMap<String, Vec<Key>>) -> BTreeMap<Key, usize> {
        told.values().flatten().fold(BTreeMap::new(), |mut counts, key| {
            *counts.entry(key.clone()).or_default() += 1;
            counts
        })
    }

    #[tokio::test]
    async fn every_change_is_told_or_a_gap_is() {
        let mut gaps = 0;
        for seed in 0..20 {
            let (told, gap, table) = feed(seed, Faults::feed(6)).await;
            assert!(gap || counts(&told).len() == 60, "seed {seed}: {:?}", table.injected());
            gaps += usize::from(gap);
            let sound = Faults { trimmed: 0, expired: 0, ..Faults::feed(6) };
            let (told, gap, _) = feed(seed, sound).await;
            assert_eq!((counts(&told).len(), gap), (60, false), "seed {seed}");
        }
        assert!(gaps > 10);
    }

    #[tokio::test]
    async fn changes_are_duplicated_and_reordered() {
        let (told, gap, table) = feed(1, Faults { duplicated: 5, ..Faults::NONE }).await;
        let counts = counts(&told);
        let twice = counts.values().filter(|count| **count == 2).count();
        assert_eq!((counts.len(), counts.values().sum::<usize>(), gap), (60, 60 + twice, false));
        assert_eq!(twice, table.faults());
        assert!(twice > 5);
        let (told, gap, _) = feed(1, Faults { reordered: 5, ..Faults::NONE }).await;
        let keys = &told["faulty-0"];
        assert!(!keys.is_sorted() && !gap && keys.len() == 60);
    }

    #[tokio::test]
    async fn a_split_shard_closes_and_its_children_share_its_keys() {
        let (sound, table, _folder) = tables(1, Faults { split: 20, ..Faults::NONE });
        let mut seen = BTreeMap::<Key, BTreeSet<String>>::new();
        for _ in 0..3 {
            for at in 0..40 {
                sound.put(item(at), Condition::None).await.unwrap();
            }
        }
        let (told, gap) = told(&table).await;
        let shards = table.shards().await.unwrap();
        assert!(!gap && shards.len() == 7, "{} shards", shards.len());
        let parents: BTreeSet<&str> = shards.iter().filter_map(|shard| shard.parent.as_deref()).collect();
        for shard in &shards {
            let end = table.changes(&shard.id, &Position::Latest, Duration::ZERO).await.unwrap();
            assert_eq!(
                end.next.is_none(),
                parents.contains(&*shard.id),
                "a parent is closed, others are open"
            );
            for key in told.get(&shard.id).into_iter().flatten() {
                seen.entry(key.clone()).or_default().insert(shard.id.clone());
            }
        }
        let children = |id: &str| shards.iter().filter(|shard| shard.parent.as_deref() == Some(id)).count();
        assert!(parents.iter().all(|parent| children(parent) == 2));
        for (key, ids) in &seen {
            let open = ids.iter().filter(|id| !parents.contains(id.as_str())).count();
            assert!(open <= 1, "{key} is in one open shard");
        }
        assert!(counts(&told).values().all(|count| *count == 3));
    }

    #[tokio::test]
    async fn a_position_that_expired_is_a_gap() {
        let (sound, table, _folder) = tables(1, Faults { expired: 1, ..Faults::NONE });
        for at in 0..3 {
            sound.put(item(at), Condition::Absent).await.unwrap();
        }
        let first = table.changes("faulty-0", &Position::Oldest, Duration::ZERO).await.unwrap();
        assert_eq!((first.keys.len(), first.gap), (3, false), "the oldest is always there");
        let again = table.changes("faulty-0", &first.next.unwrap(), Duration::ZERO).await.unwrap();
        assert!(again.gap);
    }

    /// In doubt about every third call, and yet each transaction is made once.
    #[tokio::test]
    async fn transactions_that_add_are_settled() {
        let (sound, faulty, _folder) = tables(3, Faults::doubts(3));
        let table = Settled::new(Arc::new(faulty));
        table.put(item(0), Condition::Absent).await.unwrap();
        for _ in 0..50 {
            table.transact(vec![Write::Add(key(0), "n".into(), 1)]).await.unwrap();
        }
        assert_eq!(sound.get(&key(0)).await.unwrap().unwrap().int("n").unwrap(), 50);
    }
}

/// The projector follows a feed on which everything goes wrong, and is right in the end.
mod projector_on_a_faulty_feed {
    use super::*;

    const SEEDS: u64 = 2;
    const BATCHES: usize = 60;
    /// Two for each log.
    const AT_ONCE: usize = 12;
    const ROWS: usize = 3;

    /// Each kind by itself too: a gap makes the projector look at everything, which would hide that it
    /// has missed something else.
    const PLANS: [Faults; 5] = [
        Faults { split: 8, ..Faults::NONE },
        Faults { trimmed: 2, ..Faults::NONE },
        Faults { expired: 2, ..Faults::NONE },
        Faults { duplicated: 2, reordered: 2, ..Faults::NONE },
        Faults::feed(8),
    ];

    fn clock() -> Clock {
        Clock::from_fn(|| Timestamp::parse("2026-06-10T00:00:00Z").unwrap())
    }

    async fn register(table: &Arc<dyn Table>) -> Result<Workspace> {
        let catalog = Catalog::new(Arc::clone(table));
        let now = clock().now();
        let workspace = catalog.ensure_workspace("sim/one", now).await?;
        let task = Task::Binary { positive_label: "1".into() };
        catalog.ensure_model(workspace.id(), "m", &task, now).await?;
        let release =
            ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
        catalog.ensure_release(workspace.id(), &release, now).await?;
        Ok(workspace)
    }

    /// The events of a batch: predictions, or outcomes of the same keys.
    fn events(kind: Kind, day: Day, batch: usize) -> Columns {
        let at = |row: usize| day.start().micros() + (batch * ROWS + row) as i64;
        let text = |text: &dyn Fn(usize) -> String| {
            let all: Vec<String> = (0..ROWS).map(text).collect();
            Values::Text(all.iter().map(String::as_str).collect())
        };
        let columns = vec![
            Column::new("key", text(&|row| format!("{}-{row}", batch / 2))),
            Column::new(kind.time_field(), Values::Time((0..ROWS).map(at).collect())),
            match kind {
                Kind::Predictions => Column::new("release", text(&|_| "v1".to_owned())),
                _ => Column::new("label", text(&|row| (row % 2).to_string())),
            },
            match kind {
                Kind::Predictions => Column::new("score", Values::Float(vec![0.25; ROWS])),
                _ => Column::new("value", Values::Float(vec![1.0; ROWS])),
            },
        ];
        Columns { rows: ROWS, columns }
    }

    /// Appends to the logs of three days and two kinds, some batches at a time, each time to another
    /// lane: what the projector misses of a log, no later change makes good.
    async fn append(table: &Arc<dyn Table>, workspace: &Workspace) -> Result<()> {
        let mut heads = BTreeMap::<LogId, u64>::new();
        for first in (0..BATCHES).step_by(AT_ONCE) {
            let mut writes = Vec::new();
            for batch in first..first + AT_ONCE {
                let kind = if batch % 2 == 0 { Kind::Predictions } else { Kind::Outcomes };
                let day = Timestamp::parse(&format!("2026-06-0{}T00:00:00Z", 1 + batch / 2 % 3))?.day();
                let lane = (first / AT_ONCE) as u8;
                let log = LogId { workspace: workspace.id().clone(), day, kind, lane };
                let seq = heads.entry(log.clone()).or_default();
                *seq += 1;
                let part = BatchPart { batch: BatchId([batch as u8; 16]), first: 0, rows: ROWS };
                let segment = Segment::pack(log, *seq, clock().now(), vec![part], &events(kind, day, batch))?;
                writes.push(Write::Put(segment.to_item(), Condition::Absent));
            }
            table.transact(writes).await?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn run(seed: u64, faults: Faults) -> Vec<Fault> {
        let folder = tempfile::tempdir().unwrap();
        let sound = open(folder.path(), "t.db", clock());
        let workspace = register(&sound).await.unwrap();
        let below = open(folder.path(), "t.db", clock());
        let faulty = Arc::new(FaultyTable::new(below, seed, faults));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let shutdown = async move { _ = stopped.await };
        let projector = tokio::spawn(projector::run(Arc::clone(&faulty) as _, shutdown));
        append(&sound, &workspace).await.unwrap();

        let begin = Instant::now();
        loop {
            // While the projector writes, what it wrote a moment ago may not fit together yet.
            let report = projector::verify(&sound, workspace.id(), |_, _| {}).await.unwrap();
            let is_done = report.behind == 0 && report.events as usize == BATCHES * ROWS;
            if is_done && report.faults.is_empty() {
                break;
            }
            assert!(!projector.is_finished(), "seed {seed}, {faults:?}: the projector has ended");
            assert!(begin.elapsed() < PATIENCE, "seed {seed}, {faults:?}: {report:?}");
            tokio::time::sleep(LOOK).await;
        }
        stop.send(()).unwrap();
        projector.await.unwrap().unwrap();
        faulty.injected()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_is_right_in_the_end() {
        let mut runs = tokio::task::JoinSet::new();
        for seed in 0..SEEDS {
            PLANS.into_iter().for_each(|faults| _ = runs.spawn(run(seed, faults)));
        }
        let injected: Vec<Fault> = runs.join_all().await.concat();
        for fault in [Fault::Duplicated, Fault::Reordered, Fault::Split, Fault::Trimmed, Fault::Expired] {
            let count = injected.iter().filter(|one| **one == fault).count();
            assert!(count > 2 * SEEDS as usize, "{fault:?}: only {count} times");
        }
    }
}
