//! How far the numbers or names of a window are from those of a reference.
//!
//! Both sides are rollups: [sketches](crate::sketch) of numbers and counts of names. What a sketch no longer tells apart adds an
//! error, and the error is known: [`Drift::ks_error`] and [`Drift::wasserstein_error`], and of names [`Drift::others_rate`].
//! Population stability index and Jensen-Shannon distance are of the tenths of the reference, and of what lies below and above all
//! of it; the edges of these bins are edges of cells, so they have no such error. A tenth ends with the cell in which it is full,
//! so its end is off by less than what that cell holds.
//!
//! Any difference is significant when there are enough numbers, so columns are ranked by how large it is
//! ([`Drift::js_distance`]); p-values stand beside it, [`adjusted`] for the number of columns.

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

/// The least share of a bin or name in the population stability index, which would be infinite for one that a side does not have.
pub const LEAST_SHARE: f64 = 1e-4;

/// How far a window is from its reference. A statistic is `None` when a side has nothing, or when it is not of this sort of column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// The population stability index: the sum of (q - p) ln(q / p) over bins of numbers or over names, where p is the share of the
    /// reference and q that of the window, each at least [`LEAST_SHARE`] (Siddiqi, "Credit risk scorecards", 2006).
    pub psi: Option<f64>,
    /// The Jensen-Shannon distance of the same shares, from 0 to 1 (`scipy.spatial.distance.jensenshannon`, base 2).
    pub js_distance: Option<f64>,
    /// Of numbers, the area between the two cumulative distributions, in their unit (`scipy.stats.wasserstein_distance`).
    pub wasserstein: Option<f64>,
    /// How far [`Drift::wasserstein`] may be off.
    pub wasserstein_error: Option<f64>,
    /// [`Drift::wasserstein`] by the standard deviation of the reference.
    pub wasserstein_scaled: Option<f64>,
    /// Of numbers, the greatest difference of the two cumulative distributions (Kolmogorov-Smirnov; `scipy.stats.ks_2samp`).
    pub ks: Option<f64>,
    /// By how much the true statistic may be greater than [`Drift::ks`]; it is never less.
    pub ks_error: Option<f64>,
    /// How probable so great a [`Drift::ks`] is without drift, by its limiting distribution (`scipy.stats.kstwobign`).
    pub ks_p: Option<f64>,
    /// Of names, the statistic of the chi-squared test (`scipy.stats.chi2_contingency`).
    pub chi2: Option<f64>,
    /// How probable so great a [`Drift::chi2`] is without drift.
    pub chi2_p: Option<f64>,
    /// Of names, the greatest difference of a share.
    pub l_infinity: Option<f64>,
    /// Of names, the share of the window that has a name which the reference does not have. Of names that are not kept apart it is
    /// not known.
    pub unseen_rate: Option<f64>,
    /// Of names, the share that those have which are not kept apart, on the side that has more of them: so far the true
    /// [`Drift::l_infinity`] is off at most, and so much greater the true [`Drift::unseen_rate`] is at most.
    pub others_rate: Option<f64>,
}

/// Of which columns there is a statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Of all.
    Any,
    /// Of numbers: scores, values, latencies, features.
    Numbers,
    /// Of names: labels, tags.
    Names,
}

impl Sort {
    /// What a column of predictions holds; `None`, when it is none that is compared.
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

/// The columns that are compared besides tags and features.
const PLAIN: [&str; 4] = ["score", "value", "latency_ms", "label"];

/// A statistic of drift.
#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    /// Its name, that of the column.
    pub name: &'static str,
    /// Of which columns it is.
    pub sort: Sort,
    /// How it is read.
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
    /// The statistic of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STATISTICS.iter().find(|statistic| statistic.name == name)
    }
}

impl Drift {
    /// How probable so great a difference is without drift: [`Drift::ks_p`] of numbers, [`Drift::chi2_p`] of names.
    pub fn p_value(&self) -> Option<f64> {
        self.ks_p.or(self.chi2_p)
    }
}

/// P-values, each raised so that of those below a level at most that share are expected to be false (Benjamini and Hochberg 1995;
/// `scipy.stats.false_discovery_control`). What has none counts for nothing.
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

/// Of how many there are on each side: the reference, the window.
type Sides = [u64; 2];

/// The population stability index and the Jensen-Shannon distance of counts by bin or name; `None` when a side has none.
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

/// How many there are on each side; `None` when a side has none.
fn totals(counts: &[Sides]) -> Option<[f64; 2]> {
    let total = counts
        .iter()
        .fold([0u64; 2], |sum, count| [sum[0].saturating_add(count[0]), sum[1].saturating_add(count[1])]);
    (total[0] > 0 && total[1] > 0).then_some(total.map(|n| n as f64))
}
