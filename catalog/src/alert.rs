//! Alert rules: which number of a workspace is to be watched, and when people are told, and the webhooks to which that is posted, and digests. All of a
//! workspace stand in one item, so they are bounded, and applied all or none.

mod apply;
mod crossing;
mod delivery;
mod item;
mod lag;
mod read;
mod watched;
mod webhook;
mod words;

use event::{Day, Error, Kind, Result, Timestamp, id::check_name};
use fold::alert::{Rule, Test};
use serde::{Deserialize, Serialize};

pub use apply::Alerts;
pub(crate) use crossing::time;
pub use crossing::{CrossedRule, Judged, MAX_CROSSINGS, judged_rules};
pub use delivery::{Delivered, Delivery, DeliveryState, MAX_DELIVERIES, TRIED_FOR_SECONDS, Tried};
pub use lag::{Lags, MAX_LAG_DAYS};
pub use read::MAX_TEST_DAYS;
pub use watched::{ColumnOf, CountOf, DriftOf, FigureOf, MAX_REFERENCE_DAYS, Watched};
pub use webhook::{MAX_SECRET_NAME, MAX_URL_BYTES, MAX_WEBHOOKS, Webhook, WebhookFormat, check_webhook_url};

/// The most alert rules of a workspace.
pub const MAX_ALERT_RULES: usize = 64;

/// The most days in a row that a rule waits for before it fires.
pub const MAX_FOR_DAYS: u32 = 90;

/// The days before a day that a change is measured against: the least, what they are unless it is said, the most.
pub const WINDOW_DAYS: [u32; 3] = [4, 14, 90];

/// The most days after its end that a day is judged.
pub const MAX_DELAY_DAYS: u32 = 90;

/// The least threshold of a lag, in seconds: projections are a second or two behind, and that is no lag.
const LEAST_LAG: f64 = 10.0;

/// An alert rule as people write it, in TOML or JSON. [`AlertRule::of`] checks it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertRuleBody {
    /// Its name, which no other rule of the workspace has.
    pub name: String,
    /// It watches this figure of the evaluations of a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// It watches how many events of this kind there are of a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    /// It watches whether there are events of this kind of a day at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// It watches how many seconds projections were behind with events of this kind, on any day of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<String>,
    /// By which time (UTC) of the day there must be some, such as `06:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// It watches a statistic of this column of predictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// It watches how far this column of predictions is from that of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<String>,
    /// Which statistic of the column, or of drift.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistic: Option<String>,
    /// From these days, as `FROM..TO`, or one day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Of the predictions with this tag alone, as `NAME=VALUE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Which share of the predictions must be judged for a figure to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_maturity: Option<f64>,
    /// Of this release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Of the release of this model that is live at the end of the day in `environment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The environment in which it is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// It fires above this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
    /// It fires below this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// It fires when the number is more than so many robust deviations away from the days before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<f64>,
    /// How many days before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// How far the number, or how many deviations, must come back before it is resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear: Option<f64>,
    /// Of how many predictions a figure must be made to be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_n: Option<u64>,
    /// On how many days in a row, before it fires.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub for_days: Option<u32>,
    /// How many days after its end a day is judged, for outcomes that come late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<u32>,
    /// To which webhooks of the workspace it is posted when it crosses; to all unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Vec<String>>,
}

/// Of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Of the whole workspace.
    Workspace,
    /// Of a release.
    Release(String),
    /// Of the release of a model that is live in an environment at the end of the day.
    Live {
        /// The model, by name.
        model: String,
        /// The environment.
        environment: String,
    },
}

/// An alert rule of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    /// As people wrote it.
    pub body: AlertRuleBody,
    /// What it watches.
    pub watched: Watched,
    /// Of what.
    pub scope: Scope,
    /// How it judges.
    pub rule: Rule,
    /// How many days after its end a day is judged.
    pub delay_days: u32,
    /// When a rule of this name was applied first.
    pub created_at: Timestamp,
}

