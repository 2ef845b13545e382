//! Lag of the projections of a workspace, for alert rules on lag.

use std::collections::{BTreeMap, BTreeSet};

use catalog::Lags;
use event::{Id, Kind, Result, Timestamp};
use log::active;
use table::{Condition, Table, unless_overtaken};

use crate::{status, sweep::sweep_days};

/// Number of days before today whose logs are checked.
const LATEST_DAYS: i64 = 3;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Records the longest time, for each kind, for which segments appended by a closed instant have been in the logs of the latest
/// days without being folded. It is written if it is the greatest of the day.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub(crate) async fn note(table: &dyn Table, workspace: &Id, closed: Timestamp) -> Result<()> {
    let version = active::load(table, workspace).await?.version;
    let first = closed.plus_seconds(-LATEST_DAYS * DAY_SECONDS).day();
    let behind = sweep_days(table, version, workspace, first, &BTreeSet::new()).await?;
    let mut seen = BTreeMap::<Kind, u64>::new();
    for (log, age) in status::ages(table, &behind, closed).await? {
        let greatest = seen.entry(log.kind).or_default();
        *greatest = (*greatest).max(age.as_secs());
    }
    let noted = Lags::load(table, workspace).await?;
    if let Some(after) = noted.with(closed.day(), &seen) {
        // Another worker has checked at this moment as well.
        unless_overtaken(table.put(after.to_item(workspace), Condition::unchanged(noted.ver)).await)?;
    }
    Ok(())
}
