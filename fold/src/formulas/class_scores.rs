//! Metrics of the probabilities of several classes.

use std::collections::BTreeMap;

use event::fields::plain_label;
use serde::{Deserialize, Serialize};

use super::{MAX_CLASSES, log_loss_of_truth, mean, scores::area};
use crate::ExactSum;

/// Numbers of classes with the greatest scores that top-k accuracy considers.
pub const TOP: [usize; 3] = [2, 3, 5];

/// Maximum number of scores of a release with an area under the curve: all are kept until the end.
const MAX_SCORES: usize = 16 * 1024 * 1024;

/// Metrics of the scores of classes. The default is for no scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// Predictions with scores whose outcome has a label; the results below are based on them.
    pub scored: u64,
    /// Number of predictions with the real class among the 2, 3 and 5 with the greatest scores
    /// (`top_k_accuracy_score`). Among classes with the same score the last in the order of their bytes comes first,
    /// as in scikit-learn. A class without a score in the prediction is never among them.
    pub top: [u64; TOP.len()],
    /// Mean of -ln p, where p is the score of the real class, clipped to [eps, 1 - eps] with eps = 2^-52
    /// (`log_loss`); the score is 0 for a class without one in the prediction.
    pub log_loss: Option<f64>,
    /// Mean over the classes of the area under the curve of one against the rest (`roc_auc_score`,
    /// `multi_class="ovr"`). A class that is real in none or all predictions has no area, and is left out. `None` if
    /// no class has one, and if there are too many scores or more than [`MAX_CLASSES`] classes.
    pub auc: Option<f64>,
}

/// Evaluates probabilities of classes.
#[derive(Clone, Debug)]
pub struct ClassProbabilities {
    n: u64,
    top: [u64; TOP.len()],
    log_loss: ExactSum,
    /// AllScores scores; `None` once there are too many.
    kept: Option<AllScores>,
}

/// Scores of all classes.
#[derive(Clone, Debug, Default)]
struct AllScores {
    /// Slot of each class.
    slots: BTreeMap<Box<str>, usize>,
    classes: Vec<OneClass>,
    /// Slots of the scores of the last prediction: the next one mostly has the same classes in the same order.
    last: Vec<usize>,
    scores: usize,
}

/// Scores of one class.
#[derive(Clone, Debug)]
struct OneClass {
    name: Box<str>,
    /// Number of outcomes of this class.
    real: u64,
    /// Bits of the scores, shifted by one, with 1 in the lowest bit if the outcome is of the class.
    ranked: Vec<u64>,
}

impl Default for ClassProbabilities {
    fn default() -> Self {
        let kept = Some(AllScores::default());
        Self { n: 0, top: [0; TOP.len()], log_loss: ExactSum::new(), kept }
    }
}

impl ClassProbabilities {
    /// Takes the scores of one prediction, each class once, and the real class.
    pub fn add<'a>(&mut self, scores: impl Iterator<Item = (&'a str, f64)> + Clone, real: &str) {
        let real = &*plain_label(real);
        self.n += 1;
        let own = scores.clone().find(|(class, _)| *class == real).map(|(_, score)| score);
        self.log_loss.add(log_loss_of_truth(own.unwrap_or(0.0)));
        if let Some(own) = own {
            let is_before = |(class, score): &(&str, f64)| *score > own || *score == own && *class > real;
            let before = scores.clone().filter(is_before).count();
            self.top.iter_mut().zip(TOP).for_each(|(hits, k)| *hits += u64::from(before < k));
        }
        if let Some(kept) = &mut self.kept {
            kept.add(scores, real);
            if kept.scores > MAX_SCORES || kept.classes.len() > MAX_CLASSES {
                self.kept = None;
            }
        }
    }

    /// Returns the number of bytes of the kept scores.
    pub fn bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.scores * size_of::<u64>())
    }

    /// Calls `each` with the logarithmic loss of each prediction, in any order. Returns whether the scores needed for
    /// it were kept.
    pub(crate) fn each_log_loss(&self, mut each: impl FnMut(f64)) -> bool {
        let Some(kept) = &self.kept else { return false };
        for class in &kept.classes {
            let own = class.ranked.iter().filter(|ranked| *ranked & 1 == 1);
            let mut unscored = class.real;
            for ranked in own {
                unscored -= 1;
                each(log_loss_of_truth(f64::from_bits(ranked >> 1)));
            }
            (0..unscored).for_each(|_| each(log_loss_of_truth(0.0)));
        }
        true
    }

    /// Returns the metrics.
    pub fn judge(self) -> ClassScores {
        ClassScores {
            scored: self.n,
            top: self.top,
            log_loss: mean(&self.log_loss, self.n),
            auc: self.kept.and_then(|kept| kept.auc(self.n)),
        }
    }
}

