//! From joined rows to the results of each release.

use std::collections::BTreeMap;

use super::{
    Binary, Evaluation, Measures, Multiclass, POSITIVE_SCORE, Record, Regression, ReleaseEvaluation, meet,
};
use crate::{
    ExactSum, Joined, LogSegment, Result, RowRef,
    metrics::{Auc, Confusion, Errors, Probabilities, mean, ratio},
    read::{Numbers, Texts, floats, texts},
};
use store::catalog::Task;

/// Judges `joined`, which is the join of these predictions and outcomes.
pub(super) fn judge(
    joined: &Joined,
    predictions: &[LogSegment<'_>],
    outcomes_in_log: &[LogSegment<'_>],
    tasks: &BTreeMap<String, Task>,
) -> Result<Evaluation> {
    let predictions = predictions.iter().map(View::read).collect::<Result<Vec<_>>>()?;
    let outcomes = outcomes_in_log.iter().map(View::read).collect::<Result<Vec<_>>>()?;
    let mut releases: Vec<_> =
        joined.releases.iter().map(|release| Release::new(tasks.get(release))).collect();
    for pair in &joined.pairs {
        let prediction = predictions[pair.prediction.segment as usize].fields(pair.prediction);
        let outcome = pair.outcome.map(|at| outcomes[at.segment as usize].fields(at));
        releases[pair.release as usize].add(prediction, outcome);
    }
    let rivals: Vec<_> = joined.releases.iter().map(|release| tasks.get(release)).collect();
    let numbers = task_numbers(&rivals);
    let records = meet::records(joined, outcomes_in_log, |pair| {
        let release = pair.release as usize;
        let prediction = predictions[pair.prediction.segment as usize].fields(pair.prediction);
        let outcome = pair.outcome.map(|at| outcomes[at.segment as usize].fields(at))?;
        Some((numbers[release], distance(rivals[release]?, prediction, outcome)?))
    });
    let results = releases.into_iter().zip(records).map(|(release, record)| release.finish(record));
    Ok(Evaluation { releases: joined.releases.iter().cloned().zip(results).collect() })
}

/// Numbers for what releases are to predict; those of equal tasks have the same.
fn task_numbers<'a>(tasks: &[Option<&'a Task>]) -> Vec<u32> {
    let mut known = Vec::<Option<&'a Task>>::new();
    let mut numbers = Vec::with_capacity(tasks.len());
    for task in tasks {
        let number = known.iter().position(|known| known == task).unwrap_or(known.len());
        if number == known.len() {
            known.push(*task);
        }
        numbers.push(number as u32);
    }
    numbers
}

/// How far a prediction is from the truth: a probability from 0 or 1, a number from the real one, and a class
/// by 1 if it is not the real one.
fn distance(task: &Task, prediction: Fields<'_>, outcome: Fields<'_>) -> Option<f64> {
    let wrong = |is_wrong: bool| f64::from(u8::from(is_wrong));
    match task {
        Task::Binary { positive_label } => {
            let real = outcome.label? == positive_label;
            let by_score = prediction.score.filter(|score| (0.0..=1.0).contains(score));
            by_score
                .map(|score| (score - wrong(real)).abs())
                .or(prediction.label.map(|label| wrong((label == positive_label) != real)))
        }
        Task::Multiclass => Some(wrong(prediction.label? != outcome.label?)),
        Task::Regression => Some((prediction.value? - outcome.value?).abs()),
    }
}

/// What is judged of a segment.
struct View<'a> {
    score: Option<Numbers<'a, f64>>,
    label: Option<Texts<'a>>,
    value: Option<Numbers<'a, f64>>,
}

impl<'a> View<'a> {
    fn read(segment: &LogSegment<'a>) -> Result<Self> {
        let columns = segment.columns;
        if columns.rows == 0 {
            return Ok(Self { score: None, label: None, value: None });
        }
        Ok(Self {
            score: floats(columns, "score")?,
            label: texts(columns, "label")?,
            value: floats(columns, "value")?,
        })
    }

    #[inline]
    fn fields(&self, at: RowRef) -> Fields<'a> {
        let row = at.row as usize;
        Fields {
            score: self.score.and_then(|score| score.get(row)),
            label: self.label.and_then(|label| label.get(row)),
            value: self.value.and_then(|value| value.get(row)),
        }
    }
}

