//! Rows become columns here, and nowhere else: every format passes the same checks.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use store::{
    Column, Columns, Day, Kind, Timestamp, Values,
    columns::Strings,
    event::{FieldType, TAG_PREFIX},
    id::check_name,
};
use web::RowProblem;

use crate::{
    batch::{Batch, Refused},
    limits::{
        MAX_BATCH_DAYS, MAX_BATCH_ROWS, MAX_BATCH_TAG_NAMES, MAX_FUTURE_SECONDS, MAX_KEY_BYTES,
        MAX_LISTED_ERRORS, MAX_NOTE_BYTES, MAX_TAGS, MAX_TEXT_BYTES,
    },
    row::{FieldError, Row, Scalar, Typed, typed},
};

/// The changes that a release may go through.
const ACTIONS: &[&str] = &["register", "promote", "rollback", "retire"];

/// A column being built.
struct Growing {
    values: Values,
    valid: Vec<bool>,
    nulls: usize,
}

impl Growing {
    fn new(kind: FieldType) -> Self {
        let values = match kind {
            FieldType::Time => Values::Time(Vec::new()),
            FieldType::Float => Values::Float(Vec::new()),
            FieldType::Text => Values::Text(Strings::default()),
        };
        Self { values, valid: Vec::new(), nulls: 0 }
    }

    fn push(&mut self, value: &Typed<'_>) {
        match (&mut self.values, value) {
            (Values::Time(values), Typed::Time(time)) => values.push(*time),
            (Values::Time(values), _) => values.push(0),
            (Values::Float(values), Typed::Float(number)) => values.push(*number),
            (Values::Float(values), _) => values.push(0.0),
            (Values::Text(values), Typed::Text(text)) => values.push(text),
            (Values::Text(values), _) => values.push(""),
            (Values::Coded(_), _) => unreachable!("columns are built as plain text"),
        }
        self.nulls += usize::from(*value == Typed::Null);
        self.valid.push(*value != Typed::Null);
    }

    fn finish(self, name: String) -> Column {
        let valid = (self.nulls > 0).then_some(self.valid);
        Column { name, values: self.values, valid }
    }
}

/// Collects rows of one kind into a [`Batch`].
pub(crate) struct Builder {
    kind: Kind,
    latest: i64,
    rows: usize,
    fields: Vec<Growing>,
    tags: BTreeMap<String, Growing>,
    numbers: Vec<u64>,
    days: Vec<Day>,
    has_too_many_tags: bool,
    distinct_days: BTreeSet<Day>,
    errors: Vec<RowProblem>,
    error_count: usize,
}

impl Builder {
    /// A builder for events of `kind` that arrive at `now`.
    pub(crate) fn new(kind: Kind, now: Timestamp) -> Self {
        Self {
            kind,
            latest: now.plus_seconds(MAX_FUTURE_SECONDS).micros(),
            rows: 0,
            fields: kind.fields().iter().map(|field| Growing::new(field.kind)).collect(),
            tags: BTreeMap::new(),
            numbers: Vec::new(),
            days: Vec::new(),
            has_too_many_tags: false,
            distinct_days: BTreeSet::new(),
            errors: Vec::new(),
            error_count: 0,
        }
    }

    /// Adds a row that stands at `number` in the request, counted from 1.
    pub(crate) fn push(&mut self, number: u64, mut row: Row<'_>) {
        let mut errors = std::mem::take(&mut row.errors);
        let fields = std::mem::take(&mut row.fields);
        let mut values = Vec::with_capacity(fields.len());
        for (field, value) in self.kind.fields().iter().zip(fields) {
            let checked = typed(field, value).and_then(|value| {
                if field.required && value == Typed::Null {
                    return Err(FieldError::new(field.name, "is missing"));
                }
                self.check(field.name, &value)?;
                Ok(value)
            });
            values.push(checked.unwrap_or_else(|error| {
                errors.push(error);
                Typed::Null
            }));
        }
        let tags = self.check_tags(row.tags, &mut errors);
        let day =
            if errors.is_empty() { self.check_row(&values, &row.predicted_on, &mut errors) } else { None };
        match day {
            // After an error nothing is kept any more: the batch is refused, only the errors matter.
            Some(day) if errors.is_empty() && self.error_count == 0 && !self.has_too_many_tags => {
                self.keep(number, day, &values, &tags);
            }
            _ if errors.is_empty() => {}
            _ => self.refuse(number, errors),
        }
    }

    /// Notes a row that could not be read at all.
    pub(crate) fn refuse_row(&mut self, number: u64, message: impl Into<String>) {
        self.refuse(number, vec![FieldError::of_row(message)]);
    }

