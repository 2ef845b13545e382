//! A table as a process sees it that dies between two of its writes.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use event::{Error, Result};
use table::{Call, Layer, Table};

/// A table that makes so many writes and answers nothing any more.
#[derive(Debug)]
pub struct Crashing {
    inner: Arc<dyn Table>,
    left: AtomicI64,
}

impl Crashing {
    /// `inner`, for `writes` writes.
    pub fn new(inner: Arc<dyn Table>, writes: u32) -> Self {
        Self { inner, left: AtomicI64::new(writes.into()) }
    }

    /// Whether there was one write too many.
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
