//! Aggregates of constants. Polars computes them from one value, with or without rows: here they are expressed by the number of
//! rows. So are counts of the rows that a FILTER chooses, as its condition may be unknown.

use sqlparser::ast::{Expr, Function, Value, ValueWithSpan};

use super::{functions, numbers::is_constant, rewrite::parsed};

/// Functions whose result for equal values is that value; means have it as a double.
const SAME: &[&str] = &["first", "last", "max", "min"];

const COUNT: &str = "count";

/// Returns the reason why an aggregate of a constant is refused, if it is.
pub(super) fn wrong(function: &Function) -> Option<String> {
    let first = functions::first_argument(function).filter(|first| is_constant(first))?;
    let is_distinct = functions::is_of_distinct(function);
    let is_refused = [functions::PAIRED_OR_RANKED, functions::SPREADS]
        .iter()
        .any(|names| functions::is_one_of(function, names))
        || (functions::is_named(function, COUNT) && is_distinct);
    is_refused.then(|| format!("`{first}` of `{function}` is the same in all rows; name a column"))
}

/// Returns the replacement of such an aggregate, or of a count with a FILTER; `None` for anything else.
pub(super) fn as_in_sql(function: &Function) -> Option<Expr> {
    if functions::is_named(function, COUNT) {
        return of_count(function);
    }
    let first = functions::first_argument(function).filter(|first| is_constant(first))?;
    let value = if functions::is_one_of(function, SAME) {
        format!("({first})")
    } else if functions::is_one_of(function, functions::MEANS) {
        format!("cast({first} as double)")
    } else {
        return None;
    };
    parsed(&format!("(case when {} > 0 then {value} end)", rows(function)?))
}

fn of_count(function: &Function) -> Option<Expr> {
    if functions::is_of_distinct(function) {
        return None;
    }
    match functions::first_argument(function) {
        // Polars counts rows by itself for a literal, but not for a computed constant.
        Some(first) if is_constant(first) && !is_value(first) => {
            parsed(&format!("(case when ({first}) is null then 0 else {} end)", rows(function)?))
        }
        _ if function.filter.is_some() => parsed(&chosen(function)),
        _ => None,
    }
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value, .. }) if *value != Value::Null)
}

/// Returns the number of rows of an aggregate, as text in SQL.
fn rows(function: &Function) -> Option<String> {
    let Expr::Function(count) = parsed("count(*)")? else { return None };
    Some(chosen(&Function { over: function.over.clone(), filter: function.filter.clone(), ..count }))
}

/// Returns a count of the rows that its FILTER chooses, as text in SQL.
fn chosen(count: &Function) -> String {
    match count.filter.as_deref() {
        Some(filter) if is_constant(filter) => {
            let all = Function { filter: None, ..count.clone() };
            format!("(case when coalesce({filter}, false) then cast({all} as bigint) else 0 end)")
        }
        _ => format!("coalesce(cast({count} as bigint), 0)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::admit::admit;

    /// Returns the admitted form of an expression, or the reason of its refusal.
    fn of(select: &str) -> Result<String, String> {
        let text = format!("select {select} as x from predictions where day = '2026-06-01'");
        let text = admit(&text).map_err(|error| error.to_string())?.text;
        Ok(text.split_once("SELECT ").unwrap().1.split_once(" AS x FROM").unwrap().0.to_owned())
    }

    #[test]
    fn constant_aggregates_use_row_count_or_are_refused() {
        for (select, expected) in [
            ("min(key)", "min(key)"),
            (
                "count(*) filter (where score > value)",
                "coalesce(CAST(count(*) FILTER (WHERE score > value) AS BIGINT), 0)",
            ),
            (
                "count(distinct key) filter (where score > 0)",
                "CAST(count(DISTINCT key) FILTER (WHERE score > 0) AS BIGINT)",
            ),
            (
                "count(key) filter (where null)",
                "(CASE WHEN coalesce(NULL, false) THEN CAST(coalesce(sum(\"count of key\"), 0) AS BIGINT) ELSE 0 END)",
            ),
            ("count(1)", "CAST(count(1) AS BIGINT)"),
        ] {
            assert_eq!(of(select).unwrap(), expected, "{select}");
        }
        for select in ["stddev(1)", "quantile_cont(2, 0.5)", "count(distinct 1)", "corr(1, score)"] {
            let refused = of(select).unwrap_err();
            assert!(refused.ends_with("is the same in all rows; name a column"), "{refused}");
        }
    }
}
