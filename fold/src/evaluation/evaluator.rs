//! From predictions and outcomes to the results of each release.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use event::{Costs, Day, Definition, Task, fields::same_label};

use super::{
    Bucket, Evaluation, Grouping, MAX_BUCKETS, Record, ReleaseEvaluation,
    fields::{Fields, View},
    head_to_head::{self, Contender},
    interval::{GoOn, Rows},
    judge::{BinaryJudge, Instead, Judge},
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
    buckets: BTreeMap<Bucket, Release>,
    outcomes: u64,
    unmatched: u64,
    options: Options,
    grouping: Arc<Grouping>,
}

/// The results by bucket, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// The buckets in which something was predicted.
    pub buckets: Vec<(Bucket, ReleaseEvaluation)>,
    /// See [`Evaluation::outcomes`].
    pub outcomes: u64,
    /// See [`Evaluation::unmatched`].
    pub unmatched: u64,
}

/// What is asked for beside what is stored.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    instead: Instead,
    has_intervals: bool,
}

impl Evaluator {
    /// Nothing is judged yet. A release without a definition will be counted, but not judged.
    pub fn new(definitions: BTreeMap<String, Definition>) -> Self {
        Self {
            definitions,
            buckets: BTreeMap::new(),
            outcomes: 0,
            unmatched: 0,
            options: Options::default(),
            grouping: Arc::default(),
        }
    }

    /// The same, and predictions are dealt to buckets, which [`Evaluator::finish_buckets`] returns.
    #[must_use]
    pub fn grouped(self, grouping: Arc<Grouping>) -> Self {
        Self { grouping, ..self }
    }

    /// The columns that it needs of predictions beside those that [`needs`](super::needs) names.
    pub fn more_columns(&self) -> Vec<String> {
        self.grouping.columns().map(str::to_owned).collect()
    }

    /// The same, and a binary prediction with a score is of the positive class from `threshold` on, whatever its label and
    /// its definition say.
    #[must_use]
    pub fn at_threshold(self, threshold: Option<f64>) -> Self {
        let instead = Instead { threshold, ..self.options.instead };
        Self { options: Options { instead, ..self.options }, ..self }
    }

    /// The same, and predictions gain and cost that, whatever their definitions say.
    #[must_use]
    pub fn at_costs(self, costs: Option<Costs>) -> Self {
        let instead = Instead { costs, ..self.options.instead };
        Self { options: Options { instead, ..self.options }, ..self }
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
        if self.grouping.pools.is_none() {
            for (bucket, release) in &mut self.buckets {
                if let Some(definition) = definitions.get(&bucket.name)
                    && !release.go_on(definition, self.options)
                {
                    return Err(FoldError::OtherTask { release: bucket.name.clone() });
                }
            }
        }
        self.definitions = definitions;
        Ok(())
    }

    /// About how many bytes it takes, which grow with what it has judged.
    pub fn bytes(&self) -> usize {
        let of_all = match self.grouping.is_plain() {
            true => 0,
            false => self.buckets.len() * (size_of::<Release>() + size_of::<BinaryJudge>()),
        };
        of_all + self.buckets.values().map(Release::bytes).sum::<usize>()
    }

    /// Adds all predictions and outcomes of some keys. Those keys must not be added again on the same day.
    ///
    /// # Errors
    /// When a column is not what its kind must have, or there are more than 2^32 - 3 rows; [`FoldError::OtherTasks`], when
    /// releases are pooled whose tasks are not of one kind. Then it is of no use any more.
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
        let dealt = self.grouping.deal(&joined, predictions)?;
        let is_pooled = self.grouping.pools.is_some();
        let new = dealt.buckets.iter().filter(|bucket| !self.buckets.contains_key(bucket)).count();
        if !self.grouping.is_plain() && self.buckets.len() + new > MAX_BUCKETS {
            return Err(FoldError::TooManyBuckets);
        }
        let known = dealt.buckets.iter().map(|bucket| self.buckets.remove(bucket));
        let known: Vec<Option<Release>> = known.collect();
        let of_bucket = |(known, bucket): (Option<Release>, &Bucket)| match known {
            Some(release) => Release { judged_by: None, ..release },
            None => Release::new(self.definitions.get(&bucket.name), self.options),
        };
        let mut releases: Vec<Release> = known.into_iter().zip(&dealt.buckets).map(of_bucket).collect();
        for (number, pair) in joined.pairs.iter().enumerate() {
            let Some(bucket) = dealt.bucket(number, pair.release) else { continue };
            let (prediction, outcome) = fields(pair);
            let release = &mut releases[bucket];
            if is_pooled && !release.pool(pair.release, &joined.releases, &definitions, self.options) {
                return Err(FoldError::OtherTasks { pool: dealt.buckets[bucket].name.clone() });
            }
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
        let records = head_to_head::records(&joined, outcomes, dealt.buckets.len(), |number| {
            let pair = &joined.pairs[number];
            let bucket = dealt.bucket(number, pair.release)?;
            let release = pair.release as usize;
            let (prediction, outcome) = fields(pair);
            let distance = distance(tasks[release]?, prediction, outcome?)?;
            Some(Contender {
                bucket: bucket as u32,
                meets: (dealt.cells[bucket], numbers[release]),
                distance,
            })
        });
        releases.iter_mut().zip(records).for_each(|(release, record)| release.record += record);
        releases.iter_mut().zip(&dealt.repeated).for_each(|(release, repeated)| release.repeated += repeated);
        self.outcomes += joined.outcomes;
        self.unmatched += joined.unmatched;
        self.buckets.extend(dealt.buckets.into_iter().zip(releases));
        Ok(())
    }

