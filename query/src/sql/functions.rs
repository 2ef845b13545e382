//! The functions that statements may call.

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select,
};

use super::truncate;

/// Functions of several rows.
const AGGREGATES: [&[&str]; 4] =
    [&["count", "first", "last", "max", "min", "sum", "total"], MEANS, SPREADS, PAIRED_OR_RANKED];

/// Functions of the location of values.
pub(super) const MEANS: &[&str] = &["avg", "median"];

/// Functions of the spread of values.
pub(super) const SPREADS: &[&str] =
    &["stddev", "stddev_samp", "stdev", "stdev_samp", "var", "var_samp", "variance"];

/// Functions of two columns, or of a column and a share of its rows.
pub(super) const PAIRED_OR_RANKED: &[&str] =
    &["corr", "covar", "covar_pop", "covar_samp", "quantile_cont", "quantile_disc"];

/// Functions over a window of rows.
const WINDOWS: &[&str] = &["first_value", "lag", "last_value", "lead", "row_number"];

/// Functions of single values. None makes text longer than its arguments, so that no statement can make more of a few rows than
/// fits the memory.
const SCALARS: &[&str] = &[
    "abs",
    "acos",
    "acosd",
    "asin",
    "asind",
    "atan",
    "atan2",
    "atan2d",
    "atand",
    "bit_length",
    "cbrt",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "coalesce",
    "cos",
    "cosd",
    "cot",
    "cotd",
    "date",
    "date_part",
    truncate::NAME,
    "degrees",
    "div",
    "ends_with",
    "exp",
    "floor",
    "greatest",
    "if",
    "ifnull",
    "least",
    "left",
    "length",
    "ln",
    "log",
    "log10",
    "log1p",
    "log2",
    "lower",
    "ltrim",
    "mod",
    "nullif",
    "octet_length",
    "pi",
    "pow",
    "power",
    "radians",
    "regexp_like",
    "reverse",
    "right",
    "round",
    "rtrim",
    "sign",
    "sin",
    "sind",
    "sqrt",
    "starts_with",
    "substr",
    "tan",
    "tand",
    "timestamp",
    "trunc",
    "truncate",
    "upper",
];

/// Functions that polars computes differently from SQL, and their replacements.
const INSTEAD: &[(&str, &str)] = &[(POSITION, IN_TEXT), ("strpos", IN_TEXT)];

/// Position of a text in another one: polars takes it for a pattern, and counts bytes.
const POSITION: &str = "position";
const IN_TEXT: &str = "ask whether a text has another one in it: key like '%x%'";

fn has(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_aggregate(name: &str) -> bool {
    AGGREGATES.iter().any(|names| has(names, name))
}

/// Returns true if a statement may call the function of this name.
pub(super) fn is_known(name: &str) -> bool {
    may_have_window(name) || has(SCALARS, name)
}

/// Returns the reason why there is no function of this name.
pub(super) fn unknown(name: &str) -> String {
    let instead = INSTEAD.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let instead = instead.map_or_else(String::new, |(_, instead)| format!("; {instead}"));
    format!("there is no function {name}{instead}")
}

/// Returns the reason why there is no `position('x' in key)`.
pub(super) fn no_position() -> String {
    unknown(POSITION)
}

/// Returns true if it is the function of this name.
pub(super) fn is_named(function: &Function, name: &str) -> bool {
    function.name.to_string().eq_ignore_ascii_case(name)
}

/// Returns true if it is a function of one of these names.
pub(super) fn is_one_of(function: &Function, names: &[&str]) -> bool {
    has(names, &function.name.to_string())
}

/// Returns true if a function is of several rows.
pub(super) fn is_of_rows(function: &Function) -> bool {
    let name = function.name.to_string();
    function.over.is_some() || may_have_window(&name)
}

/// Returns true if the function of this name may have an OVER.
pub(super) fn may_have_window(name: &str) -> bool {
    is_aggregate(name) || has(WINDOWS, name)
}

/// Returns true if a SELECT has a GROUP BY.
pub(super) fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::Expressions(by, more) => !by.is_empty() || !more.is_empty(),
        GroupByExpr::All(_) => true,
    }
}

/// Returns the first argument of a function.
pub(super) fn first_argument(function: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(first)) => Some(first),
        _ => None,
    }
}

/// Returns true if a function is of distinct values.
pub(super) fn is_of_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct))
}
