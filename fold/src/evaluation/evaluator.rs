//! Evaluation of predictions and outcomes into the results of each release, or of each bucket.

use std::{collections::BTreeMap, convert::Infallible, io, iter, mem, sync::Arc};

use event::{Costs, Definition, Dimension, Task};

use super::{
    Bucket, Duels, Evaluation, Grouping, MAX_BUCKETS, ReleaseEvaluation, Slices, Survey, Tested,
    cases::{self, Cases, bytes_of},
    custom::{self, CustomRows},
    duel::Duel,
    fields::{Fields, View},
    head_to_head::{self, Contender},
    interval::{self, GoOn, IntervalsOf},
    judge::{BinaryJudge, Instead, distance},
    release::Release,
    slices,
};
use crate::{
    FoldError, Joined, LogSegment, Result,
    join::{self, Pair},
    runs::Runs,
};

/// Evaluates a day, all at once or one of its [`partitions`](super::partitions) after the other; or several days, one after the
/// other.
#[derive(Debug)]
pub struct Evaluator {
    definitions: BTreeMap<String, Definition>,
    table: Table,
    /// Declared dimensions, if these are evaluated too.
    dimensions: Vec<Dimension>,
    /// Further groupings of the predictions: by each of the dimensions, or as requested.
    more: Vec<Table>,
    outcomes: u64,
    orphaned: u64,
    options: Options,
    /// Only release with intervals; all have them, when `None`.
    shown: Option<String>,
    /// Pairs of releases whose meetings are kept.
    duels: Vec<Duel>,
    /// Predictions of classes with scores, if kept.
    cases: Option<Cases>,
}

/// Predictions of one grouping, while they are being evaluated.
#[derive(Debug, Default)]
struct Table {
    grouping: Arc<Grouping>,
    buckets: BTreeMap<Bucket, Release>,
}

/// Requested results beyond those stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) instead: Instead,
    pub(super) intervals: Option<IntervalsOf>,
    pub(super) tested: Option<Tested>,
}

impl Evaluator {
    /// Creates an evaluator without any data. A release without a definition will be counted, but not evaluated.
    pub fn new(definitions: BTreeMap<String, Definition>) -> Self {
        Self {
            definitions,
            table: Table::default(),
            dimensions: Vec::new(),
            more: Vec::new(),
            outcomes: 0,
            orphaned: 0,
            options: Options::default(),
            shown: None,
            duels: Vec::new(),
            cases: None,
        }
    }

    /// Keeps predictions of classes with scores from 0 to 1, with their labels if known.
    #[must_use]
    pub fn keeping_cases(self) -> Self {
        Self { cases: Some(Cases::default()), ..self }
    }

    /// Keeps the meetings of each pair of releases, prediction by prediction, by the values that group predictions.
    #[must_use]
    pub fn between(self, pairs: &[[String; 2]]) -> Self {
        Self { duels: pairs.iter().cloned().map(Duel::new).collect(), ..self }
    }

    /// Groups predictions into buckets, which [`Evaluator::finish_buckets`] returns.
    #[must_use]
    pub fn grouped(self, grouping: Arc<Grouping>) -> Self {
        let table = Table { grouping, ..self.table };
        Self { table, ..self }
    }

    /// Returns an empty survey of the columns of declared dimensions, which must see all predictions of the day before
    /// they are evaluated. `None` if there is no dimension.
    pub fn survey(&self) -> Option<Survey> {
        let declared = slices::declared(&self.definitions);
        (!declared.is_empty()).then(|| slices::survey_of(&declared))
    }

    /// Returns the columns of declared dimensions.
    pub fn declared_columns(&self) -> Vec<String> {
        slices::declared(&self.definitions).into_iter().map(|dimension| dimension.column).collect()
    }

