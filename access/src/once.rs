//! Tokens that are good for one append: what is known of their use stands in their item.
//!
//! A use is begun and, after the append, ended, each by a write that demands what was read. The append has the id of the token as
//! its idempotency key. So whichever step is broken off, events are stored once at most: a use that was not ended may be begun again
//! after [`USE_SECONDS`], and then the key knows what was appended.

use event::{Error, Id, Result, Right, Timestamp};
use log::key::{self, Scope};
use table::{Condition, Update, Write};

use crate::{
    token::Digest,
    tokens::{Lifetime, NewToken, Tokens, USUAL_DAYS},
};

/// The longest that such a token is good for: idempotency keys are known for 7 days.
pub const MAX_DAYS_ONCE: u32 = 7;

/// After so long a use that was begun counts as broken off.
pub(crate) const USE_SECONDS: i64 = 60;

const BEGUN: &str = "begun_at";
pub(crate) const SPENT: &str = "spent_at";

/// What became of the wish to use a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is begun, for the token of this id.
    Begun(Id),
    /// Another request uses it now.
    Busy,
    /// It was used.
    Spent,
}

impl NewToken {
    /// Until when a token is good that is made now. One for one use is good for a day, another for [`USUAL_DAYS`], unless it is said otherwise.
    pub fn expiry(lifetime: Lifetime, is_once: bool, now: Timestamp) -> Option<Timestamp> {
        let days = match lifetime {
            Lifetime::Usual if is_once => 1,
            Lifetime::Usual => USUAL_DAYS,
            Lifetime::Days(days) => days,
            Lifetime::Forever => return None,
        };
        Some(now.plus_seconds(i64::from(days) * 24 * 60 * 60))
    }

    /// Checks that a token for one append says of what, where and until when.
    pub(crate) fn check_once(&self, now: Timestamp) -> Result<()> {
        let limits = &self.limits;
        let scopes: Vec<&Scope> = limits.scopes.iter().flatten().collect();
        let is_one_append = matches!(scopes[..], [Scope::Workspace(_)])
            && limits.rights.iter().flatten().eq([&Right::Append])
            && limits.kinds.as_ref().is_some_and(|kinds| kinds.len() == 1);
        if !is_one_append {
            let message =
                "a token for one use is for the right `append`, one workspace and one kind of events";
            return Err(Error::invalid(message));
        }
        let latest = now.plus_seconds(i64::from(MAX_DAYS_ONCE) * 24 * 60 * 60);
        match self.expires_at {
            Some(at) if at <= latest => Ok(()),
            _ => Err(Error::invalid(format!("a token for one use is good for {MAX_DAYS_ONCE} days at most"))),
        }
    }
}

impl Tokens {
    /// Begins the use of a token.
    ///
    /// # Errors
    /// `NotFound`, when it was revoked; those of the table.
    pub async fn begin_use(&self, digest: &Digest, now: Timestamp) -> Result<Use> {
        let key = key::token(digest);
        let missing = || Error::not_found("the token was revoked");
        let item = self.table().get(&key).await?.ok_or_else(missing)?;
        if item.attributes.contains_key(SPENT) {
            return Ok(Use::Spent);
        }
        let as_read = match item.attributes.get(BEGUN) {
            Some(begun) => {
                let age = now.micros().abs_diff(item.int(BEGUN)?);
                if age < USE_SECONDS as u64 * 1_000_000 {
                    return Ok(Use::Busy);
                }
                Condition::Equals(BEGUN, begun.clone())
            }
            None => Condition::Without(BEGUN),
        };
        let condition = Condition::All(vec![as_read, Condition::Without(SPENT)]);
        let begin = Update::new(key, condition).set(BEGUN, now.micros());
        match self.table().transact(vec![Write::Update(begin)]).await {
            Ok(()) => Ok(Use::Begun(Id::parse(item.text("id")?)?)),
            Err(error) if error.is_conflict() => Ok(Use::Busy),
            Err(error) => Err(error),
        }
    }

    /// Ends the use that was begun at `begun`: for good, or so that it may be begun again.
    ///
    /// # Errors
    /// `Conflict`, when another use was begun since; those of the table.
    pub async fn end_use(
        &self,
        digest: &Digest,
        begun: Timestamp,
        is_done: bool,
        now: Timestamp,
    ) -> Result<()> {
        let own = Condition::Equals(BEGUN, begun.micros().into());
        let update = Update::new(key::token(digest), own);
        let update = if is_done { update.set(SPENT, now.micros()) } else { update.remove(BEGUN) };
        self.table().transact(vec![Write::Update(update)]).await
    }
}
