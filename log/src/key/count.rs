//! The keys of counters: how many events there are, month by month.
//!
//! They stand in a partition of their own. Up to 0.1 they stood beside the workspace, whose page grew with
//! them; counters that are still there are read as well until the projector has moved them.

use event::Id;
use table::{Key, KeyRange};

use super::{END, workspace_page};

/// What a counter counts for: the whole workspace, or one release of it by name.
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

/// The counters of one month of what is counted.
pub fn counter(workspace: &Id, counted: &Counted, month: &str) -> Key {
    Key::new(counter_partition(workspace), counter_sort(counted, month))
}

/// Where a counter stood up to 0.1.
pub fn old_counter(workspace: &Id, counted: &Counted, month: &str) -> Key {
    Key::new(workspace_page(workspace), counter_sort(counted, month))
}

/// A range of counters where they stand, and where they stood up to 0.1.
pub type CounterRanges = [KeyRange; 2];

fn in_both(workspace: &Id, from: &str, to: &str) -> CounterRanges {
    [counter_partition(workspace), workspace_page(workspace)].map(|pk| KeyRange {
        pk,
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

/// All counters of a workspace.
pub fn counters(workspace: &Id) -> CounterRanges {
    in_both(workspace, "count#", &format!("count#{END}"))
}

/// The counters of what is counted, of all months.
pub fn counters_of(workspace: &Id, counted: &Counted) -> CounterRanges {
    counters_between(workspace, counted, "", "")
}

/// The counters of what is counted from a month to another, both included; an empty month is no bound.
pub fn counters_between(workspace: &Id, counted: &Counted, from: &str, to: &str) -> CounterRanges {
    let to = format!("{}{END}", counter_sort(counted, to));
    in_both(workspace, &counter_sort(counted, from), &to)
}

/// What a counter item counts for, and the month.
pub fn parse_counter(key: &Key) -> Option<(Counted, String)> {
    let (entity, month) = key.sk.strip_prefix("count#")?.rsplit_once('/')?;
    let counted = match entity.strip_prefix("r#") {
        Some(name) => Counted::Release(name.to_owned()),
        None if entity == "w" => Counted::Workspace,
        None => return None,
    };
    Some((counted, month.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_counters_are_read_where_they_stood() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let v1 = Counted::Release("v1".into());
        assert_eq!(old_counter(&w, &v1, "2013-06").to_string(), format!("w#{w} / count#r#v1/2013-06"));
        assert_eq!(old_counter(&w, &Counted::Workspace, "2013-06").sk, "count#w/2013-06");
        for counted in [Counted::Workspace, v1] {
            let places = [counter(&w, &counted, "2013-06"), old_counter(&w, &counted, "2013-06")];
            let ranges = [
                counters(&w),
                counters_of(&w, &counted),
                counters_between(&w, &counted, "2013-06", "2013-06"),
            ];
            for (place, key) in places.iter().enumerate() {
                assert_eq!(parse_counter(key), Some((counted.clone(), "2013-06".to_owned())));
                for range in &ranges {
                    let KeyRange { pk, from, to } = &range[place];
                    assert!(*pk == key.pk && *from <= key.sk && key.sk <= *to, "{key}");
                }
            }
        }
        let may = &counters_between(&w, &Counted::Workspace, "2013-04", "2013-05")[0];
        assert!(may.to < counter(&w, &Counted::Workspace, "2013-06").sk);
    }
}
