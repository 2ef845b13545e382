//! Selection of pairs of releases and of keys for them: a pure function of predictions and the seed, in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{ArenaPair, MAX_ARENA_PAIRS, MAX_PAIR_ITEMS};
use event::{Error, Result, Timestamp};
use sha2::{Digest as _, Sha256};

use super::{
    Picks,
    pick::{Candidate, Said},
};

/// Two releases, by name.
pub(super) type Pair = [String; 2];

/// The existing pairs of an arena.
type Pairs = BTreeMap<Pair, ArenaPair>;

/// An earlier pick: the pair, the instant of the prediction in microseconds, and its key.
pub(super) type Taken = BTreeSet<(Pair, i64, String)>;

/// The predictions of two releases for one key and instant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bout {
    pub(super) key: String,
    pub(super) predicted_at: Timestamp,
    /// The predictions of the pair's releases, in its order.
    pub(super) said: [Said; 2],
}

impl Bout {
    /// Returns true if the second release of the pair stands on the left for the `copy`-th reviewer.
    pub(super) fn is_turned(&self, seed: u32, copy: u32) -> bool {
        let mut hash = Sha256::new();
        hash.update(b"side");
        [seed, copy].iter().for_each(|number| hash.update(number.to_le_bytes()));
        hash.update(self.predicted_at.micros().to_le_bytes());
        self.said.iter().for_each(|said| {
            hash.update(&said.release);
            hash.update(b"\0");
        });
        hash.update(&self.key);
        hash.finalize()[0] & 1 == 1
    }
}

/// Random order in which the keys of a pair are picked.
type Place = (u64, i64, String);

/// Picks among candidates, independent of their order.
pub(super) struct PairPicker {
    releases: BTreeSet<String>,
    seed: u32,
    /// Maximum number of keys picked for a pair, and number of reviewers of each.
    n: usize,
    judges: u32,
    /// The existing pairs.
    pairs: Pairs,
    /// True if nothing is picked for existing pairs.
    only_new: bool,
    /// Earlier picks for them.
    taken: Taken,
    kept: BTreeMap<Pair, BTreeMap<Place, Bout>>,
}

impl PairPicker {
    pub(super) fn new(
        releases: BTreeSet<String>,
        (seed, n, judges): (u32, u32, u32),
        (pairs, taken): (Pairs, Taken),
    ) -> Self {
        let (n, only_new) = (n as usize, false);
        Self { releases, seed, n, judges, pairs, only_new, taken, kept: BTreeMap::new() }
    }

    /// Limits the picks to new pairs if `only_new` is true.
    pub(super) fn only_new(self, only_new: bool) -> Self {
        Self { only_new, ..self }
    }

    /// Returns the number of keys that a pair has room for.
    fn room(&self, pair: &Pair) -> usize {
        let left = match self.pairs.get(pair) {
            None => MAX_PAIR_ITEMS,
            Some(_) if self.only_new => 0,
            Some(pair) => MAX_PAIR_ITEMS.saturating_sub(pair.items),
        };
        self.n.min((left / self.judges.max(1)) as usize)
    }

    /// Returns the picks by pair, and the existing pairs.
    pub(super) fn finish(self) -> (BTreeMap<Pair, Vec<Bout>>, Pairs) {
        let kept = self.kept.into_iter().map(|(pair, bouts)| (pair, bouts.into_values().collect()));
        (kept.collect(), self.pairs)
    }

    fn add_pair(&mut self, candidate: &Candidate, [one, other]: [&Said; 2]) -> Result<()> {
        let pair = [one.release.clone(), other.release.clone()];
        let at = candidate.predicted_at.micros();
        let room = self.room(&pair);
        if room == 0 || self.taken.contains(&(pair.clone(), at, candidate.key.clone())) {
            return Ok(());
        }
        let is_new = !self.pairs.contains_key(&pair) && !self.kept.contains_key(&pair);
        let begun = self.kept.keys().filter(|pair| !self.pairs.contains_key(*pair)).count();
        if is_new && self.pairs.len() + begun >= MAX_ARENA_PAIRS {
            return Err(Error::too_large(format!(
                "an arena has at most {MAX_ARENA_PAIRS} pairs, and more predicted the same; name fewer `releases`, or make another arena"
            )));
        }
        let place = (candidate.chance(self.seed), at, candidate.key.clone());
        let kept = self.kept.entry(pair).or_default();
        if kept.len() < room || kept.last_key_value().is_some_and(|(last, _)| place < *last) {
            let said = [one.clone(), other.clone()];
            let bout = Bout { key: candidate.key.clone(), predicted_at: candidate.predicted_at, said };
            kept.insert(place, bout);
            if kept.len() > room {
                kept.pop_last();
            }
        }
        Ok(())
    }
}

