//! Tables that count the DynamoDB costs of writes and reads, above any other engine.
//!
//! [`table::units`] defines the cost of a write. Deleting costs as much as the item; the engines do not return its
//! size, so it counts as one unit.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use event::{Error, Result};
use log::key;
use table::{
    Answer, Call, Item, Key, Layer, Table, Write,
    units::{copies, read_units, write_units},
};

/// Counts writes on their way to another table.
#[derive(Debug)]
pub struct CountingTable {
    inner: Arc<dyn Table>,
    segments: AtomicU64,
    projections: AtomicU64,
    others: AtomicU64,
}

/// Units by the written items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Segments of the log.
    pub segments: u64,
    /// Rollups and evaluations.
    pub projections: u64,
    /// Everything else: markers of batches, counters, the catalog.
    pub others: u64,
}

impl Units {
    /// Returns the total.
    pub fn all(self) -> u64 {
        self.segments + self.projections + self.others
    }
}

fn item_units(item: &Item) -> u64 {
    copies(item) * write_units(item.size())
}

impl CountingTable {
    /// Counts the writes to `inner`.
    pub fn new(inner: Arc<dyn Table>) -> Self {
        Self { inner, segments: AtomicU64::new(0), projections: AtomicU64::new(0), others: AtomicU64::new(0) }
    }

    /// Returns the counts so far. Writes with a failed condition count too, as in DynamoDB.
    pub fn counted(&self) -> Units {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Units {
            segments: count(&self.segments),
            projections: count(&self.projections),
            others: count(&self.others),
        }
    }

    fn count(&self, key: &Key, units: u64) {
        let of = if key::parse_segment(key).is_some() {
            &self.segments
        } else if key::parse_projection(key).is_ok() {
            &self.projections
        } else {
            &self.others
        };
        of.fetch_add(units, Ordering::Relaxed);
    }
}

impl Layer for CountingTable {
    type Kept = ();
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        match call {
            Call::Transact(writes) => {
                for write in writes {
                    let units = if let Write::Put(item, _) = write { item_units(item) } else { 1 };
                    self.count(write.key(), 2 * units);
                }
            }
            Call::Delete(key) => self.count(key, 1),
            _ => call.items().into_iter().for_each(|item| self.count(&item.key, item_units(item))),
        }
        Ok(())
    }
}

/// A table that counts reads.
#[derive(Debug)]
pub struct ReadingTable {
    inner: Arc<dyn Table>,
    bytes: AtomicU64,
    units: AtomicU64,
}

/// Counts of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Number of bytes of items.
    pub bytes: u64,
    /// Number of units on DynamoDB.
    pub units: u64,
}

impl ReadingTable {
    /// Counts the reads of `inner`.
    pub fn new(inner: Arc<dyn Table>) -> Self {
        Self { inner, bytes: AtomicU64::new(0), units: AtomicU64::new(0) }
    }

    /// Returns the counts since the last call.
    pub fn take(&self) -> Read {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Read { bytes: take(&self.bytes), units: take(&self.units) }
    }
}

impl Layer for ReadingTable {
    type Kept = ();
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, _: Call<'_>) -> Result<()> {
        Ok(())
    }

    fn after(&self, (): (), answer: Result<Answer<'_>, &Error>) {
        let bytes = match answer {
            Ok(Answer::Item(item)) => item.size(),
            Ok(Answer::Page(page)) => page.items.iter().map(Item::size).sum(),
            _ => return,
        };
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.units.fetch_add(read_units(bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kilobyte_that_is_begun_costs_a_unit() {
        assert_eq!([0, 1, 1_024, 1_025, 400 * 1_024].map(write_units), [1, 1, 1, 2, 400]);
        let item = Item::new(Key::new("a", "b"));
        assert_eq!(item_units(&item), 1);
        assert_eq!(item_units(&item.with("GSI1PK", "x").with("GSI1SK", "y")), 2);
    }
}
