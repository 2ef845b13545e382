//! Batch builder: puts the events of a request into columns. Row formats push rows, column formats fill whole columns; [`check`]
//! checks both in the same way, a column at a time.

pub(crate) mod check;
pub(crate) mod column_builder;
mod dictionary;
mod members;
pub(crate) mod names;
mod relations;
pub(crate) mod row;
mod row_errors;
pub(crate) mod rules;
pub(crate) mod times;

use std::borrow::Cow;

use event::{
    Day, Kind, Timestamp,
    fields::{Field, FieldType, KNOWN_AT, Rule},
};

use self::{
    column_builder::ColumnBuilder,
    members::Members,
    names::{ColumnTarget, EVENT_ID, IS_SET, PREDICTED_ON},
    row::{FieldError, Row, Scalar},
    row_errors::{Budget, RowErrors},
    times::TimeReader,
};
use crate::{
    admission::Memory,
    batch::Refused,
    limits::{MAX_BATCH_BYTES, MAX_FUTURE_SECONDS, MAX_LISTED_ERRORS},
};

/// Bytes of rows for which room is made ahead, so that few rows need a claim.
const ROOM_BYTES: usize = 64 * 1024;

/// Memory that the rows of a batch may take, beyond the maximum of any batch.
#[derive(Clone, Debug, Default)]
pub(crate) enum Room {
    #[default]
    Any,
    /// This many bytes.
    Bytes(usize),
    /// Memory that a request claims from the common memory.
    Claimed(Memory),
}

impl Room {
    /// Claims the bytes needed while rows are read, and the bytes needed afterwards.
    fn claim(&self, reading: usize, read: usize) -> Result<(), Refused> {
        match self {
            Room::Claimed(memory) => memory.claim(reading, read),
            Room::Bytes(most) if reading.max(read) > *most => Err(Refused::NoRoom),
            Room::Any | Room::Bytes(_) => Ok(()),
        }
    }
}

/// Settings by which a batch builder reads values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) room: Room,
    pub(crate) times: TimeReader,
    /// True if text may hold numbers, and empty text is null: for a format whose cells are text, or may be.
    pub(crate) loose_text: bool,
    /// True for an import: all bad rows are returned and the good ones kept; no event has an id of its own.
    pub(crate) import: bool,
    /// True if every row has the time at which it was known.
    pub(crate) says_known: bool,
    /// Values of every row, besides its own.
    pub(crate) set: Vec<(ColumnTarget, String)>,
    /// Texts that stand for null.
    pub(crate) null: Vec<String>,
}

impl Reading {
    /// Returns whether a text stands for null.
    #[inline]
    pub(crate) fn is_absent(&self, text: &str) -> bool {
        (self.loose_text && text.is_empty()) || self.null.iter().any(|null| null == text)
    }

    /// Returns a value, or null for a text that stands for it.
    #[inline]
    fn present<'v, 'a>(&self, value: &'v Scalar<'a>) -> &'v Scalar<'a> {
        match value {
            Scalar::Text(text) if self.is_absent(text) => &Scalar::Null,
            value => value,
        }
    }
}

/// Events of a request read so far.
#[derive(Clone, Debug)]
pub(crate) struct BatchBuilder {
    kind: Kind,
    latest: i64,
    /// Day on which the events arrive.
    arrival: Day,
    reading: Reading,
    /// Number of each row in the request.
    numbers: Vec<u64>,
    fields: Vec<ColumnBuilder>,
    members: Members,
    /// Midnights of `predicted_on`.
    predicted_on: ColumnBuilder,
    /// Rows whose `predicted_on` is no day; that counts only when the row has no other fault.
    wrong_days: Vec<(u32, FieldError)>,
    wrong_days_budget: usize,
    last_day: Option<(String, Day)>,
    event_ids: Vec<(u32, Result<String, String>)>,
    /// Rows without content, found while checking.
    silent: Vec<usize>,
    /// True for rows that do not name the prediction that they judge, found while checking; empty when there are none.
    waits: Vec<bool>,
    notes: RowErrors,
    row_budget: Budget,
    field_budgets: Vec<Budget>,
    /// Number of rows for which there is room, with the present columns.
    roomy_rows: usize,
    /// Bytes held beside its rows while they are read.
    beside: usize,
    /// Refusal of a new column of a row, if there was no room for it.
    refused: Option<Refused>,
}

