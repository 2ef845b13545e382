//! Failures of a worker to read, write or do something. It records them as dead letters, counts the letters of a workspace with
//! each sweep, and clears the letter after a success.

use event::{Error, Id, Result};
use log::{
    active,
    key::{OfDay, OfWorkspace},
};

use crate::{
    WorkspaceDay, caught,
    dead_letters::{self, DeadLetter, LetterState, Refused, Stopped},
    lock,
    retry::{self, Retried},
    shared::{Shared, add},
    undone::{self, Undone},
    unwritten::{self, Unwritten},
};

impl Shared {
    /// Records release events whose changes of the live releases are left to a later sweep.
    pub(crate) fn note_unrecorded(&self, unrecorded: &Stopped) {
        let Stopped { log, seq, reason } = unrecorded;
        self.stats.meters.unrecorded.increment(1);
        tracing::error!(workspace = %log.workspace, day = %log.day, seq, reason, "what is live cannot be recorded; the next sweep tries again");
        let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
        lock(&self.unwritten).insert((day, OfDay::Live), reason.clone());
    }

    /// Records a projection that cannot be written: from now on it is a dead letter, and each sweep tries again.
    ///
    /// # Errors
    /// Errors of the table that may pass; then it is not recorded.
    pub(crate) async fn note_unwritten(&self, day: &WorkspaceDay, what: OfDay, error: &Error) -> Result<()> {
        let reason = error.to_string();
        tracing::error!(workspace = %day.workspace, day = %day.day, what = what.name(), reason, "this projection cannot be written, and what is served is old; `almanac admin dead-letters` tells more");
        lock(&self.unwritten).insert((day.clone(), what), reason.clone());
        let recording = async {
            let version = active::load(&*self.table, &day.workspace).await?.version;
            unwritten::record(&*self.table, &Unwritten::new(version, day, what, &reason, self.now())).await
        };
        match recording.await {
            Ok(is_new) => add(&self.stats.dead_letters, u64::from(is_new)),
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => {
                tracing::error!(workspace = %day.workspace, %error, "its dead letter cannot be written")
            }
        }
        Ok(())
    }

    /// Deletes the dead letter of a projection that was written, if it has one.
    pub(crate) async fn written(&self, day: &WorkspaceDay, what: OfDay) {
        if !lock(&self.unwritten).contains_key(&(day.clone(), what)) {
            return;
        }
        let clearing = async {
            let version = active::load(&*self.table, &day.workspace).await?.version;
            unwritten::clear(&*self.table, version, day, what).await
        };
        match clearing.await {
            Ok(()) => _ = lock(&self.unwritten).remove(&(day.clone(), what)),
            // The next sweep marks the day again.
            Err(error) => {
                tracing::warn!(workspace = %day.workspace, day = %day.day, %error, "its dead letter stays")
            }
        }
    }

