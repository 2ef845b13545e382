//! Cache of values that stay valid for some seconds after their read.

use std::{
    borrow::Borrow,
    collections::HashMap,
    convert::Infallible,
    future::Future,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use event::{Result, Timestamp};
use tokio::time::Instant;

/// Maximum number of values kept.
const MAX_KEPT: usize = 10_000;

/// Cache that reads a value again when it is older than some seconds.
#[derive(Debug)]
pub struct Cached<K, V> {
    seconds: i64,
    kept: Mutex<HashMap<K, Kept<V>>>,
}

/// Value, and the time at which its read began: by the wall clock, which may jump, and by a monotonic clock.
#[derive(Debug)]
struct Kept<V> {
    at: Timestamp,
    since: Instant,
    value: V,
}

impl<K: Eq + Hash, V: Clone> Cached<K, V> {
    /// Creates a cache that keeps values for some seconds.
    pub fn new(seconds: i64) -> Self {
        Self { seconds, kept: Mutex::default() }
    }

    /// Returns the value of `key`: the kept one, or else the result of `read`. Failures are not kept.
    ///
    /// # Errors
    /// Errors of `read`.
    pub async fn get(&self, key: K, now: Timestamp, read: impl Future<Output = Result<V>>) -> Result<V> {
        let read = async { read.await.map(Ok::<V, Infallible>) };
        let Ok(value) = self.get_unless_refused(key, now, read).await?;
        Ok(value)
    }

    /// Returns the value of `key` as [`Cached::get`] does, or the refusal of `read`. Refusals are not kept either.
    ///
    /// # Errors
    /// Errors of `read`.
    pub async fn get_unless_refused<R>(
        &self,
        key: K,
        now: Timestamp,
        read: impl Future<Output = Result<Result<V, R>>>,
    ) -> Result<Result<V, R>> {
        if let Some(kept) = self.kept(&key, now) {
            return Ok(Ok(kept));
        }
        // Taken before the read: its result may be as old as its beginning.
        let since = Instant::now();
        let value = match read.await? {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut kept = self.lock();
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, kept| self.is_fresh(kept, now));
        }
        if kept.len() < MAX_KEPT {
            kept.insert(key, Kept { at: now, since, value: value.clone() });
        }
        Ok(Ok(value))
    }

    /// Returns the value of `key`, if it is kept.
    pub fn kept<Q: Eq + Hash + ?Sized>(&self, key: &Q, now: Timestamp) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.lock().get(key).filter(|kept| self.is_fresh(kept, now)).map(|kept| kept.value.clone())
    }

    /// Removes the value of `key`.
    pub fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn is_fresh(&self, kept: &Kept<V>, now: Timestamp) -> bool {
        now.micros().abs_diff(kept.at.micros()) < self.seconds as u64 * 1_000_000
            && kept.since.elapsed() < Duration::from_secs(self.seconds as u64)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, Kept<V>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cached_value_is_reloaded_when_stale() {
        let cached = Cached::new(5);
        let start = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let get = async |seconds, value| {
            cached.get("key", start.plus_seconds(seconds), async move { Ok(value) }).await.unwrap()
        };
        assert_eq!(get(0, 1).await, 1);
        assert_eq!(get(4, 2).await, 1);
        assert_eq!(get(5, 3).await, 3);
        assert_eq!(get(0, 4).await, 4, "a clock that goes back");
    }

    #[tokio::test]
    async fn what_is_refused_is_read_again() {
        let cached = Cached::new(5);
        let get = async |found: Result<u8, &'static str>| {
            cached.get_unless_refused("key", Timestamp::default(), async move { Ok(found) }).await.unwrap()
        };
        assert_eq!(get(Err("not yet")).await, Err("not yet"));
        assert_eq!(get(Ok(1)).await, Ok(1));
        assert_eq!(get(Err("not any more")).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_clock_does_not_extend_cached_values() {
        let cached = Cached::new(5);
        let get =
            async |value| cached.get("key", Timestamp::default(), async move { Ok(value) }).await.unwrap();
        assert_eq!(get(1).await, 1);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(get(2).await, 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(get(3).await, 3);
    }
}
