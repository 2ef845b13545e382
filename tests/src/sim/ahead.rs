//! A machine with a file, whose clock is the only one: in a history in which late, undated, repeated and retracted events come together, it is hours or months
//! ahead now and then while a worker starts, or is set ahead while one works, and is set right minutes later. What was decided meanwhile of instants that had not
//! come is decided again: in the end all is as if the clock had always been right.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use catalog::{AlertRuleBody, Catalog, Challenges, Webhook, Workspace, judged_rules};
use event::{Day, Kind, Result, Timestamp};
use fold::{alert::State, maturity::AGES};
use ingest::{Ingest, Remember, SubmitError, json::read_ndjson};
use log::{
    key, rollup_vintage,
    segment_item::CLOSED_AFTER_SECONDS,
    store::Store,
    unmatched,
    vintage::{self, VintageUntil},
};
use projector::{Options, Projector, verify::verify};
use table::{Query, Table, query_all};
use tokio::{task::JoinHandle, time::sleep};

use super::{
    erasing::{
        batches,
        judged::parsed,
        naive::{self, Row},
    },
    process::{Admission, Process},
    random::Random,
    resolving::{self, Judging, UNDATED},
    world::World,
};
use crate::{
    decided::ByIngest,
    register::register,
    scene::csv,
    webhook_sender::{Does, Receiver},
};

/// When the history begins, in hours before that of the world: some days after the first events happened.
const BEGIN_HOURS: i64 = -60;

/// For how many hours events come, and how many are left until the end.
const HOURS: u64 = 30;
const LAST_HOURS: u64 = 22;

/// Calm enough for days to go by quickly.
const PERIOD: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(15 * 60);

/// By which time of the day there must be predictions.
const BY: (&str, i64) = ("06:00", 6);

/// In which hour there are some, every other day.
const HOUR: i64 = 3;

/// By how much a clock is ahead that is far ahead: more than an outcome waits.
const MONTHS_SECONDS: i64 = 91 * 24 * 60 * 60;

/// Maximum tries of a batch before the simulation gives up.
const MAX_TRIES: usize = 500;

/// One call in so many fails.
const FAULTS: u64 = 2_000;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Violations found.
    pub violations: Vec<String>,
    /// Number of times that the clock was ahead.
    pub episodes: u64,
    /// Number of vintages in the end.
    pub vintages: usize,
    /// Number of outcomes that wait in the end.
    pub waiting: usize,
    /// Number of deliveries.
    pub posted: usize,
    /// Numbers of events that were repeated, retracted, or came without a date.
    pub odd: [usize; 3],
}

struct Scene {
    seed: u64,
    world: Arc<World>,
    random: Random,
    workspace: Workspace,
    receiver: Arc<Receiver>,
    worker: JoinHandle<()>,
    tables: u64,
    out: Ahead,
}

/// Runs a seed.
///
/// # Panics
/// When there can be no runtime.
pub fn ahead(seed: u64) -> Ahead {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(run(seed)).expect("a table in memory")
}

async fn run(seed: u64) -> Result<Ahead> {
    let world = World::new();
    world.ahead.store(BEGIN_HOURS * 3_600, Ordering::Relaxed);
    let setup = table(&world, (seed, 0));
    let workspace = register(&setup, "sim/one", &["v1", "v2"], world.clock.now()).await;
    let mut scene = Scene {
        seed,
        random: Random::new(seed.wrapping_add(9 << 32)),
        workspace,
        receiver: Arc::new(Receiver::that(|_| Does::Takes)),
        worker: tokio::spawn(async {}),
        world,
        tables: 0,
        out: Ahead::default(),
    };
    scene.watch(&setup).await?;
    scene.start();
    scene.world.faults.store(FAULTS, Ordering::Relaxed);
    let ingest = Ingest::new(table(&scene.world, (seed, 1)), scene.world.clock.clone());
    for number in 0..HOURS {
        scene.send(&ingest, number).await;
        // In this hour a day begins, or outcomes could have waited for long enough.
        if number == HOURS / 2 || scene.random.hits(8) {
            scene.episode().await;
        }
        sleep(Duration::from_secs(1_800 + scene.random.below(1_800))).await;
    }
    scene.world.faults.store(0, Ordering::Relaxed);
    sleep(Duration::from_secs(LAST_HOURS * 3_600)).await;
    scene.judge(&setup).await?;
    scene.worker.abort();
    Ok(scene.out)
}

