//! Groups of the rows of a segment: counts, sums and extremes of columns of numbers and times, by the values of columns that have
//! few. Groups of different segments are not merged: the caller merges them, as there are few.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    pin::pin,
    sync::Arc,
};

use event::{Column, Columns, Kind, Result, Values, fields::FieldType};
use futures::TryStreamExt;
use polars::prelude::DataFrame;

use crate::{
    columns::ColumnType,
    events::{DAY, check_members, members_of},
    frame::{days, failed, floats, frame, ints, texts, times},
    read::{self, Filter, Made, Reading, RowBounds, Unpacked},
};

/// Maximum size of the array that numbers groups by the combinations of their values; beyond it, a hash map does.
const MAX_NUMBERS: usize = 65_536;

/// An aggregate of the rows of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Number of rows.
    Rows,
    /// Number of rows with a value in a column.
    Count(String),
    /// Sum of a column of numbers; null if no row has one.
    Sum(String),
    /// Least value of a column of numbers or times; null if no row has one.
    Least(String),
    /// Greatest value of a column of numbers or times; null if no row has one.
    Greatest(String),
}

impl Measure {
    /// Returns the column that it aggregates.
    fn column(&self) -> Option<&str> {
        match self {
            Self::Rows => None,
            Self::Count(column) | Self::Sum(column) | Self::Least(column) | Self::Greatest(column) => {
                Some(column)
            }
        }
    }
}

/// Writes the name of its column in the frame. No field and no member of a family has such a name.
impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows => f.write_str("count of rows"),
            Self::Count(column) => write!(f, "count of {column}"),
            Self::Sum(column) => write!(f, "sum of {column}"),
            Self::Least(column) => write!(f, "least of {column}"),
            Self::Greatest(column) => write!(f, "greatest of {column}"),
        }
    }
}

/// The groups of events to build, and their aggregates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) kind: Kind,
    /// The columns of texts by which rows are grouped, and the day.
    pub(crate) keys: BTreeSet<String>,
    pub(crate) measures: BTreeSet<Measure>,
}

impl Groups {
    /// Returns the columns of their frame.
    pub(crate) fn columns(&self) -> Vec<(String, ColumnType)> {
        let keys = self.keys.iter().map(|key| match key.as_str() {
            DAY => (key.clone(), ColumnType::Day),
            _ => (key.clone(), ColumnType::Field(FieldType::Text)),
        });
        let measures = self.measures.iter().map(|measure| {
            let kind = match measure {
                Measure::Rows | Measure::Count(_) => ColumnType::Count,
                Measure::Sum(_) => ColumnType::Field(FieldType::Float),
                Measure::Least(column) | Measure::Greatest(column) => {
                    ColumnType::Field(self.kind.column_type(column).unwrap_or(FieldType::Float))
                }
            };
            (measure.to_string(), kind)
        });
        keys.chain(measures).collect()
    }