impl AlertRule {
    /// Checks a rule that is applied first at an instant. Whether its release is there is not asked.
    ///
    /// # Errors
    /// `Invalid`, naming the rule and what is wrong with it.
    pub fn of(body: AlertRuleBody, created_at: Timestamp) -> Result<Self> {
        check_name(&body.name)?;
        let wrong = |what: &str| Error::invalid(format!("alert rule `{}`: {what}", body.name));
        let watched = Watched::of(&body).map_err(|error| wrong(&error.to_string()))?;
        let scope = scope(&body, &watched).map_err(|error| wrong(&error.to_string()))?;
        let rule = rule(&body, &watched).map_err(|error| wrong(&error.to_string()))?;
        for (at, webhook) in body.notify.iter().flatten().enumerate() {
            check_name(webhook).map_err(|error| wrong(&format!("`notify`: {error}")))?;
            if body.notify.iter().flatten().take(at).any(|before| before == webhook) {
                return Err(wrong(&format!("`notify` names `{webhook}` twice")));
            }
        }
        let delay_days = body.delay.unwrap_or(0);
        if delay_days > MAX_DELAY_DAYS {
            return Err(wrong(&format!("`delay` is 0 to {MAX_DELAY_DAYS} days")));
        }
        match watched {
            Watched::Lag(_) if delay_days > 0 => return Err(wrong("`lag` has no `delay`")),
            Watched::Missing(..) if delay_days > 0 && scope != Scope::Workspace => {
                return Err(wrong(
                    "`missing` of a release has no `delay`: it is judged by what there is then",
                ));
            }
            _ => {}
        }
        Ok(Self { watched, scope, rule, delay_days, created_at, body })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.body.name
    }

    /// From when on a day can be judged: after its end, or the time by which there must be events, and the delay.
    pub fn due(&self, day: Day) -> Timestamp {
        let delay = i64::from(self.delay_days) * DAY_SECONDS;
        let seconds = match self.watched {
            Watched::Missing(_, by) => by,
            Watched::Figure(_)
            | Watched::Count(_)
            | Watched::Column(_)
            | Watched::Drift(_)
            | Watched::Lag(_) => DAY_SECONDS,
        };
        day.start().plus_seconds(seconds + delay)
    }

    /// Whether it is posted to a webhook when it crosses.
    pub fn notifies(&self, webhook: &str) -> bool {
        self.body.notify.as_ref().is_none_or(|some| some.iter().any(|one| one == webhook))
    }

    /// Whether what it watches only rises while a day goes on, and it fires above a number: once that is passed, the day is decided. What is
    /// live may be another release in the evening, and its count a smaller one. Days are judged in their order, so with a delay the days before
    /// would have to be waited for.
    pub fn only_rises(&self) -> bool {
        let rises = match self.watched {
            Watched::Lag(_) => true,
            Watched::Count(_) => self.delay_days == 0 && !matches!(self.scope, Scope::Live { .. }),
            Watched::Figure(_) | Watched::Missing(..) | Watched::Column(_) | Watched::Drift(_) => false,
        };
        rises && matches!(self.rule.test, Test::Above(_))
    }

    /// How many days before a day it looks at.
    pub fn look_back(&self) -> u32 {
        match self.rule.test {
            Test::Moved(_) => self.rule.window_days,
            Test::Above(_) | Test::Below(_) => 0,
        }
    }
}

const DAY_SECONDS: i64 = 24 * 60 * 60;

fn scope(body: &AlertRuleBody, watched: &Watched) -> Result<Scope> {
    for name in [&body.release, &body.model, &body.environment].into_iter().flatten() {
        check_name(name)?;
    }
    let scope = match (&body.release, &body.model, &body.environment) {
        (None, None, None) => Scope::Workspace,
        (Some(release), None, None) => Scope::Release(release.clone()),
        (None, Some(model), Some(environment)) => {
            Scope::Live { model: model.clone(), environment: environment.clone() }
        }
        _ => {
            return Err(Error::invalid(
                "name either a `release`, or a `model` and the `environment` where its release is live",
            ));
        }
    };
    match (watched, &scope) {
        (Watched::Figure(FigureOf { figure, .. }), Scope::Workspace) if figure.logged().is_none() => Err(
            Error::invalid("a figure is of a release: name a `release`, or a `model` and an `environment`"),
        ),
        (Watched::Column(ColumnOf { column, .. }), Scope::Release(_) | Scope::Live { .. })
        | (Watched::Drift(DriftOf { column, .. }), Scope::Release(_) | Scope::Live { .. })
            if column.starts_with(event::fields::TAG_PREFIX) =>
        {
            Err(Error::invalid("values of tags are not counted by release: name no `release`"))
        }
        (Watched::Lag(_), Scope::Release(_) | Scope::Live { .. }) => {
            Err(Error::invalid("`lag` is of the whole workspace: name no `release` and no `model`"))
        }
        (Watched::Count(CountOf { tag: Some(_), .. }), Scope::Release(_) | Scope::Live { .. }) => {
            Err(Error::invalid("values of tags are not counted by release: name no `release`"))
        }
        (Watched::Missing(Kind::Outcomes, _), Scope::Release(_) | Scope::Live { .. }) => Err(Error::invalid(
            "outcomes name no release, so what is `missing` of them is of the whole workspace",
        )),
        _ => Ok(scope),
    }
}

