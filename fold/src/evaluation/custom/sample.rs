//! Predictions behind a custom metric, kept so that keys can be drawn from them.

use event::custom::Formula;

use super::{
    super::interval::{GoOn, MAX_ROWS, draw, percentiles},
    Aggregates,
};
use crate::hash::hash;

/// Inputs of the aggregates of a metric, prediction by prediction.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Hash of the key of each prediction.
    keys: Vec<u64>,
    /// Finite input of each aggregate by prediction; NaN if there was none.
    taken: Vec<f64>,
}

impl Sample {
    /// Keeps the inputs of a prediction, and returns them.
    pub(super) fn keep(&mut self, key: &str, taken: impl Iterator<Item = f64>) -> &[f64] {
        let first = self.taken.len();
        self.keys.push(hash(key.as_bytes()));
        self.taken.extend(taken);
        &self.taken[first..]
    }

    /// Returns whether it has more rows than an interval is computed from.
    pub(super) fn is_too_large(&self) -> bool {
        self.taken.len() > MAX_ROWS
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.keys) + size_of_val(&*self.taken)
    }

    /// Returns the interval of the metric, by a bootstrap: as many keys as there are are drawn again and again.
    pub(super) fn interval<E>(self, formula: &Formula, go_on: GoOn<'_, E>) -> Result<Option<(f64, f64)>, E> {
        let Self { keys, taken } = self;
        let each = taken.chunks_exact(formula.aggregates.len());
        let mut rows: Vec<(u64, &[f64])> = keys.into_iter().zip(each).collect();
        // The result must not depend on the order of arrival.
        rows.sort_unstable_by(|one, other| one.0.cmp(&other.0).then_with(|| bits(one.1).cmp(bits(other.1))));
        let keys: Vec<&[(u64, &[f64])]> = rows.chunk_by(|one, other| one.0 == other.0).collect();
        let mut values = Vec::new();
        draw(&keys, taken.len(), go_on, |drawn| {
            let mut aggregates = Aggregates::of(formula);
            drawn.flatten().for_each(|(_, row)| aggregates.take(row.iter().copied()));
            values.extend(aggregates.value(formula));
        })?;
        Ok(percentiles(&values))
    }
}

fn bits(row: &[f64]) -> impl Iterator<Item = u64> {
    row.iter().map(|number| number.to_bits())
}
