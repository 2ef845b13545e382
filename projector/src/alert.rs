//! Evaluates the alert rules of workspaces: each day once, when it is due and projected. The standing of a rule after a day, its
//! transition, the alert for followers of the workspace, and the deliveries to webhooks ([`crate::deliver`]) are one transaction,
//! under the condition that no other process has evaluated the day. So a transition is recorded once, through all crashes and
//! restarts, and a decision stays when metrics change later.

use std::{collections::BTreeMap, time::Duration};

use catalog::{
    Alert, AlertRule, AlertScope, Alerts, Catalog, Delivery, FiredBy, Judged, RuleTransition, Watched,
    alert_item, judged_rules,
};
use event::{Day, Error, Id, Kind, Result, Timestamp, Window, fields::FEATURE_PREFIX};
use fold::alert::{Standing, State, Verdict, replay};
use log::{
    active,
    evaluated::{self, At},
    key::{self, OfWorkspace},
    projection::{Applied, Projected},
    scan,
    segment_item::CLOSED_AFTER_SECONDS,
};
use table::{Condition, Key, Table, Write, unless_overtaken};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{early::latest, lock, shared::Shared, status};

/// Time between two evaluations of the rules of all workspaces.
const JUDGE_EVERY: Duration = Duration::from_secs(60);

/// Time after which a worker that does not sweep checks again if it does by now, and so evaluates.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time to wait for a day that is due and not projected, in seconds. Then it is evaluated by the present projections.
pub const PATIENCE_SECONDS: i64 = 6 * 60 * 60;

/// Maximum days of a rule that are evaluated at once.
const DAYS_AT_ONCE: usize = 31;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Reasons for the end of an alert that are reported to all who were notified that the rule fires.
const DELETED: &str = "the rule was deleted while it fired";
const EARLY: &str = "it was judged before its day was over, by a clock that was ahead";

/// Result of evaluating the rules of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of evaluated days.
    pub days: u64,
    /// Number of transitions.
    pub transitions: u64,
    /// Number of rules that fire now.
    pub firing: u64,
}

/// Alert rule that fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiringRule {
    /// Path of its workspace.
    pub workspace: String,
    /// Name of the rule.
    pub rule: String,
}

/// Evaluates all days of the rules of a workspace that are due by `now`, and deletes the standings of deleted rules; the end of one
/// that fired is reported. A workspace in which nothing is due takes two reads, and a few more of each rule that may fire while
/// its day goes on.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn judge(table: &dyn Table, catalog: &Catalog, workspace: &Id, now: Timestamp) -> Result<Outcome> {
    Ok(judge_and_name(table, catalog, workspace, now).await?.0)
}

/// Evaluates the rules, and also returns the names of those that fire.
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
        status::note_lag(table, workspace, now.plus_seconds(-CLOSED_AFTER_SECONDS)).await?;
    }
    let evaluator = RuleEvaluator { table, catalog, workspace, alerts: &alerts, now };
    let (mut outcome, mut firing, mut failed) = (Outcome::default(), Vec::new(), BTreeMap::new());
    let mut known = BTreeMap::new();
    for (name, judged) in judged {
        let rule = alerts.rules.iter().find(|rule| rule.name() == name);
        let (why, since) = match rule.filter(|rule| judged.is_of(rule)) {
            Some(rule) if !is_early(rule, &judged, latest(table, now)) => {
                known.insert(name, judged);
                continue;
            }
            Some(_) => (EARLY, now),
            None => (DELETED, rule.map_or(now, |rule| rule.created_at)),
        };
        match evaluator.end(&name, &judged, rule.map(|rule| (rule, since)), why).await {
            Ok((again, is_told)) => {
                outcome.transitions += u64::from(is_told);
                known.extend(again.map(|again| (name, again)));
            }
            // Other rules are evaluated all the same.
            Err(error) => _ = failed.insert(name, error),
        }
    }
    for rule in alerts.rules.iter().filter(|rule| !failed.contains_key(rule.name())) {
        let state = evaluator.days(rule, known.remove(rule.name()), &mut outcome).await?;
        firing.extend((state == State::Firing).then(|| rule.name().to_owned()));
    }
    outcome.firing = firing.len() as u64;
    match failed.into_values().next() {
        None => Ok((outcome, firing)),
        Some(error) => Err(error),
    }
}

