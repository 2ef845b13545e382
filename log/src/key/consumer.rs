//! Keys of consumers, each with the position of a follower of a workspace's log.

use event::Id;
use table::{Key, KeyRange};

fn consumer_partition(workspace: &Id) -> String {
    format!("w#{workspace}/consumer")
}

/// Progress of a consumer.
pub fn consumer(workspace: &Id, name: &str) -> Key {
    Key::new(consumer_partition(workspace), name)
}

/// Parses the workspace and the name of a consumer. `None`, when the key is not one of a consumer.
pub fn parse_consumer(key: &Key) -> Option<(Id, &str)> {
    let workspace = key.pk.strip_prefix("w#")?.strip_suffix("/consumer")?;
    Some((Id::parse(workspace).ok()?, &key.sk))
}

/// All consumers of a workspace.
pub fn consumers(workspace: &Id) -> KeyRange {
    KeyRange::prefix(consumer_partition(workspace), "")
}
