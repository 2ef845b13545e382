//! Counts by class, and the confusion of classes.

use super::{Measures, ReleaseEvaluation};
use crate::formulas::ClassCounts;

/// Name of a class; `None` for all that are not kept apart.
pub type Class = Option<String>;

/// Number of predictions of one class whose real class is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Real class.
    pub truth: Class,
    /// Predicted class.
    pub predicted: Class,
    /// Number of predictions.
    pub count: u64,
}

impl ReleaseEvaluation {
    /// Returns the counts of each class, in the order of their names; the rest comes last. For a binary task these
    /// are the positive class and the rest.
    pub fn classes(&self) -> Vec<(Class, ClassCounts)> {
        match &self.measures {
            Some(Measures::Binary(of)) if of.confusion.n() > 0 => {
                let all = of.confusion;
                let counts = |real, predicted, correct| ClassCounts { real, predicted, correct };
                vec![
                    (Some(of.positive.clone()), counts(all.tp + all.fn_, all.tp + all.fp, all.tp)),
                    (None, counts(all.tn + all.fp, all.tn + all.fn_, all.tn)),
                ]
            }
            Some(Measures::Multiclass(of)) => {
                let named = of.classes.names.iter().map(|(name, counts)| (Some(name.clone()), *counts));
                named.chain(of.classes.rest.map(|rest| (None, rest))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the confusion of real and predicted classes; pairs that never occur are left out. Of many classes only
    /// the most frequent ones are kept apart.
    pub fn confusion(&self) -> Vec<Taken> {
        let taken = match &self.measures {
            Some(Measures::Binary(of)) => {
                let (all, positive) = (of.confusion, || Some(of.positive.clone()));
                vec![
                    (positive(), positive(), all.tp),
                    (positive(), None, all.fn_),
                    (None, positive(), all.fp),
                    (None, None, all.tn),
                ]
            }
            Some(Measures::Multiclass(of)) => of.classes.matrix(of.judged),
            _ => Vec::new(),
        };
        let taken = taken.into_iter().filter(|(.., count)| *count > 0);
        taken.map(|(truth, predicted, count)| Taken { truth, predicted, count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use event::{Definition, Task, lane::LogPosition};

    use super::*;
    use crate::{
        LogSegment, evaluate,
        testing::{self, Outcome, Prediction},
    };

    /// Evaluates one release whose predictions have the first label and whose outcomes the second label of each pair.
    fn judged(task: Task, pairs: &[(&'static str, &'static str)]) -> ReleaseEvaluation {
        let key = |n: usize| -> &'static str { format!("k{n}").leak() };
        let numbered = || pairs.iter().enumerate();
        let predictions = numbered().map(|(n, (label, _))| Prediction {
            release: "v1",
            key: key(n),
            label: Some(label),
            ..Prediction::default()
        });
        let outcomes = numbered().map(|(n, (_, label))| Outcome {
            key: key(n),
            label: Some(label),
            ..Outcome::default()
        });
        let predictions = testing::predictions(&predictions.collect::<Vec<_>>(), true);
        let outcomes = testing::outcomes(&outcomes.collect::<Vec<_>>(), true);
        let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
        let by = BTreeMap::from([("v1".to_owned(), Definition::of(task))]);
        evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap().releases.remove("v1").unwrap()
    }

    fn texts(taken: &[Taken]) -> Vec<String> {
        let name = |class: &Class| class.clone().unwrap_or_else(|| "*".into());
        let line = |one: &Taken| format!("{} {} {}", name(&one.truth), name(&one.predicted), one.count);
        taken.iter().map(line).collect()
    }

    #[test]
    fn binary_task_has_positive_class_and_rest() {
        let task = Task::Binary { positive_label: "late".into() };
        let pairs = [("late", "late"), ("late", "on time"), ("early", "on time"), ("early", "lost")];
        let release = judged(task, &pairs);
        let counts = |real, predicted, correct| ClassCounts { real, predicted, correct };
        assert_eq!(release.classes(), [(Some("late".into()), counts(1, 2, 1)), (None, counts(3, 2, 2))]);
        assert_eq!(texts(&release.confusion()), ["late late 1", "* late 1", "* * 2"]);
        let nothing = ReleaseEvaluation::default();
        assert_eq!((nothing.classes(), nothing.confusion()), (vec![], vec![]));
    }

    #[test]
    fn classes_are_distinguished() {
        let pairs = [("a", "a"), ("a", "b"), ("b", "b"), ("a", "c"), ("a", "b")];
        let release = judged(Task::Multiclass, &pairs);
        assert_eq!(texts(&release.confusion()), ["a a 1", "b a 2", "b b 1", "c a 1"]);
        let named: Vec<_> =
            release.classes().into_iter().map(|(class, of)| (class.unwrap(), of.real)).collect();
        assert_eq!(named, [("a".into(), 1), ("b".into(), 3), ("c".into(), 1)]);
        assert_eq!(judged(Task::Regression, &pairs).classes(), []);
    }

    #[test]
    fn of_many_classes_the_rest_is_added_up() {
        use crate::formulas::{MAX_CLASSES, MAX_CONFUSED};

        let name = |n: usize| -> &'static str { format!("c{n:03}").leak() };
        // Each of 300 classes is predicted as itself and as the next; the first ten are frequent.
        let pairs: Vec<_> = (0..300)
            .flat_map(|n| {
                let often = if n < 10 { 5 } else { 1 };
                std::iter::repeat_n((name(n), name(n)), often).chain([(name((n + 1) % 300), name(n))])
            })
            .collect();
        let release = judged(Task::Multiclass, &pairs);
        let taken = release.confusion();
        assert_eq!(taken.iter().map(|taken| taken.count).sum::<u64>(), pairs.len() as u64);
        let apart: std::collections::BTreeSet<_> =
            taken.iter().filter_map(|taken| taken.truth.as_ref()).collect();
        assert_eq!(apart.len(), MAX_CONFUSED);
        let classes = release.classes();
        assert_eq!((classes.len(), &classes.last().unwrap().0), (MAX_CLASSES + 1, &None));
        // The counts of a class are the sums of its rows and columns.
        for (class, counts) in
            classes.iter().filter(|(class, _)| class.as_ref().is_some_and(|class| apart.contains(class)))
        {
            let sum = |of: fn(&Taken) -> &Class| {
                taken.iter().filter(|taken| of(taken) == class).map(|taken| taken.count).sum::<u64>()
            };
            assert_eq!(
                (sum(|of| &of.truth), sum(|of| &of.predicted)),
                (counts.real, counts.predicted),
                "{class:?}"
            );
        }
    }
}
