//! After what a page of events begins, as text that a client gives back: the read version that all pages are read from, and how far
//! they have come.

use std::{fmt, str::FromStr, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use event::{Day, Error, Result, Timestamp, time::DAY_MICROS};
use segment::bytes::{Checked, Cursor, put_varint, unzigzag, zigzag};

use crate::read_version::ReadVersion;

/// The word that asks for the first page.
pub const BEGIN: &str = "begin";

/// The version of the text.
const VERSION: u8 = 1;

/// Start of a page of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// With the first event.
    Beginning,
    /// End of an earlier page.
    Page(Box<PageEnd>),
}

/// End of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEnd {
    /// Read version of all pages.
    pub read_version: Arc<ReadVersion>,
    /// Time of the request for the first page.
    pub asked_at: Timestamp,
    /// The checksum of the request, which is the same for all pages.
    pub request: u32,
    /// The day in which the next page begins.
    pub day: Day,
    /// With which segment of that day reading begins, by its lane and number; with the first one, when it is `None`.
    pub begin: Option<(u8, u64)>,
    /// Number of events from there on that earlier pages have.
    pub rows: u64,
}

impl After {
    /// Time of the request for the first page: windows of a named length end then.
    pub fn asked_at(&self) -> Option<Timestamp> {
        match self {
            Self::Beginning => None,
            Self::Page(end) => Some(end.asked_at),
        }
    }
}

impl FromStr for After {
    type Err = Error;

    /// # Errors
    /// `Invalid`, when no page ended so.
    fn from_str(text: &str) -> Result<Self> {
        if text == BEGIN {
            return Ok(Self::Beginning);
        }
        let wrong = |why: &str| {
            Error::invalid(format!(
                "after: this is neither `{BEGIN}` nor the text by which a page named the next one ({why})"
            ))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong("its letters are others"))?;
        PageEnd::decode(&bytes).map(|end| Self::Page(Box::new(end))).map_err(|why| wrong(why.as_ref()))
    }
}

/// The checksum of what all pages of an answer have in common.
pub fn checksum(request: &str) -> u32 {
    crc32fast::hash(request.as_bytes())
}

impl PageEnd {
    fn decode(bytes: &[u8]) -> Checked<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<4>().ok_or("it is too short")?;
        if crc32fast::hash(bytes) != u32::from_le_bytes(*checksum) {
            return Err("its checksum does not fit".into());
        }
        let mut from = Cursor::new(bytes);
        let version = from.take(1)?[0];
        if version != VERSION {
            return Err(format!("its version is {version}, this program knows {VERSION}").into());
        }
        let request = from.varint()?.try_into().map_err(|_| "its request is none")?;
        let asked_at = Timestamp::from_micros(unzigzag(from.varint()?)).ok_or("its instant is none")?;
        let day = unzigzag(from.varint()?).checked_mul(DAY_MICROS).and_then(Timestamp::from_micros);
        let day = day.ok_or("its day is none")?.day();
        let rows = from.varint()?;
        let begin = match from.varint()? {
            0 => None,
            seq => Some((from.take(1)?[0], seq)),
        };
        let read_version = ReadVersion::from_bytes(from.take(from.remaining())?)?;
        Ok(Self { read_version: Arc::new(read_version), asked_at, request, day, begin, rows })
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.request.into());
        put_varint(&mut out, zigzag(self.asked_at.micros()));
        put_varint(&mut out, zigzag(self.day.number().into()));
        put_varint(&mut out, self.rows);
        // Segments are numbered from 1.
        put_varint(&mut out, self.begin.map_or(0, |(_, seq)| seq));
        out.extend(self.begin.map(|(lane, _)| lane));
        out.extend(self.read_version.to_bytes()?);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        Ok(out)
    }
}

impl fmt::Display for PageEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.encode().map_err(|_| fmt::Error)?))
    }
}

#[cfg(test)]
mod tests {
    use event::{Id, Kind, Window};

    use super::*;

    #[test]
    fn page_end_round_trips_and_rejects_other_text() {
        let day: Day = "2026-06-03".parse().unwrap();
        let read_version = ReadVersion {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            window: Window::of(day),
            kinds: [Kind::Predictions].into(),
            as_of: day.start(),
            heads: std::collections::BTreeMap::new(),
            left_out: std::collections::BTreeSet::new(),
        };
        let asked_at = Timestamp::parse("2026-06-04T00:00:00.5Z").unwrap();
        let begin = None;
        let end = PageEnd {
            read_version: Arc::new(read_version),
            asked_at,
            request: u32::MAX,
            day,
            begin,
            rows: 12_345,
        };
        let within = PageEnd { begin: Some((3, 300)), ..end.clone() };
        for (end, golden) in [(end, GOLDEN_OF_DAY), (within, GOLDEN)] {
            assert_eq!(end.to_string(), golden);
            assert_eq!(golden.parse::<After>().unwrap(), After::Page(Box::new(end)));
        }
        let text = GOLDEN;
        assert_eq!(BEGIN.parse::<After>().unwrap(), After::Beginning);
        for wrong in
            ["", "Begin", "omitted; bytes=9000", &text[1..], &text[..text.len() - 1], &format!("{text}AA")]
        {
            let error = wrong.parse::<After>().unwrap_err().to_string();
            assert!(error.starts_with("after: "), "{wrong}: {error}");
        }
    }

    const GOLDEN: &str = "Af____8PwIS9m8fYqQb-wQK5YKwCAwEAMk5CczBzTEJuSnhFY29ETGdWblFkSmtoRWdW_sECAICAxb3D06kGAXAAAKYGNfnIJmiz";
    const GOLDEN_OF_DAY: &str =
        "Af____8PwIS9m8fYqQb-wQK5YAABADJOQnMwc0xCbkp4RWNvRExnVm5RZEpraEVnVv7BAgCAgMW9w9OpBgFwAACmBjX5HeT7xw";
}
