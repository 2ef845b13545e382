//! Settling: the answer to an item is decided once, and then appended.
//!
//! Before it is decided, a note records that an answer to this item is owed to the log, so that a projector finds answers that
//! were decided and not appended. The note is deleted when the item records that its outcome is appended.

use event::{Error, Id, Result, Timestamp};
use log::key::{self, ReviewItemId};
use table::{Condition, Item, Pages, Query, query_all, unless_overtaken};

use super::{
    PredictionSaid, ReviewAnswer, ReviewItem, Verdict,
    item::{said_of, said_value, verdict_of, with_verdict},
    serve::{GIVEN_BACK, shown_item},
    time,
};
use crate::Catalog;

/// Version of the note that an answer is owed.
const OWED_VERSION: i64 = 1;

/// Version of the item of a reviewer's answer.
const GIVEN_VERSION: i64 = 1;

/// Age from which a note is of an answer that was never decided.
const OWED_SECONDS: i64 = 60 * 60;

/// Maximum answers read together.
pub const MAX_GIVEN_ANSWERS: usize = 10_000;

/// Maximum days of which the answers of a reviewer are read.
pub const MAX_GIVEN_DAYS: i64 = 92;

/// Authorization of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// Name of the reviewer.
    Reviewer(String),
    /// Digest of the link.
    Link([u8; 32]),
}

/// State of an item for the one who answers it.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Open for an answer.
    Open(ReviewItem),
    /// Answered with the same verdict.
    Answered(ReviewItem),
}

/// Answer of a reviewer, with the predictions of releases.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenAnswer {
    /// Id of the item.
    pub item: ReviewItemId,
    /// The key of the prediction.
    pub key: String,
    /// Instant of the prediction.
    pub predicted_at: Timestamp,
    /// Time of the answer.
    pub at: Timestamp,
    /// Verdict of the answer.
    pub verdict: Verdict,
    /// Predictions of releases.
    pub said: Vec<PredictionSaid>,
}

impl ReviewItem {
    /// Returns whether this reviewer has the item, or the link is the last one made for it.
    fn is_had_by(&self, by: &AnsweredBy) -> bool {
        self.lease.as_ref().is_some_and(|lease| match by {
            AnsweredBy::Reviewer(reviewer) => lease.reviewer == *reviewer,
            AnsweredBy::Link(link) => differs(&lease.link, link) == 0,
        })
    }

    /// State of the item at `now` for an answer with this verdict.
    fn standing(self, by: &AnsweredBy, verdict: Option<&Verdict>, now: Timestamp) -> Result<Standing> {
        if !self.is_had_by(by) {
            return Err(match by {
                // Callers without a valid link do not learn which of the two it is.
                AnsweredBy::Link(_) => Error::not_found(
                    "the link is not good: it was not made for this item, or another one was made for it since",
                ),
                AnsweredBy::Reviewer(_) => Error::conflict("you do not have this item; ask for the next one"),
            });
        }
        match &self.answer {
            Some(answer) if Some(&answer.verdict) == verdict => return Ok(Standing::Answered(self)),
            Some(_) => return Err(Error::conflict("the item was answered, and is answered once")),
            None => {}
        }
        match self.lease.as_ref().is_some_and(|lease| now < lease.until) {
            true => Ok(Standing::Open(self)),
            false => Err(Error::conflict("the time for this item is over; ask for the next one")),
        }
    }
}

/// Compares two digests in constant time; 0 if they are equal.
fn differs(one: &[u8; 32], other: &[u8; 32]) -> u8 {
    one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b))
}

impl Catalog {
    /// Reads an item of a review.
    ///
    /// # Errors
    /// `NotFound`, when there is none; those of the table.
    pub async fn review_item(&self, at: &ReviewItemId) -> Result<ReviewItem> {
        let item = self.table.get(&key::review_item(at)).await?;
        let missing = || Error::not_found(format!("there is no item {} in this review", at.number));
        ReviewItem::from_item(&item.ok_or_else(missing)?)
    }

    /// Reads the state of an item for an answer, or for giving it back when there is no verdict.
    ///
    /// # Errors
    /// `NotFound`, when there is no such item or the link is not its; `Conflict`, when the caller does not have it (any more), or
    /// it was answered otherwise; those of the table.
    pub async fn review_standing(
        &self,
        at: &ReviewItemId,
        by: &AnsweredBy,
        verdict: Option<&Verdict>,
        now: Timestamp,
    ) -> Result<Standing> {
        self.review_item(at).await?.standing(by, verdict, now)
    }

