//! NDJSON: an object a line, read from a stream of bytes.

use memchr::{memchr, memchr_iter, memrchr};
use serde_json::value::RawValue;

use super::{
    capture,
    collect::Collector,
    fast_path::Lean,
    object,
    source::Corrected,
    token::{self, MARK, skip_white},
};
use crate::{
    batch::Refused,
    builder::{
        names::Names,
        row::{FieldError, Row},
    },
    limits::MAX_LINE_BYTES,
};

/// Reader of lines. It holds at most one incomplete line.
pub(crate) struct Lines {
    names: Names,
    lean: Lean,
    held: Vec<u8>,
    /// Number of the next line.
    number: u64,
    /// True if it is an imported file of rejects, as its first line shows; `None` before that.
    is_rejects: Option<bool>,
    /// True if lines are those of SageMaker Model Monitor.
    is_captured: bool,
}

/// Fault of a line of a file of rejects that has no row.
const NO_EVENT: &str = "has no `event`; write the row into it, as an object of its columns";

impl Lines {
    pub(crate) fn new(names: Names) -> Self {
        let (lean, held) = (Lean::default(), Vec::new());
        Self { names, lean, held, number: 1, is_rejects: None, is_captured: false }
    }

    /// Creates a reader of lines of SageMaker Model Monitor, of which each may have several rows; rows are numbered, not lines.
    pub(crate) fn captured(names: Names) -> Self {
        Self { is_captured: true, ..Self::new(names) }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut Collector) -> Result<(), Refused> {
        if !self.held.is_empty() {
            let Some(end) = memchr(b'\n', bytes) else { return self.hold(bytes) };
            self.hold(&bytes[..end])?;
            let held = std::mem::take(&mut self.held);
            self.complete(&held, out)?;
            self.held = held;
            self.held.clear();
            bytes = &bytes[end + 1..];
        }
        let (complete, rest) = match memrchr(b'\n', bytes) {
            Some(end) => (Some(&bytes[..end]), &bytes[end + 1..]),
            None => (None, bytes),
        };
        if let Some(complete) = complete {
            self.complete(complete, out)?;
        }
        self.hold(rest)
    }

    pub(crate) fn finish(mut self, out: &mut Collector) -> Result<(), Refused> {
        let held = std::mem::take(&mut self.held);
        self.complete(&held, out)?;
        out.lacking = self.names.lacking();
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.held.extend_from_slice(bytes);
        self.check_length(self.held.len())
    }

    #[inline]
    fn check_length(&self, length: usize) -> Result<(), Refused> {
        match length > MAX_LINE_BYTES {
            true => Err(Refused::TooLarge(format!(
                "line {} is longer than {} MiB",
                self.number,
                MAX_LINE_BYTES >> 20
            ))),
            false => Ok(()),
        }
    }

    /// Reads complete lines, the last without its line end.
    fn complete(&mut self, bytes: &[u8], out: &mut Collector) -> Result<(), Refused> {
        let text = std::str::from_utf8(bytes).ok();
        let mut row = Row::new(self.names.kind);
        let mut start = 0;
        for end in memchr_iter(b'\n', bytes).chain([bytes.len()]) {
            let line = &bytes[start..end];
            // If one line is not UTF-8, each is checked by itself.
            let text = match text {
                Some(text) => text.get(start..end),
                None => std::str::from_utf8(line).ok(),
            };
            self.line(line, text, &mut row, out)?;
            self.number += 1;
            start = end + 1;
        }
        Ok(())
    }

    /// Reads a line. The first one may begin with the mark of Windows texts, which is skipped.
    #[inline]
    fn line<'a>(
        &mut self,
        mut line: &'a [u8],
        mut text: Option<&'a str>,
        row: &mut Row<'a>,
        out: &mut Collector,
    ) -> Result<(), Refused> {
        self.check_length(line.len())?;
        if self.number == 1 && line.starts_with(MARK) {
            line = &line[MARK.len()..];
            text = text.and_then(|text| text.get(MARK.len()..));
        }
        if self.is_rejects(line, out)
            && let Ok(Corrected { event, text: as_text, .. }) = serde_json::from_slice(line)
        {
            let Some(event) = event.map(RawValue::get) else {
                let as_text = as_text.unwrap_or_default();
                return out.unreadable(self.number, FieldError::of_row(NO_EVENT), as_text.as_bytes());
            };
            (line, text) = (event.as_bytes(), Some(event));
            if self.is_captured && capture::is_line(event) {
                return self.capture(line, out);
            }
        } else if self.is_captured {
            return self.capture(line, out);
        }
        let begin = skip_white(line, 0);
        if let Some(text) = text {
            row.clear();
            if let Some(end) = self.lean.object(&self.names, text, begin, row)
                && skip_white(line, end) == line.len()
            {
                return out.row(self.number, row, line);
            }
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        match object::read(&self.names, line) {
            Ok(mut row) => out.row(self.number, &mut row, line),
            Err(error) => out.unreadable(self.number, not_an_object(&self.names, &error, line), line),
        }
    }
}

impl Lines {
    /// Reads a line of SageMaker Model Monitor.
    fn capture(&mut self, line: &[u8], out: &mut Collector) -> Result<(), Refused> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let rows = match capture::rows(&self.names, line) {
            Ok(rows) => rows,
            Err(error) => return out.unreadable(self.number, error, line),
        };
        for (at, json) in rows.iter().enumerate() {
            self.number += u64::from(at > 0);
            match object::read(&self.names, json.as_bytes()) {
                Ok(mut row) => out.row(self.number, &mut row, json.as_bytes())?,
                Err(error) => {
                    out.unreadable(self.number, not_an_object(&self.names, &error, json.as_bytes()), line)?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn is_rejects(&mut self, line: &[u8], out: &mut Collector) -> bool {
        if self.is_rejects.is_none() && !line.iter().all(u8::is_ascii_whitespace) {
            let is_one = out.is_import() && serde_json::from_slice::<Corrected<'_>>(line).is_ok();
            if is_one {
                out.read_rejects();
            }
            self.is_rejects = Some(is_one);
        }
        self.is_rejects == Some(true)
    }
}

/// Error of a row that is no object of the expected form.
pub(crate) fn not_an_object(names: &Names, error: &serde_json::Error, json: &[u8]) -> FieldError {
    match special(names, json) {
        Some(error) => error,
        None => FieldError::of_row(format!("is not a JSON object of the expected form: {error}")),
    }
}

/// Error of a field that is `NaN` or infinite, without quotes, as many libraries write it in JSON.
pub(super) fn special(names: &Names, json: &[u8]) -> Option<FieldError> {
    let (mut at, mut name, mut family) = (0, "", None);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => {
                let start = at + 1;
                at = start;
                while *json.get(at)? != b'"' {
                    at += if json[at] == b'\\' { 2 } else { 1 };
                }
                // A value in quotes is skipped the same way, and followed by a name before the next value.
                name = std::str::from_utf8(&json[start..at]).ok()?;
            }
            b'{' => family = names.kind.families().iter().find(|family| family.name == name),
            b'}' => family = None,
            _ => {
                if let Some(token) = token::special(&json[at..]) {
                    let field = family.map_or_else(|| name.to_owned(), |family| family.column(name));
                    return Some(FieldError::new(&field, format!("is {token}, {}", token::NO_JSON)));
                }
            }
        }
        at += 1;
    }
    None
}
