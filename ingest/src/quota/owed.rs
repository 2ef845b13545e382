//! Limit of a second, and the debts of its callers.

use std::{collections::HashMap, sync::Arc};

use super::{MAX_CALLERS, SECOND_MICROS};

/// Usage of callers that the limit has not made up for yet. As time passes the limit pays it back, evenly to all who owe: a
/// caller that owes less than its part leaves the rest to those who owe more. So in the long run no more than the limit is used,
/// a caller that asks for less than an even part never waits long, and the part that it leaves goes to the rest.
#[derive(Debug, Default)]
pub(super) struct Owed {
    owed: HashMap<Arc<str>, f64>,
    at: i64,
}

impl Owed {
    /// Returns the seconds that a caller must wait, if any: while it owes as much as its part of a second, or more.
    pub(super) fn wait(&mut self, caller: &str, rate: f64, now: i64) -> Option<f64> {
        self.pay(rate, now);
        let owed = *self.owed.get(self.name(caller))?;
        let part = rate / self.owed.len() as f64;
        (owed >= part).then(|| (owed - part) / part)
    }

    /// Adds usage of a caller.
    pub(super) fn add(&mut self, caller: &Arc<str>, amount: f64) {
        let caller = match self.name(caller) {
            "" => Arc::from(""),
            _ => Arc::clone(caller),
        };
        *self.owed.entry(caller).or_default() += amount;
    }

    /// Name of a caller, or the common name of all for whom there is no room.
    fn name<'a>(&self, caller: &'a str) -> &'a str {
        if self.owed.len() < MAX_CALLERS || self.owed.contains_key(caller) { caller } else { "" }
    }

    /// Pays back the debts that the limit has made up for by `now`.
    fn pay(&mut self, rate: f64, now: i64) {
        let mut left = (now - self.at).max(0) as f64 / SECOND_MICROS * rate;
        self.at = now;
        let mut amounts: Vec<f64> = self.owed.values().copied().collect();
        amounts.sort_unstable_by(f64::total_cmp);
        let (mut each, mut count) = (0.0, amounts.len());
        for amount in amounts {
            let needed = (amount - each) * count as f64;
            if needed > left {
                break;
            }
            (left, each, count) = (left - needed, amount, count - 1);
        }
        if count > 0 {
            each += left / count as f64;
        }
        self.owed.retain(|_, owed| {
            *owed -= each;
            *owed > 0.0
        });
    }
}
