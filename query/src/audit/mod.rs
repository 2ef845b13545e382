//! The audit log as a frame of changes and appends with their authors, page by page.
//!
//! Changes are records of the audit log; the author of a batch is in the segments of its events. Both are merged by time. Changes are
//! selected by their own time, batches by the days of their events, as the log is keyed by day.

pub(crate) mod appends;
pub(crate) mod request;
mod rows;

use event::{Id, Result};
use log::{audit::chain, key::AuditLog};
use tokio::time::Instant;

pub use self::request::{AuditParams, AuditRequest};
pub(crate) use self::rows::columns;
use self::rows::{Page, Row};
use crate::{Answer, Query, answer};

/// Name in paths and metrics.
pub(crate) const NAME: &str = "audit";

/// Number of records per read.
const READ: usize = 200;

impl Query {
    /// Returns a page of an audit log, in ascending or descending order of time, and the start of the next page if there is
    /// one.
    ///
    /// # Errors
    /// `Unavailable`, if all memory is taken; errors of the table.
    pub async fn audit(
        &self,
        audit_log: &AuditLog,
        request: &AuditRequest,
    ) -> Result<(Answer, Option<String>)> {
        let workspace = match audit_log {
            AuditLog::Workspace(workspace) => Some(workspace),
            AuditLog::Server => None,
        };
        let (turn, hold) = self.budget.enter(workspace).await?;
        let wanted = hold.wanted();
        let began = Instant::now();
        let mut page = Page::new(request);
        match request.newest {
            true => self.latest_changes(audit_log, request, &mut page).await?,
            false => self.changes(audit_log, request, &mut page).await?,
        }
        if let Some(workspace) = workspace {
            self.appends(workspace, request, &mut page).await?;
        }
        let next = page.next();
        let held = answer::Held { hold, wanted, turn: Some(turn) };
        Ok((self.answer(NAME, began, page.frame()?, (None, None), held).await?, next))
    }

    /// Returns true if a workspace has an audit log, which it keeps when it is deleted.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn has_audit_log(&self, workspace: &Id) -> Result<bool> {
        Ok(chain::head(&*self.table, &AuditLog::Workspace(workspace.clone())).await?.seq > 0)
    }

    /// Adds the records of changes, from the latest one backwards.
    async fn latest_changes(
        &self,
        audit_log: &AuditLog,
        request: &AuditRequest,
        page: &mut Page,
    ) -> Result<()> {
        let mut end = match request.end() {
            Some(at) => chain::first_since(&*self.table, audit_log, at).await?,
            None => chain::head(&*self.table, audit_log).await?.seq + 1,
        };
        while end > 1 {
            let first = end.saturating_sub(READ as u64).max(1);
            let count = usize::try_from(end - first).unwrap_or(READ);
            for record in chain::records(&*self.table, audit_log, first, count).await?.into_iter().rev() {
                if record.at < request.first() || page.is_past(record.at) {
                    return Ok(());
                }
                page.add(request, Row::of_change(record));
            }
            end = first;
        }
        Ok(())
    }

    /// Adds the records of changes in ascending order.
    async fn changes(&self, audit_log: &AuditLog, request: &AuditRequest, page: &mut Page) -> Result<()> {
        let mut seq = chain::first_since(&*self.table, audit_log, request.first()).await?;
        loop {
            let records = chain::records(&*self.table, audit_log, seq, READ).await?;
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
