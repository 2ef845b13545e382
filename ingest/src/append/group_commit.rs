//! Group commit of one log: the writer whose turn it is appends the batches of all waiting writers.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use event::{Error, ErrorKind, Result};
use log::{batch::BatchId, key::LogId, segment_cache::SegmentCache};
use meter::InFlight;
use table::Table;
use tokio::{
    sync::{Mutex, Notify, oneshot},
    time::{Instant, sleep, timeout},
};

use super::{
    Appended,
    look::{LogReader, LogState, Missing},
    meters::Meters,
    pack::{Entry, Packed, pack},
    recent::Budget,
    times::{MAX_PUT, PUT_WITHIN, Times},
};
use crate::erased::{Erased, erased_rows, erased_since};

/// Maximum number of times that an append finds its place taken before it gives up.
const MAX_ATTEMPTS: u32 = 1_000;

/// Maximum wait between two of these attempts, in milliseconds.
const MAX_BACKOFF_MS: u64 = 16;

/// Maximum rows that are appended together.
const MAX_TOGETHER_ROWS: usize = 100_000;

/// Maximum time that the writer whose turn it is waits for as many writers as the last time.
const LINGER: Duration = Duration::from_millis(2);

/// Time since the last group commit within which the wait is worth it.
const LINGER_WITHIN: Duration = Duration::from_millis(20);

/// Log to which this process appends.
#[derive(Debug)]
pub(super) struct Log {
    reader: LogReader,
    erased: Arc<Erased>,
    segment_cache: SegmentCache,
    times: Times,
    waiting: StdMutex<VecDeque<Waiting>>,
    arrived: Notify,
    state: Mutex<LogState>,
    meters: Arc<Meters>,
}

/// Writer that waits for its entry to be stored.
pub(super) struct Waiting {
    entry: Arc<Entry>,
    answer: oneshot::Sender<Result<Stored>>,
    _counted: InFlight,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waiting({})", self.entry.batch)
    }
}

impl Log {
    pub(super) fn new(
        id: LogId,
        (table, erased, segment_cache): (Arc<dyn Table>, Arc<Erased>, SegmentCache),
        times: Times,
        budget: Budget,
        meters: Arc<Meters>,
    ) -> Self {
        Self {
            reader: LogReader::new(id, table, budget),
            erased,
            segment_cache,
            meters,
            times,
            waiting: StdMutex::default(),
            arrived: Notify::new(),
            state: Mutex::default(),
        }
    }

