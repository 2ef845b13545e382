//! The change feed, which wakes the projector.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use event::{ErrorKind, Result};
use table::{Condition, Item, Key, Position, Write};

use super::{Follower, LOOK, PATIENCE, Subject, joined, refused};

fn count(keys: Vec<Key>) -> BTreeMap<Key, usize> {
    keys.into_iter().fold(BTreeMap::new(), |mut counts, key| {
        *counts.entry(key).or_default() += 1;
        counts
    })
}

/// Each change of each item, by puts, deletes and transactions of several tasks. In the end the reader has heard of each item at
/// least as often as it has changed, and of no other.
pub async fn every_write_is_told(subject: &Subject) -> Result<()> {
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let table = Arc::clone(&subject.table);
            let (single, pair) =
                (subject.key("p", &format!("{writer}")), subject.key("q", &format!("{writer}")));
            tokio::spawn(async move {
                for at in 0..10 {
                    let put = |key: &Key| Item::new(key.clone()).with("at", at);
                    table.put(put(&single), Condition::None).await?;
                    let writes = vec![
                        Write::Put(put(&single).with("again", 1), Condition::None),
                        Write::Put(put(&pair), Condition::None),
                    ];
                    table.transact(writes).await?;
                    table.delete(&pair, Condition::Exists).await?;
                }
                Ok([single, pair])
            })
        })
        .collect();
    let mut expected = BTreeMap::new();
    for writer in writers {
        expected.extend(joined(writer.await)?.map(|key| (key, 20)));
    }
    let told = Follower::from_oldest(subject).read_until(160).await?;
    assert_eq!(count(told), expected);
    Ok(())
}

/// Neither a refused write nor a check is a change.
pub async fn what_did_not_happen_is_not_told(subject: &Subject) -> Result<()> {
    let table = &subject.table;
    table.put(subject.item("p", "a"), Condition::Absent).await?;
    refused(table.put(subject.item("p", "a"), Condition::Absent).await, ErrorKind::Conflict);
    let writes = vec![
        Write::Put(subject.item("p", "b"), Condition::None),
        Write::Check(subject.key("p", "nobody"), Condition::Exists),
    ];
    refused(table.transact(writes).await, ErrorKind::Conflict);
    let writes = vec![
        Write::Put(subject.item("p", "c"), Condition::None),
        Write::Check(subject.key("p", "a"), Condition::Exists),
    ];
    table.transact(writes).await?;
    let told = Follower::from_oldest(subject).read_until(2).await?;
    assert_eq!(count(told), BTreeMap::from([(subject.key("p", "a"), 1), (subject.key("p", "c"), 1)]));
    Ok(())
}

/// A waiting reader is woken long before its patience ends.
pub async fn a_reader_waits_for_a_change(subject: &Subject) -> Result<()> {
    subject.table.put(subject.item("p", "before"), Condition::None).await?;
    let mut follower = Follower::from_now(subject).await?;
    // Both at once: the reader waits, and the write comes meanwhile.
    let write = subject.table.put(subject.item("p", "after"), Condition::None);
    let read = async {
        let mut keys = Vec::new();
        while keys.is_empty() {
            keys = follower.read(PATIENCE).await?;
        }
        Ok::<_, event::Error>(keys)
    };
    let woken = tokio::time::timeout(PATIENCE, async { tokio::join!(read, write) });
    let Ok((read, written)) = woken.await else { panic!("the reader was not woken") };
    written?;
    assert_eq!(read?, [subject.key("p", "after")], "and what came before is not told");
    Ok(())
}

/// Without changes, the answer is empty and gives the next position.
pub async fn a_reader_does_not_wait_forever(subject: &Subject) -> Result<()> {
    let shards = subject.table.shards().await?;
    assert!(!shards.is_empty());
    for shard in shards {
        let changes = subject.table.changes(&shard.id, &Position::Latest, LOOK).await?;
        assert!(!changes.gap);
        let Some(next) = changes.next else { continue };
        let again = subject.table.changes(&shard.id, &next, Duration::ZERO).await?;
        assert!(again.next.is_some(), "an open shard can be read on");
    }
    Ok(())
}

/// Reading on from a position neither repeats nor skips, and a position may be read again.
pub async fn a_position_is_where_one_left_off(subject: &Subject) -> Result<()> {
    let mut follower = Follower::from_oldest(subject);
    for at in 0..5 {
        let key = subject.key("p", &format!("{at}"));
        subject.table.put(Item::new(key.clone()), Condition::Absent).await?;
        let before = follower.positions.clone();
        let told = follower.read_until(1).await?;
        assert_eq!(told, [key]);
        let mut again = Follower { subject, start: Position::Oldest, positions: before };
        assert_eq!(again.read_until(1).await?, told);
    }
    Ok(())
}

/// A reader at a position that the engine has lost gets a gap, once, and then all changes that the feed still has, so that a look
/// at the table makes up for the rest.
pub async fn a_position_that_is_lost_is_a_gap(subject: &Subject) -> Result<()> {
    let key = |at: usize| subject.key("p", &format!("{at}"));
    subject.table.put(Item::new(key(0)), Condition::Absent).await?;
    let mut positions = BTreeMap::new();
    let mut told = BTreeSet::new();
    for shard in subject.table.shards().await? {
        let changes = subject.table.changes(&shard.id, &subject.lost, LOOK).await?;
        assert!(changes.gap, "{}", shard.id);
        told.extend(changes.keys);
        positions.insert(shard.id, changes.next);
    }
    assert!(!positions.is_empty());
    subject.table.put(Item::new(key(1)), Condition::Absent).await?;
    let mut follower = Follower { subject, start: Position::Oldest, positions };
    let both = async {
        while !(told.contains(&key(0)) && told.contains(&key(1))) {
            // It requires that there is no other gap.
            told.extend(follower.read(LOOK).await?);
        }
        Ok(())
    };
    match tokio::time::timeout(PATIENCE, both).await {
        Ok(result) => result,
        Err(_) => panic!("waited for both changes, but found only {told:?}"),
    }
}
