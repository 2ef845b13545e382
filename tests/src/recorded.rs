//! An engine that notes the calls that DynamoDB would get, to compare them with the rights of a role.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use event::Result;
use table::{Call as Asked, Index, Key, Layer, Table, Write};

/// Resource of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// Table.
    Table,
    /// Index of this name.
    Index(&'static str),
    /// Change feed.
    Stream,
}

/// Call of DynamoDB or of its streams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Action in IAM's terms, without the service: `PutItem`.
    pub action: &'static str,
    /// Resource of the call.
    pub on: On,
    /// Partition key of the item, or of the query in its index; `None` for calls about the whole.
    pub partition: Option<String>,
}

/// Writes of one transaction: the action and the partition key of each. IAM may judge each by all of their keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transaction {
    /// Actions in IAM's terms.
    pub actions: BTreeSet<&'static str>,
    /// Partition keys.
    pub partitions: BTreeSet<String>,
}

/// Table that passes every call on, and notes the calls that the DynamoDB engine makes for it.
#[derive(Debug)]
pub struct Recorded {
    inner: Arc<dyn Table>,
    calls: Mutex<BTreeSet<Call>>,
    transactions: Mutex<BTreeSet<Transaction>>,
}

impl Recorded {
    /// Wraps `inner`. The calls by which the engine connects are noted at once.
    pub fn new(inner: Arc<dyn Table>) -> Arc<Self> {
        let recorded = Self { inner, calls: Mutex::default(), transactions: Mutex::default() };
        recorded.note("DescribeTable", On::Table, None);
        recorded.note("DescribeTimeToLive", On::Table, None);
        Arc::new(recorded)
    }

    /// All different calls so far.
    pub fn calls(&self) -> BTreeSet<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All different transactions so far, with more than one write.
    pub fn transactions(&self) -> BTreeSet<Transaction> {
        self.transactions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_whole(&self, writes: &[Write]) {
        if writes.len() > 1 {
            let (actions, partitions) =
                writes.iter().map(|write| (action_of(write), write.key().pk.clone())).unzip();
            let mut all = self.transactions.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(Transaction { actions, partitions });
        }
    }

    fn note(&self, action: &'static str, on: On, partition: Option<&str>) {
        let call = Call { action, on, partition: partition.map(str::to_owned) };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
    }

    fn note_item(&self, action: &'static str, key: &Key) {
        self.note(action, On::Table, Some(&key.pk));
    }

    /// IAM has no action for a transaction, only for its parts.
    fn note_write(&self, write: &Write) {
        if matches!(write, Write::Add(..) | Write::Update(_)) {
            // An item is read before it is changed.
            self.note_item("GetItem", write.key());
        }
        self.note_item(action_of(write), write.key());
    }
}

/// Action of a write in IAM's terms.
fn action_of(write: &Write) -> &'static str {
    match write {
        Write::Put(..) => "PutItem",
        Write::Delete(..) => "DeleteItem",
        Write::Check(..) => "ConditionCheckItem",
        Write::Add(..) | Write::Update(_) => "UpdateItem",
    }
}

impl Layer for Recorded {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Asked<'_>) -> Result<()> {
        match call {
            Asked::Get(key) => self.note_item("GetItem", key),
            Asked::Query(query) => {
                let on = match query.index {
                    Index::Table => On::Table,
                    Index::Gsi1 => On::Index("GSI1"),
                    Index::Board => On::Index("board"),
                };
                self.note("Query", on, Some(&query.range.pk));
            }
            Asked::Put(_) | Asked::PutNew(_) => {
                for key in call.written() {
                    self.note_item("PutItem", key);
                    // A write without an answer is settled by a read.
                    self.note_item("GetItem", key);
                }
            }
            Asked::Delete(key) => {
                self.note_item("DeleteItem", key);
                self.note_item("GetItem", key);
            }
            Asked::Transact(writes) => {
                self.note_whole(writes);
                writes.iter().for_each(|write| self.note_write(write));
            }
            Asked::Shards => {
                self.note("DescribeTable", On::Table, None);
                self.note("DescribeStream", On::Stream, None);
            }
            Asked::Changes => {
                self.note("GetShardIterator", On::Stream, None);
                self.note("GetRecords", On::Stream, None);
            }
        }
        Ok(())
    }
}
