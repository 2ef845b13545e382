//! Keys of reviews: their items, turns and leases, and the predictions and answers of each reviewer.

use std::fmt;

use event::{Id, Timestamp};
use serde::{Deserialize, Serialize};
use table::{Key, KeyRange};

use super::parse_workspace_part;

/// Item of a review: a prediction to label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReviewItemId {
    /// The workspace.
    pub workspace: Id,
    /// Id of the review.
    pub review: Id,
    /// Number among the items of the review, from 0.
    pub number: u32,
}

impl fmt::Display for ReviewItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:04}", self.review, self.number)
    }
}

fn reviews_partition(workspace: &Id) -> String {
    format!("w#{workspace}/review")
}

fn review_partition(workspace: &Id, review: &Id) -> String {
    format!("w#{workspace}/review/{review}")
}

/// Partition of a reviewer. The reviewer is last in the name, so no two names share a partition.
fn reviewer_partition(workspace: &Id, reviewer: &str) -> String {
    format!("w#{workspace}/reviewer/{reviewer}")
}

/// A review, by its name.
pub fn review(workspace: &Id, name: &str) -> Key {
    Key::new(reviews_partition(workspace), format!("name#{name}"))
}

/// All reviews of a workspace.
pub fn reviews(workspace: &Id) -> KeyRange {
    KeyRange::prefix(reviews_partition(workspace), "name#")
}

/// Parses the workspace and the name of a key of [`review`].
pub fn parse_review(key: &Key) -> Option<(Id, &str)> {
    let (workspace, part) = parse_workspace_part(&key.pk)?;
    (part == "/review").then_some(())?;
    Some((workspace, key.sk.strip_prefix("name#")?))
}

/// An item of a review.
pub fn review_item(id: &ReviewItemId) -> Key {
    Key::new(review_partition(&id.workspace, &id.review), format!("item#{:04}", id.number))
}

/// The items of a review with numbers of a range.
pub fn review_items(workspace: &Id, review: &Id, numbers: std::ops::Range<u32>) -> KeyRange {
    let all = KeyRange::prefix(review_partition(workspace, review), "item#");
    let [from, to] = [numbers.start, numbers.end.saturating_sub(1)].map(|number| format!("item#{number:04}"));
    KeyRange { from, to, ..all }
}

/// Pair of releases of an arena, by its number there.
pub fn arena_pair(workspace: &Id, review: &Id, pair: u32) -> Key {
    Key::new(review_partition(workspace, review), format!("pair#{pair:02}"))
}

/// All pairs of an arena.
pub fn arena_pairs(workspace: &Id, review: &Id) -> KeyRange {
    KeyRange::prefix(review_partition(workspace, review), "pair#")
}

/// Turn of a reviewer in a review.
pub fn review_turn(workspace: &Id, review: &Id, reviewer: &str) -> Key {
    Key::new(review_partition(workspace, review), format!("turn#{reviewer}"))
}

/// Turns of all reviewers in a review.
pub fn review_turns(workspace: &Id, review: &Id) -> KeyRange {
    KeyRange::prefix(review_partition(workspace, review), "turn#")
}

/// Note that the events of the answer to an item are still to be appended.
pub fn owed_answer(id: &ReviewItemId) -> Key {
    Key::new(reviews_partition(&id.workspace), format!("owed#{id}"))
}

/// Such notes of a workspace, or of the items of a review.
pub fn owed_answers(workspace: &Id, review: Option<&Id>) -> KeyRange {
    let of_review = review.map_or_else(String::new, |review| format!("{review}/"));
    KeyRange::prefix(reviews_partition(workspace), &format!("owed#{of_review}"))
}

/// Record that a reviewer was shown a prediction, by the digest of its key and instant.
pub fn shown_to(workspace: &Id, reviewer: &str, digest: &[u8; 16]) -> Key {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Key::new(reviewer_partition(workspace, reviewer), format!("shown#{hex}"))
}

/// Answer of a reviewer to an item at an instant.
pub fn given_answer(id: &ReviewItemId, reviewer: &str, at: Timestamp) -> Key {
    let sk = format!("answer#{:016}/{id}", at.micros().max(0));
    Key::new(reviewer_partition(&id.workspace, reviewer), sk)
}

/// All answers of a reviewer in a workspace.
pub fn all_given_answers(workspace: &Id, reviewer: &str) -> KeyRange {
    KeyRange::prefix(reviewer_partition(workspace, reviewer), "answer#")
}

/// Answers of a reviewer from one instant on and before another.
pub fn given_answers(workspace: &Id, reviewer: &str, from: Timestamp, before: Timestamp) -> KeyRange {
    let at = |at: Timestamp| format!("answer#{:016}", at.micros().max(0));
    KeyRange { pk: reviewer_partition(workspace, reviewer), from: at(from), to: at(before) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let review_id = Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap();
        let id = ReviewItemId { workspace: workspace.clone(), review: review_id.clone(), number: 7 };
        let at = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let keys = [
            review(&workspace, "june"),
            review_item(&id),
            review_turn(&workspace, &review_id, "user:ann"),
            owed_answer(&id),
            shown_to(&workspace, "user:ann", &[0xab; 16]),
            given_answer(&id, "user:ann", at),
            arena_pair(&workspace, &review_id, 7),
        ];
        insta::assert_snapshot!(keys.map(|key| key.to_string()).join("\n"), @r"
        w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/review / name#june
        w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/review/2NBs0tD5Ihm2PVFzM3kZvMYdQX9 / item#0007
        w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/review/2NBs0tD5Ihm2PVFzM3kZvMYdQX9 / turn#user:ann
        w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/review / owed#2NBs0tD5Ihm2PVFzM3kZvMYdQX9/0007
        w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/reviewer/user:ann / shown#abababababababababababababababab
        w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/reviewer/user:ann / answer#1781049600000000/2NBs0tD5Ihm2PVFzM3kZvMYdQX9/0007
        w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/review/2NBs0tD5Ihm2PVFzM3kZvMYdQX9 / pair#07
        ");
        assert_eq!(parse_review(&review(&workspace, "june")), Some((workspace.clone(), "june")));
        assert_eq!(parse_review(&owed_answer(&id)), None);
        let within = |range: &KeyRange, key: &Key| range.from <= key.sk && key.sk <= range.to;
        let items = review_items(&workspace, &review_id, 5..8);
        assert!(within(&items, &review_item(&id)));
        for number in [4, 8] {
            assert!(!within(&items, &review_item(&ReviewItemId { number, ..id.clone() })));
        }
        assert!(!within(&items, &review_turn(&workspace, &review_id, "user:ann")));
        let pairs = arena_pairs(&workspace, &review_id);
        assert!(within(&pairs, &arena_pair(&workspace, &review_id, 7)) && !within(&pairs, &review_item(&id)));
        let answers = |from, before| given_answers(&workspace, "user:ann", from, before);
        assert!(within(&answers(at, at.plus_seconds(1)), &given_answer(&id, "user:ann", at)));
        assert!(!within(&answers(at.plus_seconds(-1), at), &given_answer(&id, "user:ann", at)));
        assert!(within(&owed_answers(&workspace, None), &owed_answer(&id)));
        assert!(within(&owed_answers(&workspace, Some(&review_id)), &owed_answer(&id)));
        assert!(!within(&owed_answers(&workspace, Some(&workspace)), &owed_answer(&id)));
        assert!(!within(&reviews(&workspace), &owed_answer(&id)));
        let turns = review_turns(&workspace, &review_id);
        assert!(within(&turns, &review_turn(&workspace, &review_id, "user:ann")));
        assert!(!within(&turns, &review_item(&id)));
    }
}
