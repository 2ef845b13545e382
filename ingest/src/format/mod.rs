//! Formats of a body: from streamed bytes to a checked batch.
//!
//! A [`BodyReader`] decodes (`decode`), splits and reads rows (`ndjson`, `array`, `csv`) or
//! columns (`columnar`, `ipc`, `parquet`) and puts them into a builder, which checks them.

mod array;
mod capture;
pub(crate) mod coded;
pub(crate) mod collect;
mod columnar;
mod csv;
mod decode;
mod fast_path;
pub(crate) mod frame;
pub(crate) mod ipc;
pub(crate) mod ndjson;
mod object;
pub(crate) mod parquet;
mod raw;
mod source;
mod thrift;
mod token;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use event::{Kind, Timestamp};
use memchr::memchr;
use serde_json::value::RawValue;

use crate::{
    admission::Memory,
    batch::{Batch, Refused},
    builder::{Reading, Room, names::Names},
    limits::MAX_BODY_BYTES,
};

pub use self::{
    collect::Chunk,
    raw::Origin,
    source::{Rejected, SourceRow, SourceRows},
};
pub(crate) use self::{collect::Collector, decode::Decoder, parquet::fill as fill_frame};

/// Format of the events of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON object a line.
    Ndjson,
    /// Array of JSON objects, or one object of arrays; the first byte distinguishes them.
    Json,
    /// Stream format of Arrow (in files also the file format).
    Arrow,
    /// Parquet.
    Parquet,
    /// CSV with a header.
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 5] = [Format::Ndjson, Format::Json, Format::Arrow, Format::Parquet, Format::Csv];

    /// Properties of the format, known before it is read.
    fn facts(self) -> Facts {
        match self {
            Format::Ndjson => Facts {
                media_types: &["application/x-ndjson", "application/ndjson", "application/jsonl"],
                endings: &["ndjson", "jsonl"],
                is_loose: false,
            },
            Format::Json => Facts { media_types: &["application/json"], endings: &["json"], is_loose: false },
            Format::Arrow => Facts {
                media_types: &["application/vnd.apache.arrow.stream"],
                endings: &["arrow", "arrows", "ipc", "feather"],
                is_loose: true,
            },
            Format::Parquet => Facts {
                media_types: &["application/vnd.apache.parquet"],
                endings: &["parquet", "parq", "pq"],
                is_loose: true,
            },
            Format::Csv => {
                Facts { media_types: &["text/csv"], endings: &["csv", TAB_SEPARATED], is_loose: true }
            }
        }
    }

    /// Finds the format of a media type such as `application/json; charset=utf-8`.
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|format| format.facts().media_types.contains(&essence.as_str()))
    }

    /// Media type; the first one if there are several.
    pub fn media_type(self) -> &'static str {
        self.facts().media_types[0]
    }

    /// Finds the format of a file's ending, without the dot.
    pub fn from_ending(ending: &str) -> Option<Self> {
        let ending = ending.to_ascii_lowercase();
        Self::ALL.into_iter().find(|format| format.facts().endings.contains(&ending.as_str()))
    }

    /// Returns whether texts in it may stand for numbers: cells of CSV are always text, and columns of text often hold numbers.
    pub(crate) fn is_loose(self) -> bool {
        self.facts().is_loose
    }
}

/// Ending of CSV whose cells are separated by tabs.
pub(crate) const TAB_SEPARATED: &str = "tsv";

/// Properties of a format.
struct Facts {
    /// Media types, the preferred one first.
    media_types: &'static [&'static str],
    /// Endings of its files, without the dot.
    endings: &'static [&'static str],
    is_loose: bool,
}

/// Packing of the bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// None.
    Identity,
    /// Gzip, RFC 1952; several members may follow each other.
    Gzip,
    /// Zstandard, RFC 8878; several frames may follow each other.
    Zstd,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Encoding; 3] = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd];

    /// Finds the encoding of a token in `Content-Encoding`.
    pub fn from_token(token: &str) -> Option<Self> {
        Some(match token.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Encoding::Identity,
            "gzip" | "x-gzip" => Encoding::Gzip,
            "zstd" => Encoding::Zstd,
            _ => return None,
        })
    }

    /// Finds the encoding of a file's last ending, without the dot; `None` when it is an ending of another kind.
    pub fn from_ending(ending: &str) -> Option<Self> {
        Some(match ending.to_ascii_lowercase().as_str() {
            "gz" => Encoding::Gzip,
            "zst" => Encoding::Zstd,
            _ => return None,
        })
    }
}

