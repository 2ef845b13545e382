//! How the columns of a file become the fields of events.

use chrono_tz::Tz;
use store::Kind;

use crate::{
    batch::Refused,
    draft::{Reading, names::Names, times::TimeReader},
};

/// What a file calls its fields, and how it writes its times.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Pairs of a field and the column that holds it; the field's own name then means nothing.
    pub renames: Vec<(String, String)>,
    /// Columns that are tags, besides those named `tag.NAME`.
    pub tags: Vec<String>,
    /// Where times without an offset are local.
    pub time_zone: Option<Tz>,
    /// `unix`, `unix_ms` or `unix_us` for numbers since 1970, or a format of `strftime`; RFC 3339 when
    /// there is none.
    pub time_format: Option<String>,
}

/// What the rows of a file are.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// What its events are.
    pub kind: Kind,
    /// How its columns become their fields.
    pub mapping: Mapping,
}

impl FileSpec {
    /// The names that are known in the file.
    pub(crate) fn names(&self) -> Result<Names, Refused> {
        let mut names = Names::new(self.kind);
        for (field, column) in &self.mapping.renames {
            names.rename(field, column).map_err(Refused::Whole)?;
        }
        for column in &self.mapping.tags {
            names.tag(column).map_err(Refused::Whole)?;
        }
        Ok(names)
    }

    /// How its values are read.
    pub(crate) fn reading(&self, loose_text: bool) -> Result<Reading, Refused> {
        let times = TimeReader::new(self.mapping.time_zone, self.mapping.time_format.as_deref());
        Ok(Reading { times: times.map_err(Refused::Whole)?, loose_text, import: true })
    }
}
