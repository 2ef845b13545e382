//! Writer: one thread, which commits all waiting requests together.
//!
//! A durable commit costs a flush of the disk, also for a little data. So all requests that arrive during one commit go into the
//! next one.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

use event::{Clock, Error, Result};
use meter::{
    Gauge, Histogram, InFlight,
    catalogue::{SQLITE_COMMIT_BYTES, SQLITE_COMMIT_REQUESTS, SQLITE_COMMIT_SECONDS, SQLITE_WAITING},
};
use rusqlite::{Connection, TransactionBehavior};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    time::Instant,
};

use super::{
    fault::{Attempt, Fault},
    open,
    replaced::OpenedFile,
    upkeep::Upkeep,
    write::{self, Prepared},
};
use crate::too_late;

/// Maximum requests that wait.
const MAX_WAITING: usize = 1024;

/// Maximum KiB that wait; a caller with more waits until there is room.
const MAX_WAITING_KIB: usize = 64 * 1024;

/// Maximum requests in a commit.
const MAX_GROUP: usize = 1024;

/// Approximate maximum KiB in a commit.
const MAX_GROUP_KIB: usize = 16 * 1024;

/// Writes that are made together or not at all.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) writes: Vec<Prepared>,
    /// Instant after which nothing of it may be written.
    pub(super) until: Option<Instant>,
    /// True if the write-ahead log must be empty once it is answered.
    pub(super) forgets: bool,
}

impl From<Vec<Prepared>> for Request {
    fn from(writes: Vec<Prepared>) -> Self {
        Self { writes, until: None, forgets: false }
    }
}

/// Request of a caller, with the channel of the answer.
#[derive(Debug)]
struct Job {
    request: Request,
    answer: oneshot::Sender<Result<()>>,
    room: OwnedSemaphorePermit,
    _waiting: InFlight,
}

