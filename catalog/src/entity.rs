//! The entities of the catalog and the items that store them.

use std::collections::BTreeMap;

use event::{Day, Definition, Id, Result, Timestamp};
use log::key::{self, EntityId, EntityKind};
use serde::{Deserialize, Serialize};
use table::{Item, item::Value};

use super::{
    definition::{NAMED, definition, with_definition},
    promotion::{GATES, PromotionGates, gates_of},
    release::Release,
    snapshot::{READ_VERSION, Snapshot},
};

/// Version of the items of entities.
pub(super) const ITEM_VERSION: i64 = 1;

/// Attribute with the attributes set by users.
const ATTRIBUTES: &str = "attributes";

/// Fields of every entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Its id.
    pub id: Id,
    /// Its name, unique among its siblings of the same type.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When people last changed it.
    pub updated_at: Timestamp,
    /// Time since which it is archived, if it is.
    pub archived_at: Option<Timestamp>,
    /// Number of changes by users, from 1 on; counters of children do not count.
    #[serde(rename = "ver")]
    pub version: i64,
    /// Marker of a deletion in progress. Only workspaces have it.
    pub closing: Option<Id>,
    /// Attributes set by users.
    #[serde(skip)]
    pub attributes: BTreeMap<String, Value>,
}

impl Entity {
    /// Creates an entity.
    pub(super) fn new(id: Id, name: &str, attributes: BTreeMap<String, Value>, now: Timestamp) -> Self {
        Self {
            id,
            name: name.to_owned(),
            created_at: now,
            updated_at: now,
            archived_at: None,
            version: 1,
            closing: None,
            attributes,
        }
    }

    /// Orders by age, then by name.
    pub fn by_age(&self, other: &Self) -> std::cmp::Ordering {
        (self.created_at, &self.name).cmp(&(other.created_at, &other.name))
    }
}

/// Number of children of an entity, by type.
pub type Children = BTreeMap<EntityKind, i64>;

fn children(item: &Item, kind: EntityKind) -> Result<Children> {
    let counted = kind.children().filter_map(|kind| Some((kind, kind.counter()?)));
    counted.map(|(kind, counter)| Ok((kind, item.int(counter)?))).collect()
}

/// A group of workspaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Category {
    /// Id, name, age.
    #[serde(flatten)]
    pub entity: Entity,
    /// Number of workspaces.
    pub count_of_workspaces: i64,
}

/// A namespace for models, configurations, releases and their events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Id, name, age.
    #[serde(flatten)]
    pub entity: Entity,
    /// The category it belongs to.
    pub category: Id,
    /// `category/name`.
    pub path: String,
    /// Number of models, configurations, snapshots and releases.
    #[serde(skip)]
    pub children: Children,
}

impl Workspace {
    /// Its id.
    pub fn id(&self) -> &Id {
        &self.entity.id
    }
}

/// A prediction task, with its releases.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Id, name, age.
    pub entity: Entity,
    /// The workspace it belongs to.
    pub workspace: Id,
    /// Definition for future releases: how their predictions are evaluated. Existing releases have definitions of their
    /// own ([`super::Definitions`]).
    pub definition: Definition,
    /// The day from which the last change of each field of the definition holds, by the
    /// [names](event::DefinitionChange::names) of the fields.
    pub named: BTreeMap<String, Day>,
    /// Conditions for its releases to go live.
    pub gates: Option<PromotionGates>,
}

/// Settings for releases of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Id, name, age.
    #[serde(flatten)]
    pub entity: Entity,
    /// The workspace it belongs to.
    #[serde(skip_serializing)]
    pub workspace: Id,
}

/// Any entity.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyEntity {
    /// A category.
    Category(Category),
    /// A workspace.
    Workspace(Workspace),
    /// A model.
    Model(Model),
    /// A configuration.
    Configuration(Configuration),
    /// A snapshot.
    Snapshot(Snapshot),
    /// A release.
    Release(Release),
    /// A user, with the fields of every entity only.
    User(Entity),
    /// A group, likewise.
    Group(Entity),
    /// A system, likewise.
    System(Entity),
}

impl AnyEntity {
    /// Returns the fields of every entity.
    pub fn entity(&self) -> &Entity {
        match self {
            Self::Category(category) => &category.entity,
            Self::Workspace(workspace) => &workspace.entity,
            Self::Model(model) => &model.entity,
            Self::Configuration(configuration) => &configuration.entity,
            Self::Snapshot(snapshot) => &snapshot.entity,
            Self::Release(release) => &release.entity,
            Self::User(entity) | Self::Group(entity) | Self::System(entity) => entity,
        }
    }

    /// Returns these fields, to be changed.
    pub(super) fn entity_mut(&mut self) -> &mut Entity {
        match self {
            Self::Category(category) => &mut category.entity,
            Self::Workspace(workspace) => &mut workspace.entity,
            Self::Model(model) => &mut model.entity,
            Self::Configuration(configuration) => &mut configuration.entity,
            Self::Snapshot(snapshot) => &mut snapshot.entity,
            Self::Release(release) => &mut release.entity,
            Self::User(entity) | Self::Group(entity) | Self::System(entity) => entity,
        }
    }

    /// Returns its name; of a workspace its path.
    pub fn full_name(&self) -> &str {
        match self {
            Self::Workspace(workspace) => &workspace.path,
            other => &other.entity().name,
        }
    }

