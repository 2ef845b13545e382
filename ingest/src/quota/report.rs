//! What processes tell each other of what they used.

use std::{collections::HashMap, mem};

use catalog::{LIMIT_COUNT, LIMITS};
use event::{Day, Id, Result, Timestamp};
use log::key;
use table::{Condition, Item, Query, Table, query_all};

use super::{REPORT_SECONDS, account::Accounts};

const ITEM_VERSION: i64 = 1;

/// For how many days a report is kept, at least.
const KEPT_DAYS: i64 = 2;

/// A process lives that has made a report within so many seconds of our clock.
const LIVES_SECONDS: i64 = 3 * REPORT_SECONDS;

/// What a process used of a quota.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Which one.
    pub(super) process: Id,
    /// The number of the report, from 1.
    pub(super) beat: i64,
    /// Of a limit of a second how much it used a second lately, of one of a day how much on the day.
    pub(super) used: [f64; LIMIT_COUNT],
    /// Whether it refused something for the limit lately, and so would use more.
    pub(super) is_short: [bool; LIMIT_COUNT],
}

impl Report {
    /// Whether it is the first one of the process.
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

/// What is known of another process.
#[derive(Debug)]
struct Other {
    last: Report,
    /// When its last report was seen first, by our clock; clocks are not compared.
    seen: Timestamp,
    lives: bool,
}

/// The other processes that take requests for a quota.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: HashMap<Id, Other>,
    /// The day of their reports.
    day: Option<Day>,
}

impl Others {
    /// Takes note of the reports of a day. A process whose number stands still does not live.
    pub(super) fn learn(&mut self, reports: impl Iterator<Item = Report>, now: Timestamp) {
        let mut known = mem::take(&mut self.known);
        self.day = Some(now.day());
        for report in reports {
            let other = match known.remove(&report.process) {
                // What an ended process left is seen for the first time, too: it lives when its number grows.
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

    /// How many processes take requests, with this one.
    pub(super) fn processes(&self) -> usize {
        1 + self.living().count()
    }

    /// How much of a limit of a second is left for this process: an even part, or more where others use less.
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

    /// How much other processes used of a limit of a day, those that have ended as well.
    pub(super) fn used(&self, limit: usize, day: Day) -> f64 {
        if self.day != Some(day) {
            return 0.0;
        }
        self.known.values().map(|other| other.last.used[limit]).sum()
    }
}

/// Tells the other processes what this one used of a quota, and `accounts` what the other ones did.
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
