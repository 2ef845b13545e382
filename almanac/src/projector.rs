//! `almanac projector`: a projector without a listener, beside others on the same table; `almanac
//! up --role projector` does.

use std::sync::Arc;

use event::Clock;
use projector::{Options, Projector};
use table::Table;
use tokio::sync::oneshot;

use crate::{
    adapters::ByIngest,
    config::Config,
    listening::asked_to_stop,
    open,
    telemetry::report::{self, Reporter, Traffic},
    webhook::WebhookArgs,
};

pub(crate) async fn command(config: &Config, webhooks: &WebhookArgs) -> anyhow::Result<()> {
    let store = open::to_serve(config, true).await?;
    let (denials, table) = (Arc::clone(store.denials()), store as Arc<dyn Table>);
    let append = Arc::new(ByIngest::new(Arc::clone(&table)));
    let options = Options::new(Clock::system()).compacting(config.compact.value.0);
    let options = options.resting(config.store.value.rest());
    let options = options.posting_by(Some(webhooks.sender())).appending_by(append);
    let stop = asked_to_stop();
    tracing::info!("projector {} works on {}", options.worker, config.store.value);
    let projector = Projector::new(table, options);
    let reporter = Reporter::new(Arc::<Traffic>::default(), Some(projector.clone()), denials);
    let (finish, finished) = oneshot::channel::<()>();
    let reporting = tokio::spawn(reporter.run(report::EVERY, async move { _ = finished.await }));
    let ended = projector.run(stop).await;
    drop(finish);
    _ = reporting.await;
    Ok(ended?)
}
