//! Judges the alert rules of workspaces: each day once, when it is due and projected. The standing of a rule after a day, its
//! crossing, the alert for followers of the workspace, and the deliveries to webhooks ([`crate::deliver`]) are one transaction,
//! under the condition that no other process has judged the day. So a crossing is recorded once, through all crashes and
//! restarts, and a decision stays when figures change later.

use std::{collections::BTreeMap, time::Duration};

use catalog::{
    Alert, AlertRule, Alerts, Catalog, ColumnOf, CountOf, CrossedRule, DriftOf, Judged, Watched, alert_item,
    judged_rules,
};
use event::{Day, Error, Id, Kind, Result, Timestamp, Window, fields::FEATURE_PREFIX};
use fold::alert::{Standing, State, Verdict, replay};
use log::{
    active,
    evaluated::{self, At},
    key::OfWorkspace,
    projection::{Applied, Projected},
    scan,
    segment_item::CLOSED_AFTER_SECONDS,
};
use table::{Condition, Key, Table, Write, unless_overtaken};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::ended::Ended;
use crate::{WorkspaceDay, deliver, early::latest, lag, lock::lock, shared::Shared};

mod ended;

/// Time between two judgements of the rules of all workspaces.
const JUDGE_EVERY: Duration = Duration::from_secs(60);

/// Time after which a worker that does not sweep checks again if it does by now, and so judges.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time to wait for a day that is due and not projected, in seconds. Then it is judged by the present projections.
pub const PATIENCE_SECONDS: i64 = 6 * 60 * 60;

/// Maximum days of a rule that are judged at once.
const DAYS_AT_ONCE: usize = 31;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Result of judging the rules of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of judged days.
    pub days: u64,
    /// Number of crossings.
    pub crossings: u64,
    /// Number of rules that fire now.
    pub firing: u64,
}

/// Judges all days of the rules of a workspace that are due by `now`, and deletes the standings of deleted rules; the end of one
/// that fired is reported. A workspace in which nothing is due takes two reads, and a few more of each rule that may fire while
/// its day goes on.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn judge(table: &dyn Table, catalog: &Catalog, workspace: &Id, now: Timestamp) -> Result<Outcome> {
    Ok(judge_and_name(table, catalog, workspace, now).await?.0)
}

/// Judges the rules, and also returns the names of those that fire.
async fn judge_and_name(
    table: &dyn Table,
    catalog: &Catalog,
    workspace: &Id,
    now: Timestamp,
) -> Result<(Outcome, Vec<String>)> {
    // Read in this order: a standing without a rule then belongs to a deleted one.
    let judged = judged_rules(table, workspace).await?;
    let alerts = catalog.alerts(workspace).await?;
    if alerts.rules.iter().any(|rule| matches!(rule.watched, Watched::Lag(_))) {
        lag::note(table, workspace, now.plus_seconds(-CLOSED_AFTER_SECONDS)).await?;
    }
    let (mut outcome, mut firing, mut failed) = (Outcome::default(), Vec::new(), BTreeMap::new());
    let mut known = BTreeMap::new();
    for (name, judged) in judged {
        let rule = alerts.rules.iter().find(|rule| rule.name() == name);
        let is_early = match rule.filter(|rule| judged.is_of(rule)) {
            Some(rule) if !is_early(rule, &judged, latest(table, now)) => {
                known.insert(name, judged);
                continue;
            }
            rule => rule.is_some(),
        };
        let why = if is_early { EARLY } else { "the rule was deleted while it fired" };
        let ended = Ended { table, workspace, alerts: &alerts, name: &name, why, now };
        match ended.settle(judged, rule.is_some()).await {
            Ok((judged, is_told)) => {
                outcome.crossings += u64::from(is_told);
                let again = rule.filter(|_| is_early);
                let again = again.map(|rule| begin_again(table, workspace, rule, (judged, now)));
                known.insert(
                    name,
                    match again {
                        Some(again) => again.await?,
                        None => judged,
                    },
                );
            }
            // Other rules are judged all the same.
            Err(error) => _ = failed.insert(name, error),
        }
    }
    for rule in alerts.rules.iter().filter(|rule| !failed.contains_key(rule.name())) {
        let judged = known.get(rule.name()).copied();
        let since =
            judged.filter(|judged| judged.is_of(rule)).map_or(rule.created_at, |judged| judged.created_at);
        let rule = &AlertRule { created_at: since, ..rule.clone() };
        let judge = Judge { table, catalog, workspace, alerts: &alerts, rule, now };
        let state = judge.days(judged, &mut outcome).await?;
        firing.extend((state == State::Firing).then(|| rule.name().to_owned()));
    }
    outcome.firing = firing.len() as u64;
    match failed.into_values().next() {
        None => Ok((outcome, firing)),
        Some(error) => Err(error),
    }
}

