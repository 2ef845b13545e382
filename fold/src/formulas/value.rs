//! Gains and costs of predictions of a binary task.

use std::cmp::Ordering;

use event::Costs;
use serde::{Deserialize, Serialize};

use super::Confusion;
use crate::ExactSum;

/// Worth of evaluated predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// Number of predictions with costs.
    pub n: u64,
    /// Gains less costs.
    pub value: f64,
    /// Best threshold in hindsight. `None` without scores, or if not all have the same costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
}

/// Best threshold in hindsight, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Score from which on predictions should have been positive. Among equally good ones it is the greatest; if none
    /// should have been positive, it is the next double above the greatest score.
    pub threshold: f64,
    /// Value of the predictions with a score at this threshold.
    pub value: f64,
}

/// Returns the value of confusion matrices, each by its costs: the exact sum, rounded once.
pub(crate) fn value<'a>(parts: impl IntoIterator<Item = (&'a Costs, &'a Confusion)>) -> f64 {
    let mut sum = ExactSum::new();
    for (costs, confusion) in parts {
        let terms = [
            (confusion.tp, costs.tp),
            (confusion.tn, costs.tn),
            (confusion.fp, -costs.fp),
            (confusion.fn_, -costs.fn_),
        ];
        for (count, worth) in terms {
            let (product, rest) = exact_product(count, worth);
            sum.extend([product, rest]);
        }
    }
    sum.value()
}

/// Returns a product as a double and its rounding error.
fn exact_product(count: u64, worth: f64) -> (f64, f64) {
    let product = count as f64 * worth;
    (product, (count as f64).mul_add(worth, -product))
}

/// Search for the best threshold while scores are passed from the highest down.
pub(super) struct Search {
    costs: Costs,
    best: Option<f64>,
    /// Number of positives and negatives passed at the best threshold.
    passed: (u64, u64),
}

impl Search {
    pub(super) fn new(costs: Costs) -> Self {
        Self { costs, best: None, passed: (0, 0) }
    }

    /// Passes a score; `positives` and `negatives` count those with this score or a higher one.
    pub(super) fn pass(&mut self, score: f64, positives: u64, negatives: u64) {
        // Initially, the threshold is above the highest score, so that none is positive.
        self.best.get_or_insert(score.next_up());
        let more = (positives - self.passed.0, negatives - self.passed.1);
        // Gain of predicting a positive as positive, and cost of predicting a negative so.
        let (of_positive, of_negative) = (self.costs.tp + self.costs.fn_, self.costs.fp + self.costs.tn);
        let (gain, cost) = (exact_product(more.0, of_positive), exact_product(more.1, of_negative));
        let order = gain.0.total_cmp(&cost.0).then(gain.1.total_cmp(&cost.1));
        let is_equal = gain == cost;
        if order == Ordering::Greater && !is_equal {
            (self.best, self.passed) = (Some(score), (positives, negatives));
        }
    }

    /// Returns the best threshold for all positives and negatives.
    pub(super) fn best(&self, positives: u64, negatives: u64) -> Option<Best> {
        let (tp, fp) = self.passed;
        let confusion = Confusion { tp, fp, tn: negatives - fp, fn_: positives - tp };
        Some(Best { threshold: self.best?, value: value([(&self.costs, &confusion)]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formulas::Scores;

    fn best(costs: &str, rows: &[(f64, bool)]) -> Option<Best> {
        let mut scores = Scores::default();
        rows.iter().for_each(|&(score, positive)| scores.add(score, positive));
        scores.judge(Some(Costs::parse(costs).unwrap())).best
    }

    const ROWS: [(f64, bool); 5] = [(0.9, true), (0.7, false), (0.6, true), (0.4, false), (0.2, true)];

    #[test]
    fn the_best_threshold_by_hand() {
        let found = |costs| best(costs, &ROWS).map(|best| (best.threshold, best.value));
        // At 0.9 two positives are missed; at 0.6 one is missed and one negative is included; at 0.2 two are.
        assert_eq!(found("fp=1,fn=3"), Some((0.2, -2.0)));
        assert_eq!(found("fp=3,fn=2"), Some((0.9, -4.0)));
        // 0.6 and 0.2 are as good as 0.9: the greatest.
        assert_eq!(found("fp=1,fn=1"), Some((0.9, -2.0)));
        // Nothing should be predicted positive.
        assert_eq!(found("fp=9,tp=1"), Some((0.9, 1.0)));
        assert_eq!(found("fp=9,tn=1,tp=-1"), Some((0.9_f64.next_up(), 2.0)));
        assert_eq!(best("tp=1", &[]), None);
        assert_eq!(best("fp=1", &[(1.0, false)]).unwrap().threshold, 1.0_f64.next_up());
    }

    #[test]
    fn a_value_is_rounded_once() {
        let costs = Costs { tp: 0.1, tn: 0.0, fp: 0.1, fn_: 0.0 };
        let confusion = Confusion { tp: 3, fp: 3, ..Confusion::default() };
        assert_eq!(value([(&costs, &confusion)]), 0.0);
        let mixed = Confusion { tp: 10, ..Confusion::default() };
        assert_eq!(value([(&costs, &mixed), (&costs, &mixed)]), 2.0);
    }
}
