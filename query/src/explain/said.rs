//! An explanation, as JSON and as text.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use super::{Counts, DayFate, ENOUGH, Fate, REASONS, Step};
use crate::filter::Why;

/// The reads of an answer and the time of its steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Number of rows of the answer.
    pub rows: u64,
    /// Time until its last row was written, in seconds.
    pub seconds: f64,
    /// Reads of the table.
    pub table: TableReads,
    /// Days of the kinds of events that the answer is made of.
    pub days: DayReads,
    /// Segments of these days.
    pub segments: SegmentReads,
    /// Columns unpacked of each kind; all if null.
    pub columns: BTreeMap<&'static str, Option<Vec<String>>>,
    /// Time of each step, in seconds. Segments are processed side by side, so the sum may exceed the whole.
    pub steps: BTreeMap<&'static str, f64>,
}

/// Reads of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableReads {
    /// Number of queries of pages of items.
    pub queries: u64,
    /// Number of gets of single items.
    pub gets: u64,
    /// Number of items received.
    pub items: u64,
    /// Bytes of these items.
    pub bytes: u64,
    /// Read units reported by DynamoDB; `None` for a file.
    pub read_units: Option<f64>,
}

/// Numbers of days, each counted for each kind of events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DayReads {
    /// Days that were read.
    pub read: u64,
    /// Days without a row that meets the conditions.
    pub skipped: u64,
    /// Days whose events have expired.
    pub expired: u64,
}

/// Numbers of segments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentReads {
    /// All segments of the days that were read.
    pub found: u64,
    /// Segments that were unpacked.
    pub unpacked: u64,
    /// Events in the unpacked segments, before conditions on single events.
    pub rows: u64,
    /// Packed bytes of the unpacked segments.
    pub bytes: u64,
    /// Segments that were not unpacked, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
}

impl Explanation {
    pub(super) fn of(counts: &Counts, took: Duration) -> Self {
        let pages = counts.units_of_pages;
        let days = |fate| counts.days.values().filter(|known| **known == fate).count() as u64;
        let fates = || counts.segments.values().flatten().filter(|fate| **fate != Fate::Unknown);
        let segments = |fate| fates().filter(|known| **known == fate).count() as u64;
        let mut skipped: BTreeMap<&'static str, u64> =
            Why::ALL.map(|(why, name)| (name, segments(Fate::Skipped(why)))).into();
        skipped.insert(ENOUGH, segments(Fate::Found));
        let columns = counts.columns.iter();
        let columns = columns
            .map(|(kind, names)| (kind.name(), names.as_ref().map(|names| names.iter().cloned().collect())));
        Self {
            rows: counts.rows,
            seconds: took.as_secs_f64(),
            table: TableReads {
                queries: counts.queries,
                gets: counts.gets,
                items: counts.items,
                bytes: counts.bytes,
                read_units: pages.map(|pages| pages + counts.units_of_gets as f64),
            },
            days: DayReads {
                read: days(DayFate::Read),
                skipped: days(DayFate::Skipped),
                expired: days(DayFate::Expired),
            },
            segments: SegmentReads {
                found: fates().count() as u64,
                unpacked: segments(Fate::Unpacked),
                rows: counts.unpacked_rows,
                bytes: counts.unpacked_bytes,
                skipped,
            },
            columns: columns.collect(),
            steps: Step::ALL.map(|(step, name)| (name, counts.steps[step as usize].as_secs_f64())).into(),
        }
    }
}

/// Lines for people, each beginning with its subject.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: String| writeln!(f, "{:<10}  {text}", name);
        let table = &self.table;
        line("rows", format!("{} in {}", self.rows, millis(self.seconds)))?;
        line(
            "table",
            format!(
                "{} queries and {} gets, {} items of {} bytes",
                table.queries, table.gets, table.items, table.bytes
            ),
        )?;
        if let Some(units) = table.read_units {
            line("read units", units.to_string())?;
        }
        let DayReads { read, skipped, expired } = &self.days;
        line("days", format!("{read} read, {skipped} skipped by conditions, {expired} expired"))?;
        let SegmentReads { found, unpacked, rows, bytes, skipped } = &self.segments;
        line("segments", format!("{unpacked} of {found} unpacked: {rows} events in {bytes} packed bytes"))?;
        for (name, count) in skipped.iter().filter(|(_, count)| **count > 0) {
            let says = REASONS.into_iter().find(|(known, _)| known == name).map_or("", |(_, says)| says);
            line("skipped", format!("{count}: {says}"))?;
        }
        for (kind, columns) in &self.columns {
            let all = || "all".to_owned();
            line(
                "columns",
                format!("{kind}: {}", columns.as_ref().map_or_else(all, |names| names.join(", "))),
            )?;
        }
        for (_, name) in Step::ALL {
            line(name, millis(self.steps[name]))?;
        }
        Ok(())
    }
}

fn millis(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}
