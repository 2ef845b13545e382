//! The quality of the predictions of each release on one day.
//!
//! Predictions are joined with outcomes by the rules of [`mod@crate::join`] and evaluated by the formulas of
//! [`crate::formulas`], according to the [`Task`](event::Task) of the release. An evaluation is always computed from
//! all segments of its day, so it stores results only. A day too large for memory is taken partition by
//! partition ([`partitions`]); the result is the same to the bit.

mod cases;
mod classes;
mod custom;
mod duel;
mod evaluator;
mod fields;
mod grouping;
mod head_to_head;
mod interval;
mod judge;
mod release;
mod selection;
mod singles;
mod slices;
mod survey;

use std::{collections::BTreeMap, sync::Arc};

use event::{Costs, Day, Definition, Kind, fields::SCORE_PREFIX};
use serde::{Deserialize, Serialize};

use crate::{
    LogSegment, Result,
    formulas::{
        Bounds, CALIBRATION_BINS, CalibrationBin, ClassScores, Classes, Confusion, ErrorDetail, GroupMeans,
        Ranks, Worth, ratio,
    },
    join::{OUTCOME_COLUMNS, PREDICTION_COLUMNS},
    state,
};

pub use cases::Cases;
pub use classes::{Class, Taken};
pub use custom::{CustomValue, CustomValues};
pub use duel::Duels;
pub use evaluator::{Buckets, Evaluator};
pub use grouping::{Bucket, By, Grouping, Judged, LiveSpans, MAX_BUCKETS, MAX_BY, UNKNOWN, Value};
pub use head_to_head::Record;
pub use interval::{Estimate, Intervals, IntervalsOf, MAX_ROWS};
pub use selection::{Condition, LEVELS, PARTITIONS, partitions};
pub use singles::{Singles, Tested};
pub use slices::{MAX_SLICES, SliceRow, Slices};
pub use survey::{MAX_VALUES, Survey, Wanted};

/// Number of outcomes, none of them positive, from which on their labels are noted: the positive label may be wrong.
pub const MIN_DOUBTED: u64 = 20;

/// Maximum number of labels noted then.
pub const MAX_DOUBTED_LABELS: usize = 5;

/// Returns whether [`evaluate`] needs a column of a kind of events.
pub fn needs(kind: Kind, column: &str) -> bool {
    match kind {
        Kind::Predictions => {
            let judged = ["group", "score", "label", "value", "lower", "upper"].contains(&column);
            judged || PREDICTION_COLUMNS.contains(&column) || column.starts_with(SCORE_PREFIX)
        }
        Kind::Outcomes => ["label", "value"].contains(&column) || OUTCOME_COLUMNS.contains(&column),
        Kind::Metrics | Kind::Releases | Kind::Unmatched => false,
    }
}

/// The quality of the predictions of one workspace and day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Results by release.
    pub releases: BTreeMap<String, ReleaseEvaluation>,
    /// Results by the values of the dimensions that releases declare.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: Slices,
    /// Outcomes of the day, repeated ones too.
    pub outcomes: u64,
    /// Outcomes among them that fit no prediction of the day, of any release: none has their key or, if they name an
    /// instant, their key at that instant.
    pub orphaned: u64,
}

/// The quality of the predictions of one release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseEvaluation {
    /// Distinct predictions.
    pub predictions: u64,
    /// Number of further predictions that do not count, because the same one (by key and `predicted_at`) was sent again
    /// later. Rollups count them.
    pub repeated: u64,
    /// Number of predictions with an erased key.
    #[serde(default, skip_serializing_if = "state::is_default")]
    pub erased: u64,
    /// Predictions with an outcome of any content; see [`ReleaseEvaluation::judged`].
    pub labelled: u64,
    /// Mean score of the distinct predictions with a score, with or without an outcome.
    pub mean_score: Option<f64>,
    /// Record against the other releases of the day.
    #[serde(default, skip_serializing_if = "Record::is_empty")]
    pub record: Record,
    /// First day of the definition by which they were evaluated; `None` for the first definition.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "state::day")]
    pub defined_from: Option<Day>,
    /// Measures by task; `None` when the release has no definition.
    pub measures: Option<Measures>,
    /// Metrics that the model defines, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom: CustomValues,
    /// Uncertainty of the metrics, if requested; not stored.
    #[serde(skip)]
    pub intervals: Option<Intervals>,
    /// Further inputs for a test of a metric, if requested; not stored.
    #[serde(skip)]
    pub singles: Option<Arc<Singles>>,
}

