//! Who belongs to a group, and which role who has on a workspace. Both are noted twice, in the
//! partitions of both sides, so that each is read with what it belongs to by one query. Roles are
//! data here: nothing is refused for want of one yet.

use event::{Error, Result, Timestamp};
use log::key::{self, EntityId, EntityKind};
use table::{Condition, Item, Key, Query, Write, query_all};

use super::{AnyEntity, Catalog, activity};

const ITEM_VERSION: i64 = 1;

/// What a principal may do on a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read.
    Reader,
    /// Read and append events.
    Writer,
    /// Everything, also changing the workspace.
    Owner,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Writer, Self::Owner];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Owner => "owner",
        }
    }

    /// The role of a name.
    ///
    /// # Errors
    /// `Invalid`, naming those there are.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no role; there are {known}"))
        })
    }
}

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

/// A role of a principal on a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The workspace.
    pub workspace: EntityId,
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
        let Some(other) = item.key.sk.strip_prefix("grant#").and_then(standing) else { return Ok(None) };
        let Some(own) = standing(&item.key.pk) else { return Ok(None) };
        let (workspace, principal) = match other.kind() {
            EntityKind::Workspace => (other, own),
            _ => (own, other),
        };
        Ok(Some(Self { workspace, principal, role: Role::parse(item.text("role")?)?, since: since(item)? }))
    }
}

/// The key of the same membership or grant on the other side.
pub(super) fn twin(key: &Key) -> Option<Key> {
    let own = standing(&key.pk)?;
    if let Some(other) = key.sk.strip_prefix("grant#") {
        let other = standing(other)?;
        return Some(match own.kind() {
            EntityKind::Workspace => key::granted(&other, own.id()),
            _ => key::grant(other.id(), &own),
        });
    }
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

    /// Gives a principal a role on a workspace, in place of the one that it has.
    ///
    /// # Errors
    /// `NotFound`, when one of the two does not exist; `Invalid`, when the principal is neither a user
    /// nor a group nor a system.
    pub async fn grant(
        &self,
        workspace: &EntityId,
        principal: &EntityId,
        role: Role,
        now: Timestamp,
    ) -> Result<()> {
        check_principal(principal)?;
        let AnyEntity::Workspace(known) = self.get(workspace).await? else {
            return Err(Error::invalid(format!(
                "roles are given on workspaces, not on a {}",
                workspace.kind()
            )));
        };
        self.get(principal).await?;
        let item = |key| {
            Item::new(key).with("v", ITEM_VERSION).with("role", role.name()).with("since", now.micros())
        };
        let mut writes = vec![
            Write::Put(item(key::granted(principal, workspace.id())), Condition::None),
            Write::Put(item(key::grant(workspace.id(), principal)), Condition::None),
        ];
        if let EntityId::User(user) = principal {
            let what = format!("became {} of {}", role.name(), known.path);
            writes.insert(1, Write::Put(activity::item(user, &what, workspace, now), Condition::None));
        }
        self.table.transact(writes).await
    }

    /// Takes a role away.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn revoke(&self, workspace: &EntityId, principal: &EntityId) -> Result<()> {
        check_principal(principal)?;
        self.table
            .transact(vec![
                Write::Delete(key::grant(workspace.id(), principal), Condition::None),
                Write::Delete(key::granted(principal, workspace.id()), Condition::None),
            ])
            .await
    }

    /// The roles on a workspace, or those of a principal.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn grants(&self, of: &EntityId) -> Result<Vec<Grant>> {
        let items = query_all(&*self.table, Query::table(key::grants(of))).await?;
        items.iter().filter_map(|item| Grant::from_item(item).transpose()).collect()
    }
}

fn check_principal(principal: &EntityId) -> Result<()> {
    match principal.kind() {
        EntityKind::User | EntityKind::Group | EntityKind::System => Ok(()),
        other => Err(Error::invalid(format!("a {other} can have no role; a user, a group or a system can"))),
    }
}
