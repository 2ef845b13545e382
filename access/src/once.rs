//! Tokens that are valid for one append: the state of their use is in their item.
//!
//! A use is begun and, after the append, ended, each by a write conditional on the state read. The append has the id of the token
//! as its idempotency key. So whichever step is interrupted, events are stored at most once: a use that was not ended may be
//! begun again after [`USE_SECONDS`], and then the key identifies the append. It does so after the use, too: the same append
//! again is answered as before.

use catalog::Catalog;
use event::{Error, Id, Result, Right, Timestamp};
use log::key::{self, EntityId, Scope};
use table::{Condition, Update, Write};

use crate::{
    authenticator::rights_of,
    token::Digest,
    tokens::{Lifetime, NewToken, Tokens, USUAL_DAYS},
};

/// Maximum days of such a token: idempotency keys are known for 7 days.
pub const MAX_DAYS_ONCE: u32 = 7;

/// Seconds after which a begun use counts as broken off.
pub(crate) const USE_SECONDS: i64 = 60;

const BEGUN: &str = "begun_at";
pub(crate) const SPENT: &str = "spent_at";

/// Result of an attempt to use a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Begun, for the token of this id.
    Begun(Id),
    /// Used by another request now.
    Busy,
    /// Used before, for the token of this id.
    Spent(Id),
}

impl NewToken {
    /// Expiry of a token that is made now. The default is one day for a token for one use, [`USUAL_DAYS`] for others.
    pub fn expiry(lifetime: Lifetime, is_once: bool, now: Timestamp) -> Option<Timestamp> {
        let days = match lifetime {
            Lifetime::Usual if is_once => 1,
            Lifetime::Usual => USUAL_DAYS,
            Lifetime::Days(days) => days,
            Lifetime::Forever => return None,
        };
        Some(now.plus_seconds(i64::from(days) * 24 * 60 * 60))
    }

    /// Checks that a token for one append has one workspace, one kind of events, the right `append` and an expiry within
    /// [`MAX_DAYS_ONCE`].
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

/// Refuses a token for one append that its principal may not make: the role is missing, and the token is short-lived.
///
/// # Errors
/// `Conflict`, naming the missing role; errors of the table.
pub async fn check_role(catalog: &Catalog, principal: &EntityId, new: &NewToken) -> Result<()> {
    let wanted = new.limits.scopes.iter().flatten().find_map(Scope::entity);
    let Some(workspace) = wanted.filter(|_| new.is_once) else { return Ok(()) };
    let (who, place) = (catalog.get(principal).await?, catalog.get(&workspace).await?);
    let scopes = [Some(Scope::Server), place.parent().and_then(|at| Scope::of(&at)), Scope::of(&workspace)];
    let rights = rights_of(catalog, principal, Vec::new()).await?;
    let may_append =
        scopes.iter().flatten().any(|at| rights.get(at).is_some_and(|all| all.has(Right::Append)));
    match may_append {
        true => Ok(()),
        false => {
            let (kind, name, place) = (principal.kind(), &who.entity().name, place.full_name());
            Err(Error::conflict(format!(
                "{kind}:{name} may not append to {place}; give it a role there first, such as writer"
            )))
        }
    }
}

impl Tokens {
    /// Begins the use of a token.
    ///
    /// # Errors
    /// `NotFound`, when it was revoked; errors of the table.
    pub async fn begin_use(&self, digest: &Digest, now: Timestamp) -> Result<Use> {
        let key = key::token(digest);
        let missing = || Error::not_found("the token was revoked");
        let item = self.table().get(&key).await?.ok_or_else(missing)?;
        if item.attributes.contains_key(SPENT) {
            return Ok(Use::Spent(Id::parse(item.text("id")?)?));
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
    /// `Conflict`, when another use was begun since; errors of the table.
    pub async fn end_use(
        &self,
        digest: &Digest,
        begun: Timestamp,
        is_done: bool,
        now: Timestamp,
    ) -> Result<()> {
        let own = Condition::Equals(BEGUN, begun.micros().into());
        let update = Update::new(key::token(digest), own);
        let update = if is_done { update.set(SPENT, now.to_string()) } else { update.remove(BEGUN) };
        self.table().transact(vec![Write::Update(update)]).await
    }
}
