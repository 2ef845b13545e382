//! Stored tokens: by the digest of their text, and by their principal.

use std::{str::FromStr, sync::Arc};

use event::{Error, Id, Result, Timestamp, id::check_name};
use log::{
    audit::Audited,
    key::{self, EntityId, EntityKind},
};
use table::{Condition, Item, Policy, Query, Table, Update, Write, query_all, unless_overtaken};

use crate::{
    limits::Limits,
    once::SPENT,
    token::{Digest, Token},
};

const ITEM_VERSION: i64 = 1;

/// Maximum tokens of a principal.
pub const MAX_TOKENS: usize = 1_000;

/// Maximum lifetime of a token, in days.
pub const MAX_DAYS: u32 = 3_660;

/// Default lifetime of a token, in days.
pub const USUAL_DAYS: u32 = 90;

/// Lifetime of a new token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Default lifetime.
    #[default]
    Usual,
    /// This number of days.
    Days(u32),
    /// No expiry.
    Forever,
}

/// Parses a number of days, or `never`.
impl FromStr for Lifetime {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let days = text.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days)).map(Self::Days);
        let forever = (text == "never").then_some(Self::Forever);
        days.or(forever).ok_or_else(|| {
            Error::invalid(format!("`{text}` is neither a number of days from 1 to {MAX_DAYS} nor never"))
        })
    }
}

/// Minimum interval between notes of the use of a token, in seconds.
const USE_NOTED_EVERY_SECONDS: i64 = 60 * 60;

/// Request for a token.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Purpose of the token, in a word.
    pub name: String,
    /// Expiry; `None` for no expiry.
    pub expires_at: Option<Timestamp>,
    /// Limits of the token.
    pub limits: Limits,
    /// True if it is valid for one append only.
    pub is_once: bool,
}

/// Record of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Id of the token, by which it is revoked.
    pub id: Id,
    /// Purpose of the token.
    pub name: String,
    /// User or system that it belongs to.
    pub principal: EntityId,
    /// Time at which it was made.
    pub created_at: Timestamp,
    /// Expiry.
    pub expires_at: Option<Timestamp>,
    /// Time of its last use, to an hour.
    pub used_at: Option<Timestamp>,
    /// Limits of the token.
    pub limits: Limits,
    /// True if it is valid for one append only.
    pub is_once: bool,
    /// Time at which that append was done.
    pub spent_at: Option<Timestamp>,
}

/// Tokens in a table.
#[derive(Clone, Debug)]
pub struct Tokens {
    table: Arc<dyn Table>,
}

impl TokenRecord {
    /// Returns whether it has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns whether its use was noted lately, and need not be noted now.
    pub(crate) fn has_use_noted(&self, now: Timestamp) -> bool {
        let is_late = |at: Timestamp| now.micros() - at.micros() < USE_NOTED_EVERY_SECONDS * 1_000_000;
        self.used_at.is_some_and(is_late)
    }

    fn to_item(&self, digest: &Digest) -> Item {
        let mut item = Item::record(key::token(digest), ITEM_VERSION, &self.limits)
            .with("id", self.id.as_str())
            .with("name", self.name.as_str())
            .with("principal", self.principal.token())
            .with("created_at", self.created_at.to_string());
        if let Some(at) = self.expires_at {
            item = item.with("until", at.to_string()).with("expires_at", at.micros().div_euclid(1_000_000));
        }
        if self.is_once {
            item = item.with("once", 1);
        }
        item
    }

    fn from_item(item: &Item) -> Result<Self> {
        let principal = key::parse_token(item.text("principal")?)
            .and_then(|(kind, id)| EntityId::new(kind, id, None))
            .ok_or_else(|| item.corrupt("`principal` is none"))?;
        Ok(Self {
            id: item.field("id")?,
            name: item.text("name")?.to_owned(),
            principal,
            created_at: item.field("created_at")?,
            expires_at: item.field("until")?,
            used_at: item.field("used_at")?,
            limits: item.to_record(ITEM_VERSION)?,
            is_once: item.attributes.contains_key("once"),
            spent_at: item.field(SPENT)?,
        })
    }
}

