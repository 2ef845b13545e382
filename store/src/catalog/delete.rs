//! Deleting entities, and when that is refused.
//!
//! What has children or events is deleted only once it is archived, and then with its children. Events
//! are never deleted here: those of a release stay in the log under its name, and whoever creates a
//! release of that name anew finds them again; those of a workspace stay in the table, where nothing
//! leads to them any more.

use super::{
    AnyEntity, Catalog, Children,
    change::check_fresh,
    create::{MAX_ATTEMPTS, busy, pause, pointer_item},
    member,
};
use crate::{
    Error, Result,
    key::{self, Counted, EntityId, EntityKind},
    table::{Condition, Index, Query, Update, Write, query_all},
};

impl Catalog {
    /// Deletes an entity; when it is archived, with its children.
    ///
    /// # Errors
    /// `NotFound`; `Stale`, when its version is not `if_version`; `Conflict`, when it is not archived
    /// and has children or events.
    pub async fn delete(&self, at: &EntityId, if_version: Option<i64>) -> Result<()> {
        for attempt in 0..MAX_ATTEMPTS {
            let known = self.get(at).await?;
            check_fresh(&known, if_version)?;
            match known.entity().archived_at {
                None => self.refuse_if_used(&known).await?,
                Some(_) => self.delete_children(&known).await?,
            }
            self.delete_traces(at).await?;
            let outcome = match self.table.transactions() {
                true => self.remove(&known).await,
                false => self.remove_in_steps(&known).await,
            };
            match outcome {
                Err(error) if error.is_conflict() => pause(attempt).await,
                other => return other,
            }
        }
        Err(busy())
    }

    /// Refuses to delete what has children or events.
    async fn refuse_if_used(&self, known: &AnyEntity) -> Result<()> {
        let used = |what: String| {
            Err(Error::conflict(format!(
                "the {} `{}` has {what}; archive it first, and it is deleted with them",
                known.at().kind(),
                known.entity().name
            )))
        };
        for (kind, count) in known.children() {
            if count > 0 {
                return used(format!("{count} {}", if count == 1 { kind.name() } else { kind.plural() }));
            }
        }
        let first = async |range| {
            let query = Query::table(range).limit(1);
            Ok::<_, Error>(!self.table.query(&query).await?.items.is_empty())
        };
        match known {
            AnyEntity::Workspace(workspace) => {
                if first(key::segments(workspace.id())).await? {
                    return used("events".into());
                }
            }
            AnyEntity::Release(release) => {
                let counted = Counted::Release(release.entity.name.clone());
                if first(key::counters_of(&release.workspace, &counted)).await? {
                    return used("events".into());
                }
            }
            AnyEntity::Model(_) | AnyEntity::Configuration(_) => {
                let releases = self.releases_with(&known.at()).await?.len();
                if releases > 0 {
                    return used(format!("{releases} releases"));
                }
            }
            AnyEntity::Group(_) => {
                if let Some(members) = key::memberships(&known.at())
                    && first(members).await?
                {
                    return used("members".into());
                }
            }
            AnyEntity::Category(_) | AnyEntity::User(_) | AnyEntity::System(_) => {}
        }
        Ok(())
    }

    /// The releases of a model, or with a configuration.
    async fn releases_with(&self, of: &EntityId) -> Result<Vec<EntityId>> {
        let Some(workspace) = of.workspace() else { return Ok(Vec::new()) };
        let page = self.page(workspace).await?;
        let is_with = |release: &&super::Release| match of.kind() {
            EntityKind::Model => release.model_id == *of.id(),
            _ => release.configuration_id.as_ref() == Some(of.id()),
        };
        let at = |release: &super::Release| EntityId::Release(workspace.clone(), release.entity.id.clone());
        Ok(page.releases.iter().filter(is_with).map(at).collect())
    }

    /// Deletes what belongs to an archived entity. Broken off, it goes on when called again. (A
    /// configuration leaves its releases, which keep its name.)
    async fn delete_children(&self, known: &AnyEntity) -> Result<()> {
        let at = known.at();
        let children = match at.kind() {
            EntityKind::Model => self.releases_with(&at).await?,
            EntityKind::Configuration => Vec::new(),
            kind => {
                let mut children = Vec::new();
                for kind in kind.children() {
                    let guards = key::names_of(Some(&at), kind);
                    for guard in query_all(&*self.table, Query::table(guards)).await? {
                        let id = crate::Id::parse(guard.text("id")?)?;
                        let workspace = (kind != EntityKind::Workspace).then(|| at.id().clone());
                        children.extend(EntityId::new(kind, id, workspace));
                    }
                }
                children
            }
        };
        for child in children {
            let Some(known) = self.find(&child).await? else { continue };
            if child.kind() == EntityKind::Workspace {
                Box::pin(self.delete_children(&known)).await?;
            }
            self.delete_traces(&child).await?;
            match self.table.transactions() {
                true => self.remove(&known).await?,
                false => self.remove_in_steps(&known).await?,
            }
        }
        Ok(())
    }

    /// Deletes what is noted of an entity besides itself: memberships, grants, counters, and what else
    /// stands in the partition that ends with it.
    async fn delete_traces(&self, at: &EntityId) -> Result<()> {
        let own = at.key();
        let range = match at.workspace() {
            Some(_) => Query::table(key::free_counters(at)),
            None => Query::index(Index::Table, own.pk.clone()),
        };
        for item in query_all(&*self.table, range.only(&["v"])).await? {
            if item.key == own || EntityId::of_key(&item.key).is_some() {
                continue;
            }
            if let Some(twin) = member::twin(&item.key) {
                self.table.delete(&twin, Condition::None).await?;
            }
            self.table.delete(&item.key, Condition::None).await?;
        }
        Ok(())
    }

    /// Deletes an entity with its guard, its pointer and its share in its parent's count, if it has not
    /// changed and has no children.
    async fn remove(&self, known: &AnyEntity) -> Result<()> {
        let (at, parent) = (known.at(), known.parent());
        let guard = key::guard(parent.as_ref(), at.kind(), &known.entity().name);
        let own = Condition::Equals("id", at.id().as_str().into());
        let mut writes =
            vec![Write::Delete(at.key(), unchanged(known, Vec::new())), Write::Delete(guard, own)];
        writes.extend(pointer_item(known).map(|pointer| Write::Delete(pointer.key, Condition::None)));
        if let (Some(parent), Some(counter)) = (parent, at.kind().counter()) {
            writes.push(Write::Update(Update::new(parent.key(), Condition::Exists).add(counter, -1)));
        }
        self.table.transact(writes).await
    }
}

/// It is as it was read, and has no children.
pub(super) fn unchanged(known: &AnyEntity, more: Vec<Condition>) -> Condition {
    let version = Condition::Equals("ver", known.entity().version.into());
    let none =
        |(kind, _): (EntityKind, i64)| kind.counter().map(|counter| Condition::Equals(counter, 0.into()));
    let children: Children = known.children();
    Condition::All([version].into_iter().chain(children.into_iter().filter_map(none)).chain(more).collect())
}
