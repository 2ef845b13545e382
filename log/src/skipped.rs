//! Which segments operators skipped: what every reader of a log leaves out. The letters themselves are
//! the projector's.

use std::collections::BTreeSet;

use event::{Day, Id, Result};
use table::{Query, Table, query_all};

use crate::key::{self, LogId};

/// The attribute of a dead letter that says what is being done about it.
pub const STATE: &str = "state";

/// The state of a dead letter whose segment is left out.
pub const SKIPPED: &str = "skipped";

/// The attribute of a dead letter that says what refused its segment.
pub const REFUSED: &str = "refused";

/// What refused a segment: the fold of the rollup. When it is skipped, every reader leaves it out.
pub const BY_ROLLUP: &str = "rollup";

/// What refused a segment: the evaluation. When it is skipped, what judges predictions leaves it out.
pub const BY_EVALUATION: &str = "evaluation";

/// What refused a segment: the breakdown by feature, which alone leaves it out when it is skipped.
pub const BY_FEATURES: &str = "features";

/// The segments from day `from` to day `to` that were skipped in a version of the projections, of those for which
/// `counts` is true of what refused them.
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