    /// Gives an item back without an answer. Its reviewer is not shown it again.
    ///
    /// # Errors
    /// Errors of [`Catalog::review_standing`]; `Conflict`, when it changed meanwhile.
    pub async fn give_back(&self, at: &ReviewItemId, by: &AnsweredBy, now: Timestamp) -> Result<()> {
        let (Standing::Open(item) | Standing::Answered(item)) =
            self.review_standing(at, by, None, now).await?;
        // From now on the reviewer has no lease of it, also not the one that the turn names.
        if let Some(lease) = &item.lease {
            self.table.put(shown_item(at, &lease.reviewer, &item, GIVEN_BACK), Condition::None).await?;
        }
        let unchanged = Condition::unchanged(item.ver);
        let free = ReviewItem { ver: item.ver + 1, lease: None, ..item };
        self.table.put(free.to_item(at), unchanged).await
    }

    /// Decides the answer to an item that is unchanged since it was read; `None`, when it changed.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn decide_answer(
        &self,
        at: &ReviewItemId,
        item: ReviewItem,
        answer: ReviewAnswer,
    ) -> Result<Option<ReviewItem>> {
        let owed = Item::new(key::owed_answer(at)).with("v", OWED_VERSION).with("at", answer.at.micros());
        self.table.put(owed, Condition::None).await?;
        let unchanged = Condition::unchanged(item.ver);
        let decided = ReviewItem { ver: item.ver + 1, answer: Some(answer), ..item };
        let written = match decided.answer.as_ref().map(|answer| &answer.verdict) {
            Some(Verdict::Vote(vote)) => self.decide_vote(at, (&decided, unchanged), *vote).await?,
            _ => unless_overtaken(self.table.put(decided.to_item(at), unchanged).await)?,
        };
        Ok(written.map(|()| decided))
    }

    /// Records that the outcome of an answered item is appended, and the answer of its reviewer. It may be called again.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn note_appended(&self, at: &ReviewItemId, item: &ReviewItem) -> Result<()> {
        let Some(answer) = &item.answer else { return Ok(()) };
        let given = GivenAnswer {
            item: at.clone(),
            key: item.key.clone(),
            predicted_at: item.predicted_at,
            at: answer.at,
            verdict: answer.verdict.clone(),
            said: item.said.clone(),
        };
        let noted = given.to_item(&answer.reviewer, item.expires_at);
        self.note_given(noted, &given, (&item.review, &answer.reviewer)).await?;
        if !answer.is_appended {
            let unchanged = Condition::unchanged(item.ver);
            let answer = Some(ReviewAnswer { is_appended: true, ..answer.clone() });
            let appended = ReviewItem { ver: item.ver + 1, answer, ..item.clone() };
            // An answered item changes in no other way, so another process recorded the same.
            unless_overtaken(self.table.put(appended.to_item(at), unchanged).await)?;
        }
        self.table.delete(&key::owed_answer(at), Condition::None).await
    }

    /// Reads the answered items of a workspace whose outcomes are still to be appended. Deletes notes of answers that were never
    /// decided.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn owed_answers(
        &self,
        workspace: &Id,
        now: Timestamp,
    ) -> Result<Vec<(ReviewItemId, ReviewItem)>> {
        let notes = query_all(&*self.table, Query::table(key::owed_answers(workspace))).await?;
        let mut owed = Vec::new();
        for note in notes {
            note.check_version(OWED_VERSION)?;
            let at = key::parse_owed_answer(&note.key)
                .ok_or_else(|| note.corrupt("its key names no item of a review"))?;
            let item = self.table.get(&key::review_item(&at)).await?;
            match item.as_ref().map(ReviewItem::from_item).transpose()? {
                Some(item) if item.answer.is_some() => owed.push((at, item)),
                // It is being decided now, or the process died before.
                _ if now < time(&note, "at")?.plus_seconds(OWED_SECONDS) => {}
                _ => {
                    let same = Condition::Equals("at", note.int("at")?.into());
                    unless_overtaken(self.table.delete(&note.key, same).await)?;
                }
            }
        }
        Ok(owed)
    }

    /// Reads the answers of a reviewer from one instant on and before another, the first ones first.
    ///
    /// # Errors
    /// `Invalid`, when the span is too long; `TooLarge`, when there are more than [`MAX_GIVEN_ANSWERS`]; those of the table.
    pub async fn given_answers(
        &self,
        workspace: &Id,
        reviewer: &str,
        (from, before): (Timestamp, Timestamp),
    ) -> Result<Vec<GivenAnswer>> {
        if before > from.plus_seconds(MAX_GIVEN_DAYS * 24 * 60 * 60) {
            return Err(Error::invalid(format!("from: at most {MAX_GIVEN_DAYS} days are shown together")));
        }
        let query = Query::table(key::given_answers(workspace, reviewer, from, before));
        let mut pages = Pages::of(&*self.table, query);
        let mut given = Vec::new();
        while let Some(items) = pages.next().await? {
            for item in &items {
                given.push(GivenAnswer::from_item(item, workspace)?);
            }
            if given.len() > MAX_GIVEN_ANSWERS {
                return Err(Error::too_large(format!(
                    "there are more than {MAX_GIVEN_ANSWERS} answers; ask for fewer days"
                )));
            }
        }
        Ok(given)
    }
}

