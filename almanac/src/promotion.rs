//! Links from ingest to query: ingest checks promotion gates and serves arenas, query reads the figures and the predictions for
//! them. Also `almanac release approve`.

use std::sync::Arc;

use catalog::{Measured, ToMeasure, Workspace, http::approval_json};
use clap::Args;
use event::{Clock, Id, Result};
use futures::future::BoxFuture;
use ingest::{Ingest, Reader};
use log::key::EntityKind;
use query::Query;
use table::Table;

use crate::{
    config::Config,
    named::One,
    open,
    shown::{Shown, show},
};

/// Reads the log for ingest by queries.
#[derive(Debug)]
pub(crate) struct ByQuery(pub(crate) Arc<Query>);

impl Reader for ByQuery {
    fn measure<'a>(&'a self, workspace: &'a Id, of: &'a ToMeasure) -> BoxFuture<'a, Result<Measured>> {
        Box::pin(self.0.measure_promotion(workspace, of))
    }

    fn pick_pairs<'a>(&'a self, workspace: &'a Workspace, arena: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.pick_missing_pairs(workspace, arena))
    }
}

/// Makes the ingest of a command, which reads the log by queries.
pub(crate) fn ingest(table: Arc<dyn Table>, clock: Clock) -> Ingest {
    let query = Query::new(Arc::clone(&table), clock.clone());
    Ingest::new(table, clock).reading_by(Arc::new(ByQuery(Arc::new(query))))
}

/// An approval.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The release, by path or id, or by its name and -w.
    name: String,
    /// The workspace that it is in.
    #[arg(long, short)]
    workspace: Option<String>,
    /// Where it may be live, such as production.
    #[arg(long)]
    environment: String,
    /// A remark.
    #[arg(long, conflicts_with = "withdraw")]
    note: Option<String>,
    /// Take your approval back.
    #[arg(long)]
    withdraw: bool,
    #[command(flatten)]
    shown: Shown,
}

/// Approves a release, and prints its approvals.
pub(crate) async fn approve(config: &Config, args: ApproveArgs) -> anyhow::Result<()> {
    let service = ::catalog::Service::new(open::existing(config).await?, Clock::system());
    let catalog = service.catalog();
    let path = One::new(Some(args.name), args.workspace).path(EntityKind::Release)?;
    let at = catalog.resolve(EntityKind::Release, &path).await?;
    let said = (args.environment.as_str(), args.note.as_deref());
    let approvals = catalog.approve(&at, said, args.withdraw, service.clock().now()).await?;
    let name = catalog.get(&at).await?.entity().name.clone();
    let rows: Vec<_> = approvals.iter().map(|one| approval_json(&name, one)).collect();
    show(&["release", "environment", "principal", "at", "note"], &rows, args.shown.format);
    Ok(())
}
