//! Reads one shard: marks the logs whose changes it reads as dirty, and moves the checkpoint of the lease
//! behind what is written.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use event::{ErrorKind, Result};
use log::key;
use table::{Changes, Position};
use tokio::time::{Instant, sleep};

use crate::{
    WorkspaceDay,
    lease::Lease,
    sweeper::Extent,
    worker::{Shared, lock, may_pass},
};

/// How long the feed is asked to wait for a change.
const WAIT: Duration = Duration::from_secs(5);

/// How often a checkpoint is written, at most.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// How often a checkpoint is written although nothing but the worker's own writes came since: often
/// enough that the feed still has what comes after it.
const IDLE_CHECKPOINT_EVERY: Duration = Duration::from_secs(60 * 60);

/// How long to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The most positions that wait for their marks. Beyond, several are taken as one.
const MAX_CANDIDATES: usize = 64;

/// A position up to which everything is written once its mark is settled.
#[derive(Clone, Debug)]
struct Candidate {
    /// `None` at the end of the shard.
    next: Option<Position>,
    /// The same, or at the end of the shard the last one before it.
    last: Option<Position>,
    mark: u64,
    /// Whether anything but the worker's own writes was read before it.
    is_news: bool,
    since: Instant,
}

#[derive(Debug, Default)]
struct Progress {
    waiting: VecDeque<Candidate>,
    /// The last one that is settled and not written into the lease.
    settled: Option<Candidate>,
    written_at: Option<Instant>,
}

/// A shard that is read.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) shard: String,
    lease: Mutex<Option<Lease>>,
    progress: Mutex<Progress>,
}

impl Following {
    pub(crate) fn new(shard: &str, lease: Option<&Lease>) -> Self {
        let lease = Mutex::new(lease.cloned());
        Self { shard: shard.to_owned(), lease, progress: Mutex::default() }
    }

    /// Whether it is read under a lease.
    pub(crate) fn has_lease(&self) -> bool {
        lock(&self.lease).is_some()
    }

    /// Whether it is read under this lease, or without one when `None`. Another epoch is another
    /// lease: its checkpoint may be past what was read without it.
    pub(crate) fn is_under(&self, found: Option<&Lease>) -> bool {
        lock(&self.lease).as_ref().map(|lease| lease.epoch) == found.map(|found| found.epoch)
    }

    /// For how long news has waited for the checkpoint to move past it.
    pub(crate) fn waits_since(&self, now: Instant) -> Duration {
        let progress = lock(&self.progress);
        let waiting = progress.settled.iter().chain(&progress.waiting).filter(|one| one.is_news);
        waiting.map(|one| now - one.since).max().unwrap_or_default()
    }

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

    /// What the lease should be moved to, if to anything.
    fn due(&self, shared: &Shared, is_last: bool) -> Option<Candidate> {
        let schedule = shared.schedule();
        let mut progress = lock(&self.progress);
        while progress.waiting.front().is_some_and(|one| schedule.is_settled(one.mark)) {
            let next = progress.waiting.pop_front()?;
            let before = progress.settled.take();
            let is_news = next.is_news || before.as_ref().is_some_and(|before| before.is_news);
            let since = before.as_ref().map_or(next.since, |before| before.since);
            // One that was tried before may be written already, only its answer was lost.
            let last = next.last.clone().or_else(|| before.and_then(|before| before.last));
            progress.settled = Some(Candidate { last, is_news, since, ..next });
        }
        let settled = progress.settled.clone()?;
        let every = if settled.is_news { CHECKPOINT_EVERY } else { IDLE_CHECKPOINT_EVERY };
        let is_time = progress.written_at.is_none_or(|at| at.elapsed() >= every);
        (is_last || is_time || settled.next.is_none()).then_some(settled)
    }