/// What is judged of a row.
#[derive(Clone, Copy)]
struct Fields<'a> {
    score: Option<f64>,
    label: Option<&'a str>,
    value: Option<f64>,
}

/// A release while its predictions are being judged.
struct Release<'a> {
    predictions: u64,
    labelled: u64,
    scores: (u64, ExactSum),
    judge: Option<Judge<'a>>,
}

enum Judge<'a> {
    Binary(Box<BinaryJudge<'a>>),
    Multiclass { judged: u64, correct: u64 },
    Regression(Box<Errors>),
}

#[derive(Default)]
struct BinaryJudge<'a> {
    positive: &'a str,
    judged: u64,
    positives: u64,
    confusion: Confusion,
    auc: Auc,
    probabilities: Probabilities,
}

impl<'a> Release<'a> {
    fn new(task: Option<&'a Task>) -> Self {
        let judge = task.map(|task| match task {
            Task::Binary { positive_label: positive } => {
                Judge::Binary(Box::new(BinaryJudge { positive, ..Default::default() }))
            }
            Task::Multiclass => Judge::Multiclass { judged: 0, correct: 0 },
            Task::Regression => Judge::Regression(Box::default()),
        });
        Self { predictions: 0, labelled: 0, scores: (0, ExactSum::new()), judge }
    }

    #[inline]
    fn add(&mut self, prediction: Fields<'_>, outcome: Option<Fields<'_>>) {
        self.predictions += 1;
        if let Some(score) = prediction.score {
            self.scores.0 += 1;
            self.scores.1.add(score);
        }
        let Some(outcome) = outcome else { return };
        self.labelled += 1;
        match &mut self.judge {
            Some(Judge::Binary(judge)) => judge.add(prediction, outcome),
            Some(Judge::Multiclass { judged, correct }) => {
                if let (Some(predicted), Some(real)) = (prediction.label, outcome.label) {
                    *judged += 1;
                    *correct += u64::from(predicted == real);
                }
            }
            Some(Judge::Regression(errors)) => {
                if let (Some(predicted), Some(real)) = (prediction.value, outcome.value) {
                    errors.add(predicted, real);
                }
            }
            None => {}
        }
    }

    fn finish(self, record: Record) -> ReleaseEvaluation {
        let measures = self.judge.map(|judge| match judge {
            Judge::Binary(judge) => Measures::Binary(Box::new(judge.finish())),
            Judge::Multiclass { judged, correct } => {
                Measures::Multiclass(Multiclass { judged, correct, accuracy: ratio(correct, judged) })
            }
            Judge::Regression(errors) => Measures::Regression(Regression {
                judged: errors.n(),
                mae: errors.mae(),
                rmse: errors.rmse(),
                bias: errors.bias(),
            }),
        });
        ReleaseEvaluation {
            predictions: self.predictions,
            labelled: self.labelled,
            mean_score: mean(&self.scores.1, self.scores.0),
            record,
            measures,
        }
    }
}

impl BinaryJudge<'_> {
    #[inline]
    fn add(&mut self, prediction: Fields<'_>, outcome: Fields<'_>) {
        let Some(real) = outcome.label else { return };
        let real = real == self.positive;
        self.judged += 1;
        self.positives += u64::from(real);
        let by_label = prediction.label.map(|label| label == self.positive);
        if let Some(predicted) = by_label.or(prediction.score.map(|score| score >= POSITIVE_SCORE)) {
            self.confusion.add(predicted, real);
        }
        // A score outside of [0, 1] is no probability, and every formula below needs one.
        if let Some(score) = prediction.score.filter(|score| (0.0..=1.0).contains(score)) {
            self.auc.add(score, real);
            self.probabilities.add(score, real);
        }
    }

    fn finish(self) -> Binary {
        let (confusion, probabilities) = (self.confusion, self.probabilities);
        Binary {
            positive: self.positive.to_owned(),
            judged: self.judged,
            positives: self.positives,
            confusion,
            accuracy: confusion.accuracy(),
            precision: confusion.precision(),
            recall: confusion.recall(),
            f1: confusion.f1(),
            scored: probabilities.n(),
            auc: self.auc.value(),
            log_loss: probabilities.log_loss(),
            brier: probabilities.brier(),
            ece: probabilities.ece(),
            calibration: probabilities.calibration(),
        }
    }
}
