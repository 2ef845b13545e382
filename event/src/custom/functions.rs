//! Operators, functions and aggregates of expressions, each declared once.

use std::cmp::Ordering;

use super::expression::{OfValues, Operation, Value};

/// Operation of an aggregate on the values of rows, without nulls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AggregateOf {
    /// Number of values.
    Count,
    /// Sum; null without values.
    Sum,
    /// Sum; zero without values.
    Total,
    /// Mean.
    Mean,
    /// Minimum.
    Least,
    /// Maximum.
    Greatest,
    /// Quantile at this share, interpolated linearly between two values (`linear` of numpy).
    Quantile(f64),
    /// Variance of a sample.
    Variance,
    /// Standard deviation of a sample.
    Deviation,
}

impl AggregateOf {
    /// Returns whether it needs all values at once.
    pub fn keeps_values(self) -> bool {
        matches!(self, Self::Quantile(_) | Self::Variance | Self::Deviation)
    }
}

/// Aggregates by name. A quantile is called with its share.
pub(super) const AGGREGATES: &[(&str, AggregateOf)] = &[
    ("avg", AggregateOf::Mean),
    ("count", AggregateOf::Count),
    ("max", AggregateOf::Greatest),
    ("median", AggregateOf::Quantile(0.5)),
    ("min", AggregateOf::Least),
    ("quantile_cont", AggregateOf::Quantile(f64::NAN)),
    ("stddev", AggregateOf::Deviation),
    ("stddev_samp", AggregateOf::Deviation),
    ("sum", AggregateOf::Sum),
    ("total", AggregateOf::Total),
    ("var", AggregateOf::Variance),
    ("var_samp", AggregateOf::Variance),
    ("variance", AggregateOf::Variance),
];

/// Type of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Type {
    Number,
    Text,
    Truth,
    Time,
    /// Type of null, which fits any type.
    Any,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Truth => "true or false",
            Self::Time => "an instant",
            Self::Any => "null",
        }
    }

    /// Returns the common type of both.
    ///
    /// # Errors
    /// The reason, if there is none.
    pub(super) fn fits(self, wanted: Self) -> Result<Self, String> {
        match (self, wanted) {
            (kind, Self::Any) | (Self::Any, kind) => Ok(kind),
            _ if self == wanted => Ok(self),
            _ => Err(format!("{} stands where {} is needed", self.name(), wanted.name())),
        }
    }
}

/// An operator, or a function of single rows. All its arguments have one type.
pub(super) struct Function {
    /// Name, or the sign of an operator.
    pub(super) name: &'static str,
    /// Number of arguments; `None` for any number.
    pub(super) count: Option<usize>,
    /// Type of the arguments.
    pub(super) takes: Type,
    /// Type of the result; `Any` for that of the arguments.
    pub(super) gives: Type,
    pub(super) operation: Operation,
}

const fn numeric(name: &'static str, count: usize, of: fn(f64, f64) -> f64) -> Function {
    let operation = Operation::Numbers(of);
    Function { name, count: Some(count), takes: Type::Number, gives: Type::Number, operation }
}

const fn condition(name: &'static str, takes: Type, of: OfValues) -> Function {
    Function { name, count: None, takes, gives: Type::Truth, operation: Operation::Values(of) }
}

const fn choice(name: &'static str, count: Option<usize>, of: OfValues) -> Function {
    Function { name, count, takes: Type::Any, gives: Type::Any, operation: Operation::Values(of) }
}

/// Level in [`OPERATORS`] from which on they bind tighter than comparisons.
pub(super) const COMPARISON: usize = 2;

/// Operators between two operands by level, those that bind least first.
pub(super) static OPERATORS: [&[Function]; 4] = [
    &[condition("or", Type::Truth, |of| either(of[0], of[1]))],
    &[condition("and", Type::Truth, |of| both(of[0], of[1]))],
    &[numeric("+", 2, |one, other| one + other), numeric("-", 2, |one, other| one - other)],
    &[
        numeric("*", 2, |one, other| one * other),
        numeric("/", 2, |one, other| one / other),
        numeric("%", 2, |one, other| one % other),
    ],
];

/// Comparisons, none of which is an operand of another one.
pub(super) static COMPARISONS: [Function; 7] = [
    condition("=", Type::Any, |of| compare(of[0], of[1], Ordering::is_eq)),
    condition("<>", Type::Any, |of| compare(of[0], of[1], Ordering::is_ne)),
    condition("!=", Type::Any, |of| compare(of[0], of[1], Ordering::is_ne)),
    condition("<=", Type::Any, |of| compare(of[0], of[1], Ordering::is_le)),
    condition(">=", Type::Any, |of| compare(of[0], of[1], Ordering::is_ge)),
    condition("<", Type::Any, |of| compare(of[0], of[1], Ordering::is_lt)),
    condition(">", Type::Any, |of| compare(of[0], of[1], Ordering::is_gt)),
];

