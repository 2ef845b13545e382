//! Members of groups, and roles of principals. Both are stored twice, in the partitions of both sides, so that each is read with
//! either side by one query. Roles are data here: the room `access` enforces them.

use event::{Error, Result, Timestamp};
use log::key::{self, EntityId, EntityKind, Scope};
use table::{Condition, Item, Key, KeyRange, Query, Write, query_all};

use super::{Catalog, Role, activity};

const ITEM_VERSION: i64 = 1;

/// Membership of a user or system in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: EntityId,
    /// The user or system.
    pub member: EntityId,
    /// Time at which it began.
    pub since: Timestamp,
}

/// Role of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Scope of the role.
    pub scope: Scope,
    /// User, group or system.
    pub principal: EntityId,
    /// Role of the principal.
    pub role: Role,
    /// Time at which it was given.
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

/// Returns whether an entity can be in a group.
fn is_member(at: &EntityId) -> bool {
    matches!(at, EntityId::User(_) | EntityId::System(_))
}

impl Membership {
    /// Decodes the membership of an item, on either side. `None`, when the item is no membership.
    pub(super) fn from_item(item: &Item) -> Result<Option<Self>> {
        let sides = standing(&item.key.pk).zip(standing(&item.key.sk));
        Ok(match sides {
            Some((group @ EntityId::Group(_), member)) | Some((member, group @ EntityId::Group(_)))
                if is_member(&member) =>
            {
                Some(Self { group, member, since: since(item)? })
            }
            _ => None,
        })
    }
}

impl Membership {
    /// Group and member.
    pub fn entities(&self) -> [EntityId; 2] {
        [self.group.clone(), self.member.clone()]
    }
}

impl Grant {
    /// Principal, and the workspace or category.
    pub fn entities(&self) -> impl Iterator<Item = EntityId> {
        [self.principal.clone()].into_iter().chain(self.scope.entity())
    }

    /// Decodes the grant of an item, on either side. `None`, when the item is no grant.
    pub(super) fn from_item(item: &Item) -> Result<Option<Self>> {
        let Some((scope, principal)) = key::parse_grant(&item.key) else { return Ok(None) };
        Ok(Some(Self { scope, principal, role: Role::parse(item.text("role")?)?, since: since(item)? }))
    }
}

/// Key of the same membership or grant on the other side.
pub(super) fn twin(key: &Key) -> Option<Key> {
    if let Some((scope, principal)) = key::parse_grant(key) {
        let (one, other) = (key::grant(&scope, &principal), key::granted(&principal, &scope));
        return Some(if one == *key { other } else { one });
    }
    let own = standing(&key.pk)?;
    match (&own, standing(&key.sk)?) {
        (EntityId::Group(group), member) if is_member(&member) => Some(key::membership(&member, group)),
        (member, EntityId::Group(group)) if is_member(member) => Some(key::member(&group, member)),
        _ => None,
    }
}

impl Catalog {
    /// Adds a user or system to a group; one that is there stays.
    ///
    /// # Errors
    /// `NotFound`, when one of the two does not exist.
    pub async fn add_member(&self, group: &EntityId, member: &EntityId, now: Timestamp) -> Result<()> {
        let known = self.get(group).await?;
        self.get(member).await?;
        let (group_key, own_key) = (key::member(group.id(), member), key::membership(member, group.id()));
        if self.table.get(&group_key).await?.is_some() && self.table.get(&own_key).await?.is_some() {
            return Ok(());
        }
        let item = |key| Item::new(key).with("v", ITEM_VERSION).with("since", now.micros());
        let what = format!("joined the group {}", known.entity().name);
        let mut writes = vec![Write::Put(item(own_key), Condition::None)];
        writes.extend(activity::noted(member, &what, group, now));
        writes.push(Write::Put(item(group_key), Condition::None));
        self.table.transact(writes).await
    }

    /// Removes a user or system from a group.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn remove_member(&self, group: &EntityId, member: &EntityId, now: Timestamp) -> Result<()> {
        let known = self.get(group).await?;
        let (group_key, own_key) = (key::member(group.id(), member), key::membership(member, group.id()));
        if self.table.get(&group_key).await?.is_none() && self.table.get(&own_key).await?.is_none() {
            return Ok(());
        }
        let what = format!("left the group {}", known.entity().name);
        let mut writes = vec![Write::Delete(group_key, Condition::None)];
        writes.extend(activity::noted(member, &what, group, now));
        writes.push(Write::Delete(own_key, Condition::None));
        self.table.transact(writes).await
    }

    /// Reads the members of a group, or the groups of a user or system.
    ///
    /// # Errors
    /// `Invalid`, for any other entity; those of the table.
    pub async fn memberships(&self, of: &EntityId) -> Result<Vec<Membership>> {
        let range = key::memberships(of)
            .ok_or_else(|| Error::invalid(format!("a {} has no members and no groups", of.kind())))?;
        let items = query_all(&*self.table, Query::table(range)).await?;
        items.iter().filter_map(|item| Membership::from_item(item).transpose()).collect()
    }

    /// Gives a principal a role, in place of its present one in this scope.
    ///
    /// # Errors
    /// `NotFound`, when the principal or the scope does not exist; `Invalid`, when the principal is neither a user nor a group
    /// nor a system.
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
        if let Some(place) = &place {
            let what = format!("became {} of {}", role.name(), place.full_name());
            let noted = activity::noted(principal, &what, &place.at(), now);
            writes.splice(1..1, noted);
        }
        self.table.transact(writes).await
    }

    /// Removes a role of a principal.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn revoke(&self, scope: &Scope, principal: &EntityId) -> Result<()> {
        check_principal(principal)?;
        self.table
            .transact(vec![
                Write::Delete(key::grant(scope, principal), Condition::None),
                Write::Delete(key::granted(principal, scope), Condition::None),
            ])
            .await
    }

    /// Reads the roles on a workspace, on a category or on the server.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn grants(&self, scope: &Scope) -> Result<Vec<Grant>> {
        self.read_grants(key::grants(scope)).await
    }

    /// Reads the roles of a principal.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn grants_of(&self, principal: &EntityId) -> Result<Vec<Grant>> {
        self.read_grants(key::grants_of(principal)).await
    }

    /// Reads the roles that a group gives to its members: its own roles, and none while it is archived.
    ///
    /// # Errors
    /// Errors of the table.
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
