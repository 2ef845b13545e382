//! Watches, in which followers of a log wait for appends. A watch knows the heads of all logs of a workspace and kind: it is notified of
//! the appends of this process, and polls for those of others. It is shared by all followers of the same logs, and ends some time
//! after the last of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use event::{Clock, Day, Id, Kind, Result, Timestamp};
use log::{
    append_notifier::{AppendListener, AppendNotifier},
    expired::{self, Expired},
    key::LogId,
    known::Known,
    read_version::ReadVersion,
    walk::Heads,
};
use table::Table;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::{Instant, sleep_until, timeout},
};

/// Time that a watch outlives the last request of its followers.
const IDLE: Duration = Duration::from_secs(60);

/// Minimum and maximum time between looks at recent days; within these bounds it is proportional to the duration of a look, so
/// that looking takes a small share of the time, and of the read units.
const LOOK_WITHIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Inverse share of the time that polling takes: a tenth while events come, else a fiftieth.
const BUSY_SHARE: u32 = 10;
const QUIET_SHARE: u32 = 50;

/// Minimum and maximum time between looks at all days, proportional likewise.
const LOOK_AT_ALL_WITHIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
const ALL_SHARE: u32 = 100;

/// Time for which a day counts as recent after it has grown.
const RECENT: Duration = Duration::from_secs(600);

/// Time to wait after a failure of the table.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

type All = HashMap<(Id, Kind), Arc<Watch>>;

/// The watches of a process.
#[derive(Clone, Debug)]
pub(crate) struct Watches {
    notifier: AppendNotifier,
    all: Arc<Mutex<All>>,
    closing: Arc<watch::Sender<bool>>,
}

/// The heads of the logs of a workspace and kind.
#[derive(Debug)]
pub(crate) struct Watch {
    table: Arc<dyn Table>,
    clock: Clock,
    workspace: Id,
    kind: Kind,
    looking: AsyncMutex<Looking>,
    seen: Mutex<Seen>,
    /// Counts the observations.
    news: watch::Sender<u64>,
}

/// State of looking, used by one look at a time.
#[derive(Debug)]
struct Looking {
    known: Known,
    recent: BTreeMap<Day, Instant>,
    is_begun: bool,
}

/// The observed state of the logs.
#[derive(Debug)]
struct Seen {
    heads: Heads,
    /// The days whose events have expired.
    expired: Vec<Expired>,
    /// Time by which at least all of these had been noted.
    looked_at: Timestamp,
    asked_at: Instant,
}

/// The part of the logs that a follower has not read.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// The logs that have grown beyond what was read, with their heads.
    pub(crate) logs: Heads,
    /// The days that have expired since.
    pub(crate) expired: Vec<Expired>,
    /// Time of the look behind this.
    pub(crate) looked_at: Timestamp,
}

impl Behind {
    /// Returns the number of segments that a follower at `read` has not read.
    pub(crate) fn segments(&self, read: &Heads) -> u64 {
        self.logs.iter().map(|(log, seq)| seq - read.get(log).copied().unwrap_or_default()).sum()
    }
}

impl Watches {
    pub(crate) fn new(notifier: AppendNotifier) -> Self {
        let (closing, _) = watch::channel(false);
        Self { notifier, all: Arc::default(), closing: Arc::new(closing) }
    }

    /// Ends all waiting.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Returns true if waiting has ended for all.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closing.borrow()
    }

    /// Returns as soon as waiting has ended for all.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as `self`.
        _ = self.closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }

    /// Returns the watch over a workspace and kind, after it has looked at all logs at least once.
    pub(crate) async fn over(
        &self,
        table: &Arc<dyn Table>,
        clock: &Clock,
        workspace: &Id,
        kind: Kind,
    ) -> Result<Arc<Watch>> {
        let place = (workspace.clone(), kind);
        let watch = {
            let mut all = lock(&self.all);
            let watch = all.entry(place.clone()).or_insert_with(|| {
                let listener = self.notifier.listen(workspace, kind);
                let watch = Arc::new(Watch::new(Arc::clone(table), clock.clone(), workspace, kind));
                tokio::spawn(self.clone().keep(place, Arc::clone(&watch), listener));
                watch
            });
            lock(&watch.seen).asked_at = Instant::now();
            Arc::clone(watch)
        };
        watch.begin().await?;
        Ok(watch)
    }

    /// Keeps a watch up to date until it has been idle for a while.
    async fn keep(self, place: (Id, Kind), watch: Arc<Watch>, listener: Arc<AppendListener>) {
        let mut look_again = LOOK_WITHIN.0;
        let mut look_at_all = Instant::now() + LOOK_AT_ALL_WITHIN.0;
        // Appends of this process do not postpone the look for those of others.
        let mut look_at = Instant::now() + look_again;
        loop {
            tokio::select! {
                () = listener.appended() => {
                    watch.hear(listener.heard());
                    continue;
                }
                () = sleep_until(look_at) => {}
                () = self.closed() => break,
            }
            if watch.is_idle() {
                let mut all = lock(&self.all);
                // While the lock is held, nobody can get the watch any more.
                if watch.is_idle() {
                    all.remove(&place);
                    return;
                }
            }
            let began = Instant::now();
            let is_for_all = began >= look_at_all;
            let look =
                async { if is_for_all { watch.look_at_all().await } else { watch.look_at_recent().await } };
            let looked = tokio::select! {
                // A process that ends cancels the read, which is no failure of the table.
                biased;
                () = self.closed() => break,
                looked = look => looked,
            };
            let took = began.elapsed();
            match looked {
                Ok(_) if is_for_all => {
                    look_at_all = Instant::now() + within(took, ALL_SHARE, LOOK_AT_ALL_WITHIN)
                }
                Ok(true) => look_again = within(took, BUSY_SHARE, LOOK_WITHIN),
                Ok(false) => {
                    let most = within(took, QUIET_SHARE, LOOK_WITHIN);
                    look_again = (look_again * 2).clamp(LOOK_WITHIN.0, most);
                }
                // The process ended between the two looks of this poll.
                Err(_) if self.is_closed() => break,
                Err(error) => {
                    tracing::warn!(%error, "what was appended cannot be looked for; trying again");
                    look_again = AGAIN_AFTER;
                }
            }
            look_at = Instant::now() + look_again;
        }
        lock(&self.all).remove(&place);
    }
}

