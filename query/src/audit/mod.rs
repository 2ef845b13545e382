//! The audit trail as a frame: who changed what and who appended what, page by page.
//!
//! Changes are records of the trail; who appended a batch stands in the segments of its events. Both are merged by time.
//! Changes are found by their own time, batches by the days of their events: that is how the log is kept.

pub(crate) mod appends;
pub(crate) mod request;
mod rows;

use event::Result;
use log::{audit::chain, key::Trail};
use tokio::time::Instant;

pub(crate) use self::request::MAX_ROWS;
pub use self::request::{AuditRequest, AuditWords};
pub(crate) use self::rows::columns;
use self::rows::{Page, Row};
use crate::{Answer, Query, answer};

/// What it is called in paths and metrics.
pub(crate) const NAME: &str = "audit";

/// How many records are read at a time.
const READ: usize = 200;

impl Query {
    /// A page of an audit trail, in the order of time or against it, and where the next one begins if there is one.
    ///
    /// # Errors
    /// `Unavailable`, when all memory is taken; those of the table.
    pub async fn audit(&self, trail: &Trail, request: &AuditRequest) -> Result<(Answer, Option<String>)> {
        let workspace = match trail {
            Trail::Workspace(workspace) => Some(workspace),
            Trail::Server => None,
        };
        let (turn, hold) = self.budget.enter(workspace).await?;
        let wanted = hold.wanted();
        let began = Instant::now();
        let mut page = Page::new(request);
        match request.newest {
            true => self.latest_changes(trail, request, &mut page).await?,
            false => self.changes(trail, request, &mut page).await?,
        }
        if let Some(workspace) = workspace {
            self.appends(workspace, request, &mut page).await?;
        }
        let next = page.next();
        let held = answer::Held { hold, wanted, turn: Some(turn) };
        Ok((self.answer(NAME, began, page.frame()?, (None, None), held).await?, next))
    }

    /// The records of changes, from the latest one on backwards.
    async fn latest_changes(&self, trail: &Trail, request: &AuditRequest, page: &mut Page) -> Result<()> {
        let mut end = match request.end() {
            Some(at) => chain::first_since(&*self.table, trail, at).await?,
            None => chain::head(&*self.table, trail).await?.seq + 1,
        };
        while end > 1 {
            let first = end.saturating_sub(READ as u64).max(1);
            let count = usize::try_from(end - first).unwrap_or(READ);
            for record in chain::records(&*self.table, trail, first, count).await?.into_iter().rev() {
                if record.at < request.first() || page.is_past(record.at) {
                    return Ok(());
                }
                page.add(request, Row::of_change(record));
            }
            end = first;
        }
        Ok(())
    }

    /// The records of changes.
    async fn changes(&self, trail: &Trail, request: &AuditRequest, page: &mut Page) -> Result<()> {
        let mut seq = chain::first_since(&*self.table, trail, request.first()).await?;
        loop {
            let records = chain::records(&*self.table, trail, seq, READ).await?;
            let Some(last) = records.last() else { return Ok(()) };
            seq = last.seq + 1;
            for record in records {
                if record.at.day() > request.window.to() || page.is_past(record.at) {
                    return Ok(());
                }
                page.add(request, Row::of_change(record));
            }
        }
    }
}
