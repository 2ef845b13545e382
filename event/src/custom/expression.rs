//! Expressions in postfix order, and their values, with null as in SQL.

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

/// An expression in postfix order: a call follows its arguments. So its evaluation needs no recursion.
#[derive(Clone, Debug, Default)]
pub struct Expression(pub(super) Vec<Step>);

/// A step of an evaluation: its value goes onto the stack.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A constant that is no text.
    Constant(Value<'static>),
    /// A constant text.
    Text(String),
    /// A leaf, by its place.
    Leaf(usize),
    /// Result of an operation on this many values of the stack, which it takes off.
    Call(Operation, usize),
}

/// Computation of a value from those of the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// A function of one number, which it is given twice, or of two. A result that is not finite is null.
    Numbers(fn(f64, f64) -> f64),
    /// A function of values, null among them.
    Values(OfValues),
}

pub(super) type OfValues = for<'a> fn(&[Value<'a>]) -> Value<'a>;

impl Expression {
    /// Returns its value; `leaf` supplies those of its leaves.
    pub fn value<'a, 'l: 'a>(&'a self, leaf: &impl Fn(usize) -> Value<'l>) -> Value<'a> {
        let mut stack = Vec::with_capacity(8);
        for step in &self.0 {
            let value = match step {
                Step::Constant(value) => *value,
                Step::Text(text) => Value::Text(text),
                Step::Leaf(at) => leaf(*at),
                Step::Call(operation, count) => {
                    let arguments = stack.len() - count;
                    let value = operation.of(&stack[arguments..]);
                    stack.truncate(arguments);
                    value
                }
            };
            stack.push(value);
        }
        stack.pop().unwrap_or(Value::Null)
    }

    /// Returns its number; true is one, false is zero.
    pub fn number<'l>(&self, leaf: &impl Fn(usize) -> Value<'l>) -> Option<f64> {
        match self.value(leaf) {
            Value::Number(number) => Some(number),
            Value::Truth(holds) => Some(f64::from(holds)),
            Value::Null | Value::Text(_) => None,
        }
    }
}

impl Operation {
    fn of<'a>(self, arguments: &[Value<'a>]) -> Value<'a> {
        let number = match (self, arguments) {
            (Self::Values(of), _) => return of(arguments),
            (Self::Numbers(of), [Value::Number(one)]) => of(*one, *one),
            (Self::Numbers(of), [Value::Number(one), Value::Number(other)]) => of(*one, *other),
            (Self::Numbers(_), _) => return Value::Null,
        };
        if number.is_finite() { Value::Number(number) } else { Value::Null }
    }
}
