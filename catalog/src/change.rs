//! Changing entities: attributes, name, and whether it is archived.

use std::collections::BTreeMap;

use event::{Definition, Error, ErrorKind, Result, Timestamp, id::check_name};
use log::key::{EntityId, EntityKind};
use table::{Condition, Update, Write, item::Value, unless_overtaken};

use super::{
    AnyEntity, Catalog,
    attributes::check_attributes,
    closing::{release_name, until},
    create::{BUSY, guard_item, taken},
};

/// Changes of an entity. Attributes that keys or identities are made of cannot be named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    /// New name. A release keeps its name, since events name it; so does a model with releases.
    pub name: Option<String>,
    /// True to archive it, so that it takes no more children and may be deleted with those it has; false to restore it.
    pub archived: Option<bool>,
    /// Attributes to set, or, if `None`, to remove. Others stay.
    pub attributes: BTreeMap<String, Option<Value>>,
}

impl Patch {
    /// A patch of the name.
    pub fn rename(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::default() }
    }

    /// A patch that archives or restores.
    pub fn archive(archived: bool) -> Self {
        Self { archived: Some(archived), ..Self::default() }
    }

    /// Returns the changed entity.
    ///
    /// # Errors
    /// `Invalid`, when it cannot be changed so.
    pub fn apply(&self, before: &AnyEntity, now: Timestamp) -> Result<AnyEntity> {
        let mut after = before.clone();
        if let Some(name) = &self.name {
            check_name(name)?;
            match &mut after {
                AnyEntity::Release(release) if release.entity.name != *name => {
                    return Err(Error::invalid(format!(
                        "the release `{}` keeps its name: events name it",
                        release.entity.name
                    )));
                }
                AnyEntity::Workspace(workspace) => {
                    let category = workspace.path.split('/').next().unwrap_or_default();
                    workspace.path = format!("{category}/{name}");
                }
                _ => {}
            }
            after.entity_mut().name.clone_from(name);
        }
        let kind = after.at().kind();
        let entity = after.entity_mut();
        match self.archived {
            Some(true) => entity.archived_at = entity.archived_at.or(Some(now)),
            Some(false) => entity.archived_at = None,
            None => {}
        }
        for (name, value) in &self.attributes {
            if value.is_some() {
                refuse_own(kind, name)?;
            }
            match value {
                Some(value) => _ = entity.attributes.insert(name.clone(), value.clone()),
                None => _ = entity.attributes.remove(name),
            }
        }
        check_attributes(&entity.attributes)?;
        // A change of the workspace cancels its deletion.
        entity.closing = None;
        if after != *before {
            let entity = after.entity_mut();
            entity.updated_at = now;
            entity.version += 1;
        }
        Ok(after)
    }
}

/// Makes the update from the item of `before` to that of `after`, conditional on no change in between, including `more`
/// attributes than a [`Patch`] changes. The index attributes are always derived and written again.
pub(super) fn update(before: &AnyEntity, after: &AnyEntity, more: &[&str]) -> Update {
    let unchanged = Condition::Equals("ver", before.entity().version.into());
    let mut update = Update::new(after.at().key(), unchanged);
    let mut item = after.to_item();
    let usual =
        ["name", "path", "ver", "updated_at", "archived_at", "closing", "attributes", "GSI1PK", "GSI1SK"];
    for name in usual.iter().chain(more) {
        match item.attributes.remove(*name) {
            Some(value) => _ = update.set.insert((*name).to_owned(), value),
            None => update.remove.push((*name).to_owned()),
        }
    }
    update
}

impl Catalog {
    /// Changes an entity, and returns it as changed. A rename moves its unique-name item.
    ///
    /// # Errors
    /// `NotFound`; `Stale`, when its version is not `if_version`; `Conflict`, when the name is taken;
    /// `Invalid`, when it cannot be changed so.
    pub async fn change(
        &self,
        at: &EntityId,
        patch: &Patch,
        if_version: Option<i64>,
        now: Timestamp,
    ) -> Result<AnyEntity> {
        let mut tries = BUSY.tries();
        loop {
            tries.next().await?;
            let before = self.get(at).await?;
            check_fresh(&before, if_version)?;
            let after = patch.apply(&before, now)?;
            if after == before {
                self.rewrite_paths(&after).await?;
                return Ok(after);
            }
            let is_renamed = before.entity().name != after.entity().name;
            let written = match is_renamed {
                true => self.rename(&before, &after, now).await,
                false => self.table.transact(vec![Write::Update(update(&before, &after, &[]))]).await,
            };
            if unless_overtaken(written)?.is_some() {
                if is_renamed {
                    self.rewrite_paths(&after).await?;
                }
                return Ok(after);
            }
            if is_renamed {
                self.free_name(&after).await?;
                let name = &after.entity().name;
                let parent = after.parent();
                let holder = self.id_named(parent.as_ref(), at.kind(), name).await?;
                if holder.is_some_and(|holder| holder != *at.id()) {
                    return Err(taken(at.kind(), name));
                }
            }
        }
    }

