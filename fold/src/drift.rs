//! Drift: distances between the numbers or names of a window and those of a reference.
//!
//! Both sides are rollups: [sketches](crate::sketch) of numbers and counts of names. The resolution of a sketch adds
//! an error, and the error is known: [`Drift::ks_error`] and [`Drift::wasserstein_error`], and for names
//! [`Drift::others_rate`]. Population stability index and Jensen-Shannon distance compare the tenths of the
//! reference, and the numbers below and above all of it; the edges of these bins are edges of cells, so they have no
//! such error. A tenth ends with the cell that fills it, so its end is off by less than the content of that cell.
//!
//! Any difference is significant with enough numbers, so columns are ranked by its size ([`Drift::js_distance`]);
//! p-values stand beside it, [`adjusted`] for the number of columns.

mod column;
mod exact;
mod names;
mod numbers;
mod profile;
mod tail;

#[cfg(test)]
mod tests;

pub use self::{
    column::{NULL_RATE, column_statistics},
    exact::Exact,
    names::{Counted, Names},
    numbers::Spread,
    profile::{Compared, Profile},
};

use event::{
    Kind,
    fields::{Family, FieldType},
    id::check_name,
};

/// Minimum share of a bin or name in the population stability index, which is infinite for one absent from a side.
pub const LEAST_SHARE: f64 = 1e-4;

/// Distances of a window from its reference. A statistic is `None` when a side is empty, or when the column is of
/// another sort.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// The population stability index: the sum of (q - p) ln(q / p) over bins of numbers or over names, where p is the share of the
    /// reference and q that of the window, each at least [`LEAST_SHARE`] (Siddiqi, "Credit risk scorecards", 2006).
    pub psi: Option<f64>,
    /// The Jensen-Shannon distance of these shares, from 0 to 1 (`scipy.spatial.distance.jensenshannon`, base 2).
    pub js_distance: Option<f64>,
    /// Area between the two cumulative distributions of numbers, in their unit (`scipy.stats.wasserstein_distance`).
    pub wasserstein: Option<f64>,
    /// Maximum error of [`Drift::wasserstein`].
    pub wasserstein_error: Option<f64>,
    /// [`Drift::wasserstein`] divided by the standard deviation of the reference.
    pub wasserstein_scaled: Option<f64>,
    /// Greatest difference of the two cumulative distributions of numbers (Kolmogorov-Smirnov;
    /// `scipy.stats.ks_2samp`).
    pub ks: Option<f64>,
    /// Maximum excess of the true statistic over [`Drift::ks`]; it is never less.
    pub ks_error: Option<f64>,
    /// Probability of a [`Drift::ks`] at least this great without drift, by its limiting distribution
    /// (`scipy.stats.kstwobign`).
    pub ks_p: Option<f64>,
    /// Statistic of the chi-squared test of names (`scipy.stats.chi2_contingency`).
    pub chi2: Option<f64>,
    /// Probability of a [`Drift::chi2`] at least this great without drift.
    pub chi2_p: Option<f64>,
    /// Greatest difference of the share of a name.
    pub l_infinity: Option<f64>,
    /// Share of the window whose name the reference does not have. Names that are not kept apart are left out.
    pub unseen_rate: Option<f64>,
    /// Share of names that are not kept apart, on the side that has more of them: the maximum error of
    /// [`Drift::l_infinity`], and the maximum excess of the true [`Drift::unseen_rate`].
    pub others_rate: Option<f64>,
}

/// Sort of columns that a statistic applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// All columns.
    Any,
    /// Numbers: scores, values, latencies, features.
    Numbers,
    /// Names: labels, tags.
    Names,
}

impl Sort {
    /// Returns the sort of a column of predictions; `None` if it is not compared.
    pub fn of(column: &str) -> Option<Self> {
        let predictions = Kind::Predictions;
        let member = |family: &Family| {
            (family.is_rolled_up || family.is_sketched)
                && family.member(column).is_some_and(|name| check_name(name).is_ok())
        };
        match PLAIN.contains(&column) || predictions.families().iter().any(member) {
            true if predictions.column_type(column) == Some(FieldType::Text) => Some(Self::Names),
            true => Some(Self::Numbers),
            false => None,
        }
    }
}

