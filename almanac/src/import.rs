//! `almanac import`: the events of a file.

use std::path::Path;

use ingest::{
    Ingest, Refused, Remember,
    file::{FileSpec, read_file},
};
use store::{Clock, Error, Kind};

use crate::{cli::ImportArgs, open, progress::Progress};

/// How many bad rows are printed.
const SHOWN_ERRORS: usize = 20;

pub(crate) async fn command(data: &Path, args: &ImportArgs) -> anyhow::Result<()> {
    let kind = Kind::from_name(&args.kind).ok_or_else(|| {
        let kinds = Kind::ALL.map(Kind::name).join(", ");
        Error::invalid(format!("--kind {} is none of {kinds}", args.kind))
    })?;
    let ingest = Ingest::new(open::existing(data)?, Clock::system());
    let workspace = ingest.catalog().workspace(&args.workspace).await?;
    let spec = FileSpec { kind, tags: args.tags.clone() };
    // The file is read to its end first: one bad row, and nothing of it is stored.
    let batches = read_file(&args.file, &spec, ingest.clock().now()).inspect_err(print_rows)?;
    let total = batches.iter().map(ingest::Batch::rows).sum::<usize>() as u64;
    let mut progress = Progress::new("importing", total);
    let (mut done, mut new) = (0, 0);
    for batch in &batches {
        // The events themselves are the idempotency key, for good: a file may be imported again.
        let receipt = ingest.submit(&workspace, batch, None, Remember::Forever).await;
        let receipt = receipt.inspect_err(|error| {
            if let ingest::SubmitError::Refused(refused) = error {
                print_rows(refused);
            }
        });
        let receipt = match receipt {
            Ok(receipt) => receipt,
            Err(ingest::SubmitError::Refused(refused)) => return Err(refused.into()),
            Err(ingest::SubmitError::Store(error)) => return Err(error.into()),
        };
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

/// The first bad rows, a line each.
fn print_rows(refused: &Refused) {
    if let Refused::Rows { errors, .. } = refused {
        for error in errors.iter().take(SHOWN_ERRORS) {
            match &error.field {
                Some(field) => eprintln!("row {}: `{field}` {}", error.row, error.message),
                None => eprintln!("row {}: {}", error.row, error.message),
            }
        }
    }
}
