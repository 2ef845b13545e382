//! Recent appends, counted against the quotas of workspaces and tokens.
//!
//! A request is admitted while its caller has quota left, and then counted with its actual amounts. So no request is too large
//! for a limit; after a large one its caller waits until the limit has made up for it.
//!
//! **Fair.** The callers of a workspace share its limits. A limit of a second is paid back evenly by those who owe
//! (`Used::pay`), so one caller that sends without pause gets the part that the rest leaves, and no more. The last fifth of a
//! limit of a day is kept for callers that have used less than an even part of it.
//!
//! **Shared.** Each process writes its usage every 2 s, and reads that of the other ones (`Report`). The number of that
//! item is a heartbeat, too: it changes while the process takes requests. Each process gets the part of a limit of a second that
//! the other ones leave; usage of a limit of a day is added up, also that of processes that have ended.

use std::{
    array,
    cmp::Reverse,
    collections::HashMap,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use catalog::{
    CACHED_SECONDS, Cached, Catalog, LIMIT_COUNT, LIMITS, Limit, Measure, Quota, Span, TokenQuota,
};
use event::{Clock, Day, Error, Id, Result, Timestamp, time::DAY_MICROS};
use log::key;
use meter::{Counter, catalogue::QUOTA_REFUSED};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Query, Table, query_all};

/// Number of callers of a quota that are distinguished; the rest is counted as one.
const MAX_CALLERS: usize = 256;

/// Number of accounts above which those are forgotten that were not used for a day.
const MAX_ACCOUNTS: usize = 10_000;

/// Share of a limit of a day kept for callers that have used less than an even part of it, when there are several.
const KEPT: f64 = 0.2;

const SECOND_MICROS: i64 = 1_000_000;

/// Time of requests after which a process reports its usage again.
const REPORT_MICROS: i64 = 2 * SECOND_MICROS;

/// Time of our clock within which a process must make a report to be alive.
const LIVES_MICROS: i64 = 3 * REPORT_MICROS;

/// Form of the item of a report.
const FORM: i64 = 1;

/// Minimum number of seconds for which a report is kept.
const REPORT_KEPT_SECONDS: i64 = 2 * 24 * 60 * 60;

/// Owners of quotas, as they are called.
const OWNERS: [&str; 2] = ["workspace", "token"];

/// Amounts of an append.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amounts {
    pub(crate) requests: u64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Amounts {
    fn of(self, measure: Measure) -> f64 {
        let amount = match measure {
            Measure::Requests => self.requests,
            Measure::Rows => self.rows,
            Measure::Bytes => self.bytes,
        };
        amount as f64
    }
}

/// Quotas that a request counts against, and its sender.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    quotas: Vec<Counted>,
    caller: Arc<str>,
}

/// Quota that a request counts against.
#[derive(Clone, Debug)]
struct Counted {
    owner: &'static str,
    id: Id,
    quota: Quota,
}

/// Limit that a caller has used up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UsedUp {
    owner: &'static str,
    limit: &'static Limit,
    most: u64,
    /// Time at which a request is let in again, if no other caller comes.
    pub(crate) until: Timestamp,
    /// Number of seconds from now to that time, at least 1.
    pub(crate) seconds: u64,
}

impl fmt::Display for UsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, limit: Limit { name, .. }, most, until, .. } = self;
        write!(
            f,
            "the quota `{name}` of this {owner}, {most}, is used up for this caller until {until}; nothing was stored"
        )
    }
}

/// Quotas of workspaces and tokens, and their usage.
#[derive(Debug)]
pub(crate) struct Quotas {
    catalog: Catalog,
    table: Arc<dyn Table>,
    clock: Clock,
    set: Cached<Id, Quota>,
    accounts: Arc<Accounts>,
    refused: HashMap<(&'static str, &'static str), Counter>,
}

