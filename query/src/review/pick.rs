//! Selection of predictions, or of pairs of them: a pure function of them, the specification and the seed, in bounded memory.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use catalog::{ArenaPair, MAX_ARENA_PAIRS, MAX_PAIR_ITEMS, PredictionSaid, ReviewPolicy, ReviewSpec};
use event::{Error, Result, Timestamp};
use sha2::{Digest as _, Sha256};

/// Maximum number of groups: values of a tag, or pairs of an arena.
const MAX_GROUPS: usize = MAX_ARENA_PAIRS as usize;

/// A prediction by one release.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    /// The prediction, with its own tags.
    pub(super) said: PredictionSaid,
    /// True if its score reaches the threshold.
    pub(super) is_positive: Option<bool>,
    /// Certainty of the release: the distance of the score from the threshold, or from the score of the second class.
    pub(super) margin: Option<f64>,
}

/// A candidate: the predictions of all releases for one key at one instant, or of a pair of them, in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) key: String,
    pub(super) predicted_at: Timestamp,
    pub(super) said: Vec<Said>,
    /// True if it has an outcome.
    pub(super) is_judged: bool,
}

impl Candidate {
    pub(super) fn new(key: &str, predicted_at: Timestamp) -> Self {
        Self { key: key.to_owned(), predicted_at, said: Vec::new(), is_judged: false }
    }

    /// Returns its random place, which is fixed for a seed.
    fn chance(&self, seed: u32) -> u64 {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update(self.predicted_at.micros().to_le_bytes());
        hash.update(self.key.as_bytes());
        hash.finalize().first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }

    /// Returns true if the second release of the pair stands on the left for the `copy`-th reviewer.
    pub(super) fn is_turned(&self, seed: u32, copy: u32) -> bool {
        let mut hash = Sha256::new();
        hash.update(b"side");
        [seed, copy].iter().for_each(|number| hash.update(number.to_le_bytes()));
        hash.update(self.predicted_at.micros().to_le_bytes());
        self.said.iter().for_each(|said| hash.update(format!("{}\0", said.said.release)));
        hash.update(&self.key);
        hash.finalize()[0] & 1 == 1
    }

    /// Returns its weight under a policy, not negative: greater ones are picked first. `None`, if the policy excludes it.
    fn weight(&self, policy: ReviewPolicy) -> Option<f64> {
        match policy {
            ReviewPolicy::Random | ReviewPolicy::Segment | ReviewPolicy::Pairs => Some(0.0),
            ReviewPolicy::Uncertain => {
                let least = self.said.iter().filter_map(|said| said.margin).min_by(f64::total_cmp)?;
                Some((1.0 - least).max(0.0))
            }
            ReviewPolicy::Disagree => self.disagreement().filter(|differ| *differ > 0.0),
        }
    }

    /// Returns the difference between releases: the spread of their scores, plus 1 if their labels differ; for values their
    /// spread.
    fn disagreement(&self) -> Option<f64> {
        let spread = |of: fn(&PredictionSaid) -> Option<f64>| {
            let all = || self.said.iter().filter_map(|said| of(&said.said));
            Some(all().max_by(f64::total_cmp)? - all().min_by(f64::total_cmp)?)
        };
        let labels: BTreeSet<_> = self.said.iter().filter_map(|said| said.said.label.as_ref()).collect();
        let signs: BTreeSet<_> = self.said.iter().filter_map(|said| said.is_positive).collect();
        let is_other = labels.len() > 1 || signs.len() > 1;
        match spread(|said| said.score) {
            Some(scores) => Some(scores + f64::from(is_other)),
            None if is_other => Some(1.0),
            None => spread(|said| said.value),
        }
    }
}

/// Part of a review of which so many are picked: a value of the tag, a pair of releases, or all, without a name.
pub(super) type Group = Vec<String>;

/// Earlier picks: the pair, the instant of the prediction in microseconds, and its key.
pub(super) type Taken = BTreeSet<(Group, i64, String)>;

/// Order in which candidates are picked: by weight, the greatest first, then at random.
type Rank = (Reverse<u64>, u64, i64, String);

/// Picks among candidates, independent of their order.
pub(super) struct Picker {
    spec: ReviewSpec,
    n: usize,
    /// Releases that an arena compares.
    releases: BTreeSet<String>,
    /// Numbers of keys for which existing pairs have room.
    rooms: BTreeMap<Group, usize>,
    taken: Taken,
    kept: BTreeMap<Group, BTreeMap<Rank, Candidate>>,
}