    /// The results by release, of an evaluator that is not grouped.
    pub fn finish(self) -> Evaluation {
        let Buckets { buckets, outcomes, unmatched } = self.finish_buckets();
        let releases = buckets.into_iter().map(|(bucket, of)| (bucket.name, of)).collect();
        Evaluation { releases, outcomes: Some(outcomes), unmatched: Some(unmatched) }
    }

    /// The results by bucket.
    pub fn finish_buckets(self) -> Buckets {
        match self.finish_while(&mut |_| Ok::<_, Infallible>(())) {
            Ok(buckets) => buckets,
            Err(never) => match never {},
        }
    }

    /// The results by bucket, as long as `go_on` says so. With intervals it takes long, and `go_on` is asked before each draw of a
    /// bootstrap, with how many rows are judged next (each score of a class counts as one more).
    ///
    /// # Errors
    /// That of `go_on`.
    pub fn finish_while<E>(self, go_on: &mut dyn FnMut(u64) -> Result<(), E>) -> Result<Buckets, E> {
        let Self { buckets, definitions, options, outcomes, unmatched, .. } = self;
        let of_bucket = |(bucket, mut release): (Bucket, Release)| {
            // What is said of the definition of a pool is that of the last of its releases by name.
            let last = release.last_pooled.take().and_then(|last| definitions.get(&last));
            last.map(|definition| release.go_on(definition, options));
            Ok((bucket, release.finish(go_on)?))
        };
        // A bucket may have nothing but predictions that do not count.
        let buckets = buckets.into_iter().filter(|(_, release)| release.predictions > 0);
        Ok(Buckets { buckets: buckets.map(of_bucket).collect::<Result<_, E>>()?, outcomes, unmatched })
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
    /// In a pool, the number of the release by whose definition it judges now.
    judged_by: Option<u32>,
    /// In a pool, the last of its releases by name.
    last_pooled: Option<String>,
}

impl Release {
    fn new(definition: Option<&Definition>, options: Options) -> Self {
        let judge = definition.map(|definition| Judge::new(definition, options.instead));
        let rows = definition.filter(|_| options.has_intervals);
        let rows = rows.map(|definition| Rows::new(definition, options.instead));
        Self {
            predictions: 0,
            repeated: 0,
            labelled: 0,
            scores: (0, ExactSum::new()),
            record: Record::default(),
            defined_from: definition.and_then(|definition| definition.from),
            judge,
            rows,
            judged_by: None,
            last_pooled: None,
        }
    }

    /// Judges by the definition of a release of the pool from now on. Says whether that can be.
    #[inline]
    fn pool(
        &mut self,
        release: u32,
        names: &[String],
        definitions: &[Option<&Definition>],
        options: Options,
    ) -> bool {
        if self.judged_by == Some(release) {
            return true;
        }
        self.judged_by = Some(release);
        let name = &names[release as usize];
        if self.last_pooled.as_ref().is_none_or(|last| last < name) {
            self.last_pooled = Some(name.clone());
        }
        definitions[release as usize].is_none_or(|definition| self.go_on(definition, options))
    }

    /// Is judged by another definition from now on. Says whether that can be: its task must be of the same kind.
    fn go_on(&mut self, definition: &Definition, options: Options) -> bool {
        match &mut self.judge {
            None => {
                let Self { judge, rows, .. } = Self::new(Some(definition), options);
                (self.judge, self.rows) = (judge, rows);
            }
            Some(judge) => {
                if !judge.go_on(definition, options.instead) {
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
