//! Facts about each segment of a merged item, field by field: equal values stand beside each other and pack well.

use std::sync::Arc;

use event::Columns;
use segment::bytes::{Checked, Cursor, put_varint, unzigzag, zigzag};

use super::{MAX_MERGED_SEGMENTS, name_of_content};
use crate::{
    authors::Authors,
    batch::{BatchId, BatchPart},
    indexes,
    key::LogId,
    segment_item::Segment,
};

/// Version of the bytes.
const FORM: u8 = 1;

/// Level of zstd: the bytes are written once and should be small.
const LEVEL: i32 = 9;

/// Maximum unpacked bytes: a bound for their claims.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Maximum of any count.
const MAX_COUNT: usize = 1 << 20;

/// Number of bytes of a [`BatchId`].
const ID_BYTES: usize = 16;

/// Marks a batch that is named by 16 bytes.
const NAMED: u64 = 0;
/// Marks a batch that is named by its content, which is the segment.
const BY_CONTENT: u64 = 1;

/// Facts about a segment beside its events.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) rows: usize,
    /// Microseconds from the time of its last event ([`time_of_last`]) to its append.
    pub(super) lag: i64,
    /// Indexes of its columns among all columns, in its order.
    pub(super) columns: Vec<usize>,
    /// Microseconds by which its events were known before its append, if that is stated.
    pub(super) known_before: Option<u64>,
    pub(super) lanes: Option<u8>,
    pub(super) ver: i64,
    pub(super) erased: u64,
    /// Batches; one without a name is named by its events.
    batches: Vec<(Option<BatchId>, usize, usize)>,
    pub(super) indexes: Vec<Vec<u32>>,
    pub(super) authors: Authors,
}

impl Facts {
    /// Returns its batches, if its events are these.
    pub(super) fn batches_of(&self, log: &LogId, events: &Columns) -> Vec<BatchPart> {
        let part = |(batch, first, rows): &(Option<BatchId>, usize, usize)| {
            let batch = batch.or_else(|| name_of_content(log, events)).unwrap_or(BatchId([0; ID_BYTES]));
            BatchPart { batch, first: *first, rows: *rows }
        };
        self.batches.iter().map(part).collect()
    }
}

/// Returns the time of the last of some events, in microseconds since 1970; 0, when they have none.
pub(super) fn time_of_last(log: &LogId, events: &Columns) -> i64 {
    let last = events.rows.checked_sub(1);
    let time = |row| events.column(log.kind.time_field())?.time(row);
    last.and_then(time).unwrap_or_default()
}

/// Encodes the facts about segments with these events, which stand one after the other in `all`. `None`, when that is not
/// possible.
pub(super) fn encode(segments: &[Segment], events: &[Columns], all: &Columns) -> Option<Vec<u8>> {
    let (mut plain, mut names) = (Vec::new(), Vec::new());
    let out = &mut plain;
    put_varint(out, segments.len() as u64);
    put_columns(out, events, all);
    segments.iter().for_each(|segment| put_varint(out, segment.rows as u64));
    // Events usually come soon: their lag takes fewer bytes than their time.
    let mut before = 0i64;
    for (segment, events) in segments.iter().zip(events) {
        let lag = segment.appended_at.micros().wrapping_sub(time_of_last(&segment.log, events));
        put_varint(out, zigzag(lag.wrapping_sub(before)));
        before = lag;
    }
    segments.iter().for_each(|segment| put_varint(out, segment.lanes.map_or(0, u64::from)));
    segments.iter().for_each(|segment| put_varint(out, segment.ver as u64));
    segments.iter().for_each(|segment| put_varint(out, segment.erased));
    segments.iter().for_each(|segment| put_varint(out, segment.batches.len() as u64));
    for (segment, events) in segments.iter().zip(events) {
        let is_alone = segment.batches.len() == 1;
        for part in &segment.batches {
            let is_content = is_alone && name_of_content(&segment.log, events) == Some(part.batch);
            put_varint(out, if is_content { BY_CONTENT } else { NAMED });
            put_varint(out, part.first as u64);
            put_varint(out, part.rows as u64);
            names.extend((!is_content).then_some(part.batch.0));
        }
    }
    for segment in segments {
        put_varint(out, segment.indexes.len() as u64);
        segment.indexes.iter().for_each(|rows| indexes::put(out, rows));
    }
    put_authors(out, segments)?;
    if segments.iter().any(|segment| segment.known_at.is_some()) {
        for segment in segments {
            let before = segment.known_at.map(|at| segment.appended_at.micros() - at.micros());
            put_varint(out, before.map_or(Some(0), |before| u64::try_from(before).ok()?.checked_add(1))?);
        }
    }
    // Names are random, so they are not packed.
    let packed = zstd::bulk::compress(&plain, LEVEL).ok().filter(|packed| packed.len() < plain.len());
    let mut bytes = vec![FORM];
    put_varint(&mut bytes, plain.len() as u64);
    put_varint(&mut bytes, packed.as_ref().map_or(0, |packed| packed.len() as u64));
    bytes.extend(packed.unwrap_or(plain));
    bytes.extend(names.into_iter().flatten());
    Some(bytes)
}