/// Reader of the streamed body of a request.
///
/// NDJSON, CSV and arrays of JSON objects are read piece by piece: besides the columns at most one incomplete row is held. An
/// object of arrays, Arrow and Parquet are held whole, at most [`MAX_BODY_BYTES`], and read at the end.
pub struct BodyReader {
    decoder: Decoder,
    parser: Parser,
    out: Collector,
    /// Number of plain bytes so far.
    plain: usize,
}

impl BodyReader {
    /// Creates a reader of events of `kind` that arrive at `now`.
    pub fn new(kind: Kind, format: Format, encoding: Encoding, now: Timestamp) -> Self {
        Self::within(Room::Any, (kind, format, encoding), now)
    }

    /// Creates a reader of a body that is read at once: it is refused with [`Refused::NoRoom`] when its rows take more than
    /// `bytes` of memory.
    pub(crate) fn within_bytes(bytes: usize, form: (Kind, Format, Encoding), now: Timestamp) -> Self {
        Self::within(Room::Bytes(bytes), form, now)
    }

    /// Creates a reader that claims the memory of the decoded body before that is there.
    pub(crate) fn claiming(memory: Memory, form: (Kind, Format, Encoding), now: Timestamp) -> Self {
        Self::within(Room::Claimed(memory), form, now)
    }

    fn within(room: Room, (kind, format, encoding): (Kind, Format, Encoding), now: Timestamp) -> Self {
        let reading = Reading { loose_text: format.is_loose(), room, ..Reading::default() };
        Self {
            decoder: Decoder::new(encoding, false),
            parser: Parser::new(format, Names::new(kind), b','),
            out: Collector::new(kind, now, reading),
            plain: 0,
        }
    }

    /// Makes room for a body of `bytes` bytes, if it is held whole and not compressed.
    #[must_use]
    pub fn expecting(mut self, bytes: usize) -> Self {
        if self.decoder.is_identity() {
            match &mut self.parser {
                Parser::Whole(_, _, held) => held.reserve_exact(bytes.min(MAX_BODY_BYTES)),
                Parser::Json(_, expected) => *expected = bytes.min(MAX_BODY_BYTES),
                _ => {}
            }
        }
        self
    }

    /// Returns whether `next` would only be added to the held bytes.
    pub(crate) fn only_holds(&self, next: &[u8]) -> bool {
        let is_held = match &self.parser {
            Parser::Whole(..) => true,
            Parser::Json(..) => next.get(token::skip_white(next, 0)) == Some(&b'{'),
            _ => false,
        };
        is_held && self.decoder.is_identity()
    }

    /// Reads the next bytes, in pieces of any size.
    ///
    /// # Errors
    /// As soon as it is clear that the body will be refused, except for bad rows: [`BodyReader::finish`] reports them all. After an
    /// error the reader is of no more use.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let Self { decoder, parser, out, plain } = self;
        let window = decoder.window();
        decoder.push(bytes, &mut |some| {
            let Some(window) = window else { return parser.push(some, out) };
            *plain += some.len();
            out.builder.hold_beside(parser.held() + window.min(*plain))?;
            parser.push(some, out)
        })
    }

    /// Ends the body, and returns the batch.
    ///
    /// # Errors
    /// Faults of the rows or of the whole.
    pub fn finish(self) -> Result<Batch, Refused> {
        let Self { decoder, mut parser, mut out, .. } = self;
        if !decoder.is_identity() {
            out.builder.unpacked();
        }
        decoder.finish(&mut |plain| parser.push(plain, &mut out))?;
        parser.finish(&mut out)?;
        out.finish()
    }
}

/// Parser of one format.
pub(crate) enum Parser {
    Lines(ndjson::Lines),
    /// JSON of which no more than white space was seen, and its expected number of bytes.
    Json(Names, usize),
    /// Beginning of a file that is an object of arrays or an object a line, and the end of its first line.
    Object(Names, Vec<u8>, Option<usize>),
    Array(Box<array::Array>),
    Csv(Box<csv::Csv>),
    /// Format that is read whole.
    Whole(Whole, Names, Vec<u8>),
}

/// Format that is read whole.
#[derive(Clone, Copy)]
pub(crate) enum Whole {
    Columnar,
    Arrow,
    Parquet,
}