    /// Also evaluates predictions by each declared dimension, with the values that `survey` found.
    #[must_use]
    pub fn split(self, survey: Survey) -> Self {
        let declared = slices::declared(&self.definitions);
        let groupings = slices::groupings(declared, survey, &self.definitions);
        let (dimensions, groupings): (Vec<_>, Vec<_>) = groupings.into_iter().unzip();
        Self { dimensions, ..self.dealt_by(&groupings) }
    }

    /// Also groups predictions in each of these ways; [`Buckets::more`] has the results.
    #[must_use]
    pub fn dealt_by(self, groupings: &[Arc<Grouping>]) -> Self {
        let table = |grouping: &Arc<Grouping>| Table { grouping: Arc::clone(grouping), ..Table::default() };
        Self { more: groupings.iter().map(table).collect(), ..self }
    }

    /// Returns the columns of predictions needed beside those that [`needs`](super::needs) names.
    pub fn more_columns(&self) -> Vec<String> {
        let dealt = self.tables().flat_map(|table| table.grouping.columns()).map(str::to_owned);
        dealt.chain(custom::columns(&self.definitions)).collect()
    }

    /// Returns whether it has a condition, which may be slow even for few rows.
    pub fn has_condition(&self) -> bool {
        self.tables().any(|table| table.grouping.condition.is_some())
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        iter::once(&self.table).chain(&self.more)
    }

    /// Overrides the threshold: a binary prediction with a score is of the positive class from `threshold` on,
    /// regardless of its label and definition.
    #[must_use]
    pub fn at_threshold(self, threshold: Option<f64>) -> Self {
        let instead = Instead { threshold, ..self.options.instead };
        Self { options: Options { instead, ..self.options }, ..self }
    }

    /// Overrides the costs of predictions, regardless of their definitions.
    #[must_use]
    pub fn at_costs(self, costs: Option<Costs>) -> Self {
        let instead = Instead { costs, ..self.options.instead };
        Self { options: Options { instead, ..self.options }, ..self }
    }

    /// Sets the [intervals](super::Intervals) to compute, if any.
    #[must_use]
    pub fn with_intervals(self, intervals: Option<IntervalsOf>) -> Self {
        Self { options: Options { intervals, ..self.options }, ..self }
    }

    /// Limits intervals to this release, or to the bucket of this name.
    #[must_use]
    pub fn with_intervals_of(self, shown: Option<String>) -> Self {
        Self { shown, ..self }
    }

    /// Adds the inputs of a [test](Tested) of a metric to the results.
    #[must_use]
    pub fn tested_by(self, tested: Option<Tested>) -> Self {
        Self { options: Options { tested, ..self.options }, ..self }
    }

    /// Begins the next day of a window, with the definitions of that day. The results cover all days together: each
    /// prediction is evaluated by the definition of its day, and the reported definition is that of the last day.
    ///
    /// # Errors
    /// [`FoldError::OtherTask`] if the kind of task of an evaluated release changes.
    pub fn next_day(&mut self, definitions: BTreeMap<String, Definition>) -> Result<()> {
        for table in iter::once(&mut self.table).chain(&mut self.more) {
            if table.grouping.pools.is_some() {
                continue;
            }
            for (bucket, release) in &mut table.buckets {
                if let Some(definition) = definitions.get(&bucket.name)
                    && !release.go_on(definition, self.options)
                {
                    return Err(FoldError::OtherTask { release: bucket.name.clone() });
                }
            }
        }
        self.definitions = definitions;
        self.duels.iter_mut().for_each(Duel::next_day);
        Ok(())
    }

    /// Returns the approximate number of bytes held, which grow with the evaluated predictions.
    pub fn bytes(&self) -> usize {
        self.tables().map(Table::bytes).sum::<usize>()
            + self.duels.iter().map(Duel::bytes).sum::<usize>()
            + self.cases.as_ref().map_or(0, Cases::bytes)
    }

