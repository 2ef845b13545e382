//! A column being filled.

use event::{
    Column, Values,
    columns::Strings,
    fields::{FieldType, Rule},
};

use super::{
    dictionary::{DictionaryBuilder, Known},
    row::Scalar,
    rules,
    times::TimeReader,
};

/// The values so far.
#[derive(Clone, Debug)]
pub(crate) enum Growing {
    Time(Vec<i64>),
    Float(Vec<f64>),
    Text(Strings),
    /// Text of few distinct strings, until there are more than a byte can tell apart.
    Coded(DictionaryBuilder),
}

/// A column being filled from the first row on. It may lag behind: rows that were passed over are null.
#[derive(Clone, Debug)]
pub(crate) struct ColumnBuilder {
    rule: Rule,
    pub(crate) values: Growing,
    /// One entry a row as soon as one is null.
    valid: Option<Vec<bool>>,
    nulls: usize,
    /// The rows whose value could not be taken, in order. They are null as well.
    pub(crate) wrong: Vec<u32>,
}

impl ColumnBuilder {
    /// An empty column of values that keep to a rule.
    pub(crate) fn new(kind: FieldType, rule: Rule) -> Self {
        let values = match kind {
            FieldType::Time => Growing::Time(Vec::new()),
            FieldType::Float => Growing::Float(Vec::new()),
            FieldType::Text if rule.is_repeated() => Growing::Coded(DictionaryBuilder::new()),
            FieldType::Text => Growing::Text(Strings::default()),
        };
        Self { rule, values, valid: None, nulls: 0, wrong: Vec::new() }
    }

