//! Types of expressions.

use crate::fields::FieldType;

/// The result, or an error message about the expression.
pub(super) type Made<T> = Result<T, String>;

/// Type of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Type {
    Number,
    Text,
    Truth,
    Time,
    /// Type of null, which fits any type.
    Any,
}

impl Type {
    /// Returns its name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Truth => "true or false",
            Self::Time => "an instant",
            Self::Any => "null",
        }
    }

    /// Returns the type of a field.
    pub(super) fn of(kind: FieldType) -> Self {
        match kind {
            FieldType::Float => Self::Number,
            FieldType::Text => Self::Text,
            FieldType::Time => Self::Time,
        }
    }

    /// Returns the common type of both, if any.
    pub(super) fn with(self, other: Self) -> Made<Self> {
        match (self, other) {
            (one, Self::Any) => Ok(one),
            (Self::Any, other) => Ok(other),
            (one, other) if one == other => Ok(one),
            (one, other) => Err(format!("{} and {} are not of one type", one.name(), other.name())),
        }
    }

    /// Checks that it fits this type.
    pub(super) fn must_be(self, wanted: Self) -> Made<()> {
        match self.with(wanted) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{} stands where {} is needed", self.name(), wanted.name())),
        }
    }
}
