//! Carries out erasures ([`catalog::Erasure`]): replaces keys by pseudonyms in all that is stored.
//!
//! An erasure moves from phase to phase. Each is written under the condition that no other process was quicker, so any
//! process can continue an interrupted erasure:
//! 1. *Waiting*: until no service stores events of the keys any more ([`catalog::ERASURE_WAIT_SECONDS`]).
//! 2. *Looking*: all segments are read, and the days that have one of the keys are recorded (`segments::look`). Then
//!    the lanes are known, and pseudonyms are drawn.
//! 3. *Rewriting*: the segments of these days and items of reviews are rewritten (`segments::rewrite`). A transaction
//!    contains segments and the progress, so each segment is rewritten once. Meanwhile no final decision is made from
//!    events of the workspace ([`log::erased::ErasureEpoch`]).
//! 4. *Folding*: these days are folded into the next version of the projections ([`mod@crate::rebuild`]), and the
//!    projections of all other days copied (`untouched.rs`). So the new version contains neither the keys nor their
//!    tags and features; the old one is deleted. Rollups at ages of their days are made again, and, if values were
//!    erased, evaluations at ages (`vintage.rs`).
//! 5. *Clearing*: the erasure itself drops the keys, and the engine reclaims deleted data.

mod segments;
mod vintage;

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use catalog::{Catalog, ERASURE_WAIT_SECONDS, Erasure, ErasurePhase};
use event::{Clock, Error, ErrorKind, Id, Result};
use log::{active, key::OfWorkspace};
use table::{Policy, Table};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::{
    rebuild::{self, rebuild_touched},
    shared::Shared,
};

/// Time between two heartbeats of the process that carries out an erasure.
const BEAT_EVERY: Duration = Duration::from_secs(15);

/// Time to wait before the engine is asked again to reclaim deleted data: at first, at most and in all. Each request
/// delays writes a little.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Pace and clock of an erasure.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time to wait until no service stores events of the keys; less than [`ERASURE_WAIT_SECONDS`] is correct only
    /// where nothing is appended.
    pub wait: Duration,
    /// Share of the time in which it folds, above 0 and at most 1.
    pub share: f64,
    /// Clock for its times.
    pub clock: Clock,
}

impl Pace {
    /// Creates the default pace.
    pub fn new(clock: Clock) -> Self {
        Self { wait: Duration::from_secs(ERASURE_WAIT_SECONDS), share: 1.0, clock }
    }
}

/// Carries out an erasure to its end, or continues it; `tell` gets it after each step.
///
/// # Errors
/// `NotFound`, when no erasure has this id; `Corrupt`, when the events cannot be folded again
/// ([`fn@rebuild::rebuild`]); errors of the table. It may be called again at any time.
pub async fn carry_out(
    table: &Arc<dyn Table>,
    (workspace, id): (&Id, &Id),
    pace: &Pace,
    tell: &(dyn Fn(&Erasure) + Sync),
) -> Result<Erasure> {
    let catalog = Catalog::new(Arc::clone(table));
    let carrying = Carrying { table: &**table, catalog: &catalog, pace };
    let mut tries = Policy::of(&"an erasure").tries();
    let mut before = None;
    loop {
        let erasure = catalog.erasure(workspace, id).await?;
        // Gives up when other processes win repeatedly without progress.
        if before.replace(erasure.ver) == Some(erasure.ver) {
            tries.next().await?;
        } else {
            tries = Policy::of(&"an erasure").tries();
        }
        tell(&erasure);
        if erasure.phase == ErasurePhase::Done {
            return Ok(erasure);
        }
        match carrying.beating(&erasure, Box::pin(carrying.step(erasure.clone()))).await {
            Err(error) if error.is_conflict() => tries.next().await?,
            done => done?,
        }
    }
}

struct Carrying<'a> {
    table: &'a dyn Table,
    catalog: &'a Catalog,
    pace: &'a Pace,
}

