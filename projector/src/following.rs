//! Followed shard: its lease, and its progress from reading to writing.

use std::{collections::VecDeque, sync::Mutex, time::Duration};

use event::Timestamp;
use table::{Position, Table};
use tokio::time::Instant;

use crate::{lease::Lease, lock, schedule::Schedule, shared::waits};

/// Minimum time between two checkpoints.
pub(crate) const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// Minimum time between two checkpoints if only the worker's own writes came since: often enough that the feed still has the
/// changes after it.
const IDLE_CHECKPOINT_EVERY: Duration = Duration::from_secs(60 * 60);

/// Maximum positions that wait for their marks. Beyond, several are joined into one.
const MAX_CANDIDATES: usize = 64;

/// Position up to which everything is written once its mark is settled.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Next position to read; `None` at the end of the shard.
    next: Option<Position>,
    /// Next position, or at the end of the shard the last one before it.
    last: Option<Position>,
    mark: u64,
    /// True if anything but the worker's own writes was read before it.
    is_news: bool,
    since: Instant,
}

#[derive(Debug, Default)]
struct Progress {
    waiting: VecDeque<Candidate>,
    /// Last candidate that is settled and not written into the lease.
    settled: Option<Candidate>,
    written_at: Option<Instant>,
}

/// Followed shard.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) shard: String,
    lease: Mutex<Option<Lease>>,
    progress: Mutex<Progress>,
    /// Instant of the last answer of the feed, or of the beginning.
    answered: Mutex<Instant>,
}

impl Following {
    pub(crate) fn new(shard: &str, lease: Option<&Lease>) -> Self {
        let lease = Mutex::new(lease.cloned());
        Self {
            shard: shard.to_owned(),
            lease,
            progress: Mutex::default(),
            answered: Mutex::new(Instant::now()),
        }
    }

    /// Records an answer of the feed.
    pub(crate) fn answered(&self) {
        *lock(&self.answered) = Instant::now();
    }

    /// Time since the last answer of the feed.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*lock(&self.answered))
    }

    /// Returns whether it is read under a lease.
    pub(crate) fn has_lease(&self) -> bool {
        lock(&self.lease).is_some()
    }

    /// Returns whether it is read under this lease, or without one when `None`. Another epoch is another lease: its checkpoint
    /// may be past the position read without it. So is one of another stream: the lease of the sweep is taken under a stand-in
    /// name while the shards cannot be listed.
    pub(crate) fn is_under(&self, found: Option<&Lease>) -> bool {
        let of = |lease: &Lease| (lease.stream.clone(), lease.epoch);
        lock(&self.lease).as_ref().map(of) == found.map(of)
    }

    /// Time for which changes have waited for the checkpoint to move past them.
    pub(crate) fn waits_since(&self, now: Instant) -> Duration {
        let progress = lock(&self.progress);
        let waiting = progress.settled.iter().chain(&progress.waiting).filter(|one| one.is_news);
        waiting.map(|one| now - one.since).max().unwrap_or_default()
    }

    /// Adds a position up to which everything is written once `mark` is settled.
    pub(crate) fn add(&self, next: Option<Position>, mark: u64, is_news: bool) {
        let mut progress = lock(&self.progress);
        let mut new = Candidate { last: next.clone(), next, mark, is_news, since: Instant::now() };
        if progress.waiting.len() >= MAX_CANDIDATES
            && let Some(last) = progress.waiting.pop_back()
        {
            let is_news = new.is_news || last.is_news;
            new = Candidate { last: new.last.or(last.last), is_news, since: last.since, ..new };
        }
        progress.waiting.push_back(new);
    }

    /// Takes the candidate to which the lease should be moved, if there is one.
    pub(crate) fn due(&self, schedule: &Schedule, is_last: bool) -> Option<Candidate> {
        let mut progress = lock(&self.progress);
        while progress.waiting.front().is_some_and(|one| schedule.is_settled(one.mark)) {
            let next = progress.waiting.pop_front()?;
            let before = progress.settled.take();
            let is_news = next.is_news || before.as_ref().is_some_and(|before| before.is_news);
            let since = before.as_ref().map_or(next.since, |before| before.since);
            // A candidate that was tried before may be written already, with only its answer lost.
            let last = next.last.clone().or_else(|| before.and_then(|before| before.last));
            progress.settled = Some(Candidate { last, is_news, since, ..next });
        }
        let settled = progress.settled.clone()?;
        let every = if settled.is_news { CHECKPOINT_EVERY } else { IDLE_CHECKPOINT_EVERY };
        let is_time = progress.written_at.is_none_or(|at| at.elapsed() >= every);
        (is_last || is_time || settled.next.is_none()).then_some(settled)
    }

    /// Writes a checkpoint into the lease.
    pub(crate) async fn move_to(&self, candidate: &Candidate, table: &dyn Table, now: Timestamp) -> Moved {
        let is_done = candidate.next.is_none();
        let Some(lease) = lock(&self.lease).clone() else { return Moved::To { is_done } };
        let checkpoint = candidate.last.clone().or_else(|| lease.checkpoint.clone());
        let moved = Lease { checkpoint, is_done, ..lease };
        match moved.write(table, moved.epoch, now).await {
            Ok(()) => {
                self.written(candidate, Some(moved));
                Moved::To { is_done }
            }
            Err(error) if error.is_conflict() => {
                tracing::debug!(shard = self.shard, "the lease is another worker's now");
                self.written(candidate, None);
                Moved::Lost
            }
            Err(error) => {
                waits(&error, &self.shard, "the checkpoint is not written; trying again");
                Moved::Not
            }
        }
    }

    fn written(&self, candidate: &Candidate, lease: Option<Lease>) {
        *lock(&self.lease) = lease;
        let mut progress = lock(&self.progress);
        progress.written_at = Some(Instant::now());
        if progress.settled.as_ref().is_some_and(|settled| settled.mark == candidate.mark) {
            progress.settled = None;
        }
    }

    /// Returns whether a position waits to be written.
    pub(crate) fn is_waiting(&self) -> bool {
        let progress = lock(&self.progress);
        progress.settled.is_some() || !progress.waiting.is_empty()
    }

    /// Gives the lease back, with the last checkpoint, if there is one that is not written yet.
    pub(crate) async fn hand_over(&self, last: Option<Candidate>, table: &dyn Table, now: Timestamp) {
        let Some(lease) = lock(&self.lease).take() else { return };
        let mut passed = lease.passed_to(None);
        if let Some(last) = last {
            passed.is_done = last.next.is_none();
            passed.checkpoint = last.last.or(passed.checkpoint);
        }
        if let Err(error) = passed.write(table, lease.epoch, now).await {
            tracing::debug!(shard = self.shard, %error, "the lease is not given back; it will be taken");
        }
    }
}

/// Result of writing a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Written, or there is no lease to write it into. Then the shard may be finished.
    To { is_done: bool },
    /// Not written; it will be tried again.
    Not,
    /// Lost, because another worker has the lease.
    Lost,
}

#[cfg(test)]
mod tests {
    use table::Shard;

    use super::*;
    use crate::lease::SWEEP;

    #[test]
    fn a_lease_of_another_stream_is_another_lease() {
        let shard = Shard { id: SWEEP.to_owned(), parent: None };
        let lease = |stream: &str| Lease::first(&shard, stream, "w", None);
        let following = Following::new(SWEEP, Some(&lease("feed")));
        assert!(following.is_under(Some(&lease("feed"))));
        assert!(!following.is_under(Some(&lease("arn:aws:dynamodb:stream"))));
        assert!(!following.is_under(None));
    }
}
