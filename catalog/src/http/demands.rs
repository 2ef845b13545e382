//! Demands of the operations of the catalog on their callers.

use event::{Kind, Right};
use log::key::EntityKind;
use web::{About, Place, RequiredPermission};

/// Place in which an operation on one entity names it.
fn place(kind: EntityKind) -> Place {
    if kind == EntityKind::Workspace { Place::WorkspaceOfPath } else { Place::Path(kind.name()) }
}

/// Entity that an operation is on.
fn named(kind: EntityKind) -> About {
    About::Entity(kind.name(), place(kind))
}

/// Returns whether entities of a type are users, groups or systems, which belong to the whole server.
fn is_principal(kind: EntityKind) -> bool {
    matches!(kind, EntityKind::User | EntityKind::Group | EntityKind::System)
}

/// RequiredPermission of creating an entity of a workspace that the body names.
fn in_workspace(kind: EntityKind) -> RequiredPermission {
    RequiredPermission::of(Right::Maintain, About::ParentOf(kind.name(), Place::Body("workspace")))
}

pub(super) fn create(kind: EntityKind) -> RequiredPermission {
    match kind {
        EntityKind::Workspace => RequiredPermission::of(Right::Admin, About::CategoryOf(Place::Body("path"))),
        EntityKind::Model | EntityKind::Configuration => in_workspace(kind),
        // A release is created together with the event that registers it.
        EntityKind::Release => in_workspace(kind).of_kinds(&[Kind::Releases]),
        // Its answer contains the number of events, and their columns.
        EntityKind::Snapshot => {
            let workspace = About::ParentOf(kind.name(), Place::Body("workspace"));
            RequiredPermission::of(Right::Maintain, workspace)
                .and(Right::Read, workspace)
                .of_kinds(&Kind::ALL)
        }
        _ => RequiredPermission::server(Right::Admin),
    }
}

pub(super) fn list(kind: EntityKind) -> RequiredPermission {
    match kind.parent() {
        Some(_) => RequiredPermission::of(Right::Read, About::ParentOf(kind.name(), Place::Query("of"))),
        None if is_principal(kind) => RequiredPermission::server(Right::Read),
        None => RequiredPermission::visible(),
    }
}

pub(super) fn show(kind: EntityKind) -> RequiredPermission {
    match is_principal(kind) {
        true => RequiredPermission::of(Right::Read, own(kind)),
        false => RequiredPermission::of(Right::Read, named(kind)),
    }
}

pub(super) fn change(kind: EntityKind) -> RequiredPermission {
    // Only callers who may create something of a name may learn if it is free.
    let renamed = About::Renamed(kind.name(), place(kind));
    match kind {
        EntityKind::Category => RequiredPermission::of(Right::Admin, named(kind)).and(Right::Admin, renamed),
        EntityKind::Workspace => {
            RequiredPermission::of(Right::Maintain, named(kind)).and(Right::Admin, renamed)
        }
        kind if is_principal(kind) => RequiredPermission::server(Right::Admin),
        _ => RequiredPermission::of(Right::Maintain, named(kind)),
    }
}

pub(super) fn delete(kind: EntityKind) -> RequiredPermission {
    match kind {
        EntityKind::Workspace | EntityKind::Category => RequiredPermission::of(Right::Admin, named(kind)),
        _ => change(kind),
    }
}

/// Principal that the path names, for its own data.
pub(super) fn own(kind: EntityKind) -> About {
    About::Own(Some(kind.name()), Place::Path(kind.name()))
}

/// RequiredPermission on a user's own data: follows and marks.
pub(super) fn of_user(right: Right) -> RequiredPermission {
    RequiredPermission::of(right, own(EntityKind::User))
}

/// Demands a right in the scope of the roles that are read or changed.
pub(super) fn of_grants(right: Right) -> RequiredPermission {
    RequiredPermission::entity(right, "workspace", Place::Query("workspace"))
        .and(right, About::Entity("category", Place::Query("category")))
        .and(right, About::ServerUnless(&["workspace", "category"]))
}

/// Demands the right to read the digest of a user, or of all users.
pub(super) fn of_digest() -> RequiredPermission {
    RequiredPermission::of(Right::Read, About::Own(Some("user"), Place::Query("user")))
        .and(Right::Read, About::ServerUnless(&["user"]))
        .of_kinds(&Kind::ALL)
}

/// RequiredPermission on counters of any entity.
pub(super) fn of_counter(right: Right) -> RequiredPermission {
    RequiredPermission::of(right, About::Typed("type", "entity"))
}