/// Encodes the distinct lists of columns, and the list of each segment.
fn put_columns(out: &mut Vec<u8>, events: &[Columns], all: &Columns) {
    let place = |name: &str| all.columns.iter().position(|column| column.name == name).unwrap_or_default();
    let mut lists = Vec::<Vec<&str>>::new();
    let mut numbers = Vec::with_capacity(events.len());
    for events in events {
        let list: Vec<&str> = events.columns.iter().map(|column| column.name.as_str()).collect();
        numbers.push(lists.iter().position(|known| *known == list).unwrap_or(lists.len()));
        if numbers.last() == Some(&lists.len()) {
            lists.push(list);
        }
    }
    put_varint(out, lists.len() as u64);
    for list in lists {
        put_varint(out, list.len() as u64);
        list.into_iter().for_each(|name| put_varint(out, place(name) as u64));
    }
    numbers.into_iter().for_each(|number| put_varint(out, number as u64));
}

/// Encodes the number of parts with authors of each segment, and then all authors, as in a segment.
fn put_authors(out: &mut Vec<u8>, segments: &[Segment]) -> Option<()> {
    let mut authors = Vec::new();
    for segment in segments {
        let of_parts = segment.authors.read().ok()?;
        put_varint(out, of_parts.len() as u64);
        authors.extend(of_parts.into_iter().map(Arc::new));
    }
    let authors = Authors::of(&authors);
    put_varint(out, authors.len() as u64);
    out.extend_from_slice(authors.bytes());
    Some(())
}

