//! How log lines look: text for people, JSON for programs. They go to standard error.

use std::{fmt, io::IsTerminal, str::FromStr};

use tracing_subscriber::EnvFilter;

/// The variable that says which lines are written, as [`EnvFilter`] reads it.
const FILTER: &str = "ALMANAC_LOG";

/// Which lines are written when it does not say.
const DEFAULT_FILTER: &str = "warn,almanac=info";

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line: `timestamp`, `level`, `target`, `message` and the fields beside each other; of a line
    /// that was written while a request was worked on, `span` holds its `request_id`.
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

/// Writes log lines from now on.
pub(crate) fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let has_colours = std::io::stderr().is_terminal();
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(has_colours);
    // When this fails, a program that has Almanac as a library writes them in its own way.
    _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
}