fn rule(body: &AlertRuleBody, watched: &Watched) -> Result<Rule> {
    let limits = [("above", body.above), ("below", body.below), ("moved", body.moved), ("clear", body.clear)];
    if let Some((name, _)) = limits.iter().find(|(_, limit)| limit.is_some_and(|limit| !limit.is_finite())) {
        return Err(Error::invalid(format!("`{name}` is a finite number")));
    }
    let test = match (watched, body.above, body.below, body.moved) {
        (Watched::Missing(..), None, None, None) => Test::Above(0.5),
        (Watched::Missing(..), ..) => return Err(Error::invalid("`missing` has no threshold")),
        (Watched::Lag(_), limit, None, None) => match limit.filter(|limit| *limit >= LEAST_LAG) {
            Some(limit) => Test::Above(limit),
            None => {
                return Err(Error::invalid(format!(
                    "`lag` fires `above` so many seconds, {LEAST_LAG} or more"
                )));
            }
        },
        (Watched::Lag(_), ..) => return Err(Error::invalid("`lag` has no `below` and no `moved`")),
        (_, Some(limit), None, None) => Test::Above(limit),
        (_, None, Some(limit), None) => Test::Below(limit),
        (_, None, None, Some(limit)) if limit > 0.0 => Test::Moved(limit),
        (_, None, None, Some(_)) => return Err(Error::invalid("`moved` is a number of deviations above 0")),
        _ => return Err(Error::invalid("say when it fires by one of `above`, `below` and `moved`")),
    };
    let is_before = match (test, body.clear) {
        (_, None) => true,
        (_, Some(_)) if matches!(watched, Watched::Missing(..)) => {
            return Err(Error::invalid("`missing` has no `clear`"));
        }
        (Test::Above(limit), Some(clear)) => clear <= limit,
        (Test::Below(limit), Some(clear)) => clear >= limit,
        (Test::Moved(limit), Some(clear)) => (0.0..=limit).contains(&clear),
    };
    if !is_before {
        return Err(Error::invalid("`clear` lies on the good side of the threshold"));
    }
    if body.window.is_some() && body.moved.is_none() {
        return Err(Error::invalid("`window` belongs to `moved`"));
    }
    if body.min_n.is_some() && matches!(watched, Watched::Count(_) | Watched::Missing(..) | Watched::Lag(_)) {
        return Err(Error::invalid("`min_n` belongs to `figure`, `column` and `drift`"));
    }
    let [least, usual, most] = WINDOW_DAYS;
    let window_days = body.window.unwrap_or(usual);
    if !(least..=most).contains(&window_days) {
        return Err(Error::invalid(format!("`window` is {least} to {most} days")));
    }
    let for_days = body.for_days.unwrap_or(1);
    if !(1..=MAX_FOR_DAYS).contains(&for_days) {
        return Err(Error::invalid(format!("`for` is 1 to {MAX_FOR_DAYS} days")));
    }
    if body.min_n.is_some_and(|n| i64::try_from(n).is_err()) {
        return Err(Error::invalid("`min_n` is too great"));
    }
    Ok(Rule { test, clear: body.clear, min_n: body.min_n.unwrap_or(1), for_days, window_days })
}

#[cfg(test)]
mod tests;
