//! The keys of the dead letters of what cannot be done for a workspace.

use event::Id;
use table::{Key, KeyRange};

use super::projector::dead_letter_partition;

/// What is done for a workspace with each sweep, and may turn out to be impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfWorkspace {
    /// Its logs are compared with what is folded.
    Sweep,
    /// What has expired is deleted.
    Expiry,
    /// What is live is ranked.
    Leaderboard,
    /// The evaluations of days are kept as they stood at some ages.
    Stages,
    /// Its alert rules are judged.
    Alerts,
    /// Filters of the keys of days are made.
    KeyFilters,
    /// The predictions that pending outcomes judge are looked for.
    Pending,
    /// Answers of reviewers that were decided are appended.
    Answers,
    /// Live releases are compared with those that predict beside them.
    Challenges,
    /// Digests are told.
    Digests,
    /// Keys are erased.
    Erasure,
    /// Small segments are merged.
    Compaction,
}

impl OfWorkspace {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Sweep,
        Self::Expiry,
        Self::Leaderboard,
        Self::Stages,
        Self::Alerts,
        Self::KeyFilters,
        Self::Pending,
        Self::Answers,
        Self::Challenges,
        Self::Digests,
        Self::Erasure,
        Self::Compaction,
    ];

    /// Its name in keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Expiry => "expiry",
            Self::Leaderboard => "leaderboard",
            Self::Stages => "stages",
            Self::Alerts => "alerts",
            Self::KeyFilters => "keys",
            Self::Pending => "pending",
            Self::Answers => "answers",
            Self::Challenges => "challenges",
            Self::Digests => "digests",
            Self::Erasure => "erasure",
            Self::Compaction => "compaction",
        }
    }

    /// The one that is called so.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// The dead letter of what cannot be done for a workspace.
pub fn undone(workspace: &Id, version: u32, what: OfWorkspace) -> Key {
    Key::new(dead_letter_partition(workspace, version), format!("workspace/{}", what.name()))
}

/// The dead letters of all that cannot be done for a workspace.
pub fn all_undone(workspace: &Id, version: u32) -> KeyRange {
    KeyRange::prefix(dead_letter_partition(workspace, version), "workspace/")
}

/// What a key of [`undone`] is of. `None`, when it is another key.
pub fn parse_undone(key: &Key) -> Option<(Id, u32, OfWorkspace)> {
    let (workspace, version) = key.pk.strip_prefix("w#")?.split_once("/dlq/v")?;
    let what = OfWorkspace::of_name(key.sk.strip_prefix("workspace/")?)?;
    Some((Id::parse(workspace).ok()?, version.parse().ok()?, what))
}
