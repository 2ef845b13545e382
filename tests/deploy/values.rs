//! Values of expressions, as far as they are known without deploying anything.

use std::collections::BTreeMap;

use hcl_edit::{
    expr::{Expression, ObjectKey, Traversal, TraversalOperator, UnaryOperator},
    structure::Body,
    template::Element,
};

use crate::code::Module;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
    /// Known only when deployed: the expression as it stands.
    Unknown(String),
}

impl Value {
    /// The text; of what is not known, the expression in `${}`.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(bool) => Some(bool.to_string()),
            Value::Unknown(expression) => Some(format!("${{{expression}}}")),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Value]> {
        match self {
            Value::List(values) => Some(values),
            _ => None,
        }
    }

    /// The texts of a list.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        self.list()?.iter().map(Value::text).collect()
    }

    fn step(self, key: &str) -> Option<Value> {
        match self {
            Value::Map(mut map) => map.remove(key),
            Value::List(list) => list.get(key.parse::<usize>().ok()?).cloned(),
            _ => None,
        }
    }
}

/// The value of an attribute.
pub(crate) fn attribute(module: &Module, body: &Body, name: &str) -> Option<Value> {
    Some(evaluate(module, &body.get_attribute(name)?.value))
}

/// The value of an expression.
pub(crate) fn evaluate(module: &Module, expression: &Expression) -> Value {
    let unknown = || Value::Unknown(expression.to_string().trim().to_owned());
    match expression {
        Expression::Null(_) => Value::Null,
        Expression::Bool(bool) => Value::Bool(**bool),
        Expression::Number(number) => number.as_f64().map_or_else(unknown, Value::Number),
        Expression::String(text) => Value::Text(text.to_string()),
        Expression::Array(array) => Value::List(array.iter().map(|one| evaluate(module, one)).collect()),
        Expression::Object(object) => {
            let entry = |(key, value): (&ObjectKey, &hcl_edit::expr::ObjectValue)| {
                let key = match key {
                    ObjectKey::Ident(ident) => ident.as_str().to_owned(),
                    ObjectKey::Expression(Expression::Variable(ident)) => ident.as_str().to_owned(),
                    ObjectKey::Expression(key) => evaluate(module, key).text()?,
                };
                Some((key, evaluate(module, value.expr())))
            };
            object.iter().map(entry).collect::<Option<_>>().map_or_else(unknown, Value::Map)
        }
        Expression::StringTemplate(template) => {
            let piece = |element: &Element| match element {
                Element::Literal(text) => Some(text.to_string()),
                Element::Interpolation(inner) => evaluate(module, &inner.expr).text(),
                Element::Directive(_) => None,
            };
            template.iter().map(piece).collect::<Option<String>>().map_or_else(unknown, Value::Text)
        }
        Expression::Parenthesis(inner) => evaluate(module, inner.inner()),
        Expression::Traversal(traversal) => walk(module, traversal).unwrap_or_else(unknown),
        Expression::FuncCall(call) => {
            let arguments: Vec<Value> = call.args.iter().map(|one| evaluate(module, one)).collect();
            function(call.name.name.as_str(), &arguments).unwrap_or_else(unknown)
        }
        Expression::UnaryOp(op) if *op.operator.value() == UnaryOperator::Neg => {
            evaluate(module, &op.expr).number().map_or_else(unknown, |number| Value::Number(-number))
        }
        _ => unknown(),
    }
}

fn walk(module: &Module, traversal: &Traversal) -> Option<Value> {
    let mut names = traversal.operators.iter().map(|operator| match operator.value() {
        TraversalOperator::GetAttr(name) => Some(name.as_str().to_owned()),
        TraversalOperator::Index(index) => evaluate(module, index).text(),
        _ => None,
    });
    if traversal.expr.as_variable()?.as_str() != "local" {
        return None;
    }
    let (_, local) = module.local(&names.next()??)?;
    names.try_fold(evaluate(module, local), |value, name| value.step(&name?))
}

fn function(name: &str, arguments: &[Value]) -> Option<Value> {
    match (name, arguments) {
        ("concat", lists) => {
            let lists = lists.iter().map(Value::list).collect::<Option<Vec<_>>>()?;
            Some(Value::List(lists.concat()))
        }
        ("toset", [list]) => Some(list.clone()),
        ("lower", [Value::Text(text)]) => Some(Value::Text(text.to_lowercase())),
        ("range", [Value::Number(from), Value::Number(to), Value::Number(step)]) if *step > 0.0 => {
            let count = ((to - from) / step).ceil() as u32;
            Some(Value::List((0..count).map(|at| Value::Number(from + step * f64::from(at))).collect()))
        }
        ("optional", [_, default]) => Some(default.clone()),
        _ => None,
    }
}

/// All that an expression can be, where that is known: both branches of a condition.
pub(crate) fn outcomes<'a>(module: &'a Module, expression: &'a Expression) -> Vec<(&'a Expression, Value)> {
    match expression {
        Expression::Conditional(condition) => {
            let mut outcomes = outcomes(module, &condition.true_expr);
            outcomes.extend(self::outcomes(module, &condition.false_expr));
            outcomes
        }
        Expression::Parenthesis(inner) => outcomes(module, inner.inner()),
        _ => vec![(expression, evaluate(module, expression))],
    }
}