    /// Moves the scores and errors held to a file, from which [`Evaluator::settle`] must take them before the end. Tests of metrics and
    /// intervals need them in memory.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn spill(&mut self, runs: &mut Runs) -> io::Result<()> {
        self.releases().try_for_each(|release| release.spill(runs))
    }

    /// Computes the metrics of the scores and errors that were moved to the file.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn settle(&mut self, runs: &mut Runs) -> io::Result<()> {
        self.releases().try_for_each(|release| release.settle(runs))
    }

    /// Takes the meetings of each pair of releases that are held.
    pub fn take_meetings(&mut self) -> Vec<Duels> {
        self.duels.iter_mut().map(Duel::take).collect()
    }

    fn releases(&mut self) -> impl Iterator<Item = &mut Release> {
        iter::once(&mut self.table).chain(&mut self.more).flat_map(|table| table.buckets.values_mut())
    }

    /// Adds all predictions and outcomes of some keys. These keys must not be added again on the same day.
    ///
    /// # Errors
    /// Fails if a column is not as its kind requires, or if there are more than 2^32 - 3 rows;
    /// [`FoldError::OtherTasks`] if pooled releases have tasks of several kinds. The evaluator is unusable
    /// afterwards.
    pub fn add(&mut self, predictions: &[LogSegment<'_>], outcomes: &[LogSegment<'_>]) -> Result<()> {
        let joined = join::join(predictions, outcomes)?;
        let prediction_views = predictions.iter().map(View::read).collect::<Result<Vec<_>>>()?;
        let outcome_views = outcomes.iter().map(View::read).collect::<Result<Vec<_>>>()?;
        let definitions: Vec<_> =
            joined.releases.iter().map(|release| self.definitions.get(release)).collect();
        let tasks: Vec<_> =
            definitions.iter().map(|definition| definition.map(|definition| &definition.task)).collect();
        let day = Rows {
            joined: &joined,
            predictions: (predictions, &prediction_views),
            outcomes: (outcomes, &outcome_views),
            by: &self.definitions,
            numbers: task_numbers(&tasks),
            customs: CustomRows::read(&definitions, predictions, outcomes)?,
            definitions,
            options: self.options,
            shown: self.shown.as_deref(),
        };
        self.table.add(&day, &mut self.duels, self.cases.as_mut())?;
        self.more.iter_mut().try_for_each(|table| table.add(&day, &mut [], None))?;
        self.outcomes += joined.outcomes;
        self.orphaned += joined.orphaned;
        Ok(())
    }

    /// Returns the results of an ungrouped evaluator, by release and by its declared dimensions.
    pub fn finish(mut self) -> Evaluation {
        let mut rows = Slices::new();
        for (dimension, table) in mem::take(&mut self.dimensions).into_iter().zip(mem::take(&mut self.more)) {
            let Ok(buckets) = table.finish(&self.definitions, self.options, &mut |_| Ok::<_, Infallible>(()));
            slices::rows_of(&mut rows, &dimension, buckets, &self.definitions);
        }
        let Buckets { buckets, outcomes, orphaned, .. } = self.finish_buckets();
        let releases = buckets.into_iter().map(|(bucket, of)| (bucket.name, of)).collect();
        Evaluation { releases, slices: rows, outcomes, orphaned }
    }

    /// Returns the results by bucket.
    pub fn finish_buckets(self) -> Buckets {
        match self.finish_while(&mut |_| Ok::<_, Infallible>(())) {
            Ok(buckets) => buckets,
            Err(never) => match never {},
        }
    }

    /// Returns the results by bucket, or stops when `go_on` does. Intervals take long: `go_on` is called before each
    /// draw of a bootstrap, with the number of rows to evaluate next (each score of a class counts as one more).
    ///
    /// # Errors
    /// The error of `go_on`.
    pub fn finish_while<E>(self, go_on: &mut dyn FnMut(u64) -> Result<(), E>) -> Result<Buckets, E> {
        let Self { table, more, definitions, options, outcomes, orphaned, duels, cases, .. } = self;
        let duels = duels.into_iter().map(Duel::finish).collect();
        let buckets = table.finish(&definitions, options, go_on)?;
        let more = more.into_iter().map(|table| table.finish(&definitions, options, go_on));
        let more = more.collect::<Result<_, E>>()?;
        Ok(Buckets { buckets, outcomes, orphaned, duels, cases: cases.unwrap_or_default(), more })
    }
}

