//! Metrics of several classes, from the labels alone.

use std::collections::BTreeMap;

use event::fields::plain_label;
use serde::{Deserialize, Serialize};

use super::ratio;
use crate::hash::hash;

/// Maximum number of classes counted separately; the rest are summed up.
pub const MAX_CLASSES: usize = 256;

/// Maximum number of classes in the confusion matrix, the most frequent ones.
pub const MAX_CONFUSED: usize = 24;

/// Maximum number of bytes of a label; longer ones count with the rest.
const MAX_LABEL_BYTES: usize = 128;

/// Counts of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCounts {
    /// Number of real members.
    pub real: u64,
    /// Number of predicted members.
    pub predicted: u64,
    /// Number of members both real and predicted.
    pub correct: u64,
}

impl ClassCounts {
    /// Returns correct / predicted: the share of predicted members that are real.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.correct, self.predicted)
    }

    /// Returns correct / real: the share of real members that were found.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.correct, self.real)
    }

    /// Returns 2 correct / (real + predicted): the harmonic mean of precision and recall.
    pub fn f1(&self) -> Option<f64> {
        ratio(2 * self.correct, self.real + self.predicted)
    }

    fn add(&mut self, other: Self) {
        self.real += other.real;
        self.predicted += other.predicted;
        self.correct += other.correct;
    }
}

/// Predicted against real classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Classes {
    /// Counts by class, of those that were predicted or are real.
    pub names: BTreeMap<String, ClassCounts>,
    /// Sum of the classes that are not named; `None` if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<ClassCounts>,
    /// Confusions of different classes: the real class, the predicted one, both by their places among the names, and
    /// their number. Only the most frequent classes are included, by real and predicted members.
    pub confused: Vec<(u32, u32, u64)>,
}

impl Classes {
    /// Returns the mean of a metric over the classes (`average="macro"`). A class with an undefined metric counts as
    /// `undefined`, or not at all if that is `None`. `None` if not all classes are named.
    pub fn macro_mean(&self, metric: fn(&ClassCounts) -> Option<f64>, undefined: Option<f64>) -> Option<f64> {
        self.average(metric, undefined, |_| 1)
    }

    /// Returns the mean weighted by the real members of each class (`average="weighted"`), otherwise as
    /// [`Classes::macro_mean`].
    pub fn weighted_mean(
        &self,
        metric: fn(&ClassCounts) -> Option<f64>,
        undefined: Option<f64>,
    ) -> Option<f64> {
        self.average(metric, undefined, |class| class.real)
    }

    /// Returns the confusion matrix of `judged` predictions: the real and the predicted class, and their number. Only
    /// the most frequent classes are kept apart; `None` is all others.
    pub fn matrix(&self, judged: u64) -> Vec<(Option<String>, Option<String>, u64)> {
        let names: Vec<(&String, &ClassCounts)> = self.names.iter().collect();
        let mut places: Vec<Option<usize>> = frequent(&self.names).into_iter().map(Some).collect();
        places.sort_unstable();
        places.push(None);
        let confused = self.confused.iter();
        let mut cells: BTreeMap<(usize, usize), u64> =
            confused.map(|&(real, predicted, n)| ((real as usize, predicted as usize), n)).collect();
        for &at in places.iter().flatten() {
            cells.insert((at, at), names[at].1.correct);
        }
        // The remainders are differences from the counts of the classes, and from the total.
        let sum =
            |cells: &mut dyn Iterator<Item = (&(usize, usize), &u64)>| cells.map(|(_, n)| n).sum::<u64>();
        let count = |real: Option<usize>, predicted: Option<usize>| match (real, predicted) {
            (Some(real), Some(predicted)) => cells.get(&(real, predicted)).copied().unwrap_or(0),
            (Some(real), None) => {
                let named = sum(&mut cells.iter().filter(|((of, _), _)| *of == real));
                names[real].1.real.saturating_sub(named)
            }
            (None, Some(predicted)) => {
                let named = sum(&mut cells.iter().filter(|((_, of), _)| *of == predicted));
                names[predicted].1.predicted.saturating_sub(named)
            }
            (None, None) => 0,
        };
        let pairs = places.iter().flat_map(|real| places.iter().map(move |predicted| (*real, *predicted)));
        let mut found: Vec<_> =
            pairs.map(|(real, predicted)| (real, predicted, count(real, predicted))).collect();
        let counted: u64 = found.iter().map(|(.., n)| n).sum();
        if let Some((.., rest)) = found.last_mut() {
            *rest = judged.saturating_sub(counted);
        }
        let name = |at: Option<usize>| at.map(|at| names[at].0.clone());
        found.into_iter().map(|(real, predicted, n)| (name(real), name(predicted), n)).collect()
    }

