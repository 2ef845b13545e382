//! Limit of a UTC day, and its usage by each caller.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::Arc,
};

use event::time::DAY_MICROS;

use super::MAX_CALLERS;

/// Share of a limit kept for callers that have used less than an even part of it, when there are several.
const KEPT: f64 = 0.2;

/// Usage of a limit on a day.
#[derive(Debug, Default)]
pub(super) struct OfDay {
    day: i64,
    used: HashMap<Arc<str>, f64>,
    /// Callers that used something on the day before.
    before: HashSet<Arc<str>>,
}

impl OfDay {
    /// Returns the microseconds that a caller must wait, if any: until the day ends. `elsewhere` is the usage of other processes,
    /// and `processes` the number of all that take requests.
    pub(super) fn wait(
        &mut self,
        caller: &str,
        most: f64,
        elsewhere: f64,
        processes: usize,
        now: i64,
    ) -> Option<i64> {
        let all = self.total(now) + elsewhere;
        let own = self.used.get(caller).copied().unwrap_or_default();
        let known = self.before.iter().filter(|caller| !self.used.contains_key(*caller)).count();
        let callers = self.used.len() + known;
        let has_its_part = callers > 1 && own >= most / callers as f64 / processes as f64;
        let is_used_up = all >= most || (has_its_part && all >= most * (1.0 - KEPT));
        is_used_up.then(|| DAY_MICROS - now.rem_euclid(DAY_MICROS))
    }

    /// Adds usage of a caller.
    pub(super) fn add(&mut self, caller: &Arc<str>, amount: f64, now: i64) {
        self.turn(now);
        let is_known = self.used.len() < MAX_CALLERS || self.used.contains_key(caller);
        let caller = if is_known { Arc::clone(caller) } else { Arc::from("") };
        *self.used.entry(caller).or_default() += amount;
    }

    /// Total usage.
    pub(super) fn total(&mut self, now: i64) -> f64 {
        self.turn(now);
        self.used.values().sum()
    }

    /// Begins a new day without usage. A clock that goes back begins none.
    fn turn(&mut self, now: i64) {
        let day = now.div_euclid(DAY_MICROS);
        if day > self.day {
            let callers: HashSet<Arc<str>> = mem::take(&mut self.used).into_keys().collect();
            self.before = if day == self.day + 1 { callers } else { HashSet::new() };
            self.day = day;
        }
    }
}
