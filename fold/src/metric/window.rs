//! A metric over several days, by which releases are ranked.

use super::{AnyMetric, Merge};
use crate::{
    evaluation::{Measures, ReleaseEvaluation},
    formulas::{CalibrationBin, Classes, Confusion},
    rollup::{Merge as _, Series},
};

/// A metric of a release over some days, merged by its [`Merge`].
#[derive(Clone, Debug)]
pub struct Windowed {
    metric: AnyMetric,
    days: u64,
    n: u64,
    /// Weighted sum of the days' metrics, by rows.
    sum: f64,
    /// Metric of the only day, without rounding by weights.
    only: Option<f64>,
    confusion: Confusion,
    /// Number of days with a confusion matrix or counts of classes, including those with an undefined metric.
    matrices: u64,
    /// Number of rows in neither.
    unclassed: u64,
    bins: Vec<CalibrationBin>,
    classes: Classes,
    /// All observations of a logged metric.
    logged: Option<Series>,
}

impl Windowed {
    /// Creates an empty window.
    pub fn new(metric: impl Into<AnyMetric>) -> Self {
        Self {
            metric: metric.into(),
            days: 0,
            n: 0,
            sum: 0.0,
            only: None,
            confusion: Confusion::default(),
            matrices: 0,
            unclassed: 0,
            bins: Vec::new(),
            classes: Classes::default(),
            logged: None,
        }
    }

    /// Adds a day. A day with an undefined metric does not count as a day, but its confusion matrix is added: a day
    /// of positives alone lacks one class, but contributes to the window.
    pub fn add(&mut self, day: &ReleaseEvaluation) {
        let merge = self.metric.merge();
        let binary = if let Some(Measures::Binary(of)) = &day.measures { Some(of) } else { None };
        if let (Some(_), Some(of)) = (merge.and_then(Merge::of_confusion), binary) {
            self.confusion += of.confusion;
            self.matrices += u64::from(of.confusion.n() > 0);
        }
        let classes =
            if let Some(Measures::Multiclass(of)) = &day.measures { Some(&of.classes) } else { None };
        let classes =
            classes.filter(|classes| merge.and_then(Merge::of_classes).is_some() && classes.rest.is_none());
        if let Some(classes) = classes {
            self.classes.add(classes);
            self.matrices += u64::from(!classes.names.is_empty());
        }
        let Some(value) = self.metric.of(day) else { return };
        let n = self.metric.n(day);
        self.only = (self.days == 0).then_some(value);
        self.days += 1;
        self.n += n;
        self.sum += match merge {
            Some(Merge::Sum) => value,
            Some(Merge::RootMeanSquare) => n as f64 * (value * value),
            _ => n as f64 * value,
        };
        match binary {
            Some(of) => {
                self.bins.resize(of.calibration.len(), CalibrationBin::default());
                self.bins.iter_mut().zip(&of.calibration).for_each(|(sum, bin)| *sum += *bin);
            }
            None if classes.is_some() => {}
            None => self.unclassed += n,
        }
    }

    /// Adds the observations of a logged metric on a day. The metric is computed from all observations, not as a mean
    /// of days.
    pub fn add_logged(&mut self, day: &Series) {
        self.days += 1;
        self.n += day.numbers.n;
        self.logged.merge(&Some(day.clone()));
    }

    /// Returns the number of days on which the metric is defined.
    pub fn days(&self) -> u64 {
        self.days
    }

