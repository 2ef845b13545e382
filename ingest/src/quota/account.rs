//! Accounts of quotas: amounts that this process counted against each.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use catalog::{LIMIT_COUNT, LIMITS, Limit, Measure, Quota, Span};
use event::{Id, Timestamp};
use meter::{Counter, catalogue::QUOTA_REFUSED};

use super::{
    REPORT_SECONDS, SECOND_MICROS,
    of_day::OfDay,
    owed::Owed,
    report::{Others, Report},
};

/// Number of accounts above which those are forgotten that were not used for a day.
const MAX_ACCOUNTS: usize = 10_000;

/// Amounts of an append.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amounts {
    pub(crate) requests: u64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Amounts {
    fn of(self, measure: Measure) -> f64 {
        match measure {
            Measure::Requests => self.requests as f64,
            Measure::Rows => self.rows as f64,
            Measure::Bytes => self.bytes as f64,
        }
    }
}

/// Owner of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Workspace,
    Token,
}

impl Whose {
    const ALL: [Self; 2] = [Self::Workspace, Self::Token];

    fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Token => "token",
        }
    }
}

/// Quota that a request counts against.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) whose: Whose,
    pub(crate) id: Id,
    pub(crate) quota: Quota,
}

/// Limit that a caller has used up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UsedUp {
    whose: Whose,
    limit: &'static Limit,
    most: u64,
    /// Time at which a request is let in again, if no other caller comes.
    pub(crate) until: Timestamp,
    /// Number of seconds from now to that time, at least 1.
    pub(crate) seconds: u64,
}

impl fmt::Display for UsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whose, limit, most, until, .. } = self;
        write!(
            f,
            "the quota `{}` of this {}, {most}, is used up for this caller until {until}; nothing was stored",
            limit.name,
            whose.name()
        )
    }
}

/// Used part of one limit.
#[derive(Debug)]
enum Used {
    Second(Owed),
    Day(OfDay),
}

/// Usage of a quota by this process, and the known usage of the other ones.
#[derive(Debug)]
struct Account {
    used: [Used; LIMIT_COUNT],
    others: Others,
    /// Number of the last report, and its time.
    reports: i64,
    reported: Option<Timestamp>,
    /// Usage since then, and the limits that were used up.
    since: [f64; LIMIT_COUNT],
    was_short: [bool; LIMIT_COUNT],
}

impl Default for Account {
    fn default() -> Self {
        let used = LIMITS.map(|limit| match limit.span {
            Span::Second => Used::Second(Owed::default()),
            Span::Day => Used::Day(OfDay::default()),
        });
        let (since, was_short) = ([0.0; LIMIT_COUNT], [false; LIMIT_COUNT]);
        Self { used, others: Others::default(), reports: 0, reported: None, since, was_short }
    }
}

impl Account {
    /// Returns the limit that a caller has used up for longest, if there is one. At the beginning of a request all limits are
    /// checked; later only limits of which it needs something.
    fn used_up(&mut self, of: &Counted, caller: &str, now: Timestamp, amounts: Amounts) -> Option<UsedUp> {
        let mut longest: Option<UsedUp> = None;
        for (at, (limit, most)) in of.quota.limits().enumerate() {
            let Some(most) = most else { continue };
            if amounts.requests == 0 && amounts.of(limit.measure) == 0.0 {
                continue;
            }
            let micros = match &mut self.used[at] {
                Used::Second(owed) => {
                    let rate = self.others.rate_left(at, most as f64);
                    owed.wait(caller, rate, now.micros()).map(|seconds| (seconds * SECOND_MICROS) as i64 + 1)
                }
                Used::Day(day) => {
                    let elsewhere = self.others.used(at, now.day());
                    day.wait(caller, most as f64, elsewhere, self.others.processes(), now.micros())
                }
            };
            let Some(micros) = micros else { continue };
            self.was_short[at] = true;
            let seconds = (micros as u64).div_ceil(1_000_000).max(1);
            let until = Timestamp::from_micros(now.micros().saturating_add(micros)).unwrap_or(now);
            if longest.is_none_or(|known| known.until < until) {
                longest = Some(UsedUp { whose: of.whose, limit, most, until, seconds });
            }
        }
        longest
    }

