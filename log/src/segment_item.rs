//! Segments as items: the packed events, and attributes that can be read without unpacking them. A segment changes only
//! by erasures of keys ([`crate::erased`]).

use std::collections::BTreeMap;

use event::{
    Column, Columns, Error, Result, Timestamp,
    fields::RETRACTED,
    lane::{LogPosition, MAX_LANES},
};
use table::{Item, item::Value};

use crate::{
    authors::Authors,
    batch,
    batch::BatchPart,
    key::{self, LogId},
    merged::FROM,
};

/// Version of the item around packed events: of one segment, or of several merged ones.
pub(crate) const ITEM_VERSION: i64 = 1;

/// Maximum rows of a segment.
pub const MAX_SEGMENT_ROWS: usize = 10_000;

/// Approximate bytes of packed events above which a segment is split.
pub const MAX_SEGMENT_BYTES: usize = 256 * 1024;

/// Seconds after which an instant is *closed*: the set of events appended by then never changes. Every segment is
/// stored sooner than this after its `appended_at`, by every clock.
pub const CLOSED_AFTER_SECONDS: i64 = 30;

/// A segment of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The log.
    pub log: LogId,
    /// Its number in the log, from 1, without gaps.
    pub seq: u64,
    /// Number of lanes of its day and kind. Only the first segment of lane 0 has it, if there are several; it may have
    /// no event.
    pub lanes: Option<u8>,
    /// Number of events.
    pub rows: usize,
    /// Time of the append; never before that of earlier segments of its log.
    pub appended_at: Timestamp,
    /// Time at which its events were known, if the author states it: no later than the append, and no earlier than that
    /// of earlier segments of its log.
    pub known_at: Option<Timestamp>,
    /// The least and greatest [`event::Kind::time_field`] in it, in microseconds.
    pub times: (i64, i64),
    /// The batches of its events, in row order.
    pub batches: Vec<BatchPart>,
    /// For each part that is of a chunk of a file, its rows of the chunk; empty for other parts, and as a whole if no
    /// part is of a chunk.
    pub indexes: Vec<Vec<u32>>,
    /// Author of each part; empty if there is none.
    pub authors: Authors,
    /// Number of events that name each release.
    pub releases: BTreeMap<String, u64>,
    /// Number of events that retract others.
    pub retracted: u64,
    /// Number of times it was rewritten by erasures.
    pub ver: i64,
    /// Number of its events with erased keys.
    pub erased: u64,
    /// The events, packed by [`segment::encode`]. Empty if the item was read without them.
    pub data: Vec<u8>,
}

/// Attribute with the events.
pub const DATA: &str = "data";

/// Attribute of the first segment of lane 0 with the number of lanes of its day and kind; missing if that is 1.
pub const LANES: &str = "lanes";

/// Attribute with the stated time at which the events were known; missing if none is stated.
pub const KNOWN_AT: &str = "known_at";

/// Attribute with the rows of chunks that the parts hold; missing if there are no such parts.
const INDEXES: &str = "indexes";

/// Attribute with the author of each part; missing if unknown.
pub const AUTHORS: &str = "authors";

/// Attribute with the number of rewrites; missing before the first.
pub const VER: &str = "ver";
/// Attribute with the number of its events that have erased keys.
pub const ERASED: &str = "erased";

/// Attributes of a segment except its events and their authors.
pub const SUMMARY: &[&str] = &[
    "v",
    "n",
    LANES,
    "appended_at",
    KNOWN_AT,
    "first_at",
    "last_at",
    "batches",
    INDEXES,
    "releases",
    RETRACTED,
    VER,
    ERASED,
];

impl Segment {
    /// Packs events into a segment.
    ///
    /// # Errors
    /// Errors of [`segment::encode`].
    pub fn pack(
        log: LogId,
        seq: u64,
        appended_at: Timestamp,
        batches: Vec<BatchPart>,
        columns: &Columns,
    ) -> Result<Self> {
        let data = segment::encode(columns)?;
        Ok(Self { data, ..Self::about(log, seq, appended_at, batches, columns) })
    }

