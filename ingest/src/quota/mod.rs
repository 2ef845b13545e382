//! Recent appends, counted against the quotas of workspaces and tokens.
//!
//! A request is admitted while its caller has quota left, and then counted with its actual amounts. So no request is too large
//! for a limit; after a large one its caller waits until the limit has made up for it.
//!
//! **Fair.** The callers of a workspace share its limits. A limit of a second is paid back evenly by those who owe
//! (`owed::Owed`), so one caller that sends without pause gets the part that the rest leaves, and no more. The last fifth of a
//! limit of a day is kept for callers that have used less than an even part of it (`of_day::OfDay`).
//!
//! **Shared.** Each process writes its usage every 2 s, and reads that of the other ones (`report::Report`). The number of that
//! item is a heartbeat, too: it changes while the process takes requests. Each process gets the part of a limit of a second that
//! the other ones leave; usage of a limit of a day is added up, also that of processes that have ended.

use std::sync::Arc;

use catalog::{CACHED_SECONDS, Cached, Catalog, Quota, TokenQuota};
use event::{Clock, Error, Id};
use table::Table;

use self::account::{Accounts, Counted, Whose};
pub(crate) use self::account::{Amounts, UsedUp};

mod account;
mod of_day;
mod owed;
mod report;
#[cfg(test)]
mod tests;

/// Number of callers of a quota that are distinguished; the rest is counted as one.
const MAX_CALLERS: usize = 256;

/// Seconds of requests after which a process reports its usage again.
const REPORT_SECONDS: i64 = 2;

const SECOND_MICROS: f64 = 1e6;

/// Quotas of workspaces and tokens, and their usage.
#[derive(Debug)]
pub(crate) struct Quotas {
    catalog: Catalog,
    table: Arc<dyn Table>,
    clock: Clock,
    set: Cached<Id, Quota>,
    accounts: Arc<Accounts>,
}

/// Quotas that a request counts against, and its sender.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    quotas: Vec<Counted>,
    caller: Arc<str>,
}

impl Quotas {
    /// Opens the quotas in `table`, without usage yet.
    pub(crate) fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        let accounts = Arc::new(Accounts::new(Id::new(clock.now())));
        let catalog = Catalog::new(Arc::clone(&table));
        Self { catalog, table, clock, set: Cached::new(CACHED_SECONDS), accounts }
    }

    /// Finds the quotas that a request of a caller counts against: the quota of the workspace, at most some seconds old, and that
    /// of the token.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn charge(
        &self,
        workspace: &Id,
        token: Option<&TokenQuota>,
        caller: Arc<str>,
    ) -> Result<Charge, Error> {
        let read = self.catalog.quota(workspace);
        let quota = self.set.get(workspace.clone(), self.clock.now(), read).await?;
        let mut quotas = Vec::new();
        if !quota.is_empty() {
            quotas.push(Counted { whose: Whose::Workspace, id: workspace.clone(), quota });
        }
        if let Some(TokenQuota { token, quota }) = token {
            quotas.push(Counted { whose: Whose::Token, id: token.clone(), quota: *quota });
        }
        Ok(Charge { quotas, caller })
    }

    /// Counts the amounts of a request, if no limit is used up.
    ///
    /// # Errors
    /// The limit that is used up for longest.
    pub(crate) async fn take(&self, charge: &Charge, amounts: Amounts) -> Result<(), UsedUp> {
        let now = self.clock.now();
        for of in &charge.quotas {
            let Some(report) = self.accounts.report(&of.id, now) else { continue };
            let (is_first, id) = (report.is_first(), of.id.clone());
            let (table, accounts) = (Arc::clone(&self.table), Arc::clone(&self.accounts));
            let exchange = async move {
                let exchanged = report::exchange(&*table, &accounts, &id, report, now).await;
                if let Err(error) = exchanged {
                    tracing::warn!(%error, "what was used of a quota cannot be shared with other processes");
                }
            };
            // The usage of the day before this process began is known before the first request is admitted.
            match is_first {
                true => exchange.await,
                false => drop(tokio::spawn(exchange)),
            }
        }
        self.accounts.take(&charge.quotas, &charge.caller, now, amounts)
    }
}
