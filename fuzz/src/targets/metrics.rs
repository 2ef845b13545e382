//! Expressions of custom metrics.

use event::{
    CustomMetric,
    custom::{Expression, Value},
    fields::FieldType,
};

use super::texts;
use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "metrics",
    about: "expressions of custom metrics",
    seeds,
    words: &[
        "avg(",
        "sum(",
        "count(*)",
        "max(",
        "quantile(",
        "stddev(",
        "case when ",
        " then ",
        " else ",
        " end",
        " and ",
        " or ",
        " not ",
        " in (",
        " between ",
        " is null",
        " filter (where ",
        "score",
        "label",
        "outcome_label",
        "outcome_value",
        "observed_at",
        "predicted_at",
        "tag.x",
        "\"feature.a-b\"",
        "coalesce(",
        "nullif(",
        "1e308",
        "''",
        "null",
        "true",
    ],
    take,
};

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "avg(case when outcome_label = label then 1 else 0 end)",
        "sum(value * 2 - outcome_value) / count(*)",
        "max(greatest(score, 0.5)) - min(least(score, coalesce(outcome_value, -1)))",
        "count(*) filter (where tag.carrier in ('AA', 'UA') and score between 0.2 and 0.8)",
        "avg(abs(\"feature.dep-delay\" % 7)) + avg(sqrt(score)) * pow(2, 3)",
        "avg(observed_at - predicted_at)",
        "avg(case label when 'late' then ln(score) when 'early' then nullif(value, 3) end)",
        "1 - sum(case when label is null or not outcome_label <> 'x' then 1 end) / nullif(count(*), 0)",
    ])
}

/// Rows of which every column has some value, or none.
fn computed(expression: &Expression, columns: &[event::custom::JoinedColumn]) {
    for row in 0..4u32 {
        let leaf = |at: usize| match (columns.get(at).map(|column| column.kind), row) {
            (_, 0) | (None, _) => Value::Null,
            (Some(FieldType::Text), row) => Value::Text(["", "late", "é"][row as usize % 3]),
            (Some(_), row) => Value::Number([0.0, -1.5, 1e308][row as usize % 3]),
        };
        let number = expression.number(&leaf);
        assert!(number.is_none_or(f64::is_finite), "{number:?} is no value of a metric");
    }
}

fn take(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(metric) = CustomMetric::parse("made", text) else { return false };
    for aggregate in &metric.formula.aggregates {
        computed(&aggregate.argument, &metric.formula.columns);
    }
    let stored = CustomMetric::text_of([(metric.name.as_str(), metric.text.as_str())]);
    let again = CustomMetric::parse_all(&stored).ok();
    assert_eq!(again, Some([("made".into(), Some(metric))].into()), "what is stored is read as it was");
    true
}
