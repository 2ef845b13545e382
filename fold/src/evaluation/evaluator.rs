//! From predictions and outcomes to the results of each release.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Definition, Task, fields::same_label};

use super::{
    Binary, Evaluation, MAX_DOUBTED_LABELS, MIN_DOUBTED, Measures, Multiclass, Record, Regression,
    ReleaseEvaluation, head_to_head,
};
use crate::{
    ExactSum, FoldError, LogSegment, Result, RowRef,
    join::{self, Pair},
    metrics::{Confusion, Errors, Probabilities, Scores, Tally, mean, ratio},
    read::{Numbers, Texts, floats, texts},
};

/// Judges a day, all at once or one [`Partition`](super::Partition) after the other; or several days, one after the
/// other.
#[derive(Debug)]
pub struct Evaluator {
    definitions: BTreeMap<String, Definition>,
    releases: BTreeMap<String, Release>,
    outcomes: u64,
    unmatched: u64,
    /// The threshold by which all scores are judged, whatever the definitions say.
    threshold: Option<f64>,
}

impl Evaluator {
    /// Nothing is judged yet. A release without a definition will be counted, but not judged.
    pub fn new(definitions: BTreeMap<String, Definition>) -> Self {
        Self { definitions, releases: BTreeMap::new(), outcomes: 0, unmatched: 0, threshold: None }
    }

    /// The same, and a binary prediction with a score is of the positive class from `threshold` on, whatever its label and
    /// its definition say.
    #[must_use]
    pub fn at_threshold(self, threshold: Option<f64>) -> Self {
        Self { threshold, ..self }
    }

    /// Goes on with the next day of a window, on which releases are judged by these definitions. The results are of all
    /// days together: each prediction is judged by the definition of its day, and what is said of the definition
    /// itself is of the last day.
    ///
    /// # Errors
    /// [`FoldError::OtherTask`], when a release that was judged has another kind of task from now on.
    pub fn next_day(&mut self, definitions: BTreeMap<String, Definition>) -> Result<()> {
        for (name, release) in &mut self.releases {
            if let Some(definition) = definitions.get(name)
                && !release.go_on(definition, self.threshold)
            {
                return Err(FoldError::OtherTask { release: name.clone() });
            }
        }
        self.definitions = definitions;
        Ok(())
    }

    /// About how many bytes it takes, which grow with what it has judged.
    pub fn bytes(&self) -> usize {
        self.releases.values().map(Release::bytes).sum()
    }

    /// Adds all predictions and outcomes of some keys. Those keys must not be added again on the same day.
    ///
    /// # Errors
    /// When a column is not what its kind must have, or there are more than 2^32 - 3 rows. Then
    /// nothing was added.
    pub fn add(&mut self, predictions: &[LogSegment<'_>], outcomes: &[LogSegment<'_>]) -> Result<()> {
        let joined = join::join(predictions, outcomes)?;
        let prediction_views = predictions.iter().map(View::read).collect::<Result<Vec<_>>>()?;
        let outcome_views = outcomes.iter().map(View::read).collect::<Result<Vec<_>>>()?;
        let fields = |pair: &Pair| {
            let prediction = prediction_views[pair.prediction.segment as usize].fields(pair.prediction);
            (prediction, pair.outcome.map(|at| outcome_views[at.segment as usize].fields(at)))
        };
        let definitions: Vec<_> =
            joined.releases.iter().map(|release| self.definitions.get(release)).collect();
        let tasks: Vec<_> =
            definitions.iter().map(|definition| definition.map(|definition| &definition.task)).collect();
        let known = joined.releases.iter().map(|release| self.releases.remove(release));
        let known = known.zip(&definitions);
        let mut releases: Vec<_> = known
            .map(|(known, definition)| known.unwrap_or_else(|| Release::new(*definition, self.threshold)))
            .collect();
        for pair in &joined.pairs {
            let (prediction, outcome) = fields(pair);
            releases[pair.release as usize].add(prediction, outcome);
        }
        let numbers = task_numbers(&tasks);
        let records = head_to_head::records(&joined, outcomes, |pair| {
            let release = pair.release as usize;
            let (prediction, outcome) = fields(pair);
            Some((numbers[release], distance(tasks[release]?, prediction, outcome?)?))
        });
        releases.iter_mut().zip(records).for_each(|(release, record)| release.record += record);
        releases
            .iter_mut()
            .zip(&joined.repeated)
            .for_each(|(release, repeated)| release.repeated += repeated);
        self.outcomes += joined.outcomes;
        self.unmatched += joined.unmatched;
        self.releases.extend(joined.releases.into_iter().zip(releases));
        Ok(())
    }

