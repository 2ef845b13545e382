//! The rights that an operation demands of its caller, and on what. Every route declares them: [`crate::Routes`] takes none
//! without.

use event::{Kind, Right};

/// The part of a request that names an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Workspace named by the parameters of the path: `{category}/{name}`, or `{workspace}`. The path may have more
    /// parameters.
    WorkspaceOfPath,
    /// Parameter of the path.
    Path(&'static str),
    /// Parameter of the query.
    Query(&'static str),
    /// Field of a body that is a JSON object.
    Body(&'static str),
}

/// The subject of a need. Types of entities are given by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The caller itself, which only has to be known.
    Caller,
    /// All that the caller may see; the answer holds nothing else.
    Visible,
    /// The whole server.
    Server,
    /// The whole server, if the query has none of these parameters; with one, the need on what it names applies in its place.
    ServerUnless(&'static [&'static str]),
    /// An entity of a type.
    Entity(&'static str, Place),
    /// The parent of entities of a type. If the request does not name it, all that the caller may see.
    ParentOf(&'static str, Place),
    /// The category of a workspace that is to be created, by the path of the workspace.
    CategoryOf(Place),
    /// The workspace that the body names at this place, unless its `following` is false: ending to follow it needs no right to
    /// see it.
    Followed(Place),
    /// The parent in which entities of a type are created (a category; for categories, the server), if the body gives the entity
    /// at this place a `name`; else nothing.
    Renamed(&'static str, Place),
    /// An entity with its type in the first parameter of the path, and its name in the second.
    Typed(&'static str, &'static str),
    /// A user, group or system, such as `user:ann` or, of the given type, `ann`. The caller itself has every right on it that its
    /// token leaves.
    Own(Option<&'static str>, Place),
}

/// A right, and the subject on which it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The right.
    pub right: Right,
    /// The subject.
    pub about: About,
}

/// All that an operation demands of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    needs: Vec<Need>,
    kinds: Vec<Kind>,
    kind_parameter: Option<&'static str>,
    is_append: bool,
    waits: bool,
    is_renewed: bool,
}

impl RequiredPermission {
    /// Demands nothing: the operation is for everybody, and callers need not identify themselves.
    pub fn nothing() -> Self {
        Self {
            needs: Vec::new(),
            kinds: Vec::new(),
            kind_parameter: None,
            is_append: false,
            waits: false,
            is_renewed: false,
        }
    }

    /// Demands a right on something.
    pub fn of(right: Right, about: About) -> Self {
        Self::nothing().and(right, about)
    }

    /// Demands a known caller.
    pub fn known() -> Self {
        Self::of(Right::Read, About::Caller)
    }

    /// Demands that the caller may read something. The answer holds all that the caller may see.
    pub fn visible() -> Self {
        Self::of(Right::Read, About::Visible)
    }

    /// Demands a right on the whole server.
    pub fn server(right: Right) -> Self {
        Self::of(right, About::Server)
    }

    /// Demands a right on the workspace that the path names.
    pub fn workspace(right: Right) -> Self {
        Self::entity(right, "workspace", Place::WorkspaceOfPath)
    }

    /// Demands a right on an entity of the type `kind`.
    pub fn entity(right: Right, kind: &'static str, place: Place) -> Self {
        Self::of(right, About::Entity(kind, place))
    }

    /// Adds a right on something else.
    #[must_use]
    pub fn and(mut self, right: Right, about: About) -> Self {
        self.needs.push(Need { right, about });
        self
    }

    /// Restricts it to events of these kinds, as a token can be limited to some of them.
    #[must_use]
    pub fn of_kinds(self, kinds: &[Kind]) -> Self {
        Self { kinds: kinds.to_vec(), ..self }
    }

    /// Restricts it to events of the kind that this parameter of the path names.
    #[must_use]
    pub fn of_kind_in_path(self, parameter: &'static str) -> Self {
        Self { kind_parameter: Some(parameter), ..self }
    }

    /// Marks an operation that appends one batch, named by the header `Idempotency-Key`, and does nothing else: tokens for one
    /// append allow it.
    #[must_use]
    pub fn appending(self) -> Self {
        Self { is_append: true, ..self }
    }

    /// Marks an operation that may wait for its answer: the demand must be met again when the answer has been found. Nothing may
    /// be demanded of the body.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Marks an operation that pages request repeatedly by themselves, even if nobody looks at them.
    #[must_use]
    pub fn renewed(self) -> Self {
        Self { is_renewed: true, ..self }
    }

    /// Returns the needed rights, with their subjects.
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// Returns the needs of a request, by the parameters that its query has. One on what a parameter names is left out without the
    /// parameter only where another is in its place ([`About::ServerUnless`]).
    pub fn needs_with(&self, has_parameter: impl Fn(&str) -> bool) -> impl Iterator<Item = &Need> {
        let applies = move |need: &&Need| match self.condition(need) {
            Some((names, is_with)) => names.iter().any(|name| has_parameter(name)) == is_with,
            None => true,
        };
        self.needs.iter().filter(applies)
    }

    /// Returns a need in words, with the parameters under which it applies.
    pub fn says(&self, need: &Need) -> String {
        let names = |names: &[&str]| names.join("` and `");
        match self.condition(need) {
            Some((with, true)) => format!("{} (with `{}`)", need.says(), names(with)),
            Some((without, false)) => format!("{} (without `{}`)", need.says(), names(without)),
            None => need.says(),
        }
    }

    /// Returns the parameters under which a need applies, and true if it applies with them, false if without; `None`, if it always does.
    fn condition<'a>(&'a self, need: &'a Need) -> Option<(&'a [&'static str], bool)> {
        let is_replaced = |name| {
            self.needs
                .iter()
                .any(|need| matches!(need.about, About::ServerUnless(names) if names.contains(name)))
        };
        match &need.about {
            About::ServerUnless(names) => Some((names, false)),
            About::Entity(_, Place::Query(name)) | About::Own(_, Place::Query(name)) if is_replaced(name) => {
                Some((std::slice::from_ref(name), true))
            }
            _ => None,
        }
    }

    /// Returns the kinds of events that are appended or read.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the parameter of the path that names the kind of the events that are read, if there is one.
    pub fn kind_parameter(&self) -> Option<&'static str> {
        self.kind_parameter
    }

    /// Returns true if the operation appends one batch and does nothing else.
    pub fn is_append(&self) -> bool {
        self.is_append
    }

    /// Returns true if the operation may wait for its answer.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Returns true if a request counts as use of its session: not if it waits, or is renewed by itself.
    pub fn is_use(&self) -> bool {
        !self.waits && !self.is_renewed
    }

    /// Returns true if callers need not even identify themselves.
    pub fn is_nothing(&self) -> bool {
        self.needs.is_empty()
    }

    /// Returns true if it only needs rights to read.
    pub fn is_read(&self) -> bool {
        self.needs.iter().all(|need| need.right == Right::Read)
    }
}

impl Need {
    /// Returns its subject in words.
    pub fn says(&self) -> String {
        match self.about {
            About::Caller => "the caller itself".to_owned(),
            About::Visible => "what the caller may see".to_owned(),
            About::Server | About::ServerUnless(_) => "the server".to_owned(),
            About::Entity("workspace", _) => "the workspace".to_owned(),
            About::Entity("category", _) => "the category".to_owned(),
            About::Entity("user" | "group" | "system", _) => "the server".to_owned(),
            About::Entity(..) => "its workspace".to_owned(),
            About::ParentOf("workspace", _) | About::CategoryOf(_) => "the category".to_owned(),
            About::ParentOf(..) => "the workspace".to_owned(),
            About::Followed(_) => "the workspace (to follow it)".to_owned(),
            About::Renamed("workspace", _) => "the category (for another name)".to_owned(),
            About::Renamed(..) => "the server (for another name)".to_owned(),
            About::Typed(..) => "the workspace, category or server".to_owned(),
            About::Own(..) => "the server, or the caller itself".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_parameter_replaces_only_declared_needs() {
        let workspace = Place::Query("workspace");
        let alone = RequiredPermission::entity(Right::Read, "workspace", workspace);
        let replaced = alone.clone().and(Right::Admin, About::ServerUnless(&["workspace"]));
        let of = |demand: &RequiredPermission, given: &[&str]| {
            let needs = demand.needs_with(|name| given.contains(&name));
            needs.map(|need| demand.says(need)).collect::<Vec<_>>()
        };
        assert_eq!(of(&alone, &[]), ["the workspace"]);
        assert_eq!(of(&alone, &["workspace"]), ["the workspace"]);
        assert_eq!(of(&replaced, &["workspace", "from"]), ["the workspace (with `workspace`)"]);
        assert_eq!(of(&replaced, &["from"]), ["the server (without `workspace`)"]);
    }
}
