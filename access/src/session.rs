//! Sessions of browsers, used instead of tokens. The cookie of a session names its opener (a token or a bearer token)
//! and holds a secret of its own, of which the table has the SHA-256. A session has the rights of its opener at that
//! time, so revoking a token ends its sessions. It ends after [`SESSION_SECONDS`], or after [`IDLE_SECONDS`] without
//! use.
//!
//! The sessions of an opener are numbered, at most [`MAX_SESSIONS`]: a further one replaces the one that would end
//! first.

use std::{collections::BTreeMap, fmt};

use event::{Error, Id, Result, Timestamp, id::random_letters};
use log::key::{self, EntityId};
use sha2::{Digest as _, Sha256};
use table::{Condition, Item, Policy, Query, Update, Write, item::Value, query_all, unless_overtaken};

use crate::{
    caller::{Caller, Principal},
    oidc::Claims,
    token::{Digest, is_same},
    tokens::Tokens,
};

/// Maximum duration of a session, in seconds: 12 hours.
pub const SESSION_SECONDS: i64 = 12 * 60 * 60;

/// Maximum time of a session without use, in seconds: an hour.
pub const IDLE_SECONDS: i64 = 60 * 60;

/// Minimum interval between records of the use of a session, in seconds.
pub(crate) const USE_NOTED_EVERY_SECONDS: i64 = 5 * 60;

/// Maximum sessions of one token or bearer at one time.
pub const MAX_SESSIONS: u8 = 16;

/// Number of random letters of a cookie: 190 bits.
const SECRET_LETTERS: usize = 32;

const ITEM_VERSION: i64 = 1;

/// Credentials that can open sessions. Each has the SHA-256 of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    /// Token of the table.
    Token(Digest),
    /// Token that the service was started with.
    Preset(Digest),
    /// Bearer of an issuer, which is not kept, and its claims, which are.
    Signed(Digest, Issued),
}

/// Claims of an issuer about a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) issuer: String,
    pub(crate) claims: Claims,
}

/// Authentication method of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// A token or bearer of its own.
    With(Opener),
    /// A session.
    In(Session),
}

/// Session as named by its cookie.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// SHA-256 of the digest of its opener.
    place: Digest,
    number: u8,
    secret: String,
}

/// Session as stored in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) opener: Opener,
    pub(crate) until: Timestamp,
    pub(crate) used_at: Timestamp,
}

/// Session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Id of the session, by which it is ended.
    pub id: Id,
    /// Time of its opening.
    pub opened_at: Timestamp,
    /// Time of its last use, to five minutes.
    pub used_at: Timestamp,
    /// End of the session, if it stays in use.
    pub until: Timestamp,
}

impl Opener {
    fn digest(&self) -> &Digest {
        match self {
            Self::Token(digest) | Self::Preset(digest) | Self::Signed(digest, _) => digest,
        }
    }

    /// Partition of its sessions, which does not reveal its digest.
    fn place(&self) -> Digest {
        Sha256::digest(self.digest()).into()
    }

    fn note(&self, item: Item) -> Item {
        let item = item.with("opener", self.digest().to_vec());
        match self {
            Self::Token(_) => item.with("by", "token"),
            Self::Preset(_) => item.with("by", "preset"),
            Self::Signed(_, Issued { issuer, claims }) => {
                let mut item = item.with("by", "issuer").with("issuer", issuer.as_str());
                item = item.with("name", claims.name.as_str()).with("good_until", claims.until.to_string());
                item = item.with("groups", Value::record(&claims.groups));
                if claims.is_system { item.with("system", 1) } else { item }
            }
        }
    }

    fn of(item: &Item) -> Result<Self> {
        let digest = digest(item, "opener")?;
        match item.text("by")? {
            "token" => Ok(Self::Token(digest)),
            "preset" => Ok(Self::Preset(digest)),
            "issuer" => {
                let claims = Claims {
                    name: item.text("name")?.to_owned(),
                    is_system: item.attributes.contains_key("system"),
                    groups: item.field("groups")?,
                    until: item.field("good_until")?,
                };
                Ok(Self::Signed(digest, Issued { issuer: item.text("issuer")?.to_owned(), claims }))
            }
            _ => Err(item.corrupt("`by` is no opener of a session")),
        }
    }
}

impl Session {
    fn new(opener: &Opener, number: u8) -> Self {
        Self { place: opener.place(), number, secret: random_letters(SECRET_LETTERS) }
    }

    /// Parses the text of a cookie.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (place, number, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let is_secret =
            secret.len() == SECRET_LETTERS && secret.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if parts.next().is_some() || !is_secret {
            return None;
        }
        let number = (0..MAX_SESSIONS).find(|one| number == format!("{one:02}"))?;
        Some(Self { place: of_hex(place)?, number, secret: secret.to_owned() })
    }

    /// Text of its cookie, for its holder alone.
    pub fn text(&self) -> String {
        let hex: String = self.place.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}.{:02}.{}", self.number, self.secret)
    }

    /// SHA-256 of its text, the key of the cache.
    pub(crate) fn digest(&self) -> Digest {
        Sha256::digest(self.text()).into()
    }

    /// Stored digest of its secret.
    fn proof(&self) -> Digest {
        Sha256::digest(&self.secret).into()
    }

    fn key(&self) -> table::Key {
        key::session(&self.place, self.number)
    }
}