    /// Number of rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.values {
            Growing::Time(values) => values.len(),
            Growing::Float(values) => values.len(),
            Growing::Text(values) => values.len(),
            Growing::Coded(coder) => coder.codes.len(),
        }
    }

    /// About how many bytes it takes once it has `rows` rows.
    pub(crate) fn bytes(&self, rows: usize) -> usize {
        let values = match &self.values {
            Growing::Time(_) | Growing::Float(_) => 8 * rows,
            Growing::Text(values) => 4 * rows + values.text().len(),
            Growing::Coded(_) => rows,
        };
        // A byte a row says which are null.
        values + rows + size_of::<u32>() * self.wrong.len()
    }

    /// Number of null rows.
    pub(crate) fn nulls(&self) -> usize {
        self.nulls
    }

    /// True if row `row` holds a value.
    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid[row])
    }

    /// The time at `row`, if there is one.
    pub(crate) fn time(&self, row: usize) -> Option<i64> {
        match &self.values {
            Growing::Time(values) if self.is_valid(row) => Some(values[row]),
            _ => None,
        }
    }

    /// The text at `row`, if there is one.
    pub(crate) fn text(&self, row: usize) -> Option<&str> {
        match &self.values {
            Growing::Text(values) if self.is_valid(row) => Some(values.get(row)),
            Growing::Coded(coder) if self.is_valid(row) => Some(coder.get(row)),
            _ => None,
        }
    }

    /// Fills up with nulls until there are `rows` rows.
    #[inline]
    pub(crate) fn pad(&mut self, rows: usize) {
        if self.len() < rows {
            self.pad_slowly(rows);
        }
    }

    fn pad_slowly(&mut self, rows: usize) {
        let from = self.len();
        self.valid.get_or_insert_with(|| vec![true; from]).resize(rows, false);
        self.nulls += rows - from;
        match &mut self.values {
            Growing::Time(values) => values.resize(rows, 0),
            Growing::Float(values) => values.resize(rows, 0.0),
            Growing::Text(values) => (from..rows).for_each(|_| values.push("")),
            Growing::Coded(coder) => coder.codes.resize(rows, 0),
        }
    }

    /// Notes that the row just filled holds a value.
    #[inline]
    fn note_valid(&mut self) {
        if let Some(valid) = &mut self.valid {
            valid.push(true);
        }
    }

    /// Notes that the value of row `row` cannot be taken.
    pub(crate) fn note_wrong(&mut self, row: usize) {
        self.pad(row + 1);
        self.wrong.push(row as u32);
    }

    /// Sets row `row`, which comes after all that were set.
    ///
    /// # Errors
    /// A flaw of the value, as the rest of a sentence. The row is then wrong.
    #[inline]
    pub(crate) fn push(
        &mut self,
        row: usize,
        value: &Scalar<'_>,
        times: &mut TimeReader,
    ) -> Result<(), String> {
        let done = match (&mut self.values, value) {
            (_, Scalar::Null) => return Ok(()),
            (Growing::Text(_) | Growing::Coded(_), Scalar::Text(text)) => self.push_text(row, text),
            (Growing::Float(_), Scalar::Float(number)) => {
                self.push_float(row, *number);
                return Ok(());
            }
            (Growing::Time(_), Scalar::Text(text)) => times.text(text).map(|time| self.push_time(row, time)),
            _ => self.push_rare(row, value, times),
        };
        if done.is_err() {
            self.note_wrong(row);
        }
        done
    }

    fn push_rare(&mut self, row: usize, value: &Scalar<'_>, times: &TimeReader) -> Result<(), String> {
        let wrong = |wanted: &str| Err(format!("should be {wanted}, but is {}", value.is_called()));
        match (&self.values, value) {
            (Growing::Text(_) | Growing::Coded(_), Scalar::Int(number)) => {
                self.push_text(row, &number.to_string())
            }
            (Growing::Text(_) | Growing::Coded(_), Scalar::Bool(truth)) => {
                self.push_text(row, if *truth { "true" } else { "false" })
            }
            (Growing::Text(_) | Growing::Coded(_), Scalar::Float(number))
                if self.rule == Rule::Label
                    && number.fract() == 0.0
                    && number.abs() <= rules::GREATEST_WHOLE =>
            {
                self.push_text(row, &(*number as i64).to_string())
            }
            (Growing::Text(_) | Growing::Coded(_), _) => Err(rules::no_text(self.rule, value)),
            (Growing::Float(_), Scalar::Int(number)) => {
                self.push_float(row, *number as f64);
                Ok(())
            }
            (Growing::Float(_), Scalar::Text(text))
                if self.rule.may_be_special() && special(text).is_some() =>
            {
                self.push_float(row, special(text).unwrap_or(f64::NAN));
                Ok(())
            }
            (Growing::Float(_), _) => wrong("a number"),
            (Growing::Time(_), _) => {
                let time = match value {
                    Scalar::Int(number) => times.int(*number),
                    Scalar::Float(number) => times.float(*number),
                    _ => None,
                };
                match time {
                    Some(time) => time.map(|time| self.push_time(row, time)),
                    None => wrong("a time such as 2013-06-01T04:30:00Z"),
                }
            }
        }
    }

    /// Sets row `row` to a time, whatever time that is.
    #[inline]
    pub(crate) fn push_time(&mut self, row: usize, time: i64) {
        self.pad(row);
        if let Growing::Time(values) = &mut self.values {
            values.push(time);
            self.note_valid();
        }
    }

    /// Sets row `row` to a number, whatever number that is.
    #[inline]
    pub(crate) fn push_float(&mut self, row: usize, number: f64) {
        self.pad(row);
        if let Growing::Float(values) = &mut self.values {
            values.push(number);
            self.note_valid();
        }
    }

    /// Sets row `row` to a text that keeps the rule; of repeated ones each is checked once.
    ///
    /// # Errors
    /// A breach of the rule. Nothing is set then.
    #[inline]
    pub(crate) fn push_text(&mut self, row: usize, text: &str) -> Result<(), String> {
        self.pad(row);
        match &mut self.values {
            Growing::Text(values) => {
                let plain = rules::plain(self.rule, text);
                rules::check(self.rule, &plain)?;
                values.push(&plain);
            }
            Growing::Coded(coder) => match coder.find(text) {
                Known::Code(code) => coder.codes.push(code),
                Known::New(_) => self.push_new(text)?,
            },
            _ => return Err("does not hold text".into()),
        }
        self.note_valid();
        Ok(())
    }

    /// The code of a text that rows may be set to as it stands, where texts have codes.
    pub(crate) fn code_of(&mut self, text: &str) -> Option<u8> {
        let Growing::Coded(coder) = &mut self.values else { return None };
        match coder.find(text) {
            Known::Code(code) => Some(code),
            Known::New(_) => None,
        }
    }

    /// Sets row `row` to the text of a code. Says whether texts have codes still; else nothing is set.
    #[inline]
    pub(crate) fn push_code(&mut self, row: usize, code: u8) -> bool {
        self.pad(row);
        let Growing::Coded(coder) = &mut self.values else { return false };
        coder.codes.push(code);
        self.note_valid();
        true
    }

    /// Sets the next row to a text that is not in the dictionary as it stands.
    fn push_new(&mut self, text: &str) -> Result<(), String> {
        let Growing::Coded(coder) = &mut self.values else { return Ok(()) };
        let text = rules::plain(self.rule, text);
        match coder.find(&text) {
            Known::Code(code) => coder.codes.push(code),
            Known::New(place) => {
                rules::check(self.rule, &text)?;
                match coder.add(&text, place) {
                    Some(code) => coder.codes.push(code),
                    None => self.push_uncoded(&text),
                }
            }
        }
        Ok(())
    }

    /// True if it holds days.
    pub(crate) fn is_days(&self) -> bool {
        self.rule == Rule::Day
    }

    /// Tells a column of durations, in milliseconds.
    pub(crate) fn is_duration(&self) -> bool {
        self.rule == Rule::Duration
    }

    /// True if it holds text.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.values, Growing::Text(_) | Growing::Coded(_))
    }

    /// Sets the rows from `row` on to texts that keep the rule; returns those that do not, and why.
    pub(crate) fn extend_texts<'a>(
        &mut self,
        row: usize,
        texts: impl Iterator<Item = Option<&'a str>>,
    ) -> Vec<(usize, String)> {
        let mut wrong = Vec::new();
        for (row, text) in (row..).zip(texts) {
            if let Some(text) = text
                && let Err(message) = self.push_text(row, text)
            {
                self.note_wrong(row);
                wrong.push((row, message));
            }
        }
        wrong
    }

    /// There are too many distinct strings for codes: from here on they are kept as they are.
    #[cold]
    fn push_uncoded(&mut self, text: &str) {
        if let Growing::Coded(coder) = std::mem::replace(&mut self.values, Growing::Text(Strings::default()))
        {
            let mut strings = coder.into_strings(self.valid.as_deref());
            strings.push(text);
            self.values = Growing::Text(strings);
        }
    }

    /// Appends the numbers of many rows at once, from row `row` on; `valid` has an entry for each, or
    /// is `None` when none is null.
    pub(crate) fn extend_floats(&mut self, row: usize, numbers: impl Iterator<Item = f64>, valid: Mask) {
        self.pad(row);
        if let Growing::Float(values) = &mut self.values {
            values.extend(numbers);
            clear_nulls(&mut values[row..], valid.as_deref());
            self.extend_valid(row, valid);
        }
    }

    /// As [`ColumnBuilder::extend_floats`], for times.
    pub(crate) fn extend_times(&mut self, row: usize, times: impl Iterator<Item = i64>, valid: Mask) {
        self.pad(row);
        if let Growing::Time(values) = &mut self.values {
            values.extend(times);
            clear_nulls(&mut values[row..], valid.as_deref());
            self.extend_valid(row, valid);
        }
    }

    fn extend_valid(&mut self, from: usize, mask: Mask) {
        let rows = self.len();
        match (mask, &mut self.valid) {
            (None, None) => {}
            (None, Some(valid)) => valid.resize(rows, true),
            (Some(mask), _) => {
                self.nulls += mask.iter().filter(|valid| !**valid).count();
                self.valid.get_or_insert_with(|| vec![true; from]).extend(mask);
            }
        }
    }

    /// Calls `bad` with each row that is null without being wrong.
    pub(crate) fn each_missing(&self, mut bad: impl FnMut(usize)) {
        let Some(valid) = self.valid.as_ref().filter(|_| self.nulls > self.wrong.len()) else { return };
        let mut wrong = self.wrong.iter().copied().peekable();
        for row in (0..valid.len()).filter(|row| !valid[*row]) {
            match wrong.next_if_eq(&(row as u32)) {
                Some(_) => {}
                None => bad(row),
            }
        }
    }

    /// The column, under its name.
    pub(crate) fn finish(self, name: String) -> Column {
        let values = match self.values {
            Growing::Time(values) => Values::Time(values),
            Growing::Float(values) => Values::Float(values),
            Growing::Text(values) => Values::Text(values),
            Growing::Coded(coder) => Values::Coded(coder.finish()),
        };
        let valid = self.valid.filter(|_| self.nulls > 0);
        Column { name, values, valid }
    }
}

/// Flags of many rows, true if the row holds a value; `None` when all do.
pub(crate) type Mask = Option<Vec<bool>>;

/// Zeroes values under nulls, so that equal events have equal digests.
fn clear_nulls<T: Default + Copy>(values: &mut [T], valid: Option<&[bool]>) {
    for (value, valid) in values.iter_mut().zip(valid.into_iter().flatten()) {
        if !valid {
            *value = T::default();
        }
    }
}
/// Reads numbers that JSON cannot write, by the names that JavaScript and protocol buffers give them.
fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}
