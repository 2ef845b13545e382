//! Columnar JSON: an object of arrays of equal length, one for each field and member of a family.

use std::borrow::Cow;

use super::{
    collect::too_many_rows,
    token::{closing_quote, scalar, skip_white, special},
};
use crate::{
    batch::Refused,
    builder::{
        BatchBuilder,
        names::{ColumnTarget, IS_SET, Names, Target},
        row::Scalar,
    },
    limits::{MAX_BATCH_ROWS, MAX_FIELDS},
};

/// Name of a value that is no JSON number.
const NOT_FINITE: &str = "NaN or infinite, which is no JSON (send null)";

/// Number of rows of a column for which room is made at a time.
const ROOM_ROWS: usize = 1_024;

/// Place of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Field(usize),
    PredictedOn,
    EventId,
    Member(usize),
}

/// Reads the object that spans all of `text` into an empty builder.
///
/// # Errors
/// Fails when it is no object of arrays, or has an unknown column, or columns of different lengths.
pub(crate) fn read(names: &Names, text: &str, builder: &mut BatchBuilder) -> Result<(), Refused> {
    let mut reader = Columnar { text, at: 0, columns: Vec::new(), builder };
    reader.skip_white();
    reader.object(|reader, name| match names.find(&name) {
        None => {
            let unknown = names.unknown(&name, names.nearest(&name));
            Err(Refused::Whole(format!("the column `{name}` {unknown}")))
        }
        Some(Target::Ignored) => reader.skip(),
        Some(Target::Set) => Err(Refused::Whole(format!("the column `{name}` {IS_SET}"))),
        Some(Target::Family(family)) if reader.peek() == Some(b'{') => {
            reader.object(|reader, member| reader.member(&format!("{name}.{member}"), (family, &member)))
        }
        Some(Target::Family(_)) => Err(reader.broken(&format!("`{name}` should be an object of arrays"))),
        Some(Target::Field(field)) => reader.column(&name, Place::Field(field)),
        Some(Target::PredictedOn) => reader.column(&name, Place::PredictedOn),
        Some(Target::EventId) => reader.column(&name, Place::EventId),
        Some(Target::Member(family, skipped)) => reader.member(&name, (family, &name[skipped..])),
        Some(Target::Asked(at)) => {
            // One array is read once for each of its targets.
            let begin = reader.at;
            names.asked[at].targets.iter().try_for_each(|target| {
                reader.at = begin;
                match target {
                    ColumnTarget::Field(field) => reader.column(&name, Place::Field(*field)),
                    ColumnTarget::PredictedOn => reader.column(&name, Place::PredictedOn),
                    ColumnTarget::EventId => reader.column(&name, Place::EventId),
                    ColumnTarget::Member(family, member) => reader.member(&name, (*family, member)),
                }
            })
        }
    })?;
    reader.skip_white();
    if reader.at < text.len() {
        return Err(reader.broken("something comes after its end"));
    }
    reader.check_required(names)?;
    match names.lacking().into_values().next() {
        Some(lacking) => Err(Refused::Whole(lacking)),
        None => Ok(()),
    }
}

struct Columnar<'a, 'd> {
    text: &'a str,
    at: usize,
    /// Columns: the name, the place and the number of values of each.
    columns: Vec<(String, Place, usize)>,
    builder: &'d mut BatchBuilder,
}

impl Columnar<'_, '_> {
    /// Checks that an object without rows has the columns that every event has, as any other. (For files the options decide.)
    fn check_required(&self, names: &Names) -> Result<(), Refused> {
        if self.builder.rows() > 0 || self.builder.reading().import {
            return Ok(());
        }
        let mut required = names.kind.sent_fields().iter().enumerate().filter(|(_, field)| field.is_required);
        let is_there = |at: usize| self.columns.iter().any(|(_, place, _)| *place == Place::Field(at));
        match required.find(|(at, _)| !is_there(*at)) {
            Some((_, field)) => Err(Refused::Whole(format!(
                "the column `{}` is missing; an array without objects is []",
                field.name
            ))),
            None => Ok(()),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_white(&mut self) {
        self.at = skip_white(self.text.as_bytes(), self.at);
    }

    fn broken(&self, what: &str) -> Refused {
        Refused::Whole(format!("the body is not an object of arrays: at byte {}: {what}", self.at + 1))
    }

    fn expect(&mut self, byte: u8) -> Result<(), Refused> {
        if self.peek() != Some(byte) {
            return Err(self.broken(&format!("there should be `{}`", char::from(byte))));
        }
        self.at += 1;
        self.skip_white();
        Ok(())
    }

    /// Returns whether another member or element follows; consumes the comma, or the closing bracket.
    #[inline]
    fn goes_on(&mut self, close: u8) -> Result<bool, Refused> {
        if self.peek() != Some(b',') {
            self.skip_white();
        }
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_white();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.broken(&format!("there should be `,` or `{}`", char::from(close)))),
        }
    }

