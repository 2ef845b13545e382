//! What figures of a classification are to be expected before there is truth, from scores that were calibrated where there was:
//! confidence-based performance estimation, as NannyML calls it.
//!
//! A calibrated score says how probable the positive class is, so the expected number of true positives among predictions
//! is a sum of such probabilities, and a figure of expected counts is an expected figure. That takes for granted that a score
//! means what it meant: drift of the concept does not show in an expected figure, but in how far the real one is from it.

mod classes;

pub use classes::{ClassCalibration, ClassCases, expected_of_classes, realised_of_classes};

use crate::{metrics::NORMAL_975, paired::log_loss};

/// A prediction with a score from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The score.
    pub score: f64,
    /// Whether the prediction says the positive class.
    pub says_positive: bool,
    /// Whether the positive class is the real one; `None` without truth.
    pub is_positive: Option<bool>,
    /// What it is worth where the negative class is the real one, and where the positive one is; `None` without costs.
    pub worth: Option<[f64; 2]>,
}

/// How probable the positive class is at each score: the isotonic regression of the truth on scores (Zadrozny and Elkan 2002),
/// between scores that occurred on a line, as `sklearn.isotonic.IsotonicRegression` with `out_of_bounds="clip"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Where shares begin and end, from the smallest score to the greatest, and the share there.
    points: Vec<(f64, f64)>,
}

/// A score that was judged: how many of so many predictions with it are positive.
type Judged = (f64, f64, f64);

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
    /// From the cases with truth; `None` unless there are both classes among them.
    pub fn of(cases: &[Case]) -> Option<Self> {
        let judged = cases.iter().filter_map(|case| Some((case.score, case.is_positive?)));
        let judged: Vec<Judged> =
            judged.map(|(score, is_positive)| (score, f64::from(u8::from(is_positive)), 1.0)).collect();
        let positives = judged.iter().filter(|(_, positives, _)| *positives > 0.0).count();
        if positives == 0 || positives == judged.len() {
            return None;
        }
        Self::fit(judged)
    }

    /// From judged scores; `None`, when there are none.
    fn fit(mut judged: Vec<Judged>) -> Option<Self> {
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

    /// How probable the positive class is at a score.
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

/// What is expected of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The figure of the expected counts.
    pub value: f64,
    /// Where with 95% probability the real figure is, if the calibration holds: by the normal distribution and the
    /// delta method, as if the truth of one prediction said nothing of that of another.
    pub band: (f64, f64),
}

/// The figures that can be expected, by the names that they have in evaluations, and the least and the greatest that each can be. Of a binary task
/// the macro figures are not defined; of several classes accuracy, AUC, log loss and these are.
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

/// How many bytes of memory each case takes while figures are made.
pub const BYTES_OF_EXPECTED: usize = size_of::<Likely>();

/// What is expected of each figure of [`EXPECTED`]; `None` where it is not defined.
///
/// It holds [`BYTES_OF_EXPECTED`] for each case.
pub fn expected<'a>(
    cases: impl IntoIterator<Item = &'a Case>,
    calibration: &Calibration,
) -> [Option<Expected>; EXPECTED.len()] {
    let likely = |case: &'a Case| Likely::new(case, calibration.probability(case.score));
    let mut limits = EXPECTED.iter().map(|(_, limits)| *limits);
    figures_of(&in_order(cases.into_iter().map(likely))).map(|(value, deviation)| {
        within_limits((value, deviation), limits.next().unwrap_or([f64::NEG_INFINITY, f64::INFINITY]))
    })
}

/// What each figure of [`EXPECTED`] is of the cases with truth; `None` where it is not defined. A truth that is known is as certain
/// as a probability of 0 or 1, so this is what is expected by such.
///
/// It holds [`BYTES_OF_EXPECTED`] for each case.
pub fn realised(cases: &[Case]) -> [Option<f64>; EXPECTED.len()] {
    let certain = |case: &Case| Some(Likely::new(case, f64::from(u8::from(case.is_positive?))));
    let figures = figures_of(&in_order(cases.iter().filter_map(certain)));
    figures.map(|(value, _)| value.is_finite().then_some(value))
}

