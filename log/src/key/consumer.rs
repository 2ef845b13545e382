//! The keys of consumers: who follows the log of a workspace, and how far.

use event::Id;
use table::{Key, KeyRange};

fn consumer_partition(workspace: &Id) -> String {
    format!("w#{workspace}/consumer")
}

/// How far a consumer has read.
pub fn consumer(workspace: &Id, name: &str) -> Key {
    Key::new(consumer_partition(workspace), name)
}

/// All consumers of a workspace.
pub fn consumers(workspace: &Id) -> KeyRange {
    KeyRange::prefix(consumer_partition(workspace), "")
}
