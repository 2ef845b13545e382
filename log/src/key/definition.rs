//! The keys of what the predictions of releases say and how they are judged.

use event::Id;
use table::{Key, KeyRange};

fn definitions_partition(workspace: &Id) -> String {
    format!("w#{workspace}/def")
}

/// All definitions of a workspace: the first of each release, and those that release events made.
pub fn definitions(workspace: &Id) -> KeyRange {
    KeyRange { pk: definitions_partition(workspace), from: "a".into(), to: super::END.into() }
}

/// The model that the name of a release belongs to, and the definition that it began with.
pub fn first_definition(workspace: &Id, release: &str) -> Key {
    Key::new(definitions_partition(workspace), format!("first#{release}"))
}

/// The `number`th definition that a release event of the workspace made, from 1 on without holes.
pub fn definition(workspace: &Id, number: u64) -> Key {
    Key::new(definitions_partition(workspace), format!("n#{number:010}"))
}

/// The release of a key of [`first_definition`]. `None`, when it is another key.
pub fn parse_first_definition(key: &Key) -> Option<&str> {
    key.sk.strip_prefix("first#")
}

/// The number of a key of [`definition`]. `None`, when it is another key.
pub fn parse_definition(key: &Key) -> Option<u64> {
    key.sk.strip_prefix("n#")?.parse().ok()
}
