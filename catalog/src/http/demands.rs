//! Demands of the operations of the catalog on their callers.

use event::{Kind, Right};
use log::key::EntityKind;
use web::{About, Demand, Place};

use super::people::Of;

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

/// Demand of creating an entity of a workspace that the body names.
fn in_workspace(kind: EntityKind) -> Demand {
    Demand::of(Right::Maintain, About::ParentOf(kind.name(), Place::Body("workspace")))
}

pub(super) fn create(kind: EntityKind) -> Demand {
    match kind {
        EntityKind::Workspace => Demand::of(Right::Admin, About::CategoryOf(Place::Body("path"))),
        EntityKind::Model | EntityKind::Configuration => in_workspace(kind),
        // A release is created together with the event that registers it.
        EntityKind::Release => in_workspace(kind).of_kinds(&[Kind::Releases]),
        // Its answer contains the number of events, and their columns.
        EntityKind::Snapshot => {
            let workspace = About::ParentOf(kind.name(), Place::Body("workspace"));
            Demand::of(Right::Maintain, workspace).and(Right::Read, workspace).of_kinds(&Kind::ALL)
        }
        _ => Demand::server(Right::Admin),
    }
}

pub(super) fn list(kind: EntityKind) -> Demand {
    match kind.parent() {
        Some(_) => Demand::of(Right::Read, About::ParentOf(kind.name(), Place::Query("of"))),
        None if is_principal(kind) => Demand::server(Right::Read),
        None => Demand::visible(),
    }
}

pub(super) fn show(kind: EntityKind) -> Demand {
    match is_principal(kind) {
        true => Demand::of(Right::Read, own(kind)),
        false => Demand::of(Right::Read, named(kind)),
    }
}

pub(super) fn change(kind: EntityKind) -> Demand {
    // Only callers who may create something of a name may learn if it is free.
    let renamed = About::Renamed(kind.name(), place(kind));
    match kind {
        EntityKind::Category => Demand::of(Right::Admin, named(kind)).and(Right::Admin, renamed),
        EntityKind::Workspace => Demand::of(Right::Maintain, named(kind)).and(Right::Admin, renamed),
        kind if is_principal(kind) => Demand::server(Right::Admin),
        _ => Demand::of(Right::Maintain, named(kind)),
    }
}

pub(super) fn delete(kind: EntityKind) -> Demand {
    match kind {
        EntityKind::Workspace | EntityKind::Category => Demand::of(Right::Admin, named(kind)),
        _ => change(kind),
    }
}

/// Principal that the path names, for its own data.
pub(super) fn own(kind: EntityKind) -> About {
    About::Own(Some(kind.name()), Place::Path(kind.name()))
}

/// Demand on a user's own data: follows and marks.
pub(super) fn of_user(right: Right) -> Demand {
    Demand::of(right, own(EntityKind::User))
}

/// Demands a right in the scope of the roles that are read or changed.
pub(super) fn of_grants(of: Of, right: Right) -> Demand {
    match of.kind() {
        Some(kind) => Demand::entity(right, kind.name(), Place::Path(kind.name())),
        None => Demand::server(right),
    }
}

/// Demand on counters of any entity.
pub(super) fn of_counter(right: Right) -> Demand {
    Demand::of(right, About::Typed("type", "entity"))
}
