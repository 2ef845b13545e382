//! Metrics of a classification that are expected before there are labels, from scores calibrated on labelled predictions:
//! confidence-based performance estimation, as NannyML calls it.
//!
//! A calibrated score is the probability of the positive class, so the expected number of true positives among
//! predictions is a sum of such probabilities, and a metric of expected counts is an expected metric. The assumption
//! is that scores keep their meaning: drift of the concept does not change an expected metric, only its difference
//! from the real one.

mod classes;

pub use classes::{ClassCalibration, ClassCases, expected_of_classes, realised_of_classes};

use crate::{formulas::NORMAL_975, paired::log_loss};

/// A prediction with a score from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The score.
    pub score: f64,
    /// True if the prediction is of the positive class.
    pub says_positive: bool,
    /// True if the positive class is the real one; `None` without a label.
    pub is_positive: Option<bool>,
    /// Worth of the prediction if the negative class is the real one, and if the positive one is; `None` without
    /// costs.
    pub worth: Option<[f64; 2]>,
}

/// Probability of the positive class by score: the isotonic regression of the truth on scores (Zadrozny and Elkan
/// 2002), linear between known scores, as `sklearn.isotonic.IsotonicRegression` with `out_of_bounds="clip"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// First and last score of each block with its share, in ascending order.
    points: Vec<(f64, f64)>,
}

/// A labelled score: the score, the number of its positive predictions, and of all its predictions.
type LabelledScore = (f64, f64, f64);

/// Neighbouring scores of one share.
#[derive(Clone, Copy)]
struct Block {
    first: f64,
    last: f64,
    positives: f64,
    n: f64,
}

impl Block {
    fn share(&self) -> f64 {
        self.positives / self.n
    }
}

impl Calibration {
    /// Fits labelled cases; `None` unless both classes occur among them.
    pub fn of(cases: &[Case]) -> Option<Self> {
        let judged = cases.iter().filter_map(|case| Some((case.score, case.is_positive?)));
        let judged: Vec<LabelledScore> =
            judged.map(|(score, is_positive)| (score, f64::from(u8::from(is_positive)), 1.0)).collect();
        let positives = judged.iter().filter(|(_, positives, _)| *positives > 0.0).count();
        if positives == 0 || positives == judged.len() {
            return None;
        }
        Self::fit(judged)
    }

    /// Fits labelled scores; `None` if there are none.
    fn fit(mut judged: Vec<LabelledScore>) -> Option<Self> {
        judged.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut blocks = Vec::<Block>::new();
        for same in judged.chunk_by(|one, other| one.0 == other.0) {
            // Counts are whole numbers, so their sums are exact.
            let (positives, n) =
                same.iter().fold((0.0, 0.0), |sums, (_, positives, n)| (sums.0 + positives, sums.1 + n));
            let mut block = Block { first: same[0].0, last: same[0].0, positives, n };
            // Shares must not fall: pool adjacent violators.
            while let Some(before) = blocks.pop_if(|before| before.share() >= block.share()) {
                let (positives, n) = (before.positives + block.positives, before.n + block.n);
                block = Block { first: before.first, positives, n, ..block };
            }
            blocks.push(block);
        }
        let ends = |block: &Block| [(block.first, block.share()), (block.last, block.share())];
        let mut points: Vec<(f64, f64)> = blocks.iter().flat_map(ends).collect();
        points.dedup();
        (!points.is_empty()).then_some(Self { points })
    }

    /// Returns the probability of the positive class at a score.
    pub fn probability(&self, score: f64) -> f64 {
        let after = self.points.partition_point(|(known, _)| *known < score);
        let before = after.checked_sub(1).and_then(|at| self.points.get(at));
        match (before, self.points.get(after)) {
            (Some((low, of_low)), Some((high, of_high))) if *high > score => {
                of_low + (of_high - of_low) * (score - low) / (high - low)
            }
            (_, Some((_, share))) | (Some((_, share)), None) => *share,
            (None, None) => 0.0,
        }
    }
}

/// Expected value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Metric of the expected counts.
    pub value: f64,
    /// Band of the real metric with 95% probability, if the calibration holds: by the normal distribution and the
    /// delta method, as if the truths of predictions were independent.
    pub band: (f64, f64),
}

