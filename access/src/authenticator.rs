//! Looks up the caller of a token, with data that is at most 5 seconds old.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use catalog::{AnyEntity, CACHED_SECONDS, Cached, Catalog, TokenQuota, new::NewRoot};
use event::{Clock, Error, Id, Result, Right, Rights, Timestamp};
use futures::future::try_join_all;
use log::key::{EntityId, EntityKind, Scope};
use sha2::{Digest as _, Sha256};
use table::Table;

use crate::{
    caller::{Caller, Made, Principal},
    limits::Limits,
    oidc::{Claims, Oidc, Wrong},
    session::{Came, IDLE_SECONDS, Issued, Opened, Opener, Session, USE_NOTED_EVERY_SECONDS},
    token::{Digest, Token, is_same},
    tokens::Tokens,
    uses::Uses,
};

/// Number of groups whose grants are read at one time.
const READS_AT_ONCE: usize = 16;

/// Reason why a caller is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No credentials.
    Nothing,
    /// Text that cannot be a token: it is cut or mistyped.
    Malformed,
    /// Token that is not valid now.
    Unknown,
    /// Token that is not valid at the caller's address.
    Address,
    /// Error of a signed bearer.
    Bearer(Wrong),
    /// Session without the dashboard's header, as any page can make a browser send it.
    Unasked,
    /// Session from a page of another origin.
    Foreign,
    /// Session that is not valid now.
    Ended,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = match self {
            Self::Nothing => "say who you are, by a token in the header `Authorization: Bearer`",
            Self::Malformed => "the header Authorization holds no whole token; it was cut or mistyped",
            Self::Unknown => "the token is not good: it is unknown, revoked or expired",
            Self::Address => "the token is not good at this address",
            Self::Unasked => "a session counts only together with the header `Almanac-Dashboard`",
            Self::Foreign => "a session counts only for pages of this server itself",
            Self::Ended => "the session has ended; sign in again",
            Self::Bearer(wrong) => return write!(f, "the bearer of the issuer is not good: {wrong}"),
        };
        f.write_str(says)
    }
}

/// Seconds for which the absence of tokens is cached.
const OPEN_SECONDS: i64 = 1;

/// State of a table without tokens.
#[derive(Debug)]
struct Open {
    /// True once there is a token. It never changes back.
    is_over: AtomicBool,
    looked: Cached<(), ()>,
}

/// Authentication of callers.
#[derive(Debug)]
pub struct Access {
    catalog: Catalog,
    tokens: Tokens,
    clock: Clock,
    preset: Option<(Digest, Arc<Caller>)>,
    oidc: Option<Arc<Oidc>>,
    /// State of a table without tokens, in which no caller needs a token.
    open: Option<Open>,
    /// Recorder of the use of tokens; `None`, when nothing is written.
    uses: Option<Uses>,
    callers: Cached<Digest, Arc<Caller>>,
    /// Sessions whose use was noted a while ago.
    sessions_used: Cached<Digest, ()>,
    /// Scopes of workspaces, by name.
    places: Cached<String, Arc<[Scope]>>,
}

