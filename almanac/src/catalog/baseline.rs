//! `almanac release baseline`: days that a release is compared with.

use catalog::http::baselines_json;
use clap::{Args, Subcommand};
use event::{Error, Window};
use log::key::EntityKind;
use serde_json::{Value, json};

use crate::{
    config::Config,
    named::One,
    shown::{Shown, show},
};

#[derive(Debug, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Name days as a baseline of a release, for --reference release:NAME/BASELINE.
    Set {
        #[command(flatten)]
        of: BaselineArgs,
        /// The days, as FROM..TO (YYYY-MM-DD..YYYY-MM-DD), or one day.
        days: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Take a baseline away.
    Delete {
        #[command(flatten)]
        of: BaselineArgs,
        #[command(flatten)]
        shown: Shown,
    },
}

/// Which baseline.
#[derive(Debug, Args)]
pub(crate) struct BaselineArgs {
    /// The release, by path or id, or by its name and -w.
    release: String,
    /// The name of the baseline, such as spring.
    name: String,
    /// The workspace that it is in.
    #[arg(long, short)]
    workspace: Option<String>,
}

/// Changes a baseline, and prints the baselines that the release then has.
pub(super) async fn command(config: &Config, command: BaselineCommand) -> anyhow::Result<()> {
    let (of, days, shown) = match command {
        BaselineCommand::Set { of, days, shown } => {
            let days: Window = days.parse().map_err(|error| Error::invalid(format!("days: {error}")))?;
            (of, Some(days), shown)
        }
        BaselineCommand::Delete { of, shown } => (of, None, shown),
    };
    let service = super::existing(config).await?;
    let catalog = service.catalog();
    let path = One::new(Some(of.release), of.workspace).path(EntityKind::Release)?;
    let at = catalog.resolve(EntityKind::Release, &path).await?;
    let baselines = catalog.set_baseline(&at, &of.name, days, service.clock().now()).await?;
    let said = baselines_json(&catalog.get(&at).await?.entity().name, &baselines);
    let rows = said["baselines"].as_object().into_iter().flatten();
    let row = |(name, days): (&String, &Value)| json!({ "release": said["release"], "baseline": name, "days": days });
    show(&["release", "baseline", "days"], &rows.map(row).collect::<Vec<_>>(), shown.format);
    Ok(())
}