fn within(took: Duration, share: u32, (least, most): (Duration, Duration)) -> Duration {
    (took * share).clamp(least, most)
}

impl Watch {
    fn new(table: Arc<dyn Table>, clock: Clock, workspace: &Id, kind: Kind) -> Self {
        let known = Known::new(workspace, kind, Heads::new());
        let looking = Looking { known, recent: BTreeMap::new(), is_begun: false };
        let (heads, expired) = (Heads::new(), Vec::new());
        let seen = Seen { heads, expired, looked_at: Day::FIRST.start(), asked_at: Instant::now() };
        let (news, _) = watch::channel(0);
        Self {
            table,
            clock,
            workspace: workspace.clone(),
            kind,
            looking: AsyncMutex::new(looking),
            seen: Mutex::new(seen),
            news,
        }
    }

    /// Looks at all days for the first time.
    async fn begin(&self) -> Result<()> {
        let mut looking = self.looking.lock().await;
        if !looking.is_begun {
            self.look_with(&mut looking, true).await?;
            looking.is_begun = true;
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        lock(&self.seen).asked_at.elapsed() > IDLE
    }

    /// Returns the part of the logs from the day `from` on that a follower at `read` has not read, with the days that expired
    /// after `since`. Release events never expire.
    pub(crate) fn behind(&self, read: &Heads, from: Day, since: Timestamp) -> Behind {
        let seen = lock(&self.seen);
        let grown = seen
            .heads
            .iter()
            .filter(|(log, seq)| log.day >= from && **seq > read.get(*log).copied().unwrap_or_default());
        let expired = seen.expired.iter().filter(|mark| mark.day >= from && mark.at > since);
        Behind {
            logs: grown.map(|(log, seq)| (log.clone(), *seq)).collect(),
            expired: expired.cloned().collect(),
            looked_at: seen.looked_at,
        }
    }

    /// Takes the days out of a read version that expired before it was made: warnings named their unread segments by then.
    pub(crate) fn without_expired(&self, read_version: &mut ReadVersion) {
        let seen = lock(&self.seen);
        let told = seen.expired.iter().filter(|mark| mark.at <= read_version.as_of);
        let days: BTreeSet<Day> = told.map(|mark| mark.day).collect();
        if !days.is_empty() {
            read_version.heads.retain(|log, _| !days.contains(&log.day));
            read_version.left_out.retain(|(log, _)| !days.contains(&log.day));
        }
    }

    /// Returns a segment that is in `read` and not in the table, as far as is known.
    pub(crate) fn ahead<'a>(&self, read: &'a Heads) -> Option<(&'a LogId, u64)> {
        let seen = lock(&self.seen);
        let is_ahead = |(log, seq): &(&LogId, &u64)| {
            **seq > seen.heads.get(*log).copied().unwrap_or_default()
                && !seen.expired.iter().any(|mark| mark.day == log.day)
        };
        read.iter().find(is_ahead).map(|(log, seq)| (log, *seq))
    }

    /// Returns a receiver that is notified of each observation.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Takes over the heads from notifications.
    fn hear(&self, heard: Heads) {
        let mut seen = lock(&self.seen);
        for (log, seq) in heard {
            let head = seen.heads.entry(log).or_default();
            *head = seq.max(*head);
        }
        drop(seen);
        self.news.send_modify(|count| *count += 1);
    }

