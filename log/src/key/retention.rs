//! Keys of the retention of events, of the days whose events are gone, of erasures, and of the keys that they refuse.

use event::{Day, Id};
use table::{Key, KeyRange};

use super::{parse_workspace_part, workspace_page};

/// Retention of the events of a workspace.
pub fn retention(workspace: &Id) -> Key {
    Key::new(workspace_page(workspace), "set#retention")
}

fn expired_partition(workspace: &Id) -> String {
    format!("w#{workspace}/expired")
}

/// Mark that the events of a day are gone.
pub fn expired(workspace: &Id, day: Day) -> Key {
    Key::new(expired_partition(workspace), format!("day#{day}"))
}

/// Marks of the days from `from` to `to` whose events are gone.
pub fn expired_between(workspace: &Id, from: Day, to: Day) -> KeyRange {
    KeyRange { pk: expired_partition(workspace), from: format!("day#{from}"), to: format!("day#{to}") }
}

/// Marks of all days whose events are gone.
pub fn all_expired(workspace: &Id) -> KeyRange {
    KeyRange::prefix(expired_partition(workspace), "day#")
}

/// Parses the day of a key of [`expired`]. `None`, when it is another key.
pub fn parse_expired(key: &Key) -> Option<Day> {
    key.pk.strip_suffix("/expired")?;
    key.sk.strip_prefix("day#")?.parse().ok()
}

/// Time at which the projector noticed the setting in force.
pub fn noticed(workspace: &Id) -> Key {
    Key::new(expired_partition(workspace), "set#retention")
}

/// Time that the table has counted.
pub fn counted_time() -> Key {
    Key::new("sys/time", "counted")
}

/// All segments of the days before `day`.
pub fn segments_before(workspace: &Id, day: Day) -> KeyRange {
    KeyRange { pk: super::day_partition(workspace), from: "day#".into(), to: format!("day#{day}") }
}

fn erased_partition(workspace: &Id) -> String {
    format!("w#{workspace}/erased")
}

/// Number of erased keys of a workspace, the secret of their digests, and the state of rewriting.
pub fn erased(workspace: &Id) -> Key {
    Key::new(erased_partition(workspace), "keys")
}

/// A page of the digests of erased keys, by its number.
pub fn erased_page(workspace: &Id, page: u32) -> Key {
    Key::new(erased_partition(workspace), format!("keys#{page:04}"))
}

/// All pages of the digests of erased keys.
pub fn erased_pages(workspace: &Id) -> KeyRange {
    KeyRange::prefix(erased_partition(workspace), "keys#")
}

/// An erasure, by its id.
pub fn erasure(workspace: &Id, id: &Id) -> Key {
    Key::new(erased_partition(workspace), format!("erasure#{id}"))
}

/// The erasures of a workspace, the oldest first.
pub fn erasures(workspace: &Id) -> KeyRange {
    KeyRange::prefix(erased_partition(workspace), "erasure#")
}

/// The workspace and the id of a key of [`erasure`].
pub fn parse_erasure(key: &Key) -> Option<(Id, Id)> {
    let (workspace, part) = parse_workspace_part(&key.pk)?;
    (part == "/erased").then_some(())?;
    Some((workspace, Id::parse(key.sk.strip_prefix("erasure#")?).ok()?))
}

/// The partition of `GSI1` with the erasures of all workspaces that are not done.
pub const OPEN_ERASURES: &str = "erasures";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        assert_eq!(noticed(&w).to_string(), "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/expired / set#retention");
        assert_eq!(counted_time().to_string(), "sys/time / counted");
        let range = all_expired(&w);
        assert!(range.from > noticed(&w).sk || range.to < noticed(&w).sk, "it is no day");
    }

    #[test]
    fn golden_strings_of_erasures() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let lines = [erased(&w).to_string(), erased_page(&w, 7).to_string(), erasure(&w, &w).to_string()];
        assert_eq!(
            lines,
            [
                "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/erased / keys",
                "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/erased / keys#0007",
                "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/erased / erasure#2NBs0sLBnJxEcoDLgVnQdJkhEgV",
            ]
        );
        assert_eq!(parse_erasure(&erasure(&w, &w)), Some((w.clone(), w.clone())));
        assert_eq!(parse_erasure(&erased(&w)), None);
        let within = |range: KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        assert!(within(erased_pages(&w), &erased_page(&w, 0)) && !within(erased_pages(&w), &erased(&w)));
        assert!(within(erasures(&w), &erasure(&w, &w)) && !within(erasures(&w), &erased_page(&w, 0)));
    }
}