fn table(world: &Arc<World>, (seed, number): (u64, u64)) -> Arc<dyn Table> {
    let seed = seed.wrapping_mul(1_000).wrapping_add(number);
    let table = Process::new(Arc::clone(world), seed, &number.to_string(), Arc::<Admission>::default(), None);
    Store::over(Arc::new(table))
}

impl Scene {
    /// Has told when there are no predictions, and what happened each day.
    async fn watch(&self, table: &Arc<dyn Table>) -> Result<()> {
        let rule = AlertRuleBody {
            name: "late".to_owned(),
            missing: Some("predictions".to_owned()),
            by: Some(BY.0.to_owned()),
            ..AlertRuleBody::default()
        };
        let webhook = Webhook {
            name: "chat".to_owned(),
            url: Some("https://chat.example/".to_owned()),
            digest: Some("07:00".to_owned()),
            ..Webhook::default()
        };
        let now = self.world.clock.now();
        Catalog::new(Arc::clone(table))
            .apply_alerts(self.workspace.id(), vec![rule], vec![webhook], now)
            .await
            .map(drop)
    }

    /// Starts a worker in the place of the one before, which dies.
    fn start(&mut self) {
        self.worker.abort();
        self.tables += 1;
        let (table, clock) = (table(&self.world, (self.seed, 10 + self.tables)), self.world.clock.clone());
        let append = ByIngest::new(Ingest::new(Arc::clone(&table), clock.clone()));
        let options = Options {
            worker: format!("p{}", self.tables),
            period: PERIOD,
            sweep_every: SWEEP_EVERY,
            sender: Some(Arc::clone(&self.receiver) as _),
            append: Some(Arc::new(append)),
            compacts: false,
            ..Options::new(clock)
        };
        self.worker = tokio::spawn(async move {
            let running = Projector::new(table, options);
            running.run(std::future::pending()).await.expect("a projector that goes on");
        });
    }

    /// The clock is ahead for some minutes, while a worker starts or one works; the same one or the next sees it right.
    async fn episode(&mut self) {
        self.out.episodes += 1;
        let lead = match self.random.hits(2) {
            true => MONTHS_SECONDS,
            false => 3_600 * (1 + self.random.below(20) as i64),
        };
        self.world.ahead.fetch_add(lead, Ordering::Relaxed);
        if !self.random.hits(3) {
            self.start();
        }
        sleep(Duration::from_secs(self.random.below(20 * 60))).await;
        let dies = self.random.hits(2);
        if dies {
            self.worker.abort();
        }
        self.world.ahead.fetch_sub(lead, Ordering::Relaxed);
        if dies {
            sleep(Duration::from_secs(self.random.below(600))).await;
            self.start();
        }
    }

