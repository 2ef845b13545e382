//! Keys of vintages: evaluations and rollups of days at some ages of the days. No version of the projections is part of them, so no
//! rebuild writes another one.

use event::{Day, Id, lane::By};
use table::{Key, KeyRange};

use super::{Breakdown, END};

/// Part of a vintage that does not fit one item: the digest of all its parts, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VintagePart {
    /// Digest of all its parts.
    pub digest: u64,
    /// Number of the part, from 0.
    pub part: u32,
}

fn vintage_partition(workspace: &Id) -> String {
    format!("w#{workspace}/vintage")
}

/// Vintage of a day at an age of `hours` hours.
pub fn vintage(workspace: &Id, day: Day, hours: u32) -> Key {
    Key::new(vintage_partition(workspace), format!("day#{day}/{hours:05}"))
}

/// A part of a vintage.
pub fn vintage_part(workspace: &Id, day: Day, hours: u32, VintagePart { digest, part }: VintagePart) -> Key {
    Key::new(vintage_partition(workspace), format!("day#{day}/{hours:05}/{digest:016x}/{part:05}"))
}

/// All parts of a vintage, of any digest.
pub fn vintage_parts(workspace: &Id, day: Day, hours: u32) -> KeyRange {
    KeyRange::prefix(vintage_partition(workspace), &format!("day#{day}/{hours:05}/"))
}

/// The vintages of the days from `from` to `to`, with their parts.
pub fn vintages_between(workspace: &Id, from: Day, to: Day) -> KeyRange {
    KeyRange { pk: vintage_partition(workspace), from: format!("day#{from}/"), to: format!("day#{to}/{END}") }
}

/// Parses the day, the age in hours and the part of a vintage. `None`, when it is another key.
pub fn parse_vintage(key: &Key) -> Option<(Day, u32, Option<VintagePart>)> {
    key.pk.strip_prefix("w#")?.strip_suffix("/vintage")?;
    let mut words = key.sk.strip_prefix("day#")?.split('/');
    let day = words.next()?.parse().ok()?;
    let hours = words.next().filter(|word| word.len() == 5)?.parse().ok()?;
    let part = match (words.next(), words.next()) {
        (None, None) => None,
        (Some(digest), Some(part)) => {
            (digest.len() == 16 && part.len() == 5).then_some(())?;
            Some(VintagePart { digest: u64::from_str_radix(digest, 16).ok()?, part: part.parse().ok()? })
        }
        _ => return None,
    };
    words.next().is_none().then_some((day, hours, part))
}

fn rollup_vintage_partition(workspace: &Id) -> String {
    format!("w#{workspace}/rollup-vintage")
}

/// Rollup of a day at an age of `hours` hours.
pub fn rollup_vintage(workspace: &Id, day: Day, hours: u32) -> Key {
    Key::new(rollup_vintage_partition(workspace), format!("day#{day}/{hours:05}"))
}

/// Part of a breakdown of such rollups of a day, by the digest of its content.
pub fn rollup_vintage_part(workspace: &Id, day: Day, breakdown: Breakdown, digest: u64) -> Key {
    Key::new(rollup_vintage_partition(workspace), format!("day#{day}/part/{breakdown}/{digest:016x}"))
}

/// All parts of such rollups of a day.
pub fn rollup_vintage_parts(workspace: &Id, day: Day) -> KeyRange {
    KeyRange::prefix(rollup_vintage_partition(workspace), &format!("day#{day}/part/"))
}

/// Such rollups of a day, without their parts.
pub fn rollup_vintage_heads(workspace: &Id, day: Day) -> KeyRange {
    KeyRange {
        pk: rollup_vintage_partition(workspace),
        from: format!("day#{day}/0"),
        to: format!("day#{day}/9{END}"),
    }
}

/// Such rollups of the days from `from` to `to`, with their parts.
pub fn rollup_vintage_between(workspace: &Id, from: Day, to: Day) -> KeyRange {
    KeyRange {
        pk: rollup_vintage_partition(workspace),
        from: format!("day#{from}/"),
        to: format!("day#{to}/{END}"),
    }
}

/// Key of rollups at ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollupVintageKey {
    /// Rollup, by its age in hours.
    Head(u32),
    /// Part of a breakdown, with the digest of its content.
    Part(Breakdown, u64),
}

