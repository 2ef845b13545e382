//! Who belongs to a group, and which role who has where. Both are noted twice, in the
//! partitions of both sides, so that each is read with what it belongs to by one query. Roles are
//! data here: the room `access` refuses what somebody has no role for.

use event::{Error, Result, Timestamp};
use log::key::{self, EntityId, EntityKind, Scope};
use table::{Condition, Item, Key, KeyRange, Query, Write, query_all};

use super::{AnyEntity, Catalog, Role, activity};

const ITEM_VERSION: i64 = 1;

/// A user in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: EntityId,
    /// The user.
    pub user: EntityId,
    /// Since when.
    pub since: Timestamp,
}

/// A role of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Where it holds.
    pub scope: Scope,
    /// The user, group or system.
    pub principal: EntityId,
    /// What it may do.
    pub role: Role,
    /// Since when.
    pub since: Timestamp,
}

fn since(item: &Item) -> Result<Timestamp> {
    item.check_version(ITEM_VERSION)?;
    Timestamp::from_micros(item.int("since")?).ok_or_else(|| item.corrupt("`since` is no time"))
}

fn standing(token: &str) -> Option<EntityId> {
    let (kind, id) = key::parse_token(token)?;
    EntityId::new(kind, id, None)
}

impl Membership {
    /// The membership of an item, on either side. `None`, when the item is none.
    pub(super) fn from_item(item: &Item) -> Result<Option<Self>> {
        let sides = standing(&item.key.pk).zip(standing(&item.key.sk));
        Ok(match sides {
            Some((group @ EntityId::Group(_), user @ EntityId::User(_)))
            | Some((user @ EntityId::User(_), group @ EntityId::Group(_))) => {
                Some(Self { group, user, since: since(item)? })
            }
            _ => None,
        })
    }
}

impl Grant {
    /// The grant of an item, on either side. `None`, when the item is none.
    pub(super) fn from_item(item: &Item) -> Result<Option<Self>> {
        let Some((scope, principal)) = key::parse_grant(&item.key) else { return Ok(None) };
        Ok(Some(Self { scope, principal, role: Role::parse(item.text("role")?)?, since: since(item)? }))
    }
}

/// The key of the same membership or grant on the other side.
pub(super) fn twin(key: &Key) -> Option<Key> {
    if let Some((scope, principal)) = key::parse_grant(key) {
        let (one, other) = (key::grant(&scope, &principal), key::granted(&principal, &scope));
        return Some(if one == *key { other } else { one });
    }
    let own = standing(&key.pk)?;
    match (&own, standing(&key.sk)?) {
        (EntityId::Group(group), EntityId::User(user)) => Some(key::membership(&user, group)),
        (EntityId::User(user), EntityId::Group(group)) => Some(key::member(&group, user)),
        _ => None,
    }
}

impl Catalog {
    /// Puts a user into a group; one who is there stays.
    ///
    /// # Errors
    /// `NotFound`, when one of the two does not exist.
    pub async fn add_member(&self, group: &EntityId, user: &EntityId, now: Timestamp) -> Result<()> {
        let known = self.get(group).await?;
        self.get(user).await?;
        let (group_key, user_key) =
            (key::member(group.id(), user.id()), key::membership(user.id(), group.id()));
        if self.table.get(&group_key).await?.is_some() && self.table.get(&user_key).await?.is_some() {
            return Ok(());
        }
        let item = |key| Item::new(key).with("v", ITEM_VERSION).with("since", now.micros());
        let what = format!("joined the group {}", known.entity().name);
        self.table
            .transact(vec![
                Write::Put(item(user_key), Condition::None),
                Write::Put(activity::item(user.id(), &what, group, now), Condition::None),
                Write::Put(item(group_key), Condition::None),
            ])
            .await
    }

