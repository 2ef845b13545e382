//! Mapping of the columns of a file to the fields of events.

use chrono_tz::Tz;
use event::Kind;

use crate::{
    batch::Refused,
    builder::{
        Reading,
        names::Names,
        times::{Ambiguous, TimeReader},
    },
};

/// Layout of the rows of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Rows are events.
    #[default]
    Plain,
    /// Lines are those of SageMaker Model Monitor: captured requests, which are predictions, or ground truth, which are outcomes.
    SageMaker,
}

/// Names of the fields in a file, and formats of its values.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Pairs of a field, or a member such as `score.late`, and its column. A column may hold several; a column named here holds
    /// nothing else, and the field's own name then has no meaning.
    pub renames: Vec<(String, String)>,
    /// Columns that are tags, besides those named `tag.NAME` and besides their other fields.
    pub tags: Vec<String>,
    /// Columns that are features, besides those named `feature.NAME` and besides their other fields.
    pub features: Vec<String>,
    /// Column with the time at which each event was known, besides its other fields.
    pub known_at: Option<String>,
    /// Time zone of times without an offset.
    pub time_zone: Option<Tz>,
    /// Meaning of local times that the zone has twice.
    pub ambiguous: Ambiguous,
    /// Format of times: `unix`, `unix_ms` or `unix_us` for numbers since 1970, or a format of `strftime`; RFC 3339 by default.
    pub time_format: Option<String>,
    /// True if columns that are no field are left out.
    pub ignore_extra: bool,
    /// Columns to read; all, when empty.
    pub select: Vec<String>,
    /// Pairs of a field, or `tag.NAME`, and its value in every row.
    pub set: Vec<(String, String)>,
    /// Texts that stand for null, such as `NA`.
    pub null: Vec<String>,
    /// Delimiter of cells of CSV; a comma, or a tab in `.tsv`, when it is not given.
    pub delimiter: Option<u8>,
    /// Layout of its rows.
    pub layout: Layout,
    /// Ending, such as `csv.gz`, that stands for the format of a file whose name has none.
    pub format: Option<String>,
}

/// Meaning of the rows of a file.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// Kind of its events.
    pub kind: Kind,
    /// Mapping of its columns.
    pub mapping: Mapping,
}

impl FileSpec {
    /// Names known in the file.
    pub(crate) fn names(&self) -> Result<Names, Refused> {
        let is_captured = matches!(self.kind, Kind::Predictions | Kind::Outcomes);
        if self.mapping.layout == Layout::SageMaker && !is_captured {
            return Err(Refused::Whole(
                "files of SageMaker Model Monitor hold predictions or outcomes".into(),
            ));
        }
        Names::of(self.kind, &self.mapping).map_err(Refused::Whole)
    }

    /// Text of the options that change the meaning of a file's bytes, to distinguish imports of one file in different ways. Only
    /// given options stand there, so a new option changes nothing where it is not used; options that only decide if a row is
    /// good, or when it was known, are left out.
    pub(crate) fn meaning(&self) -> String {
        let Mapping { renames, tags, features, time_zone, ambiguous, time_format, select, set, null, .. } =
            &self.mapping;
        let ambiguous = Some(ambiguous).filter(|ambiguous| **ambiguous != Ambiguous::Refuse);
        let mut lines = vec![format!("kind {}", self.kind.letter())];
        lines.extend(renames.iter().map(|(field, column)| format!("map {field:?} {column:?}")));
        lines.extend(tags.iter().map(|tag| format!("tag {tag:?}")));
        lines.extend(features.iter().map(|feature| format!("feature {feature:?}")));
        lines.extend(time_zone.iter().map(|zone| format!("zone {}", zone.name())));
        lines.extend(ambiguous.iter().map(|ambiguous| format!("ambiguous {ambiguous:?}")));
        lines.extend(select.iter().map(|column| format!("select {column:?}")));
        lines.extend(set.iter().map(|(field, value)| format!("set {field:?} {value:?}")));
        lines.extend(null.iter().map(|null| format!("null {null:?}")));
        lines.extend(time_format.iter().map(|format| format!("time {format:?}")));
        lines.extend((self.mapping.layout == Layout::SageMaker).then(|| "from sagemaker".to_owned()));
        lines.sort();
        lines.join("\n")
    }

    /// Settings by which its values are read.
    pub(crate) fn reading(&self, loose_text: bool) -> Result<Reading, Refused> {
        let times = TimeReader::new(self.mapping.time_zone, self.mapping.time_format.as_deref());
        let names = Names::new(self.kind);
        let set = self.mapping.set.iter();
        let set = set.map(|(field, value)| Ok((names.target(field).map_err(Refused::Whole)?, value.clone())));
        let set = set.collect::<Result<_, Refused>>()?;
        let null = self.mapping.null.clone();
        let times = times.map_err(Refused::Whole)?.reading_ambiguous(self.mapping.ambiguous);
        let says_known = self.mapping.known_at.is_some();
        Ok(Reading { times, loose_text, import: true, says_known, set, null, ..Reading::default() })
    }
}
