//! Statistics of one column of predictions by itself, from the rollups of some days: its null rate and its numbers.

use event::fields::{FEATURE_PREFIX, TAG_PREFIX};

use super::{PLAIN, Profile, Sort, profile::TagNames};
use crate::{
    metric::{STATISTICS, Statistic},
    rollup::{FeatureNumbers, ReleaseNumbers},
};

/// Share of predictions that lack a column.
pub const NULL_RATE: &str = "null_rate";

/// Returns the statistics of a column by itself: [`NULL_RATE`], and for numbers those of rollups ([`STATISTICS`]).
pub fn column_statistics(sort: Sort) -> impl Iterator<Item = &'static str> {
    let of_numbers = STATISTICS.iter().filter(move |_| sort == Sort::Numbers);
    std::iter::once(NULL_RATE).chain(of_numbers.map(|statistic| statistic.name))
}

/// Content of a column.
enum ColumnContent<'a> {
    Numbers(Option<&'a ReleaseNumbers>),
    Feature(Option<&'a FeatureNumbers>),
    /// Number of predictions with a name.
    Names(u64),
}

impl ColumnContent<'_> {
    /// Returns the number of predictions that have the column.
    fn n(&self) -> u64 {
        match self {
            Self::Numbers(numbers) => numbers.map_or(0, |numbers| numbers.numbers.n),
            Self::Feature(numbers) => numbers.map_or(0, |numbers| numbers.numbers.n),
            Self::Names(n) => *n,
        }
    }

    fn statistic(&self, statistic: &Statistic) -> Option<f64> {
        match self {
            Self::Numbers(numbers) => statistic.of((*numbers)?),
            Self::Feature(numbers) => statistic.of((*numbers)?),
            Self::Names(_) => None,
        }
    }
}

impl Profile {
    /// Returns one of the [`column_statistics`] and the number of predictions behind it; `None` if unknown.
    pub fn statistic(&self, column: &str, statistic: &str) -> Option<(f64, u64)> {
        let (content, of) = self.content(column);
        if statistic == NULL_RATE {
            // An absent column may be among those that are not kept apart.
            let is_known = of > 0 && (content.n() > 0 || PLAIN.contains(&column) || !self.has_others);
            return is_known.then(|| (of.saturating_sub(content.n()) as f64 / of as f64, of));
        }
        Some((content.statistic(Statistic::named(statistic)?)?, content.n()))
    }

    /// Returns the content of a column, and the number of predictions behind it.
    fn content(&self, column: &str) -> (ColumnContent<'_>, u64) {
        let of = &self.detail;
        let content = match column {
            "score" => ColumnContent::Numbers(of.score.as_ref()),
            "value" => ColumnContent::Numbers(of.value.as_ref()),
            "latency_ms" => ColumnContent::Numbers(of.latency.as_ref()),
            "label" => ColumnContent::Names(of.labelled),
            _ => match (column.strip_prefix(TAG_PREFIX), column.strip_prefix(FEATURE_PREFIX)) {
                (_, Some(name)) => return (ColumnContent::Feature(self.features.get(name)), self.featured),
                (Some(tag), None) => ColumnContent::Names(self.tags.get(tag).map_or(0, with_tag)),
                (None, None) => ColumnContent::Names(0),
            },
        };
        (content, of.n)
    }
}

/// Returns the number of predictions that have a tag, whatever its value.
fn with_tag(values: &TagNames) -> u64 {
    let all = values.names().values().chain(values.others());
    all.fold(0u64, |n, counts| n.saturating_add(counts.predictions))
}
