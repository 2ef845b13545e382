//! Decoded segments of one day, and rows in them.

use std::fmt;

use event::{Columns, lane::LogPosition};
use serde::{Deserialize, Serialize};

use crate::{FoldError, Result};

/// One decoded segment with its place in the log of its day and kind.
#[derive(Clone, Copy, Debug)]
pub struct LogSegment<'a> {
    /// Place of the segment: a greater place is later.
    pub place: LogPosition,
    /// Events, with at least the columns that are needed.
    pub columns: &'a Columns,
}

/// Place of an event in the total order of all events of its day and kind: a greater place is later.
///
/// Written as lane, segment and row, such as `3/17/0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventPlace {
    /// Place of its segment.
    pub segment: LogPosition,
    /// Row in the segment, from 0.
    pub row: u32,
}

impl EventPlace {
    /// The most bytes of its text, quotes included.
    pub const MAX_TEXT: usize = 3 + 1 + 20 + 1 + 10 + 2;

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('/');
        let mut next = || numbers.next();
        let (lane, seq, row) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
        let place = Self { segment: LogPosition::of(lane, seq), row };
        // A place has one text only.
        (place.to_string() == text).then_some(place)
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogPosition { lane, seq } = self.segment;
        write!(f, "{lane}/{seq}/{}", self.row)
    }
}

impl From<EventPlace> for String {
    fn from(place: EventPlace) -> Self {
        place.to_string()
    }
}

impl TryFrom<String> for EventPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not the place of an event, such as `3/17/0`"))
    }
}

/// A row of a slice of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowRef {
    /// Index in the slice.
    pub segment: u32,
    /// Row of that segment, from 0.
    pub row: u32,
}

/// Returns the elements of `segments` that have rows, in log order ([`LogPosition`]), each with its index in the slice; and
/// their total number of rows.
pub(crate) fn in_log_order<'a>(segments: &[LogSegment<'a>]) -> Result<(Vec<(u32, &'a Columns)>, usize)> {
    let rows = segments.iter().map(|segment| segment.columns.rows).sum();
    // Row numbers take 32 bits, less two values that mean "none".
    if rows >= u32::MAX as usize - 1 || segments.len() >= u32::MAX as usize {
        return Err(FoldError::TooManyRows { rows });
    }
    let mut order: Vec<usize> = (0..segments.len()).filter(|&at| segments[at].columns.rows > 0).collect();
    order.sort_by_key(|&at| segments[at].place);
    Ok((order.into_iter().map(|at| (at as u32, segments[at].columns)).collect(), rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_places_round_trip_in_log_order() {
        let places = [
            EventPlace { segment: LogPosition::of(0, 9), row: 3 },
            EventPlace { segment: LogPosition::of(0, 10), row: 0 },
            EventPlace { segment: LogPosition::of(1, 1), row: 0 },
            EventPlace { segment: LogPosition::of(u8::MAX, u64::MAX), row: u32::MAX },
        ];
        let texts = places.map(|place| serde_json::to_string(&place).unwrap());
        assert_eq!(texts[3].len(), EventPlace::MAX_TEXT);
        assert_eq!(texts[..3], ["\"0/9/3\"", "\"0/10/0\"", "\"1/1/0\""]);
        for (place, text) in places.iter().zip(&texts) {
            assert_eq!(serde_json::from_str::<EventPlace>(text).unwrap(), *place);
        }
        assert!(places.is_sorted());
        for wrong in ["", "1/2", "1/2/3/4", "01/2/3", "256/1/1", "x1/2/3", "-1/2/3", "+1/2/3"] {
            assert_eq!(EventPlace::parse(wrong), None, "{wrong}");
        }
    }
}
