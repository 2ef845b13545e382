//! Selection of the segments that are read, and of their columns and rows.

use std::{collections::BTreeSet, sync::Arc};

use event::{
    Column, Columns, Day, Kind, Result, Values,
    fields::FieldType,
    lane::{key_field, lane_of},
};
use log::{
    key::LogId,
    segment_item::{Segment, lanes_of_day},
    walk::Admitted,
};

use crate::read::Unpacked;

/// The columns to read and the events to read them of.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) kind: Kind,
    /// The columns to unpack; all if `None`.
    pub(crate) columns: Option<Vec<String>>,
    /// Only segments that hold events of this release.
    pub(crate) release: Option<String>,
    /// Bounds of the requested rows, so that others need not be read.
    pub(crate) bounds: RowBounds,
}

/// Conditions that every requested row meets. Rows that do not meet them may be read, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowBounds {
    /// Days of the rows.
    pub(crate) days: Option<Arc<BTreeSet<Day>>>,
    /// Releases of the rows.
    pub(crate) releases: Option<Arc<BTreeSet<String>>>,
    /// Values that determine the lanes of the rows: keys, or names of metrics.
    pub(crate) keys: Option<Arc<BTreeSet<String>>>,
    /// Bounds of the rows' own times.
    pub(crate) times: Times,
}

/// Bounds of instants in microseconds, both inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl Times {
    /// Returns true if some time from the first to the last may be within the bounds.
    pub(crate) fn may_be_in(self, (first, last): (i64, i64)) -> bool {
        self.since.is_none_or(|since| last >= since) && self.until.is_none_or(|until| first <= until)
    }

    /// Returns the intersection of both.
    pub(crate) fn and(self, other: Self) -> Self {
        let until = [self.until, other.until].into_iter().flatten().min();
        Self { since: self.since.max(other.since), until }
    }

    /// Returns the smallest bounds that include both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            since: self.since.zip(other.since).map(|(one, other)| one.min(other)),
            until: self.until.zip(other.until).map(|(one, other)| one.max(other)),
        }
    }
}

impl RowBounds {
    /// Returns true if a day may have such a row.
    pub(crate) fn may_be_of(&self, day: Day) -> bool {
        self.days.as_ref().is_none_or(|days| days.contains(&day))
    }
}

/// Reason why a segment is not unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// It has no events.
    Empty,
    /// None of its events is of a requested release.
    Release,
    /// None of its events has a time within the bounds.
    Time,
    /// It is in a lane of other keys than the requested ones.
    Lane,
    /// None of its events has a requested key.
    Key,
    /// The filter of its day excludes all requested keys.
    Filter,
    /// The answer lacks it: an operator skipped it, or it cannot be read.
    LeftOut,
}

impl Why {
    /// All of them, with their names.
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::Empty, "empty"),
        (Self::Release, "release"),
        (Self::Time, "time"),
        (Self::Lane, "lane"),
        (Self::Key, "key"),
        (Self::Filter, "filter"),
        (Self::LeftOut, "left_out"),
    ];

    /// Returns its text in the plural, about segments.
    pub(crate) const fn says(self) -> &'static str {
        match self {
            Self::Empty => "they have no events",
            Self::Release => "none of their events is of a release that is wanted",
            Self::Time => "none of their events has a time that is wanted",
            Self::Lane => "they are in lanes of other keys",
            Self::Key => "none of their events has a key that is wanted",
            Self::Filter => "the filter of their day says that they have no key that is wanted",
            Self::LeftOut => "the answer lacks them, as its warnings say",
        }
    }
}

/// Facts about a segment without its events.
pub(crate) struct Facts<R> {
    pub(crate) rows: u64,
    /// The first and the last time of its events; `None`, if unknown.
    pub(crate) times: Option<(i64, i64)>,
    /// Returns true if it has events of a release.
    pub(crate) has: R,
}

impl Filter {
    /// Returns the reason why a segment need not be read; `None`, if it may hold a requested row.
    pub(crate) fn why_not(&self, facts: Facts<impl Fn(&String) -> bool>) -> Option<Why> {
        let Facts { rows, times, has } = facts;
        let bounds = &self.bounds;
        if rows == 0 {
            return Some(Why::Empty);
        }
        let is_of_release = self.release.as_ref().is_none_or(&has)
            && bounds.releases.as_ref().is_none_or(|releases| releases.iter().any(&has));
        if !is_of_release {
            return Some(Why::Release);
        }
        times.filter(|times| !bounds.times.may_be_in(*times)).map(|_| Why::Time)
    }

    /// Returns the reason why a segment that has been read need not be unpacked; `None`, if it may hold a requested row.
    pub(crate) fn why_not_of(&self, segment: &Segment) -> Option<Why> {
        self.why_not(Facts {
            rows: segment.rows as u64,
            times: Some(segment.times),
            has: |release: &String| segment.releases.contains_key(release),
        })
    }