    /// Returns the columns of events that they need.
    fn read(&self) -> Vec<String> {
        let keys = self.keys.iter().map(String::as_str);
        let names: BTreeSet<&str> = keys.chain(self.measures.iter().filter_map(Measure::column)).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Groups the events of a window.
    pub(crate) async fn of_events(
        self: &Arc<Self>,
        reading: &Arc<Reading>,
        bounds: RowBounds,
    ) -> Result<DataFrame> {
        let columns = self.read();
        let filter = Filter { kind: self.kind, columns: Some(columns.clone()), release: None, bounds };
        let groups = Arc::clone(self);
        let mut made = pin!(read::window(reading, &filter, false, move |segments| groups.of_day(&segments)));
        let (mut all, mut members, mut is_empty) = (self.frame(&[])?, BTreeSet::new(), true);
        while let Some((of_day, more)) = made.try_next().await? {
            is_empty = false;
            members.extend(more);
            all.vstack_mut_owned(of_day).map_err(failed)?;
        }
        check_members(self.kind, &columns, &members, !is_empty)?;
        Ok(all)
    }

    /// Groups the segments of a day; returns the groups and the members of families that occur.
    fn of_day(&self, segments: &[Unpacked]) -> Result<Made<(DataFrame, BTreeSet<String>)>> {
        let members = members_of(self.kind, segments.iter().map(|segment| &segment.columns));
        let segments = segments.iter().filter(|segment| segment.columns.rows > 0);
        let grouped: Vec<_> = segments.map(|segment| Grouped::of(self, segment)).collect();
        let all = self.frame(&grouped)?;
        let bytes = all.estimated_size() as u64;
        Ok(((all, members), Some(bytes)))
    }

    /// Builds a frame of the groups of several segments, one after the other.
    fn frame(&self, segments: &[Grouped<'_>]) -> Result<DataFrame> {
        let rows = segments.iter().map(|of| of.first_rows.len()).sum();
        let keys = self.keys.iter().map(|key| match key.as_str() {
            DAY => {
                let of_day = |of: &Grouped<'_>| std::iter::repeat_n(of.day, of.first_rows.len());
                days(DAY, segments.iter().flat_map(of_day).collect())
            }
            key => texts(key, segments.iter().flat_map(|of| of.texts(key))),
        });
        let measures = self.measures.iter().map(|measure| {
            let name = &*measure.to_string();
            let numbers = |made: fn(f64, f64) -> f64, column: &str| {
                floats(name, segments.iter().flat_map(|of| of.fold(column, floats_of, made)))
            };
            let instants = |made: fn(i64, i64) -> i64, column: &str| {
                times(name, segments.iter().flat_map(|of| of.fold(column, times_of, made)))
            };
            let is_time = |column: &str| self.kind.column_type(column) == Some(FieldType::Time);
            match measure {
                Measure::Rows => ints(name, segments.iter().flat_map(Grouped::rows).map(Some)),
                Measure::Count(column) => {
                    ints(name, segments.iter().flat_map(|of| of.count(column)).map(Some))
                }
                Measure::Sum(column) => numbers(|sum, value| sum + value, column),
                Measure::Least(column) if is_time(column) => instants(i64::min, column),
                Measure::Greatest(column) if is_time(column) => instants(i64::max, column),
                Measure::Least(column) => numbers(f64::min, column),
                Measure::Greatest(column) => numbers(f64::max, column),
            }
        });
        let columns = keys.chain(measures).collect();
        frame(rows, columns)
    }
}

fn floats_of(values: &Values) -> Option<&[f64]> {
    if let Values::Float(values) = values { Some(values) } else { None }
}

fn times_of(values: &Values) -> Option<&[i64]> {
    if let Values::Time(values) = values { Some(values) } else { None }
}

/// The rows of a segment, with the number of the group of each.
struct Grouped<'a> {
    day: i32,
    columns: &'a Columns,
    of_rows: Vec<u32>,
    /// The first row of each group.
    first_rows: Vec<usize>,
}

impl<'a> Grouped<'a> {
    fn of(groups: &Groups, segment: &'a Unpacked) -> Self {
        let columns = &segment.columns;
        let keys = groups.keys.iter().filter_map(|key| columns.column(key));
        let (of_rows, first_rows) = numbered(columns.rows, keys);
        Self { day: segment.day.number(), columns, of_rows, first_rows }
    }

    /// Returns the text of each group in a column.
    fn texts(&self, column: &str) -> impl Iterator<Item = Option<&'a str>> {
        let column = self.columns.column(column);
        self.first_rows.iter().map(move |row| column?.text(*row))
    }

    /// Returns the number of rows of each group.
    fn rows(&self) -> Vec<u64> {
        self.counted(|_| true)
    }

    /// Returns the number of rows of each group with a value in a column.
    fn count(&self, column: &str) -> Vec<u64> {
        match self.columns.column(column) {
            Some(Column { valid: None, .. }) => self.rows(),
            Some(Column { valid: Some(valid), .. }) => self.counted(|row| valid[row]),
            None => vec![0; self.first_rows.len()],
        }
    }

    fn counted(&self, is_there: impl Fn(usize) -> bool) -> Vec<u64> {
        let mut counts = vec![0; self.first_rows.len()];
        let rows = self.of_rows.iter().enumerate().filter(|(row, _)| is_there(*row));
        rows.for_each(|(_, group)| counts[*group as usize] += 1);
        counts
    }

    /// Folds the values of each group in a column; `None` for a group without values.
    fn fold<T: Copy>(
        &self,
        column: &str,
        values: impl Fn(&Values) -> Option<&[T]>,
        made: impl Fn(T, T) -> T,
    ) -> Vec<Option<T>> {
        let mut all = vec![None; self.first_rows.len()];
        let Some(column) = self.columns.column(column) else { return all };
        let values = values(&column.values).unwrap_or_default();
        for (row, (value, group)) in values.iter().zip(&self.of_rows).enumerate() {
            if column.is_valid(row) {
                let all = &mut all[*group as usize];
                *all = Some(all.map_or(*value, |before| made(before, *value)));
            }
        }
        all
    }
}

/// Numbers the groups by their texts in some columns: returns the group of each row, and the first row of each group.
fn numbered<'a>(rows: usize, columns: impl Iterator<Item = &'a Column>) -> (Vec<u32>, Vec<usize>) {
    let (mut groups, mut first_rows) = (vec![0; rows], vec![0; rows.min(1)]);
    for column in columns {
        let (codes, distinct) = coded(column);
        if distinct > 1 {
            first_rows = numbered_by(&mut groups, first_rows.len(), &codes, distinct);
        }
    }
    (groups, first_rows)
}