/// Metrics that can be expected, by their names in evaluations, each with its least and greatest possible value. The
/// macro metrics are not defined for a binary task; for several classes only accuracy, AUC, log loss and the macro
/// metrics are.
pub const EXPECTED: [(&str, [f64; 2]); 12] = [
    ("accuracy", [0.0, 1.0]),
    ("precision", [0.0, 1.0]),
    ("recall", [0.0, 1.0]),
    ("f1", [0.0, 1.0]),
    ("auc", [0.0, 1.0]),
    ("brier", [0.0, 1.0]),
    ("log_loss", [0.0, f64::INFINITY]),
    ("value", [f64::NEG_INFINITY, f64::INFINITY]),
    ("value_per_prediction", [f64::NEG_INFINITY, f64::INFINITY]),
    ("macro_precision", [0.0, 1.0]),
    ("macro_recall", [0.0, 1.0]),
    ("macro_f1", [0.0, 1.0]),
];

/// Bytes of memory for each case while metrics are computed.
pub const BYTES_OF_EXPECTED: usize = size_of::<Likely>();

/// Returns the expectation of each metric of [`EXPECTED`]; `None` if undefined.
///
/// Holds [`BYTES_OF_EXPECTED`] for each case.
pub fn expected<'a>(
    cases: impl IntoIterator<Item = &'a Case>,
    calibration: &Calibration,
) -> [Option<Expected>; EXPECTED.len()] {
    let likely = |case: &'a Case| Likely::new(case, calibration.probability(case.score));
    let mut limits = EXPECTED.iter().map(|(_, limits)| *limits);
    metrics_of(&in_order(cases.into_iter().map(likely))).map(|(value, deviation)| {
        within_limits((value, deviation), limits.next().unwrap_or([f64::NEG_INFINITY, f64::INFINITY]))
    })
}

/// Returns each metric of [`EXPECTED`] of the labelled cases; `None` if undefined. A known label counts as a
/// probability of 0 or 1.
///
/// Holds [`BYTES_OF_EXPECTED`] for each case.
pub fn realised(cases: &[Case]) -> [Option<f64>; EXPECTED.len()] {
    let certain = |case: &Case| Some(Likely::new(case, f64::from(u8::from(case.is_positive?))));
    let metrics = metrics_of(&in_order(cases.iter().filter_map(certain)));
    metrics.map(|(value, _)| value.is_finite().then_some(value))
}

/// Sorts cases by score. Sums must not depend on the order in which predictions came.
fn in_order(cases: impl Iterator<Item = Likely>) -> Vec<Likely> {
    let mut cases: Vec<Likely> = cases.collect();
    let worth = |case: &Likely| case.worth.map(|worth| worth.map(f64::to_bits));
    cases.sort_unstable_by(|one, other| {
        let by_score = one.score.total_cmp(&other.score).then(one.says.total_cmp(&other.says));
        by_score.then(one.p.total_cmp(&other.p)).then_with(|| worth(one).cmp(&worth(other)))
    });
    cases
}

/// Returns a metric with its band, cut at the limits of the metric; `None` if it divides by zero.
fn within_limits((value, deviation): (f64, f64), [least, most]: [f64; 2]) -> Option<Expected> {
    let (low, high) = (value - NORMAL_975 * deviation, value + NORMAL_975 * deviation);
    value.is_finite().then(|| Expected { value, band: (low.max(least), high.min(most)) })
}

/// Value of an undefined metric.
const UNDEFINED: (f64, f64) = (f64::NAN, f64::NAN);

/// Returns each metric of [`EXPECTED`] with its standard deviation, of cases in the order of their scores.
fn metrics_of(cases: &[Likely]) -> [(f64, f64); EXPECTED.len()] {
    let sum = |of: fn(&Likely) -> f64| cases.iter().map(of).sum::<f64>();
    let (positives, said, hits) = (sum(|case| case.p), sum(|case| case.says), sum(|case| case.p * case.says));
    let (recall, f1) = (hits / positives, 2.0 * hits / (said + positives));
    let (priced, value) = value(cases);
    [
        mean(cases, |case, real| if case.says == real { 1.0 } else { 0.0 }),
        (hits / said, deviation(cases, |case| case.says / said)),
        (recall, deviation(cases, |case| (case.says - recall) / positives)),
        (f1, deviation(cases, |case| (2.0 * case.says - f1) / (said + positives))),
        auc(cases),
        mean(cases, |case, real| (case.score - real) * (case.score - real)),
        mean(cases, |case, real| log_loss(case.score, real)),
        if priced > 0.0 { value } else { UNDEFINED },
        (value.0 / priced, value.1 / priced),
        UNDEFINED,
        UNDEFINED,
        UNDEFINED,
    ]
}

