//! Columns: the one form in which events travel, from the parser to the segment and back to a dataframe. A column is
//! dense: it has one entry a row, even for a null (there the entry is zero or empty and [`Column::valid`] is
//! `false`).

use std::collections::BTreeMap;

/// Many strings in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    ends: Vec<u32>,
}

impl Strings {
    /// Creates an empty list, with room for `rows` strings of `bytes` bytes together.
    pub fn with_capacity(rows: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(rows) }
    }

    /// Builds from concatenated text and the byte offset at which each string ends. `None` if an offset decreases,
    /// does not fall on a character boundary, or the last one is not the length of the text.
    pub fn from_parts(text: String, ends: Vec<u32>) -> Option<Self> {
        // Each byte of ASCII is a character.
        if text.is_ascii() {
            let is_whole = ends.last().copied().unwrap_or_default() as usize == text.len();
            return (is_whole && ends.is_sorted()).then_some(Self { text, ends });
        }
        let mut start = 0;
        for &end in &ends {
            if end < start || !text.is_char_boundary(end as usize) {
                return None;
            }
            start = end;
        }
        (start as usize == text.len()).then_some(Self { text, ends })
    }

    /// Appends one string.
    ///
    /// # Panics
    /// Panics if all strings together would exceed 4 GiB.
    pub fn push(&mut self, value: &str) {
        self.text.push_str(value);
        self.ends.push(u32::try_from(self.text.len()).expect("strings of one batch stay under 4 GiB"));
    }

    /// Returns the string of row `row`.
    #[inline]
    pub fn get(&self, row: usize) -> &str {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.text[start..self.ends[row] as usize]
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the approximate number of bytes of memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + 4 * self.ends.len()
    }

    /// Iterates over all strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Returns the concatenated text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the byte offset at which each string ends.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Returns the concatenated text and the byte offset at which each string ends.
    pub fn into_parts(self) -> (String, Vec<u32>) {
        (self.text, self.ends)
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(iter: I) -> Self {
        let mut strings = Self::default();
        iter.into_iter().for_each(|value| strings.push(value));
        strings
    }
}

/// Strings drawn from a few distinct ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coded {
    /// Index of the string of each row in `dictionary`; 0 for a null.
    pub codes: Vec<u8>,
    /// Distinct strings; never empty if a row is not null.
    pub dictionary: Strings,
}

/// Values of one column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Microseconds since 1970-01-01T00:00:00Z.
    Time(Vec<i64>),
    /// IEEE 754 doubles, kept bit for bit.
    Float(Vec<f64>),
    /// UTF-8 strings.
    Text(Strings),
    /// UTF-8 strings with at most 256 distinct ones; a shorter form of `Text`.
    Coded(Coded),
}

impl Values {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Time(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Text(values) => values.len(),
            Values::Coded(values) => values.codes.len(),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One named column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name, such as `score` or `tag.carrier`.
    pub name: String,
    /// One entry a row.
    pub values: Values,
    /// One entry a row, `false` for a null; `None` if no row is null.
    pub valid: Option<Vec<bool>>,
}

impl Column {
    /// Creates a column without nulls.
    pub fn new(name: impl Into<String>, values: Values) -> Self {
        Self { name: name.into(), values, valid: None }
    }

    /// Returns whether row `row` has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid[row])
    }

