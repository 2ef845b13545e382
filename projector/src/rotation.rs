//! Choice of the workspaces that a sweep compares on all of their days.
//!
//! A sweep checks the latest days of each workspace. The feed announces appends to an older day; when the feed loses a change, a
//! sweep finds it in the turn of its workspace: some workspaces with each sweep, one after the other, so that each has its turn
//! once a day. The table stores the position of the next sweep.

use std::{collections::BTreeSet, time::Duration};

use event::{Id, Result};
use log::key;
use table::{Condition, Item, Table};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Time within which each workspace has its turn.
const ROUND: Duration = Duration::from_secs(24 * 60 * 60);

/// Minimum number of workspaces with each sweep; all, if there are fewer.
const LEAST: usize = 10;

/// Number of workspaces with each of the sweeps at this interval.
fn at_once(all: usize, every: Duration) -> usize {
    let sweeps = (ROUND.as_secs_f64() / every.as_secs_f64()).max(1.0);
    ((all as f64 / sweeps).ceil() as usize).max(LEAST).min(all)
}

/// Takes `count` workspaces: those after `cursor`, and then those from the beginning on.
fn turn(all: &BTreeSet<Id>, cursor: Option<&Id>, count: usize) -> Vec<Id> {
    let after = all.iter().filter(|id| cursor.is_none_or(|cursor| *id > cursor));
    let before = all.iter().filter(|id| cursor.is_some_and(|cursor| *id <= cursor));
    after.chain(before).take(count).cloned().collect()
}

/// Reads the workspaces whose turn it is.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn next(table: &dyn Table, all: &BTreeSet<Id>, every: Duration) -> Result<Vec<Id>> {
    let item = table.get(&key::sweep_cursor()).await?;
    // An unreadable cursor counts as none: the round begins again.
    let cursor = item.and_then(|item| Id::parse(item.optional_text("after")?).ok());
    Ok(turn(all, cursor.as_ref(), at_once(all.len(), every)))
}

/// Records that these have had their turn.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn note(table: &dyn Table, turn: &[Id]) -> Result<()> {
    let Some(last) = turn.last() else { return Ok(()) };
    let item = Item::new(key::sweep_cursor()).with("v", ITEM_VERSION).with("after", last.as_str());
    table.put(item, Condition::None).await
}

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::*;

    #[test]
    fn each_workspace_has_its_turn_once_a_day() {
        let every = Duration::from_secs(15 * 60);
        assert_eq!([0, 7, 960, 10_000].map(|all| at_once(all, every)), [0, 7, 10, 105]);
        let all: BTreeSet<Id> = (0..1_000)
            .map(|second| Id::new(Timestamp::default().plus_seconds(1_700_000_000 + second)))
            .collect();
        let (mut cursor, mut swept) = (None, BTreeSet::new());
        for _ in 0..96 {
            let turn = turn(&all, cursor.as_ref(), at_once(all.len(), every));
            cursor = turn.last().cloned();
            swept.extend(turn);
        }
        assert_eq!(swept, all);
        // A deleted workspace leaves the rest in its order.
        let rest: BTreeSet<Id> = all.iter().skip(500).cloned().collect();
        assert_eq!(turn(&rest, all.first(), 1), [all.iter().nth(500).unwrap().clone()]);
        assert_eq!(turn(&rest, all.last(), 1), [all.iter().nth(500).unwrap().clone()]);
    }
}
