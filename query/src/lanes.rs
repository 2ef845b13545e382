//! The lanes of a day in which events of the requested keys may be.

use std::collections::BTreeSet;

use event::lane::lane_of;
use log::{key::LogId, segment_item::lanes_of_day, walk::Admitted};

use crate::filter::Filter;

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
    use std::sync::Arc;

    use event::{Clock, Columns, Id, Kind};
    use log::segment_item::Segment;

    use super::*;
    use crate::filter::RowBounds;

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
        // As `event::lane` says: of four lanes `loan-0000001` is in lane 2, and the empty key in lane 0.
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
