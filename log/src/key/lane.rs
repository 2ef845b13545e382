//! The partitions of lanes that have their own, and the items that say which do ([`crate::lane_partitions`]).

use event::Id;
use table::{Key, KeyRange};

use super::{LogId, day_partition, is_of_logs, layout};

const OWN: &str = "lanes#";

/// Which lanes of a workspace have partitions of their own, and from which days on.
pub fn own_partitions(workspace: &Id) -> Key {
    Key::new(layout().pk, format!("{OWN}{workspace}"))
}

/// The same of all workspaces.
pub fn all_own_partitions() -> KeyRange {
    KeyRange::prefix(layout().pk, OWN)
}

/// The workspace of a key that is one of [`own_partitions`].
pub fn parse_own_partitions(key: &Key) -> Option<Id> {
    let id = key.sk.strip_prefix(OWN).filter(|_| key.pk == layout().pk)?;
    Id::parse(id).ok()
}

/// The partition of a lane that has its own.
pub fn lane_partition(workspace: &Id, lane: u8) -> String {
    format!("{}/{lane:02}", day_partition(workspace))
}

/// The partition of which one of [`lane_partition`] is a part.
pub fn parse_lane_partition(pk: &str) -> Option<&str> {
    let (logs, lane) = pk.rsplit_once('/')?;
    let is_lane = lane.len() == 2 && lane.bytes().all(|byte| byte.is_ascii_digit());
    (is_lane && is_of_logs(logs)).then_some(logs)
}

/// The workspace of a partition of segments.
pub fn parse_day_partition(pk: &str) -> Option<Id> {
    Id::parse(pk.strip_suffix("/day")?.strip_prefix("w#")?).ok()
}

/// The log that both ends of a range lie in, if it is one.
pub fn log_of_range(range: &KeyRange) -> Option<LogId> {
    // `day#2013-06-01/p/03/`
    const NAME: usize = 20;
    let [from, to] = [range.from.get(..NAME)?, range.to.get(..NAME)?];
    let key = Key::new(range.pk.clone(), format!("{from}{:010}", 1));
    (from == to).then(|| super::parse_segment(&key)).flatten().map(|(log, _)| log)
}

#[cfg(test)]
mod tests {
    use event::Kind;

    use super::{super::*, *};

    #[test]
    fn a_partition_of_a_lane_is_known_and_nothing_else_is_one() {
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
        assert_eq!(parse_day_partition(&segment(&log, 1).pk), Some(workspace.clone()));
        for other in [
            segment(&log, 1).pk,
            batch(&workspace, Kind::Outcomes, "k").pk,
            format!("{pk}/03"),
            "a/03".into(),
        ] {
            assert_eq!(parse_lane_partition(&other), None, "{other}");
        }
        assert_eq!(parse_own_partitions(&own_partitions(&workspace)), Some(workspace.clone()));
        assert_eq!(parse_own_partitions(&layout()), None);
        assert_eq!(log_of_range(&segments_between(&log, 3, 9)), Some(log.clone()));
        assert_eq!(log_of_range(&segments_from(&log, 3)), Some(log.clone()));
        for range in
            [segments_after(&log), segments_of_kind(&workspace, log.day, log.kind), segments(&workspace)]
        {
            assert_eq!(log_of_range(&range), None, "{range:?}");
        }
    }
}