impl Quotas {
    /// Opens the quotas in `table`, without usage yet.
    pub(crate) fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        let accounts = Arc::new(Accounts { process: Id::new(clock.now()), known: Mutex::default() });
        let catalog = Catalog::new(Arc::clone(&table));
        let counters = OWNERS.into_iter().flat_map(|owner| LIMITS.map(|limit| (owner, limit.name)));
        let refused = counters.map(|of| (of, QUOTA_REFUSED.counter([of.0, of.1]))).collect();
        Self { catalog, table, clock, set: Cached::new(CACHED_SECONDS), accounts, refused }
    }

    /// Finds the quotas that a request of a caller counts against: the quota of the workspace, at most some seconds old, and that
    /// of the token.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn charge(
        &self,
        workspace: &Id,
        token: Option<&TokenQuota>,
        caller: Arc<str>,
    ) -> Result<Charge, Error> {
        let read = async { self.catalog.settings(workspace).await.map(|settings| settings.quota) };
        let quota = self.set.get(workspace.clone(), self.clock.now(), read).await?;
        let own = (!quota.is_empty()).then(|| Counted { owner: OWNERS[0], id: workspace.clone(), quota });
        let of_token = |of: &TokenQuota| Counted { owner: OWNERS[1], id: of.token.clone(), quota: of.quota };
        Ok(Charge { quotas: own.into_iter().chain(token.map(of_token)).collect(), caller })
    }

    /// Counts the amounts of a request, if no limit is used up.
    ///
    /// # Errors
    /// The limit that is used up for longest.
    pub(crate) async fn take(&self, charge: &Charge, amounts: Amounts) -> Result<(), UsedUp> {
        let now = self.clock.now();
        for of in &charge.quotas {
            let Some(report) = self.accounts.report(&of.id, now) else { continue };
            let (is_first, id) = (report.beat == 1, of.id.clone());
            let (table, accounts) = (Arc::clone(&self.table), Arc::clone(&self.accounts));
            let exchange = async move {
                if let Err(error) = accounts.exchange(&*table, &id, &report, now).await {
                    tracing::warn!(%error, "what was used of a quota cannot be shared with other processes");
                }
            };
            // The usage of the day before this process began is known before the first request is admitted.
            match is_first {
                true => exchange.await,
                false => drop(tokio::spawn(exchange)),
            }
        }
        let mut accounts = self.accounts.lock();
        let used_up = charge.quotas.iter().filter_map(|of| {
            accounts.entry(of.id.clone()).or_default().used_up(of, &charge.caller, now, amounts)
        });
        if let Some(used_up) = used_up.max_by_key(|used_up| used_up.until) {
            self.refused.get(&(used_up.owner, used_up.limit.name)).inspect(|counter| counter.increment(1));
            return Err(used_up);
        }
        for of in &charge.quotas {
            accounts.entry(of.id.clone()).or_default().count(of, &charge.caller, amounts);
        }
        Ok(())
    }
}

/// Usage of all quotas by this process.
#[derive(Debug)]
struct Accounts {
    /// Id by which the other processes know this one.
    process: Id,
    known: Mutex<HashMap<Id, Account>>,
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Account>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the report of this process on a quota, when it is due.
    fn report(&self, of: &Id, now: Timestamp) -> Option<Report> {
        let mut known = self.lock();
        if !known.contains_key(of) && known.len() >= MAX_ACCOUNTS {
            let is_recent = |at: Timestamp| now.micros() - at.micros() < DAY_MICROS;
            known.retain(|_, account| account.reported.is_some_and(is_recent));
        }
        known.entry(of.clone()).or_default().report(&self.process, now)
    }

    /// Writes the report of this process on a quota, and records those of the other ones on the same day.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    async fn exchange(&self, table: &dyn Table, of: &Id, report: &Report, now: Timestamp) -> Result<()> {
        let key = key::quota_used(of, report.day, &self.process);
        table.put(Item::record(key, FORM, report), Condition::None).await?;
        let items = query_all(table, Query::table(key::quota_used_by_all(of, report.day))).await?;
        let mut reports = items.iter().map(|item| item.to_record(FORM)).collect::<Result<Vec<Report>>>()?;
        reports.retain(|report| report.process != self.process);
        self.lock().entry(of.clone()).or_default().learn(reports, now);
        Ok(())
    }
}

