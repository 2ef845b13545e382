//! Where events came from and what was made of them: from a dataset, a job or a run to predictions, to the evaluations
//! that are stored of them, to the releases that made them, and back.
//!
//! It is read from what segments say of themselves: which releases they name, and who appended their batches from which source. No
//! events are read. Where a segment holds batches of several sources and events of several releases, how many events of
//! a source name a release is known within bounds only, and both are answered.

mod flows;
mod request;
mod rows;

use event::{Id, Result};
use tokio::time::Instant;

use self::flows::Flows;
pub use self::request::{LineageRequest, LineageWords};
pub(crate) use self::rows::columns;
use crate::{Answer, Query, answer};

/// What it is called in paths and metrics.
pub(crate) const NAME: &str = "lineage";

impl Query {
    /// Where the events of a workspace came from and what was made of them: a row for each day, kind of events, source and
    /// release.
    ///
    /// # Errors
    /// `NotFound`, when there is no such workspace; `TooLarge` and `Unavailable`, when it takes too much of the bounds; those of
    /// the table.
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
