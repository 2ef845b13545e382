//! Keys of grants, the roles of principals in scopes.

use event::Id;
use table::{Key, KeyRange};

use super::{EntityId, parse_token};

/// Scope in which a role holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
