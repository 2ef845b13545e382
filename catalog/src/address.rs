//! Finding entities by their addresses: an id, with its prefix or without, or a path such as `credit`, `credit/prod`,
//! `credit/prod/churn`, `credit/prod/churn@v2`, also with an id in the place of the last name.

use event::{Error, Id, Result, id::check_name};
use log::key::{self, EntityId, EntityKind};

use super::{AnyEntity, Catalog, closing::is_given_up};

impl Catalog {
    /// Finds the entity of a type that `text` names.
    ///
    /// # Errors
    /// `NotFound`, when there is none; `Invalid`, when it is an id of another type.
    pub async fn resolve(&self, kind: EntityKind, text: &str) -> Result<EntityId> {
        let missing = || missing(kind, text);
        if let Some(id) = id_of(kind, text)?
            && let Some(at) = self.by_id(kind, id).await?
        {
            return Ok(at);
        }
        let mut segments: Vec<&str> = text.split('/').collect();
        let own = segments.pop().unwrap_or_default();
        let parent = match (kind.parent(), segments.as_slice()) {
            (None, []) => None,
            (Some(EntityKind::Category), [category]) => {
                Some(Box::pin(self.resolve(EntityKind::Category, category)).await.map_err(|_| missing())?)
            }
            (Some(EntityKind::Workspace), [_] | [_, _]) => {
                let workspace = segments.join("/");
                Some(Box::pin(self.resolve(EntityKind::Workspace, &workspace)).await.map_err(|_| missing())?)
            }
            _ => return Err(missing()),
        };
        let (model, name) = match own.split_once('@') {
            Some((model, name)) if kind == EntityKind::Release => (Some(model), name),
            _ => (None, own),
        };
        check_name(name).map_err(|_| missing())?;
        let Some(model) = model else {
            let Some(id) = self.id_named(parent.as_ref(), kind, name).await? else {
                return self.by_id_in(parent.as_ref(), kind, name).await?.ok_or_else(missing);
            };
            let workspace =
                parent.filter(|_| kind != EntityKind::Workspace).map(|parent| parent.id().clone());
            return EntityId::new(kind, id, workspace).ok_or_else(missing);
        };
        let model = self.id_named(parent.as_ref(), EntityKind::Model, model).await?;
        match self.named(parent.as_ref(), kind, name).await? {
            Some(AnyEntity::Release(release)) if Some(&release.model_id) == model.as_ref() => {
                Ok(AnyEntity::Release(release).at())
            }
            _ => Err(missing()),
        }
    }

    /// Finds the entity of a type and an id, by the pointer of the id where it stands in a workspace.
    async fn by_id(&self, kind: EntityKind, id: Id) -> Result<Option<EntityId>> {
        let workspace = match kind.parent() {
            Some(EntityKind::Workspace) => match self.table.get(&key::pointer(&id)).await? {
                Some(item) if item.text("type")? == kind.prefix() => {
                    Some(Id::parse(item.text("workspace")?)?)
                }
                _ => return Ok(None),
            },
            _ => None,
        };
        let Some(at) = EntityId::new(kind, id, workspace) else { return Ok(None) };
        Ok(self.find(&at).await?.map(|any| any.at()))
    }

    /// Finds the entity of a type and an id in a workspace, in which nothing has that id for its name.
    async fn by_id_in(
        &self,
        parent: Option<&EntityId>,
        kind: EntityKind,
        text: &str,
    ) -> Result<Option<EntityId>> {
        let Some(EntityId::Workspace(workspace)) = parent else { return Ok(None) };
        let Some(id) = id_of(kind, text)? else { return Ok(None) };
        Ok(self.by_id(kind, id).await?.filter(|at| at.workspace() == Some(workspace)))
    }

    /// Finds the entity called `name` among the children of a type.
    pub(super) async fn named(
        &self,
        parent: Option<&EntityId>,
        kind: EntityKind,
        name: &str,
    ) -> Result<Option<AnyEntity>> {
        let Some(id) = self.id_named(parent, kind, name).await? else { return Ok(None) };
        let guard = key::guard(parent, kind, name);
        let at = key::guarded(&guard, kind, id)
            .ok_or_else(|| Error::corrupt(format!("{guard} is no guard of a {kind}")))?;
        // It may have been renamed since its guard was read.
        Ok(self.find(&at).await?.filter(|holder| holder.entity().name == name))
    }

    /// Reads its id, which its guard holds.
    pub(super) async fn id_named(
        &self,
        parent: Option<&EntityId>,
        kind: EntityKind,
        name: &str,
    ) -> Result<Option<Id>> {
        match self.table.get(&key::guard(parent, kind, name)).await? {
            Some(guard) if !is_given_up(&guard) => Ok(Some(Id::parse(guard.text("id")?)?)),
            _ => Ok(None),
        }
    }
}

/// Returns the id that a text is, if it is one.
///
/// # Errors
/// `Invalid`, when it is an id of another type.
fn id_of(kind: EntityKind, text: &str) -> Result<Option<Id>> {
    match key::parse_id(text) {
        Some((Some(other), _)) if other != kind => {
            Err(Error::invalid(format!("`{text}` is the id of a {other}, not of a {kind}")))
        }
        found => Ok(found.map(|(_, id)| id)),
    }
}

/// Error for an entity that is not there.
pub(super) fn missing(kind: EntityKind, text: &str) -> Error {
    Error::not_found(format!("there is no {kind} `{}`{}", cut(text), form(kind, text)))
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Returns the hint on how such an entity is named, if `text` is not of that form.
fn form(kind: EntityKind, text: &str) -> &'static str {
    let (slashes, form) = match kind {
        EntityKind::Workspace => (1, " (a workspace is named category/name)"),
        EntityKind::Model | EntityKind::Configuration | EntityKind::Snapshot => {
            (2, " (it is named category/workspace/name)")
        }
        EntityKind::Release => (2, " (a release is named category/workspace/model@name)"),
        _ => (0, ""),
    };
    if text.matches('/').count() == slashes { "" } else { form }
}
