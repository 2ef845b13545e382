//! Roles of a process: one or more of three.

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
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Ingest, Role::Projector, Role::Query];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Projector => "projector",
            Role::Query => "query",
        }
    }
}
