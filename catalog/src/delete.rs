//! Deleting entities.
//!
//! An entity with children or events (other than the one that registered it) can be deleted only once it is archived,
//! together with its children. Events stay. Those of a deleted release stay in the log under its name, which belongs to
//! its model for good (`first`): a new release with that name and model has them again. Those of a deleted workspace
//! stay in the table, out of reach.
//!
//! A live release must be retired first: once deleted, it could be neither retired nor replaced by a rollback.

use event::{Error, Kind, Result, Timestamp};
use log::key::{self, Counted, EntityId, EntityKind};
use table::{
    Condition, Index, MAX_TRANSACTION_BYTES, Query, Update, Write, item::MAX_ITEM_BYTES, query_all,
    unless_overtaken,
};

use super::{
    AnyEntity, Catalog, Release,
    change::check_fresh,
    closing::{CLOSING, check_closing, release_name, until},
    create::{BUSY, pointer_item},
    live::state_of,
    member,
};

/// Maximum environments for which a deletion is conditional on no promotion since its check; in further ones it only
/// checks.
const MAX_UNCHANGED: usize = 8;

// So all checks fit in a transaction.
const _: () = assert!((MAX_UNCHANGED + 1) * MAX_ITEM_BYTES <= MAX_TRANSACTION_BYTES);

