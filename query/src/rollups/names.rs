//! The columns of rollups, built from the metrics of numbers ([`STATISTICS`]).

use std::{collections::BTreeSet, sync::LazyLock};

use event::fields::FieldType;
use fold::metric::{STATISTICS, StatisticGetter};

use crate::columns::ColumnType;

/// A column of rollups.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    /// True if it is an end of the range of ranks in which a quantile lies. Tables show those on request only.
    pub(crate) is_rank: bool,
}

/// A group of columns.
enum Block {
    Text(&'static str),
    Count(&'static str),
    Number(&'static str),
    /// All metrics of these numbers.
    Numbers(&'static str),
    /// The metrics of these numbers that need no sketch.
    Sums(&'static str),
    /// The ranks between which the quantiles of these numbers lie.
    Ranks(&'static str),
}

use Block::{Count, Number, Numbers, Ranks, Sums, Text};

/// The columns by release, besides the day.
pub(super) static OF_RELEASES: LazyLock<Vec<Column>> = LazyLock::new(|| {
    columns_of(&[
        Text("release"),
        Count("names"),
        Count("predictions"),
        Count("outcomes"),
        Count("metrics"),
        Count("releases"),
        Count("erased"),
        Numbers("score"),
        Number("score_null_rate"),
        Number("label_null_rate"),
        Numbers("value"),
        Number("value_null_rate"),
        Numbers("latency"),
        Number("latency_null_rate"),
        Ranks("score"),
        Ranks("value"),
        Ranks("latency"),
    ])
});

/// The columns by a tag, besides the day and the tag.
pub(super) static OF_TAGS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    columns_of(&[
        Count("names"),
        Count("predictions"),
        Count("metrics"),
        Numbers("score"),
        Number("score_null_rate"),
        Number("label_null_rate"),
        Sums("value"),
        Number("value_null_rate"),
        Sums("latency"),
        Number("latency_null_rate"),
        Ranks("score"),
    ])
});

/// The columns by metric, besides the day.
pub(super) static OF_METRICS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    columns_of(&[
        Text("metric"),
        Text("release"),
        Count("names"),
        Count("metrics"),
        Numbers("value"),
        Number("value_sum"),
        Number("value_last"),
        Ranks("value"),
    ])
});

/// The columns by feature, besides the day.
pub(super) static OF_FEATURES: LazyLock<Vec<Column>> = LazyLock::new(|| {
    columns_of(&[
        Text("feature"),
        Text("release"),
        Count("names"),
        Count("predictions"),
        Numbers("value"),
        Number("value_null_rate"),
        Ranks("value"),
    ])
});

fn columns_of(blocks: &[Block]) -> Vec<Column> {
    blocks.iter().flat_map(Block::columns).collect()
}

impl Block {
    fn columns(&self) -> Vec<Column> {
        let column = |name: String, kind| Column { name, kind, is_rank: false };
        let number = |name: String| column(name, ColumnType::Field(FieldType::Float));
        let is_quantile = |getter: StatisticGetter| matches!(getter, StatisticGetter::Quantile(_));
        match *self {
            Text(name) => vec![column(name.to_owned(), ColumnType::Field(FieldType::Text))],
            Count(name) => vec![column(name.to_owned(), ColumnType::Count)],
            Number(name) => vec![number(name.to_owned())],
            Numbers(of) => STATISTICS.iter().map(|metric| number(statistic(of, metric.name))).collect(),
            Sums(of) => {
                let sums = STATISTICS.iter().filter(|metric| !is_quantile(metric.getter));
                sums.map(|metric| number(statistic(of, metric.name))).collect()
            }
            Ranks(of) => {
                let quantiles = STATISTICS.iter().filter(|metric| is_quantile(metric.getter));
                let ranks = quantiles.flat_map(|metric| ranks(&statistic(of, metric.name)));
                ranks.map(|name| Column { is_rank: true, ..number(name) }).collect()
            }
        }
    }
}

/// Returns the name of the column of a metric of numbers.
pub(super) fn statistic(of: &str, name: &str) -> String {
    format!("{of}_{name}")
}

/// Returns the names of the columns of the ranks between which a quantile lies.
pub(super) fn ranks(quantile: &str) -> [String; 2] {
    ["from", "to"].map(|end| format!("{quantile}_{end}"))
}

/// Returns all columns that rollups may have, besides the day and tags.
pub(crate) fn columns() -> impl Iterator<Item = &'static Column> {
    let all = [&OF_RELEASES, &OF_METRICS, &OF_FEATURES].into_iter().flat_map(|columns| columns.iter());
    let mut seen = BTreeSet::new();
    all.filter(move |column| seen.insert(column.name.as_str()))
}

/// Returns the columns of rollups by release, besides the day.
pub(crate) fn columns_by_release() -> impl Iterator<Item = &'static Column> {
    OF_RELEASES.iter()
}

/// Returns true if a column holds ranks between which a quantile lies.
pub(crate) fn is_rank(column: &str) -> bool {
    columns().any(|one| one.is_rank && one.name == column)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs may read columns by their order, so it never changes.
    #[test]
    fn the_columns_stay_in_their_order() {
        let names = |columns: &[Column]| {
            columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            names(&OF_RELEASES),
            "release names predictions outcomes metrics releases erased score_mean score_std score_min score_p50 \
         score_p90 score_p99 score_max score_null_rate label_null_rate value_mean value_std value_min \
         value_p50 value_p90 value_p99 value_max value_null_rate latency_mean latency_std latency_min \
         latency_p50 latency_p90 latency_p99 latency_max latency_null_rate score_p50_from \
         score_p50_to score_p90_from score_p90_to score_p99_from score_p99_to value_p50_from \
         value_p50_to value_p90_from value_p90_to value_p99_from value_p99_to latency_p50_from \
         latency_p50_to latency_p90_from latency_p90_to latency_p99_from latency_p99_to"
        );
        assert_eq!(
            names(&OF_TAGS),
            "names predictions metrics score_mean score_std score_min score_p50 score_p90 score_p99 \
         score_max score_null_rate label_null_rate value_mean value_std value_min value_max \
         value_null_rate latency_mean latency_std latency_min latency_max latency_null_rate \
         score_p50_from score_p50_to score_p90_from score_p90_to score_p99_from score_p99_to"
        );
        assert_eq!(
            names(&OF_METRICS),
            "metric release names metrics value_mean value_std value_min value_p50 value_p90 value_p99 \
         value_max value_sum value_last value_p50_from value_p50_to value_p90_from value_p90_to value_p99_from \
         value_p99_to"
        );
        assert_eq!(
            names(&OF_FEATURES),
            "feature release names predictions value_mean value_std value_min value_p50 value_p90 value_p99 \
         value_max value_null_rate value_p50_from value_p50_to value_p90_from value_p90_to value_p99_from \
         value_p99_to"
        );
        assert_eq!(columns().count(), OF_RELEASES.len() + 4, "metric, value_sum, value_last and feature");
        assert!(is_rank("score_p50_from") && is_rank("latency_p99_to"));
        assert!(!is_rank("score_p50") && !is_rank("tag.score_p50_from"));
    }
}