    /// Sends a batch until it is acknowledged, and now and then again under another name; every other day in one hour a prediction of now.
    async fn send(&mut self, ingest: &Ingest, number: u64) {
        let batch = batches::draw(&self.random, (1, number));
        // Each outcome without a date is known by its label, and comes once.
        let is_again = self.random.hits(4) && !batch.body.contains(&format!(r#""label":"{UNDATED}"#));
        let retracted = batch.body.matches(r#""retracted""#).count();
        let undated = batch.body.matches(&format!(r#""label":"{UNDATED}"#)).count();
        let more = [usize::from(is_again) * batch.keys.len(), retracted, undated];
        self.out.odd.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        self.submit(ingest, (batch.kind, &batch.body), batch.idempotency_key.as_deref()).await;
        if is_again {
            self.submit(ingest, (batch.kind, &batch.body), Some(&format!("again-{number}"))).await;
        }
        let now = self.world.clock.now();
        if has_predictions(now.day()) && hour(now) == HOUR {
            let row =
                format!(r#"{{"key":"live-{number}","predicted_at":"{now}","release":"v1","score":0.5}}"#);
            self.submit(ingest, (Kind::Predictions, &row), None).await;
        }
    }

    async fn submit(&self, ingest: &Ingest, (kind, body): (Kind, &str), name: Option<&str>) {
        for _ in 0..MAX_TRIES {
            let batch = read_ndjson(kind, body.as_bytes(), self.world.clock.now()).expect("good rows");
            match ingest.submit(&self.workspace, batch, name, Remember::Week).await {
                Ok(_) => return,
                Err(SubmitError::Store(error)) => {
                    assert!(error.may_pass() || error.is_conflict(), "{error}");
                }
                Err(error) => panic!("{body}: {error}"),
            }
        }
        panic!("{body} is never acknowledged");
    }

    fn violated(&mut self, what: String) {
        self.out.violations.push(what);
    }

    async fn judge(&mut self, table: &Arc<dyn Table>) -> Result<()> {
        if self.worker.is_finished() {
            self.violated("the worker has ended".to_owned());
        }
        let report = verify(table, self.workspace.id(), |_, _| ()).await?;
        report.faults.iter().for_each(|fault| self.violated(fault.clone()));
        let undone: Vec<String> = {
            let state = self.world.lock();
            let all = state.items.values().filter(|stored| stored.item.key.to_string().contains("undone"));
            all.map(|stored| format!("{:?}", stored.item)).collect()
        };
        undone.into_iter().for_each(|what| self.violated(what));
        let segments = naive::segments(&self.world)?;
        let rows = segments.iter().map(|both| naive::rows(&both.appended));
        let rows: Vec<Row> = rows.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        self.joined(table, &rows).await?;
        self.vintages(table, &rows).await?;
        self.outcomes(table).await?;
        self.alerts(table, &rows).await?;
        self.posted(table).await
    }

    /// Joined rows are those of the oracle, also as of the ages of days.
    async fn joined(&mut self, table: &Arc<dyn Table>, rows: &[Row]) -> Result<()> {
        let query = query::Query::new(Arc::clone(table), self.world.clock.clone());
        let now = self.world.clock.now();
        let closed = now.plus_seconds(-CLOSED_AFTER_SECONDS);
        let days: BTreeSet<Day> = rows.iter().map(|row| row.day).collect();
        let ages = days.iter().flat_map(|day| AGES.iter().filter_map(|age| age.of(*day)));
        for as_of in ages.filter(|at| *at <= closed).chain([now]).collect::<BTreeSet<_>>() {
            let text = as_of.to_string();
            let words = query::Params {
                from: "2026-06-01",
                to: "2026-06-12",
                as_of: (as_of != now).then_some(text.as_str()),
                columns: Some("key,score,outcome_value"),
                ..query::Params::default()
            };
            let request = query::Request::parse(query::Dataset::Joined, &words)?;
            let answer = csv(query.run(self.workspace.id(), &request).await?);
            // Events appended by a clock that was ahead are there all the same.
            let known: Vec<&Row> =
                rows.iter().filter(|row| as_of == now || row.appended_at <= as_of).collect();
            if parsed(&answer)? != naive::joined(&known) {
                self.violated(format!("joined as of {text}: {answer:?}, not {:?}", naive::joined(&known)));
            }
        }
        Ok(())
    }

    /// Each day that had something when it had an age is kept as it stood then, and none is that has not had one. That what is kept is right, `verify` says.
    async fn vintages(&mut self, table: &Arc<dyn Table>, rows: &[Row]) -> Result<()> {
        let (now, workspace) = (self.world.clock.now(), self.workspace.id().clone());
        let until = VintageUntil::load(&**table, &workspace).await?.expect("vintages are made").at;
        if until > now {
            self.violated(format!("vintages are made up to {until} at {now}"));
        }
        let (from, to) = ("2026-05-01".parse()?, "2027-06-01".parse()?);
        let evaluations = vintage::between(&**table, &workspace, from, to).await?;
        let rollups = rollup_vintage::between(&**table, &workspace, from, to).await?;
        for day in rows.iter().map(|row| row.day).collect::<BTreeSet<_>>() {
            let first = |kinds: &[Kind]| {
                let of_day = rows.iter().filter(|row| row.day == day && kinds.contains(&row.kind));
                of_day.map(|row| row.appended_at).min()
            };
            let wanted = |kinds: &[Kind]| -> BTreeSet<u32> {
                let known = |at: &Timestamp| first(kinds).is_some_and(|first| first <= *at);
                let is_due = |at: &Timestamp| *at <= now.plus_seconds(-3_600) && known(at);
                let ages = AGES.iter().filter(|age| age.of(day).as_ref().is_some_and(is_due));
                ages.map(|age| age.hours).collect()
            };
            let kept = [
                evaluations.get(&day).into_iter().flatten().map(|(hours, _)| *hours).collect(),
                rollups.get(&day).into_iter().flatten().map(|(hours, _)| *hours).collect::<BTreeSet<u32>>(),
            ];
            self.out.vintages += kept[0].len() + kept[1].len();
            let wanted = [wanted(&[Kind::Predictions, Kind::Outcomes]), wanted(&Kind::STORED)];
            for (kept, wanted) in kept.iter().zip(&wanted) {
                let is_early = |hours: &u32| {
                    AGES.iter().any(|age| age.hours == *hours && age.of(day).is_none_or(|at| at > now))
                };
                if !wanted.is_subset(kept) || kept.iter().any(is_early) {
                    self.violated(format!("{day} is kept at the ages {kept:?}, not {wanted:?}"));
                }
            }
        }
        Ok(())
    }

    /// None has expired, each is decided as going through all events says, and comparisons are not ahead.
    async fn outcomes(&mut self, table: &Arc<dyn Table>) -> Result<()> {
        let mut judging = Judging::default();
        resolving::judge(&self.world, table, &mut judging).await?;
        self.out.violations.append(&mut judging.violations);
        self.out.waiting = judging.came - judging.judged;
        let workspace = self.workspace.id().clone();
        for (id, decision) in unmatched::decisions_since(&**table, &workspace, Day::FIRST).await? {
            if !decision.expired.is_empty() {
                self.violated(format!("{id} says that {:?} have waited for too long", decision.expired));
            }
        }
        let now = self.world.clock.now();
        if let Some(compared) = Challenges::load(&**table, &workspace).await?
            && compared.day >= now.day()
        {
            self.violated(format!("{} is compared at {now}", compared.day));
        }
        Ok(())
    }

    /// The last day that is due is judged, and what people were told last is what it says.
    async fn alerts(&mut self, table: &Arc<dyn Table>, rows: &[Row]) -> Result<()> {
        let (now, workspace) = (self.world.clock.now(), self.workspace.id().clone());
        let due = now.plus_seconds(-BY.1 * 3_600 - 120).day();
        let judged = judged_rules(&**table, &workspace).await?;
        let judged = judged.get("late").cloned().expect("it is judged");
        let fires = judged.standing.state == State::Firing;
        let by = due.start().plus_seconds(BY.1 * 3_600);
        let has =
            rows.iter().any(|row| row.kind == Kind::Predictions && row.day == due && row.appended_at <= by);
        if judged.day != due || fires == has {
            self.violated(format!("at {now} the rule stands at {judged:?}, not at {due}"));
        }
        let transitions = Catalog::new(Arc::clone(table))
            .transitions(&workspace, Day::FIRST, "2027-06-01".parse()?, 1_000)
            .await?;
        let mut told: Vec<_> = transitions
            .iter()
            .map(|rule_transition| {
                (rule_transition.created_at, rule_transition.day, rule_transition.transition.name())
            })
            .collect();
        told.sort();
        let mut firing = false;
        for (_, day, transition) in told {
            if (transition == "fires") == firing {
                self.violated(format!("it is told that it {transition} on {day}, as before"));
            }
            firing = transition == "fires";
        }
        if firing != fires {
            self.violated(format!("people were told last that it fires: {firing}, and {judged:?}"));
        }
        Ok(())
    }

    /// Each day has one digest, of no day that is not over, and all was posted.
    async fn posted(&mut self, table: &Arc<dyn Table>) -> Result<()> {
        let (now, workspace) = (self.world.clock.now(), self.workspace.id().clone());
        let all =
            query_all(&**table, Query::table(key::deliveries(&workspace, Day::FIRST, "2027-06-01".parse()?)))
                .await?;
        for item in &all {
            if item.optional_text("state") != Some("delivered") {
                self.violated(format!("{} is {:?}", item.key, item.optional_text("state")));
            }
        }
        let mut days = BTreeMap::<Day, usize>::new();
        for item in all.iter().filter(|item| item.optional_text("of") == Some("digest")) {
            *days.entry(item.text("day")?.parse()?).or_default() += 1;
        }
        let last = now.plus_seconds(-31 * 3_600).day();
        let begin = now.plus_seconds(-((HOURS + LAST_HOURS) as i64) * 3_600).day();
        if days.keys().next_back() != Some(&last)
            || days.len() < 2
            || days.keys().any(|day| *day < begin.before().unwrap_or(begin))
        {
            self.violated(format!("at {now} the digests are of {days:?}, and the last should be of {last}"));
        }
        self.out.posted = self.receiver.got().len();
        Ok(())
    }
}

fn hour(now: Timestamp) -> i64 {
    (now.micros() - now.day().start().micros()) / 3_600_000_000
}

/// True if there are predictions of a day in time.
fn has_predictions(day: Day) -> bool {
    day.number() % 2 == 0
}
