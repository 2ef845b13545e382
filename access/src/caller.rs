//! Callers and their rights.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, OnceLock},
};

use catalog::{Place, Sight, TokenQuota};
use event::{Id, Right, Rights, Timestamp};
use log::key::{EntityId, Scope};

use crate::{
    limits::Limits,
    session::{Came, Opener, Session},
    token::Digest,
    tokens::NewToken,
};

/// Identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// User or system of the catalog, with its name.
    Known(EntityId, String),
    /// Token that the service was started with.
    Preset,
}

/// Formats it as people write it: `user:ann`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(at, name) => write!(f, "{}:{name}", at.kind()),
            Self::Preset => f.write_str("preset"),
        }
    }
}

/// A caller, as known at most 5 seconds ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Identity of the caller.
    pub principal: Principal,
    /// Id of its token, if that is one of the table.
    pub token: Option<Id>,
    /// Digest of its token, if that is valid for one append only.
    pub(crate) once: Option<Digest>,
    /// Quota of its token, if it has one.
    pub(crate) quota: Option<Arc<TokenQuota>>,
    /// Rights by scope, from its own roles and those of its groups.
    pub(crate) rights: BTreeMap<Scope, Rights>,
    /// Limits of its token.
    pub limits: Limits,
    /// Categories of the workspaces in `rights` and in `limits`, if the token is limited to some.
    pub(crate) categories: BTreeMap<Id, Id>,
    /// Way of its authentication.
    pub(crate) came: Came,
    /// End of its authentication: of its token or of its session.
    pub(crate) until: Option<Timestamp>,
    /// Expiry of its token, if that is one of the table which expires: tokens that it makes expire no later.
    pub(crate) expires_at: Option<Timestamp>,
    /// Values derived for each of its requests, computed with the first one.
    pub(crate) made: Made,
}

/// Values derived from the rest of a caller. They are ignored when callers are compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    said: OnceLock<(Arc<str>, Option<Arc<str>>)>,
    sight: OnceLock<Arc<Sight>>,
}

impl PartialEq for Made {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Made {}

impl Caller {
    /// Makes a caller with all rights, by the digest of its token.
    pub(crate) fn preset(digest: Digest) -> Self {
        Self {
            principal: Principal::Preset,
            token: None,
            once: None,
            quota: None,
            rights: BTreeMap::from([(Scope::Server, Rights::all())]),
            limits: Limits::default(),
            categories: BTreeMap::new(),
            came: Came::With(Opener::Preset(digest)),
            until: None,
            expires_at: None,
            made: Made::default(),
        }
    }

    /// Principal and id of the token, as texts.
    pub(crate) fn said(&self) -> &(Arc<str>, Option<Arc<str>>) {
        self.made.said.get_or_init(|| {
            let token = self.token.as_ref().map(|id| id.as_str().into());
            (self.principal.to_string().into(), token)
        })
    }

    /// Returns a token that it makes, with limits within those of its own token: limits that are not named are taken from there.
    /// `names_expiry` is true if an expiry was requested.
    ///
    /// # Errors
    /// The limit that is exceeded, in a sentence.
    pub(crate) fn passing_on(&self, new: NewToken, names_expiry: bool) -> Result<NewToken, String> {
        let limits = new.limits.within(&self.limits)?;
        let expires_at = match (new.expires_at, self.expires_at) {
            (asked, Some(own)) if names_expiry && asked.is_none_or(|asked| asked > own) => {
                return Err(format!(
                    "expires_in_days: the token that makes this one is good until {own} itself"
                ));
            }
            (Some(asked), Some(own)) => Some(asked.min(own)),
            (asked, own) => asked.or(own),
        };
        Ok(NewToken { limits, expires_at, ..new })
    }

    /// Session that it came in, if any.
    pub fn session(&self) -> Option<&Session> {
        match &self.came {
            Came::With(_) => None,
            Came::In(session) => Some(session),
        }
    }

    /// Rights on the whole server.
    pub fn rights_on_server(&self) -> Rights {
        match self.limits.scopes {
            Some(_) => Rights::NONE,
            None => self.rights_by([&Scope::Server]),
        }
    }

    /// Rights at a place.
    pub fn rights_at(&self, place: &Place) -> Rights {
        self.rights_in(&place.scopes().collect::<Vec<_>>())
    }

    /// Rights at a place that is in these scopes.
    pub(crate) fn rights_in(&self, scopes: &[Scope]) -> Rights {
        let is_within =
            self.limits.scopes.as_ref().is_none_or(|own| scopes.iter().any(|scope| own.contains(scope)));
        if is_within { self.rights_by(scopes) } else { Rights::NONE }
    }