    /// Moves the unique-name item, in one transaction.
    async fn rename(&self, before: &AnyEntity, after: &AnyEntity, now: Timestamp) -> Result<()> {
        let mut writes: Vec<Write> = self.unreleased(before).await?.into_iter().collect();
        let free = self.free_name(after).await?;
        writes.push(Write::Update(update(before, after, &[])));
        writes.push(Write::Put(guard_item(after), free));
        writes.push(release_name(before, &before.entity().name, until(now)));
        self.table.transact(writes).await
    }

    /// Refuses another name for a model with releases: events, live releases, definitions and metrics use that name.
    /// Returns the check that no release was created since.
    async fn unreleased(&self, known: &AnyEntity) -> Result<Option<Write>> {
        let AnyEntity::Model(model) = known else { return Ok(None) };
        let at = EntityId::Workspace(model.workspace.clone());
        let children = self.get(&at).await?.children();
        let releases = self.releases_with(&known.at()).await?.len();
        if releases > 0 {
            let (name, is) = (&model.entity.name, if releases == 1 { "release" } else { "releases" });
            return Err(Error::invalid(format!(
                "the model `{name}` keeps its name: events name it with its {releases} {is}"
            )));
        }
        let counted = EntityKind::Release.counter().map(|counter| match children.get(&EntityKind::Release) {
            Some(count) => Condition::Equals(counter, (*count).into()),
            None => Condition::Without(counter),
        });
        Ok(counted.map(|counted| Write::Check(at.key(), counted)))
    }

    /// Writes the new name of a category into the paths of its workspaces. Look-ups use unique-name items, so an old
    /// path misleads none. Repeating the rename completes an interrupted one.
    async fn rewrite_paths(&self, category: &AnyEntity) -> Result<()> {
        let AnyEntity::Category(category) = category else { return Ok(()) };
        let at = EntityId::Category(category.entity.id.clone());
        for (name, id) in self.names_taken(&at, EntityKind::Workspace).await? {
            let path = format!("{}/{name}", category.entity.name);
            let own = Condition::Equals("name", name.into());
            let update = Update::new(EntityId::Workspace(id).key(), own).set("path", path);
            // Unless the workspace was renamed or deleted at the same time.
            unless_overtaken(self.table.transact(vec![Write::Update(update)]).await)?;
        }
        Ok(())
    }
}

/// Refuses an attribute with the name of an entity's own field: it would change nothing.
fn refuse_own(kind: EntityKind, name: &str) -> Result<()> {
    let own: &[&str] = match kind {
        EntityKind::Model => &Definition::FIELDS,
        EntityKind::Release => &["model", "configuration", "environment", "snapshot"],
        EntityKind::Snapshot => &["what", "columns", "rows", "digest", "read_version"],
        _ => &[],
    };
    if !own.contains(&name) && !["id", "name", "created_at", "archived_at", "version"].contains(&name) {
        return Ok(());
    }
    let how = match (kind, name) {
        (EntityKind::Model, name) if Definition::FIELDS.contains(&name) => {
            "`almanac model define` changes it from a day on"
        }
        (EntityKind::Release, "model" | "configuration" | "environment" | "snapshot") => {
            "a release never changes"
        }
        (EntityKind::Snapshot, "what" | "columns" | "rows" | "digest" | "read_version") => {
            "what a snapshot is of never changes"
        }
        (_, "name") => "`rename` changes it",
        _ => "it cannot be set",
    };
    Err(Error::invalid(format!("`{name}` is no attribute of a {kind} but its own: {how}")))
}

/// Refuses a change if the entity has changed since the caller read it.
pub(super) fn check_fresh(known: &AnyEntity, if_version: Option<i64>) -> Result<()> {
    let version = known.entity().version;
    match if_version {
        Some(wanted) if wanted != version => Err(Error::new(
            ErrorKind::Stale,
            format!("it has changed: its version is {version}, not {wanted}; read it again"),
        )),
        _ => Ok(()),
    }
}
