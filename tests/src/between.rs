//! A table on which something happens between two calls of a process: what another process does meanwhile.

use std::{
    borrow::Cow,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use event::Result;
use table::{Key, Layer, Query, Table};

/// A call of the process.
#[derive(Clone, Debug)]
pub enum Call {
    /// An item is read.
    Get(Key),
    /// A page is read.
    Query(Query),
    /// Items are written, or deleted.
    Write(Vec<Key>),
}

impl Call {
    /// Whether it writes an item whose sort key ends so, in a partition that ends so.
    pub fn writes(&self, pk: &str, sk: &str) -> bool {
        let Self::Write(keys) = self else { return false };
        keys.iter().any(|key| key.pk.ends_with(pk) && key.sk.ends_with(sk))
    }
}

/// What happens meanwhile.
pub type Happens = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What happens before a call is made; `None` for nothing.
type Before = Box<dyn FnMut(&Call) -> Option<Happens> + Send>;

/// A table that lets others work before each of its calls.
pub struct Between {
    inner: Arc<dyn Table>,
    before: Mutex<Before>,
    /// The most items in a page.
    page: usize,
    /// The most bytes in an item.
    item_bytes: usize,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Between {
    /// `inner`, and what happens before each call. That must not call this table again.
    pub fn new(inner: Arc<dyn Table>, before: impl FnMut(&Call) -> Option<Happens> + Send + 'static) -> Self {
        let item_bytes = inner.item_bytes();
        Self { inner, before: Mutex::new(Box::new(before)), page: usize::MAX, item_bytes }
    }

    /// The same with pages of at most so many items.
    pub fn pages_of(self, page: usize) -> Self {
        Self { page, ..self }
    }

    /// The same with items of at most so many bytes, so that little is much.
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
