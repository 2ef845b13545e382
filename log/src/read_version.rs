//! Read version: for each log of a window the position up to which it was read. A log only grows and a segment never
//! changes, so a second read at the same read version gives the same events, even if more were appended since.
//!
//! As text a read version fits into a header: numbers of variable length, packed by zstd if that is shorter, after a
//! version and before a checksum, in base64url.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use event::{Day, Error, Id, Kind, Result, Timestamp, Window, serde_as_text};
use segment::bytes::{Checked, Cursor, put_varint, unzigzag, zigzag};

use crate::{key::LogId, walk::heads_of};

/// Version of the text.
const VERSION: u8 = 1;

/// Form behind the version: the read version unpacked, or packed by zstd.
const PLAIN: u8 = 0;
const PACKED: u8 = 1;

/// Maximum bytes of an unpacked read version, to bound what a text can claim.
const MAX_BYTES: usize = 4 * 1024 * 1024;

const ID_BYTES: usize = 27;
const CHECKSUM_BYTES: usize = 4;

/// Last segment that belongs to an answer, for each log of a window and some kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadVersion {
    /// The workspace.
    pub workspace: Id,
    /// The days.
    pub window: Window,
    /// The kinds of events.
    pub kinds: BTreeSet<Kind>,
    /// Instant by which definitions are chosen: a closed one.
    pub as_of: Timestamp,
    /// Last segment of each log; logs without one are missing.
    pub heads: BTreeMap<LogId, u64>,
    /// Segments up to these that were left out: they could not be read, or an operator skipped them.
    pub left_out: BTreeSet<(LogId, u64)>,
}

impl ReadVersion {
    /// Logs of a day and kind, each with its last segment read.
    pub fn logs(&self, day: Day, kind: Kind) -> impl Iterator<Item = (&LogId, u64)> {
        heads_of(&self.heads, &self.workspace, day, kind).map(|(log, seq)| (log, *seq))
    }

    /// Encodes the read version as bytes, which are the text without its letters.
    ///
    /// # Errors
    /// Fails when it cannot be packed.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let plain = self.encode();
        let packed = zstd::bulk::compress(&plain, zstd::DEFAULT_COMPRESSION_LEVEL)
            .map_err(|error| Error::unavailable("a read version cannot be packed").because(error))?;
        let (how, body) = if packed.len() < plain.len() { (PACKED, packed) } else { (PLAIN, plain) };
        let mut bytes = vec![VERSION, how];
        bytes.extend(body);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// Decodes these bytes.
    ///
    /// # Errors
    /// Reason that they are not those of a read version.
    pub fn from_bytes(bytes: &[u8]) -> Checked<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or("it is too short")?;
        let &[version, how, ref body @ ..] = bytes else { return Err("it is too short".into()) };
        if version != VERSION {
            return Err(format!("its version is {version}, this program knows {VERSION}").into());
        }
        if crc32fast::hash(bytes) != u32::from_le_bytes(*checksum) {
            return Err("its checksum does not fit".into());
        }
        let unpacked = match how {
            PLAIN => body.to_vec(),
            PACKED => zstd::bulk::decompress(body, MAX_BYTES).map_err(|_| "it cannot be unpacked")?,
            _ => return Err("it is packed in an unknown way".into()),
        };
        Self::decode(&unpacked)
    }

    /// Creates the read version for a consumer that has read nothing yet of a kind, from a day on.
    pub fn begin(workspace: &Id, kind: Kind, from: Day) -> Self {
        Self {
            workspace: workspace.clone(),
            window: Window::of(from),
            kinds: [kind].into(),
            as_of: Day::FIRST.start(),
            heads: BTreeMap::new(),
            left_out: BTreeSet::new(),
        }
    }

    /// Union of two read versions. The order and the number of unions do not matter.
    ///
    /// # Errors
    /// `Invalid`, when they are of different workspaces or kinds.
    pub fn and(mut self, other: &Self) -> Result<Self> {
        if (&self.workspace, &self.kinds) != (&other.workspace, &other.kinds) {
            return Err(Error::invalid("the read versions are of different workspaces or kinds of events"));
        }
        let (ours, theirs) = (self.window, other.window);
        self.window = Window::new(ours.from().min(theirs.from()), ours.to().max(theirs.to()))?;
        self.as_of = self.as_of.max(other.as_of);
        for (log, seq) in &other.heads {
            let head = self.heads.entry(log.clone()).or_default();
            *head = (*seq).max(*head);
        }
        self.left_out.extend(other.left_out.iter().cloned());
        Ok(self)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = self.workspace.as_str().as_bytes().to_vec();
        put_varint(&mut out, zigzag(self.window.from().number().into()));
        put_varint(&mut out, (self.window.to().number() - self.window.from().number()) as u64);
        put_varint(&mut out, zigzag(self.as_of.micros()));
        put_varint(&mut out, self.kinds.len() as u64);
        self.kinds.iter().for_each(|kind| out.extend(kind.letter().bytes()));
        put_places(&mut out, self.window.from(), self.heads.iter().map(|(log, seq)| (log, *seq)));
        put_places(&mut out, self.window.from(), self.left_out.iter().map(|(log, seq)| (log, *seq)));
        out
    }

    fn decode(bytes: &[u8]) -> Checked<Self> {
        let mut from = Cursor::new(bytes);
        let workspace = std::str::from_utf8(from.take(ID_BYTES)?).ok().and_then(|id| Id::parse(id).ok());
        let workspace = workspace.ok_or("it names no workspace")?;
        let first = day_of(unzigzag(from.varint()?))?;
        let last = day_after(first, from.varint()?)?;
        let window = Window::new(first, last).map_err(|_| "its window is empty")?;
        let as_of = Timestamp::from_micros(unzigzag(from.varint()?)).ok_or("its instant is none")?;
        let kinds = (0..from.varint()?).map(|_| kind_of(&mut from)).collect::<Checked<_>>()?;
        let heads = places(&mut from, &workspace, first)?;
        let left_out = places(&mut from, &workspace, first)?;
        if from.remaining() > 0 {
            return Err("something is left over".into());
        }
        let read_version = Self {
            heads: heads.into_iter().collect(),
            left_out: left_out.into_iter().collect(),
            workspace,
            window,
            kinds,
            as_of,
        };
        // There is one way to write a read version, so another text with the same meaning is refused.
        let is_inside = |log: &LogId| window.contains(log.day) && read_version.kinds.contains(&log.kind);
        let is_one =
            read_version.heads.keys().chain(read_version.left_out.iter().map(|(log, _)| log)).all(is_inside);
        if is_one && read_version.encode() == bytes {
            Ok(read_version)
        } else {
            Err("its logs are not in order".into())
        }
    }
}

