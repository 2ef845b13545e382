//! The days for which a condition holds. If it lists days, only these are tested, and else all days: a long list would be
//! compared with each day of eight centuries.

use std::collections::BTreeSet;

use event::{Day, Result, Timestamp, time::DAY_MICROS};
use polars::{
    lazy::dsl::{Expr, Operator},
    prelude::{IntoLazy, col},
};

use super::plan::columns_of;
use crate::{
    events::DAY,
    frame::{self, refused},
};

/// Last day tested for a window without an end.
const LAST_DAY: &str = "2200-01-01";

/// Returns the days for which it holds.
///
/// # Errors
/// `Invalid`, if polars refuses it.
pub(super) fn days(holds: Expr) -> Result<BTreeSet<Day>> {
    let last: Day = LAST_DAY.parse()?;
    let there = Day::FIRST.number()..=last.number();
    let looked_at: Vec<i32> = match listed(&holds) {
        Some(listed) => listed.into_iter().filter(|day| there.contains(day)).collect(),
        None => there.collect(),
    };
    let all = frame::days(DAY, looked_at);
    let days = frame::frame(all.len(), vec![all])?.lazy().filter(holds).select([col(DAY)]);
    let days = days.collect().map_err(refused)?;
    let numbers = days.column(DAY).and_then(|days| Ok(days.date()?.physical().clone())).map_err(refused)?;
    let day = |number: i32| Timestamp::from_micros(i64::from(number) * DAY_MICROS).map(Timestamp::day);
    Ok(numbers.iter().flatten().filter_map(day).collect())
}

/// Returns the numbers of the days that a condition lists; `None`, if it lists none, or compares the day with other values.
fn listed(holds: &Expr) -> Option<BTreeSet<i32>> {
    let mut values = Vec::new();
    if !list(holds, &mut values) {
        return None;
    }
    let values = values.into_iter().enumerate().map(|(at, value)| value.clone().alias(at.to_string()));
    let values: Vec<Expr> = values.collect();
    let one = frame::frame(1, vec![frame::days(DAY, vec![0])]).ok()?;
    let values = one.lazy().select(values).collect().ok()?;
    let mut numbers = BTreeSet::new();
    for column in values.columns() {
        numbers.extend(column.date().ok()?.physical().iter().flatten());
    }
    Some(numbers)
}

/// Adds the values that a condition lists for the day; returns true if it lists some.
fn list<'a>(holds: &'a Expr, values: &mut Vec<&'a Expr>) -> bool {
    let Expr::BinaryExpr { left, op, right } = holds else { return false };
    match op {
        Operator::Or | Operator::LogicalOr => list(left, values) && list(right, values),
        Operator::And | Operator::LogicalAnd => {
            let before = values.len();
            list(left, values) || {
                values.truncate(before);
                list(right, values)
            }
        }
        Operator::Eq => match (&**left, &**right) {
            (Expr::Column(name), value) | (value, Expr::Column(name))
                if name.as_str() == DAY && columns_of(value).next().is_none() =>
            {
                values.push(value);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use polars::prelude::{DataType, lit};

    use super::*;

    fn at(number: i32) -> Expr {
        lit(number).cast(DataType::Date)
    }

    #[test]
    fn day_list_limits_the_days_examined() {
        let is = |number| col(DAY).eq(at(number));
        let any = is(3).or(is(5)).or(is(9));
        assert_eq!(listed(&any), Some([3, 5, 9].into()));
        let later = any.clone().and(col(DAY).gt(at(3)));
        assert_eq!(listed(&later), Some([3, 5, 9].into()));
        let days = days(later).unwrap();
        assert_eq!(days.iter().map(|day| day.number()).collect::<Vec<_>>(), [5, 9]);
        // The first of two lists joined by AND is taken, and both conditions are tested.
        assert_eq!(super::days(any.clone().and(is(5).or(is(7)))).unwrap().len(), 1);
        for of_any_day in [any.clone().or(col(DAY).gt(at(7))), any.not(), col(DAY).eq(col(DAY))] {
            assert_eq!(listed(&of_any_day), None, "{of_any_day:?}");
        }
    }
}
