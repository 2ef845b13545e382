//! Expressions and their values, with null as in SQL.

use std::cmp::Ordering;

use super::functions::Scalar;

/// Value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Null: unknown.
    Null,
    /// A finite number; an instant is its microseconds.
    Number(f64),
    /// A text.
    Text(&'a str),
    /// A truth value.
    Truth(bool),
}

/// An expression. The values of its leaves are supplied on evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// Null.
    Null,
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// True or false.
    Truth(bool),
    /// A leaf, by its place.
    Leaf(usize),
    /// A function of numbers.
    Call(&'static Scalar, Vec<Expression>),
    /// True if the comparison of both is one of these orders.
    Compare(&'static [Ordering], Box<[Expression; 2]>),
    /// True if the first is neither less than the second nor greater than the third.
    Between(Box<[Expression; 3]>),
    /// True if the first equals any member of the list.
    In(Box<Expression>, Vec<Expression>),
    /// True if it is null.
    IsNull(Box<Expression>),
    /// True if it is false.
    Not(Box<Expression>),
    /// True if both are true.
    And(Box<[Expression; 2]>),
    /// True if at least one is true.
    Or(Box<[Expression; 2]>),
    /// Second of the first pair whose first is true, or equals the operand; else the last.
    Case(Option<Box<Expression>>, Vec<(Expression, Expression)>, Option<Box<Expression>>),
    /// First value that is not null.
    Coalesce(Vec<Expression>),
    /// First value, unless it equals the second.
    NullIf(Box<[Expression; 2]>),
    /// Greatest, or least, of the values that are not null.
    Extreme(Ordering, Vec<Expression>),
}

/// Maximum number of arguments of a [`Scalar`].
const MAX_ARGUMENTS: usize = 2;

impl Expression {
    /// Returns its value; `leaf` supplies those of its leaves.
    pub fn value<'a, 'l: 'a>(&'a self, leaf: &impl Fn(usize) -> Value<'l>) -> Value<'a> {
        let truth = |of: Option<bool>| of.map_or(Value::Null, Value::Truth);
        match self {
            Self::Null => Value::Null,
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => Value::Text(text),
            Self::Truth(holds) => Value::Truth(*holds),
            Self::Leaf(at) => leaf(*at),
            Self::Call(scalar, arguments) => call(scalar, arguments, leaf),
            Self::Compare(orders, of) => {
                let [one, other] = of.each_ref().map(|of| of.value(leaf));
                truth(compare(one, other).map(|order| orders.contains(&order)))
            }
            Self::Between(of) => {
                let [value, low, high] = of.each_ref().map(|of| of.value(leaf));
                let above = compare(value, low).map(Ordering::is_ge);
                truth(both(above, compare(value, high).map(Ordering::is_le)))
            }
            Self::In(of, list) => {
                let of = of.value(leaf);
                let equals = |one: &'a Self| compare(of, one.value(leaf)).map(Ordering::is_eq);
                truth(list.iter().map(equals).fold(Some(false), either))
            }
            Self::IsNull(of) => Value::Truth(of.value(leaf) == Value::Null),
            Self::Not(of) => truth(of.truth(leaf).map(|holds| !holds)),
            Self::And(of) => truth(both(of[0].truth(leaf), of[1].truth(leaf))),
            Self::Or(of) => truth(either(of[0].truth(leaf), of[1].truth(leaf))),
            Self::Case(operand, cases, rest) => {
                let operand = operand.as_deref().map(|operand| operand.value(leaf));
                let holds = |when: &'a Self| match operand {
                    None => when.truth(leaf) == Some(true),
                    Some(operand) => compare(operand, when.value(leaf)) == Some(Ordering::Equal),
                };
                let found = cases.iter().find(|(when, _)| holds(when)).map(|(_, then)| then);
                found.or(rest.as_deref()).map_or(Value::Null, |then| then.value(leaf))
            }
            Self::Coalesce(of) => {
                let mut values = of.iter().map(|of| of.value(leaf));
                values.find(|value| *value != Value::Null).unwrap_or(Value::Null)
            }
            Self::NullIf(of) => {
                let [one, other] = of.each_ref().map(|of| of.value(leaf));
                if compare(one, other) == Some(Ordering::Equal) { Value::Null } else { one }
            }
            Self::Extreme(wanted, of) => {
                let values = of.iter().map(|of| of.value(leaf)).filter(|value| *value != Value::Null);
                let better = |best, one| if compare(one, best) == Some(*wanted) { one } else { best };
                values.reduce(better).unwrap_or(Value::Null)
            }
        }
    }

    /// Returns its truth value; `None` if unknown.
    pub fn truth<'l>(&self, leaf: &impl Fn(usize) -> Value<'l>) -> Option<bool> {
        if let Value::Truth(holds) = self.value(leaf) { Some(holds) } else { None }
    }

    /// Returns its number; true is one, false is zero.
    pub fn number<'l>(&self, leaf: &impl Fn(usize) -> Value<'l>) -> Option<f64> {
        match self.value(leaf) {
            Value::Number(number) => Some(number),
            Value::Truth(holds) => Some(f64::from(u8::from(holds))),
            Value::Null | Value::Text(_) => None,
        }
    }
}

fn call<'a, 'l>(scalar: &Scalar, arguments: &[Expression], leaf: &impl Fn(usize) -> Value<'l>) -> Value<'a> {
    let mut numbers = [0.0; MAX_ARGUMENTS];
    for (number, argument) in numbers.iter_mut().zip(arguments) {
        let Value::Number(known) = argument.value(leaf) else { return Value::Null };
        *number = known;
    }
    match (scalar.of)(&numbers[..arguments.len().min(MAX_ARGUMENTS)]) {
        number if number.is_finite() => Value::Number(number),
        _ => Value::Null,
    }
}

/// Compares values of one type; `None` if one is null.
fn compare(one: Value<'_>, other: Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.partial_cmp(&other),
        (Value::Text(one), Value::Text(other)) => Some(one.cmp(other)),
        (Value::Truth(one), Value::Truth(other)) => Some(one.cmp(&other)),
        _ => None,
    }
}

fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn either(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    both(one.map(|one| !one), other.map(|other| !other)).map(|neither| !neither)
}
