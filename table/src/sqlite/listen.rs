//! Waiting for changes of the feed, without reading it twice for each, and detection of writes by other processes to the file,
//! without reading it.
//!
//! Every commit is appended to the write-ahead log, which changes its length or the time of its last change. Two commits within
//! one tick of the file system's clock look alike when the log did not grow (it begins again after a checkpoint), so a read is
//! also due once a second.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use event::Result;
use tokio::{sync::watch, time::Instant};

use super::{feed, manage::beside};
use crate::{Changes, Position};

/// Time between two checks for changes of other processes. Those of this process are announced at once.
const POLL: Duration = Duration::from_millis(40);

/// End of a reader of the feed, and the announcements since.
#[derive(Debug)]
struct Place {
    position: Position,
    /// Commits of this process; those before the read up to the position count as seen.
    commits: watch::Receiver<u64>,
    /// Commits of other processes.
    elsewhere: Elsewhere,
}

impl Place {
    /// Waits until there may be more changes.
    async fn rumour(&mut self) {
        loop {
            tokio::select! {
                _ = self.commits.changed() => return,
                () = tokio::time::sleep(POLL) => if self.elsewhere.is_due() { return },
            }
        }
    }
}

/// Listener to the feed of a file.
#[derive(Debug, Default)]
pub(super) struct Listener {
    /// End of the last reader: a reader that continues there need not read before an announcement.
    last: Mutex<Option<Place>>,
}

impl Listener {
    /// Returns the changes after `from`, for which it waits for a while; `read` reads the present ones.
    pub(super) async fn changes<R: Future<Output = Result<Changes>>>(
        &self,
        (path, commits): (&Path, watch::Receiver<u64>),
        from: &Position,
        wait: Duration,
        read: impl Fn(Position) -> R,
    ) -> Result<Changes> {
        // A caller that does not wait is not informed of other processes, and so has to read.
        let mut place = match self.take(from).filter(|_| wait > POLL) {
            Some(place) => place,
            None => {
                // Created before the first read, so that no commit after it goes unnoticed.
                let (position, elsewhere) = (from.clone(), Elsewhere::new(path));
                let mut place = Place { position, commits, elsewhere };
                let first = read(from.clone()).await?;
                if has_news(&first) {
                    return Ok(self.leave(place, first));
                }
                place.position = first.next.unwrap_or(place.position);
                place
            }
        };
        // A read that has begun is not aborted: its announcements count as heard.
        let until = Instant::now() + wait;
        while tokio::time::timeout_at(until, place.rumour()).await.is_ok() {
            let changes = read(place.position.clone()).await?;
            if has_news(&changes) {
                return Ok(self.leave(place, changes));
            }
        }
        let nothing = Changes { keys: Vec::new(), next: Some(place.position.clone()), gap: false };
        Ok(self.leave(place, nothing))
    }

    fn take(&self, from: &Position) -> Option<Place> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|place| place.position == *from)
    }

    /// Stores the end of a reader, unless there may be more behind it.
    fn leave(&self, place: Place, changes: Changes) -> Changes {
        if let Some(position) = changes.next.clone().filter(|_| changes.keys.len() < feed::MAX_CHANGES) {
            let place = Place { position, ..place };
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        }
        changes
    }
}

fn has_news(changes: &Changes) -> bool {
    !changes.keys.is_empty() || changes.gap
}

/// Maximum time between two reads without a visible change.
const AT_LEAST: Duration = Duration::from_secs(1);

/// State of the write-ahead log before the last read.
#[derive(Debug)]
pub(super) struct Elsewhere {
    log: PathBuf,
    seen: Option<(u64, SystemTime)>,
    read: Instant,
}

impl Elsewhere {
    /// Begins for the file at `path`, which has its log beside it; to be created before the first read.
    pub(super) fn new(path: &Path) -> Self {
        let log = beside(&path.canonicalize().unwrap_or_else(|_| path.to_owned()), "-wal");
        let seen = look(&log);
        Self { log, seen, read: Instant::now() }
    }

    /// Returns whether a read is due, because the log changed or none was for a second. After `true` the read counts as done.
    pub(super) fn is_due(&mut self) -> bool {
        let now = look(&self.log);
        // An unreadable log gives no information.
        let due = now.is_none() || now != self.seen || self.read.elapsed() >= AT_LEAST;
        if due {
            (self.seen, self.read) = (now, Instant::now());
        }
        due
    }
}

