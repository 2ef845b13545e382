//! Keys of quotas, and of the usage that ingest services report.

use event::{Day, Id};
use table::{Key, KeyRange};

use super::workspace_page;

/// Quota of a workspace.
pub fn quota(workspace: &Id) -> Key {
    Key::new(workspace_page(workspace), "set#quota")
}

fn used_partition(of: &Id) -> String {
    format!("quota#{of}")
}

/// Usage by a process of the quota of a workspace or token on a day.
pub fn quota_used(of: &Id, day: Day, process: &Id) -> Key {
    Key::new(used_partition(of), format!("day#{day}/{process}"))
}

/// Usage by all processes of it on a day.
pub fn quota_used_by_all(of: &Id, day: Day) -> KeyRange {
    KeyRange::prefix(used_partition(of), &format!("day#{day}/"))
}