impl Tokens {
    /// Takes the tokens in `table`. Each creation or revocation is recorded in the audit log ([`log::audit`]).
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self { table: Audited::shared(table) }
    }

    pub(crate) fn table(&self) -> &dyn Table {
        &*self.table
    }

    /// Returns whether callers need a token: true since the first one was made.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn are_asked_for(&self) -> Result<bool> {
        Ok(self.table.get(&key::access()).await?.is_some())
    }

    /// Makes a token for a user or system. From the first one on, services require tokens of their callers. Concurrent requests
    /// for a principal are made one after the other.
    ///
    /// # Errors
    /// `Invalid`, for an impossible request; `NotFound`, when there is no such principal; `Conflict`, when the principal has one
    /// of this name, or too many.
    pub async fn create(
        &self,
        principal: &EntityId,
        new: NewToken,
        now: Timestamp,
    ) -> Result<(Token, TokenRecord)> {
        check_name(&new.name)?;
        new.limits.check()?;
        if new.is_once {
            new.check_once(now)?;
        }
        if !matches!(principal.kind(), EntityKind::User | EntityKind::System) {
            let message = format!("a {} has no tokens; a user or a system can", principal.kind());
            return Err(Error::invalid(message));
        }
        if new.expires_at.is_some_and(|at| at <= now) {
            return Err(Error::invalid("the token would have expired already"));
        }
        let token = Token::new();
        let record = TokenRecord {
            id: Id::new(now),
            name: new.name,
            principal: principal.clone(),
            created_at: now,
            expires_at: new.expires_at,
            used_at: None,
            limits: new.limits,
            is_once: new.is_once,
            spent_at: None,
        };
        let made = key::tokens_made(principal);
        let mut tries = Policy::of(&made).tries();
        loop {
            tries.next().await?;
            // Read before the tokens, so that a token made in between changes it.
            let ver = self.table.get(&made).await?.map_or(Ok(0), |item| {
                item.check_version(ITEM_VERSION)?;
                item.int("ver")
            })?;
            self.check_room(principal, &record.name).await?;
            let counted = Item::new(made.clone()).with("v", ITEM_VERSION).with("ver", ver + 1);
            let mut writes = vec![Write::Put(counted, Condition::unchanged(ver))];
            writes.extend(writes_of(&record, &token));
            if unless_overtaken(self.table.transact(writes).await)?.is_some() {
                return Ok((token, record));
            }
        }
    }

    /// Checks that a principal exists and may have a token of this name.
    async fn check_room(&self, principal: &EntityId, name: &str) -> Result<()> {
        if self.table.get(&principal.key()).await?.is_none() {
            return Err(Error::not_found(format!("there is no {principal}")));
        }
        let others = query_all(&*self.table, Query::table(key::tokens_of(principal))).await?;
        if others.iter().any(|other| other.optional_text("name") == Some(name)) {
            return Err(Error::conflict(format!("{principal} has a token called `{name}` already")));
        }
        if others.len() >= MAX_TOKENS {
            let message = format!("{principal} has {MAX_TOKENS} tokens; revoke one that is not used");
            return Err(Error::conflict(message));
        }
        Ok(())
    }

    /// Finds the token of a digest.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn find(&self, digest: &Digest) -> Result<Option<TokenRecord>> {
        self.table.get(&key::token(digest)).await?.as_ref().map(TokenRecord::from_item).transpose()
    }

    /// Tokens of a principal that are valid or have expired lately, the oldest first.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn list(&self, principal: &EntityId) -> Result<Vec<TokenRecord>> {
        let mut records = Vec::new();
        for item in query_all(&*self.table, Query::table(key::tokens_of(principal))).await? {
            records.extend(self.find(&digest(&item)?).await?);
        }
        Ok(records)
    }

    /// Revokes a token of a principal, by its id or its name. A service that used it a moment ago may accept it for 5 more
    /// seconds.
    ///
    /// # Errors
    /// `NotFound`, when the principal has none of these.
    pub async fn revoke(&self, principal: &EntityId, id_or_name: &str) -> Result<()> {
        let mut is_found = false;
        for item in query_all(&*self.table, Query::table(key::tokens_of(principal))).await? {
            let digest = digest(&item)?;
            let is_it = |record: &TokenRecord| record.id.as_str() == id_or_name || record.name == id_or_name;
            if self.find(&digest).await?.as_ref().is_some_and(is_it) {
                let token = Write::Delete(key::token(&digest), Condition::None);
                self.table.transact(vec![token, Write::Delete(item.key, Condition::None)]).await?;
                is_found = true;
            }
        }
        match is_found {
            true => Ok(()),
            false => Err(Error::not_found(format!("{principal} has no such token"))),
        }
    }

    /// Notes the use of a token.
    ///
    /// # Errors
    /// Errors of the table; `Conflict`, when it was revoked since.
    pub(crate) async fn note_use(&self, digest: &Digest, now: Timestamp) -> Result<()> {
        let update = Update::new(key::token(digest), Condition::Exists).set("used_at", now.to_string());
        self.table.transact(vec![Write::Update(update)]).await
    }
}

/// Writes of a new token, conditional on its principal.
fn writes_of(record: &TokenRecord, token: &Token) -> [Write; 4] {
    let digest = token.digest();
    let mut listed = Item::new(key::token_of(&record.principal, &record.id))
        .with("v", ITEM_VERSION)
        .with("name", record.name.as_str())
        .with("digest", digest.to_vec());
    if let Some(at) = record.expires_at {
        listed = listed.with("expires_at", at.micros().div_euclid(1_000_000));
    }
    let asked = Item::new(key::access()).with("v", ITEM_VERSION);
    [
        Write::Check(record.principal.key(), Condition::Exists),
        Write::Put(record.to_item(&digest), Condition::Absent),
        Write::Put(listed, Condition::Absent),
        Write::Put(asked, Condition::None),
    ]
}

fn digest(item: &Item) -> Result<Digest> {
    item.bytes("digest")?.try_into().map_err(|_| item.corrupt("`digest` is none of SHA-256"))
}
