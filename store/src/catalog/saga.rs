//! The catalog on an engine without transactions: every change in steps, each of them one conditional
//! write, in an order in which whoever finds it broken off knows what to do.
//!
//! An entity under change says so in its attribute `saga`:
//!
//! | saga | since | what finds it there does |
//! | --- | --- | --- |
//! | `create` | it is written, before the guard of its name | guard leads to it: ends the creation; else it does not exist |
//! | `rename` | the new name is in `saga_to`, before its guard | takes the new guard away: nothing has happened |
//! | `renamed` | it has its new name; the old one is in `saga_from` | takes the old guard away |
//! | `delete` | it has no children, nothing else is gone yet | ends the deletion |
//!
//! So the guard (of a creation) or the entity itself (of the others) is the one place where a change is
//! decided, by one write. What comes after can be done by anybody and more than once: the count of
//! children is no sum but the number of guards, counted again ([`Catalog::recount`]).

use super::{
    AnyEntity, Catalog,
    change::update,
    closing::{is_given_up, release_name, until},
    create::{MAX_ATTEMPTS, busy, guard_item, no_parent, pause, pointer_item, taken},
    delete::unchanged,
};
use crate::{
    Error, Id, Item, Result, Timestamp,
    key::{self, EntityId, EntityKind, Key},
    table::{Condition, Index, Query, Update, Write, query_all},
};

/// How old a creation without a guard must be before [`Catalog::repair`] clears it away, in seconds:
/// longer than anybody takes from the first step to the second.
pub const ABANDONED_SECONDS: i64 = 60 * 60;

/// The attribute that says what an entity is in the middle of.
pub(super) const SAGA: &str = "saga";

/// Until when the name is nobody's that it gives up by that.
const UNTIL: &str = "saga_until";

fn in_saga(name: &str) -> Condition {
    Condition::Equals(SAGA, name.into())
}

impl Catalog {
    async fn one(&self, update: Update) -> Result<()> {
        self.table.transact(vec![Write::Update(update)]).await
    }

    /// Gives a name up, if it is that of `any`.
    async fn give_up(&self, any: &AnyEntity, name: &str, until: i64) -> Result<()> {
        let given = match release_name(any, name, until) {
            Write::Put(guard, own) => self.table.put(guard, own).await,
            _ => return self.drop_guard(&guard_of(any, name), &any.entity().id).await,
        };
        match given {
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }

    /// Takes a guard away, if it is that of `id`.
    async fn drop_guard(&self, guard: &Key, id: &Id) -> Result<()> {
        match self.table.delete(guard, Condition::Equals("id", id.as_str().into())).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }

    /// Places a guard, and takes away one that leads nowhere.
    async fn place_guard(&self, any: &AnyEntity, now: Timestamp) -> Result<()> {
        let (guard, kind) = (guard_item(any, now), any.at().kind());
        for _ in 0..MAX_ATTEMPTS {
            match self.table.put(guard.clone(), Condition::Absent).await {
                Err(error) if error.is_conflict() => {}
                other => return other,
            }
            let Some(found) = self.table.get(&guard.key).await? else { continue };
            if is_given_up(&found) {
                let free = self.free_name(any).await?;
                match self.table.put(guard.clone(), free).await {
                    Err(error) if error.is_conflict() => continue,
                    other => return other,
                }
            }
            if found.text("id")? == guard.text("id")? {
                return Ok(());
            }
            let holder = self.holder(&found, kind).await?;
            if holder.is_some_and(|holder| holder.entity().name == guard.key.sk) {
                return Err(taken(kind, &guard.key.sk));
            }
            // By its `op`, so that one that is placed anew in this moment stays.
            let same = match found.optional_text("op") {
                Some(op) => Condition::Equals("op", op.into()),
                None => Condition::Equals("id", found.text("id")?.into()),
            };
            match self.table.delete(&guard.key, same).await {
                Err(error) if error.is_conflict() => {}
                other => other?,
            }
        }
        Err(busy())
    }

    /// Creates in steps: entity and pointer, guard, count, done.
    pub(super) async fn insert_in_steps(&self, any: &AnyEntity, now: Timestamp) -> Result<()> {
        let parent = any.parent();
        self.check_parent(parent.as_ref(), &any.entity().name).await?;
        self.bind_in_steps(any).await?;
        self.table.put(any.to_item().with(SAGA, "create"), Condition::Absent).await?;
        if let Some(pointer) = pointer_item(any) {
            self.table.put(pointer, Condition::None).await?;
        }
        if let Err(error) = self.place_guard(any, now).await {
            if error.is_conflict() {
                self.discard(any).await?;
            }
            return Err(error);
        }
        // Of several who wanted the name, the one that has it says of which model it is.
        self.bind_in_steps(any).await?;
        match self.end_creation(any).await? {
            true => match self.made_by(any, now).await? {
                Some(item) => self.table.put(item, Condition::None).await,
                None => Ok(()),
            },
            false => Err(no_parent(&any.entity().name)),
        }
    }

    /// Takes away an entity whose creation came to nothing.
    async fn discard(&self, any: &AnyEntity) -> Result<()> {
        if let Some(pointer) = pointer_item(any) {
            self.table.delete(&pointer.key, Condition::None).await?;
        }
        match self.table.delete(&any.at().key(), in_saga("create")).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }

    /// Counts a new entity and shows it; whether its parent was still there.
    async fn end_creation(&self, any: &AnyEntity) -> Result<bool> {
        let (at, parent) = (any.at(), any.parent());
        if let Some(parent) = &parent
            && !self.recount(parent, at.kind()).await?
        {
            self.drop_guard(&guard_of(any, &any.entity().name), at.id()).await?;
            self.discard(any).await?;
            return Ok(false);
        }
        match self.one(Update::new(at.key(), in_saga("create")).remove(SAGA)).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(true),
        }
    }

