//! The oracle: every segment as it was appended, with the erasures applied to all of the past, and which outcome judges which prediction,
//! found by going through all events one after the other.

use std::collections::BTreeMap;

use event::{Columns, Day, Kind, Result, Timestamp, Values, pseudonym::is_pseudonym};
use log::{segment_item::Segment, store::shown};
use table::Item;

use super::Pseudonyms;
use crate::sim::world::World;

/// An event: its fields by name, as text that no two values share.
pub(in crate::sim) type Cells = BTreeMap<String, String>;

/// An event, of which kind and day it is, and when it was appended.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Row {
    pub(in crate::sim) kind: Kind,
    pub(in crate::sim) day: Day,
    pub(in crate::sim) appended_at: Timestamp,
    pub(in crate::sim) cells: Cells,
}

/// A segment as it was appended, and as it is stored.
pub(in crate::sim) struct Both {
    pub(in crate::sim) appended: Segment,
    pub(in crate::sim) stored: Option<Segment>,
}

/// All segments, in the order in which the table made them.
pub(in crate::sim) fn segments(world: &World) -> Result<Vec<Both>> {
    let mut found: Vec<(u64, Item, Option<Item>)> = {
        let state = world.lock();
        let all = state.appended.iter();
        let stored = |key| state.items.get(key).map(|stored| shown(stored.item.clone()));
        all.map(|(key, (created, item))| (*created, shown(item.clone()), stored(key))).collect()
    };
    found.sort_by_key(|(created, ..)| *created);
    let both = |(_, appended, stored): (u64, Item, Option<Item>)| {
        let stored = stored.map(Segment::from_item).transpose()?;
        Ok(Both { appended: Segment::from_item(appended)?, stored })
    };
    found.into_iter().map(both).collect()
}

/// The events of a segment.
pub(in crate::sim) fn rows(segment: &Segment) -> Result<Vec<Row>> {
    let columns = segment.unpack(|_| true)?;
    let row = |row| Row {
        kind: segment.log.kind,
        day: segment.log.day,
        appended_at: segment.appended_at,
        cells: cells(&columns, row),
    };
    Ok((0..columns.rows).map(row).collect())
}

fn cells(columns: &Columns, row: usize) -> Cells {
    let cell = |column: &event::Column| {
        let text = || column.text(row).map(str::to_owned);
        let number = || column.float(row).map(|number| format!("{:016x}", number.to_bits()));
        let time = || column.time(row).map(|time| time.to_string());
        let cell = text().or_else(number).or_else(time)?;
        Some((column.name.clone(), cell))
    };
    columns.columns.iter().filter_map(cell).collect()
}

/// Returns the rest of an event after erasure; true, if it has an erased key.
pub(in crate::sim) fn erased(mut row: Row, pseudonyms: &Pseudonyms) -> (Row, bool) {
    let Some((pseudonym, with_values)) = row.cells.get("key").and_then(|key| pseudonyms.get(key)) else {
        return (row, false);
    };
    row.cells.insert("key".to_owned(), pseudonym.clone());
    row.cells
        .retain(|name, _| name != "reason" && !name.starts_with("tag.") && !name.starts_with("feature."));
    if *with_values {
        row.cells.retain(|name, _| !VALUES.contains(&name.as_str()));
        if row.kind == Kind::Metrics {
            row.cells.insert("value".to_owned(), format!("{:016x}", f64::NAN.to_bits()));
        }
    }
    (row, true)
}

/// Columns with predicted, observed and measured values.
const VALUES: [&str; 3] = ["score", "label", "value"];

/// Predictions or outcomes as if nothing had been erased but values: what was appended under a pseudonym, since it had waited, is of its key.
pub(in crate::sim) fn under_their_keys(mut columns: Columns, pseudonyms: &Pseudonyms) -> Columns {
    let Some(keys) = columns.column("key") else { return columns };
    let of_pseudonym = |text: &str| pseudonyms.iter().find(|(_, known)| known.0 == text);
    let key = |row| {
        let text = keys.text(row).unwrap_or_default();
        of_pseudonym(text).map_or_else(|| text.to_owned(), |(key, _)| key.clone())
    };
    let keys: Vec<String> = (0..columns.rows).map(key).collect();
    let stays: Vec<bool> = keys.iter().map(|key| pseudonyms.get(key).is_none_or(|known| !known.1)).collect();
    for column in &mut columns.columns {
        if column.name == "key" {
            column.values = Values::Text(keys.iter().map(String::as_str).collect());
        } else if VALUES.contains(&column.name.as_str()) {
            let valid = stays.iter().enumerate().map(|(row, stays)| *stays && column.is_valid(row));
            column.valid = Some(valid.collect());
        }
    }
    columns
}

