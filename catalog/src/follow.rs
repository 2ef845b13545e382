//! Follows: each is an item of the user, and all of them stand together in `GSI1`; in the index `leaderboard` the follows of one thing
//! are sorted by the time at which they began. The number of followers is counted on the followed thing, in the transaction that
//! writes the follow.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp};
use log::key::{self, EntityId, Followed};
use table::{Condition, Cursor, Index, Item, Query, Write, query_all};

use super::Catalog;

/// Maximum follows of a user.
pub const MAX_FOLLOWS: usize = 200;

/// Attribute of a workspace or model that counts its followers.
const FOLLOWERS: &str = "count_of_followers";

const ITEM_VERSION: i64 = 1;

/// Follow of a user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Follow {
    /// Time at which it began.
    pub since: Timestamp,
    /// Followed thing.
    pub followed: Followed,
}

/// Follows of users, user by user.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// Users and their follows. A user whose follows do not fit into a page continues in the next.
    pub users: Vec<(Id, Vec<Follow>)>,
    /// Cursor of the next page.
    pub next: Option<Cursor>,
}

/// Page of the followers of something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followers {
    /// Followers, each with the time at which the follow began, in that order.
    pub users: Vec<(Id, Timestamp)>,
    /// Cursor of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

impl Catalog {
    /// Makes a user follow something. Returns whether that is new. Its count of followers grows in the same transaction, so a
    /// repeat counts nothing.
    ///
    /// # Errors
    /// `NotFound`, when there is no such user, or no such thing to follow; `Invalid`, when the user has [`MAX_FOLLOWS`] follows
    /// already.
    pub async fn follow(&self, user: &Id, followed: &Followed, now: Timestamp) -> Result<bool> {
        let known = self.follows(user).await?;
        if known.iter().any(|known| known.followed == *followed) {
            return Ok(false);
        }
        if known.len() >= MAX_FOLLOWS {
            return Err(Error::invalid(format!("a user follows at most {MAX_FOLLOWS}; unfollow some")));
        }
        let key = key::follow(user, followed);
        let (pk, sk) = key::follow_index(user, followed);
        let item = Item::new(key.clone()).with("v", ITEM_VERSION).with("at", now.micros());
        let item = item.with("GSI1PK", pk).with("GSI1SK", sk);
        let item = item.with("board", key::followers(followed)).with("score", now.micros());
        let writes = vec![
            Write::Check(EntityId::User(user.clone()).key(), Condition::Exists),
            Write::Put(item, Condition::Absent),
            Write::Add(followed.entity(), FOLLOWERS.to_owned(), 1),
        ];
        match self.table.transact(writes).await {
            Err(error) if error.is_conflict() => match self.table.get(&key).await? {
                Some(_) => Ok(false),
                None => Err(Error::not_found("there is no such user, or nothing of this id to follow")),
            },
            other => other.map(|()| true),
        }
    }

    /// Ends a follow of a user. Returns whether there was one.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn unfollow(&self, user: &Id, followed: &Followed) -> Result<bool> {
        let key = key::follow(user, followed);
        let writes = vec![
            Write::Delete(key.clone(), Condition::Exists),
            Write::Add(followed.entity(), FOLLOWERS.to_owned(), -1),
        ];
        match self.table.transact(writes).await {
            Err(error) if error.is_conflict() => match self.table.get(&key).await? {
                None => Ok(false),
                // The followed thing is gone, and its count with it.
                Some(_) => self.table.delete(&key, Condition::None).await.map(|()| true),
            },
            other => other.map(|()| true),
        }
    }

    /// Reads the follows of a user, in the order in which they began: one query of at most [`MAX_FOLLOWS`] items.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn follows(&self, user: &Id) -> Result<Vec<Follow>> {
        let items = query_all(&*self.table, Query::table(key::follows(user))).await?;
        let follows = items.iter().map(|item| Ok(Follow::from_item(item)?.1));
        let mut follows = follows.collect::<Result<Vec<_>>>()?;
        follows.sort();
        Ok(follows)
    }

    /// Reads the number of followers of something: one read.
    ///
    /// # Errors
    /// `NotFound`, when it does not exist.
    pub async fn followers(&self, followed: &Followed) -> Result<i64> {
        let item = self.table.get(&followed.entity()).await?;
        let item = item.ok_or_else(|| Error::not_found("there is nothing of this id to follow"))?;
        Ok(item.int(FOLLOWERS).unwrap_or(0))
    }

    /// Reads a page of the followers of something, in the order in which they came: one query.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is 0 or the cursor is of another list.
    pub async fn followers_page(
        &self,
        followed: &Followed,
        limit: usize,
        after: Option<Cursor>,
    ) -> Result<Followers> {
        let query = Query { after, ..Query::index(Index::Board, key::followers(followed)) };
        let page = self.table.query(&query.limit(limit)).await?;
        let user = |item: &Item| Follow::from_item(item).map(|(user, follow)| (user, follow.since));
        let users = page.items.iter().map(user).collect::<Result<_>>()?;
        Ok(Followers { users, next: page.next })
    }

    /// Reads a page of all users with their follows: one query of the index.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn digest(&self, after: Option<Cursor>) -> Result<Digest> {
        let query = Query { after, ..Query::index(Index::Gsi1, key::FOLLOWS) };
        let page = self.table.query(&query).await?;
        let mut users = BTreeMap::<Id, Vec<Follow>>::new();
        for item in &page.items {
            let (user, follow) = Follow::from_item(item)?;
            users.entry(user).or_default().push(follow);
        }
        users.values_mut().for_each(|follows| follows.sort());
        Ok(Digest { users: users.into_iter().collect(), next: page.next })
    }
}

impl Digest {
    /// Users and followed things.
    pub fn entities(&self) -> impl Iterator<Item = EntityId> {
        self.users.iter().flat_map(|(user, follows)| {
            let followed = follows.iter().flat_map(|one| one.followed.entities());
            followed.chain([EntityId::User(user.clone())])
        })
    }
}

impl Follow {
    /// Decodes the user and the follow of an item.
    pub(super) fn from_item(item: &Item) -> Result<(Id, Self)> {
        item.check_version(ITEM_VERSION)?;
        let parsed = key::parse_follow(&item.key);
        let (user, followed) = parsed.ok_or_else(|| item.corrupt("its key is not one of a follow"))?;
        let since = Timestamp::from_micros(item.int("at")?).ok_or_else(|| item.corrupt("`at` is no time"))?;
        Ok((user, Self { since, followed }))
    }
}
