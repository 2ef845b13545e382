//! Count of the present appends of this process, so that its other work can give way.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of batches on their way into the logs. It belongs to the process, as its cores do.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Batch on its way into the logs, until it is dropped.
#[derive(Debug)]
pub struct Appending(());

impl Appending {
    /// Counts a batch that is on its way.
    pub fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// Returns whether any batch is on its way.
    pub fn is_any() -> bool {
        UNDER_WAY.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}