/// Cases in the order of their scores. Sums must not depend on the order in which predictions came.
fn in_order(cases: impl Iterator<Item = Likely>) -> Vec<Likely> {
    let mut cases: Vec<Likely> = cases.collect();
    let worth = |case: &Likely| case.worth.map(|worth| worth.map(f64::to_bits));
    cases.sort_unstable_by(|one, other| {
        let by_score = one.score.total_cmp(&other.score).then(one.says.total_cmp(&other.says));
        by_score.then(one.p.total_cmp(&other.p)).then_with(|| worth(one).cmp(&worth(other)))
    });
    cases
}

/// A figure with its band, which ends where the figure cannot be any more; `None`, where it divides by zero.
fn within_limits((value, deviation): (f64, f64), [least, most]: [f64; 2]) -> Option<Expected> {
    let (low, high) = (value - NORMAL_975 * deviation, value + NORMAL_975 * deviation);
    value.is_finite().then(|| Expected { value, band: (low.max(least), high.min(most)) })
}

/// A figure that is not defined.
const UNDEFINED: (f64, f64) = (f64::NAN, f64::NAN);

/// Each figure of [`EXPECTED`] of cases in the order of their scores, and its standard deviation.
fn figures_of(cases: &[Likely]) -> [(f64, f64); EXPECTED.len()] {
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

/// How many predictions have costs, what these are worth together, and the standard deviation of that.
fn value(cases: &[Likely]) -> (f64, (f64, f64)) {
    let priced = || cases.iter().filter_map(|case| Some((case.p, case.worth?)));
    let worth = priced().map(|(p, [negative, positive])| p * positive + (1.0 - p) * negative).sum::<f64>();
    let change = |(p, [negative, positive]): (f64, [f64; 2])| {
        p * (1.0 - p) * (positive - negative) * (positive - negative)
    };
    (priced().count() as f64, (worth, priced().map(change).sum::<f64>().sqrt()))
}

/// A prediction, and how probable the positive class is.
struct Likely {
    score: f64,
    /// 1 when the prediction says the positive class, else 0.
    says: f64,
    p: f64,
    /// As [`Case::worth`].
    worth: Option<[f64; 2]>,
}

impl Likely {
    fn new(case: &Case, p: f64) -> Self {
        let says = f64::from(u8::from(case.says_positive));
        Self { score: case.score, says, p, worth: case.worth }
    }
}

/// The mean of what each prediction counts by its truth, which is 1 or 0, and its standard deviation.
fn mean(cases: &[Likely], of: impl Fn(&Likely, f64) -> f64) -> (f64, f64) {
    let n = cases.len() as f64;
    let sum = cases.iter().map(|case| case.p * of(case, 1.0) + (1.0 - case.p) * of(case, 0.0)).sum::<f64>();
    (sum / n, deviation(cases, |case| (of(case, 1.0) - of(case, 0.0)) / n))
}

/// The standard deviation of a figure that changes by `slope` with the truth of each prediction.
fn deviation(cases: &[Likely], slope: impl Fn(&Likely) -> f64) -> f64 {
    cases.iter().map(|case| case.p * (1.0 - case.p) * slope(case) * slope(case)).sum::<f64>().sqrt()
}

/// The area under the curve of the expected counts, and its standard deviation.
fn auc(cases: &[Likely]) -> (f64, f64) {
    let cases: Vec<(f64, f64)> = cases.iter().map(|case| (case.score, case.p)).collect();
    let (auc, slopes) = area(&cases);
    let of_case = |((_, p), slope): (&(f64, f64), f64)| p * (1.0 - p) * slope * slope;
    (auc, cases.iter().zip(slopes).map(of_case).sum::<f64>().sqrt())
}

/// The area under the curve of scores, in their order, each with the probability of the positive class; and by how much it changes with
/// the truth of each.
fn area(cases: &[(f64, f64)]) -> (f64, Vec<f64>) {
    let positives = cases.iter().map(|(_, p)| p).sum::<f64>();
    let negatives = cases.iter().map(|(_, p)| 1.0 - p).sum::<f64>();
    let (mut area, mut positives_below, mut negatives_below) = (0.0, 0.0, 0.0);
    // Of each prediction by how much the pairs that are in order change with its truth.
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
