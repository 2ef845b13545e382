//! A batch builder: the events of a request on their way into columns. Row formats push rows, column formats
//! fill whole columns; [`check`] looks at all of them in the same way, a column at a time.

pub(crate) mod check;
pub(crate) mod column_builder;
mod dictionary;
pub(crate) mod names;
pub(crate) mod row;
mod row_errors;
mod rules;
mod set;
pub(crate) mod times;

use std::borrow::Cow;

use event::{Day, Kind, Timestamp, fields::TAG_PREFIX, id::check_name};

use self::{
    column_builder::ColumnBuilder,
    names::{Constant, EVENT_ID, PREDICTED_ON},
    row::{FieldError, Row, Scalar},
    row_errors::{Budget, RowErrors},
    rules::Rule,
    times::TimeReader,
};
use crate::limits::{MAX_BATCH_TAG_NAMES, MAX_FUTURE_SECONDS, MAX_LISTED_ERRORS, MAX_TAGS};

/// How a batch builder reads its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) times: TimeReader,
    /// Text may hold numbers, and empty text is null: a format whose cells are text, or may be.
    pub(crate) loose_text: bool,
    /// All bad rows are handed out and the good ones kept; no event has an id of its own.
    pub(crate) import: bool,
    /// What every row has, besides what it says itself.
    pub(crate) set: Vec<(Constant, String)>,
}

/// A tag and its column.
#[derive(Clone, Debug)]
struct Tag {
    name: String,
    filling: ColumnBuilder,
}

/// The events of a request so far.
#[derive(Clone, Debug)]
pub(crate) struct BatchBuilder {
    kind: Kind,
    latest: i64,
    reading: Reading,
    /// The number of each row in the request.
    numbers: Vec<u64>,
    fields: Vec<ColumnBuilder>,
    tags: Vec<Tag>,
    has_too_many_tags: bool,
    /// Whether its tags came by column; then those of a row were not counted yet.
    has_tag_columns: bool,
    /// The midnights of `predicted_on`.
    predicted_on: ColumnBuilder,
    /// Rows whose `predicted_on` is no day; that counts only when nothing else is wrong with the row.
    wrong_days: Vec<(u32, FieldError)>,
    wrong_days_budget: usize,
    last_day: Option<(String, Day)>,
    event_ids: Vec<(u32, Result<String, String>)>,
    /// Rows that tell nothing, found while checking.
    silent: Vec<usize>,
    notes: RowErrors,
    row_budget: Budget,
    field_budgets: Vec<Budget>,
}

impl BatchBuilder {
    /// An empty builder of events of `kind` that arrive at `now`.
    pub(crate) fn new(kind: Kind, now: Timestamp, reading: Reading) -> Self {
        let notes = RowErrors::new((!reading.import).then_some(MAX_LISTED_ERRORS));
        let days = event::fields::Field {
            name: PREDICTED_ON,
            kind: event::fields::FieldType::Time,
            required: false,
        };
        Self {
            kind,
            latest: now.plus_seconds(MAX_FUTURE_SECONDS).micros(),
            wrong_days_budget: if reading.import { usize::MAX } else { MAX_LISTED_ERRORS },
            reading,
            numbers: Vec::new(),
            fields: kind.fields().iter().map(ColumnBuilder::of).collect(),
            tags: Vec::new(),
            has_too_many_tags: false,
            has_tag_columns: false,
            predicted_on: ColumnBuilder::of(&days),
            wrong_days: Vec::new(),
            last_day: None,
            event_ids: Vec::new(),
            silent: Vec::new(),
            row_budget: notes.budget(),
            field_budgets: vec![notes.budget(); kind.fields().len()],
            notes,
        }
    }

