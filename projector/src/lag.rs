//! How far the projections of a workspace are behind, for alert rules on lag.

use std::collections::{BTreeMap, BTreeSet};

use catalog::Lags;
use event::{Id, Kind, Result, Timestamp};
use log::active;
use table::{Condition, Table, unless_overtaken};

use crate::{status, sweep::sweep_days};

/// From how many days before today on logs are looked at.
const LATEST_DAYS: i64 = 3;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Notes for how long what was appended by a closed instant, and is not folded, has been in the logs of the latest days: of each kind the longest time. It is
/// written where it is the greatest of the day.
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
        // Somebody else has looked at this moment as well.
        unless_overtaken(table.put(after.to_item(workspace), Condition::unchanged(noted.ver)).await)?;
    }
    Ok(())
}