pub(super) static NOT: Function = condition("not", Type::Truth, |of| not(of[0]));
pub(super) static IS_NULL: Function =
    condition("is null", Type::Any, |of| Value::Truth(of[0] == Value::Null));
pub(super) static BETWEEN: Function = condition("between", Type::Any, |of| {
    both(compare(of[0], of[1], Ordering::is_ge), compare(of[0], of[2], Ordering::is_le))
});
pub(super) static IN: Function = condition("in", Type::Any, |of| {
    let equals = of[1..].iter().map(|one| compare(of[0], *one, Ordering::is_eq));
    equals.fold(Value::Truth(false), either)
});

/// Signs before a number.
pub(super) static SIGNS: [Function; 2] = [numeric("+", 1, |of, _| of), numeric("-", 1, |of, _| -of)];

/// Seconds from one instant to another.
pub(super) static SECONDS: Function =
    Function { takes: Type::Time, ..numeric("-", 2, |one, other| (one - other) / 1e6) };

/// One for each value that is not null, to be counted.
pub(super) static COUNTED: Function = Function {
    gives: Type::Number,
    ..choice("count", Some(1), |of| if of[0] == Value::Null { Value::Null } else { Value::Number(1.0) })
};

/// Functions by name. Inexact ones come from `libm`, which gives the same results on every machine.
pub(super) static FUNCTIONS: &[Function] = &[
    numeric("abs", 1, |of, _| of.abs()),
    numeric("cbrt", 1, |of, _| libm::cbrt(of)),
    numeric("ceil", 1, |of, _| of.ceil()),
    numeric("exp", 1, |of, _| libm::exp(of)),
    numeric("floor", 1, |of, _| of.floor()),
    numeric("ln", 1, |of, _| libm::log(of)),
    numeric("log10", 1, |of, _| libm::log10(of)),
    numeric("log1p", 1, |of, _| libm::log1p(of)),
    numeric("log2", 1, |of, _| libm::log2(of)),
    numeric("mod", 2, |one, other| one % other),
    numeric("pow", 2, libm::pow),
    numeric("power", 2, libm::pow),
    numeric("sign", 1, |of, _| if of == 0.0 { 0.0 } else { of.signum() }),
    numeric("sqrt", 1, |of, _| of.sqrt()),
    choice("coalesce", None, |of| of.iter().copied().find(|one| *one != Value::Null).unwrap_or(Value::Null)),
    choice("greatest", None, |of| extreme(of, Ordering::is_gt)),
    choice("least", None, |of| extreme(of, Ordering::is_lt)),
    choice("nullif", Some(2), |of| if is_equal(of[0], of[1]) { Value::Null } else { of[0] }),
];

/// Compares values of one type; null if one is null.
fn compare<'a>(one: Value<'a>, other: Value<'a>, holds: fn(Ordering) -> bool) -> Value<'a> {
    let order = match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.partial_cmp(&other),
        (Value::Text(one), Value::Text(other)) => Some(one.cmp(other)),
        (Value::Truth(one), Value::Truth(other)) => Some(one.cmp(&other)),
        _ => None,
    };
    order.map_or(Value::Null, |order| Value::Truth(holds(order)))
}

fn is_equal(one: Value<'_>, other: Value<'_>) -> bool {
    compare(one, other, Ordering::is_eq) == Value::Truth(true)
}

fn not(of: Value<'_>) -> Value<'_> {
    if let Value::Truth(holds) = of { Value::Truth(!holds) } else { Value::Null }
}

fn both<'a>(one: Value<'a>, other: Value<'a>) -> Value<'a> {
    match (one, other) {
        (Value::Truth(false), _) | (_, Value::Truth(false)) => Value::Truth(false),
        (Value::Truth(true), Value::Truth(true)) => Value::Truth(true),
        _ => Value::Null,
    }
}

fn either<'a>(one: Value<'a>, other: Value<'a>) -> Value<'a> {
    not(both(not(one), not(other)))
}

/// Returns the greatest, or least, of the values that are not null.
fn extreme<'a>(of: &[Value<'a>], is_better: fn(Ordering) -> bool) -> Value<'a> {
    let better = |best, one| if compare(one, best, is_better) == Value::Truth(true) { one } else { best };
    of.iter().copied().filter(|one| *one != Value::Null).reduce(better).unwrap_or(Value::Null)
}

/// CASE: the second value of the first pair whose first value equals the first argument; without one, the last argument
/// (ELSE).
pub(super) const CASE: Operation = Operation::Values(|of| {
    let [operand, cases @ ..] = of else { return Value::Null };
    let found = cases.chunks(2).find(|case| case.len() == 1 || is_equal(*operand, case[0]));
    found.and_then(<[_]>::last).copied().unwrap_or(Value::Null)
});
