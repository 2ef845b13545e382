//! From predictions and outcomes to the results of each release.

use std::{collections::BTreeMap, convert::Infallible};

use event::{Day, Definition, Task, fields::same_label};

use super::{
    Evaluation, Record, ReleaseEvaluation,
    fields::{Fields, View},
    head_to_head,
    interval::{GoOn, Rows},
    judge::Judge,
};
use crate::{
    ExactSum, FoldError, LogSegment, Result,
    join::{self, Pair},
    metrics::mean,
};

/// Judges a day, all at once or one [`Partition`](super::Partition) after the other; or several days, one after the
/// other.
#[derive(Debug)]
pub struct Evaluator {
    definitions: BTreeMap<String, Definition>,
    releases: BTreeMap<String, Release>,
    outcomes: u64,
    unmatched: u64,
    options: Options,
}

/// What is asked for beside what is stored.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// The threshold by which all scores are judged, whatever the definitions say.
    threshold: Option<f64>,
    has_intervals: bool,
}

impl Evaluator {
    /// Nothing is judged yet. A release without a definition will be counted, but not judged.
    pub fn new(definitions: BTreeMap<String, Definition>) -> Self {
        Self {
            definitions,
            releases: BTreeMap::new(),
            outcomes: 0,
            unmatched: 0,
            options: Options::default(),
        }
    }

    /// The same, and a binary prediction with a score is of the positive class from `threshold` on, whatever its label and
    /// its definition say.
    #[must_use]
    pub fn at_threshold(self, threshold: Option<f64>) -> Self {
        Self { options: Options { threshold, ..self.options }, ..self }
    }

    /// The same, and with or without [intervals](super::Intervals).
    #[must_use]
    pub fn with_intervals(self, has_intervals: bool) -> Self {
        Self { options: Options { has_intervals, ..self.options }, ..self }
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
                && !release.go_on(definition, self.options)
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
            .map(|(known, definition)| known.unwrap_or_else(|| Release::new(*definition, self.options)))
            .collect();
        for pair in &joined.pairs {
            let (prediction, outcome) = fields(pair);
            let release = &mut releases[pair.release as usize];
            release.add(prediction, outcome);
            if let (Some(rows), Some(outcome)) = (&mut release.rows, outcome) {
                rows.keep(
                    prediction_views[pair.prediction.segment as usize].key(pair.prediction),
                    prediction,
                    outcome,
                );
            }
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
        match self.finish_while(&mut |_| Ok::<_, Infallible>(())) {
            Ok(evaluation) => evaluation,
            Err(never) => match never {},
        }
    }

    /// The results, as long as `go_on` says so. With intervals it takes long, and `go_on` is asked before each draw of a
    /// bootstrap, with how many rows are judged next (each score of a class counts as one more).
    ///
    /// # Errors
    /// That of `go_on`.
    pub fn finish_while<E>(self, go_on: &mut dyn FnMut(u64) -> Result<(), E>) -> Result<Evaluation, E> {
        let finished = self.releases.into_iter().map(|(name, release)| Ok((name, release.finish(go_on)?)));
        let releases = finished.collect::<Result<_, E>>()?;
        let (outcomes, unmatched) = (Some(self.outcomes), Some(self.unmatched));
        Ok(Evaluation { releases, outcomes, unmatched })
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
        Task::Multiclass => Some(wrong(!same_label(prediction.class()?, outcome.label?))),
        Task::Regression => Some((prediction.value? - outcome.value?).abs()),
    }
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
    /// What is judged, where intervals are asked for.
    rows: Option<Rows>,
}

impl Release {
    fn new(definition: Option<&Definition>, options: Options) -> Self {
        let judge = definition.map(|definition| Judge::new(definition, options.threshold));
        let rows = definition.filter(|_| options.has_intervals);
        let rows = rows.map(|definition| Rows::new(definition, options.threshold));
        Self {
            predictions: 0,
            repeated: 0,
            labelled: 0,
            scores: (0, ExactSum::new()),
            record: Record::default(),
            defined_from: definition.and_then(|definition| definition.from),
            judge,
            rows,
        }
    }

    /// Is judged by another definition from now on. Says whether that can be: its task must be of the same kind.
    fn go_on(&mut self, definition: &Definition, options: Options) -> bool {
        match &mut self.judge {
            None => {
                let Self { judge, rows, .. } = Self::new(Some(definition), options);
                (self.judge, self.rows) = (judge, rows);
            }
            Some(judge) => {
                if !judge.go_on(definition, options.threshold) {
                    return false;
                }
            }
        }
        if let Some(rows) = &mut self.rows {
            rows.go_on(definition);
        }
        self.defined_from = definition.from;
        true
    }

    fn bytes(&self) -> usize {
        self.judge.as_ref().map_or(0, Judge::bytes) + self.rows.as_ref().map_or(0, Rows::bytes)
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
        if let Some(judge) = &mut self.judge {
            judge.add(prediction, outcome);
        }
    }

    fn finish<E>(self, go_on: GoOn<'_, E>) -> Result<ReleaseEvaluation, E> {
        let mut evaluation = ReleaseEvaluation {
            predictions: self.predictions,
            repeated: Some(self.repeated),
            labelled: self.labelled,
            mean_score: mean(&self.scores.1, self.scores.0),
            record: self.record,
            defined_from: self.defined_from,
            measures: self.judge.map(Judge::finish),
            intervals: None,
        };
        if let Some(rows) = self.rows {
            evaluation.intervals = rows.intervals(&evaluation, go_on)?;
        }
        Ok(evaluation)
    }
}
