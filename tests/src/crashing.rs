//! A table for a process that dies between two of its writes.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use event::{Error, Result};
use table::{Call, Layer, Table};

/// Table that makes a limited number of writes and then answers nothing any more.
#[derive(Debug)]
pub struct Crashing {
    inner: Arc<dyn Table>,
    left: AtomicI64,
}

impl Crashing {
    /// Wraps `inner`, for `writes` writes.
    pub fn new(inner: Arc<dyn Table>, writes: u32) -> Self {
        Self { inner, left: AtomicI64::new(writes.into()) }
    }

    /// Returns whether there was one write too many.
    pub fn is_dead(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

impl Layer for Crashing {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        match call {
            Call::Get(_) | Call::Query(_) | Call::Shards | Call::Changes => {}
            Call::Put(_) | Call::PutNew(_) | Call::Delete(_) | Call::Transact(_) => {
                self.left.fetch_sub(1, Ordering::SeqCst);
            }
        }
        if self.is_dead() { Err(Error::unavailable("the process is dead")) } else { Ok(()) }
    }
}
