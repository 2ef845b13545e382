//! The change of daily numbers: each number of a row gets its difference to the same number of the same series a day, a week or a
//! period before.
//!
//! The request reads from that earlier day on, so a read version of its answer covers all that was read; rows from before the window are
//! left out at the end.

use std::collections::HashMap;

use event::{
    Day, Error, Period, Result, Timestamp, Window,
    fields::{FieldType, TAG_PREFIX},
    time::DAY_MICROS,
};
use polars::prelude::{
    AnyValue, BooleanChunked, Column as Series, DataFrame, Float64Chunked, Int64Chunked, IntoColumn,
    NewChunkedArray, PolarsResult,
};

use crate::{
    breakdown::{Bins, MODEL, RELEASE},
    classes,
    columns::ColumnType,
    estimates,
    events::DAY,
    frame::{failed, frame},
    intervals,
    maturity::AGE,
    request::{Dataset, Request},
    rollups::{self, By},
};

/// Name of the parameter.
pub(crate) const CHANGE: &str = "change";

/// Suffix of the names of columns of changes.
pub(crate) const SUFFIX: &str = "_change";

/// The distances between compared numbers: a day, a week, or a period.
pub(crate) const CHANGES: [&str; 3] = ["day", "week", "period"];

/// The row that each row of an answer is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    lag: Lag,
    /// The first day requested.
    requested_from: Day,
    /// The first day with a row in the answer.
    from: Day,
    /// The first day read.
    read_from: Day,
    /// The columns requested.
    columns: Option<Vec<String>>,
}

/// Distance to the compared row before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lag {
    Days(i32),
    Periods(Period),
}

impl Lag {
    /// Returns the first day of the row before the row of a day.
    fn before(self, day: Day) -> Option<Day> {
        match self {
            Self::Days(days) => (0..days).try_fold(day, |day, _| day.before()),
            Self::Periods(period) => Some(period.first_day(day.before()?)),
        }
    }
}

impl Change {
    /// Parses the distance of a comparison.
    ///
    /// # Errors
    /// `Invalid`, if there is no such row before, or the window would begin before all days.
    pub(crate) fn parse(word: &str, (period, window): (Period, Window)) -> Result<Self> {
        let wrong = |why: String| Error::invalid(format!("{CHANGE}: {why}"));
        let lag = match (word, period) {
            ("day" | "period", Period::Day) => Lag::Days(1),
            ("week", Period::Day) | ("week" | "period", Period::Week) => Lag::Days(7),
            ("period", Period::Month | Period::Quarter) => Lag::Periods(period),
            (word, Period::Hour | Period::All) if CHANGES.contains(&word) => {
                return Err(wrong("it is of days, weeks, months and quarters".to_owned()));
            }
            (word, _) if CHANGES.contains(&word) => {
                return Err(wrong(format!(
                    "rows of more than a {word} have none of a {word} before; ask for `period`"
                )));
            }
            _ => return Err(wrong(format!("`{word}` is none of {}", CHANGES.join(", ")))),
        };
        // A part of a period has no counterpart, so whole periods are compared.
        let from = period.first_day(window.from());
        let read_from =
            lag.before(from).ok_or_else(|| wrong("there is no day before the window".to_owned()))?;
        Ok(Self { lag, requested_from: window.from(), from, read_from, columns: None })
    }

    /// Returns the first day with a row in the answer.
    pub(crate) fn from(&self) -> Day {
        self.from
    }

    /// Returns the days to read for those of a window.
    pub(crate) fn widened(&self, window: Window) -> Result<Window> {
        Window::new(self.read_from, window.to())?.bounded()
    }

    /// Warns that the first period of a window is answered as a whole, if the window begins within it.
    pub(crate) fn warning(&self) -> Option<String> {
        let from = self.from;
        (from < self.requested_from).then(|| format!("the rows are of whole periods, and begin with {from}"))
    }
}

impl Request {
    /// Adds the columns that identify the rows of a series, if there are changes.
    pub(crate) fn with_series(mut self) -> Result<Self> {
        if self.change.is_none() {
            return Ok(self);
        }
        if self.mature.is_some() {
            return Err(Error::invalid(format!(
                "{CHANGE}: not with `min-completeness`, which leaves days out"
            )));
        }
        if self.nowcast.is_some() {
            return Err(Error::invalid(format!("{CHANGE}: not with `nowcast`")));
        }
        let has_features = self.breakdown.columns.iter().any(|column| !column.starts_with(TAG_PREFIX));
        if has_features && !matches!(self.breakdown.bins, Some(Bins::Edges(_))) {
            return Err(Error::invalid(format!(
                "{CHANGE}: bins at quantiles are others in each window; name in `bins` where they begin"
            )));
        }
        let keys = self.series_columns();
        if let (Some(change), Some(columns)) = (&mut self.change, &mut self.columns) {
            change.columns = Some(columns.clone());
            columns
                .extend(keys.into_iter().filter(|key| !change.columns.iter().flatten().any(|of| of == key)));
        }
        Ok(self)
    }

