//! Reviews: predictions that people judge, each by one of them.
//!
//! A review is made once: its items are picked by a policy and stored. An item is a prediction, or, in an *arena* (the policy
//! [`ReviewPolicy::Pairs`]), the predictions of a pair of releases for one key, and its answer is a vote. An item is open until
//! it is leased to a reviewer ([`Catalog::serve`]). It is then answered ([`Catalog::decide_answer`]) or given back
//! ([`Catalog::give_back`]), or open again when the lease ends. Each step is one transaction under the condition that the item
//! is unchanged. That of an answer also writes the copy among the answers of the reviewer, the counts of the pair and of the user,
//! and a note that the events of the answer are owed to the log, which is deleted when they are appended. Expired items count as
//! gone even before the engine deletes them.

mod answer;
mod serve;

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, Id, Result, Timestamp, Window, id::check_name};
use futures::{StreamExt, TryStreamExt, stream};
use log::key::{self, ReviewItemId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use table::{Change, Condition, Item, Policy, Query, query_all, unless_overtaken, update};

use super::Catalog;

pub use answer::{ANSWERED_DAYS, AnsweredBy, AnsweredReview, MAX_GIVEN_ANSWERS, MAX_GIVEN_DAYS};
pub use serve::{
    DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS, MIN_LEASE_SECONDS, ReviewLink, Served, guest_reviewer,
};

/// Maximum items of a review.
pub const MAX_REVIEW_ITEMS: u32 = 1_000;

/// Maximum reviews of a workspace.
pub const MAX_REVIEWS: usize = 1_000;

/// Maximum labels that a review names.
pub const MAX_REVIEW_LABELS: usize = 100;

/// Maximum days of the predictions of a review.
pub const MAX_REVIEW_WINDOW_DAYS: usize = 92;

/// Time that a review is kept, in days, unless the workspace keeps its events for a shorter time.
pub const REVIEW_DAYS: i64 = 400;

/// Default number of items of a review.
const DEFAULT_ITEMS: u32 = 100;

/// Maximum pairs that an arena ever has.
pub const MAX_ARENA_PAIRS: u32 = 100;

/// Maximum items of a pair.
pub const MAX_PAIR_ITEMS: u32 = 100;

/// Maximum people that judge the same item of a pair.
pub const MAX_ARENA_JUDGES: u32 = 10;

/// Maximum releases that an arena names: all pairs of them are no more than [`MAX_ARENA_PAIRS`].
pub const MAX_ARENA_RELEASES: usize = 14;

/// Maximum tags that an arena names.
pub const MAX_ARENA_TAGS: usize = 64;

/// Prefix of the name of an arena, in the name of the metric of its votes: `arena.june`.
pub const ARENA_METRIC: &str = "arena.";

/// Version of the items of reviews.
pub(crate) const FORM: i64 = 1;

/// Number of items written side by side.
const PUTS_AT_ONCE: usize = 16;

/// Policy by which predictions are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewPolicy {
    /// Random choice.
    #[default]
    Random,
    /// Predictions of which a release is least certain first.
    Uncertain,
    /// Predictions on which releases differ most first.
    Disagree,
    /// Random choice, the same number for each value of a tag.
    Segment,
    /// Random choice of keys that two releases predicted: an arena.
    Pairs,
}

impl ReviewPolicy {
    /// All policies.
    pub const ALL: [Self; 5] = [Self::Random, Self::Uncertain, Self::Disagree, Self::Segment, Self::Pairs];
}