    /// The results.
    pub fn finish(self) -> Evaluation {
        let releases = self.releases.into_iter().map(|(name, release)| (name, release.finish()));
        let (outcomes, unmatched) = (Some(self.outcomes), Some(self.unmatched));
        Evaluation { releases: releases.collect(), outcomes, unmatched }
    }
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
            let real = same_label(outcome.label?, positive_label);
            let by_score = prediction.score.filter(|score| (0.0..=1.0).contains(score));
            by_score
                .map(|score| (score - wrong(real)).abs())
                .or(prediction.label.map(|label| wrong(same_label(label, positive_label) != real)))
        }
        Task::Multiclass => Some(wrong(!same_label(prediction.label?, outcome.label?))),
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
#[derive(Debug)]
struct Release {
    predictions: u64,
    repeated: u64,
    labelled: u64,
    scores: (u64, ExactSum),
    record: Record,
    defined_from: Option<Day>,
    judge: Option<Judge>,
}

#[derive(Debug)]
enum Judge {
    Binary(Box<BinaryJudge>),
    Multiclass(Box<Tally>),
    Regression(Box<Errors>),
}

#[derive(Debug, Default)]
struct BinaryJudge {
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

impl Release {
    fn new(definition: Option<&Definition>, threshold: Option<f64>) -> Self {
        let judge = definition.map(|definition| match &definition.task {
            Task::Binary { positive_label } => Judge::Binary(Box::new(BinaryJudge {
                positive: positive_label.clone(),
                threshold: threshold.unwrap_or(definition.threshold),
                is_by_score: threshold.is_some(),
                ..Default::default()
            })),
            Task::Multiclass => Judge::Multiclass(Box::default()),
            Task::Regression => Judge::Regression(Box::default()),
        });
        Self {
            predictions: 0,
            repeated: 0,
            labelled: 0,
            scores: (0, ExactSum::new()),
            record: Record::default(),
            defined_from: definition.and_then(|definition| definition.from),
            judge,
        }
    }

    /// Is judged by another definition from now on. Says whether that can be: its task must be of the same kind.
    fn go_on(&mut self, definition: &Definition, threshold: Option<f64>) -> bool {
        let Self { judge, defined_from, .. } = self;
        match (&mut *judge, &definition.task) {
            (None, _) => *judge = Self::new(Some(definition), threshold).judge,
            (Some(Judge::Binary(judge)), Task::Binary { positive_label }) => {
                judge.positive.clone_from(positive_label);
                judge.threshold = threshold.unwrap_or(definition.threshold);
            }
            (Some(Judge::Multiclass(_)), Task::Multiclass)
            | (Some(Judge::Regression(_)), Task::Regression) => {}
            _ => return false,
        }
        *defined_from = definition.from;
        true
    }

    fn bytes(&self) -> usize {
        match &self.judge {
            Some(Judge::Binary(judge)) => judge.ranked.bytes(),
            Some(Judge::Regression(errors)) => errors.bytes(),
            Some(Judge::Multiclass(_)) | None => 0,
        }
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
            Some(Judge::Multiclass(tally)) => {
                if let (Some(predicted), Some(real)) = (prediction.label, outcome.label) {
                    tally.add(predicted, real);
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

    fn finish(self) -> ReleaseEvaluation {
        let measures = self.judge.map(|judge| match judge {
            Judge::Binary(judge) => Measures::Binary(Box::new(judge.finish())),
            Judge::Multiclass(tally) => Measures::Multiclass(Multiclass {
                judged: tally.judged(),
                correct: tally.correct(),
                accuracy: ratio(tally.correct(), tally.judged()),
                classes: Some(tally.classes()),
            }),
            Judge::Regression(errors) => Measures::Regression(Regression {
                judged: errors.n(),
                mae: errors.mae(),
                rmse: errors.rmse(),
                bias: errors.bias(),
                detail: Some(errors.detail()),
            }),
        });
        ReleaseEvaluation {
            predictions: self.predictions,
            repeated: Some(self.repeated),
            labelled: self.labelled,
            mean_score: mean(&self.scores.1, self.scores.0),
            record: self.record,
            defined_from: self.defined_from,
            measures,
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
