//! The workspace of commands that do more than call one operation.

use std::ops::Deref;

use clap::Args;

/// The workspace of a command: its first word, or `-w`.
#[derive(Debug, Args)]
pub(crate) struct InWorkspace {
    /// The workspace, as category/name or by id.
    #[arg(value_name = "WORKSPACE", required_unless_present = "workspace")]
    first: Option<String>,
    /// The workspace, instead of naming it first.
    #[arg(long, short, conflicts_with = "first")]
    workspace: Option<String>,
}

impl Deref for InWorkspace {
    type Target = str;

    fn deref(&self) -> &str {
        self.workspace.as_deref().or(self.first.as_deref()).unwrap_or_default()
    }
}
