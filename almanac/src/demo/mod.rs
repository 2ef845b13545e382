//! `almanac demo`: a year of flights, posted in the order in which it would have happened.

mod chart;
mod replay;
mod report;

use std::{sync::Arc, time::Duration};

use ingest::Ingest;
use query::Query;
use store::{
    Clock, Day, Error, Id, Table,
    catalog::{Catalog, ReleaseSpec, Task, Workspace},
};
use tokio::{sync::watch, time::Instant};

use crate::{cli::DemoArgs, config::Config, open};
use replay::{Replay, ReplayClock};

/// Where the demo lives.
const WORKSPACE: &str = "flights/nyc";
const MODEL: &str = "late-arrival";

/// Each release: its name, its configuration, and when it was put to production.
const RELEASES: [(&str, &str, &str); 2] = [
    ("v1", "logistic-regression", "2013-04-01T04:00:00Z"),
    ("v2", "gradient-boosting", "2013-07-01T04:00:00Z"),
];

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

/// How often to look whether the projector has caught up, and how long it may make no progress.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates what the events refer to; finds it when it is there.
async fn register(catalog: &Catalog) -> store::Result<Workspace> {
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

/// How long the projector took to catch up, and on how many days.
struct Lag {
    days: usize,
    seconds: f64,
}

/// Waits until everything that was appended is projected.
async fn caught_up(table: &Arc<dyn Table>, workspace: &Id) -> store::Result<Lag> {
    let started = Instant::now();
    let (mut least, mut moved) = (usize::MAX, started);
    loop {
        let behind = projector::sweep::sweep(&**table, workspace).await?;
        let left = behind.logs.len() + behind.evaluations.len();
        if left == 0 {
            return Ok(Lag { days: behind.days, seconds: started.elapsed().as_secs_f64() });
        }
        if left < least {
            (least, moved) = (left, Instant::now());
        }
        if moved.elapsed() > PATIENCE {
            let message = format!(
                "the projector is stuck: {left} logs and evaluations stay behind; `almanac verify` may say why"
            );
            return Err(Error::corrupt(message));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
