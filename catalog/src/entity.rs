//! The entities of the catalog and the items that store them.

use std::collections::BTreeMap;

use event::{Day, Definition, Id, Result, Timestamp};
use log::key::{self, EntityId, EntityKind};
use table::{Item, item::Value};

use super::{
    closing::CLOSING,
    definition::{definition, named, with_definition, with_named},
    promotion::{PromotionGates, approvals_of, gates_of, with_gates},
    release::{CREATED_BY, Release, ReleaseDetails, baselines_of},
    snapshot::{Snapshot, SnapshotContent},
};

/// Version of the items of entities.
pub(super) const ITEM_VERSION: i64 = 1;

/// What every entity has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Its id.
    pub id: Id,
    /// Its name, unique among its siblings of the same type.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When people last changed it.
    pub updated_at: Timestamp,
    /// Since when it is archived, if it is.
    pub archived_at: Option<Timestamp>,
    /// Counts the changes that people made, from 1 on; counters of children are no such change.
    pub version: i64,
    /// The mark of the deletion that is about to take it away, if one is. Only workspaces are marked.
    pub closing: Option<Id>,
    /// What people note of it, under names of their own.
    pub attributes: BTreeMap<String, Value>,
}

impl Entity {
    /// One that is created now.
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

    /// Oldest first; those of one instant by their names.
    pub fn by_age(&self, other: &Self) -> std::cmp::Ordering {
        (self.created_at, &self.name).cmp(&(other.created_at, &other.name))
    }

    fn to_item(&self, at: &EntityId) -> Item {
        let mut item = Item::new(at.key())
            .with("v", ITEM_VERSION)
            .with("ver", self.version)
            .with("id", self.id.as_str())
            .with("name", self.name.as_str())
            .with("created_at", self.created_at.micros())
            .with("updated_at", self.updated_at.micros());
        if let Some(at) = self.archived_at {
            item = item.with("archived_at", at.micros());
        }
        if let Some(mark) = &self.closing {
            item = item.with(CLOSING, mark.as_str());
        }
        if !self.attributes.is_empty() {
            item = item.with("attributes", self.attributes.clone());
        }
        item
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let time = |name: &str| {
            Timestamp::from_micros(item.int(name)?)
                .ok_or_else(|| item.corrupt(format_args!("`{name}` is no time")))
        };
        let has = |name: &str| item.attributes.contains_key(name);
        Ok(Self {
            id: Id::parse(item.text("id")?)?,
            name: item.text("name")?.to_owned(),
            created_at: time("created_at")?,
            updated_at: time("updated_at")?,
            archived_at: has("archived_at").then(|| time("archived_at")).transpose()?,
            version: item.int("ver")?,
            closing: item.optional_text(CLOSING).map(Id::parse).transpose()?,
            attributes: if has("attributes") { item.map("attributes")?.clone() } else { BTreeMap::new() },
        })
    }
}

/// Number of children of an entity, by type.
pub type Children = BTreeMap<EntityKind, i64>;

fn children(item: &Item, kind: EntityKind) -> Result<Children> {
    let counted = kind.children().filter_map(|kind| Some((kind, kind.counter()?)));
    counted.map(|(kind, counter)| Ok((kind, item.int(counter)?))).collect()
}

/// A group of workspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// Id, name, age.
    pub entity: Entity,
    /// How many workspaces it has.
    pub count_of_workspaces: i64,
}

/// A place for models, configurations, releases and their events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Id, name, age.
    pub entity: Entity,
    /// The category it lives in.
    pub category: Id,
    /// `category/name`.
    pub path: String,
    /// How many models, configurations, snapshots and releases it has.
    pub children: Children,
}

impl Workspace {
    /// Its id.
    pub fn id(&self) -> &Id {
        &self.entity.id
    }
}

/// Something that predicts.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Id, name, age.
    pub entity: Entity,
    /// The workspace that it is in.
    pub workspace: Id,
    /// How the predictions of its releases are judged, as it is for releases that come; those that are there have
    /// definitions of their own ([`super::Definitions`]).
    pub definition: Definition,
    /// The day from which the last change of each field of the definition holds, by the
    /// [names](event::DefinitionChange::names) of the fields.
    pub named: BTreeMap<String, Day>,
    /// What its releases must pass before they are made live.
    pub gates: Option<PromotionGates>,
}

