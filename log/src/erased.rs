//! Erasing keys: a segment with surrogates in the place of keys, and when events are being written again.
//!
//! An event whose key is erased keeps its times, its release and the inputs of metrics: score, label, value. Its key
//! becomes a surrogate, the same one everywhere, and its tags, its features and its texts go. An erasure with values also
//! removes score, label and value: the event still counts, and says nothing. The segment keeps its place, its rows, its
//! time and its batches.
//!
//! **Write-once items are conditional on the erasure [`Turn`], so none mixes data from before and after an erasure.** An
//! evaluation, a vintage or a decision about an unmatched outcome is computed from many segments, of which some may be rewritten
//! meanwhile. So the item of what was erased has a turn, which is counted up before the first segment is rewritten and
//! after the last. A writer of such an item reads the turn first, waits while events are being rewritten, and writes under
//! the condition that the turn is the same.

use std::collections::{BTreeMap, BTreeSet};

use event::{Column, Columns, Error, ErrorKind, Id, Kind, Result, Values};
use segment::ColumnKind;
use table::{Condition, Item, Table, Write, item::MAX_ITEM_BYTES};

use crate::{
    key,
    segment_item::{Segment, VER},
};

/// The attribute of the item of what was erased that is there while events are being written again.
pub const REWRITING: &str = "rewriting";

/// The attribute of it that names the erasure that goes on.
pub const OPEN: &str = "open";

/// The attribute of it that names the last erasure that was begun. Together with how often the turn has changed it tells two histories of
/// erasures apart: a table that was restored from a backup may count to the same number.
pub const LAST: &str = "last";

/// The surrogate of each key that is erased.
pub type Surrogates = BTreeMap<String, String>;

/// Returns a segment without some keys (`with_values`: also without scores, labels and values of their events), and the
/// number of its events that had one of the keys; `None` if none had.
///
/// # Errors
/// `Corrupt`, when it cannot be unpacked, or has columns that this Almanac does not know; `TooLarge`, when no item can hold it.
pub fn erase(
    segment: &Segment,
    surrogates: &Surrogates,
    with_values: bool,
) -> Result<Option<(Segment, u64)>> {
    let kind = segment.log.kind;
    let rows = rows_of(&segment.unpack(|name| kind.is_key(name))?, kind, surrogates);
    if rows.is_empty() {
        return Ok(None);
    }
    let named = |error: &dyn std::fmt::Display| {
        format!("segment {}: {error}", key::segment(&segment.log, segment.seq))
    };
    let header = segment::header(&segment.data)?;
    let is_unknown = |kind| matches!(kind, ColumnKind::Unknown(_));
    if let Some(column) = header.columns.iter().find(|column| is_unknown(column.kind)) {
        let message = format!("column `{}` is of a type that this Almanac does not know", column.name);
        return Err(Error::corrupt(named(&message)));
    }
    let columns = segment.unpack(|_| true)?;
    let data = segment::encode(&without(columns, kind, (&rows, with_values), surrogates))?;
    let count = rows.len() as u64;
    let erased = Segment { ver: segment.ver + 1, erased: segment.erased + count, data, ..segment.clone() };
    match erased.item_bytes() {
        0..=MAX_ITEM_BYTES => Ok(Some((erased, count))),
        bytes => {
            let message =
                format!("without the keys it has {bytes} bytes, and no item has more than {MAX_ITEM_BYTES}");
            Err(Error::new(ErrorKind::TooLarge, named(&message)))
        }
    }
}

/// True if a segment has events of some keys.
///
/// # Errors
/// `Corrupt`, when their keys cannot be read.
pub fn has(segment: &Segment, surrogates: &Surrogates) -> Result<bool> {
    let kind = segment.log.kind;
    Ok(!rows_of(&segment.unpack(|name| kind.is_key(name))?, kind, surrogates).is_empty())
}

/// The write that puts a segment without keys in the place of what was read: only if nobody has written it again meanwhile, and it is
/// there.
pub fn write(erased: &Segment) -> Write {
    let condition = match erased.ver - 1 {
        0 => Condition::Without(VER),
        before => Condition::Equals(VER, before.into()),
    };
    Write::Put(erased.to_item(), condition)
}

