//! Closing workspaces before they are deleted, and reserving names for a while after they were given up.
//!
//! A writer may use the path of a workspace for [`CACHED_SECONDS`] after looking it up. So:
//!
//! - A deletion marks the workspace as closing, waits until no writer uses its state from before the mark, and then deletes it.
//!   An event admitted before lands in the workspace while it is there; a later one finds it closing and is refused. The deleting
//!   process counts the wait: no two clocks are compared. An interrupted deletion continues when it is called again, and waits
//!   again. Any change of the workspace takes the mark back.
//! - A name of a workspace or category that was given up, by a deletion or a rename, cannot be taken for [`RESERVED_SECONDS`]:
//!   its guard stays, and expires. So no path leads to a new workspace while it may be taken for the old one. (A rename needs no
//!   wait: events still appended by the old path land in the same workspace.)

use event::{Error, Id, Result, Timestamp};
use log::key::{self, EntityId, EntityKind};
use table::{Condition, Item, Query, Update, Write, query_all, unless_overtaken};

use super::{AnyEntity, Catalog, Workspace, create::BUSY};

/// Time for which a writer may use a remembered workspace, in seconds.
pub const CACHED_SECONDS: i64 = 5;

/// Time that a deletion waits for that, in seconds.
pub(super) const CLOSING_SECONDS: u64 = CACHED_SECONDS as u64 + 1;

/// Time for which a name that was given up cannot be taken, in seconds: far longer than [`CACHED_SECONDS`], since it
/// expires by the clocks of other processes.
pub const RESERVED_SECONDS: i64 = 60;

/// Attribute of a workspace that is about to be deleted: a mark of its own for each deletion.
pub(super) const CLOSING: &str = "closing";

/// Attribute of a unique-name item whose name was given up.
const GIVEN_UP: &str = "given_up";

impl Workspace {
    /// Refuses a workspace that is about to be deleted.
    ///
    /// # Errors
    /// `Conflict`, when it is.
    pub fn check_open(&self) -> Result<()> {
        match self.entity.closing {
            None => Ok(()),
            Some(_) => Err(Error::conflict(format!(
                "the workspace `{}` is being deleted, and takes no events any more; deleting it again ends that, \
                 any change of it (`almanac workspace update {0} --archived=false`) takes it back",
                self.path
            ))),
        }
    }
}

/// Returns whether names of a type are reserved for a while, since paths with them are cached.
pub(super) fn is_reserved(kind: EntityKind) -> bool {
    matches!(kind, EntityKind::Category | EntityKind::Workspace)
}

/// Last second, since 1970, of the reservation of a name that is given up at `now`.
pub(super) fn until(now: Timestamp) -> i64 {
    now.plus_seconds(RESERVED_SECONDS).micros() / 1_000_000
}

/// Unique-name item of a name that an entity gives up.
pub(super) fn given_up(any: &AnyEntity, name: &str, until: i64) -> Item {
    let guard = key::guard(any.parent().as_ref(), any.at().kind(), name);
    let item = Item::new(guard).with("v", 1).with("id", any.entity().id.as_str()).with(GIVEN_UP, 1);
    item.with("expires_at", until)
}

/// Gives a name up: its unique-name item is deleted, or stays reserved for a while.
pub(super) fn release_name(any: &AnyEntity, name: &str, until: i64) -> Write {
    let own = Condition::Equals("id", any.entity().id.as_str().into());
    match is_reserved(any.at().kind()) {
        true => Write::Put(given_up(any, name, until), own),
        false => Write::Delete(key::guard(any.parent().as_ref(), any.at().kind(), name), own),
    }
}

/// Returns whether the name of a unique-name item was given up.
pub(super) fn is_given_up(guard: &Item) -> bool {
    guard.attributes.contains_key(GIVEN_UP)
}

fn reserved(kind: EntityKind, name: &str) -> Error {
    Error::conflict(format!(
        "the name `{name}` was that of another {kind} a moment ago, and is free again {RESERVED_SECONDS} s after that"
    ))
}