/// Reason reported to all who were notified that a rule fires.
const EARLY: &str = "it was judged before its day was over, by a clock that was ahead";

/// Returns whether a clock that was ahead has judged a rule: the day is not over by the latest clock, unless a value above the
/// threshold stays there.
fn is_early(rule: &AlertRule, judged: &Judged, latest: Timestamp) -> bool {
    let is_breached = matches!(judged.standing.state, State::Firing | State::Pending);
    let goes_on = rule.only_rises() && is_breached && judged.day.start() <= latest;
    rule.due(judged.day) > latest && !goes_on
}

/// Resets the standing of a rule in its item, so that it is judged from now on as a new one. Returns the new standing.
async fn begin_again(
    table: &dyn Table,
    workspace: &Id,
    rule: &AlertRule,
    (judged, now): (Judged, Timestamp),
) -> Result<Judged> {
    let first = first_day(&AlertRule { created_at: now, ..rule.clone() });
    let (ver, day) = (judged.ver + 1, first.before().unwrap_or(first));
    let again = Judged { ver, created_at: now, day, standing: Standing::default() };
    let put = table.put(again.to_item(workspace, rule.name()), Condition::unchanged(judged.ver)).await;
    if unless_overtaken(put)?.is_some() {
        tracing::warn!(%workspace, rule = rule.name(), day = %judged.day, "a clock that was ahead had judged this day; the rule is judged again");
    }
    // An overtaken worker writes nothing either.
    Ok(again)
}

/// First day that is due after a rule was created.
fn first_day(rule: &AlertRule) -> Day {
    let early = rule.created_at.plus_seconds(-i64::from(rule.delay_days + 2) * DAY_SECONDS).day();
    // A rule of absence at a time of its day may be created after that time; then the next day is the first one due.
    let late = rule.created_at.plus_seconds(DAY_SECONDS).day();
    let window = Window::new(early, late).unwrap_or(Window::of(late));
    window.days().find(|day| rule.due(*day) > rule.created_at).unwrap_or(late)
}

impl Shared {
    /// Judges the rules of all workspaces that have some; a failure becomes a dead letter of the workspace.
    async fn judge_all(&self) -> Result<()> {
        let mut firing = Vec::new();
        for workspace in self.catalog.watched_workspaces().await? {
            let judging = self.judge_one(&workspace);
            firing.extend(self.noted(&workspace, OfWorkspace::Alerts, judging).await?.unwrap_or_default());
        }
        *lock(&self.stats.firing) = Some(firing);
        Ok(())
    }

    /// Judges the rules of a workspace; returns those that fire.
    async fn judge_one(&self, workspace: &Id) -> Result<Vec<FiringRule>> {
        let (_, firing) = judge_and_name(&*self.table, &self.catalog, workspace, self.now()).await?;
        if firing.is_empty() {
            return Ok(Vec::new());
        }
        let path = self.catalog.workspace(&workspace.to_string()).await?.path;
        Ok(firing.into_iter().map(|rule| FiringRule { workspace: path.clone(), rule }).collect())
    }
}

