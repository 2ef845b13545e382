//! Erasures that no process carries out: those requested over HTTP, and those whose process died.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use catalog::{Erasure, ErasurePhase};
use event::{ErrorKind, Id, Result};
use log::key::OfWorkspace;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Pace, carry_out};
use crate::shared::Shared;

/// Time between two searches for such erasures.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time without a sign after which an erasure counts as abandoned.
const IDLE: Duration = Duration::from_secs(60);

/// Last seen state of an erasure, and the instant since which it is unchanged.
type Seen = BTreeMap<(Id, Id), ((i64, i64), Instant)>;

/// Carries out erasures forever, in the one worker that sweeps periodically, one at a time.
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
