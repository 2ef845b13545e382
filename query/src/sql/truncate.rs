//! `date_trunc(unit, time)`, as SQL engines have it and polars does not: the beginning of the unit that holds a day or an instant, in UTC.

use std::sync::{Arc, LazyLock};

use chrono::{Datelike, NaiveDate};
use event::time::DAY_MICROS;
use polars::prelude::{
    ChunkApply, Column, DataType, Field, IntoColumn, PlSmallStr, PolarsError, PolarsResult, Schema, TimeUnit,
};
use polars_plan::{
    dsl::BaseColumnUdf,
    prelude::{FunctionOptions, udf::UserDefinedFunction},
};
use polars_sql::function_registry::FunctionRegistry;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr as Arg, FunctionArguments, Value};

use super::functions;

/// How it is called.
pub(super) const NAME: &str = "date_trunc";

/// A unit of time: its name, and how it is found.
type Unit = (&'static str, Begin);

/// The beginning of the unit that holds an instant in microseconds, or a day, both since 1970-01-01.
#[derive(Clone, Copy)]
enum Begin {
    /// Of units that are shorter than a day: their microseconds.
    Micros(i64),
    /// Of units of whole days: the first day of the unit that holds a day.
    Days(fn(i32) -> i32),
}

const UNITS: &[Unit] = &[
    ("second", Begin::Micros(1_000_000)),
    ("minute", Begin::Micros(60_000_000)),
    ("hour", Begin::Micros(3_600_000_000)),
    ("day", Begin::Days(|day| day)),
    ("week", Begin::Days(week)),
    ("month", Begin::Days(|day| of_date(day, NaiveDate::month0))),
    ("quarter", Begin::Days(|day| of_date(day, |date| date.month0() / 3 * 3))),
    ("year", Begin::Days(|day| of_date(day, |_| 0))),
];

/// The Monday of a week, as in ISO 8601; 1970-01-01 was a Thursday.
fn week(day: i32) -> i32 {
    day - (day + 3).rem_euclid(7)
}

/// The first day of a month of the year that holds a day; months count from 0.
fn of_date(day: i32, month0: impl Fn(&NaiveDate) -> u32) -> i32 {
    let first = NaiveDate::from_epoch_days(day)
        .and_then(|date| NaiveDate::from_ymd_opt(date.year(), month0(&date) + 1, 1));
    first.map_or(day, |first| first.to_epoch_days())
}

fn unit(name: &str) -> Option<Begin> {
    UNITS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, begin)| *begin)
}

impl Begin {
    fn of_instant(self, micros: i64) -> i64 {
        match self {
            Self::Micros(long) => micros - micros.rem_euclid(long),
            Self::Days(first) => {
                i64::from(first(micros.div_euclid(DAY_MICROS) as i32)).saturating_mul(DAY_MICROS)
            }
        }
    }

    fn of_day(self, day: i32) -> i32 {
        match self {
            Self::Micros(_) => day,
            Self::Days(first) => first(day),
        }
    }
}

/// What is wrong with a call, if it is one of `date_trunc`: its unit must be said, and be one that there is.
pub(super) fn wrong(function: &Function) -> Option<String> {
    if !functions::is_named(function, NAME) {
        return None;
    }
    let units = UNITS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    time(function).is_none().then(|| format!("write {NAME}('hour', predicted_at); units are {units}"))
}

/// What is cut off by a call of `date_trunc`.
pub(super) fn time(function: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(Arg::Expr(Expr::Value(named))), FunctionArg::Unnamed(Arg::Expr(time))] =
        list.args.as_slice()
    else {
        return None;
    };
    let is_unit = matches!(&named.value, Value::SingleQuotedString(name) if unit(name).is_some());
    (is_unit && functions::is_named(function, NAME)).then_some(time)
}

/// The one function that statements may call besides those of polars.
pub(super) struct Registry;

/// It is one function, so that polars finds equal expressions with it equal.
static DATE_TRUNC: LazyLock<UserDefinedFunction> = LazyLock::new(|| {
    let udf = UserDefinedFunction::new(NAME.into(), BaseColumnUdf::new(truncate, field));
    UserDefinedFunction { options: FunctionOptions::elementwise(), ..udf }
});

impl FunctionRegistry for Registry {
    fn register(&mut self, name: &str, _: UserDefinedFunction) -> PolarsResult<()> {
        Err(PolarsError::ComputeError(format!("`{name}` cannot be registered").into()))
    }

