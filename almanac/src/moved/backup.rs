//! `almanac backup`: copies the SQLite file while services go on.

use std::path::PathBuf;

use clap::Args;

use crate::{config::Config, progress::Progress};

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write; it must not be there.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

pub(crate) async fn backup(config: &Config, args: &BackupArgs) -> anyhow::Result<()> {
    let store = &config.store.value;
    let mut progress = None;
    let tell = move |done, total| {
        progress.get_or_insert_with(|| Progress::new("copying", total)).at(done, "bytes");
    };
    store.engine.backup(&store.place, &args.to, Box::new(tell)).await?;
    println!("{} is a copy of {store}", args.to.display());
    Ok(())
}
