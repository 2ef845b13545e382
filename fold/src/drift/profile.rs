//! Rollups of some days, by column of predictions.

use std::collections::{BTreeMap, BTreeSet};

use event::fields;

use super::{Counted, Drift, Names, Spread};
use crate::rollup::{
    Bounded, Distribution, FeatureNumbers, Merge, Part, ReleaseDetail, TagCounts, tag::TAG_COUNTS_BUDGET,
};

pub(super) type TagNames = Bounded<TagCounts, TAG_COUNTS_BUDGET>;

/// Predictions of some days, column by column: of one release, or of all.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(super) detail: ReleaseDetail,
    pub(super) tags: BTreeMap<String, TagNames>,
    pub(super) features: BTreeMap<String, FeatureNumbers>,
    /// Number of predictions behind the features. These are folded less often than all else.
    pub(super) featured: u64,
    /// True if some tags or features are not kept apart, so that any one may be among them.
    pub(super) has_others: bool,
}

/// Comparison of a column of a window with that of the reference.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The column of predictions.
    pub column: String,
    /// Sort of the column: `numbers` or `names`.
    pub sort: &'static str,
    /// Distances between the two sides.
    pub drift: Drift,
    /// Number of predictions that have the column: of the reference, of the window.
    pub n: [u64; 2],
    /// Number of all predictions: of the reference, of the window.
    pub of: [u64; 2],
    /// Names that the reference does not have, the most frequent first.
    pub unseen: Vec<String>,
}

/// Names of [`Compared::sort`].
pub(super) const NUMBERS: &str = "numbers";
const NAMES: &str = "names";

impl Profile {
    /// Merges all days.
    pub fn of<'a>(days: impl IntoIterator<Item = &'a Self>) -> Self {
        days.into_iter().fold(Self::default(), |mut all, day| {
            all.merge(day);
            all
        })
    }

    /// Returns the number of predictions.
    pub fn predictions(&self) -> u64 {
        self.detail.n
    }

    /// Sets the number of predictions behind the features, which are folded less often than all else.
    pub fn features_are_of(&mut self, predictions: u64) {
        self.featured = predictions;
    }

    /// Adds a part of a rollup, of one release or of all.
    pub fn add(&mut self, part: &Part, release: Option<&str>) {
        match (part, release) {
            (Part::Release(part), Some(name)) => {
                part.details.get(name).iter().for_each(|detail| self.detail.merge(detail));
            }
            (Part::Release(part), None) => {
                let details = part.details.names().values().chain(part.details.others());
                details.for_each(|detail| self.detail.merge(detail));
            }
            // Values of tags are not counted by release.
            (Part::Tag(part), None) => {
                self.has_others |= part.tags.others().is_some();
                for (name, values) in part.tags.names() {
                    self.tags.entry(name.clone()).or_default().merge(&values.counts);
                }
            }
            (Part::Feature(part), release) => {
                self.has_others |= part.features.others().is_some();
                for (name, feature) in part.features.names() {
                    let releases = &feature.releases;
                    let numbers: Vec<&FeatureNumbers> = match release {
                        Some(release) => releases.get(release).into_iter().flatten().collect(),
                        None => releases.names().values().chain(releases.others()).flatten().collect(),
                    };
                    numbers.into_iter().for_each(|numbers| merge(&mut self.features, name, numbers));
                }
            }
            (Part::Tag(_) | Part::Metric(_), _) => {}
        }
    }

    /// Compares each column of `window` with that of the reference.
    pub fn compared(&self, window: &Self) -> Vec<Compared> {
        let of = [self.detail.n, window.detail.n];
        let scalar =
            |column: &str, one: &Option<_>, other: &Option<_>| numbers(column.to_owned(), one, other, of);
        let (one, other) = (&self.detail, &window.detail);
        let mut found = vec![
            scalar("score", &one.score, &other.score),
            scalar("value", &one.value, &other.value),
            scalar("latency_ms", &one.latency, &other.latency),
            names("label".to_owned(), &one.labels, &other.labels, of),
        ];
        let none = TagNames::default();
        for tag in self.tags.keys().chain(window.tags.keys()).collect::<BTreeSet<_>>() {
            let sides = [self, window].map(|side| side.tags.get(tag).unwrap_or(&none));
            found.push(names(format!("{}{tag}", fields::TAG_PREFIX), sides[0], sides[1], of));
        }
        let of = [self.featured, window.featured];
        for name in self.features.keys().chain(window.features.keys()).collect::<BTreeSet<_>>() {
            let [one, other] = [self, window].map(|side| side.features.get(name).cloned());
            found.push(numbers(format!("{}{name}", fields::FEATURE_PREFIX), &one, &other, of));
        }
        found.retain(|compared| compared.n != [0; 2]);
        found
    }
}

impl Merge for Profile {
    fn merge(&mut self, other: &Self) {
        self.detail.merge(&other.detail);
        self.featured = self.featured.saturating_add(other.featured);
        self.has_others |= other.has_others;
        for (name, values) in &other.tags {
            self.tags.entry(name.clone()).or_default().merge(values);
        }
        for (name, numbers) in &other.features {
            merge(&mut self.features, name, numbers);
        }
    }
}

/// Adds numbers under a name.
fn merge(all: &mut BTreeMap<String, FeatureNumbers>, name: &str, numbers: &FeatureNumbers) {
    match all.get_mut(name) {
        Some(known) => known.merge(numbers),
        None => drop(all.insert(name.to_owned(), numbers.clone())),
    }
}

fn numbers<const MAX: usize>(
    column: String,
    reference: &Option<Distribution<MAX>>,
    window: &Option<Distribution<MAX>>,
    of: [u64; 2],
) -> Compared {
    let n = [reference, window].map(|side| side.as_ref().map_or(0, |side| side.numbers.n));
    let both = reference.as_ref().zip(window.as_ref());
    let drift = both.map(|(reference, window)| Spread::of(reference, window).drift()).unwrap_or_default();
    Compared { column, sort: NUMBERS, drift, n, of, unseen: Vec::new() }
}

fn names<V: Counted, const BUDGET: usize>(
    column: String,
    reference: &Bounded<V, BUDGET>,
    window: &Bounded<V, BUDGET>,
    of: [u64; 2],
) -> Compared {
    of_names(column, &Names::of(reference, window), of)
}

/// Compares the names of both sides.
pub(super) fn of_names(column: String, names: &Names, of: [u64; 2]) -> Compared {
    let unseen = names.unseen().into_iter().map(|(name, _)| name.to_owned()).collect();
    Compared { column, sort: NAMES, drift: names.drift(), n: names.totals(), of, unseen }
}
