//! Truth as in SQL, where the parser or polars differs: AND and OR behind `IS DISTINCT FROM`, and predicates such as `IS TRUE`,
//! which are never unknown.

use sqlparser::ast::{BinaryOperator, Expr, Ident, Query, Value, ValueWithSpan};

use super::{
    rewrite::{is_comparison, parsed},
    walk::expressions_mut,
};

/// The unknown truth value. It cannot fail, so polars pushes conditions with it down to the scan.
pub(super) const UNKNOWN: &str = "try_cast(null as boolean)";

/// Puts each `IS [NOT] DISTINCT FROM` in parentheses if the parser took an AND or OR behind it for a part of its right side.
/// Returns true if there was one: the text of the statement is right then, but its syntax tree is not.
pub(super) fn part_from_what_follows(query: &mut Query) -> bool {
    let mut has_parted = false;
    expressions_mut(query, |expr| has_parted |= part(expr));
    has_parted
}

/// Makes `(a is distinct from b) and c` of `a is distinct from b and c`.
fn part(expr: &mut Expr) -> bool {
    let (Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right)) = &mut *expr else {
        return false;
    };
    if !is_joined(right) {
        return false;
    }
    let mut follows = std::mem::replace(&mut **right, nothing());
    std::mem::swap(first_of(&mut follows), &mut **right);
    let distinct = std::mem::replace(expr, nothing());
    *first_of(&mut follows) = Expr::Nested(Box::new(distinct));
    *expr = follows;
    true
}

/// Returns a placeholder.
fn nothing() -> Expr {
    Expr::Identifier(Ident::new(""))
}

fn is_joined(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. })
}

/// Returns the first operand of a chain of AND and OR.
fn first_of(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, .. } => first_of(left),
        first => first,
    }
}

/// Returns the replacement of predicates such as `IS TRUE`: in polars they are unknown for an unknown operand.
pub(super) fn as_in_sql(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::IsTrue(of) => parsed(&format!("coalesce({}, false)", truth(of))),
        Expr::IsNotTrue(of) => parsed(&format!("(coalesce({}, false) = false)", truth(of))),
        Expr::IsFalse(of) => parsed(&format!("(coalesce({}, true) = false)", truth(of))),
        Expr::IsNotFalse(of) => parsed(&format!("coalesce({}, true)", truth(of))),
        Expr::IsUnknown(of) => Some(Expr::IsNull(of.clone())),
        Expr::IsNotUnknown(of) => Some(Expr::IsNotNull(of.clone())),
        _ => None,
    }
}

/// Returns an expression as a condition, as text in SQL; a number is true unless it is 0.
fn truth(expr: &Expr) -> String {
    if is_condition(expr) { expr.to_string() } else { format!("cast({expr} as boolean)") }
}

fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(of) => is_condition(of),
        Expr::BinaryOp { op, .. } => is_comparison(op) || is_joined(expr),
        Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::Like { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_) => true,
        _ => false,
    }
}

/// Returns true if it is NULL.
pub(super) fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}

#[cfg(test)]
mod tests {
    use super::super::admit::admit;

    /// Returns a condition in the dialect of polars.
    fn read(condition: &str) -> String {
        let text = admit(&format!("select key from predictions where {condition}")).unwrap().text;
        text.split_once(" WHERE ").unwrap().1.to_owned()
    }

    #[test]
    fn is_distinct_from_gets_parentheses_beside_operators() {
        for (condition, expected) in [
            ("value is distinct from 1", "value IS DISTINCT FROM 1"),
            ("value is distinct from 1 and score > 0.5", "(value IS DISTINCT FROM 1) AND score > 0.5"),
            (
                "value is not distinct from score + 1 or score > 0.5 and value < 2",
                "(value IS NOT DISTINCT FROM score + 1) OR score > 0.5 AND value < 2",
            ),
            (
                "value < 2 and value is distinct from 1 or score > 0.5",
                "value < 2 AND (value IS DISTINCT FROM 1) OR score > 0.5",
            ),
            (
                "not value is distinct from 1 and score is distinct from 0.5 and key <> 'a'",
                "NOT (value IS DISTINCT FROM 1) AND (score IS DISTINCT FROM 0.5) AND key <> 'a'",
            ),
            (
                "label is distinct from (value > 1 and score > 0.5)",
                "label IS DISTINCT FROM (value > 1 AND score > 0.5)",
            ),
        ] {
            assert_eq!(read(condition), expected, "{condition}");
        }
    }

    #[test]
    fn what_is_true_or_not_is_never_unknown() {
        for (condition, expected) in [
            ("(score > 0.5) is true", "coalesce((score > 0.5), false)"),
            ("(score > 0.5) is not true", "(coalesce((score > 0.5), false) = false)"),
            ("score is false", "(coalesce(CAST(score AS BOOLEAN), true) = false)"),
            ("score > 0.5 is not false", "coalesce(score > 0.5, true)"),
            ("(score > 0.5) is unknown", "(score > 0.5) IS NULL"),
        ] {
            assert_eq!(read(condition), expected, "{condition}");
        }
    }
}
