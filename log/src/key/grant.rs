//! The keys of grants: which role somebody has where.

use event::Id;
use table::{Key, KeyRange};

use super::{EntityId, parse_token};

/// Where a role holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everywhere.
    Server,
    /// On a category and all its workspaces.
    Category(Id),
    /// On a workspace.
    Workspace(Id),
}

/// The partition of what is noted of the access to the whole server.
const ACCESS: &str = "sys/access";

/// How [`Scope::Server`] is called inside of keys.
const SERVER: &str = "server";

impl Scope {
    /// The scope of a workspace or category; `None` for other entities.
    pub fn of(entity: &EntityId) -> Option<Self> {
        match entity {
            EntityId::Category(id) => Some(Self::Category(id.clone())),
            EntityId::Workspace(id) => Some(Self::Workspace(id.clone())),
            _ => None,
        }
    }

    /// The workspace or category; `None` for the server.
    pub fn entity(&self) -> Option<EntityId> {
        match self {
            Self::Server => None,
            Self::Category(id) => Some(EntityId::Category(id.clone())),
            Self::Workspace(id) => Some(EntityId::Workspace(id.clone())),
        }
    }

    /// Its name inside of keys: `w#<id>`, `wc#<id>` or `server`.
    pub fn token(&self) -> String {
        self.entity().map_or_else(|| SERVER.to_owned(), |entity| entity.token())
    }

    /// The scope of such a name.
    pub fn parse(token: &str) -> Option<Self> {
        if token == SERVER {
            return Some(Self::Server);
        }
        let (kind, id) = parse_token(token)?;
        Self::of(&EntityId::new(kind, id, None)?)
    }

    /// The partition of the scope, in which its grants stand.
    fn partition(&self) -> String {
        self.entity().map_or_else(|| ACCESS.to_owned(), |entity| entity.token())
    }
}

/// The role of a principal (a user, a group or a system) in a scope, as the scope has it.
pub fn grant(scope: &Scope, principal: &EntityId) -> Key {
    Key::new(scope.partition(), format!("grant#{}", principal.token()))
}

/// The same, as the principal has it.
pub fn granted(principal: &EntityId, scope: &Scope) -> Key {
    Key::new(principal.token(), format!("grant#{}", scope.token()))
}

/// The scope and the principal of a grant's key, on either side.
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

/// The grants in a scope.
pub fn grants(scope: &Scope) -> KeyRange {
    KeyRange::prefix(scope.partition(), "grant#")
}

/// The grants that a principal has.
pub fn grants_of(principal: &EntityId) -> KeyRange {
    KeyRange::prefix(principal.token(), "grant#")
}