impl Catalog {
    /// Deletes an entity, with its children if it is archived. A workspace is closed first, which takes some seconds
    /// (`closing.rs`).
    ///
    /// # Errors
    /// `NotFound`; `Stale`, when its version is not `if_version`; `Conflict`, when it is not archived
    /// and has children or events, it or a release of it is live, or a workspace is changed while it is closing.
    pub async fn delete(&self, at: &EntityId, if_version: Option<i64>, now: Timestamp) -> Result<()> {
        let known = self.get(at).await?;
        check_fresh(&known, if_version)?;
        self.check_used(&known).await?;
        self.close(&known, now).await?;
        let mut tries = BUSY.tries();
        loop {
            tries.next().await?;
            let known = self.get(at).await?;
            check_fresh(&known, if_version)?;
            check_closing(&known)?;
            let not_live = self.refuse_if_live(&known).await?;
            match known.entity().archived_at {
                // Events accepted while it was closing are in the log by now.
                None => {
                    if let Err(refused) = self.refuse_if_used(&known).await {
                        self.reopen(&known).await?;
                        return Err(refused);
                    }
                }
                Some(_) => {
                    if self.delete_children(&known, &not_live, now).await?.is_none() {
                        continue;
                    }
                }
            }
            self.delete_traces(at).await?;
            if unless_overtaken(self.remove(&known, not_live, now).await)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Checks that an entity may be deleted as it is now, and deletes nothing.
    ///
    /// # Errors
    /// `NotFound`; `Conflict`, when it is not archived and has children or events, or it or a release of it is live.
    pub async fn check_deletable(&self, at: &EntityId) -> Result<()> {
        self.check_used(&self.get(at).await?).await
    }

    async fn check_used(&self, known: &AnyEntity) -> Result<()> {
        self.refuse_if_live(known).await?;
        match known.entity().archived_at {
            Some(_) => Ok(()),
            None => self.refuse_if_used(known).await,
        }
    }

    /// Refuses to delete a live release, or a model with one. Returns the checks that none went live since.
    async fn refuse_if_live(&self, known: &AnyEntity) -> Result<Vec<Write>> {
        let at = known.at();
        let (EntityId::Release(workspace, id) | EntityId::Model(workspace, id)) = &at else {
            return Ok(Vec::new());
        };
        let page = self.page(workspace).await?;
        let is_of = |release: &&Release| release.entity.id == *id || release.model_id == *id;
        let going: Vec<&Release> = page.releases.iter().filter(is_of).collect();
        let mut unchanged = Vec::new();
        for item in query_all(&*self.table, Query::table(key::lives(workspace))).await? {
            let state = state_of(&item)?;
            let is_live = |release: &&&Release| {
                state.get(&release.model).is_some_and(|live| live.release == release.entity.name)
            };
            if let Some(release) = going.iter().find(is_live) {
                let (name, environment) = (&release.entity.name, key::parse_live(&item.key.sk));
                let message = format!(
                    "the release `{name}` is live in {}; retire it first",
                    environment.unwrap_or("?")
                );
                return Err(Error::conflict(message));
            }
            let as_it_was = Condition::unchanged(item.int("ver")?);
            unchanged.push(Write::Check(item.key, as_it_was));
        }
        unchanged.truncate(MAX_UNCHANGED);
        Ok(unchanged)
    }

    /// Refuses to delete an entity with children or events.
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
                let counts = self.counts(&release.workspace, &counted, ("", "")).await?;
                // One event in the log of releases is the one that registered it.
                let has_more =
                    |(kind, count): (&String, &i64)| *count > i64::from(*kind == Kind::Releases.name());
                if self.is_used(release).await? || counts.iter().any(has_more) {
                    return used("events".into());
                }
            }
            AnyEntity::Model(_) | AnyEntity::Configuration(_) | AnyEntity::Snapshot(_) => {
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

    /// Returns the releases of a model, with a configuration, or tuned on a snapshot.
    pub(super) async fn releases_with(&self, of: &EntityId) -> Result<Vec<EntityId>> {
        let Some(workspace) = of.workspace() else { return Ok(Vec::new()) };
        let page = self.page(workspace).await?;
        let is_with = |release: &&Release| match of.kind() {
            EntityKind::Model => release.model_id == *of.id(),
            EntityKind::Snapshot => release.details.tuned_on.as_ref().is_some_and(|on| on.id == *of.id()),
            _ => release.configuration_id.as_ref() == Some(of.id()),
        };
        let at = |release: &Release| EntityId::Release(workspace.clone(), release.entity.id.clone());
        Ok(page.releases.iter().filter(is_with).map(at).collect())
    }

    /// Deletes the children of an archived entity, each under the checks `not_live`. Can be repeated after an
    /// interruption; `None` if another caller was quicker. (Deleting a configuration or a snapshot keeps its releases,
    /// which keep its name.)
    async fn delete_children(
        &self,
        known: &AnyEntity,
        not_live: &[Write],
        now: Timestamp,
    ) -> Result<Option<()>> {
        let at = known.at();
        let children = match at.kind() {
            EntityKind::Model => self.releases_with(&at).await?,
            EntityKind::Configuration | EntityKind::Snapshot => Vec::new(),
            kind => {
                let mut children = Vec::new();
                for kind in kind.children() {
                    for (_, id) in self.names_taken(&at, kind).await? {
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
                check_closing(&known)?;
                if Box::pin(self.delete_children(&known, &[], now)).await?.is_none() {
                    return Ok(None);
                }
            }
            // Its children are gone, and no longer counted.
            let Some(known) = self.find(&child).await? else { continue };
            check_closing(&known)?;
            self.delete_traces(&child).await?;
            if unless_overtaken(self.remove(&known, not_live.to_vec(), now).await)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Deletes other items of an entity: memberships, grants, counters, the runs of a workspace, and the rest of its
    /// partition.
    async fn delete_traces(&self, at: &EntityId) -> Result<()> {
        let own = at.key();
        let mut ranges = vec![match at.workspace() {
            Some(_) => Query::table(key::free_counters(at)),
            None => Query::index(Index::Table, own.pk.clone()),
        }];
        if at.kind() == EntityKind::Workspace {
            ranges.extend(key::of_runs(at.id()).map(|partition| Query::index(Index::Table, partition)));
        }
        for range in ranges {
            for item in query_all(&*self.table, range.only(&["v"])).await? {
                if item.key == own || EntityId::of_key(&item.key).is_some() {
                    continue;
                }
                if let Some(twin) = member::twin(&item.key) {
                    self.table.delete(&twin, Condition::None).await?;
                }
                self.table.delete(&item.key, Condition::None).await?;
            }
        }
        Ok(())
    }

    /// Deletes an entity with its unique-name item, its pointer and its share in its parent's count, if it has not
    /// changed and has no children, under `demanded` checks.
    async fn remove(&self, known: &AnyEntity, demanded: Vec<Write>, now: Timestamp) -> Result<()> {
        let (at, parent) = (known.at(), known.parent());
        let mut writes = demanded;
        writes.push(Write::Delete(at.key(), unchanged(known)));
        writes.push(release_name(known, &known.entity().name, until(now)));
        writes.extend(pointer_item(known).map(|pointer| Write::Delete(pointer.key, Condition::None)));
        writes.extend(self.unbind(known).await?);
        writes.extend(self.unpin_of(known, now).await?);
        if let (Some(parent), Some(counter)) = (parent, at.kind().counter()) {
            writes.push(Write::Update(Update::new(parent.key(), Condition::Exists).add(counter, -1)));
        }
        self.table.transact(writes).await
    }
}

/// Condition that it is as it was read, and has no children.
fn unchanged(known: &AnyEntity) -> Condition {
    let version = Condition::Equals("ver", known.entity().version.into());
    let mark = known.entity().closing.as_ref().map(|mark| Condition::Equals(CLOSING, mark.as_str().into()));
    let counters = known.at().kind().children().filter_map(EntityKind::counter);
    let none = counters.map(|counter| Condition::Equals(counter, 0.into()));
    Condition::All([version].into_iter().chain(none).chain(mark).collect())
}