    /// Returns the approximate number of bytes of memory.
    pub fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Time(values) => 8 * values.len(),
            Values::Float(values) => 8 * values.len(),
            Values::Text(values) => values.bytes(),
            Values::Coded(coded) => coded.codes.len() + coded.dictionary.bytes(),
        };
        self.name.len() + values + self.valid.as_ref().map_or(0, Vec::len)
    }

    /// Returns the number of nulls.
    pub fn nulls(&self) -> usize {
        self.valid.as_ref().map_or(0, |valid| valid.iter().filter(|present| !**present).count())
    }

    /// Returns the time at `row` in microseconds, or `None` if it is null or the column holds no times.
    pub fn time(&self, row: usize) -> Option<i64> {
        match &self.values {
            Values::Time(values) if self.is_valid(row) => Some(values[row]),
            _ => None,
        }
    }

    /// Returns the number at `row`, or `None` if it is null or the column holds no numbers.
    pub fn float(&self, row: usize) -> Option<f64> {
        match &self.values {
            Values::Float(values) if self.is_valid(row) => Some(values[row]),
            _ => None,
        }
    }

    /// Returns the string at `row`, or `None` if it is null or the column holds no strings.
    pub fn text(&self, row: usize) -> Option<&str> {
        if !self.is_valid(row) {
            return None;
        }
        match &self.values {
            Values::Text(values) => Some(values.get(row)),
            Values::Coded(coded) => Some(coded.dictionary.get(coded.codes[row] as usize)),
            _ => None,
        }
    }

    /// Counts the occurrences of each string, without nulls.
    pub fn counts(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        if let Values::Coded(coded) = &self.values {
            let mut by_code = [0; 256];
            let codes = coded.codes.iter().enumerate().filter(|(row, _)| self.is_valid(*row));
            codes.for_each(|(_, code)| by_code[*code as usize] += 1);
            let named = coded.dictionary.iter().zip(by_code).filter(|(_, count)| *count > 0);
            named.for_each(|(name, count)| *counts.entry(name).or_default() += count);
        } else {
            let texts = (0..self.values.len()).filter_map(|row| self.text(row));
            texts.for_each(|text| *counts.entry(text).or_default() += 1);
        }
        counts
    }

    /// Copies the rows `rows`, in that order, to a new column.
    pub fn take(&self, rows: &[usize]) -> Self {
        let values = match &self.values {
            Values::Time(values) => Values::Time(rows.iter().map(|&row| values[row]).collect()),
            Values::Float(values) => Values::Float(rows.iter().map(|&row| values[row]).collect()),
            Values::Text(values) => {
                let bytes = rows.iter().map(|&row| values.get(row).len()).sum();
                let mut taken = Strings::with_capacity(rows.len(), bytes);
                rows.iter().for_each(|&row| taken.push(values.get(row)));
                Values::Text(taken)
            }
            Values::Coded(coded) => Values::Coded(Coded {
                codes: rows.iter().map(|&row| coded.codes[row]).collect(),
                dictionary: coded.dictionary.clone(),
            }),
        };
        let valid = self.valid.as_ref().map(|valid| rows.iter().map(|&row| valid[row]).collect::<Vec<_>>());
        let valid = valid.filter(|valid| valid.contains(&false));
        Self { name: self.name.clone(), values, valid }
    }
}

/// Equal if name, type, nulls and every value agree: floats bit for bit, and a coded column equals a text column with
/// the same strings. Entries of nulls do not matter.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        let rows = self.values.len();
        if self.name != other.name || rows != other.values.len() {
            return false;
        }
        (0..rows).all(|row| match (&self.values, &other.values) {
            (Values::Time(_), Values::Time(_)) => self.time(row) == other.time(row),
            (Values::Float(_), Values::Float(_)) => {
                self.float(row).map(f64::to_bits) == other.float(row).map(f64::to_bits)
            }
            (Values::Text(_) | Values::Coded(_), Values::Text(_) | Values::Coded(_)) => {
                self.text(row) == other.text(row)
            }
            _ => false,
        })
    }
}

/// Columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Number of rows of each column.
    pub rows: usize,
    /// Columns, in storage order.
    pub columns: Vec<Column>,
}

impl Columns {
    /// Returns the column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Concatenates the rows of `parts`. A column that a part lacks is null there. Columns of one name have one type,
    /// that of the first; the values of another type count as null.
    pub fn concat(parts: &[&Columns]) -> Self {
        let mut names = Vec::<&str>::new();
        for column in parts.iter().flat_map(|part| &part.columns) {
            if !names.contains(&column.name.as_str()) {
                names.push(&column.name);
            }
        }
        let columns = names.into_iter().map(|name| concat_column(name, parts)).collect();
        Self { rows: parts.iter().map(|part| part.rows).sum(), columns }
    }

    /// Returns the approximate number of bytes of memory.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    /// Copies the rows `rows`, in that order.
    pub fn take(&self, rows: &[usize]) -> Self {
        Self { rows: rows.len(), columns: self.columns.iter().map(|column| column.take(rows)).collect() }
    }
}

