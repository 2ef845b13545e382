//! Format of log lines: text for people, JSON for programs. They go to standard error, as does a line for each panic.

use std::{
    fmt,
    io::IsTerminal,
    panic,
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use meter::catalogue;
use tracing_subscriber::EnvFilter;

use super::sink::Sink;

/// Variable that selects the written lines, in the syntax of [`EnvFilter`].
const FILTER: &str = "ALMANAC_LOG";

/// Default selection.
const DEFAULT_FILTER: &str = "warn,almanac=info";

static SINK: OnceLock<Sink> = OnceLock::new();
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object on a line: `timestamp`, `level`, `target`, `message` and the fields beside each other; in a line written during
    /// a request, `span` holds its `request_id`.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("`{text}` is neither text nor json")),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

/// Begins to write log lines.
pub(crate) fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let has_colours = std::io::stderr().is_terminal();
    let sink = SINK.get_or_init(|| Sink::over(std::io::stderr()));
    // Internal errors of the subscriber are not written to standard error beside the sink, since that can panic.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| sink.clone())
        .log_internal_errors(false)
        .with_ansi(has_colours);
    // A failure means that a program which embeds Almanac writes the lines in its own way.
    _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
    panic::set_hook(Box::new(|panicked| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        let current = thread::current();
        tracing::error!(thread = current.name().unwrap_or("?"), "{panicked}");
        // The process may end here.
        flush();
    }));
}

/// Waits a moment for pending lines to be written.
pub(crate) fn flush() {
    if let Some(sink) = SINK.get() {
        sink.flush();
    }
}

/// Sets the metrics of dropped lines and of panics.
pub(super) fn tell() {
    match SINK.get() {
        Some(sink) => sink.tell(),
        // A program that embeds Almanac writes the lines.
        None => catalogue::LOG_DROPPED.counter(["failed"]).absolute(0),
    }
    catalogue::PANICS.counter([]).absolute(PANICS.load(Ordering::Relaxed));
}