    /// Describes a segment of these events without packing them.
    pub(crate) fn about(
        log: LogId,
        seq: u64,
        appended_at: Timestamp,
        batches: Vec<BatchPart>,
        columns: &Columns,
    ) -> Self {
        let times = time_bounds(log.kind.time_field(), columns);
        let releases = columns.column("release").map(Column::counts).unwrap_or_default();
        let releases = releases.into_iter().map(|(name, rows)| (name.to_owned(), rows)).collect();
        let retracted = columns.column(RETRACTED).map_or(0, |column| columns.rows - column.nulls()) as u64;
        let (rows, data) = (columns.rows, Vec::new());
        let (indexes, lanes, authors) = (Vec::new(), None, Authors::default());
        Self {
            log,
            seq,
            lanes,
            rows,
            appended_at,
            known_at: None,
            times,
            batches,
            indexes,
            authors,
            releases,
            retracted,
            ver: 0,
            erased: 0,
            data,
        }
    }

    /// Makes the first segment of a lane 0, without events: its day and kind has `lanes` lanes.
    ///
    /// # Errors
    /// Errors of [`segment::encode`].
    pub fn opening(log: LogId, lanes: u8, appended_at: Timestamp) -> Result<Self> {
        let segment = Self::pack(log, 1, appended_at, Vec::new(), &Columns::default())?;
        Ok(Self { lanes: Some(lanes), ..segment })
    }

    /// Time at which its events were known: that of the append, unless an earlier time is stated.
    pub fn known(&self) -> Timestamp {
        self.known_at.unwrap_or(self.appended_at)
    }

    /// Position among the segments of its day and kind.
    pub fn place(&self) -> LogPosition {
        LogPosition::of(self.log.lane, self.seq)
    }

    /// Encodes it as an item.
    pub fn to_item(&self) -> Item {
        self.summary().with(DATA, self.data.clone())
    }

    /// Number of bytes of that item, as [`Item::size`] counts them.
    pub fn item_bytes(&self) -> usize {
        self.summary().size() + DATA.len() + self.data.len()
    }

    /// Encodes it as an item without the events.
    fn summary(&self) -> Item {
        let releases = self.releases.iter().map(|(name, rows)| (name.clone(), Value::from(*rows as i64)));
        let item = Item::new(key::segment(&self.log, self.seq));
        let item = match self.lanes {
            Some(lanes) => item.with(LANES, i64::from(lanes)),
            None => item,
        };
        let item = match self.known_at {
            Some(at) => item.with(KNOWN_AT, at.micros()),
            None => item,
        };
        let item = match self.indexes.is_empty() {
            true => item,
            false => item.with(INDEXES, batch::encode_indexes(&self.indexes)),
        };
        let item = match self.authors.is_empty() {
            true => item,
            false => item.with(AUTHORS, self.authors.bytes().to_vec()),
        };
        let item = match self.retracted {
            0 => item,
            events => item.with(RETRACTED, events as i64),
        };
        let item = match self.ver {
            0 => item,
            ver => item.with(VER, ver).with(ERASED, self.erased as i64),
        };
        item.with("v", ITEM_VERSION)
            .with("n", self.rows as i64)
            .with("appended_at", self.appended_at.micros())
            .with("first_at", self.times.0)
            .with("last_at", self.times.1)
            .with("batches", batch::encode(&self.batches))
            .with("releases", releases.collect::<BTreeMap<_, _>>())
    }