    /// Adds the classes of other predictions, without their confusions.
    pub fn add(&mut self, more: &Self) {
        for (name, counts) in &more.names {
            self.names.entry(name.clone()).or_default().add(*counts);
        }
        if let Some(rest) = more.rest {
            self.rest.get_or_insert_default().add(rest);
        }
    }

    fn average(
        &self,
        metric: fn(&ClassCounts) -> Option<f64>,
        undefined: Option<f64>,
        weight: fn(&ClassCounts) -> u64,
    ) -> Option<f64> {
        if self.rest.is_some() {
            return None;
        }
        let defined =
            self.names.values().filter_map(|class| Some((metric(class).or(undefined)?, weight(class))));
        let (sum, weights) = defined.fold((0.0, 0), |(sum, weights), (value, weight)| {
            (sum + value * weight as f64, weights + weight)
        });
        (weights > 0).then(|| sum / weights as f64)
    }
}

/// Returns the places of the most frequent classes, the most frequent first.
fn frequent(names: &BTreeMap<String, ClassCounts>) -> Vec<usize> {
    let counts: Vec<u64> = names.values().map(|counts| counts.real + counts.predicted).collect();
    let mut places: Vec<usize> = (0..counts.len()).collect();
    // Stable: equally frequent ones stay in the order of their names.
    places.sort_by_key(|&at| std::cmp::Reverse(counts[at]));
    places.truncate(MAX_CONFUSED);
    places
}

/// A class while it is counted.
#[derive(Clone, Debug)]
struct Entry {
    hash: u64,
    label: Box<str>,
    counts: ClassCounts,
}

/// Marker of no slot.
const NO_SLOT: u32 = u32::MAX;

/// Number of classes that are found without a search.
const REMEMBERED: usize = 64;

/// Counts predicted against real classes.
///
/// If there are too many classes, those whose labels have the least hashes are kept. A class kept in the end was kept
/// from its first row on, so the kept classes and their counts do not depend on the order of the rows.
#[derive(Clone, Debug)]
pub struct Tally {
    judged: u64,
    correct: u64,
    /// Entries by slot. The slot of an abandoned class is reused.
    entries: Vec<Entry>,
    /// Slots in the order of the hashes, then of the labels.
    order: Vec<u32>,
    /// Last slot of each hash, by its low bits.
    remembered: [u32; REMEMBERED],
    rest: Option<ClassCounts>,
    /// Confusions by the slots of the real and the predicted class.
    confused: BTreeMap<(u32, u32), u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            judged: 0,
            correct: 0,
            entries: Vec::new(),
            order: Vec::new(),
            remembered: [NO_SLOT; REMEMBERED],
            rest: None,
            confused: BTreeMap::new(),
        }
    }
}

impl Tally {
    /// Counts a prediction by its labels.
    #[inline]
    pub fn add(&mut self, predicted: &str, real: &str) {
        let plain = plain_label(real);
        if predicted == real {
            return self.add_correct(&plain);
        }
        let predicted = plain_label(predicted);
        if predicted == plain {
            return self.add_correct(&plain);
        }
        self.judged += 1;
        let real = self.count(&plain, ClassCounts { real: 1, ..ClassCounts::default() });
        let predicted = self.count(&predicted, ClassCounts { predicted: 1, ..ClassCounts::default() });
        // They are equal when the predicted class took the slot of the real one.
        if let (Some(real), Some(predicted)) = (real, predicted)
            && real != predicted
        {
            *self.confused.entry((real, predicted)).or_default() += 1;
        }
    }

    fn add_correct(&mut self, label: &str) {
        self.judged += 1;
        self.correct += 1;
        self.count(label, ClassCounts { real: 1, predicted: 1, correct: 1 });
    }

    /// Counts for a class, and returns its slot if it is kept.
    #[inline]
    fn count(&mut self, label: &str, counts: ClassCounts) -> Option<u32> {
        let hash = hash(label.as_bytes());
        let known = &mut self.remembered[hash as usize % REMEMBERED];
        if let Some(entry) = self.entries.get_mut(*known as usize)
            && entry.hash == hash
            && *entry.label == *label
        {
            entry.counts.add(counts);
            return Some(*known);
        }
        let place = |&slot: &u32| {
            let entry = &self.entries[slot as usize];
            entry.hash.cmp(&hash).then_with(|| (*entry.label).cmp(label))
        };
        let slot = match self.order.binary_search_by(place) {
            Ok(at) => self.order[at],
            Err(at) => return self.admit(at, Entry { hash, label: label.into(), counts }),
        };
        *known = slot;
        self.entries[slot as usize].counts.add(counts);
        Some(slot)
    }

