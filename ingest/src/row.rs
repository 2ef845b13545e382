//! One row of a request on its way into columns, from whatever format it came in.

use std::borrow::Cow;

use store::{
    Kind, Timestamp,
    event::{Field, FieldType, TAG_PREFIX},
};

/// A single value as a format delivers it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    /// Microseconds since 1970, from a format that has times.
    Time(i64),
    /// Something that no field takes, by what it is called: `a list`.
    Other(&'static str),
}

impl Scalar<'_> {
    fn is_called(&self) -> &'static str {
        match self {
            Scalar::Null => "null",
            Scalar::Bool(_) => "a boolean",
            Scalar::Int(_) | Scalar::Float(_) => "a number",
            Scalar::Text(_) => "a string",
            Scalar::Time(_) => "a time",
            Scalar::Other(name) => name,
        }
    }
}

/// A value of the type that its field has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typed<'a> {
    Null,
    Time(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

/// What is wrong with a field of a row.
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

/// A row: a value for each field of the kind, in their order, and the tags.
pub(crate) struct Row<'a> {
    pub(crate) fields: Vec<Scalar<'a>>,
    /// The UTC day that an outcome's prediction was made on.
    pub(crate) predicted_on: Scalar<'a>,
    pub(crate) tags: Vec<(Cow<'a, str>, Scalar<'a>)>,
    pub(crate) errors: Vec<FieldError>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            fields: vec![Scalar::Null; kind.fields().len()],
            predicted_on: Scalar::Null,
            tags: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Sets the field `name`, or the tag when it is called `tag.NAME`; an unknown one becomes an error
    /// of the row.
    pub(crate) fn set(&mut self, kind: Kind, name: &str, value: Scalar<'a>) {
        if let Some(at) = kind.fields().iter().position(|field| field.name == name) {
            self.fields[at] = value;
        } else if kind == Kind::Outcomes && name == PREDICTED_ON {
            self.predicted_on = value;
        } else if let Some(tag) = name.strip_prefix(TAG_PREFIX).filter(|_| kind.has_tags()) {
            self.tags.push((Cow::Owned(tag.to_owned()), value));
        } else {
            self.errors.push(FieldError::new(name, unknown_field(kind)));
        }
    }
}

/// The field by which an outcome names the day of its prediction. It is not stored: it says in which
/// log the outcome is.
const PREDICTED_ON: &str = "predicted_on";

fn unknown_field(kind: Kind) -> String {
    let mut names: Vec<&str> = kind.fields().iter().map(|field| field.name).collect();
    if kind == Kind::Outcomes {
        names.push(PREDICTED_ON);
    }
    if kind.has_tags() {
        names.push("tags (or tag.NAME)");
    }
    format!("is not known; {kind} have {}", names.join(", "))
}

/// The value as its field wants it.
pub(crate) fn typed<'a>(field: &Field, value: Scalar<'a>) -> Result<Typed<'a>, FieldError> {
    let wrong = |wanted: &str, found: &Scalar<'_>| {
        FieldError::new(field.name, format!("should be {wanted}, but is {}", found.is_called()))
    };
    Ok(match (field.kind, value) {
        (_, Scalar::Null) => Typed::Null,
        (FieldType::Text, Scalar::Text(text)) => Typed::Text(text),
        (FieldType::Text, Scalar::Int(number)) => Typed::Text(Cow::Owned(number.to_string())),
        (FieldType::Text, Scalar::Bool(truth)) => {
            Typed::Text(Cow::Borrowed(if truth { "true" } else { "false" }))
        }
        (FieldType::Text, other) => return Err(wrong("a string", &other)),
        (FieldType::Float, Scalar::Float(number)) => Typed::Float(number),
        (FieldType::Float, Scalar::Int(number)) => Typed::Float(number as f64),
        (FieldType::Float, other) => return Err(wrong("a number", &other)),
        (FieldType::Time, Scalar::Time(micros)) => Typed::Time(micros),
        (FieldType::Time, Scalar::Text(text)) => match Timestamp::parse(&text) {
            Ok(time) => Typed::Time(time.micros()),
            Err(error) => return Err(FieldError::new(field.name, error.to_string())),
        },
        (FieldType::Time, other) => return Err(wrong("a time such as 2013-06-01T04:30:00Z", &other)),
    })
}
