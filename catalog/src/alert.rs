//! Alert rules: the watched number, and the conditions for firing. All rules and webhooks of a workspace are in one
//! item, so they are bounded, and applied all or none.

mod apply;
mod judged;
mod read;
mod webhook;

use std::fmt;

use event::{
    Day, Error, Kind, Result, Timestamp, Window,
    fields::{MAX_TEXT_BYTES, TAG_PREFIX},
    id::check_name,
};
use fold::{
    AnyMetric,
    alert::{JudgedDay, Rule, Test, Transition},
    drift::{STATISTICS, Sort, Statistic, column_statistics},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use apply::{Alerts, MAX_ALERT_RULES, MAX_WEBHOOKS};
pub use judged::{FiredBy, Judged, Lags, MAX_LISTED, RuleTransition, judged_rules};
pub use read::MAX_TEST_DAYS;
pub(crate) use webhook::slack;
pub use webhook::{
    Delivery, DeliveryState, Posted, Posting, Webhook, WebhookFormat, check_webhook_url, digest_source,
};

/// Maximum days between the end of a day and its evaluation.
pub const MAX_DELAY_DAYS: u32 = 90;

/// Maximum number of days of a reference.
pub const MAX_REFERENCE_DAYS: usize = 92;

/// Maximum days in a row for which the threshold must be passed before a rule fires.
const MAX_FOR_DAYS: u32 = 90;

/// Number of days before a day that `moved` compares it with: the minimum, the default, the maximum.
const WINDOW_DAYS: [u32; 3] = [4, 14, 90];

/// Minimum threshold of a lag, in seconds: projections are always a second or two behind.
const LEAST_LAG: f64 = 10.0;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// An alert rule as people write it, in TOML or JSON. [`AlertRule::of`] checks it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertRuleBody {
    /// Name, which no other rule of the workspace has.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub name: String,
    /// It watches this metric of the evaluations of a release; or a logged metric, of a release or of the whole workspace:
    /// metric.NAME is the mean of its observations, metric.NAME:STATISTIC their mean, sum, min, max or last.
    pub metric: Option<String>,
    /// It watches how many events of this kind there are of a day.
    #[schema(pattern = "^(predictions|outcomes|metrics|releases)$")]
    pub count: Option<String>,
    /// It fires when there is no event of this kind of a day.
    #[schema(pattern = "^(predictions|outcomes|metrics|releases)$")]
    pub missing: Option<String>,
    /// It watches for how many seconds events of this kind waited to be projected, at most on the day; it fires at once.
    #[schema(pattern = "^(predictions|outcomes|metrics|releases)$")]
    pub lag: Option<String>,
    /// With `missing`: by this time (UTC) of the day; 24:00 unless it is given.
    #[schema(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$")]
    pub by: Option<String>,
    /// It watches a statistic of this column of predictions: score, value, latency_ms, label, tag.NAME or feature.NAME.
    pub column: Option<String>,
    /// It watches how far this column of predictions is from that of the reference: score, value, latency_ms, label, tag.NAME or
    /// feature.NAME.
    pub drift: Option<String>,
    /// With `column`: which statistic, null_rate, or of numbers mean, std, min, p50, p90, p99 or max. With `drift`: by this
    /// statistic of drift; js_distance unless it is given.
    pub statistic: Option<String>,
    /// With `drift`: the days of the reference, as FROM..TO, or one day; of snapshot:NAME, release:NAME and release:NAME/BASELINE
    /// the days are kept that they have when the rule is applied.
    pub reference: Option<String>,
    /// With `metric`: of the predictions with this tag, as NAME=VALUE. The model declares a dimension by the tag. With `count` of
    /// predictions or metrics: of those with this tag.
    pub tag: Option<String>,
    /// With `metric`: which share of the predictions must be judged, or the day says nothing; 0 unless it is given.
    pub min_completeness: Option<f64>,
    /// Of this release.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub release: Option<String>,
    /// Model whose release is watched that is live in `environment` at the end of the day.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub model: Option<String>,
    /// Where it is live.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub environment: Option<String>,
    /// It fires above this number.
    pub above: Option<f64>,
    /// It fires below this number.
    pub below: Option<f64>,
    /// It fires more than so many robust deviations away from the days before, up or down.
    pub moved: Option<f64>,
    /// With `moved`: how many days before; 14 unless it is given.
    #[schema(minimum = 4, maximum = 90)]
    pub window: Option<u32>,
    /// Number (with `moved`, of deviations) to which it must come back before the rule is resolved; the threshold unless it is
    /// given.
    pub clear: Option<f64>,
    /// With `metric`, of how many predictions or observations it must be made, with `column` and `drift`, how many the day must
    /// have; 1 unless it is given.
    pub min_n: Option<u64>,
    /// On how many days in a row, before it fires; 1 unless it is given.
    #[serde(rename = "for")]
    #[schema(minimum = 1, maximum = 90)]
    pub for_days: Option<u32>,
    /// Number of days after its end at which a day is judged, for outcomes that come late; 0 unless it is given.
    #[schema(maximum = 90)]
    pub delay: Option<u32>,
    /// To which webhooks it is posted when it crosses; to all of the workspace unless it is given.
    #[schema(max_items = 8)]
    pub notify: Option<Vec<String>>,
}