    /// Reads an object; `member` reads the value of each name.
    fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, String) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        for _ in 0..MAX_FIELDS {
            let name = self.name()?;
            self.skip_white();
            self.expect(b':')?;
            member(self, name)?;
            if !self.goes_on(b'}')? {
                return Ok(());
            }
        }
        Err(self.broken(&format!("there are more than {MAX_FIELDS} columns")))
    }

    fn name(&mut self) -> Result<String, Refused> {
        if self.peek() != Some(b'"') {
            return Err(self.broken("there should be the name of a column in quotes"));
        }
        match closing_quote(self.text.as_bytes(), self.at + 1) {
            Some(end) => {
                let name = self.text[self.at + 1..end].to_owned();
                self.at = end + 1;
                Ok(name)
            }
            None => match self.unusual()? {
                Scalar::Text(name) => Ok(name.into_owned()),
                _ => Err(self.broken("there should be the name of a column")),
            },
        }
    }

    /// Reads a value that the fast path does not recognize.
    #[cold]
    fn unusual(&mut self) -> Result<Scalar<'static>, Refused> {
        let mut values = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<Scalar<'_>>();
        match values.next() {
            Some(Ok(value)) => {
                let value = match value {
                    Scalar::Text(text) => Scalar::Text(text.into_owned().into()),
                    Scalar::Null => Scalar::Null,
                    Scalar::Bool(truth) => Scalar::Bool(truth),
                    Scalar::Int(number) => Scalar::Int(number),
                    Scalar::Float(number) => Scalar::Float(number),
                    Scalar::Other(name) => Scalar::Other(name),
                };
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) => Err(self.broken(&error.to_string())),
            None => Err(self.broken("it ends too early")),
        }
    }

    /// Skips a value of any kind.
    fn skip(&mut self) -> Result<(), Refused> {
        let mut values =
            serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<serde::de::IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                self.at += values.byte_offset();
                Ok(())
            }
            Some(Err(error)) => Err(self.broken(&error.to_string())),
            None => Err(self.broken("it ends too early")),
        }
    }

    fn member(&mut self, name: &str, (family, member): (usize, &str)) -> Result<(), Refused> {
        let column = self.builder.member(name, (family, member))?;
        self.column(name, Place::Member(column))
    }

    fn column(&mut self, name: &str, place: Place) -> Result<(), Refused> {
        if self.columns.iter().any(|(_, known, _)| *known == place) {
            return Err(Refused::Whole(format!("the column `{name}` is given twice")));
        }
        if self.peek() != Some(b'[') {
            // An object without arrays is usually one event.
            let hint = "an object a line is NDJSON: a file in .ndjson, or application/x-ndjson";
            return Err(self.broken(&format!("the column `{name}` should be an array; {hint}")));
        }
        self.at += 1;
        self.skip_white();
        let mut rows = 0;
        if self.peek() == Some(b']') {
            self.at += 1;
        } else {
            loop {
                if rows >= MAX_BATCH_ROWS {
                    return Err(too_many_rows());
                }
                if rows.is_multiple_of(ROOM_ROWS) {
                    self.builder.claim(self.builder.rows().max(rows + ROOM_ROWS))?;
                }
                if self.columns.is_empty() {
                    self.builder.add_rows(rows as u64 + 1, 1);
                } else if rows >= self.builder.rows() {
                    rows = self.count_on(rows)?;
                    break;
                }
                self.value(place, rows)?;
                rows += 1;
                if !self.goes_on(b']')? {
                    break;
                }
            }
        }
        match self.columns.first() {
            Some((first, _, expected)) if *expected != rows => Err(Refused::Whole(format!(
                "the column `{name}` has {rows} values, but `{first}` has {expected}"
            ))),
            _ => {
                self.columns.push((name.to_owned(), place, rows));
                Ok(())
            }
        }
    }

    #[inline]
    fn value(&mut self, place: Place, row: usize) -> Result<(), Refused> {
        let value = match scalar(self.text, self.at) {
            Some((Scalar::Text(Cow::Borrowed(text)), end)) => {
                self.at = end;
                match place {
                    Place::Field(field) if self.builder.field(field).is_text() => {
                        self.builder.extend_field(field, row, std::iter::once(Some(text)));
                        return Ok(());
                    }
                    Place::Member(column) if self.builder.member_column(column).is_text() => {
                        self.builder.extend_member(column, row, std::iter::once(Some(text)));
                        return Ok(());
                    }
                    _ => Scalar::Text(Cow::Borrowed(text)),
                }
            }
            Some((value, end)) => {
                self.at = end;
                value
            }
            None => match special(&self.text.as_bytes()[self.at..]) {
                Some(token) => {
                    self.at += token.len();
                    Scalar::Other(NOT_FINITE)
                }
                None => self.unusual()?,
            },
        };
        match (place, &value) {
            (_, Scalar::Null) => {}
            (Place::Field(field), value) => self.builder.set_field(field, row, value),
            (Place::PredictedOn, value) => self.builder.set_predicted_on(row, value),
            (Place::EventId, value) => self.builder.set_event_id(row, value),
            (Place::Member(column), value) => self.builder.set_member(column, row, value),
        }
        Ok(())
    }

    /// Counts the values of a column that is longer than the first one, to report its length.
    fn count_on(&mut self, mut rows: usize) -> Result<usize, Refused> {
        loop {
            self.unusual()?;
            rows += 1;
            if !self.goes_on(b']')? || rows > MAX_BATCH_ROWS {
                return Ok(rows);
            }
        }
    }
}
