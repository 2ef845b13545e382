//! Segments that operators skipped, which every reader of a log leaves out. The letters themselves belong to the projector.

use std::collections::BTreeSet;

use event::{Day, Id, Result};
use table::{Query, Table, query_all};

use crate::key::{self, LogId};

/// Attribute of a dead letter with its state.
pub const STATE: &str = "state";

/// State of a dead letter whose segment is left out.
pub const SKIPPED: &str = "skipped";

/// Attribute of a dead letter with the projection that refused its segment.
pub const REFUSED: &str = "refused";

/// Value of [`REFUSED`] for the fold of the rollup. When the segment is skipped, every reader leaves it out.
pub const BY_ROLLUP: &str = "rollup";

/// Value of [`REFUSED`] for the evaluation. When the segment is skipped, judgements of predictions leave it out.
pub const BY_EVALUATION: &str = "evaluation";

/// Value of [`REFUSED`] for the breakdown by feature, which alone leaves the segment out when it is skipped.
pub const BY_FEATURES: &str = "features";

/// Reads the segments from day `from` to day `to` that were skipped in a version of the projections, if `counts` is true of the
/// projection that refused them.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn between(
    table: &dyn Table,
    workspace: &Id,
    version: u32,
    (from, to): (Day, Day),
    counts: impl Fn(&str) -> bool,
) -> Result<BTreeSet<(LogId, u64)>> {
    let query = Query::table(key::dead_letters_between(workspace, version, from, to));
    let mut skipped = BTreeSet::new();
    for item in query_all(table, query.only(&["v", STATE, REFUSED])).await? {
        if item.text(STATE)? == SKIPPED && counts(item.text(REFUSED)?) {
            let letter = key::parse_dead_letter(&item.key);
            let (log, seq, _) = letter.ok_or_else(|| item.corrupt("its key is not one of a segment"))?;
            skipped.insert((log, seq));
        }
    }
    Ok(skipped)
}
