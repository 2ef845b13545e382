//! The results that are stored beside those of releases: of the values of each split that a release declares.
//!
//! Each split is a [`Grouping`] of its own over the same join, so a stored row is to the bit what a breakdown by that column
//! alone gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use event::{Definition, Split, Task};
use serde::{Deserialize, Serialize};

use super::{Bucket, By, Evaluation, Grouping, MAX_BUCKETS, ReleaseEvaluation, Survey, Value, Wanted};

/// So many values of a tag are stored by themselves, the most frequent ones of the day; the rest is stored together.
pub const MAX_SPLIT_VALUES: usize = 64;

/// The column that says of which release predictions are.
const RELEASE: &str = "release";

/// By release, split (as text) and value, how good the predictions were.
pub type Splits = BTreeMap<String, BTreeMap<String, Vec<SplitRow>>>;

/// How good the predictions of a release with one value were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitRow {
    /// The value; rows have its order.
    pub value: Value,
    /// The results.
    pub of: ReleaseEvaluation,
}

/// The splits that definitions declare, each once.
pub(super) fn declared(definitions: &BTreeMap<String, Definition>) -> Vec<Split> {
    let mut all = Vec::<Split>::new();
    for split in definitions.values().flat_map(|definition| &definition.splits) {
        if !all.contains(split) {
            all.push(split.clone());
        }
    }
    all
}

/// A survey that finds which values of splits are stored by themselves.
pub(super) fn survey_of(splits: &[Split]) -> Survey {
    let tags = splits.iter().filter(|split| split.edges.is_empty());
    let tags: BTreeSet<&str> = tags.map(|split| split.column.as_str()).collect();
    Survey::new(tags.into_iter().chain([RELEASE]).map(|column| Wanted::Texts(column.to_owned())).collect())
}

/// How predictions are dealt by each split. Of very many releases fewer values are kept, so that there are no more than
/// [`MAX_BUCKETS`].
pub(super) fn groupings(
    splits: Vec<Split>,
    survey: Survey,
    definitions: &BTreeMap<String, Definition>,
) -> Vec<(Split, Arc<Grouping>)> {
    let releases = survey.distinct(RELEASE).max(1);
    // One bucket is of the rest, one of those without a value.
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

/// The releases that declare a split, and those that they meet head to head, which are not judged.
fn meeting(split: &Split, definitions: &BTreeMap<String, Definition>) -> BTreeMap<String, bool> {
    let declares = |one: &Definition| one.splits.contains(split);
    let tasks: Vec<&Task> = definitions.values().filter(|one| declares(one)).map(|one| &one.task).collect();
    let meets = definitions.iter().filter(|(_, one)| tasks.contains(&&one.task));
    meets.map(|(name, one)| (name.clone(), declares(one))).collect()
}

/// The rows of a split from its buckets: of the releases that declare it.
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
    /// The results of the values of a split, of all releases or of one; `None`, when they are not stored of one that has
    /// predictions.
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

    /// Evaluations with one release, or one row of a split, each, in the order in which they are stored.
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

    /// Takes the releases and rows of another part of the same evaluation, which comes after it.
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