impl BatchBuilder {
    /// Creates an empty builder of events of `kind` that arrive at `now`.
    pub(crate) fn new(kind: Kind, now: Timestamp, reading: Reading) -> Self {
        let notes = RowErrors::new((!reading.import).then_some(MAX_LISTED_ERRORS));
        let fields = kind.sent_fields().iter().chain(reading.says_known.then_some(&KNOWN_AT));
        let fields: Vec<_> = fields.map(|field| ColumnBuilder::new(field.kind, field.rule)).collect();
        Self {
            kind,
            latest: now.plus_seconds(MAX_FUTURE_SECONDS).micros(),
            arrival: now.day(),
            wrong_days_budget: if reading.import { usize::MAX } else { MAX_LISTED_ERRORS },
            reading,
            numbers: Vec::new(),
            members: Members::new(kind),
            predicted_on: ColumnBuilder::new(FieldType::Time, Rule::Plain),
            wrong_days: Vec::new(),
            last_day: None,
            event_ids: Vec::new(),
            silent: Vec::new(),
            waits: Vec::new(),
            row_budget: notes.budget(),
            field_budgets: vec![notes.budget(); fields.len()],
            fields,
            notes,
            roomy_rows: 0,
            beside: 0,
            refused: None,
        }
    }

    /// Approximate bytes that it takes with `rows` rows: each column is filled up to the last of them.
    fn bytes(&self, rows: usize) -> usize {
        let columns = self.fields.iter().chain([&self.predicted_on]).chain(self.members.fillings());
        let columns: usize = columns.map(|column| column.bytes(rows)).sum();
        columns + rows * (size_of::<u64>() + size_of::<Day>())
    }

    /// Claims memory for `rows` rows in all, before any of them is there.
    ///
    /// # Errors
    /// Fails when that is more than a batch may take, or than is left.
    #[inline]
    pub(crate) fn make_room(&mut self, rows: usize) -> Result<(), Refused> {
        if rows <= self.roomy_rows { Ok(()) } else { self.claim(rows) }
    }

    /// Claims memory for `rows` rows even if there was room for as many: columns came, or texts.
    pub(crate) fn claim(&mut self, rows: usize) -> Result<(), Refused> {
        if self.reading.import {
            self.roomy_rows = usize::MAX;
            return Ok(());
        }
        let bytes = self.bytes(rows);
        if bytes > MAX_BATCH_BYTES {
            let message = format!(
                "its rows take more than the {} MiB of memory that a batch may take; send several",
                MAX_BATCH_BYTES >> 20
            );
            return Err(Refused::TooLarge(message));
        }
        let roomy = rows + ROOM_BYTES / (bytes / rows.max(1)).max(1);
        let bytes = self.bytes(roomy);
        self.reading.room.claim(bytes + self.beside, 2 * bytes)?;
        self.roomy_rows = roomy;
        Ok(())
    }

    /// Claims memory for this many bytes beside the rows, as long as these are read.
    pub(crate) fn hold_beside(&mut self, bytes: usize) -> Result<(), Refused> {
        if bytes <= self.beside {
            return Ok(());
        }
        self.beside = bytes;
        self.claim(self.rows())
    }

    /// Records that the body it is read from is released, and only its unpacked form is held.
    pub(crate) fn unpacked(&self) {
        if let Room::Claimed(memory) = &self.reading.room {
            memory.unpacked();
        }
    }