/// Returns whether a clock that was ahead has evaluated a rule: the day is not over by the latest clock, unless a value above the
/// threshold stays there.
fn is_early(rule: &AlertRule, judged: &Judged, latest: Timestamp) -> bool {
    let is_breached = matches!(judged.standing.state, State::Firing | State::Pending);
    let goes_on = rule.only_rises() && is_breached && judged.day.start() <= latest;
    rule.due(judged.day) > latest && !goes_on
}

/// Day before the first one that is due after an instant.
fn day_before_first(rule: &AlertRule, since: Timestamp) -> Day {
    let early = since.plus_seconds(-i64::from(rule.delay_days + 2) * DAY_SECONDS).day();
    // A rule of absence at a time of its day may be created after that time; then the next day is the first one due.
    let late = since.plus_seconds(DAY_SECONDS).day();
    let window = Window::new(early, late).unwrap_or(Window::of(late));
    let first = window.days().find(|day| rule.due(*day) > since).unwrap_or(late);
    first.before().unwrap_or(first)
}

/// Reason to evaluate a day now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DueReason {
    /// The day is due.
    Due,
    /// The day goes on, and is evaluated when the threshold is passed, which is final.
    IfBreached,
}

/// Evaluation of the rules of a workspace.
struct RuleEvaluator<'a> {
    table: &'a dyn Table,
    catalog: &'a Catalog,
    workspace: &'a Id,
    alerts: &'a Alerts,
    now: Timestamp,
}

