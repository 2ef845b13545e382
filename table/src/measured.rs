//! A table whose calls are measured, whatever engine it runs on.

use std::sync::Arc;

use event::{Error, ErrorKind, Result};
use meter::{
    Counter, Gauge, Histogram, InFlight,
    catalogue::{TABLE_ERRORS, TABLE_IN_FLIGHT, TABLE_READ_BYTES, TABLE_SECONDS, TABLE_WRITTEN_BYTES},
};
use tokio::time::Instant;

use super::{Answer, Call, Layer, Table};
use crate::Item;

/// A table whose calls are measured: how long they take, how many are under way, how many bytes
/// of items they move, and how they fail.
#[derive(Debug)]
pub struct Measured {
    table: Arc<dyn Table>,
    engine: &'static str,
    get: Operation,
    query: Operation,
    put: Operation,
    put_new: Operation,
    delete: Operation,
    transact: Operation,
    shards: Operation,
    changes: Operation,
    in_flight: Gauge,
    read_bytes: Counter,
    written_bytes: Counter,
}

/// A method of the table, by the name that its metrics have.
#[derive(Clone, Debug)]
struct Operation {
    name: &'static str,
    seconds: Histogram,
}

/// A call that is under way.
#[derive(Debug)]
pub struct Running {
    operation: Operation,
    began: Instant,
    _counted: Option<InFlight>,
}

impl Measured {
    /// The same table, measured under the name of its `engine`.
    pub fn over(table: Arc<dyn Table>, engine: &'static str) -> Arc<dyn Table> {
        let operation = |name| Operation { name, seconds: TABLE_SECONDS.histogram([engine, name]) };
        // So that it is there, at 0, before anything fails.
        drop(TABLE_ERRORS.counter([engine, "put", error_name(ErrorKind::Conflict)]));
        Arc::new(Self {
            table,
            engine,
            get: operation("get"),
            query: operation("query"),
            put: operation("put"),
            put_new: operation("put_new"),
            delete: operation("delete"),
            transact: operation("transact"),
            shards: operation("shards"),
            changes: operation("changes"),
            in_flight: TABLE_IN_FLIGHT.gauge([engine]),
            read_bytes: TABLE_READ_BYTES.counter([engine]),
            written_bytes: TABLE_WRITTEN_BYTES.counter([engine]),
        })
    }

    fn operation(&self, call: Call<'_>) -> &Operation {
        match call {
            Call::Get(_) => &self.get,
            Call::Query(_) => &self.query,
            Call::Put(_) => &self.put,
            Call::PutNew(_) => &self.put_new,
            Call::Delete(_) => &self.delete,
            Call::Transact(_) => &self.transact,
            Call::Shards => &self.shards,
            Call::Changes => &self.changes,
        }
    }
}

impl Layer for Measured {
    type Kept = Running;
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.table
    }

    async fn before(&self, call: Call<'_>) -> Result<Running> {
        let written: usize = call.items().into_iter().map(Item::size).sum();
        if written > 0 {
            self.written_bytes.increment(written as u64);
        }
        // A reader of changes waits for most of its time: it is no load.
        let is_load = !matches!(call, Call::Changes);
        let counted = is_load.then(|| InFlight::begin(&self.in_flight));
        Ok(Running { operation: self.operation(call).clone(), began: Instant::now(), _counted: counted })
    }

    fn after(&self, running: Running, answer: Result<Answer<'_>, &Error>) {
        let Operation { name, seconds } = &running.operation;
        seconds.record(running.began.elapsed());
        match answer {
            Ok(Answer::Item(item)) => self.read_bytes.increment(item.size() as u64),
            Ok(Answer::Page(page)) => {
                self.read_bytes.increment(page.items.iter().map(Item::size).sum::<usize>() as u64);
            }
            Ok(Answer::Changes(_) | Answer::Done) => {}
            // Failures are rare, or at least slow, so their counters are looked up.
            Err(error) => TABLE_ERRORS.counter([self.engine, name, error_name(error.kind())]).increment(1),
        }
    }
}

fn error_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Conflict => "conflict",
        ErrorKind::Stale => "stale",
        ErrorKind::Throttled => "throttled",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Denied => "denied",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Incomplete => "incomplete",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Gone => "gone",
        ErrorKind::TooLarge => "too_large",
    }
}
