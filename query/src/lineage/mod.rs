//! Lineage of events: from a dataset, a job or a run to predictions, to their stored evaluations, to their releases, and back.
//!
//! It is read from the headers of segments: the releases named, and the authors of batches with their sources. No events are
//! read. In a segment with batches of several sources and events of several releases, the number of events of a source that name
//! a release is known within bounds only, and both bounds are answered.

mod flows;
mod request;
mod rows;

use event::{Id, Result};
use tokio::time::Instant;

use self::flows::Flows;
pub use self::request::{LineageRequest, LineageWords};
pub(crate) use self::rows::columns;
use crate::{Answer, Query, answer};

/// Name in paths and metrics.
pub(crate) const NAME: &str = "lineage";

impl Query {
    /// Returns the lineage of the events of a workspace: a row for each day, kind of events, source and release.
    ///
    /// # Errors
    /// `NotFound`, if there is no such workspace; `TooLarge` and `Unavailable`, if it takes too much of the bounds; errors of the
    /// table.
    pub async fn lineage(&self, workspace: &Id, request: &LineageRequest) -> Result<Answer> {
        let (turn, hold) = self.budget.enter(Some(workspace)).await?;
        let wanted = hold.wanted();
        let began = Instant::now();
        let page = self.catalog.page(workspace).await?;
        let kept = self.catalog.kept(workspace, request.window, self.clock.now()).await?;
        let flows = Flows::read(&*self.table, workspace, request, &kept, &hold).await?;
        let frame = rows::frame_of(&flows, request, &page)?;
        let held = answer::Held { hold, wanted, turn: Some(turn) };
        self.answer(NAME, began, frame, (None, None), held).await
    }
}
