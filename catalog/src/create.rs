//! Creating entities: the entity, its unique-name item, the pointer from its id, and its parent's count.

use std::collections::BTreeMap;

use event::{Definition, Error, ErrorKind, Id, Result, Timestamp, id::check_name};
use log::key::{self, EntityId, EntityKind};
use table::{Condition, Item, Policy, Update, Write, unless_overtaken};

use super::{
    AnyEntity, Catalog, Category, Configuration, Entity, Model, Release, ReleaseDetails, Snapshot,
    SnapshotContent, Workspace, activity,
    attributes::{Attributes, check_attributes},
    entity::Children,
};

/// Retries of transactions on entities, which conflict with those on their parents and siblings.
pub(super) const BUSY: Policy<'static> =
    Policy { attempts: 16, pauses: true, kind: ErrorKind::Conflict, ..Policy::of(&"the same entities") };

/// A new entity.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntity {
    /// Its name, unique among its siblings of the same type.
    pub name: String,
    /// Attributes set by users.
    pub attributes: Attributes,
    /// Its type, with the fields of that type.
    pub what: New,
}

/// Type of a new entity, with its parent.
#[derive(Clone, Debug, PartialEq)]
pub enum New {
    /// A category.
    Category,
    /// A workspace in a category.
    Workspace {
        /// The category.
        category: Id,
    },
    /// A model in a workspace.
    Model {
        /// The workspace.
        workspace: Id,
        /// Definition by which its predictions are evaluated.
        definition: Definition,
    },
    /// A configuration in a workspace.
    Configuration {
        /// The workspace.
        workspace: Id,
    },
    /// A snapshot of the events of a workspace.
    Snapshot {
        /// The workspace.
        workspace: Id,
        /// The request that it answers.
        content: Box<SnapshotContent>,
    },
    /// A release in a workspace.
    Release {
        /// The workspace.
        workspace: Id,
        /// The model, by name.
        model: String,
        /// The configuration, by name; created when it is new.
        configuration: Option<String>,
        /// The environment that it is built for.
        environment: Option<String>,
        /// Its origin.
        details: Box<ReleaseDetails>,
    },
    /// A user.
    User,
    /// A group.
    Group,
    /// A system.
    System,
}

impl New {
    /// Returns the type.
    pub fn kind(&self) -> EntityKind {
        match self {
            Self::Category => EntityKind::Category,
            Self::Workspace { .. } => EntityKind::Workspace,
            Self::Model { .. } => EntityKind::Model,
            Self::Configuration { .. } => EntityKind::Configuration,
            Self::Snapshot { .. } => EntityKind::Snapshot,
            Self::Release { .. } => EntityKind::Release,
            Self::User => EntityKind::User,
            Self::Group => EntityKind::Group,
            Self::System => EntityKind::System,
        }
    }
}

impl NewEntity {
    /// Creates an entity without attributes.
    pub fn new(name: &str, what: New) -> Self {
        Self { name: name.to_owned(), attributes: Attributes::new(), what }
    }
}

/// Makes the unique-name item of an entity.
pub(super) fn guard_item(any: &AnyEntity) -> Item {
    let entity = any.entity();
    let guard = key::guard(any.parent().as_ref(), any.at().kind(), &entity.name);
    Item::new(guard).with("v", 1).with("id", entity.id.as_str())
}

/// Makes the pointer from its id to its workspace; `None` for an entity outside workspaces.
pub(super) fn pointer_item(any: &AnyEntity) -> Option<Item> {
    let at = any.at();
    let workspace = at.workspace()?;
    let pointer = Item::new(key::pointer(at.id())).with("v", 1).with("type", at.kind().prefix());
    Some(pointer.with("workspace", workspace.as_str()))
}

impl Catalog {
    /// Creates an entity and increments its parent's count, in one transaction.
    ///
    /// # Errors
    /// `Conflict`, when the name is taken or the parent is archived; `NotFound`, when the parent, or the
    /// model of a release, does not exist; `Invalid`, when the name or an attribute cannot be one.
    pub async fn create(&self, new: NewEntity, now: Timestamp) -> Result<AnyEntity> {
        check_name(&new.name)?;
        check_attributes(&new.attributes)?;
        let any = self.draft(new, now).await?;
        self.insert(&any, now).await?;
        Ok(any)
    }