    /// Returns its identity.
    pub fn at(&self) -> EntityId {
        let id = self.entity().id.clone();
        match self {
            Self::Category(_) => EntityId::Category(id),
            Self::Workspace(_) => EntityId::Workspace(id),
            Self::Model(model) => EntityId::Model(model.workspace.clone(), id),
            Self::Configuration(configuration) => {
                EntityId::Configuration(configuration.workspace.clone(), id)
            }
            Self::Snapshot(snapshot) => EntityId::Snapshot(snapshot.workspace.clone(), id),
            Self::Release(release) => EntityId::Release(release.workspace.clone(), id),
            Self::User(_) => EntityId::User(id),
            Self::Group(_) => EntityId::Group(id),
            Self::System(_) => EntityId::System(id),
        }
    }

    /// Returns its parent.
    pub fn parent(&self) -> Option<EntityId> {
        match self {
            Self::Workspace(workspace) => Some(EntityId::Category(workspace.category.clone())),
            _ => self.at().workspace().cloned().map(EntityId::Workspace),
        }
    }

    /// Returns the number of children.
    pub fn children(&self) -> Children {
        match self {
            Self::Category(category) => [(EntityKind::Workspace, category.count_of_workspaces)].into(),
            Self::Workspace(workspace) => workspace.children.clone(),
            _ => Children::new(),
        }
    }

    /// Returns the attributes that place it in `GSI1`, which are always derived again.
    pub(super) fn index(&self) -> Option<(String, String)> {
        match self {
            Self::Release(release) => Some(key::release_index(&release.model_id, &release.entity.id)),
            _ => key::entity_index(self.at().kind(), self.parent().as_ref(), &self.entity().id),
        }
    }

    /// Encodes it as an item.
    pub fn to_item(&self) -> Item {
        let key = self.at().key();
        let mut item = match self {
            Self::Category(category) => Item::record(key, ITEM_VERSION, category),
            Self::Workspace(workspace) => Item::record(key, ITEM_VERSION, workspace),
            Self::Model(model) => with_model(Item::record(key, ITEM_VERSION, &model.entity), model),
            Self::Configuration(configuration) => Item::record(key, ITEM_VERSION, configuration),
            Self::Snapshot(snapshot) => Item::record(key, ITEM_VERSION, snapshot)
                .with(READ_VERSION, snapshot.content.read_version.clone()),
            Self::Release(release) => Item::record(key, ITEM_VERSION, release),
            Self::User(entity) | Self::Group(entity) | Self::System(entity) => {
                Item::record(key, ITEM_VERSION, entity)
            }
        };
        for (kind, count) in self.children() {
            item = item.with(kind.counter().unwrap_or_default(), count);
        }
        if !self.entity().attributes.is_empty() {
            item = item.with(ATTRIBUTES, self.entity().attributes.clone());
        }
        match self.index() {
            Some(index) => item.indexed(index),
            None => item,
        }
    }

    /// Decodes an item.
    ///
    /// # Errors
    /// `Corrupt`, when it is not the item of one.
    pub fn from_item(item: &Item) -> Result<Self> {
        let at = EntityId::of_key(&item.key).ok_or_else(|| item.corrupt("this is the key of no entity"))?;
        let workspace = at.workspace().map_or("", Id::as_str);
        let of_key = [("workspace", workspace)];
        let mut any = match &at {
            EntityId::Category(_) => Self::Category(item.to_record(ITEM_VERSION)?),
            EntityId::Workspace(_) => {
                let children = children(item, EntityKind::Workspace)?;
                Self::Workspace(Workspace { children, ..item.to_record(ITEM_VERSION)? })
            }
            EntityId::Model(workspace, _) => Self::Model(Model {
                entity: item.to_record(ITEM_VERSION)?,
                workspace: workspace.clone(),
                definition: definition(item)?,
                named: item.field::<Option<_>>(NAMED)?.unwrap_or_default(),
                gates: gates_of(item)?,
            }),
            EntityId::Configuration(..) => Self::Configuration(item.to_record_with(ITEM_VERSION, of_key)?),
            EntityId::Snapshot(..) => {
                let mut snapshot: Snapshot = item.to_record_with(ITEM_VERSION, of_key)?;
                if item.attributes.contains_key(READ_VERSION) {
                    snapshot.content.read_version = item.bytes(READ_VERSION)?.to_vec();
                }
                Self::Snapshot(snapshot)
            }
            EntityId::Release(..) => {
                let model = key::parse_release_index(item.text("GSI1PK")?);
                let model = model.ok_or_else(|| item.corrupt("`GSI1PK` names no model"))?;
                let of_key = [("workspace", workspace), ("model_id", model.as_str())];
                Self::Release(item.to_record_with(ITEM_VERSION, of_key)?)
            }
            EntityId::User(_) => Self::User(item.to_record(ITEM_VERSION)?),
            EntityId::Group(_) => Self::Group(item.to_record(ITEM_VERSION)?),
            EntityId::System(_) => Self::System(item.to_record(ITEM_VERSION)?),
        };
        if item.attributes.contains_key(ATTRIBUTES) {
            any.entity_mut().attributes = item.map(ATTRIBUTES)?.clone();
        }
        Ok(any)
    }
}

/// Adds the fields of a model to its item.
fn with_model(item: Item, model: &Model) -> Item {
    let mut item = with_definition(item, &model.definition);
    if !model.named.is_empty() {
        item = item.with(NAMED, Value::record(&model.named));
    }
    match &model.gates {
        Some(gates) => item.with(GATES, Value::record(&gates.body())),
        None => item,
    }
}
