//! What judges predictions by their outcomes, by task.

use std::collections::BTreeSet;

use event::{Definition, Task, fields::same_label};

use super::{Binary, MAX_DOUBTED_LABELS, MIN_DOUBTED, Measures, Multiclass, Regression, fields::Fields};
use crate::metrics::{
    ClassProbabilities, Confusion, ErrorFigures, Errors, Intervals, Probabilities, Scores, Tally, ratio,
};

/// Judges the predictions of a release.
#[derive(Clone, Debug)]
pub(super) enum Judge {
    Binary(Box<BinaryJudge>),
    Multiclass(Box<MulticlassJudge>),
    Regression(Box<RegressionJudge>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct MulticlassJudge {
    tally: Tally,
    probabilities: ClassProbabilities,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RegressionJudge {
    errors: Errors,
    /// `None` as long as there are none.
    intervals: Option<Box<Intervals>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct BinaryJudge {
    positive: String,
    threshold: f64,
    /// Whether the class of a prediction with both is that of its score, not its label.
    is_by_score: bool,
    judged: u64,
    positives: u64,
    /// Labels of outcomes while none was positive.
    instead: BTreeSet<String>,
    confusion: Confusion,
    ranked: Scores,
    probabilities: Probabilities,
}

impl Judge {
    /// Has judged nothing yet. A threshold that is given counts before that of the definition, and scores before labels.
    pub(super) fn new(definition: &Definition, threshold: Option<f64>) -> Self {
        match &definition.task {
            Task::Binary { positive_label } => Self::Binary(Box::new(BinaryJudge {
                positive: positive_label.clone(),
                threshold: threshold.unwrap_or(definition.threshold),
                is_by_score: threshold.is_some(),
                ..Default::default()
            })),
            Task::Multiclass => Self::Multiclass(Box::default()),
            Task::Regression => Self::Regression(Box::default()),
        }
    }

    /// Judges by another definition from now on. Says whether it can: the task must be of the same kind.
    pub(super) fn go_on(&mut self, definition: &Definition, threshold: Option<f64>) -> bool {
        match (self, &definition.task) {
            (Self::Binary(judge), Task::Binary { positive_label }) => {
                judge.positive.clone_from(positive_label);
                judge.threshold = threshold.unwrap_or(definition.threshold);
            }
            (Self::Multiclass(_), Task::Multiclass) | (Self::Regression(_), Task::Regression) => {}
            _ => return false,
        }
        true
    }

    /// How many bytes it takes that grow with what it has judged.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Binary(judge) => judge.ranked.bytes(),
            Self::Multiclass(judge) => judge.probabilities.bytes(),
            Self::Regression(judge) => judge.errors.bytes(),
        }
    }

    /// Whether the outcome judges the prediction.
    pub(super) fn judges(&self, prediction: Fields<'_>, outcome: Fields<'_>) -> bool {
        match self {
            Self::Binary(_) => outcome.label.is_some(),
            Self::Multiclass(_) => prediction.class().is_some() && outcome.label.is_some(),
            Self::Regression(_) => {
                let numbers = [prediction.value, prediction.lower, prediction.upper];
                outcome.value.is_some() && numbers.iter().any(Option::is_some)
            }
        }
    }

    /// Judges a prediction, if its outcome does.
    #[inline]
    pub(super) fn add(&mut self, prediction: Fields<'_>, outcome: Fields<'_>) {
        match self {
            Self::Binary(judge) => judge.add(prediction, outcome),
            Self::Multiclass(judge) => judge.add(prediction, outcome),
            Self::Regression(judge) => judge.add(prediction, outcome),
        }
    }

    pub(super) fn finish(self) -> Measures {
        match self {
            Self::Binary(judge) => Measures::Binary(Box::new(judge.finish())),
            Self::Multiclass(judge) => {
                let MulticlassJudge { tally, probabilities } = *judge;
                Measures::Multiclass(Multiclass {
                    judged: tally.judged(),
                    correct: tally.correct(),
                    accuracy: ratio(tally.correct(), tally.judged()),
                    classes: Some(tally.classes()),
                    scores: Some(probabilities.judge()),
                })
            }
            Self::Regression(judge) => {
                let RegressionJudge { errors, intervals } = *judge;
                let ErrorFigures { n, mae, rmse, bias, detail } = errors.judge();
                Measures::Regression(Regression {
                    judged: n,
                    mae,
                    rmse,
                    bias,
                    detail: Some(detail),
                    bounds: Some(intervals.map(|intervals| intervals.judge()).unwrap_or_default()),
                })
            }
        }
    }
}

impl MulticlassJudge {
    #[inline]
    fn add(&mut self, prediction: Fields<'_>, outcome: Fields<'_>) {
        let (Some(predicted), Some(real)) = (prediction.class(), outcome.label) else { return };
        self.tally.add(predicted, real);
        if let Some(scores) = prediction.scores {
            self.probabilities.add(scores.iter(), real);
        }
    }
}

impl RegressionJudge {
    #[inline]
    fn add(&mut self, prediction: Fields<'_>, outcome: Fields<'_>) {
        let Some(real) = outcome.value else { return };
        if let Some(predicted) = prediction.value {
            self.errors.add(predicted, real);
        }
        if prediction.lower.is_some() || prediction.upper.is_some() {
            self.intervals.get_or_insert_default().add(prediction.lower, prediction.upper, real);
        }
    }
}

impl BinaryJudge {
    #[inline]
    fn add(&mut self, prediction: Fields<'_>, outcome: Fields<'_>) {
        let Some(label) = outcome.label else { return };
        let real = same_label(label, &self.positive);
        self.judged += 1;
        self.positives += u64::from(real);
        if self.positives == 0 {
            self.doubt(label);
        }
        let by_label = prediction.label.map(|label| same_label(label, &self.positive));
        let by_score = prediction.score.map(|score| score >= self.threshold);
        let predicted = if self.is_by_score { by_score.or(by_label) } else { by_label.or(by_score) };
        if let Some(predicted) = predicted {
            self.confusion.add(predicted, real);
        }
        // A score outside of [0, 1] is no probability, and every formula below needs one.
        if let Some(score) = prediction.score.filter(|score| (0.0..=1.0).contains(score)) {
            self.ranked.add(score, real);
            self.probabilities.add(score, real);
        }
    }

    /// Notes a label that is not the positive one, if it is among the first in the order of their bytes.
    fn doubt(&mut self, label: &str) {
        let is_full = self.instead.len() >= MAX_DOUBTED_LABELS;
        let is_late = is_full && self.instead.last().is_some_and(|last| last.as_str() <= label);
        if is_late || self.instead.contains(label) {
            return;
        }
        self.instead.insert(label.to_owned());
        if is_full {
            self.instead.pop_last();
        }
    }

    fn finish(self) -> Binary {
        let is_doubted = self.positives == 0 && self.judged >= MIN_DOUBTED;
        let instead = if is_doubted { self.instead.into_iter().collect() } else { Vec::new() };
        let (confusion, probabilities) = (self.confusion, self.probabilities);
        let (auc, ranks) = self.ranked.judge();
        Binary {
            positive: self.positive,
            threshold: self.threshold,
            instead,
            judged: self.judged,
            positives: self.positives,
            confusion,
            accuracy: confusion.accuracy(),
            precision: confusion.precision(),
            recall: confusion.recall(),
            f1: confusion.f1(),
            scored: probabilities.n(),
            auc,
            log_loss: probabilities.log_loss(),
            brier: probabilities.brier(),
            ece: probabilities.ece(),
            calibration: probabilities.calibration(),
            ranks: Some(ranks),
        }
    }
}