    fn refuse(&mut self, number: u64, errors: Vec<FieldError>) {
        self.error_count += 1;
        for error in errors {
            if self.errors.len() < MAX_LISTED_ERRORS {
                self.errors.push(RowProblem { row: number, field: error.field, message: error.message });
            }
        }
    }

    fn keep(&mut self, number: u64, day: Day, values: &[Typed<'_>], tags: &[(String, Cow<'_, str>)]) {
        let new_tags = tags.iter().filter(|(name, _)| !self.tags.contains_key(name)).count();
        if self.tags.len() + new_tags > MAX_BATCH_TAG_NAMES {
            self.has_too_many_tags = true;
            return;
        }
        for (column, value) in self.fields.iter_mut().zip(values) {
            column.push(value);
        }
        for (name, _) in tags {
            if !self.tags.contains_key(name) {
                let mut column = Growing::new(FieldType::Text);
                (0..self.rows).for_each(|_| column.push(&Typed::Null));
                self.tags.insert(name.clone(), column);
            }
        }
        for (name, column) in &mut self.tags {
            let value = tags.iter().find(|(tag, _)| tag == name);
            column.push(&value.map_or(Typed::Null, |(_, value)| Typed::Text(Cow::Borrowed(value))));
        }
        self.numbers.push(number);
        self.days.push(day);
        self.distinct_days.insert(day);
        self.rows += 1;
    }

    /// Whether no row was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 && self.error_count == 0
    }

    /// Whether a batch of at most `rows` rows and `days` days should end here.
    pub(crate) fn is_full(&self, rows: usize, days: usize) -> bool {
        self.rows >= rows || self.distinct_days.len() >= days
    }

    /// The batch, or what is wrong with it.
    pub(crate) fn finish(self) -> Result<Batch, Refused> {
        if self.error_count > 0 {
            return Err(Refused::Rows { errors: self.errors, error_count: self.error_count });
        }
        if self.rows == 0 {
            return Err(Refused::Whole("there is no row in it".into()));
        }
        if self.rows > MAX_BATCH_ROWS {
            let message =
                format!("{} rows are more than the {MAX_BATCH_ROWS} of a batch; send several", self.rows);
            return Err(Refused::TooLarge(message));
        }
        if self.has_too_many_tags {
            let message = format!("there are more than the {MAX_BATCH_TAG_NAMES} different tags of a batch");
            return Err(Refused::Whole(message));
        }
        let days = self.distinct_days.len();
        if days > MAX_BATCH_DAYS {
            let message = format!("{days} days are more than the {MAX_BATCH_DAYS} of a batch; send several");
            return Err(Refused::Whole(message));
        }
        let names = self.kind.fields().iter().map(|field| (field.name.to_owned(), field.required));
        let fields =
            names.zip(self.fields).filter(|((_, required), column)| *required || column.nulls < self.rows);
        let mut columns: Vec<Column> = fields.map(|((name, _), column)| column.finish(name)).collect();
        columns
            .extend(self.tags.into_iter().map(|(name, column)| column.finish(format!("{TAG_PREFIX}{name}"))));
        Ok(Batch {
            kind: self.kind,
            columns: Columns { rows: self.rows, columns },
            days: self.days,
            numbers: self.numbers,
        })
    }

    fn check(&self, field: &str, value: &Typed<'_>) -> Result<(), FieldError> {
        let wrong = |message: String| Err(FieldError::new(field, message));
        match value {
            Typed::Null => Ok(()),
            Typed::Float(number) if !number.is_finite() => wrong("is not a finite number".into()),
            Typed::Float(number) if field == "score" && !(0.0..=1.0).contains(number) => wrong(format!(
                "is a probability from 0 to 1, but {number} was given (other numbers go into `value`)"
            )),
            Typed::Float(number) if field == "latency_ms" && *number < 0.0 => {
                wrong(format!("is how long it took, but {number} was given"))
            }
            Typed::Float(_) => Ok(()),
            Typed::Time(time) if *time > self.latest => wrong("is more than 24 hours in the future".into()),
            Typed::Time(time) if Timestamp::from_micros(*time).is_none() => {
                wrong("is outside of the years 1 to 9999".into())
            }
            Typed::Time(_) => Ok(()),
            Typed::Text(text) => check_text(field, text),
        }
    }

    fn check_tags<'a>(
        &self,
        tags: Vec<(Cow<'a, str>, Scalar<'a>)>,
        errors: &mut Vec<FieldError>,
    ) -> Vec<(String, Cow<'a, str>)> {
        if tags.len() > MAX_TAGS {
            errors.push(FieldError::new(
                "tags",
                format!("{} are more than the {MAX_TAGS} of an event", tags.len()),
            ));
            return Vec::new();
        }
        let mut kept: Vec<(String, Cow<'a, str>)> = Vec::with_capacity(tags.len());
        for (name, value) in tags {
            let field = format!("{TAG_PREFIX}{name}");
            if check_name(&name).is_err() {
                errors.push(FieldError::new(
                    &field,
                    "its name should be letters, digits, `.`, `_` or `-`, at most 128",
                ));
                continue;
            }
            let as_text = store::event::Field { name: "tags", kind: FieldType::Text, required: false };
            match typed(&as_text, value) {
                Ok(Typed::Text(text)) if text.len() <= MAX_TEXT_BYTES => {
                    match kept.iter().any(|(tag, _)| *tag == *name) {
                        true => errors.push(FieldError::new(&field, "is given twice")),
                        false => kept.push((name.into_owned(), text)),
                    }
                }
                Ok(Typed::Null) => {}
                Ok(_) => {
                    errors.push(FieldError::new(&field, format!("is longer than {MAX_TEXT_BYTES} bytes")))
                }
                Err(error) => errors.push(FieldError::new(&field, error.message)),
            }
        }
        kept
    }

    /// What holds between the fields of a row; returns the day that the event belongs to.
    fn check_row(
        &self,
        values: &[Typed<'_>],
        predicted_on: &Scalar<'_>,
        errors: &mut Vec<FieldError>,
    ) -> Option<Day> {
        let names = self.kind.fields().iter().map(|field| field.name);
        let value = |wanted: &str| names.clone().position(|name| name == wanted).map(|at| &values[at]);
        let is_null = |name: &str| value(name).is_none_or(|value| *value == Typed::Null);
        let day_of = |name: &str| match value(name) {
            Some(Typed::Time(micros)) => Timestamp::from_micros(*micros).map(Timestamp::day),
            _ => None,
        };
        match self.kind {
            Kind::Predictions if is_null("score") && is_null("label") && is_null("value") => {
                errors.push(FieldError::of_row("a prediction needs a score, a label or a value"));
            }
            Kind::Outcomes if is_null("label") && is_null("value") => {
                errors.push(FieldError::of_row("an outcome needs a label or a value"));
            }
            _ => {}
        }
        if self.kind != Kind::Outcomes {
            return day_of(self.kind.time_field());
        }
        match judged_day(day_of("predicted_at"), predicted_on) {
            Ok(day) if day.start().micros() > self.latest => {
                errors.push(FieldError::new("predicted_on", "is more than 24 hours in the future"));
                None
            }
            Ok(day) => Some(day),
            Err(error) => {
                errors.push(error);
                None
            }
        }
    }
}

fn check_text(field: &str, text: &str) -> Result<(), FieldError> {
    let limit = match field {
        "key" => MAX_KEY_BYTES,
        "note" => MAX_NOTE_BYTES,
        _ => MAX_TEXT_BYTES,
    };
    let wrong = |message: String| Err(FieldError::new(field, message));
    if text.len() > limit {
        return wrong(format!("is {} bytes long, more than {limit}", text.len()));
    }
    match field {
        "note" => Ok(()),
        "release" | "model" | "configuration" | "environment" => match check_name(text) {
            Ok(()) => Ok(()),
            Err(error) => wrong(error.to_string()),
        },
        "action" if !ACTIONS.contains(&text) => wrong(format!("`{text}` is none of {}", ACTIONS.join(", "))),
        _ if text.is_empty() => wrong("is empty".into()),
        _ => Ok(()),
    }
}

/// The day of the prediction that an outcome judges.
fn judged_day(predicted_at: Option<Day>, predicted_on: &Scalar<'_>) -> Result<Day, FieldError> {
    let given = match predicted_on {
        Scalar::Null => None,
        Scalar::Text(text) => match text.parse::<Day>() {
            Ok(day) => Some(day),
            Err(error) => return Err(FieldError::new("predicted_on", error.to_string())),
        },
        Scalar::Time(micros) => Timestamp::from_micros(*micros).map(Timestamp::day),
        _ => return Err(FieldError::new("predicted_on", "should be a day such as 2013-06-01")),
    };
    match (predicted_at, given) {
        (Some(at), Some(on)) if at != on => {
            Err(FieldError::new("predicted_on", format!("is {on}, but `predicted_at` is on {at} (UTC)")))
        }
        (Some(day), _) | (None, Some(day)) => Ok(day),
        (None, None) => Err(FieldError::of_row(
            "an outcome needs `predicted_at` or `predicted_on`, to name the prediction that it judges",
        )),
    }
}
