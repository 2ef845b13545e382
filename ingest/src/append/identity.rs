//! Names of batches inside the logs. A stored batch is looked up by its name for good, so the derivation of names never changes.

use event::{Id, Timestamp};
use log::{
    batch::BatchId,
    key::{DecisionId, ReviewItemId},
};
use sha2::{Digest, Sha256};

/// The name of the batch that was claimed under `key` at `claimed_at`, with events of this digest: a key that is used again,
/// after it was forgotten, names another batch.
pub(super) fn of_claim(key: &str, claimed_at: Timestamp, digest: &str) -> BatchId {
    let length = (key.len() as u64).to_le_bytes();
    let at = claimed_at.micros().to_le_bytes();
    of_parts(&[b"claim\0", &length, key.as_bytes(), &at, digest.as_bytes()])
}

/// The name of the rows of a chunk of a file that belong to a group of days. Segments say which rows they hold.
pub(super) fn of_chunk(digest: &str, group: i32) -> BatchId {
    of_parts(&[b"chunk\0", digest.as_bytes(), &group.to_le_bytes()])
}

/// The name of the outcomes of a decision about some that were unmatched.
pub(super) fn of_decision(id: &DecisionId) -> BatchId {
    of_parts(&[b"decided\0", id.segment.log.workspace.as_str().as_bytes(), id.to_string().as_bytes()])
}

/// The name of the outcome that is the answer to an item of a review.
pub(super) fn of_answer(id: &ReviewItemId) -> BatchId {
    of_parts(&[b"answer\0", id.workspace.as_str().as_bytes(), id.to_string().as_bytes()])
}

/// A name that no other batch has.
pub(super) fn of_nothing(now: Timestamp) -> BatchId {
    of_parts(&[b"once\0", Id::new(now).as_str().as_bytes()])
}

fn of_parts(parts: &[&[u8]]) -> BatchId {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize()[..16]);
    BatchId(id)
}

#[cfg(test)]
mod tests {
    use event::Kind;
    use log::{
        content,
        key::{LogId, UnmatchedSegment},
    };

    use super::*;

    /// Segments hold these names: they must not change.
    #[test]
    fn batch_name_format_stays_stable() {
        let at = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let log = LogId {
            workspace: workspace.clone(),
            day: "2013-06-01".parse().unwrap(),
            kind: Kind::Unmatched,
            lane: 3,
        };
        let id = DecisionId { segment: UnmatchedSegment { log, seq: 42 }, number: 7 };
        let names = [
            of_claim("nightly", at, "0af1"),
            content::batch("0af1"),
            of_chunk("0af1", 61),
            of_decision(&id),
            of_answer(&ReviewItemId { workspace: workspace.clone(), review: workspace.clone(), number: 7 }),
        ];
        let names = names.map(|name| name.to_string()).join(" ");
        insta::assert_snapshot!(names, @"a86fcbd7bd2437176131ba9899ab6d9f dc5ccea0b19b92daf428fb0c43f8691d 8aafc0b3374487ec593dbed68f49dcb7 775ede5679849c8b8b689709d486e5e8 fcf7f29eae231a1ab8727ffced708919");
        assert_ne!(of_nothing(at), of_nothing(at));
    }
}
