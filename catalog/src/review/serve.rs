//! Serving: leasing an item to a reviewer.
//!
//! The number of the item is written first, as the reviewer's *turn*; then the item is leased, and then it is recorded that the
//! reviewer was shown this prediction. Each is one write under a condition. So after a crash between any of them, the reviewer
//! gets the same item when it asks again; nobody else can have leased it; and no reviewer gets the same prediction twice.

use std::fmt;

use event::{
    Day, Error, Id, Result, Timestamp,
    id::{check_name, random_letters},
};
use log::key::{self, ReviewItemId};
use sha2::{Digest as _, Sha256};
use table::{Condition, Item, Pages, Policy, Query, unless_overtaken};

use super::{ArenaPair, MAX_REVIEW_ITEMS, Review, ReviewItem, ReviewLease, numbered, turn::Turn};
use crate::Catalog;

/// Default time of a lease.
pub const DEFAULT_LEASE_SECONDS: i64 = 10 * 60;

/// Minimum time of a lease.
pub const MIN_LEASE_SECONDS: i64 = 60;

/// Maximum time of a lease: a link that is sent to somebody is valid as long.
pub const MAX_LEASE_SECONDS: i64 = 7 * 24 * 60 * 60;

/// Version of the item that records that a reviewer was shown a prediction.
const SHOWN_VERSION: i64 = 1;

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
    at: ReviewItemId,
    text: String,
}

impl ReviewLink {
    /// Creates a link with a new secret.
    pub fn new(at: &ReviewItemId) -> Self {
        let chance = random_letters(LINK_CHANCE);
        let text = format!("{LINK_PREFIX}{}{}{:04}{chance}", at.workspace, at.review, at.number);
        Self { at: at.clone(), text }
    }

    /// Parses a link.
    ///
    /// # Errors
    /// `NotFound`, when the text is no link.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::not_found("the link is not one that was given out; it was cut or mistyped");
        let rest = text.strip_prefix(LINK_PREFIX).ok_or_else(wrong)?;
        let is_whole = rest.len() == 2 * ID_LETTERS + 4 + LINK_CHANCE;
        if !is_whole || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(wrong());
        }
        let id = |from| Id::parse(&rest[from..from + ID_LETTERS]).map_err(|_| wrong());
        let number = rest[2 * ID_LETTERS..][..4].parse().map_err(|_| wrong())?;
        let at = ReviewItemId { workspace: id(0)?, review: id(ID_LETTERS)?, number };
        Ok(Self { at, text: text.to_owned() })
    }

    /// Item of the link.
    pub fn item(&self) -> &ReviewItemId {
        &self.at
    }

    /// Text of the link, to be shown to its reviewer.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of the text.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.text).into()
    }
}

/// Hides the text.
impl fmt::Debug for ReviewLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReviewLink({})", self.at)
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
    /// Number of the item.
    pub number: u32,
    /// The item, leased.
    pub item: ReviewItem,
    /// Link by which anybody who has it can judge the item.
    pub link: ReviewLink,
}

/// Range of items in which one is searched: all of a review, or those of a pair of an arena.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    number: u32,
    /// First item, and the one after the last.
    items: (u32, u32),
}

impl Stretch {
    const WHOLE: Self = Self { number: 0, items: (0, MAX_REVIEW_ITEMS as u32) };

    fn of_pair(pair: &ArenaPair) -> Self {
        Self { number: pair.number, items: pair.numbers() }
    }
}

/// Result of a search in a stretch.
struct Looked {
    found: Option<u32>,
    /// Item before which nothing is left for the reviewer.
    done: u32,
    /// True if some before that have expired without an answer.
    has_expired: bool,
}

/// Request for an item: the review, the reviewer, and the time of the lease.
struct Asking<'a> {
    workspace: &'a Id,
    review: &'a Review,
    reviewer: &'a str,
    keeps: &'a (dyn Fn(Day) -> bool + Sync),
    now: Timestamp,
}

impl Asking<'_> {
    fn at(&self, number: u32) -> ReviewItemId {
        ReviewItemId { workspace: self.workspace.clone(), review: self.review.id.clone(), number }
    }

    fn turn_key(&self) -> table::Key {
        key::review_turn(self.workspace, &self.review.id, self.reviewer)
    }

    /// Returns whether an item is not to be judged any more.
    fn is_settled(&self, item: &ReviewItem) -> bool {
        item.answer.is_some() || !(self.keeps)(item.predicted_at.day())
    }
}