/// How a model is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Id, name, age.
    pub entity: Entity,
    /// The workspace that it is in.
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
    /// A user, who has no more than every entity has.
    User(Entity),
    /// A group, likewise.
    Group(Entity),
    /// A system, likewise.
    System(Entity),
}

impl AnyEntity {
    /// What every entity has.
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

    /// The same, to be changed.
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

    /// Its name; of a workspace its path.
    pub fn full_name(&self) -> &str {
        match self {
            Self::Workspace(workspace) => &workspace.path,
            other => &other.entity().name,
        }
    }

    /// Which entity it is.
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

    /// What it belongs to.
    pub fn parent(&self) -> Option<EntityId> {
        match self {
            Self::Workspace(workspace) => Some(EntityId::Category(workspace.category.clone())),
            _ => self.at().workspace().cloned().map(EntityId::Workspace),
        }
    }

    /// How many children it has.
    pub fn children(&self) -> Children {
        match self {
            Self::Category(category) => [(EntityKind::Workspace, category.count_of_workspaces)].into(),
            Self::Workspace(workspace) => workspace.children.clone(),
            _ => Children::new(),
        }
    }

    /// The attributes that place it in `GSI1`: always derived again from what they are made of.
    pub(super) fn index(&self) -> Option<(String, String)> {
        match self {
            Self::Release(release) => Some(key::release_index(&release.model_id, &release.entity.id)),
            _ => key::entity_index(self.at().kind(), self.parent().as_ref(), &self.entity().id),
        }
    }

    /// The item that stores it.
    pub fn to_item(&self) -> Item {
        let item = self.entity().to_item(&self.at());
        let item = self
            .children()
            .into_iter()
            .fold(item, |item, (kind, count)| item.with(kind.counter().unwrap_or_default(), count));
        let item = match self {
            Self::Workspace(workspace) => {
                item.with("category", workspace.category.as_str()).with("path", workspace.path.as_str())
            }
            Self::Model(model) => {
                let item = with_named(with_definition(item, &model.definition), &model.named);
                with_gates(item, model.gates.as_ref())
            }
            Self::Snapshot(snapshot) => snapshot.content.to_item(item),
            Self::Release(release) => release.to_item(item),
            _ => item,
        };
        match self.index() {
            Some((pk, sk)) => item.with("GSI1PK", pk).with("GSI1SK", sk),
            None => item,
        }
    }

    /// The entity of an item.
    ///
    /// # Errors
    /// `Corrupt`, when it is not the item of one.
    pub fn from_item(item: &Item) -> Result<Self> {
        let at = EntityId::of_key(&item.key).ok_or_else(|| item.corrupt("this is the key of no entity"))?;
        let entity = Entity::from_item(item)?;
        Ok(match at {
            EntityId::Category(_) => {
                Self::Category(Category { entity, count_of_workspaces: item.int("count_of_workspaces")? })
            }
            EntityId::Workspace(_) => Self::Workspace(Workspace {
                entity,
                category: Id::parse(item.text("category")?)?,
                path: item.text("path")?.to_owned(),
                children: children(item, EntityKind::Workspace)?,
            }),
            EntityId::Model(workspace, _) => {
                let (definition, named, gates) = (definition(item)?, named(item)?, gates_of(item)?);
                Self::Model(Model { entity, workspace, definition, named, gates })
            }
            EntityId::Configuration(workspace, _) => Self::Configuration(Configuration { entity, workspace }),
            EntityId::Snapshot(workspace, _) => {
                Self::Snapshot(Snapshot { entity, workspace, content: SnapshotContent::from_item(item)? })
            }
            EntityId::Release(workspace, _) => Self::Release(Release {
                entity,
                workspace,
                model: item.text("model")?.to_owned(),
                model_id: key::parse_release_index(item.text("GSI1PK")?)
                    .ok_or_else(|| item.corrupt("`GSI1PK` names no model"))?,
                configuration: item.optional_text("configuration").map(str::to_owned),
                configuration_id: item.optional_text("configuration_id").map(Id::parse).transpose()?,
                environment: item.optional_text("environment").map(str::to_owned),
                details: Box::new(ReleaseDetails::from_item(item)?),
                created_by: item.text(CREATED_BY)?.to_owned(),
                approvals: approvals_of(item)?,
                baselines: baselines_of(item)?,
            }),
            EntityId::User(_) => Self::User(entity),
            EntityId::Group(_) => Self::Group(entity),
            EntityId::System(_) => Self::System(entity),
        })
    }
}