impl Picker {
    /// Builds the picker of a review; `known` has the existing pairs of an arena, each with the number of its items, or `None` if
    /// it gets nothing more, and earlier picks for them.
    pub(super) fn new<'a>(
        spec: &ReviewSpec,
        releases: BTreeSet<String>,
        (known, taken): (impl Iterator<Item = (&'a ArenaPair, Option<u32>)>, Taken),
    ) -> Self {
        let n = spec.n.unwrap_or_default() as usize;
        let room = |items: Option<u32>| {
            let left = items.map_or(0, |items| MAX_PAIR_ITEMS.saturating_sub(items) / spec.judges.max(1));
            n.min(left as usize)
        };
        let rooms = known.map(|(pair, items)| (pair.releases.to_vec(), room(items))).collect();
        Self { spec: spec.clone(), n, releases, rooms, taken, kept: BTreeMap::new() }
    }

    /// Returns the groups of a candidate, each with the places of its predictions.
    fn groups(&self, candidate: &Candidate) -> Vec<(Group, Vec<usize>)> {
        let all = 0..candidate.said.len();
        if self.spec.is_arena() {
            let own = all.filter(|at| self.releases.contains(&candidate.said[*at].said.release));
            // The last prediction of a release counts.
            let of_release: BTreeMap<&String, usize> =
                own.map(|at| (&candidate.said[at].said.release, at)).collect();
            let all: Vec<(&String, usize)> = of_release.into_iter().collect();
            let others = |at: usize| all[at + 1..].iter();
            let pair = |(one, first): (&String, usize), (other, second): &(&String, usize)| {
                (vec![one.clone(), (*other).clone()], vec![first, *second])
            };
            let pairs = all.iter().enumerate();
            return pairs.flat_map(|(at, one)| others(at).map(move |other| pair(*one, other))).collect();
        }
        let Some(tag) = &self.spec.by else { return vec![(Group::new(), all.collect())] };
        let value = candidate.said.iter().find_map(|said| said.said.tags.get(tag));
        value.map(|value| (vec![value.clone()], all.collect())).into_iter().collect()
    }

    /// Adds a candidate.
    ///
    /// # Errors
    /// `TooLarge`, if there are too many groups.
    pub(super) fn add(&mut self, candidate: Candidate) -> Result<()> {
        if candidate.is_judged && !self.spec.with_outcomes {
            return Ok(());
        }
        let Some(weight) = candidate.weight(self.spec.policy) else { return Ok(()) };
        // Doubles that are not negative are ordered as their bits.
        let (weight, chance) = (Reverse(weight.to_bits()), candidate.chance(self.spec.seed));
        let at = candidate.predicted_at.micros();
        for (group, places) in self.groups(&candidate) {
            let room = self.rooms.get(&group).copied().unwrap_or(self.n);
            let is_known = self.rooms.contains_key(&group) || self.kept.contains_key(&group);
            let begun = || self.kept.keys().filter(|group| !self.rooms.contains_key(*group)).count();
            if !is_known && self.rooms.len() + begun() >= MAX_GROUPS {
                return Err(Error::too_large(match &self.spec.by {
                    Some(by) => {
                        format!(
                            "group-by: the tag `{by}` has more than {MAX_GROUPS} values; name another one"
                        )
                    }
                    None => format!(
                        "an arena has at most {MAX_GROUPS} pairs, and more predicted the same; name fewer `releases`, or make another arena"
                    ),
                }));
            }
            if room == 0 || self.taken.contains(&(group.clone(), at, candidate.key.clone())) {
                continue;
            }
            let rank = (weight, chance, at, candidate.key.clone());
            let kept = self.kept.entry(group).or_default();
            if kept.len() < room || kept.last_key_value().is_some_and(|(last, _)| rank < *last) {
                let said = places.into_iter().map(|place| candidate.said[place].clone()).collect();
                kept.insert(rank, Candidate { said, key: candidate.key.clone(), ..candidate });
                if kept.len() > room {
                    kept.pop_last();
                }
            }
        }
        Ok(())
    }

    /// Returns the picks, those of an arena by pair; others are of one group, in their order: of several values one of each in turn.
    pub(super) fn finish(self) -> BTreeMap<Group, Vec<Candidate>> {
        if self.spec.is_arena() {
            let kept = self.kept.into_iter();
            return kept.map(|(group, kept)| (group, kept.into_values().collect())).collect();
        }
        let groups = self.kept.into_values();
        let mut turns: Vec<(usize, Rank, Candidate)> = groups
            .flat_map(|kept| (0..).zip(kept).map(|(turn, (rank, candidate))| (turn, rank, candidate)))
            .collect();
        turns.sort_by(|(turn, rank, _), (other, than, _)| (turn, rank).cmp(&(other, than)));
        let picked = turns.into_iter().take(self.n).map(|(_, _, candidate)| candidate).collect();
        [(Group::new(), picked)].into()
    }
}

#[cfg(test)]
mod tests {
    use event::Window;

