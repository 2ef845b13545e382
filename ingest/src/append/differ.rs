//! Differences between two batches that were sent under one idempotency key.

use std::{collections::BTreeSet, fmt};

use event::{Column, Columns, Day, Result, Timestamp, Values};
use log::{batch::BatchId, key, segment_item::Segment};
use table::{Query, Table};

use super::{idempotency::IdempotencyRecord, place::Dealt};

/// Number of segments of a log that are searched for the earlier batch.
const MAX_SEGMENTS: usize = 200;

/// Maximum characters of a text that are shown.
const SHOWN_CHARS: usize = 40;

/// Describes the difference between the batch of a record and the present one.
///
/// # Errors
/// Errors of the table.
pub(super) async fn difference(
    table: &dyn Table,
    record: &IdempotencyRecord,
    batch: BatchId,
    dealt: &[Dealt],
) -> Result<String> {
    let rows: usize = dealt.iter().map(|dealt| dealt.part.columns.rows).sum();
    let when = record.claimed_at;
    if record.rows != rows {
        return Ok(format!("{} at {when}, now {}", events(record.rows), events(rows)));
    }
    let days = |days: Vec<Day>| match days.as_slice() {
        [] => "no day".to_owned(),
        [day] => day.to_string(),
        [first, .., last] => format!("{} days from {first} to {last}", days.len()),
    };
    let unique = |days: BTreeSet<Day>| days.into_iter().collect::<Vec<_>>();
    let before = unique(record.after.keys().map(|log| log.day).collect());
    let now = unique(dealt.iter().map(|dealt| dealt.log.day).collect());
    if before != now {
        return Ok(format!("those used at {when} belong to {}, these to {}", days(before), days(now)));
    }
    for Dealt { log, part, .. } in dealt {
        let stored = stored(table, log, record.after(log), batch, part.columns.rows).await?;
        if stored.rows != part.columns.rows {
            continue;
        }
        if let Some((row, what)) = first_difference(&stored, &part.columns) {
            return Ok(format!("row {}, {what}", part.numbers[row]));
        }
    }
    Ok(format!("those used at {when} are as many on the same days, but not the same"))
}

fn events(rows: usize) -> String {
    if rows == 1 { "1 event".into() } else { format!("{rows} events") }
}

/// Reads the stored part of a batch in a log behind segment `after`.
async fn stored(
    table: &dyn Table,
    log: &key::LogId,
    after: u64,
    batch: BatchId,
    rows: usize,
) -> Result<Columns> {
    let mut query = Query::table(key::segments_from(log, after + 1)).limit(16);
    let mut found: Vec<Columns> = Vec::new();
    let mut read = 0;
    while read < MAX_SEGMENTS && found.iter().map(|columns| columns.rows).sum::<usize>() < rows {
        let page = table.query(&query).await?;
        read += page.items.len();
        for item in page.items {
            let segment = Segment::from_item(item)?;
            let mut start = 0;
            for part in &segment.batches {
                if part.batch == batch {
                    let rows: Vec<usize> = (start..start + part.rows).collect();
                    found.push(segment.unpack(|_| true)?.take(&rows));
                }
                start += part.rows;
            }
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Ok(Columns::concat(&found.iter().collect::<Vec<_>>()))
}

/// Finds the first row that differs, and describes the difference.
fn first_difference(before: &Columns, now: &Columns) -> Option<(usize, String)> {
    let mut names: Vec<&str> = Vec::new();
    for column in before.columns.iter().chain(&now.columns) {
        if !names.contains(&column.name.as_str()) {
            names.push(&column.name);
        }
    }
    let pairs: Vec<_> = names.iter().map(|name| (name, before.column(name), now.column(name))).collect();
    (0..now.rows).find_map(|row| {
        pairs.iter().find_map(|(name, before, now)| {
            let cell = |column: &Option<&Column>| column.map_or(Cell::Null, |column| cell(column, row));
            let (before, now) = (cell(before), cell(now));
            (before != now).then(|| (row, format!("`{name}`: {before} before, now {now}")))
        })
    })
}

/// Value in the form in which it is compared and shown.
#[derive(PartialEq)]
enum Cell {
    Null,
    Time(i64),
    /// Bits of a number.
    Float(u64),
    Text(String),
}

fn cell(column: &Column, row: usize) -> Cell {
    match &column.values {
        _ if !column.is_valid(row) => Cell::Null,
        Values::Time(times) => Cell::Time(times[row]),
        Values::Float(numbers) => Cell::Float(numbers[row].to_bits()),
        Values::Text(_) | Values::Coded(_) => Cell::Text(column.text(row).unwrap_or_default().to_owned()),
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => f.write_str("null"),
            Cell::Time(micros) => match Timestamp::from_micros(*micros) {
                Some(time) => write!(f, "{time}"),
                None => write!(f, "{micros} us"),
            },
            Cell::Float(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Cell::Text(text) => {
                let shown: String = text.chars().take(SHOWN_CHARS).collect();
                write!(f, "{shown:?}{}", if shown.len() < text.len() { "..." } else { "" })
            }
        }
    }
}
