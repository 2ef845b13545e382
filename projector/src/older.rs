//! What of a workspace's projections is in an older form. It is read as well as that can be, and a rebuild writes it again in
//! the form of today.

use event::{Day, Id, Result};
use fold::{evaluation, rollup};
use log::{
    active,
    key::{self, Projection},
};
use table::{Pages, Query, Table};

/// The first day of which a projection of the active version is in an older form than that of today; `None`, when none is. It reads
/// the rollups, their breakdowns and the evaluations until it finds one.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn first_older_day(table: &dyn Table, workspace: &Id) -> Result<Option<Day>> {
    let version = active::load(table, workspace).await?.version;
    let range = key::all_projections(workspace, version);
    let query = Query::table(range).only(&["state"]);
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        for item in &items {
            // The head of an evaluation in parts has no state of its own.
            let Ok(state) = item.text("state") else { continue };
            let (day, projection) = key::parse_projection(&item.key)?;
            let is_current = match projection {
                Projection::Evaluation | Projection::EvaluationPart(..) => evaluation::is_current(state),
                Projection::Rollup | Projection::Breakdown(_) | Projection::Features => {
                    rollup::is_current(state)
                }
            };
            if !is_current {
                return Ok(Some(day));
            }
        }
    }
    Ok(None)
}
