//! `almanac projector`: a projector by itself, beside others on the same table.

use projector::{Options, Projector};
use store::Clock;

use crate::{config::Config, open, up::asked_to_stop};

pub(crate) async fn command(config: &Config) -> anyhow::Result<()> {
    let table = open::create(config).await?;
    let options = Options::new(Clock::system());
    tracing::info!("projector {} works on {}", options.worker, config.store.value);
    Projector::new(table, options).run(asked_to_stop()).await?;
    Ok(())
}