impl AllScores {
    fn add<'a>(&mut self, scores: impl Iterator<Item = (&'a str, f64)>, real: &str) {
        for (at, (class, score)) in scores.enumerate() {
            let slot = match self.last.get(at) {
                Some(&slot) if *self.classes[slot].name == *class => slot,
                _ => self.find(class, at),
            };
            // Adding zero turns negative zero, which would sort apart from zero, into zero.
            let ranked = (score + 0.0).to_bits() << 1 | u64::from(class == real);
            self.classes[slot].ranked.push(ranked);
            self.scores += 1;
        }
        let slot = self.slot(real);
        self.classes[slot].real += 1;
    }

    fn slot(&mut self, class: &str) -> usize {
        if let Some(slot) = self.slots.get(class) {
            return *slot;
        }
        let slot = self.classes.len();
        self.slots.insert(class.into(), slot);
        self.classes.push(OneClass { name: class.into(), real: 0, ranked: Vec::new() });
        slot
    }

    #[cold]
    fn find(&mut self, class: &str, at: usize) -> usize {
        let slot = self.slot(class);
        if let Some(last) = self.last.get_mut(at) {
            *last = slot;
        } else if at == self.last.len() {
            self.last.push(slot);
        }
        slot
    }

    /// Returns the mean over the classes, for `n` predictions.
    fn auc(mut self, n: u64) -> Option<f64> {
        let (mut sum, mut defined) = (0.0, 0);
        // A fixed order of the classes, because their sum rounds.
        for slot in self.slots.into_values() {
            let class = &mut self.classes[slot];
            let scored = class.ranked.iter().map(|ranked| ranked & 1).sum::<u64>();
            let unscored = class.real - scored;
            let rest = n - class.ranked.len() as u64 - unscored;
            if let Some(area) = area(&mut class.ranked, (unscored, rest)) {
                sum += area;
                defined += 1;
            }
        }
        (defined > 0).then(|| sum / f64::from(defined))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn judged(rows: &[(&[(&'static str, f64)], &str)]) -> ClassScores {
        let mut judged = ClassProbabilities::default();
        rows.iter().for_each(|(scores, real)| judged.add(scores.iter().copied(), real));
        judged.judge()
    }

    #[test]
    fn scores_of_classes_by_hand() {
        // Example of scikit-learn's `top_k_accuracy_score`.
        let rows: [(&[_], _); 4] = [
            (&[("0", 0.5), ("1", 0.2), ("2", 0.2)], "0"),
            (&[("0", 0.3), ("1", 0.4), ("2", 0.2)], "1"),
            (&[("0", 0.2), ("1", 0.4), ("2", 0.3)], "2.0"),
            (&[("0", 0.7), ("1", 0.2), ("2", 0.1)], "2"),
        ];
        let found = judged(&rows);
        assert_eq!((found.scored, found.top), (4, [3, 4, 4]));
        let loss = -(0.5f64.ln() + 0.4f64.ln() + 0.3f64.ln() + 0.1f64.ln()) / 4.0;
        assert!((found.log_loss.unwrap() - loss).abs() < 1e-15);
        // Class 0: 2 of 3 below. Class 1: one of 0.4 ties. Class 2: 0.3 and 0.1 against 0.2 twice.
        let expected = (2.0 / 3.0 + 2.5 / 3.0 + 0.5) / 3.0;
        assert!((found.auc.unwrap() - expected).abs() < 1e-15, "{found:?}");
    }

    #[test]
    fn of_equal_scores_the_last_class_comes_first() {
        let scores: &[_] = &[("a", 0.25), ("b", 0.25), ("c", 0.25), ("d", 0.25)];
        assert_eq!(judged(&[(scores, "a")]).top, [0, 0, 1]);
        assert_eq!(judged(&[(scores, "b")]).top, [0, 1, 1]);
        assert_eq!(judged(&[(scores, "d")]).top, [1, 1, 1]);
    }

    #[test]
    fn class_without_score_has_probability_zero() {
        let rows: [(&[_], _); 3] = [
            (&[("a", 0.9), ("b", 0.1)], "c"),
            (&[("a", 0.6), ("b", 0.4)], "a"),
            (&[("a", 0.2), ("b", 0.0), ("c", 0.8)], "c"),
        ];
        let found = judged(&rows);
        assert_eq!(found.top, [2, 2, 2]);
        let loss = -(f64::EPSILON.ln() + 0.6f64.ln() + 0.8f64.ln()) / 3.0;
        assert!((found.log_loss.unwrap() - loss).abs() < 1e-14);
        // Class a: 0.6 against 0.9 and 0.2. Class c: 0 and 0.8 against 0. No outcome is of class b.
        assert!((found.auc.unwrap() - (0.5 + 0.75) / 2.0).abs() < 1e-15, "{found:?}");
        assert_eq!(judged(&[]), ClassScores::default());
        assert_eq!(judged(&[(&[("a", 1.0)], "a")]).auc, None, "there is one class");
    }

    #[test]
    fn more_classes_than_are_kept_have_no_area() {
        let names: Vec<String> = (0..=MAX_CLASSES).map(|n| format!("{n}")).collect();
        let mut judged = ClassProbabilities::default();
        for (n, real) in names.iter().enumerate() {
            assert_eq!(judged.kept.is_some(), n <= MAX_CLASSES);
            judged.add([(real.as_str(), 1.0)].into_iter(), real);
        }
        assert_eq!(judged.bytes(), 0);
        let found = judged.judge();
        assert_eq!((found.auc, found.top), (None, [MAX_CLASSES as u64 + 1; 3]));
    }

    proptest! {
        #[test]
        fn the_order_of_rows_leaves_no_trace(
            rows in vec((vec(0u8..5, 3), 0usize..4), 0..40)
                .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
        ) {
            let run = |rows: &[(Vec<u8>, usize)]| {
                let mut judged = ClassProbabilities::default();
                for (scores, real) in rows {
                    // Every fourth score is absent.
                    let scores = ["a", "b", "c"].into_iter().zip(scores).filter(|(_, score)| **score > 0);
                    judged.add(scores.map(|(class, score)| (class, f64::from(*score) / 8.0)), ["a", "b", "c", "d"][*real]);
                }
                judged.judge()
            };
            prop_assert_eq!(run(&rows.0), run(&rows.1));
        }
    }
}
