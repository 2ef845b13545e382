//! A table on which something happens between two calls of a process, as by another process.

use std::{
    borrow::Cow,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use event::Result;
use table::{Key, Layer, Query, Table};

/// Call of the process.
#[derive(Clone, Debug)]
pub enum Call {
    /// Read of an item.
    Get(Key),
    /// Read of a page.
    Query(Query),
    /// Writes or deletions of items.
    Write(Vec<Key>),
}

impl Call {
    /// Returns whether it writes an item with these endings of its partition and of its sort key.
    pub fn writes(&self, pk: &str, sk: &str) -> bool {
        let Self::Write(keys) = self else { return false };
        keys.iter().any(|key| key.pk.ends_with(pk) && key.sk.ends_with(sk))
    }
}

/// Event between two calls.
pub type Happens = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Event before a call; `None` for nothing.
type Before = Box<dyn FnMut(&Call) -> Option<Happens> + Send>;

/// Table that lets others work before each of its calls.
pub struct Between {
    inner: Arc<dyn Table>,
    before: Mutex<Before>,
    /// Maximum items of a page.
    page: usize,
    /// Maximum bytes of an item.
    item_bytes: usize,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Between {
    /// Wraps `inner`, with an event before each call. The event must not call this table again.
    pub fn new(inner: Arc<dyn Table>, before: impl FnMut(&Call) -> Option<Happens> + Send + 'static) -> Self {
        let item_bytes = inner.item_bytes();
        Self { inner, before: Mutex::new(Box::new(before)), page: usize::MAX, item_bytes }
    }

    /// Limits pages to this number of items.
    pub fn pages_of(self, page: usize) -> Self {
        Self { page, ..self }
    }

    /// Limits items to this number of bytes, so that small contents are large ones.
    pub fn items_of(self, item_bytes: usize) -> Self {
        Self { item_bytes, ..self }
    }
}

impl Layer for Between {
    type Kept = ();
    const ONE_BY_ONE: bool = true;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: table::Call<'_>) -> Result<()> {
        let call = match call {
            table::Call::Get(key) => Call::Get(key.clone()),
            table::Call::Query(query) => Call::Query(query.clone()),
            table::Call::Shards | table::Call::Changes => return Ok(()),
            _ => Call::Write(call.written().into_iter().cloned().collect()),
        };
        let happens = self.before.lock().unwrap_or_else(PoisonError::into_inner)(&call);
        if let Some(happens) = happens {
            happens.await;
        }
        Ok(())
    }

    fn instead<'a>(&self, query: &'a Query) -> Cow<'a, Query> {
        match query.limit.unwrap_or(usize::MAX).min(self.page) {
            usize::MAX => Cow::Borrowed(query),
            limit => Cow::Owned(query.clone().limit(limit)),
        }
    }

    fn item_bytes(&self) -> usize {
        self.item_bytes
    }
}
