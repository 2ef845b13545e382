//! The keys of the catalog: entities, their names and ids, memberships and counters.

use std::fmt;

use event::{Day, Error, Id, Result};
use table::{Key, KeyRange};

use super::END;

/// The types of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityKind {
    /// A category of workspaces.
    Category,
    /// A workspace.
    Workspace,
    /// A model of a workspace.
    Model,
    /// A configuration of a workspace.
    Configuration,
    /// A snapshot of the events of a workspace.
    Snapshot,
    /// A release in a workspace.
    Release,
    /// A person.
    User,
    /// A set of people.
    Group,
    /// A machine that calls.
    System,
}

impl EntityKind {
    /// All of them, parents before children.
    pub const ALL: [Self; 9] = [
        Self::Category,
        Self::Workspace,
        Self::Model,
        Self::Configuration,
        Self::Snapshot,
        Self::Release,
        Self::User,
        Self::Group,
        Self::System,
    ];

    /// Its name, for one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Workspace => "workspace",
            Self::Model => "model",
            Self::Configuration => "configuration",
            Self::Snapshot => "snapshot",
            Self::Release => "release",
            Self::User => "user",
            Self::Group => "group",
            Self::System => "system",
        }
    }

    /// Its name, for several.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Category => "categories",
            Self::Workspace => "workspaces",
            Self::Model => "models",
            Self::Configuration => "configurations",
            Self::Snapshot => "snapshots",
            Self::Release => "releases",
            Self::User => "users",
            Self::Group => "groups",
            Self::System => "systems",
        }
    }

    /// What its keys begin with, and its ids as people see them: `m` of `m#...` and of `m_...`.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Category => "wc",
            Self::Workspace => "w",
            Self::Model => "m",
            Self::Configuration => "c",
            Self::Snapshot => "sn",
            Self::Release => "r",
            Self::User => "u",
            Self::Group => "g",
            Self::System => "s",
        }
    }

    /// The type that a prefix stands for.
    pub fn from_prefix(prefix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.prefix() == prefix)
    }

    /// The type of a name such as `model`.
    ///
    /// # Errors
    /// `Invalid`, naming those there are.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no type of entity; there are {known}"))
        })
    }

    /// The type of what it belongs to; `None` for what stands by itself.
    pub fn parent(self) -> Option<Self> {
        match self {
            Self::Workspace => Some(Self::Category),
            Self::Model | Self::Configuration | Self::Snapshot | Self::Release => Some(Self::Workspace),
            Self::Category | Self::User | Self::Group | Self::System => None,
        }
    }

    /// The attribute of the parent that counts its children of this type.
    pub fn counter(self) -> Option<&'static str> {
        match self {
            Self::Workspace => Some("count_of_workspaces"),
            Self::Model => Some("count_of_models"),
            Self::Configuration => Some("count_of_configurations"),
            Self::Snapshot => Some("count_of_snapshots"),
            Self::Release => Some("count_of_releases"),
            Self::Category | Self::User | Self::Group | Self::System => None,
        }
    }

    /// The types of what belongs to it.
    pub fn children(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |kind| kind.parent() == Some(self))
    }
}

impl fmt::Display for EntityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which entity: all that its key is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityId {
    /// A category.
    Category(Id),
    /// A workspace.
    Workspace(Id),
    /// A model: its workspace and itself.
    Model(Id, Id),
    /// A configuration: its workspace and itself.
    Configuration(Id, Id),
    /// A snapshot: its workspace and itself.
    Snapshot(Id, Id),
    /// A release: its workspace and itself.
    Release(Id, Id),
    /// A user.
    User(Id),
    /// A group.
    Group(Id),
    /// A system.
    System(Id),
}

impl EntityId {
    /// The entity of a type that stands by itself, or that of a workspace; `None`, when the type
    /// needs the other one of the two.
    pub fn new(kind: EntityKind, id: Id, workspace: Option<Id>) -> Option<Self> {
        Some(match (kind, workspace) {
            (EntityKind::Category, None) => Self::Category(id),
            (EntityKind::Workspace, None) => Self::Workspace(id),
            (EntityKind::User, None) => Self::User(id),
            (EntityKind::Group, None) => Self::Group(id),
            (EntityKind::System, None) => Self::System(id),
            (EntityKind::Model, Some(workspace)) => Self::Model(workspace, id),
            (EntityKind::Configuration, Some(workspace)) => Self::Configuration(workspace, id),
            (EntityKind::Snapshot, Some(workspace)) => Self::Snapshot(workspace, id),
            (EntityKind::Release, Some(workspace)) => Self::Release(workspace, id),
            _ => return None,
        })
    }

