//! Output of answers: to the terminal, or to a file that appears when it is complete.

use std::{
    fs::{self, File},
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use axum::body::Body;
use clap::Args;
use event::Error;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use query::Format;

use crate::client::broken_off;

/// Header or trailer that counts rows.
const ROWS: &str = "almanac-rows";

/// How an answer is shown.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// table, csv, csv-spreadsheet (no text in it is taken for a formula), ndjson, parquet, ipc, ipc-stream or ipc-stream-lz4; by default a table, or
    /// the format that the name of the file says.
    #[arg(long)]
    format: Option<String>,
    /// Write to this file instead of the terminal.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes a text as a whole, such as a page.
pub(crate) fn write_whole(output: Option<&Path>, text: &str) -> anyhow::Result<()> {
    let mut target = Target::open(output)?;
    target.write(text.as_bytes())?;
    target.end("")
}

/// Prints what an answer lacks.
pub(crate) fn say_warnings(headers: &HeaderMap) {
    let warnings = headers.get_all("almanac-warning").iter().filter_map(|warning| warning.to_str().ok());
    warnings.for_each(|warning| eprintln!("warning: {warning}"));
}

/// Destination of an answer.
enum Target {
    /// Standard output; also a device or a pipe that is named as a file.
    Open(Box<dyn Write + Send>),
    /// A file, under another name until it is complete.
    File { path: PathBuf, partial: PathBuf, to: BufWriter<File> },
}

impl Target {
    fn open(output: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = output else { return Ok(Self::Open(Box::new(std::io::stdout()))) };
        let context = || format!("cannot write {}", path.display());
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Ok(Self::Open(Box::new(File::create(path).with_context(context)?)));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let to = BufWriter::new(File::create(&partial).with_context(context)?);
        Ok(Self::File { path: path.to_owned(), partial, to })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Open(to) => Ok(to.write_all(bytes)?),
            Self::File { path, to, .. } => {
                to.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    /// Ends the output, and prints the text about it.
    fn end(mut self, what: &str) -> anyhow::Result<()> {
        match &mut self {
            Self::Open(to) => to.flush()?,
            Self::File { path, partial, to } => {
                let context = || format!("cannot write {}", path.display());
                to.flush().with_context(context)?;
                fs::rename(&*partial, &*path).with_context(context)?;
                eprintln!("{what}written to {}", path.display());
            }
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Self::File { partial, .. } = self {
            // A complete file was renamed, so there is none to remove.
            _ = fs::remove_file(partial);
        }
    }
}

impl Shown {
    /// Format of an explanation, as a media type: text for people, or JSON.
    ///
    /// # Errors
    /// If another format was requested.
    pub(crate) fn media_of_explanation(&self) -> anyhow::Result<&'static str> {
        match self.format.as_deref() {
            None | Some("table") => Ok("text/plain"),
            Some("json") => Ok("application/json"),
            Some(other) => {
                let message = format!("--explain is a table or json, and not {other}");
                Err(Error::invalid(message).into())
            }
        }
    }

    /// Writes rows as they come.
    ///
    /// # Errors
    /// The error with which an answer breaks off; errors of writing.
    pub(crate) async fn write(&self, head: &HeaderMap, mut body: Body) -> anyhow::Result<()> {
        let mut target = Target::open(self.output.as_deref())?;
        let mut trailers = HeaderMap::new();
        while let Some(frame) = body.frame().await {
            match frame.map_err(broken_off)?.into_data() {
                Ok(bytes) => target.write(&bytes)?,
                Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
        say_warnings(&trailers);
        let rows = [head, &trailers].into_iter().find_map(|headers| headers.get(ROWS)?.to_str().ok());
        target.end(&rows.map_or_else(String::new, |rows| format!("{rows} rows ")))
    }

    /// Writes a text of some lines.
    pub(crate) fn write_text(&self, lines: &str) -> anyhow::Result<()> {
        write_whole(self.output.as_deref(), lines)
    }

    /// The requested format; by default that of the file's name, or a table on the terminal.
    pub(crate) fn format(&self) -> anyhow::Result<Format> {
        let ending = self.output.as_ref().and_then(|path| path.extension()?.to_str());
        let name = match (&self.format, &self.output, ending) {
            (Some(format), _, _) => format.as_str(),
            (None, None, _) => "table",
            (None, Some(_), Some("arrow" | "feather")) => "ipc",
            (None, Some(_), Some("jsonl")) => "ndjson",
            (None, Some(_), Some(ending)) if Format::parse(ending).is_ok() => ending,
            (None, Some(path), _) => {
                let message = format!("the name of {} does not say a format; add --format", path.display());
                return Err(Error::invalid(message).into());
            }
        };
        let format = Format::parse(name)?;
        if format == Format::Table && self.output.is_some() {
            return Err(Error::invalid(
                "a table is for the terminal and may be cut; a file takes another --format",
            )
            .into());
        }
        if format.is_binary() && self.output.is_none() && std::io::stdout().is_terminal() {
            return Err(Error::invalid("this format is binary; name a file with --output").into());
        }
        Ok(format)
    }
}
