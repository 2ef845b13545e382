//! Conditions on the times of events, by which segments of other times need not be read.

use polars::{
    lazy::dsl::{Expr, Operator},
    prelude::{DataType, IntoLazy, TimeUnit},
};

use super::plan::columns_of;
use crate::{events::DAY, filter::Times, frame};

/// Upper bound of the part that a cast of an instant may cut off, in microseconds: a millisecond.
const CAST_MICROS: i64 = 1_000;

/// Returns the times that a condition allows for a column; `None`, if it does not restrict them.
pub(super) fn times_of(part: &Expr, column: &str) -> Option<Times> {
    let Expr::BinaryExpr { left, op, right } = part else { return None };
    let (value, op) = match (is_time(left, column), is_time(right, column)) {
        (true, false) => (right, *op),
        (false, true) => (left, swapped(*op)),
        _ => return None,
    };
    let at = instant_of(value)?;
    // The bound of a cast to a coarser unit, which cuts off less than this.
    let until = Some(at.saturating_add(CAST_MICROS));
    match op {
        Operator::Eq => Some(Times { since: Some(at), until }),
        Operator::Gt | Operator::GtEq => Some(Times { since: Some(at), until: None }),
        Operator::Lt | Operator::LtEq => Some(Times { since: None, until }),
        _ => None,
    }
}

/// Returns the comparison with its sides swapped.
fn swapped(op: Operator) -> Operator {
    match op {
        Operator::Gt => Operator::Lt,
        Operator::GtEq => Operator::LtEq,
        Operator::Lt => Operator::Gt,
        Operator::LtEq => Operator::GtEq,
        other => other,
    }
}

/// Returns true if it is a column of times, possibly cast to a time.
fn is_time(expr: &Expr, column: &str) -> bool {
    match expr {
        Expr::Column(name) => name.as_str() == column,
        Expr::Cast { expr, dtype, .. } => {
            let is_of_time = dtype.as_literal().is_some_and(|dtype| matches!(dtype, DataType::Datetime(..)));
            is_of_time && is_time(expr, column)
        }
        _ => false,
    }
}

/// Returns the instant of an expression without columns, in microseconds.
fn instant_of(expr: &Expr) -> Option<i64> {
    if columns_of(expr).next().is_some() {
        return None;
    }
    let one = frame::frame(1, vec![frame::days(DAY, vec![0])]).ok()?.lazy();
    let unit = DataType::Datetime(TimeUnit::Microseconds, None);
    let value = one.select([expr.clone().alias(DAY)]).collect().ok()?;
    let value = value.column(DAY).ok().filter(|value| matches!(value.dtype(), DataType::Datetime(..)))?;
    value.cast(&unit).ok()?.datetime().ok()?.physical().get(0)
}

#[cfg(test)]
mod tests {
    use event::{Kind, Timestamp};

    use super::{super::conditions, *};
    use crate::request::What;

    #[tokio::test]
    async fn a_condition_says_which_times_its_rows_have() {
        let times = async |condition: &str| {
            let found = conditions(What::Events(Kind::Predictions), &[condition.to_owned()]).await.unwrap();
            let micros = |text: &str| Timestamp::parse(text).unwrap().micros();
            let noon = micros("2026-06-01T12:00:00Z");
            let Times { since, until } = found.bounds.times;
            (since.map(|since| since - noon), until.map(|until| until - noon))
        };
        let hour = 3_600_000_000;
        for (condition, expected) in [
            ("predicted_at >= '2026-06-01T12:00:00Z'", (Some(0), None)),
            ("'2026-06-01T13:00:00Z' > predicted_at and score > 0.5", (None, Some(hour + CAST_MICROS))),
            (
                "predicted_at between '2026-06-01T12:00:00Z' and '2026-06-01T13:00:00Z'",
                (Some(0), Some(hour + CAST_MICROS)),
            ),
            (
                "predicted_at >= '2026-06-01T12:00:00Z' and predicted_at > '2026-06-01T13:00:00Z'",
                (Some(hour), None),
            ),
            ("predicted_at = '2026-06-01T12:00:00Z'", (Some(0), Some(CAST_MICROS))),
            ("predicted_at >= '2026-06-01T12:00:00Z' or score > 0.5", (None, None)),
            (
                "appended_at >= '2026-06-01T12:00:00Z' and predicted_at <> '2026-06-01T12:00:00Z'",
                (None, None),
            ),
        ] {
            assert_eq!(times(condition).await, expected, "{condition}");
        }
    }
}