/// Joined predictions, with all inputs of their evaluation.
pub(super) struct Rows<'a> {
    pub(super) joined: &'a Joined,
    pub(super) predictions: (&'a [LogSegment<'a>], &'a [View<'a>]),
    pub(super) outcomes: (&'a [LogSegment<'a>], &'a [View<'a>]),
    by: &'a BTreeMap<String, Definition>,
    /// Definitions by release of the join; `numbers` has the numbers of their tasks.
    pub(super) definitions: Vec<Option<&'a Definition>>,
    pub(super) numbers: Vec<u32>,
    customs: Option<CustomRows<'a>>,
    pub(super) options: Options,
    shown: Option<&'a str>,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    pub(super) fn fields(&self, pair: &Pair) -> (Fields<'a>, Option<Fields<'a>>) {
        let prediction = self.predictions.1[pair.prediction.segment as usize].fields(pair.prediction);
        (prediction, pair.outcome.map(|at| self.outcomes.1[at.segment as usize].fields(at)))
    }
}

impl Rows<'_> {
    /// Returns the options of a release or bucket of this name.
    fn options_of(&self, name: &str) -> Options {
        let is_shown = self.shown.is_none_or(|shown| shown == name);
        Options { intervals: self.options.intervals.filter(|_| is_shown), ..self.options }
    }

    /// Keeps a pair to be evaluated again, if it has an outcome. It reads the fields itself: the loop of evaluation is faster
    /// when it does not pass them on.
    fn keep(&self, pair: &Pair, kept: &mut interval::Rows) {
        if let (prediction, Some(outcome)) = self.fields(pair) {
            kept.keep(self.key(pair), &prediction, &outcome);
        }
    }

    fn key(&self, pair: &Pair) -> &str {
        self.predictions.1[pair.prediction.segment as usize].key(pair.prediction)
    }

    #[inline(always)]
    fn is_erased(&self, pair: &Pair) -> bool {
        self.predictions.1[pair.prediction.segment as usize].is_erased(pair.prediction)
    }
}

impl Table {
    fn bytes(&self) -> usize {
        let of_all = match self.grouping.is_plain() {
            true => 0,
            false => self.buckets.len() * (size_of::<Release>() + size_of::<BinaryJudge>()),
        };
        of_all + self.buckets.values().map(Release::bytes).sum::<usize>()
    }

