//! Serving: leasing the next item to a reviewer, for an answer with an account or by a link.

use std::{collections::BTreeMap, fmt, ops::Range};

use event::{
    Day, Error, Id, Result, Timestamp,
    id::{check_name, random_letters},
};
use log::key::{self, ReviewItemId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use table::{Condition, Item, Pages, Policy, Query, Write, unless_overtaken};

use super::{AnsweredBy, FORM, MAX_REVIEW_ITEMS, Review, ReviewItem, ReviewLease};
use crate::Catalog;

/// Default time of a lease.
pub const DEFAULT_LEASE_SECONDS: i64 = 10 * 60;

/// Minimum time of a lease.
pub const MIN_LEASE_SECONDS: i64 = 60;

/// Maximum time of a lease: a link that is sent to somebody is valid as long.
pub const MAX_LEASE_SECONDS: i64 = 7 * 24 * 60 * 60;

/// Number of items read together.
const ITEMS_AT_ONCE: usize = 32;

/// Prefix of every link.
const LINK_PREFIX: &str = "alj_";

/// Number of random letters of a link: 190 bits.
const LINK_CHANCE: usize = 32;

/// Number of letters of an id.
const ID_LETTERS: usize = 27;

/// Secret by which anybody who has it can judge one item, once. The table has the SHA-256 of its text.
#[derive(Clone, PartialEq, Eq)]
pub struct ReviewLink {
    item: ReviewItemId,
    text: String,
}

impl ReviewLink {
    /// Creates a link with a new secret.
    pub fn new(item: &ReviewItemId) -> Self {
        let chance = random_letters(LINK_CHANCE);
        let text = format!("{LINK_PREFIX}{}{}{:04}{chance}", item.workspace, item.review, item.number);
        Self { item: item.clone(), text }
    }

    /// Parses a link.
    ///
    /// # Errors
    /// `NotFound`, when the text is no link.
    pub fn parse(text: &str) -> Result<Self> {
        let item = || {
            let rest = text.strip_prefix(LINK_PREFIX)?;
            let is_whole = rest.len() == 2 * ID_LETTERS + 4 + LINK_CHANCE;
            (is_whole && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(())?;
            let id = |from| Id::parse(&rest[from..from + ID_LETTERS]).ok();
            let number = rest[2 * ID_LETTERS..][..4].parse().ok()?;
            Some(ReviewItemId { workspace: id(0)?, review: id(ID_LETTERS)?, number })
        };
        let wrong = || Error::not_found("the link is not one that was given out; it was cut or mistyped");
        Ok(Self { item: item().ok_or_else(wrong)?, text: text.to_owned() })
    }

    /// Item of the link.
    pub fn item(&self) -> &ReviewItemId {
        &self.item
    }

    /// Text of the link, to be shown to its reviewer.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of the text, in hexadecimal digits.
    pub fn digest(&self) -> String {
        Sha256::digest(&self.text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Hides the text.
impl fmt::Debug for ReviewLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReviewLink({})", self.item)
    }
}

/// Reviewer of a link, who has no account.
///
/// # Errors
/// `Invalid`, when the name is not valid.
pub fn guest_reviewer(name: &str) -> Result<String> {
    check_name(name)?;
    Ok(format!("guest:{name}"))
}

/// Item leased to a reviewer.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The item, leased.
    pub item: ReviewItem,
    /// Link by which anybody who has it can judge the item.
    pub link: ReviewLink,
}

/// Turn of a reviewer in a review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Turn {
    ver: i64,
    reviewer: String,
    /// Number of the item that was leased last.
    item: Option<u32>,
    /// First number that is not done, by the first number of its range: items before it are answered or were shown to the reviewer.
    done: BTreeMap<String, u32>,
    expires_at: i64,
}

/// Request for an item: the review, the reviewer, and the time of the lease.
struct Asking<'a> {
    workspace: &'a Id,
    review: &'a Review,
    reviewer: &'a str,
    until: Timestamp,
    keeps: &'a (dyn Fn(Day) -> bool + Sync),
    now: Timestamp,
}

