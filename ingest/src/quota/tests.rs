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

    async fn set(&self, pair: &str) {
        let catalog = Catalog::new(Arc::clone(&self.table));
        catalog.change_quota(&self.workspace, |quota| quota.set_pair(pair)).await.unwrap();
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
    house.set("rows_per_second=100").await;
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
    house.set("rows_per_second=100").await;
    let process = house.process(0);
    let one = house.rush(20, &[(&process, "abuser", 5_000)]).await;
    assert!(is_near(one[0], 100.0), "alone it has all: {one:?}");
    let both = house.rush(20, &[(&process, "abuser", 5_000), (&process, "modest", 20)]).await;
    assert_eq!(both[1], 20.0, "who asks for less than an even part is never refused");
    assert!(is_near(both[0], 80.0), "{both:?}");
    let three = house.rush(20, &[(&process, "a", 5_000), (&process, "b", 300), (&process, "c", 5_000)]).await;
    assert!(three.iter().all(|got| is_near(*got, 33.3)), "an even part for each: {three:?}");
}

async fn large_append_does_not_delay_other_callers(house: House) {
    house.set("rows_per_second=100").await;
    let process = house.process(0);
    house.take(&process, "abuser", rows(50_000)).await.unwrap();
    let modest = house.rush(20, &[(&process, "modest", 40)]).await;
    assert_eq!(modest, [40.0]);
}

async fn daily_quota_reserves_a_part_for_late_callers(house: House) {
    house.set("requests_per_day=100").await;
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
    house.set("rows_per_second=none").await;
    let mut quota = Quota::default();
    quota.set_pair("bytes_per_day=100").unwrap();
    house.token = Some(TokenQuota { token: Id::new(Timestamp::default()), quota });
    let process = house.process(0);
    house.take(&process, "t", rows(10)).await.unwrap();
    let used_up = house.take(&process, "t", rows(1)).await.unwrap_err();
    assert!(used_up.to_string().starts_with("the quota `bytes_per_day` of this token, 100,"), "{used_up}");
    house.token = None;
    house.take(&process, "t", rows(1)).await.unwrap();
}

/// A request is checked as a whole at its beginning, and its rows when they are known: it does not block itself.
async fn a_request_is_not_refused_for_itself(house: House) {
    house.set("requests_per_second=1").await;
    house.set("rows_per_second=5").await;
    let process = house.process(0);
    house.take(&process, "a", Amounts { requests: 1, ..Amounts::default() }).await.unwrap();
    house.take(&process, "a", Amounts { rows: 5, ..Amounts::default() }).await.unwrap();
    assert!(house.take(&process, "a", Amounts { requests: 1, ..Amounts::default() }).await.is_err());
}

/// Several processes, whose clocks are wrong, share a limit of a second however unevenly requests come to them.
async fn processes_share_a_limit_within_a_fifth(mut house: House) {
    for rates in [vec![1_000, 1_000, 1_000], vec![1_000, 5, 0], vec![70, 20, 60, 30], vec![0, 0, 400]] {
        house.workspace = Id::new(Timestamp::default());
        house.set("rows_per_second=100").await;
        let processes: Vec<Quotas> = (0..rates.len()).map(|n| house.process(n as i64 * 7 - 7)).collect();
        let callers: Vec<(&Quotas, &str, u64)> =
            processes.iter().zip(&rates).map(|(process, rate)| (process, "a", *rate)).collect();
        house.rush(10, &callers).await;
        let got = house.rush(40, &callers).await;
        assert!(is_near(got.iter().sum(), 100.0), "asked {rates:?}, got {got:?}");
    }
}

async fn quota_shares_follow_processes_that_come_and_go(house: House) {
    house.set("rows_per_second=100").await;
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
    house.set("rows_per_day=1000").await;
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
    house.set("rows_per_second=1000").await;
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