/// The rows of some keys.
fn rows_of(columns: &Columns, kind: Kind, surrogates: &Surrogates) -> BTreeSet<usize> {
    let keys = columns.columns.iter().filter(|column| kind.is_key(&column.name));
    let of = |column: &Column| -> Vec<usize> {
        let is_erased = |row: &usize| column.text(*row).is_some_and(|key| surrogates.contains_key(key));
        (0..columns.rows).filter(is_erased).collect()
    };
    keys.flat_map(of).collect()
}

/// The columns with surrogates in some rows, which lose what goes with their keys.
fn without(
    columns: Columns,
    kind: Kind,
    (rows, with_values): (&BTreeSet<usize>, bool),
    surrogates: &Surrogates,
) -> Columns {
    let all = columns.rows;
    let column = |column: Column| match () {
        () if kind.is_key(&column.name) => {
            let key =
                |row| column.text(row).map_or("", |key| surrogates.get(key).map_or(key, String::as_str));
            Column { values: Values::Text((0..all).map(key).collect()), ..column }
        }
        () if !kind.is_erased(&column.name, with_values) => column,
        // No event is without it: a metric is then not a number, which counts as an event and is no part of sums.
        () if kind.requires(&column.name) => no_numbers(column, rows),
        () => nulled(column, all, rows),
    };
    Columns { rows: all, columns: columns.columns.into_iter().map(column).collect() }
}

/// A column that is not a number in some rows.
fn no_numbers(mut column: Column, rows: &BTreeSet<usize>) -> Column {
    if let Values::Float(numbers) = &mut column.values {
        rows.iter().for_each(|row| numbers[*row] = f64::NAN);
    }
    column
}

/// A column that is null in some rows, where nothing is left of what was there.
fn nulled(column: Column, all: usize, rows: &BTreeSet<usize>) -> Column {
    let valid: Vec<bool> = (0..all).map(|row| column.is_valid(row) && !rows.contains(&row)).collect();
    let values = match &column.values {
        // Not with its dictionary, which would keep texts that no row has any more.
        Values::Text(_) | Values::Coded(_) => {
            let text = |row: usize| if valid[row] { column.text(row).unwrap_or_default() } else { "" };
            Values::Text((0..all).map(text).collect())
        }
        Values::Float(numbers) => Values::Float(
            numbers.iter().zip(&valid).map(|(number, is)| if *is { *number } else { 0.0 }).collect(),
        ),
        Values::Time(times) => {
            Values::Time(times.iter().zip(&valid).map(|(time, is)| if *is { *time } else { 0 }).collect())
        }
    };
    Column { name: column.name, values, valid: Some(valid) }
}

/// Returns the number of keys erased in a workspace so far: one read.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn count(table: &dyn Table, workspace: &Id) -> Result<u64> {
    let Some(item) = table.get(&key::erased(workspace)).await? else { return Ok(0) };
    u64::try_from(item.int("n")?).map_err(|_| item.corrupt("`n` is no count"))
}

/// State of the erasures of a workspace, with a count of its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Counts the changes; 0 where no key was ever erased.
    pub ver: i64,
    /// True while events are being rewritten.
    pub is_rewriting: bool,
    /// True while an erasure goes on: also before and after that, until all projections of the events are folded again.
    pub is_open: bool,
}

impl Turn {
    /// The turn of a workspace: one read.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        table.get(&key::erased(workspace)).await?.as_ref().map_or(Ok(Self::default()), Self::of)
    }

    /// Reads the turn from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of(item: &Item) -> Result<Self> {
        let has = |name| item.attributes.contains_key(name);
        Ok(Self { ver: item.int("ver")?, is_rewriting: has(REWRITING), is_open: has(OPEN) })
    }

    /// The turn of a workspace in which no events are being written again.
    ///
    /// # Errors
    /// `Unavailable`, while they are; those of [`Turn::load`].
    pub async fn free(table: &dyn Table, workspace: &Id) -> Result<Self> {
        match Self::load(table, workspace).await? {
            turn if turn.is_rewriting => Err(Error::unavailable(format!(
                "keys are being erased in the workspace {workspace}; what is made of its events waits until that is done"
            ))),
            turn => Ok(turn),
        }
    }

    /// The demand that it still is this turn.
    pub fn check(self, workspace: &Id) -> Write {
        Write::Check(key::erased(workspace), Condition::unchanged(self.ver))
    }
}

#[cfg(test)]
mod tests;
