//! Keys of stages: evaluations and rollups of days at some ages of the days. No version of the projections is part of them, so no
//! rebuild writes another one.

use event::{Day, Id, lane::By};
use table::{Key, KeyRange};

use super::{Breakdown, END};

/// Part of a stage that does not fit one item: the digest of all its parts, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StagePart {
    /// Digest of all its parts.
    pub digest: u64,
    /// Number of the part, from 0.
    pub part: u32,
}

fn stage_partition(workspace: &Id) -> String {
    format!("w#{workspace}/stage")
}

/// Stage of a day at an age of `hours` hours.
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

/// Parses the day, the age in hours and the part of a stage. `None`, when it is another key.
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

fn rolled_partition(workspace: &Id) -> String {
    format!("w#{workspace}/rolled")
}

/// Rollup of a day at an age of `hours` hours.
pub fn rolled(workspace: &Id, day: Day, hours: u32) -> Key {
    Key::new(rolled_partition(workspace), format!("day#{day}/{hours:05}"))
}

/// Part of a breakdown of such rollups of a day, by the digest of its content.
pub fn rolled_part(workspace: &Id, day: Day, breakdown: Breakdown, digest: u64) -> Key {
    Key::new(rolled_partition(workspace), format!("day#{day}/part/{breakdown}/{digest:016x}"))
}

/// All parts of such rollups of a day.
pub fn rolled_parts(workspace: &Id, day: Day) -> KeyRange {
    KeyRange::prefix(rolled_partition(workspace), &format!("day#{day}/part/"))
}

/// Such rollups of a day, without their parts.
pub fn rolled_heads(workspace: &Id, day: Day) -> KeyRange {
    KeyRange {
        pk: rolled_partition(workspace),
        from: format!("day#{day}/0"),
        to: format!("day#{day}/9{END}"),
    }
}

/// Such rollups of the days from `from` to `to`, with their parts.
pub fn rolled_between(workspace: &Id, from: Day, to: Day) -> KeyRange {
    KeyRange { pk: rolled_partition(workspace), from: format!("day#{from}/"), to: format!("day#{to}/{END}") }
}

/// Key of rollups at ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rolled {
    /// Rollup, by its age in hours.
    Head(u32),
    /// Part of a breakdown, with the digest of its content.
    Part(Breakdown, u64),
}

/// Parses the day of a rollup at an age or of a part of one, and the kind of key. `None`, when it is another key.
pub fn parse_rolled(key: &Key) -> Option<(Day, Rolled)> {
    key.pk.strip_prefix("w#")?.strip_suffix("/rolled")?;
    let mut words = key.sk.strip_prefix("day#")?.split('/');
    let day = words.next()?.parse().ok()?;
    let rolled = match (words.next()?, words.next(), words.next(), words.next()) {
        ("part", Some(by), Some(bucket), Some(digest)) if bucket.len() == 2 && digest.len() == 16 => {
            let by = By::ALL.into_iter().find(|known| known.name() == by)?;
            let bucket = u8::from_str_radix(bucket, 16).ok()?;
            Rolled::Part(Breakdown { by, bucket }, u64::from_str_radix(digest, 16).ok()?)
        }
        (hours, None, None, None) if hours.len() == 5 => Rolled::Head(hours.parse().ok()?),
        _ => return None,
    };
    words.next().is_none().then_some((day, rolled))
}

/// Instant up to which the stages of a workspace are made.
pub fn staged_until(workspace: &Id) -> Key {
    Key::new(stage_partition(workspace), "until")
}

/// Progress of the compaction of a workspace's logs.
pub fn compacted(workspace: &Id) -> Key {
    Key::new(stage_partition(workspace), "compacted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_keys_are_parsed_and_sorted_by_age() {
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
    #[test]
    fn rolled_keys_are_parsed_and_precede_their_parts() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let tag = Breakdown { by: By::Tag, bucket: 0x0a };
        let keys = [
            rolled(&w, day, 1),
            rolled(&w, day, 720),
            rolled_part(&w, day, Breakdown { by: By::Feature, bucket: 0xff }, 1),
            rolled_part(&w, day, tag, 0xab),
            rolled(&w, day.next().unwrap(), 1),
        ];
        assert!(keys.is_sorted_by(|a, b| a.sk < b.sk));
        assert_eq!(parse_rolled(&keys[1]), Some((day, Rolled::Head(720))));
        assert_eq!(parse_rolled(&keys[3]), Some((day, Rolled::Part(tag, 0xab))));
        let within = |range: &KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        let held = |range: &KeyRange| keys.each_ref().map(|key| within(range, key));
        assert_eq!(held(&rolled_heads(&w, day)), [true, true, false, false, false]);
        assert_eq!(held(&rolled_parts(&w, day)), [false, false, true, true, false]);
        assert_eq!(held(&rolled_between(&w, day, day)), [true, true, true, true, false]);
        for sk in [
            "day#2013-06-01",
            "day#2013-06-01/24",
            "day#2013-06-01/00024/x",
            "day#2013-06-01/part/tag/0a",
            "day#2013-06-01/part/tag/0a/ab",
            "day#2013-06-01/part/day/0a/00000000000000ab",
            "day#2013-06-01/part/tag/0a/00000000000000ab/x",
        ] {
            assert_eq!(parse_rolled(&Key::new(rolled_partition(&w), sk)), None, "{sk}");
        }
        assert_eq!(parse_rolled(&stage(&w, day, 1)), None);
    }
}
