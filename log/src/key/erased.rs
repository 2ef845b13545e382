//! Keys of erasures of a workspace, and of its refused keys.

use event::Id;
use table::{Key, KeyRange};

use super::parse_workspace_part;

fn erased_partition(workspace: &Id) -> String {
    format!("w#{workspace}/erased")
}

/// Number of erased keys of a workspace, the secret of their digests, and the state of rewriting.
pub fn erased(workspace: &Id) -> Key {
    Key::new(erased_partition(workspace), "keys")
}

/// A page of the digests of erased keys, by its number.
pub fn erased_page(workspace: &Id, page: u32) -> Key {
    Key::new(erased_partition(workspace), format!("keys#{page:04}"))
}

/// All pages of the digests of erased keys.
pub fn erased_pages(workspace: &Id) -> KeyRange {
    KeyRange::prefix(erased_partition(workspace), "keys#")
}

/// An erasure, by its id.
pub fn erasure(workspace: &Id, id: &Id) -> Key {
    Key::new(erased_partition(workspace), format!("erasure#{id}"))
}

/// The erasures of a workspace, the oldest first.
pub fn erasures(workspace: &Id) -> KeyRange {
    KeyRange::prefix(erased_partition(workspace), "erasure#")
}

/// The workspace and the id of a key of [`erasure`].
pub fn parse_erasure(key: &Key) -> Option<(Id, Id)> {
    let (workspace, part) = parse_workspace_part(&key.pk)?;
    (part == "/erased").then_some(())?;
    Some((workspace, Id::parse(key.sk.strip_prefix("erasure#")?).ok()?))
}

/// The partition of `GSI1` with the erasures of all workspaces that are not done.
pub const OPEN_ERASURES: &str = "erasures";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let lines = [erased(&w).to_string(), erased_page(&w, 7).to_string(), erasure(&w, &w).to_string()];
        assert_eq!(
            lines,
            [
                "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/erased / keys",
                "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/erased / keys#0007",
                "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/erased / erasure#2NBs0sLBnJxEcoDLgVnQdJkhEgV",
            ]
        );
        assert_eq!(parse_erasure(&erasure(&w, &w)), Some((w.clone(), w.clone())));
        assert_eq!(parse_erasure(&erased(&w)), None);
        let within = |range: KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        assert!(within(erased_pages(&w), &erased_page(&w, 0)) && !within(erased_pages(&w), &erased(&w)));
        assert!(within(erasures(&w), &erasure(&w, &w)) && !within(erasures(&w), &erased_page(&w, 0)));
    }
}
