//! How the columns of a file become the fields of events.

use chrono_tz::Tz;
use event::Kind;

use crate::{
    batch::Refused,
    builder::{Reading, names::Names, times::TimeReader},
};

/// What a file calls its fields, and how it writes its times.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Pairs of a field, or a member such as `score.late`, and the column that holds it. A column may hold several; those that
    /// are named here are all that it holds, and the field's own name then means nothing.
    pub renames: Vec<(String, String)>,
    /// Columns that are tags, besides those named `tag.NAME` and besides what else they hold.
    pub tags: Vec<String>,
    /// Columns that are features, besides those named `feature.NAME` and besides what else they hold.
    pub features: Vec<String>,
    /// The column that says when each event was known, besides what else it holds.
    pub known_at: Option<String>,
    /// Where times without an offset are local.
    pub time_zone: Option<Tz>,
    /// `unix`, `unix_ms` or `unix_us` for numbers since 1970, or a format of `strftime`; RFC 3339 when
    /// there is none.
    pub time_format: Option<String>,
    /// Whether columns that are no field are left out.
    pub ignore_extra: bool,
    /// The only columns that are read, when there are any.
    pub select: Vec<String>,
    /// Pairs of a field, or `tag.NAME`, and the value that it has in every row.
    pub set: Vec<(String, String)>,
    /// Texts that stand for nothing, such as `NA`.
    pub null: Vec<String>,
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
        Names::of(self.kind, &self.mapping).map_err(Refused::Whole)
    }

    /// What the options make of the bytes of a file, for telling apart what is imported twice in different
    /// ways. Only what is given stands there, so a new option changes nothing where it is not used; and
    /// nothing of what only decides whether a row is good, or says when it was known.
    pub(crate) fn meaning(&self) -> String {
        let Mapping { renames, tags, features, time_zone, time_format, select, set, null, .. } =
            &self.mapping;
        let mut lines = vec![format!("kind {}", self.kind.letter())];
        lines.extend(renames.iter().map(|(field, column)| format!("map {field:?} {column:?}")));
        lines.extend(tags.iter().map(|tag| format!("tag {tag:?}")));
        lines.extend(features.iter().map(|feature| format!("feature {feature:?}")));
        lines.extend(time_zone.iter().map(|zone| format!("zone {}", zone.name())));
        lines.extend(select.iter().map(|column| format!("select {column:?}")));
        lines.extend(set.iter().map(|(field, value)| format!("set {field:?} {value:?}")));
        lines.extend(null.iter().map(|null| format!("null {null:?}")));
        lines.extend(time_format.iter().map(|format| format!("time {format:?}")));
        lines.sort();
        lines.join("\n")
    }

    /// How its values are read.
    pub(crate) fn reading(&self, loose_text: bool) -> Result<Reading, Refused> {
        let times = TimeReader::new(self.mapping.time_zone, self.mapping.time_format.as_deref());
        let names = Names::new(self.kind);
        let set = self.mapping.set.iter();
        let set = set.map(|(field, value)| Ok((names.target(field).map_err(Refused::Whole)?, value.clone())));
        let set = set.collect::<Result<_, Refused>>()?;
        let null = self.mapping.null.clone();
        let times = times.map_err(Refused::Whole)?;
        let says_known = self.mapping.known_at.is_some();
        Ok(Reading { times, loose_text, import: true, says_known, set, null, ..Reading::default() })
    }
}
