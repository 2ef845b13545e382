//! What columns of answers hold.

use event::fields::FieldType;
use fold::figure::Getter;

/// What a column holds. Only a day is never null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// UTC days.
    Day,
    /// Whole numbers that are not negative.
    Count,
    /// What a field of an event may hold.
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
