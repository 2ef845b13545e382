//! Columns as slices of the type that a fold expects, checked once, so that the loops over rows need not check again.

use event::{
    Column, Columns, Values,
    columns::{Coded, Strings},
};

use crate::{
    FoldError, Result,
    hash::{Table, hash},
};

/// Flags of the rows that have a value; `None` if all have.
pub(crate) type Valid<'a> = Option<&'a [bool]>;

/// A column of numbers or times.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) valid: Valid<'a>,
}

impl<T: Copy> Numbers<'_, T> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        is_valid(self.valid, row).then(|| self.values[row])
    }
}

/// A column of strings.
#[derive(Clone, Copy)]
pub(crate) struct Texts<'a> {
    values: TextValues<'a>,
    valid: Valid<'a>,
}

#[derive(Clone, Copy)]
enum TextValues<'a> {
    Text(&'a Strings),
    Coded(&'a Coded),
}

impl<'a> Texts<'a> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        is_valid(self.valid, row).then(|| match self.values {
            TextValues::Text(strings) => strings.get(row),
            TextValues::Coded(coded) => coded.dictionary.get(coded.codes[row] as usize),
        })
    }

    /// Returns the total number of bytes of the strings; 0 for a dictionary column.
    pub(crate) fn bytes(&self) -> usize {
        if let TextValues::Text(strings) = self.values { strings.text().len() } else { 0 }
    }

    /// Returns the column as small numbers of distinct strings.
    pub(crate) fn codes(&self) -> Codes<'a> {
        let (mut codes, names) = match self.values {
            TextValues::Coded(coded) => {
                (coded.codes.iter().map(|&code| u32::from(code)).collect(), coded.dictionary.iter().collect())
            }
            TextValues::Text(strings) => number_strings(strings),
        };
        let null = names.len() as u32;
        if let Some(valid) = self.valid {
            codes.iter_mut().zip(valid).filter(|(_, valid)| !**valid).for_each(|(code, _)| *code = null);
        }
        Codes { codes, names }
    }
}

/// Numbers distinct strings in the order of their first appearance.
fn number_strings(strings: &Strings) -> (Vec<u32>, Vec<&str>) {
    let mut names: Vec<&str> = Vec::new();
    let mut table = Table::new(strings.len());
    let mut codes = Vec::with_capacity(strings.len());
    let mut last: Option<(&str, u32)> = None;
    for text in strings.iter() {
        // Equal neighbours are frequent: events of one release or name arrive together.
        let code = match last {
            Some((same, code)) if same == text => code,
            _ => {
                let next = names.len() as u32;
                let same = |code: u32| names[code as usize] == text;
                let known = table.keep(hash(text.as_bytes()), next, same, |_| false);
                known.unwrap_or_else(|| {
                    names.push(text);
                    next
                })
            }
        };
        last = Some((text, code));
        codes.push(code);
    }
    (codes, names)
}

/// Strings of a segment by number.
pub(crate) struct Codes<'a> {
    /// Index of the string of each row in `names`, or `names.len()` for null.
    pub(crate) codes: Vec<u32>,
    /// Strings. Some may be unused; all are distinct unless a coded column repeated one.
    pub(crate) names: Vec<&'a str>,
}

impl Codes<'_> {
    /// Creates codes with every row null.
    pub(crate) fn null(rows: usize) -> Self {
        Self { codes: vec![0; rows], names: Vec::new() }
    }

    /// Returns the number of possible codes, the one for null included.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + 1
    }
}

/// Returns the number of rows with a value of an optional field.
pub(crate) fn present(columns: &Columns, name: &str) -> Result<u64> {
    Ok(find(columns, name)?.map_or(0, |column| columns.rows - column.nulls()) as u64)
}

/// Returns the times of an optional field; `None` if the column is absent.
pub(crate) fn times<'a>(columns: &'a Columns, name: &str) -> Result<Option<Numbers<'a, i64>>> {
    let Some(column) = find(columns, name)? else { return Ok(None) };
    let Values::Time(values) = &column.values else {
        return Err(FoldError::Type { column: name.to_owned() });
    };
    Ok(Some(Numbers { values, valid: column.valid.as_deref() }))
}

