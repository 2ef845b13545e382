//! Measurements of the calls of an engine: duration, number under way, bytes of items, failures, and what the engine denies to the
//! credentials of this process.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use event::{Error, ErrorKind, Result};
use meter::{
    Counter, Gauge, Histogram, InFlight,
    catalogue::{TABLE_ERRORS, TABLE_IN_FLIGHT, TABLE_READ_BYTES, TABLE_SECONDS, TABLE_WRITTEN_BYTES},
};
use table::{Answer, Call, Item};
use tokio::time::Instant;

/// Measurements of the calls of an engine.
#[derive(Debug, Default)]
pub(super) struct Calls {
    meters: Option<Meters>,
    pub(super) denials: Arc<Denials>,
    failed_writes: AtomicU64,
}

/// Meters of the calls.
#[derive(Debug)]
struct Meters {
    engine: &'static str,
    seconds: BTreeMap<&'static str, Histogram>,
    in_flight: Gauge,
    read_bytes: Counter,
    written_bytes: Counter,
}

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Running<'a> {
    calls: &'a Calls,
    operation: &'static str,
    writes: bool,
    began: Instant,
    _counted: Option<InFlight>,
}

impl Calls {
    /// Makes measurements with meters, labelled with the name of the engine.
    pub(super) fn measured(engine: &'static str) -> Self {
        // So that it is there, at 0, before anything fails.
        drop(TABLE_ERRORS.counter([engine, "put", error_name(ErrorKind::Conflict)]));
        let meters = Meters {
            engine,
            seconds: Call::NAMES.map(|name| (name, TABLE_SECONDS.histogram([engine, name]))).into(),
            in_flight: TABLE_IN_FLIGHT.gauge([engine]),
            read_bytes: TABLE_READ_BYTES.counter([engine]),
            written_bytes: TABLE_WRITTEN_BYTES.counter([engine]),
        };
        Self { meters: Some(meters), ..Self::default() }
    }

    /// Returns the number of writes that failed because the engine was unreachable or could not write.
    pub(super) fn failed_writes(&self) -> u64 {
        self.failed_writes.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self, call: Call<'_>) -> Running<'_> {
        let counted = self.meters.as_ref().and_then(|meters| {
            let written: usize = call.items().into_iter().map(Item::size).sum();
            if written > 0 {
                meters.written_bytes.increment(written as u64);
            }
            // A reader of changes waits for most of its time: it is no load.
            (!matches!(call, Call::Changes)).then(|| InFlight::begin(&meters.in_flight))
        });
        let writes = !call.written().is_empty();
        Running { calls: self, operation: call.name(), writes, began: Instant::now(), _counted: counted }
    }
}

impl Running<'_> {
    pub(super) fn end(self, answer: Result<Answer<'_>, &Error>) {
        let Self { calls, operation, writes, began, .. } = self;
        if let Some(meters) = &calls.meters {
            meters.end(operation, began, answer);
        }
        let Err(error) = answer else { return };
        if writes && error.kind() == ErrorKind::Unavailable {
            calls.failed_writes.fetch_add(1, Ordering::Relaxed);
        }
        if error.is_denied() && calls.denials.note(operation) {
            tracing::error!(
                operation,
                %error,
                "the credentials of this process lack a right; what needs it is tried again, and this is said once an hour"
            );
        }
    }
}

impl Meters {
    fn end(&self, operation: &'static str, began: Instant, answer: Result<Answer<'_>, &Error>) {
        if let Some(seconds) = self.seconds.get(operation) {
            seconds.record(began.elapsed());
        }
        match answer {
            Ok(Answer::Item(item)) => self.read_bytes.increment(item.size() as u64),
            Ok(Answer::Page(page)) => {
                self.read_bytes.increment(page.items.iter().map(Item::size).sum::<usize>() as u64);
            }
            Ok(Answer::Changes(_) | Answer::Done) => {}
            // Failures are rare, or at least slow, so their counters are looked up.
            Err(error) => {
                TABLE_ERRORS.counter([self.engine, operation, error_name(error.kind())]).increment(1);
            }
        }
    }
}

fn error_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Conflict => "conflict",
        ErrorKind::Stale => "stale",
        ErrorKind::Throttled => "throttled",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Busy => "busy",
        ErrorKind::Denied => "denied",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Incomplete => "incomplete",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Gone => "gone",
        ErrorKind::TooLarge => "too_large",
    }
}

/// Time for which a denial stands. Denied work is retried sooner than that.
const STANDS: Duration = Duration::from_secs(60);

/// Time after which a denial is logged again.
const SAID_AGAIN: Duration = Duration::from_secs(60 * 60);

/// The denials of an engine: each is said once an hour, counted, and to be asked for.
#[derive(Debug, Default)]
pub struct Denials {
    count: AtomicU64,
    by_operation: Mutex<BTreeMap<&'static str, Denial>>,
}

#[derive(Debug)]
struct Denial {
    last: Instant,
    said: Instant,
}

impl Denials {
    /// Returns the number of denied calls.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns an operation that was denied within the last minute. The text is public: it names no account, role or item.
    pub fn lately(&self) -> Option<String> {
        let now = Instant::now();
        let denials = self.by_operation.lock().unwrap_or_else(PoisonError::into_inner);
        let (operation, _) = denials.iter().find(|(_, denial)| now - denial.last < STANDS)?;
        Some(format!(
            "the credentials of this process may not {operation}; its log says on what, once an hour"
        ))
    }

    /// Notes a denied call. Returns true if it is to be logged.
    fn note(&self, operation: &'static str) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut denials = self.by_operation.lock().unwrap_or_else(PoisonError::into_inner);
        let before = denials.get(operation).filter(|denial| now - denial.said < SAID_AGAIN);
        let said = before.map(|denial| denial.said);
        denials.insert(operation, Denial { last: now, said: said.unwrap_or(now) });
        said.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn denial_is_reported_hourly_and_lasts_a_minute() {
        let denials = Denials::default();
        assert_eq!(denials.lately(), None);
        assert!(denials.note("put") && !denials.note("put"));
        assert!(denials.note("get"), "of each operation");
        let told = denials.lately().unwrap();
        assert!(told.starts_with("the credentials of this process may not get;"), "{told}");
        tokio::time::advance(STANDS).await;
        assert_eq!(denials.lately(), None, "it was not tried again");
        assert!(!denials.note("put"));
        assert!(denials.lately().is_some());
        tokio::time::advance(SAID_AGAIN).await;
        assert!(denials.note("put"));
        assert_eq!(denials.count(), 5);
    }
}