    /// Decodes an item, with `data` only if the item was read with it.
    ///
    /// # Errors
    /// `Corrupt` if the item is no segment, or of an unknown version.
    pub fn from_item(mut item: Item) -> Result<Self> {
        let (log, seq) =
            key::parse_segment(&item.key).ok_or_else(|| item.corrupt("its key is not one of a segment"))?;
        item.check_version(ITEM_VERSION)?;
        if item.attributes.contains_key(FROM) {
            return Err(item.corrupt("it is in a merged item, which cannot be read"));
        }
        let lanes = match item.attributes.get(LANES) {
            None => None,
            Some(_) => Some(lanes(&item)?),
        };
        let data = item.take_bytes(DATA)?.unwrap_or_default();
        let authors = Authors::from_bytes(item.take_bytes(AUTHORS)?.unwrap_or_default());
        let time = |name| {
            Timestamp::from_micros(item.int(name)?)
                .ok_or_else(|| item.corrupt(format_args!("`{name}` is no time")))
        };
        let known_at = item.attributes.contains_key(KNOWN_AT).then(|| time(KNOWN_AT)).transpose()?;
        let mut releases = BTreeMap::new();
        for (name, rows) in item.map("releases")? {
            releases
                .insert(name.clone(), whole(rows).ok_or_else(|| item.corrupt("`releases` is not counts"))?);
        }
        let count = |name: &str| match item.attributes.get(name) {
            None => Ok(0),
            Some(count) => whole(count).ok_or_else(|| item.corrupt(format_args!("`{name}` is not a count"))),
        };
        let (retracted, ver, erased) = (count(RETRACTED)?, count(VER)?, count(ERASED)?);
        let batches = batch::decode(item.bytes("batches")?)
            .map_err(|what| item.corrupt(format_args!("`batches`: {what}")))?;
        let indexes = match item.attributes.contains_key(INDEXES) {
            true => batch::decode_indexes(item.bytes(INDEXES)?, &batches)
                .map_err(|what| item.corrupt(format_args!("`{INDEXES}`: {what}")))?,
            false => Vec::new(),
        };
        Ok(Self {
            log,
            seq,
            lanes,
            rows: item.int("n")? as usize,
            appended_at: time("appended_at")?,
            known_at,
            times: (time("first_at")?.micros(), time("last_at")?.micros()),
            batches,
            indexes,
            authors,
            releases,
            retracted,
            ver: ver as i64,
            erased,
            data,
        })
    }

    /// Returns the batches with the rows of a chunk that they hold; no rows for batches that are row ranges.
    pub fn parts(&self) -> impl Iterator<Item = (&BatchPart, &[u32])> {
        let indexes = self.indexes.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        self.batches.iter().zip(indexes)
    }

    /// Returns the names of the columns of its events, from their header; none if that cannot be read.
    pub fn column_names(&self) -> impl Iterator<Item = String> + use<> {
        names_in(&self.data)
    }

    /// Unpacks the events, only the wanted columns.
    ///
    /// # Errors
    /// `Corrupt`, naming the segment, if they cannot be unpacked.
    pub fn unpack(&self, wanted: impl Fn(&str) -> bool) -> Result<Columns> {
        let named =
            |error: Error| Error::corrupt(format!("segment {}: {error}", key::segment(&self.log, self.seq)));
        let columns = segment::decode_only(&self.data, wanted).map_err(named)?;
        if columns.rows != self.rows {
            let message = format!("the item says {} rows, its events are {}", self.rows, columns.rows);
            return Err(named(Error::corrupt(message)));
        }
        Ok(columns)
    }
}

/// Returns the names of the columns of an item's packed events, from the header; none if that cannot be read.
pub fn column_names(item: &Item) -> impl Iterator<Item = String> + use<> {
    names_in(item.bytes(DATA).unwrap_or_default())
}

fn names_in(data: &[u8]) -> impl Iterator<Item = String> + use<> {
    let header = segment::header(data).ok();
    header.into_iter().flat_map(|header| header.columns).map(|column| column.name)
}

/// Returns the number of lanes of a day and kind from the first item of its lane 0; `None` if it has none.
pub fn lanes_of_day(first: &Item) -> Option<u8> {
    lanes(first).ok()
}

fn lanes(item: &Item) -> Result<u8> {
    let lanes = u8::try_from(item.int(LANES)?).ok().filter(|lanes| (1..=MAX_LANES).contains(lanes));
    lanes.ok_or_else(|| item.corrupt(format_args!("`lanes` is not 1 to {MAX_LANES}")))
}

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::N(number) => number.as_i64().and_then(|number| u64::try_from(number).ok()),
        _ => None,
    }
}

