//! Keys of unmatched outcomes: the segments with waiting ones, the position up to which segments were taken up, and the decisions.
//! No version of the projections is part of them, so no rebuild decides anything again.

use std::fmt;

use event::{Day, Id, Kind};
use table::{Key, KeyRange};

use super::{END, LogId};

/// A segment of unmatched outcomes of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnmatchedSegment {
    /// Its log.
    pub log: LogId,
    /// Its number.
    pub seq: u64,
}

impl fmt::Display for UnmatchedSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:02}/{:010}", self.log.day, self.log.lane, self.seq)
    }
}

/// A decision about some outcomes of a segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId {
    /// The segment.
    pub segment: UnmatchedSegment,
    /// Its number among the decisions about the segment, from 1, without holes.
    pub number: u32,
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:05}", self.segment, self.number)
    }
}

fn unmatched_partition(workspace: &Id) -> String {
    format!("w#{workspace}/unmatched")
}

/// Waiting outcomes of a segment.
pub fn waiting(segment: &UnmatchedSegment) -> Key {
    Key::new(unmatched_partition(&segment.log.workspace), format!("waits#{segment}"))
}

/// Keys of all [`waiting`] outcomes of a workspace, by the day on which they came.
pub fn all_waiting(workspace: &Id) -> KeyRange {
    KeyRange::prefix(unmatched_partition(workspace), "waits#")
}

/// A decision.
pub fn decision(id: &DecisionId) -> Key {
    Key::new(unmatched_partition(&id.segment.log.workspace), format!("decided#{id}"))
}

/// The decisions about a segment from one number on.
pub fn decisions_from(segment: &UnmatchedSegment, first: u32) -> KeyRange {
    KeyRange {
        pk: unmatched_partition(&segment.log.workspace),
        from: format!("decided#{segment}/{first:05}"),
        to: format!("decided#{segment}/{END}"),
    }
}

/// Decisions about outcomes that came on a day or later.
pub fn decisions_since(workspace: &Id, day: Day) -> KeyRange {
    KeyRange {
        pk: unmatched_partition(workspace),
        from: format!("decided#{day}/"),
        to: format!("decided#{END}"),
    }
}

/// Segment up to which a log of unmatched outcomes was taken up.
pub fn taken_up(log: &LogId) -> Key {
    Key::new(unmatched_partition(&log.workspace), format!("taken#{}/{:02}", log.day, log.lane))
}

/// Items about the unmatched outcomes that came on a day, in three ranges: the waiting ones first, the decisions last.
pub fn unmatched_of_day(workspace: &Id, day: Day) -> [KeyRange; 3] {
    ["waits", "taken", "decided"]
        .map(|what| KeyRange::prefix(unmatched_partition(workspace), &format!("{what}#{day}/")))
}

/// Parses the segment of a key of [`waiting`].
pub fn parse_waiting(key: &Key) -> Option<UnmatchedSegment> {
    let mut words = key.sk.strip_prefix("waits#")?.split('/');
    let segment = parse_unmatched(key, &mut words)?;
    words.next().is_none().then_some(segment)
}

/// Parses the decision of a key of [`decision`].
pub fn parse_decision(key: &Key) -> Option<DecisionId> {
    let mut words = key.sk.strip_prefix("decided#")?.split('/');
    let segment = parse_unmatched(key, &mut words)?;
    let number = words.next().filter(|word| word.len() == 5)?.parse().ok()?;
    words.next().is_none().then_some(DecisionId { segment, number })
}

fn parse_unmatched<'a>(key: &Key, words: &mut impl Iterator<Item = &'a str>) -> Option<UnmatchedSegment> {
    let workspace = Id::parse(key.pk.strip_prefix("w#")?.strip_suffix("/unmatched")?).ok()?;
    let day = words.next()?.parse().ok()?;
    let lane = words.next().filter(|word| word.len() == 2)?.parse().ok()?;
    let seq = words.next().filter(|word| word.len() == 10)?.parse().ok()?;
    Some(UnmatchedSegment { log: LogId { workspace, day, kind: Kind::Unmatched, lane }, seq })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let log = LogId { workspace: workspace.clone(), day, kind: Kind::Unmatched, lane: 3 };
        let segment = UnmatchedSegment { log: log.clone(), seq: 42 };
        let id = DecisionId { segment: segment.clone(), number: 7 };
        let partition = "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/unmatched";
        assert_eq!(waiting(&segment).to_string(), format!("{partition} / waits#2013-06-01/03/0000000042"));
        assert_eq!(
            decision(&id).to_string(),
            format!("{partition} / decided#2013-06-01/03/0000000042/00007")
        );
        assert_eq!(taken_up(&log).to_string(), format!("{partition} / taken#2013-06-01/03"));
        assert_eq!(parse_waiting(&waiting(&segment)), Some(segment.clone()));
        assert_eq!(parse_decision(&decision(&id)), Some(id.clone()));
        let within = |range: &KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        assert!(within(&decisions_from(&segment, 7), &decision(&id)));
        assert!(!within(&decisions_from(&segment, 8), &decision(&id)));
        let of_day = unmatched_of_day(&workspace, day);
        for (range, key) in of_day.iter().zip([waiting(&segment), taken_up(&log), decision(&id)]) {
            assert!(within(range, &key), "{key}");
        }
        assert!(within(&all_waiting(&workspace), &waiting(&segment)));
        assert!(within(&decisions_since(&workspace, day), &decision(&id)));
        let later = decisions_since(&workspace, day.next().unwrap());
        assert!(!within(&later, &decision(&id)) && !within(&later, &taken_up(&log)));
        for sk in
            ["waits#2013-06-01/3/0000000042", "waits#2013-06-01/03/42", "decided#2013-06-01/03/0000000042"]
        {
            let key = Key::new(partition, sk);
            assert_eq!((parse_waiting(&key), parse_decision(&key)), (None, None), "{sk}");
        }
    }
}