impl Picks for PairPicker {
    fn add(&mut self, candidate: Candidate) -> Result<()> {
        let own = candidate.said.iter().filter(|said| self.releases.contains(&said.release));
        // The last prediction of a release counts.
        let of_release: BTreeMap<&str, &Said> = own.map(|said| (said.release.as_str(), said)).collect();
        let all: Vec<&Said> = of_release.into_values().collect();
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                self.add_pair(&candidate, [one, other])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(release: &str) -> Said {
        Said {
            release: release.into(),
            label: None,
            is_positive: None,
            score: Some(0.5),
            value: None,
            tags: BTreeMap::new(),
            margin: None,
        }
    }

    fn candidates() -> Vec<Candidate> {
        let one = |number: i32| {
            let mut one = Candidate::new(&format!("k{number:02}"), Timestamp::default());
            one.said = vec![said("v3"), said("v1"), said("v2"), said("v1"), said("old")];
            one
        };
        (0..40).map(one).collect()
    }

    fn releases() -> BTreeSet<String> {
        ["v1", "v2", "v3"].map(String::from).into()
    }

    fn picked(mut picker: PairPicker, candidates: Vec<Candidate>) -> BTreeMap<Pair, Vec<Bout>> {
        candidates.into_iter().for_each(|candidate| picker.add(candidate).unwrap());
        picker.finish().0
    }

    fn picker(seed: u32) -> PairPicker {
        PairPicker::new(releases(), (seed, 10, 1), (BTreeMap::new(), BTreeSet::new()))
    }

    #[test]
    fn arena_pairs_are_balanced_and_fixed_by_seed() {
        let first = picked(picker(7), candidates());
        let pairs: Vec<String> = first.keys().map(|pair| pair.join("-")).collect();
        assert_eq!(pairs, ["v1-v2", "v1-v3", "v2-v3"]);
        assert!(first.values().all(|bouts| bouts.len() == 10));
        let turned = candidates().into_iter().rev().collect();
        assert_eq!(first, picked(picker(7), turned));
        assert_ne!(first, picked(picker(8), candidates()));
        let sides: Vec<bool> = first.values().flatten().map(|bout| bout.is_turned(7, 0)).collect();
        assert!((5..=25).contains(&sides.iter().filter(|is_turned| **is_turned).count()), "{sides:?}");
        let again: Vec<bool> = first.values().flatten().map(|bout| bout.is_turned(7, 1)).collect();
        assert_ne!(sides, again, "another judge sees other sides");
    }

    #[test]
    fn picked_pairs_are_not_repeated_and_are_limited() {
        let pair = || ["v1".to_owned(), "v2".to_owned()];
        let known = |items| {
            let pairs = [(pair(), ArenaPair { items, ..ArenaPair::new(0, pair(), 0) })].into();
            let taken = (0..39).map(|number| (pair(), 0, format!("k{number:02}"))).collect();
            (pairs, taken)
        };
        let of =
            |items, judges| picked(PairPicker::new(releases(), (7, 10, judges), known(items)), candidates());
        let left: Vec<String> = of(39, 1)[&pair()].iter().map(|bout| bout.key.clone()).collect();
        assert_eq!(left, ["k39"]);
        assert!(!of(100, 1).contains_key(&pair()), "it is full");
        assert!(!of(99, 2).contains_key(&pair()), "two items do not fit");
        let mut many = Candidate::new("k", Timestamp::default());
        many.said = (0..15).map(|number| said(&format!("r{number:02}"))).collect();
        let all = many.said.iter().map(|said| said.release.clone()).collect();
        let mut picker = PairPicker::new(all, (7, 10, 1), (BTreeMap::new(), BTreeSet::new()));
        assert!(picker.add(many).is_err(), "105 pairs");
    }
}