    /// How many rows it has; those that could not be read at all are not among them.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.numbers.len()
    }

    /// How it reads values.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Adds the row that stands at `number` in the request, and leaves `row` for [`Row::clear`].
    pub(crate) fn push(&mut self, number: u64, row: &mut Row<'_>) {
        let at = self.rows();
        self.numbers.push(number);
        for error in row.errors.drain(..) {
            self.notes.note(&mut self.row_budget, (at, number), 0, || error);
        }
        for (field, value) in row.fields.iter().enumerate() {
            if *value != Scalar::Null {
                self.set_field(field, at, value);
            }
        }
        if row.predicted_on != Scalar::Null {
            self.set_predicted_on(at, &row.predicted_on);
        }
        if row.event_id != Scalar::Null {
            self.set_event_id(at, &row.event_id);
        }
        if !row.tags.is_empty() {
            self.push_tags(at, number, &row.tags);
        }
    }

    /// Notes a row that could not be read at all.
    pub(crate) fn refuse_row(&mut self, number: u64, message: impl Into<String>) {
        self.notes.note_unread(&mut self.row_budget, number, FieldError::of_row(message));
    }

    /// Begins `rows` rows that will be filled by columns, numbered on from `first`.
    pub(crate) fn add_rows(&mut self, first: u64, rows: usize) {
        self.numbers.extend(first..first + rows as u64);
    }

    /// Sets a field of row `at`.
    #[inline]
    pub(crate) fn set_field(&mut self, field: usize, at: usize, value: &Scalar<'_>) {
        let filling = &mut self.fields[field];
        let done = match (self.reading.loose_text, value) {
            (true, Scalar::Text(text)) => match loose(filling, text) {
                Some(value) => filling.push(at, &value, &mut self.reading.times),
                None => return,
            },
            _ => filling.push(at, value, &mut self.reading.times),
        };
        if let Err(message) = done {
            self.note_field(field, at, message);
        }
    }

    /// Notes what is wrong with a field of row `at`, which the column knows to be wrong.
    #[cold]
    pub(crate) fn note_field(&mut self, field: usize, at: usize, message: String) {
        let name = self.kind.fields()[field].name;
        let error = || FieldError::new(name, message);
        self.notes.note(&mut self.field_budgets[field], (at, self.numbers[at]), 1 + field, error);
    }

    /// The column of a field, for a format that comes by column.
    pub(crate) fn field(&mut self, field: usize) -> &mut ColumnBuilder {
        &mut self.fields[field]
    }

    /// Sets the day of the prediction that row `at` judges.
    pub(crate) fn set_predicted_on(&mut self, at: usize, value: &Scalar<'_>) {
        let wrong = match value {
            Scalar::Null => return,
            Scalar::Text(text) if self.reading.loose_text && text.is_empty() => return,
            Scalar::Text(text) => match self.day(text) {
                Ok(day) => return self.predicted_on.push_time(at, day.start().micros()),
                Err(message) => message,
            },
            _ => "should be a day such as 2013-06-01".to_owned(),
        };
        self.predicted_on.note_wrong(at);
        if self.wrong_days.len() < self.wrong_days_budget {
            self.wrong_days.push((at as u32, FieldError::new(PREDICTED_ON, wrong)));
        }
    }

    /// Sets the day of the prediction that row `at` judges to that of an instant.
    pub(crate) fn set_predicted_at_day(&mut self, at: usize, micros: i64) {
        self.predicted_on.push_time(at, micros);
    }

    fn day(&mut self, text: &str) -> Result<Day, String> {
        match &self.last_day {
            Some((last, day)) if last == text => Ok(*day),
            _ => {
                let day = text.parse::<Day>().map_err(|error| error.to_string())?;
                self.last_day = Some((text.to_owned(), day));
                Ok(day)
            }
        }
    }

    /// Sets the id that the event of row `at` gives itself.
    pub(crate) fn set_event_id(&mut self, at: usize, value: &Scalar<'_>) {
        let text: Cow<'_, str> = match value {
            Scalar::Null => return,
            Scalar::Text(text) if self.reading.loose_text && text.is_empty() => return,
            Scalar::Text(text) => Cow::Borrowed(text),
            Scalar::Int(number) => Cow::Owned(number.to_string()),
            other => {
                let message = format!("should be a string, but is {}", other.is_called());
                return self.event_ids.push((at as u32, Err(message)));
            }
        };
        // With a second row all of them are wrong, whatever they say.
        let id =
            rules::check_event_id(&text).map(|()| if at == 0 { text.into_owned() } else { String::new() });
        self.event_ids.push((at as u32, id));
    }

    fn push_tags(&mut self, at: usize, number: u64, tags: &[(Cow<'_, str>, Scalar<'_>)]) {
        if tags.len() > MAX_TAGS {
            let message = format!("{} are more than the {MAX_TAGS} of an event", tags.len());
            return self.note_tags(at, number, FieldError::new("tags", message));
        }
        for (position, (name, _)) in tags.iter().enumerate() {
            if let Err(message) = self.push_tag(at, position, tags) {
                self.note_tags(at, number, FieldError::new(&format!("{TAG_PREFIX}{name}"), message));
            }
        }
    }

    #[cold]
    fn note_tags(&mut self, at: usize, number: u64, error: FieldError) {
        let stage = self.tag_stage();
        self.notes.note(&mut self.row_budget, (at, number), stage, || error);
    }

    /// Sets that tag of row `at` which stands at `position` among the tags of the row. Its column
    /// stands there as well, if the row is as the one before.
    fn push_tag(
        &mut self,
        at: usize,
        position: usize,
        tags: &[(Cow<'_, str>, Scalar<'_>)],
    ) -> Result<(), String> {
        let (name, value) = &tags[position];
        let column = self.tag_column(position, name, *value == Scalar::Null)?;
        if let Some(filling) = column.map(|column| &mut self.tags[column].filling)
            && filling.len() <= at
        {
            return filling.push(at, value, &mut self.reading.times);
        }
        // It is there already, or has no column: so only what is wrong with it matters.
        Self::check_tag(value)?;
        let is_good = |value: &Scalar<'_>| *value != Scalar::Null && Self::check_tag(value).is_ok();
        let mut before = tags[..position].iter();
        match is_good(value) && before.any(|(known, value)| known == name && is_good(value)) {
            true => Err("is given twice".into()),
            false => Ok(()),
        }
    }

    /// Whether a value could be that of a tag.
    fn check_tag(value: &Scalar<'_>) -> Result<(), String> {
        match value {
            Scalar::Null | Scalar::Int(_) | Scalar::Bool(_) => Ok(()),
            Scalar::Text(text) => Rule::Tag.check(text),
            other => Err(format!("should be a string, but is {}", other.is_called())),
        }
    }

    /// The index of a tag's column, which is made if need be. `None` when there is none to make: for a
    /// null, and when there are too many.
    fn tag_column(&mut self, position: usize, name: &str, is_null: bool) -> Result<Option<usize>, String> {
        if self.tags.get(position).is_some_and(|tag| tag.name == name) {
            return Ok(Some(position));
        }
        if let Some(at) = self.tags.iter().position(|tag| tag.name == name) {
            return Ok(Some(at));
        }
        if check_name(name).is_err() {
            return Err("its name should be letters, digits, `.`, `_` or `-`, at most 128".into());
        }
        if is_null {
            return Ok(None);
        }
        if self.tags.len() >= MAX_BATCH_TAG_NAMES {
            self.has_too_many_tags = true;
            return Ok(None);
        }
        self.tags.push(Tag { name: name.to_owned(), filling: ColumnBuilder::text(Rule::Tag) });
        Ok(Some(self.tags.len() - 1))
    }

    /// The column of a tag, for a format that comes by column: the same name gives the same one.
    ///
    /// # Errors
    /// When the name is none, or there are too many; as the rest of a sentence.
    pub(crate) fn tag(&mut self, name: &str) -> Result<usize, String> {
        self.has_tag_columns = true;
        self.tag_column(usize::MAX, name, false)?
            .ok_or_else(|| format!("is one of more than the {MAX_BATCH_TAG_NAMES} different tags of a batch"))
    }

    /// Sets a tag of row `at` in a column that [`BatchBuilder::tag`] named.
    #[inline]
    pub(crate) fn set_tag(&mut self, column: usize, at: usize, value: &Scalar<'_>) {
        match value {
            Scalar::Null => return,
            Scalar::Text(text) if self.reading.loose_text && text.is_empty() => return,
            _ => {}
        }
        if let Err(message) = self.tags[column].filling.push(at, value, &mut self.reading.times) {
            self.note_tag_column(column, at, message);
        }
    }

    /// Sets a field of text in the rows from `from` on.
    pub(crate) fn extend_field<'a>(
        &mut self,
        field: usize,
        from: usize,
        texts: impl Iterator<Item = Option<&'a str>>,
    ) {
        for (at, message) in self.fields[field].extend_texts(from, texts) {
            self.note_field(field, at, message);
        }
    }

    /// Sets a tag, in a column that [`BatchBuilder::tag`] named, in the rows from `from` on.
    pub(crate) fn extend_tag<'a>(
        &mut self,
        column: usize,
        from: usize,
        texts: impl Iterator<Item = Option<&'a str>>,
    ) {
        for (at, message) in self.tags[column].filling.extend_texts(from, texts) {
            self.note_tag_column(column, at, message);
        }
    }

    /// Notes a bad tag of a column. Each column is a source of its own, its wrong rows count its notes.
    #[cold]
    fn note_tag_column(&mut self, column: usize, at: usize, message: String) {
        let field = format!("{TAG_PREFIX}{}", self.tags[column].name);
        let error = FieldError::new(&field, message);
        let mut budget = self.notes.budget();
        if !self.reading.import && self.tags[column].filling.wrong.len() > MAX_LISTED_ERRORS {
            budget = Budget::spent();
        }
        let stage = self.tag_stage();
        self.notes.note(&mut budget, (at, self.numbers[at]), stage, || error);
    }

    /// Where tags come among what is wrong with a row: after the row itself and its fields.
    fn tag_stage(&self) -> usize {
        1 + self.fields.len()
    }

    /// Where `event_id` comes.
    fn event_id_stage(&self) -> usize {
        self.tag_stage() + 1
    }
}

/// A text of a format whose cells are text, as its column wants it: a number where it is one. `None`
/// when it is empty.
fn loose<'a>(filling: &ColumnBuilder, text: &'a str) -> Option<Scalar<'a>> {
    if text.is_empty() {
        return None;
    }
    if matches!(filling.values, column_builder::Growing::Float(_))
        && let Ok(number) = text.trim().parse()
    {
        return Some(Scalar::Float(number));
    }
    Some(Scalar::Text(Cow::Borrowed(text)))
}

/// The error of a row that names its event although it does not come alone.
fn not_alone() -> FieldError {
    let message = "names a single event; send it alone, or give the whole batch an Idempotency-Key";
    FieldError::new(EVENT_ID, message)
}
