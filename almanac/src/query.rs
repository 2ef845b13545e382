//! `almanac query`: a window of days.

use std::{
    fs::File,
    io::{BufWriter, IsTerminal, Write},
    path::Path,
};

use anyhow::Context;
use query::{Format, Query, Request, What, Words};
use store::Error;

use crate::{cli::QueryArgs, open};

pub(crate) async fn command(data: &Path, args: QueryArgs) -> anyhow::Result<()> {
    let format = Format::parse(&args.format)?;
    let words = Words {
        from: &args.from,
        to: &args.to,
        release: args.release.as_deref(),
        columns: args.columns.as_deref(),
        as_of: args.as_of.as_deref(),
    };
    let request = Request::parse(What::parse(&args.what)?, &words)?;
    if format.is_binary() && args.output.is_none() && std::io::stdout().is_terminal() {
        return Err(
            Error::invalid(format!("{} is no text; give it a file with --output", args.format)).into()
        );
    }
    let query = Query::new(open::existing(data)?);
    let workspace = query.catalog().workspace(&args.workspace).await?;
    let mut frame = query.run(workspace.id(), &request).await?;
    match &args.output {
        None => {
            // Formatted first, written then: a reader that goes away early is no failure of ours.
            let mut text = Vec::new();
            format.write(&mut frame, &mut text)?;
            std::io::stdout().lock().write_all(&text)?;
        }
        Some(path) => {
            let context = || format!("cannot write {}", path.display());
            let mut out = BufWriter::new(File::create(path).with_context(context)?);
            format.write(&mut frame, &mut out)?;
            out.flush().with_context(context)?;
            eprintln!("{} rows written to {}", frame.height(), path.display());
        }
    }
    Ok(())
}