    /// Looks at all days now; returns true if one has grown.
    pub(crate) async fn look_at_all(&self) -> Result<bool> {
        let mut looking = self.looking.lock().await;
        self.look_with(&mut looking, true).await
    }

    async fn look_at_recent(&self) -> Result<bool> {
        let mut looking = self.looking.lock().await;
        self.look_with(&mut looking, false).await
    }

    async fn look_with(&self, looking: &mut Looking, all: bool) -> Result<bool> {
        let now = self.clock.now();
        // Heads from notifications may be wrong, as a put may have failed; so their days are read.
        let heard = self.behind(looking.known.heads(), Day::FIRST, now).logs;
        looking.recent.extend(heard.keys().map(|log| (log.day, Instant::now())));
        let mut expired = None;
        let grown = if all {
            let grown = looking.known.look(&*self.table).await?;
            if self.kind != Kind::Releases {
                // A day is marked before its segments are deleted, so the marks of segments that were not found are there by now.
                expired = Some(expired::all(&*self.table, &self.workspace).await?);
            }
            grown
        } else {
            looking.recent.retain(|_, grown| grown.elapsed() < RECENT);
            let last = looking.known.last_day();
            let around = [-1, 0, 1].map(|days| now.plus_seconds(days * 24 * 60 * 60).day());
            let mut days: Vec<Day> = looking.recent.keys().copied().chain(last).chain(around).collect();
            days.sort();
            days.dedup();
            looking.known.look_at(&*self.table, days).await?
        };
        grown.iter().for_each(|day| _ = looking.recent.insert(*day, Instant::now()));
        let mut is_news = !grown.is_empty();
        for mark in expired.iter().flatten() {
            looking.known.forget(mark.day);
        }
        let mut seen = lock(&self.seen);
        if let Some(expired) = expired {
            is_news |= expired.len() != seen.expired.len();
            let is_gone = |day: Day| expired.iter().any(|mark| mark.day == day);
            seen.heads.retain(|log, _| !is_gone(log.day));
            (seen.expired, seen.looked_at) = (expired, now);
        }
        for (log, seq) in looking.known.heads() {
            let head = seen.heads.entry(log.clone()).or_default();
            *head = (*seq).max(*head);
        }
        drop(seen);
        if is_news {
            self.news.send_modify(|count| *count += 1);
        }
        Ok(is_news)
    }

    /// Returns on an observation since `news` was last checked, or after `wait`.
    pub(crate) async fn wait(&self, news: &mut watch::Receiver<u64>, wait: Duration) {
        // The sender lives as long as `self`.
        _ = timeout(wait, news.changed()).await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use event::{Column, Columns, Values};
    use log::{segment_item::Segment, store::Store};
    use table::{Condition, sqlite::SqliteTable};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watch_sees_other_writers_during_constant_own_appends() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let table: Arc<dyn Table> = Arc::new(table);
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let store = Store::over(Arc::clone(&table));
        let (notifier, ringing) = (store.notifier().clone(), store as Arc<dyn Table>);
        let log = |day: &str| LogId {
            workspace: workspace.clone(),
            day: day.parse().unwrap(),
            kind: Kind::Predictions,
            lane: 0,
        };
        let append = async |table: &Arc<dyn Table>, log: LogId, seq: u64| {
            let times = Values::Time(vec![log.day.start().micros()]);
            let columns = Columns { rows: 1, columns: vec![Column::new("predicted_at", times)] };
            let segment = Segment::pack(log, seq, Timestamp::default(), Vec::new(), &columns).unwrap();
            table.put(segment.to_item(), Condition::Absent).await.unwrap();
        };
        let watches = Watches::new(notifier);
        let watch = watches.over(&table, &Clock::system(), &workspace, Kind::Predictions).await.unwrap();
        append(&table, log("2013-06-01"), 1).await;
        let mut seq = 0;
        while !watch
            .behind(&Heads::new(), Day::FIRST, Timestamp::default())
            .logs
            .contains_key(&log("2013-06-01"))
        {
            seq += 1;
            assert!(seq < 1_000, "never seen");
            append(&ringing, log("2013-07-01"), seq).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        watches.close();
    }

    #[tokio::test(start_paused = true)]
    async fn closed_watch_ends_during_a_running_look() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let table: Arc<dyn Table> = Arc::new(table);
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let watches = Watches::new(AppendNotifier::default());
        let watch = watches.over(&table, &Clock::system(), &workspace, Kind::Predictions).await.unwrap();
        // Blocks the next look, like a table that does not answer.
        let looking = watch.looking.lock().await;
        tokio::time::sleep(LOOK_WITHIN.1).await;
        assert_eq!(lock(&watches.all).len(), 1);
        watches.close();
        let ended = async {
            while !lock(&watches.all).is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(5), ended).await.expect("it ends");
        drop(looking);
    }
}
