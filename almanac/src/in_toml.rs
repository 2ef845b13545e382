//! What is wrong with a file in TOML, and where, in one line.

use std::path::Path;

/// What a reader of TOML says of a file, behind the name of the file and the line.
pub(crate) fn problem(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let place = error.span().map_or_else(String::new, |span| format!(", line {}", line(text, span.start)));
    format!("{}{place}: {}", path.display(), error.message().replace('\n', " "))
}

/// The line, from 1, in which a byte of a text stands.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
