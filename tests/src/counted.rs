//! Table that counts its calls.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use event::{Error, Result};
use table::{Answer, Call, Layer, Table};

/// Counts of reads of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Items read by their keys.
    pub gets: u64,
    /// Pages of queries. The trait has no scan, so there can be none.
    pub queries: u64,
    /// Items that the queries returned.
    pub items: u64,
}

/// Table that counts reads and writes, and passes them on.
#[derive(Debug)]
pub struct Counted {
    inner: Arc<dyn Table>,
    gets: AtomicU64,
    queries: AtomicU64,
    items: AtomicU64,
    writes: AtomicU64,
}

impl Counted {
    /// Counts the calls of `inner`.
    pub fn new(inner: Arc<dyn Table>) -> Self {
        let zero = AtomicU64::default;
        Self { inner, gets: zero(), queries: zero(), items: zero(), writes: zero() }
    }

    /// Returns the reads since the last call.
    pub fn take_reads(&self) -> Reads {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Reads { gets: take(&self.gets), queries: take(&self.queries), items: take(&self.items) }
    }

    /// Number of items put, deleted, or written by transactions since the last call.
    pub fn take_writes(&self) -> u64 {
        self.writes.swap(0, Ordering::Relaxed)
    }
}

impl Layer for Counted {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        let (count, by) = match call {
            Call::Get(_) => (&self.gets, 1),
            Call::Query(_) => (&self.queries, 1),
            _ => (&self.writes, call.written().len()),
        };
        count.fetch_add(by as u64, Ordering::Relaxed);
        Ok(())
    }

    fn after(&self, (): (), answer: Result<Answer<'_>, &Error>) {
        if let Ok(Answer::Page(page)) = answer {
            self.items.fetch_add(page.items.len() as u64, Ordering::Relaxed);
        }
    }
}
