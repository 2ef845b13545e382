//! Places: the workspace and category of something. Callers who may not see a workspace learn nothing from the number of reads:
//! for one kind of name it is the same if the thing exists or not.

use event::{Error, Id, Result, id::check_name};
use log::key::{self, EntityId, EntityKind, Scope};

use super::{AnyEntity, Catalog, address};

/// Category, or a workspace of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The category.
    pub category: Id,
    /// The workspace.
    pub workspace: Option<Id>,
}

impl Place {
    /// Scopes in which a role holds here, the server among them.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> {
        let workspace = self.workspace.clone().map(Scope::Workspace);
        [Some(Scope::Server), Some(Scope::Category(self.category.clone())), workspace].into_iter().flatten()
    }
}

/// An id that no entity has.
fn nothing() -> Result<Id> {
    Id::parse("000000000000000000000000000")
}

impl Catalog {
    /// Reads the place of the category or workspace that `text` names, or of the workspace that contains the named entity.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn place(&self, kind: EntityKind, text: &str) -> Result<Option<Place>> {
        let mut by_id = None;
        if let Some((found, id)) = key::parse_id(text) {
            if found.is_some_and(|found| found != kind) {
                return Ok(None);
            }
            if kind != EntityKind::Category {
                return self.place_of_id(kind, id).await;
            }
            by_id = self.find(&EntityId::Category(id)).await?.map(|any| any.entity().id.clone());
        }
        let segments: Vec<&str> = text.split('/').collect();
        let (category, workspace) = match (kind, segments.as_slice()) {
            (EntityKind::Category, [category]) => (*category, None),
            (EntityKind::Workspace, [category, workspace]) => (*category, Some(*workspace)),
            (kind, [workspace, _]) if kind.parent() == Some(EntityKind::Workspace) => {
                return Box::pin(self.place(EntityKind::Workspace, workspace)).await;
            }
            (kind, [category, workspace, _]) if kind.parent() == Some(EntityKind::Workspace) => {
                (*category, Some(*workspace))
            }
            _ => return Ok(None),
        };
        if [Some(category), workspace].into_iter().flatten().any(|name| check_name(name).is_err()) {
            return Ok(None);
        }
        let found = self.id_named(None, EntityKind::Category, category).await?;
        let Some(workspace) = workspace else {
            return Ok(by_id.or(found).map(|category| Place { category, workspace: None }));
        };
        let category = found.clone().map_or_else(nothing, Ok)?;
        let parent = EntityId::Category(category.clone());
        let workspace = self.id_named(Some(&parent), EntityKind::Workspace, workspace).await?;
        let found = found.and(workspace);
        Ok(found.map(|workspace| Place { category, workspace: Some(workspace) }))
    }

    async fn place_of_id(&self, kind: EntityKind, id: Id) -> Result<Option<Place>> {
        let id = match kind.parent() {
            Some(EntityKind::Workspace) => match self.table.get(&key::pointer(&id)).await? {
                Some(item) if item.text("type")? == kind.prefix() => Id::parse(item.text("workspace")?)?,
                _ => nothing()?,
            },
            _ => id,
        };
        Ok(match self.find(&EntityId::Workspace(id)).await? {
            Some(AnyEntity::Workspace(workspace)) => {
                Some(Place { category: workspace.category.clone(), workspace: Some(workspace.entity.id) })
            }
            _ => None,
        })
    }

    /// Finds the user, group or system that `text` names.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn principal_named(&self, kind: EntityKind, text: &str) -> Result<Option<EntityId>> {
        let mut found = None;
        if let Some((of, id)) = key::parse_id(text)
            && of.is_none_or(|of| of == kind)
            && let Some(at) = EntityId::new(kind, id, None)
        {
            found = self.find(&at).await?.map(|any| any.at());
        }
        if check_name(text).is_ok() {
            let named = self.id_named(None, kind, text).await?;
            found = found.or(named.and_then(|id| EntityId::new(kind, id, None)));
        }
        Ok(found)
    }

    /// Error of [`Catalog::resolve`] for an entity that does not exist.
    pub fn missing(kind: EntityKind, text: &str) -> Error {
        address::missing(kind, text)
    }
}
