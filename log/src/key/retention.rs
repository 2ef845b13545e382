//! Keys of the retention of events, and of the days whose events are gone.

use event::{Day, Id};
use table::{Key, KeyRange};

use super::workspace_page;

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
}