fn concat_column(name: &str, parts: &[&Columns]) -> Column {
    let rows: usize = parts.iter().map(|part| part.rows).sum();
    let cells = parts.iter().flat_map(|part| {
        let column = part.column(name);
        (0..part.rows).map(move |row| (column, row))
    });
    let mut valid = Vec::with_capacity(rows);
    let values = match parts.iter().find_map(|part| part.column(name)).map(|column| &column.values) {
        Some(Values::Time(_)) => Values::Time(
            cells
                .map(|(column, row)| column.and_then(|column| column.time(row)))
                .inspect(|value| valid.push(value.is_some()))
                .map(Option::unwrap_or_default)
                .collect(),
        ),
        Some(Values::Float(_)) => Values::Float(
            cells
                .map(|(column, row)| column.and_then(|column| column.float(row)))
                .inspect(|value| valid.push(value.is_some()))
                .map(Option::unwrap_or_default)
                .collect(),
        ),
        _ => Values::Text(
            cells
                .map(|(column, row)| column.and_then(|column| column.text(row)))
                .inspect(|value| valid.push(value.is_some()))
                .map(Option::unwrap_or_default)
                .collect(),
        ),
    };
    let valid = valid.contains(&false).then_some(valid);
    Column { name: name.to_owned(), values, valid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_counted_coded_or_not() {
        let dictionary = ["v1", "v2", "unused"].into_iter().collect();
        let coded = Values::Coded(Coded { codes: vec![1, 0, 1, 0], dictionary });
        let valid = Some(vec![true, true, true, false]);
        let coded = Column { name: "release".into(), values: coded, valid: valid.clone() };
        let texts = Values::Text(["v2", "v1", "v2", ""].into_iter().collect());
        let texts = Column { name: "release".into(), values: texts, valid };
        assert_eq!(coded.counts(), BTreeMap::from([("v1", 1), ("v2", 2)]));
        assert_eq!(texts.counts(), coded.counts());
        assert!(Column::new("score", Values::Float(vec![0.5])).counts().is_empty());
    }

    #[test]
    fn concat_fills_what_a_part_lacks_with_nulls() {
        let text = |texts: &[&str]| Values::Text(texts.iter().copied().collect());
        let coded =
            Values::Coded(Coded { codes: vec![1, 0], dictionary: ["v1", "v2"].into_iter().collect() });
        let a = Columns {
            rows: 2,
            columns: vec![
                Column::new("release", coded),
                Column::new("score", Values::Float(vec![0.5, -0.0])),
            ],
        };
        let b = Columns {
            rows: 1,
            columns: vec![Column::new("release", text(&["v3"])), Column::new("tag.a", text(&["x"]))],
        };
        let both = Columns::concat(&[&a, &b]);
        let score = Column {
            name: "score".into(),
            values: Values::Float(vec![0.5, -0.0, 0.0]),
            valid: Some(vec![true, true, false]),
        };
        let tag = Column {
            name: "tag.a".into(),
            values: text(&["", "", "x"]),
            valid: Some(vec![false, false, true]),
        };
        let columns = vec![Column::new("release", text(&["v2", "v1", "v3"])), score, tag];
        assert_eq!(both, Columns { rows: 3, columns });
        assert_eq!(Columns::concat(&[&a]), a);
        assert_eq!(Columns::concat(&[]), Columns::default());
        assert_eq!(Columns::concat(&[&both, &both]).take(&[3, 4, 5]), both);
    }

    #[test]
    fn strings_from_parts_refuses_what_does_not_fit() {
        assert!(Strings::from_parts("añb".into(), vec![1, 3, 4]).is_some());
        assert!(Strings::from_parts("añb".into(), vec![2, 4]).is_none(), "inside a character");
        assert!(Strings::from_parts("abc".into(), vec![2, 1, 3]).is_none(), "decreasing");
        assert!(Strings::from_parts("abc".into(), vec![2]).is_none(), "text left over");
        assert!(Strings::from_parts("abc".into(), vec![4]).is_none(), "beyond the text");
    }

    #[test]
    fn take_keeps_nulls_and_drops_needless_mask() {
        let column = Column {
            name: "score".into(),
            values: Values::Float(vec![0.5, 0.0, 0.25]),
            valid: Some(vec![true, false, true]),
        };
        assert_eq!(column.take(&[1, 2]).float(0), None);
        assert_eq!(column.take(&[1, 2]).float(1), Some(0.25));
        assert_eq!(column.take(&[2, 0]).valid, None);
    }

    #[test]
    fn coded_and_text_columns_are_equal_by_value() {
        let text = Column::new("x", Values::Text(["a", "b", "a"].into_iter().collect()));
        let coded = Coded { codes: vec![1, 0, 1], dictionary: ["b", "a"].into_iter().collect() };
        assert_eq!(text, Column::new("x", Values::Coded(coded)));
    }
}