impl Parser {
    /// Creates a parser; cells of CSV are separated by `delimiter`.
    pub(crate) fn new(format: Format, names: Names, delimiter: u8) -> Self {
        match format {
            Format::Ndjson => Parser::Lines(ndjson::Lines::new(names)),
            Format::Json => Parser::Json(names, 0),
            Format::Csv => Parser::Csv(Box::new(csv::Csv::new(names, delimiter))),
            Format::Arrow => Parser::Whole(Whole::Arrow, names, Vec::new()),
            Format::Parquet => Parser::Whole(Whole::Parquet, names, Vec::new()),
        }
    }

    /// Number of bytes of the body that it holds, for a format that is read whole.
    fn held(&self) -> usize {
        match self {
            Parser::Whole(_, _, held) => held.len(),
            _ => 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Collector) -> Result<(), Refused> {
        match self {
            Parser::Lines(lines) => lines.push(bytes, out),
            Parser::Array(array) => array.push(bytes, out),
            Parser::Csv(csv) => csv.push(bytes, out),
            Parser::Whole(_, _, held) => {
                if held.len() + bytes.len() > MAX_BODY_BYTES {
                    return Err(too_large());
                }
                held.extend_from_slice(bytes);
                Ok(())
            }
            Parser::Json(names, expected) => {
                let bytes = bytes.strip_prefix(token::MARK).unwrap_or(bytes);
                let bytes = &bytes[token::skip_white(bytes, 0)..];
                let Some(first) = bytes.first() else { return Ok(()) };
                *self = match first {
                    b'{' if out.is_import() => Parser::Object(names.clone(), Vec::new(), None),
                    b'{' => Parser::Whole(Whole::Columnar, names.clone(), Vec::with_capacity(*expected)),
                    _ => Parser::Array(Box::new(array::Array::new(names.clone()))),
                };
                self.push(bytes, out)
            }
            Parser::Object(names, held, line) => {
                let before = held.len();
                held.extend_from_slice(bytes);
                *line = line.or_else(|| memchr(b'\n', bytes).map(|end| before + end));
                let Some(end) = line.filter(|end| token::skip_white(held, *end) < held.len()) else {
                    return if held.len() > MAX_BODY_BYTES { Err(too_large()) } else { Ok(()) };
                };
                let (names, held) = (names.clone(), std::mem::take(held));
                if serde_json::from_slice::<&RawValue>(&held[..end]).is_err() {
                    *self = Parser::Whole(Whole::Columnar, names, held);
                    return Ok(());
                }
                *self = Parser::Lines(ndjson::Lines::new(names));
                self.push(&held, out)
            }
        }
    }

    pub(crate) fn finish(self, out: &mut Collector) -> Result<(), Refused> {
        match self {
            Parser::Lines(lines) => lines.finish(out),
            Parser::Array(array) => array.finish(out),
            Parser::Csv(csv) => csv.finish(out),
            Parser::Json(..) => Err(Refused::Whole("it is empty; an array without objects is []".into())),
            Parser::Object(names, held, _) => {
                let is_column = |value: &&RawValue| value.get().starts_with(['[', '{']);
                let object = serde_json::from_slice::<BTreeMap<Cow<'_, str>, &RawValue>>(&held);
                if object.is_ok_and(|object| !object.values().all(is_column)) {
                    let mut lines = ndjson::Lines::new(names);
                    lines.push(&held, out)?;
                    return lines.finish(out);
                }
                Parser::Whole(Whole::Columnar, names, held).finish(out)
            }
            Parser::Whole(Whole::Arrow, names, body) => ipc::read(&names, &body, out),
            Parser::Whole(Whole::Parquet, names, body) => parquet::read(&names, &body, out),
            Parser::Whole(Whole::Columnar, names, body) => match String::from_utf8(body) {
                Ok(text) => {
                    columnar::read(&names, &text, &mut out.builder)?;
                    out.whole(text);
                    Ok(())
                }
                Err(error) => Err(Refused::Whole(format!("the body is not UTF-8: {error}"))),
            },
        }
    }
}

/// Runs a decoder of a library. A panic of the decoder means that its input is not valid `what`.
pub(crate) fn caught<T>(what: &str, decode: impl FnOnce() -> Result<T, Refused>) -> Result<T, Refused> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(done) => done,
        Err(_) => Err(Refused::Whole(format!("this is not {what} that can be read: its decoder gave up"))),
    }
}

/// Refusal of a body that is larger than the limit after decoding.
pub(crate) fn too_large() -> Refused {
    let limit = MAX_BODY_BYTES >> 20;
    Refused::TooLarge(format!("the body is larger than {limit} MiB when it is decoded; send several batches"))
}

#[cfg(test)]
mod tests;
