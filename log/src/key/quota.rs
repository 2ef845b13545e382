//! The keys of quotas, and of what ingest services say they have used of them.

use event::{Day, Id};
use table::{Key, KeyRange};

use super::workspace_page;

/// How much may be appended to a workspace.
pub fn quota(workspace: &Id) -> Key {
    Key::new(workspace_page(workspace), "set#quota")
}

fn used_partition(of: &Id) -> String {
    format!("quota#{of}")
}

/// What a process has used of the quota of a workspace or token on a day.
pub fn quota_used(of: &Id, day: Day, process: &Id) -> Key {
    Key::new(used_partition(of), format!("day#{day}/{process}"))
}

/// What all processes have used of it on a day.
pub fn quota_used_by_all(of: &Id, day: Day) -> KeyRange {
    KeyRange::prefix(used_partition(of), &format!("day#{day}/"))
}
