//! What a caller must be allowed to do for an operation, and on what. Every route declares it: [`crate::Routes`] takes none
//! without.

use event::{Kind, Right};

/// Where a request names an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the parameters of the path that name a workspace: `{workspace}`, or `{category}/{name}`. It may have others.
    WorkspaceOfPath,
    /// In this parameter of the path.
    Path(&'static str),
    /// In this parameter of the query.
    Query(&'static str),
    /// In this field of a body that is a JSON object.
    Body(&'static str),
}

/// What a need is about. The types of entities are given by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The caller itself, which needs no more than to be known.
    Caller,
    /// What the caller may see: the answer holds nothing else.
    Visible,
    /// The whole server.
    Server,
    /// An entity of a type.
    Entity(&'static str, Place),
    /// What entities of a type belong to. Where the request does not name it, what the caller may see.
    ParentOf(&'static str, Place),
    /// The category of a workspace that is to be created, by the path of the workspace.
    CategoryOf(Place),
    /// The workspace that the body names at this place, unless its `following` is false: what is over needs no more to be seen.
    Followed(Place),
    /// What entities of a type are created in (a category; of categories, the server), where the body gives the one at this place a
    /// `name`. Nothing, where it gives none.
    Renamed(&'static str, Place),
    /// An entity whose type stands in the first parameter of the path, and its name in the second.
    Typed(&'static str, &'static str),
    /// A user, group or system, such as `user:ann` or, of the given type, `ann`. The caller itself has every right on it that its
    /// token leaves.
    Own(Option<&'static str>, Place),
}

/// A right, and on what it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The right.
    pub right: Right,
    /// On what.
    pub about: About,
}

/// All that an operation demands of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    needs: Vec<Need>,
    kinds: Vec<Kind>,
    is_append: bool,
    waits: bool,
    is_renewed: bool,
}

impl Demand {
    /// Nothing: the operation is for everybody, and callers are not asked who they are.
    pub fn nothing() -> Self {
        Self { needs: Vec::new(), kinds: Vec::new(), is_append: false, waits: false, is_renewed: false }
    }

    /// A right on something.
    pub fn of(right: Right, about: About) -> Self {
        Self::nothing().and(right, about)
    }

    /// That the caller is known.
    pub fn known() -> Self {
        Self::of(Right::Read, About::Caller)
    }

    /// That the caller may read something. The answer holds what the caller may see.
    pub fn visible() -> Self {
        Self::of(Right::Read, About::Visible)
    }

    /// A right on the whole server.
    pub fn server(right: Right) -> Self {
        Self::of(right, About::Server)
    }

    /// A right on the workspace that the path names.
    pub fn workspace(right: Right) -> Self {
        Self::entity(right, "workspace", Place::WorkspaceOfPath)
    }

    /// A right on an entity of the type `kind`.
    pub fn entity(right: Right, kind: &'static str, place: Place) -> Self {
        Self::of(right, About::Entity(kind, place))
    }

    /// The same, and another right on something else.
    #[must_use]
    pub fn and(mut self, right: Right, about: About) -> Self {
        self.needs.push(Need { right, about });
        self
    }

    /// The same for events of these kinds: a token can be limited to some of them.
    #[must_use]
    pub fn of_kinds(self, kinds: &[Kind]) -> Self {
        Self { kinds: kinds.to_vec(), ..self }
    }

    /// The same for an operation that appends one batch, named by the header `Idempotency-Key`, and does nothing else: what a token
    /// for one append is for.
    #[must_use]
    pub fn appending(self) -> Self {
        Self { is_append: true, ..self }
    }

    /// The same for an operation that may wait for what it answers: what is demanded must be met again when it has been found.
    /// Nothing may be demanded of the body.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// The same for an operation that pages ask for again and again by themselves, though nobody looks at them.
    #[must_use]
    pub fn renewed(self) -> Self {
        Self { is_renewed: true, ..self }
    }

    /// The rights that are needed, and on what.
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// The kinds of events that are appended or read.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Whether the operation appends one batch and does nothing else.
    pub fn is_append(&self) -> bool {
        self.is_append
    }

    /// Whether the operation may wait for what it answers.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Whether a request says that somebody uses what it comes in: not when it waits, or is renewed by itself.
    pub fn is_use(&self) -> bool {
        !self.waits && !self.is_renewed
    }

    /// Whether callers are not even asked who they are.
    pub fn is_nothing(&self) -> bool {
        self.needs.is_empty()
    }

    /// Whether it is enough to see something.
    pub fn is_read(&self) -> bool {
        self.needs.iter().all(|need| need.right == Right::Read)
    }
}

impl Need {
    /// Whether it is needed whatever the request says.
    pub fn is_always(&self) -> bool {
        !matches!(self.about, About::Renamed(..) | About::Followed(_))
    }

    /// What it is about, in words.
    pub fn says(&self) -> String {
        match self.about {
            About::Caller => "the caller itself".to_owned(),
            About::Visible => "what the caller may see".to_owned(),
            About::Server => "the server".to_owned(),
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