/// Handle of the writer thread. Dropping it waits for the thread to finish the waiting requests.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    room: Arc<Semaphore>,
    commits: watch::Sender<u64>,
    waiting: Gauge,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Unavailable`, when there can be no more threads.
    pub(super) fn start(connection: Connection, path: &Path, clock: Clock) -> Result<Self> {
        let (sender, jobs) = mpsc::channel(MAX_WAITING);
        let (commits, _) = watch::channel(0);
        let mut worker = Worker {
            connection,
            path: path.to_owned(),
            file: OpenedFile::new(path),
            clock,
            commits: commits.clone(),
            upkeep: Upkeep::default(),
            meters: Meters::new(),
        };
        let thread = thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || worker.run(jobs))
            .map_err(|error| Error::unavailable("the writer thread cannot be started").because(error))?;
        let room = Arc::new(Semaphore::new(MAX_WAITING_KIB));
        Ok(Self {
            jobs: Some(sender),
            room,
            commits,
            waiting: SQLITE_WAITING.gauge([]),
            thread: Some(thread),
        })
    }

    /// Makes all writes of a request or none, and returns when they are durable. A caller that stops waiting
    /// does not take them back.
    pub(super) async fn write(&self, request: Request, bytes: usize) -> Result<()> {
        let kib = u32::try_from(bytes.div_ceil(1024).clamp(1, MAX_GROUP_KIB)).unwrap_or(u32::MAX);
        let waiting = InFlight::begin(&self.waiting);
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(stopped)?;
        let (answer, answered) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(|| Error::unavailable("the file is closed"))?;
        jobs.send(Job { request, answer, room, _waiting: waiting })
            .await
            .map_err(|_| Error::unavailable("the writer has stopped"))?;
        answered.await.map_err(|error| Error::unavailable("the commit was broken off").because(error))?
    }

    /// Subscribes to every commit from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread of an SQLite file has panicked");
        }
    }
}

fn stopped(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::unavailable("the writer has stopped").because(error)
}

/// State of the thread.
#[derive(Debug)]
struct Worker {
    connection: Connection,
    path: PathBuf,
    file: OpenedFile,
    clock: Clock,
    commits: watch::Sender<u64>,
    upkeep: Upkeep,
    meters: Meters,
}

/// Metrics of commits.
#[derive(Debug)]
struct Meters {
    seconds: Histogram,
    requests: Histogram,
    bytes: Histogram,
}

impl Meters {
    fn new() -> Self {
        Self {
            seconds: SQLITE_COMMIT_SECONDS.histogram([]),
            requests: SQLITE_COMMIT_REQUESTS.histogram([]),
            bytes: SQLITE_COMMIT_BYTES.histogram([]),
        }
    }
}

impl Worker {
    fn run(&mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.blocking_recv() {
            let mut kib = first.room.num_permits();
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && kib < MAX_GROUP_KIB
                && let Ok(job) = jobs.try_recv()
            {
                kib += job.room.num_permits();
                group.push(job);
            }
            self.meters.requests.record(group.len() as f64);
            self.meters.bytes.record(kib as f64 * 1024.0);
            // A panic costs this commit, and not the later ones: the callers that wait for it get the error that it was broken
            // off, since their channels close without an answer.
            if catch_unwind(AssertUnwindSafe(|| self.answer(group))).is_err() {
                self.give_up();
            }
        }
    }

    /// Undoes the open transaction of an aborted commit.
    fn give_up(&self) {
        tracing::error!(file = %self.path.display(), "a commit was broken off by a panic; writing goes on");
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "and it cannot be undone");
        }
    }

    fn answer(&mut self, mut group: Vec<Job>) {
        if let Err(error) = self.file.check() {
            for job in group {
                let _ = job.answer.send(Err(error.clone()));
            }
            return;
        }
        let requests: Vec<Request> = group.iter_mut().map(|job| mem::take(&mut job.request)).collect();
        let forgets: Vec<bool> = requests.iter().map(|request| request.forgets).collect();
        let began = Instant::now();
        let mut committed = self.commit(requests);
        self.meters.seconds.record(began.elapsed());
        if forgets.contains(&true)
            && let Ok(results) = &mut committed
        {
            let emptied = open::empty_wal(&self.connection).map_err(|fault| fault.at(&self.path));
            for (result, _) in results.iter_mut().zip(forgets).filter(|(_, forgets)| *forgets) {
                *result = emptied.clone();
            }
        }
        match committed {
            Ok(results) => {
                self.commits.send_modify(|commits| *commits += 1);
                for (job, result) in group.into_iter().zip(results) {
                    // A caller that no longer waits does not need the answer.
                    let _ = job.answer.send(result);
                }
            }
            Err(fault) => {
                let error = fault.at(&self.path);
                tracing::warn!(%error, requests = group.len(), "a commit has failed");
                for job in group {
                    let _ = job.answer.send(Err(Error::new(error.kind(), error.to_string())));
                }
            }
        }
    }

    /// Makes the writes of every request in one transaction. A request that is refused leaves the
    /// others alone; a failure of SQLite undoes them all.
    fn commit(&mut self, requests: Vec<Request>) -> Attempt<Vec<Result<()>>> {
        // Immediate: the items checked by conditions cannot change before the commit, in any process.
        let mut transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let now = self.clock.now();
        // The transaction may have waited long for its turn.
        let begun = Instant::now();
        let mut results = Vec::with_capacity(requests.len());
        for Request { writes, until, .. } in requests {
            if let Some(first) = writes.first().filter(|_| until.is_some_and(|until| begun >= until)) {
                results.push(Err(too_late(first.key())));
                continue;
            }
            results.push(match write::apply(&transaction, writes, now) {
                Ok(()) => Ok(()),
                Err(Fault::Refused(error)) => Err(error),
                Err(fault) => return Err(fault),
            });
        }
        if self.upkeep.is_due(now) {
            // A failure of the cleaning must not stop the writing.
            let savepoint = transaction.savepoint()?;
            match self.upkeep.run(&savepoint, now, begun) {
                Ok(()) => savepoint.commit()?,
                Err(fault) => {
                    let error = fault.at(&self.path);
                    tracing::warn!(%error, "expired items and old changes could not be cleared away");
                }
            }
        }
        transaction.commit()?;
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use event::{ErrorKind, Timestamp};

    use super::*;
    use crate::{
        Condition, Item, Key, Write,
        sqlite::{
            open::{self, Create},
            row,
        },
    };

    fn worker(path: &Path) -> Worker {
        Worker {
            connection: open::writer(path, Create::Missing, Duration::from_secs(1)).unwrap(),
            path: path.to_owned(),
            file: OpenedFile::new(path),
            clock: Clock::from_fn(Timestamp::default),
            commits: watch::channel(0).0,
            upkeep: Upkeep::default(),
            meters: Meters::new(),
        }
    }

    fn put(sk: &str, bytes: usize) -> Request {
        let item = Item::new(Key::new("p", sk)).with("data", vec![7; bytes]);
        vec![Prepared::new(Write::Put(item, Condition::Absent)).unwrap()].into()
    }

    fn exists(worker: &Worker, sk: &str) -> bool {
        row::exists(&worker.connection, &Key::new("p", sk), Timestamp::default()).unwrap()
    }

    #[tokio::test]
    async fn writer_thread_panic_costs_one_commit() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let is_broken = Arc::new(AtomicBool::new(false));
        let clock = Clock::from_fn({
            let is_broken = Arc::clone(&is_broken);
            move || match is_broken.load(Ordering::SeqCst) {
                true => panic!("the clock is broken"),
                false => Timestamp::default(),
            }
        });
        let connection = open::writer(&path, Create::Missing, Duration::from_secs(1)).unwrap();
        let writer = Writer::start(connection, &path, clock).unwrap();
        writer.write(put("a", 1), 1).await.unwrap();
        is_broken.store(true, Ordering::SeqCst);
        let error = writer.write(put("b", 1), 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        is_broken.store(false, Ordering::SeqCst);
        writer.write(put("c", 1), 1).await.unwrap();
        let worker = worker(&path);
        assert_eq!(["a", "b", "c"].map(|sk| exists(&worker, sk)), [true, false, true]);
    }

    #[test]
    fn overdue_request_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut worker = worker(&folder.path().join("log.db"));
        let now = Instant::now();
        let late = Request { until: Some(now), ..put("a", 1) };
        let early = Request { until: Some(now + Duration::from_secs(60)), ..put("b", 1) };
        let results = worker.commit(vec![late, early, put("c", 1)]).unwrap();
        let kinds: Vec<_> = results.iter().map(|result| result.as_ref().err().map(Error::kind)).collect();
        assert_eq!(kinds, [Some(ErrorKind::Throttled), None, None]);
        assert_eq!(["a", "b", "c"].map(|sk| exists(&worker, sk)), [false, true, true]);
    }

    #[test]
    fn refused_request_does_not_affect_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let mut worker = worker(&folder.path().join("log.db"));
        let results = worker.commit(vec![put("a", 1), put("a", 1), put("b", 1)]).unwrap();
        let kinds: Vec<_> = results.iter().map(|result| result.as_ref().err().map(Error::kind)).collect();
        assert_eq!(kinds, [None, Some(ErrorKind::Conflict), None]);
        assert!(exists(&worker, "a") && exists(&worker, "b"));
    }

    #[test]
    fn full_disk_rolls_back_group_and_later_recovers() {
        let folder = tempfile::tempdir().unwrap();
        let mut worker = worker(&folder.path().join("log.db"));
        let limit = |worker: &Worker, pages: u32| {
            worker.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        };
        limit(&worker, 20);
        let fault = worker.commit(vec![put("a", 1), put("b", 380_000)]).unwrap_err();
        assert_eq!(fault.at(&worker.path).kind(), ErrorKind::Unavailable);
        assert!(!exists(&worker, "a"));
        limit(&worker, 1_000);
        worker.commit(vec![put("a", 1), put("b", 380_000)]).unwrap();
        assert!(exists(&worker, "a") && exists(&worker, "b"));
    }
}
