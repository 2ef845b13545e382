//! Types of the columns of answers.

use event::fields::FieldType;
use fold::metric::Getter;

/// Type of a column. Only a day is never null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// UTC days.
    Day,
    /// Whole numbers that are not negative.
    Count,
    /// The values of a field of an event.
    Field(FieldType),
}

impl From<Getter> for ColumnType {
    fn from(getter: Getter) -> Self {
        match getter {
            Getter::Text(_) => Self::Field(FieldType::Text),
            Getter::Count(_) => Self::Count,
            Getter::Number(_) => Self::Field(FieldType::Float),
        }
    }
}
