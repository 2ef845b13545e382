//! What every engine of [`table::Table`] must do. An engine runs the whole suite with the macro
//! [`conformance!`](crate::conformance!), given a function that makes a [`Subject`].
//!
//! The checks assume no more than DynamoDB promises: indexes and the change feed may lag behind
//! the table, the feed may have many shards, equal entries of an index come in any order. They
//! keep to keys of their own scope, so that they can share one table.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt::Debug,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use event::{Clock, Error, ErrorKind, Result, Timestamp};
use table::{Index, Item, Key, KeyRange, Position, Query, Table, item::Value};

use crate::engine::Engine;

pub mod conditions;
pub mod expiry;
pub mod feed;
pub mod indexes;
pub mod order;
mod suite;
pub mod time;
pub mod transactions;
pub mod values;

/// How long a check waits for what must happen, before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it looks whether it has happened.
const LOOK: Duration = Duration::from_millis(10);

/// A clock that stands still until it is moved.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.micros())))
    }

    /// The clock for an engine.
    pub fn clock(&self) -> Clock {
        let clock = self.clone();
        Clock::from_fn(move || clock.now())
    }

    /// The time it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst)).unwrap_or_default()
    }

    /// The second it shows, as in `expires_at`.
    pub fn seconds(&self) -> i64 {
        self.now().micros().div_euclid(1_000_000)
    }

    /// Moves it.
    pub fn forward(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

/// A table to be checked.
pub struct Subject {
    /// The table.
    pub table: Arc<dyn Table>,
    /// The clock that the table reads.
    pub clock: TestClock,
    /// What sets the keys of this check apart from those of others in the same table.
    pub scope: String,
    /// A position in the change feed of which the engine cannot tell what came after it.
    pub lost: Position,
    /// What must live as long as the table, such as its folder.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl Subject {
    /// An empty table of an engine.
    pub async fn on(engine: Engine) -> Self {
        let clock = TestClock::new(Timestamp::parse("2096-01-15T12:00:00.5Z").expect("a time"));
        let fresh = engine.fresh(clock.clock()).await;
        let lost = match engine {
            // After more changes than there ever were: the file is another one than the reader knew.
            Engine::Sqlite => "1000000000",
            // Before anything was read, by an iterator that nobody has any more.
            Engine::DynamodbLocal => "since:0:lost",
        };
        Self {
            table: Arc::clone(&fresh.table),
            clock,
            scope: "suite".to_owned(),
            lost: Position::After(lost.to_owned()),
            keep: Box::new(fresh),
        }
    }

    /// The same with another table above it.
    pub fn under(self, wrapped: impl FnOnce(Arc<dyn Table>) -> Arc<dyn Table>) -> Self {
        Self { table: wrapped(self.table), ..self }
    }

    /// The key of `pk` and `sk` in this scope.
    pub fn key(&self, pk: &str, sk: &str) -> Key {
        Key::new(self.pk(pk), sk)
    }

    /// The partition `pk` in this scope.
    pub fn pk(&self, pk: &str) -> String {
        format!("{}/{pk}", self.scope)
    }

    /// An item without attributes.
    pub fn item(&self, pk: &str, sk: &str) -> Item {
        Item::new(self.key(pk, sk))
    }

    /// Everything in the partition `pk`.
    pub fn partition(&self, pk: &str) -> Query {
        Query::index(Index::Table, self.pk(pk))
    }

    /// A range of the partition `pk`.
    pub fn range(&self, pk: &str, from: &str, to: &str) -> Query {
        Query::table(KeyRange { pk: self.pk(pk), from: from.to_owned(), to: to.to_owned() })
    }
}

/// Demands that `result` is refused with an error of `kind`; the text of the error.
#[track_caller]
fn refused<T: Debug>(result: Result<T>, kind: ErrorKind) -> String {
    match result {
        Ok(value) => panic!("should be refused as {kind:?}, but gives {value:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error}");
            error.to_string()
        }
    }
}

/// The sort keys of items.
fn sort_keys(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.key.sk.as_str()).collect()
}

/// Looks again and again until `look` gives what is expected.
///
/// # Errors
/// Those of `look`.
///
/// # Panics
/// When it never does.
pub async fn eventually<T, F>(expected: T, mut look: impl FnMut() -> F) -> Result<()>
where
    T: Debug + PartialEq,
    F: Future<Output = Result<T>>,
{
    let mut ticks = tokio::time::interval(LOOK);
    let mut last = None;
    let wait = async {
        loop {
            ticks.tick().await;
            let found = look().await?;
            if found == expected {
                return Ok(());
            }
            last = Some(found);
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(result) => result,
        Err(_) => panic!("waited for {expected:?}, but still found {last:?}"),
    }
}

/// The outcome of a task.
fn joined<T>(outcome: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    outcome.map_err(|error| Error::unavailable("a task has panicked").because(error))?
}

/// A map value.
fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::M(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Follows all shards of the change feed and tells which keys of a scope have changed.
struct Follower<'a> {
    subject: &'a Subject,
    start: Position,
    positions: BTreeMap<String, Option<Position>>,
}

impl<'a> Follower<'a> {
    /// Follows from the oldest change that is kept.
    fn from_oldest(subject: &'a Subject) -> Self {
        Self { subject, start: Position::Oldest, positions: BTreeMap::new() }
    }

    /// Follows from now on.
    async fn from_now(subject: &'a Subject) -> Result<Self> {
        let mut positions = BTreeMap::new();
        for shard in subject.table.shards().await? {
            let changes = subject.table.changes(&shard.id, &Position::Latest, Duration::ZERO).await?;
            positions.insert(shard.id, changes.next);
        }
        // A shard that appears later has been opened later, so all of it counts.
        Ok(Self { subject, start: Position::Oldest, positions })
    }

    /// What has changed since the last call, in order; waits about `wait` a shard for something.
    async fn read(&mut self, wait: Duration) -> Result<Vec<Key>> {
        let mut keys = Vec::new();
        for shard in self.subject.table.shards().await? {
            let position = self.positions.entry(shard.id.clone()).or_insert_with(|| Some(self.start.clone()));
            let Some(from) = position.clone() else { continue };
            let changes = self.subject.table.changes(&shard.id, &from, wait).await?;
            assert!(!changes.gap, "nothing is old enough to be gone");
            *position = changes.next;
            keys.extend(changes.keys);
        }
        keys.retain(|key| key.pk.starts_with(&self.subject.scope));
        Ok(keys)
    }

    /// What has changed, once there are at least `count` changes.
    async fn read_until(&mut self, count: usize) -> Result<Vec<Key>> {
        let mut keys = Vec::new();
        let wait = async {
            while keys.len() < count {
                keys.extend(self.read(LOOK).await?);
            }
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(result) => result.map(|()| keys),
            Err(_) => panic!("waited for {count} changes, but found only {}", keys.len()),
        }
    }
}
