//! A breakdown by name that stays small, whatever names arrive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What can be added up in any order and grouping with the same result.
pub trait Merge {
    /// Adds `other` to it.
    fn merge(&mut self, other: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }
}

impl<T: Merge + Clone> Merge for Option<T> {
    fn merge(&mut self, other: &Self) {
        match (self.as_mut(), other) {
            (Some(this), Some(other)) => this.merge(other),
            (None, Some(other)) => *self = Some(other.clone()),
            (_, None) => {}
        }
    }
}

/// Values by name, for up to `MAX` names. One name more, and it knows no name at all, for good.
///
/// Keeping the first names, or the most frequent ones, would depend on the order in which they
/// came. "More than `MAX`" does not: it holds for the whole if and only if it holds for the union
/// of the parts (a join-semilattice with "too many" on top). Written as an object, or as `null`
/// when there were too many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Breakdown<V, const MAX: usize>(Option<BTreeMap<String, V>>);

impl<V, const MAX: usize> Breakdown<V, MAX> {
    /// The values by name; `None` when there were too many names.
    pub fn names(&self) -> Option<&BTreeMap<String, V>> {
        self.0.as_ref()
    }

    /// The value of `name`; `None` also when there were too many names.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.as_ref()?.get(name)
    }

    /// The names in order with their values; nothing when there were too many.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().flatten().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there were more than `MAX` names.
    pub fn is_too_many(&self) -> bool {
        self.0.is_none()
    }
}

impl<V: Merge, const MAX: usize> Breakdown<V, MAX> {
    /// Adds `value` to what `name` has.
    pub(crate) fn add(&mut self, name: &str, value: V) {
        let Some(names) = &mut self.0 else { return };
        if let Some(sum) = names.get_mut(name) {
            sum.merge(&value);
        } else if names.len() < MAX {
            names.insert(name.to_owned(), value);
        } else {
            self.0 = None;
        }
    }
}

impl<V, const MAX: usize> Default for Breakdown<V, MAX> {
    fn default() -> Self {
        Self(Some(BTreeMap::new()))
    }
}

impl<V: Merge + Clone, const MAX: usize> Merge for Breakdown<V, MAX> {
    fn merge(&mut self, other: &Self) {
        match &other.0 {
            Some(names) => names.iter().for_each(|(name, value)| self.add(name, value.clone())),
            None => self.0 = None,
        }
    }
}