/// Specification of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewSpec {
    /// First day of the predictions.
    pub from: Day,
    /// Last day of the predictions.
    pub to: Day,
    /// Policy by which they are picked.
    #[serde(default)]
    pub policy: ReviewPolicy,
    /// Maximum number of items picked, 1 to [`MAX_REVIEW_ITEMS`]; in an arena, for each pair.
    pub n: Option<u32>,
    /// Seed of the random choice: the same events and the same seed give the same items.
    #[serde(default)]
    pub seed: u32,
    /// Model whose releases' predictions are picked; all, when `None`.
    pub model: Option<String>,
    /// Release whose predictions are picked; all, when `None`.
    pub release: Option<String>,
    /// Tag whose values [`ReviewPolicy::Segment`] takes equally often.
    pub by: Option<String>,
    /// Allowed labels of an answer; any, when there are none.
    #[serde(default)]
    pub labels: Vec<String>,
    /// True if predictions with an outcome are picked too, as always in an arena.
    #[serde(default)]
    pub with_outcomes: bool,
    /// Compared releases of an arena; the live ones, when none is named.
    #[serde(default)]
    pub releases: Vec<String>,
    /// Number of people who judge the same key of a pair, 1 to [`MAX_ARENA_JUDGES`].
    #[serde(default = "one_judge")]
    pub judges: u32,
    /// Tags that an arena shows; all, when none is named.
    #[serde(default)]
    pub tags: Vec<String>,
}

fn one_judge() -> u32 {
    1
}

/// A review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Id of the review.
    pub id: Id,
    /// Name, which no other review of the workspace has.
    pub name: String,
    /// Specification of the review.
    #[serde(flatten)]
    pub spec: ReviewSpec,
    /// Number of its items.
    pub items: u32,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Principal who created it.
    pub created_by: String,
    /// Time from which it counts as gone, in seconds since 1970.
    pub expires_at: i64,
}

/// A pair of releases of an arena, with its votes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaPair {
    /// Version, which grows by one with each write.
    pub ver: i64,
    /// Number among the pairs of the arena, from 0.
    pub number: u32,
    /// Names of the releases.
    pub releases: [String; 2],
    /// Number of its items.
    pub items: u32,
    /// Number of wins of each release.
    pub wins: [u64; 2],
    /// Number of ties.
    pub ties: u64,
    /// Time from which it counts as gone, in seconds since 1970.
    pub expires_at: i64,
}

/// Items picked for a review: those of a pair of an arena, or all of another review. They are numbered when they are stored.
pub type PickedItems = (Option<ArenaPair>, Vec<ReviewItem>);

/// Prediction of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionSaid {
    /// Name of the release.
    pub release: String,
    /// Label; for a binary prediction with a score alone the positive label, when the score reaches the threshold.
    pub label: Option<String>,
    /// The score.
    pub score: Option<f64>,
    /// The value.
    pub value: Option<f64>,
    /// In an arena, the tags that are not on both sides; the common ones are those of the item.
    pub tags: BTreeMap<String, String>,
}

/// Better one of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vote {
    /// The left one.
    Left,
    /// The right one.
    Right,
    /// Neither.
    Tie,
}

impl Vote {
    /// All votes.
    pub const ALL: [Self; 3] = [Self::Left, Self::Right, Self::Tie];

    /// Name of the vote.
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Tie => "tie",
        }
    }

    /// Points of the left and the right side: 1 for a win, 0 for a loss, a half for a tie.
    pub fn points(self) -> [f64; 2] {
        match self {
            Self::Left => [1.0, 0.0],
            Self::Right => [0.0, 1.0],
            Self::Tie => [0.5, 0.5],
        }
    }
}

/// Verdict of a reviewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The class.
    Label(String),
    /// The number.
    Value(f64),
    /// Better side, for an item of an arena.
    Vote(Vote),
}

impl Verdict {
    /// Reads a verdict: exactly one of a label, a value and a vote.
    ///
    /// # Errors
    /// `Invalid`, when there are several or none.
    pub fn read(label: Option<String>, value: Option<f64>, vote: Option<Vote>) -> Result<Self> {
        match (label, value, vote) {
            (Some(label), None, None) => Ok(Self::Label(label)),
            (None, Some(value), None) => Ok(Self::Value(value)),
            (None, None, Some(vote)) => Ok(Self::Vote(vote)),
            _ => Err(Error::invalid("an answer has a `label`, a `value` or a `vote`, and no two of them")),
        }
    }