/// Omits its secret.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(..)")
    }
}

impl Tokens {
    /// Opens a session for a caller that came with a token or bearer. If it has [`MAX_SESSIONS`], the one that would end first is
    /// replaced.
    ///
    /// # Errors
    /// `Conflict`, when the caller came in a session; errors of the table.
    pub async fn open_session(&self, caller: &Caller, now: Timestamp) -> Result<Session> {
        let Came::With(opener) = &caller.came else {
            return Err(Error::conflict("a session opens no other one; come with the token itself"));
        };
        let latest = now.plus_seconds(SESSION_SECONDS);
        let until = caller.until.map_or(latest, |until| until.min(latest));
        let what = format!("the sessions of {}", caller.principal);
        let mut tries = Policy::of(&what).tries();
        loop {
            tries.next().await?;
            let (number, condition, replaced) = self.room(&opener.place()).await?;
            let (session, id) = (Session::new(opener, number), Id::new(now));
            let item = Item::new(session.key())
                .with("v", ITEM_VERSION)
                .with("id", id.as_str())
                .with("proof", session.proof().to_vec())
                .with("opened_at", now.to_string())
                .with("used_at", now.to_string())
                .with("until", until.to_string())
                .with("expires_at", until.micros().div_euclid(1_000_000));
            let mut writes = vec![Write::Put(opener.note(item), condition)];
            if let Principal::Known(principal, _) = &caller.principal {
                let listed = Item::new(key::session_of(principal, &id))
                    .with("v", ITEM_VERSION)
                    .with("place", session.place.to_vec())
                    .with("number", i64::from(number))
                    .with("expires_at", until.micros().div_euclid(1_000_000));
                writes.push(Write::Put(listed, Condition::None));
                let replaced = replaced.map(|id| key::session_of(principal, &id));
                writes.extend(replaced.map(|key| Write::Delete(key, Condition::None)));
            }
            if unless_overtaken(self.table().transact(writes).await)?.is_some() {
                return Ok(session);
            }
        }
    }

    /// Finds a number for the next session of an opener, the condition under which no other session is lost, and the session that
    /// is replaced.
    async fn room(&self, place: &Digest) -> Result<(u8, Condition, Option<Id>)> {
        let mut taken = BTreeMap::new();
        for item in query_all(self.table(), Query::table(key::sessions_of(place))).await? {
            let number = (0..MAX_SESSIONS).find(|number| key::session(place, *number) == item.key);
            let number = number.ok_or_else(|| item.corrupt("its key has a number that no session has"))?;
            taken.insert(number, (item.field::<Timestamp>("until")?, item.text("id")?.to_owned()));
        }
        if let Some(free) = (0..MAX_SESSIONS).find(|number| !taken.contains_key(number)) {
            return Ok((free, Condition::Absent, None));
        }
        Ok(match taken.into_iter().min_by_key(|(_, (until, _))| *until) {
            Some((number, (_, id))) => {
                (number, Condition::Equals("id", id.as_str().into()), Id::parse(&id).ok())
            }
            None => (0, Condition::Absent, None),
        })
    }

