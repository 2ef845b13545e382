//! Check for events that are appended and not folded yet, so that an answer without rows does not look as if there were no
//! events.

use std::collections::BTreeMap;

use event::{Day, Id, Kind, Result};
use log::{
    active,
    key::{self, Projection},
    projection::{Applied, COVERAGE, Projected},
    scan,
};
use table::{KeyRange, Query, Table, query_all};

use crate::request::{Dataset, Request};

/// Maximum number of logs checked.
const MOST_LOGS: usize = 64;

/// Returns a warning for an answer from projections without rows: the first of its days with events that these do not cover yet;
/// `None`, if they cover all logs checked.
pub(crate) async fn unfolded(table: &dyn Table, workspace: &Id, request: &Request) -> Result<Option<String>> {
    let window = request.window;
    let kinds: &[Kind] = match request.what {
        Dataset::Drift => &[Kind::Predictions],
        _ => request.kinds_read(),
    };
    let of_rollups = matches!(request.what, Dataset::Rollups | Dataset::Drift);
    let wanted = if of_rollups { Projection::Rollup } else { Projection::Evaluation };
    let version = active::load(table, workspace).await?.version;
    let range = key::projections(workspace, version, window.from(), window.to());
    let mut covered = BTreeMap::<Day, Applied>::new();
    for item in query_all(table, Query::table(range).only(COVERAGE)).await? {
        let (day, projection) = key::parse_projection(&item.key)?;
        if projection == wanted {
            covered.insert(day, Projected::applied_of(&item)?);
        }
    }
    let all = key::segments_of_days(workspace, window.from(), window.to());
    let mut rest = all.clone();
    for _ in 0..MOST_LOGS {
        // The search starts right behind the covered prefix of each log: it finds the next log, or a segment not covered.
        let Some((log, seq)) = scan::first_within(table, rest).await? else { return Ok(None) };
        let folded = covered.get(&log.day).and_then(|applied| applied.get(&log.name())).copied().unwrap_or(0);
        rest = match seq <= folded {
            true => key::segments_from(&log, folded + 1),
            false if kinds.contains(&log.kind) => {
                let what = if of_rollups { "folded" } else { "evaluated" };
                return Ok(Some(format!(
                    "{} of {} were appended and are not {what} yet: ask again in some seconds; a projector (`almanac up`, \
                     `almanac projector`) does it, and `almanac status` says how far it is",
                    log.kind.name(),
                    log.day
                )));
            }
            false => key::segments_after(&log),
        };
        rest = KeyRange { to: all.to.clone(), ..rest };
    }
    Ok(None)
}