    /// Returns whether a release predicted the same label; `None`, if it predicted none.
    pub fn agrees(&self, said: &PredictionSaid) -> Option<bool> {
        match self {
            Self::Label(label) => said.label.as_ref().map(|said| said == label),
            Self::Value(_) | Self::Vote(_) => None,
        }
    }
}

/// Lease of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewLease {
    /// The reviewer.
    pub reviewer: String,
    /// End of the lease, from which another reviewer may have the item.
    pub until: Timestamp,
    /// Digest of the link by which it may be judged.
    pub link: String,
}

/// Answer, which never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewAnswer {
    /// Verdict of the answer.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Reviewer who gave it.
    pub reviewer: String,
    /// Time of the answer.
    pub at: Timestamp,
    /// Segment that stands before its events, for each log that they go to.
    pub after: BTreeMap<String, u64>,
}

/// An item of a review, also as the copy among the answers of its reviewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewItem {
    /// Version, which grows by one with each write.
    pub ver: i64,
    /// Id of the item.
    pub id: ReviewItemId,
    /// The name of the review.
    pub review: String,
    /// Key of the prediction.
    pub key: String,
    /// Instant of the prediction.
    pub predicted_at: Timestamp,
    /// True in an arena.
    pub is_pair: bool,
    /// Predictions of releases, which no reviewer is shown before the answer; in an arena those of the left and of the right
    /// side, of which only the names are hidden.
    pub said: Vec<PredictionSaid>,
    /// Tags of the prediction, which are shown to a reviewer.
    pub tags: BTreeMap<String, String>,
    /// Present or last lease.
    pub lease: Option<ReviewLease>,
    /// The answer.
    pub answer: Option<ReviewAnswer>,
    /// Time from which it counts as gone, in seconds since 1970.
    pub expires_at: i64,
}

impl ReviewSpec {
    /// Builds the specification of a random choice of predictions.
    pub fn new(window: Window) -> Self {
        Self {
            from: window.from(),
            to: window.to(),
            policy: ReviewPolicy::Random,
            n: None,
            seed: 0,
            model: None,
            release: None,
            by: None,
            labels: Vec::new(),
            with_outcomes: false,
            releases: Vec::new(),
            judges: one_judge(),
            tags: Vec::new(),
        }
    }

    /// Returns whether the review is an arena.
    pub fn is_arena(&self) -> bool {
        self.policy == ReviewPolicy::Pairs
    }

    /// Days of the predictions.
    pub fn window(&self) -> Window {
        Window::of(self.from).until(self.to)
    }

    /// Sets what is not given, and checks everything that can be checked without reading.
    ///
    /// # Errors
    /// `Invalid`, naming the fault.
    pub fn checked(mut self) -> Result<Self> {
        let is_arena = self.is_arena();
        self.with_outcomes |= is_arena;
        let n =
            *self.n.get_or_insert(if is_arena { MAX_PAIR_ITEMS / self.judges.max(1) } else { DEFAULT_ITEMS });
        let days = Window::new(self.from, self.to)?.days().take(MAX_REVIEW_WINDOW_DAYS + 1).count();
        let names = self.model.iter().chain(&self.release).chain(&self.by);
        names.chain(&self.releases).chain(&self.tags).try_for_each(|name| check_name(name))?;
        let is_distinct = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        let has_own = !self.releases.is_empty() || self.judges != one_judge() || !self.tags.is_empty();
        let has_single = self.release.is_some() || !self.labels.is_empty();
        let (releases, labels, tags) = (&self.releases, &self.labels, &self.tags);
        let fault = match self.policy {
            _ if n == 0 || n > MAX_REVIEW_ITEMS => format!("n: a review has 1 to {MAX_REVIEW_ITEMS} items"),
            _ if days > MAX_REVIEW_WINDOW_DAYS => {
                format!("to: a review is of at most {MAX_REVIEW_WINDOW_DAYS} days")
            }
            _ if self.model.is_some() && (self.release.is_some() || !releases.is_empty()) => {
                "model: a release says of which model it is; give one of them".into()
            }
            policy if (policy == ReviewPolicy::Segment) != self.by.is_some() => {
                "by: the policy `segment`, and no other, needs the name of a tag".into()
            }
            ReviewPolicy::Disagree if self.release.is_some() => {
                "release: one release does not disagree; name a model or nothing".into()
            }
            _ if labels.len() > MAX_REVIEW_LABELS || !is_distinct(labels) => {
                format!("labels: give at most {MAX_REVIEW_LABELS}, each of them once")
            }
            _ if if is_arena { has_single } else { has_own } => {
                "policy: `pairs`, and no other, takes `releases`, `judges` and `tags`, and neither `release` nor `labels`".into()
            }
            _ if releases.len() == 1 || releases.len() > MAX_ARENA_RELEASES || !is_distinct(releases) => {
                format!("releases: name 2 to {MAX_ARENA_RELEASES}, each of them once, or none for those that are live")
            }
            _ if tags.len() > MAX_ARENA_TAGS || !is_distinct(tags) => {
                format!("tags: name at most {MAX_ARENA_TAGS}, each of them once")
            }
            _ if !(1..=MAX_ARENA_JUDGES).contains(&self.judges) => {
                format!("judges: 1 to {MAX_ARENA_JUDGES} people judge the same")
            }
            ReviewPolicy::Pairs if n.saturating_mul(self.judges) > MAX_PAIR_ITEMS => {
                format!("n: a pair has at most {MAX_PAIR_ITEMS} items: `n` times `judges` is more")
            }
            _ => return Ok(self),
        };
        Err(Error::invalid(fault))
    }
}