    /// Evaluates predictions, each in its bucket.
    fn add(&mut self, rows: &Rows<'_>, duels: &mut [Duel], cases: Option<&mut Cases>) -> Result<()> {
        let (joined, options) = (rows.joined, rows.options);
        let dealt = self.grouping.deal(joined, rows.predictions.0)?;
        let is_pooled = self.grouping.pools.is_some();
        let new = dealt.buckets.iter().filter(|bucket| !self.buckets.contains_key(bucket)).count();
        if !self.grouping.is_bounded() && self.buckets.len() + new > MAX_BUCKETS {
            return Err(FoldError::TooManyBuckets);
        }
        let known = dealt.buckets.iter().map(|bucket| self.buckets.remove(bucket));
        let known: Vec<Option<Release>> = known.collect();
        let of_bucket = |(known, bucket): (Option<Release>, &Bucket)| match known {
            Some(mut release) => {
                release.judged_by = None;
                release
            }
            None => {
                let is_judged = |_: &&Definition| self.grouping.applies_to(&bucket.name);
                Release::new(rows.by.get(&bucket.name).filter(is_judged), rows.options_of(&bucket.name))
            }
        };
        let mut releases: Vec<Release> = known.into_iter().zip(&dealt.buckets).map(of_bucket).collect();
        for (number, pair) in joined.pairs.iter().enumerate() {
            let Some(bucket) = dealt.bucket(number, pair.release) else { continue };
            let (prediction, outcome) = rows.fields(pair);
            let release = &mut releases[bucket];
            if is_pooled && !release.pool(pair.release, &joined.releases, &rows.definitions, options) {
                return Err(FoldError::OtherTasks { pool: dealt.buckets[bucket].name.clone() });
            }
            release.add(&prediction, outcome.as_ref());
            release.erased += u64::from(rows.is_erased(pair));
            if let Some(customs) = rows.customs.as_ref().filter(|_| release.is_judged()) {
                release.customs.add(customs, pair, || rows.key(pair));
            }
            if let Some(kept) = &mut release.rows {
                rows.keep(pair, kept);
            }
        }
        let records = head_to_head::records(joined, rows.outcomes.0, dealt.contenders(), |number| {
            let pair = &joined.pairs[number];
            let (bucket, cell) = dealt.contender(number, pair.release)?;
            let release = pair.release as usize;
            let (prediction, outcome) = rows.fields(pair);
            let distance = distance(&rows.definitions[release]?.task, &prediction, &outcome?)?;
            Some(Contender { bucket: bucket as u32, meets: (cell, rows.numbers[release]), distance })
        });
        duels.iter_mut().for_each(|duel| duel.add(rows, &dealt));
        if let Some(cases) = cases {
            cases::add(cases, rows, &dealt);
        }
        releases.iter_mut().zip(records).for_each(|(release, record)| release.record += record);
        releases.iter_mut().zip(&dealt.repeated).for_each(|(release, repeated)| release.repeated += repeated);
        self.buckets.extend(dealt.buckets.into_iter().zip(releases));
        Ok(())
    }

    /// Returns the results by bucket.
    fn finish<E>(
        self,
        definitions: &BTreeMap<String, Definition>,
        options: Options,
        go_on: GoOn<'_, E>,
    ) -> Result<Vec<(Bucket, ReleaseEvaluation)>, E> {
        let of_bucket = |(bucket, mut release): (Bucket, Release)| {
            // The definition reported for a pool is that of the last of its releases by name.
            let last = release.last_pooled.take().and_then(|last| definitions.get(&last));
            last.map(|definition| release.go_on(definition, options));
            Ok((bucket, release.finish(options, go_on)?))
        };
        // A bucket may have only predictions that do not count.
        let buckets = self.buckets.into_iter().filter(|(_, release)| release.predictions > 0);
        buckets.map(of_bucket).collect()
    }
}

/// Results by bucket, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// Buckets with predictions.
    pub buckets: Vec<(Bucket, ReleaseEvaluation)>,
    /// See [`Evaluation::outcomes`](super::Evaluation::outcomes).
    pub outcomes: u64,
    /// See [`Evaluation::orphaned`](super::Evaluation::orphaned).
    pub orphaned: u64,
    /// Meetings of each requested pair of releases: see [`Evaluator::between`](super::Evaluator::between).
    pub duels: Vec<Duels>,
    /// Predictions of classes with scores, if kept.
    pub cases: Cases,
    /// Results by the buckets of each further grouping of predictions: see
    /// [`Evaluator::dealt_by`](super::Evaluator::dealt_by).
    pub more: Vec<Vec<(Bucket, ReleaseEvaluation)>>,
}

impl Buckets {
    /// Returns the number of bytes of the kept predictions, scores and meetings.
    pub fn kept_bytes(&self) -> usize {
        let results = self.buckets.iter().chain(self.more.iter().flatten());
        let singles = results.filter_map(|(_, of)| of.singles.as_ref()).map(|singles| singles.bytes());
        self.duels.iter().map(bytes_of).sum::<usize>() + self.cases.bytes() + singles.sum::<usize>()
    }
}

/// Numbers tasks; equal tasks have equal numbers.
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
