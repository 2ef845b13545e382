//! The formats of a body.
use store::{Kind, Timestamp};

use crate::{
    batch::{Batch, Refused},
    json::{read_json_array, read_ndjson},
    limits::MAX_BODY_BYTES,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Identity,
}

impl Encoding {
    pub fn from_token(token: &str) -> Option<Self> {
        (token == "identity").then_some(Self::Identity)
    }
}

impl Format {
    pub const MEDIA_TYPES: [&str; 2] = ["application/x-ndjson", "application/json"];
    pub fn from_media_type(media: &str) -> Option<Self> {
        match media {
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Format::Ndjson),
            "application/json" => Some(Format::Json),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub struct BodyReader {
    kind: Kind,
    format: Format,
    now: Timestamp,
    body: Vec<u8>,
}

impl BodyReader {
    pub fn new(kind: Kind, format: Format, _encoding: Encoding, now: Timestamp) -> Self {
        Self { kind, format, now, body: Vec::new() }
    }
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.body.extend_from_slice(bytes);
        if self.body.len() > MAX_BODY_BYTES {
            return Err(Refused::TooLarge("too large".into()));
        }
        Ok(())
    }
    pub fn finish(self) -> Result<Batch, Refused> {
        match self.format {
            Format::Ndjson => read_ndjson(self.kind, &self.body, self.now),
            Format::Json => read_json_array(self.kind, &self.body, self.now),
        }
    }
}
