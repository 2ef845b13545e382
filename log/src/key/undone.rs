//! Keys of the dead letters of failed tasks of a workspace.

use event::Id;
use table::{Key, KeyRange};

use super::projector::dead_letter_partition;

/// Task for a workspace with each sweep, which may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfWorkspace {
    /// Comparison of its logs with the projections.
    Sweep,
    /// Deletion of expired events.
    Expiry,
    /// Ranking of live releases.
    Leaderboard,
    /// Storing of evaluations of days at some ages.
    Vintages,
    /// Judgement of its alert rules.
    Alerts,
    /// Making of filters of the keys of days.
    KeyFilters,
    /// Search for the predictions that unmatched outcomes judge.
    Unmatched,
    /// Appending of decided answers of reviewers.
    Answers,
    /// Comparison of live releases with those that predict beside them.
    Challenges,
    /// Writing of digests.
    Digests,
    /// Erasure of keys.
    Erasure,
    /// Merging of small segments.
    Compaction,
}

impl OfWorkspace {
    /// All tasks.
    pub const ALL: [Self; 12] = [
        Self::Sweep,
        Self::Expiry,
        Self::Leaderboard,
        Self::Vintages,
        Self::Alerts,
        Self::KeyFilters,
        Self::Unmatched,
        Self::Answers,
        Self::Challenges,
        Self::Digests,
        Self::Erasure,
        Self::Compaction,
    ];

    /// Name in keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Expiry => "expiry",
            Self::Leaderboard => "leaderboard",
            Self::Vintages => "vintages",
            Self::Alerts => "alerts",
            Self::KeyFilters => "keys",
            Self::Unmatched => "unmatched",
            Self::Answers => "answers",
            Self::Challenges => "challenges",
            Self::Digests => "digests",
            Self::Erasure => "erasure",
            Self::Compaction => "compaction",
        }
    }

    /// Finds the task of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Dead letter of a failed task of a workspace.
pub fn undone(workspace: &Id, version: u32, what: OfWorkspace) -> Key {
    Key::new(dead_letter_partition(workspace, version), format!("workspace/{}", what.name()))
}

/// Dead letters of all failed tasks of a workspace.
pub fn all_undone(workspace: &Id, version: u32) -> KeyRange {
    KeyRange::prefix(dead_letter_partition(workspace, version), "workspace/")
}

/// Parses a key of [`undone`]. `None`, when it is another key.
pub fn parse_undone(key: &Key) -> Option<(Id, u32, OfWorkspace)> {
    let (workspace, version) = key.pk.strip_prefix("w#")?.split_once("/dlq/v")?;
    let what = OfWorkspace::of_name(key.sk.strip_prefix("workspace/")?)?;
    Some((Id::parse(workspace).ok()?, version.parse().ok()?, what))
}
