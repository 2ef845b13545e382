//! Selections of the predictions of a day: partitions of the keys, for days too large for memory, and a condition.

use std::fmt;

use event::Columns;

use crate::{
    LogSegment, Result,
    hash::{hash, mix},
    read::required_texts,
};

/// Salt mixed with the hash of a key, which gives its place. The join's tables use the low bits
/// of the plain hash; without the salt, all keys of a partition would have these in common and crowd in few slots.
const SALT: u64 = 0x7368_6172_6573;

/// Leading bits of the place that choose the partition of a key at one level.
const BITS: u32 = 7;

/// Number of partitions of all keys at level 0, and of each of these at the next level.
pub const PARTITIONS: usize = 1 << BITS;

/// Number of levels.
pub const LEVELS: u32 = u64::BITS / BITS;

/// Returns the place of a key among all keys, in an order that depends on nothing else.
#[inline]
pub(super) fn place_of(key: &str) -> u64 {
    mix(hash(key.as_bytes()), SALT)
}

/// Returns the rows of each partition at a level, in order. The key chooses the partition: an outcome and all predictions
/// that it labels are in the same one. Keys are divided by their places, so all of a partition are before those of the next.
///
/// # Errors
/// Fails if there is no column of keys without nulls.
pub fn partitions(columns: &Columns, level: u32) -> Result<Vec<Vec<usize>>> {
    let capacity = columns.rows / PARTITIONS * 5 / 4;
    let mut rows: Vec<Vec<usize>> = (0..PARTITIONS).map(|_| Vec::with_capacity(capacity)).collect();
    if columns.rows > 0 {
        let keys = required_texts(columns, "key")?;
        for row in 0..columns.rows {
            let place = place_of(keys.get(row).unwrap_or_default()) << (BITS * level);
            rows[(place >> (u64::BITS - BITS)) as usize].push(row);
        }
    }
    Ok(rows)
}

/// Condition that selects predictions. Like a bucket, it depends on the prediction alone, and is evaluated after the
/// join: for a prediction sent several times, on the last one.
pub trait Condition: fmt::Debug + Send + Sync {
    /// Returns the columns of predictions that it needs.
    fn columns(&self) -> &[String];

    /// Evaluates the condition for each row of all segments, one segment after the other.
    ///
    /// # Errors
    /// [`FoldError::Refused`](crate::FoldError::Refused) if it cannot be computed.
    fn holds(&self, predictions: &[LogSegment<'_>]) -> Result<Vec<bool>>;
}
