//! Positions in a shard, and the iterators at them.
//!
//! A position is the sequence number of the last change that was read. A reader that has seen none yet has no such
//! number, and beginning again at `LATEST` would lose the changes between two calls. So it is given a name under
//! which its iterator is kept; and if that is lost (with the process, or after 15 minutes), reading continues from
//! the oldest change, which repeats changes but loses none as long as the stream still has all of them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use event::{Error, Id, Result, Timestamp};
use table::Position;
use tokio::time::Instant;

/// Time for which an iterator is kept. DynamoDB drops them after 15 minutes.
const ITERATOR_LIFE: Duration = Duration::from_secs(14 * 60);

/// Maximum number of iterators kept of one shard. They only save calls, and never change the result.
const MAX_ITERATORS: usize = 16;

/// Time for which the stream certainly has all changes: 24 hours, less an hour for clock differences.
const KEPT_SECONDS: i64 = 23 * 60 * 60;

/// Prefix of the name of a position without a sequence number.
const SINCE: &str = "since";

/// Meaning of a position without an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Oldest available change.
    Oldest,
    /// Changes from now on.
    Latest,
    /// Changes after this sequence number.
    After(String),
    /// All changes since this second, none of which has been read.
    Since(i64),
}

impl Start {
    /// Parses a position.
    ///
    /// # Errors
    /// `Invalid` if it is not one in a DynamoDB stream.
    pub(super) fn of(position: &Position) -> Result<Self> {
        let text = match position {
            Position::Oldest => return Ok(Start::Oldest),
            Position::Latest => return Ok(Start::Latest),
            Position::After(text) => text,
        };
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Start::After(text.clone()));
        }
        let mut parts = text.split(':');
        match (
            parts.next(),
            parts.next().and_then(|seconds| seconds.parse().ok()),
            parts.next(),
            parts.next(),
        ) {
            (Some(SINCE), Some(seconds), Some(_), None) => Ok(Start::Since(seconds)),
            _ => {
                Err(Error::invalid(format!("`{text}` is not a position in the changes of a DynamoDB stream")))
            }
        }
    }

    /// Returns whether changes may be lost if reading continues from the oldest one instead.
    pub(super) fn may_have_lost(&self, now: Timestamp) -> bool {
        match self {
            Start::Oldest | Start::Latest => false,
            Start::After(_) => true,
            Start::Since(seconds) => {
                now.micros().div_euclid(1_000_000).saturating_sub(*seconds) > KEPT_SECONDS
            }
        }
    }
}

/// Returns a position before which nothing was read. If its iterator is lost, changes may be gone.
pub(super) fn unread(now: Timestamp) -> Position {
    since(0, now)
}

/// Returns the position `now`. If its iterator is lost, the oldest changes are older than it, for a day.
pub(super) fn from_now(now: Timestamp) -> Position {
    since(now.micros().div_euclid(1_000_000), now)
}

/// Returns a unique position: the id distinguishes positions of one second, in this process and in others, because
/// each has an iterator of its own.
fn since(seconds: i64, now: Timestamp) -> Position {
    Position::After(format!("{SINCE}:{seconds}:{}", Id::new(now)))
}

/// Iterators by shard and position.
#[derive(Debug, Default)]
pub(super) struct Iterators(Mutex<HashMap<String, VecDeque<Kept>>>);

#[derive(Debug)]
struct Kept {
    position: Position,
    iterator: String,
    until: Instant,
}

impl Iterators {
    /// Returns the iterator at a position. It is kept: others may begin there too.
    pub(super) fn get(&self, shard: &str, position: &Position) -> Option<String> {
        let shards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = shards.get(shard)?.iter().find(|kept| kept.position == *position)?;
        (kept.until > Instant::now()).then(|| kept.iterator.clone())
    }

    /// Keeps an iterator, replacing the previous one at this position.
    pub(super) fn keep(&self, shard: &str, position: &Position, iterator: String) {
        let now = Instant::now();
        let mut shards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Shards that are not read any more are removed.
        shards.retain(|_, all| all.back().is_some_and(|newest| newest.until > now));
        let all = shards.entry(shard.to_owned()).or_default();
        all.retain(|kept| kept.position != *position && kept.until > now);
        if all.len() >= MAX_ITERATORS {
            all.pop_front();
        }
        all.push_back(Kept { position: position.clone(), iterator, until: now + ITERATOR_LIFE });
    }

    /// Removes the iterators of a shard that has ended.
    pub(super) fn forget(&self, shard: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::parse("2026-01-15T12:00:00Z").unwrap()
    }

    #[test]
    fn positions_are_read_back() {
        let sequence = "000000000000000000001".to_owned();
        assert_eq!(Start::of(&Position::After(sequence.clone())).unwrap(), Start::After(sequence));
        assert_eq!(Start::of(&unread(now())).unwrap(), Start::Since(0));
        assert_eq!(Start::of(&from_now(now())).unwrap(), Start::Since(now().micros() / 1_000_000));
        for wrong in ["", "shardId-1", "since:x:y", "since:1", "-5", "since:1:a:b"] {
            assert!(Start::of(&Position::After(wrong.into())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn position_older_than_stream_retention_may_lose_changes() {
        let since = Start::of(&from_now(now())).unwrap();
        assert!(!since.may_have_lost(now().plus_seconds(22 * 60 * 60)));
        assert!(since.may_have_lost(now().plus_seconds(24 * 60 * 60)));
        assert!(Start::of(&unread(now())).unwrap().may_have_lost(now()), "what was unread may have been old");
        assert!(!Start::Oldest.may_have_lost(now()));
    }

    #[test]
    fn positions_of_one_instant_have_separate_iterators() {
        let iterators = Iterators::default();
        let (a, b) = (from_now(now()), from_now(now()));
        assert_ne!(a, b);
        iterators.keep("s", &a, "1".into());
        iterators.keep("s", &b, "2".into());
        iterators.keep("s", &b, "3".into());
        assert_eq!(iterators.get("s", &a).as_deref(), Some("1"));
        assert_eq!(iterators.get("s", &b).as_deref(), Some("3"));
        assert_eq!(iterators.get("other", &a), None);
        iterators.forget("s");
        assert_eq!(iterators.get("s", &a), None);
    }

    #[test]
    fn iterators_are_bounded() {
        let iterators = Iterators::default();
        let positions: Vec<_> = (0..=MAX_ITERATORS).map(|_| from_now(now())).collect();
        positions.iter().for_each(|position| iterators.keep("s", position, "i".into()));
        assert_eq!(iterators.get("s", &positions[0]), None);
        assert!(positions[1..].iter().all(|position| iterators.get("s", position).is_some()));
    }
}