fn cell<'a>(row: &'a Row, name: &str) -> &'a str {
    row.cells.get(name).map_or("", String::as_str)
}

fn time(row: &Row, name: &str) -> i64 {
    cell(row, name).parse().unwrap_or(i64::MIN)
}

/// Joins each prediction that counts with the outcome that judges it, in order: its key, its score, and the outcome's value.
pub(in crate::sim) fn joined(rows: &[&Row]) -> Vec<(String, String, String)> {
    let mut joined = Vec::new();
    for prediction in standing(rows, Kind::Predictions, &["release", "key", "predicted_at"], true) {
        let applies_to = |outcome: &&&Row| {
            let at = cell(outcome, "predicted_at");
            outcome.day == prediction.day
                && cell(outcome, "key") == cell(prediction, "key")
                && (at.is_empty() || at == cell(prediction, "predicted_at"))
        };
        let outcomes = standing(rows, Kind::Outcomes, &["key", "predicted_at", "observed_at", "day"], false);
        // Last of equal outcomes.
        let judge = outcomes.iter().filter(applies_to).max_by_key(|outcome| time(outcome, "observed_at"));
        let value = judge.map_or("", |outcome| cell(outcome, "value"));
        let of = |name| cell(prediction, name).to_owned();
        joined.push((of("key"), of("score"), value.to_owned()));
    }
    joined.sort();
    joined
}

/// The key and the score of each prediction of a key, also of those that were taken back.
pub(in crate::sim) fn of_key(rows: &[Row], key: &str) -> Vec<(String, String, String)> {
    let of_key = rows.iter().filter(|row| row.kind == Kind::Predictions && cell(row, "key") == key);
    of_key.map(|row| (key.to_owned(), cell(row, "score").to_owned(), String::new())).collect()
}

/// Number of counted predictions with erased keys, of each day and release that has some, as lines.
pub(in crate::sim) fn erased_predictions(rows: &[Row]) -> Vec<String> {
    let mut counts = BTreeMap::<String, u64>::new();
    let rows: Vec<&Row> = rows.iter().collect();
    for row in standing(&rows, Kind::Predictions, &["release", "key", "predicted_at"], true) {
        if is_pseudonym(cell(row, "key")) {
            *counts.entry(format!("{},{}", row.day, cell(row, "release"))).or_default() += 1;
        }
    }
    counts.into_iter().map(|(of, count)| format!("{of},{count}")).collect()
}

/// Number of events of each day that were erased after they were appended, except waiting ones, of the days that have some,
/// as lines.
pub(in crate::sim) fn marks(segments: &[Both]) -> Vec<String> {
    let mut counts = BTreeMap::<Day, u64>::new();
    for stored in segments.iter().filter_map(|both| both.stored.as_ref()) {
        if stored.log.kind != Kind::Unmatched && stored.erased > 0 {
            *counts.entry(stored.log.day).or_default() += stored.erased;
        }
    }
    counts.into_iter().map(|(day, count)| format!("{day},,{count}")).collect()
}

/// The events of a kind that were not taken back; of those that are the same the last one alone, if repeats do not count.
fn standing<'a>(rows: &[&'a Row], kind: Kind, identity: &[&str], only_last: bool) -> Vec<&'a Row> {
    let of = |row: &Row| -> Vec<String> {
        let name = |name: &&str| match *name {
            "day" => row.day.to_string(),
            name => cell(row, name).to_owned(),
        };
        identity.iter().map(name).collect()
    };
    let mut standing: Vec<&Row> = Vec::new();
    for row in rows.iter().filter(|row| row.kind == kind) {
        let is_retracted = row.cells.contains_key("retracted");
        if is_retracted || only_last {
            standing.retain(|before| of(before) != of(row));
        }
        if !is_retracted {
            standing.push(row);
        }
    }
    standing
}