    /// Renames in steps: intent, new guard, entity, old guard, done.
    pub(super) async fn rename_in_steps(
        &self,
        before: &AnyEntity,
        after: &AnyEntity,
        now: Timestamp,
    ) -> Result<()> {
        let at = before.at();
        let idle = Condition::All(vec![
            Condition::Equals("ver", before.entity().version.into()),
            Condition::Without(SAGA),
        ]);
        let intent =
            Update::new(at.key(), idle).set(SAGA, "rename").set("saga_to", after.entity().name.as_str());
        self.one(intent).await?;
        if let Err(error) = self.place_guard(after, now).await {
            if error.is_conflict() {
                self.one(Update::new(at.key(), in_saga("rename")).remove(SAGA).remove("saga_to")).await?;
            }
            return Err(error);
        }
        let decided = update(before, after, vec![in_saga("rename")])
            .remove("saga_to")
            .set(SAGA, "renamed")
            .set("saga_from", before.entity().name.as_str())
            .set(UNTIL, until(now));
        self.one(decided).await?;
        self.end_rename(after, &before.entity().name, until(now)).await
    }

    async fn end_rename(&self, after: &AnyEntity, from: &str, until: i64) -> Result<()> {
        self.give_up(after, from, until).await?;
        if let Some(parent) = after.parent() {
            self.recount(&parent, after.at().kind()).await?;
        }
        let done =
            Update::new(after.at().key(), in_saga("renamed")).remove(SAGA).remove("saga_from").remove(UNTIL);
        match self.one(done).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes in steps: intent, guard, count, pointer, entity.
    pub(super) async fn remove_in_steps(&self, known: &AnyEntity, now: Timestamp) -> Result<()> {
        let condition = unchanged(known, vec![Condition::Without(SAGA)]);
        let intent = Update::new(known.at().key(), condition).set(SAGA, "delete").set(UNTIL, until(now));
        self.one(intent).await?;
        self.end_deletion(known, until(now)).await
    }

    async fn end_deletion(&self, known: &AnyEntity, until: i64) -> Result<()> {
        let at = known.at();
        self.give_up(known, &known.entity().name, until).await?;
        if let Some(parent) = known.parent() {
            self.recount(&parent, at.kind()).await?;
        }
        if let Some(pointer) = pointer_item(known) {
            self.table.delete(&pointer.key, Condition::None).await?;
        }
        if let Some(write) = self.unbind(known).await? {
            match self.table.transact(vec![write]).await {
                // It was used in this moment, and the name stays.
                Err(error) if error.is_conflict() => {}
                other => other?,
            }
        }
        match self.table.delete(&at.key(), in_saga("delete")).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }

    /// Makes the count of a parent's children the number of their guards; whether the parent is there.
    ///
    /// `counted` tells one counting from the next: who counts reads it before the guards, and writes only
    /// if nobody counted in between. Whoever places or takes away a guard counts after that, so the last
    /// one to write has seen all of them.
    pub(super) async fn recount(&self, parent: &EntityId, kind: EntityKind) -> Result<bool> {
        let Some(counter) = kind.counter() else { return Ok(true) };
        for attempt in 0..MAX_ATTEMPTS {
            let Some(item) = self.table.get(&parent.key()).await? else { return Ok(false) };
            let count = self.names_taken(parent, kind).await?.len() as i64;
            let same = match item.optional_text("counted") {
                Some(seen) => Condition::Equals("counted", seen.into()),
                None => Condition::Without("counted"),
            };
            let update = Update::new(parent.key(), same)
                .set(counter, count)
                .set("counted", Id::new(Timestamp::default()).as_str());
            match self.one(update).await {
                Err(error) if error.is_conflict() => pause(attempt).await,
                other => return other.map(|()| true),
            }
        }
        Err(busy())
    }

    /// What an item is an entity of, after what was begun on it is ended or undone. `None`, when it does
    /// not exist yet, or not any more.
    pub(super) async fn settled(&self, item: Item) -> Result<Option<AnyEntity>> {
        let any = AnyEntity::from_item(&item)?;
        let at = any.at();
        match item.optional_text(SAGA) {
            None => return Ok(Some(any)),
            Some("create") => {
                let guard = self.table.get(&guard_of(&any, &any.entity().name)).await?;
                let is_own = guard.is_some_and(|guard| guard.optional_text("id") == Some(at.id().as_str()));
                return Ok((is_own && self.end_creation(&any).await?).then_some(any));
            }
            Some("rename") => {
                let guard = guard_of(&any, item.text("saga_to")?);
                self.drop_guard(&guard, at.id()).await?;
                if let Some(parent) = any.parent() {
                    self.recount(&parent, at.kind()).await?;
                }
                let undo = Update::new(at.key(), in_saga("rename")).remove(SAGA).remove("saga_to");
                if let Err(error) = self.one(undo).await
                    && !error.is_conflict()
                {
                    return Err(error);
                }
            }
            Some("renamed") => {
                let from = item.text("saga_from")?.to_owned();
                self.end_rename(&any, &from, item.int(UNTIL).unwrap_or_default()).await?;
            }
            Some("delete") => {
                self.end_deletion(&any, item.int(UNTIL).unwrap_or_default()).await?;
                return Ok(None);
            }
            Some(other) => return Err(item.corrupt(format_args!("`saga` is `{other}`, which is unknown"))),
        }
        match self.table.get(&at.key()).await? {
            Some(item) => AnyEntity::from_item(&item).map(Some),
            None => Ok(None),
        }
    }

    /// Ends or undoes every change that was broken off, and clears away creations that were given up more
    /// than [`ABANDONED_SECONDS`] before `now`; how many there were. Nobody need call it for the catalog
    /// to be right: whoever finds a change that was broken off settles it.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn repair(&self, now: Timestamp) -> Result<usize> {
        let mut settled = 0;
        let roots = EntityKind::ALL.into_iter().filter(|kind| kind.parent().is_none());
        for kind in roots {
            let Some(place) = key::siblings(kind, None) else { continue };
            for item in self.all(Index::Gsi1, &place.pk).await? {
                settled += self.repair_one(item, now).await?;
            }
        }
        for category in self.all(Index::Gsi1, EntityKind::Category.prefix()).await? {
            let at = EntityId::Category(Id::parse(category.text("id")?)?);
            let Some(place) = key::siblings(EntityKind::Workspace, Some(&at)) else { continue };
            for workspace in self.all(Index::Gsi1, &place.pk).await? {
                for item in self.all(Index::Table, &workspace.key.pk).await? {
                    settled += self.repair_one(item, now).await?;
                }
            }
        }
        Ok(settled)
    }

