//! Reports of processes to each other on their usage.

use std::{collections::HashMap, mem};

use catalog::{LIMIT_COUNT, LIMITS};
use event::{Day, Id, Result, Timestamp};
use log::key;
use table::{Condition, Item, Query, Table, query_all};

use super::{REPORT_SECONDS, account::Accounts};

const ITEM_VERSION: i64 = 1;

/// Minimum number of days for which a report is kept.
const KEPT_DAYS: i64 = 2;

/// Seconds of our clock within which a process must make a report to be alive.
const LIVES_SECONDS: i64 = 3 * REPORT_SECONDS;

/// Usage of a quota by a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Id of the process.
    pub(super) process: Id,
    /// Number of the report, from 1.
    pub(super) beat: i64,
    /// Usage: for a limit of a second the recent usage per second, for one of a day that on the day.
    pub(super) used: [f64; LIMIT_COUNT],
    /// True if it refused something for the limit recently, and so would use more.
    pub(super) is_short: [bool; LIMIT_COUNT],
}

impl Report {
    /// Returns whether it is the first one of the process.
    pub(super) fn is_first(&self) -> bool {
        self.beat == 1
    }

    fn to_item(&self, of: &Id, now: Timestamp) -> Item {
        let until = now.plus_seconds(KEPT_DAYS * 24 * 60 * 60).micros().div_euclid(1_000_000);
        let short = (0..LIMIT_COUNT).filter(|at| self.is_short[*at]).fold(0, |all, at| all | 1 << at);
        let item = Item::new(key::quota_used(of, now.day(), &self.process))
            .with("v", ITEM_VERSION)
            .with("process", self.process.as_str())
            .with("beat", self.beat)
            .with("short", short)
            .with("expires_at", until);
        LIMITS
            .iter()
            .zip(self.used)
            .fold(item, |item, (limit, used)| item.with(limit.name, used.ceil() as i64))
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let (mut used, short) = ([0.0; LIMIT_COUNT], item.int("short")?);
        for (used, limit) in used.iter_mut().zip(LIMITS) {
            *used = item.int(limit.name)?.max(0) as f64;
        }
        let is_short = std::array::from_fn(|at| short & (1 << at) != 0);
        Ok(Self { process: Id::parse(item.text("process")?)?, beat: item.int("beat")?, used, is_short })
    }
}

/// State of another process.
#[derive(Debug)]
struct Other {
    last: Report,
    /// Time at which its last report was seen first, by our clock; clocks are not compared.
    seen: Timestamp,
    lives: bool,
}

/// Other processes that take requests for a quota.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: HashMap<Id, Other>,
    /// Day of their reports.
    day: Option<Day>,
}

impl Others {
    /// Records the reports of a day. A process whose number stands still is not alive.
    pub(super) fn learn(&mut self, reports: impl Iterator<Item = Report>, now: Timestamp) {
        let mut known = mem::take(&mut self.known);
        self.day = Some(now.day());
        for report in reports {
            let other = match known.remove(&report.process) {
                // A report that an ended process left is seen for the first time, too: the process is alive when its number
                // grows.
                None => Other { lives: report.is_first(), last: report, seen: now },
                Some(before) if before.last.beat < report.beat => {
                    Other { last: report, seen: now, lives: true }
                }
                Some(before) => {
                    let quiet = now.micros() - before.seen.micros();
                    let lives = before.lives && (0..LIVES_SECONDS * 1_000_000).contains(&quiet);
                    Other { lives, last: report, ..before }
                }
            };
            self.known.insert(other.last.process.clone(), other);
        }
    }

    fn living(&self) -> impl Iterator<Item = &Other> {
        self.known.values().filter(|other| other.lives)
    }

    /// Number of processes that take requests, with this one.
    pub(super) fn processes(&self) -> usize {
        1 + self.living().count()
    }

    /// Part of a limit of a second left for this process: an even part, or more if others use less.
    pub(super) fn rate_left(&self, limit: usize, most: f64) -> f64 {
        let (mut content, mut short) = (0.0, 1.0);
        for other in self.living() {
            match other.last.is_short[limit] {
                true => short += 1.0,
                false => content += other.last.used[limit],
            }
        }
        let even = most / self.processes() as f64;
        ((most - content) / short).max(even)
    }

    /// Usage of a limit of a day by other processes, including those that have ended.
    pub(super) fn used(&self, limit: usize, day: Day) -> f64 {
        if self.day != Some(day) {
            return 0.0;
        }
        self.known.values().map(|other| other.last.used[limit]).sum()
    }
}

/// Writes the report of this process on a quota, and passes the reports of the other ones to `accounts`.
///
/// # Errors
/// Errors of the table.
pub(super) async fn exchange(
    table: &dyn Table,
    accounts: &Accounts,
    of: &Id,
    report: Report,
    now: Timestamp,
) -> Result<()> {
    table.put(report.to_item(of, now), Condition::None).await?;
    let items = query_all(table, Query::table(key::quota_used_by_all(of, now.day()))).await?;
    let reports = items.iter().map(Report::from_item).collect::<Result<Vec<_>>>()?;
    accounts.learn(of, reports, now);
    Ok(())
}
