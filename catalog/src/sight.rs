//! Visibility of workspaces to a caller.

use std::collections::BTreeSet;

use event::{Id, Result};
use log::key::{EntityId, EntityKind, Scope};

use super::{AnsweredReview, AnyEntity, Catalog, Follow, Workspace};

/// Visible part of the catalog for a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// The whole catalog.
    #[default]
    Everything,
    /// These categories with their workspaces, and these workspaces.
    Only(BTreeSet<Scope>),
}

impl Sight {
    /// Returns whether a workspace of a category is in sight.
    pub fn has(&self, workspace: &Id, category: &Id) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(scopes) => {
                scopes.contains(&Scope::Workspace(workspace.clone()))
                    || scopes.contains(&Scope::Category(category.clone()))
            }
        }
    }
}

impl Catalog {
    /// Keeps the follows whose workspaces are in sight.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn in_sight(&self, follows: Vec<Follow>, sight: &Sight) -> Result<Vec<Follow>> {
        let mut seen = Vec::with_capacity(follows.len());
        for follow in follows {
            if self.is_in_sight(follow.followed.workspace(), sight).await? {
                seen.push(follow);
            }
        }
        Ok(seen)
    }

    /// Keeps the answers in workspaces that are in sight.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn answered_in_sight(
        &self,
        answered: Vec<AnsweredReview>,
        sight: &Sight,
    ) -> Result<Vec<AnsweredReview>> {
        let mut seen = Vec::with_capacity(answered.len());
        for one in answered {
            if self.is_in_sight(&one.workspace, sight).await? {
                seen.push(one);
            }
        }
        Ok(seen)
    }

    /// Returns whether a workspace is in sight.
    async fn is_in_sight(&self, id: &Id, sight: &Sight) -> Result<bool> {
        Ok(match sight {
            Sight::Everything => true,
            Sight::Only(_) => match self.find(&EntityId::Workspace(id.clone())).await? {
                Some(AnyEntity::Workspace(workspace)) => sight.has(id, &workspace.category),
                _ => false,
            },
        })
    }

    /// Reads the workspaces that are in sight, by the age of their category and then by their own. Nothing else is read.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn workspaces_in(&self, sight: &Sight) -> Result<Vec<Workspace>> {
        let Sight::Only(scopes) = sight else { return self.workspaces().await };
        let mut found = std::collections::BTreeMap::new();
        for scope in scopes {
            let any = match scope {
                Scope::Category(_) => match scope.entity() {
                    Some(category) => self.every(EntityKind::Workspace, Some(&category)).await?,
                    None => Vec::new(),
                },
                Scope::Workspace(id) => {
                    self.find(&EntityId::Workspace(id.clone())).await?.into_iter().collect()
                }
                Scope::Server => Vec::new(),
            };
            for any in any {
                if let AnyEntity::Workspace(workspace) = any {
                    found.insert(workspace.id().clone(), workspace);
                }
            }
        }
        let mut workspaces: Vec<Workspace> = found.into_values().collect();
        // Ids of categories sort by age.
        workspaces.sort_by(|a, b| a.category.cmp(&b.category).then_with(|| a.entity.by_age(&b.entity)));
        Ok(workspaces)
    }

    /// Reads the categories that are in sight, the oldest first. Nothing else is read.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn categories_in(&self, scopes: &BTreeSet<Scope>) -> Result<Vec<AnyEntity>> {
        let mut found = Vec::new();
        for scope in scopes {
            if let Scope::Category(id) = scope {
                found.extend(self.find(&EntityId::Category(id.clone())).await?);
            }
        }
        found.sort_by(|a, b| a.entity().id.cmp(&b.entity().id));
        Ok(found)
    }
}