/// Columns that are compared besides tags and features.
const PLAIN: [&str; 4] = ["score", "value", "latency_ms", "label"];

/// A statistic of drift.
#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    /// Name of the statistic and its column.
    pub name: &'static str,
    /// Sort of columns that it applies to.
    pub sort: Sort,
    /// Reads the statistic.
    pub read: fn(&Drift) -> Option<f64>,
}

/// Every statistic, in the order of the columns.
pub static STATISTICS: &[Statistic] = &[
    statistic("js_distance", Sort::Any, |of| of.js_distance),
    statistic("psi", Sort::Any, |of| of.psi),
    statistic("wasserstein", Sort::Numbers, |of| of.wasserstein),
    statistic("wasserstein_error", Sort::Numbers, |of| of.wasserstein_error),
    statistic("wasserstein_scaled", Sort::Numbers, |of| of.wasserstein_scaled),
    statistic("ks", Sort::Numbers, |of| of.ks),
    statistic("ks_error", Sort::Numbers, |of| of.ks_error),
    statistic("chi2", Sort::Names, |of| of.chi2),
    statistic("l_infinity", Sort::Names, |of| of.l_infinity),
    statistic("unseen_rate", Sort::Names, |of| of.unseen_rate),
    statistic("others_rate", Sort::Names, |of| of.others_rate),
    statistic("p_value", Sort::Any, Drift::p_value),
];

const fn statistic(name: &'static str, sort: Sort, read: fn(&Drift) -> Option<f64>) -> Statistic {
    Statistic { name, sort, read }
}

impl Statistic {
    /// Returns the statistic of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STATISTICS.iter().find(|statistic| statistic.name == name)
    }
}

impl Drift {
    /// Returns the probability of a difference at least this great without drift: [`Drift::ks_p`] of numbers,
    /// [`Drift::chi2_p`] of names.
    pub fn p_value(&self) -> Option<f64> {
        self.ks_p.or(self.chi2_p)
    }
}

/// Adjusts p-values: among all below a level, the expected share of false ones is at most that level (Benjamini and
/// Hochberg 1995; `scipy.stats.false_discovery_control`). Missing values are ignored.
pub fn adjusted(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        p_values.iter().enumerate().filter_map(|(at, p)| p.map(|p| (at, p))).collect();
    order.sort_by(|one, other| other.1.total_cmp(&one.1));
    let n = order.len();
    let mut found = vec![None; p_values.len()];
    let mut least = 1.0_f64;
    for (after, (at, p)) in order.into_iter().enumerate() {
        least = least.min(p * n as f64 / (n - after) as f64);
        found[at] = Some(least);
    }
    found
}

/// Counts on each side: the reference, the window.
type Sides = [u64; 2];

/// Returns the population stability index and the Jensen-Shannon distance of counts by bin or name; `None` if a side
/// is empty.
fn divergences(counts: &[Sides]) -> Option<(f64, f64)> {
    let total = totals(counts)?;
    let (mut psi, mut js) = (0.0, 0.0);
    for &[reference, window] in counts {
        let (p, q) = (reference as f64 / total[0], window as f64 / total[1]);
        let (least_p, least_q) = (p.max(LEAST_SHARE), q.max(LEAST_SHARE));
        psi += (least_q - least_p) * libm::log(least_q / least_p);
        let middle = f64::midpoint(p, q);
        js += [p, q].iter().filter(|share| **share > 0.0).map(|x| x * libm::log2(x / middle)).sum::<f64>();
    }
    Some((psi, (js / 2.0).clamp(0.0, 1.0).sqrt()))
}

/// Returns the total of each side; `None` if a side is empty.
fn totals(counts: &[Sides]) -> Option<[f64; 2]> {
    let total = counts
        .iter()
        .fold([0u64; 2], |sum, count| [sum[0].saturating_add(count[0]), sum[1].saturating_add(count[1])]);
    (total[0] > 0 && total[1] > 0).then_some(total.map(|n| n as f64))
}
