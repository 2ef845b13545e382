//! Functions of expressions, each declared once.

use std::{fmt, ops::RangeInclusive};

/// Operation of an aggregate on the values of rows.
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

/// A function of numbers. A result that is not finite is null.
pub struct Scalar {
    /// Name, or the sign of an operator.
    pub name: &'static str,
    /// Number of arguments.
    pub arguments: RangeInclusive<usize>,
    pub(super) of: fn(&[f64]) -> f64,
}

const fn of_one(name: &'static str, of: fn(&[f64]) -> f64) -> Scalar {
    Scalar { name, arguments: 1..=1, of }
}

const fn of_two(name: &'static str, of: fn(&[f64]) -> f64) -> Scalar {
    Scalar { name, arguments: 2..=2, of }
}

/// Functions by name. Inexact ones come from `libm`, which gives the same results on every machine.
pub(super) static SCALARS: &[Scalar] = &[
    of_one("abs", |of| of[0].abs()),
    of_one("cbrt", |of| libm::cbrt(of[0])),
    of_one("ceil", |of| of[0].ceil()),
    of_one("exp", |of| libm::exp(of[0])),
    of_one("floor", |of| of[0].floor()),
    of_one("ln", |of| libm::log(of[0])),
    of_one("log10", |of| libm::log10(of[0])),
    of_one("log1p", |of| libm::log1p(of[0])),
    of_one("log2", |of| libm::log2(of[0])),
    of_two("mod", |of| of[0] % of[1]),
    of_two("pow", |of| libm::pow(of[0], of[1])),
    of_two("power", |of| libm::pow(of[0], of[1])),
    of_one("sign", |of| if of[0] == 0.0 { 0.0 } else { of[0].signum() }),
    of_one("sqrt", |of| of[0].sqrt()),
];

/// Functions written as signs.
pub(super) static SIGNS: &[Scalar] = &[
    of_two("+", |of| of[0] + of[1]),
    of_two("-", |of| of[0] - of[1]),
    of_two("*", |of| of[0] * of[1]),
    of_two("/", |of| of[0] / of[1]),
    of_two("%", |of| of[0] % of[1]),
];

/// Negation of a number.
pub(super) static MINUS: Scalar = of_one("-", |of| -of[0]);

/// Seconds from one instant, in microseconds, to another.
pub(super) static SECONDS: Scalar = of_two("-", |of| (of[0] - of[1]) / 1e6);

/// Functions of values of any type, or of any number of them.
pub(super) const SPECIAL: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Returns the names of the aggregates.
pub fn aggregates() -> impl Iterator<Item = &'static str> {
    AGGREGATES.iter().map(|(name, _)| *name)
}

/// Returns the names of the functions of single rows.
pub fn scalars() -> impl Iterator<Item = &'static str> {
    SCALARS.iter().map(|scalar| scalar.name).chain(SPECIAL)
}

/// Returns the function of a name in a table.
pub(super) fn find(table: &'static [Scalar], name: &str) -> Option<&'static Scalar> {
    table.iter().find(|scalar| scalar.name.eq_ignore_ascii_case(name))
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