    /// Stores the rows of an entry that are not there yet.
    pub(super) async fn append(&self, entry: Arc<Entry>) -> Result<Stored> {
        loop {
            let (answer, mut answered) = oneshot::channel();
            let counted = InFlight::begin(&self.meters.waiting);
            self.queue().push_back(Waiting { entry: Arc::clone(&entry), answer, _counted: counted });
            self.arrived.notify_one();
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answered => match answer {
                        Ok(answer) => return answer,
                        // The writer that appended for this one was stopped in the middle.
                        Err(_) => break,
                    },
                    mut state = self.state.lock() => self.lead(&mut state).await,
                }
            }
        }
    }

    /// Reads a segment behind which every later append stands, or 0.
    pub(super) async fn bound(&self) -> Result<u64> {
        self.reader.bound().await
    }

    /// Counts the rows of an entry, from the first on, that are stored.
    pub(super) async fn stored(&self, entry: &Entry) -> Result<usize> {
        let mut state = self.state.lock().await;
        self.see_end(&mut state).await?;
        let now = state.time(self.times.now());
        self.reader.stored(&mut state, entry, now).await
    }

    /// Reads segments of other writers, unless it was seen lately that none stood behind the known end.
    async fn see_end(&self, state: &mut LogState) -> Result<()> {
        match state.is_doubtful || state.recent.is_none() || !state.is_fresh() {
            true => self.reader.catch_up(state).await,
            false => Ok(()),
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the entries of all waiting writers, and answers them.
    async fn lead(&self, state: &mut LogState) {
        self.linger(state).await;
        let group = self.take_group();
        if group.is_empty() {
            return;
        }
        let entries: Vec<Arc<Entry>> = group.iter().map(|waiting| Arc::clone(&waiting.entry)).collect();
        let began = Instant::now();
        let committed = self.commit(state, &entries).await;
        self.meters.commit(began.elapsed(), entries.len());
        for (waiting, appended) in group.into_iter().zip(committed) {
            // An answer that is not taken belongs to a writer that no longer waits.
            _ = waiting.answer.send(appended);
        }
        state.last = Some((entries.len(), Instant::now()));
    }

    /// Waits for as many writers as the last time: they are answered all at once, so they come again all at once. A writer that
    /// comes alone does not wait.
    async fn linger(&self, state: &LogState) {
        let Some((wanted, _)) = state.last.filter(|(_, ended)| ended.elapsed() < LINGER_WITHIN) else {
            return;
        };
        let enough = async {
            while self.queue().len() < wanted {
                self.arrived.notified().await;
            }
        };
        // After that time, fewer are enough.
        _ = timeout(LINGER, enough).await;
    }

    fn take_group(&self) -> Vec<Waiting> {
        let mut queue = self.queue();
        let (mut group, mut rows) = (Vec::new(), 0);
        while let Some(next) = queue.front() {
            rows += next.entry.columns.rows;
            if rows > MAX_TOGETHER_ROWS && !group.is_empty() {
                break;
            }
            group.extend(queue.pop_front());
        }
        group
    }

    /// Stores the missing rows of `entries`. A failure does not affect entries that were stored whole before it.
    async fn commit(&self, state: &mut LogState, entries: &[Arc<Entry>]) -> Vec<Result<Stored>> {
        let begin = |entry| Turn { entry, stored: Stored::default(), end: None };
        let mut turns: Vec<Turn<'_>> = entries.iter().map(begin).collect();
        let result = self.try_commit(state, &mut turns).await;
        let end = |turn: Turn<'_>| match (turn.end, &result) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(())), _) | (None, Ok(())) => Ok(turn.stored),
            (None, Err(error)) => Err(error.clone()),
        };
        turns.into_iter().map(end).collect()
    }

    async fn try_commit(&self, state: &mut LogState, turns: &mut [Turn<'_>]) -> Result<()> {
        self.see_end(state).await?;
        for attempt in 0..MAX_ATTEMPTS {
            // Recently appended batches are judged by the time of the new segments.
            let now = state.time(self.times.now());
            let mut missing = Vec::new();
            let mut batches = HashSet::<BatchId>::new();
            for (at, turn) in turns.iter_mut().enumerate().filter(|(_, turn)| turn.end.is_none()) {
                match self.reader.missing(state, turn.entry, now).await {
                    Ok(Missing::Nothing) => turn.end = Some(Ok(())),
                    // The first segment is there, and holds the number of lanes.
                    Ok(_) if turn.entry.is_assumed && state.head > 0 => {
                        turn.stored.is_elsewhere = true;
                        turn.end = Some(Ok(()));
                    }
                    // Equal batches in one commit: the first one is stored for all.
                    Ok(_) if !batches.insert(turn.entry.batch) => {}
                    Ok(Missing::From(first)) => missing.push((at, Arc::clone(turn.entry), first)),
                    Ok(Missing::Rows(rows)) => missing.push((at, Arc::new(turn.entry.only(&rows)), 0)),
                    Err(error) if error.kind() == ErrorKind::Throttled => turn.end = Some(Err(error)),
                    Err(error) => return Err(error),
                }
            }
            let log = &self.reader.id;
            let erased = self.erased.of(&log.workspace).await?;
            missing.retain(|(at, entry, first)| {
                let is_erased = erased_rows(&erased, log.kind, &entry.columns, *first).next().is_some();
                turns[*at].end = is_erased.then(|| Err(erased_since()));
                !is_erased
            });
            if missing.is_empty() {
                return Ok(());
            }
            let entries = missing.iter().map(|(_, entry, first)| (Arc::clone(entry), *first));
            let segments = pack(&self.reader.id, entries.collect()).await?;
            // Checked as late as possible: an erasure waits for puts that rely on keys read some seconds ago.
            if !Arc::ptr_eq(&erased, &self.erased.of(&self.reader.id.workspace).await?) {
                continue;
            }
            let (written, result) = self.put(state, segments, erased.count()).await;
            for (at, entry, first) in missing {
                if let Some(written) = written.get(&entry.batch) {
                    turns[at].wrote(*written, entry.columns.rows - first);
                }
            }
            match result {
                Ok(()) => {}
                // Another writer took the place, or an earlier try of one of these did.
                Err(error) if error.is_conflict() => {
                    self.meters.conflicts.increment(1);
                    self.reader.catch_up(state).await?;
                    sleep(backoff(attempt, &turns[0].entry.batch)).await;
                }
                // The time was too short for all of them, or another process held the table. As some got in, it goes on.
                Err(error) if error.may_pass() && !written.is_empty() => {
                    self.reader.catch_up(state).await?;
                }
                Err(error) => return Err(error),
            }
        }
        let message = format!("too many writers append to {}; try again", self.reader.id);
        Err(Error::new(ErrorKind::Throttled, message))
    }

    /// Puts as many segments as possible at the end of the log, and returns the written part of each batch. Their keys were
    /// looked up among `erased` keys.
    async fn put(
        &self,
        state: &mut LogState,
        mut segments: Vec<Packed>,
        erased: u64,
    ) -> (HashMap<BatchId, Written>, Result<()>) {
        let now = match self.times.for_put(&*self.reader.table).await {
            Ok(now) => state.time(now),
            Err(error) => return (HashMap::new(), Err(error)),
        };
        if !state.is_fresh() {
            // Handled as if another writer had put behind it meanwhile: the end of the log is read again.
            return (HashMap::new(), Err(Error::conflict("the end of the log was not looked at lately")));
        }
        let (mut known, mut known_later) = (state.last_known, Vec::with_capacity(segments.len()));
        for (Packed { segment, .. }, seq) in segments.iter_mut().zip(state.head + 1..) {
            (segment.seq, segment.appended_at) = (seq, now);
            let stated = segment.known_at;
            segment.known_at = stated.map(|at| at.max(known).min(now));
            known = segment.known();
            known_later.push(stated.map(|_| known).filter(|known| stated < Some(*known)));
        }
        // True until the answer is here, and for good when it never comes.
        state.is_doubtful = true;
        let items = segments.iter().map(|packed| packed.segment.to_item()).collect();
        let sent = Instant::now();
        let (written, result) = self.reader.table.put_new(items, PUT_WITHIN).await;
        if written > 0 && sent.elapsed() > MAX_PUT {
            tracing::warn!(log = %self.reader.id, appended_at = %now, took = ?sent.elapsed(),
                "a segment was stored so late that what was read of that time may lack it");
        }
        let mut of_batches = HashMap::<BatchId, Written>::new();
        // Segments that may have been written without an answer are read.
        for (Packed { segment, columns }, known_later) in segments[..written].iter().zip(known_later) {
            if let Some(columns) = columns {
                self.segment_cache.give(segment, columns, erased);
            }
            state.note(segment);
            self.meters.appended(segment);
            for part in &segment.batches {
                let first = Written { appended: Appended::default(), segments: (segment.seq, segment.seq) };
                let written = of_batches.entry(part.batch).or_insert(first);
                written.appended.add(Appended { rows: part.rows, known_later });
                written.segments.1 = segment.seq;
            }
        }
        self.reader.set_bound(state.head);
        if result.is_ok() {
            // The put behind the head proved that nothing stood there.
            state.looked = Some(sent);
        }
        state.is_doubtful = result.as_ref().is_err_and(|error| !error.is_conflict());
        (of_batches, result)
    }
}

/// Written part of a batch.
#[derive(Clone, Copy, Debug)]
struct Written {
    appended: Appended,
    /// First and last segment with some of its rows.
    segments: (u64, u64),
}

/// Result of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    /// Rows that were written for it.
    pub(super) appended: Appended,
    /// First and last segment with some of these rows.
    pub(super) segments: Option<(u64, u64)>,
    /// True if the rest belongs into other logs: see [`Entry::is_assumed`].
    pub(super) is_elsewhere: bool,
}

/// Turn of one entry.
struct Turn<'a> {
    entry: &'a Arc<Entry>,
    stored: Stored,
    /// Result, once it has ended.
    end: Option<Result<()>>,
}

impl Turn<'_> {
    /// Adds the rows written out of `missing` ones.
    fn wrote(&mut self, written: Written, missing: usize) {
        self.stored.appended.add(written.appended);
        let first = self.stored.segments.map_or(written.segments.0, |(first, _)| first);
        self.stored.segments = Some((first, written.segments.1));
        if written.appended.rows >= missing {
            self.end = Some(Ok(()));
        }
    }
}

/// Wait that grows with the attempts and differs between writers.
fn backoff(attempt: u32, batch: &BatchId) -> Duration {
    let most = (1 << attempt.min(4)).min(MAX_BACKOFF_MS);
    let share = u64::from(batch.0[attempt as usize % batch.0.len()]);
    Duration::from_micros(most * 1_000 * share / 256)
}