    /// Fails when there was no room for a new column of the last row.
    #[inline]
    pub(crate) fn check_room(&mut self) -> Result<(), Refused> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Number of its rows, without the unreadable ones.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.numbers.len()
    }

    /// Settings by which it reads values.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Adds the row at `number` in the request, and leaves `row` for [`Row::clear`].
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
        if !row.members.is_empty() {
            self.push_members(at, number, &row.members);
        }
    }

    /// Records an unreadable row.
    pub(crate) fn refuse_row(&mut self, number: u64, error: FieldError) {
        self.notes.note_unread(&mut self.row_budget, number, error);
    }

    /// Adds `rows` rows that will be filled by columns, numbered on from `first`.
    pub(crate) fn add_rows(&mut self, first: u64, rows: usize) {
        self.numbers.extend(first..first + rows as u64);
    }

    /// Sets a field of row `at`.
    #[inline]
    pub(crate) fn set_field(&mut self, field: usize, at: usize, value: &Scalar<'_>) {
        let value = self.reading.present(value);
        let loose_text = self.reading.loose_text;
        let done = self.fields[field].push_loose(at, value, &mut self.reading.times, loose_text);
        if let Err(message) = done {
            self.note_field(field, at, message);
        }
    }

    /// Records a fault of a field of row `at`, which the column has marked as wrong.
    #[cold]
    pub(crate) fn note_field(&mut self, field: usize, at: usize, message: String) {
        let name = self.spec(field).name;
        let error = || FieldError::new(name, message);
        self.notes.note(&mut self.field_budgets[field], (at, self.numbers[at]), 1 + field, error);
    }

    /// Specification of a field. The time at which an event was known comes behind the fields of the kind.
    fn spec(&self, field: usize) -> &'static Field {
        self.kind.sent_fields().get(field).unwrap_or(&KNOWN_AT)
    }

    /// Returns the column of a field, for a format that comes by column.
    pub(crate) fn field(&mut self, field: usize) -> &mut ColumnBuilder {
        &mut self.fields[field]
    }

    /// Sets the day of the prediction that row `at` judges.
    pub(crate) fn set_predicted_on(&mut self, at: usize, value: &Scalar<'_>) {
        let wrong = match self.reading.present(value) {
            Scalar::Null => return,
            Scalar::Text(text) => match self.day(text) {
                Ok(day) => return self.predicted_on.push_time(at, day.start().micros()),
                Err(message) => message,
            },
            _ => "should be a day such as 2013-06-01".to_owned(),
        };
        self.note_wrong_day(at, wrong);
    }

    /// Records a fault of the day of the prediction that row `at` judges.
    pub(crate) fn note_wrong_day(&mut self, at: usize, wrong: String) {
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
        let text: Cow<'_, str> = match self.reading.present(value) {
            Scalar::Null => return,
            Scalar::Text(text) => Cow::Borrowed(text),
            Scalar::Int(number) => Cow::Owned(number.to_string()),
            other => {
                let message = format!("should be a string, but is {}", other.is_called());
                return self.event_ids.push((at as u32, Err(message)));
            }
        };
        // With a second row all ids are wrong, whatever their values.
        let id =
            rules::check_event_id(&text).map(|()| if at == 0 { text.into_owned() } else { String::new() });
        self.event_ids.push((at as u32, id));
    }

    /// Sets a field of text in the rows from `from` on.
    pub(crate) fn extend_field<'a>(
        &mut self,
        field: usize,
        from: usize,
        texts: impl Iterator<Item = Option<&'a str>>,
    ) {
        let texts = texts.map(|text| text.filter(|text| !self.reading.is_absent(text)));
        for (at, message) in self.fields[field].extend_texts(from, texts) {
            self.note_field(field, at, message);
        }
    }

    /// Stage of members of families among the faults of a row: after the row itself and its fields.
    fn member_stage(&self) -> usize {
        1 + self.fields.len()
    }

    /// Stage of `event_id`.
    fn event_id_stage(&self) -> usize {
        self.member_stage() + 1
    }
}

/// Converts a text of a format whose cells are text to its column's type: a number if it is one. `None` when it is empty.
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

/// Error of a row that names its event although it does not come alone.
fn not_alone() -> FieldError {
    let message = "names a single event; send it alone, or give the whole batch an Idempotency-Key";
    FieldError::new(EVENT_ID, message)
}

impl BatchBuilder {
    /// Sets the values that every row has, given apart from the file.
    fn fill_set(&mut self) -> Result<(), Refused> {
        for (target, text) in std::mem::take(&mut self.reading.set) {
            let column = match &target {
                ColumnTarget::Member(family, name) => match self.member(name, (*family, name))? {
                    column if self.member_column(column).len() == 0 => column,
                    _ => {
                        let noun = self.kind.families()[*family].noun;
                        return Err(Refused::Whole(format!("the {noun} `{name}` {IS_SET}")));
                    }
                },
                _ => 0,
            };
            for at in 0..self.rows() {
                let whole = Scalar::Text(Cow::Borrowed(text.as_str()));
                match target {
                    ColumnTarget::Field(field) => {
                        let value = loose(&self.fields[field], &text).unwrap_or(whole);
                        self.set_field(field, at, &value);
                    }
                    ColumnTarget::PredictedOn => self.set_predicted_on(at, &whole),
                    ColumnTarget::EventId => self.set_event_id(at, &whole),
                    ColumnTarget::Member(..) => {
                        let value = loose(self.member_column(column), &text).unwrap_or(whole);
                        self.set_member(column, at, &value);
                    }
                }
            }
        }
        Ok(())
    }
}
