//! The columns of rollups.

use event::fields::{FieldType, TAG_PREFIX};

use crate::columns::ColumnType;

/// The columns of rollups by release, besides the day.
pub(super) const RELEASE_COLUMNS: &[&str] = &[
    "release",
    "names",
    "predictions",
    "outcomes",
    "metrics",
    "releases",
    "score_mean",
    "score_std",
    "score_min",
    "score_p50",
    "score_p90",
    "score_p99",
    "score_max",
    "score_null_rate",
    "label_null_rate",
    "value_mean",
    "value_std",
    "value_min",
    "value_p50",
    "value_p90",
    "value_p99",
    "value_max",
    "value_null_rate",
    "latency_mean",
    "latency_std",
    "latency_min",
    "latency_p50",
    "latency_p90",
    "latency_p99",
    "latency_max",
    "latency_null_rate",
    "score_p50_from",
    "score_p50_to",
    "score_p90_from",
    "score_p90_to",
    "score_p99_from",
    "score_p99_to",
    "value_p50_from",
    "value_p50_to",
    "value_p90_from",
    "value_p90_to",
    "value_p99_from",
    "value_p99_to",
    "latency_p50_from",
    "latency_p50_to",
    "latency_p90_from",
    "latency_p90_to",
    "latency_p99_from",
    "latency_p99_to",
];

/// The columns of rollups by a tag, besides the day and the tag.
pub(super) const TAG_COLUMNS: &[&str] = &[
    "names",
    "predictions",
    "metrics",
    "score_mean",
    "score_std",
    "score_min",
    "score_p50",
    "score_p90",
    "score_p99",
    "score_max",
    "score_null_rate",
    "label_null_rate",
    "value_mean",
    "value_std",
    "value_min",
    "value_max",
    "value_null_rate",
    "latency_mean",
    "latency_std",
    "latency_min",
    "latency_max",
    "latency_null_rate",
    "score_p50_from",
    "score_p50_to",
    "score_p90_from",
    "score_p90_to",
    "score_p99_from",
    "score_p99_to",
];

/// The columns of rollups by metric, besides the day.
pub(super) const METRIC_COLUMNS: &[&str] = &[
    "metric",
    "release",
    "names",
    "metrics",
    "value_mean",
    "value_std",
    "value_min",
    "value_p50",
    "value_p90",
    "value_p99",
    "value_max",
    "value_last",
    "value_p50_from",
    "value_p50_to",
    "value_p90_from",
    "value_p90_to",
    "value_p99_from",
    "value_p99_to",
];

/// All columns that rollups may have, besides the day and tags.
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    let more = METRIC_COLUMNS.iter().filter(|column| !RELEASE_COLUMNS.contains(column));
    RELEASE_COLUMNS.iter().chain(more).copied()
}

/// Whether a column says between which ranks a quantile stands. People see them only when they ask for them.
pub(crate) fn is_rank(column: &str) -> bool {
    let quantile = column.strip_suffix("_from").or(column.strip_suffix("_to"));
    quantile.is_some_and(|name| ["_p50", "_p90", "_p99"].iter().any(|end| name.ends_with(end)))
}

/// What a column holds, tags included.
pub(crate) fn column_type(column: &str) -> ColumnType {
    match column {
        "release" | "metric" => ColumnType::Field(FieldType::Text),
        _ if column.starts_with(TAG_PREFIX) => ColumnType::Field(FieldType::Text),
        _ if COUNTS.contains(&column) => ColumnType::Count,
        _ => ColumnType::Field(FieldType::Float),
    }
}

/// Columns that hold whole numbers.
const COUNTS: [&str; 5] = ["names", "predictions", "outcomes", "metrics", "releases"];
