//! Numbers as in SQL, where polars differs: counts and parts of dates as signed 64-bit numbers, so that their differences do not
//! wrap around, powers that are not whole numbers, sums of constants, which are over all rows, and numbers with an exponent.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value, ValueWithSpan,
};

use super::{functions, rewrite::parsed, walk::expressions};

/// Functions with results of 32 bits or fewer, or without a sign, in polars.
const NARROW: &[&str] = &[
    "bit_length",
    "char_length",
    "character_length",
    "count",
    "date_part",
    "length",
    "octet_length",
    "row_number",
];

/// Functions with the type of the base in polars, which panics if a whole number is too large for it.
const POWERS: &[&str] = &["pow", "power"];

/// Functions that polars computes from one value for a constant.
const SUMS: &[&str] = &["sum", "total"];

/// The logarithm, to base 10 by default. Polars always requires a base.
const LOGARITHM: &str = "log";

/// Returns the replacement of an expression that polars computes differently from SQL; `None`, if there is no difference.
pub(super) fn as_in_sql(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Extract { .. } => whole(expr),
        Expr::Function(function) => of_function(function),
        Expr::InList { expr, list, negated } => {
            let list = with_points(list)?;
            Some(Expr::InList { expr: expr.clone(), list, negated: *negated })
        }
        Expr::Value(ValueWithSpan { value: Value::Number(number, is_long), span }) => {
            let value = Value::Number(with_point(number)?, *is_long);
            Some(Expr::Value(ValueWithSpan { value, span: *span }))
        }
        _ => None,
    }
}

/// Returns a number with an exponent with a decimal point, without which polars takes it for a whole number: `1.0e-3` for `1e-3`.
fn with_point(number: &str) -> Option<String> {
    let (whole, exponent) = number.split_at_checked(number.find(['e', 'E'])?)?;
    (!whole.contains('.')).then(|| format!("{whole}.0{exponent}"))
}

/// Adds decimal points to all numbers of a list with some of them, as polars requires a list of one kind of numbers. `None`, if
/// it is one already.
fn with_points(list: &[Expr]) -> Option<Vec<Expr>> {
    let mut list = list.to_vec();
    let numbers: Vec<&mut String> = list.iter_mut().filter_map(number).collect();
    let pointed = numbers.iter().filter(|number| number.contains('.')).count();
    if pointed == 0 || pointed == numbers.len() {
        return None;
    }
    numbers.into_iter().filter(|number| !number.contains('.')).for_each(|number| number.push_str(".0"));
    Some(list)
}

/// Returns a literal number, with or without a sign before it.
fn number(expr: &mut Expr) -> Option<&mut String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => Some(number),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => number(expr),
        _ => None,
    }
}

fn whole(expr: &Expr) -> Option<Expr> {
    parsed(&format!("cast({expr} as bigint)"))
}

fn of_function(function: &Function) -> Option<Expr> {
    let name = function.name.to_string();
    let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(&name));
    if is_one_of(NARROW) {
        return whole(&Expr::Function(function.clone()));
    }
    let [first, more @ ..] = arguments(function)? else { return None };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(first)) = first else { return None };
    if is_one_of(POWERS) && more.len() == 1 {
        let mut of_number = function.clone();
        let FunctionArguments::List(list) = &mut of_number.args else { return None };
        list.args[0] =
            FunctionArg::Unnamed(FunctionArgExpr::Expr(parsed(&format!("cast({first} as double)"))?));
        return Some(Expr::Function(of_number));
    }
    if name.eq_ignore_ascii_case(LOGARITHM) && more.is_empty() {
        return parsed(&format!("log10({first})"));
    }
    if is_one_of(SUMS) && more.is_empty() && function.filter.is_none() && is_constant(first) {
        let Expr::Function(count) = parsed("count(*)")? else { return None };
        let count = Function { over: function.over.clone(), ..count };
        return parsed(&format!("(({first}) * nullif(cast({count} as bigint), 0))"));
    }
    None
}

/// Returns the arguments of a function without DISTINCT or ALL.
fn arguments(function: &Function) -> Option<&[FunctionArg]> {
    match &function.args {
        FunctionArguments::List(list) if list.duplicate_treatment.is_none() => Some(&list.args),
        _ => None,
    }
}

/// Returns true if it is a constant: it has no column, and no function of several rows.
pub(super) fn is_constant(expr: &Expr) -> bool {
    let found = expressions(expr, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        Expr::Function(function) if functions::is_of_rows(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_continue()
}