/// Part of a workspace that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole workspace.
    Workspace,
    /// A release.
    Release(String),
    /// The release of a model that is live in an environment at the end of the day.
    Live {
        /// Name of the model.
        model: String,
        /// The environment.
        environment: String,
    },
}

/// Value that a rule watches.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    /// Metric of the evaluations of a release, or logged metric of a release or of the whole workspace.
    Metric {
        /// The metric.
        metric: AnyMetric,
        /// Tag and value that its predictions have; of all predictions, when `None`.
        tag: Option<(String, String)>,
        /// Minimum share of the predictions that must be judged.
        min_completeness: f64,
    },
    /// Number of events of a kind on a day; of those with a tag and value, when given.
    Count(Kind, Option<(String, String)>),
    /// Maximum time in seconds that events of a kind waited on a day to be folded.
    Lag(Kind),
    /// Absence of events of a kind on a day, this many seconds after it began.
    Missing(Kind, i64),
    /// Statistic of a column of the predictions, by name.
    Column(String, &'static str),
    /// Distance of a column of the predictions from that of a reference, by the name of a statistic.
    Drift(String, &'static str, Window),
}

/// A checked alert rule of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    /// The rule as people wrote it.
    pub body: AlertRuleBody,
    /// Value that it watches.
    pub watched: Watched,
    /// Part of the workspace that it is about.
    pub scope: Scope,
    /// How it judges.
    pub rule: Rule,
    /// Days after its end at which a day is judged.
    pub delay_days: u32,
    /// Time at which a rule of this name was applied first.
    pub created_at: Timestamp,
}

/// Checks a condition on a rule.
fn demand(holds: bool, what: impl Into<String>) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid(what)) }
}

impl AlertRule {
    /// Checks a rule that was applied first at an instant. Whether its release exists is not asked.
    ///
    /// # Errors
    /// `Invalid`, naming the rule and the fault.
    pub fn of(body: AlertRuleBody, created_at: Timestamp) -> Result<Self> {
        check_name(&body.name)?;
        let checked = || {
            let watched = watched(&body)?;
            let scope = scope(&body, &watched)?;
            let rule = rule(&body, &watched)?;
            check_notified(&body)?;
            Ok((watched, scope, rule))
        };
        let wrong = |error: Error| Error::invalid(format!("alert rule `{}`: {error}", body.name));
        let (watched, scope, rule) = checked().map_err(wrong)?;
        Ok(Self { watched, scope, rule, delay_days: body.delay.unwrap_or(0), created_at, body })
    }

    /// Name of the rule.
    pub fn name(&self) -> &str {
        &self.body.name
    }

    /// Time from which on a day can be judged: after its end, or the time by which there must be events, and the delay.
    pub fn due(&self, day: Day) -> Timestamp {
        let Watched::Missing(_, seconds) = self.watched else {
            return day.start().plus_seconds((i64::from(self.delay_days) + 1) * DAY_SECONDS);
        };
        day.start().plus_seconds(seconds + i64::from(self.delay_days) * DAY_SECONDS)
    }

    /// Returns whether it is posted to a webhook when it crosses.
    pub fn notifies(&self, webhook: &str) -> bool {
        self.body.notify.as_ref().is_none_or(|some| some.iter().any(|one| one == webhook))
    }

    /// Returns whether its value only rises while a day goes on, and it fires above a number: once that is passed, the day is
    /// decided. What is live may be another release in the evening, with a smaller count. With a delay, the days before would have
    /// to be waited for.
    pub fn only_rises(&self) -> bool {
        let rises = match self.watched {
            Watched::Lag(_) => true,
            Watched::Count(..) => self.delay_days == 0 && !matches!(self.scope, Scope::Live { .. }),
            _ => false,
        };
        rises && matches!(self.rule.test, Test::Above(_))
    }

    /// Number of days before a day that it looks at.
    pub fn look_back(&self) -> u32 {
        if let Test::Moved(_) = self.rule.test { self.rule.window_days } else { 0 }
    }