impl Asking<'_> {
    /// Returns whether an item may still be judged.
    fn is_open(&self, item: &ReviewItem) -> bool {
        item.answer.is_none() && (self.keeps)(item.predicted_at.day())
    }

    /// Returns who has an item at this time.
    fn holder<'i>(&self, item: &'i ReviewItem) -> Option<&'i str> {
        let lease = item.lease.as_ref().filter(|lease| self.now < lease.until);
        lease.map(|lease| lease.reviewer.as_str())
    }

    fn shown(&self, item: &ReviewItem) -> table::Key {
        key::shown_to(self.workspace, self.reviewer, &item.digest())
    }
}

impl Catalog {
    /// Serves an item of a review to a reviewer: the same as before while its lease lasts, with a new link, else the next free one
    /// that the reviewer was never shown. `None`, when there is none. `keeps` returns whether the events of a day are there.
    ///
    /// # Errors
    /// `Invalid`, when the lease is too short or too long; those of the table.
    pub async fn serve(
        &self,
        (workspace, review): (&Id, &Review),
        (reviewer, seconds): (&str, i64),
        keeps: &(dyn Fn(Day) -> bool + Sync),
        now: Timestamp,
    ) -> Result<Option<Served>> {
        if !(MIN_LEASE_SECONDS..=MAX_LEASE_SECONDS).contains(&seconds) {
            return Err(Error::invalid(format!(
                "lease: an item is had for {MIN_LEASE_SECONDS} to {MAX_LEASE_SECONDS} seconds"
            )));
        }
        let asking = Asking { workspace, review, reviewer, until: now.plus_seconds(seconds), keeps, now };
        let turn_key = key::review_turn(workspace, &review.id, reviewer);
        let mut tries = Policy { pauses: true, ..Policy::of(&"a turn in a review") }.tries();
        loop {
            tries.next().await?;
            let stored = self.table.get(&turn_key).await?;
            let known = stored.map(|turn| turn.to_record::<Turn>(FORM)).transpose()?.unwrap_or_else(|| {
                Turn { reviewer: reviewer.to_owned(), expires_at: review.expires_at, ..Turn::default() }
            });
            let mut turn = known.clone();
            let (next, is_held) = match self.held(&asking, &turn).await? {
                Some(item) => (Some(item), true),
                None => (self.next_item(&asking, &mut turn).await?, false),
            };
            let mut writes = Vec::new();
            let mut served = None;
            if let Some(item) = next {
                let (link, before) = (ReviewLink::new(&item.id), Condition::unchanged(item.ver));
                let until = item.lease.as_ref().filter(|_| is_held).map_or(asking.until, |lease| lease.until);
                let lease = ReviewLease { reviewer: reviewer.to_owned(), until, link: link.digest() };
                let item = ReviewItem { ver: item.ver + 1, lease: Some(lease), ..item };
                writes.push(Write::Put(item.to_item(), before));
                if !is_held {
                    let shown = Item::new(asking.shown(&item)).with("v", FORM);
                    writes.push(Write::Put(shown.with("expires_at", item.expires_at), Condition::Absent));
                    turn.item = Some(item.id.number);
                }
                served = Some(Served { item, link });
            }
            if turn != known {
                turn.ver += 1;
                let turn = Item::record(turn_key.clone(), FORM, &turn);
                writes.push(Write::Put(turn, Condition::unchanged(known.ver)));
            }
            if writes.is_empty() || unless_overtaken(self.table.transact(writes).await)?.is_some() {
                return Ok(served);
            }
        }
    }

    /// Reads the item that the reviewer has now.
    async fn held(&self, asking: &Asking<'_>, turn: &Turn) -> Result<Option<ReviewItem>> {
        let Some(number) = turn.item else { return Ok(None) };
        let (workspace, review) = (asking.workspace.clone(), asking.review.id.clone());
        let stored = self.table.get(&key::review_item(&ReviewItemId { workspace, review, number })).await?;
        let item = stored.map(|item| item.to_record::<ReviewItem>(FORM)).transpose()?;
        Ok(item.filter(|item| asking.is_open(item) && asking.holder(item) == Some(asking.reviewer)))
    }

