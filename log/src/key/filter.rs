//! Keys of filters of the keys of events that a day may have.

use event::{Day, Id, Kind};
use table::{Key, KeyRange};

use super::END;

fn key_filter_partition(workspace: &Id, version: u32) -> String {
    format!("w#{workspace}/keys/v{version}")
}

/// Head of the filter of the keys of a kind of events of a day, with its coverage.
pub fn key_filter(workspace: &Id, version: u32, day: Day, kind: Kind) -> Key {
    Key::new(key_filter_partition(workspace, version), format!("day#{day}/{}", kind.letter()))
}

/// Heads of the filters of the days from `from` to `to`.
pub fn key_filters_between(workspace: &Id, version: u32, from: Day, to: Day) -> KeyRange {
    KeyRange {
        pk: key_filter_partition(workspace, version),
        from: format!("day#{from}/"),
        to: format!("day#{to}/{END}"),
    }
}

/// A part of a filter, by the digest of all its parts and its number.
pub fn key_filter_part(
    workspace: &Id,
    version: u32,
    day: Day,
    kind: Kind,
    (digest, part): (u64, u32),
) -> Key {
    let sk = format!("part#{day}/{}/{digest:016x}/{part:05}", kind.letter());
    Key::new(key_filter_partition(workspace, version), sk)
}

/// All parts of the filter of a kind of events of a day, of any digest.
pub fn key_filter_parts(workspace: &Id, version: u32, day: Day, kind: Kind) -> KeyRange {
    KeyRange::prefix(key_filter_partition(workspace, version), &format!("part#{day}/{}/", kind.letter()))
}

/// The parts of filters of a day, of all kinds.
pub fn key_filter_parts_of_day(workspace: &Id, version: u32, day: Day) -> KeyRange {
    KeyRange::prefix(key_filter_partition(workspace, version), &format!("part#{day}/"))
}

/// All filters of a version of the projections of a workspace, with their parts.
pub fn all_key_filters(workspace: &Id, version: u32) -> KeyRange {
    KeyRange { pk: key_filter_partition(workspace, version), from: String::new(), to: END.to_string() }
}

/// Parsed key of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfKeyFilter {
    /// The version of the projections.
    pub version: u32,
    /// The day.
    pub day: Day,
    /// The kind of events.
    pub kind: Kind,
    /// Digest of all parts, for a part; `None` for the head.
    pub digest: Option<u64>,
}

/// Parses the key of a filter, of its head or of a part. `None`, when it is another key.
pub fn parse_key_filter(key: &Key) -> Option<OfKeyFilter> {
    let (_, version) = key.pk.strip_prefix("w#")?.split_once("/keys/v")?;
    let version = version.parse().ok()?;
    let of = |text: &str, digest| {
        let (day, kind) = text.split_once('/')?;
        Some(OfKeyFilter { version, day: day.parse().ok()?, kind: Kind::from_letter(kind)?, digest })
    };
    if let Some(head) = key.sk.strip_prefix("day#") {
        return of(head, None);
    }
    let (rest, part) = key.sk.strip_prefix("part#")?.rsplit_once('/')?;
    let (head, digest) = rest.rsplit_once('/')?;
    let is_part = part.len() == 5 && part.bytes().all(|digit| digit.is_ascii_digit());
    of(head, Some(u64::from_str_radix(digest, 16).ok()?)).filter(|_| is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_keys_are_parsed_apart_from_part_keys() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let head = key_filter(&w, 2, day, Kind::Outcomes);
        let part = key_filter_part(&w, 2, day, Kind::Outcomes, (0xab, 3));
        assert_eq!(head.to_string(), "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/keys/v2 / day#2013-06-01/o");
        assert_eq!(
            part.to_string(),
            "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/keys/v2 / part#2013-06-01/o/00000000000000ab/00003"
        );
        let of = OfKeyFilter { version: 2, day, kind: Kind::Outcomes, digest: None };
        assert_eq!(parse_key_filter(&head), Some(of));
        assert_eq!(parse_key_filter(&part), Some(OfKeyFilter { digest: Some(0xab), ..of }));
        let within = |range: KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        assert!(within(key_filters_between(&w, 2, day, day), &head));
        assert!(!within(key_filters_between(&w, 2, day, day), &part));
        assert!(within(key_filter_parts(&w, 2, day, Kind::Outcomes), &part));
        assert!(!within(key_filter_parts(&w, 2, day, Kind::Predictions), &part));
        assert!(within(key_filter_parts_of_day(&w, 2, day), &part));
        assert!([&head, &part].iter().all(|key| within(all_key_filters(&w, 2), key)));
        for sk in ["day#2013-06-01", "day#2013-06-01/x", "part#2013-06-01/o/ab", "part#2013-06-01/o/ab/3"] {
            assert_eq!(parse_key_filter(&Key::new(head.pk.clone(), sk)), None, "{sk}");
        }
    }
}