/// Decodes the output of [`encode`], for this number of columns.
pub(super) fn decode(bytes: &[u8], columns: usize) -> Checked<Vec<Facts>> {
    let mut cursor = Cursor::new(bytes);
    match cursor.take(1)?[0] {
        FORM => {}
        form => return Err(format!("their form {form} is not known").into()),
    }
    let length = cursor.varint_at_most(MAX_BYTES, "their length")?;
    let packed = cursor.varint_at_most(MAX_BYTES, "their packed length")?;
    let plain = match packed {
        0 => cursor.take(length)?.to_vec(),
        packed => {
            zstd::bulk::decompress(cursor.take(packed)?, length).map_err(|_| "they cannot be unpacked")?
        }
    };
    let mut from = Cursor::new(&plain);
    let count = from.varint_at_most(MAX_MERGED_SEGMENTS, "the number of segments")?;
    let mut all: Vec<Facts> = (0..count).map(|_| Facts::default()).collect();
    take_columns(&mut from, &mut all, columns)?;
    for facts in &mut all {
        facts.rows = from.varint_at_most(MAX_COUNT, "the number of rows")?;
    }
    let mut before = 0i64;
    for facts in &mut all {
        before = before.wrapping_add(unzigzag(from.varint()?));
        facts.lag = before;
    }
    for facts in &mut all {
        let lanes = from.varint_at_most(usize::from(u8::MAX), "the number of lanes")?;
        facts.lanes = u8::try_from(lanes).ok().filter(|lanes| *lanes > 0);
    }
    for facts in &mut all {
        facts.ver = i64::try_from(from.varint()?).map_err(|_| "a version is none")?;
    }
    for facts in &mut all {
        facts.erased = from.varint()?;
    }
    take_batches(&mut from, &mut cursor, &mut all)?;
    for facts in &mut all {
        let sets = from.varint_at_most(facts.batches.len(), "the number of sets of rows")?;
        facts.indexes = (0..sets).map(|_| indexes::take(&mut from)).collect::<Checked<_>>()?;
    }
    take_authors(&mut from, &mut all)?;
    // Without stated times, nothing stands behind the authors.
    if from.remaining() > 0 {
        for facts in &mut all {
            facts.known_before = from.varint()?.checked_sub(1);
        }
    }
    if from.remaining() > 0 || cursor.remaining() > 0 { Err("bytes are left over".into()) } else { Ok(all) }
}

fn take_columns(from: &mut Cursor<'_>, all: &mut [Facts], columns: usize) -> Checked<()> {
    let mut lists = Vec::<Vec<usize>>::new();
    for _ in 0..from.varint_at_most(all.len(), "the number of lists of columns")? {
        let length = from.varint_at_most(columns, "the number of columns")?;
        let list = (0..length).map(|_| from.varint_at_most(columns - 1, "the number of a column"));
        lists.push(list.collect::<Checked<_>>()?);
    }
    for facts in all {
        let number = usize::try_from(from.varint()?).ok();
        let list = number.and_then(|number| lists.get(number));
        facts.columns = list.ok_or("there is no such list of columns")?.clone();
    }
    Ok(())
}

fn take_batches(from: &mut Cursor<'_>, names: &mut Cursor<'_>, all: &mut [Facts]) -> Checked<()> {
    let counts: Vec<usize> = all
        .iter()
        .map(|_| from.varint_at_most(MAX_COUNT, "the number of batches"))
        .collect::<Checked<_>>()?;
    for (facts, count) in all.iter_mut().zip(counts) {
        for _ in 0..count {
            let batch = match from.varint()? {
                NAMED => {
                    let mut id = [0; ID_BYTES];
                    id.copy_from_slice(names.take(ID_BYTES)?);
                    Some(BatchId(id))
                }
                BY_CONTENT if count == 1 => None,
                _ => return Err("a batch is named in an unknown way".into()),
            };
            let first = from.varint_at_most(u32::MAX as usize, "the first row of a batch")?;
            let rows = from.varint_at_most(u32::MAX as usize, "the rows of a batch")?;
            facts.batches.push((batch, first, rows));
        }
    }
    Ok(())
}

fn take_authors(from: &mut Cursor<'_>, all: &mut [Facts]) -> Checked<()> {
    let counts: Vec<usize> = all
        .iter()
        .map(|_| from.varint_at_most(MAX_COUNT, "the number of authors"))
        .collect::<Checked<_>>()?;
    let length = from.varint_at_most(MAX_BYTES, "the length of authors")?;
    let authors = Authors::from_bytes(from.take(length)?.to_vec()).read()?;
    let mut authors = authors.into_iter().map(Arc::new);
    for (facts, count) in all.iter_mut().zip(counts) {
        let of_parts: Vec<_> = authors.by_ref().take(count).collect();
        if of_parts.len() != count {
            return Err("an author is missing".into());
        }
        facts.authors = Authors::of(&of_parts);
    }
    if authors.next().is_some() { Err("an author is left over".into()) } else { Ok(()) }
}