impl RuleEvaluator<'_> {
    /// Ends the standing of a rule that was deleted, or that begins again since an instant: its end is reported, if it fired.
    /// Returns the standing with which it begins again, and whether anything was reported.
    async fn end(
        &self,
        name: &str,
        judged: &Judged,
        again: Option<(&AlertRule, Timestamp)>,
        why: &'static str,
    ) -> Result<(Option<Judged>, bool)> {
        let again = again.map(|(rule, since)| Judged {
            ver: judged.ver + 1,
            created_at: since,
            day: day_before_first(rule, since),
            standing: Standing::default(),
            fired: None,
        });
        let (key, unchanged) = (key::standing(self.workspace, name), Condition::unchanged(judged.ver));
        if again.is_none() && judged.fired.is_none() {
            unless_overtaken(self.table.delete(&key, unchanged).await)?;
            return Ok((None, false));
        }
        let ended = Judged { ver: judged.ver + 1, fired: None, ..judged.clone() };
        let standing = again.as_ref().unwrap_or(&ended).to_item(self.workspace, name);
        let mut writes = vec![Write::Put(standing, unchanged)];
        if let Some(fired) = &judged.fired {
            // Set before all reports about a later rule of its name, and after all days on which it fired or resolved.
            let at = Timestamp::from_micros(self.now.micros() - 1).unwrap_or(self.now);
            let day = fired.day.next().map_or(fired.day, |next| next.max(self.now.day()));
            let over = RuleTransition::resolved(name, judged.created_at, (day, at), why.to_owned());
            writes.extend(self.told(&over, fired).await?);
        }
        let is_written = unless_overtaken(self.table.transact(writes).await)?.is_some();
        if is_written && again.is_none() {
            // The report and the deletion are separate writes, so reporting needs no permission to delete.
            unless_overtaken(self.table.delete(&key, Condition::unchanged(ended.ver)).await)?;
        }
        let is_told = is_written && judged.fired.is_some();
        tracing::info!(workspace = %self.workspace, rule = name, is_told, "the standing of an alert rule ends: {why}");
        Ok((again, is_told))
    }

    /// Writes of a transition, of its alert, and of its deliveries to the webhooks that are still there.
    async fn told(&self, rule_transition: &RuleTransition, to: &FiredBy) -> Result<Vec<Write>> {
        let (model, text) = (to.model.clone(), rule_transition.text.clone());
        let alert = Alert { at: rule_transition.at, name: rule_transition.rule.clone(), model, text };
        let mut writes = vec![
            Write::Put(rule_transition.to_item(self.workspace), Condition::Absent),
            Write::Put(alert_item(self.table, self.workspace, &alert).await?, Condition::None),
        ];
        let path = match to.webhooks.is_empty() {
            true => String::new(),
            false => self.catalog.workspace(&self.workspace.to_string()).await?.path,
        };
        for webhook in self.alerts.webhooks.iter().filter(|one| to.webhooks.contains(&one.name)) {
            let body = webhook.body(self.workspace, &path, rule_transition);
            let delivery = Delivery::of(rule_transition, &webhook.name, body);
            writes.push(Write::Put(delivery.to_item(self.workspace), Condition::Absent));
        }
        Ok(writes)
    }

    /// Evaluates the days of a rule that are due; returns the state of the rule after that.
    async fn days(&self, rule: &AlertRule, judged: Option<Judged>, outcome: &mut Outcome) -> Result<State> {
        let mut judged = judged.unwrap_or_else(|| Judged {
            ver: 0,
            created_at: rule.created_at,
            day: day_before_first(rule, rule.created_at),
            standing: Standing::default(),
            fired: None,
        });
        let closed = self.now.plus_seconds(-CLOSED_AFTER_SECONDS);
        for _ in 0..DAYS_AT_ONCE {
            let Some(day) = judged.day.next() else { break };
            let reason = match rule.due(day) <= closed {
                true => DueReason::Due,
                false if rule.only_rises() && day.start() <= closed => DueReason::IfBreached,
                false => break,
            };
            let Some(read_version) = self.projected(rule, day, reason).await? else { break };
            let Some((after, has_rule_transition)) =
                self.day(rule, &judged, (day, reason), read_version).await?
            else {
                break;
            };
            judged = after;
            outcome.days += 1;
            outcome.transitions += u64::from(has_rule_transition);
        }
        Ok(judged.standing.state)
    }

    /// Evaluates a day. Returns the standing of the rule after it, and whether there was a transition. `None`, when
    /// another process has evaluated it, or when it goes on and nothing is decided yet.
    async fn day(
        &self,
        rule: &AlertRule,
        before: &Judged,
        (day, reason): (Day, DueReason),
        read_version: Applied,
    ) -> Result<Option<(Judged, bool)>> {
        let days = self.catalog.readings(self.workspace, rule, rule.with_days_before(day, day)?).await?;
        let judged = replay(&rule.rule, before.standing, &days, days.len().saturating_sub(1)).pop();
        let judged = judged.ok_or_else(|| Error::invalid(format!("{day} cannot be judged")))?;
        if reason == DueReason::IfBreached && rule.rule.judge(judged.measured) != Verdict::Breached {
            return Ok(None);
        }
        // Microseconds later for each later day, so that alerts have an order.
        let later = i64::from(day.number() - before.created_at.day().number());
        let at = Timestamp::from_micros(self.now.micros() + later).unwrap_or(self.now);
        let rule = &AlertRule { created_at: before.created_at, ..rule.clone() };
        let rule_transition = RuleTransition::of(rule, &judged, read_version, at);
        let webhooks = self.alerts.webhooks.iter().map(|webhook| &webhook.name);
        let to = FiredBy {
            day,
            model: match &rule.scope {
                AlertScope::Live { model, .. } => Some(model.clone()),
                AlertScope::Workspace | AlertScope::Release(_) => None,
            },
            webhooks: webhooks.filter(|name| rule.notifies(name)).cloned().collect(),
        };
        let fired = match (judged.standing.state, &rule_transition) {
            (State::Firing, Some(_)) => Some(to.clone()),
            (State::Firing, None) => before.fired.clone(),
            _ => None,
        };
        let (ver, created_at) = (before.ver + 1, before.created_at);
        let after = Judged { ver, created_at, day, standing: judged.standing, fired };
        let item = after.to_item(self.workspace, rule.name());
        let mut writes = vec![Write::Put(item, Condition::unchanged(before.ver))];
        if let Some(rule_transition) = &rule_transition {
            writes.extend(self.told(rule_transition, &to).await?);
        }
        let written = unless_overtaken(self.table.transact(writes).await)?;
        if let (Some(()), Some(rule_transition)) = (written, &rule_transition) {
            tracing::info!(workspace = %self.workspace, rule = rule_transition.rule, %day, transition = rule_transition.transition.name(), "{}", rule_transition.text);
        }
        Ok(written.map(|()| (after, rule_transition.is_some())))
    }

    /// Reads the prefix up to which the inputs of a rule are projected on a day; `None`, when segments appended by the instant at
    /// which the day is due are missing, unless that is long ago. A day that goes on is evaluated by the present projections.
    async fn projected(&self, rule: &AlertRule, day: Day, reason: DueReason) -> Result<Option<Applied>> {
        let (table, workspace) = (self.table, self.workspace);
        let version = active::load(table, workspace).await?.version;
        let rollup = key::rollup(workspace, version, day);
        let (kinds, applied): (&[Kind], _) = match &rule.watched {
            Watched::Metric { metric, .. } if metric.logged().is_none() => {
                let applied = evaluated::head(table, At { workspace, version, day }).await?.applied;
                (&[Kind::Predictions, Kind::Outcomes], applied)
            }
            Watched::Metric { .. } => (&[Kind::Metrics], self.applied_of(&rollup).await?),
            Watched::Column(column, _) | Watched::Drift(column, ..) => {
                let features = key::features(workspace, version, day);
                let key = if column.starts_with(FEATURE_PREFIX) { &features } else { &rollup };
                (&[Kind::Predictions], self.applied_of(key).await?)
            }
            // These read the log, and recorded lags.
            Watched::Lag(_) => return Ok(Some(Applied::new())),
            Watched::Missing(..) if rule.scope == AlertScope::Workspace => return Ok(Some(Applied::new())),
            Watched::Count(kind, _) | Watched::Missing(kind, _) => {
                (std::slice::from_ref(kind), self.applied_of(&rollup).await?)
            }
        };
        let due = rule.due(day);
        if reason == DueReason::Due && self.now < due.plus_seconds(PATIENCE_SECONDS) {
            for kind in kinds {
                for head in scan::heads_of_kind(table, workspace, day, *kind).await? {
                    let covered = applied.get(&head.log.name()).copied().unwrap_or(0);
                    let next = match head.seq > covered {
                        true => scan::after(table, &head.log, covered).await?,
                        false => None,
                    };
                    if next.is_some_and(|segment| segment.appended_at <= due) {
                        tracing::debug!(%workspace, %day, rule = rule.name(), "is not projected yet, and judged later");
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(applied.into_iter().filter(|(log, _)| log.contains('/')).collect()))
    }

    /// Reads the prefix of the logs that a projection covers.
    async fn applied_of(&self, key: &Key) -> Result<Applied> {
        let item = self.table.get(key).await?;
        Ok(item.as_ref().map(Projected::applied_of).transpose()?.unwrap_or_default())
    }
}

impl Shared {
    /// Evaluates the rules of all workspaces that have some; a failure becomes a dead letter of the workspace.
    async fn judge_all(&self) -> Result<()> {
        let mut firing = Vec::new();
        for workspace in self.catalog.watched_workspaces().await? {
            let judging = self.judge_one(&workspace);
            firing.extend(self.noted(&workspace, OfWorkspace::Alerts, judging).await?.unwrap_or_default());
        }
        *lock(&self.stats.firing) = Some(firing);
        Ok(())
    }

    /// Evaluates the rules of a workspace; returns those that fire.
    async fn judge_one(&self, workspace: &Id) -> Result<Vec<FiringRule>> {
        let (_, firing) = judge_and_name(&*self.table, &self.catalog, workspace, self.now()).await?;
        if firing.is_empty() {
            return Ok(Vec::new());
        }
        let path = self.catalog.workspace(&workspace.to_string()).await?.path;
        Ok(firing.into_iter().map(|rule| FiringRule { workspace: path.clone(), rule }).collect())
    }
}

/// Evaluates forever, in the one worker that sweeps periodically.
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
            // A worker that has just begun may come to evaluate, and does not know the firing rules yet.
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