fn time_bounds(field: &str, columns: &Columns) -> (i64, i64) {
    let column = columns.column(field);
    let times = (0..columns.rows).filter_map(|row| column?.time(row));
    times
        .fold(None, |bounds: Option<(i64, i64)>, time| {
            Some(bounds.map_or((time, time), |(first, last)| (first.min(time), last.max(time))))
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use event::{Id, Kind, Values};

    use super::*;
    use crate::batch::BatchId;

    #[test]
    fn segment_item_size_is_known_without_the_item() {
        let workspace = Id::new(Timestamp::default());
        let day = "2026-06-01".parse().unwrap();
        let log = LogId { workspace, day, kind: Kind::Predictions, lane: 0 };
        let release = Values::Text(["v1", "v2"].into_iter().collect());
        let columns = Columns { rows: 2, columns: vec![Column::new("release", release)] };
        let parts = vec![BatchPart { batch: BatchId([7; 16]), first: 0, rows: 2 }];
        let segment = Segment::pack(log, 1, Timestamp::default(), parts, &columns).unwrap();
        assert_eq!(segment.item_bytes(), segment.to_item().size());
        assert_eq!(segment.releases, BTreeMap::from([("v1".to_owned(), 1), ("v2".to_owned(), 1)]));
        let of_chunk = Segment { indexes: vec![vec![3, 7]], ..segment };
        assert_eq!(of_chunk.item_bytes(), of_chunk.to_item().size());
        assert_eq!(Segment::from_item(of_chunk.to_item()).unwrap(), of_chunk);
        let ann = std::sync::Arc::new(crate::audit::Author::named("user:ann"));
        let signed = Segment { authors: Authors::of(&[ann]), ..of_chunk.clone() };
        assert_eq!(signed.item_bytes(), signed.to_item().size());
        assert_eq!(Segment::from_item(signed.to_item()).unwrap(), signed);
        let taking_back = Segment { retracted: 2, ..signed };
        assert_eq!(taking_back.item_bytes(), taking_back.to_item().size());
        assert_eq!(Segment::from_item(taking_back.to_item()).unwrap(), taking_back);
        let stated = Segment { known_at: Some(Timestamp::default()), ..taking_back };
        assert_eq!(stated.item_bytes(), stated.to_item().size());
        assert_eq!(Segment::from_item(stated.to_item()).unwrap(), stated);
        let wrong = Segment { indexes: vec![vec![3]], ..of_chunk };
        let error = Segment::from_item(wrong.to_item()).unwrap_err().to_string();
        assert!(error.contains("`indexes`: 1 rows of a part of 2"), "{error}");
    }

    fn log() -> LogId {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        LogId { workspace, day: "2013-06-01".parse().unwrap(), kind: Kind::Predictions, lane: 3 }
    }

    #[test]
    fn an_item_is_stored_so() {
        let key = Values::Text(["a", "b"].into_iter().collect());
        let columns = Columns { rows: 2, columns: vec![Column::new("key", key)] };
        let item = Item::new(key::segment(&log(), 7))
            .with("v", 1)
            .with("n", 2)
            .with("appended_at", 1_370_000_000_000_000)
            .with("first_at", 1_369_900_000_000_000)
            .with("last_at", 1_369_900_000_000_001)
            .with("batches", b"0123456789abcdef\x00\x02".to_vec())
            .with("releases", BTreeMap::from([("v1".to_owned(), Value::from(2))]))
            .with("data", segment::encode(&columns).unwrap());
        let segment = Segment::from_item(item.clone()).unwrap();
        assert_eq!(segment.place(), LogPosition::of(3, 7));
        assert_eq!((segment.rows, segment.lanes), (2, None));
        assert_eq!(segment.unpack(|_| true).unwrap(), columns);
        assert_eq!(segment.to_item(), item);
        let error = Segment::from_item(item.with("v", 2)).unwrap_err().to_string();
        assert!(error.contains("version 2, this Almanac knows 1"), "{error}");
    }

    #[test]
    fn opening_segment_states_lanes_and_may_be_empty() {
        let first = LogId { lane: 0, ..log() };
        let segment = Segment::opening(first, 4, Timestamp::default()).unwrap();
        let read = Segment::from_item(segment.to_item()).unwrap();
        assert_eq!(read, segment);
        assert_eq!((read.rows, read.lanes, read.seq), (0, Some(4), 1));
        assert_eq!(read.unpack(|_| true).unwrap(), Columns::default());
        assert_eq!(segment.item_bytes(), segment.to_item().size());
        for lanes in [0, 17] {
            let error = Segment::from_item(segment.to_item().with("lanes", lanes)).unwrap_err();
            assert!(error.to_string().contains("`lanes` is not 1 to 16"), "{error}");
        }
    }
}
