//! The keys of alert rules.

use event::Id;
use table::Key;

use super::{parse_workspace_page, workspace_page};

/// The alert rules of a workspace.
pub fn alert_rules(workspace: &Id) -> Key {
    Key::new(workspace_page(workspace), "set#alerts")
}

/// The partition of `GSI1` that holds the alert rules of all workspaces that have some.
pub const ALERT_RULES: &str = "alert-rules";

/// Where the alert rules of a workspace stand in `GSI1`.
pub fn alert_rules_index(workspace: &Id) -> (String, String) {
    (ALERT_RULES.to_owned(), workspace_page(workspace))
}

/// The workspace of a key of [`alert_rules`]. `None`, when it is another key.
pub fn parse_alert_rules(key: &Key) -> Option<Id> {
    let workspace = parse_workspace_page(&key.pk)?;
    (alert_rules(&workspace) == *key).then_some(workspace)
}
