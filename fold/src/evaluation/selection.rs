//! Selections of the predictions of a day: a partition of all keys, for days too large for memory, and a condition.

use std::fmt;

use event::Columns;

use crate::{
    LogSegment, Result,
    hash::{hash, mix},
    read::required_texts,
};

/// Salt mixed with the hash of a key, of which the low bits choose the partition. The join's tables use the low bits
/// of the plain hash; without the salt, all keys of a partition would have these in common and crowd in few slots.
const SALT: u64 = 0x7368_6172_6573;

/// Predictions and outcomes of a subset of all keys, selected by the hash of the key: an outcome, and all predictions
/// that it labels, are in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    number: u64,
    /// Number of partitions, a power of two.
    of: u64,
}

impl Partition {
    /// All keys.
    pub const ALL: Self = Self { number: 0, of: 1 };

    /// Returns about half of it, by the key.
    #[must_use]
    pub fn half(self) -> Self {
        Self { of: self.of * 2, ..self }
    }

    /// Returns the next of as many partitions, which has none of its keys; `None` after the last.
    #[must_use]
    pub fn following(self) -> Option<Self> {
        let number = self.number + 1;
        (number < self.of).then_some(Self { number, ..self })
    }

    /// Selects the rows of the partition, in order.
    ///
    /// # Errors
    /// Fails if there is no column of keys without nulls.
    pub fn take(self, columns: Columns) -> Result<Columns> {
        if self == Self::ALL || columns.rows == 0 {
            return Ok(columns);
        }
        let keys = required_texts(&columns, "key")?;
        let is_mine = |row: &usize| {
            let key = keys.get(*row).unwrap_or_default();
            mix(hash(key.as_bytes()), SALT) & (self.of - 1) == self.number
        };
        let rows: Vec<usize> = (0..columns.rows).filter(is_mine).collect();
        Ok(columns.take(&rows))
    }
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
