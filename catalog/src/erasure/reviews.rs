//! Erased keys in reviews: items and the answers of reviewers name the judged prediction by its key.

use std::collections::BTreeSet;

use event::{Id, Result};
use log::{
    erased::Surrogates,
    key::{self, EntityKind, ReviewItemId},
};
use table::{Condition, Query, Update, Write, query_all, unless_overtaken};

use crate::{
    Catalog,
    create::BUSY,
    review::{PredictionSaid, ReviewItem},
};

/// Attribute of an item and of an answer that holds the key.
const KEY: &str = "key";

impl Catalog {
    /// Replaces keys by surrogates in the reviews of a workspace, and removes the tags of their predictions, `with_values` also
    /// the predicted values of releases. Returns the number of items and answers written.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`. It may be called again.
    pub async fn erase_in_reviews(
        &self,
        workspace: &Id,
        surrogates: &Surrogates,
        with_values: bool,
    ) -> Result<u64> {
        let mut written = 0;
        let mut reviewers = BTreeSet::new();
        for review in self.reviews(workspace).await? {
            for (number, item) in self.review_items(workspace, &review.id).await? {
                let known = item.answer.iter().map(|answer| &answer.reviewer);
                reviewers.extend(known.chain(item.lease.iter().map(|lease| &lease.reviewer)).cloned());
                let at = ReviewItemId { workspace: workspace.clone(), review: review.id.clone(), number };
                written += u64::from(self.erase_in_item(&at, item, (surrogates, with_values)).await?);
            }
            let turns = Query::table(key::review_turns(workspace, &review.id)).only(&["v"]);
            for turn in query_all(&*self.table, turns).await? {
                reviewers.extend(key::parse_review_turn(&turn.key).map(str::to_owned));
            }
        }
        // Answers stay when their review is deleted.
        for kind in [EntityKind::User, EntityKind::System] {
            let names = self.every(kind, None).await?.into_iter().map(|any| any.entity().name.clone());
            reviewers.extend(names.map(|name| format!("{kind}:{name}")));
        }
        for reviewer in reviewers {
            written += self.erase_in_answers(workspace, &reviewer, surrogates).await?;
        }
        Ok(written)
    }

    async fn erase_in_item(
        &self,
        at: &ReviewItemId,
        mut item: ReviewItem,
        (surrogates, with_values): (&Surrogates, bool),
    ) -> Result<bool> {
        let mut tries = BUSY.tries();
        loop {
            tries.next().await?;
            let Some(surrogate) = surrogates.get(&item.key) else { return Ok(false) };
            let before = Condition::Equals("ver", item.ver.into());
            let sides = item.sides.as_ref().map(|_| Default::default());
            let (ver, key) = (item.ver + 1, surrogate.clone());
            let mut said = item.said;
            if with_values {
                said.iter_mut().for_each(PredictionSaid::forget);
            }
            let erased = ReviewItem { ver, key, said, tags: [].into(), sides, ..item };
            if unless_overtaken(self.table.put(erased.to_item(at), before).await)?.is_some() {
                return Ok(true);
            }
            match self.table.get(&key::review_item(at)).await? {
                Some(now) => item = ReviewItem::from_item(&now)?,
                None => return Ok(false),
            }
        }
    }

    async fn erase_in_answers(&self, workspace: &Id, reviewer: &str, surrogates: &Surrogates) -> Result<u64> {
        let all = key::all_given_answers(workspace, reviewer);
        let mut written = 0;
        for answer in query_all(&*self.table, Query::table(all).only(&["v", KEY])).await? {
            let Some(surrogate) = answer.optional_text(KEY).and_then(|key| surrogates.get(key)) else {
                continue;
            };
            let update = Update::new(answer.key.clone(), Condition::Exists).set(KEY, surrogate.as_str());
            let update = Write::Update(update);
            written += u64::from(unless_overtaken(self.table.transact(vec![update]).await)?.is_some());
        }
        Ok(written)
    }
}
