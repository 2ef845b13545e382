//! Arenas: reviews whose items each show the predictions of two releases for one key, and whose answers are votes.
//!
//! Each pair of releases has its own range of item numbers, and an item that counts its votes. A vote is counted by the
//! transaction that decides it, so the counts match the appended votes. A reviewer is served first from the pair with the fewest
//! votes, among pairs of live releases; items are picked when the arena is made, when it is refreshed, and when a reviewer asks
//! while a pair of live releases is missing.

use std::collections::{BTreeMap, BTreeSet};

use event::{Error, Id, Result, id::check_name};
use futures::{StreamExt, TryStreamExt, stream};
use log::key::{self, ReviewItemId};
use sha2::{Digest as _, Sha256};
use table::{
    Change, Condition, Item, Policy, Query, Write, item::Value, query_all, unless_overtaken, update,
};

use super::{PUTS_AT_ONCE, Review, ReviewItem, ReviewPolicy, ReviewSpec, Vote, texts};
use crate::Catalog;

/// Maximum pairs that an arena ever has.
pub const MAX_ARENA_PAIRS: usize = 100;

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

/// Version of the item of a pair.
const PAIR_VERSION: i64 = 1;

/// Specification of an arena beyond that of all reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaSpec {
    /// Compared releases; the live ones, when none is named.
    pub releases: Vec<String>,
    /// Number of people who judge the same key of a pair, 1 to [`MAX_ARENA_JUDGES`].
    pub judges: u32,
    /// Tags that are shown; all, when none is named.
    pub tags: Vec<String>,
}

/// A pair of releases of an arena, with its votes.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl ArenaSpec {
    /// Checks it together with the specification of the review.
    pub(super) fn check(&self, spec: &ReviewSpec) -> Result<()> {
        let distinct = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        let [releases, tags] = [&self.releases, &self.tags];
        releases.iter().chain(tags).try_for_each(|name| check_name(name))?;
        if releases.len() == 1 || releases.len() > MAX_ARENA_RELEASES || !distinct(releases) {
            return Err(Error::invalid(format!(
                "releases: name 2 to {MAX_ARENA_RELEASES}, each of them once, or none for those that are live"
            )));
        }
        if tags.len() > MAX_ARENA_TAGS || !distinct(tags) {
            return Err(Error::invalid(format!("tags: name at most {MAX_ARENA_TAGS}, each of them once")));
        }
        if !(1..=MAX_ARENA_JUDGES).contains(&self.judges) {
            return Err(Error::invalid(format!("judges: 1 to {MAX_ARENA_JUDGES} people judge the same")));
        }
        if spec.n.saturating_mul(self.judges) > MAX_PAIR_ITEMS {
            return Err(Error::invalid(format!(
                "n: a pair has at most {MAX_PAIR_ITEMS} items: `n` times `judges` is more"
            )));
        }
        if spec.release.is_some() || !spec.labels.is_empty() || !spec.with_outcomes {
            return Err(Error::invalid(
                "policy: an arena takes `releases` and not `release`, no labels, and predictions with outcomes as well",
            ));
        }
        match spec.model.is_some() && !releases.is_empty() {
            true => Err(Error::invalid("model: the releases say of which model they are; give one of them")),
            false => Ok(()),
        }
    }

    pub(super) fn to_value(&self) -> Value {
        let names = |names: &[String]| {
            Value::from(names.iter().map(|name| name.as_str().into()).collect::<Vec<Value>>())
        };
        let judges = Value::from(i64::from(self.judges));
        let entries = [("releases", names(&self.releases)), ("judges", judges), ("tags", names(&self.tags))];
        Value::M(entries.map(|(name, value)| (name.to_owned(), value)).into())
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        let arena = item.map("arena")?;
        let judges = match arena.get("judges") {
            Some(Value::N(judges)) => judges.as_i64().and_then(|judges| u32::try_from(judges).ok()),
            _ => None,
        };
        Ok(Self {
            releases: texts(item, arena.get("releases"))?,
            judges: judges.ok_or_else(|| item.corrupt("`judges` is no count"))?,
            tags: texts(item, arena.get("tags"))?,
        })
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

    /// Range of item numbers of the pair: the first number, and the one after the last.
    pub(super) fn numbers(&self) -> (u32, u32) {
        let first = self.number * MAX_PAIR_ITEMS;
        (first, first + self.items)
    }

    /// Number of the pair of an item.
    fn of_item(number: u32) -> u32 {
        number / MAX_PAIR_ITEMS
    }

    /// Counts one more vote on an item of the pair.
    fn counted(mut self, item: &ReviewItem, vote: Vote) -> Self {
        let is_first = |side: usize| item.said.get(side).is_some_and(|said| said.release == self.releases[0]);
        let winner = match vote {
            Vote::Left => Some(usize::from(!is_first(0))),
            Vote::Right => Some(usize::from(!is_first(1))),
            Vote::Tie => None,
        };
        match winner {
            Some(winner) => self.wins[winner] += 1,
            None => self.ties += 1,
        }
        Self { ver: self.ver + 1, ..self }
    }

    fn to_item(&self, workspace: &Id, review: &Id) -> Item {
        let [one, other] = &self.releases;
        Item::new(key::arena_pair(workspace, review, self.number))
            .with("v", PAIR_VERSION)
            .with("ver", self.ver)
            .with("releases", vec![Value::from(one.as_str()), Value::from(other.as_str())])
            .with("items", i64::from(self.items))
            .with("wins", self.wins[0] as i64)
            .with("losses", self.wins[1] as i64)
            .with("ties", self.ties as i64)
            .with("expires_at", self.expires_at)
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(PAIR_VERSION)?;
        let count = |name| {
            u64::try_from(item.int(name)?).map_err(|_| item.corrupt(format_args!("`{name}` is no count")))
        };
        let number = key::parse_arena_pair(&item.key).ok_or_else(|| item.corrupt("its key names no pair"))?;
        let releases = texts(item, item.attributes.get("releases"))?;
        Ok(Self {
            ver: item.int("ver")?,
            number,
            releases: releases.try_into().map_err(|_| item.corrupt("a pair is of two releases"))?,
            items: u32::try_from(count("items")?).map_err(|_| item.corrupt("`items` is no count"))?,
            wins: [count("wins")?, count("losses")?],
            ties: count("ties")?,
            expires_at: item.int("expires_at")?,
        })
    }
}

