//! Output of answers: to the terminal, or to a file that appears when it is complete.

use std::{
    fs::{self, File},
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use event::{Error, Timestamp};
use log::{read_version::ReadVersion, segment_item::CLOSED_AFTER_SECONDS};
use query::{Answer, Explanation, Format, Said, Streamed};

use crate::shown::ShowFormat;

/// How an answer is shown.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// Print to standard error what the answer was read from.
    #[arg(long)]
    pub(crate) show_read_version: bool,
    /// table, csv, csv-spreadsheet (no text in it is taken for a formula), ndjson, parquet, ipc, ipc-stream or ipc-stream-lz4; by default a table, or
    /// the format that the name of the file says.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Write to this file instead of the terminal.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
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

    /// Ends the output, after this number of rows.
    fn end(self, rows: u64) -> anyhow::Result<()> {
        self.end_of(&format!("{rows} rows "))
    }

    /// Ends the output, and prints the text about it.
    fn end_of(mut self, what: &str) -> anyhow::Result<()> {
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
    /// Writes an answer.
    pub(crate) fn write(&self, format: Format, answer: &mut Answer) -> anyhow::Result<()> {
        // Formats first, then writes: a reader that goes away early is no failure of ours.
        let mut bytes = Vec::new();
        format.write_named(&mut answer.frame, answer.named, &mut bytes)?;
        let mut target = Target::open(self.output.as_deref())?;
        target.write(&bytes)?;
        target.end(answer.frame.height() as u64)
    }

    /// Format of an explanation: text for people, or JSON.
    ///
    /// # Errors
    /// If another format was requested.
    pub(crate) fn format_of_explanation(&self) -> anyhow::Result<ShowFormat> {
        match self.format.as_deref() {
            None | Some("table") => Ok(ShowFormat::Table),
            Some("json") => Ok(ShowFormat::Json),
            Some(other) => {
                let message = format!("--explain is a table or json, and not {other}");
                Err(Error::invalid(message).into())
            }
        }
    }

    /// Writes the explanation of an answer in place of the answer.
    pub(crate) fn write_explanation(
        &self,
        explanation: &Explanation,
        format: ShowFormat,
    ) -> anyhow::Result<()> {
        self.write_text(&match format {
            ShowFormat::Table => explanation.to_string(),
            ShowFormat::Json => format!("{:#}\n", serde_json::to_value(explanation)?),
        })
    }

    /// Writes an answer of lines of text.
    pub(crate) fn write_text(&self, lines: &str) -> anyhow::Result<()> {
        let mut target = Target::open(self.output.as_deref())?;
        target.write(lines.as_bytes())?;
        target.end(lines.lines().count() as u64)
    }

    /// Writes a text as a whole, such as a page.
    pub(crate) fn write_whole(&self, text: &str) -> anyhow::Result<()> {
        let mut target = Target::open(self.output.as_deref())?;
        target.write(text.as_bytes())?;
        target.end_of("")
    }

    /// Streams an answer as it is made.
    pub(crate) async fn write_stream(
        &self,
        mut streamed: Streamed,
        asked: Option<Timestamp>,
    ) -> anyhow::Result<()> {
        self.say_of(Some(&streamed.read_version), streamed.as_of, &streamed.warnings, asked);
        let mut target = Target::open(self.output.as_deref())?;
        loop {
            match streamed.next().await? {
                Said::Bytes(bytes) => target.write(&bytes)?,
                Said::End(end) => {
                    end.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
                    return target.end(end.rows);
                }
            }
        }
    }

    /// Prints about an answer what its rows lack: its instant, its warnings, and its read version.
    pub(crate) fn say(&self, answer: &Answer, asked: Option<Timestamp>) {
        self.say_of(answer.read_version.as_ref(), answer.as_of, &answer.warnings, asked);
    }

    fn say_of(
        &self,
        read_version: Option<&ReadVersion>,
        as_of: Option<Timestamp>,
        warnings: &[String],
        asked: Option<Timestamp>,
    ) {
        if let Some(as_of) = as_of.filter(|as_of| asked.is_some_and(|asked| asked > *as_of)) {
            eprintln!(
                "as of {as_of}, the last closed instant: the last {CLOSED_AFTER_SECONDS} s may still change"
            );
        }
        warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        match read_version {
            Some(read_version) if self.show_read_version => eprintln!("read_version: {read_version}"),
            None if self.show_read_version => {
                eprintln!("no read version: stored metrics are not read from the log; --as-of reads it")
            }
            _ => {}
        }
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