    /// Returns the number of predictions, or observations, of these days.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Returns the metric; `None` if it is defined on none of the days, or releases are not ranked by it.
    pub fn value(&self) -> Option<f64> {
        if let AnyMetric::Logged(metric) = &self.metric {
            return metric.of(self.logged.as_ref()?);
        }
        let merge = self.metric.merge()?;
        if self.days == 0 || self.days == 1 && self.matrices < 2 {
            return self.only;
        }
        let n = self.n as f64;
        let counted = match (self.confusion.n() > 0, self.classes.names.is_empty()) {
            _ if self.unclassed > 0 => None,
            (true, true) => merge.of_confusion().and_then(|of| of(&self.confusion)),
            (false, false) => merge.of_classes().and_then(|of| of(&self.classes)),
            _ => None,
        };
        match merge {
            _ if counted.is_some() => counted,
            Merge::Calibration(of) => of(&self.bins),
            Merge::Sum => Some(self.sum),
            Merge::RootMeanSquare => Some((self.sum / n).sqrt()),
            Merge::Confusion(_) | Merge::Classes(_) | Merge::Both(..) | Merge::Mean | Merge::MeanOfDays => {
                Some(self.sum / n)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use event::{Costs, Definition, Task, lane::LogPosition};

    use super::*;
    use crate::{
        Evaluation, LogSegment, Metric, evaluate,
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
        let definition = Definition {
            costs: Costs::parse("tp=2,fp=1,fn=4").ok(),
            ..Definition::of(Task::Binary { positive_label: "late".into() })
        };
        let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
        let by = BTreeMap::from([("v1".to_owned(), definition)]);
        evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap()
    }

    #[test]
    fn daily_metrics_merge_into_whole_window() {
        let rows = [(0.9, true), (0.6, false), (0.3, false), (0.8, true), (0.1, true), (0.2, false)];
        let whole = day(&rows);
        let parts = [day(&rows[..2]), day(&rows[2..3]), day(&rows[3..])];
        let merges = |metric: &&Metric| !matches!(metric.ranking.unwrap().merge, Merge::MeanOfDays);
        for metric in Metric::ranking_ones().filter(merges) {
            let mut window = Windowed::new(metric);
            assert_eq!((window.value(), window.n(), window.days()), (None, 0, 0));
            parts.iter().for_each(|part| window.add(&part.releases["v1"]));
            let expected = whole.releases["v1"].metric(metric);
            assert_eq!(window.value().is_some(), expected.is_some(), "{metric:?}");
            if let (Some(value), Some(expected)) = (window.value(), expected) {
                assert!((value - expected).abs() < 1e-12, "{metric:?}: {value} is not {expected}");
                assert!(window.n() <= 6 && window.days() >= 1, "{metric:?}");
            }
        }
        // Only one day has both classes predicted and real, but the matrices of the other days count.
        let mut mcc = Windowed::new(Metric::named("mcc").unwrap());
        parts.iter().for_each(|part| mcc.add(&part.releases["v1"]));
        assert_eq!((mcc.days(), mcc.n(), mcc.value()), (1, 3, mcc.metric.of(&whole.releases["v1"])));
        // The weighted mean of the days with an AUC: 2 rows and 3 rows.
        let metric = Metric::named("auc").unwrap();
        let mut auc = Windowed::new(metric);
        parts.iter().for_each(|part| auc.add(&part.releases["v1"]));
        assert_eq!((auc.days(), auc.n()), (2, 5));
        let means = [&parts[0], &parts[2]].map(|part| part.releases["v1"].metric(metric).unwrap());
        assert!((auc.value().unwrap() - (2.0 * means[0] + 3.0 * means[1]) / 5.0).abs() < 1e-12);
    }

    #[test]
    fn the_classes_of_days_add_up() {
        let judge = |pairs: &[(&'static str, &'static str)]| {
            let numbered = || KEYS.iter().zip(pairs);
            let predictions = numbered().map(|(key, (label, _))| Prediction {
                release: "v1",
                key,
                label: Some(label),
                ..Prediction::default()
            });
            let outcomes =
                numbered().map(|(key, (_, label))| Outcome { key, label: Some(label), ..Outcome::default() });
            let predictions = testing::predictions(&predictions.collect::<Vec<_>>(), true);
            let outcomes = testing::outcomes(&outcomes.collect::<Vec<_>>(), true);
            let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
            let by = BTreeMap::from([("v1".to_owned(), Definition::of(Task::Multiclass))]);
            evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap().releases.remove("v1").unwrap()
        };
        let pairs = [("a", "a"), ("b", "a"), ("c", "c"), ("a", "b"), ("b", "b"), ("c", "a")];
        let (whole, parts) = (judge(&pairs), [judge(&pairs[..1]), judge(&pairs[1..4]), judge(&pairs[4..])]);
        for name in [
            "macro_f1",
            "macro_precision",
            "macro_recall",
            "weighted_precision",
            "balanced_accuracy",
            "accuracy",
        ] {
            let metric = Metric::named(name).unwrap();
            let mut window = Windowed::new(metric);
            parts.iter().for_each(|part| window.add(part));
            let (found, expected) = (window.value().unwrap(), whole.metric(metric).unwrap());
            assert!((found - expected).abs() < 1e-15, "{name}: {found} is not {expected}");
            assert_eq!((window.days(), window.n()), (3, 6), "{name}");
        }
    }
}
