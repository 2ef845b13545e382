//! Lanes: the parallel logs of one day and kind, and the total order of all events in them.
//!
//! An event goes to the lane of its key ([`lane_of`]), so all events of a key of a day and kind are in one dense log,
//! ordered by sequence numbers, not by clocks. The number of lanes of a day and kind is recorded in the first segment
//! of lane 0 and never changes.
//!
//! Projections deal what they keep by name as well: a name of a release, metric, tag or feature goes to one of
//! [`BREAKDOWN_BUCKETS`] items ([`Breakdown::of`]).

use std::{collections::BTreeMap, fmt};

use crate::{Column, Columns, Kind};

/// Maximum number of lanes.
pub const MAX_LANES: u8 = 16;

/// Position of a segment among those of its day and kind. A greater position is later; events of one segment are in the order of
/// its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The lane.
    pub lane: u8,
    /// Sequence number in the lane.
    pub seq: u64,
}

impl LogPosition {
    /// The place of a segment.
    pub fn of(lane: u8, seq: u64) -> Self {
        Self { lane, seq }
    }
}

/// Returns the lane of a key among `lanes`: the CRC-32 of its UTF-8 bytes modulo their number.
pub fn lane_of(key: &str, lanes: u8) -> u8 {
    (crc32fast::hash(key.as_bytes()) % u32::from(lanes.max(1))) as u8
}

/// Returns the field that determines the lane of events of a kind. For metrics it is the name, so that all releases
/// of a metric are in one log; `None` if all events stay in lane 0.
pub fn key_field(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Predictions | Kind::Outcomes | Kind::Unmatched => Some("key"),
        Kind::Metrics => Some("name"),
        Kind::Releases => None,
    }
}

/// Returns the number of lanes of a day of a kind, if `wanted` are configured for its workspace.
pub fn lanes_of_kind(kind: Kind, wanted: u8) -> u8 {
    if key_field(kind).is_some() { wanted.clamp(1, MAX_LANES) } else { 1 }
}

/// Returns the rows of each of `lanes` lanes, in order; lanes without rows are left out.
pub fn deal(kind: Kind, columns: &Columns, lanes: u8) -> BTreeMap<u8, Vec<usize>> {
    let mut dealt = BTreeMap::<u8, Vec<usize>>::new();
    let column = key_field(kind).filter(|_| lanes > 1).and_then(|field| columns.column(field));
    let lane = |column: &Column, row| column.text(row).map_or(0, |key| lane_of(key, lanes));
    for row in 0..columns.rows {
        dealt.entry(column.map_or(0, |column| lane(column, row))).or_default().push(row);
    }
    dealt
}

/// Maximum number of items of a breakdown of a day. Empty ones do not exist.
pub const BREAKDOWN_BUCKETS: u32 = 256;

/// Dimension of a breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// Releases.
    Release,
    /// Metrics.
    Metric,
    /// Tags.
    Tag,
    /// Features. These items are folded separately from the rest, and less often.
    Feature,
}

impl By {
    /// All dimensions.
    pub const ALL: [By; 4] = [By::Release, By::Metric, By::Tag, By::Feature];

    /// Returns its name in keys.
    pub fn name(self) -> &'static str {
        match self {
            By::Release => "release",
            By::Metric => "metric",
            By::Tag => "tag",
            By::Feature => "feature",
        }
    }
}

/// One item of a breakdown of a day: all data of the names in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Breakdown {
    /// Dimension.
    pub by: By,
    /// Number of the item.
    pub bucket: u8,
}

impl Breakdown {
    /// Returns the item that holds `name`: the bucket is the CRC-32 of the name modulo [`BREAKDOWN_BUCKETS`].
    pub fn of(by: By, name: &str) -> Self {
        Self { by, bucket: (crc32fast::hash(name.as_bytes()) % BREAKDOWN_BUCKETS) as u8 }
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:02x}", self.by.name(), self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Values;

    /// Lanes of events are stored: they must not change.
    #[test]
    fn lane_of_key_stays_stable() {
        let keys = ["", "a", "UA1545-EWR-01", "äöü", "loan-0000001", "loan-0000002"];
        let lanes = |count| keys.map(|key| lane_of(key, count));
        assert_eq!(lanes(0), [0; 6]);
        assert_eq!(lanes(1), [0; 6]);
        assert_eq!(lanes(2), [0, 1, 1, 1, 0, 0]);
        assert_eq!(lanes(4), [0, 3, 3, 3, 2, 0]);
        assert_eq!(lanes(16), [0, 3, 3, 15, 6, 12]);
    }

    #[test]
    fn keys_are_spread_evenly() {
        for count in [2, 3, 4, 16] {
            let mut rows = vec![0; usize::from(count)];
            (0..16_000).for_each(|n| rows[usize::from(lane_of(&format!("loan-{n:07}"), count))] += 1);
            let even = 16_000 / usize::from(count);
            assert!(rows.iter().all(|rows| (even * 3 / 4..even * 5 / 4).contains(rows)), "{rows:?}");
        }
    }

    #[test]
    fn lanes_keep_event_order_and_releases_together() {
        let names = Values::Text(["a", "b", "a", "c", "b", "a"].into_iter().collect());
        let columns = |field: &str| Columns { rows: 6, columns: vec![Column::new(field, names.clone())] };
        for (kind, field) in [(Kind::Predictions, "key"), (Kind::Outcomes, "key"), (Kind::Metrics, "name")] {
            let dealt = deal(kind, &columns(field), 16);
            let rows: usize = dealt.values().map(Vec::len).sum();
            assert_eq!(rows, 6);
            assert_eq!(dealt[&lane_of("a", 16)], [0, 2, 5]);
            assert_eq!(deal(kind, &columns(field), 1), BTreeMap::from([(0, vec![0, 1, 2, 3, 4, 5])]));
        }
        assert_eq!(deal(Kind::Releases, &columns("release"), 16).len(), 1);
        assert_eq!((lanes_of_kind(Kind::Releases, 4), lanes_of_kind(Kind::Metrics, 4)), (1, 4));
    }
}
