//! The columns that an answer may have, as listed in the document of the API.

use event::{
    Kind, Result,
    custom::{CUSTOM_METRICS, OUTCOME_COLUMNS},
    fields::{Family, FieldType},
};
use fold::metric::Getter;

use crate::{
    breakdown, classes, drift, estimates,
    evaluation_rows::{HOUR, evaluation_columns, maturity_columns},
    events::{APPENDED_AT, DAY, check_known},
    head_to_head,
    maturity::NOWCAST,
    request::Dataset,
    rollups, slices,
};

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

const TEXT: ColumnType = ColumnType::Field(FieldType::Text);

impl Dataset {
    /// Returns its columns in their order; those of tags stand among them if it has tags.
    pub(crate) fn columns(self) -> Vec<(&'static str, ColumnType)> {
        let fields =
            |kind: Kind| kind.fields().iter().map(|field| (field.name, ColumnType::Field(field.kind)));
        let mut columns = vec![(DAY, ColumnType::Day)];
        match self {
            Dataset::Events(kind) => {
                columns.extend(fields(kind));
                columns.push((APPENDED_AT, ColumnType::Field(FieldType::Time)));
            }
            Dataset::Joined => {
                let lasting = Kind::Predictions.lasting_fields();
                columns.extend(lasting.map(|field| (field.name, ColumnType::Field(field.kind))));
                columns.extend(OUTCOME_COLUMNS.map(|(name, _, kind)| (name, ColumnType::Field(kind))));
            }
            Dataset::Rollups => {
                columns.extend(rollups::columns().map(|column| (column.name.as_str(), column.kind)))
            }
            Dataset::Evaluations => columns.extend(evaluation_columns()),
            Dataset::Classes | Dataset::Confusion => {
                columns.push((HOUR, ColumnType::Field(FieldType::Time)));
                columns.extend([breakdown::MODEL, breakdown::RELEASE].map(|name| (name, TEXT)));
                columns.extend(classes::columns(self));
            }
            Dataset::Maturity => columns.extend(maturity_columns()),
            Dataset::Estimates => columns.extend(estimates::columns()),
            Dataset::Slices => columns.extend(slices::columns()),
            Dataset::Drift => columns.extend(drift::columns()),
            Dataset::HeadToHead | Dataset::Challengers => columns.extend(head_to_head::columns()),
        }
        columns
    }

    /// Returns its columns for a request without a breakdown.
    pub(crate) fn columns_by_release(self) -> Vec<(&'static str, ColumnType)> {
        match self {
            Dataset::Rollups => {
                let columns = rollups::columns_by_release().map(|column| (column.name.as_str(), column.kind));
                std::iter::once((DAY, ColumnType::Day)).chain(columns).collect()
            }
            // No statement asks for a nowcast.
            Dataset::Maturity => {
                let is_nowcast = |name: &str| NOWCAST.iter().any(|(column, ..)| *column == name);
                self.columns().into_iter().filter(|(name, _)| !is_nowcast(name)).collect()
            }
            _ => self.columns(),
        }
    }

    /// Returns the families of columns whose names clients choose.
    pub(crate) fn families(self) -> Vec<&'static Family> {
        match self {
            Dataset::Events(kind) => kind.families().iter().collect(),
            Dataset::Joined => Kind::Predictions.families().iter().collect(),
            // A breakdown by a column adds that column.
            Dataset::Rollups => Kind::Metrics.families().iter().collect(),
            Dataset::Evaluations | Dataset::Maturity => {
                breakdown::families().chain([&CUSTOM_METRICS]).collect()
            }
            Dataset::Classes | Dataset::Confusion | Dataset::HeadToHead | Dataset::Estimates => {
                breakdown::families().collect()
            }
            Dataset::Drift | Dataset::Slices | Dataset::Challengers => Vec::new(),
        }
    }

    /// Checks names of columns. An answer may have fewer of them, depending on its breakdown.
    ///
    /// # Errors
    /// `Invalid`, listing the existing columns.
    pub(crate) fn check_columns(self, wanted: Option<&[String]>) -> Result<()> {
        let (columns, families) = (self.columns(), self.families());
        let is_member = |name: &str| families.iter().any(|family| family.member(name).is_some());
        let known = |name: &str| columns.iter().any(|(column, _)| *column == name) || is_member(name);
        check_known(wanted, known, || columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
    }

    /// Returns true if its rows belong to releases.
    pub(crate) fn has_releases(self) -> bool {
        self != Dataset::Events(Kind::Outcomes)
    }
}
