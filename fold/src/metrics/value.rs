//! What predictions of a binary task gained and cost.

use std::cmp::Ordering;

use event::Costs;
use serde::{Deserialize, Serialize};

use super::Confusion;
use crate::ExactSum;

/// What judged predictions were worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// How many of them have costs.
    pub n: u64,
    /// What they gained, less what they cost.
    pub value: f64,
    /// What the best threshold would have given. `None` without scores, or when not all have the same costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
}

/// The threshold that would have been best, and what it would have given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The score from which on predictions would have been positive. Of several that are as good it is the greatest; where none
    /// should have been positive, it is the next double above the greatest score.
    pub threshold: f64,
    /// The value of the predictions with a score at this threshold.
    pub value: f64,
}

/// What confusion matrices are worth, each by its costs: the exact sum, rounded once.
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

/// A product as its double and what that lacks.
fn exact_product(count: u64, worth: f64) -> (f64, f64) {
    let product = count as f64 * worth;
    (product, (count as f64).mul_add(worth, -product))
}

/// Finds the best threshold while scores are passed from the highest down.
pub(super) struct Search {
    costs: Costs,
    best: Option<f64>,
    /// How many positives and negatives are passed there.
    passed: (u64, u64),
}

impl Search {
    pub(super) fn new(costs: Costs) -> Self {
        Self { costs, best: None, passed: (0, 0) }
    }

    /// So many positives and negatives have this score or a higher one.
    pub(super) fn pass(&mut self, score: f64, positives: u64, negatives: u64) {
        // None are positive above the highest score, which comes first.
        self.best.get_or_insert(score.next_up());
        let more = (positives - self.passed.0, negatives - self.passed.1);
        // What a positive and what a negative gives more when it is said to be positive.
        let (of_positive, of_negative) = (self.costs.tp + self.costs.fn_, self.costs.fp + self.costs.tn);
        let (gain, cost) = (exact_product(more.0, of_positive), exact_product(more.1, of_negative));
        let order = gain.0.total_cmp(&cost.0).then(gain.1.total_cmp(&cost.1));
        let is_equal = gain == cost;
        if order == Ordering::Greater && !is_equal {
            (self.best, self.passed) = (Some(score), (positives, negatives));
        }
    }

    /// What is best of so many positives and negatives.
    pub(super) fn best(&self, positives: u64, negatives: u64) -> Option<Best> {
        let (tp, fp) = self.passed;
        let confusion = Confusion { tp, fp, tn: negatives - fp, fn_: positives - tp };
        Some(Best { threshold: self.best?, value: value([(&self.costs, &confusion)]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Scores;

    fn best(costs: &str, rows: &[(f64, bool)]) -> Option<Best> {
        let mut scores = Scores::default();
        rows.iter().for_each(|&(score, positive)| scores.add(score, positive));
        scores.judge(Some(Costs::parse(costs).unwrap())).best
    }

    const ROWS: [(f64, bool); 5] = [(0.9, true), (0.7, false), (0.6, true), (0.4, false), (0.2, true)];

    #[test]
    fn the_best_threshold_by_hand() {
        let found = |costs| best(costs, &ROWS).map(|best| (best.threshold, best.value));
        // At 0.9 two positives are missed, at 0.6 one is, and one negative is taken, at 0.2 two are.
        assert_eq!(found("fp=1,fn=3"), Some((0.2, -2.0)));
        assert_eq!(found("fp=3,fn=2"), Some((0.9, -4.0)));
        // 0.6 and 0.2 are as good as 0.9: the greatest.
        assert_eq!(found("fp=1,fn=1"), Some((0.9, -2.0)));
        // Nothing should be said to be positive.
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