    #[cold]
    fn admit(&mut self, at: usize, entry: Entry) -> Option<u32> {
        if at >= MAX_CLASSES || entry.label.len() > MAX_LABEL_BYTES {
            self.rest.get_or_insert_default().add(entry.counts);
            return None;
        }
        let last = if self.order.len() == MAX_CLASSES { self.order.pop() } else { None };
        let slot = match last {
            Some(slot) => {
                let given_up = std::mem::replace(&mut self.entries[slot as usize], entry);
                self.rest.get_or_insert_default().add(given_up.counts);
                self.confused.retain(|(real, predicted), _| *real != slot && *predicted != slot);
                slot
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.order.insert(at, slot);
        Some(slot)
    }

    /// Returns the number of counted predictions.
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// Returns the number of right ones.
    pub fn correct(&self) -> u64 {
        self.correct
    }

    /// Returns the counts.
    pub fn classes(&self) -> Classes {
        let entry = |slot: u32| &self.entries[slot as usize];
        let mut slots = self.order.clone();
        slots.sort_unstable_by(|&one, &other| entry(one).label.cmp(&entry(other).label));
        let names: BTreeMap<_, _> =
            slots.iter().map(|&slot| (entry(slot).label.to_string(), entry(slot).counts)).collect();
        let frequent = frequent(&names);
        let places: BTreeMap<u32, u32> = frequent.into_iter().map(|at| (slots[at], at as u32)).collect();
        let both = |(&(real, predicted), &n): (&(u32, u32), &u64)| {
            Some((*places.get(&real)?, *places.get(&predicted)?, n))
        };
        let mut confused: Vec<_> = self.confused.iter().filter_map(both).collect();
        confused.sort_unstable();
        Classes { names, rest: self.rest, confused }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn tally(rows: &[(String, String)]) -> Tally {
        let mut tally = Tally::default();
        rows.iter().for_each(|(predicted, real)| tally.add(predicted, real));
        tally
    }

    #[test]
    fn classes_by_hand() {
        let rows = [("a", "a"), ("a", "b"), ("b", "b"), ("a", "c")];
        let tally = tally(&rows.map(|(predicted, real)| (predicted.into(), real.into())));
        assert_eq!((tally.judged(), tally.correct()), (4, 2));
        let classes = tally.classes();
        assert_eq!(classes.confused, [(1, 0, 1), (2, 0, 1)]);
        assert_eq!(classes.names["a"], ClassCounts { real: 1, predicted: 3, correct: 1 });
        // No prediction is of class c, so its precision is undefined.
        let mean = |undefined| classes.macro_mean(ClassCounts::precision, undefined);
        for (undefined, expected) in [(None, 2.0 / 3.0), (Some(0.0), 4.0 / 9.0), (Some(1.0), 7.0 / 9.0)] {
            assert!((mean(undefined).unwrap() - expected).abs() < 1e-15, "{undefined:?}");
        }
        assert_eq!(classes.weighted_mean(ClassCounts::recall, None), Some((1.0 + 0.5 * 2.0) / 4.0));
        assert_eq!(Classes::default().macro_mean(ClassCounts::f1, None), None);
    }

    #[test]
    fn classes_beyond_limit_have_no_macro_mean() {
        let rows: Vec<_> = (0..300).map(|n| (format!("class {n}"), format!("class {}", n / 2 * 2))).collect();
        let tally = tally(&rows);
        let classes = tally.classes();
        assert_eq!((tally.judged(), tally.correct(), classes.names.len()), (300, 150, MAX_CLASSES));
        let rest = classes.rest.unwrap();
        let sum =
            |count: fn(&ClassCounts) -> u64| classes.names.values().map(count).sum::<u64>() + count(&rest);
        assert_eq!((sum(|of| of.real), sum(|of| of.predicted), sum(|of| of.correct)), (300, 300, 150));
        assert_eq!(classes.macro_mean(ClassCounts::recall, None), None);
    }

    proptest! {
        #[test]
        fn the_order_of_rows_leaves_no_trace(
            rows in vec((0u32..400, 0u32..400), 0..600)
                .prop_map(|rows| rows.into_iter().map(|(a, b)| (format!("{a}"), format!("{}", b.min(a + 3)))).collect::<Vec<_>>())
                .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
        ) {
            let (one, other) = (tally(&rows.0).classes(), tally(&rows.1).classes());
            prop_assert!(one.names.len() <= MAX_CLASSES);
            prop_assert_eq!(one, other);
        }
    }
}
