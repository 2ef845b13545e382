//! Partitions of a day, for days that are too large to be held as a whole.

use event::Columns;

use crate::{
    Result,
    hash::{hash, mix},
    read::required_texts,
};

/// Mixed with the hash of a key before partitions are dealt by its low bits. The join's tables find their slots by the low
/// bits of the plain hash; without this, all keys of a partition would have these in common and crowd in few slots.
const SALT: u64 = 0x7368_6172_6573;

/// The predictions and outcomes of some of all keys, dealt by the hash of the key: whatever judges a prediction
/// or meets it at an outcome is in the same partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    number: u64,
    /// A power of two.
    of: u64,
}

impl Partition {
    /// Everything.
    pub const ALL: Self = Self { number: 0, of: 1 };

    /// About half of it, by the key.
    #[must_use]
    pub fn half(self) -> Self {
        Self { of: self.of * 2, ..self }
    }

    /// The one after it of as many partitions, which has none of its keys; `None` after the last.
    #[must_use]
    pub fn following(self) -> Option<Self> {
        let number = self.number + 1;
        (number < self.of).then_some(Self { number, ..self })
    }

    /// The rows of the partition, in their order.
    ///
    /// # Errors
    /// When there is no column of keys without nulls.
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
