//! A breakdown by name of bounded size, for any names in any order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hash::hash;

/// Value that can be summed in any order and grouping with the same result.
pub trait Merge {
    /// Adds `other` to it.
    fn merge(&mut self, other: &Self);
}

/// Value of a name in a breakdown.
pub trait Cell: Merge + Clone + Default {
    /// Maximum number of bytes as JSON.
    const MAX_BYTES: usize;

    /// Minimum of [`Cell::weight`].
    const LEAST_BYTES: usize = Self::MAX_BYTES;

    /// Returns an upper bound of its bytes as JSON, never less than that of the values merged into it.
    fn weight(&self) -> usize {
        Self::MAX_BYTES
    }
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

impl Cell for u64 {
    const MAX_BYTES: usize = 20;
    const LEAST_BYTES: usize = 1;

    fn weight(&self) -> usize {
        self.checked_ilog10().unwrap_or(0) as usize + 1
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

/// Value of some names in a breakdown; `null` for all others.
pub trait Optional: Merge + Clone {
    /// Maximum number of bytes as JSON.
    const MAX_BYTES: usize;

    /// Returns an upper bound of its bytes as JSON, never less than that of the values merged into it.
    fn weight(&self) -> usize;
}

impl<T: Optional> Cell for Option<T> {
    const MAX_BYTES: usize = T::MAX_BYTES;
    const LEAST_BYTES: usize = "null".len();

    fn weight(&self) -> usize {
        self.as_ref().map_or(Self::LEAST_BYTES, T::weight)
    }
}

/// Values by name, in at most `BUDGET` bytes of JSON; names that do not fit are summed up as the rest.
///
/// Names are admitted by their hashes, the least first, as long as all of them together fit, each with the weight of
/// its value, which never falls when more is added. So the kept names depend on the added data and not on its order:
/// a name that does not fit in a part does not fit in the whole, so parts have the complete value of every name that
/// the whole keeps. The kept names are a fair sample, not the most frequent ones. (No bounded summary that is the
/// same in any grouping could keep those: once it merges two names, it cannot separate them when one becomes
/// frequent.) (The k least hashes of Cohen and Kaplan, "Summarizing data using bottom-k sketches", 2007, with a
/// budget in the place of k.)
///
/// Written as `{"names":{...}}`, when some did not fit with `"beyond"`, the hash of the first of them
/// in hexadecimal, and `"others"`, their value. The hash, the budget and the weights are part of the stored format: a
/// change of one of them makes a new version of the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Text<V>", bound(deserialize = "V: Cell + Deserialize<'de>"))]
pub struct Bounded<V, const BUDGET: usize> {
    names: BTreeMap<String, V>,
    #[serde(flatten)]
    rest: Option<Rest<V>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Rest<V> {
    #[serde(serialize_with = "hexadecimal::write")]
    beyond: u64,
    others: V,
}

/// Text as read, before it is checked.
#[derive(Deserialize)]
struct Text<V> {
    names: BTreeMap<String, V>,
    #[serde(default)]
    beyond: Option<String>,
    others: Option<V>,
}

impl<V, const BUDGET: usize> Bounded<V, BUDGET> {
    /// Returns the kept names, in order, with their values.
    pub fn names(&self) -> &BTreeMap<String, V> {
        &self.names
    }

    /// Returns the value of `name`, if it is kept.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.names.get(name)
    }

    /// Returns the sum of the names that did not fit; `None` if all did.
    pub fn others(&self) -> Option<&V> {
        self.rest.as_ref().map(|rest| &rest.others)
    }

    /// Returns whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.rest.is_none()
    }

    /// Returns the number of distinct names: exact as long as all fit, then estimated from the density of the hashes
    /// of the kept ones (relative standard error about 1 / sqrt(kept - 1); Bar-Yossef et al., "Counting distinct
    /// elements in a data stream", 2002).
    pub fn distinct(&self) -> f64 {
        let kept = self.names.len() as f64;
        self.rest.as_ref().map_or(kept, |rest| {
            let share = (rest.beyond as f64 / u64::MAX as f64).max(f64::MIN_POSITIVE);
            (kept / share).max(kept + 1.0)
        })
    }
}

impl<V: Cell, const BUDGET: usize> Bounded<V, BUDGET> {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = BUDGET + V::MAX_BYTES + 64;

    /// Takes all names with hashes less than that of the rest, if there is one; keeps as many as fit.
    pub(super) fn admitted(names: BTreeMap<String, V>, others: Option<(u64, V)>) -> Self {
        let mut all = Self { names, rest: others.map(|(beyond, others)| Rest { beyond, others }) };
        if all.names_weight() > BUDGET {
            all.fit();
        }
        all
    }