    fn get_udf(&self, name: &str) -> PolarsResult<Option<UserDefinedFunction>> {
        Ok(self.contains(name).then(|| DATE_TRUNC.clone()))
    }

    fn contains(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(NAME)
    }
}

/// What polars has statements look functions up in.
pub(super) fn registry() -> Arc<dyn FunctionRegistry> {
    Arc::new(Registry)
}

fn refused() -> PolarsError {
    PolarsError::InvalidOperation(format!("{NAME} is of a day or an instant").into())
}

/// Days stay days, and instants instants, which have microseconds.
fn kind_of(kind: &DataType) -> PolarsResult<DataType> {
    match kind {
        DataType::Date => Ok(DataType::Date),
        DataType::Datetime(_, zone) => Ok(DataType::Datetime(TimeUnit::Microseconds, zone.clone())),
        _ => Err(refused()),
    }
}

fn field(_: &Schema, fields: &[Field]) -> PolarsResult<Field> {
    let of = fields.get(1).ok_or_else(refused)?;
    Ok(Field::new(of.name().clone(), kind_of(of.dtype())?))
}

fn truncate(arguments: &mut [Column]) -> PolarsResult<Column> {
    let [named, times] = arguments else { return Err(refused()) };
    let begin = named.str()?.get(0).and_then(unit).ok_or_else(refused)?;
    let kind = kind_of(times.dtype())?;
    let name: PlSmallStr = times.name().clone();
    let made = match &kind {
        DataType::Date => {
            let days = times.date()?.physical().apply_values(|day| begin.of_day(day));
            days.into_date().into_column()
        }
        _ => {
            let times = times.cast(&kind)?;
            let micros = times.datetime()?.physical().apply_values(|micros| begin.of_instant(micros));
            micros.into_column().cast(&kind)?
        }
    };
    Ok(made.with_name(name))
}

#[cfg(test)]
mod tests {
    use event::Timestamp;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_instant_is_cut_off_to_its_unit() {
        let cut = |name: &str, text: &str| {
            let micros = unit(name).unwrap().of_instant(Timestamp::parse(text).unwrap().micros());
            Timestamp::from_micros(micros).unwrap().to_string()
        };
        for (name, text, told) in [
            ("second", "2026-06-14T12:34:56.789Z", "2026-06-14T12:34:56Z"),
            ("minute", "2026-06-14T12:34:56.789Z", "2026-06-14T12:34:00Z"),
            ("Hour", "2026-06-14T12:34:56.789Z", "2026-06-14T12:00:00Z"),
            ("day", "2026-06-14T12:34:56.789Z", "2026-06-14T00:00:00Z"),
            // A Sunday, which is the last day of its week.
            ("week", "2026-06-14T12:34:56.789Z", "2026-06-08T00:00:00Z"),
            ("month", "2026-06-14T12:34:56.789Z", "2026-06-01T00:00:00Z"),
            ("quarter", "2026-06-14T12:34:56.789Z", "2026-04-01T00:00:00Z"),
            ("YEAR", "2026-06-14T12:34:56.789Z", "2026-01-01T00:00:00Z"),
            // Before 1970, and the end of February in a leap year.
            ("hour", "1969-12-31T23:59:59.5Z", "1969-12-31T23:00:00Z"),
            ("week", "1969-12-31T23:59:59.5Z", "1969-12-29T00:00:00Z"),
            ("month", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z"),
        ] {
            assert_eq!(cut(name, text), told, "{name} of {text}");
        }
        assert!(unit("fortnight").is_none());
    }

    proptest! {
        /// A unit begins no later than what it holds, and its beginning is that of itself.
        #[test]
        fn a_unit_holds_its_beginning(micros in -62_135_596_800_000_000_i64..253_402_300_800_000_000) {
            for (name, begin) in UNITS {
                let cut = begin.of_instant(micros);
                prop_assert!(cut <= micros && micros - cut < 366 * DAY_MICROS, "{name}");
                prop_assert_eq!(begin.of_instant(cut), cut, "{}", name);
                let day = micros.div_euclid(DAY_MICROS) as i32;
                if matches!(begin, Begin::Days(_)) {
                    prop_assert_eq!(i64::from(begin.of_day(day)) * DAY_MICROS, cut, "{}", name);
                }
            }
        }
    }
}
