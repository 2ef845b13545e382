//! Costs of calls, as reported by DynamoDB.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use meter::{
    Counter,
    catalogue::{DYNAMODB_FAILED, DYNAMODB_RETRIES, DYNAMODB_UNITS},
};

/// Level of reporting in every request.
pub(super) const TOLD: ReturnConsumedCapacity = ReturnConsumedCapacity::Total;

/// Consumed units by operation.
#[derive(Debug)]
pub(super) struct Units {
    pub(super) get: Spent,
    pub(super) query: Spent,
    pub(super) put: Spent,
    pub(super) delete: Spent,
    pub(super) transact: Spent,
}

/// Units of one operation. DynamoDB counts in halves; the remainder is added to the next call.
#[derive(Debug)]
pub(super) struct Spent {
    units: Counter,
    /// Total in hundredths of a unit.
    hundredths: AtomicU64,
}

impl Units {
    pub(super) fn new() -> Self {
        // The counters exist, at 0, before anything fails.
        drop((DYNAMODB_FAILED.counter(["throttled"]), DYNAMODB_RETRIES.counter([])));
        let read = |operation| Spent::new("read", operation);
        let write = |operation| Spent::new("write", operation);
        Self {
            get: read("get"),
            query: read("query"),
            put: write("put"),
            delete: write("delete"),
            transact: write("transact"),
        }
    }
}

impl Spent {
    fn new(mode: &str, operation: &str) -> Self {
        Self { units: DYNAMODB_UNITS.counter([mode, operation]), hundredths: AtomicU64::new(0) }
    }

    /// Counts the capacity that an answer reports.
    pub(super) fn note<'a>(&self, told: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let units: f64 = told.into_iter().filter_map(ConsumedCapacity::capacity_units).sum();
        self.add((units * 100.0).round() as u64);
    }

    fn add(&self, hundredths: u64) {
        let before = self.hundredths.fetch_add(hundredths, Ordering::Relaxed);
        self.units.increment((before + hundredths) / 100 - before / 100);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_units_are_not_lost() {
        let spent = Spent::new("read", "get");
        let half = || ConsumedCapacity::builder().capacity_units(0.5).build();
        spent.note([&half(), &half(), &half()]);
        spent.note(None);
        spent.note(Some(&half()));
        assert_eq!(spent.hundredths.load(Ordering::Relaxed), 200);
    }
}