/// Value in the place of a lease for an item that a reviewer gave back.
pub(super) const GIVEN_BACK: &str = "given back";

/// Item that records that a reviewer was shown an item, under a lease.
pub(super) fn shown_item(at: &ReviewItemId, reviewer: &str, item: &ReviewItem, lease: &str) -> Item {
    Item::new(key::shown_to(&at.workspace, reviewer, &item.digest()))
        .with("v", SHOWN_VERSION)
        .with("lease", lease)
        .with("expires_at", item.expires_at)
}

impl Catalog {
    /// Serves an item of a review to a reviewer: the same as before while its lease lasts, else the next free one that the
    /// reviewer was never shown. `None`, when there is none. `keeps` returns whether the events of a day are there.
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
        let asking = Asking { workspace, review, reviewer, keeps, now };
        let mut tries = Policy::of(&"a turn in a review").tries();
        loop {
            tries.next().await?;
            let stored = self.table.get(&asking.turn_key()).await?;
            let mut turn = stored.as_ref().map(Turn::from_item).transpose()?.unwrap_or_default();
            if let Some((number, until)) = turn.has.filter(|(_, until)| now < *until)
                && let Some(served) = self.lease(&asking, number, until).await?
            {
                return Ok(Some(served));
            }
            let known = (turn.done.clone(), turn.expired.clone());
            let found = self.candidate_of_any(&asking, &mut turn).await?;
            let unchanged = Condition::unchanged(turn.ver);
            let Some(number) = found else {
                // Records the searched items, so that they are not searched again.
                if (&turn.done, &turn.expired) != (&known.0, &known.1) {
                    let looked = Turn { ver: turn.ver + 1, ..turn };
                    let item = looked.to_item(asking.turn_key(), review.expires_at);
                    unless_overtaken(self.table.put(item, unchanged).await)?;
                }
                return Ok(None);
            };
            let until = now.plus_seconds(seconds);
            turn = Turn { ver: turn.ver + 1, has: Some((number, until)), ..turn };
            let item = turn.to_item(asking.turn_key(), review.expires_at);
            if unless_overtaken(self.table.put(item, unchanged).await)?.is_some()
                && let Some(served) = self.lease(&asking, number, until).await?
            {
                return Ok(Some(served));
            }
        }
    }

    /// Finds the first free item that the reviewer was never shown: of a review, or of the pair of an arena whose turn it is.
    /// Records the stretches in which nothing is left for the reviewer.
    async fn candidate_of_any(&self, asking: &Asking<'_>, turn: &mut Turn) -> Result<Option<u32>> {
        let stretches = match &asking.review.spec.arena {
            None => vec![Stretch::WHOLE],
            Some(arena) => {
                let pairs = self.pairs_in_turn((asking.workspace, asking.review), arena).await?;
                pairs.iter().map(Stretch::of_pair).collect()
            }
        };
        for stretch in stretches {
            let (first, end) = stretch.items;
            let from = turn.done.get(&stretch.number).copied().unwrap_or(0).max(first);
            let mut looked = Looked { found: None, done: from, has_expired: false };
            if from < end {
                looked = self.candidate(asking, (from, end - 1)).await?;
            }
            // Nothing is left after it, and items that had expired before may have returned.
            let is_again = looked.found.is_none() && turn.expired.contains(&stretch.number);
            if is_again {
                looked = self.candidate(asking, (first, end - 1)).await?;
                turn.expired.remove(&stretch.number);
            }
            if looked.has_expired {
                turn.expired.insert(stretch.number);
            }
            if looked.done > from || is_again {
                turn.done.insert(stretch.number, looked.done);
            }
            if looked.found.is_some() {
                return Ok(looked.found);
            }
        }
        Ok(None)
    }

    /// Finds the first such item of a range.
    async fn candidate(&self, asking: &Asking<'_>, (from, last): (u32, u32)) -> Result<Looked> {
        let range = key::review_items_of(asking.workspace, &asking.review.id, (from, last));
        let query = Query::table(range).limit(ITEMS_AT_ONCE);
        let mut pages = Pages::of(&*self.table, query);
        // Advances up to the first item left for the reviewer that another reviewer has.
        let (mut done, mut is_done, mut has_expired) = (from, true, false);
        while let Some(items) = pages.next().await? {
            for item in &items {
                let (number, item) = numbered(item)?;
                let is_had = item.lease.as_ref().is_some_and(|lease| asking.now < lease.until);
                let shown = key::shown_to(asking.workspace, asking.reviewer, &item.digest());
                has_expired |= is_done && item.answer.is_none() && asking.is_settled(&item);
                if asking.is_settled(&item) || !is_had && self.table.get(&shown).await?.is_some() {
                    done = if is_done { number + 1 } else { done };
                } else if !is_had {
                    return Ok(Looked { found: Some(number), done, has_expired });
                } else {
                    is_done = false;
                }
            }
        }
        Ok(Looked { found: None, done, has_expired })
    }

    /// Leases an item named by the reviewer's turn; `None`, when another reviewer has it, it is answered, or the reviewer was
    /// shown it before.
    async fn lease(&self, asking: &Asking<'_>, number: u32, until: Timestamp) -> Result<Option<Served>> {
        let at = asking.at(number);
        let mut tries = Policy::of(&"an item of a review").tries();
        loop {
            tries.next().await?;
            let Some(item) = self.table.get(&key::review_item(&at)).await? else { return Ok(None) };
            let item = ReviewItem::from_item(&item)?;
            let is_own = |lease: &ReviewLease| lease.reviewer == asking.reviewer && lease.until == until;
            let is_had = item.lease.as_ref().is_some_and(|lease| asking.now < lease.until && !is_own(lease));
            if asking.is_settled(&item) || is_had {
                return Ok(None);
            }
            let link = ReviewLink::new(&at);
            let lease = ReviewLease { reviewer: asking.reviewer.to_owned(), until, link: link.digest() };
            let unchanged = Condition::unchanged(item.ver);
            let leased = ReviewItem { ver: item.ver + 1, lease: Some(lease), ..item };
            if unless_overtaken(self.table.put(leased.to_item(&at), unchanged).await)?.is_none() {
                continue;
            }
            if self.note_shown(asking, &leased, (&at, until)).await? {
                return Ok(Some(Served { number, item: leased, link }));
            }
            // It was shown in another review: another reviewer may have it.
            let free = ReviewItem { ver: leased.ver + 1, lease: None, ..leased };
            let written = self.table.put(free.to_item(&at), Condition::unchanged(free.ver - 1)).await;
            unless_overtaken(written)?;
            return Ok(None);
        }
    }

    /// Records that the reviewer is shown an item under this lease. Returns false if it was shown under another.
    async fn note_shown(
        &self,
        asking: &Asking<'_>,
        item: &ReviewItem,
        (at, until): (&ReviewItemId, Timestamp),
    ) -> Result<bool> {
        let key = key::shown_to(asking.workspace, asking.reviewer, &item.digest());
        let lease = format!("{at}/{}", until.micros());
        let shown = shown_item(at, asking.reviewer, item, &lease);
        if unless_overtaken(self.table.put(shown, Condition::Absent).await)?.is_some() {
            return Ok(true);
        }
        let Some(known) = self.table.get(&key).await? else { return Ok(false) };
        known.check_version(SHOWN_VERSION)?;
        Ok(known.text("lease")? == lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn review_link_format_stays_unchanged() {
        let id = |text| Id::parse(text).unwrap();
        let (workspace, review) = (id("2NBs0sLBnJxEcoDLgVnQdJkhEgV"), id("2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        let at = ReviewItemId { workspace, review, number: 7 };
        let golden =
            "alj_2NBs0sLBnJxEcoDLgVnQdJkhEgV2NBs0tD5Ihm2PVFzM3kZvMYdQX900070123456789ABCDEFGHIJKLMNOPQRSTUV";
        assert_eq!(ReviewLink::parse(golden).unwrap().item(), &at);
        let link = ReviewLink::new(&at);
        assert_eq!(ReviewLink::parse(link.text()).unwrap(), link);
        assert_ne!(ReviewLink::new(&at).digest(), link.digest());
        assert!(!format!("{link:?}").contains(&link.text()[60..]), "no log has a link");
        for wrong in ["", "alj_", &golden[1..], &golden[..golden.len() - 1], &golden.replace("0007", "00é")]
        {
            assert!(ReviewLink::parse(wrong).is_err(), "{wrong}");
        }
    }
}
