//! The partitions of lanes ([`crate::store`]).

use event::Id;
use table::{Key, KeyRange};

use super::{LogId, day_partition, is_of_logs};

/// The partition of a lane but lane 0, which stands in that of the workspace.
pub fn lane_partition(workspace: &Id, lane: u8) -> String {
    format!("{}/{lane:02}", day_partition(workspace))
}

/// The partition of which one of [`lane_partition`] is a part.
pub fn parse_lane_partition(pk: &str) -> Option<&str> {
    let (logs, lane) = pk.rsplit_once('/')?;
    let is_lane = lane.len() == 2 && lane.bytes().all(|byte| byte.is_ascii_digit());
    (is_lane && is_of_logs(logs)).then_some(logs)
}

/// The log within which a sort key of a partition of segments lies, if it does.
pub fn log_at(pk: &str, sk: &str) -> Option<LogId> {
    // `day#2013-06-01/p/03/`
    const NAME: usize = 20;
    super::parse_segment(&Key::new(pk, format!("{}{:010}", sk.get(..NAME)?, 1))).map(|(log, _)| log)
}

/// The log that both ends of a range lie in, if it is one.
pub fn log_of_range(range: &KeyRange) -> Option<LogId> {
    log_at(&range.pk, &range.from).filter(|log| log_at(&range.pk, &range.to).as_ref() == Some(log))
}

#[cfg(test)]
mod tests {
    use event::Kind;

    use super::{super::*, *};

    #[test]
    fn only_lane_partitions_are_parsed_as_such() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let log = LogId {
            workspace: workspace.clone(),
            day: "2013-06-01".parse().unwrap(),
            kind: Kind::Outcomes,
            lane: 3,
        };
        let pk = lane_partition(&workspace, 3);
        assert_eq!(pk, "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/day/03");
        assert_eq!(parse_lane_partition(&pk), Some(segment(&log, 1).pk.as_str()));
        for other in [
            segment(&log, 1).pk,
            batch(&workspace, Kind::Outcomes, "k").pk,
            format!("{pk}/03"),
            "a/03".into(),
        ] {
            assert_eq!(parse_lane_partition(&other), None, "{other}");
        }
        assert_eq!(log_of_range(&segments_between(&log, 3, 9)), Some(log.clone()));
        assert_eq!(log_of_range(&segments_from(&log, 3)), Some(log.clone()));
        for range in
            [segments_after(&log), segments_of_kind(&workspace, log.day, log.kind), segments(&workspace)]
        {
            assert_eq!(log_of_range(&range), None, "{range:?}");
        }
    }
}
