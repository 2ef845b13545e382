//! Days and instants with a span added: `day + interval '23 hours'`. Polars keeps a day a day, and does not compare an instant
//! with a time zone with one without; all of ours are in UTC.

use sqlparser::ast::{BinaryOperator, DataType, Expr, Interval, Value, ValueWithSpan};

use super::{
    functions,
    rewrite::{is_comparison, parsed},
};

/// The units of spans of whole days, as named by polars.
const OF_DAYS: &[&str] = &[
    "d", "day", "days", "w", "week", "weeks", "mo", "mon", "mons", "month", "months", "q", "quarter",
    "quarters", "y", "year", "years",
];

/// Functions whose result is a day if their argument is one.
const SAME: &[&str] =
    &["coalesce", "first", "first_value", "greatest", "ifnull", "last", "last_value", "least", "max", "min"];

/// The types of columns, as far as they are known.
pub(super) trait Columns {
    /// Returns true if it is a column of days.
    fn is_day(&self, expr: &Expr) -> bool;

    /// Returns true if it is a column of instants.
    fn is_instant(&self, expr: &Expr) -> bool;
}

/// Returns the replacement of a sum of a time and a span, or of a comparison with one; `None`, if polars computes it as SQL does.
pub(super) fn as_in_sql(expr: &Expr, columns: &impl Columns) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op: op @ (BinaryOperator::Plus | BinaryOperator::Minus), right }
            if span(left).is_some() || span(right).is_some() =>
        {
            shifted((&**left, op, &**right), columns).filter(|made| made != expr)
        }
        Expr::BinaryOp { left, op, right } if is_comparison(op) || *op == BinaryOperator::Minus => {
            let [left, right] = in_one_zone([&**left, &**right], columns)?.map(Box::new);
            Some(Expr::BinaryOp { left, op: op.clone(), right })
        }
        Expr::Between { expr, negated, low, high } => {
            let [expr, low, high] = in_one_zone([&**expr, &**low, &**high], columns)?.map(Box::new);
            Some(Expr::Between { expr, negated: *negated, low, high })
        }
        _ => None,
    }
}

/// Returns a span, with or without parentheses.
fn span(expr: &Expr) -> Option<&Interval> {
    match expr {
        Expr::Interval(span) => Some(span),
        Expr::Nested(of) => span(of),
        _ => None,
    }
}

/// Returns a time with a span added, in a form that polars supports. A day becomes an instant if the span has parts of a day.
fn shifted((left, op, right): (&Expr, &BinaryOperator, &Expr), columns: &impl Columns) -> Option<Expr> {
    let (time, by) = match (span(left), span(right)) {
        (None, Some(by)) => (left.clone(), by),
        (Some(by), None) if *op == BinaryOperator::Plus => (Expr::Nested(Box::new(right.clone())), by),
        _ => return None,
    };
    let time = match has_parts_of_days(by) && is_of_days(&time, columns) {
        true => as_timestamp(&time)?,
        false => time,
    };
    Some(Expr::BinaryOp { left: Box::new(time), op: op.clone(), right: Box::new(Expr::Interval(by.clone())) })
}

fn as_timestamp(time: &Expr) -> Option<Expr> {
    parsed(&format!("cast({time} as timestamp)"))
}

fn has_parts_of_days(span: &Interval) -> bool {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &*span.value else {
        return false;
    };
    let mut units = text.split(|sign: char| !sign.is_ascii_alphabetic()).filter(|unit| !unit.is_empty());
    units.any(|unit| !OF_DAYS.iter().any(|of_days| of_days.eq_ignore_ascii_case(unit)))
}

fn is_of_days(expr: &Expr, columns: &impl Columns) -> bool {
    match expr {
        Expr::Nested(of) => is_of_days(of, columns),
        Expr::Cast { data_type, .. } => *data_type == DataType::Date,
        Expr::TypedString(typed) => typed.data_type == DataType::Date,
        Expr::BinaryOp { left, right, .. } => span(right).is_some() && is_of_days(left, columns),
        Expr::Function(function) if functions::is_one_of(function, SAME) => {
            functions::first_argument(function).is_some_and(|first| is_of_days(first, columns))
        }
        Expr::Function(function) => functions::is_named(function, "date"),
        column => columns.is_day(column),
    }
}

/// Removes the time zone of columns of instants that are compared with instants without one.
fn in_one_zone<const N: usize>(sides: [&Expr; N], columns: &impl Columns) -> Option<[Expr; N]> {
    let has = |is_one: &dyn Fn(&Expr) -> bool| sides.iter().any(|side| is_one(side));
    if !has(&has_no_zone) || !has(&|side: &Expr| is_instant(side, columns)) {
        return None;
    }
    Some(sides.map(|side| match is_instant(side, columns) {
        true => as_timestamp(side).unwrap_or_else(|| side.clone()),
        false => side.clone(),
    }))
}

/// Returns true if it is an instant without a time zone.
fn has_no_zone(expr: &Expr) -> bool {
    let is_timestamp = |kind: &DataType| matches!(kind, DataType::Timestamp(..) | DataType::Datetime(_));
    match expr {
        Expr::Nested(of) => has_no_zone(of),
        Expr::Cast { data_type, .. } => is_timestamp(data_type),
        Expr::TypedString(typed) => is_timestamp(&typed.data_type),
        Expr::BinaryOp { left, right, .. } => span(right).is_some() && has_no_zone(left),
        Expr::Function(function) => functions::is_named(function, "timestamp"),
        _ => false,
    }
}

/// Returns true if it is a column of instants, with or without a span added.
fn is_instant(expr: &Expr, columns: &impl Columns) -> bool {
    match expr {
        Expr::Nested(of) => is_instant(of, columns),
        Expr::BinaryOp { left, right, .. } => span(right).is_some() && is_instant(left, columns),
        column => columns.is_instant(column),
    }
}

#[cfg(test)]
mod tests {
    use super::super::admit::admit;

    #[test]
    fn a_day_with_hours_is_an_instant() {
        for (condition, expected) in [
            ("predicted_at > day + interval '1 day'", "predicted_at > day + INTERVAL '1 day'"),
            (
                "predicted_at > day + interval '23 hours'",
                "CAST(predicted_at AS TIMESTAMP) > CAST(day AS TIMESTAMP) + INTERVAL '23 hours'",
            ),
            (
                "predicted_at - interval '1 hour' < interval '1d 30m' + p.day",
                "CAST(predicted_at - INTERVAL '1 hour' AS TIMESTAMP) < CAST((p.day) AS TIMESTAMP) + INTERVAL '1d 30m'",
            ),
            (
                "predicted_at + interval '1 hour' > appended_at",
                "predicted_at + INTERVAL '1 hour' > appended_at",
            ),
            (
                "predicted_at between cast(day as timestamp) and day + interval '1 week' + interval '5 minutes'",
                "CAST(predicted_at AS TIMESTAMP) BETWEEN CAST(day AS TIMESTAMP) AND \
                 CAST(day + INTERVAL '1 week' AS TIMESTAMP) + INTERVAL '5 minutes'",
            ),
        ] {
            let text = admit(&format!("select key from predictions p where {condition}")).unwrap().text;
            assert_eq!(text.split_once(" WHERE ").unwrap().1, expected, "{condition}");
        }
    }
}
