//! Metrics that need all scores in order.

use std::io;

use event::Costs;
use serde::{Deserialize, Serialize};

use super::{Best, Bins, CALIBRATION_BINS, Curve, value::Search};
use crate::{
    ExactSum,
    runs::{Run, Runs},
};

/// Divisor for the share of predictions with the highest scores that the lift is computed on: one in ten.
const LIFT_ONE_OF: u64 = 10;

/// Scores of evaluated predictions. Metrics that need their order are computed at the end, from all of them sorted, so
/// the result does not depend on the order of arrival or the partitions.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// Ranked scores. The bits of a score in [0, 1] sort like the score and leave the top bit free; shifted by one
    /// they take the class in the lowest bit.
    ranked: Vec<u64>,
    /// Ranked scores in a file, with their number and that of positives among them.
    runs: Vec<Run>,
    n: u64,
    positives: u64,
}

/// Metrics of the order of the scores, besides the area under the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// Average precision (`average_precision_score`): the sum over the thresholds, from the highest score down, of
    /// the precision at the threshold times the recall that it adds. `None` without positives.
    pub average_precision: Option<f64>,
    /// The statistic of Kolmogorov and Smirnov (`scipy.stats.ks_2samp`): the greatest distance between the shares of
    /// positives and of negatives from a score on. `None` unless there are both.
    pub ks: Option<f64>,
    /// Lift: the share of positives among the tenth with the highest scores (rounded up), divided by the share among
    /// all. If only some predictions of one score belong to the tenth, their positives count by share. `None` without
    /// positives.
    pub lift_at_10: Option<f64>,
    /// Expected calibration error over the bins of scikit-learn's `calibration_curve`: a bin holds its upper edge, and
    /// the first also 0.
    pub ece_sklearn: Option<f64>,
    /// Expected calibration error of Guo et al. 2017: compares the confidence in the predicted class, which is the
    /// greater of p and 1 - p, with the share of predictions in which that class is right. A bin holds its upper edge.
    pub ece_guo: Option<f64>,
}

/// All metrics of the order of the scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ranked {
    /// Area under the receiver operating characteristic (`roc_auc_score`): the probability that a positive scores
    /// above a negative, a tie counting one half; `None` unless there are both.
    ///
    /// Computed as the statistic of Mann and Whitney (1947) with midranks for ties, in integers up to the one
    /// division at the end.
    pub auc: Option<f64>,
    /// Other metrics.
    pub ranks: Ranks,
    /// Best threshold in hindsight, if there are costs.
    pub best: Option<Best>,
}

impl Scores {
    /// Takes one score in [0, 1]; `positive` is true if it is of a positive.
    #[inline]
    pub fn add(&mut self, score: f64, positive: bool) {
        // Adding zero turns negative zero, which would sort apart from zero, into zero.
        self.ranked.push((score + 0.0).to_bits() << 1 | u64::from(positive));
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(self.ranked.as_slice())
    }

    /// Moves the scores held to a file.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn spill(&mut self, runs: &mut Runs) -> io::Result<()> {
        if self.ranked.is_empty() {
            return Ok(());
        }
        self.n += self.ranked.len() as u64;
        self.positives += positives_of(&self.ranked);
        self.runs.push(runs.write(&mut self.ranked)?);
        self.ranked = Vec::new();
        Ok(())
    }

    /// Returns whether some scores are in a file.
    pub(crate) fn are_spilled(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns the metrics of their order, if all of them are held; with costs, also the best threshold.
    pub fn judge(&mut self, costs: Option<Costs>) -> Ranked {
        self.ranked.sort_unstable();
        let mut ranking = Ranking::new(self.ranked.len() as u64, positives_of(&self.ranked), costs);
        for tied in self.ranked.chunk_by(|a, b| a >> 1 == b >> 1).rev() {
            ranking.pass(tied[0] >> 1, tied.len() as u64, positives_of(tied));
        }
        ranking.finish()
    }

    /// Returns the metrics of their order as [`Scores::judge`], if some are in a file.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn judge_spilled(mut self, runs: &mut Runs, costs: Option<Costs>) -> io::Result<Ranked> {
        self.spill(runs)?;
        let mut ranking = Ranking::new(self.n, self.positives, costs);
        let (mut score, mut n, mut positives) = (0, 0, 0);
        runs.merge(&self.runs, |ranked: u64| {
            if ranked >> 1 != score && n > 0 {
                ranking.pass(score, n, positives);
                (n, positives) = (0, 0);
            }
            score = ranked >> 1;
            n += 1;
            positives += ranked & 1;
        })?;
        if n > 0 {
            ranking.pass(score, n, positives);
        }
        Ok(ranking.finish())
    }

    /// Calls `each` with each score and whether it is of a positive, in any order.
    pub(crate) fn each(&self, mut each: impl FnMut(f64, bool)) {
        self.ranked.iter().for_each(|ranked| each(f64::from_bits(ranked >> 1), ranked & 1 == 1));
    }

    /// Returns the sorted scores, for tests of parts of them.
    pub fn curve(mut self) -> Curve {
        self.ranked.sort_unstable();
        Curve::new(self.ranked)
    }
}

