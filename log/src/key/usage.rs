//! Keys of usage: monthly counters of events, quotas, and the usage reported by ingest services. Counters have a
//! partition of their own, so that the page of the workspace does not grow with them.

use event::{Day, Id};
use table::{Key, KeyRange};

use super::END;

/// Subject of a counter: the whole workspace, or one release of it by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// The workspace.
    Workspace,
    /// The release of this name.
    Release(String),
}

fn counter_partition(workspace: &Id) -> String {
    format!("w#{workspace}/count")
}

fn counter_sort(counted: &Counted, month: &str) -> String {
    match counted {
        Counted::Workspace => format!("count#w/{month}"),
        Counted::Release(name) => format!("count#r#{name}/{month}"),
    }
}

/// Counters of one month of a subject.
pub fn counter(workspace: &Id, counted: &Counted, month: &str) -> Key {
    Key::new(counter_partition(workspace), counter_sort(counted, month))
}

/// All counters of a workspace.
pub fn counters(workspace: &Id) -> KeyRange {
    KeyRange::prefix(counter_partition(workspace), "count#")
}

/// Counters of a subject from one month to another, both included; an empty month is unbounded.
pub fn counters_between(workspace: &Id, counted: &Counted, from: &str, to: &str) -> KeyRange {
    let to = format!("{}{END}", counter_sort(counted, to));
    KeyRange { pk: counter_partition(workspace), from: counter_sort(counted, from), to }
}

/// Parses the subject of a counter, and the month.
pub fn parse_counter(key: &Key) -> Option<(Counted, String)> {
    let (entity, month) = key.sk.strip_prefix("count#")?.rsplit_once('/')?;
    let counted = match entity.strip_prefix("r#") {
        Some(name) => Counted::Release(name.to_owned()),
        None if entity == "w" => Counted::Workspace,
        None => return None,
    };
    Some((counted, month.to_owned()))
}

fn used_partition(of: &Id) -> String {
    format!("quota#{of}")
}

/// Usage by a process of the quota of a workspace or token on a day.
pub fn quota_used(of: &Id, day: Day, process: &Id) -> Key {
    Key::new(used_partition(of), format!("day#{day}/{process}"))
}

/// Usage by all processes of that quota on a day.
pub fn quota_used_by_all(of: &Id, day: Day) -> KeyRange {
    KeyRange::prefix(used_partition(of), &format!("day#{day}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_in_their_ranges() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        for counted in [Counted::Workspace, Counted::Release("v1".into())] {
            let key = counter(&w, &counted, "2013-06");
            assert_eq!(parse_counter(&key), Some((counted.clone(), "2013-06".to_owned())));
            let all = counters_between(&w, &counted, "", "");
            for range in [counters(&w), all, counters_between(&w, &counted, "2013-06", "2013-06")] {
                let KeyRange { pk, from, to } = &range;
                assert!(*pk == key.pk && *from <= key.sk && key.sk <= *to, "{key}");
            }
        }
        let may = counters_between(&w, &Counted::Workspace, "2013-04", "2013-05");
        assert!(may.to < counter(&w, &Counted::Workspace, "2013-06").sk);
    }
}
