//! What the engine denies to the credentials of this process: said once, counted, and to be asked for.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use event::{Error, Result};
use tokio::time::Instant;

use super::{Answer, Call, Layer, Table};

/// How long a denial stands: what is denied is tried again sooner than that, unless it is mended.
const STANDS: Duration = Duration::from_secs(60);

/// After how long it is said again.
const SAID_AGAIN: Duration = Duration::from_secs(60 * 60);

/// The denials of a table.
#[derive(Debug, Default)]
pub struct Denials {
    count: AtomicU64,
    by_operation: Mutex<BTreeMap<&'static str, Denial>>,
}

#[derive(Debug)]
struct Denial {
    last: Instant,
    said: Instant,
}

impl Denials {
    /// The same table, and what it denies from now on.
    pub fn over(table: Arc<dyn Table>) -> (Arc<dyn Table>, Arc<Self>) {
        let denials = Arc::<Self>::default();
        (Arc::new(Watched { table, denials: Arc::clone(&denials) }), denials)
    }

    /// How many calls were denied.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What was denied within the last minute. Anybody may be told: accounts, roles and items are named in the log alone.
    pub fn lately(&self) -> Option<String> {
        let now = Instant::now();
        let denials = self.by_operation.lock().unwrap_or_else(PoisonError::into_inner);
        let (operation, _) = denials.iter().find(|(_, denial)| now - denial.last < STANDS)?;
        Some(format!(
            "the credentials of this process may not {operation}; its log says on what, once an hour"
        ))
    }

    /// Notes a call that was denied; whether it is to be said.
    fn note(&self, operation: &'static str) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut denials = self.by_operation.lock().unwrap_or_else(PoisonError::into_inner);
        let before = denials.get(operation).filter(|denial| now - denial.said < SAID_AGAIN);
        let said = before.map(|denial| denial.said);
        denials.insert(operation, Denial { last: now, said: said.unwrap_or(now) });
        said.is_none()
    }
}

/// A table whose denials are noted.
#[derive(Debug)]
struct Watched {
    table: Arc<dyn Table>,
    denials: Arc<Denials>,
}

impl Layer for Watched {
    type Kept = &'static str;
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.table
    }

    async fn before(&self, call: Call<'_>) -> Result<&'static str> {
        Ok(call.name())
    }

    fn after(&self, operation: &'static str, answer: Result<Answer<'_>, &Error>) {
        if let Err(error) = answer
            && error.is_denied()
            && self.denials.note(operation)
        {
            tracing::error!(
                operation,
                %error,
                "the credentials of this process lack a right; what needs it is tried again, and this is said once an hour"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_denial_is_said_once_an_hour_and_stands_for_a_minute() {
        let denials = Denials::default();
        assert_eq!(denials.lately(), None);
        assert!(denials.note("put") && !denials.note("put"));
        assert!(denials.note("get"), "of each operation");
        let told = denials.lately().unwrap();
        assert!(told.starts_with("the credentials of this process may not get;"), "{told}");
        tokio::time::advance(STANDS).await;
        assert_eq!(denials.lately(), None, "it was not tried again");
        assert!(!denials.note("put"));
        assert!(denials.lately().is_some());
        tokio::time::advance(SAID_AGAIN).await;
        assert!(denials.note("put"));
        assert_eq!(denials.count(), 5);
    }
}