/// Returns the number of positives among ranked scores.
fn positives_of(ranked: &[u64]) -> u64 {
    ranked.iter().map(|ranked| ranked & 1).sum()
}

/// Metrics of the order of scores, passed from the highest down.
struct Ranking {
    walk: Walk,
    calibration: [Bins; 2],
    search: Option<Search>,
}

impl Ranking {
    fn new(n: u64, positives: u64, costs: Option<Costs>) -> Self {
        let (walk, search) = (Walk::new(n, positives), costs.map(Search::new));
        Self { walk, calibration: [Bins::default(), Bins::default()], search }
    }

    /// Passes all predictions of the score with some bits.
    fn pass(&mut self, bits: u64, n: u64, positives: u64) {
        let Self { walk, calibration, search } = self;
        walk.pass(positives, n - positives);
        let score = f64::from_bits(bits);
        if let Some(search) = search {
            search.pass(score, walk.passed.positives, walk.passed.negatives);
        }
        let says_positive = score > 0.5;
        let confidence = if says_positive { score } else { 1.0 - score };
        let (bin, bin_of_confidence) = (bin_of(score), bin_of(confidence));
        for number in 0..n {
            let is_positive = number < positives;
            calibration[0].add(bin, score, is_positive);
            calibration[1].add(bin_of_confidence, confidence, is_positive == says_positive);
        }
    }

    fn finish(self) -> Ranked {
        let Self { walk, calibration, search } = self;
        let ranks = Ranks {
            average_precision: walk.average_precision(),
            ks: walk.ks(),
            lift_at_10: walk.lift(),
            ece_sklearn: calibration[0].error(),
            ece_guo: calibration[1].error(),
        };
        let best = search.and_then(|search| search.best(walk.positives, walk.negatives));
        Ranked { auc: walk.auc(), ranks, best }
    }
}

/// Returns the bin of a probability for bins that hold their upper edges, which are `np.linspace(0, 1, 11)`.
fn bin_of(probability: f64) -> usize {
    let width = 1.0 / CALIBRATION_BINS as f64;
    let is_above = |edge: usize| probability > edge as f64 * width;
    let guess = (probability * CALIBRATION_BINS as f64) as usize;
    // Due to rounding, the guess may be one too high or too low.
    let from = guess.saturating_sub(1).min(CALIBRATION_BINS - 1);
    (from + 1..CALIBRATION_BINS).take_while(|&edge| is_above(edge)).last().unwrap_or(from)
}

/// Positives and negatives, passed from the highest score down.
#[derive(Default)]
struct Passed {
    positives: u64,
    negatives: u64,
    /// Twice the number of pairs in which the positive is above, so that a tie counts one.
    twice_above: u128,
}

impl Passed {
    /// Passes all predictions of one score.
    fn pass(&mut self, positives: u64, negatives: u64) {
        self.twice_above += u128::from(negatives) * u128::from(2 * self.positives + positives);
        self.positives += positives;
        self.negatives += negatives;
    }

    /// Returns the area, once all are passed.
    fn area(&self) -> Option<f64> {
        let pairs = u128::from(self.positives) * u128::from(self.negatives);
        (pairs > 0).then(|| self.twice_above as f64 / (2 * pairs) as f64)
    }
}

/// Returns the area under the curve of scores as ranked by [`Scores`], with `positives` and `negatives` further
/// predictions of score zero.
pub(super) fn area(ranked: &mut [u64], (positives, negatives): (u64, u64)) -> Option<f64> {
    ranked.sort_unstable();
    let zeros = ranked.partition_point(|ranked| ranked >> 1 == 0);
    let (zeros, others) = ranked.split_at(zeros);
    let mut passed = Passed::default();
    let count = |ranked: &[u64]| ranked.iter().map(|ranked| ranked & 1).sum::<u64>();
    for tied in others.chunk_by(|a, b| a >> 1 == b >> 1).rev() {
        let positives = count(tied);
        passed.pass(positives, tied.len() as u64 - positives);
    }
    let of_zeros = count(zeros);
    passed.pass(of_zeros + positives, zeros.len() as u64 - of_zeros + negatives);
    passed.area()
}

