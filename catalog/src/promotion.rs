//! Promotion gates: conditions that a release of a model must pass before it is made live.
//!
//! They stand with their model, in its item. The judgement is a pure function of [`Evidence`]: of metrics, which another room
//! reads, and of approvals, which stand with the release, in its item. A release is judged once, at the request to make it live,
//! by the evidence of that time.

mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{MAX_DELAY_DAYS, PrimaryMetric, last_whole_day};
use event::{Error, Result, Timestamp, Window, id::check_name};
use fold::AnyMetric;
use log::audit::Author;
use serde::{Deserialize, Serialize};
use table::Item;

/// Default number of days over which a release is judged.
pub const GATE_DAYS: u32 = 7;

/// Maximum number of days over which a release is judged.
pub const MAX_GATE_DAYS: u32 = 31;

/// Maximum environments that gates name.
pub const MAX_GATE_ENVIRONMENTS: usize = 16;

/// Maximum approvals of a release at one time.
pub const MAX_APPROVALS: usize = 16;

/// Maximum bytes of the remark of an approval.
pub const MAX_APPROVAL_NOTE_BYTES: usize = 512;

/// Share of the greater metric by which two metrics may differ through rounding.
const ROUNDING: f64 = 1e-12;

/// Attributes of the items of a model and of a release.
pub(super) const GATES: &str = "gates";
const APPROVALS: &str = "approvals";

/// Promotion gates as written in a request, in the item of a model, and in an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromotionGatesBody {
    /// Number of whole days (UTC) before today that are judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// Days that must pass after a day before it is judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<u32>,
    /// Environments in which the gates hold; all, when none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    /// Minimum number of judged predictions of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_n: Option<u64>,
    /// Metric that must be as good as that of the live release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Direction in which the metric is better, `max` or `min`, if it does not follow from the metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Amount by which the metric may be worse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Minimum share judged of the predictions that will be judged in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completeness: Option<f64>,
    /// True if a person must have approved it who neither created the release nor asks for it to be live.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub second_person: bool,
}

/// Gates that a release of a model must pass before it is made live. At least one gate is declared.
#[derive(Clone, Debug, PartialEq)]
pub struct PromotionGates {
    /// Number of whole days (UTC) before today that are judged, 1 to [`MAX_GATE_DAYS`].
    pub days: u32,
    /// Days that must pass after a day before it is judged, up to [`MAX_DELAY_DAYS`].
    pub delay_days: u32,
    /// Environments in which the gates hold; all, when it is empty.
    pub environments: BTreeSet<String>,
    /// Minimum number of judged predictions of the release.
    pub min_n: Option<u64>,
    /// Comparison with the live release.
    pub champion: Option<AgainstChampion>,
    /// Minimum share judged of the predictions that will be judged in the end.
    pub completeness: Option<f64>,
    /// True if a second person must have approved it.
    pub second_person: bool,
}

/// Metric that must be as good as that of the live release, but for a margin.
#[derive(Clone, Debug, PartialEq)]
pub struct AgainstChampion {
    /// Metric and its better direction.
    pub metric: PrimaryMetric,
    /// Amount by which it may be worse; 0 or more.
    pub margin: f64,
}

/// Approval of a release for an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Environment of the approval.
    pub environment: String,
    /// Principal who approved, as named in the audit log.
    pub principal: String,
    /// Time of the approval.
    pub at: Timestamp,
    /// A remark.
    pub note: Option<String>,
}

/// Measurements to read of the events for a release that is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct ToMeasure {
    /// The days.
    pub window: Window,
    /// The release, by name.
    pub release: String,
    /// Name of the live release, if there is one.
    pub champion: Option<String>,
    /// Metric of both, if one is needed.
    pub metric: Option<AnyMetric>,
    /// True if completeness is needed.
    pub is_of_completeness: bool,
}

/// Measurements that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Number of judged predictions of the release.
    pub judged: u64,
    /// Metric of the release, if it is defined.
    pub value: Option<f64>,
    /// Metric of the live release, if it is defined.
    pub of_champion: Option<f64>,
    /// Share judged of the predictions of the release that will be judged in the end; `None`, if it is not known yet.
    pub completeness: Option<f64>,
}

/// Evidence by which a release is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence<'a> {
    /// Environment in which it is to be live.
    pub environment: &'a str,
    /// The days that were read.
    pub window: Window,
    /// Measurements of these days.
    pub measured: Measured,
    /// The live release, if there is one.
    pub champion: Option<&'a str>,
    /// Principal who asks for it.
    pub requester: &'a str,
    /// Principal who created the release, if known.
    pub created_by: Option<&'a str>,
    /// Approvals of the release.
    pub approvals: &'a [Approval],
}

