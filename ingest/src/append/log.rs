//! One log and those who append to it: whoever's turn it is appends for all who wait.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use meter::InFlight;
use store::{
    Clock, Error, ErrorKind, Result, Table,
    batch::BatchId,
    key::{self, LogId},
    log::{SUMMARY, Segment},
    scan,
    table::Query,
};
use tokio::{
    sync::{Mutex, Notify, oneshot},
    time::{Instant, sleep, timeout},
};

use super::{
    meters::Meters,
    pack::{Entry, pack},
    recent::{Budget, Recent},
};

/// How often an append may find its place taken before it gives up.
const MAX_ATTEMPTS: u32 = 1_000;

/// The longest wait between two of these attempts, in milliseconds.
const MAX_BACKOFF_MS: u64 = 16;

/// The most rows that are appended together.
const MAX_TOGETHER_ROWS: usize = 100_000;

/// How long the one whose turn it is waits at most for as many as came the last time.
const LINGER: Duration = Duration::from_millis(2);

/// Only soon after the last time it is worth waiting.
const LINGER_WITHIN: Duration = Duration::from_millis(20);

/// How long the end of a log is taken to be where it was seen.
const FRESH: Duration = Duration::from_secs(1);

/// How far back a log is read for batches without a claim: so many segments,
const WINDOW_SEGMENTS: usize = 1_000;

/// unless they hold so many rows.
const WINDOW_ROWS: usize = 100_000;

/// The most rows whose segments are read in a row to see what others appended.
const MAX_CATCH_UP_ROWS: usize = 500_000;

/// A log that this process appends to.
#[derive(Debug)]
pub(super) struct Log {
    id: LogId,
    table: Arc<dyn Table>,
    clock: Clock,
    waiting: StdMutex<VecDeque<Waiting>>,
    arrived: Notify,
    /// A segment that stands in the log, and when that was the last one.
    bound: StdMutex<Option<(u64, Instant)>>,
    state: Mutex<State>,
    budget: Budget,
    meters: Arc<Meters>,
}

/// What is known of the log. Its lock keeps the appends of this process in line.
#[derive(Debug, Default)]
struct State {
    /// All segments up to the last one that is known are noted, from some segment on.
    recent: Option<Recent>,
    /// The last segment.
    head: u64,
    /// Whether there may be more segments than `head` says, by this process itself.
    is_doubtful: bool,
    /// Whether the log was read back for batches without a claim.
    has_window: bool,
    /// How many were appended together the last time, and when.
    last: Option<(usize, Instant)>,
}

