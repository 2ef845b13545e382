//! The columns that an answer may have, as the document of the API tells them.

use event::{
    Kind,
    fields::{Family, FieldType},
};
use fold::figure::Getter;

use crate::{
    evaluations::evaluation_columns,
    events::{APPENDED_AT, DAY},
    joined::OUTCOME_COLUMNS,
    request::What,
    rollups,
};

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

impl What {
    /// Its columns in their order; those of tags stand among them where it has tags.
    pub(crate) fn columns(self) -> Vec<(&'static str, ColumnType)> {
        let fields =
            |kind: Kind| kind.fields().iter().map(|field| (field.name, ColumnType::Field(field.kind)));
        let mut columns = vec![(DAY, ColumnType::Day)];
        match self {
            What::Events(kind) => {
                columns.extend(fields(kind));
                columns.push((APPENDED_AT, ColumnType::Field(FieldType::Time)));
            }
            What::Joined => {
                columns.extend(fields(Kind::Predictions));
                columns.extend(OUTCOME_COLUMNS.map(|(name, _, kind)| (name, ColumnType::Field(kind))));
            }
            What::Rollups => {
                columns.extend(rollups::columns().map(|column| (column.name.as_str(), column.kind)))
            }
            What::Evaluations => columns.extend(evaluation_columns()),
        }
        columns
    }

    /// The families of columns whose names the client chose.
    pub(crate) fn families(self) -> &'static [Family] {
        match self {
            What::Events(kind) => kind.families(),
            What::Joined => Kind::Predictions.families(),
            // Broken down by a tag, rollups have a column for it.
            What::Rollups => Kind::Metrics.families(),
            What::Evaluations => &[],
        }
    }

    /// Whether its rows belong to releases.
    pub(crate) fn has_releases(self) -> bool {
        self != What::Events(Kind::Outcomes)
    }

    /// Whether it can be asked for as it was known at another time.
    pub(crate) fn has_history(self) -> bool {
        self != What::Rollups
    }
}