/// Returns the number of predictions with costs, their total worth, and the standard deviation of that.
fn value(cases: &[Likely]) -> (f64, (f64, f64)) {
    let priced = || cases.iter().filter_map(|case| Some((case.p, case.worth?)));
    let worth = priced().map(|(p, [negative, positive])| p * positive + (1.0 - p) * negative).sum::<f64>();
    let change = |(p, [negative, positive]): (f64, [f64; 2])| {
        p * (1.0 - p) * (positive - negative) * (positive - negative)
    };
    (priced().count() as f64, (worth, priced().map(change).sum::<f64>().sqrt()))
}

/// A prediction with the probability of the positive class.
struct Likely {
    score: f64,
    /// 1 if the prediction is of the positive class, else 0.
    says: f64,
    p: f64,
    /// See [`Case::worth`].
    worth: Option<[f64; 2]>,
}

impl Likely {
    fn new(case: &Case, p: f64) -> Self {
        let says = f64::from(u8::from(case.says_positive));
        Self { score: case.score, says, p, worth: case.worth }
    }
}

/// Returns the mean of a function of each prediction and its truth (1 or 0), and the standard deviation of that mean.
fn mean(cases: &[Likely], of: impl Fn(&Likely, f64) -> f64) -> (f64, f64) {
    let n = cases.len() as f64;
    let sum = cases.iter().map(|case| case.p * of(case, 1.0) + (1.0 - case.p) * of(case, 0.0)).sum::<f64>();
    (sum / n, deviation(cases, |case| (of(case, 1.0) - of(case, 0.0)) / n))
}

/// Returns the standard deviation of a metric that changes by `slope` with the truth of each prediction.
fn deviation(cases: &[Likely], slope: impl Fn(&Likely) -> f64) -> f64 {
    cases.iter().map(|case| case.p * (1.0 - case.p) * slope(case) * slope(case)).sum::<f64>().sqrt()
}

/// Returns the area under the curve of the expected counts, and its standard deviation.
fn auc(cases: &[Likely]) -> (f64, f64) {
    let cases: Vec<(f64, f64)> = cases.iter().map(|case| (case.score, case.p)).collect();
    let (auc, slopes) = area(&cases);
    let of_case = |((_, p), slope): (&(f64, f64), f64)| p * (1.0 - p) * slope * slope;
    (auc, cases.iter().zip(slopes).map(of_case).sum::<f64>().sqrt())
}

/// Returns the area under the curve of sorted scores, each with the probability of the positive class; and its
/// derivative by the truth of each.
fn area(cases: &[(f64, f64)]) -> (f64, Vec<f64>) {
    let positives = cases.iter().map(|(_, p)| p).sum::<f64>();
    let negatives = cases.iter().map(|(_, p)| 1.0 - p).sum::<f64>();
    let (mut area, mut positives_below, mut negatives_below) = (0.0, 0.0, 0.0);
    // Change of the number of ordered pairs with the truth of each prediction.
    let mut change = Vec::with_capacity(cases.len());
    for tied in cases.chunk_by(|one, other| one.0 == other.0) {
        let tied_positives = tied.iter().map(|(_, p)| p).sum::<f64>();
        let tied_negatives = tied.len() as f64 - tied_positives;
        area += tied_positives * (negatives_below + tied_negatives / 2.0);
        let positives_above = positives - positives_below - tied_positives;
        let more = negatives_below + tied_negatives / 2.0 - tied_positives / 2.0 - positives_above;
        change.extend(std::iter::repeat_n(more, tied.len()));
        positives_below += tied_positives;
        negatives_below += tied_negatives;
    }
    let pairs = positives * negatives;
    let auc = area / pairs;
    change.iter_mut().for_each(|change| *change = (*change - auc * (negatives - positives)) / pairs);
    (auc, change)
}

#[cfg(test)]
mod tests;