/// Parses the day of a rollup at an age or of a part of one, and the kind of key. `None`, when it is another key.
pub fn parse_rollup_vintage(key: &Key) -> Option<(Day, RollupVintageKey)> {
    key.pk.strip_prefix("w#")?.strip_suffix("/rollup-vintage")?;
    let mut words = key.sk.strip_prefix("day#")?.split('/');
    let day = words.next()?.parse().ok()?;
    let rollup_vintage = match (words.next()?, words.next(), words.next(), words.next()) {
        ("part", Some(by), Some(bucket), Some(digest)) if bucket.len() == 2 && digest.len() == 16 => {
            let by = By::ALL.into_iter().find(|known| known.name() == by)?;
            let bucket = u8::from_str_radix(bucket, 16).ok()?;
            RollupVintageKey::Part(Breakdown { by, bucket }, u64::from_str_radix(digest, 16).ok()?)
        }
        (hours, None, None, None) if hours.len() == 5 => RollupVintageKey::Head(hours.parse().ok()?),
        _ => return None,
    };
    words.next().is_none().then_some((day, rollup_vintage))
}

/// Instant up to which the vintages of a workspace are made.
pub fn vintage_until(workspace: &Id) -> Key {
    Key::new(vintage_partition(workspace), "until")
}

/// Progress of the compaction of a workspace's logs.
pub fn compacted(workspace: &Id) -> Key {
    Key::new(vintage_partition(workspace), "compacted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vintage_keys_are_parsed_and_sorted_by_age() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let part = VintagePart { digest: 0xab, part: 3 };
        let keys = [
            vintage(&w, day, 1),
            vintage(&w, day, 24),
            vintage_part(&w, day, 24, part),
            vintage(&w, day, 720),
            vintage(&w, day.next().unwrap(), 1),
        ];
        let parsed = keys.each_ref().map(|key| parse_vintage(key).unwrap());
        assert_eq!(parsed[1], (day, 24, None));
        assert_eq!(parsed[2], (day, 24, Some(part)));
        assert!(keys.is_sorted_by(|a, b| a.sk < b.sk));
        let (range, parts) = (vintages_between(&w, day, day), vintage_parts(&w, day, 24));
        let within = |range: &KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        assert_eq!(keys.each_ref().map(|key| within(&range, key)), [true, true, true, true, false]);
        assert_eq!(keys.each_ref().map(|key| within(&parts, key)), [false, false, true, false, false]);
        assert!(!within(&range, &vintage_until(&w)));
        for sk in [
            "until",
            "day#2013-06-01",
            "day#2013-06-31/00024",
            "day#2013-06-01/24",
            "day#2013-06-01/00024/ab/00003",
            "day#2013-06-01/00024/00000000000000ab",
            "day#2013-06-01/00024/00000000000000ab/00003/x",
        ] {
            assert_eq!(parse_vintage(&Key::new(vintage_partition(&w), sk)), None, "{sk}");
        }
    }
    #[test]
    fn rollup_vintage_keys_parse_and_precede_their_parts() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let tag = Breakdown { by: By::Tag, bucket: 0x0a };
        let keys = [
            rollup_vintage(&w, day, 1),
            rollup_vintage(&w, day, 720),
            rollup_vintage_part(&w, day, Breakdown { by: By::Feature, bucket: 0xff }, 1),
            rollup_vintage_part(&w, day, tag, 0xab),
            rollup_vintage(&w, day.next().unwrap(), 1),
        ];
        assert!(keys.is_sorted_by(|a, b| a.sk < b.sk));
        assert_eq!(parse_rollup_vintage(&keys[1]), Some((day, RollupVintageKey::Head(720))));
        assert_eq!(parse_rollup_vintage(&keys[3]), Some((day, RollupVintageKey::Part(tag, 0xab))));
        let within = |range: &KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        let held = |range: &KeyRange| keys.each_ref().map(|key| within(range, key));
        assert_eq!(held(&rollup_vintage_heads(&w, day)), [true, true, false, false, false]);
        assert_eq!(held(&rollup_vintage_parts(&w, day)), [false, false, true, true, false]);
        assert_eq!(held(&rollup_vintage_between(&w, day, day)), [true, true, true, true, false]);
        for sk in [
            "day#2013-06-01",
            "day#2013-06-01/24",
            "day#2013-06-01/00024/x",
            "day#2013-06-01/part/tag/0a",
            "day#2013-06-01/part/tag/0a/ab",
            "day#2013-06-01/part/day/0a/00000000000000ab",
            "day#2013-06-01/part/tag/0a/00000000000000ab/x",
        ] {
            assert_eq!(parse_rollup_vintage(&Key::new(rollup_vintage_partition(&w), sk)), None, "{sk}");
        }
        assert_eq!(parse_rollup_vintage(&vintage(&w, day, 1)), None);
    }
}
