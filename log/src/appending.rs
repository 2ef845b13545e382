//! Whether this process appends at the moment, so that other work of it can give way.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many batches are on their way into the logs. It is of the process, as its cores are.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// A batch that is on its way into the logs, until it is dropped.
#[derive(Debug)]
pub struct Appending(());

impl Appending {
    /// Says that a batch is on its way.
    pub fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// Whether any batch is on its way.
    pub fn is_any() -> bool {
        UNDER_WAY.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}
