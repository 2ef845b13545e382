//! Notes of the use of tokens, written beside the requests: none of them waits for that write.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use event::Timestamp;
use tracing::Instrument;

use crate::{
    token::Digest,
    tokens::{TokenRecord, Tokens},
};

/// Minimum interval between two tries to note the use of a token, in seconds.
const TRIED_EVERY_SECONDS: u64 = 60;

/// Maximum tokens whose tries are remembered; the use of further ones is noted with a later request.
const MAX_TRIED: usize = 10_000;

/// Recorder of the use of tokens.
#[derive(Debug)]
pub(crate) struct Uses {
    tokens: Tokens,
    tried: Mutex<HashMap<Digest, Try>>,
}

/// Try to note the use of a token.
#[derive(Debug)]
struct Try {
    begun_at: Timestamp,
    /// Reference that its task holds until it ends, in any way.
    task: Weak<()>,
}

impl Try {
    /// Returns whether the next try has to wait: for the end of this one, or because it is recent.
    fn stands(&self, now: Timestamp) -> bool {
        let age = now.micros().abs_diff(self.begun_at.micros());
        self.task.strong_count() > 0 || age < TRIED_EVERY_SECONDS * 1_000_000
    }
}

impl Uses {
    /// Makes the recorder for these tokens.
    pub(crate) fn new(tokens: Tokens) -> Self {
        Self { tokens, tried: Mutex::default() }
    }

    /// Notes the use of a token in a task of its own, unless it was noted or tried lately.
    pub(crate) fn note(&self, digest: &Digest, record: &TokenRecord, now: Timestamp) {
        if record.has_use_noted(now) {
            return;
        }
        let Some(task) = self.begin(*digest, now) else { return };
        let (tokens, digest, id) = (self.tokens.clone(), *digest, record.id.clone());
        let noting = async move {
            if let Err(error) = tokens.note_use(&digest, now).await {
                tracing::warn!(%error, token = %id, "the use of a token cannot be noted");
            }
            drop(task);
        };
        tokio::spawn(noting.in_current_span());
    }

    /// Begins a try, which lasts as long as the returned reference is held; `None`, when none may begin.
    fn begin(&self, digest: Digest, now: Timestamp) -> Option<Arc<()>> {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.get(&digest).is_some_and(|last| last.stands(now)) {
            return None;
        }
        if tried.len() >= MAX_TRIED {
            tried.retain(|_, last| last.stands(now));
        }
        if tried.len() >= MAX_TRIED {
            return None;
        }
        let task = Arc::new(());
        tried.insert(digest, Try { begun_at: now, task: Arc::downgrade(&task) });
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use event::Clock;
    use table::sqlite::SqliteTable;

    use super::*;

    #[tokio::test]
    async fn token_use_attempts_are_throttled_then_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("almanac.db"), Clock::system()).unwrap();
        let uses = Uses::new(Tokens::new(Arc::new(table)));
        let digest = |n: usize| {
            let mut digest = Digest::default();
            digest[..8].copy_from_slice(&(n as u64).to_be_bytes());
            digest
        };
        let at = |seconds: i64| Timestamp::default().plus_seconds(seconds);
        for n in 0..MAX_TRIED {
            assert!(uses.begin(digest(n), at(0)).is_some());
        }
        assert!(uses.begin(digest(MAX_TRIED), at(59)).is_none(), "there is no room for more");
        assert!(uses.begin(digest(0), at(59)).is_none(), "it was tried a moment ago");
        let task = uses.begin(digest(0), at(60)).unwrap();
        assert!(uses.begin(digest(0), at(600)).is_none(), "it is under way");
        drop(task);
        assert!(uses.begin(digest(0), at(600)).is_some());
        assert_eq!(uses.tried.lock().unwrap().len(), 1, "what is old is forgotten");
    }
}