    /// Returns whether it is this user or system itself.
    pub fn is(&self, entity: &EntityId) -> bool {
        matches!(&self.principal, Principal::Known(own, _) if own == entity)
    }

    /// Rights on its own data: all that its token allows. A caller's own data is in no workspace, so a token for some workspaces
    /// allows none.
    pub fn rights_on_own(&self) -> Rights {
        match self.limits.scopes {
            Some(_) => Rights::NONE,
            None => self.limits.rights(),
        }
    }

    fn rights_by<'a>(&self, scopes: impl IntoIterator<Item = &'a Scope>) -> Rights {
        let given = scopes.into_iter().filter_map(|scope| self.rights.get(scope).copied());
        given.fold(Rights::NONE, Rights::or).and(self.limits.rights())
    }

    /// Categories and workspaces that it may see.
    pub fn sight(&self) -> &Arc<Sight> {
        self.made.sight.get_or_init(|| Arc::new(self.all_in_sight()))
    }

    fn all_in_sight(&self) -> Sight {
        if self.rights_on_server().has(Right::Read) {
            return Sight::Everything;
        }
        if self.limits.scopes.is_none() {
            let is_seen = |scope: &&Scope| self.rights_by([*scope]).has(Right::Read);
            return Sight::Only(self.rights.keys().filter(is_seen).cloned().collect());
        }
        let scopes = self.rights.keys().chain(self.limits.scopes.iter().flatten());
        let is_seen = |scope: &&Scope| {
            self.place_of(scope).is_some_and(|place| self.rights_at(&place).has(Right::Read))
        };
        Sight::Only(scopes.filter(is_seen).cloned().collect::<BTreeSet<Scope>>())
    }

    fn place_of(&self, scope: &Scope) -> Option<Place> {
        match scope {
            Scope::Server => None,
            Scope::Category(category) => Some(Place { category: category.clone(), workspace: None }),
            Scope::Workspace(id) => {
                Some(Place { category: self.categories.get(id)?.clone(), workspace: Some(id.clone()) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> [Id; 4] {
        [(); 4].map(|()| Id::new(Timestamp::default()))
    }

    fn caller(rights: &[(Scope, Right)], scopes: Option<&[Scope]>, categories: &[(&Id, &Id)]) -> Caller {
        Caller {
            rights: rights
                .iter()
                .map(|(scope, right)| (scope.clone(), [*right].into_iter().collect()))
                .collect(),
            limits: Limits { scopes: scopes.map(|all| all.iter().cloned().collect()), ..Limits::default() },
            categories: categories.iter().map(|(w, c)| ((*w).clone(), (*c).clone())).collect(),
            ..Caller::preset([0; 32])
        }
    }

    #[test]
    fn category_role_covers_only_its_workspaces() {
        let [c, w, d, x] = ids();
        let of = caller(&[(Scope::Category(c.clone()), Right::Read)], None, &[]);
        let at = |category: &Id, workspace: Option<&Id>| {
            of.rights_at(&Place { category: category.clone(), workspace: workspace.cloned() })
        };
        assert!(at(&c, None).has(Right::Read) && at(&c, Some(&w)).has(Right::Read));
        assert!(at(&d, None).is_empty() && at(&d, Some(&x)).is_empty() && of.rights_on_server().is_empty());
        assert_eq!(**of.sight(), Sight::Only([Scope::Category(c)].into()));
    }

    #[test]
    fn limited_token_sees_only_roles_within_limits() {
        let [c, w, d, x] = ids();
        let (category, workspace) = (Scope::Category(c.clone()), Scope::Workspace(w.clone()));
        let other = Scope::Workspace(x.clone());
        let known = [(&w, &c), (&x, &d)];
        // A role on the category and a token for one workspace of it.
        let narrow =
            caller(&[(category.clone(), Right::Read)], Some(&[workspace.clone(), other.clone()]), &known);
        assert_eq!(**narrow.sight(), Sight::Only([workspace.clone()].into()));
        // A role on a workspace and a token for its category.
        let wide = caller(&[(workspace.clone(), Right::Read)], Some(&[category]), &known);
        assert_eq!(**wide.sight(), Sight::Only([workspace.clone()].into()));
        // A role on the server and a token for a workspace.
        let server = caller(&[(Scope::Server, Right::Read)], Some(std::slice::from_ref(&other)), &known);
        assert_eq!(**server.sight(), Sight::Only([other].into()));
        assert!(server.rights_on_server().is_empty());
        // A role to append alone shows nothing.
        assert_eq!(
            **caller(&[(workspace, Right::Append)], None, &known).sight(),
            Sight::Only(BTreeSet::new())
        );
    }
}