    use super::*;

    fn spec(policy: ReviewPolicy, n: u32, seed: u32) -> ReviewSpec {
        let by = (policy == ReviewPolicy::Segment).then(|| "region".to_owned());
        let window = Window::of("2026-06-01".parse().unwrap());
        ReviewSpec { policy, by, n: Some(n), seed, ..ReviewSpec::new(window) }
    }

    fn prediction(release: &str, score: f64) -> Said {
        let said = PredictionSaid { release: release.into(), score: Some(score), ..Default::default() };
        Said { said, is_positive: Some(score >= 0.5), margin: Some((score - 0.5).abs()) }
    }

    /// Builds a hundred candidates: their scores go from 0 to 0.99, those of a second release the other way.
    fn candidates() -> Vec<Candidate> {
        let one = |number: i32| {
            let score = f64::from(number) / 100.0;
            let mut one = Candidate::new(&format!("k{number:02}"), Timestamp::default());
            one.said = vec![prediction("v1", score), prediction("v2", 0.99 - score)];
            let region = if number < 90 { "eu" } else { "us" };
            one.said[0].said.tags.insert("region".into(), region.into());
            one
        };
        (0..100).map(one).collect()
    }

    fn empty(spec: &ReviewSpec) -> Picker {
        Picker::new(spec, BTreeSet::new(), (std::iter::empty(), Taken::new()))
    }

    fn picked(spec: &ReviewSpec, candidates: impl IntoIterator<Item = Candidate>) -> Vec<String> {
        let mut picker = empty(spec);
        candidates.into_iter().for_each(|candidate| picker.add(candidate).unwrap());
        picker.finish().into_values().flatten().map(|candidate| candidate.key).collect()
    }

    #[test]
    fn seed_alone_determines_the_picks() {
        let of = |seed, candidates: Vec<Candidate>| picked(&spec(ReviewPolicy::Random, 10, seed), candidates);
        let first = of(7, candidates());
        assert_eq!(first.len(), 10);
        let mut turned = candidates();
        turned.reverse();
        assert_eq!(first, of(7, turned));
        assert_ne!(first, of(8, candidates()));
        // Existing reviews must stay reproducible: the picks of a seed never change.
        insta::assert_snapshot!(first.join(" "), @"k02 k33 k61 k04 k35 k27 k68 k96 k69 k86");
        assert_eq!(of(7, candidates()[..3].to_vec()).len(), 3, "no more than there are");
    }

    #[test]
    fn every_candidate_has_the_same_chance() {
        let mut times = BTreeMap::<String, u32>::new();
        for seed in 0..1_000 {
            for key in picked(&spec(ReviewPolicy::Random, 10, seed), candidates()) {
                *times.entry(key).or_default() += 1;
            }
        }
        assert_eq!(times.len(), 100);
        // Each is picked 100 times on average, with a standard deviation of 9.5.
        assert!(times.values().all(|times| (55..=145).contains(times)), "{times:?}");
    }

    #[test]
    fn uncertain_and_disagreeing_keys_are_picked_first() {
        let least = picked(&spec(ReviewPolicy::Uncertain, 3, 1), candidates());
        assert_eq!(least[0], "k50");
        assert!(least[1..].iter().all(|key| ["k49", "k51", "k48"].contains(&key.as_str())), "{least:?}");
        let most = picked(&spec(ReviewPolicy::Disagree, 2, 1), candidates());
        assert_eq!(most.iter().collect::<BTreeSet<_>>().len(), 2);
        assert!(most.iter().all(|key| ["k00", "k99"].contains(&key.as_str())), "{most:?}");
        let alone = candidates().into_iter().map(|one| Candidate { said: one.said[..1].to_vec(), ..one });
        assert_eq!(picked(&spec(ReviewPolicy::Disagree, 2, 1), alone), [""; 0]);
        let silent = candidates().into_iter().map(|one| Candidate { said: Vec::new(), ..one });
        assert_eq!(picked(&spec(ReviewPolicy::Uncertain, 2, 1), silent), [""; 0]);
    }

    #[test]
    fn values_and_labels_that_differ_are_disagreement_too() {
        let of = |label: Option<&str>, value| {
            let label = label.map(str::to_owned);
            let said = PredictionSaid { label, value, ..Default::default() };
            Said { said, is_positive: None, margin: None }
        };
        let one = |said| Candidate { said, ..Candidate::new("k", Timestamp::default()) };
        assert_eq!(one(vec![of(Some("a"), None), of(Some("b"), None)]).disagreement(), Some(1.0));
        assert_eq!(one(vec![of(None, Some(5.0)), of(None, Some(2.0))]).disagreement(), Some(3.0));
        assert_eq!(one(vec![of(Some("a"), None), of(Some("a"), None)]).disagreement(), None);
    }