impl Review {
    fn to_item(&self, workspace: &Id) -> Item {
        Item::record(key::review(workspace, &self.name), FORM, self)
    }

    /// Checks that the review is an arena.
    ///
    /// # Errors
    /// `Invalid`, when it is none.
    pub fn check_arena(&self) -> Result<()> {
        match self.spec.is_arena() {
            true => Ok(()),
            false => {
                let name = &self.name;
                Err(Error::invalid(format!("the review `{name}` is no arena: its policy is not `pairs`")))
            }
        }
    }
}

impl ArenaPair {
    /// Creates a pair without items and votes.
    pub fn new(number: u32, releases: [String; 2], expires_at: i64) -> Self {
        Self { ver: 0, number, releases, items: 0, wins: [0, 0], ties: 0, expires_at }
    }

    /// Number of votes.
    pub fn votes(&self) -> u64 {
        self.wins[0] + self.wins[1] + self.ties
    }

    /// Numbers of the items of the pair.
    fn numbers(&self) -> std::ops::Range<u32> {
        let first = self.number * MAX_PAIR_ITEMS;
        first..first + self.items
    }

    /// Returns whether all of its releases are among some.
    fn is_of(&self, releases: &BTreeSet<String>) -> bool {
        self.releases.iter().all(|release| releases.contains(release))
    }

    /// Counts one more vote on an item of the pair.
    fn count(&mut self, item: &ReviewItem, vote: Vote) {
        let is_first = |side: usize| item.said.get(side).is_some_and(|said| said.release == self.releases[0]);
        match vote {
            Vote::Left => self.wins[usize::from(!is_first(0))] += 1,
            Vote::Right => self.wins[usize::from(!is_first(1))] += 1,
            Vote::Tie => self.ties += 1,
        }
        self.ver += 1;
    }
}

impl ReviewItem {
    /// Digest by which it is known that a reviewer was shown this prediction, or this pair of releases on it, in any review.
    pub fn digest(&self) -> [u8; 16] {
        let mut hash = Sha256::new();
        if self.is_pair {
            let releases: BTreeSet<&str> = self.said.iter().map(|said| said.release.as_str()).collect();
            hash.update(b"pair\0");
            releases.into_iter().for_each(|release| hash.update(format!("{release}\0")));
        }
        hash.update(self.predicted_at.micros().to_le_bytes());
        hash.update(self.key.as_bytes());
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        digest
    }

    fn to_item(&self) -> Item {
        Item::record(key::review_item(&self.id), FORM, self)
    }

