//! Keys of access: the roles of principals in scopes (grants), tokens, the sessions that they open, and the switch that
//! requires one.

use event::{Error, Id, Result};
use serde::{Deserialize, Serialize};
use table::{Key, KeyRange};

use super::{EntityId, parse_token};

/// Scope in which a role holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Whole server.
    Server,
    /// Category and all its workspaces.
    Category(Id),
    /// Workspace.
    Workspace(Id),
}

/// Partition of the access to the whole server.
const ACCESS: &str = "sys/access";

/// Name of [`Scope::Server`] inside of keys.
const SERVER: &str = "server";

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.token()
    }
}

impl TryFrom<String> for Scope {
    type Error = Error;

    fn try_from(token: String) -> Result<Self> {
        Self::parse(&token).ok_or_else(|| Error::invalid(format!("`{token}` is no scope")))
    }
}

impl Scope {
    /// Scope of a workspace or category; `None` for other entities.
    pub fn of(entity: &EntityId) -> Option<Self> {
        match entity {
            EntityId::Category(id) => Some(Self::Category(id.clone())),
            EntityId::Workspace(id) => Some(Self::Workspace(id.clone())),
            _ => None,
        }
    }

    /// Workspace or category; `None` for the server.
    pub fn entity(&self) -> Option<EntityId> {
        match self {
            Self::Server => None,
            Self::Category(id) => Some(EntityId::Category(id.clone())),
            Self::Workspace(id) => Some(EntityId::Workspace(id.clone())),
        }
    }

    /// Name inside of keys: `w#<id>`, `wc#<id>` or `server`.
    pub fn token(&self) -> String {
        self.entity().map_or_else(|| SERVER.to_owned(), |entity| entity.token())
    }

    /// Parses the scope of such a name.
    pub fn parse(token: &str) -> Option<Self> {
        if token == SERVER {
            return Some(Self::Server);
        }
        let (kind, id) = parse_token(token)?;
        Self::of(&EntityId::new(kind, id, None)?)
    }

    /// Partition of the scope, in which its grants stand.
    fn partition(&self) -> String {
        self.entity().map_or_else(|| ACCESS.to_owned(), |entity| entity.token())
    }
}

/// Role of a principal (a user, a group or a system) in a scope, on the side of the scope.
pub fn grant(scope: &Scope, principal: &EntityId) -> Key {
    Key::new(scope.partition(), format!("grant#{}", principal.token()))
}

/// Role on the side of the principal.
pub fn granted(principal: &EntityId, scope: &Scope) -> Key {
    Key::new(principal.token(), format!("grant#{}", scope.token()))
}

/// Parses the scope and the principal of a grant's key, on either side.
pub fn parse_grant(key: &Key) -> Option<(Scope, EntityId)> {
    let other = key.sk.strip_prefix("grant#")?;
    let standing = |token: &str| {
        let (kind, id) = parse_token(token)?;
        EntityId::new(kind, id, None)
    };
    if key.pk == ACCESS {
        return Some((Scope::Server, standing(other)?));
    }
    let own = standing(&key.pk)?;
    match Scope::of(&own) {
        Some(scope) => Some((scope, standing(other)?)),
        None => Some((Scope::parse(other)?, own)),
    }
}

/// Grants in a scope.
pub fn grants(scope: &Scope) -> KeyRange {
    KeyRange::prefix(scope.partition(), "grant#")
}

/// Grants of a principal.
pub fn grants_of(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(principal.token(), "grant#")
}

/// Prefix of the partitions of tokens.
const TOKEN: &str = "token#";

/// Prefix of the sort keys of sessions.
const SESSION: &str = "session#";

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Token, by the SHA-256 of its text.
pub fn token(digest: &[u8; 32]) -> Key {
    Key::new(format!("{TOKEN}{}", hex(digest)), "token")
}

/// Session, by its opener (the SHA-256 of the opener's digest) and its number among those of the same opener.
pub fn session(opener: &[u8; 32], number: u8) -> Key {
    Key::new(sessions_of(opener).pk, format!("{SESSION}{number:02}"))
}

/// Sessions of an opener.
pub fn sessions_of(opener: &[u8; 32]) -> KeyRange {
    KeyRange::prefix(format!("{TOKEN}opened#{}", hex(opener)), SESSION)
}

/// Returns whether a key is one of [`session`].
pub fn is_session(key: &Key) -> bool {
    is_secret(key) && key.sk.starts_with(SESSION)
}

/// Token of a principal, by its id. It leads to the token itself.
pub fn token_of(principal: &EntityId, id: &Id) -> Key {
    Key::new(format!("{TOKEN}of#{}", principal.token()), format!("id#{id}"))
}

/// Tokens of a principal.
pub fn tokens_of(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(format!("{TOKEN}of#{}", principal.token()), "id#")
}

/// Session of a principal, by its id. It leads to the session itself.
pub fn session_of(principal: &EntityId, id: &Id) -> Key {
    Key::new(tokens_of(principal).pk, format!("opened#{id}"))
}

/// Sessions of a principal.
pub fn sessions_by(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(tokens_of(principal).pk, "opened#")
}

/// Number of times that tokens were made for a principal, which keeps two from being made at once.
pub fn tokens_made(principal: &EntityId) -> Key {
    Key::new(tokens_of(principal).pk, "made")
}

/// Returns whether an item is secret and never shown: it stands in a partition of tokens.
pub fn is_secret(key: &Key) -> bool {
    key.pk.starts_with(TOKEN)
}

/// Returns whether a key is one of [`token`].
pub fn is_token(key: &Key) -> bool {
    is_secret(key) && key.sk == "token"
}

/// Switch that makes the server authenticate its callers, set when the first token was made.
pub fn access() -> Key {
    Key::new("sys/access", "access")
}