/// Judges forever, in the one worker that sweeps periodically.
pub(crate) async fn run(shared: &Shared) -> Result<()> {
    let began = Instant::now();
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Beginning of the last round: the period runs from there, however long a round takes.
    let mut judged_at: Option<Instant> = None;
    loop {
        look.tick().await;
        if !shared.has_sweep_lease() {
            judged_at = None;
            // A worker that has just begun may come to judge, and does not know the firing rules yet.
            let firing = &mut *lock(&shared.stats.firing);
            if firing.is_some() || began.elapsed() >= JUDGE_EVERY {
                *firing = Some(Vec::new());
            }
            continue;
        }
        if judged_at.is_some_and(|at| at.elapsed() < JUDGE_EVERY) {
            continue;
        }
        judged_at = Some(Instant::now());
        match shared.judge_all().await {
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "the table is not available; alert rules are judged later");
            }
            judged => judged?,
        }
    }
}

/// Reason to judge a day now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ripe {
    /// The day is due.
    Due,
    /// The day goes on, and is judged when the threshold is passed, which is final.
    IfBreached,
}

/// Alert rule that fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiringRule {
    /// Path of its workspace.
    pub workspace: String,
    /// Name of the rule.
    pub rule: String,
}

/// Judge of one rule.
struct Judge<'a> {
    table: &'a dyn Table,
    catalog: &'a Catalog,
    workspace: &'a Id,
    alerts: &'a Alerts,
    rule: &'a AlertRule,
    now: Timestamp,
}