    fn count(&mut self, of: &Counted, caller: &Arc<str>, now: Timestamp, amounts: Amounts) {
        for (at, (limit, most)) in of.quota.limits().enumerate() {
            if most.is_none() {
                continue;
            }
            let amount = amounts.of(limit.measure);
            self.since[at] += amount;
            match &mut self.used[at] {
                Used::Second(owed) => owed.add(caller, amount),
                Used::Day(day) => day.add(caller, amount, now.micros()),
            }
        }
    }

    /// Returns the next report, when it is due.
    fn report(&mut self, process: &Id, now: Timestamp) -> Option<Report> {
        let passed = self.reported.map_or(REPORT_SECONDS * 1_000_000, |at| now.micros() - at.micros());
        if (0..REPORT_SECONDS * 1_000_000).contains(&passed) {
            return None;
        }
        let seconds = (passed as f64 / SECOND_MICROS).max(REPORT_SECONDS as f64);
        self.reports += 1;
        self.reported = Some(now);
        let (used, is_short) = Default::default();
        let mut report = Report { process: process.clone(), beat: self.reports, used, is_short };
        for (at, used) in self.used.iter_mut().enumerate() {
            report.is_short[at] = self.was_short[at];
            report.used[at] = match used {
                Used::Second(_) => self.since[at] / seconds,
                Used::Day(day) => day.total(now.micros()),
            };
        }
        (self.since, self.was_short) = Default::default();
        Some(report)
    }
}

/// Usage of all quotas by this process.
#[derive(Debug)]
pub(crate) struct Accounts {
    process: Id,
    known: Mutex<HashMap<Id, Account>>,
    refused: [[Counter; LIMIT_COUNT]; Whose::ALL.len()],
}

impl Accounts {
    /// Creates accounts without usage, for a process that the other ones know by this id.
    pub(crate) fn new(process: Id) -> Self {
        let counter = |whose: Whose| LIMITS.map(|limit| QUOTA_REFUSED.counter([whose.name(), limit.name]));
        Self { process, known: Mutex::default(), refused: Whose::ALL.map(counter) }
    }

    /// Counts an append of a caller against some quotas, if none is used up.
    ///
    /// # Errors
    /// The limit that is used up for longest; then nothing is counted.
    pub(crate) fn take(
        &self,
        quotas: &[Counted],
        caller: &Arc<str>,
        now: Timestamp,
        amounts: Amounts,
    ) -> Result<(), UsedUp> {
        if quotas.is_empty() {
            return Ok(());
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let used_up = quotas
            .iter()
            .filter_map(|of| known.entry(of.id.clone()).or_default().used_up(of, caller, now, amounts))
            .max_by_key(|used_up| used_up.until);
        if let Some(used_up) = used_up {
            let at = LIMITS.iter().position(|limit| limit == used_up.limit).unwrap_or_default();
            self.refused[used_up.whose as usize][at].increment(1);
            return Err(used_up);
        }
        for of in quotas {
            known.entry(of.id.clone()).or_default().count(of, caller, now, amounts);
        }
        Ok(())
    }

    /// Returns the report of this process on a quota, when it is due.
    pub(super) fn report(&self, of: &Id, now: Timestamp) -> Option<Report> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(of) && known.len() >= MAX_ACCOUNTS {
            let is_used = |account: &Account| {
                account.reported.is_some_and(|at| now.micros() - at.micros() < event::time::DAY_MICROS)
            };
            known.retain(|_, account| is_used(account));
        }
        known.entry(of.clone()).or_default().report(&self.process, now)
    }

    /// Records the reports of processes on a quota on the day of `now`.
    pub(super) fn learn(&self, of: &Id, reports: Vec<Report>, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let account = known.entry(of.clone()).or_default();
        let reports = reports.into_iter().filter(|report| report.process != self.process);
        account.others.learn(reports, now);
    }
}