    /// Its type.
    pub fn kind(&self) -> EntityKind {
        match self {
            Self::Category(_) => EntityKind::Category,
            Self::Workspace(_) => EntityKind::Workspace,
            Self::Model(..) => EntityKind::Model,
            Self::Configuration(..) => EntityKind::Configuration,
            Self::Snapshot(..) => EntityKind::Snapshot,
            Self::Release(..) => EntityKind::Release,
            Self::User(_) => EntityKind::User,
            Self::Group(_) => EntityKind::Group,
            Self::System(_) => EntityKind::System,
        }
    }

    /// Its id.
    pub fn id(&self) -> &Id {
        match self {
            Self::Category(id)
            | Self::Workspace(id)
            | Self::User(id)
            | Self::Group(id)
            | Self::System(id) => id,
            Self::Model(_, id)
            | Self::Configuration(_, id)
            | Self::Snapshot(_, id)
            | Self::Release(_, id) => id,
        }
    }

    /// The workspace that it is in.
    pub fn workspace(&self) -> Option<&Id> {
        match self {
            Self::Model(workspace, _)
            | Self::Configuration(workspace, _)
            | Self::Snapshot(workspace, _)
            | Self::Release(workspace, _) => Some(workspace),
            _ => None,
        }
    }

    /// Its key.
    pub fn key(&self) -> Key {
        let own = self.token();
        Key::new(self.workspace().map_or_else(|| own.clone(), super::workspace_page), own)
    }

    /// Its name inside of keys: `m#<id>`.
    pub fn token(&self) -> String {
        format!("{}#{}", self.kind().prefix(), self.id())
    }

    /// Which entity a key is of, when it is one's own key.
    pub fn of_key(key: &Key) -> Option<Self> {
        let (kind, id) = parse_token(&key.sk)?;
        let within = (key.pk != key.sk).then(|| parse_token(&key.pk)).map_or(Some(None), |within| {
            within.filter(|(kind, _)| *kind == EntityKind::Workspace).map(|(_, id)| Some(id))
        })?;
        Self::new(kind, id, within)
    }
}

/// As people see it: `m_2NBs0tD5Ihm2PVFzM3kZvMYdQX9`.
impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.kind().prefix(), self.id())
    }
}

/// The type and id of a token such as `m#<id>`.
pub fn parse_token(token: &str) -> Option<(EntityKind, Id)> {
    let (prefix, id) = token.split_once('#')?;
    Some((EntityKind::from_prefix(prefix)?, Id::parse(id).ok()?))
}

/// The type and id of an id as people write it, `m_<id>` or only `<id>`.
pub fn parse_id(text: &str) -> Option<(Option<EntityKind>, Id)> {
    match text.split_once('_') {
        Some((prefix, id)) => Some((Some(EntityKind::from_prefix(prefix)?), Id::parse(id).ok()?)),
        None => Some((None, Id::parse(text).ok()?)),
    }
}

/// A part of the partition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Siblings {
    /// The partition, of the table or of `GSI1`.
    pub pk: String,
    /// What the sort keys begin with; the id follows.
    pub prefix: String,
    /// Whether they stand together in the table itself, not only in `GSI1`.
    pub is_base: bool,
}

impl Siblings {
    /// Those of the ids from `first` to `last`, as text; all when `None`.
    pub fn range(&self, first: Option<&str>, last: Option<&str>) -> KeyRange {
        let end = END.to_string();
        KeyRange {
            pk: self.pk.clone(),
            from: format!("{}{}", self.prefix, first.unwrap_or_default()),
            to: format!("{}{}", self.prefix, last.unwrap_or(&end)),
        }
    }
}

/// Where the entities of a type stand together: all of them, those of a category, or those of a
/// workspace. `None`, when the parent is of the wrong type.
pub fn siblings(kind: EntityKind, parent: Option<&EntityId>) -> Option<Siblings> {
    let prefix = format!("{}#", kind.prefix());
    if kind.parent() != parent.map(EntityId::kind) {
        return None;
    }
    Some(match parent {
        None => Siblings { pk: kind.prefix().to_owned(), prefix, is_base: false },
        Some(EntityId::Category(id)) => Siblings { pk: super::workspaces_of(id), prefix, is_base: false },
        Some(parent) => Siblings { pk: parent.key().pk, prefix, is_base: true },
    })
}

/// Where the releases of a model stand together.
pub fn releases_of(model: &Id) -> Siblings {
    Siblings { pk: format!("m#{model}/r"), prefix: "r#".to_owned(), is_base: false }
}