    /// Ends or undoes what was broken off on the children of an entity: one whose guard is gone already is found
    /// by no name, and yet counts.
    pub(super) async fn settle_children(&self, at: &EntityId) -> Result<()> {
        let items = match key::siblings(EntityKind::Workspace, Some(at)) {
            Some(place) if at.kind() == EntityKind::Category => self.all(Index::Gsi1, &place.pk).await?,
            _ => self.all(Index::Table, &at.key().pk).await?,
        };
        for item in items {
            let is_child = item.key != at.key() && EntityId::of_key(&item.key).is_some();
            if is_child && item.optional_text(SAGA).is_some() {
                self.settled(item).await?;
            }
        }
        Ok(())
    }

    async fn all(&self, index: Index, pk: &str) -> Result<Vec<Item>> {
        query_all(&*self.table, Query::index(index, pk)).await
    }

    async fn repair_one(&self, item: Item, now: Timestamp) -> Result<usize> {
        if item.optional_text(SAGA).is_none() || EntityId::of_key(&item.key).is_none() {
            return Ok(0);
        }
        let any = AnyEntity::from_item(&item)?;
        if self.settled(item).await?.is_none() {
            let age = now.micros() - any.entity().created_at.micros();
            if age > ABANDONED_SECONDS * 1_000_000 {
                self.discard(&any).await?;
            }
        }
        Ok(1)
    }

    /// Who holds a name, by its guard: an entity that has this name, as far as it is settled.
    pub(super) async fn holder(&self, guard: &Item, kind: EntityKind) -> Result<Option<AnyEntity>> {
        let id = Id::parse(guard.text("id")?)?;
        let Some(at) = key::guarded(&guard.key, kind, id) else {
            return Err(Error::corrupt(format!("{} is no guard of a {kind}", guard.key)));
        };
        match self.table.get(&at.key()).await? {
            Some(item) => self.settled(item).await,
            None => Ok(None),
        }
    }
}

fn guard_of(any: &AnyEntity, name: &str) -> Key {
    key::guard(any.parent().as_ref(), any.at().kind(), name)
}
