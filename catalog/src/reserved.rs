//! The names that no workspace may have, because paths such as `/v1/workspaces/{id}/joined` give them another meaning.

use event::Kind;
use log::key::EntityKind;

use super::Action;

/// What else a path under a workspace names. A test of the service compares all routes with [`reserved_names`].
const OTHERS: [&str; 36] = [
    "alert-rules",
    "alerts",
    "approvals",
    "audit",
    "baselines",
    "challengers",
    "classes",
    "confusion",
    "consumers",
    "crossings",
    "deliveries",
    "drift",
    "erasures",
    "estimates",
    "evaluations",
    "events",
    "followers",
    "head-to-head",
    "history",
    "joined",
    "lanes",
    "leaderboard",
    "lineage",
    "live",
    "maturity",
    "news",
    "pending",
    "pins",
    "promotion-gates",
    "quota",
    "retention",
    "reviews",
    "rollups",
    "segments",
    "settings",
    "sql",
];

/// The names that no workspace may have: kinds of events, types of entities, what is done to releases, and all else
/// that a path under a workspace names.
pub fn reserved_names() -> impl Iterator<Item = &'static str> {
    let kinds = Kind::ALL.into_iter().map(Kind::name);
    let entities = EntityKind::Workspace.children().map(EntityKind::plural);
    let actions = Action::ALL.into_iter().filter_map(Action::segment);
    kinds.chain(entities).chain(actions).chain(OTHERS)
}