/// Where an entity stands in `GSI1`, if it does: what stands by itself among its type, a workspace in
/// its category. (A release stands by its model: [`super::release_index`].)
pub fn entity_index(kind: EntityKind, parent: Option<&EntityId>, id: &Id) -> Option<(String, String)> {
    let place = siblings(kind, parent).filter(|place| !place.is_base)?;
    Some((place.pk, format!("{}{id}", place.prefix)))
}

/// The model by which a release stands in `GSI1`.
pub fn parse_release_index(pk: &str) -> Option<Id> {
    Id::parse(pk.strip_prefix("m#")?.strip_suffix("/r")?).ok()
}

/// All names that are taken among the children of a type.
pub fn names_of(parent: Option<&EntityId>, kind: EntityKind) -> KeyRange {
    KeyRange::prefix(guard(parent, kind, "").pk, "")
}

/// The guard of a name among the children of a type.
pub fn guard(parent: Option<&EntityId>, kind: EntityKind, name: &str) -> Key {
    super::name_guard(&parent.map(EntityId::token).unwrap_or_default(), kind.prefix(), name)
}

/// The pointer from the id of something in a workspace to that workspace.
pub fn pointer(id: &Id) -> Key {
    Key::new(format!("@id#{id}"), "@id")
}

/// A user or system in a group, as the group has it.
pub fn member(group: &Id, member: &EntityId) -> Key {
    Key::new(format!("g#{group}"), member.token())
}

/// The same, as the member has it.
pub fn membership(member: &EntityId, group: &Id) -> Key {
    Key::new(member.token(), format!("g#{group}"))
}

/// The group and the member of a key of [`member`]. `None`, when it is another key.
pub fn parse_member(key: &Key) -> Option<(Id, EntityId)> {
    match (parse_token(&key.pk)?, parse_token(&key.sk)?) {
        ((EntityKind::Group, group), (EntityKind::User, user)) => Some((group, EntityId::User(user))),
        ((EntityKind::Group, group), (EntityKind::System, system)) => Some((group, EntityId::System(system))),
        _ => None,
    }
}

/// The members of a group, or the groups of a user or system, in the partition of `of`.
pub fn memberships(of: &EntityId) -> Option<KeyRange> {
    match of {
        // Systems, then users, and nothing between them.
        EntityId::Group(_) => Some(KeyRange { to: format!("u#{END}"), ..KeyRange::prefix(of.token(), "s#") }),
        EntityId::User(_) | EntityId::System(_) => Some(KeyRange::prefix(of.token(), "g#")),
        _ => None,
    }
}

/// A free counter of an entity, in its partition.
pub fn free_counter(of: &EntityId, name: &str) -> Key {
    Key::new(of.key().pk, format!("n#{}/{name}", of.token()))
}

/// The free counters of an entity.
pub fn free_counters(of: &EntityId) -> KeyRange {
    KeyRange::prefix(of.key().pk, &format!("n#{}/", of.token()))
}

/// The entity and the name of a free counter, by its sort key.
pub fn parse_free_counter(sk: &str) -> Option<((EntityKind, Id), &str)> {
    let (token, name) = sk.strip_prefix("n#")?.split_once('/')?;
    Some((parse_token(token)?, name))
}

/// Something that happened to a user, in the user's partition, by its time.
pub fn activity(user: &Id, id: &Id) -> Key {
    Key::new(format!("u#{user}"), format!("act#{id}"))
}

/// What a user answered in a review of a workspace on a day, in the user's partition.
pub fn answered(user: &Id, day: Day, workspace: &Id, review: &str) -> Key {
    Key::new(format!("u#{user}"), format!("answered#{day}/w#{workspace}/{review}"))
}

/// The day, the workspace and the review of a key of [`answered`]. `None`, when it is another key.
pub fn parse_answered(key: &Key) -> Option<(Day, Id, &str)> {
    let mut parts = key.sk.strip_prefix("answered#")?.splitn(3, '/');
    let (day, workspace) = (parts.next()?.parse().ok()?, parts.next()?.strip_prefix("w#")?);
    Some((day, Id::parse(workspace).ok()?, parts.next()?))
}

/// The entity that a guard leads to, by the guard's key and the id in it.
pub fn guarded(guard: &Key, kind: EntityKind, id: Id) -> Option<EntityId> {
    let parent = guard.pk.strip_prefix("@name#")?.strip_suffix(kind.prefix())?.strip_suffix('/')?;
    let workspace = match parse_token(parent) {
        Some((EntityKind::Workspace, workspace)) => Some(workspace),
        _ => None,
    };
    EntityId::new(kind, id, workspace)
}