/// One who waits for his entry to be stored.
struct Waiting {
    entry: Arc<Entry>,
    answer: oneshot::Sender<Result<bool>>,
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
        table: Arc<dyn Table>,
        clock: Clock,
        budget: Budget,
        meters: Arc<Meters>,
    ) -> Self {
        Self {
            budget,
            meters,
            id,
            table,
            clock,
            waiting: StdMutex::default(),
            arrived: Notify::new(),
            bound: StdMutex::default(),
            state: Mutex::default(),
        }
    }

    /// Stores the rows of an entry that are not there yet; returns whether there were any.
    pub(super) async fn append(&self, entry: Entry) -> Result<bool> {
        let entry = Arc::new(entry);
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
                        // Whoever appended for us was stopped in the middle.
                        Err(_) => break,
                    },
                    mut state = self.state.lock() => self.lead(&mut state).await,
                }
            }
        }
    }

    /// Whether any row of a batch without a claim is in the log.
    pub(super) async fn holds(&self, entry: &Entry) -> Result<bool> {
        let mut state = self.state.lock().await;
        self.catch_up(&mut state).await?;
        Ok(self.stored(&mut state, entry).await? > 0)
    }

    /// A segment behind which everything stands that is appended from now on, or 0.
    pub(super) async fn bound(&self) -> Result<u64> {
        let known = *self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seq, _)) = known.filter(|(_, seen)| seen.elapsed() < FRESH) {
            return Ok(seq);
        }
        let seq = scan::head(&*self.table, &self.id).await?;
        self.set_bound(seq);
        Ok(seq)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_bound(&self, seq: u64) {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = Some((seq, Instant::now()));
    }

    /// Appends for those who wait, and answers them.
    async fn lead(&self, state: &mut State) {
        self.linger(state).await;
        let group = self.take_group();
        if group.is_empty() {
            return;
        }
        let entries: Vec<Arc<Entry>> = group.iter().map(|waiting| Arc::clone(&waiting.entry)).collect();
        let began = Instant::now();
        let committed = self.commit(state, &entries).await;
        self.meters.commit(began.elapsed(), entries.len());
        match committed {
            // Nobody is waiting any more where an answer is not taken.
            Ok(appended) => group.into_iter().zip(appended).for_each(|(waiting, appended)| {
                _ = waiting.answer.send(Ok(appended));
            }),
            Err(error) => group.into_iter().for_each(|waiting| {
                _ = waiting.answer.send(Err(Error::new(error.kind(), error.to_string())));
            }),
        }
        state.last = Some((entries.len(), Instant::now()));
    }

    /// Waits for as many as came the last time: they are answered all at once, so they come again all
    /// at once. One who comes alone does not wait.
    async fn linger(&self, state: &State) {
        let Some((wanted, _)) = state.last.filter(|(_, ended)| ended.elapsed() < LINGER_WITHIN) else {
            return;
        };
        let enough = async {
            while self.queue().len() < wanted {
                self.arrived.notified().await;
            }
        };
        // Too few in that time are enough.
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

    /// Stores what is missing of `entries`; for each, whether anything was.
    async fn commit(&self, state: &mut State, entries: &[Arc<Entry>]) -> Result<Vec<bool>> {
        let mut appended = vec![false; entries.len()];
        if state.is_doubtful || state.recent.is_none() {
            self.catch_up(state).await?;
        }
        for attempt in 0..MAX_ATTEMPTS {
            let mut missing = Vec::new();
            let mut first_with = HashMap::<BatchId, usize>::new();
            for (at, entry) in entries.iter().enumerate() {
                let stored = self.stored(state, entry).await?;
                // The same batch twice at one time: the first one stores it for both.
                let is_first = *first_with.entry(entry.batch).or_insert(at) == at;
                if stored < entry.columns.rows && is_first {
                    missing.push((Arc::clone(entry), stored));
                }
            }
            if missing.is_empty() {
                return Ok(appended);
            }
            let (written, result) = self.put(state, pack(&self.id, missing).await?).await;
            for (at, entry) in entries.iter().enumerate() {
                appended[at] |= written.contains(&entry.batch) && first_with.get(&entry.batch) == Some(&at);
            }
            match result {
                Ok(()) => {}
                // Somebody else took the place, or an earlier try of one of these did.
                Err(error) if error.is_conflict() => {
                    self.meters.conflicts.increment(1);
                    self.catch_up(state).await?;
                    sleep(backoff(attempt, &entries[0].batch)).await;
                }
                Err(error) => return Err(error),
            }
        }
        let message = format!("too many writers append to {}; try again", self.id);
        Err(Error::new(ErrorKind::Throttled, message))
    }

    /// Puts segments at the end of the log, as many as can be; returns the batches that got in.
    async fn put(&self, state: &mut State, mut segments: Vec<Segment>) -> (HashSet<BatchId>, Result<()>) {
        let now = self.clock.now();
        for (segment, seq) in segments.iter_mut().zip(state.head + 1..) {
            (segment.seq, segment.appended_at) = (seq, now);
        }
        // Until the answer is here, and for good when it never comes.
        state.is_doubtful = true;
        let items = segments.iter().map(Segment::to_item).collect();
        let (written, result) = self.table.put_new(items).await;
        let written = &segments[..written];
        for segment in written {
            state.note(segment);
            self.meters.appended(segment);
        }
        self.set_bound(state.head);
        state.is_doubtful = result.as_ref().is_err_and(|error| !error.is_conflict());
        let batches = written.iter().flat_map(|segment| &segment.batches).map(|part| part.batch);
        (batches.collect(), result)
    }

    /// Begins to note what comes behind the last segment.
    async fn start(&self, state: &mut State) -> Result<()> {
        state.head = scan::head(&*self.table, &self.id).await?;
        state.recent = Some(Recent::new(state.head + 1, self.budget.clone()));
        state.has_window = false;
        Ok(())
    }

    /// Reads what stands in the log behind the last segment that is known.
    async fn catch_up(&self, state: &mut State) -> Result<()> {
        if state.recent.is_none() {
            self.start(state).await?;
            state.is_doubtful = false;
            self.set_bound(state.head);
            return Ok(());
        }
        let mut query = Query::table(key::segments_from(&self.id, state.head + 1)).only(SUMMARY);
        let mut read = 0;
        loop {
            let page = self.table.query(&query).await?;
            for item in page.items {
                let segment = Segment::from_item(item)?;
                read += segment.rows;
                state.note(&segment);
            }
            match page.next {
                None => break,
                Some(_) if read >= MAX_CATCH_UP_ROWS => {
                    // Others have been at it for long: what they did is looked up where it matters.
                    self.start(state).await?;
                    query = Query::table(key::segments_from(&self.id, state.head + 1)).only(SUMMARY);
                    read = 0;
                }
                Some(next) => query.after = Some(next),
            }
        }
        state.is_doubtful = false;
        self.set_bound(state.head);
        Ok(())
    }

    /// How many rows of an entry, from the first on, are in the log.
    async fn stored(&self, state: &mut State, entry: &Entry) -> Result<usize> {
        let Some(after) = entry.after else {
            self.open_window(state).await?;
            return Ok(state.seen(entry.batch, 0));
        };
        let known_from = state.recent.as_ref().map_or(0, Recent::from);
        let least = if entry.is_named_by_digest { 0 } else { after + 1 };
        let mut stored = state.seen(entry.batch, least);
        if after + 1 < known_from && stored < entry.columns.rows {
            let range = key::segments_between(&self.id, after + 1, known_from - 1);
            let mut query = Query::table(range).only(SUMMARY);
            loop {
                let page = self.table.query(&query).await?;
                for item in page.items {
                    let parts = Segment::from_item(item)?.batches;
                    let parts = parts.iter().filter(|part| part.batch == entry.batch);
                    stored = parts.map(|part| part.first + part.rows).fold(stored, usize::max);
                }
                match page.next {
                    Some(next) if stored < entry.columns.rows => query.after = Some(next),
                    _ => break,
                }
            }
        }
        Ok(stored)
    }

    /// Reads the log backwards, as far as batches without a claim are looked for.
    async fn open_window(&self, state: &mut State) -> Result<()> {
        let Some(recent) = state.recent.as_mut().filter(|_| !state.has_window) else { return Ok(()) };
        let range = key::segments_between(&self.id, 1, recent.from().saturating_sub(1));
        let mut query = Query::table(range).only(SUMMARY).backward();
        let (mut read, mut rows) = (0, 0);
        while recent.from() > 1 && read < WINDOW_SEGMENTS && rows < WINDOW_ROWS {
            let page = self.table.query(&query.clone().limit(100)).await?;
            read += page.items.len();
            for item in page.items {
                let segment = Segment::from_item(item)?;
                rows += segment.rows;
                recent.note_before(&segment);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        state.has_window = true;
        Ok(())
    }
}

impl State {
    /// Notes the segment behind the last one. A read that came too early may see a later one first:
    /// what stands before it is there as well, and will be read.
    fn note(&mut self, segment: &Segment) {
        if segment.seq != self.head + 1 {
            return;
        }
        if let Some(recent) = &mut self.recent {
            recent.note(segment);
        }
        self.head = segment.seq;
    }

    /// How many rows of a batch were seen from segment `least` on.
    fn seen(&self, batch: BatchId, least: u64) -> usize {
        let seen = self.recent.as_ref().and_then(|recent| recent.get(batch));
        seen.filter(|seen| seen.seq >= least).map_or(0, |seen| seen.rows)
    }
}

/// A wait that grows with the attempts and differs between writers.
fn backoff(attempt: u32, batch: &BatchId) -> Duration {
    let most = (1 << attempt.min(4)).min(MAX_BACKOFF_MS);
    let share = u64::from(batch.0[attempt as usize % batch.0.len()]);
    Duration::from_micros(most * 1_000 * share / 256)
}