impl Catalog {
    /// Reads the pairs of an arena, by their numbers; at most [`MAX_ARENA_PAIRS`]. One query.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn arena_pairs(&self, workspace: &Id, review: &Id) -> Result<Vec<ArenaPair>> {
        let items = query_all(&*self.table, Query::table(key::arena_pairs(workspace, review))).await?;
        items.iter().map(ArenaPair::from_item).collect()
    }

    /// Reads the releases of a workspace that are live anywhere, of one model or of all.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn live_releases(&self, workspace: &Id, model: Option<&str>) -> Result<BTreeSet<String>> {
        let of = |(name, _): &(String, _)| model.is_none_or(|model| model == name);
        let live = self.live_now(workspace).await?.into_values().flatten();
        Ok(live.filter(of).map(|(_, live)| live.release).collect())
    }

    /// Returns whether two live releases have no pair in an arena of live releases. Two queries; none for any other review.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn lacks_pairs(&self, workspace: &Id, review: &Review) -> Result<bool> {
        if review.spec.arena.as_ref().is_none_or(|arena| !arena.releases.is_empty()) {
            return Ok(false);
        }
        let live = self.live_releases(workspace, review.spec.model.as_deref()).await?;
        let mut pairs = self.arena_pairs(workspace, &review.id).await?;
        pairs.retain(|pair| pair.releases.iter().all(|release| live.contains(release)));
        Ok(pairs.len() < live.len() * live.len().saturating_sub(1) / 2)
    }

    /// Reads the pairs that may be served now: those whose releases are live or named, sorted by the number of votes, the fewest
    /// first, then by the seed.
    pub(super) async fn pairs_in_turn(
        &self,
        (workspace, review): (&Id, &Review),
        arena: &ArenaSpec,
    ) -> Result<Vec<ArenaPair>> {
        let mut pairs = self.arena_pairs(workspace, &review.id).await?;
        if arena.releases.is_empty() {
            let live = self.live_releases(workspace, review.spec.model.as_deref()).await?;
            pairs.retain(|pair| pair.releases.iter().all(|release| live.contains(release)));
        }
        let chance = |pair: &ArenaPair| -> [u8; 32] {
            let mut hash = Sha256::new();
            hash.update(review.spec.seed.to_le_bytes());
            hash.update(pair.number.to_le_bytes());
            hash.finalize().into()
        };
        pairs.sort_by_cached_key(|pair| (pair.votes(), chance(pair)));
        Ok(pairs)
    }

    /// Adds items to pairs of an arena, which are new or unchanged since they were read. Their numbers are taken first, so items
    /// added at the same time by two processes never replace each other.
    ///
    /// # Errors
    /// `Conflict`, when another process added some meanwhile; `Invalid`, when there is no room; those of the table.
    pub async fn add_to_pairs(
        &self,
        (workspace, review): (&Id, &Id),
        added: &[(ArenaPair, Vec<ReviewItem>)],
    ) -> Result<()> {
        // Checked before numbers are taken, which a refusal would leave without items.
        self.refuse_erased(workspace, added.iter().flat_map(|(_, items)| items)).await?;
        let mut numbered = Vec::new();
        for (pair, items) in added {
            let (_, first) = pair.numbers();
            let all = u32::try_from(items.len()).unwrap_or(u32::MAX).saturating_add(pair.items);
            if all > MAX_PAIR_ITEMS || pair.number as usize >= MAX_ARENA_PAIRS {
                return Err(Error::invalid("an arena has no room for so many pairs or items"));
            }
            let key = key::arena_pair(workspace, review, pair.number);
            update(&*self.table, &key, Policy::of(&"a pair of an arena"), async |item| {
                let known =
                    item.as_ref().map(ArenaPair::from_item).transpose()?.unwrap_or_else(|| pair.clone());
                if known.items != pair.items || known.releases != pair.releases {
                    return Err(Error::conflict("somebody else refreshes the arena at this time; try again"));
                }
                Ok(Change::Put(ArenaPair { items: all, ..known }.to_item(workspace, review), ()))
            })
            .await?;
            numbered.extend((first..).zip(items));
        }
        self.put_review_items((workspace, review), numbered).await
    }

    /// Writes new items of a review under their numbers.
    pub(super) async fn put_review_items(
        &self,
        (workspace, review): (&Id, &Id),
        items: impl IntoIterator<Item = (u32, &ReviewItem)>,
    ) -> Result<()> {
        let items: Vec<_> = items.into_iter().collect();
        // Checked before they are written: an erasure searches the reviews later than that.
        self.refuse_erased(workspace, items.iter().map(|(_, item)| *item)).await?;
        let puts = items.into_iter().map(|(number, item)| {
            let at = ReviewItemId { workspace: workspace.clone(), review: review.clone(), number };
            async move { self.table.put(item.to_item(&at), Condition::Absent).await }
        });
        let puts = stream::iter(puts.collect::<Vec<_>>()).buffer_unordered(PUTS_AT_ONCE);
        puts.try_collect::<Vec<()>>().await.map(drop)
    }

    /// Refuses items of keys that are being erased.
    async fn refuse_erased<'a>(
        &self,
        workspace: &Id,
        items: impl Iterator<Item = &'a ReviewItem>,
    ) -> Result<()> {
        let erased = self.erased_keys(workspace, None).await?;
        for item in items {
            if erased.has(&item.key) {
                return Err(Error::conflict(
                    "a key of these predictions is being erased; make the review again",
                ));
            }
        }
        Ok(())
    }

    /// Records the present number of items of an arena.
    ///
    /// # Errors
    /// `NotFound`, when it was deleted; those of the table.
    pub async fn note_items(&self, workspace: &Id, review: &Review) -> Result<Review> {
        let mut tries = Policy::of(&"an arena").tries();
        loop {
            tries.next().await?;
            let known = self.review(workspace, &review.name).await?;
            let pairs = self.arena_pairs(workspace, &known.id).await?;
            let noted = Review { items: pairs.iter().map(|pair| pair.items).sum(), ..known.clone() };
            let unchanged = Condition::All(vec![
                Condition::Equals("id", known.id.as_str().into()),
                Condition::Equals("items", i64::from(known.items).into()),
            ]);
            if unless_overtaken(self.table.put(noted.to_item(workspace), unchanged).await)?.is_some() {
                return Ok(noted);
            }
        }
    }

    /// Decides a vote: the item and the count of its pair change together. `None`, when one of them was written meanwhile.
    pub(super) async fn decide_vote(
        &self,
        at: &ReviewItemId,
        (decided, unchanged): (&ReviewItem, Condition),
        vote: Vote,
    ) -> Result<Option<()>> {
        let key = key::arena_pair(&at.workspace, &at.review, ArenaPair::of_item(at.number));
        let pair = self.table.get(&key).await?;
        let gone = || Error::not_found(format!("the pair of the item {} is gone", at.number));
        let pair = ArenaPair::from_item(&pair.ok_or_else(gone)?)?;
        let of_pair = Condition::unchanged(pair.ver);
        let counted = pair.counted(decided, vote).to_item(&at.workspace, &at.review);
        let writes = vec![Write::Put(decided.to_item(at), unchanged), Write::Put(counted, of_pair)];
        unless_overtaken(self.table.transact(writes).await)
    }
}

