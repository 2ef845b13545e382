//! Which segments are read, and what of them.

use std::{collections::BTreeSet, sync::Arc};

use event::{Day, Kind, Result};
use log::segment_item::Segment;

use crate::read::Unpacked;

/// Which columns to read of which events.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) kind: Kind,
    /// The columns to unpack; all when `None`.
    pub(crate) columns: Option<Vec<String>>,
    /// Only segments that hold events of this release.
    pub(crate) release: Option<String>,
    /// What is known of the rows that are wanted, so that others need not be read.
    pub(crate) bounds: RowBounds,
}

/// What holds for every row that is wanted. Rows for which it does not hold may be read all the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowBounds {
    /// They are of one of these days.
    pub(crate) days: Option<Arc<BTreeSet<Day>>>,
    /// They are of one of these releases.
    pub(crate) releases: Option<Arc<BTreeSet<String>>>,
    /// Their own times are between these instants.
    pub(crate) times: Times,
}

/// From which instant on, and up to which one, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl Times {
    /// Whether some time between these two may be wanted.
    pub(crate) fn may_be_in(self, (first, last): (i64, i64)) -> bool {
        self.since.is_none_or(|since| last >= since) && self.until.is_none_or(|until| first <= until)
    }

    /// What both want.
    pub(crate) fn and(self, other: Self) -> Self {
        let until = [self.until, other.until].into_iter().flatten().min();
        Self { since: self.since.max(other.since), until }
    }

    /// What either wants.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            since: self.since.zip(other.since).map(|(one, other)| one.min(other)),
            until: self.until.zip(other.until).map(|(one, other)| one.max(other)),
        }
    }
}

impl RowBounds {
    /// Whether a day may have such a row.
    pub(crate) fn may_be_of(&self, day: Day) -> bool {
        self.days.as_ref().is_none_or(|days| days.contains(&day))
    }
}

/// Why a segment is not unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// It has no events.
    Empty,
    /// None of its events is of a release that is wanted.
    Release,
    /// None of its events has a time that is wanted.
    Time,
    /// The answer lacks it: an operator skipped it, or it cannot be read.
    LeftOut,
}

impl Why {
    /// All of them, by name.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Empty, "empty"),
        (Self::Release, "release"),
        (Self::Time, "time"),
        (Self::LeftOut, "left_out"),
    ];

    /// What it says of segments.
    pub(crate) const fn says(self) -> &'static str {
        match self {
            Self::Empty => "they have no events",
            Self::Release => "none of their events is of a release that is wanted",
            Self::Time => "none of their events has a time that is wanted",
            Self::LeftOut => "the answer lacks them, as its warnings say",
        }
    }
}

/// What is known of a segment without its events.
pub(crate) struct Facts<R> {
    pub(crate) rows: u64,
    /// The first and the last time of its events; `None`, when they are not known.
    pub(crate) times: Option<(i64, i64)>,
    /// Whether it has events of a release.
    pub(crate) has: R,
}

impl Filter {
    /// Why a segment need not be read; `None`, when it may hold a row that is wanted.
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

    /// The same of a segment that has been read.
    pub(crate) fn why_not_of(&self, segment: &Segment) -> Option<Why> {
        self.why_not(Facts {
            rows: segment.rows as u64,
            times: Some(segment.times),
            has: |release: &String| segment.releases.contains_key(release),
        })
    }

    /// Unpacks what is wanted of a segment.
    pub(crate) fn unpack(&self, segment: &Segment) -> Result<Unpacked> {
        let is_filtered = self.release.is_some();
        let columns = segment.unpack(|name| match &self.columns {
            Some(wanted) => wanted.iter().any(|column| column == name) || (is_filtered && name == "release"),
            None => true,
        })?;
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
        let appended_at = segment.appended_at;
        Ok(Unpacked { day: segment.log.day, place: segment.place(), appended_at, columns })
    }
}
