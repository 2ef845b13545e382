//! Conformance suite for every engine of [`table::Table`]. An engine runs the whole suite with the macro
//! [`conformance!`](crate::conformance!), given a function that makes a [`Subject`].
//!
//! The checks assume no more than DynamoDB promises: indexes and the change feed may lag behind the table, the feed may have many
//! shards, equal entries of an index come in any order. Their keys are in a scope of their own, so that they can share one table.

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

/// Maximum time that a check waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between looks.
const LOOK: Duration = Duration::from_millis(10);

/// Clock that stands still until it is moved.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// Makes a clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.micros())))
    }

    /// Clock for an engine.
    pub fn clock(&self) -> Clock {
        let clock = self.clone();
        Clock::from_fn(move || clock.now())
    }

    /// Time of the clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst)).unwrap_or_default()
    }

    /// Second of the clock, as in `expires_at`.
    pub fn seconds(&self) -> i64 {
        self.now().micros().div_euclid(1_000_000)
    }

    /// Moves the clock on.
    pub fn forward(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

/// Table under test.
pub struct Subject {
    /// Table.
    pub table: Arc<dyn Table>,
    /// Clock of the table.
    pub clock: TestClock,
    /// Prefix of the keys of this check among others in one table.
    pub scope: String,
    /// Position in the change feed after which the engine has lost changes.
    pub lost: Position,
    /// Owner that must live as long as the table, such as its folder.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl Subject {
    /// Makes an empty table of an engine.
    pub async fn on(engine: Engine) -> Self {
        let clock = TestClock::new(Timestamp::parse("2096-01-15T12:00:00.5Z").expect("a time"));
        let fresh = engine.fresh(clock.clock()).await;
        let lost = match engine {
            // A position after more changes than there ever were: the file is another one than the reader knew.
            Engine::Sqlite => "1000000000",
            // A position before any read, with a lost iterator.
            Engine::DynamodbLocal => "since:0:lost",
        };
        Self {
            table: Arc::clone(&fresh.engine),
            clock,
            scope: "suite".to_owned(),
            lost: Position::After(lost.to_owned()),
            keep: Box::new(fresh),
        }
    }

    /// Puts another table above it.
    pub fn under(self, wrapped: impl FnOnce(Arc<dyn Table>) -> Arc<dyn Table>) -> Self {
        Self { table: wrapped(self.table), ..self }
    }

    /// Key of `pk` and `sk` in this scope.
    pub fn key(&self, pk: &str, sk: &str) -> Key {
        Key::new(self.pk(pk), sk)
    }

    /// Partition `pk` in this scope.
    pub fn pk(&self, pk: &str) -> String {
        format!("{}/{pk}", self.scope)
    }

    /// Item without attributes.
    pub fn item(&self, pk: &str, sk: &str) -> Item {
        Item::new(self.key(pk, sk))
    }

    /// Query of the whole partition `pk`.
    pub fn partition(&self, pk: &str) -> Query {
        Query::index(Index::Table, self.pk(pk))
    }

    /// Query of a range of the partition `pk`.
    pub fn range(&self, pk: &str, from: &str, to: &str) -> Query {
        Query::table(KeyRange { pk: self.pk(pk), from: from.to_owned(), to: to.to_owned() })
    }
}

/// Requires that `result` is an error of `kind`; returns its text.
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

/// Sort keys of items.
fn sort_keys(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.key.sk.as_str()).collect()
}

/// Looks again and again until `look` gives the expected value.
///
/// # Errors
/// Errors of `look`.
///
/// # Panics
/// A wait that exceeds its time.
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

/// Outcome of a task.
fn joined<T>(outcome: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    outcome.map_err(|error| Error::unavailable("a task has panicked").because(error))?
}

/// Map value.
fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::M(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Follows all shards of the change feed, and reports the changed keys of a scope.
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

    /// Reads the changes since the last call, in order; waits about `wait` for each shard.
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

    /// Reads changes until there are at least `count`.
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
