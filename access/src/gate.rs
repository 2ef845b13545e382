//! From the token of a request to its caller, with what is known of it for at most 5 seconds.

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
    /// This is wrong with what an issuer signed.
    Bearer(Wrong),
    /// It came with a session alone, as any page can make a browser do.
    Unasked,
    /// It came with a session from a page of another origin.
    Foreign,
    /// The session is not one that is good now.
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

/// For how many seconds it is taken for true that there is no token.
const OPEN_SECONDS: i64 = 1;

/// What is known of a table without tokens.
#[derive(Debug)]
struct Open {
    /// There is a token. That never changes back.
    is_over: AtomicBool,
    looked: Cached<(), ()>,
}

/// Finds out who calls.
#[derive(Debug)]
pub struct Access {
    catalog: Catalog,
    tokens: Tokens,
    clock: Clock,
    preset: Option<(Digest, Arc<Caller>)>,
    oidc: Option<Arc<Oidc>>,
    /// While it is there, nobody is asked: until there is a token.
    open: Option<Open>,
    /// Notes the use of tokens; `None`, when nothing is written.
    uses: Option<Uses>,
    callers: Cached<Digest, Arc<Caller>>,
    /// The sessions of which it was noted a while ago that they are used.
    sessions_used: Cached<Digest, ()>,
    /// The scopes that workspaces are in, by how they are named.
    places: Cached<String, Arc<[Scope]>>,
}

impl Access {
    /// The access to what is in `table`.
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

    /// The same, with a token that is not in the table and may do everything.
    #[must_use]
    pub fn with_preset(self, token: Option<&Token>) -> Self {
        Self { preset: token.map(|token| (token.digest(), Arc::new(Caller::preset(token.digest())))), ..self }
    }

    /// The same, which also believes what an issuer signed.
    #[must_use]
    pub fn with_oidc(self, oidc: Option<Arc<Oidc>>) -> Self {
        Self { oidc, ..self }
    }

    /// The same, which asks nobody who they are until there is a token.
    #[must_use]
    pub fn open_at_first(self) -> Self {
        let open = Open { is_over: AtomicBool::new(false), looked: Cached::new(OPEN_SECONDS) };
        Self { open: Some(open), ..self }
    }

    /// Whether nobody was asked at first.
    pub fn opens_at_first(&self) -> bool {
        self.open.is_some()
    }

    /// Whether nobody is asked who they are. It is looked each second, since a token may be made by any process.
    ///
    /// # Errors
    /// Those of the table.
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

    /// The same, which writes nothing: not even that a token was used.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Self { uses: None, ..self }
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

    /// Who calls in this session from this address. A request that only waits for news is no use of it.
    ///
    /// # Errors
    /// Those of the table.
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
            // It ends early then, if it is not used again.
            if let Err(error) = noted.await {
                tracing::debug!(%error, "the use of a session cannot be noted");
            }
        }
        Ok(found)
    }

    /// Knows nothing more of a session that was closed, so that here it ends at once.
    pub(crate) fn forget(&self, session: &Session) {
        self.callers.forget(&session.digest());
    }

    /// The caller that is kept, or read; `refusal`, when it is nobody.
    async fn known(
        &self,
        digest: Digest,
        read: impl AsyncFnOnce(Timestamp) -> Result<Option<Arc<Caller>>>,
        address: Option<IpAddr>,
        refusal: Refusal,
    ) -> Result<Result<Arc<Caller>, Refusal>> {
        let now = self.clock.now();
        let read = async { Ok::<_, Error>(read(now).await?.ok_or(())) };
        // What is not there is not kept, so nobody fills the memory with it.
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

    /// The caller of a session as the table has it: its opener, as that is now.
    async fn read_session(&self, session: &Session, now: Timestamp) -> Result<Option<Caller>> {
        // Who only reads notes no use, so there a session ends for its age alone.
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

    /// The caller of a token as the table has it; `None`, when it is good for nobody.
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

    /// Who calls with a bearer that an issuer signed.
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

    /// The caller that claims are of, which came with a bearer of this digest.
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
            // Who only reads creates nobody.
            None if creates && self.uses.is_none() => {
                return Ok(Err(Wrong::NotCreated(claims.name.clone())));
            }
            None if creates => {
                let new = NewRoot { name: claims.name.clone(), attributes: None };
                match new.create(EntityKind::User, &self.catalog, now).await {
                    Ok(user) => user.at(),
                    // Another request of the same user was faster.
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

    /// The rights of a caller on what `text` names; `None`, when there is no such thing, or the caller may not see it. Both
    /// take the same reads.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn rights_on(&self, caller: &Caller, kind: EntityKind, text: &str) -> Result<Option<Rights>> {
        // A token that may only append does not read, and yet knows what there is to append to.
        let seen = |scopes: &[Scope]| Some(caller.rights_in(scopes)).filter(|rights| !rights.is_empty());
        let now = self.clock.now();
        let is_kept = kind == EntityKind::Workspace;
        // Only who may see a place is served from what is kept.
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

/// The rights of a principal by its own roles, and those that its groups and `groups` give.
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
