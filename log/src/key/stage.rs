//! The keys of stages: evaluations of days as they stood when the days had some ages. No version of the projections is
//! part of them, so no rebuild writes another one.

use event::{Day, Id};
use table::{Key, KeyRange};

use super::END;

/// A part of a stage that does not fit one item: the digest of all its parts, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StagePart {
    /// The digest of all its parts.
    pub digest: u64,
    /// Its number, from 0.
    pub part: u32,
}

fn stage_partition(workspace: &Id) -> String {
    format!("w#{workspace}/stage")
}

/// The stage of a day when it was so many hours old.
pub fn stage(workspace: &Id, day: Day, hours: u32) -> Key {
    Key::new(stage_partition(workspace), format!("day#{day}/{hours:05}"))
}

/// A part of a stage.
pub fn stage_part(workspace: &Id, day: Day, hours: u32, StagePart { digest, part }: StagePart) -> Key {
    Key::new(stage_partition(workspace), format!("day#{day}/{hours:05}/{digest:016x}/{part:05}"))
}

/// All parts of a stage, of any digest.
pub fn stage_parts(workspace: &Id, day: Day, hours: u32) -> KeyRange {
    KeyRange::prefix(stage_partition(workspace), &format!("day#{day}/{hours:05}/"))
}

/// The stages of the days from `from` to `to`, with their parts.
pub fn stages_between(workspace: &Id, from: Day, to: Day) -> KeyRange {
    KeyRange { pk: stage_partition(workspace), from: format!("day#{from}/"), to: format!("day#{to}/{END}") }
}

/// The day and the age in hours of a stage, and which part of it the key is of. `None`, when it is another key.
pub fn parse_stage(key: &Key) -> Option<(Day, u32, Option<StagePart>)> {
    key.pk.strip_prefix("w#")?.strip_suffix("/stage")?;
    let mut words = key.sk.strip_prefix("day#")?.split('/');
    let day = words.next()?.parse().ok()?;
    let hours = words.next().filter(|word| word.len() == 5)?.parse().ok()?;
    let part = match (words.next(), words.next()) {
        (None, None) => None,
        (Some(digest), Some(part)) => {
            (digest.len() == 16 && part.len() == 5).then_some(())?;
            Some(StagePart { digest: u64::from_str_radix(digest, 16).ok()?, part: part.parse().ok()? })
        }
        _ => return None,
    };
    words.next().is_none().then_some((day, hours, part))
}

/// Up to which instant the stages of a workspace are made.
pub fn staged_until(workspace: &Id) -> Key {
    Key::new(stage_partition(workspace), "until")
}

/// Up to which day the logs of a workspace were looked at for what can be merged.
pub fn compacted(workspace: &Id) -> Key {
    Key::new(stage_partition(workspace), "compacted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_parsed_and_stand_in_the_order_of_their_ages() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let part = StagePart { digest: 0xab, part: 3 };
        let keys = [
            stage(&w, day, 1),
            stage(&w, day, 24),
            stage_part(&w, day, 24, part),
            stage(&w, day, 720),
            stage(&w, day.next().unwrap(), 1),
        ];
        let parsed = keys.each_ref().map(|key| parse_stage(key).unwrap());
        assert_eq!(parsed[1], (day, 24, None));
        assert_eq!(parsed[2], (day, 24, Some(part)));
        assert!(keys.is_sorted_by(|a, b| a.sk < b.sk));
        let (range, parts) = (stages_between(&w, day, day), stage_parts(&w, day, 24));
        let within = |range: &KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        assert_eq!(keys.each_ref().map(|key| within(&range, key)), [true, true, true, true, false]);
        assert_eq!(keys.each_ref().map(|key| within(&parts, key)), [false, false, true, false, false]);
        assert!(!within(&range, &staged_until(&w)));
        for sk in [
            "until",
            "day#2013-06-01",
            "day#2013-06-31/00024",
            "day#2013-06-01/24",
            "day#2013-06-01/00024/ab/00003",
            "day#2013-06-01/00024/00000000000000ab",
            "day#2013-06-01/00024/00000000000000ab/00003/x",
        ] {
            assert_eq!(parse_stage(&Key::new(stage_partition(&w), sk)), None, "{sk}");
        }
    }
}
