//! Results that are stored beside those of releases: by the values of each split that a release declares.
//!
//! Each split is a [`Grouping`] of its own over the same join, so a stored row equals to the bit that of a breakdown
//! by this column alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use event::{Definition, Split, Task};
use serde::{Deserialize, Serialize};

use super::{Bucket, By, Evaluation, Grouping, MAX_BUCKETS, ReleaseEvaluation, Survey, Value, Wanted};

/// Maximum number of values of a tag stored by themselves, the most frequent ones of the day; all others share one
/// row.
pub const MAX_SPLIT_VALUES: usize = 64;

/// Column of the release of predictions.
const RELEASE: &str = "release";

/// Results by release, split (as text) and value.
pub type Splits = BTreeMap<String, BTreeMap<String, Vec<SplitRow>>>;

/// Results of the predictions of a release with one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitRow {
    /// The value, by which rows are ordered.
    pub value: Value,
    /// The results.
    pub of: ReleaseEvaluation,
}

/// Returns the distinct splits that definitions declare.
pub(super) fn declared(definitions: &BTreeMap<String, Definition>) -> Vec<Split> {
    let mut all = Vec::<Split>::new();
    for split in definitions.values().flat_map(|definition| &definition.splits) {
        if !all.contains(split) {
            all.push(split.clone());
        }
    }
    all
}

/// Creates a survey that selects the values of splits to be stored by themselves.
pub(super) fn survey_of(splits: &[Split]) -> Survey {
    let tags = splits.iter().filter(|split| split.edges.is_empty());
    let tags: BTreeSet<&str> = tags.map(|split| split.column.as_str()).collect();
    Survey::new(tags.into_iter().chain([RELEASE]).map(|column| Wanted::Texts(column.to_owned())).collect())
}

/// Returns the grouping of each split. With very many releases, fewer values are kept, so that there are at most
/// [`MAX_BUCKETS`].
pub(super) fn groupings(
    splits: Vec<Split>,
    survey: Survey,
    definitions: &BTreeMap<String, Definition>,
) -> Vec<(Split, Arc<Grouping>)> {
    let releases = survey.distinct(RELEASE).max(1);
    // One bucket is for all other values, one for predictions without a value.
    let most = (MAX_BUCKETS / releases).saturating_sub(2).min(MAX_SPLIT_VALUES);
    let found = survey.keep(most);
    let by = |split: &Split| match split.edges.is_empty() {
        true => found.iter().find(|by| by.column() == split.column).cloned(),
        false => Some(By::Bins { column: split.column.clone(), edges: split.edges.clone() }),
    };
    let of_split = |split: Split| {
        let grouping = Grouping {
            by: vec![by(&split)?],
            only: Some(meeting(&split, definitions)),
            ..Grouping::default()
        };
        Some((split, Arc::new(grouping)))
    };
    splits.into_iter().filter_map(of_split).collect()
}

/// Returns the releases that declare a split, and those that they meet head to head, which are not judged.
fn meeting(split: &Split, definitions: &BTreeMap<String, Definition>) -> BTreeMap<String, bool> {
    let declares = |one: &Definition| one.splits.contains(split);
    let tasks: Vec<&Task> = definitions.values().filter(|one| declares(one)).map(|one| &one.task).collect();
    let meets = definitions.iter().filter(|(_, one)| tasks.contains(&&one.task));
    meets.map(|(name, one)| (name.clone(), declares(one))).collect()
}

/// Adds the rows of a split from its buckets, for the releases that declare it.
pub(super) fn rows_of(
    all: &mut Splits,
    split: &Split,
    buckets: Vec<(Bucket, ReleaseEvaluation)>,
    definitions: &BTreeMap<String, Definition>,
) {
    let text = split.to_string();
    for (mut bucket, of) in buckets {
        let is_declared = definitions.get(&bucket.name).is_some_and(|one| one.splits.contains(split));
        if let (true, Some(value)) = (is_declared, bucket.values.pop()) {
            let rows = all.entry(bucket.name).or_default().entry(text.clone()).or_default();
            rows.push(SplitRow { value, of });
        }
    }
}

impl Evaluation {
    /// Returns the results of the values of a split, of all releases or of one; `None` if they are not stored for a
    /// release with predictions.
    pub fn split(&self, split: &Split, release: Option<&str>) -> Option<Vec<(Bucket, &ReleaseEvaluation)>> {
        let text = split.to_string();
        let mut found = Vec::new();
        for name in self.releases.keys().filter(|name| release.is_none_or(|release| release == *name)) {
            let rows = self.splits.get(name)?.get(&text)?;
            found.extend(rows.iter().map(|row| {
                let values = vec![row.value.clone()];
                (Bucket { period: 0, name: name.clone(), values }, &row.of)
            }));
        }
        Some(found)
    }

    /// Splits it into evaluations with one release, or one row of a split, each, in storage order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Self> {
        let releases = self.releases.iter().map(|(name, of)| Self {
            releases: BTreeMap::from([(name.clone(), of.clone())]),
            ..Self::default()
        });
        let rows = self.splits.iter().flat_map(|(name, splits)| {
            splits.iter().flat_map(move |(split, rows)| {
                rows.iter().map(move |row| {
                    let rows = BTreeMap::from([(split.clone(), vec![row.clone()])]);
                    Self { splits: BTreeMap::from([(name.clone(), rows)]), ..Self::default() }
                })
            })
        });
        releases.chain(rows)
    }

    /// Adds the releases and rows of a later part of the same evaluation.
    pub(super) fn take(&mut self, other: Self) {
        self.releases.extend(other.releases);
        for (name, splits) in other.splits {
            let own = self.splits.entry(name).or_default();
            for (split, rows) in splits {
                own.entry(split).or_default().extend(rows);
            }
        }
    }
}

#[cfg(test)]
mod tests;