    /// Makes the entity, without writing it.
    async fn draft(&self, new: NewEntity, now: Timestamp) -> Result<AnyEntity> {
        let entity = Entity::new(Id::new(now), &new.name, new.attributes, now);
        Ok(match new.what {
            New::Category => AnyEntity::Category(Category { entity, count_of_workspaces: 0 }),
            New::User => AnyEntity::User(entity),
            New::Group => AnyEntity::Group(entity),
            New::System => AnyEntity::System(entity),
            New::Workspace { category } => {
                let at = EntityId::Category(category.clone());
                let parent = self.find(&at).await?.ok_or_else(|| no_parent(&entity.name))?;
                let path = format!("{}/{}", parent.entity().name, entity.name);
                let children = EntityKind::Workspace.children().map(|kind| (kind, 0)).collect::<Children>();
                AnyEntity::Workspace(Workspace { entity, category, path, children })
            }
            New::Model { workspace, definition } => {
                let definition = Definition { from: None, ..definition.plain() };
                AnyEntity::Model(Model { entity, workspace, definition, named: BTreeMap::new(), gates: None })
            }
            New::Configuration { workspace } => AnyEntity::Configuration(Configuration { entity, workspace }),
            New::Snapshot { workspace, content } => {
                content.check()?;
                AnyEntity::Snapshot(Snapshot { entity, workspace, content: *content })
            }
            New::Release { workspace, model, configuration, environment, details } => {
                details.check()?;
                environment.as_deref().map_or(Ok(()), check_name)?;
                let parent = EntityId::Workspace(workspace.clone());
                let known = self.id_named(Some(&parent), EntityKind::Model, &model).await?;
                let model_id = known.ok_or_else(|| super::no_model(&model))?;
                let configuration_id = match &configuration {
                    Some(name) => Some(self.ensure_configuration(&workspace, name, now).await?.entity.id),
                    None => None,
                };
                AnyEntity::Release(Release {
                    entity,
                    workspace,
                    model,
                    model_id,
                    configuration,
                    configuration_id,
                    environment,
                    details,
                    created_by: log::audit::current().principal.clone(),
                    approvals: Vec::new(),
                    baselines: Default::default(),
                })
            }
        })
    }

    /// Writes a new entity in one transaction.
    async fn insert(&self, any: &AnyEntity, now: Timestamp) -> Result<()> {
        self.insert_as(any, any.to_item(), now).await
    }

    /// Writes a new entity by an item with further attributes.
    pub(super) async fn insert_as(&self, any: &AnyEntity, item: Item, now: Timestamp) -> Result<()> {
        let (at, parent) = (any.at(), any.parent());
        let mut writes =
            vec![Write::Put(guard_item(any), Condition::Absent), Write::Put(item, Condition::Absent)];
        writes.extend(pointer_item(any).map(|pointer| Write::Put(pointer, Condition::Absent)));
        if let (Some(parent), Some(counter)) = (&parent, at.kind().counter()) {
            let count = Update::new(parent.key(), Condition::Without("archived_at")).add(counter, 1);
            writes.push(Write::Update(count));
        }
        writes.extend(self.made_by(any, now).await?);
        let mut tries = BUSY.tries();
        loop {
            tries.next().await?;
            let bindings = self.bind(any).await?.into_iter().chain(self.pin_of(any, now).await?);
            let written = self.table.transact(writes.iter().cloned().chain(bindings).collect()).await;
            if unless_overtaken(written)?.is_some() {
                return Ok(());
            }
            self.free_name(any).await?;
            match self.id_named(parent.as_ref(), at.kind(), &any.entity().name).await? {
                // The attempt whose answer was lost did succeed.
                Some(id) if id == *at.id() => return Ok(()),
                Some(_) => return Err(taken(at.kind(), &any.entity().name)),
                None => self.check_parent(parent.as_ref(), &any.entity().name).await?,
            }
        }
    }

    /// Refuses a parent that takes no children.
    async fn check_parent(&self, parent: Option<&EntityId>, name: &str) -> Result<()> {
        let Some(parent) = parent else { return Ok(()) };
        let known = self.find(parent).await?.ok_or_else(|| no_parent(name))?;
        match known.entity().archived_at {
            None => Ok(()),
            Some(_) => Err(Error::conflict(format!(
                "`{name}` cannot be created: the {} `{}` is archived",
                parent.kind(),
                known.entity().name
            ))),
        }
    }

    /// Makes the activity of the author of a release, if that is a user.
    async fn made_by(&self, any: &AnyEntity, now: Timestamp) -> Result<Option<Write>> {
        let AnyEntity::Release(release) = any else { return Ok(None) };
        let Some(author) = &release.details.author else { return Ok(None) };
        if check_name(author).is_err() {
            return Ok(None);
        }
        let user = self.id_named(None, EntityKind::User, author).await?;
        let what = format!("made the release {}", release.entity.name);
        Ok(user.and_then(|user| activity::noted(&EntityId::User(user), &what, &any.at(), now)))
    }
}

pub(super) fn taken(kind: EntityKind, name: &str) -> Error {
    Error::conflict(format!("there is a {kind} called `{name}` already"))
}

fn no_parent(name: &str) -> Error {
    Error::not_found(format!("`{name}` cannot be created: what it belongs to does not exist"))
}
