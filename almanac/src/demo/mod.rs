//! `almanac demo`: a year of flights, posted in the order in which it would have happened.

mod chart;
mod replay;
mod report;

use std::sync::Arc;

use catalog::{Catalog, ReleaseSpec, Workspace};
use clap::Args;
use event::{Clock, Day, Task};
use ingest::Ingest;
use query::Query;
use replay::{Replay, ReplayClock};
use tokio::sync::watch;

use crate::{config::Config, embed::caught_up, open};

/// Where the demo lives.
const WORKSPACE: &str = "flights/nyc";
const MODEL: &str = "late-arrival";

/// Each release: its name, its configuration, and when it was put to production.
const RELEASES: [(&str, &str, &str); 2] = [
    ("v1", "logistic-regression", "2013-04-01T04:00:00Z"),
    ("v2", "gradient-boosting", "2013-07-01T04:00:00Z"),
];

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Replay only what was posted up to the end of this day (UTC).
    #[arg(long, value_name = "DAY")]
    pub(crate) until: Option<String>,
}

pub(crate) async fn command(config: &Config, args: &DemoArgs) -> anyhow::Result<()> {
    let until = args.until.as_deref().map(str::parse::<Day>).transpose()?;
    let replay = Replay::new(until)?;
    let table = open::create(config).await?;
    let workspace = register(&Catalog::new(Arc::clone(&table))).await?;
    println!("Flights from New York in 2013: will a flight arrive more than 15 minutes late?");
    println!("Workspace {WORKSPACE}, model {MODEL}, releases v1 and v2; data in {}.\n", config.store.value);

    let (stop, mut stopped) = watch::channel(false);
    let projector = tokio::spawn(projector::run(Arc::clone(&table), async move {
        _ = stopped.wait_for(|stop| *stop).await;
    }));
    let clock = ReplayClock::default();
    let ingest = Ingest::replaying(Arc::clone(&table), clock.clock());
    let appended = replay.run(&ingest, &workspace, &clock).await?;
    appended.print();
    let lag = caught_up(&table, workspace.id()).await?;
    println!(
        "projected     {} days: rollups, counters and evaluations, {:.1} s after the last append\n",
        lag.days, lag.seconds
    );
    stop.send_replace(true);
    projector.await??;

    report::print(&Query::new(table, Clock::system()), &workspace).await
}

/// Creates what the events refer to; finds it when it is there.
async fn register(catalog: &Catalog) -> event::Result<Workspace> {
    let clock = Clock::system();
    let workspace = catalog.ensure_workspace(WORKSPACE, clock.now()).await?;
    let task = Task::Binary { positive_label: "late".into() };
    catalog.ensure_model(workspace.id(), MODEL, &task, clock.now()).await?;
    for (name, configuration, _) in RELEASES {
        let spec = ReleaseSpec {
            name: name.into(),
            model: MODEL.into(),
            configuration: Some(configuration.into()),
            environment: Some("production".into()),
        };
        catalog.ensure_release(workspace.id(), &spec, clock.now()).await?;
    }
    Ok(workspace)
}
