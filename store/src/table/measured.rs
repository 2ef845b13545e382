//! A table whose calls are measured, whatever engine it runs on.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use meter::{
    Counter, Gauge, Histogram, InFlight,
    catalogue::{TABLE_ERRORS, TABLE_IN_FLIGHT, TABLE_READ_BYTES, TABLE_SECONDS, TABLE_WRITTEN_BYTES},
};
use tokio::time::Instant;

use super::{Changes, Condition, Page, Position, Query, Shard, Table, Write};
use crate::{Error, ErrorKind, Item, Result, Timestamp, key::Key};

/// A table whose calls are measured: how long they take, how many are under way, how many bytes
/// of items they move, and how they fail.
#[derive(Debug)]
pub struct Measured {
    table: Arc<dyn Table>,
    engine: &'static str,
    calls: Calls,
    in_flight: Gauge,
    read_bytes: Counter,
    written_bytes: Counter,
}

/// One operation of the table.
#[derive(Debug)]
struct Call {
    operation: &'static str,
    seconds: Histogram,
}

#[derive(Debug)]
struct Calls {
    get: Call,
    query: Call,
    put: Call,
    put_new: Call,
    delete: Call,
    transact: Call,
    shards: Call,
    changes: Call,
}

impl Measured {
    /// The same table, measured under the name of its `engine`.
    pub fn over(table: Arc<dyn Table>, engine: &'static str) -> Arc<dyn Table> {
        let call = |operation| Call { operation, seconds: TABLE_SECONDS.histogram([engine, operation]) };
        // So that it is there, at 0, before anything fails.
        drop(TABLE_ERRORS.counter([engine, "put", error_name(ErrorKind::Conflict)]));
        Arc::new(Self {
            table,
            engine,
            calls: Calls {
                get: call("get"),
                query: call("query"),
                put: call("put"),
                put_new: call("put_new"),
                delete: call("delete"),
                transact: call("transact"),
                shards: call("shards"),
                changes: call("changes"),
            },
            in_flight: TABLE_IN_FLIGHT.gauge([engine]),
            read_bytes: TABLE_READ_BYTES.counter([engine]),
            written_bytes: TABLE_WRITTEN_BYTES.counter([engine]),
        })
    }

    async fn measure<T>(&self, call: &Call, made: impl Future<Output = Result<T>>) -> Result<T> {
        let _under_way = InFlight::begin(&self.in_flight);
        let began = Instant::now();
        let result = made.await;
        call.seconds.record(began.elapsed());
        if let Err(error) = &result {
            self.note(call, error);
        }
        result
    }

    /// Failures are rare, or at least slow, so their counters are looked up.
    fn note(&self, call: &Call, error: &Error) {
        TABLE_ERRORS.counter([self.engine, call.operation, error_name(error.kind())]).increment(1);
    }

    fn writes(&self, items: impl IntoIterator<Item = usize>) {
        self.written_bytes.increment(items.into_iter().sum::<usize>() as u64);
    }
}

fn error_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Conflict => "conflict",
        ErrorKind::Stale => "stale",
        ErrorKind::Throttled => "throttled",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Incomplete => "incomplete",
        ErrorKind::NotFound => "not_found",
        ErrorKind::TooLarge => "too_large",
    }
}

#[async_trait]
impl Table for Measured {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        let item = self.measure(&self.calls.get, self.table.get(key)).await?;
        self.read_bytes.increment(item.as_ref().map_or(0, Item::size) as u64);
        Ok(item)
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        let page = self.measure(&self.calls.query, self.table.query(query)).await?;
        self.read_bytes.increment(page.items.iter().map(Item::size).sum::<usize>() as u64);
        Ok(page)
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.writes([item.size()]);
        self.measure(&self.calls.put, self.table.put(item, condition)).await
    }

    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        self.writes(items.iter().map(Item::size));
        let _under_way = InFlight::begin(&self.in_flight);
        let began = Instant::now();
        let (written, result) = self.table.put_new(items, within).await;
        self.calls.put_new.seconds.record(began.elapsed());
        if let Err(error) = &result {
            self.note(&self.calls.put_new, error);
        }
        (written, result)
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.measure(&self.calls.delete, self.table.delete(key, condition)).await
    }

    fn transactions(&self) -> bool {
        self.table.transactions()
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        let size = |write: &Write| if let Write::Put(item, _) = write { item.size() } else { 0 };
        self.writes(writes.iter().map(size));
        self.measure(&self.calls.transact, self.table.transact(writes)).await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.table.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.measure(&self.calls.shards, self.table.shards()).await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        let began = Instant::now();
        let result = self.table.changes(shard, from, wait).await;
        self.calls.changes.seconds.record(began.elapsed());
        if let Err(error) = &result {
            self.note(&self.calls.changes, error);
        }
        result
    }
}