/// Reason to make a release live that does not pass its gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override<'a> {
    /// The reason.
    pub reason: &'a str,
    /// True if an administrator gives it: nobody else overrides the gate of a second person.
    pub is_by_admin: bool,
}

/// Gate of a second person, which only administrators override or remove.
pub const SECOND_PERSON: &str = "second_person";

/// Gate that a release did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedGate {
    /// Name of the gate.
    pub gate: &'static str,
    /// Reason of the failure.
    pub reason: String,
}

/// A kind of gate.
#[derive(Debug)]
pub struct GateKind {
    /// Name, which is that of the field that declares it.
    pub name: &'static str,
    /// Condition in words.
    pub says: &'static str,
    /// Returns whether gates declare one of the kind.
    is_declared: fn(&PromotionGates) -> bool,
    /// Returns why a release does not pass; `None`, if it passes or the gate is not declared.
    fails: fn(&PromotionGates, &Evidence<'_>) -> Option<String>,
}

/// All kinds of gates.
pub const GATE_KINDS: [GateKind; 4] = [
    GateKind {
        name: "min_n",
        says: "at least so many predictions of the release are judged",
        is_declared: |gates| gates.min_n.is_some(),
        fails: few,
    },
    GateKind {
        name: "metric",
        says: "this metric is as good as that of the live release, or worse by the margin at most; it passes where none is live",
        is_declared: |gates| gates.champion.is_some(),
        fails: worse,
    },
    GateKind {
        name: "completeness",
        says: "of the predictions of the release that will be judged in the end, at least this share is",
        is_declared: |gates| gates.completeness.is_some(),
        fails: immature,
    },
    GateKind {
        name: SECOND_PERSON,
        says: "somebody has approved it who neither created the release nor asks for it to be live",
        is_declared: |gates| gates.second_person,
        fails: alone,
    },
];

fn few(gates: &PromotionGates, of: &Evidence<'_>) -> Option<String> {
    let (min, judged, window) = (gates.min_n?, of.measured.judged, of.window);
    let (from, to) = (window.from(), window.to());
    (judged < min).then(|| {
        format!("{judged} of its predictions of {from} to {to} are judged, and at least {min} are asked for")
    })
}

fn worse(gates: &PromotionGates, of: &Evidence<'_>) -> Option<String> {
    let AgainstChampion { metric, margin } = gates.champion.as_ref()?;
    let (name, champion) = (metric.metric.name(), of.champion?);
    let (from, to) = (of.window.from(), of.window.to());
    let Some(value) = of.measured.value else {
        return Some(format!("it has no {name} of {from} to {to}"));
    };
    let Some(other) = of.measured.of_champion else {
        return Some(format!(
            "the live release `{champion}` has no {name} of {from} to {to} to compare with"
        ));
    };
    let worse_by = metric.score(other) - metric.score(value);
    // A value that is not a number is not as good as any other.
    let is_as_good = worse_by <= margin + ROUNDING * value.abs().max(other.abs());
    (!is_as_good).then(|| {
        let direction = metric.direction.name();
        format!(
            "its {name} of {from} to {to} is {value}, that of the live release `{champion}` is {other} \
             (better is {direction}), and at most {margin} worse is taken"
        )
    })
}

fn immature(gates: &PromotionGates, of: &Evidence<'_>) -> Option<String> {
    let least = gates.completeness?;
    let (from, to) = (of.window.from(), of.window.to());
    match of.measured.completeness {
        Some(share) if share >= least => None,
        Some(share) => Some(format!(
            "{share:.4} of its predictions of {from} to {to} that will be judged are, and at least {least} is asked for"
        )),
        None => Some(format!(
            "how many of its predictions of {from} to {to} will be judged in the end cannot be told yet, and at \
             least {least} of them are to be; a greater `delay` has earlier days judged"
        )),
    }
}

fn alone(gates: &PromotionGates, of: &Evidence<'_>) -> Option<String> {
    if !gates.second_person {
        return None;
    }
    let is_second = |approval: &&Approval| {
        approval.environment == of.environment
            && approval.principal != of.requester
            // The identity of an anonymous approver is not known.
            && approval.principal != Author::anonymous().principal
            && Some(&*approval.principal) != of.created_by
    };
    let created = of.created_by.map(|who| format!("{who}, who created it, or ")).unwrap_or_default();
    let (requester, environment) = (of.requester, of.environment);
    of.approvals.iter().find(is_second).is_none().then(|| {
        format!("nobody has approved it for {environment} other than {created}{requester}, who asks for it")
    })
}

/// Decodes the gates from the item of a model.
pub(super) fn gates_of(item: &Item) -> Result<Option<PromotionGates>> {
    let body = item.field::<Option<_>>(GATES)?.unwrap_or_default();
    PromotionGates::read(&body).map_err(|error| item.corrupt(format_args!("`{GATES}`: {error}")))
}

impl PromotionGates {
    /// Checks gates as written; `None`, when they are empty, and so declare no gate.
    ///
    /// # Errors
    /// `Invalid`, naming the field.
    pub fn read(body: &PromotionGatesBody) -> Result<Option<Self>> {
        if *body == PromotionGatesBody::default() {
            return Ok(None);
        }
        let days = body.days.unwrap_or(GATE_DAYS);
        if !(1..=MAX_GATE_DAYS).contains(&days) {
            return Err(Error::invalid(format!("days: gates judge 1 to {MAX_GATE_DAYS} days, not {days}")));
        }
        let delay_days = body.delay.unwrap_or_default();
        if delay_days > MAX_DELAY_DAYS {
            return Err(Error::invalid(format!("delay: it is 0 to {MAX_DELAY_DAYS} days, not {delay_days}")));
        }
        if body.environments.len() > MAX_GATE_ENVIRONMENTS {
            let message = format!("environments: gates name at most {MAX_GATE_ENVIRONMENTS}");
            return Err(Error::invalid(message));
        }
        for name in &body.environments {
            check_name(name).map_err(|error| Error::invalid(format!("environments: {error}")))?;
        }
        let metric = PrimaryMetric::parse(body.metric.as_deref(), body.direction.as_deref())
            .map_err(|error| Error::invalid(format!("metric: {error}")))?;
        let margin = body.margin.unwrap_or_default();
        let champion = match metric {
            Some(metric) if (0.0..=1e15).contains(&margin) => Some(AgainstChampion { metric, margin }),
            Some(_) => return Err(Error::invalid(format!("margin: {margin} is not a number from 0 on"))),
            None if body.margin.is_some() => {
                return Err(Error::invalid("margin: it is of a metric; name that as well"));
            }
            None => None,
        };
        if let Some(share) = body.completeness.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(Error::invalid(format!("completeness: {share} is not a share from 0 to 1")));
        }
        let gates = Self {
            days,
            delay_days,
            environments: body.environments.iter().cloned().collect(),
            min_n: body.min_n,
            champion,
            completeness: body.completeness,
            second_person: body.second_person,
        };
        match GATE_KINDS.iter().any(|kind| (kind.is_declared)(&gates)) {
            true => Ok(Some(gates)),
            false => {
                let kinds = GATE_KINDS.map(|kind| kind.name).join(", ");
                Err(Error::invalid(format!("gates say at least one of {kinds}")))
            }
        }
    }