    /// Replaces the key by a pseudonym and removes the tags, `with_values` also the predictions of the releases.
    pub(crate) fn erase(&mut self, pseudonym: &str, with_values: bool) {
        pseudonym.clone_into(&mut self.key);
        self.tags.clear();
        for said in &mut self.said {
            said.tags.clear();
            if with_values {
                (said.label, said.score, said.value) = (None, None, None);
            }
        }
    }
}

impl Catalog {
    /// Makes a review of picked items. Returns the existing review for a repeat with the same name and the same specification.
    ///
    /// # Errors
    /// `Invalid`, when the name is not valid; `Conflict`, when another review has the name, or there are too many; those of
    /// [`Catalog::add_review_items`].
    pub async fn create_review(
        &self,
        workspace: &Id,
        review: Review,
        picked: Vec<PickedItems>,
    ) -> Result<Review> {
        if let Some(known) = self.review_again(workspace, &review.name, &review.spec).await? {
            return Ok(known);
        }
        let names = Query::table(key::reviews(workspace)).only(&["v"]);
        if query_all(&*self.table, names).await?.len() >= MAX_REVIEWS {
            return Err(Error::conflict(format!(
                "the workspace has {MAX_REVIEWS} reviews; delete those that are done"
            )));
        }
        // Without the review that names them the items are never found, and they expire.
        self.add_review_items(workspace, &review, picked).await?;
        let made = review.to_item(workspace).with("ver", 1);
        match unless_overtaken(self.table.put(made, Condition::Absent).await)? {
            Some(()) => Ok(review),
            None => self.review_again(workspace, &review.name, &review.spec).await?.ok_or_else(|| {
                Error::conflict(format!("the review `{}` was made and deleted meanwhile", review.name))
            }),
        }
    }

    async fn find_review(&self, workspace: &Id, name: &str) -> Result<Option<Review>> {
        check_name(name)?;
        let item = self.table.get(&key::review(workspace, name)).await?;
        item.map(|item| item.to_record(FORM)).transpose()
    }

    /// Finds the review of a name, which must have the same specification.
    ///
    /// # Errors
    /// `Conflict`, when it has another one; those of the table.
    pub async fn review_again(
        &self,
        workspace: &Id,
        name: &str,
        spec: &ReviewSpec,
    ) -> Result<Option<Review>> {
        match self.find_review(workspace, name).await? {
            Some(known) if known.spec != *spec => Err(Error::conflict(format!(
                "there is a review `{name}` that asks for something else; take another name, or delete it"
            ))),
            known => Ok(known),
        }
    }

    /// Reads a review.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this name; those of the table.
    pub async fn review(&self, workspace: &Id, name: &str) -> Result<Review> {
        self.find_review(workspace, name).await?.ok_or_else(|| missing(name))
    }