/// Usage of a quota by a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Report {
    process: Id,
    day: Day,
    /// Number of the report, from 1.
    beat: i64,
    /// Usage: for a limit of a second the recent usage per second, for one of a day that on the day.
    used: [u64; LIMIT_COUNT],
    /// True if it refused something for the limit recently, and so would use more.
    is_short: [bool; LIMIT_COUNT],
    /// Second at which the table deletes it.
    expires_at: i64,
}

/// State of another process.
#[derive(Debug)]
struct Other {
    last: Report,
    /// Time at which its last report was seen first, by our clock; clocks are not compared.
    seen: Timestamp,
    lives: bool,
}

/// Usage of a quota by this process, and the known usage of the other ones.
#[derive(Debug, Default)]
struct Account {
    used: [Used; LIMIT_COUNT],
    others: HashMap<Id, Other>,
    /// Number of the last report, and its time.
    beat: i64,
    reported: Option<Timestamp>,
}

impl Account {
    /// Returns the limit that a caller has used up for longest, if there is one. At the beginning of a request all limits are
    /// checked; later only limits of which it needs something.
    fn used_up(&mut self, of: &Counted, caller: &str, now: Timestamp, amounts: Amounts) -> Option<UsedUp> {
        let used_up = of.quota.limits().enumerate().filter_map(|(at, (limit, most))| {
            let most = most.filter(|_| amounts.requests > 0 || amounts.of(limit.measure) > 0.0)?;
            let micros = self.wait(at, most as f64, caller, now)?;
            self.used[at].is_short = true;
            let until = Timestamp::from_micros(now.micros().saturating_add(micros)).unwrap_or(now);
            let seconds = micros.unsigned_abs().div_ceil(1_000_000).max(1);
            Some(UsedUp { owner: of.owner, limit, most, until, seconds })
        });
        used_up.min_by_key(|used_up| Reverse(used_up.until))
    }

    /// Returns the microseconds that a caller must wait for a limit, if any.
    fn wait(&mut self, at: usize, most: f64, caller: &str, now: Timestamp) -> Option<i64> {
        let living = || self.others.values().filter(|other| other.lives).map(|other| &other.last);
        let processes = 1.0 + living().count() as f64;
        let used = &mut self.used[at];
        match LIMITS[at].span {
            Span::Second => {
                // An even part of the limit for this process, or more if others use less.
                let (short, content): (Vec<_>, Vec<_>) = living().partition(|other| other.is_short[at]);
                let content: u64 = content.iter().map(|other| other.used[at]).sum();
                let rate = ((most - content as f64) / (1.0 + short.len() as f64)).max(most / processes);
                used.pay(rate, now.micros());
                let owed = *used.callers.get(used.name(caller))?;
                let part = rate / used.callers.len() as f64;
                (owed >= part).then(|| ((owed - part) / part * SECOND_MICROS as f64) as i64 + 1)
            }
            Span::Day => {
                let others = self.others.values().filter(|other| other.last.day == now.day());
                let elsewhere: u64 = others.map(|other| other.last.used[at]).sum();
                let all = used.of_day(now) + elsewhere as f64;
                let own = used.callers.get(caller).copied().unwrap_or_default();
                let before = used.before.keys().filter(|caller| !used.callers.contains_key(*caller));
                let callers = used.callers.len() + before.count();
                let has_its_part = callers > 1 && own >= most / callers as f64 / processes;
                let is_used_up = all >= most || (has_its_part && all >= most * (1.0 - KEPT));
                is_used_up.then(|| DAY_MICROS - now.micros().rem_euclid(DAY_MICROS))
            }
        }
    }