    /// Gates as written.
    pub fn body(&self) -> PromotionGatesBody {
        let champion = self.champion.as_ref();
        PromotionGatesBody {
            days: Some(self.days),
            delay: Some(self.delay_days).filter(|days| *days > 0),
            environments: self.environments.iter().cloned().collect(),
            min_n: self.min_n,
            metric: champion.map(|of| of.metric.metric.name().to_owned()),
            direction: champion.map(|of| of.metric.direction.name().to_owned()),
            margin: champion.map(|of| of.margin),
            completeness: self.completeness,
            second_person: self.second_person,
        }
    }

    /// Returns whether the gates hold in an environment.
    pub fn hold_in(&self, environment: &str) -> bool {
        self.environments.is_empty() || self.environments.contains(environment)
    }

    /// Returns whether anything must be read of the events to judge a release.
    pub fn need_metrics(&self) -> bool {
        self.min_n.is_some() || self.champion.is_some() || self.completeness.is_some()
    }

    /// Whole days before now that are judged, the last of which ended at least the delay ago.
    pub fn window(&self, now: Timestamp) -> Result<Window> {
        let before = |days: u32| last_whole_day(now, self.delay_days + days);
        Window::new(before(self.days - 1), before(0))
    }

    /// Gates that a release does not pass, in the order of [`GATE_KINDS`].
    pub fn judge(&self, of: &Evidence<'_>) -> Vec<FailedGate> {
        let failed = |kind: &GateKind| Some(FailedGate { gate: kind.name, reason: (kind.fails)(self, of)? });
        GATE_KINDS.iter().filter_map(failed).collect()
    }
}