    /// Records a segment that a projection refused: from now on it is a dead letter.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn note(&self, version: u32, stopped: &Stopped, refused: Refused) -> Result<()> {
        let letter = DeadLetter::new(version, stopped.clone(), refused, self.now());
        if dead_letters::record(&*self.table, &letter).await? {
            add(&self.stats.dead_letters, 1);
            tracing::error!(
                workspace = %letter.log.workspace,
                day = %letter.log.day,
                kind = letter.log.kind.name(),
                lane = letter.log.lane,
                seq = letter.seq,
                reason = letter.reason,
                "a segment is refused; `almanac admin dead-letters` tells more"
            );
        }
        Ok(())
    }

    /// Returns the result of a task for a workspace; a failed task is a dead letter until it succeeds.
    ///
    /// # Errors
    /// Errors of the table that may pass.
    pub(crate) async fn noted<T>(
        &self,
        workspace: &Id,
        what: OfWorkspace,
        doing: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let done = caught::whole(doing).await;
        let name = (workspace.clone(), what);
        let version = async || active::load(&*self.table, workspace).await.map(|active| active.version);
        match done {
            // A denial may last as long as a role is wrong: it is recorded, and the rest goes on.
            Err(error) if error.may_pass() && !error.is_denied() => Err(error),
            Err(error) => {
                let reason = error.to_string();
                tracing::error!(%workspace, what = what.name(), reason, "this cannot be done for the workspace; work on other workspaces goes on");
                lock(&self.undone).insert(name, reason.clone());
                let letter = Undone::new(version().await?, workspace, what, &reason, self.now());
                match undone::record(&*self.table, &letter).await {
                    Ok(is_new) => add(&self.stats.dead_letters, u64::from(is_new)),
                    Err(error) if error.may_pass() && !error.is_denied() => return Err(error),
                    Err(error) => tracing::error!(%workspace, %error, "its dead letter cannot be written"),
                }
                Ok(None)
            }
            Ok(done) => {
                if lock(&self.undone).contains_key(&name) {
                    undone::clear(&*self.table, version().await?, workspace, what).await?;
                    lock(&self.undone).remove(&name);
                }
                Ok(Some(done))
            }
        }
    }

    /// Counts the dead letters of a workspace that stop something, and deletes those that do so no more.
    pub(crate) async fn count_letters(&self, workspace: &Id) -> Result<()> {
        let holding = async {
            dead_letters::unsettled(&*self.table, dead_letters::list(&*self.table, workspace).await?).await
        };
        let letters = match holding.await {
            Err(error) if !error.may_pass() => {
                tracing::error!(%workspace, %error, "its dead letters cannot be counted");
                return Ok(());
            }
            letters => letters?,
        };
        let stopped = letters.iter().filter(|letter| letter.state == LetterState::Stopped).count();
        let unwritten = match unwritten::list(&*self.table, workspace).await {
            Err(error) if !error.may_pass() => {
                tracing::error!(%workspace, %error, "its dead letters cannot be counted");
                return Ok(());
            }
            unwritten => unwritten?,
        };
        let undone = match undone::list(&*self.table, workspace).await {
            Err(error) if !error.may_pass() => {
                tracing::error!(%workspace, %error, "its dead letters cannot be counted");
                return Ok(());
            }
            undone => undone?,
        };
        let count = stopped + unwritten.len() + undone.len();
        lock(&self.stopped).insert(workspace.clone(), count as u64);
        {
            let mut known = lock(&self.undone);
            known.retain(|(of, _), _| of != workspace);
            known.extend(undone.into_iter().map(|one| ((one.workspace, one.what), one.reason)));
        }
        let mut known = lock(&self.unwritten);
        known.retain(|(day, _), _| day.workspace != *workspace);
        known.extend(unwritten.into_iter().map(|one| ((one.day, one.what), one.reason)));
        Ok(())
    }

    /// Tries again to record live releases after failures.
    pub(crate) async fn record_again(&self) -> Result<()> {
        let unwritten: Vec<_> = lock(&self.unwritten).keys().cloned().collect();
        for (day, _) in unwritten.into_iter().filter(|(_, what)| *what == OfDay::Live) {
            let retried = match unwritten::find(&*self.table, &day, OfDay::Live).await {
                Ok(letter) => retry::projection(&*self.table, &letter).await?,
                Err(error) if error.may_pass() => return Err(error),
                // Another worker has done it.
                Err(_) => Retried::Done,
            };
            match retried {
                Retried::Done => _ = lock(&self.unwritten).remove(&(day, OfDay::Live)),
                Retried::Refused(reason) => {
                    tracing::error!(workspace = %day.workspace, day = %day.day, reason, "what is live still cannot be recorded");
                }
            }
        }
        Ok(())
    }

    /// Brings the leaderboard up to date.
    pub(crate) async fn rank(&self, workspace: &Id) -> Result<()> {
        let ranking = self.catalog.refresh_leaderboard(workspace, self.now());
        self.noted(workspace, OfWorkspace::Leaderboard, ranking).await.map(|_| ())
    }
}
