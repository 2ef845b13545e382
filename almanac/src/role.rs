//! What a process does: one or more of three roles.

use clap::ValueEnum;

/// A role that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Takes events, and creates workspaces, models and releases.
    Ingest,
    /// Folds the log into counters, rollups and evaluations.
    Projector,
    /// Answers questions.
    Query,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Ingest, Role::Projector, Role::Query];

    /// Its name, as in the command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Projector => "projector",
            Role::Query => "query",
        }
    }
}