    /// Reads the reviews of a workspace, by name.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn reviews(&self, workspace: &Id) -> Result<Vec<Review>> {
        let items = query_all(&*self.table, Query::table(key::reviews(workspace))).await?;
        items.iter().map(|item| item.to_record(FORM)).collect()
    }

    /// Reads the items of a review, in their order; at most [`MAX_REVIEW_ITEMS`], and of an arena [`MAX_PAIR_ITEMS`] of each
    /// pair.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn review_items(&self, workspace: &Id, review: &Id) -> Result<Vec<ReviewItem>> {
        let all = key::review_items(workspace, review, 0..MAX_ARENA_PAIRS * MAX_PAIR_ITEMS);
        let items = query_all(&*self.table, Query::table(all)).await?;
        items.iter().map(|item| item.to_record(FORM)).collect()
    }

    /// Reads an item of a review.
    ///
    /// # Errors
    /// `NotFound`, when there is none; those of the table.
    pub async fn review_item(&self, id: &ReviewItemId) -> Result<ReviewItem> {
        let item = self.table.get(&key::review_item(id)).await?;
        let missing = || Error::not_found(format!("there is no item {} in this review", id.number));
        item.ok_or_else(missing)?.to_record(FORM)
    }

    /// Deletes a review. Its items are served no more and expire; appended outcomes stay.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this name; those of the table.
    pub async fn delete_review(&self, workspace: &Id, name: &str) -> Result<()> {
        check_name(name)?;
        let deleted = self.table.delete(&key::review(workspace, name), Condition::Exists).await;
        unless_overtaken(deleted)?.ok_or_else(|| missing(name))
    }

    /// Reads the pairs of an arena, by their numbers; at most [`MAX_ARENA_PAIRS`]. One query.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn arena_pairs(&self, workspace: &Id, review: &Id) -> Result<Vec<ArenaPair>> {
        let items = query_all(&*self.table, Query::table(key::arena_pairs(workspace, review))).await?;
        items.iter().map(|item| item.to_record(FORM)).collect()
    }

    /// Reads the releases that an arena compares now: the named ones, or those that are live anywhere, of one model or of all.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn compared_releases(&self, workspace: &Id, spec: &ReviewSpec) -> Result<BTreeSet<String>> {
        if !spec.releases.is_empty() {
            return Ok(spec.releases.iter().cloned().collect());
        }
        let live = self.live_now(workspace).await?.into_values().flatten();
        let of_model = live.filter(|(model, _)| spec.model.as_ref().is_none_or(|own| own == model));
        Ok(of_model.map(|(_, live)| live.release).collect())
    }

    /// Reads the pairs of an arena, each with true if it is served now: if the arena compares both of its releases.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn compared_pairs(&self, workspace: &Id, review: &Review) -> Result<Vec<(ArenaPair, bool)>> {
        let pairs = self.arena_pairs(workspace, &review.id).await?;
        let releases = self.compared_releases(workspace, &review.spec).await?;
        Ok(pairs.into_iter().map(|pair| (pair.is_of(&releases), pair)).map(|(is, pair)| (pair, is)).collect())
    }

    /// Returns whether two live releases have no pair in an arena of live releases. Two queries; none for any other review.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn lacks_pairs(&self, workspace: &Id, review: &Review) -> Result<bool> {
        if !review.spec.is_arena() || !review.spec.releases.is_empty() {
            return Ok(false);
        }
        let live = self.compared_releases(workspace, &review.spec).await?;
        let pairs = self.arena_pairs(workspace, &review.id).await?;
        let known = pairs.iter().filter(|pair| pair.is_of(&live)).count();
        Ok(known < live.len() * live.len().saturating_sub(1) / 2)
    }

    /// Stores picked items. Pairs are new or unchanged since they were read. Numbers of the items of a pair are taken first, so
    /// items added at the same time by two processes never replace each other.
    ///
    /// # Errors
    /// `Conflict`, when another process added some meanwhile, or a key is being erased; `Invalid`, when there is no room; those of
    /// the table.
    pub async fn add_review_items(
        &self,
        workspace: &Id,
        review: &Review,
        picked: Vec<PickedItems>,
    ) -> Result<()> {
        // Checked before numbers are taken, which a refusal would leave without items; an erasure searches the reviews later.
        let erased = self.erased_keys(workspace, None).await?;
        if picked.iter().flat_map(|(_, items)| items).any(|item| erased.has(&item.key)) {
            return Err(Error::conflict("a key of these predictions is being erased; make the review again"));
        }
        let mut puts = Vec::new();
        for (pair, items) in picked {
            let first = match &pair {
                Some(pair) => self.take_numbers(workspace, &review.id, (pair, items.len())).await?,
                None => 0,
            };
            for (number, mut item) in (first..).zip(items) {
                item.id.number = number;
                puts.push(item.to_item());
            }
        }
        let puts = puts.into_iter().map(|item| self.table.put(item, Condition::Absent));
        stream::iter(puts).buffer_unordered(PUTS_AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
    }

    /// Takes numbers for new items of a pair; returns the first one.
    async fn take_numbers(
        &self,
        workspace: &Id,
        review: &Id,
        (pair, more): (&ArenaPair, usize),
    ) -> Result<u32> {
        let items = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(pair.items);
        if items > MAX_PAIR_ITEMS || pair.number >= MAX_ARENA_PAIRS {
            return Err(Error::invalid("an arena has no room for so many pairs or items"));
        }
        let key = key::arena_pair(workspace, review, pair.number);
        update(&*self.table, &key, Policy::of(&"a pair of an arena"), async |item| {
            let known = item.map(|item| item.to_record(FORM)).transpose()?.unwrap_or_else(|| pair.clone());
            if known.items != pair.items || known.releases != pair.releases {
                return Err(Error::conflict("somebody else refreshes the arena at this time; try again"));
            }
            Ok(Change::Put(Item::record(key.clone(), FORM, &ArenaPair { items, ..known }), ()))
        })
        .await?;
        Ok(pair.numbers().end)
    }

    /// Records the present number of items of an arena.
    ///
    /// # Errors
    /// `NotFound`, when it was deleted; those of the table.
    pub async fn note_items(&self, workspace: &Id, review: &Review) -> Result<Review> {
        let key = key::review(workspace, &review.name);
        update(&*self.table, &key, Policy::of(&"an arena"), async |item| {
            let known = item.map(|item| item.to_record::<Review>(FORM)).transpose()?;
            let known = known.filter(|known| known.id == review.id);
            let gone = || Error::not_found(format!("the review `{}` was deleted", review.name));
            let pairs = self.arena_pairs(workspace, &review.id).await?;
            let items = pairs.iter().map(|pair| pair.items).sum();
            let noted = Review { items, ..known.ok_or_else(gone)? };
            Ok(Change::Put(noted.to_item(workspace), noted))
        })
        .await
    }
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("there is no review `{name}` in this workspace"))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn item() -> ReviewItem {
        let id = |text| Id::parse(text).unwrap();
        let (workspace, review) = (id("2NBs0sLBnJxEcoDLgVnQdJkhEgV"), id("2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        let said = |release: &str| PredictionSaid { release: release.into(), ..Default::default() };
        ReviewItem {
            ver: 1,
            id: ReviewItemId { workspace, review, number: 3 },
            review: "june".into(),
            key: "loan-1".into(),
            predicted_at: Timestamp::parse("2026-06-01T04:30:00Z").unwrap(),
            is_pair: false,
            said: vec![said("v1"), said("v2")],
            tags: BTreeMap::new(),
            lease: None,
            answer: None,
            expires_at: 1_900_000_000,
        }
    }

    fn spec() -> ReviewSpec {
        let window = Window::new("2026-06-01".parse().unwrap(), "2026-06-07".parse().unwrap()).unwrap();
        let (policy, by) = (ReviewPolicy::Segment, Some("region".into()));
        ReviewSpec { policy, by, n: Some(50), model: Some("churn".into()), ..ReviewSpec::new(window) }
    }

    fn arena() -> ReviewSpec {
        let releases = vec!["v1".into(), "v2".into()];
        let (policy, by, model) = (ReviewPolicy::Pairs, None, None);
        ReviewSpec { policy, by, model, releases, judges: 2, ..spec() }
    }

    #[test]
    fn invalid_review_is_refused_with_reason() {
        assert_eq!(spec().checked().unwrap(), spec());
        let refused = |wrong: ReviewSpec| wrong.checked().unwrap_err().to_string();
        let disagree = ReviewPolicy::Disagree;
        let texts = [
            refused(ReviewSpec { n: Some(0), ..spec() }),
            refused(ReviewSpec { n: Some(1_001), ..spec() }),
            refused(ReviewSpec { to: "2026-05-01".parse().unwrap(), ..spec() }),
            refused(ReviewSpec { to: "2026-10-01".parse().unwrap(), ..spec() }),
            refused(ReviewSpec { release: Some("v1".into()), ..spec() }),
            refused(ReviewSpec { by: None, ..spec() }),
            refused(ReviewSpec { policy: ReviewPolicy::Random, ..spec() }),
            refused(ReviewSpec {
                policy: disagree,
                by: None,
                model: None,
                release: Some("v1".into()),
                ..spec()
            }),
            refused(ReviewSpec { labels: vec!["1".into(), "1".into()], ..spec() }),
            refused(ReviewSpec { judges: 2, ..spec() }),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        n: a review has 1 to 1000 items
        n: a review has 1 to 1000 items
        the window is empty: from 2026-06-01 is after to 2026-05-01
        to: a review is of at most 92 days
        model: a release says of which model it is; give one of them
        by: the policy `segment`, and no other, needs the name of a tag
        by: the policy `segment`, and no other, needs the name of a tag
        release: one release does not disagree; name a model or nothing
        labels: give at most 100, each of them once
        policy: `pairs`, and no other, takes `releases`, `judges` and `tags`, and neither `release` nor `labels`
        ");
    }

    #[test]
    fn invalid_arena_is_refused_with_reason() {
        assert!(arena().checked().unwrap().with_outcomes);
        assert_eq!(ReviewSpec { n: None, ..arena() }.checked().unwrap().n, Some(50));
        let refused = |wrong: ReviewSpec| wrong.checked().unwrap_err().to_string();
        let texts = [
            refused(ReviewSpec { releases: vec!["v1".into()], ..arena() }),
            refused(ReviewSpec { releases: vec!["v1".into(), "v1".into()], ..arena() }),
            refused(ReviewSpec { tags: vec!["t".into(), "t".into()], ..arena() }),
            refused(ReviewSpec { judges: 0, ..arena() }),
            refused(ReviewSpec { n: Some(51), ..arena() }),
            refused(ReviewSpec { labels: vec!["1".into()], ..arena() }),
            refused(ReviewSpec { model: Some("m".into()), ..arena() }),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        releases: name 2 to 14, each of them once, or none for those that are live
        releases: name 2 to 14, each of them once, or none for those that are live
        tags: name at most 64, each of them once
        judges: 1 to 10 people judge the same
        n: a pair has at most 100 items: `n` times `judges` is more
        policy: `pairs`, and no other, takes `releases`, `judges` and `tags`, and neither `release` nor `labels`
        model: a release says of which model it is; give one of them
        ");
    }

    #[test]
    fn arena_vote_counts_for_release_on_its_side() {
        let item = ReviewItem { is_pair: true, ..item() };
        let turned = ReviewItem { said: item.said.iter().rev().cloned().collect(), ..item.clone() };
        let of = |item: &ReviewItem, vote| {
            let mut pair = ArenaPair::new(7, ["v1".into(), "v2".into()], 0);
            pair.count(item, vote);
            (pair.wins, pair.ties, pair.ver)
        };
        assert_eq!(Vote::ALL.map(|vote| of(&item, vote)), [([1, 0], 0, 1), ([0, 1], 0, 1), ([0, 0], 1, 1)]);
        assert_eq!(Vote::ALL.map(|vote| of(&turned, vote)), [([0, 1], 0, 1), ([1, 0], 0, 1), ([0, 0], 1, 1)]);
        assert_eq!(item.digest(), turned.digest(), "whichever side is which");
        let mut other = item.clone();
        other.said[1].release = "v3".into();
        assert_ne!(item.digest(), other.digest());
        assert_ne!(item.digest(), ReviewItem { is_pair: false, ..item }.digest());
    }

    proptest! {
        #[test]
        fn items_round_trip(key in "\\PC{1,40}", value in -1e120f64..1e120, tag in "\\PC{0,40}") {
            let at = item().predicted_at;
            let (verdict, after) = (Verdict::Value(value), [("day#2026-06-01/o/02".to_owned(), 7)].into());
            let answer = ReviewAnswer { verdict, reviewer: "user:ann".into(), at, after };
            let lease = ReviewLease { reviewer: "user:ann".into(), until: at, link: "07".into() };
            let said = vec![PredictionSaid { value: Some(value), release: "v2".into(), ..Default::default() }];
            let tags = [("t".to_owned(), tag)].into();
            let item = ReviewItem { key, said, tags, lease: Some(lease), answer: Some(answer), ..item() };
            prop_assert_eq!(item.to_item().to_record::<ReviewItem>(FORM).unwrap(), item);
        }
    }
}
