//! `almanac demo`: months of real data, posted in the order in which it would have happened.

mod browser;
mod replay;
mod report;
mod set;

use std::sync::Arc;

use catalog::{Catalog, ReleaseSpec, Workspace};
use clap::Args;
use event::{Clock, Day};
use ingest::Ingest;
use log::store::Store;
use query::Query;
use replay::{Replay, ReplayClock};
use set::{LIST_HEADER, LIST_NUMBERS, PRODUCTION, SETS, Set};
use table::Table;
use tokio::sync::watch;

use crate::{config::Config, open, output, waiting::caught_up};

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Which set to replay; --list shows them.
    #[arg(default_value = SETS[0].name)]
    set: String,
    /// List the sets, with what they are made of, and replay none.
    #[arg(long, conflicts_with_all = ["set", "until"])]
    list: bool,
    /// Replay only what was posted up to the end of this day (UTC).
    #[arg(long, value_name = "DAY")]
    until: Option<String>,
    /// Serve the dashboard of it in the end, until ctrl-c, and show that in a browser.
    #[arg(long, conflicts_with = "list")]
    open: bool,
}

pub(crate) async fn command(config: &Config, args: &DemoArgs) -> anyhow::Result<()> {
    if args.list {
        return list();
    }
    let set = Set::named(&args.set)?;
    let until = args.until.as_deref().map(str::parse::<Day>).transpose()?;
    let replay = Replay::new(set, until)?;
    let store = open::to_serve(config, true).await?;
    let table: Arc<dyn Table> = Arc::<Store>::clone(&store);
    // What cannot be listened on is known before the work.
    let place = if args.open { Some(browser::listen(config, &table).await?) } else { None };
    let workspace = register(&Catalog::new(Arc::clone(&table)), set).await?;
    let releases = set.releases.each_ref().map(|release| release.name).join(" and ");
    println!("{}", set.title);
    println!(
        "Workspace {}, model {}, releases {releases}; data in {}.\n",
        set.workspace, set.model, config.store.value
    );

    let (stop, mut stopped) = watch::channel(false);
    let projector = tokio::spawn(projector::run(Arc::clone(&table), async move {
        _ = stopped.wait_for(|stop| *stop).await;
    }));
    let clock = ReplayClock::default();
    let ingest = Arc::new(Ingest::replaying(Arc::clone(&table), clock.clock()));
    let appended = replay.run(&table, &ingest, &workspace, &clock).await?;
    appended.print();
    let lag = caught_up(&table, workspace.id()).await?;
    println!(
        "projected     {} days: rollups, counters and evaluations, {:.1} s after the last append\n",
        lag.days, lag.seconds
    );
    stop.send_replace(true);
    projector.await??;

    let query = Query::new(Arc::clone(&table), Clock::system());
    report::print(&query, &workspace, (set, until), config).await?;
    match place {
        Some(place) => browser::show(place, store, set.workspace).await,
        None => Ok(()),
    }
}

/// Prints a line for each set.
fn list() -> anyhow::Result<()> {
    let mut table = output::aligned(&LIST_HEADER, &LIST_NUMBERS);
    for set in &SETS {
        table.add_row(set.line()?);
    }
    output::print(&table);
    Ok(())
}

/// Creates or finds the entities of the events.
async fn register(catalog: &Catalog, set: &Set) -> event::Result<Workspace> {
    let clock = Clock::system();
    let workspace = catalog.ensure_workspace(set.workspace, clock.now()).await?;
    catalog.ensure_model(workspace.id(), set.model, &set.task()?, clock.now()).await?;
    for release in &set.releases {
        let spec = ReleaseSpec {
            name: release.name.into(),
            model: set.model.into(),
            configuration: Some(release.configuration.into()),
            environment: Some(PRODUCTION.into()),
        };
        catalog.ensure_release(workspace.id(), &spec, clock.now()).await?;
    }
    Ok(workspace)
}