/// Returns the numbers of an optional field, finite or not; `None` if the column is absent.
fn any_floats<'a>(columns: &'a Columns, name: &str) -> Result<Option<Numbers<'a, f64>>> {
    let Some(column) = find(columns, name)? else { return Ok(None) };
    let Values::Float(values) = &column.values else {
        return Err(FoldError::Type { column: name.to_owned() });
    };
    Ok(Some(Numbers { values, valid: column.valid.as_deref() }))
}

/// Returns the numbers of an optional field, all of them finite; `None` if the column is absent.
pub(crate) fn floats<'a>(columns: &'a Columns, name: &str) -> Result<Option<Numbers<'a, f64>>> {
    let Some(numbers) = any_floats(columns, name)? else { return Ok(None) };
    let values = numbers.values;
    // The short check first: values under a null are nearly always finite too.
    if !values.iter().all(|value| value.is_finite())
        && let Some(row) =
            (0..values.len()).find(|&row| numbers.get(row).is_some_and(|value| !value.is_finite()))
    {
        return Err(FoldError::NotFinite { column: name.to_owned(), row });
    }
    Ok(Some(numbers))
}

/// Returns the strings of an optional field; `None` if the column is absent.
pub(crate) fn texts<'a>(columns: &'a Columns, name: &str) -> Result<Option<Texts<'a>>> {
    let Some(column) = find(columns, name)? else { return Ok(None) };
    let values = match &column.values {
        Values::Text(strings) => TextValues::Text(strings),
        Values::Coded(coded) => {
            let distinct = coded.dictionary.len();
            let beyond = |row: usize| column.is_valid(row) && coded.codes[row] as usize >= distinct;
            if coded.codes.iter().any(|&code| code as usize >= distinct) && (0..columns.rows).any(beyond) {
                return Err(FoldError::Shape { column: name.to_owned() });
            }
            TextValues::Coded(coded)
        }
        _ => return Err(FoldError::Type { column: name.to_owned() }),
    };
    Ok(Some(Texts { values, valid: column.valid.as_deref() }))
}

/// Returns the times of a required field.
pub(crate) fn required_times<'a>(columns: &'a Columns, name: &str) -> Result<&'a [i64]> {
    let times = times(columns, name)?.ok_or(FoldError::Missing { column: name.to_owned() })?;
    no_null(times.valid, name)?;
    Ok(times.values)
}

/// Returns the numbers of a required field. Some may be NaN or infinite: metrics of runs may have such values.
pub(crate) fn measured<'a>(columns: &'a Columns, name: &str) -> Result<Numbers<'a, f64>> {
    let numbers = any_floats(columns, name)?.ok_or(FoldError::Missing { column: name.to_owned() })?;
    no_null(numbers.valid, name)?;
    Ok(numbers)
}

/// Returns the strings of a required field.
pub(crate) fn required_texts<'a>(columns: &'a Columns, name: &str) -> Result<Texts<'a>> {
    let texts = texts(columns, name)?.ok_or(FoldError::Missing { column: name.to_owned() })?;
    no_null(texts.valid, name)?;
    Ok(texts)
}

fn find<'a>(columns: &'a Columns, name: &str) -> Result<Option<&'a Column>> {
    let Some(column) = columns.column(name) else { return Ok(None) };
    let fits = |len: usize| len == columns.rows;
    if !fits(column.values.len()) || !column.valid.as_ref().is_none_or(|valid| fits(valid.len())) {
        return Err(FoldError::Shape { column: name.to_owned() });
    }
    Ok(Some(column))
}

fn no_null(valid: Valid<'_>, name: &str) -> Result<()> {
    match valid.and_then(|valid| valid.iter().position(|present| !present)) {
        Some(row) => Err(FoldError::Null { column: name.to_owned(), row }),
        None => Ok(()),
    }
}

#[inline]
fn is_valid(valid: Valid<'_>, row: usize) -> bool {
    valid.is_none_or(|valid| valid[row])
}
