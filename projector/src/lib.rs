//! The projector: turns the log into counters, rollups and evaluations.
//!
//! The change feed only names the log that grew. Workers share its shards by leases ([`lease`], [`heartbeat`]); each
//! keeps a schedule of days to fold and to evaluate ([`worker`]). The rollup of a day has the prefix of the logs that
//! it covers, so the segments after it are folded in and both are written under one condition ([`project`],
//! [`counters`]). Evaluations join the day's predictions with its outcomes ([`evaluate`]).
//!
//! - [`features`]: the breakdown of a day by feature;
//! - [`sweep`]: comparison of logs with projections, which finds lost changes;
//! - [`dead_letters`]: unreadable segments, until [`retry`] succeeds;
//! - [`rebuild`]: a fold of everything into a new version beside the active one;
//! - [`alert`]: evaluation of alert rules;
//! - [`digest`]: daily summaries of the last seven days;
//! - [`deliver`]: posts of transitions and digests to webhooks;
//! - [`challenges`]: comparisons of live releases with others;
//! - [`vintages`]: evaluations and rollups at ages of their days;
//! - [`unmatched`]: matches of outcomes that do not name their predictions;
//! - [`expire`]: deletion of expired events;
//! - [`erase`]: replacement of keys by pseudonyms;
//! - [`status`]: lags, and the [`warnings`] of the last days;
//! - [`mod@verify`]: a new fold of everything, compared with the stored one.
//!
//! ```
//! use almanac_projector::{sweep::sweep, verify};
//! use catalog::Catalog;
//! use event::Clock;
//! use table::{Table, sqlite::SqliteTable};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("almanac.db");
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let clock = Clock::system();
//! let table: std::sync::Arc<dyn Table> = std::sync::Arc::new(SqliteTable::open(&path, clock.clone())?);
//! let catalog = Catalog::new(table.clone());
//! let workspace = catalog.ensure_workspace("credit/prod", clock.now()).await?;
//!
//! // One worker, until it is asked to stop; `sweep` says what it has not projected yet.
//! almanac_projector::run(table.clone(), async {}).await?;
//! assert!(sweep(&*table, workspace.id()).await?.logs.is_empty());
//! assert!(verify(&table, workspace.id(), |_, _| ()).await?.faults.is_empty());
//! # Ok::<(), event::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It appends nothing to the log itself, and it alone writes projections. Lost, repeated or reordered changes can delay
//! a rollup, not make it wrong.

pub mod alert;
mod carry;
mod caught;
pub mod challenges;
pub mod compact;
mod coordinator;
pub mod counters;
mod counting;
mod day;
pub mod dead_letters;
pub mod deliver;
pub mod digest;
mod early;
pub mod erase;
pub mod evaluate;
mod events;
mod executor;
pub mod expire;
pub mod features;
mod following;
mod full_sweep;
pub mod heartbeat;
pub mod key_filters;
pub mod lease;
mod letter;
mod meters;
mod noted;
mod plan;
pub mod project;
mod reader;
pub mod rebuild;
pub mod retry;
mod schedule;
mod shared;
pub mod status;
pub mod sweep;
mod sweeper;
pub mod undone;
pub mod unmatched;
mod untouched;
pub mod unwritten;
pub mod verify;
pub mod vintages;
pub mod warnings;
pub mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use day::Taken;
use event::{Day, Id};
pub use schedule::SMALL;
pub use shared::PAID_REST;
pub use verify::{Report, verify};
pub use worker::{Health, Options, Projector, run};

/// Day of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceDay {
    /// Id of the workspace.
    pub workspace: Id,
    /// The day.
    pub day: Day,
}

impl std::fmt::Display for WorkspaceDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.workspace, self.day)
    }
}

/// Locks a value that is never left half-changed, even by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
