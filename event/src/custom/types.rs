//! The types of expressions.

use crate::fields::FieldType;

/// What is made, or what is wrong with the expression.
pub(super) type Made<T> = Result<T, String>;

/// What an expression is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Type {
    Number,
    Text,
    Truth,
    Time,
    /// That of null, which is of any type.
    Any,
}

impl Type {
    /// How messages call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Truth => "true or false",
            Self::Time => "an instant",
            Self::Any => "null",
        }
    }

    /// That of a field.
    pub(super) fn of(kind: FieldType) -> Self {
        match kind {
            FieldType::Float => Self::Number,
            FieldType::Text => Self::Text,
            FieldType::Time => Self::Time,
        }
    }

    /// What both are, if they can be the same.
    pub(super) fn with(self, other: Self) -> Made<Self> {
        match (self, other) {
            (one, Self::Any) => Ok(one),
            (Self::Any, other) => Ok(other),
            (one, other) if one == other => Ok(one),
            (one, other) => Err(format!("{} and {} are not of one type", one.name(), other.name())),
        }
    }

    /// Checks that it is this type.
    pub(super) fn must_be(self, wanted: Self) -> Made<()> {
        match self.with(wanted) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{} stands where {} is needed", self.name(), wanted.name())),
        }
    }
}