    /// Adds `value` to that of `name`.
    pub fn add(&mut self, name: &str, value: &V) {
        if let Some(known) = self.names.get_mut(name) {
            let before = known.weight();
            known.merge(value);
            self.grown(before, name);
            return;
        }
        match &mut self.rest {
            Some(rest) if hash(name.as_bytes()) >= rest.beyond => rest.others.merge(value),
            _ => {
                self.names.insert(name.to_owned(), value.clone());
                self.fit();
            }
        }
    }

    /// Restores the budget after the value of a name has grown.
    fn grown(&mut self, before: usize, name: &str) {
        if self.names.get(name).is_some_and(|value| value.weight() > before) {
            self.fit();
        }
    }

    /// Adds `value` to the rest: the values of names from hash `beyond` on.
    fn add_others(&mut self, beyond: u64, value: &V) {
        match &mut self.rest {
            Some(rest) => {
                rest.beyond = rest.beyond.min(beyond);
                rest.others.merge(value);
            }
            None => self.rest = Some(Rest { beyond, others: value.clone() }),
        }
        self.fit();
    }

    /// Moves the names of the greatest hashes to the rest until the budget holds.
    fn fit(&mut self) {
        let weighed =
            self.names.iter().map(|(name, value)| (name.as_str(), Self::weight(name, value.weight())));
        let over = cut(weighed, BUDGET);
        let known = self.rest.as_ref().map(|rest| rest.beyond);
        let Some(beyond) = [over, known].into_iter().flatten().min() else { return };
        let stays = |name: &String| hash(name.as_bytes()) < beyond;
        let (kept, moved) = std::mem::take(&mut self.names).into_iter().partition(|(name, _)| stays(name));
        self.names = kept;
        let moved: BTreeMap<String, V> = moved;
        let mut others = self.rest.take().map_or_else(V::default, |rest| rest.others);
        moved.values().for_each(|value| others.merge(value));
        self.rest = Some(Rest { beyond, others });
    }

    /// Returns the weight of a name with a value of this weight.
    pub(super) fn weight(name: &str, value: usize) -> usize {
        text_bytes(name) + value + 2
    }

    /// Returns the weight of its names.
    fn names_weight(&self) -> usize {
        self.names.iter().map(|(name, value)| Self::weight(name, value.weight())).sum()
    }
}

/// Returns the least hash of a name that does not fit `budget` together with all names of lesser hashes.
pub(super) fn cut<'a>(names: impl Iterator<Item = (&'a str, usize)>, budget: usize) -> Option<u64> {
    let weighed: Vec<(&str, usize)> = names.collect();
    if weighed.iter().map(|(_, weight)| weight).sum::<usize>() <= budget {
        return None;
    }
    let mut hashes: Vec<(u64, usize)> =
        weighed.into_iter().map(|(name, weight)| (hash(name.as_bytes()), weight)).collect();
    hashes.sort_unstable();
    // The strings of a segment may contain duplicates.
    hashes.dedup_by_key(|(hash, _)| *hash);
    let mut total = 0;
    let over = hashes.iter().find(|(_, weight)| {
        total += weight;
        total > budget
    });
    over.map(|(hash, _)| *hash)
}

/// Returns the number of bytes of a text as JSON, quotes included.
fn text_bytes(text: &str) -> usize {
    let byte = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(byte).sum::<usize>() + 2
}

impl<V, const BUDGET: usize> Default for Bounded<V, BUDGET> {
    fn default() -> Self {
        Self { names: BTreeMap::new(), rest: None }
    }
}

impl<V: Cell, const BUDGET: usize> Merge for Bounded<V, BUDGET> {
    fn merge(&mut self, other: &Self) {
        if let Some(rest) = &other.rest {
            self.add_others(rest.beyond, &rest.others);
        }
        other.names.iter().for_each(|(name, value)| self.add(name, value));
    }
}

impl<V: Cell, const BUDGET: usize> Cell for Bounded<V, BUDGET> {
    const MAX_BYTES: usize = Self::MAX_TEXT;
    const LEAST_BYTES: usize = 64;

    fn weight(&self) -> usize {
        // After names were moved to the rest, the kept ones may weigh less.
        if self.rest.is_some() { Self::MAX_TEXT } else { self.names_weight() + Self::LEAST_BYTES }
    }
}

impl<V: Cell, const BUDGET: usize> TryFrom<Text<V>> for Bounded<V, BUDGET> {
    type Error = String;

