//! A limit of a second, and what its callers owe of it.

use std::{collections::HashMap, sync::Arc};

use super::{MAX_CALLERS, SECOND_MICROS};

/// What callers have used and the limit has not made up for yet. As time passes the limit pays it back, to all who owe evenly: who owes
/// less than its part leaves the rest to those who owe more. So in the long run no more than the limit is used, a caller
/// that asks for less than an even part never waits long, and what it leaves goes to the rest.
#[derive(Debug, Default)]
pub(super) struct Owed {
    owed: HashMap<Arc<str>, f64>,
    at: i64,
}

impl Owed {
    /// For how many seconds a caller has to wait, if it has to: while it owes as much as its part of a second, or more.
    pub(super) fn wait(&mut self, caller: &str, rate: f64, now: i64) -> Option<f64> {
        self.pay(rate, now);
        let owed = *self.owed.get(self.name(caller))?;
        let part = rate / self.owed.len() as f64;
        (owed >= part).then(|| (owed - part) / part)
    }

    /// Adds what a caller used.
    pub(super) fn add(&mut self, caller: &Arc<str>, amount: f64) {
        let caller = match self.name(caller) {
            "" => Arc::from(""),
            _ => Arc::clone(caller),
        };
        *self.owed.entry(caller).or_default() += amount;
    }

    /// A caller by its name, or that of all for whom there is no room.
    fn name<'a>(&self, caller: &'a str) -> &'a str {
        if self.owed.len() < MAX_CALLERS || self.owed.contains_key(caller) { caller } else { "" }
    }

    /// Pays back what the limit has made up for by `now`.
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