    /// Takes a user out of a group.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn remove_member(&self, group: &EntityId, user: &EntityId, now: Timestamp) -> Result<()> {
        let known = self.get(group).await?;
        let (group_key, user_key) =
            (key::member(group.id(), user.id()), key::membership(user.id(), group.id()));
        if self.table.get(&group_key).await?.is_none() && self.table.get(&user_key).await?.is_none() {
            return Ok(());
        }
        let what = format!("left the group {}", known.entity().name);
        self.table
            .transact(vec![
                Write::Delete(group_key, Condition::None),
                Write::Put(activity::item(user.id(), &what, group, now), Condition::None),
                Write::Delete(user_key, Condition::None),
            ])
            .await
    }

    /// The members of a group, or the groups of a user.
    ///
    /// # Errors
    /// `Invalid`, when it is neither; those of the table.
    pub async fn memberships(&self, of: &EntityId) -> Result<Vec<Membership>> {
        let range = key::memberships(of)
            .ok_or_else(|| Error::invalid(format!("a {} has no members and no groups", of.kind())))?;
        let items = query_all(&*self.table, Query::table(range)).await?;
        items.iter().filter_map(|item| Membership::from_item(item).transpose()).collect()
    }

    /// Gives a principal a role, in place of the one that it has there.
    ///
    /// # Errors
    /// `NotFound`, when the principal or the place does not exist; `Invalid`, when the principal is neither a user
    /// nor a group nor a system.
    pub async fn grant(&self, scope: &Scope, principal: &EntityId, role: Role, now: Timestamp) -> Result<()> {
        check_principal(principal)?;
        let place = match scope.entity() {
            Some(at) => Some(self.get(&at).await?),
            None => None,
        };
        self.get(principal).await?;
        let item = |key| {
            Item::new(key).with("v", ITEM_VERSION).with("role", role.name()).with("since", now.micros())
        };
        let mut writes = vec![
            Write::Put(item(key::granted(principal, scope)), Condition::None),
            Write::Put(item(key::grant(scope, principal)), Condition::None),
        ];
        if let (EntityId::User(user), Some(place)) = (principal, &place) {
            let name = match place {
                AnyEntity::Workspace(workspace) => &workspace.path,
                other => &other.entity().name,
            };
            let what = format!("became {} of {name}", role.name());
            writes.insert(1, Write::Put(activity::item(user, &what, &place.at(), now), Condition::None));
        }
        self.table.transact(writes).await
    }

    /// Takes a role away.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn revoke(&self, scope: &Scope, principal: &EntityId) -> Result<()> {
        check_principal(principal)?;
        self.table
            .transact(vec![
                Write::Delete(key::grant(scope, principal), Condition::None),
                Write::Delete(key::granted(principal, scope), Condition::None),
            ])
            .await
    }

    /// The roles that hold on a workspace, on a category or on the server.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn grants(&self, scope: &Scope) -> Result<Vec<Grant>> {
        self.read_grants(key::grants(scope)).await
    }

    /// The roles of a principal.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn grants_of(&self, principal: &EntityId) -> Result<Vec<Grant>> {
        self.read_grants(key::grants_of(principal)).await
    }

    /// The roles that a group gives to its members: those that it has, and none while it is archived.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn grants_by(&self, group: &EntityId) -> Result<Vec<Grant>> {
        let found = self.find(group).await?;
        match found.is_some_and(|any| any.entity().archived_at.is_none()) {
            true => self.grants_of(group).await,
            false => Ok(Vec::new()),
        }
    }

    async fn read_grants(&self, range: KeyRange) -> Result<Vec<Grant>> {
        let items = query_all(&*self.table, Query::table(range)).await?;
        items.iter().filter_map(|item| Grant::from_item(item).transpose()).collect()
    }
}

fn check_principal(principal: &EntityId) -> Result<()> {
    match principal.kind() {
        EntityKind::User | EntityKind::Group | EntityKind::System => Ok(()),
        other => Err(Error::invalid(format!("a {other} can have no role; a user, a group or a system can"))),
    }
}
