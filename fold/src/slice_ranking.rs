//! Slices of the predictions of a release in which it is bad, ranked by the gap between their metric and that of all.
//!
//! A slice is a part of the predictions, and is compared with all of its release. The test compares the slice with
//! the rest, which is all less the slice, so nothing is read for it. Any gap is significant with enough predictions,
//! so slices are ranked by the gap; p-values stand beside it, [`adjusted`] for the number of tested slices.

use std::sync::Arc;

use crate::{
    AnyMetric, Windowed,
    drift::adjusted,
    evaluation::ReleaseEvaluation,
    formulas::Curve,
    metric::{Direction, Evidence},
};

/// A metric of some predictions of the days of a window.
#[derive(Clone, Debug)]
pub struct Sample {
    metric: AnyMetric,
    windowed: Windowed,
    predictions: u64,
    evidence: Option<Evidence>,
    /// True if the metric of some day has no evidence, so that the window has none.
    lacks_evidence: bool,
    /// Scores, if known and needed to test the metric.
    curve: Option<Arc<Curve>>,
    /// Number of results added.
    results: u64,
}

impl Sample {
    /// Creates an empty sample.
    pub fn new(metric: &AnyMetric) -> Self {
        let windowed = Windowed::new(metric.clone());
        Self {
            metric: metric.clone(),
            windowed,
            predictions: 0,
            evidence: None,
            lacks_evidence: false,
            curve: None,
            results: 0,
        }
    }

    /// Adds the results of a day, or of several days together.
    pub fn add(&mut self, of: &ReleaseEvaluation) {
        self.predictions += of.predictions;
        self.windowed.add(of);
        let evidence =
            if let AnyMetric::Declared(metric) = &self.metric { of.evidence(metric) } else { None };
        match (evidence, &mut self.evidence) {
            (Some(more), Some(evidence)) => *evidence += more,
            (Some(more), none) => *none = Some(more),
            (None, _) => self.lacks_evidence |= self.metric.of(of).is_some(),
        }
        self.curve = of.singles.as_ref().and_then(|singles| singles.curve.clone());
        self.results += 1;
    }

    /// Returns the number of predictions, evaluated or not.
    pub fn predictions(&self) -> u64 {
        self.predictions
    }

    /// Returns the metric; `None` if undefined.
    pub fn value(&self) -> Option<f64> {
        self.windowed.value()
    }

    /// Returns the number of predictions behind the metric.
    pub fn n(&self) -> u64 {
        self.evidence().map_or(self.windowed.n(), |evidence| evidence.n())
    }

    fn evidence(&self) -> Option<Evidence> {
        self.evidence.filter(|_| !self.lacks_evidence)
    }

    /// Returns the scores behind the area under the curve. With several results there are none: the metric is the
    /// mean of their areas, and not the area of one curve.
    fn curve(&self) -> Option<&Curve> {
        self.curve.as_deref().filter(|_| self.results == 1)
    }

    /// Returns the probability of so great a difference from the rest of `whole` if there is none: see
    /// [`Evidence::p_value`] and [`Curve::p_value_of`].
    fn p_value(&self, whole: &Self) -> Option<f64> {
        if let (Some(part), Some(curve)) = (self.curve(), whole.curve()) {
            return curve.p_value_of(part);
        }
        let evidence = self.evidence()?;
        evidence.p_value(&(whole.evidence()? - evidence))
    }
}

/// A slice in a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<L> {
    /// Label of the slice.
    pub label: L,
    /// Number of its predictions, evaluated or not, as a share of all.
    pub share: f64,
    /// Number of predictions behind the metric.
    pub n: u64,
    /// Metric of the slice.
    pub value: f64,
    /// Metric of all.
    pub whole: f64,
    /// Probability of so great a difference between the slice and the rest without one; `None` if not tested.
    pub p_value: Option<f64>,
    /// Probability adjusted for the number of tested slices: see [`adjusted`].
    pub p_adjusted: Option<f64>,
    /// True if there are enough predictions to be ranked; else it comes after the ranked ones, and is not tested.
    pub is_ranked: bool,
}

impl<L> Ranked<L> {
    /// Returns the excess of the metric of the slice over that of all.
    pub fn gap(&self) -> f64 {
        self.value - self.whole
    }
}

/// Ranks slices, each given with all predictions of its release: the worst first, and at the end those with fewer
/// than `min_n` predictions. A slice is left out if the metric of either is undefined. Among equal gaps the lesser
/// label comes first.
pub fn ranked<'a, L: Ord>(
    slices: impl IntoIterator<Item = (L, &'a Sample, &'a Sample)>,
    better: Direction,
    min_n: u64,
) -> Vec<Ranked<L>> {
    let of_slice = |(label, slice, whole): (L, &Sample, &Sample)| {
        let n = slice.n();
        let is_ranked = n >= min_n;
        Some(Ranked {
            label,
            share: slice.predictions() as f64 / whole.predictions().max(1) as f64,
            n,
            value: slice.value()?,
            whole: whole.value()?,
            p_value: if is_ranked { slice.p_value(whole) } else { None },
            p_adjusted: None,
            is_ranked,
        })
    };
    let mut ranked: Vec<_> = slices.into_iter().filter_map(of_slice).collect();
    let p_values: Vec<_> = ranked.iter().map(|slice| slice.p_value).collect();
    for (slice, p_adjusted) in ranked.iter_mut().zip(adjusted(&p_values)) {
        slice.p_adjusted = p_adjusted;
    }
    let badness = |slice: &Ranked<L>| match better {
        Direction::Max => -slice.gap(),
        Direction::Min => slice.gap(),
    };
    ranked.sort_by(|one, other| {
        let by_gap = || badness(other).total_cmp(&badness(one));
        other.is_ranked.cmp(&one.is_ranked).then_with(by_gap).then_with(|| one.label.cmp(&other.label))
    });
    ranked
}

#[cfg(test)]
mod tests;