    fn try_from(text: Text<V>) -> Result<Self, String> {
        let rest = match (text.beyond, text.others) {
            (Some(beyond), Some(others)) => Some(Rest { beyond: hexadecimal::read(&beyond)?, others }),
            (None, None) => None,
            _ => return Err("`beyond` and `others` come together".into()),
        };
        Ok(Self { names: text.names, rest })
    }
}

/// Hash as 16 hexadecimal digits: JSON readers round large numbers.
mod hexadecimal {
    use serde::Serializer;

    pub(super) fn write<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{hash:016x}"))
    }

    pub(super) fn read(text: &str) -> Result<u64, String> {
        let hash = u64::from_str_radix(text, 16).ok();
        hash.filter(|hash| format!("{hash:016x}") == text)
            .ok_or_else(|| "`beyond` is not 16 hexadecimal digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Breakdown of about four short names.
    type Few = Bounded<u64, 110>;

    fn few(names: &[String]) -> Few {
        let mut few = Few::default();
        names.iter().for_each(|name| few.add(name, &1));
        few
    }

    #[test]
    fn the_hash_is_part_of_the_format() {
        // If these change, stored breakdowns keep other names than new folds: a new version is due.
        let found = ["", "a", "late", "delay-2", "carrier", "a name of more than sixteen bytes"]
            .map(|name| format!("{:016x}", hash(name.as_bytes())));
        insta::assert_snapshot!(found.join(" "), @"ca813bf4c7abf0a9 b99bf4caca1c4179 abc7647db202f4e2 ce4938b695122f32 4e57827edc8d5afe fb330374545d1845");
    }

    #[test]
    fn texts_by_hand() {
        let two = few(&["b".into(), "a".into(), "a".into()]);
        let text = serde_json::to_string(&two).unwrap();
        assert_eq!(text, r#"{"names":{"a":2,"b":1}}"#);
        let many: Vec<String> = (0..100).map(|n| format!("name {n}")).collect();
        let many = few(&many);
        assert_eq!(many.names().len(), 9);
        assert_eq!(many.names().values().sum::<u64>() + many.others().unwrap(), 100);
        assert!((30.0..300.0).contains(&many.distinct()), "{}", many.distinct());
        let text = serde_json::to_string(&many).unwrap();
        assert_eq!(serde_json::from_str::<Few>(&text).unwrap(), many);
        assert!(text.len() <= Few::MAX_TEXT);
        for wrong in [
            r#"{"names":{"a":2},"beyond":"1","others":1}"#,
            r#"{"names":{},"others":1}"#,
            r#"{"names":{},"beyond":"0000000000000000"}"#,
            r#"{"names":{"a":-1}}"#,
            r#"{}"#,
        ] {
            assert!(serde_json::from_str::<Few>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_is_weighed_as_it_is_written() {
        for name in ["plain", "\"\\", "\n\t\u{8}\u{c}\r", "\u{1}\u{1f}", "é~\u{7f}"] {
            assert_eq!(text_bytes(name), serde_json::to_string(name).unwrap().len(), "{name:?}");
        }
        let huge = few(&["x".repeat(1000)]);
        assert_eq!((huge.names().len(), huge.others()), (0, Some(&1)));
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-e]{1,2}", "[a-z\"\\n]{0,12}", "[x\u{1}]{5,40}"]
    }

    proptest! {
        #[test]
        fn any_grouping_and_order_keeps_the_same(
            (names, shuffled) in vec(name(), 0..30)
                .prop_flat_map(|names| (Just(names.clone()), Just(names).prop_shuffle())),
            (first, second) in (0usize..30, 0usize..30),
        ) {
            let whole = few(&names);
            let (low, high) = (first.min(second).min(shuffled.len()), first.max(second).min(shuffled.len()));
            let parts = [&shuffled[..low], &shuffled[low..high], &shuffled[high..]].map(few);
            let mut left = parts[0].clone();
            left.merge(&parts[1]);
            left.merge(&parts[2]);
            let mut right = parts[2].clone();
            right.merge(&parts[1]);
            let mut other = parts[0].clone();
            other.merge(&right);
            prop_assert_eq!(&left, &whole);
            prop_assert_eq!(&other, &whole);
            let text = serde_json::to_string(&whole).unwrap();
            prop_assert!(text.len() <= Few::MAX_TEXT);
            prop_assert_eq!(serde_json::from_str::<Few>(&text).unwrap(), whole.clone());
            prop_assert_eq!(whole.names().values().sum::<u64>() + whole.others().unwrap_or(&0), names.len() as u64);
            for (name, n) in whole.names() {
                prop_assert_eq!(*n, names.iter().filter(|other| *other == name).count() as u64);
            }
        }
    }
}
