//! JSON array of objects, read from a stream of bytes.

use serde_json::value::RawValue;

use super::{collect::Collector, fast_path::Lean, ndjson, ndjson::not_an_object, object, token::skip_white};
use crate::{
    batch::Refused,
    builder::{names::Names, row::Row},
    limits::MAX_LINE_BYTES,
};

/// Token that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The first element, or the end.
    First,
    Element,
    /// A comma, or the end.
    Comma,
    /// Nothing but white space.
    Closed,
}

/// Reader of the elements of an array. It holds at most one incomplete element.
pub(crate) struct Array {
    names: Names,
    lean: Lean,
    state: State,
    held: Vec<u8>,
    scan: Scan,
    /// Number of the element that comes next.
    number: u64,
}

impl Array {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            lean: Lean::default(),
            state: State::Open,
            held: Vec::new(),
            scan: Scan::default(),
            number: 1,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Collector) -> Result<(), Refused> {
        let mut row = Row::new(self.names.kind);
        let text = valid_start(bytes);
        let mut at = 0;
        if !self.held.is_empty() {
            let end = self.scan.end(bytes);
            at = end.unwrap_or(bytes.len());
            self.hold(&bytes[..at])?;
            if end.is_none() {
                return Ok(());
            }
            let held = std::mem::take(&mut self.held);
            self.element(&held, out)?;
            self.held = held;
            self.held.clear();
        }
        loop {
            at = skip_white(bytes, at);
            let Some(byte) = bytes.get(at) else { return Ok(()) };
            match (self.state, byte) {
                (State::Open, b'[') => self.state = State::First,
                (State::First | State::Comma, b']') => self.state = State::Closed,
                (State::Comma, b',') => self.state = State::Element,
                (State::First | State::Element, _) => {
                    row.clear();
                    if let Some(end) = self.lean.object(&self.names, text, at, &mut row) {
                        self.check_length(end - at)?;
                        out.row(self.number, &mut row, &bytes[at..end])?;
                        self.taken();
                        at = end;
                        continue;
                    }
                    self.scan = Scan::default();
                    let Some(length) = self.scan.end(&bytes[at..]) else {
                        return self.hold(&bytes[at..]);
                    };
                    self.element(&bytes[at..at + length], out)?;
                    at += length;
                    continue;
                }
                _ => return Err(self.broken(&format!("unexpected `{}`", byte.escape_ascii()))),
            }
            at += 1;
        }
    }

    pub(crate) fn finish(self, out: &mut Collector) -> Result<(), Refused> {
        out.lacking = self.names.lacking();
        match self.state {
            State::Closed => Ok(()),
            _ => Err(self.broken("it ends too early")),
        }
    }

    fn taken(&mut self) {
        self.state = State::Comma;
        self.number += 1;
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.held.extend_from_slice(bytes);
        self.check_length(self.held.len())
    }

    fn check_length(&self, length: usize) -> Result<(), Refused> {
        match length > MAX_LINE_BYTES {
            true => {
                let message = format!("row {} is longer than {} MiB", self.number, MAX_LINE_BYTES >> 20);
                Err(Refused::TooLarge(message))
            }
            false => Ok(()),
        }
    }

    /// Reads a complete element. JSON of another form is a bad row; invalid JSON makes the whole body bad.
    fn element(&mut self, json: &[u8], out: &mut Collector) -> Result<(), Refused> {
        self.check_length(json.len())?;
        match object::read(&self.names, json) {
            Ok(mut row) => out.row(self.number, &mut row, json)?,
            Err(error) => {
                let is_json = serde_json::from_slice::<&RawValue>(json);
                if let Err(error) = is_json
                    && ndjson::special(&self.names, json).is_none()
                {
                    return Err(self.broken(&error.to_string()));
                }
                out.unreadable(self.number, not_an_object(&self.names, &error, json), json)?;
            }
        }
        self.taken();
        Ok(())
    }

    fn broken(&self, what: &str) -> Refused {
        let message = format!("the body is not a JSON array of objects: at row {}: {what}", self.number);
        Refused::Whole(message)
    }
}

/// Returns the beginning of the bytes that is valid UTF-8.
fn valid_start(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Scanner for the end of an element, over any number of pieces. It sees brackets and strings, and relies on the later checks of
/// the parser.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Finds the end of the element in `bytes`, if it is there.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                // The end of the array itself also ends its last element.
                b'}' | b']' if self.depth == 0 => return Some(at),
                b',' if self.depth == 0 => return Some(at),
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
        None
    }
}
