//! Selection of predictions: a pure function of them, the policy and the seed, in bounded memory.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use catalog::{ReviewPolicy, ReviewSpec};
use event::{Error, Result, Timestamp};
use sha2::{Digest as _, Sha256};

use super::Picks;

/// Maximum number of values of a tag for picking equally from each.
pub(super) const MAX_VALUES: usize = 100;

/// A prediction by one release.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    pub(super) release: String,
    pub(super) label: Option<String>,
    /// True if its score reaches the threshold.
    pub(super) is_positive: Option<bool>,
    pub(super) score: Option<f64>,
    pub(super) value: Option<f64>,
    /// Its own tags.
    pub(super) tags: BTreeMap<String, String>,
    /// Certainty of the release: the distance of the score from the threshold, or from the score of the second class.
    pub(super) margin: Option<f64>,
}

/// A candidate: the predictions of all releases for one key at one instant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) key: String,
    pub(super) predicted_at: Timestamp,
    pub(super) said: Vec<Said>,
    pub(super) tags: BTreeMap<String, String>,
    /// True if it has an outcome.
    pub(super) is_judged: bool,
}

impl Candidate {
    pub(super) fn new(key: &str, predicted_at: Timestamp) -> Self {
        let (said, tags) = (Vec::new(), BTreeMap::new());
        Self { key: key.to_owned(), predicted_at, said, tags, is_judged: false }
    }

    /// Returns its random place, which is fixed for a seed.
    pub(super) fn chance(&self, seed: u32) -> u64 {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update(self.predicted_at.micros().to_le_bytes());
        hash.update(self.key.as_bytes());
        hash.finalize().first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
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
        let spread = |of: fn(&Said) -> Option<f64>| {
            let all = || self.said.iter().filter_map(of);
            Some(all().max_by(f64::total_cmp)? - all().min_by(f64::total_cmp)?)
        };
        let labels: BTreeSet<_> = self.said.iter().filter_map(|said| said.label.as_ref()).collect();
        let signs: BTreeSet<_> = self.said.iter().filter_map(|said| said.is_positive).collect();
        let is_other = labels.len() > 1 || signs.len() > 1;
        match spread(|said| said.score) {
            Some(scores) => Some(scores + f64::from(is_other)),
            None if is_other => Some(1.0),
            None => spread(|said| said.value),
        }
    }
}

/// Order in which candidates are picked: by weight, the greatest first, then at random.
type Rank = (Reverse<u64>, u64, i64, String);

/// Picks among candidates, independent of their order.
pub(super) struct Picker {
    policy: ReviewPolicy,
    by: Option<String>,
    n: usize,
    seed: u32,
    with_outcomes: bool,
    /// The first `n` candidates of each value of the tag.
    kept: BTreeMap<Option<String>, BTreeMap<Rank, Candidate>>,
}

impl Picker {
    pub(super) fn new(spec: &ReviewSpec) -> Self {
        let ReviewSpec { policy, by, n, seed, with_outcomes, .. } = spec;
        let (by, n) = (by.clone(), *n as usize);
        Self { policy: *policy, by, n, seed: *seed, with_outcomes: *with_outcomes, kept: BTreeMap::new() }
    }

    /// Returns the picks in their order: of several values one of each in turn.
    pub(super) fn finish(self) -> Vec<Candidate> {
        let mut turns: Vec<(usize, Rank, Candidate)> = Vec::new();
        for of_value in self.kept.into_values() {
            let own = of_value.into_iter().enumerate();
            turns.extend(own.map(|(turn, (rank, candidate))| (turn, rank, candidate)));
        }
        if self.by.is_some() {
            turns.sort_by(|(turn, rank, _), (other, than, _)| (turn, rank).cmp(&(other, than)));
        }
        turns.into_iter().take(self.n).map(|(_, _, candidate)| candidate).collect()
    }
}

impl Picks for Picker {
    /// Adds a candidate.
    ///
    /// # Errors
    /// `TooLarge`, if the tag has too many values.
    fn add(&mut self, candidate: Candidate) -> Result<()> {
        if candidate.is_judged && !self.with_outcomes {
            return Ok(());
        }
        let Some(weight) = candidate.weight(self.policy) else { return Ok(()) };
        let value = match &self.by {
            None => None,
            Some(tag) => match candidate.tags.get(tag) {
                Some(value) => Some(value.clone()),
                None => return Ok(()),
            },
        };
        if !self.kept.contains_key(&value) && self.kept.len() >= MAX_VALUES {
            let by = self.by.as_deref().unwrap_or_default();
            return Err(Error::too_large(format!(
                "by: the tag `{by}` has more than {MAX_VALUES} values; name another one"
            )));
        }
        // Doubles that are not negative are ordered as their bits.
        let rank = (
            Reverse(weight.to_bits()),
            candidate.chance(self.seed),
            candidate.predicted_at.micros(),
            candidate.key.clone(),
        );
        let kept = self.kept.entry(value).or_default();
        kept.insert(rank, candidate);
        if kept.len() > self.n {
            kept.pop_last();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::Window;

    use super::*;

    fn spec(policy: ReviewPolicy, n: u32, seed: u32) -> ReviewSpec {
        let by = (policy == ReviewPolicy::Segment).then(|| "region".to_owned());
        let window = Window::of("2026-06-01".parse().unwrap());
        let labels = Vec::new();
        ReviewSpec {
            model: None,
            release: None,
            window,
            policy,
            by,
            n,
            seed,
            labels,
            with_outcomes: false,
            arena: None,
        }
    }

    fn said(release: &str, score: f64) -> Said {
        Said {
            release: release.into(),
            label: None,
            is_positive: Some(score >= 0.5),
            score: Some(score),
            value: None,
            tags: BTreeMap::new(),
            margin: Some((score - 0.5).abs()),
        }
    }

    /// Builds a hundred candidates: their scores go from 0 to 0.99, those of a second release the other way.
    fn candidates() -> Vec<Candidate> {
        let one = |number: i32| {
            let score = f64::from(number) / 100.0;
            let mut one = Candidate::new(&format!("k{number:02}"), Timestamp::default());
            one.said = vec![said("v1", score), said("v2", 0.99 - score)];
            let region = if number < 90 { "eu" } else { "us" };
            one.tags.insert("region".into(), region.into());
            one
        };
        (0..100).map(one).collect()
    }

    fn picked(spec: &ReviewSpec, candidates: impl IntoIterator<Item = Candidate>) -> Vec<String> {
        let mut picker = Picker::new(spec);
        candidates.into_iter().for_each(|candidate| picker.add(candidate).unwrap());
        picker.finish().into_iter().map(|candidate| candidate.key).collect()
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
        let of = |label: Option<&str>, value| Said {
            label: label.map(str::to_owned),
            is_positive: None,
            score: None,
            value,
            margin: None,
            ..said("v1", 0.0)
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
        let mut picker = Picker::new(&spec(ReviewPolicy::Segment, 10, 3));
        let many = (0..=MAX_VALUES).map(|number| {
            let mut one = candidates().remove(0);
            one.tags.insert("region".into(), number.to_string());
            picker.add(one)
        });
        assert!(many.last().unwrap().unwrap_err().to_string().contains("more than 100 values"));
    }

    #[test]
    fn judged_keys_are_picked_only_on_request() {
        let judged = || candidates().into_iter().map(|one| Candidate { is_judged: true, ..one });
        let spec = spec(ReviewPolicy::Random, 10, 1);
        assert_eq!(picked(&spec, judged()), [""; 0]);
        assert_eq!(picked(&ReviewSpec { with_outcomes: true, ..spec }, judged()).len(), 10);
    }
}
