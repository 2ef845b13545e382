//! Where the predictions of a release are bad: slices of them, ranked by how far a figure is from that of all.
//!
//! A slice has what is known of some predictions, and stands beside all of its release. What is tested is the slice against the
//! rest: that is what all have less what the slice has, so nothing is read for it. Any gap is significant when there are enough
//! predictions, so slices are ranked by the gap; p-values stand beside it, [`adjusted`] for the number of slices that are tested.

use std::sync::Arc;

use crate::{
    AnyFigure, Windowed,
    drift::adjusted,
    evaluation::ReleaseEvaluation,
    figure::{Direction, Evidence},
    metrics::Curve,
};

/// What is known of a figure in some predictions of the days of a window.
#[derive(Clone, Debug)]
pub struct Sample {
    figure: AnyFigure,
    windowed: Windowed,
    predictions: u64,
    evidence: Option<Evidence>,
    /// Whether the figure of some day has no evidence, so that there is none of the window.
    lacks_evidence: bool,
    /// The scores, where they are known and the figure is tested by them.
    curve: Option<Arc<Curve>>,
    /// How many results were added.
    results: u64,
}

impl Sample {
    /// Nothing is judged yet.
    pub fn new(figure: &AnyFigure) -> Self {
        let windowed = Windowed::new(figure.clone());
        Self {
            figure: figure.clone(),
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
            if let AnyFigure::Declared(figure) = &self.figure { of.evidence(figure) } else { None };
        match (evidence, &mut self.evidence) {
            (Some(more), Some(evidence)) => *evidence += more,
            (Some(more), none) => *none = Some(more),
            (None, _) => self.lacks_evidence |= self.figure.of(of).is_some(),
        }
        self.curve = of.singles.as_ref().and_then(|singles| singles.curve.clone());
        self.results += 1;
    }

    /// How many predictions there are, judged or not.
    pub fn predictions(&self) -> u64 {
        self.predictions
    }

    /// The figure; `None`, where it is not defined.
    pub fn value(&self) -> Option<f64> {
        self.windowed.value()
    }

    /// Of how many predictions the figure is.
    pub fn n(&self) -> u64 {
        self.evidence().map_or(self.windowed.n(), |evidence| evidence.n())
    }

    fn evidence(&self) -> Option<Evidence> {
        self.evidence.filter(|_| !self.lacks_evidence)
    }

    /// The scores of which the figure is the area under the curve. That of several results is the mean of theirs, and the area of no
    /// curve.
    fn curve(&self) -> Option<&Curve> {
        self.curve.as_deref().filter(|_| self.results == 1)
    }

    /// How probable so great a difference from the rest of `whole` is if there is none: see [`Evidence::p_value`] and
    /// [`Curve::p_value_of`].
    fn p_value(&self, whole: &Self) -> Option<f64> {
        if let (Some(part), Some(curve)) = (self.curve(), whole.curve()) {
            return curve.p_value_of(part);
        }
        let evidence = self.evidence()?;
        evidence.p_value(&(whole.evidence()? - evidence))
    }
}

/// A slice in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<L> {
    /// What the slice is of.
    pub label: L,
    /// How many predictions are in it, judged or not, as a share of all.
    pub share: f64,
    /// Of how many predictions the figure is.
    pub n: u64,
    /// The figure of the slice.
    pub value: f64,
    /// The figure of all.
    pub whole: f64,
    /// How probable so great a difference between the slice and the rest is without one; `None`, where nothing is tested.
    pub p_value: Option<f64>,
    /// The same, raised for the number of slices that are tested: see [`adjusted`].
    pub p_adjusted: Option<f64>,
    /// Whether there are enough predictions to be ranked; else it stands behind those that are, and is not tested.
    pub is_ranked: bool,
}

impl<L> Ranked<L> {
    /// By how much the figure of the slice is greater than that of all.
    pub fn gap(&self) -> f64 {
        self.value - self.whole
    }
}

/// Slices, each with all predictions of its release, in their places: the worst first, and behind all those with fewer than
/// `min_n` predictions. Where the figure of either is not defined, a slice has no place. Of equal gaps the one with the lesser label comes
/// first.
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