    /// Finds the first free item that the reviewer was never shown, and records in the turn how far all is done.
    async fn next_item(&self, asking: &Asking<'_>, turn: &mut Turn) -> Result<Option<ReviewItem>> {
        for Range { start, end } in self.ranges(asking).await? {
            let from = turn.done.get(&start.to_string()).copied().unwrap_or(start);
            if from >= end {
                continue;
            }
            let (mut done, mut is_done, mut next) = (from, true, None);
            let range = key::review_items(asking.workspace, &asking.review.id, from..end);
            let mut pages = Pages::of(&*self.table, Query::table(range).limit(ITEMS_AT_ONCE));
            'pages: while let Some(items) = pages.next().await? {
                for item in &items {
                    let item: ReviewItem = item.to_record(FORM)?;
                    let is_free = asking.is_open(&item) && asking.holder(&item).is_none();
                    let is_seen = item.answer.is_some()
                        || is_free && self.table.get(&asking.shown(&item)).await?.is_some();
                    if is_free && !is_seen {
                        next = Some(item);
                        break 'pages;
                    }
                    // Others may give their items back, and expired ones may be kept for longer.
                    is_done &= is_seen;
                    done = if is_done { item.id.number + 1 } else { done };
                }
            }
            if done > from {
                turn.done.insert(start.to_string(), done);
            }
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Finds the ranges of numbers in which an item is looked for: all of a review, or those of each compared pair of an arena,
    /// that with the fewest votes first, then by the seed.
    async fn ranges(&self, asking: &Asking<'_>) -> Result<Vec<Range<u32>>> {
        let (review, all) = (asking.review, 0..MAX_REVIEW_ITEMS);
        if !review.spec.is_arena() {
            return Ok(vec![all]);
        }
        let mut pairs = self.compared_pairs(asking.workspace, review).await?;
        pairs.retain(|(_, is_compared)| *is_compared);
        let chance = |number: u32| -> [u8; 32] {
            let bytes = [review.spec.seed, number].map(u32::to_le_bytes);
            Sha256::digest(bytes.concat()).into()
        };
        pairs.sort_by_cached_key(|(pair, _)| (pair.votes(), chance(pair.number)));
        Ok(pairs.iter().map(|(pair, _)| pair.numbers()).collect())
    }

    /// Reads an item that may be answered with a verdict, or was answered with the same; without a verdict it may be looked at
    /// or given back.
    ///
    /// # Errors
    /// `NotFound`, when there is no such item or the link is not its; `Conflict`, when the caller does not have it (any more), or
    /// it was answered otherwise; those of the table.
    pub async fn item_of(
        &self,
        id: &ReviewItemId,
        by: &AnsweredBy,
        verdict: Option<&super::Verdict>,
        now: Timestamp,
    ) -> Result<ReviewItem> {
        let item = self.review_item(id).await?;
        item.check_answerable(by, verdict, now)?;
        Ok(item)
    }

    /// Gives an item back without an answer. Its reviewer is not shown it again.
    ///
    /// # Errors
    /// Errors of [`Catalog::item_of`]; `Conflict`, when it changed meanwhile.
    pub async fn give_back(&self, id: &ReviewItemId, by: &AnsweredBy, now: Timestamp) -> Result<()> {
        let item = self.item_of(id, by, None, now).await?;
        let before = Condition::unchanged(item.ver);
        self.table.put(ReviewItem { ver: item.ver + 1, lease: None, ..item }.to_item(), before).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn review_link_format_stays_unchanged() {
        let item = super::super::tests::item().id;
        let golden =
            "alj_2NBs0sLBnJxEcoDLgVnQdJkhEgV2NBs0tD5Ihm2PVFzM3kZvMYdQX900030123456789ABCDEFGHIJKLMNOPQRSTUV";
        assert_eq!(ReviewLink::parse(golden).unwrap().item(), &item);
        let link = ReviewLink::new(&item);
        assert_eq!(ReviewLink::parse(link.text()).unwrap(), link);
        assert_ne!(ReviewLink::new(&item).digest(), link.digest());
        assert!(!format!("{link:?}").contains(&link.text()[60..]), "no log has a link");
        for wrong in ["", "alj_", &golden[1..], &golden[..golden.len() - 1], &golden.replace("0003", "00é")]
        {
            assert!(ReviewLink::parse(wrong).is_err(), "{wrong}");
        }
    }
}
