//! Answers: each is decided once, in one transaction with all that counts it, and owed to the log until its events are appended.

use std::collections::BTreeMap;

use event::{Day, Error, Id, Result, Timestamp, id::check_name};
use log::key::{self, EntityKind, ReviewItemId};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Pages, Query, Write, query_all, unless_overtaken};

use super::{
    ArenaPair, FORM, MAX_PAIR_ITEMS, MAX_REVIEW_LABELS, Review, ReviewAnswer, ReviewItem, Verdict, Vote,
};
use crate::Catalog;

/// Maximum answers read together.
pub const MAX_GIVEN_ANSWERS: usize = 10_000;

/// Maximum days of which the answers of a reviewer are read.
pub const MAX_GIVEN_DAYS: i64 = 92;

/// Number of days for which the answers of a user are counted.
pub const ANSWERED_DAYS: u32 = 7;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Authorization of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// Name of the reviewer.
    Reviewer(String),
    /// Digest of the link.
    Link(String),
}

/// Answers of a user in a review on a day, stored beside the user, without keys of predictions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredReview {
    ver: i64,
    /// The day.
    pub day: Day,
    /// The workspace.
    pub workspace: Id,
    /// Name of the review.
    pub review: String,
    /// Number of answers.
    pub answers: u64,
    /// Number of times that a release had predicted the same label.
    pub agree: u64,
    /// Number of times that a release had predicted another one.
    pub differ: u64,
    /// Count of each answered label, or of each vote, of the first [`MAX_REVIEW_LABELS`]; numbers are not counted apart.
    pub said: BTreeMap<String, u64>,
    expires_at: i64,
}

impl AnsweredReview {
    fn new(day: Day, item: &ReviewItem) -> Self {
        let end = day.start().plus_seconds(i64::from(ANSWERED_DAYS + 1) * DAY_SECONDS);
        Self {
            ver: 0,
            day,
            workspace: item.id.workspace.clone(),
            review: item.review.clone(),
            answers: 0,
            agree: 0,
            differ: 0,
            said: BTreeMap::new(),
            expires_at: end.micros().div_euclid(1_000_000),
        }
    }

    /// Adds one more answer.
    fn add(&mut self, item: &ReviewItem, verdict: &Verdict) {
        (self.ver, self.answers) = (self.ver + 1, self.answers + 1);
        for agrees in item.said.iter().filter_map(|said| verdict.agrees(said)) {
            *(if agrees { &mut self.agree } else { &mut self.differ }) += 1;
        }
        let said = match verdict {
            Verdict::Label(label) => label,
            Verdict::Vote(vote) => vote.name(),
            Verdict::Value(_) => return,
        };
        if self.said.len() < MAX_REVIEW_LABELS || self.said.contains_key(said) {
            *self.said.entry(said.to_owned()).or_default() += 1;
        }
    }

    /// Reads the counts of an item.
    pub(crate) fn from_item(item: &Item) -> Result<Self> {
        item.to_record(FORM)
    }
}

impl ReviewItem {
    /// Checks that the item may be answered with a verdict now, or was answered with the same.
    pub(super) fn check_answerable(
        &self,
        by: &AnsweredBy,
        verdict: Option<&Verdict>,
        now: Timestamp,
    ) -> Result<()> {
        let lease = self.lease.as_ref();
        match by {
            // Callers without a valid link do not learn which of the two it is.
            AnsweredBy::Link(link) if lease.is_none_or(|lease| lease.link != *link) => Err(Error::not_found(
                "the link is not good: it was not made for this item, or another one was made for it since",
            )),
            AnsweredBy::Reviewer(reviewer) if lease.is_none_or(|lease| lease.reviewer != *reviewer) => {
                Err(Error::conflict("you do not have this item; ask for the next one"))
            }
            _ => match &self.answer {
                Some(answer) if Some(&answer.verdict) == verdict => Ok(()),
                Some(_) => Err(Error::conflict("the item was answered, and is answered once")),
                None if lease.is_some_and(|lease| now < lease.until) => Ok(()),
                None => Err(Error::conflict("the time for this item is over; ask for the next one")),
            },
        }
    }
}

