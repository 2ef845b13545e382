//! How good the predictions of each release were on one day.
//!
//! Predictions are joined with outcomes by the rules of [`mod@crate::join`] and judged by the formulas of
//! [`crate::metrics`], as the [`Task`] of the release asks. An evaluation is always computed from all
//! segments of its day, so what it stores are the results. A day that is too large to be held as a whole is
//! taken [`Share`] by share; the result is the same to the bit.

mod figure;
mod judge;
mod meet;
mod share;

use std::collections::BTreeMap;

pub use judge::Evaluator;
pub use meet::Record;
use serde::{Deserialize, Serialize};
pub use share::Share;
use store::catalog::Task;

use crate::{
    LogSegment, Result,
    metrics::{CALIBRATION_BINS, CalibrationBin, Confusion, ratio},
    state,
};

/// Version of the text of an evaluation.
const STATE_VERSION: u32 = 1;

/// A prediction without a label is taken as one of the positive class from this score on.
pub const POSITIVE_SCORE: f64 = 0.5;

/// The columns that [`evaluate`] needs of predictions.
pub const PREDICTION_COLUMNS: &[&str] = &["key", "predicted_at", "release", "score", "label", "value"];

/// The columns that [`evaluate`] needs of outcomes.
pub const OUTCOME_COLUMNS: &[&str] = &["key", "predicted_at", "observed_at", "label", "value"];

/// How good the predictions of one workspace and day were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// By release.
    pub releases: BTreeMap<String, ReleaseEvaluation>,
}

/// How good the predictions of one release were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleaseEvaluation {
    /// Distinct predictions.
    pub predictions: u64,
    /// Those with an outcome, of whatever content.
    pub labelled: u64,
    /// The mean score of the distinct predictions that have one, with or without an outcome.
    pub mean_score: Option<f64>,
    /// How it did against the other releases of the day.
    #[serde(default, skip_serializing_if = "Record::is_empty")]
    pub record: Record,
    /// How they were judged; `None` when the task of the release is not known.
    pub measures: Option<Measures>,
}

impl ReleaseEvaluation {
    /// labelled / predictions: how much of the truth has arrived, from 0 to 1.
    pub fn maturity(&self) -> Option<f64> {
        ratio(self.labelled, self.predictions)
    }
}

/// The results by kind of task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measures {
    /// Of [`Task::Binary`].
    Binary(Box<Binary>),
    /// Of [`Task::Multiclass`].
    Multiclass(Multiclass),
    /// Of [`Task::Regression`].
    Regression(Regression),
}

/// Results of a binary classification. Only outcomes with a label judge. What is not defined, such
/// as precision when nothing was predicted positive, is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binary {
    /// The label of the positive class.
    pub positive: String,
    /// Predictions whose outcome has a label.
    pub judged: u64,
    /// How many of those outcomes are positive.
    pub positives: u64,
    /// Judged predictions with a class: one with a label is positive if it is the positive label, one
    /// without from a score of [`POSITIVE_SCORE`] on, one with neither has no class.
    pub confusion: Confusion,
    /// See [`Confusion::accuracy`].
    pub accuracy: Option<f64>,
    /// See [`Confusion::precision`].
    pub precision: Option<f64>,
    /// See [`Confusion::recall`].
    pub recall: Option<f64>,
    /// See [`Confusion::f1`].
    pub f1: Option<f64>,
    /// Judged predictions with a score in [0, 1]; the results below are theirs.
    pub scored: u64,
    /// See [`crate::metrics::Auc`].
    pub auc: Option<f64>,
    /// See [`crate::metrics::Probabilities::log_loss`].
    pub log_loss: Option<f64>,
    /// See [`crate::metrics::Probabilities::brier`].
    pub brier: Option<f64>,
    /// See [`crate::metrics::Probabilities::ece`].
    pub ece: Option<f64>,
    /// See [`crate::metrics::Probabilities::calibration`].
    pub calibration: [CalibrationBin; CALIBRATION_BINS],
}

/// Results of a classification into several classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Multiclass {
    /// Predictions with a label whose outcome has a label.
    pub judged: u64,
    /// Those in which the labels are equal.
    pub correct: u64,
    /// correct / judged (`accuracy_score`).
    pub accuracy: Option<f64>,
}

/// Results of predicting a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// Predictions with a value whose outcome has a value.
    pub judged: u64,
    /// See [`crate::metrics::Errors::mae`].
    pub mae: Option<f64>,
    /// See [`crate::metrics::Errors::rmse`].
    pub rmse: Option<f64>,
    /// See [`crate::metrics::Errors::bias`].
    pub bias: Option<f64>,
}

impl Evaluation {
    /// Its text: JSON without white space, keys in order, the same for the same log.
    pub fn to_state(&self) -> String {
        state::write(STATE_VERSION, self)
    }

    /// Reads the text of an evaluation. Every older version is understood here and nowhere else.
    ///
    /// # Errors
    /// When it is not such a text, or of a version that is not known.
    pub fn from_state(text: &str) -> Result<Self> {
        state::read("an evaluation", STATE_VERSION, text)
    }
}

/// Judges the predictions of a day by the outcomes in the log of the same day. A release that is
/// not in `tasks` is counted, but not judged.
///
/// # Errors
/// When a column is not what its kind must have, or there are more than 2^32 - 3 rows.
pub fn evaluate(
    predictions: &[LogSegment<'_>],
    outcomes: &[LogSegment<'_>],
    tasks: &BTreeMap<String, Task>,
) -> Result<Evaluation> {
    let mut evaluator = Evaluator::new(tasks.clone());
    evaluator.add(predictions, outcomes)?;
    Ok(evaluator.finish())
}

#[cfg(test)]
mod tests;
