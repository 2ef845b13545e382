//! Metrics of numbers in rollups: of scores, values and latencies.

use crate::rollup::{Distribution, NumberRollup};

/// A metric of numbers in rollups.
#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    /// Suffix of its name, after that of the numbers: `score_mean`.
    pub name: &'static str,
    /// Reader of the metric.
    pub getter: StatisticGetter,
}

impl Statistic {
    /// Returns the metric of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STATISTICS.iter().find(|statistic| statistic.name == name)
    }

    /// Returns the metric of these numbers; `None` if not finite or unknown.
    pub fn of<const MAX: usize>(&self, numbers: &Distribution<MAX>) -> Option<f64> {
        let found = match self.getter {
            StatisticGetter::Numbers(read) => Some(read(&numbers.numbers)),
            StatisticGetter::Quantile(q) => numbers.quantile(q).map(|quantile| quantile.value),
        };
        found.filter(|found| found.is_finite())
    }
}

/// Reader of a metric of numbers.
#[derive(Clone, Copy, Debug)]
pub enum StatisticGetter {
    /// Statistic of their count, sums and extremes.
    Numbers(fn(&NumberRollup) -> f64),
    /// The quantile of this share, where there is a sketch.
    Quantile(f64),
}

/// Every metric of numbers, in the order of the columns.
pub static STATISTICS: &[Statistic] = &[
    numbers("mean", NumberRollup::mean),
    numbers("std", NumberRollup::std),
    numbers("min", |of| of.min),
    quantile("p50", 0.5),
    quantile("p90", 0.9),
    quantile("p99", 0.99),
    numbers("max", |of| of.max),
];

const fn numbers(name: &'static str, read: fn(&NumberRollup) -> f64) -> Statistic {
    Statistic { name, getter: StatisticGetter::Numbers(read) }
}

const fn quantile(name: &'static str, q: f64) -> Statistic {
    Statistic { name, getter: StatisticGetter::Quantile(q) }
}
