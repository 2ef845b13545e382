//! Row of a request on its way into columns, from any row format.

use std::borrow::Cow;

use event::Kind;

/// Single value as a format delivers it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    /// Value that no field takes, by its name in messages: `a list`.
    Other(&'static str),
}

impl Scalar<'_> {
    /// Name of its type, for an error.
    pub(crate) fn is_called(&self) -> &'static str {
        match self {
            Scalar::Null => "null",
            Scalar::Bool(_) => "a boolean",
            Scalar::Int(_) | Scalar::Float(_) => "a number",
            Scalar::Text(_) => "a string",
            Scalar::Other(name) => name,
        }
    }
}

/// Fault of a field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) field: Option<String>,
    pub(crate) message: String,
}

impl FieldError {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: Some(field.to_owned()), message: message.into() }
    }

    pub(crate) fn of_row(message: impl Into<String>) -> Self {
        Self { field: None, message: message.into() }
    }
}

/// Member of a family in a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member<'a> {
    /// Index of its family in the families of the kind.
    pub(crate) family: usize,
    pub(crate) name: Cow<'a, str>,
    pub(crate) value: Scalar<'a>,
}

/// Row: a value for each field of the kind, in their order, and members of families. One row is reused, so that a row costs no
/// allocation.
#[derive(Debug, PartialEq)]
pub(crate) struct Row<'a> {
    pub(crate) fields: Vec<Scalar<'a>>,
    /// UTC day of the prediction that an outcome judges.
    pub(crate) predicted_on: Scalar<'a>,
    pub(crate) event_id: Scalar<'a>,
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) errors: Vec<FieldError>,
}

fn empty_member<'a>() -> Member<'a> {
    Member { family: 0, name: Cow::Borrowed(""), value: Scalar::Null }
}

impl Row<'_> {
    /// Returns an empty row in the same memory, for values of another lifetime.
    pub(crate) fn recycle<'b>(mut self) -> Row<'b> {
        let fields = self.fields.len();
        self.clear();
        self.fields.clear();
        // Collecting nulls in place keeps the memory.
        let mut row = Row {
            fields: self.fields.into_iter().map(|_| Scalar::Null).collect(),
            predicted_on: Scalar::Null,
            event_id: Scalar::Null,
            members: self.members.into_iter().map(|_| empty_member()).collect(),
            errors: self.errors,
        };
        row.fields.resize(fields, Scalar::Null);
        row
    }

    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            // The last field is the time at which it was known.
            fields: vec![Scalar::Null; kind.sent_fields().len() + 1],
            predicted_on: Scalar::Null,
            event_id: Scalar::Null,
            members: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Empties it for the next row.
    pub(crate) fn clear(&mut self) {
        self.fields.iter_mut().for_each(|field| *field = Scalar::Null);
        self.predicted_on = Scalar::Null;
        self.event_id = Scalar::Null;
        self.members.clear();
        self.errors.clear();
    }
}