    #[test]
    fn each_value_of_a_tag_has_its_turn() {
        let keys = picked(&spec(ReviewPolicy::Segment, 10, 3), candidates());
        let of_us = keys.iter().filter(|key| key.as_str() >= "k90").count();
        assert_eq!((keys.len(), of_us), (10, 5), "though nine in ten are of the other");
        let mut picker = empty(&spec(ReviewPolicy::Segment, 10, 3));
        let many = (0..=MAX_GROUPS).map(|number| {
            let mut one = candidates().remove(0);
            one.said[0].said.tags.insert("region".into(), number.to_string());
            picker.add(one)
        });
        assert!(many.last().unwrap().unwrap_err().to_string().contains("more than 100 values"));
    }

    #[test]
    fn labelled_keys_are_picked_only_on_request() {
        let judged = || candidates().into_iter().map(|one| Candidate { is_judged: true, ..one });
        let spec = spec(ReviewPolicy::Random, 10, 1);
        assert_eq!(picked(&spec, judged()), [""; 0]);
        assert_eq!(picked(&ReviewSpec { with_outcomes: true, ..spec }, judged()).len(), 10);
    }

    /// Builds forty candidates of three releases, of which one predicted twice, and of another one.
    fn compared() -> Vec<Candidate> {
        let one = |number: i32| {
            let mut one = Candidate::new(&format!("k{number:02}"), Timestamp::default());
            one.said = ["v3", "v1", "v2", "v1", "old"].map(|release| prediction(release, 0.5)).into();
            one
        };
        (0..40).map(one).collect()
    }

    type OfPairs = BTreeMap<Group, Vec<Candidate>>;

    fn pairs(seed: u32, judges: u32, known: Option<u32>, candidates: Vec<Candidate>) -> OfPairs {
        let spec = ReviewSpec { judges, ..spec(ReviewPolicy::Pairs, 10, seed) };
        let pair = ArenaPair::new(0, ["v1".into(), "v2".into()], 0);
        let taken = (0..39).map(|number| (pair.releases.to_vec(), 0, format!("k{number:02}")));
        let taken = if known.is_some() { taken.collect() } else { Taken::new() };
        let rooms = known.iter().map(|items| (&pair, Some(*items)));
        let mut picker = Picker::new(&spec, ["v1", "v2", "v3"].map(String::from).into(), (rooms, taken));
        candidates.into_iter().for_each(|candidate| picker.add(candidate).unwrap());
        picker.finish()
    }

    #[test]
    fn arena_pairs_are_balanced_and_fixed_by_seed() {
        let first = pairs(7, 1, None, compared());
        let names: Vec<String> = first.keys().map(|pair| pair.join("-")).collect();
        assert_eq!(names, ["v1-v2", "v1-v3", "v2-v3"]);
        assert!(first.values().all(|picked| picked.len() == 10));
        assert_eq!(first, pairs(7, 1, None, compared().into_iter().rev().collect()));
        assert_ne!(first, pairs(8, 1, None, compared()));
        let sides = |copy| -> Vec<bool> {
            first.values().flatten().map(|picked| picked.is_turned(7, copy)).collect()
        };
        let turned = sides(0).into_iter().filter(|is_turned| *is_turned).count();
        assert!((5..=25).contains(&turned), "{turned}");
        assert_ne!(sides(0), sides(1), "another judge sees other sides");
    }

    #[test]
    fn picked_pairs_are_not_repeated_and_are_limited() {
        let pair = vec!["v1".to_owned(), "v2".to_owned()];
        let left = pairs(7, 1, Some(39), compared());
        assert_eq!(left[&pair].iter().map(|picked| picked.key.as_str()).collect::<Vec<_>>(), ["k39"]);
        assert!(!pairs(7, 1, Some(100), compared()).contains_key(&pair), "it is full");
        assert!(!pairs(7, 2, Some(99), compared()).contains_key(&pair), "two items do not fit");
        let mut many = Candidate::new("k", Timestamp::default());
        many.said = (0..15).map(|number| prediction(&format!("r{number:02}"), 0.5)).collect();
        let all = many.said.iter().map(|said| said.said.release.clone()).collect();
        let spec = spec(ReviewPolicy::Pairs, 10, 7);
        let mut picker = Picker::new(&spec, all, (std::iter::empty(), Taken::new()));
        assert!(picker.add(many).is_err(), "105 pairs");
    }
}
