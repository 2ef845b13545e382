//! `date_trunc(unit, time)`, as in SQL engines but not in polars: the beginning of the unit that holds a day or an instant, in
//! UTC. It is rewritten, since polars supports our own functions in the outermost query alone.

use std::ops::ControlFlow;

use event::time::DAY_MICROS as DAY;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr as Arg, FunctionArguments, Value};

use super::{functions, rewrite::parsed, walk::expressions};

/// Name of the function.
pub(super) const NAME: &str = "date_trunc";

/// Microseconds.
const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Returns the time since the beginning of a unit in microseconds, as text in SQL.
type Since = fn(&str) -> String;

const UNITS: [(&str, Since); 8] = [
    ("second", |time| since(time, SECOND)),
    ("minute", |time| since(time, MINUTE)),
    ("hour", |time| since(time, HOUR)),
    ("day", |time| since(time, DAY)),
    // From Monday on, as in ISO 8601; 1970-01-01 was a Thursday.
    ("week", |time| format!("(({} + {}) % {})", micros(time), 3 * DAY, 7 * DAY)),
    ("month", |time| since_day(time, &format!("{} - 1", part("day", time)))),
    ("quarter", |time| since_day(time, &format!("{} + {} - 1", months_of_quarter(time), part("day", time)))),
    ("year", |time| since_day(time, &format!("{} - 1", part("doy", time)))),
];

/// Returns the microseconds of a time since 1970.
fn micros(time: &str) -> String {
    format!("cast(cast({time} as timestamp) as bigint)")
}

fn part(name: &str, time: &str) -> String {
    format!("cast(extract({name} from {time}) as bigint)")
}

/// Returns the time since the beginning of a unit of fixed length. The remainder in polars has the sign of the divisor, so
/// this holds before 1970 too.
fn since(time: &str, unit: i64) -> String {
    format!("({} % {unit})", micros(time))
}

/// Returns the time since the beginning of the day that is `days` earlier.
fn since_day(time: &str, days: &str) -> String {
    format!("({} + ({days}) * {DAY})", since(time, DAY))
}

/// Returns the number of days in the past months of a quarter. In March it is the day of the year less the day of the month.
fn months_of_quarter(time: &str) -> String {
    let [month, day, of_year] = ["month", "day", "doy"].map(|name| part(name, time));
    format!(
        "case {month} when 2 then 31 when 3 then {of_year} - {day} when 5 then 30 when 6 then 61 when 8 then 31 when 9 then 62 \
         when 11 then 31 when 12 then 61 else 0 end"
    )
}

/// Returns the error of a call of `date_trunc`: its unit must be a literal, and an existing one.
pub(super) fn wrong(function: &Function) -> Option<String> {
    if !functions::is_named(function, NAME) {
        return None;
    }
    let Some((_, time)) = parts(function) else {
        let units = UNITS.map(|(name, _)| name).join(", ");
        return Some(format!("write {NAME}('hour', predicted_at); units are {units}"));
    };
    let again = expressions(time, |expr| match expr {
        Expr::Function(inner) if functions::is_named(inner, NAME) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    // Each would be repeated several times in the text of the one around it.
    again.is_break().then(|| format!("a {NAME} stands within another one; the longer unit is enough"))
}

/// Returns the argument that a call of `date_trunc` truncates.
pub(super) fn time(function: &Function) -> Option<&Expr> {
    parts(function).map(|(_, time)| time)
}

fn parts(function: &Function) -> Option<(Since, &Expr)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(Arg::Expr(Expr::Value(named))), FunctionArg::Unnamed(Arg::Expr(time))] =
        list.args.as_slice()
    else {
        return None;
    };
    let Value::SingleQuotedString(name) = &named.value else { return None };
    let (_, since) = UNITS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    functions::is_named(function, NAME).then_some((*since, time))
}

/// Rewrites a call of `date_trunc` for polars: the time less the part since the beginning of the unit. For a column of days the
/// result is a day.
pub(super) fn in_words(function: &Function, is_day: impl Fn(&Expr) -> bool) -> Option<Expr> {
    let (since, time) = parts(function)?;
    let text = time.to_string();
    // A number can be cast to a time; asking for its day makes polars refuse it.
    let checked = format!("0 * {}", part("day", &text));
    let begin = format!("cast(({} - {} + {checked}) as timestamp)", micros(&text), since(&text));
    parsed(&if is_day(time) { format!("cast({begin} as date)") } else { begin })
}
