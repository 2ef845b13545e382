//! Merged items: one item in place of many small segments of a log.
//!
//! Its key is that of its last segment; the attribute `from` is the number of its first. It keeps all attributes of
//! each segment's own item ([`split`] restores them), and once what they share: the names of columns, releases,
//! authors. [`crate::store`] shows it to readers as its segments.

use std::time::Duration;

use event::{Column, Columns, Error, Kind, Result, Timestamp, Values, columns::Strings};
use segment::ColumnKind;
use table::{Condition, Item, Write};

use crate::{
    erased::{self, Pseudonyms},
    key::{self, LogId},
    segment_item::{ITEM_VERSION, LANES, MAX_SEGMENT_ROWS, Segment, VER},
};

mod facts;

use facts::Facts;

/// Attribute with the number of the first segment; items of single segments lack it.
pub const FROM: &str = "from";

/// Attribute with the attributes of the segments.
pub(crate) const PARTS: &str = "parts";

/// Attribute with the events of the segments, one after the other.
pub(crate) const EVENTS: &str = "events";

/// Maximum segments of one item; a read of one of them decodes all.
pub const MAX_MERGED_SEGMENTS: usize = 1_000;

/// Time for which a writer may put segments after a head that it has read, by its monotonic clock. Then it reads the
/// head again.
pub const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Time for which a segment must be known not to be the head of its log before it may be deleted in favour of a merged
/// item, by the monotonic clock of the deleting process. It is longer than [`LOOK_AGAIN`] plus the maximum time of a
/// put, so no writer that took the number for free is still writing, and none will.
pub const QUIET: Duration = Duration::from_secs(120);

/// Returns the log and the numbers of the first and last segment of a merged item; `None` for other items.
pub fn span(item: &Item) -> Option<(LogId, u64, u64)> {
    let from = item.attributes.contains_key(FROM).then(|| item.int(FROM).ok())??;
    let (log, last) = key::parse_segment(&item.key)?;
    let from = u64::try_from(from).ok().filter(|from| (1..=last).contains(from))?;
    Some((log, from, last))
}

/// Merges consecutive segments into one item. `None` if splitting it would not restore exactly these segments, so a
/// merge loses nothing.
pub fn merge(segments: &[Segment]) -> Option<Item> {
    let (first, last) = (segments.first()?, segments.last()?);
    let rows: usize = segments.iter().map(|segment| segment.rows).sum();
    let follow =
        segments.iter().zip(first.seq..).all(|(segment, seq)| segment.seq == seq && segment.log == first.log);
    if !follow || segments.len() > MAX_MERGED_SEGMENTS || rows > MAX_SEGMENT_ROWS {
        return None;
    }
    let columns: Vec<Columns> = segments.iter().map(events_of).collect::<Option<_>>()?;
    let all = Columns::concat(&columns.iter().collect::<Vec<_>>());
    let parts = facts::encode(segments, &columns, &all)?;
    let item = Item::new(key::segment(&last.log, last.seq))
        .with("v", ITEM_VERSION)
        .with(FROM, first.seq as i64)
        .with("n", rows as i64)
        .with(PARTS, parts)
        .with(EVENTS, segment::encode(&all).ok()?);
    // As in the first segment's own item.
    let item = match first.lanes {
        Some(lanes) => item.with(LANES, i64::from(lanes)),
        None => item,
    };
    let again = split(&item).ok()?;
    let is_same = |((one, events), other): ((&Segment, &Columns), &Segment)| {
        let bare = |segment: &Segment| Segment { data: Vec::new(), ..segment.clone() };
        bare(one) == bare(other) && other.unpack(|_| true).is_ok_and(|again| again == *events)
    };
    let is_whole = again.len() == segments.len();
    (is_whole && segments.iter().zip(&columns).zip(&again).all(is_same)).then_some(item)
}

/// Returns all events of a segment; `None` if this Almanac cannot read some of them.
fn events_of(segment: &Segment) -> Option<Columns> {
    let header = segment::header(&segment.data).ok()?;
    let is_known = |kind| !matches!(kind, ColumnKind::Unknown(_));
    header.columns.iter().all(|column| is_known(column.kind)).then_some(())?;
    segment.unpack(|_| true).ok()
}

/// Splits a merged item into its segments.
///
/// # Errors
/// `Corrupt` if it has none, or cannot be read.
pub fn split(item: &Item) -> Result<Vec<Segment>> {
    segments(item, true)
}

/// Splits a merged item into its segments without their events, as items are read without [`crate::segment_item::DATA`].
///
/// # Errors
/// As [`split`].
pub(crate) fn split_bare(item: &Item) -> Result<Vec<Segment>> {
    segments(item, false)
}

