//! Warnings from the evaluations of the last days: a positive label that no outcome has, and outcomes that fit no
//! prediction.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
};

use catalog::Recent;
use event::{Day, Id, Result};
use fold::{
    Evaluation,
    evaluation::{Binary, MAX_DOUBTED_LABELS, Measures},
};
use table::Table;

/// Number of days that are checked, up to the latest projected one.
pub const WARNING_DAYS: usize = 7;

/// Warnings of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warnings {
    /// First checked day.
    pub from: Day,
    /// Last checked day.
    pub to: Day,
    /// Warnings found.
    pub found: Vec<Warning>,
}

/// Possible mistake of a client that sends events, as seen in the evaluations of the last days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No outcome of a release has its positive label.
    NeverPositive {
        /// The release.
        release: String,
        /// Positive label of its definition.
        positive_label: String,
        /// Number of outcomes with a label.
        outcomes: u64,
        /// Labels of the outcomes: the first ones in byte order.
        labels: Vec<String>,
    },
    /// Outcomes fit no prediction of their day.
    Orphaned {
        /// Number of outcomes that fit no prediction.
        orphaned: u64,
        /// Number of all outcomes.
        outcomes: u64,
    },
    /// An evaluation cannot be read.
    Unreadable {
        /// Day of the evaluation.
        day: Day,
        /// Reason of the failure.
        reason: String,
    },
}

impl Warning {
    /// Name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NeverPositive { .. } => "never_positive",
            Self::Orphaned { .. } => "orphaned",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverPositive { release, positive_label, outcomes, labels } => {
                let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
                let labels = labels.join(", ");
                write!(
                    f,
                    "none of {outcomes} outcomes of {release} has the positive label `{positive_label}`; they have {labels}"
                )
            }
            Self::Orphaned { orphaned, outcomes } => {
                write!(f, "{orphaned} of {outcomes} outcomes fit no prediction of their day")
            }
            Self::Unreadable { day, reason } => write!(f, "the evaluation of {day} cannot be read: {reason}"),
        }
    }
}

/// Reads the warnings of the last days of a version; `None`, when no day is projected.
///
/// # Errors
/// Errors of the table that may pass.
pub(crate) async fn warnings(table: &dyn Table, version: u32, workspace: &Id) -> Result<Option<Warnings>> {
    let Some(mut recent) = Recent::of(table, version, workspace).await? else { return Ok(None) };
    let to = recent.step_back();
    let (mut from, mut collected) = (to, Collected::default());
    loop {
        match recent.evaluation(from).await {
            Ok(Some(evaluation)) => collected.add(evaluation),
            Ok(None) => {}
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => {
                collected.unreadable.push(Warning::Unreadable { day: from, reason: error.to_string() });
            }
        }
        if (to.number() - from.number()) as usize + 1 >= WARNING_DAYS {
            return Ok(Some(Warnings { from, to, found: collected.found() }));
        }
        from = recent.step_back();
    }
}

/// Warnings so far, from the latest day backwards.
#[derive(Debug, Default)]
struct Collected {
    /// Binary releases, by name.
    binary: BTreeMap<String, ReleaseOutcomes>,
    orphaned: u64,
    outcomes: u64,
    unreadable: Vec<Warning>,
}

/// Outcomes of a release.
#[derive(Debug)]
struct ReleaseOutcomes {
    positive_label: String,
    outcomes: u64,
    positives: u64,
    labels: BTreeSet<String>,
}

impl Collected {
    fn add(&mut self, evaluation: Evaluation) {
        self.orphaned += evaluation.orphaned;
        self.outcomes += evaluation.outcomes;
        for (release, judged) in evaluation.releases {
            if let Some(Measures::Binary(binary)) = judged.measures {
                self.add_binary(release, *binary);
            }
        }
    }

    fn add_binary(&mut self, release: String, binary: Binary) {
        let doubted = match self.binary.entry(release) {
            // Days evaluated by another positive label than the latest do not count.
            Entry::Occupied(known) if known.get().positive_label != binary.positive => return,
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(ReleaseOutcomes {
                positive_label: binary.positive,
                outcomes: 0,
                positives: 0,
                labels: BTreeSet::new(),
            }),
        };
        doubted.outcomes += binary.judged;
        doubted.positives += binary.positives;
        doubted.labels.extend(binary.instead);
    }

    fn found(self) -> Vec<Warning> {
        let doubted = self.binary.into_iter().filter(|(_, one)| one.positives == 0 && !one.labels.is_empty());
        let mut found: Vec<Warning> = doubted
            .map(|(release, one)| Warning::NeverPositive {
                release,
                positive_label: one.positive_label,
                outcomes: one.outcomes,
                labels: one.labels.into_iter().take(MAX_DOUBTED_LABELS).collect(),
            })
            .collect();
        if self.orphaned > 0 {
            found.push(Warning::Orphaned { orphaned: self.orphaned, outcomes: self.outcomes });
        }
        found.extend(self.unreadable);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day of one release: its positive label, outcomes, how many are positive, and other labels.
    fn day(positive: &str, judged: u64, positives: u64, instead: &[&str]) -> Evaluation {
        let instead: Vec<String> = instead.iter().map(|label| format!("\"{label}\"")).collect();
        let (instead, outcomes) = (instead.join(","), judged + 2);
        let bins = [r#"{"n":0,"sum":0.0,"positives":0}"#; 10].join(",");
        let state = format!(
            r#"{{"v":1,"slices":{{}},"outcomes":{outcomes},"orphaned":2,"releases":{{"v1":{{
                "predictions":{judged},"repeated":0,"labelled":{judged},"mean_score":null,"measures":{{"binary":{{
                    "positive":"{positive}","threshold":0.5,"instead":[{instead}],"judged":{judged},"positives":{positives},
                    "confusion":{{"tp":0,"fp":0,"tn":0,"fn":0}},
                    "accuracy":null,"precision":null,"recall":null,"f1":null,"scored":0,
                    "auc":null,"log_loss":null,"brier":null,"ece":null,"calibration":[{bins}],
                    "ranks":{{"average_precision":null,"ks":null,"lift_at_10":null,"ece_sklearn":null,"ece_guo":null}}}}}}}}}}}}"#
        );
        Evaluation::from_state(&state).unwrap()
    }

    /// Warnings of days, the latest first.
    fn found(days: &[Evaluation]) -> Vec<String> {
        let mut collected = Collected::default();
        days.iter().for_each(|day| collected.add(day.clone()));
        collected.found().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn orphaned_positive_label_is_warned_about_once() {
        let (one, other) = (day("late", 20, 0, &["0", "1"]), day("late", 30, 0, &["1", "2"]));
        assert_eq!(
            found(&[one.clone(), other]),
            [
                "none of 50 outcomes of v1 has the positive label `late`; they have `0`, `1`, `2`",
                "4 of 54 outcomes fit no prediction of their day"
            ]
        );
        assert_eq!(found(&[one.clone(), day("late", 1, 1, &[])]).len(), 1, "one is positive");
        // The positive label was corrected from a day on.
        assert_eq!(found(&[day("1", 20, 9, &[]), one.clone()]).len(), 1);
        assert_eq!(found(&[one, day("1", 20, 9, &[])]).len(), 2, "and then spoilt");
        assert_eq!(found(&[day("late", 19, 0, &[])]).len(), 1, "too few to doubt");
    }
}