impl GivenAnswer {
    fn to_item(&self, reviewer: &str, expires_at: i64) -> Item {
        let said = self.said.iter().map(said_value).collect::<Vec<_>>();
        let item = Item::new(key::given_answer(&self.item, reviewer, self.at))
            .with("v", GIVEN_VERSION)
            .with("review", self.item.review.as_str())
            .with("item", i64::from(self.item.number))
            .with("key", self.key.as_str())
            .with("predicted_at", self.predicted_at.micros())
            .with("at", self.at.micros())
            .with("said", said)
            .with("expires_at", expires_at);
        with_verdict(item, &self.verdict)
    }

    fn from_item(item: &Item, workspace: &Id) -> Result<Self> {
        item.check_version(GIVEN_VERSION)?;
        let number = u32::try_from(item.int("item")?).map_err(|_| item.corrupt("`item` is no number"))?;
        let review = Id::parse(item.text("review")?)?;
        Ok(Self {
            item: ReviewItemId { workspace: workspace.clone(), review, number },
            key: item.text("key")?.to_owned(),
            predicted_at: time(item, "predicted_at")?,
            at: time(item, "at")?,
            verdict: verdict_of(item)?,
            said: said_of(item)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use table::item::Value;

    use super::*;
    use crate::ReviewLease;

    #[test]
    fn invalid_review_link_is_refused_without_revealing_lease() {
        let at = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let lease = ReviewLease { reviewer: "user:ann".into(), until: at.plus_seconds(60), link: [7; 32] };
        let item = |lease| ReviewItem {
            ver: 1,
            review: "june".into(),
            key: "loan-1".into(),
            predicted_at: at,
            said: Vec::new(),
            tags: Default::default(),
            sides: None,
            lease,
            answer: None,
            expires_at: 1_900_000_000,
        };
        let says =
            |lease| item(lease).standing(&AnsweredBy::Link([8; 32]), None, at).unwrap_err().to_string();
        let never_served = says(None);
        assert!(never_served.contains("not made for this item, or another one"), "{never_served}");
        assert_eq!(says(Some(lease)), never_served);
    }

    #[test]
    fn the_item_of_an_answer_stays_readable() {
        let id = |text| Id::parse(text).unwrap();
        let (workspace, review) = (id("2NBs0sLBnJxEcoDLgVnQdJkhEgV"), id("2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        let at = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let given = GivenAnswer {
            item: ReviewItemId { workspace: workspace.clone(), review, number: 3 },
            key: "loan-1".into(),
            predicted_at: Timestamp::parse("2026-06-01T04:30:00Z").unwrap(),
            at,
            verdict: Verdict::Label("0".into()),
            said: vec![PredictionSaid { release: "v1".into(), label: None, score: None, value: None }],
        };
        let said = [("release".to_owned(), Value::from("v1"))].into();
        let stored = Item::new(key::given_answer(&given.item, "user:ann", at))
            .with("v", 1)
            .with("review", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9")
            .with("item", 3)
            .with("key", "loan-1")
            .with("predicted_at", 1_780_288_200_000_000)
            .with("at", 1_781_049_600_000_000)
            .with("said", vec![Value::M(said)])
            .with("label", "0")
            .with("expires_at", 1_900_000_000);
        assert_eq!(GivenAnswer::from_item(&stored, &workspace).unwrap(), given);
        assert_eq!(given.to_item("user:ann", 1_900_000_000), stored);
    }
}
