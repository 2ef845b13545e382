//! Keeps the heartbeat and the leases of a worker, and a reader for every shard that it should read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use event::{Error, Result, Timestamp};
use log::segment_item::CLOSED_AFTER_SECONDS;
use table::{Position, Shard};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use crate::{
    counting::Counting,
    following::Following,
    heartbeat::{Heartbeat, Life, Watch, heartbeats},
    lease::{Lease, SWEEP, leases},
    lock,
    plan::{Plan, View},
    reader::{self, begin_at_latest},
    shared::{Extent, Shared, waits},
};

/// Time between two searches for new shards, besides those when one ends.
const DISCOVER_EVERY: Duration = Duration::from_secs(60);

/// Least change of the clock that is noticed, in seconds: as much as clocks may differ.
const STEP_SECONDS: i64 = CLOSED_AFTER_SECONDS / 3;

pub(crate) struct Coordinator {
    shared: Arc<Shared>,
    beat: i64,
    /// Latest time of the clocks of other living workers.
    latest: Timestamp,
    watch: Watch,
    counting: Counting,
    shards: Vec<Shard>,
    discover_at: Instant,
    readers: JoinSet<(String, Result<()>)>,
    aborts: BTreeMap<String, AbortHandle>,
    /// Shards that were read to their end.
    ended: BTreeSet<String>,
    is_first: bool,
    /// Last time of the clock, and the instant at which it was read.
    clock_read: (Timestamp, Instant),
}