    /// Reads a session, if it exists.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn session(&self, session: &Session) -> Result<Option<Opened>> {
        let Some(item) = self.table().get(&session.key()).await? else { return Ok(None) };
        item.check_version(ITEM_VERSION)?;
        if !is_same(&digest(&item, "proof")?, &session.proof()) {
            return Ok(None);
        }
        let (until, used_at) = (item.field("until")?, item.field("used_at")?);
        Ok(Some(Opened { opener: Opener::of(&item)?, until, used_at }))
    }

    /// Notes the use of a session.
    ///
    /// # Errors
    /// Errors of the table; `Conflict`, when it was closed since.
    pub(crate) async fn note_session_use(&self, session: &Session, now: Timestamp) -> Result<()> {
        let own = Condition::Equals("proof", Value::B(session.proof().to_vec()));
        let update = Update::new(session.key(), own).set("used_at", now.to_string());
        self.table().transact(vec![Write::Update(update)]).await
    }

    /// Valid sessions of a user or system, the oldest first.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn sessions(&self, principal: &EntityId, now: Timestamp) -> Result<Vec<SessionRecord>> {
        let found = self.sessions_by(principal).await?;
        let records = found.iter().map(|(_, item)| {
            Ok(SessionRecord {
                id: item.field("id")?,
                opened_at: item.field("opened_at")?,
                used_at: item.field("used_at")?,
                until: item.field("until")?,
            })
        });
        let mut records = records.collect::<Result<Vec<_>>>()?;
        records.sort_by_key(|session| session.opened_at);
        records.retain(|session| now < session.until && now < session.used_at.plus_seconds(IDLE_SECONDS));
        Ok(records)
    }

    /// Ends the session of this id of a user or system, or all of its sessions; returns their number. Within 5 seconds no service
    /// accepts them any more.
    ///
    /// # Errors
    /// `NotFound`, when there is none of that id; errors of the table.
    pub async fn end_sessions(&self, principal: &EntityId, id: Option<&str>) -> Result<usize> {
        let mut ended = 0;
        for (listed, item) in self.sessions_by(principal).await? {
            let own = item.text("id")?;
            if id.is_none_or(|id| id == own) {
                let is_same = Condition::Equals("id", own.into());
                let writes =
                    vec![Write::Delete(item.key.clone(), is_same), Write::Delete(listed, Condition::None)];
                ended += usize::from(unless_overtaken(self.table().transact(writes).await)?.is_some());
            }
        }
        match id {
            Some(id) if ended == 0 => Err(Error::not_found(format!("{principal} has no session `{id}`"))),
            _ => Ok(ended),
        }
    }

    /// Stored sessions of a principal, each with the key of the item that names it.
    async fn sessions_by(&self, principal: &EntityId) -> Result<Vec<(table::Key, Item)>> {
        let mut found = Vec::new();
        for listed in query_all(self.table(), Query::table(key::sessions_by(principal))).await? {
            let number = u8::try_from(listed.int("number")?).unwrap_or(MAX_SESSIONS);
            let item = self.table().get(&key::session(&digest(&listed, "place")?, number)).await?;
            // Another session may have its number by now.
            let is_own = |item: &Item| {
                item.optional_text("id")
                    .zip(listed.key.sk.split_once('#'))
                    .is_some_and(|(id, (_, own))| id == own)
            };
            found.extend(item.filter(is_own).map(|item| (listed.key.clone(), item)));
        }
        Ok(found)
    }

    /// Closes a session. One that has ended, or does not exist, counts as closed.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn close_session(&self, session: &Session) -> Result<()> {
        // The item that names it is left, and expires with it.
        let own = Condition::Equals("proof", Value::B(session.proof().to_vec()));
        let closed = self.table().transact(vec![Write::Delete(session.key(), own)]).await;
        match closed {
            Err(error) if error.is_conflict() => Ok(()),
            closed => closed,
        }
    }
}

fn digest(item: &Item, name: &str) -> Result<Digest> {
    item.bytes(name)?.try_into().map_err(|_| item.corrupt(format_args!("`{name}` is none of SHA-256")))
}

fn of_hex(text: &str) -> Option<Digest> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 64 || !text.bytes().all(is_hex) {
        return None;
    }
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openers() -> [Opener; 3] {
        let claims = Claims {
            name: "ann".into(),
            is_system: false,
            groups: vec!["risk".into()],
            until: Timestamp::parse("2026-06-10T08:00:00Z").unwrap(),
        };
        let issued = Issued { issuer: "https://login.example.com".into(), claims };
        [Opener::Token([1; 32]), Opener::Preset([2; 32]), Opener::Signed([3; 32], issued)]
    }

    #[test]
    fn session_cookie_round_trips_and_rejects_altered_text() {
        let session = Session::new(&openers()[0], 7);
        let text = session.text();
        assert_eq!(Session::parse(&text), Some(session.clone()));
        assert_eq!(format!("{session:?}"), "Session(..)");
        assert_ne!(text, Session::new(&openers()[0], 7).text());
        for wrong in [
            "".to_owned(),
            text[1..].to_owned(),
            text[..text.len() - 1].to_owned(),
            format!("{text}.x"),
            text.to_uppercase(),
            text.replace(".07.", ".7."),
            text.replace(".07.", ".16."),
            text.replace(".07.", ".+7."),
            text.replace('.', ","),
            format!("{}é{}", &text[..62], &text[64..]),
        ] {
            assert_eq!(Session::parse(&wrong), None, "{wrong}");
        }
    }

    /// Stored sessions stay readable: the form of version 1.
    #[test]
    fn the_stored_form_is_what_it_was() {
        let item = Item::new(key::session(&[9; 32], 3)).with("v", 1);
        let item = item.with("opener", vec![1_u8; 32]);
        assert_eq!(Opener::of(&item.clone().with("by", "token")).unwrap(), openers()[0]);
        let preset = item.clone().with("opener", vec![2_u8; 32]).with("by", "preset");
        assert_eq!(Opener::of(&preset).unwrap(), openers()[1]);
        let mut signed = item
            .clone()
            .with("opener", vec![3_u8; 32])
            .with("by", "issuer")
            .with("issuer", "https://login.example.com")
            .with("name", "ann")
            .with("good_until", "2026-06-10T08:00:00Z");
        signed.attributes.insert("groups".into(), Value::L(vec![Value::S("risk".into())]));
        assert_eq!(Opener::of(&signed).unwrap(), openers()[2]);
        for opener in openers() {
            let noted = opener.note(Item::new(item.key.clone()).with("v", 1));
            assert_eq!(Opener::of(&noted).unwrap(), opener);
        }
        assert!(Opener::of(&item.with("by", "chance")).is_err());
    }
}