impl ReleaseEvaluation {
    /// Returns the share of predictions with an outcome, from 0 to 1.
    pub fn maturity(&self) -> Option<f64> {
        ratio(self.labelled, self.predictions)
    }

    /// Returns the number of evaluated predictions: those whose outcome has a label or a value, as the task requires
    /// (the column `labelled`).
    pub fn judged(&self) -> u64 {
        match &self.measures {
            Some(Measures::Binary(of)) => of.judged,
            Some(Measures::Multiclass(of)) => of.judged,
            Some(Measures::Regression(of)) => of.judged,
            Some(Measures::Ranking(of)) => of.judged,
            None => 0,
        }
    }

    /// Returns the number of predictions with an outcome that cannot label them: it or the prediction lacks the label
    /// or value that the task requires, or the release has no task.
    pub fn unlabelled(&self) -> u64 {
        self.labelled.saturating_sub(self.judged())
    }
}

/// The results by kind of task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measures {
    /// Results of [`Task::Binary`](event::Task::Binary).
    Binary(Box<Binary>),
    /// Results of [`Task::Multiclass`](event::Task::Multiclass).
    Multiclass(Multiclass),
    /// Results of [`Task::Regression`](event::Task::Regression).
    Regression(Regression),
    /// Results of [`Task::Ranking`](event::Task::Ranking).
    Ranking(Box<Ranking>),
}

/// Results of a binary classification. Only outcomes with a label count. An undefined metric, such as precision when
/// nothing was predicted positive, is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binary {
    /// Label of the positive class.
    pub positive: String,
    /// Minimum score at which a prediction without a label is of the positive class.
    pub threshold: f64,
    /// Labels of the outcomes if none of at least [`MIN_DOUBTED`] is positive: the first [`MAX_DOUBTED_LABELS`] in
    /// the order of their bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<String>,
    /// Predictions whose outcome has a label.
    pub judged: u64,
    /// Number of these outcomes that are positive.
    pub positives: u64,
    /// Evaluated predictions with a class. A prediction with a label is positive if it equals the positive label, one
    /// without a label if its score is at least `threshold`; one with neither has no class.
    pub confusion: Confusion,
    /// See [`Confusion::accuracy`].
    pub accuracy: Option<f64>,
    /// See [`Confusion::precision`].
    pub precision: Option<f64>,
    /// See [`Confusion::recall`].
    pub recall: Option<f64>,
    /// See [`Confusion::f1`].
    pub f1: Option<f64>,
    /// Evaluated predictions with a score in [0, 1]; the results below are based on them.
    pub scored: u64,
    /// See [`crate::formulas::Scores::judge`].
    pub auc: Option<f64>,
    /// See [`crate::formulas::Probabilities::log_loss`].
    pub log_loss: Option<f64>,
    /// See [`crate::formulas::Probabilities::brier`].
    pub brier: Option<f64>,
    /// See [`crate::formulas::Probabilities::ece`].
    pub ece: Option<f64>,
    /// See [`crate::formulas::Probabilities::calibration`].
    pub calibration: [CalibrationBin; CALIBRATION_BINS],
    /// The other metrics of the scores.
    pub ranks: Ranks,
    /// Costs and gains of the predictions, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Worth of the predictions at these costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worth: Option<Worth>,
}

/// Results of a classification into several classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Multiclass {
    /// Predictions with a label or with scores whose outcome has a label. The class of one without a label is the
    /// class with the greatest score, among several the first in the order of their bytes.
    pub judged: u64,
    /// Evaluated predictions whose label is that of the outcome.
    pub correct: u64,
    /// `correct` / `judged` (`accuracy_score`).
    pub accuracy: Option<f64>,
    /// Counts by class.
    pub classes: Classes,
    /// Metrics of the scores.
    #[serde(default, skip_serializing_if = "state::is_default")]
    pub scores: ClassScores,
}