    fn count(&mut self, of: &Counted, caller: &Arc<str>, amounts: Amounts) {
        for ((limit, most), used) in of.quota.limits().zip(&mut self.used) {
            let amount = amounts.of(limit.measure);
            if most.is_some() && amount > 0.0 {
                let name = if used.name(caller).is_empty() { Arc::from("") } else { Arc::clone(caller) };
                *used.callers.entry(name).or_default() += amount;
                used.recent += amount;
            }
        }
    }

    /// Returns the next report, when it is due.
    fn report(&mut self, process: &Id, now: Timestamp) -> Option<Report> {
        let passed = self.reported.map_or(REPORT_MICROS, |at| now.micros() - at.micros());
        if (0..REPORT_MICROS).contains(&passed) {
            return None;
        }
        let seconds = passed.max(REPORT_MICROS) as f64 / SECOND_MICROS as f64;
        self.beat += 1;
        self.reported = Some(now);
        let is_short = self.used.each_mut().map(|used| mem::take(&mut used.is_short));
        let used = array::from_fn(|at| {
            let recent = mem::take(&mut self.used[at].recent) / seconds;
            let used = if LIMITS[at].span == Span::Second { recent } else { self.used[at].of_day(now) };
            used.ceil() as u64
        });
        let expires_at = now.plus_seconds(REPORT_KEPT_SECONDS).micros().div_euclid(SECOND_MICROS);
        Some(Report { process: process.clone(), day: now.day(), beat: self.beat, used, is_short, expires_at })
    }

    /// Records the reports of other processes. A process whose number stands still is not alive.
    fn learn(&mut self, reports: Vec<Report>, now: Timestamp) {
        let mut known = mem::take(&mut self.others);
        for last in reports {
            let (seen, lives) = match known.remove(&last.process) {
                // A report that an ended process left is seen for the first time, too: the process is alive when its number
                // grows.
                None => (now, last.beat == 1),
                Some(before) if before.last.beat < last.beat => (now, true),
                Some(before) => {
                    let quiet = now.micros() - before.seen.micros();
                    (before.seen, before.lives && (0..LIVES_MICROS).contains(&quiet))
                }
            };
            self.others.insert(last.process.clone(), Other { last, seen, lives });
        }
    }
}

/// Usage of a limit.
#[derive(Debug, Default)]
struct Used {
    /// Amounts by caller: for a limit of a second the usage that it has not made up for yet, for one of a day that of the day.
    callers: HashMap<Arc<str>, f64>,
    /// Callers of the day before.
    before: HashMap<Arc<str>, f64>,
    /// Time until which a limit of a second was paid back, or the day of one of a day.
    at: i64,
    /// Usage since the last report, and if it was used up since.
    recent: f64,
    is_short: bool,
}

impl Used {
    /// Name of a caller, or the common name of all for whom there is no room.
    fn name<'a>(&self, caller: &'a str) -> &'a str {
        if self.callers.len() < MAX_CALLERS || self.callers.contains_key(caller) { caller } else { "" }
    }

    /// Pays back the debts that a limit of a second has made up for, evenly to all who owe: a caller that owes less than its part
    /// leaves the rest to those who owe more. So in the long run no more than the limit is used, a caller that asks for less than
    /// an even part never waits long, and the part that it leaves goes to the rest.
    fn pay(&mut self, rate: f64, now: i64) {
        let mut left = (now - self.at).max(0) as f64 / SECOND_MICROS as f64 * rate;
        self.at = now;
        let mut amounts: Vec<f64> = self.callers.values().copied().collect();
        amounts.sort_unstable_by(f64::total_cmp);
        let (mut each, mut count) = (0.0, amounts.len());
        for amount in amounts {
            let needed = (amount - each) * count as f64;
            if needed > left {
                each += left / count as f64;
                break;
            }
            (left, each, count) = (left - needed, amount, count - 1);
        }
        self.callers.retain(|_, owed| {
            *owed -= each;
            *owed > 0.0
        });
    }

    /// Returns the usage of a limit of a day. A new day begins without any; a clock that goes back begins none.
    fn of_day(&mut self, now: Timestamp) -> f64 {
        let day = now.micros().div_euclid(DAY_MICROS);
        if day > self.at {
            let callers = mem::take(&mut self.callers);
            self.before = if day == self.at + 1 { callers } else { HashMap::new() };
            self.at = day;
        }
        self.callers.values().sum()
    }
}

