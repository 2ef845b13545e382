//! `almanac import`: the events of a file.

use ingest::{
    Ingest, Refused, Remember, SubmitError,
    file::{FileSpec, Mapping, read_file},
};
use store::{Clock, Error, Kind};

use crate::{cli::ImportArgs, config::Config, open, progress::Progress};

/// How many bad rows are printed.
const SHOWN_ERRORS: usize = 20;

pub(crate) async fn command(config: &Config, args: &ImportArgs) -> anyhow::Result<()> {
    let kind = Kind::from_name(&args.kind).ok_or_else(|| {
        let kinds = Kind::ALL.map(Kind::name).join(", ");
        Error::invalid(format!("--kind {} is none of {kinds}", args.kind))
    })?;
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let workspace = ingest.catalog().workspace(&args.workspace).await?;
    let spec = FileSpec { kind, mapping: Mapping { tags: args.tags.clone(), ..Mapping::default() } };
    // The file is read and checked to its end first: one bad row, and nothing of it is stored.
    let batches = read_file(&args.file, &spec, ingest.clock().now()).map_err(told)?;
    for batch in &batches {
        ingest.check(&workspace, batch).await.map_err(rows_told)?;
    }
    let total = batches.iter().map(ingest::Batch::rows).sum::<usize>() as u64;
    let mut progress = Progress::new("importing", total);
    let (mut done, mut new) = (0, 0);
    for batch in batches {
        // The events themselves are the idempotency key, for good: a file may be imported again.
        let receipt = ingest.submit(&workspace, batch, None, Remember::Forever).await.map_err(rows_told)?;
        done += receipt.rows as u64;
        new += if receipt.replayed { 0 } else { receipt.rows };
        progress.at(done, "");
    }
    progress.finish();
    println!(
        "{done} {kind} read from {}: {new} appended, {} were there before",
        args.file.display(),
        done - new as u64
    );
    Ok(())
}

/// Prints the bad rows, and hands on the error as what it is.
fn rows_told(error: SubmitError) -> anyhow::Error {
    match error {
        SubmitError::Refused(refused) => told(refused).into(),
        SubmitError::Store(error) => error.into(),
    }
}

/// Prints the first bad rows, a line each.
fn told(refused: Refused) -> Refused {
    if let Refused::Rows { errors, .. } = &refused {
        for error in errors.iter().take(SHOWN_ERRORS) {
            match &error.field {
                Some(field) => eprintln!("row {}: `{field}` {}", error.row, error.message),
                None => eprintln!("row {}: {}", error.row, error.message),
            }
        }
    }
    refused
}