/// Results of predicting a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// Predictions with a value whose outcome has a value.
    pub judged: u64,
    /// See [`crate::formulas::ErrorMetrics::mae`].
    pub mae: Option<f64>,
    /// See [`crate::formulas::ErrorMetrics::rmse`].
    pub rmse: Option<f64>,
    /// See [`crate::formulas::ErrorMetrics::bias`].
    pub bias: Option<f64>,
    /// The other metrics.
    pub detail: ErrorDetail,
    /// Metrics of the intervals.
    #[serde(default, skip_serializing_if = "state::is_default")]
    pub bounds: Bounds,
    /// The share of real numbers that these intervals are to hold, if that is known and the same of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
}

/// Results of rankings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// Label of relevant items.
    pub positive: String,
    /// Predictions with a group and a score whose outcome has a relevance.
    pub judged: u64,
    /// Metrics of the groups.
    pub groups: GroupMeans,
}

impl Evaluation {
    /// Returns its text: JSON without white space, keys in order, the same for the same log.
    pub fn to_state(&self) -> String {
        state::write(self)
    }

    /// Splits the evaluation into texts of at most `most` bytes each: each is an evaluation of some of the releases,
    /// in the order of their names, and then of some rows of their slices. A single release or row that takes more
    /// gets a text of its own, which is longer.
    pub fn to_states(&self, most: usize) -> Vec<String> {
        let whole = self.to_state();
        if whole.len() <= most {
            return vec![whole];
        }
        let empty = Self::default().to_state().len();
        // Counts of the whole day go into the first text.
        let (outcomes, orphaned) = (self.outcomes, self.orphaned);
        let mut some = Self { outcomes, orphaned, ..Self::default() };
        let (mut states, mut bytes) = (Vec::new(), some.to_state().len());
        for piece in self.pieces() {
            // Length with the comma before it.
            let more = piece.to_state().len() - empty + 1;
            if bytes + more > most && !(some.releases.is_empty() && some.slices.is_empty()) {
                states.push(std::mem::take(&mut some).to_state());
                bytes = empty;
            }
            bytes += more;
            some.take(piece);
        }
        states.push(some.to_state());
        states
    }

    /// Splits the releases, and separately the rows of their slices, as [`Evaluation::to_states`]; the second list is
    /// empty if there are no rows.
    pub fn to_texts(&self, most: usize) -> (Vec<String>, Vec<String>) {
        if self.slices.is_empty() {
            return (self.to_states(most), Vec::new());
        }
        let plain = Self { slices: Slices::new(), ..self.clone() };
        let slices = Self { slices: self.slices.clone(), ..Self::default() };
        (plain.to_states(most), slices.to_states(most))
    }

    /// Reads the texts made by [`Evaluation::to_states`] and [`Evaluation::to_texts`].
    ///
    /// # Errors
    /// See [`Evaluation::from_state`].
    pub fn from_states(texts: &[String]) -> Result<Self> {
        let mut all = Self::default();
        for text in texts {
            let some = Self::from_state(text)?;
            (all.outcomes, all.orphaned) = (all.outcomes + some.outcomes, all.orphaned + some.orphaned);
            all.take(some);
        }
        Ok(all)
    }

    /// Reads the text of an evaluation.
    ///
    /// # Errors
    /// If the text is no evaluation of this version.
    pub fn from_state(text: &str) -> Result<Self> {
        state::read("an evaluation", text)
    }
}

/// Evaluates the predictions of a day by the outcomes in the log of the same day. A release without a definition is
/// counted, but not evaluated.
///
/// # Errors
/// Fails if a column is not as its kind requires, or if there are more than 2^32 - 3 rows.
pub fn evaluate(
    predictions: &[LogSegment<'_>],
    outcomes: &[LogSegment<'_>],
    definitions: &BTreeMap<String, Definition>,
) -> Result<Evaluation> {
    let mut evaluator = Evaluator::new(definitions.clone());
    if let Some(mut survey) = evaluator.survey() {
        predictions.iter().try_for_each(|segment| survey.add(segment.columns))?;
        evaluator = evaluator.split(survey);
    }
    evaluator.add(predictions, outcomes)?;
    Ok(evaluator.finish())
}

#[cfg(test)]
mod tests;