/// Divides groups by another code of their rows, and returns the first row of each new group.
fn numbered_by(groups: &mut [u32], before: usize, codes: &[u32], distinct: usize) -> Vec<usize> {
    let mut first_rows = Vec::new();
    let mut next = |row| {
        first_rows.push(row);
        (first_rows.len() - 1) as u32
    };
    let rows = groups.iter_mut().zip(codes).enumerate();
    if before * distinct <= MAX_NUMBERS {
        let mut numbers = vec![None; before * distinct];
        for (row, (group, code)) in rows {
            let number = &mut numbers[*group as usize * distinct + *code as usize];
            *group = *number.get_or_insert_with(|| next(row));
        }
    } else {
        let mut numbers = HashMap::new();
        for (row, (group, code)) in rows {
            *group = *numbers.entry((*group, *code)).or_insert_with(|| next(row));
        }
    }
    first_rows
}

/// Returns a code for each row, one for each text and one for null, and an upper bound of the codes.
fn coded(column: &Column) -> (Vec<u32>, usize) {
    if let Values::Coded(coded) = &column.values {
        let null = coded.dictionary.len() as u32;
        let code = |(row, code): (usize, &u8)| if column.is_valid(row) { u32::from(*code) } else { null };
        return (coded.codes.iter().enumerate().map(code).collect(), coded.dictionary.len() + 1);
    }
    let mut numbers = HashMap::new();
    let codes = (0..column.values.len()).map(|row| {
        let next = numbers.len() as u32;
        *numbers.entry(column.text(row)).or_insert(next)
    });
    let codes = codes.collect();
    (codes, numbers.len())
}

#[cfg(test)]
mod tests {
    use event::columns::{Coded, Strings};
    use proptest::prelude::*;

    use super::*;

    fn text(name: &str, values: &[Option<u8>], is_coded: bool) -> Column {
        let dictionary: Strings = (0..=u8::MAX)
            .map(|code| format!("t{code}"))
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str)
            .collect();
        let codes = values.iter().map(|value| value.unwrap_or_default()).collect();
        let coded = Coded { codes, dictionary };
        let values_of = match is_coded {
            true => Values::Coded(coded),
            false => Values::Text(
                coded.codes.iter().map(|code| coded.dictionary.get(usize::from(*code))).collect(),
            ),
        };
        let valid = values.contains(&None).then(|| values.iter().map(Option::is_some).collect());
        Column { name: name.to_owned(), values: values_of, valid }
    }

    proptest! {
        #[test]
        fn rows_with_equal_texts_share_a_group(
            rows in prop::collection::vec((prop::option::of(any::<u8>()), prop::option::of(0_u8..3), prop::option::of(any::<u8>())), 0..400),
        ) {
            let columns = [
                text("label", &rows.iter().map(|row| row.0).collect::<Vec<_>>(), true),
                text("release", &rows.iter().map(|row| row.1).collect::<Vec<_>>(), false),
                text("tag.city", &rows.iter().map(|row| row.2).collect::<Vec<_>>(), true),
            ];
            let (groups, first_rows) = numbered(rows.len(), columns.iter());
            let mut known = HashMap::new();
            for (row, (group, texts)) in groups.iter().zip(&rows).enumerate() {
                let first = *known.entry(texts).or_insert(row);
                prop_assert_eq!(first_rows[*group as usize], first);
            }
            prop_assert_eq!(first_rows.len(), known.len());
        }
    }

    #[test]
    fn missing_group_values_are_null_and_uncounted() {
        let numbers = Column {
            name: "score".to_owned(),
            values: Values::Float(vec![0.5, 0.0, 0.25, f64::NAN, 2.0]),
            valid: Some(vec![true, false, true, true, true]),
        };
        let release = text("release", &[Some(1), Some(2), Some(1), Some(3), Some(3)], true);
        let columns = Columns { rows: 5, columns: vec![release, numbers] };
        let (of_rows, first_rows) = numbered(5, columns.column("release").into_iter());
        let of = Grouped { day: 0, columns: &columns, of_rows, first_rows };
        assert_eq!(of.rows(), [2, 1, 2]);
        assert_eq!((of.count("score"), of.count("value")), (vec![2, 0, 2], vec![0; 3]));
        assert_eq!(of.fold("score", floats_of, f64::max), [Some(0.5), None, Some(2.0)]);
        assert_eq!(of.fold("score", floats_of, |sum, value| sum + value)[..2], [Some(0.75), None]);
        assert_eq!(of.fold("value", floats_of, f64::min), [None; 3]);
        assert_eq!(of.texts("release").collect::<Vec<_>>(), [Some("t1"), Some("t2"), Some("t3")]);
        assert_eq!(of.texts("label").collect::<Vec<_>>(), [None; 3]);
    }
}
