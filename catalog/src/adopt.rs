//! Adopting entities of another table: under their own ids, with all attributes of their items.

use event::{Error, ErrorKind, Result, Timestamp};
use log::key::{self, EntityId, EntityKind};
use table::Item;

use super::{AnyEntity, Catalog, closing::CLOSING, create::taken};

impl Catalog {
    /// Refuses a user, a group, a system or a workspace of another table whose name another entity has here. One that is here under the
    /// same id may have another name.
    ///
    /// # Errors
    /// `Conflict`, when the name is taken; `Corrupt`, when the item is of no such entity.
    pub async fn check_adoptable(&self, item: &Item) -> Result<()> {
        let any = AnyEntity::from_item(item)?;
        if self.find(&any.at()).await?.is_some() {
            return Ok(());
        }
        let entity = any.entity();
        let holder = match &any {
            AnyEntity::Workspace(workspace) => {
                let known = self.workspace(&workspace.path).await;
                known.map(|known| Some(known.id().clone())).or_else(|error| {
                    match error.kind() == ErrorKind::NotFound {
                        true => Ok(None),
                        false => Err(error),
                    }
                })?
            }
            _ => self.id_named(None, any.at().kind(), &entity.name).await?,
        };
        match holder.is_some_and(|holder| holder != entity.id) {
            true => Err(taken(any.at().kind(), &entity.name)),
            false => Ok(()),
        }
    }

    /// Adopts a user, a group, a system or a workspace of another table by its item, unless it is here. A workspace comes into the
    /// category with the name of its old one, which is created when it is new.
    ///
    /// # Errors
    /// `Conflict`, when its name is taken; `Invalid`, when it belongs to a workspace; `Corrupt`, when the item is of no entity.
    pub async fn adopt(&self, item: &Item, now: Timestamp) -> Result<AnyEntity> {
        let mut any = AnyEntity::from_item(item)?;
        if let Some(known) = self.find(&any.at()).await? {
            return Ok(known);
        }
        let mut item = item.clone();
        match &mut any {
            AnyEntity::Workspace(workspace) => {
                let (category, _) = super::split_path(&workspace.path)?;
                workspace.category = self.ensure_category(category, now).await?.entity.id;
                // A deletion that had begun there does not go on here.
                workspace.entity.closing = None;
                item.attributes.remove(CLOSING);
                let parent = EntityId::Category(workspace.category.clone());
                item = item.with("category", workspace.category.as_str());
                if let Some((pk, sk)) =
                    key::entity_index(EntityKind::Workspace, Some(&parent), workspace.id())
                {
                    item = item.with("GSI1PK", pk).with("GSI1SK", sk);
                }
            }
            AnyEntity::User(_) | AnyEntity::Group(_) | AnyEntity::System(_) => {}
            other => {
                return Err(Error::invalid(format!("a {} comes with its workspace", other.at().kind())));
            }
        }
        self.insert_as(&any, item, now).await?;
        Ok(any)
    }
}