impl Judge<'_> {
    /// Judges the days that are due; returns the state of the rule after that.
    async fn days(&self, judged: Option<Judged>, outcome: &mut Outcome) -> Result<State> {
        let ver = judged.map_or(0, |judged| judged.ver);
        let judged = judged.filter(|judged| judged.created_at == self.rule.created_at);
        let mut standing = judged.map_or(Standing::default(), |judged| judged.standing);
        let mut next = match judged {
            Some(judged) => judged.day.next(),
            None => Some(first_day(self.rule)),
        };
        let closed = self.now.plus_seconds(-CLOSED_AFTER_SECONDS);
        for ver in (ver..).take(DAYS_AT_ONCE) {
            let Some(day) = next else { break };
            let Some(ripe) = self.ripe(day, closed) else { break };
            let Some(cut) = self.projected(day, ripe).await? else { break };
            let Some((after, has_crossed)) = self.day(day, standing, (ver, ripe), cut).await? else { break };
            standing = after;
            outcome.days += 1;
            outcome.crossings += u64::from(has_crossed);
            next = day.next();
        }
        Ok(standing.state)
    }

    /// Returns why a day can be judged now: it is due, or it has begun and a value above the threshold stays there. `None`, when it
    /// cannot.
    fn ripe(&self, day: Day, closed: Timestamp) -> Option<Ripe> {
        match self.rule.due(day) <= closed {
            true => Some(Ripe::Due),
            false => (self.rule.only_rises() && day.start() <= closed).then_some(Ripe::IfBreached),
        }
    }

    /// Time of the judgement of a day: now, and microseconds later for each later day, so that alerts have an order.
    fn at(&self, day: Day) -> Timestamp {
        let days = i64::from(day.number() - self.rule.created_at.day().number());
        Timestamp::from_micros(self.now.micros() + days).unwrap_or(self.now)
    }

    /// Judges a day. Returns the standing of the rule after it, and its crossing. `None`, when another process has judged it, or
    /// when it goes on and nothing is decided yet.
    async fn day(
        &self,
        day: Day,
        standing: Standing,
        (ver, ripe): (i64, Ripe),
        cut: Applied,
    ) -> Result<Option<(Standing, bool)>> {
        let (rule, workspace) = (self.rule, self.workspace);
        let before = i64::from(rule.look_back());
        let first = day.start().plus_seconds(-before * DAY_SECONDS).day();
        let days = self.catalog.readings(workspace, rule, Window::new(first, day)?).await?;
        let judged = replay(&rule.rule, standing, &days, days.len().saturating_sub(1)).pop();
        let judged = judged.ok_or_else(|| Error::invalid(format!("{day} cannot be judged")))?;
        if ripe == Ripe::IfBreached && rule.rule.judge(judged.measured) != Verdict::Breached {
            return Ok(None);
        }
        let after = Judged { ver: ver + 1, created_at: rule.created_at, day, standing: judged.standing };
        let mut writes = vec![Write::Put(after.to_item(workspace, rule.name()), Condition::unchanged(ver))];
        let crossed = CrossedRule::of(rule, &judged, cut, self.at(day));
        if let Some(crossed) = &crossed {
            let model = match &rule.scope {
                catalog::AlertScope::Live { model, .. } => Some(model.clone()),
                catalog::AlertScope::Workspace | catalog::AlertScope::Release(_) => None,
            };
            let alert =
                Alert { at: crossed.at, name: crossed.rule.clone(), model, text: crossed.text.clone() };
            writes.push(Write::Put(crossed.to_item(workspace), Condition::Absent));
            writes.push(Write::Put(alert_item(self.table, workspace, &alert).await?, Condition::None));
            writes.extend(deliver::writes(workspace, self.alerts.notified(rule), crossed));
        }
        let written = unless_overtaken(self.table.transact(writes).await)?;
        if let (Some(()), Some(crossed)) = (written, &crossed) {
            tracing::info!(%workspace, rule = crossed.rule, day = %day, crossing = crossed.crossing.name(), "{}", crossed.text);
        }
        Ok(written.map(|()| (judged.standing, crossed.is_some())))
    }

    /// Reads the prefix up to which the inputs of the rule are projected on a day; `None`, when segments appended by the instant
    /// at which the day is due are missing, unless that is long ago. A day that goes on is judged by the present projections.
    async fn projected(&self, day: Day, ripe: Ripe) -> Result<Option<Applied>> {
        let version = active::load(self.table, self.workspace).await?.version;
        let (kinds, applied): (&[Kind], _) = match &self.rule.watched {
            Watched::Figure(of) if of.figure.logged().is_some() => {
                let key = log::key::rollup(self.workspace, version, day);
                (&[Kind::Metrics], self.applied_of(&key).await?)
            }
            Watched::Figure(_) => {
                let at = At { workspace: self.workspace, version, day };
                let applied = evaluated::head(self.table, at).await?.applied;
                (&[Kind::Predictions, Kind::Outcomes], applied)
            }
            Watched::Count(CountOf { kind, .. }) => {
                let key = log::key::rollup(self.workspace, version, day);
                (std::slice::from_ref(kind), self.applied_of(&key).await?)
            }
            Watched::Column(ColumnOf { column, .. }) | Watched::Drift(DriftOf { column, .. }) => {
                let key = match column.starts_with(FEATURE_PREFIX) {
                    true => log::key::features(self.workspace, version, day),
                    false => log::key::rollup(self.workspace, version, day),
                };
                (&[Kind::Predictions], self.applied_of(&key).await?)
            }
            Watched::Missing(kind, _) if self.rule.scope != catalog::AlertScope::Workspace => {
                let key = log::key::rollup(self.workspace, version, day);
                (std::slice::from_ref(kind), self.applied_of(&key).await?)
            }
            // These read the log, and recorded lags.
            Watched::Missing(..) | Watched::Lag(_) => return Ok(Some(Applied::new())),
        };
        let due = self.rule.due(day);
        if ripe == Ripe::Due && self.now < due.plus_seconds(PATIENCE_SECONDS) {
            for kind in kinds {
                for head in scan::heads_of_kind(self.table, self.workspace, day, *kind).await? {
                    let covered = applied.get(&head.log.name()).copied().unwrap_or(0);
                    let next = match head.seq > covered {
                        true => scan::after(self.table, &head.log, covered).await?,
                        false => None,
                    };
                    if next.is_some_and(|segment| segment.appended_at <= due) {
                        let day = WorkspaceDay { workspace: self.workspace.clone(), day };
                        tracing::debug!(%day, rule = self.rule.name(), "is not projected yet, and judged later");
                        return Ok(None);
                    }
                }
            }
        }
        let logs: BTreeMap<_, _> = applied.into_iter().filter(|(log, _)| log.contains('/')).collect();
        Ok(Some(logs))
    }

    /// Reads the prefix of the logs that a projection covers.
    async fn applied_of(&self, key: &Key) -> Result<Applied> {
        let item = self.table.get(key).await?;
        Ok(item.as_ref().map(Projected::applied_of).transpose()?.unwrap_or_default())
    }
}
