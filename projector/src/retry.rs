//! Retries of failures with a dead letter, whose letter is deleted on success.

use std::collections::BTreeSet;

use catalog::Catalog;
use event::{Error, Result, Timestamp};
use log::{
    audit::Audited,
    compacted::Compacted,
    key::{OfDay, OfWorkspace},
    projection::Applied,
};
use table::Table;

use crate::{
    WorkspaceDay, alert, caught, challenges,
    dead_letters::{self, DeadLetter, Refused, Stopped},
    digest,
    evaluate::{self, Effort},
    expire::expire,
    features, key_filters,
    letter::LetterState,
    project::{self, record_releases},
    sweep::sweep_version,
    undone::{self, Undone},
    unmatched,
    unwritten::{self, Unwritten},
    vintages,
};

pub use crate::letter::Retried;

/// Tries a stopped segment again.
///
/// # Errors
/// `Conflict`, when the segment was left out; errors of the table.
pub async fn segment(table: &dyn Table, letter: &DeadLetter) -> Result<Retried> {
    if letter.state == LetterState::Skipped {
        return Err(Error::conflict(format!(
            "{letter} was skipped; a rebuild (`almanac admin rebuild`) folds it if it can be folded now"
        )));
    }
    let (day, logs) = (letter.day(), BTreeSet::from([letter.log.clone()]));
    let projection = project::project(table, letter.version, &day, &logs).await?;
    let reason_of = |stopped: Vec<Stopped>| {
        let mut stopped = stopped.into_iter();
        stopped.find(|stopped| stopped.log == letter.log && stopped.seq == letter.seq).map(|it| it.reason)
    };
    let mut still = reason_of(projection.stopped).map(|reason| (Refused::Rollup, reason));
    if still.is_none() {
        let effort = evaluate::evaluate(table, letter.version, &day, &projection.applied).await?;
        still = reason_of(effort.stopped).map(|reason| (Refused::Evaluation, reason));
    }
    if still.is_none() {
        let effort = features::sketch(table, letter.version, &day, &projection.applied).await?;
        still = reason_of(effort.stopped).map(|reason| (Refused::Features, reason));
    }
    // The letter is outdated: another projection may refuse the segment now.
    if still.as_ref().is_none_or(|(refused, _)| *refused != letter.refused) {
        letter.delete(&Audited::over(table)).await?;
    }
    let Some((refused, reason)) = still else { return Ok(Retried::Done) };
    dead_letters::record(table, &DeadLetter { refused, reason: reason.clone(), ..letter.clone() }).await?;
    Ok(Retried::Refused(reason))
}

/// Tries again to write a projection, and deletes its letter on success.
///
/// # Errors
/// Errors of the table that may pass.
pub async fn projection(table: &dyn Table, letter: &Unwritten) -> Result<Retried> {
    match written(table, letter).await {
        Ok(None) => {}
        Ok(Some(reason)) => return Ok(Retried::Refused(reason)),
        Err(error) if error.may_pass() => return Err(error),
        Err(error) => return Ok(Retried::Refused(error.to_string())),
    }
    unwritten::clear(&Audited::over(table), letter.version, &letter.day, letter.what).await?;
    Ok(Retried::Done)
}

/// Writes the projection; or returns the reason that it cannot be written.
async fn written(table: &dyn Table, letter: &Unwritten) -> Result<Option<String>> {
    let (version, day) = (letter.version, &letter.day);
    let reason = |effort: Effort| effort.stopped.into_iter().next().map(|stopped| stopped.reason);
    let projection = project::project(table, version, day, &BTreeSet::new()).await?;
    match letter.what {
        OfDay::Rollup => Ok(None),
        OfDay::Evaluation => {
            let effort = evaluate::evaluate(table, version, day, &projection.applied).await?;
            Ok(reason(effort))
        }
        OfDay::Features => features::sketch(table, version, day, &projection.applied).await.map(reason),
        OfDay::Live => still_unrecorded(table, version, day, &projection.applied).await,
    }
}

/// Records the changes of live releases by the release events of a day; or returns the reason that it still cannot be done.
async fn still_unrecorded(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    applied: &Applied,
) -> Result<Option<String>> {
    let skipped = dead_letters::skipped(table, version, day, Refused::ALL).await?;
    let left = record_releases(table, day, &Applied::new(), applied, &skipped).await?;
    Ok(left.into_iter().next().map(|stopped| stopped.reason))
}

/// Tries a failed task again, and deletes its letter on success.
///
/// # Errors
/// Errors of the table that may pass.
pub async fn task(table: &dyn Table, catalog: &Catalog, letter: &Undone, now: Timestamp) -> Result<Retried> {
    let workspace = &letter.workspace;
    let doing = async {
        match letter.what {
            OfWorkspace::Sweep => sweep_version(table, letter.version, workspace).await.map(|_| ()),
            OfWorkspace::Expiry => expire(table, catalog, workspace, now).await.map(|_| ()),
            OfWorkspace::Vintages => {
                vintages::make(table, workspace, &BTreeSet::new(), now).await.map(|_| ())
            }
            OfWorkspace::Leaderboard => catalog.refresh_leaderboard(workspace, now).await,
            OfWorkspace::KeyFilters => {
                key_filters::make(table, workspace, (None, &BTreeSet::new()), now).await.map(|_| ())
            }
            // A retry appends nothing; the next sweep does it all.
            OfWorkspace::Unmatched => unmatched::check(table, workspace).await,
            OfWorkspace::Answers => catalog.owed_answers(workspace).await.map(|_| ()),
            OfWorkspace::Challenges => challenges::judge(table, catalog, workspace, now).await.map(|_| ()),
            // The search for erasures goes on with it.
            OfWorkspace::Erasure => catalog.open_erasures().await.map(|_| ()),
            // The next sweep goes on with it.
            OfWorkspace::Compaction => Compacted::load(table, workspace).await.map(|_| ()),
            OfWorkspace::Alerts => alert::judge(table, catalog, workspace, now).await.map(|_| ()),
            OfWorkspace::Digests => digest::tell_in(table, catalog, workspace, now).await.map(|_| ()),
        }
    };
    match caught::whole(doing).await {
        Ok(()) => undone::clear(&Audited::over(table), letter.version, workspace, letter.what)
            .await
            .map(|()| Retried::Done),
        Err(error) if error.may_pass() => Err(error),
        Err(error) => Ok(Retried::Refused(error.to_string())),
    }
}
