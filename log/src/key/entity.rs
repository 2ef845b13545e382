//! Keys of the catalog: entities, their names and ids, memberships and counters.

use std::fmt;

use event::{Day, Error, Id, Result};
use table::{Key, KeyRange};

use super::END;

/// Types of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityKind {
    /// Category of workspaces.
    Category,
    /// A workspace.
    Workspace,
    /// Model of a workspace.
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
    /// All types, parents before children.
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

    /// Name in the singular.
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

    /// Name in the plural.
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

    /// Prefix of its keys, and of its ids as people see them: `m` of `m#...` and of `m_...`.
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

    /// Finds the type of a prefix.
    pub fn from_prefix(prefix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.prefix() == prefix)
    }

    /// Finds the type of a name such as `model`.
    ///
    /// # Errors
    /// `Invalid`, naming the existing ones.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no type of entity; there are {known}"))
        })
    }

    /// Type of its parent; `None` for a type without one.
    pub fn parent(self) -> Option<Self> {
        match self {
            Self::Workspace => Some(Self::Category),
            Self::Model | Self::Configuration | Self::Snapshot | Self::Release => Some(Self::Workspace),
            Self::Category | Self::User | Self::Group | Self::System => None,
        }
    }

    /// Attribute of the parent that counts its children of this type.
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

    /// Types of its children.
    pub fn children(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |kind| kind.parent() == Some(self))
    }
}

impl fmt::Display for EntityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Id of an entity, from which its key is made.
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
    /// Creates the id of an entity without a workspace, or in a workspace; `None`, when the type needs the other form.
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

    /// Type of the entity.
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

    /// Id within its type.
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

    /// Workspace that contains it.
    pub fn workspace(&self) -> Option<&Id> {
        match self {
            Self::Model(workspace, _)
            | Self::Configuration(workspace, _)
            | Self::Snapshot(workspace, _)
            | Self::Release(workspace, _) => Some(workspace),
            _ => None,
        }
    }

    /// Key of the entity.
    pub fn key(&self) -> Key {
        let own = self.token();
        Key::new(self.workspace().map_or_else(|| own.clone(), super::workspace_page), own)
    }

    /// Name inside of keys: `m#<id>`.
    pub fn token(&self) -> String {
        format!("{}#{}", self.kind().prefix(), self.id())
    }

    /// Parses the entity from its own key; `None` for other keys.
    pub fn of_key(key: &Key) -> Option<Self> {
        let (kind, id) = parse_token(&key.sk)?;
        let within = (key.pk != key.sk).then(|| parse_token(&key.pk)).map_or(Some(None), |within| {
            within.filter(|(kind, _)| *kind == EntityKind::Workspace).map(|(_, id)| Some(id))
        })?;
        Self::new(kind, id, within)
    }
}

/// Writes it as people see it: `m_2NBs0tD5Ihm2PVFzM3kZvMYdQX9`.
impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.kind().prefix(), self.id())
    }
}

/// Parses the type and id of a token such as `m#<id>`.
pub fn parse_token(token: &str) -> Option<(EntityKind, Id)> {
    let (prefix, id) = token.split_once('#')?;
    Some((EntityKind::from_prefix(prefix)?, Id::parse(id).ok()?))
}

/// Parses the type and id of an id as people write it, `m_<id>` or only `<id>`.
pub fn parse_id(text: &str) -> Option<(Option<EntityKind>, Id)> {
    match text.split_once('_') {
        Some((prefix, id)) => Some((Some(EntityKind::from_prefix(prefix)?), Id::parse(id).ok()?)),
        None => Some((None, Id::parse(text).ok()?)),
    }
}

/// Part of the partition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Siblings {
    /// Partition, of the table or of `GSI1`.
    pub pk: String,
    /// Prefix of the sort keys; the id follows.
    pub prefix: String,
    /// True if they stand together in the table itself, not only in `GSI1`.
    pub is_base: bool,
}

impl Siblings {
    /// Range of the ids from `first` to `last`, as text; all when `None`.
    pub fn range(&self, first: Option<&str>, last: Option<&str>) -> KeyRange {
        let end = END.to_string();
        KeyRange {
            pk: self.pk.clone(),
            from: format!("{}{}", self.prefix, first.unwrap_or_default()),
            to: format!("{}{}", self.prefix, last.unwrap_or(&end)),
        }
    }
}

/// Range in which the entities of a type stand together: all of them, those of a category, or those of a workspace. `None`, when
/// the parent is of the wrong type.
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

/// Range in which the releases of a model stand together.
pub fn releases_of(model: &Id) -> Siblings {
    Siblings { pk: format!("m#{model}/r"), prefix: "r#".to_owned(), is_base: false }
}

