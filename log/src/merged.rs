//! Merged items: one item in the place of many small segments of a log.
//!
//! It stands under the key of the last segment that it holds and says in `from` which is the first. Of each segment it keeps all that the
//! segment's own item says ([`split`] makes the same segments of it again), but once for all of them what they have in common: the
//! names of columns, releases, authors. [`crate::store`] shows it to readers as the segments that it holds.

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

/// The attribute that says which segment is the first that is held; no segment's own item has it.
pub const FROM: &str = "from";

/// The attribute with what is known of the segments,
pub(crate) const PARTS: &str = "parts";

/// and that with their events, one after the other.
pub(crate) const EVENTS: &str = "events";

/// The most segments that are held by one item: so many are made at once where one of them is wanted.
pub const MAX_MERGED_SEGMENTS: usize = 1_000;

/// Time for which a writer may put a segment behind the head that it has seen, by its monotonic clock. Then it looks again.
pub const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Time for which a segment must have been seen not to be the head of its log before it may be deleted because a merged
/// item holds it, by the monotonic clock of the process that deletes it. It is longer than a writer may go by what it saw,
/// plus the time that a put may take: so no writer that took its number for free is still at it, and none takes it for free
/// again.
pub const QUIET: Duration = Duration::from_secs(120);

/// Log and range of the segments that an item holds, from the first to the last. `None`, when it is not a merged item.
pub fn span(item: &Item) -> Option<(LogId, u64, u64)> {
    let from = item.attributes.contains_key(FROM).then(|| item.int(FROM).ok())??;
    let (log, last) = key::parse_segment(&item.key)?;
    let from = u64::try_from(from).ok().filter(|from| (1..=last).contains(from))?;
    Some((log, from, last))
}

/// One item that holds segments which follow each other in a log. `None`, when there is none of which exactly these segments are made
/// again: so nothing is lost by it, whatever wrote them.
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
    // As the first segment's own item does.
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

/// All events of a segment; `None`, when some of it cannot be read by this Almanac.
fn events_of(segment: &Segment) -> Option<Columns> {
    let header = segment::header(&segment.data).ok()?;
    let is_known = |kind| !matches!(kind, ColumnKind::Unknown(_));
    header.columns.iter().all(|column| is_known(column.kind)).then_some(())?;
    segment.unpack(|_| true).ok()
}

/// The segments that a merged item holds.
///
/// # Errors
/// `Corrupt`, when it holds none, or cannot be read.
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

/// Name in a log of a batch of these events that has no key.
pub(crate) fn name_of_content(log: &LogId, columns: &Columns) -> Option<crate::batch::BatchId> {
    let is_dated = log.kind != Kind::Unmatched;
    let days = vec![log.day.number(); columns.rows];
    is_dated.then(|| crate::content::batch(&crate::content::digest(log.kind, columns, &days)))
}

/// An item of a log that is written again without some keys.
#[derive(Debug)]
pub struct Erased {
    /// The write, which demands that nobody else has written the item since it was read.
    pub write: Write,
    /// Number of bytes of the item.
    pub bytes: usize,
    /// Number of events that had one of the keys, in segments behind the named one.
    pub rows: u64,
}

/// Returns an item, merged or a segment's own, without some keys, and with `true` beside them also without scores, labels and
/// values of their events; `None` if none of its events had one. It counts rows in the segments behind `counted`: earlier ones
/// still have items of their own, in which they are counted.
///
/// # Errors
/// `Corrupt`, when it cannot be read; `TooLarge`, when no item can hold it.
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

/// The condition that an item of a log, merged or a segment's own, is there as it was read.
pub fn unchanged(item: &Item) -> Condition {
    let is = |name| match item.attributes.get(name) {
        Some(value) => Condition::Equals(name, value.clone()),
        None => Condition::Without(name),
    };
    Condition::All(vec![is(FROM), is(VER)])
}

#[cfg(test)]
mod tests;