    /// Returns the columns that identify a series and the row in it.
    pub(crate) fn series_columns(&self) -> Vec<String> {
        let own = |name: &str| name.to_owned();
        let more = match self.what {
            Dataset::Rollups => match &self.by {
                By::Release => vec![own(RELEASE)],
                By::Metric => vec![own("metric"), own(RELEASE)],
                By::Tag(tag) => vec![tag.clone()],
                By::Feature(_) => vec![own("feature"), own(RELEASE)],
            },
            Dataset::Drift => vec![own("column"), own(RELEASE)],
            what => {
                let model = self.breakdown.by_model.then(|| own(MODEL));
                let classes = classes::columns(what)
                    .iter()
                    .filter(|(_, kind)| *kind == ColumnType::Field(FieldType::Text));
                let classes = classes.map(|(name, _)| own(name));
                let breakdown = self.breakdown.columns.iter().cloned();
                let age = (what == Dataset::Maturity).then(|| own(AGE));
                std::iter::once(own(RELEASE))
                    .chain(model)
                    .chain(breakdown)
                    .chain(classes)
                    .chain(age)
                    .collect()
            }
        };
        std::iter::once(own(DAY)).chain(more).collect()
    }
}

/// Adds columns of changes to the rows of a window, and leaves out the rows from before it.
///
/// # Errors
/// `Corrupt`, if the frame cannot be built.
pub(crate) fn changed(rows: DataFrame, request: &Request) -> Result<DataFrame> {
    let Some(change) = &request.change else { return Ok(rows) };
    let keys = request.series_columns();
    let keyed: Vec<&Series> = keys.iter().filter_map(|key| rows.column(key).ok()).collect();
    let day_of = |row: usize| match rows.column(DAY).and_then(|days| days.get(row)).map_err(failed)? {
        AnyValue::Date(day) => Timestamp::from_micros(i64::from(day) * DAY_MICROS)
            .map(Timestamp::day)
            .ok_or_else(|| Error::corrupt("a day is none")),
        _ => Err(Error::corrupt("a row has no day")),
    };
    let name_of = |row: usize| {
        let texts = keyed.iter().skip(1).map(|key| key.get(row).map(text_of));
        texts.collect::<PolarsResult<Vec<Option<String>>>>().map_err(failed)
    };
    let height = rows.height();
    let days = (0..height).map(day_of).collect::<Result<Vec<Day>>>()?;
    let names = (0..height).map(name_of).collect::<Result<Vec<_>>>()?;
    let by_name: HashMap<(Day, &[Option<String>]), usize> =
        days.iter().zip(&names).enumerate().map(|(row, (day, name))| ((*day, &name[..]), row)).collect();
    let shown: Vec<usize> = (0..height).filter(|row| days[*row] >= change.from).collect();
    let before: Vec<Option<usize>> = shown
        .iter()
        .map(|row| by_name.get(&(change.lag.before(days[*row])?, &names[*row][..])).copied())
        .collect();
    let mask: BooleanChunked = days.iter().map(|day| Some(*day >= change.from)).collect();
    let kept = rows.filter(&mask).map_err(failed)?;
    let mut columns = Vec::new();
    let asked = change.columns.as_ref();
    for column in kept.columns() {
        let name = column.name().as_str();
        if asked.is_some_and(|asked| !asked.iter().any(|of| of == name)) {
            continue;
        }
        columns.push(column.clone());
        let is_end = intervals::is_one(name) || estimates::is_end(name);
        let is_number = !keys.iter().any(|key| key == name) && !is_end && !rollups::is_rank(name);
        let whole = rows.column(name).map_err(failed)?;
        columns.extend(is_number.then(|| difference(whole, &shown, &before)).flatten());
    }
    frame(shown.len(), columns)
}

/// Returns the changes of a column; `None`, if it has no numbers.
fn difference(column: &Series, shown: &[usize], before: &[Option<usize>]) -> Option<Series> {
    let name = format!("{}{SUFFIX}", column.name());
    let pairs = || shown.iter().zip(before);
    if let Ok(numbers) = column.f64() {
        let of =
            |(row, before): (&usize, &Option<usize>)| Some(numbers.get(*row)? - numbers.get((*before)?)?);
        return Some(Float64Chunked::from_iter_options(name.into(), pairs().map(of)).into_column());
    }
    let counts = column.i64().ok()?;
    let of = |(row, before): (&usize, &Option<usize>)| Some(counts.get(*row)? - counts.get((*before)?)?);
    Some(Int64Chunked::from_iter_options(name.into(), pairs().map(of)).into_column())
}

/// Returns the text of a value that identifies a series.
fn text_of(value: AnyValue<'_>) -> Option<String> {
    match value {
        AnyValue::Null => None,
        AnyValue::String(text) => Some(text.to_owned()),
        other => Some(other.to_string()),
    }
}