/// Place of an entity in `GSI1`, if it has one: an entity without a parent among its type, a workspace in its category. (A
/// release stands by its model: [`super::release_index`].)
pub fn entity_index(kind: EntityKind, parent: Option<&EntityId>, id: &Id) -> Option<(String, String)> {
    let place = siblings(kind, parent).filter(|place| !place.is_base)?;
    Some((place.pk, format!("{}{id}", place.prefix)))
}

/// Parses the model by which a release stands in `GSI1`.
pub fn parse_release_index(pk: &str) -> Option<Id> {
    Id::parse(pk.strip_prefix("m#")?.strip_suffix("/r")?).ok()
}

/// All names that are taken among the children of a type.
pub fn names_of(parent: Option<&EntityId>, kind: EntityKind) -> KeyRange {
    KeyRange::prefix(guard(parent, kind, "").pk, "")
}

/// Guard of a name among the children of a type.
pub fn guard(parent: Option<&EntityId>, kind: EntityKind, name: &str) -> Key {
    super::name_guard(&parent.map(EntityId::token).unwrap_or_default(), kind.prefix(), name)
}

/// Pointer from the id of an entity in a workspace to that workspace.
pub fn pointer(id: &Id) -> Key {
    Key::new(format!("@id#{id}"), "@id")
}

/// Membership of a user or system in a group, on the side of the group.
pub fn member(group: &Id, member: &EntityId) -> Key {
    Key::new(format!("g#{group}"), member.token())
}

/// Membership on the side of the member.
pub fn membership(member: &EntityId, group: &Id) -> Key {
    Key::new(member.token(), format!("g#{group}"))
}

/// Parses the group and the member of a key of [`member`]. `None`, when it is another key.
pub fn parse_member(key: &Key) -> Option<(Id, EntityId)> {
    match (parse_token(&key.pk)?, parse_token(&key.sk)?) {
        ((EntityKind::Group, group), (EntityKind::User, user)) => Some((group, EntityId::User(user))),
        ((EntityKind::Group, group), (EntityKind::System, system)) => Some((group, EntityId::System(system))),
        _ => None,
    }
}

/// Members of a group, or groups of a user or system, in the partition of `of`.
pub fn memberships(of: &EntityId) -> Option<KeyRange> {
    match of {
        // Systems, then users, and nothing between them.
        EntityId::Group(_) => Some(KeyRange { to: format!("u#{END}"), ..KeyRange::prefix(of.token(), "s#") }),
        EntityId::User(_) | EntityId::System(_) => Some(KeyRange::prefix(of.token(), "g#")),
        _ => None,
    }
}

/// Free counter of an entity, in its partition.
pub fn free_counter(of: &EntityId, name: &str) -> Key {
    Key::new(of.key().pk, format!("n#{}/{name}", of.token()))
}

/// Free counters of an entity.
pub fn free_counters(of: &EntityId) -> KeyRange {
    KeyRange::prefix(of.key().pk, &format!("n#{}/", of.token()))
}

/// Parses the entity and the name of a free counter, from its sort key.
pub fn parse_free_counter(sk: &str) -> Option<((EntityKind, Id), &str)> {
    let (token, name) = sk.strip_prefix("n#")?.split_once('/')?;
    Some((parse_token(token)?, name))
}

/// Activity of a user, in the user's partition, by its time.
pub fn activity(user: &Id, id: &Id) -> Key {
    Key::new(format!("u#{user}"), format!("act#{id}"))
}

/// Answers of a user in a review of a workspace on a day, in the user's partition.
pub fn answered(user: &Id, day: Day, workspace: &Id, review: &str) -> Key {
    Key::new(format!("u#{user}"), format!("answered#{day}/w#{workspace}/{review}"))
}

/// Parses the day, the workspace and the review of a key of [`answered`]. `None`, when it is another key.
pub fn parse_answered(key: &Key) -> Option<(Day, Id, &str)> {
    let mut parts = key.sk.strip_prefix("answered#")?.splitn(3, '/');
    let (day, workspace) = (parts.next()?.parse().ok()?, parts.next()?.strip_prefix("w#")?);
    Some((day, Id::parse(workspace).ok()?, parts.next()?))
}

/// Entity to which a guard leads, by the guard's key and the id in it.
pub fn guarded(guard: &Key, kind: EntityKind, id: Id) -> Option<EntityId> {
    let parent = guard.pk.strip_prefix("@name#")?.strip_suffix(kind.prefix())?.strip_suffix('/')?;
    let workspace = match parse_token(parent) {
        Some((EntityKind::Workspace, workspace)) => Some(workspace),
        _ => None,
    };
    EntityId::new(kind, id, workspace)
}