/// Walk from the highest score down.
struct Walk {
    n: u64,
    positives: u64,
    negatives: u64,
    passed: Passed,
    /// Sum of the precision at the score of each positive.
    precisions: ExactSum,
    /// Greatest distance of the shares, times positives and negatives.
    farthest: u128,
    /// Number of predictions in the tenth with the highest scores; `hits` counts its positives passed.
    top: u64,
    hits: f64,
}

impl Walk {
    fn new(n: u64, positives: u64) -> Self {
        Self {
            n,
            positives,
            negatives: n - positives,
            passed: Passed::default(),
            precisions: ExactSum::new(),
            farthest: 0,
            top: n.div_ceil(LIFT_ONE_OF),
            hits: 0.0,
        }
    }

    /// Passes all predictions of one score.
    fn pass(&mut self, positives: u64, negatives: u64) {
        let room = self.top.saturating_sub(self.passed.positives + self.passed.negatives);
        let tied = positives + negatives;
        if room > 0 {
            self.hits += positives as f64 * (room.min(tied) as f64 / tied as f64);
        }
        self.passed.pass(positives, negatives);
        let passed = &self.passed;
        if positives > 0 {
            let precision = passed.positives as f64 / (passed.positives + passed.negatives) as f64;
            self.precisions.add(positives as f64 * precision);
        }
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let shares = (product(passed.positives, self.negatives), product(passed.negatives, self.positives));
        self.farthest = self.farthest.max(shares.0.abs_diff(shares.1));
    }

    fn pairs(&self) -> Option<u128> {
        let pairs = u128::from(self.positives) * u128::from(self.negatives);
        (pairs > 0).then_some(pairs)
    }

    fn auc(&self) -> Option<f64> {
        self.passed.area()
    }

    fn ks(&self) -> Option<f64> {
        Some(self.farthest as f64 / self.pairs()? as f64)
    }

    fn average_precision(&self) -> Option<f64> {
        super::mean(&self.precisions, self.positives)
    }

    fn lift(&self) -> Option<f64> {
        let share = super::ratio(self.positives, self.n).filter(|share| *share > 0.0)?;
        Some(self.hits / self.top as f64 / share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_holds_its_upper_edge() {
        let edges: Vec<f64> = (0..=10).map(|edge| f64::from(edge) * 0.1).collect();
        assert_eq!(bin_of(0.0), 0);
        for (bin, edge) in edges[1..].iter().enumerate() {
            assert_eq!(bin_of(*edge), bin, "{edge}");
            if bin < 9 {
                assert_eq!(bin_of(edge.next_up()), bin + 1, "above {edge}");
            }
            assert_eq!(bin_of(edge.next_down()), bin, "below {edge}");
        }
    }

    #[test]
    fn ranks_by_hand() {
        let judged = |rows: &[(f64, bool)]| {
            let mut scores = Scores::default();
            rows.iter().for_each(|&(score, positive)| scores.add(score, positive));
            scores.judge(None).ranks
        };
        // Example of scikit-learn's `average_precision_score`.
        let ranks = judged(&[(0.1, false), (0.4, false), (0.35, true), (0.8, true)]);
        assert!((ranks.average_precision.unwrap() - 5.0 / 6.0).abs() < 1e-15);
        assert_eq!((ranks.ks, ranks.lift_at_10), (Some(0.5), Some(2.0)));
        let tied = judged(&[(0.5, true), (0.5, false), (0.5, false), (0.5, false)]);
        assert_eq!((tied.average_precision, tied.ks, tied.lift_at_10), (Some(0.25), Some(0.0), Some(1.0)));
        assert_eq!((tied.ece_sklearn, tied.ece_guo), (Some(0.25), Some(0.25)), "0.5 says negative");
        let one_class = judged(&[(0.25, false)]);
        assert_eq!((one_class.average_precision, one_class.ks, one_class.lift_at_10), (None, None, None));
        assert_eq!((one_class.ece_sklearn, one_class.ece_guo), (Some(0.25), Some(0.25)));
        assert_eq!(judged(&[]), Ranks::default());
    }
}
