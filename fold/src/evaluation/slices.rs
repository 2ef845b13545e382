//! Results that are stored beside those of releases: by the values of each dimension that a release declares.
//!
//! Each dimension is a [`Grouping`] of its own over the same join, so a stored row equals to the bit that of a breakdown
//! by this column alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use event::{Definition, Dimension, Task};
use serde::{Deserialize, Serialize};

use super::{Bucket, By, Evaluation, Grouping, MAX_BUCKETS, ReleaseEvaluation, Survey, Value, Wanted};

/// Maximum number of values of a tag stored by themselves, the most frequent ones of the day; all others share one
/// row.
pub const MAX_SLICES: usize = 64;

/// Column of the release of predictions.
const RELEASE: &str = "release";

/// Results by release, dimension (as text) and value.
pub type Slices = BTreeMap<String, BTreeMap<String, Vec<SliceRow>>>;

/// Results of the predictions of a release with one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceRow {
    /// The value, by which rows are ordered.
    pub value: Value,
    /// The results.
    pub of: ReleaseEvaluation,
}

/// Returns the distinct dimensions that definitions declare.
pub(super) fn declared(definitions: &BTreeMap<String, Definition>) -> Vec<Dimension> {
    let mut all = Vec::<Dimension>::new();
    for dimension in definitions.values().flat_map(|definition| &definition.dimensions) {
        if !all.contains(dimension) {
            all.push(dimension.clone());
        }
    }
    all
}

/// Creates a survey that selects the values of dimensions to be stored by themselves.
pub(super) fn survey_of(dimensions: &[Dimension]) -> Survey {
    let tags = dimensions.iter().filter(|dimension| dimension.edges.is_empty());
    let tags: BTreeSet<&str> = tags.map(|dimension| dimension.column.as_str()).collect();
    Survey::new(tags.into_iter().chain([RELEASE]).map(|column| Wanted::Texts(column.to_owned())).collect())
}

/// Returns the grouping of each dimension. With very many releases, fewer values are kept, so that there are at most
/// [`MAX_BUCKETS`].
pub(super) fn groupings(
    dimensions: Vec<Dimension>,
    survey: Survey,
    definitions: &BTreeMap<String, Definition>,
) -> Vec<(Dimension, Arc<Grouping>)> {
    let releases = survey.distinct(RELEASE).max(1);
    // One bucket is for all other values, one for predictions without a value.
    let most = (MAX_BUCKETS / releases).saturating_sub(2).min(MAX_SLICES);
    let found = survey.keep(most);
    let by = |dimension: &Dimension| match dimension.edges.is_empty() {
        true => found.iter().find(|by| by.column() == dimension.column).cloned(),
        false => Some(By::Bins { column: dimension.column.clone(), edges: dimension.edges.clone() }),
    };
    let of_dimension = |dimension: Dimension| {
        let grouping = Grouping {
            by: vec![by(&dimension)?],
            only: Some(meeting(&dimension, definitions)),
            ..Grouping::default()
        };
        Some((dimension, Arc::new(grouping)))
    };
    dimensions.into_iter().filter_map(of_dimension).collect()
}

/// Returns the releases that declare a dimension, and those that they meet head to head, which are not evaluated.
fn meeting(dimension: &Dimension, definitions: &BTreeMap<String, Definition>) -> BTreeMap<String, bool> {
    let declares = |one: &Definition| one.dimensions.contains(dimension);
    let tasks: Vec<&Task> = definitions.values().filter(|one| declares(one)).map(|one| &one.task).collect();
    let meets = definitions.iter().filter(|(_, one)| tasks.contains(&&one.task));
    meets.map(|(name, one)| (name.clone(), declares(one))).collect()
}

/// Adds the rows of a dimension from its buckets, for the releases that declare it.
pub(super) fn rows_of(
    all: &mut Slices,
    dimension: &Dimension,
    buckets: Vec<(Bucket, ReleaseEvaluation)>,
    definitions: &BTreeMap<String, Definition>,
) {
    let text = dimension.to_string();
    for (mut bucket, of) in buckets {
        let is_declared = definitions.get(&bucket.name).is_some_and(|one| one.dimensions.contains(dimension));
        if let (true, Some(value)) = (is_declared, bucket.values.pop()) {
            let rows = all.entry(bucket.name).or_default().entry(text.clone()).or_default();
            rows.push(SliceRow { value, of });
        }
    }
}

impl Evaluation {
    /// Returns the results of the values of a dimension, of all releases or of one; `None` if they are not stored for a
    /// release with predictions.
    pub fn slices_of(
        &self,
        dimension: &Dimension,
        release: Option<&str>,
    ) -> Option<Vec<(Bucket, &ReleaseEvaluation)>> {
        let text = dimension.to_string();
        let mut found = Vec::new();
        for name in self.releases.keys().filter(|name| release.is_none_or(|release| release == *name)) {
            let rows = self.slices.get(name)?.get(&text)?;
            found.extend(rows.iter().map(|row| {
                let values = vec![row.value.clone()];
                (Bucket { period: 0, name: name.clone(), values }, &row.of)
            }));
        }
        Some(found)
    }

    /// Splits it into evaluations with one release, or one row of a dimension, each, in storage order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Self> {
        let releases = self.releases.iter().map(|(name, of)| Self {
            releases: BTreeMap::from([(name.clone(), of.clone())]),
            ..Self::default()
        });
        let rows = self.slices.iter().flat_map(|(name, by)| {
            by.iter().flat_map(move |(dimension, rows)| {
                rows.iter().map(move |row| {
                    let rows = BTreeMap::from([(dimension.clone(), vec![row.clone()])]);
                    Self { slices: BTreeMap::from([(name.clone(), rows)]), ..Self::default() }
                })
            })
        });
        releases.chain(rows)
    }

    /// Adds the releases and rows of a later part of the same evaluation.
    pub(super) fn take(&mut self, other: Self) {
        self.releases.extend(other.releases);
        for (name, by) in other.slices {
            let own = self.slices.entry(name).or_default();
            for (dimension, rows) in by {
                own.entry(dimension).or_default().extend(rows);
            }
        }
    }
}

#[cfg(test)]
mod tests;