    /// Writes the checkpoint, when there is one to write; whether the shard is done with.
    async fn checkpoint(&self, shared: &Shared) -> bool {
        let Some(candidate) = self.due(shared, false) else { return false };
        let Some(lease) = lock(&self.lease).clone() else { return candidate.next.is_none() };
        let is_done = candidate.next.is_none();
        let checkpoint = candidate.last.clone().or_else(|| lease.checkpoint.clone());
        let moved = Lease { checkpoint, is_done, ..lease };
        match moved.write(&*shared.table, moved.epoch, shared.now()).await {
            Ok(()) => {
                self.written(&candidate, Some(moved));
                is_done
            }
            Err(error) if error.is_conflict() => {
                tracing::debug!(shard = self.shard, "the lease is somebody else's now");
                self.written(&candidate, None);
                shared.discover.notify_one();
                false
            }
            Err(error) => {
                tracing::warn!(shard = self.shard, %error, "the checkpoint is not written; trying again");
                false
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

    fn is_waiting(&self) -> bool {
        let progress = lock(&self.progress);
        progress.settled.is_some() || !progress.waiting.is_empty()
    }

    /// Gives the lease back, with the last checkpoint.
    pub(crate) async fn hand_over(&self, shared: &Shared) {
        let last = self.due(shared, true);
        let Some(lease) = lock(&self.lease).take() else { return };
        let mut passed = lease.passed_to(None);
        if let Some(last) = last {
            passed.is_done = last.next.is_none();
            passed.checkpoint = last.last.or(passed.checkpoint);
        }
        if let Err(error) = passed.write(&*shared.table, lease.epoch, shared.now()).await {
            tracing::debug!(shard = self.shard, %error, "the lease is not given back; it will be taken");
        }
    }
}

/// Reads a shard to its end; `from` is `None` when it is there already.
pub(crate) async fn read(
    shared: Arc<Shared>,
    following: Arc<Following>,
    from: Option<Position>,
) -> Result<()> {
    let mut from = from;
    while let Some(position) = from.take() {
        let changes = {
            let reading = shared.table.changes(&following.shard, &position, WAIT);
            tokio::pin!(reading);
            loop {
                tokio::select! {
                    biased;
                    changes = &mut reading => break changes,
                    () = sleep(CHECKPOINT_EVERY), if following.is_waiting() => {
                        following.checkpoint(&shared).await;
                    }
                }
            }
        };
        let changes = match changes {
            Ok(changes) => changes,
            Err(error) if may_pass(&error) => {
                tracing::warn!(shard = following.shard, %error, "the feed is not available; trying again");
                sleep(RETRY_AFTER).await;
                from = Some(position);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Invalid => {
                tracing::warn!(shard = following.shard, %error, "the checkpoint means nothing; comparing all logs");
                from = begin_at_latest(&shared, &following).await?;
                continue;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        let is_news = shared.take_in(&following.shard, &changes);
        following.add(changes.next.clone(), shared.schedule().newest(), is_news);
        following.checkpoint(&shared).await;
        from = changes.next;
    }
    // The shard is closed and read to its end: its children go on.
    shared.discover.notify_one();
    while following.is_waiting() && !following.checkpoint(&shared).await {
        sleep(CHECKPOINT_EVERY).await;
    }
    shared.discover.notify_one();
    Ok(())
}

/// Takes the newest position of a shard and asks for a sweep, in this order: so nothing falls between
/// the two. `None`, when the shard is closed.
pub(crate) async fn begin_at_latest(shared: &Shared, following: &Following) -> Result<Option<Position>> {
    let changes = shared.table.changes(&following.shard, &Position::Latest, Duration::ZERO).await?;
    let mark = shared.ask_for_sweep(Extent::All);
    following.add(changes.next.clone(), mark, true);
    Ok(changes.next)
}

impl Shared {
    /// Marks what changed; whether any of it is not a worker's own write.
    fn take_in(&self, shard: &str, changes: &Changes) -> bool {
        let mut is_news = changes.gap;
        if changes.gap {
            tracing::warn!(shard, "changes are gone from the feed; comparing all logs");
            self.ask_for_sweep(Extent::All);
        }
        let now = Instant::now();
        for key in &changes.keys {
            if let Some((log, _)) = key::parse_segment(key) {
                let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
                self.schedule().mark(day, Some(log), None, now);
            } else if let Some((log, _, _)) = key::parse_dead_letter(key) {
                // Somebody found it, skips the segment, or tries it again.
                lock(&self.recount).insert(log.workspace.clone());
                self.sweep.notify_one();
                let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
                self.schedule().mark(day, Some(log), None, now);
            } else if let Some((workspace, _, day, _)) = key::parse_unwritten(key) {
                // Somebody found it, or could write it.
                lock(&self.recount).insert(workspace.clone());
                self.sweep.notify_one();
                self.schedule().mark(WorkspaceDay { workspace, day }, None, None, now);
            } else if let Some((workspace, ..)) = key::parse_undone(key) {
                lock(&self.recount).insert(workspace);
                self.sweep.notify_one();
            } else if let Some(workspace) = key::parse_active(key) {
                self.ask_for_sweep(Extent::Workspace(workspace));
            } else {
                continue;
            }
            is_news = true;
        }
        if is_news {
            self.work.notify_one();
        }
        is_news
    }
}
