//! Table that fails, hangs or panics at the choice of a test.

use std::{fmt, sync::Arc};

use event::{Error, ErrorKind, Result};
use table::{Call, Key, Layer, Query, Table};

/// Call to the table.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// Read of an item by its key.
    Get(&'a Key),
    /// Read of a page.
    Query(&'a Query),
    /// Write or check of an item.
    Write(&'a Key),
    /// List of the shards of the stream.
    Shards,
    /// Read of the changes of a shard.
    Changes,
}

/// Fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The table answers.
    Pass,
    /// The call fails, and nothing is written.
    Fail(ErrorKind),
    /// The call never ends.
    Hang,
    /// The call panics.
    Panic,
}

type Hook = Box<dyn Fn(Asked<'_>) -> Turn + Send + Sync>;

/// Table with a hook that each call passes.
pub struct Hooked {
    inner: Arc<dyn Table>,
    hook: Hook,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Hooked {
    /// Wraps `inner`; `hook` decides about each call.
    pub fn new(inner: Arc<dyn Table>, hook: impl Fn(Asked<'_>) -> Turn + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { inner, hook: Box::new(hook) })
    }

    async fn pass(&self, asked: Asked<'_>) -> Result<()> {
        match (self.hook)(asked) {
            Turn::Pass => Ok(()),
            Turn::Fail(kind) => Err(Error::new(kind, "the hook of a test fails this call")),
            Turn::Hang => std::future::pending().await,
            Turn::Panic => panic!("the hook of a test panics"),
        }
    }
}

impl Layer for Hooked {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<()> {
        match call {
            Call::Get(key) => self.pass(Asked::Get(key)).await,
            Call::Query(query) => self.pass(Asked::Query(query)).await,
            Call::Shards => self.pass(Asked::Shards).await,
            Call::Changes => self.pass(Asked::Changes).await,
            _ => {
                for key in call.written() {
                    self.pass(Asked::Write(key)).await?;
                }
                Ok(())
            }
        }
    }
}