fn segments(item: &Item, with_events: bool) -> Result<Vec<Segment>> {
    let (log, from, last) = span(item).ok_or_else(|| item.corrupt("it is no merged item"))?;
    item.check_version(ITEM_VERSION)?;
    let named = |flaw: &dyn std::fmt::Display| item.corrupt(format_args!("`{PARTS}`: {flaw}"));
    let all = segment::decode(item.bytes(EVENTS)?).map_err(|error| item.corrupt(error))?;
    let facts = facts::decode(item.bytes(PARTS)?, all.columns.len()).map_err(|flaw| named(&flaw))?;
    if facts.len() as u64 != last - from + 1 {
        return Err(named(&"they are of another number of segments"));
    }
    let mut first = 0;
    let mut segments = Vec::with_capacity(facts.len());
    for (seq, facts) in (from..).zip(facts) {
        if facts.rows > all.rows - first {
            return Err(named(&"there are fewer events"));
        }
        segments
            .push(segment_of((&log, seq), facts, (&all, first), with_events).map_err(|flaw| named(&flaw))?);
        first += segments.last().map_or(0, |segment| segment.rows);
    }
    if first == all.rows { Ok(segments) } else { Err(named(&"there are more events")) }
}

fn segment_of(
    (log, seq): (&LogId, u64),
    facts: Facts,
    (all, first): (&Columns, usize),
    with_events: bool,
) -> std::result::Result<Segment, String> {
    let columns = facts.columns.iter().map(|at| slice(&all.columns[*at], first, facts.rows));
    let columns = Columns { rows: facts.rows, columns: columns.collect() };
    let at = facts::time_of_last(log, &columns).wrapping_add(facts.lag);
    let time = |micros| Timestamp::from_micros(micros).ok_or("a time is none");
    let known_at = facts.known_before.map(|before| time(at.wrapping_sub_unsigned(before))).transpose()?;
    let at = time(at)?;
    let batches = facts.batches_of(log, &columns);
    let data = match with_events {
        true => segment::encode(&columns).map_err(|error| error.to_string())?,
        false => Vec::new(),
    };
    Ok(Segment {
        known_at,
        lanes: facts.lanes,
        indexes: facts.indexes,
        authors: facts.authors,
        ver: facts.ver,
        erased: facts.erased,
        data,
        ..Segment::about(log.clone(), seq, at, batches, &columns)
    })
}

/// Returns consecutive rows of a column.
fn slice(column: &Column, first: usize, rows: usize) -> Column {
    let range = first..first + rows;
    let valid = column.valid.as_ref().map(|valid| valid[range.clone()].to_vec());
    let values = match &column.values {
        Values::Time(values) => Values::Time(values[range].to_vec()),
        Values::Float(values) => Values::Float(values[range].to_vec()),
        Values::Text(_) | Values::Coded(_) => {
            Values::Text(range.map(|row| column.text(row).unwrap_or_default()).collect::<Strings>())
        }
    };
    Column { name: column.name.clone(), values, valid: valid.filter(|valid| valid.contains(&false)) }
}

/// Returns the name in a log of a batch of these events without an idempotency key.
pub(crate) fn name_of_content(log: &LogId, columns: &Columns) -> Option<crate::batch::BatchId> {
    let is_dated = log.kind != Kind::Unmatched;
    let days = vec![log.day.number(); columns.rows];
    is_dated.then(|| crate::content::batch(&crate::content::digest(log.kind, columns, &days)))
}

/// Item of a log that is rewritten without erased keys.
#[derive(Debug)]
pub struct Erased {
    /// The write, conditional on the item as it was read.
    pub write: Write,
    /// Number of bytes of the item.
    pub bytes: usize,
    /// Number of events that had one of the keys, in segments after `counted`.
    pub rows: u64,
}

/// Returns an item, merged or not, without some keys and, if `true` stands beside them, without scores, labels and
/// values of their events; `None` if no event had one of the keys. It counts rows only in segments after `counted`:
/// earlier ones still have items of their own, where they are counted.
///
/// # Errors
/// `Corrupt` if it cannot be read; `TooLarge` if the result does not fit into an item.
pub fn erase(
    item: Item,
    (pseudonyms, with_values): (&Pseudonyms, bool),
    counted: u64,
) -> Result<Option<Erased>> {
    let (mut rows, mut is_changed) = (0, false);
    let (key, condition, is_merged) = (item.key.clone(), unchanged(&item), span(&item).is_some());
    let ver = item.attributes.get(VER).map_or(Ok(0), |_| item.int(VER))?;
    let mut segments = if is_merged { split(&item)? } else { vec![Segment::from_item(item)?] };
    for segment in &mut segments {
        if let Some((erased, count)) = erased::erase(segment, pseudonyms, with_values)? {
            rows += if segment.seq > counted { count } else { 0 };
            *segment = erased;
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(None);
    }
    let erased = if is_merged { merge(&segments) } else { segments.first().map(Segment::to_item) };
    let erased = erased.map(|erased| erased.with(VER, ver + 1));
    let fits = |erased: &Item| erased.size() <= table::item::MAX_ITEM_BYTES;
    let erased = erased
        .filter(fits)
        .ok_or_else(|| Error::too_large(format!("segment {key}: without the keys no item can hold it")))?;
    Ok(Some(Erased { bytes: erased.size(), write: Write::Put(erased, condition), rows }))
}

/// Condition that an item of a log, merged or not, is as it was read.
pub fn unchanged(item: &Item) -> Condition {
    let is = |name| match item.attributes.get(name) {
        Some(value) => Condition::Equals(name, value.clone()),
        None => Condition::Without(name),
    };
    Condition::All(vec![is(FROM), is(VER)])
}

#[cfg(test)]
mod tests;
