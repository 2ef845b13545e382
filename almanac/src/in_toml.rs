//! Errors in TOML files, with their place, in one line.

use std::path::Path;

/// Message of an error in TOML, with the name of the file and the line.
pub(crate) fn problem(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let place = error.span().map_or_else(String::new, |span| format!(", line {}", line(text, span.start)));
    format!("{}{place}: {}", path.display(), error.message().replace('\n', " "))
}

/// Line of a byte in a text, counted from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