impl Catalog {
    /// Decides the answer to an item that is unchanged since it was read; `None`, when it, or what counts it, was written meanwhile.
    /// From then on its events are owed to the log.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn decide_answer(&self, item: ReviewItem, answer: ReviewAnswer) -> Result<Option<ReviewItem>> {
        let before = Condition::unchanged(item.ver);
        let owed = Item::record(key::owed_answer(&item.id), FORM, &item.id);
        let given = key::given_answer(&item.id, &answer.reviewer, answer.at);
        let counted = self.counted_of_user(&item, &answer).await?;
        let voted = match answer.verdict {
            Verdict::Vote(vote) => Some(self.counted_vote(&item, vote).await?),
            _ => None,
        };
        let decided = ReviewItem { ver: item.ver + 1, answer: Some(answer), ..item };
        let copy = ReviewItem { ver: 1, lease: None, ..decided.clone() };
        let writes = [
            Write::Put(decided.to_item(), before),
            Write::Put(owed, Condition::None),
            Write::Put(Item::record(given, FORM, &copy), Condition::None),
        ];
        let writes = writes.into_iter().chain(counted).chain(voted).collect();
        Ok(unless_overtaken(self.table.transact(writes).await)?.map(|()| decided))
    }

    /// Counts a vote for the pair of its item.
    async fn counted_vote(&self, item: &ReviewItem, vote: Vote) -> Result<Write> {
        let id = &item.id;
        let key = key::arena_pair(&id.workspace, &id.review, id.number / MAX_PAIR_ITEMS);
        let gone = || Error::not_found(format!("the pair of the item {} is gone", id.number));
        let mut pair: ArenaPair = self.table.get(&key).await?.ok_or_else(gone)?.to_record(FORM)?;
        let before = Condition::unchanged(pair.ver);
        pair.count(item, vote);
        Ok(Write::Put(Item::record(key, FORM, &pair), before))
    }

    /// Counts an answer for its reviewer, if that is a user.
    async fn counted_of_user(&self, item: &ReviewItem, answer: &ReviewAnswer) -> Result<Option<Write>> {
        let name = answer.reviewer.strip_prefix("user:").filter(|name| check_name(name).is_ok());
        let Some(name) = name else { return Ok(None) };
        let Some(user) = self.id_named(None, EntityKind::User, name).await? else { return Ok(None) };
        let day = answer.at.day();
        let key = key::answered(&user, day, &item.id.workspace, &item.review);
        let stored =
            self.table.get(&key).await?.map(|stored| AnsweredReview::from_item(&stored)).transpose()?;
        let mut counted = stored.unwrap_or_else(|| AnsweredReview::new(day, item));
        let before = Condition::unchanged(counted.ver);
        counted.add(item, &answer.verdict);
        Ok(Some(Write::Put(Item::record(key, FORM, &counted), before)))
    }

    /// Returns whether the events of a decided answer are still to be appended.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn is_owed(&self, id: &ReviewItemId) -> Result<bool> {
        Ok(self.table.get(&key::owed_answer(id)).await?.is_some())
    }

    /// Records that the events of an answer are appended. It may be called again.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn note_appended(&self, id: &ReviewItemId) -> Result<()> {
        self.table.delete(&key::owed_answer(id), Condition::None).await
    }

    /// Reads the answered items of a workspace whose events are still to be appended.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn owed_answers(&self, workspace: &Id) -> Result<Vec<ReviewItem>> {
        let mut owed = Vec::new();
        for note in query_all(&*self.table, Query::table(key::owed_answers(workspace, None))).await? {
            match self.table.get(&key::review_item(&note.to_record(FORM)?)).await? {
                Some(item) => owed.push(item.to_record(FORM)?),
                // The item has expired, and its events with it.
                None => self.table.delete(&note.key, Condition::None).await?,
            }
        }
        Ok(owed)
    }

    /// Counts the answered items of a review, and those of them whose events are appended.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn review_progress(&self, workspace: &Id, review: &Review) -> Result<[usize; 2]> {
        let items = self.review_items(workspace, &review.id).await?;
        let answered = items.iter().filter(|item| item.answer.is_some()).count();
        let owed = Query::table(key::owed_answers(workspace, Some(&review.id))).only(&["v"]);
        Ok([answered, answered.saturating_sub(query_all(&*self.table, owed).await?.len())])
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
    ) -> Result<Vec<ReviewItem>> {
        if before > from.plus_seconds(MAX_GIVEN_DAYS * DAY_SECONDS) {
            return Err(Error::invalid(format!("from: at most {MAX_GIVEN_DAYS} days are shown together")));
        }
        let query = Query::table(key::given_answers(workspace, reviewer, from, before));
        let mut pages = Pages::of(&*self.table, query);
        let mut given = Vec::new();
        while let Some(items) = pages.next().await? {
            for item in &items {
                given.push(item.to_record(FORM)?);
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

#[cfg(test)]
mod tests {
    use super::{super::tests::item, *};
    use crate::ReviewLease;

    #[test]
    fn invalid_review_link_is_refused_without_revealing_lease() {
        let at = item().predicted_at;
        let lease =
            ReviewLease { reviewer: "user:ann".into(), until: at.plus_seconds(60), link: "07".into() };
        let says = |lease| {
            let link = AnsweredBy::Link("08".into());
            ReviewItem { lease, ..item() }.check_answerable(&link, None, at).unwrap_err().to_string()
        };
        let never_served = says(None);
        assert!(never_served.contains("not made for this item, or another one"), "{never_served}");
        assert_eq!(says(Some(lease)), never_served);
    }

    #[test]
    fn answer_agrees_with_releases_of_its_label() {
        let mut item = item();
        item.said[0].label = Some("1".into());
        let mut counted = AnsweredReview::new(item.predicted_at.day(), &item);
        let verdicts = [Verdict::Label("1".into()), Verdict::Label("0".into()), Verdict::Value(1.0)];
        verdicts.iter().for_each(|verdict| counted.add(&item, verdict));
        counted.add(&item, &Verdict::Vote(Vote::Tie));
        assert_eq!((counted.answers, counted.agree, counted.differ), (4, 1, 1));
        assert_eq!(
            counted.said,
            [("0", 1), ("1", 1), ("tie", 1)].map(|(said, n)| (said.to_owned(), n)).into()
        );
    }
}