impl Coordinator {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            watch: Watch::new(shared.options.period),
            clock_read: (shared.options.clock.now(), Instant::now()),
            shared,
            beat: 0,
            latest: Timestamp::default(),
            counting: Counting::new(),
            shards: Vec::new(),
            discover_at: Instant::now(),
            readers: JoinSet::new(),
            aborts: BTreeMap::new(),
            ended: BTreeSet::new(),
            is_first: true,
        }
    }

    /// Coordinates forever.
    pub(crate) async fn run(mut self) -> Result<()> {
        loop {
            let next = Instant::now() + self.shared.options.period;
            match self.tick().await {
                Ok(()) => {}
                Err(error) if error.may_pass() => {
                    waits(&error, &self.shared.options.worker, "the leases are not available; trying again");
                }
                Err(error) => return Err(error),
            }
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                Some(ended) = self.readers.join_next() => match ended {
                    Ok((shard, ended)) => {
                        ended?;
                        self.aborts.remove(&shard);
                        lock(&self.shared.following).remove(&shard);
                        self.ended.insert(shard);
                        self.discover_at = Instant::now();
                    }
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => return Err(Error::unavailable("reading a shard failed").because(error)),
                },
                () = shared.discover.notified() => self.discover_at = Instant::now(),
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Lists the shards. While the table is not available the known ones are still followed, and sweeps find the changes missing
    /// from the stream: it is tried again at the next tick.
    async fn discover(&mut self) -> Result<()> {
        let shared = &self.shared;
        match shared.table.shards().await {
            Ok(shards) => {
                self.ended.retain(|ended| shards.iter().any(|shard| shard.id == *ended));
                self.shards = shards;
                self.discover_at = Instant::now() + DISCOVER_EVERY;
                *lock(&shared.unlisted) = None;
            }
            Err(error) if error.may_pass() => {
                lock(&shared.unlisted).get_or_insert_with(Instant::now);
                let me = &shared.options.worker;
                waits(&error, me, "the shards of the stream cannot be listed; trying again");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn tick(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        shared.options.segment_cache.forget_old();
        self.watch_clock();
        self.show_that_it_is_there().await?;
        if Instant::now() >= self.discover_at {
            self.discover().await?;
        }
        let stream = self.shards.first().map_or("feed", Shard::stream).to_owned();
        let table = &*shared.table;
        let (found, beats) = futures::try_join!(leases(table, &stream), heartbeats(table))?;
        let mut found: BTreeMap<String, Lease> =
            found.into_iter().map(|lease| (lease.shard.clone(), lease)).collect();
        let is_new = |lease: &&Lease| self.shards.iter().all(|shard| shard.id != lease.shard);
        if found.values().filter(|lease| lease.shard != SWEEP && !lease.is_done).any(|one| is_new(&one)) {
            // Another worker knows of a shard that is not in the list yet.
            self.discover_at = Instant::now();
        }
        let plan = self.plan(&stream, &found, &beats);
        let me = &shared.options.worker;
        let now = Instant::now();
        let others = beats.iter().filter(|beat| beat.worker != *me);
        let others = others.filter(|beat| self.watch.life(&beat.worker, now) != Life::Dead);
        let clocks: Vec<_> = others.map(|beat| beat.at).collect();
        self.latest = clocks.iter().copied().max().unwrap_or_default();
        if let Err(error) = self.counting.tick(&shared, &clocks).await {
            // Until it is counted, nothing is deleted.
            waits(&error, me, "the time of the table is not counted; trying again");
        }
        for (lease, before) in plan.takes {
            match lease.write(table, before, shared.now()).await {
                Ok(()) => {
                    tracing::info!(shard = lease.shard, epoch = lease.epoch, "took the lease");
                    found.insert(lease.shard.clone(), lease);
                }
                // Another worker was quicker.
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        self.follow(&found, &plan.along).await?;
        if self.is_first {
            self.is_first = false;
            shared.ask_for_sweep(Extent::Latest);
        }
        Ok(())
    }

    /// Notices that the clock was set. A sweep finds the decisions made by a clock that was ahead ([`crate::early`]).
    fn watch_clock(&mut self) {
        let clock_read = (self.shared.options.clock.now(), Instant::now());
        let passed = clock_read.1.duration_since(self.clock_read.1).as_micros() as i64;
        let seconds = (clock_read.0.micros() - self.clock_read.0.micros() - passed) / 1_000_000;
        self.clock_read = clock_read;
        if seconds < -STEP_SECONDS {
            tracing::warn!(
                seconds,
                "the clock of this machine was set back; what was decided of days that are not over is taken back"
            );
        } else if seconds > STEP_SECONDS {
            tracing::warn!(seconds, "the clock of this machine was set ahead, or the machine has slept");
        } else {
            return;
        }
        self.shared.ask_for_sweep(Extent::Latest);
    }

    async fn show_that_it_is_there(&mut self) -> Result<()> {
        self.beat += 1;
        let shared = &self.shared;
        let (dirty, _, oldest) = shared.schedule().backlog();
        let held =
            lock(&shared.following).values().filter(|one| one.shard != SWEEP && one.has_lease()).count();
        let beat = Heartbeat {
            worker: shared.options.worker.clone(),
            beat: self.beat,
            at: shared.now(),
            shards: held as u64,
            dirty: dirty as u64,
            oldest_ms: oldest.map_or(0, |oldest| oldest.elapsed().as_millis() as u64),
            retries: shared.stats.retries.load(std::sync::atomic::Ordering::Relaxed),
            layout: log::layout::LAYOUT,
        };
        beat.write(&*shared.table, self.latest).await?;
        *lock(&shared.last_beat) = Some(Instant::now());
        Ok(())
    }

    fn plan(&mut self, stream: &str, found: &BTreeMap<String, Lease>, beats: &[Heartbeat]) -> Plan {
        let now = Instant::now();
        let me = self.shared.options.worker.as_str();
        let beats: BTreeMap<String, i64> =
            beats.iter().map(|beat| (beat.worker.clone(), beat.beat)).filter(|(id, _)| id != me).collect();
        let owners = found.values().filter_map(|lease| lease.owner.clone()).filter(|id| id != me).collect();
        self.watch.look(&beats, &owners, now);
        let others = beats.keys().filter(|worker| self.watch.life(worker, now) != Life::Dead).count();
        let watch = &self.watch;
        let life = |worker: &str| watch.life(worker, now);
        View { me, stream, shards: &self.shards, leases: found, others, life: &life }.plan()
    }

    /// Starts and ends readers so that exactly its own shards in `found` and those to be read along are read. Under a new lease,
    /// reading begins at its checkpoint.
    async fn follow(&mut self, found: &BTreeMap<String, Lease>, along: &BTreeSet<String>) -> Result<()> {
        let me = self.shared.options.worker.clone();
        let mine = |shard: &str| found.get(shard).filter(|lease| lease.owner.as_deref() == Some(&me));
        let following: Vec<_> = lock(&self.shared.following).values().cloned().collect();
        for one in following {
            let lease = mine(&one.shard);
            let is_wanted = lease.is_some() || along.contains(&one.shard);
            if !is_wanted || !one.is_under(lease) {
                lock(&self.shared.following).remove(&one.shard);
                if let Some(reader) = self.aborts.remove(&one.shard) {
                    reader.abort();
                }
            }
        }
        let wanted = found.values().filter(|lease| !lease.is_done);
        let wanted = wanted.filter(|lease| mine(&lease.shard).is_some() || along.contains(&lease.shard));
        let wanted: Vec<_> = wanted.collect();
        // Forgets shards that another worker reads by now.
        lock(&self.shared.unheard).retain(|shard, _| wanted.iter().any(|lease| lease.shard == *shard));
        for lease in wanted {
            if !lock(&self.shared.following).contains_key(&lease.shard) && !self.ended.contains(&lease.shard)
            {
                self.start(lease, mine(&lease.shard)).await?;
            }
        }
        Ok(())
    }

    /// Begins to read a shard at its newest position. The duration of failures is part of the worker's health.
    async fn begin(&self, following: &Following) -> Result<Option<Position>> {
        let begun = begin_at_latest(&self.shared, following).await;
        let mut unheard = lock(&self.shared.unheard);
        match &begun {
            Ok(_) => _ = unheard.remove(&following.shard),
            Err(_) => _ = unheard.entry(following.shard.clone()).or_insert_with(Instant::now),
        }
        begun
    }

    async fn start(&mut self, lease: &Lease, mine: Option<&Lease>) -> Result<()> {
        let following = Arc::new(Following::new(&lease.shard, mine));
        if lease.shard != SWEEP {
            let from = match &lease.checkpoint {
                Some(checkpoint) => Some(checkpoint.clone()),
                None => self.begin(&following).await?,
            };
            let (shared, one) = (Arc::clone(&self.shared), Arc::clone(&following));
            let reader = async move { (one.shard.clone(), reader::read(shared, one, from).await) };
            self.aborts.insert(lease.shard.clone(), self.readers.spawn(reader));
            // The worker that read it before may have died before the sweep demanded by a gap.
            self.shared.look_for_demand();
        }
        lock(&self.shared.following).insert(lease.shard.clone(), following);
        Ok(())
    }
}
