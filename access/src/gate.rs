//! From the token of a request to its caller, with what is known of it for at most 5 seconds.

use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use catalog::{AnyEntity, CACHED_SECONDS, Cached, Catalog, Place};
use event::{Clock, Error, Id, Result, Rights};
use futures::future::try_join_all;
use log::key::{EntityId, EntityKind, Scope};
use table::Table;

use crate::{
    caller::{Caller, Principal},
    token::{Digest, Token, is_same},
    tokens::Tokens,
};

/// How many groups are asked at one time for what they may do.
const READS_AT_ONCE: usize = 16;

/// Why a caller is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It said nothing of who it is.
    Nothing,
    /// What it said cannot be a token: it is cut or mistyped.
    Malformed,
    /// The token is not one that is good now.
    Unknown,
    /// The token is not good at the caller's address.
    Address,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "say who you are, by a token in the header `Authorization: Bearer`",
            Self::Malformed => "the header Authorization holds no whole token; it was cut or mistyped",
            Self::Unknown => "the token is not good: it is unknown, revoked or expired",
            Self::Address => "the token is not good at this address",
        })
    }
}

/// Finds out who calls.
#[derive(Debug)]
pub struct Access {
    catalog: Catalog,
    tokens: Tokens,
    clock: Clock,
    preset: Option<Digest>,
    notes_use: bool,
    callers: Cached<Digest, Arc<Caller>>,
    places: Cached<String, Place>,
}

impl Access {
    /// The access to what is in `table`.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self {
            catalog: Catalog::new(Arc::clone(&table)),
            tokens: Tokens::new(table),
            clock,
            preset: None,
            notes_use: true,
            callers: Cached::new(CACHED_SECONDS),
            places: Cached::new(CACHED_SECONDS),
        }
    }

    /// The same, with a token that is not in the table and may do everything.
    #[must_use]
    pub fn with_preset(self, token: Option<&Token>) -> Self {
        Self { preset: token.map(Token::digest), ..self }
    }

    /// The same, which writes nothing: not even that a token was used.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Self { notes_use: false, ..self }
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Who calls with this bearer from this address.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn caller(
        &self,
        bearer: Option<&str>,
        address: Option<IpAddr>,
    ) -> Result<Result<Arc<Caller>, Refusal>> {
        let Some(bearer) = bearer else { return Ok(Err(Refusal::Nothing)) };
        let Some(token) = Token::parse(bearer) else { return Ok(Err(Refusal::Malformed)) };
        let digest = token.digest();
        if self.preset.as_ref().is_some_and(|preset| is_same(preset, &digest)) {
            return Ok(Ok(Arc::new(Caller::preset())));
        }
        let now = self.clock.now();
        let unknown = || Error::not_found("the token is unknown");
        let read = async { self.read(&digest).await?.map(Arc::new).ok_or_else(unknown) };
        // What is not there is not kept, so nobody fills the memory with it.
        let caller = match self.callers.get(digest, now, read).await {
            Ok(caller) => caller,
            Err(error) if error.kind() == event::ErrorKind::NotFound => return Ok(Err(Refusal::Unknown)),
            Err(error) => return Err(error),
        };
        if caller.until.is_some_and(|until| until <= now) {
            return Ok(Err(Refusal::Unknown));
        }
        if !caller.limits.has_address(address) {
            return Ok(Err(Refusal::Address));
        }
        Ok(Ok(caller))
    }

    /// The caller of a token as the table has it; `None`, when it is good for nobody.
    async fn read(&self, digest: &Digest) -> Result<Option<Caller>> {
        let now = self.clock.now();
        let Some(record) = self.tokens.find(digest).await?.filter(|record| !record.has_expired(now)) else {
            return Ok(None);
        };
        let Some(principal) = self.catalog.find(&record.principal).await? else { return Ok(None) };
        if principal.entity().archived_at.is_some() {
            return Ok(None);
        }
        let rights = self.rights(&record.principal).await?;
        let mut categories = BTreeMap::new();
        if let Some(scopes) = &record.limits.scopes {
            for scope in scopes.iter().chain(rights.keys()) {
                if let Scope::Workspace(id) = scope {
                    categories.extend(self.category(id).await?.map(|category| (id.clone(), category)));
                }
            }
        }
        if self.notes_use
            && let Err(error) = self.tokens.note_use(digest, &record, now).await
        {
            tracing::warn!(%error, token = %record.id, "the use of a token cannot be noted");
        }
        let name = principal.entity().name.clone();
        let principal = Principal::Known(record.principal, name);
        Ok(Some(Caller {
            principal,
            token: Some(record.id),
            rights,
            limits: record.limits,
            categories,
            until: record.expires_at,
        }))
    }

    /// The rights of a principal by its own roles and those of its groups.
    async fn rights(&self, principal: &EntityId) -> Result<BTreeMap<Scope, Rights>> {
        let mut grants = self.catalog.grants_of(principal).await?;
        if principal.kind() == EntityKind::User {
            let groups = self.catalog.memberships(principal).await?;
            for some in groups.chunks(READS_AT_ONCE) {
                let of_each = try_join_all(some.iter().map(|one| self.catalog.grants_of(&one.group))).await?;
                grants.extend(of_each.into_iter().flatten());
            }
        }
        let mut rights = BTreeMap::<Scope, Rights>::new();
        for grant in grants {
            let all = rights.entry(grant.scope).or_default();
            *all = all.or(grant.role.rights());
        }
        Ok(rights)
    }

    async fn category(&self, workspace: &Id) -> Result<Option<Id>> {
        Ok(match self.catalog.find(&EntityId::Workspace(workspace.clone())).await? {
            Some(AnyEntity::Workspace(workspace)) => Some(workspace.category),
            _ => None,
        })
    }

    /// The rights of a caller on what `text` names; `None`, when there is no such thing, or the caller may not see it. Both
    /// take the same reads.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn rights_on(&self, caller: &Caller, kind: EntityKind, text: &str) -> Result<Option<Rights>> {
        // A token that may only append does not read, and yet knows what there is to append to.
        let seen = |place: &Place| Some(caller.rights_at(place)).filter(|rights| !rights.is_empty());
        let now = self.clock.now();
        let is_kept = kind == EntityKind::Workspace;
        // Only who may see a place is served from what is kept.
        if is_kept
            && let Some(place) = self.places.kept(text, now)
            && let Some(rights) = seen(&place)
        {
            return Ok(Some(rights));
        }
        let Some(place) = self.catalog.place(kind, text).await? else { return Ok(None) };
        let rights = seen(&place);
        if is_kept && rights.is_some() {
            self.places.get(text.to_owned(), now, async { Ok(place) }).await?;
        }
        Ok(rights)
    }
}
