//! Keys for exports and restores: markers of restores, keys left behind by an export, and the keys of one workspace.

use event::Id;
use table::Key;

use super::{
    EntityId, EntityKind, Followed, Scope, WORKERS, full_sweep, guard, parse_answered, parse_follow,
    parse_grant, parse_token, parse_workspace_part, projector::lease_partition, quota_used_by_all,
    write_probe,
};

/// Marker of a table that was restored from an export, or is being restored.
pub fn restored() -> Key {
    Key::new("sys/restore", "export")
}

/// Marker of a workspace that was restored into a table beside others.
pub fn restored_workspace(workspace: &Id) -> Key {
    Key::new(restored().pk, format!("w#{workspace}"))
}

/// Relation of an item to a workspace, as its key shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfMoved {
    /// It belongs to the workspace.
    Own,
    /// It belongs to a user, group or system, and is about the workspace: roles, follows, seen marks, answers in
    /// reviews.
    With(EntityId),
    /// A pointer of an id: it belongs to the workspace that it names.
    Pointer,
    /// The item of the workspace itself, which names its category.
    Root,
    /// The unique-name item of some workspace.
    RootGuard,
    /// The item of a user, a group or a system.
    Person(EntityId),
    /// The unique-name item of one of this type.
    PersonGuard(EntityKind),
    /// Any other item.
    Other,
}

impl OfMoved {
    /// Returns the relation of the item under a key to a workspace.
    pub fn of(workspace: &Id, key: &Key) -> Self {
        let root = EntityId::Workspace(workspace.clone());
        if *key == root.key() {
            return Self::Root;
        }
        let is_within = parse_workspace_part(&key.pk).is_some_and(|(id, _)| id == *workspace);
        let is_guard_within = key.pk.strip_prefix("@name#").and_then(|rest| rest.strip_prefix(&root.token()));
        if is_within
            || is_guard_within.is_some_and(|rest| rest.starts_with('/'))
            || is_used_quota(workspace, key)
        {
            return Self::Own;
        }
        if let Some(person) = person_of(&key.pk) {
            return match is_with(workspace, key) {
                true => Self::With(person),
                false if person.key() == *key => Self::Person(person),
                false => Self::Other,
            };
        }
        if key.pk.starts_with("@id#") {
            return Self::Pointer;
        }
        let is_guard_of = |kind: &EntityKind| guard(None, *kind, &key.sk) == *key;
        let is_root_guard = key.pk.strip_prefix("@name#wc#").is_some_and(|rest| rest.ends_with("/w"));
        match PEOPLE.iter().find(|kind| is_guard_of(kind)) {
            Some(kind) => Self::PersonGuard(*kind),
            None if is_root_guard => Self::RootGuard,
            None => Self::Other,
        }
    }
}

/// Types of entities that can have a role, or follow something.
const PEOPLE: [EntityKind; 3] = [EntityKind::User, EntityKind::Group, EntityKind::System];

/// Parses the user, group or system of a partition.
fn person_of(pk: &str) -> Option<EntityId> {
    let (kind, id) = parse_token(pk.split('/').next()?)?;
    EntityId::new(kind, id, None).filter(|_| PEOPLE.contains(&kind))
}

/// Returns whether an item of a user, a group or a system is about a workspace.
fn is_with(workspace: &Id, key: &Key) -> bool {
    let is_granted = parse_grant(key).is_some_and(|(scope, _)| scope == Scope::Workspace(workspace.clone()));
    let is_followed = parse_follow(key).is_some_and(|(_, followed)| match followed {
        Followed::Workspace(of) | Followed::Model(of, _) => of == *workspace,
    });
    let is_seen = key.pk.ends_with("/seen") && key.sk.ends_with(&format!("/w#{workspace}"));
    let is_answered = parse_answered(key).is_some_and(|(_, of, _)| of == *workspace);
    is_granted || is_followed || is_seen || is_answered
}

fn is_used_quota(workspace: &Id, key: &Key) -> bool {
    quota_used_by_all(workspace, event::Day::FIRST).pk == key.pk
}

/// Returns whether a key belongs to the processes that work on a table, not to its data: leases with the positions of
/// their feeds, heartbeats, requests for sweeps, probes. An export leaves it behind.
pub fn stays_behind(key: &Key) -> bool {
    let is_of = |other: &Key| other.pk == key.pk;
    key.pk.starts_with(&lease_partition(""))
        || key.pk == WORKERS
        || [full_sweep(), write_probe(), restored()].iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use event::{Kind, Timestamp};

    use super::{super::*, *};

    #[test]
    fn every_workspace_item_is_recognized_by_key() {
        let [workspace, other, user] =
            ["2NBs0sLBnJxEcoDLgVnQdJkhEgV", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9", "2NBs0ozH24ijgjhUQuPtC9pQyLa"]
                .map(|id| Id::parse(id).unwrap());
        let (day, at) = ("2013-06-01".parse().unwrap(), Timestamp::parse("2013-06-01T00:00:00Z").unwrap());
        let person = EntityId::User(user.clone());
        let (scope, model) = (Scope::Workspace(workspace.clone()), EntityKind::Model);
        let root = EntityId::Workspace(workspace.clone());
        let log = LogId { workspace: workspace.clone(), day, kind: Kind::Predictions, lane: 0 };
        let own = [
            segment(&log, 1),
            batch(&workspace, Kind::Predictions, "k"),
            rollup(&workspace, 2, day),
            grant(&scope, &person),
            guard(Some(&root), model, "churn"),
            EntityId::Model(workspace.clone(), other.clone()).key(),
            audit_record(&AuditLog::Workspace(workspace.clone()), 1),
            quota_used(&workspace, day, &user),
            alert_rules(&workspace),
            compacted(&workspace),
        ];
        let happened = happening(&workspace, at, "promote", "v2", "production");
        let with = [
            granted(&person, &scope),
            follow(&user, &Followed::Workspace(workspace.clone())),
            answered(&user, day, &workspace, "june"),
            follow(&user, &Followed::Model(workspace.clone(), other.clone())),
            seen(&user, &workspace, &happened.sk),
        ];
        let of = |key: &Key| OfMoved::of(&workspace, key);
        for key in &own {
            assert_eq!(of(key), OfMoved::Own, "{key}");
        }
        for key in &with {
            assert_eq!(of(key), OfMoved::With(person.clone()), "{key}");
        }
        for key in own.iter().chain(&with) {
            assert_eq!(OfMoved::of(&other, key), OfMoved::Other, "{key}");
        }
        let category = EntityId::Category(other.clone());
        assert_eq!(of(&root.key()), OfMoved::Root);
        assert_eq!(of(&guard(Some(&category), EntityKind::Workspace, "nyc")), OfMoved::RootGuard);
        assert_eq!(of(&pointer(&other)), OfMoved::Pointer);
        assert_eq!(of(&person.key()), OfMoved::Person(person.clone()));
        assert_eq!(of(&guard(None, EntityKind::User, "ann")), OfMoved::PersonGuard(EntityKind::User));
        let elsewhere = [
            category.key(),
            guard(None, EntityKind::Category, "flights"),
            membership(&person, &other),
            token_of(&person, &other),
            activity(&user, &other),
            audit_record(&AuditLog::Server, 1),
            layout(),
            restored_workspace(&workspace),
        ];
        for key in elsewhere {
            assert_eq!(of(&key), OfMoved::Other, "{key}");
        }
        assert!(stays_behind(&restored_workspace(&workspace)));
    }
}