impl Access {
    /// Makes the access to the tokens in `table`.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        let (catalog, tokens) = (Catalog::new(Arc::clone(&table)), Tokens::new(table));
        Self {
            catalog,
            uses: Some(Uses::new(tokens.clone())),
            tokens,
            clock,
            preset: None,
            oidc: None,
            open: None,
            callers: Cached::new(CACHED_SECONDS),
            sessions_used: Cached::new(USE_NOTED_EVERY_SECONDS),
            places: Cached::new(CACHED_SECONDS),
        }
    }

    /// Adds the digest of a token that is not in the table and has all rights.
    #[must_use]
    pub fn with_preset(self, token: Option<Digest>) -> Self {
        Self { preset: token.map(|digest| (digest, Arc::new(Caller::preset(digest)))), ..self }
    }

    /// Trusts the bearers of an issuer.
    #[must_use]
    pub fn with_oidc(self, oidc: Option<Arc<Oidc>>) -> Self {
        Self { oidc, ..self }
    }

    /// Requires no token until there is one.
    #[must_use]
    pub fn open_at_first(self) -> Self {
        let open = Open { is_over: AtomicBool::new(false), looked: Cached::new(OPEN_SECONDS) };
        Self { open: Some(open), ..self }
    }

    /// Returns whether no token was required at first.
    pub fn opens_at_first(&self) -> bool {
        self.open.is_some()
    }

    /// Returns whether no caller needs a token. The table is read each second, since any process may make a token.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn is_open(&self) -> Result<bool> {
        let Some(open) = self.open.as_ref().filter(|open| !open.is_over.load(Ordering::Relaxed)) else {
            return Ok(false);
        };
        let look = async { Ok(if self.tokens.are_asked_for().await? { Err(()) } else { Ok(()) }) };
        let is_open = open.looked.get_unless_refused((), self.clock.now(), look).await?.is_ok();
        if !is_open && !open.is_over.swap(true, Ordering::Relaxed) {
            tracing::warn!("there is a token now: callers need one from now on");
        }
        Ok(is_open)
    }

    /// Disables all writes, even the notes of used tokens.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Self { uses: None, ..self }
    }

    /// Catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Finds the caller with this bearer from this address.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn caller(
        &self,
        bearer: Option<&str>,
        address: Option<IpAddr>,
    ) -> Result<Result<Arc<Caller>, Refusal>> {
        let Some(bearer) = bearer else { return Ok(Err(Refusal::Nothing)) };
        if let Some(oidc) = self.oidc.as_ref().filter(|_| Oidc::is_alike(bearer)) {
            return self.signed_caller(oidc, bearer).await;
        }
        let Some(token) = Token::parse(bearer) else { return Ok(Err(Refusal::Malformed)) };
        let digest = token.digest();
        if let Some((preset, caller)) = &self.preset
            && is_same(preset, &digest)
        {
            return Ok(Ok(Arc::clone(caller)));
        }
        let read = async |now| Ok(self.read(&digest, now).await?.map(Arc::new));
        self.known(digest, read, address, Refusal::Unknown).await
    }

    /// Finds the caller in this session from this address. A request that only waits for news does not count as use.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn caller_in(
        &self,
        session: &Session,
        address: Option<IpAddr>,
        is_use: bool,
    ) -> Result<Result<Arc<Caller>, Refusal>> {
        let read = async |now| Ok(self.read_session(session, now).await?.map(Arc::new));
        let found = self.known(session.digest(), read, address, Refusal::Ended).await?;
        if is_use && found.is_ok() && self.uses.is_some() {
            let now = self.clock.now();
            let noted =
                self.sessions_used.get(session.digest(), now, self.tokens.note_session_use(session, now));
            // Without this note it ends early, unless it is used again.
            if let Err(error) = noted.await {
                tracing::debug!(%error, "the use of a session cannot be noted");
            }
        }
        Ok(found)
    }

    /// Forgets a closed session, so that it ends at once in this process.
    pub(crate) fn forget(&self, session: &Session) {
        self.callers.forget(&session.digest());
    }

    /// Returns the cached caller, or reads it; `refusal`, if there is none.
    async fn known(
        &self,
        digest: Digest,
        read: impl AsyncFnOnce(Timestamp) -> Result<Option<Arc<Caller>>>,
        address: Option<IpAddr>,
        refusal: Refusal,
    ) -> Result<Result<Arc<Caller>, Refusal>> {
        let now = self.clock.now();
        let read = async { Ok::<_, Error>(read(now).await?.ok_or(())) };
        // A missing caller is not cached, so nobody can fill the memory with it.
        let Ok(caller) = self.callers.get_unless_refused(digest, now, read).await? else {
            return Ok(Err(refusal));
        };
        if caller.until.is_some_and(|until| until <= now) {
            return Ok(Err(refusal));
        }
        if !caller.limits.has_address(address) {
            return Ok(Err(Refusal::Address));
        }
        Ok(Ok(caller))
    }

    /// Reads the caller of a session from the table: its opener in its present state.
    async fn read_session(&self, session: &Session, now: Timestamp) -> Result<Option<Caller>> {
        // A process that only reads notes no use, so there a session ends by age alone.
        let is_used =
            |opened: &Opened| self.uses.is_none() || now < opened.used_at.plus_seconds(IDLE_SECONDS);
        let opened = self.tokens.session(session).await?;
        let opened = opened.filter(|opened| now < opened.until && is_used(opened));
        let Some(opened) = opened else { return Ok(None) };
        let caller = match opened.opener {
            Opener::Token(digest) => self.read(&digest, now).await?.filter(|caller| caller.once.is_none()),
            Opener::Preset(digest) => {
                let own = self.preset.as_ref().filter(|(own, _)| is_same(own, &digest));
                own.map(|(_, caller)| Caller::clone(caller))
            }
            Opener::Signed(digest, Issued { issuer, claims }) => {
                let oidc = self.oidc.as_ref().filter(|oidc| oidc.settings().issuer == issuer);
                match oidc.filter(|_| now < claims.until) {
                    Some(oidc) => self.claimed(oidc, digest, claims, now).await?.ok(),
                    None => None,
                }
            }
        };
        Ok(caller.map(|caller| Caller {
            until: Some(caller.until.map_or(opened.until, |until| until.min(opened.until))),
            came: Came::In(session.clone()),
            ..caller
        }))
    }

    /// Reads the caller of a token from the table; `None`, if the token is not valid.
    async fn read(&self, digest: &Digest, now: Timestamp) -> Result<Option<Caller>> {
        let Some(record) = self.tokens.find(digest).await?.filter(|record| !record.has_expired(now)) else {
            return Ok(None);
        };
        let Some(principal) = self.catalog.find(&record.principal).await? else { return Ok(None) };
        if principal.entity().archived_at.is_some() {
            return Ok(None);
        }
        let rights = rights_of(&self.catalog, &record.principal, Vec::new()).await?;
        let mut categories = BTreeMap::new();
        if let Some(scopes) = &record.limits.scopes {
            for scope in scopes.iter().chain(rights.keys()) {
                if let Scope::Workspace(id) = scope {
                    categories.extend(self.category(id).await?.map(|category| (id.clone(), category)));
                }
            }
        }
        if let Some(uses) = &self.uses {
            uses.note(digest, &record, now);
        }
        let name = principal.entity().name.clone();
        let principal = Principal::Known(record.principal, name);
        let quota = Some(record.limits.quota).filter(|quota| !quota.is_empty());
        let quota = quota.map(|quota| Arc::new(TokenQuota { token: record.id.clone(), quota }));
        Ok(Some(Caller {
            principal,
            token: Some(record.id),
            once: record.is_once.then_some(*digest),
            quota,
            rights,
            limits: record.limits,
            categories,
            came: Came::With(Opener::Token(*digest)),
            until: record.expires_at,
            expires_at: record.expires_at,
            made: Made::default(),
        }))
    }

    /// Finds the caller of a bearer that an issuer signed.
    async fn signed_caller(&self, oidc: &Oidc, bearer: &str) -> Result<Result<Arc<Caller>, Refusal>> {
        let now = self.clock.now();
        let digest: Digest = Sha256::digest(bearer).into();
        let read = async {
            let caller = match oidc.verify(bearer, now).await? {
                Ok(claims) => self.claimed(oidc, digest, claims, now).await?,
                Err(wrong) => Err(wrong),
            };
            Ok::<_, Error>(caller.map(Arc::new))
        };
        Ok(match self.callers.get_unless_refused(digest, now, read).await? {
            Ok(caller) if caller.until.is_some_and(|until| until <= now) => {
                Err(Refusal::Bearer(Wrong::Expired))
            }
            found => found.map_err(Refusal::Bearer),
        })
    }

    /// Returns the caller of these claims, from a bearer of this digest.
    async fn claimed(
        &self,
        oidc: &Oidc,
        digest: Digest,
        claims: Claims,
        now: Timestamp,
    ) -> Result<Result<Caller, Wrong>> {
        let kind = if claims.is_system { EntityKind::System } else { EntityKind::User };
        let unknown = Wrong::Principal(format!("{kind} `{}`", claims.name));
        let creates = oidc.settings().creates_users && kind == EntityKind::User;
        let named = || self.catalog.principal_named(kind, &claims.name);
        let at = match named().await? {
            Some(at) => at,
            // A process that only reads creates no users.
            None if creates && self.uses.is_none() => {
                return Ok(Err(Wrong::NotCreated(claims.name.clone())));
            }
            None if creates => {
                let new = NewRoot { name: claims.name.clone(), attributes: None };
                match new.create(EntityKind::User, &self.catalog, now).await {
                    Ok(user) => user.at(),
                    // A concurrent request created the user first.
                    Err(error) if error.is_conflict() => {
                        let created = named().await?;
                        let late = || Error::unavailable("the user is just being created").because(error);
                        created.ok_or_else(late)?
                    }
                    Err(error) => return Err(error),
                }
            }
            None => return Ok(Err(unknown)),
        };
        let Some(found) = self.catalog.find(&at).await?.filter(|any| any.entity().archived_at.is_none())
        else {
            return Ok(Err(unknown));
        };
        let mut groups = Vec::new();
        for some in claims.groups.chunks(READS_AT_ONCE) {
            let named = |name| self.catalog.principal_named(EntityKind::Group, name);
            groups.extend(try_join_all(some.iter().map(|name| named(name))).await?.into_iter().flatten());
        }
        let mut rights = rights_of(&self.catalog, &at, groups).await?;
        if !oidc.settings().admins {
            let others: Rights = Right::ALL.into_iter().filter(|right| *right != Right::Admin).collect();
            rights.values_mut().for_each(|rights| *rights = rights.and(others));
        }
        let (issuer, until) = (oidc.settings().issuer.clone(), claims.until);
        Ok(Ok(Caller {
            principal: Principal::Known(at, found.entity().name.clone()),
            token: None,
            once: None,
            quota: None,
            rights,
            limits: Limits::default(),
            categories: BTreeMap::new(),
            came: Came::With(Opener::Signed(digest, Issued { issuer, claims })),
            until: Some(until),
            expires_at: None,
            made: Made::default(),
        }))
    }

    async fn category(&self, workspace: &Id) -> Result<Option<Id>> {
        Ok(match self.catalog.find(&EntityId::Workspace(workspace.clone())).await? {
            Some(AnyEntity::Workspace(workspace)) => Some(workspace.category),
            _ => None,
        })
    }

    /// Rights of a caller on the entity that `text` names; `None`, if there is no such entity, or the caller may not see it. Both
    /// cases take the same reads.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn rights_on(&self, caller: &Caller, kind: EntityKind, text: &str) -> Result<Option<Rights>> {
        // A token that may only append cannot read, and yet knows the workspace to append to.
        let seen = |scopes: &[Scope]| Some(caller.rights_in(scopes)).filter(|rights| !rights.is_empty());
        let now = self.clock.now();
        let is_kept = kind == EntityKind::Workspace;
        // The cache answers only callers that may see the place.
        if is_kept
            && let Some(scopes) = self.places.kept(text, now)
            && let Some(rights) = seen(&scopes)
        {
            return Ok(Some(rights));
        }
        let Some(place) = self.catalog.place(kind, text).await? else { return Ok(None) };
        let scopes: Arc<[Scope]> = place.scopes().collect();
        let rights = seen(&scopes);
        if is_kept && rights.is_some() {
            self.places.get(text.to_owned(), now, async { Ok(scopes) }).await?;
        }
        Ok(rights)
    }
}

/// Rights of a principal by its own roles, and by those of its groups and of `groups`.
pub(crate) async fn rights_of(
    catalog: &Catalog,
    principal: &EntityId,
    mut groups: Vec<EntityId>,
) -> Result<BTreeMap<Scope, Rights>> {
    let mut grants = catalog.grants_of(principal).await?;
    groups.extend(catalog.memberships(principal).await?.into_iter().map(|one| one.group));
    for some in groups.chunks(READS_AT_ONCE) {
        let of_each = try_join_all(some.iter().map(|group| catalog.grants_by(group))).await?;
        grants.extend(of_each.into_iter().flatten());
    }
    let mut rights = BTreeMap::<Scope, Rights>::new();
    for grant in grants {
        let all = rights.entry(grant.scope).or_default();
        *all = all.or(grant.role.rights());
    }
    Ok(rights)
}
