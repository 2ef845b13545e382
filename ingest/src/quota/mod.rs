//! What was appended lately, against the quotas of workspaces and tokens.
//!
//! A request is let in while its caller has quota left, and then counted with all that it turned out to be. So no request is too
//! large for a limit; after a large one its caller waits until the limit has made up for it.
//!
//! **Fair.** The callers of a workspace share its limits. A limit of a second is paid back evenly by those who owe
//! (`owed::Owed`), so one caller that sends without pause takes what the rest leaves, and no more. Of a limit of a day the last
//! fifth is kept for callers that have used less than an even part of it (`of_day::OfDay`).
//!
//! **Shared.** Each process writes every 2 s what it used, and reads what the other ones did (`report::Report`). The number of that item is
//! a heartbeat, too: it changes while the process takes requests. Of a limit of a second each process has what the
//! other ones leave; what was used of a limit of a day is added up, also that of processes that have ended.

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

/// How many callers of a quota are told apart; the rest is counted as one.
const MAX_CALLERS: usize = 256;

/// After so many seconds of requests a process says again what it used.
const REPORT_SECONDS: i64 = 2;

const SECOND_MICROS: f64 = 1e6;

/// The quotas of workspaces and tokens, and what is used of them.
#[derive(Debug)]
pub(crate) struct Quotas {
    catalog: Catalog,
    table: Arc<dyn Table>,
    clock: Clock,
    set: Cached<Id, Quota>,
    accounts: Arc<Accounts>,
}

/// What a request counts against, and who sent it.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    quotas: Vec<Counted>,
    caller: Arc<str>,
}

impl Quotas {
    /// The quotas in `table`, of which nothing is used yet.
    pub(crate) fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        let accounts = Arc::new(Accounts::new(Id::new(clock.now())));
        let catalog = Catalog::new(Arc::clone(&table));
        Self { catalog, table, clock, set: Cached::new(CACHED_SECONDS), accounts }
    }

    /// What a request of a caller counts against: the quota of the workspace, as it was some seconds ago at most, and that of the
    /// token.
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

    /// Counts what a request needs, if no limit is used up.
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
            // What was used of the day before this process began is known before the first request is let in.
            match is_first {
                true => exchange.await,
                false => drop(tokio::spawn(exchange)),
            }
        }
        self.accounts.take(&charge.quotas, &charge.caller, now, amounts)
    }
}