/// Encodes segments: first all days, then the kinds, the lanes and the numbers, which packs better.
fn put_places<'a>(out: &mut Vec<u8>, first: Day, places: impl Iterator<Item = (&'a LogId, u64)> + Clone) {
    put_varint(out, places.clone().count() as u64);
    let mut day = first;
    for (log, _) in places.clone() {
        put_varint(out, (log.day.number() - day.number()) as u64);
        day = log.day;
    }
    places.clone().for_each(|(log, _)| out.extend(log.kind.letter().bytes()));
    places.clone().for_each(|(log, _)| put_varint(out, log.lane.into()));
    places.for_each(|(_, seq)| put_varint(out, seq));
}

fn places(from: &mut Cursor<'_>, workspace: &Id, first: Day) -> Checked<Vec<(LogId, u64)>> {
    let count = usize::try_from(from.varint()?).ok().filter(|count| *count <= from.remaining());
    let count = count.ok_or("it is cut short")?;
    let mut day = first;
    let mut places = Vec::with_capacity(count);
    for _ in 0..count {
        day = day_after(day, from.varint()?)?;
        places.push((LogId { workspace: workspace.clone(), day, kind: Kind::Predictions, lane: 0 }, 0));
    }
    for (log, _) in &mut places {
        log.kind = kind_of(from)?;
    }
    for (log, _) in &mut places {
        log.lane = u8::try_from(from.varint()?).map_err(|_| "a lane is none")?;
    }
    for (_, seq) in &mut places {
        *seq = from.varint()?;
    }
    Ok(places)
}

fn kind_of(from: &mut Cursor<'_>) -> Checked<Kind> {
    let letter = std::str::from_utf8(from.take(1)?).ok();
    letter.and_then(Kind::from_letter).ok_or_else(|| "it names a kind that there is not".into())
}

fn day_of(number: i64) -> Checked<Day> {
    let start = number.checked_mul(event::time::DAY_MICROS).and_then(Timestamp::from_micros);
    start.map(Timestamp::day).ok_or_else(|| "a day of it is none".into())
}

fn day_after(day: Day, days: u64) -> Checked<Day> {
    let number = i64::try_from(days).ok().and_then(|days| days.checked_add(day.number().into()));
    day_of(number.ok_or("a day of it is none")?)
}

impl fmt::Display for ReadVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.to_bytes().map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

serde_as_text!(ReadVersion);

impl FromStr for ReadVersion {
    type Err = Error;

