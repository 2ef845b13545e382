//! The figures of several classes, from the labels alone.

use std::collections::BTreeMap;

use event::fields::plain_label;
use serde::{Deserialize, Serialize};

use super::ratio;
use crate::hash::hash;

/// So many classes are counted apart; the rest are added up.
pub const MAX_CLASSES: usize = 256;

/// Of so many classes, the most frequent ones, it is counted which was taken for which.
pub const MAX_CONFUSED: usize = 24;

/// Labels with more bytes than this count with the rest.
const MAX_LABEL_BYTES: usize = 128;

/// What is counted of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCounts {
    /// How many really are of it.
    pub real: u64,
    /// How many were predicted to be of it.
    pub predicted: u64,
    /// How many are both.
    pub correct: u64,
}

impl ClassCounts {
    /// correct / predicted: of those predicted to be of the class, the share that really is.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.correct, self.predicted)
    }

    /// correct / real: of those really of the class, the share that was found.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.correct, self.real)
    }

    /// 2 correct / (real + predicted): the harmonic mean of precision and recall.
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
    /// By class, those that were predicted or are real.
    pub names: BTreeMap<String, ClassCounts>,
    /// What the classes add up to that are not named; `None` when all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<ClassCounts>,
    /// How often a class was taken for another one: the real class, the predicted one, both by their places among the
    /// names, and how often. Only of the most frequent classes, real and predicted added up.
    pub confused: Vec<(u32, u32, u64)>,
}

impl Classes {
    /// The mean of a figure of the classes (`average="macro"`). A class without it counts as `undefined`, or not at all.
    /// `None` when not all classes are named.
    pub fn macro_mean(&self, figure: fn(&ClassCounts) -> Option<f64>, undefined: Option<f64>) -> Option<f64> {
        self.average(figure, undefined, |_| 1)
    }

    /// The mean weighted by how many really are of the class (`average="weighted"`), else the same.
    pub fn weighted_mean(
        &self,
        figure: fn(&ClassCounts) -> Option<f64>,
        undefined: Option<f64>,
    ) -> Option<f64> {
        self.average(figure, undefined, |class| class.real)
    }

    /// Which class was taken for which of `judged` predictions: the real and the predicted class, and how often. Only the
    /// most frequent classes are told apart; `None` is for all others.
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
        // What is not counted apart is left of the counts of the classes, and of all.
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

    /// Adds the classes of other predictions. Which was taken for which is not added up.
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
        figure: fn(&ClassCounts) -> Option<f64>,
        undefined: Option<f64>,
        weight: fn(&ClassCounts) -> u64,
    ) -> Option<f64> {
        if self.rest.is_some() {
            return None;
        }
        let defined =
            self.names.values().filter_map(|class| Some((figure(class).or(undefined)?, weight(class))));
        let (sum, weights) = defined.fold((0.0, 0), |(sum, weights), (value, weight)| {
            (sum + value * weight as f64, weights + weight)
        });
        (weights > 0).then(|| sum / weights as f64)
    }
}

/// The places of the most frequent classes, the most frequent first.
fn frequent(names: &BTreeMap<String, ClassCounts>) -> Vec<usize> {
    let counts: Vec<u64> = names.values().map(|counts| counts.real + counts.predicted).collect();
    let mut places: Vec<usize> = (0..counts.len()).collect();
    // Stable, so of equally frequent ones the first by name.
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

/// A slot that no class has.
const NO_SLOT: u32 = u32::MAX;

/// How many classes are found without a search.
const REMEMBERED: usize = 64;

/// Counts predicted against real classes.
///
/// Of too many classes those are kept whose labels have the least hashes. A class that is kept in the end was kept from
/// its first row on, so which ones are kept and what is counted of them does not depend on the order of the rows.
#[derive(Clone, Debug)]
pub struct Tally {
    judged: u64,
    correct: u64,
    /// By slot. One that was given up is another class's later.
    entries: Vec<Entry>,
    /// The slots in the order of the hashes, then of the labels.
    order: Vec<u32>,
    /// The slot in which a hash was found last, by its low bits.
    remembered: [u32; REMEMBERED],
    rest: Option<ClassCounts>,
    /// By the slots of the real and the predicted class.
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
        // They are the same when the predicted class took the slot of the real one.
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

    /// Counts for a class, and says its slot if it is kept.
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

    /// How many were counted.
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// How many of them were right.
    pub fn correct(&self) -> u64 {
        self.correct
    }

    /// What was counted.
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
        // Nothing was predicted to be of c, so its precision is not defined.
        let mean = |undefined| classes.macro_mean(ClassCounts::precision, undefined);
        for (undefined, expected) in [(None, 2.0 / 3.0), (Some(0.0), 4.0 / 9.0), (Some(1.0), 7.0 / 9.0)] {
            assert!((mean(undefined).unwrap() - expected).abs() < 1e-15, "{undefined:?}");
        }
        assert_eq!(classes.weighted_mean(ClassCounts::recall, None), Some((1.0 + 0.5 * 2.0) / 4.0));
        assert_eq!(Classes::default().macro_mean(ClassCounts::f1, None), None);
    }

    #[test]
    fn more_classes_than_are_kept_have_no_mean_of_classes() {
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
