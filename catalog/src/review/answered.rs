//! Counts of a user's answers in each review on each day, stored beside the user, without keys of predictions.

use std::collections::BTreeMap;

use event::{Day, Id, Result, id::check_name};
use log::key::{self, EntityKind};
use table::{Condition, Item, Write, item::Value, unless_overtaken};

use super::{GivenAnswer, MAX_REVIEW_LABELS, Verdict};
use crate::{Catalog, create::BUSY};

/// Number of days kept.
pub const ANSWERED_DAYS: u32 = 7;

const DAY_SECONDS: i64 = 24 * 60 * 60;

const ITEM_VERSION: i64 = 1;

/// Answers of a user in a review on a day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnsweredReview {
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
}

impl AnsweredReview {
    fn new(day: Day, workspace: &Id, review: &str) -> Self {
        let (workspace, review) = (workspace.clone(), review.to_owned());
        Self { day, workspace, review, answers: 0, agree: 0, differ: 0, said: BTreeMap::new() }
    }

    /// Adds one more answer.
    fn add(&mut self, given: &GivenAnswer) {
        self.answers += 1;
        for agrees in given.said.iter().filter_map(|said| given.verdict.agrees(said)) {
            *(if agrees { &mut self.agree } else { &mut self.differ }) += 1;
        }
        let said = match &given.verdict {
            Verdict::Label(label) => label,
            Verdict::Vote(vote) => vote.name(),
            Verdict::Value(_) => return,
        };
        if self.said.len() < MAX_REVIEW_LABELS || self.said.contains_key(said) {
            *self.said.entry(said.to_owned()).or_default() += 1;
        }
    }

    fn to_item(&self, user: &Id) -> Item {
        let said = self.said.iter().map(|(label, count)| (label.clone(), Value::from(*count as i64)));
        let expires_at = self.day.start().plus_seconds(i64::from(ANSWERED_DAYS + 1) * DAY_SECONDS);
        Item::new(key::answered(user, self.day, &self.workspace, &self.review))
            .with("v", ITEM_VERSION)
            .with("answers", self.answers as i64)
            .with("agree", self.agree as i64)
            .with("differ", self.differ as i64)
            .with("said", said.collect::<BTreeMap<_, _>>())
            .with("expires_at", expires_at.micros().div_euclid(1_000_000))
    }

    /// Decodes the counts of an item.
    pub(crate) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let parsed = key::parse_answered(&item.key);
        let (day, workspace, review) = parsed.ok_or_else(|| item.corrupt("its key is another"))?;
        let wrong = |name: &str| item.corrupt(format_args!("`{name}` is no count"));
        let count = |name: &str| u64::try_from(item.int(name)?).map_err(|_| wrong(name));
        let said = |(label, count): (&String, &Value)| match count {
            Value::N(count) => {
                let count = count.as_i64().and_then(|count| u64::try_from(count).ok());
                Ok((label.clone(), count.ok_or_else(|| wrong("said"))?))
            }
            _ => Err(wrong("said")),
        };
        Ok(Self {
            day,
            workspace,
            review: review.to_owned(),
            answers: count("answers")?,
            agree: count("agree")?,
            differ: count("differ")?,
            said: item.map("said")?.iter().map(said).collect::<Result<_>>()?,
        })
    }
}

impl Catalog {
    /// Records an answer beside those that its reviewer gave before; an answer of a user is counted in the same transaction. A
    /// repeat counts nothing.
    pub(super) async fn note_given(
        &self,
        item: Item,
        given: &GivenAnswer,
        (review, reviewer): (&str, &str),
    ) -> Result<()> {
        let name = reviewer.strip_prefix("user:").filter(|name| check_name(name).is_ok());
        let user = match name {
            Some(name) => self.id_named(None, EntityKind::User, name).await?,
            None => None,
        };
        let Some(user) = user else { return self.table.put(item, Condition::None).await };
        let (day, workspace) = (given.at.day(), &given.item.workspace);
        let mut tries = BUSY.tries();
        loop {
            tries.next().await?;
            if self.table.get(&item.key).await?.is_some() {
                return Ok(());
            }
            let stored = self.table.get(&key::answered(&user, day, workspace, review)).await?;
            let ver = stored.as_ref().map_or(Ok(0), |stored| stored.int("ver"))?;
            let stored = stored.as_ref().map(AnsweredReview::from_item).transpose()?;
            let mut counted = stored.unwrap_or_else(|| AnsweredReview::new(day, workspace, review));
            counted.add(given);
            let writes = vec![
                Write::Put(item.clone(), Condition::Absent),
                Write::Put(counted.to_item(&user).with("ver", ver + 1), Condition::unchanged(ver)),
            ];
            if unless_overtaken(self.table.transact(writes).await)?.is_some() {
                return Ok(());
            }
        }
    }
}
