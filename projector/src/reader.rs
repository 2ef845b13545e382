//! Reads one shard: marks changed logs as dirty, and moves the checkpoint of the lease behind all written changes.

use std::{sync::Arc, time::Duration};

use event::{ErrorKind, Result};
use log::key;
use table::{Changes, Position};
use tokio::time::{Instant, sleep};

use crate::{
    WorkspaceDay,
    following::{CHECKPOINT_EVERY, Following, Moved},
    full_sweep, lock,
    shared::{Extent, Shared, waits},
};

/// Time for which the feed is asked to wait for a change.
const WAIT: Duration = Duration::from_secs(5);

/// Time to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

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
                        shared.checkpoint(&following).await;
                    }
                }
            }
        };
        let changes = match changes {
            Ok(changes) => {
                following.answered();
                changes
            }
            Err(error) if error.may_pass() => {
                waits(&error, &following.shard, "the feed is not available; trying again");
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
        if changes.gap {
            tracing::warn!(shard = following.shard, "changes are gone from the feed; comparing all logs");
            match demand_full_sweep(&shared).await {
                Err(error) if error.may_pass() => {
                    waits(&error, &following.shard, "the sweep is not demanded; trying again");
                    sleep(RETRY_AFTER).await;
                    from = Some(position);
                    continue;
                }
                demanded => demanded?,
            }
        }
        let is_news = shared.take_in(&changes);
        following.add(changes.next.clone(), shared.schedule().newest(), is_news);
        shared.checkpoint(&following).await;
        from = changes.next;
    }
    // The shard is closed and read to its end: its children go on.
    shared.discover.notify_one();
    while following.is_waiting() && !shared.checkpoint(&following).await {
        sleep(CHECKPOINT_EVERY).await;
    }
    shared.discover.notify_one();
    Ok(())
}

/// Takes the newest position of a shard and demands a sweep, in this order: so no change falls between the two. `None`, when the
/// shard is closed.
pub(crate) async fn begin_at_latest(shared: &Shared, following: &Following) -> Result<Option<Position>> {
    let changes = shared.table.changes(&following.shard, &Position::Latest, Duration::ZERO).await?;
    demand_full_sweep(shared).await?;
    following.add(changes.next.clone(), shared.schedule().newest(), true);
    Ok(changes.next)
}

/// Demands the comparison of all days of all workspaces. From then on no checkpoint has to wait for that.
async fn demand_full_sweep(shared: &Shared) -> Result<()> {
    full_sweep::demand(&*shared.table, shared.now()).await?;
    shared.look_for_demand();
    Ok(())
}

impl Shared {
    /// Writes the checkpoint of a shard, when there is one to write. Returns whether the shard is finished.
    async fn checkpoint(&self, following: &Following) -> bool {
        let due = following.due(&self.schedule(), false);
        let Some(due) = due else { return false };
        match following.move_to(&due, &*self.table, self.now()).await {
            Moved::To { is_done } => is_done,
            Moved::Not => false,
            Moved::Lost => {
                self.discover.notify_one();
                false
            }
        }
    }

    /// Gives the lease of a shard back, with the last checkpoint.
    pub(crate) async fn hand_over(&self, following: &Following) {
        let last = following.due(&self.schedule(), true);
        following.hand_over(last, &*self.table, self.now()).await;
    }

    /// Marks changed days. Returns whether any change is not a worker's own write.
    fn take_in(&self, changes: &Changes) -> bool {
        let mut is_news = changes.gap;
        let now = Instant::now();
        for key in &changes.keys {
            if let Some((log, _)) = key::parse_segment(key) {
                self.schedule().mark_grown(log, now);
            } else if let Some((log, _, _)) = key::parse_dead_letter(key) {
                // The letter was created, its segment skipped, or tried again.
                lock(&self.recount).insert(log.workspace.clone());
                self.sweep.notify_one();
                let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
                self.schedule().mark(day, Some(log), None, now);
            } else if let Some((workspace, _, day, _)) = key::parse_unwritten(key) {
                // The letter was created, or its projection could be written.
                lock(&self.recount).insert(workspace.clone());
                self.sweep.notify_one();
                self.schedule().mark(WorkspaceDay { workspace, day }, None, None, now);
            } else if let Some((workspace, ..)) = key::parse_undone(key) {
                lock(&self.recount).insert(workspace);
                self.sweep.notify_one();
            } else if let Some(workspace) = key::parse_active(key) {
                self.ask_for_sweep(Extent::Workspace(workspace));
            } else if let Some(workspace) = key::parse_settings(key) {
                // Corrects a projector that ranked meanwhile by the settings before.
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
