//! Tests of the faulty engine itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use event::{Clock, ErrorKind};
use table::{Condition, Index, Item, Key, Position, Query, Shard, Table, Write, query_all};
use tests::{
    engine::Fresh,
    faulty::{Faults, FaultyTable, Settled},
    world,
};
use tokio::time::Instant;

fn key(at: usize) -> Key {
    Key::new("p", format!("{at:03}"))
}

fn item(at: usize) -> Item {
    Item::new(key(at)).with("at", at as i64)
}

/// A sound table, a copy with faults, and their files.
fn tables(seed: u64, faults: Faults) -> (Arc<dyn Table>, FaultyTable, [Fresh; 2]) {
    let clock = || Clock::from_fn(|| world::at("2096-01-15T12:00:00.5Z"));
    let [sound, copy] = [(); 2].map(|()| Fresh::sqlite(clock()));
    let faulty = FaultyTable::new(Arc::clone(&sound.table), seed, faults);
    (Arc::clone(&sound.table), faulty.indexes_on(Arc::clone(&copy.table)), [sound, copy])
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    let faults = Faults { throttled: 5, refused: 5, answer_lost: 5, late_index: 3, ..Faults::feed(4) };
    let run = async |seed| {
        let (_, table, _files) = tables(seed, faults);
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
    let (_, table, _files) = tables(1, Faults::NONE);
    assert_eq!(Faults::default(), Faults::NONE);
    for at in 0..50 {
        table.put(item(at), Condition::Absent).await.unwrap();
    }
    assert_eq!(query_all(&table, Query::index(Index::Table, "p")).await.unwrap().len(), 50);
    assert_eq!(table.injected(), []);
}

#[tokio::test]
async fn refused_calls_have_no_effect_unlike_lost_answers() {
    let cases = [
        (Faults { throttled: 1, ..Faults::NONE }, ErrorKind::Throttled, false),
        (Faults { refused: 1, ..Faults::NONE }, ErrorKind::Unavailable, false),
        (Faults { answer_lost: 1, ..Faults::NONE }, ErrorKind::Unavailable, true),
    ];
    for (faults, kind, happens) in cases {
        let (sound, table, _files) = tables(1, faults);
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
    let (_, table, _files) = tables(1, Faults { slow: 1, ..Faults::NONE });
    let begin = Instant::now();
    for at in 0..5 {
        table.get(&key(at)).await.unwrap();
    }
    assert!(begin.elapsed() >= Duration::from_millis(5));
}

#[tokio::test]
async fn late_index_shows_earlier_state_first() {
    let (_, table, _files) = tables(1, Faults { late_index: 1, late_reads: 3, ..Faults::NONE });
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

/// Changes of every shard, in order, up to the end; true if there was a gap.
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
    let (sound, table, _files) = tables(seed, faults);
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
async fn split_shard_closes_and_children_share_keys() {
    let (sound, table, _files) = tables(1, Faults { split: 20, ..Faults::NONE });
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
        assert_eq!(end.next.is_none(), parents.contains(&*shard.id), "a parent is closed, others are open");
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
    let (sound, table, _files) = tables(1, Faults { expired: 1, ..Faults::NONE });
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
    let (sound, faulty, _files) = tables(3, Faults::doubts(3));
    let table = Settled::new(Arc::new(faulty));
    table.put(item(0), Condition::Absent).await.unwrap();
    for _ in 0..50 {
        table.transact(vec![Write::Add(key(0), "n".into(), 1)]).await.unwrap();
    }
    assert_eq!(sound.get(&key(0)).await.unwrap().unwrap().int("n").unwrap(), 50);
}