impl Review {
    /// Specification of the review as an arena.
    ///
    /// # Errors
    /// `Invalid`, when it is no arena.
    pub fn arena(&self) -> Result<&ArenaSpec> {
        self.spec.arena.as_ref().filter(|_| self.spec.policy == ReviewPolicy::Pairs).ok_or_else(|| {
            Error::invalid(format!("the review `{}` is no arena: its policy is not `pairs`", self.name))
        })
    }
}

/// Splits the tags of an item into those equal on both sides, and the rest of each side.
pub fn shared_tags(
    [left, right]: [BTreeMap<String, String>; 2],
) -> (BTreeMap<String, String>, [BTreeMap<String, String>; 2]) {
    let of_both = |(name, text): &(&String, &String)| right.get(*name) == Some(*text);
    let own = |(name, text): (&String, &String)| (name.clone(), text.clone());
    let shared: BTreeMap<_, _> = left.iter().filter(of_both).map(own).collect();
    let rest = |tags: BTreeMap<String, String>| {
        tags.into_iter().filter(|(name, _)| !shared.contains_key(name)).collect()
    };
    let sides = [rest(left.clone()), rest(right.clone())];
    (shared, sides)
}

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::*;
    use crate::review::PredictionSaid;

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    /// A later program must read the items of an earlier one.
    #[test]
    fn the_item_of_a_pair_stays_readable() {
        let (workspace, review) = (id("2NBs0sLBnJxEcoDLgVnQdJkhEgV"), id("2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        let stored = Item::new(key::arena_pair(&workspace, &review, 7))
            .with("v", 1)
            .with("ver", 5)
            .with("releases", vec![Value::from("v1"), Value::from("v2")])
            .with("items", 40)
            .with("wins", 3)
            .with("losses", 1)
            .with("ties", 2)
            .with("expires_at", 1_900_000_000);
        let releases = ["v1".to_owned(), "v2".to_owned()];
        let pair = ArenaPair {
            ver: 5,
            items: 40,
            wins: [3, 1],
            ties: 2,
            ..ArenaPair::new(7, releases, 1_900_000_000)
        };
        assert_eq!(ArenaPair::from_item(&stored).unwrap(), pair);
        assert_eq!(pair.to_item(&workspace, &review), stored);
        assert_eq!((pair.votes(), pair.numbers(), ArenaPair::of_item(739)), (6, (700, 740), 7));
    }

    #[test]
    fn arena_vote_counts_for_release_on_its_side() {
        let said =
            |release: &str| PredictionSaid { release: release.into(), label: None, score: None, value: None };
        let item = ReviewItem {
            ver: 1,
            review: "june".into(),
            key: "k".into(),
            predicted_at: Timestamp::default(),
            said: vec![said("v2"), said("v1")],
            tags: BTreeMap::new(),
            sides: Some(<[BTreeMap<_, _>; 2]>::default()),
            lease: None,
            answer: None,
            expires_at: 0,
        };
        let pair = ArenaPair::new(0, ["v1".into(), "v2".into()], 0);
        let of = |vote| {
            let counted = pair.clone().counted(&item, vote);
            (counted.wins, counted.ties, counted.ver)
        };
        assert_eq!(Vote::ALL.map(of), [([0, 1], 0, 1), ([1, 0], 0, 1), ([0, 0], 1, 1)]);
        let other = ReviewItem { said: vec![said("v1"), said("v2")], ..item.clone() };
        assert_eq!(item.digest(), other.digest(), "whichever side is which");
        assert_ne!(item.digest(), ReviewItem { said: vec![said("v1"), said("v3")], ..item.clone() }.digest());
        assert_ne!(item.digest(), ReviewItem { sides: None, ..item.clone() }.digest());
    }

    #[test]
    fn tags_that_both_have_are_shared() {
        let tags = |all: &[(&str, &str)]| {
            all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let (shared, sides) =
            shared_tags([tags(&[("a", "1"), ("b", "2")]), tags(&[("a", "1"), ("b", "3"), ("c", "4")])]);
        assert_eq!(shared, tags(&[("a", "1")]));
        assert_eq!(sides, [tags(&[("b", "2")]), tags(&[("b", "3"), ("c", "4")])]);
    }
}
