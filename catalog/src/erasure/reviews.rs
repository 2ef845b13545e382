//! Erased keys in reviews: items and the answers of reviewers name the judged prediction by its key.

use std::collections::BTreeSet;

use event::{Id, Result};
use log::{
    erased::Pseudonyms,
    key::{self, EntityKind},
};
use table::{Change, Item, KeyRange, Query, query_all, update};

use crate::{
    Catalog,
    create::BUSY,
    review::{FORM, MAX_ARENA_PAIRS, MAX_PAIR_ITEMS, ReviewItem},
};

impl Catalog {
    /// Replaces keys by pseudonyms in the reviews of a workspace, and removes the tags of their predictions, `with_values` also
    /// the predicted values of releases. Returns the number of items and answers written.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`. It may be called again.
    pub async fn erase_in_reviews(
        &self,
        workspace: &Id,
        pseudonyms: &Pseudonyms,
        with_values: bool,
    ) -> Result<u64> {
        let mut written = 0;
        let mut reviewers = BTreeSet::new();
        for review in self.reviews(workspace).await? {
            let items = key::review_items(workspace, &review.id, 0..MAX_ARENA_PAIRS * MAX_PAIR_ITEMS);
            written += self.erase_in_items(items, pseudonyms, with_values).await?;
            // Who answered an item before it was erased has a turn by now.
            let turns = Query::table(key::review_turns(workspace, &review.id)).only(&["reviewer"]);
            for turn in query_all(&*self.table, turns).await? {
                reviewers.insert(turn.text("reviewer")?.to_owned());
            }
        }
        // Answers stay when their review is deleted.
        for kind in [EntityKind::User, EntityKind::System] {
            let names = self.every(kind, None).await?.into_iter().map(|any| any.entity().name.clone());
            reviewers.extend(names.map(|name| format!("{kind}:{name}")));
        }
        for reviewer in reviewers {
            let answers = key::all_given_answers(workspace, &reviewer);
            written += self.erase_in_items(answers, pseudonyms, with_values).await?;
        }
        Ok(written)
    }

    async fn erase_in_items(
        &self,
        range: KeyRange,
        pseudonyms: &Pseudonyms,
        with_values: bool,
    ) -> Result<u64> {
        let mut written = 0;
        for known in query_all(&*self.table, Query::table(range).only(&["key"])).await? {
            if pseudonyms.get(known.text("key")?).is_none() {
                continue;
            }
            written += update(&*self.table, &known.key, BUSY, async |stored| {
                let Some(stored) = stored else { return Ok(Change::Leave(0)) };
                let mut item: ReviewItem = stored.to_record(FORM)?;
                let Some(pseudonym) = pseudonyms.get(&item.key) else { return Ok(Change::Leave(0)) };
                item.erase(pseudonym.as_str(), with_values);
                Ok(Change::Put(Item::record(stored.key, FORM, &item), 1))
            })
            .await?;
        }
        Ok(written)
    }
}
