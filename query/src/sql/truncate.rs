//! `date_trunc(unit, time)`, as SQL engines have it and polars does not: the beginning of the unit that holds a day or an instant, in UTC.
//! It is put into other words, since polars knows functions of ours in the outermost query alone.

use std::ops::ControlFlow;

use event::time::DAY_MICROS as DAY;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr as Arg, FunctionArguments, Value};

use super::{functions, rewrite::parsed, walk::expressions};

/// How it is called.
pub(super) const NAME: &str = "date_trunc";

/// Microseconds.
const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// How long after the beginning of a unit a time is, in microseconds, in words of SQL.
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

/// The microseconds of a time since 1970.
fn micros(time: &str) -> String {
    format!("cast(cast({time} as timestamp) as bigint)")
}

fn part(name: &str, time: &str) -> String {
    format!("cast(extract({name} from {time}) as bigint)")
}

/// How long after the beginning of a unit of one length a time is. What is left of a division has the sign of the divisor, so also before 1970.
fn since(time: &str, unit: i64) -> String {
    format!("({} % {unit})", micros(time))
}

/// How long after the beginning of a day that is so many days earlier a time is.
fn since_day(time: &str, days: &str) -> String {
    format!("({} + ({days}) * {DAY})", since(time, DAY))
}

/// How many days the months of a quarter have that are over. Of March it is what is not of March of the days of the year.
fn months_of_quarter(time: &str) -> String {
    let [month, day, of_year] = ["month", "day", "doy"].map(|name| part(name, time));
    format!(
        "case {month} when 2 then 31 when 3 then {of_year} - {day} when 5 then 30 when 6 then 61 when 8 then 31 when 9 then 62 \
         when 11 then 31 when 12 then 61 else 0 end"
    )
}

/// What is wrong with a call, if it is one of `date_trunc`: its unit must be said, and be one that there is.
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
    // Each would be written several times in the words of the one around it.
    again.is_break().then(|| format!("a {NAME} stands within another one; the longer unit is enough"))
}

/// What is cut off by a call of `date_trunc`.
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

/// A call of `date_trunc` in words that polars knows: the time less what of the unit is over. Of a column of days it is a day.
pub(super) fn in_words(function: &Function, is_day: impl Fn(&Expr) -> bool) -> Option<Expr> {
    let (since, time) = parts(function)?;
    let text = time.to_string();
    // A number can be cast to a time; to ask for its day makes polars refuse it.
    let checked = format!("0 * {}", part("day", &text));
    let begin = format!("cast(({} - {} + {checked}) as timestamp)", micros(&text), since(&text));
    parsed(&if is_day(time) { format!("cast({begin} as date)") } else { begin })
}