impl Carrying<'_> {
    /// Does some work, and writes heartbeats of the erasure meanwhile.
    async fn beating<T>(&self, erasure: &Erasure, work: impl Future<Output = Result<T>>) -> Result<T> {
        let beats = async {
            let mut beats = interval(BEAT_EVERY);
            loop {
                beats.tick().await;
                // Without a heartbeat another process may repeat the work, which is wasteful and harmless.
                if let Err(error) = self.catalog.touch_erasure(erasure).await {
                    tracing::debug!(workspace = %erasure.workspace, %error, "an erasure cannot show that it is worked on");
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = beats => Err(Error::unavailable("an erasure was broken off")),
        }
    }

    /// Makes one step of an erasure. It does nothing when another process was quicker.
    async fn step(&self, mut erasure: Erasure) -> Result<()> {
        match erasure.phase {
            ErasurePhase::Waiting => {
                sleep(self.pace.wait).await;
                erasure.phase = ErasurePhase::Looking;
                self.catalog.move_erasure(&mut erasure, Vec::new()).await.map(drop)
            }
            ErasurePhase::Looking => {
                segments::look(self.table, &mut erasure).await?;
                erasure.phase = ErasurePhase::Rewriting;
                self.catalog.turn_erasure(&mut erasure, true).await.map(drop)
            }
            ErasurePhase::Rewriting => self.rewrite(erasure).await,
            ErasurePhase::Folding => self.fold(erasure).await,
            ErasurePhase::Clearing => self.clear(erasure).await,
            ErasurePhase::Done => Ok(()),
        }
    }

    async fn rewrite(&self, mut erasure: Erasure) -> Result<()> {
        // Unmatched outcomes first, then the predictions that they may label.
        let next = erasure.left.iter().max_by_key(|left| (left.is_unmatched, left.day)).copied();
        if let Some(left) = next {
            return Box::pin(segments::rewrite(self.table, self.catalog, &mut erasure, left)).await;
        }
        erasure.items +=
            self.catalog.erase_in_reviews(&erasure.workspace, &erasure.keys, erasure.with_values).await?;
        erasure.phase = ErasurePhase::Folding;
        if erasure.rows > 0 {
            // The version being built may have been folded from events with the keys.
            let active = active::load(self.table, &erasure.workspace).await?;
            erasure.version = Some(active.version.max(active.building.unwrap_or(0)) + 1);
        }
        self.catalog.turn_erasure(&mut erasure, false).await.map(drop)
    }

    async fn fold(&self, mut erasure: Erasure) -> Result<()> {
        let pace = rebuild::Pace { share: self.pace.share, clock: self.pace.clock.clone() };
        // An unreadable segment may have been folded with its keys before.
        let is_known = erasure.unreadable.is_empty() && !erasure.touched.is_empty();
        while let Some(version) = erasure.version
            && active::load(self.table, &erasure.workspace).await?.version < version
        {
            let touched = is_known.then_some((version, &erasure.touched));
            Box::pin(rebuild_touched(self.table, (&erasure.workspace, touched), &pace, |_| ())).await?;
        }
        if erasure.version.is_some() {
            rebuild::delete_before_active(self.table, &erasure.workspace, &pace).await?;
            let (workspace, days) = (&erasure.workspace, &erasure.touched);
            if erasure.with_values {
                Box::pin(vintage::evaluations_again(self.table, workspace, days)).await?;
            }
            Box::pin(vintage::rollups_again(self.table, workspace, days)).await?;
        }
        erasure.pseudonyms = std::mem::take(&mut erasure.keys).into_values().collect();
        erasure.touched.clear();
        erasure.phase = ErasurePhase::Clearing;
        self.catalog.turn_erasure(&mut erasure, false).await.map(drop)
    }

    async fn clear(&self, mut erasure: Erasure) -> Result<()> {
        if erasure.version.is_some() {
            // A fold into the old version may have begun before that was deleted.
            let active = active::load(self.table, &erasure.workspace).await?;
            rebuild::delete_before(self.table, &erasure.workspace, active).await?;
        }
        patiently(|| self.table.forget_deleted()).await?;
        erasure.phase = ErasurePhase::Done;
        erasure.ended_at = Some(self.pace.clock.now());
        self.catalog.move_erasure(&mut erasure, Vec::new()).await.map(drop)
    }
}

/// Asks the engine to reclaim deleted data, and again, at growing intervals, while other readers use it.
async fn patiently<F: Future<Output = Result<()>>>(mut forget: impl FnMut() -> F) -> Result<()> {
    let (mut waited, mut pause) = (Duration::ZERO, RETRY_AFTER);
    loop {
        match forget().await {
            Err(error) if error.may_pass() && waited < PATIENCE => {
                sleep(pause).await;
                waited += pause;
                pause = MAX_RETRY_AFTER.min(pause * 2);
            }
            forgotten => return forgotten,
        }
    }
}

/// Time between two searches for such erasures.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time without a sign after which an erasure counts as abandoned.
const IDLE: Duration = Duration::from_secs(60);

/// Last seen state of an erasure, and the instant since which it is unchanged.
type Seen = BTreeMap<(Id, Id), ((i64, i64), Instant)>;

/// Carries out the erasures that no process carries out, forever: those requested over HTTP, and those whose process died. The one
/// worker that sweeps does it, one at a time.
pub(crate) async fn run(shared: &Arc<Shared>) -> Result<()> {
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = Seen::new();
    loop {
        look.tick().await;
        if !shared.has_sweep_lease() {
            continue;
        }
        match once(shared, &mut seen).await {
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "the table is not available; keys are erased later");
            }
            done => done?,
        }
    }
}