#[cfg(test)]
mod tests {
    //! Quotas in simulated time: one process, several processes on one table, and callers that send without pause.

    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicI64, Ordering},
    };

    use ::tests::{
        engine::{Engine, Fresh},
        on_both_engines,
    };
    use event::Timestamp;

    use super::*;

    /// Time of one step of a test.
    const STEP_MICROS: i64 = 20_000;

    /// Processes on one table, each with a clock of its own that is wrong by some hours, and the time that passes for all.
    struct House {
        table: Arc<dyn Table>,
        time: Arc<AtomicI64>,
        workspace: Id,
        token: Option<TokenQuota>,
        _fresh: Fresh,
    }

    impl House {
        async fn on(engine: Engine) -> Self {
            let time = Arc::new(AtomicI64::new(Timestamp::parse("2026-06-10T12:00:00Z").unwrap().micros()));
            let fresh = engine.fresh(clock(&time, 0)).await;
            let workspace = Id::new(Timestamp::default());
            Self { table: Arc::clone(&fresh.table), workspace, token: None, time, _fresh: fresh }
        }

        async fn set(&self, name: &str, most: Option<u64>) {
            let catalog = Catalog::new(Arc::clone(&self.table));
            let set = |settings: &mut catalog::Settings| settings.quota.set(name, most).unwrap();
            catalog.change_settings(&self.workspace, set).await.unwrap();
        }

        fn process(&self, wrong_by_minutes: i64) -> Quotas {
            Quotas::new(Arc::clone(&self.table), clock(&self.time, wrong_by_minutes * 60_000_000))
        }

        async fn take(&self, process: &Quotas, caller: &str, amounts: Amounts) -> Result<(), UsedUp> {
            let charge = process.charge(&self.workspace, self.token.as_ref(), caller.into()).await.unwrap();
            process.take(&charge, amounts).await
        }

        fn pass(&self, micros: i64) {
            self.time.fetch_add(micros, Ordering::SeqCst);
        }

        /// Lets each caller send rows through its process for some seconds: by its name, the number of rows per second, one by one.
        /// Returns the rows per second that each got.
        async fn rush(&self, seconds: i64, callers: &[(&Quotas, &str, u64)]) -> Vec<f64> {
            let mut got = vec![0u64; callers.len()];
            let mut asked = vec![0.0; callers.len()];
            for _ in 0..seconds * 1_000_000 / STEP_MICROS {
                for (at, (process, caller, rate)) in callers.iter().enumerate() {
                    asked[at] += *rate as f64 * STEP_MICROS as f64 / 1e6;
                    while asked[at] >= 1.0 {
                        asked[at] -= 1.0;
                        let rows = Amounts { requests: 1, rows: 1, bytes: 10 };
                        got[at] += u64::from(self.take(process, caller, rows).await.is_ok());
                    }
                }
                // Reports are written and read by tasks, each of which holds the accounts of its process.
                while callers.iter().any(|(process, ..)| Arc::strong_count(&process.accounts) > 1) {
                    tokio::task::yield_now().await;
                }
                self.pass(STEP_MICROS);
            }
            got.into_iter().map(|got| got as f64 / seconds as f64).collect()
        }
    }

    fn clock(time: &Arc<AtomicI64>, ahead: i64) -> Clock {
        let time = Arc::clone(time);
        Clock::from_fn(move || Timestamp::from_micros(time.load(Ordering::SeqCst) + ahead).unwrap())
    }

    fn rows(rows: u64) -> Amounts {
        Amounts { requests: 1, rows, bytes: rows * 10 }
    }

    fn is_near(got: f64, expected: f64) -> bool {
        (expected * 0.8..=expected * 1.2).contains(&got)
    }

    on_both_engines!(
        House::on:
        large_append_delays_the_next_by_its_excess,
        greedy_caller_gets_only_the_rest_of_quota,
        large_append_does_not_delay_other_callers,
        daily_quota_reserves_a_part_for_late_callers,
        a_token_has_a_quota_of_its_own,
        a_request_is_not_refused_for_itself,
        processes_share_a_limit_within_a_fifth,
        quota_shares_follow_processes_that_come_and_go,
        daily_quota_spans_processes_and_restarts,
        many_callers_are_counted_in_bounded_memory,
    );

    async fn large_append_delays_the_next_by_its_excess(house: House) {
        house.set("rows_per_second", Some(100)).await;
        let process = house.process(0);
        house.take(&process, "a", rows(1_000)).await.unwrap();
        let used_up = house.take(&process, "a", rows(1)).await.unwrap_err();
        assert_eq!(
            (used_up.seconds, used_up.to_string().as_str()),
            (
                10,
                "the quota `rows_per_second` of this workspace, 100, is used up for this caller until \
                 2026-06-10T12:00:09.000001Z; nothing was stored"
            )
        );
        house.pass(8_900_000);
        assert!(house.take(&process, "a", rows(1)).await.is_err());
        house.pass(200_000);
        house.take(&process, "a", rows(1)).await.unwrap();
    }

    async fn greedy_caller_gets_only_the_rest_of_quota(house: House) {
        house.set("rows_per_second", Some(100)).await;
        let process = house.process(0);
        let one = house.rush(20, &[(&process, "abuser", 5_000)]).await;
        assert!(is_near(one[0], 100.0), "alone it has all: {one:?}");
        let both = house.rush(20, &[(&process, "abuser", 5_000), (&process, "modest", 20)]).await;
        assert_eq!(both[1], 20.0, "who asks for less than an even part is never refused");
        assert!(is_near(both[0], 80.0), "{both:?}");
        let three =
            house.rush(20, &[(&process, "a", 5_000), (&process, "b", 300), (&process, "c", 5_000)]).await;
        assert!(three.iter().all(|got| is_near(*got, 33.3)), "an even part for each: {three:?}");
    }

    async fn large_append_does_not_delay_other_callers(house: House) {
        house.set("rows_per_second", Some(100)).await;
        let process = house.process(0);
        house.take(&process, "abuser", rows(50_000)).await.unwrap();
        let modest = house.rush(20, &[(&process, "modest", 40)]).await;
        assert_eq!(modest, [40.0]);
    }

    async fn daily_quota_reserves_a_part_for_late_callers(house: House) {
        house.set("requests_per_day", Some(100)).await;
        let process = house.process(0);
        let until_refused = async |caller: &str| {
            let mut got = 0;
            while house.take(&process, caller, rows(1)).await.is_ok() {
                got += 1;
            }
            got
        };
        assert_eq!(until_refused("abuser").await, 100, "alone it has all");
        assert_eq!(until_refused("late").await, 0, "who comes first when all is used has nothing");
        house.pass(24 * 60 * 60 * 1_000_000);
        house.take(&process, "late", rows(1)).await.unwrap();
        assert_eq!(until_refused("abuser").await, 79, "it is known since yesterday that there are others");
        assert_eq!(until_refused("late").await, 20);
        let used_up = house.take(&process, "late", rows(1)).await.unwrap_err();
        assert_eq!((used_up.seconds, used_up.until.to_string().as_str()), (43_200, "2026-06-12T00:00:00Z"));
    }

    async fn a_token_has_a_quota_of_its_own(mut house: House) {
        house.set("rows_per_second", None).await;
        let mut quota = Quota::default();
        quota.set("bytes_per_day", Some(100)).unwrap();
        house.token = Some(TokenQuota { token: Id::new(Timestamp::default()), quota });
        let process = house.process(0);
        house.take(&process, "t", rows(10)).await.unwrap();
        let used_up = house.take(&process, "t", rows(1)).await.unwrap_err();
        assert!(
            used_up.to_string().starts_with("the quota `bytes_per_day` of this token, 100,"),
            "{used_up}"
        );
        house.token = None;
        house.take(&process, "t", rows(1)).await.unwrap();
    }

    /// A request is checked as a whole at its beginning, and its rows when they are known: it does not block itself.
    async fn a_request_is_not_refused_for_itself(house: House) {
        house.set("requests_per_second", Some(1)).await;
        house.set("rows_per_second", Some(5)).await;
        let process = house.process(0);
        house.take(&process, "a", Amounts { requests: 1, ..Amounts::default() }).await.unwrap();
        house.take(&process, "a", Amounts { rows: 5, ..Amounts::default() }).await.unwrap();
        assert!(house.take(&process, "a", Amounts { requests: 1, ..Amounts::default() }).await.is_err());
    }

    /// Several processes, whose clocks are wrong, share a limit of a second however unevenly requests come to them.
    async fn processes_share_a_limit_within_a_fifth(mut house: House) {
        for rates in [vec![1_000, 1_000, 1_000], vec![1_000, 5, 0], vec![70, 20, 60, 30], vec![0, 0, 400]] {
            house.workspace = Id::new(Timestamp::default());
            house.set("rows_per_second", Some(100)).await;
            let processes: Vec<Quotas> = (0..rates.len()).map(|n| house.process(n as i64 * 7 - 7)).collect();
            let callers: Vec<(&Quotas, &str, u64)> =
                processes.iter().zip(&rates).map(|(process, rate)| (process, "a", *rate)).collect();
            house.rush(10, &callers).await;
            let got = house.rush(40, &callers).await;
            assert!(is_near(got.iter().sum(), 100.0), "asked {rates:?}, got {got:?}");
        }
    }

    async fn quota_shares_follow_processes_that_come_and_go(house: House) {
        house.set("rows_per_second", Some(100)).await;
        let (one, two) = (house.process(0), house.process(3));
        assert!(is_near(house.rush(20, &[(&one, "a", 900)]).await[0], 100.0));
        let both = house.rush(40, &[(&one, "a", 900), (&two, "a", 900)]).await;
        assert!(both.iter().all(|got| is_near(*got, 50.0)), "{both:?}");
        drop(two);
        house.rush(10, &[(&one, "a", 900)]).await;
        assert!(is_near(house.rush(20, &[(&one, "a", 900)]).await[0], 100.0));
        // A restarted process begins with no more than the rest of the limit.
        let again = house.process(0);
        house.rush(6, &[(&one, "a", 900), (&again, "a", 900)]).await;
        let both = house.rush(20, &[(&one, "a", 900), (&again, "a", 900)]).await;
        assert!(is_near(both.iter().sum(), 100.0), "{both:?}");
    }

    async fn daily_quota_spans_processes_and_restarts(house: House) {
        house.set("rows_per_day", Some(1000)).await;
        let (one, two) = (house.process(0), house.process(0));
        let got = house.rush(30, &[(&one, "a", 100), (&two, "a", 10)]).await;
        let got: f64 = got.iter().map(|got| got * 30.0).sum();
        assert!((1000.0..=1200.0).contains(&got), "{got}");
        drop((one, two));
        let again = house.process(0);
        let used_up = house.take(&again, "a", rows(1)).await.unwrap_err();
        assert!(used_up.to_string().contains("rows_per_day"), "{used_up}");
    }

    async fn many_callers_are_counted_in_bounded_memory(house: House) {
        house.set("rows_per_second", Some(1000)).await;
        let process = house.process(0);
        let mut got = BTreeMap::<bool, u64>::new();
        for n in 0..10_000 {
            let taken = house.take(&process, &format!("192.0.2.{n}"), rows(100)).await.is_ok();
            *got.entry(taken).or_default() += 1;
        }
        assert!(
            got[&true] <= MAX_CALLERS as u64 + 1,
            "those for whom there is no room are counted as one: {got:?}"
        );
    }
}