    /// Text about a day on which the rule crossed.
    pub fn says(&self, day: &JudgedDay, transition: Transition) -> String {
        let (of, date) = (&self.scope, day.day);
        if let Watched::Missing(kind, _) = self.watched {
            let by = self.body.by.as_deref().unwrap_or("24:00");
            return match (transition, of) {
                (Transition::Fires, Scope::Workspace) => format!("no {kind} of {date} had come by {by}"),
                (Transition::Fires, _) => format!("no {kind}{of} had come on {date} by {by}"),
                (Transition::Resolves, Scope::Workspace) => {
                    format!("{kind} of {date} had come by {by} again")
                }
                // The time at which it came is not known.
                (Transition::Resolves, _) => format!("{kind}{of} had come on {date} again"),
            };
        }
        let why = match (transition, self.rule.test) {
            (Transition::Resolves, _) => " again".to_owned(),
            (Transition::Fires, Test::Above(limit)) => format!(", above {limit}"),
            (Transition::Fires, Test::Below(limit)) => format!(", below {limit}"),
            (Transition::Fires, Test::Moved(_)) => {
                let (deviations, days) = (day.measured.unwrap_or_default(), self.rule.window_days);
                format!(", {deviations:.1} deviations from the {days} days before")
            }
        };
        let number = day.reading.value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        format!("{}{of} on {date} is {number}{why}", self.watched.named())
    }
}

impl fmt::Display for Scope {
    /// Writes what follows the watched value in a sentence, if anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workspace => Ok(()),
            Self::Release(release) => write!(f, " of {release}"),
            Self::Live { model, environment } => write!(f, " of {model} in {environment}"),
        }
    }
}

impl Watched {
    /// Name of the value for people: `auc`, `the number of predictions`, `null_rate of score`,
    /// `psi of score against 2026-04-01..2026-04-30`.
    pub fn named(&self) -> String {
        let with = |tag: &Option<(String, String)>| {
            tag.as_ref().map_or_else(String::new, |(name, value)| format!(" with {name}={value}"))
        };
        match self {
            Self::Metric { metric, tag, .. } => format!("{}{}", metric.name(), with(tag)),
            Self::Count(kind, tag) => format!("the number of {kind}{}", with(tag)),
            Self::Missing(kind, _) => format!("no {kind}"),
            Self::Lag(kind) => format!("the lag of {kind} in seconds"),
            Self::Column(column, statistic) => format!("{statistic} of {column}"),
            Self::Drift(column, statistic, reference) => {
                format!("{statistic} of {column} against {reference}")
            }
        }
    }

    /// Field by which a rule says that it watches this.
    fn field(&self) -> &'static str {
        match self {
            Self::Metric { .. } => "metric",
            Self::Count(..) => "count",
            Self::Missing(..) => "missing",
            Self::Lag(_) => "lag",
            Self::Column(..) => "column",
            Self::Drift(..) => "drift",
        }
    }
}

/// Parses the watched value of a rule, and checks that its other fields belong to that.
fn watched(body: &AlertRuleBody) -> Result<Watched> {
    let AlertRuleBody { metric, count, missing, lag, column, drift, .. } = body;
    let watched = match (metric, count, missing, lag, column, drift) {
        (Some(name), None, None, None, None, None) => watched_metric(name, body)?,
        (None, Some(name), None, None, None, None) => Watched::Count(kind("count", name)?, tag_of(body)?),
        (None, None, Some(name), None, None, None) => {
            Watched::Missing(kind("missing", name)?, seconds_of(body.by.as_deref().unwrap_or("24:00"))?)
        }
        (None, None, None, Some(name), None, None) => Watched::Lag(kind("lag", name)?),
        (None, None, None, None, Some(column), None) => {
            let known: Vec<_> = column_statistics(sort("column", column)?).collect();
            Watched::Column(column.clone(), named(column, &known, body.statistic.as_deref(), |name| *name)?)
        }
        (None, None, None, None, None, Some(column)) => watched_drift(column, body)?,
        _ => {
            return Err(Error::invalid(
                "say what it watches by one of `metric`, `count`, `missing`, `column`, `drift` and `lag`",
            ));
        }
    };
    let belongs: [(&str, bool, &[&str]); 6] = [
        ("by", body.by.is_some(), &["missing"]),
        ("tag", body.tag.is_some(), &["metric", "count"]),
        ("min_completeness", body.min_completeness.is_some(), &["metric"]),
        ("statistic", body.statistic.is_some(), &["column", "drift"]),
        ("reference", body.reference.is_some(), &["drift"]),
        ("min_n", body.min_n.is_some(), &["metric", "column", "drift"]),
    ];
    for (field, is_given, owners) in belongs {
        let names = || owners.join("`, `");
        let names =
            || names().rsplit_once(", ").map_or_else(names, |(first, last)| format!("{first} and {last}"));
        demand(
            !is_given || owners.contains(&watched.field()),
            format!("`{field}` belongs to `{}`", names()),
        )?;
    }
    let has_tags = !matches!(watched, Watched::Count(Kind::Outcomes | Kind::Releases, Some(_)));
    demand(has_tags, "`tag`: predictions and metrics have tags, and are counted by them")?;
    Ok(watched)
}