    /// # Errors
    /// `Invalid`, when the text is not one of a read version, or was changed or cut short on its way.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(format!(
                "this is not a read version that was given out ({why}); take all of its text"
            ))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| wrong("its letters are others"))?;
        Self::from_bytes(&bytes).map_err(|why| wrong(&why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(days: i32) -> ReadVersion {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let first: Day = "2026-11-01".parse().unwrap();
        let all: Vec<Day> =
            std::iter::successors(Some(first), |day| day.next()).take(days as usize).collect();
        let log = |day: Day, kind, lane| LogId { workspace: workspace.clone(), day, kind, lane };
        let heads = all.iter().flat_map(|day| {
            let of = |kind| move |lane: u8| (kind, lane);
            let lanes = (0..4).map(of(Kind::Predictions)).chain((0..2).map(of(Kind::Outcomes)));
            lanes
                .map(|(kind, lane)| (log(*day, kind, lane), u64::from(lane) * 700 + day.number() as u64 % 40))
        });
        ReadVersion {
            window: Window::new(first, *all.last().unwrap()).unwrap(),
            kinds: [Kind::Predictions, Kind::Outcomes].into(),
            as_of: Timestamp::parse("2026-11-20T18:00:00.25Z").unwrap(),
            heads: heads.collect(),
            left_out: [(log(first, Kind::Outcomes, 1), 3)].into(),
            workspace: workspace.clone(),
        }
    }

    #[test]
    fn read_versions_are_read_as_they_are_written() {
        for days in [1, 30, 365] {
            let read_version = sample(days);
            let text = read_version.to_string();
            assert_eq!(text.parse::<ReadVersion>().unwrap(), read_version);
            assert!(text.len() < 150 + days as usize * 12, "{days} days take {} letters", text.len());
        }
        let read_version = sample(2);
        let second = read_version.window.to();
        let lanes: Vec<u8> = read_version.logs(second, Kind::Predictions).map(|(log, _)| log.lane).collect();
        assert_eq!(lanes, [0, 1, 2, 3]);
        assert_eq!(read_version.logs(second, Kind::Metrics).count(), 0);
    }

    /// So commits of several processes may come in any order, and more than once.
    #[test]
    fn read_versions_together_hold_what_either_holds() {
        let [mut one, mut other] = [sample(2), sample(3)];
        let log = |read_version: &ReadVersion, at: usize| read_version.heads.keys().nth(at).unwrap().clone();
        one.heads.insert(log(&one, 1), 9_000);
        other.heads.insert(log(&other, 2), 8_000);
        let both = one.clone().and(&other).unwrap();
        assert_eq!(both, other.clone().and(&one).unwrap());
        assert_eq!(both.clone().and(&one).unwrap(), both);
        assert_eq!((both.heads[&log(&one, 1)], both.heads[&log(&one, 2)]), (9_000, 8_000));
        assert_eq!(both.to_string().parse::<ReadVersion>().unwrap(), both);
        let nothing = ReadVersion::begin(&one.workspace, Kind::Metrics, Day::FIRST);
        assert!(one.and(&nothing).is_err());
        assert_eq!(nothing.to_string().parse::<ReadVersion>().unwrap(), nothing);
    }

    #[test]
    fn a_text_that_was_changed_anywhere_is_refused() {
        let text = sample(3).to_string();
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert!(changed.parse::<ReadVersion>().is_err(), "letter {at}");
            assert!(text[..at].parse::<ReadVersion>().is_err(), "{at} letters");
        }
    }

    #[test]
    fn read_version_is_validated_despite_a_matching_checksum() {
        let mut plain = sample(1).encode();
        let text = |plain: &[u8]| {
            let mut bytes = vec![VERSION, PLAIN];
            bytes.extend(plain);
            bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
            URL_SAFE_NO_PAD.encode(bytes)
        };
        assert_eq!(text(&plain).parse::<ReadVersion>().unwrap(), sample(1));
        plain.push(0);
        assert!(text(&plain).parse::<ReadVersion>().is_err(), "something is left over");
        for at in 0..plain.len() - 1 {
            // Any changed byte never causes a panic, and an accepted read version is written as it was read.
            let mut other = plain[..plain.len() - 1].to_vec();
            other[at] ^= 0x41;
            if let Ok(read_version) = text(&other).parse::<ReadVersion>() {
                assert_eq!(read_version.encode(), other);
            }
        }
        let newer = URL_SAFE_NO_PAD.encode([9, 0, 0, 0, 0, 0, 0]);
        assert!(newer.parse::<ReadVersion>().unwrap_err().to_string().contains("its version is 9"));
    }

    /// A later program must read the texts of an earlier one.
    #[test]
    fn the_text_of_version_1_stays_readable() {
        const TEXT: &str = "AQAyTkJzMHNMQm5KeEVjb0RMZ1ZuUWRKa2hFZ1asxAIAoOKdtKCusAYCcG8GAAAAAAAAcHBwcG9vAAECAwABJuIFngvaECbiBQEAbwEDEqQ38A";
        assert_eq!(TEXT.parse::<ReadVersion>().unwrap(), sample(1));
    }
}