async fn once(shared: &Arc<Shared>, seen: &mut Seen) -> Result<()> {
    let open = shared.catalog.open_erasures().await?;
    seen.retain(|known, _| open.contains(known));
    for (workspace, id) in open {
        let erasure = match shared.catalog.erasure(&workspace, &id).await {
            // It was deleted with its workspace during the search.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found?,
        };
        if is_idle(&erasure, seen) {
            // On the heap: a rebuild inside the loops of a worker is more than its stack may hold.
            let erasing = Box::pin(shared.erase(&workspace, &id));
            shared.noted(&workspace, OfWorkspace::Erasure, erasing).await?;
        }
    }
    Ok(())
}

/// Returns whether no process carries out an erasure: it was never begun, or has stood still for long.
fn is_idle(erasure: &Erasure, seen: &mut Seen) -> bool {
    let now = Instant::now();
    let (ver, beats) = (erasure.ver, erasure.beats);
    let known = seen.entry((erasure.workspace.clone(), erasure.id.clone())).or_insert(((ver, beats), now));
    if known.0 != (ver, beats) {
        *known = ((ver, beats), now);
    }
    erasure.phase != ErasurePhase::Done && (beats == 0 && ver == 1 || known.1.elapsed() >= IDLE)
}

impl Shared {
    async fn erase(&self, workspace: &Id, id: &Id) -> Result<()> {
        let pace = Pace::new(self.options.clock.clone());
        let erased = carry_out(&self.table, (workspace, id), &pace, &|_| ()).await?;
        let (rows, segments) = (erased.rows, erased.segments);
        tracing::info!(%workspace, erasure = %id, rows, segments, "erased keys");
        Ok(())
    }
}

/// Returns whether an error is about an unreadable segment, and not about an unavailable table.
fn is_unreadable(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn erasure_polls_remaining_readers_ever_more_rarely() {
        let began = Instant::now();
        let mut asked = Vec::new();
        let refused = patiently(|| {
            asked.push(began.elapsed().as_secs());
            async { Err(Error::unavailable("others still read it")) }
        });
        assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(asked[..8], [0, 1, 3, 7, 15, 31, 61, 91]);
        assert!(asked.last() >= Some(&PATIENCE.as_secs()), "{asked:?}");
        assert!(asked.len() < 30, "{asked:?}");
    }
}
