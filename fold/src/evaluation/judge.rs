//! Evaluation of predictions by their outcomes, by task.

use std::{collections::BTreeSet, io};

use event::{Costs, Definition, Task, fields::same_label};

use super::{
    Binary, MAX_DOUBTED_LABELS, MIN_DOUBTED, Measures, Multiclass, Ranking, Regression, Singles, Tested,
    fields::Fields,
};
use crate::{
    decimal,
    formulas::{
        ClassProbabilities, Confusion, ErrorMetrics, Errors, Groups, Intervals, MAX_RELEVANCE, Probabilities,
        Ranked, Scores, Tally, Worth, ratio, value,
    },
    runs::Runs,
};

/// Overrides of definitions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Instead {
    /// Threshold for all scores.
    pub(super) threshold: Option<f64>,
    /// Gains and costs of predictions.
    pub(super) costs: Option<Costs>,
}

/// Evaluates the predictions of a release.
#[derive(Clone, Debug)]
pub(super) enum Judge {
    Binary(Box<BinaryJudge>),
    Multiclass(Box<MulticlassJudge>),
    Regression(Box<RegressionJudge>),
    Ranking(Box<RankingJudge>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct MulticlassJudge {
    tally: Tally,
    probabilities: ClassProbabilities,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RegressionJudge {
    errors: Errors,
    /// Interval metrics; `None` before the first interval.
    intervals: Option<Box<Intervals>>,
    /// Nominal share of real numbers within further intervals; `levels` has those of the intervals added.
    level: Option<f64>,
    levels: Vec<Option<f64>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RankingJudge {
    positive: String,
    judged: u64,
    groups: Groups,
}

#[derive(Clone, Debug, Default)]
pub(super) struct BinaryJudge {
    positive: String,
    threshold: f64,
    /// True if a prediction with both is classified by its score, not its label.
    is_by_score: bool,
    judged: u64,
    positives: u64,
    /// Labels of outcomes while none was positive.
    instead: BTreeSet<String>,
    /// Costs of further predictions; `confusion` counts those with these costs.
    costs: Option<Costs>,
    confusion: Confusion,
    /// Confusions of predictions with other costs.
    others: Vec<(Option<Costs>, Confusion)>,
    ranked: Scores,
    /// Metrics of the order of the scores, if these were in a file.
    ranks: Option<Ranked>,
    probabilities: Probabilities,
}

impl Judge {
    /// Creates an evaluation without predictions. A requested threshold overrides that of the definition, and scores
    /// then override labels.
    pub(super) fn new(definition: &Definition, instead: Instead) -> Self {
        match &definition.task {
            Task::Binary { positive_label } => Self::Binary(Box::new(BinaryJudge {
                positive: positive_label.clone(),
                threshold: instead.threshold.unwrap_or(definition.threshold),
                is_by_score: instead.threshold.is_some(),
                costs: instead.costs.or(definition.costs),
                ..Default::default()
            })),
            Task::Multiclass => Self::Multiclass(Box::default()),
            Task::Regression => Self::Regression(Box::new(RegressionJudge {
                level: definition.interval_level,
                ..Default::default()
            })),
            Task::Ranking { positive_label } => Self::Ranking(Box::new(RankingJudge {
                positive: positive_label.clone(),
                ..Default::default()
            })),
        }
    }

    /// Evaluates by another definition from now on. Returns false if the kind of task differs.
    pub(super) fn go_on(&mut self, definition: &Definition, instead: Instead) -> bool {
        match (self, &definition.task) {
            (Self::Binary(judge), Task::Binary { positive_label }) => {
                judge.positive.clone_from(positive_label);
                judge.threshold = instead.threshold.unwrap_or(definition.threshold);
                judge.go_on_by(instead.costs.or(definition.costs));
            }
            (Self::Regression(judge), Task::Regression) => judge.level = definition.interval_level,
            (Self::Multiclass(_), Task::Multiclass) => {}
            (Self::Ranking(judge), Task::Ranking { positive_label }) => {
                judge.positive.clone_from(positive_label);
            }
            _ => return false,
        }
        true
    }

    /// Returns the number of bytes that grow with the evaluated predictions.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Binary(judge) => judge.ranked.bytes(),
            Self::Multiclass(judge) => judge.probabilities.bytes(),
            Self::Regression(judge) => judge.errors.bytes(),
            Self::Ranking(judge) => judge.groups.bytes(),
        }
    }

    /// Moves scores, errors or items to a file.
    pub(super) fn spill(&mut self, runs: &mut Runs) -> io::Result<()> {
        match self {
            Self::Binary(judge) => judge.ranked.spill(runs),
            Self::Regression(judge) => judge.errors.spill(runs),
            Self::Ranking(judge) => judge.groups.spill(runs),
            // Their number is bounded.
            Self::Multiclass(_) => Ok(()),
        }
    }

    /// Computes the metrics of the scores, errors or items in a file.
    pub(super) fn settle(&mut self, runs: &mut Runs) -> io::Result<()> {
        match self {
            Self::Binary(judge) if judge.ranked.are_spilled() => {
                let costs = only_costs(&judge.parts());
                judge.ranks = Some(std::mem::take(&mut judge.ranked).judge_spilled(runs, costs)?);
            }
            Self::Regression(judge) => judge.errors.settle(runs)?,
            Self::Ranking(judge) => judge.groups.settle(runs)?,
            Self::Binary(_) | Self::Multiclass(_) => {}
        }
        Ok(())
    }

    /// Returns whether the outcome labels the prediction, and its metrics are of single predictions.
    pub(super) fn applies_to(&self, prediction: &Fields<'_>, outcome: &Fields<'_>) -> bool {
        match self {
            Self::Binary(_) => outcome.label.is_some(),
            Self::Multiclass(_) => prediction.class().is_some() && outcome.label.is_some(),
            Self::Regression(_) => {
                let numbers = [prediction.value, prediction.lower, prediction.upper];
                outcome.value.is_some() && numbers.iter().any(Option::is_some)
            }
            Self::Ranking(_) => false,
        }
    }

    /// Evaluates a prediction, if its outcome labels it.
    #[inline(always)]
    pub(super) fn add(&mut self, prediction: &Fields<'_>, outcome: &Fields<'_>) {
        match self {
            Self::Binary(judge) => judge.add(prediction, outcome),
            Self::Multiclass(judge) => judge.add(prediction, outcome),
            Self::Regression(judge) => judge.add(prediction, outcome),
            Self::Ranking(judge) => judge.add(prediction, Some(outcome)),
        }
    }

    /// Takes a prediction without an outcome, which may be an item of a group with outcomes of other items.
    #[inline]
    pub(super) fn add_without_outcome(&mut self, prediction: &Fields<'_>) {
        if let Self::Ranking(judge) = self {
            judge.add(prediction, None);
        }
    }

    /// Returns the results, and the single predictions' part of the tested metric.
    pub(super) fn finish(self, tested: Option<Tested>) -> (Measures, Option<Singles>) {
        let of_classes = |judge: &MulticlassJudge| Singles::of_classes(tested?, &judge.probabilities);
        match self {
            Self::Binary(judge) => {
                let (binary, scores) = judge.finish();
                let singles = tested.map(|tested| Singles::of_scores(tested, scores));
                (Measures::Binary(Box::new(binary)), singles)
            }
            Self::Multiclass(judge) => {
                let singles = of_classes(&judge);
                (judge.finish(), singles)
            }
            Self::Regression(judge) => (judge.finish(), None),
            Self::Ranking(judge) => {
                let RankingJudge { positive, judged, groups } = *judge;
                (Measures::Ranking(Box::new(Ranking { positive, judged, groups: groups.judge() })), None)
            }
        }
    }
}

impl MulticlassJudge {
    fn finish(self) -> Measures {
        let Self { tally, probabilities } = self;
        Measures::Multiclass(Multiclass {
            judged: tally.judged(),
            correct: tally.correct(),
            accuracy: ratio(tally.correct(), tally.judged()),
            classes: tally.classes(),
            scores: probabilities.judge(),
        })
    }

    #[inline(always)]
    fn add(&mut self, prediction: &Fields<'_>, outcome: &Fields<'_>) {
        let (Some(predicted), Some(real)) = (prediction.class(), outcome.label) else { return };
        self.tally.add(predicted, real);
        if let Some(scores) = prediction.scores {
            self.probabilities.add(scores.iter(), real);
        }
    }
}

impl RegressionJudge {
    fn finish(self) -> Measures {
        let Self { errors, intervals, levels, .. } = self;
        let ErrorMetrics { n, mae, rmse, bias, detail } = errors.judge();
        Measures::Regression(Regression {
            judged: n,
            mae,
            rmse,
            bias,
            detail,
            bounds: intervals.map(|intervals| intervals.judge()).unwrap_or_default(),
            level: if let [level] = levels[..] { level } else { None },
        })
    }

    #[inline(always)]
    fn add(&mut self, prediction: &Fields<'_>, outcome: &Fields<'_>) {
        let Some(real) = outcome.value else { return };
        if let Some(predicted) = prediction.value {
            self.errors.add(predicted, real);
        }
        if prediction.lower.is_some() || prediction.upper.is_some() {
            self.intervals.get_or_insert_default().add(prediction.lower, prediction.upper, real);
            if !self.levels.contains(&self.level) {
                self.levels.push(self.level);
            }
        }
    }
}

impl RankingJudge {
    fn add(&mut self, prediction: &Fields<'_>, outcome: Option<&Fields<'_>>) {
        let (Some(group), Some(score)) = (prediction.group, prediction.score) else { return };
        let relevance = outcome.and_then(|outcome| self.relevance(outcome));
        self.judged += u64::from(relevance.is_some());
        self.groups.add(group.hash, group.key, score, relevance);
    }

    /// Returns the relevance: the value of an outcome, without one 1 for the positive label and 0 for another.
    fn relevance(&self, outcome: &Fields<'_>) -> Option<f64> {
        let by_label = |label| f64::from(u8::from(same_label(label, &self.positive)));
        let relevance = outcome.value.or(outcome.label.map(by_label));
        relevance.filter(|relevance| (0.0..=MAX_RELEVANCE).contains(relevance))
    }
}

/// Returns whether a prediction is of the positive class: by its label, else by its score. A requested threshold
/// overrides both the label and the threshold of the definition.
#[inline]
pub(super) fn says_positive(
    prediction: &Fields<'_>,
    positive: &str,
    instead: Option<f64>,
    threshold: f64,
) -> Option<bool> {
    let by_label = prediction.label.map(|label| same_label(label, positive));
    let by_score = prediction.score.map(|score| score >= instead.unwrap_or(threshold));
    if instead.is_some() { by_score.or(by_label) } else { by_label.or(by_score) }
}

/// Returns the costs of all predictions, if they are the same.
fn only_costs(parts: &[(Option<Costs>, Confusion)]) -> Option<Costs> {
    if let [(costs, _)] = parts { *costs } else { None }
}

impl BinaryJudge {
    #[inline(always)]
    fn add(&mut self, prediction: &Fields<'_>, outcome: &Fields<'_>) {
        let Some(label) = outcome.label else { return };
        let real = same_label(label, &self.positive);
        self.judged += 1;
        self.positives += u64::from(real);
        if self.positives == 0 {
            self.doubt(label);
        }
        let instead = self.is_by_score.then_some(self.threshold);
        if let Some(predicted) = says_positive(prediction, &self.positive, instead, self.threshold) {
            self.confusion.add(predicted, real);
        }
        // A score outside of [0, 1] is no probability, and every formula below needs one.
        if let Some(score) = prediction.score.filter(|score| (0.0..=1.0).contains(score)) {
            self.ranked.add(score, real);
            self.probabilities.add(score, real);
        }
    }

    /// Sets the costs of further predictions.
    fn go_on_by(&mut self, costs: Option<Costs>) {
        if costs == self.costs {
            return;
        }
        let known = self.others.iter().position(|(known, _)| *known == costs);
        let confusion = known.map(|at| self.others.swap_remove(at).1).unwrap_or_default();
        self.others.push((self.costs, std::mem::replace(&mut self.confusion, confusion)));
        self.costs = costs;
    }

    /// Records a label that is not the positive one, if it is among the first in the order of their bytes.
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

    /// Returns the confusions by costs.
    fn parts(&self) -> Vec<(Option<Costs>, Confusion)> {
        let parts = self.others.iter().copied().chain([(self.costs, self.confusion)]);
        parts.filter(|(_, confusion)| confusion.n() > 0).collect()
    }

    /// Returns the results, and the scores.
    fn finish(mut self) -> (Binary, Scores) {
        let is_doubted = self.positives == 0 && self.judged >= MIN_DOUBTED;
        let parts = self.parts();
        let instead = if is_doubted { self.instead.into_iter().collect() } else { Vec::new() };
        let (mut confusion, probabilities) = (Confusion::default(), self.probabilities);
        parts.iter().for_each(|(_, part)| confusion += *part);
        let mut scores = std::mem::take(&mut self.ranked);
        let Ranked { auc, ranks, best } = self.ranks.unwrap_or_else(|| scores.judge(only_costs(&parts)));
        let priced = || parts.iter().filter_map(|(costs, part)| Some((costs.as_ref()?, part)));
        let n = priced().map(|(_, part)| part.n()).sum();
        let worth = (n > 0).then(|| Worth { n, value: value(priced()), best });
        let binary = Binary {
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
            ranks,
            costs: self.costs,
            worth,
        };
        (binary, scores)
    }
}

/// Returns the distance of a prediction from the truth: of a probability from 0 or 1, of a number from the real one;
/// 1 for a wrong class. Two predictions whose decimals are equally far off have equal distances.
pub(super) fn distance(task: &Task, prediction: &Fields<'_>, outcome: &Fields<'_>) -> Option<f64> {
    let wrong = |is_wrong: bool| f64::from(u8::from(is_wrong));
    match task {
        Task::Binary { positive_label } => {
            let real = same_label(outcome.label?, positive_label);
            let by_score = prediction.score.filter(|score| (0.0..=1.0).contains(score));
            by_score
                .map(|score| decimal::difference(score, wrong(real)).abs())
                .or(prediction.label.map(|label| wrong(same_label(label, positive_label) != real)))
        }
        Task::Multiclass => Some(wrong(!same_label(prediction.class()?, outcome.label?))),
        Task::Regression => Some(decimal::difference(prediction.value?, outcome.value?).abs()),
        // A score says nothing without those of the other items.
        Task::Ranking { .. } => None,
    }
}
