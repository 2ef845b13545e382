//! Expressions, and their values: null where SQL says null.

use std::cmp::Ordering;

use super::functions::Scalar;

/// What an expression is for some leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing is known.
    Null,
    /// A finite number; an instant is that of its microseconds.
    Number(f64),
    /// A text.
    Text(&'a str),
    /// Whether something holds.
    Truth(bool),
}

/// An expression. What its leaves are, says who asks for its value.
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
    /// Whether the first stands to the second in one of these orders.
    Compare(&'static [Ordering], Box<[Expression; 2]>),
    /// Whether the first is neither less than the second nor greater than the third.
    Between(Box<[Expression; 3]>),
    /// Whether the first equals any member of the list.
    In(Box<Expression>, Vec<Expression>),
    /// Whether it is null.
    IsNull(Box<Expression>),
    /// Whether it does not hold.
    Not(Box<Expression>),
    /// Whether both hold.
    And(Box<[Expression; 2]>),
    /// Whether one of them holds.
    Or(Box<[Expression; 2]>),
    /// The second of the first pair whose first holds, or equals the operand; else the last.
    Case(Option<Box<Expression>>, Vec<(Expression, Expression)>, Option<Box<Expression>>),
    /// The first that is not null.
    Coalesce(Vec<Expression>),
    /// The first, unless it equals the second.
    NullIf(Box<[Expression; 2]>),
    /// The greatest, or the least, of those that are not null.
    Extreme(Ordering, Vec<Expression>),
}

/// The most arguments of a [`Scalar`].
const MAX_ARGUMENTS: usize = 2;

impl Expression {
    /// Its value, where `leaf` says those of its leaves.
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

    /// Whether it holds; `None`, when that is not known.
    pub fn truth<'l>(&self, leaf: &impl Fn(usize) -> Value<'l>) -> Option<bool> {
        if let Value::Truth(holds) = self.value(leaf) { Some(holds) } else { None }
    }

    /// Its number; something that holds is one, something that does not is zero.
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

/// How values of one type stand to each other; `None`, when one is null.
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
