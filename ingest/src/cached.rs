//! What was read a moment ago and may be taken for true a little longer.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use store::{Result, Timestamp};

/// The most values that are kept.
const MAX_KEPT: usize = 10_000;

/// Values that are read again when they are older than some seconds.
#[derive(Debug)]
pub(crate) struct Cached<K, V> {
    seconds: i64,
    kept: Mutex<HashMap<K, (Timestamp, V)>>,
}

impl<K: Eq + Hash, V: Clone> Cached<K, V> {
    pub(crate) fn new(seconds: i64) -> Self {
        Self { seconds, kept: Mutex::default() }
    }

    /// The value of `key`: the one that is kept, or what `read` gives. Failures are not kept.
    pub(crate) async fn get(
        &self,
        key: K,
        now: Timestamp,
        read: impl Future<Output = Result<V>>,
    ) -> Result<V> {
        let is_fresh = |at: Timestamp| now.micros().abs_diff(at.micros()) < self.seconds as u64 * 1_000_000;
        if let Some((at, value)) = self.lock().get(&key)
            && is_fresh(*at)
        {
            return Ok(value.clone());
        }
        let value = read.await?;
        let mut kept = self.lock();
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, (at, _)| is_fresh(*at));
        }
        if kept.len() < MAX_KEPT {
            kept.insert(key, (now, value.clone()));
        }
        Ok(value)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, (Timestamp, V)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_is_read_again_when_it_is_old() {
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
}