/// Reads the length and the time of the last change.
fn look(log: &Path) -> Option<(u64, SystemTime)> {
    let metadata = fs::metadata(log).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Key;

    /// Feed of this many changes, whose reads are counted.
    async fn read(changes: &Cell<usize>, reads: &Cell<usize>, from: Position) -> Result<Changes> {
        reads.set(reads.get() + 1);
        let Position::After(from) = from else { panic!("{from:?}") };
        let until = changes.get().min(from.parse::<usize>().unwrap() + feed::MAX_CHANGES);
        let keys = (from.parse().unwrap()..until).map(|at| Key::new("p", at.to_string())).collect();
        Ok(Changes { keys, next: Some(Position::After(until.to_string())), gap: false })
    }

    #[tokio::test(start_paused = true)]
    async fn resumed_reader_reads_once_per_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(folder.path().join("file-wal"), "").unwrap();
        let (commits, listener) = (watch::channel(0).0, Listener::default());
        let (changes, reads) = (Cell::new(0), Cell::new(0));
        let next = async |from: usize, wait: u64| {
            let from = Position::After(from.to_string());
            let read = |from| read(&changes, &reads, from);
            let wait = Duration::from_millis(wait);
            let found = listener.changes((&path, commits.subscribe()), &from, wait, read).await.unwrap();
            (found.keys.len(), reads.replace(0))
        };
        assert_eq!(next(0, 100).await, (0, 1), "nothing there");
        assert_eq!(next(0, 100).await, (0, 0), "nor announced");
        changes.set(3);
        commits.send_modify(|commits| *commits += 1);
        assert_eq!(next(0, 100).await, (3, 1));
        assert_eq!(next(3, 100).await, (0, 0));
        assert_eq!(next(3, 0).await, (0, 1), "who does not wait looks");
        assert_eq!(next(1, 100).await, (2, 1), "another place");
        assert_eq!(next(3, 5_000).await, (0, 5), "what other processes did is looked for once a second");
        // Changes beyond one answer are not announced again.
        changes.set(3 + 2 * feed::MAX_CHANGES);
        commits.send_modify(|commits| *commits += 1);
        assert_eq!(next(3, 100).await, (feed::MAX_CHANGES, 1));
        assert_eq!(next(3 + feed::MAX_CHANGES, 100).await, (feed::MAX_CHANGES, 1));
        // A commit between two calls is heard by the second.
        changes.set(changes.get() + 1);
        commits.send_modify(|commits| *commits += 1);
        assert_eq!(next(changes.get() - 1, 100).await, (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_read_beyond_wait_loses_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(folder.path().join("file-wal"), "").unwrap();
        let (commits, listener) = (watch::channel(0).0, Listener::default());
        let (changes, reads) = (Cell::new(0), Cell::new(0));
        let slow = async |from| {
            tokio::time::sleep(Duration::from_millis(300)).await;
            read(&changes, &reads, from).await
        };
        let from = Position::After("0".to_owned());
        let next = async || {
            let wait = Duration::from_millis(100);
            listener.changes((&path, commits.subscribe()), &from, wait, slow).await.unwrap().keys.len()
        };
        assert_eq!(next().await, 0);
        let commit = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            changes.set(1);
            commits.send_modify(|commits| *commits += 1);
        };
        let (heard, ()) = tokio::join!(next(), commit);
        assert_eq!(if heard == 0 { next().await } else { heard }, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn read_is_due_on_change_and_every_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let log = folder.path().join("file-wal");
        fs::write(&path, "").unwrap();
        fs::write(&log, "one").unwrap();
        let mut elsewhere = Elsewhere::new(&path);
        assert!(!elsewhere.is_due());
        fs::write(&log, "three").unwrap();
        assert!(elsewhere.is_due());
        assert!(!elsewhere.is_due());
        let file = fs::File::options().write(true).open(&log).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(elsewhere.is_due(), "as long as before, and changed since");
        tokio::time::advance(AT_LEAST).await;
        assert!(elsewhere.is_due());
        assert!(!elsewhere.is_due());
        fs::remove_file(&log).unwrap();
        assert!(elsewhere.is_due() && elsewhere.is_due(), "nothing can be told");
    }
}