impl Catalog {
    /// Reads the names of children of a type and their owners, without names that were given up.
    pub(super) async fn names_taken(&self, parent: &EntityId, kind: EntityKind) -> Result<Vec<(String, Id)>> {
        let guards = Query::table(key::names_of(Some(parent), kind)).only(&["id", GIVEN_UP]);
        let guards = query_all(&*self.table, guards).await?;
        let taken = guards.into_iter().filter(|guard| !is_given_up(guard));
        taken.map(|guard| Ok((guard.key.sk.clone(), Id::parse(guard.text("id")?)?))).collect()
    }

    /// Condition on the guard of a name that `any` takes: it is absent, or the name was given up by `any` itself.
    ///
    /// # Errors
    /// `Conflict`, when another entity gave it up a moment ago.
    pub(super) async fn free_name(&self, any: &AnyEntity) -> Result<Condition> {
        let (kind, name) = (any.at().kind(), &any.entity().name);
        if !is_reserved(kind) {
            return Ok(Condition::Absent);
        }
        let guard = self.table.get(&key::guard(any.parent().as_ref(), kind, name)).await?;
        match guard.filter(is_given_up) {
            None => Ok(Condition::Absent),
            Some(guard) if guard.text("id")? == any.entity().id.as_str() => Ok(Condition::All(vec![
                Condition::Equals("id", guard.text("id")?.into()),
                Condition::Equals(GIVEN_UP, 1.into()),
            ])),
            Some(_) => Err(reserved(kind, name)),
        }
    }

    /// Marks the workspaces that would be deleted with an entity and take events, and waits until no writer uses their state from
    /// before the mark. Returns whether there was anything to wait for.
    pub(super) async fn close(&self, known: &AnyEntity, now: Timestamp) -> Result<bool> {
        let workspaces = match known {
            AnyEntity::Workspace(workspace) => vec![workspace.id().clone()],
            AnyEntity::Category(category) => {
                let at = EntityId::Category(category.entity.id.clone());
                self.names_taken(&at, EntityKind::Workspace).await?.into_iter().map(|(_, id)| id).collect()
            }
            _ => Vec::new(),
        };
        for id in &workspaces {
            self.mark(&EntityId::Workspace(id.clone()), now).await?;
        }
        if workspaces.is_empty() {
            return Ok(false);
        }
        tokio::time::sleep(self.cache_wait).await;
        Ok(true)
    }

    /// Marks a workspace as closing, unless it is closing already.
    async fn mark(&self, at: &EntityId, now: Timestamp) -> Result<()> {
        let mut tries = BUSY.tries();
        loop {
            tries.next().await?;
            let Some(known) = self.find(at).await? else { return Ok(()) };
            if known.entity().closing.is_some() {
                return Ok(());
            }
            let same = Condition::Equals("ver", known.entity().version.into());
            let free = Condition::All(vec![same, Condition::Without(CLOSING)]);
            let update = Update::new(at.key(), free).set(CLOSING, Id::new(now).as_str());
            if unless_overtaken(self.table.transact(vec![Write::Update(update)]).await)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Removes the mark of a deletion that is refused.
    pub(super) async fn reopen(&self, known: &AnyEntity) -> Result<()> {
        let Some(mark) = &known.entity().closing else { return Ok(()) };
        let own = Condition::Equals(CLOSING, mark.as_str().into());
        let update = Update::new(known.at().key(), own).remove(CLOSING);
        unless_overtaken(self.table.transact(vec![Write::Update(update)]).await).map(drop)
    }
}

/// Refuses to delete a workspace that is not closing.
pub(super) fn check_closing(known: &AnyEntity) -> Result<()> {
    match (known, &known.entity().closing) {
        (AnyEntity::Workspace(workspace), None) => Err(Error::conflict(format!(
            "the workspace `{}` was changed while it was to be deleted, and stays",
            workspace.path
        ))),
        _ => Ok(()),
    }
}
