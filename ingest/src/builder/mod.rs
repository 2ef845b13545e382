//! A batch builder: the events of a request on their way into columns. Row formats push rows, column formats
//! fill whole columns; [`check`] looks at all of them in the same way, a column at a time.

pub(crate) mod check;
pub(crate) mod column_builder;
mod dictionary;
mod members;
pub(crate) mod names;
mod relations;
pub(crate) mod row;
mod row_errors;
pub(crate) mod rules;
mod set;
pub(crate) mod times;

use std::borrow::Cow;

use event::{
    Day, Kind, Timestamp,
    fields::{Field, FieldType, KNOWN_AT, Rule},
};

use self::{
    column_builder::ColumnBuilder,
    members::Members,
    names::{ColumnTarget, EVENT_ID, PREDICTED_ON},
    row::{FieldError, Row, Scalar},
    row_errors::{Budget, RowErrors},
    times::TimeReader,
};
use crate::{
    batch::Refused,
    gate::Memory,
    limits::{MAX_BATCH_BYTES, MAX_FUTURE_SECONDS, MAX_LISTED_ERRORS},
};

/// The bytes of rows for which room is made ahead, so that few rows need a claim.
const ROOM_BYTES: usize = 64 * 1024;

/// The memory that the rows of a batch may take, besides the most of any batch.
#[derive(Clone, Debug, Default)]
pub(crate) enum Room {
    #[default]
    Any,
    /// So many bytes.
    Bytes(usize),
    /// The memory that a request claims of that of all.
    Claimed(Memory),
}

impl Room {
    /// Claims so many bytes while rows are read, and so many once they are.
    fn claim(&self, reading: usize, read: usize) -> Result<(), Refused> {
        match self {
            Room::Claimed(memory) => memory.claim(reading, read),
            Room::Bytes(most) if reading.max(read) > *most => Err(Refused::NoRoom),
            Room::Any | Room::Bytes(_) => Ok(()),
        }
    }
}

/// How a batch builder reads its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) room: Room,
    pub(crate) times: TimeReader,
    /// Text may hold numbers, and empty text is null: a format whose cells are text, or may be.
    pub(crate) loose_text: bool,
    /// All bad rows are handed out and the good ones kept; no event has an id of its own.
    pub(crate) import: bool,
    /// Every row says when it was known.
    pub(crate) says_known: bool,
    /// What every row has, besides what it says itself.
    pub(crate) set: Vec<(ColumnTarget, String)>,
    /// Texts that stand for nothing.
    pub(crate) null: Vec<String>,
}

impl Reading {
    /// Whether a text stands for nothing.
    #[inline]
    pub(crate) fn is_absent(&self, text: &str) -> bool {
        (self.loose_text && text.is_empty()) || self.null.iter().any(|null| null == text)
    }

    /// A value, or nothing in the place of a text that stands for it.
    #[inline]
    fn present<'v, 'a>(&self, value: &'v Scalar<'a>) -> &'v Scalar<'a> {
        match value {
            Scalar::Text(text) if self.is_absent(text) => &Scalar::Null,
            value => value,
        }
    }
}

/// The events of a request so far.
#[derive(Clone, Debug)]
pub(crate) struct BatchBuilder {
    kind: Kind,
    latest: i64,
    /// The day on which the events arrive.
    arrival: Day,
    reading: Reading,
    /// The number of each row in the request.
    numbers: Vec<u64>,
    fields: Vec<ColumnBuilder>,
    members: Members,
    /// The midnights of `predicted_on`.
    predicted_on: ColumnBuilder,
    /// Rows whose `predicted_on` is no day; that counts only when nothing else is wrong with the row.
    wrong_days: Vec<(u32, FieldError)>,
    wrong_days_budget: usize,
    last_day: Option<(String, Day)>,
    event_ids: Vec<(u32, Result<String, String>)>,
    /// Rows that tell nothing, found while checking.
    silent: Vec<usize>,
    /// Rows that do not say which prediction they judge, found while checking; empty where there are none.
    waits: Vec<bool>,
    notes: RowErrors,
    row_budget: Budget,
    field_budgets: Vec<Budget>,
    /// The number of rows for which there is room, with the columns that there are.
    roomy_rows: usize,
    /// The bytes that are held beside its rows while they are read.
    beside: usize,
    /// The refusal of a column that a row brings, if there was no room for it.
    refused: Option<Refused>,
}

impl BatchBuilder {
    /// An empty builder of events of `kind` that arrive at `now`.
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

    /// About how many bytes it takes once it has `rows` rows: each column is filled up to the last of them.
    fn bytes(&self, rows: usize) -> usize {
        let columns = self.fields.iter().chain([&self.predicted_on]).chain(self.members.fillings());
        let columns: usize = columns.map(|column| column.bytes(rows)).sum();
        columns + rows * (size_of::<u64>() + size_of::<Day>())
    }

    /// Makes sure that there is memory for `rows` rows in all, before any of them is there.
    ///
    /// # Errors
    /// When that is more than a batch may take, or than is left.
    #[inline]
    pub(crate) fn make_room(&mut self, rows: usize) -> Result<(), Refused> {
        if rows <= self.roomy_rows { Ok(()) } else { self.claim(rows) }
    }

    /// The same, also where there was room for so many rows: columns came, or texts.
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

    /// Makes sure that there is memory for so many bytes beside the rows, as long as these are read.
    pub(crate) fn hold_beside(&mut self, bytes: usize) -> Result<(), Refused> {
        if bytes <= self.beside {
            return Ok(());
        }
        self.beside = bytes;
        self.claim(self.rows())
    }

    /// Notes that the body it is read from is held no longer, but what that was unpacked to.
    pub(crate) fn unpacked(&self) {
        if let Room::Claimed(memory) = &self.reading.room {
            memory.unpacked();
        }
    }

    /// Fails when there was no room for a column that the last row brings.
    #[inline]
    pub(crate) fn check_room(&mut self) -> Result<(), Refused> {
        self.refused.take().map_or(Ok(()), Err)
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
        if !row.members.is_empty() {
            self.push_members(at, number, &row.members);
        }
    }

    /// Notes a row that could not be read at all.
    pub(crate) fn refuse_row(&mut self, number: u64, error: FieldError) {
        self.notes.note_unread(&mut self.row_budget, number, error);
    }

    /// Begins `rows` rows that will be filled by columns, numbered on from `first`.
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

    /// Notes what is wrong with a field of row `at`, which the column knows to be wrong.
    #[cold]
    pub(crate) fn note_field(&mut self, field: usize, at: usize, message: String) {
        let name = self.spec(field).name;
        let error = || FieldError::new(name, message);
        self.notes.note(&mut self.field_budgets[field], (at, self.numbers[at]), 1 + field, error);
    }

    /// What a field is. Behind those of the kind comes when an event was known.
    fn spec(&self, field: usize) -> &'static Field {
        self.kind.sent_fields().get(field).unwrap_or(&KNOWN_AT)
    }

    /// The column of a field, for a format that comes by column.
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

    /// Notes what is wrong with the day of the prediction that row `at` judges.
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
        // With a second row all of them are wrong, whatever they say.
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

    /// Where members of families come among what is wrong with a row: after the row itself and its fields.
    fn member_stage(&self) -> usize {
        1 + self.fields.len()
    }

    /// Where `event_id` comes.
    fn event_id_stage(&self) -> usize {
        self.member_stage() + 1
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