fn watched_metric(name: &str, body: &AlertRuleBody) -> Result<Watched> {
    let metric = AnyMetric::named(name).ok_or_else(|| {
        Error::invalid(format!(
            "`{name}` is no metric of evaluations, such as auc or custom.NAME, and no logged metric, metric.NAME"
        ))
    })?;
    demand(
        metric.logged().is_none() || (body.tag.is_none() && body.min_completeness.is_none()),
        "`tag` and `min_completeness` belong to metrics of evaluations, not to a logged metric",
    )?;
    let min_completeness = body.min_completeness.unwrap_or(0.0);
    demand((0.0..=1.0).contains(&min_completeness), "`min_completeness` is a share from 0 to 1")?;
    Ok(Watched::Metric { metric, tag: tag_of(body)?, min_completeness })
}

fn watched_drift(column: &str, body: &AlertRuleBody) -> Result<Watched> {
    let sort = sort("drift", column)?;
    let known: Vec<&Statistic> =
        STATISTICS.iter().filter(|known| known.sort == Sort::Any || known.sort == sort).collect();
    let name = body.statistic.as_deref().unwrap_or(STATISTICS[0].name);
    let statistic = named(column, &known, Some(name), |known| known.name)?.name;
    let words = body.reference.as_deref();
    let words =
        words.ok_or_else(|| Error::invalid("`drift` needs the days of a `reference`, as FROM..TO"))?;
    let window: Window =
        words.parse().map_err(|error: Error| Error::invalid(format!("`reference`: {error}")))?;
    demand(
        window.days().take(MAX_REFERENCE_DAYS + 1).count() <= MAX_REFERENCE_DAYS,
        format!("`reference` has at most {MAX_REFERENCE_DAYS} days"),
    )?;
    Ok(Watched::Drift(column.to_owned(), statistic, window))
}

/// Finds the statistic of a name among those of a column.
fn named<T: Copy>(
    column: &str,
    known: &[T],
    name: Option<&str>,
    name_of: fn(&T) -> &'static str,
) -> Result<T> {
    let name = name.unwrap_or_default();
    known.iter().find(|known| name_of(known) == name).copied().ok_or_else(|| {
        let known = known.iter().map(name_of).collect::<Vec<_>>().join(", ");
        Error::invalid(format!("`statistic` of {column} is one of {known}, not `{name}`"))
    })
}

/// Parses the tag that a rule names, with its value.
fn tag_of(body: &AlertRuleBody) -> Result<Option<(String, String)>> {
    let Some(tag) = body.tag.as_deref() else { return Ok(None) };
    let (name, value) = tag.split_once('=').unwrap_or((tag, ""));
    check_name(name)?;
    demand(
        (1..=MAX_TEXT_BYTES).contains(&value.len()),
        format!("`tag` is NAME=VALUE with a value of 1 to {MAX_TEXT_BYTES} bytes"),
    )?;
    Ok(Some((name.to_owned(), value.to_owned())))
}

/// Returns the type of the values in a column of predictions, named by a field of a rule.
fn sort(field: &str, column: &str) -> Result<Sort> {
    Sort::of(column).ok_or_else(|| {
        Error::invalid(format!(
            "`{field}` is a column of predictions: score, value, latency_ms, label, tag.NAME or feature.NAME, not `{column}`"
        ))
    })
}

fn kind(field: &str, name: &str) -> Result<Kind> {
    name.parse().map_err(|error| Error::invalid(format!("`{field}` is {error}")))
}

/// Parses a time such as `06:00` as seconds from the beginning of a day.
fn seconds_of(time: &str) -> Result<i64> {
    minutes_of(time).filter(|minutes| *minutes > 0).map(|minutes| minutes * 60).ok_or_else(|| {
        Error::invalid(format!("`by` is a time of the day (UTC) from 00:01 to 24:00, not `{time}`"))
    })
}

