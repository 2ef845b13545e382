//! Rows of an answer, cell by cell.

use event::{Day, Timestamp, time::DAY_MICROS};
use polars::prelude::{AnyValue, DataFrame, TimeUnit};
use query::number_text;

/// Text of an empty cell.
const NOTHING: &str = "–";

/// Rows of an answer.
pub(super) struct Rows<'a>(pub(super) &'a DataFrame);

/// Cell in its shown form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    /// True for numbers, which are aligned to the right.
    pub(super) is_number: bool,
    /// Shade of the cell's background, from 0 to 1.
    pub(super) shade: Option<f64>,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(super) fn count(count: u64) -> Self {
        Self { text: count.to_string(), is_number: true, shade: None }
    }

    pub(super) fn number(number: Option<f64>) -> Self {
        let text = number.map_or_else(|| NOTHING.to_owned(), number_text);
        Self { text, is_number: true, shade: None }
    }

    /// Shows both ends of an interval.
    pub(super) fn interval(interval: Option<(f64, f64)>) -> Self {
        let text = interval.map(|(low, high)| format!("{} to {}", number_text(low), number_text(high)));
        Self { text: text.unwrap_or_else(|| NOTHING.to_owned()), is_number: true, shade: None }
    }
}

impl<'a> Rows<'a> {
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.0.height()
    }

    fn value(&self, column: &str, row: usize) -> AnyValue<'a> {
        // All requested columns exist; a missing one counts as null.
        self.0.column(column).and_then(|column| column.get(row)).unwrap_or(AnyValue::Null)
    }

    pub(super) fn text(&self, column: &str, row: usize) -> Option<&'a str> {
        match self.value(column, row) {
            AnyValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self, column: &str, row: usize) -> Option<f64> {
        let number = self.value(column, row).extract::<f64>()?;
        number.is_finite().then_some(number)
    }

    pub(super) fn count(&self, column: &str, row: usize) -> u64 {
        self.value(column, row).extract::<u64>().unwrap_or_default()
    }

    /// Both ends of an interval.
    pub(super) fn interval(&self, (low, high): (&str, &str), row: usize) -> Option<(f64, f64)> {
        self.number(low, row).zip(self.number(high, row))
    }

    pub(super) fn day(&self, row: usize) -> Day {
        match self.value("day", row) {
            AnyValue::Date(day) => day_of(day),
            _ => Day::FIRST,
        }
    }

    /// Returns whether any row has a value in this column.
    pub(super) fn has(&self, column: &str) -> bool {
        self.0.column(column).is_ok_and(|column| column.null_count() < column.len())
    }

    /// Cell of a column in its shown form.
    pub(super) fn cell(&self, column: &str, row: usize) -> Cell {
        match self.value(column, row) {
            AnyValue::Null => Cell { is_number: self.is_number(column), ..Cell::text(NOTHING) },
            AnyValue::String(text) => Cell::text(text),
            AnyValue::Date(day) => Cell::text(day_of(day).to_string()),
            AnyValue::Datetime(micros, TimeUnit::Microseconds, _) => {
                Cell::text(Timestamp::from_micros(micros).unwrap_or_default().to_string())
            }
            AnyValue::Float64(number) => Cell::number(Some(number)),
            other => Cell { is_number: true, ..Cell::text(other.to_string()) },
        }
    }

    fn is_number(&self, column: &str) -> bool {
        self.0.column(column).is_ok_and(|column| column.dtype().is_primitive_numeric())
    }
}

fn day_of(number: i32) -> Day {
    Timestamp::from_micros(i64::from(number) * DAY_MICROS).unwrap_or_default().day()
}