    /// Unpacks the requested columns and rows of a segment. If keys are requested, their column is unpacked first, and the rest
    /// only if some event has one of the keys; else the reason is returned.
    pub(crate) fn unpack(&self, segment: &Segment, lanes: &Lanes) -> Result<(Unpacked, Option<Why>)> {
        let (day, place, appended_at) = (segment.log.day, segment.place(), segment.known());
        let without = |why| {
            (Unpacked { day, place, appended_at, columns: self.no_rows(segment.column_names()) }, Some(why))
        };
        if !lanes.may_hold(&segment.log) {
            return Ok(without(Why::Lane));
        }
        let of_keys = self.rows_of_keys(segment)?;
        if of_keys.as_ref().is_some_and(Vec::is_empty) {
            return Ok(without(Why::Key));
        }
        let columns =
            segment.unpack(|name| self.takes(name) || (self.release.is_some() && name == "release"))?;
        let columns = match of_keys {
            Some(rows) => columns.take(&rows),
            None => columns,
        };
        let columns = match &self.release {
            Some(release)
                if segment.releases.len() > 1
                    || segment.releases.get(release) != Some(&(segment.rows as u64)) =>
            {
                let column = columns.column("release");
                let is_of = |row: &usize| column.and_then(|column| column.text(*row)) == Some(release);
                columns.take(&(0..columns.rows).filter(is_of).collect::<Vec<_>>())
            }
            _ => columns,
        };
        Ok((Unpacked { day, place, appended_at, columns }, None))
    }

    fn takes(&self, name: &str) -> bool {
        self.columns.as_ref().is_none_or(|wanted| wanted.iter().any(|column| column == name))
    }

    /// Returns the rows of a segment that have a requested key; `None`, if any key will do.
    fn rows_of_keys(&self, segment: &Segment) -> Result<Option<Vec<usize>>> {
        let Some((keys, field)) = self.bounds.keys.as_ref().zip(key_field(self.kind)) else {
            return Ok(None);
        };
        let column = segment.unpack(|name| name == field)?;
        let text = |row| column.column(field).and_then(|column| column.text(row));
        let is_wanted = |row: &usize| text(*row).is_some_and(|key| keys.contains(key));
        Ok(Some((0..column.rows).filter(is_wanted).collect()))
    }

    /// Returns the columns of a segment, without its rows: they show which members of families it has.
    pub(crate) fn no_rows(&self, names: impl Iterator<Item = String>) -> Columns {
        let names = names.filter(|name| self.takes(name));
        let columns = names.map(|name| {
            let values = match self.kind.column_type(&name).unwrap_or(FieldType::Text) {
                FieldType::Float => Values::Float(Vec::new()),
                FieldType::Time => Values::Time(Vec::new()),
                FieldType::Text => Values::Text(std::iter::empty::<&str>().collect()),
            };
            Column::new(name, values)
        });
        Columns { rows: 0, columns: columns.collect() }
    }
}

/// The lanes of a day and kind that may hold a requested row. The first segment of lane 0 has their number; until it is read,
/// each of them may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes(Option<BTreeSet<u8>>);

impl Lanes {
    /// Takes the number of lanes from the first segment of lane 0, if it is in the page.
    pub(crate) fn learn(&mut self, filter: &Filter, page: &[Admitted]) {
        let first = page.iter().find(|segment| segment.log.lane == 0 && segment.seq == 1);
        let lanes = first.and_then(|first| lanes_of_day(&first.item));
        if let Some((keys, lanes)) = filter.bounds.keys.as_ref().zip(lanes) {
            self.0 = Some(keys.iter().map(|key| lane_of(key, lanes)).collect());
        }
    }

    /// Returns true if a log may hold such a row.
    pub(crate) fn may_hold(&self, log: &LogId) -> bool {
        self.0.as_ref().is_none_or(|lanes| lanes.contains(&log.lane))
    }
}

#[cfg(test)]
mod tests {
    use event::{Clock, Id};

    use super::*;

    fn log(lane: u8) -> LogId {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        LogId { workspace, day: "2013-06-01".parse().unwrap(), kind: Kind::Predictions, lane }
    }

    fn first(lane: u8, lanes: Option<u8>) -> Admitted {
        let now = Clock::system().now();
        let segment = Segment::pack(log(lane), 1, now, Vec::new(), &Columns::default()).unwrap();
        let item = Segment { lanes, ..segment }.to_item();
        Admitted { log: log(lane), seq: 1, item }
    }

    /// The lanes of four that may hold something after a page of these segments.
    fn found(keys: Option<&[&str]>, page: &[Admitted]) -> Vec<u8> {
        let keys = keys.map(|keys| Arc::new(keys.iter().map(|key| (*key).to_owned()).collect()));
        let bounds = RowBounds { keys, ..RowBounds::default() };
        let filter = Filter { kind: Kind::Predictions, columns: None, release: None, bounds };
        let mut lanes = Lanes::default();
        lanes.learn(&filter, page);
        lanes.learn(&filter, &[]);
        (0..4).filter(|lane| lanes.may_hold(&log(*lane))).collect()
    }

    #[test]
    fn only_the_lanes_of_keys_hold_them() {
        let says_four = [first(0, Some(4)), first(1, None)];
        // By `event::lane`: of four lanes `loan-0000001` is in lane 2, and the empty key in lane 0.
        for (keys, lanes) in [(&["loan-0000001"][..], &[2][..]), (&["loan-0000001", ""], &[0, 2]), (&[], &[])]
        {
            assert_eq!(found(Some(keys), &says_four), lanes, "{keys:?}");
        }
        assert_eq!(found(None, &says_four), [0, 1, 2, 3]);
    }

    #[test]
    fn unknown_lane_count_means_searching_every_lane() {
        for page in [vec![], vec![first(1, Some(4))], vec![first(0, None)]] {
            assert_eq!(found(Some(&["loan-0000001"]), &page), [0, 1, 2, 3]);
        }
    }
}
