//! One figure over several days, by which releases are ranked.
//!
//! Where it merges it is exact: accuracy, precision, recall and F1 come from the confusion matrices added up, the
//! calibration error from the bins added up; means of rows (log loss, Brier score, MAE, RMSE) are weighted by their
//! rows. AUC does not merge: it is the mean of the days', weighted by the rows that were scored.

use store::catalog::Metric;

use super::{Measures, ReleaseEvaluation};
use crate::metrics::{CalibrationBin, Confusion};

/// One figure of a release over some days.
#[derive(Clone, Debug)]
pub struct Windowed {
    metric: Metric,
    days: u64,
    n: u64,
    confusion: Confusion,
    bins: Vec<CalibrationBin>,
    /// The sum of what is weighted, each day's by its rows.
    sum: f64,
    /// The figure of the only day, which no weighing may touch.
    only: Option<f64>,
}

impl Windowed {
    /// Nothing is judged yet.
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            days: 0,
            n: 0,
            confusion: Confusion::default(),
            bins: Vec::new(),
            sum: 0.0,
            only: None,
        }
    }

    /// Adds a day. One on which nothing was judged by the metric changes nothing.
    pub fn add(&mut self, day: &ReleaseEvaluation) {
        let Some(value) = day.figure(self.metric) else { return };
        let n = day.judged_by(self.metric);
        self.only = (self.days == 0).then_some(value);
        self.days += 1;
        self.n += n;
        self.sum += n as f64 * if self.metric == Metric::Rmse { value * value } else { value };
        let Some(Measures::Binary(binary)) = &day.measures else { return };
        self.confusion.tp += binary.confusion.tp;
        self.confusion.fp += binary.confusion.fp;
        self.confusion.tn += binary.confusion.tn;
        self.confusion.fn_ += binary.confusion.fn_;
        self.bins.resize(binary.calibration.len(), CalibrationBin::default());
        for (sum, bin) in self.bins.iter_mut().zip(&binary.calibration) {
            sum.n += bin.n;
            sum.sum += bin.sum;
            sum.positives += bin.positives;
        }
    }

    /// On how many days the release was judged.
    pub fn days(&self) -> u64 {
        self.days
    }

    /// How many of its predictions were.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The figure; `None`, when nothing was judged.
    pub fn value(&self) -> Option<f64> {
        if self.days < 2 {
            return self.only;
        }
        let n = self.n as f64;
        let is_of_classes = self.confusion.n() == self.n;
        match self.metric {
            Metric::Accuracy if is_of_classes => self.confusion.accuracy(),
            Metric::Precision => self.confusion.precision(),
            Metric::Recall => self.confusion.recall(),
            Metric::F1 => self.confusion.f1(),
            Metric::Ece => {
                let gaps = self.bins.iter().map(|bin| (bin.sum - bin.positives as f64).abs());
                Some(gaps.sum::<f64>() / n)
            }
            Metric::Rmse => Some((self.sum / n).sqrt()),
            _ => Some(self.sum / n),
        }
    }
}

impl ReleaseEvaluation {
    /// How many predictions a figure is made of.
    pub fn judged_by(&self, metric: Metric) -> u64 {
        match (&self.measures, metric) {
            (
                Some(Measures::Binary(of)),
                Metric::Accuracy | Metric::Precision | Metric::Recall | Metric::F1,
            ) => of.confusion.n(),
            (Some(Measures::Binary(of)), _) => of.scored,
            (Some(Measures::Multiclass(of)), _) => of.judged,
            (Some(Measures::Regression(of)), _) => of.judged,
            (None, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use store::{
        catalog::{Definition, Task},
        lane::Place,
    };

    use super::*;
    use crate::{
        Evaluation, LogSegment, evaluate,
        testing::{self, Outcome, Prediction},
    };

    const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    fn day(rows: &[(f64, bool)]) -> Evaluation {
        let prediction = |(key, (score, _)): (&&'static str, &(f64, bool))| Prediction {
            release: "v1",
            key,
            score: Some(*score),
            ..Prediction::default()
        };
        let label = |late| if late { "late" } else { "on time" };
        let outcome = |(key, (_, late)): (&&'static str, &(f64, bool))| Outcome {
            key,
            label: Some(label(*late)),
            ..Outcome::default()
        };
        let predictions =
            testing::predictions(&KEYS.iter().zip(rows).map(prediction).collect::<Vec<_>>(), true);
        let outcomes = testing::outcomes(&KEYS.iter().zip(rows).map(outcome).collect::<Vec<_>>(), true);
        let definition = Definition::of(Task::Binary { positive_label: "late".into() });
        let segment = |columns| [LogSegment { place: Place::of(0, 1), columns }];
        let by = BTreeMap::from([("v1".to_owned(), definition)]);
        evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap()
    }

    #[test]
    fn days_add_up_to_what_all_their_rows_give() {
        let rows = [(0.9, true), (0.6, false), (0.3, false), (0.8, true), (0.1, true), (0.2, false)];
        let whole = day(&rows);
        let parts = [day(&rows[..2]), day(&rows[2..3]), day(&rows[3..])];
        for metric in Metric::ALL.into_iter().filter(|metric| *metric != Metric::Auc) {
            let mut window = Windowed::new(metric);
            assert_eq!((window.value(), window.n(), window.days()), (None, 0, 0));
            parts.iter().for_each(|part| window.add(&part.releases["v1"]));
            let expected = whole.releases["v1"].figure(metric);
            assert_eq!(window.value().is_some(), expected.is_some(), "{metric:?}");
            if let (Some(value), Some(expected)) = (window.value(), expected) {
                assert!((value - expected).abs() < 1e-12, "{metric:?}: {value} is not {expected}");
                assert!(window.n() <= 6 && window.days() >= 1, "{metric:?}");
            }
        }
        // The mean of the days that have one, weighted: 1 of 2 rows, 1 of 3.
        let mut auc = Windowed::new(Metric::Auc);
        parts.iter().for_each(|part| auc.add(&part.releases["v1"]));
        assert_eq!((auc.days(), auc.n()), (2, 5));
        let means = [&parts[0], &parts[2]].map(|part| part.releases["v1"].figure(Metric::Auc).unwrap());
        assert!((auc.value().unwrap() - (2.0 * means[0] + 3.0 * means[1]) / 5.0).abs() < 1e-12);
    }
}