/// Parses a time of the day from 00:00 to 24:00 as minutes; `None` if it is none.
fn minutes_of(time: &str) -> Option<i64> {
    let two = |text: &str| -> Option<i64> {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (hour, minute) = time.split_once(':')?;
    let (hour, minute) = (two(hour)?, two(minute)?);
    (minute < 60 && hour * 60 + minute <= 24 * 60).then_some(hour * 60 + minute)
}

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
    let is_whole = scope == Scope::Workspace;
    match watched {
        Watched::Metric { metric, .. } => demand(
            !is_whole || metric.logged().is_some(),
            "a metric is of a release: name a `release`, or a `model` and an `environment`",
        )?,
        Watched::Lag(_) => {
            demand(is_whole, "`lag` is of the whole workspace: name no `release` and no `model`")?;
            demand(body.delay.unwrap_or(0) == 0, "`lag` has no `delay`")?;
        }
        Watched::Missing(kind, _) => {
            demand(
                is_whole || *kind != Kind::Outcomes,
                "outcomes name no release, so what is `missing` of them is of the whole workspace",
            )?;
            demand(
                is_whole || body.delay.unwrap_or(0) == 0,
                "`missing` of a release has no `delay`: it is judged by what there is then",
            )?;
        }
        Watched::Count(_, tag) => demand(is_whole || tag.is_none(), NO_TAGS)?,
        Watched::Column(column, _) | Watched::Drift(column, ..) => {
            demand(is_whole || !column.starts_with(TAG_PREFIX), NO_TAGS)?;
        }
    }
    Ok(scope)
}

const NO_TAGS: &str = "values of tags are not counted by release: name no `release`";

fn rule(body: &AlertRuleBody, watched: &Watched) -> Result<Rule> {
    let AlertRuleBody { above, below, moved, clear, .. } = *body;
    for (name, limit) in [("above", above), ("below", below), ("moved", moved), ("clear", clear)] {
        demand(limit.is_none_or(f64::is_finite), format!("`{name}` is a finite number"))?;
    }
    match watched {
        Watched::Missing(..) => {
            demand(above.or(below).or(moved).is_none(), "`missing` has no threshold")?;
            demand(clear.is_none(), "`missing` has no `clear`")?;
        }
        Watched::Lag(_) => {
            demand(below.or(moved).is_none(), "`lag` has no `below` and no `moved`")?;
            let what = format!("`lag` fires `above` so many seconds, {LEAST_LAG} or more");
            demand(above.is_some_and(|limit| limit >= LEAST_LAG), what)?;
        }
        _ => demand(moved.is_none_or(|limit| limit > 0.0), "`moved` is a number of deviations above 0")?,
    }
    let test = match (above, below, moved) {
        (None, None, None) if matches!(watched, Watched::Missing(..)) => Test::Above(0.5),
        (Some(limit), None, None) => Test::Above(limit),
        (None, Some(limit), None) => Test::Below(limit),
        (None, None, Some(limit)) => Test::Moved(limit),
        _ => return Err(Error::invalid("say when it fires by one of `above`, `below` and `moved`")),
    };
    let is_before = clear.is_none_or(|clear| match test {
        Test::Above(limit) => clear <= limit,
        Test::Below(limit) => clear >= limit,
        Test::Moved(limit) => (0.0..=limit).contains(&clear),
    });
    demand(is_before, "`clear` lies on the good side of the threshold")?;
    demand(body.window.is_none() || moved.is_some(), "`window` belongs to `moved`")?;
    let [least, usual, most] = WINDOW_DAYS;
    let (window_days, for_days) = (body.window.unwrap_or(usual), body.for_days.unwrap_or(1));
    demand((least..=most).contains(&window_days), format!("`window` is {least} to {most} days"))?;
    demand((1..=MAX_FOR_DAYS).contains(&for_days), format!("`for` is 1 to {MAX_FOR_DAYS} days"))?;
    demand(body.delay.unwrap_or(0) <= MAX_DELAY_DAYS, format!("`delay` is 0 to {MAX_DELAY_DAYS} days"))?;
    demand(body.min_n.is_none_or(|n| i64::try_from(n).is_ok()), "`min_n` is too great")?;
    Ok(Rule { test, clear, min_n: body.min_n.unwrap_or(1), for_days, window_days })
}

/// Refuses webhooks to notify that have no valid name, or come twice.
fn check_notified(body: &AlertRuleBody) -> Result<()> {
    let mut known = std::collections::BTreeSet::new();
    for webhook in body.notify.iter().flatten() {
        check_name(webhook).map_err(|error| Error::invalid(format!("`notify`: {error}")))?;
        demand(known.insert(webhook), format!("`notify` names `{webhook}` twice"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
