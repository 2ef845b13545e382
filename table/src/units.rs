//! Costs of reads and writes on DynamoDB on demand, in request units.
//!
//! A write costs a unit for each kilobyte of the item, rounded up, and the same again for each index that the item is in; a
//! consistent read one for each four kilobytes, rounded up, of an item or of a page. In a transaction a write costs twice that
//! (DynamoDB Developer Guide, "Read/write capacity mode").

use crate::Item;

/// Number of bytes of a write unit.
pub const WRITE_UNIT_BYTES: usize = 1024;

/// Number of bytes of a read unit.
const READ_UNIT_BYTES: usize = 4 * 1024;

/// Attributes by which an item is in an index.
const INDEXED_BY: [&str; 2] = ["GSI1PK", "board"];

/// Units that a write of this many bytes costs.
pub fn write_units(bytes: usize) -> u64 {
    bytes.div_ceil(WRITE_UNIT_BYTES).max(1) as u64
}

/// Units that a read of an item or a page of this many bytes costs.
pub fn read_units(bytes: usize) -> u64 {
    bytes.div_ceil(READ_UNIT_BYTES).max(1) as u64
}

/// Number of times that an item is written: to the table, and to each index that it is in.
pub fn copies(item: &Item) -> u64 {
    1 + INDEXED_BY.iter().filter(|name| item.attributes.contains_key(**name)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn capacity_units_round_up_and_count_indexes() {
        assert_eq!([0, 1, 1_024, 1_025, 400 * 1_024].map(write_units), [1, 1, 1, 2, 400]);
        assert_eq!([0, 4_096, 4_097].map(read_units), [1, 1, 2]);
        let item = Item::new(Key::new("a", "b"));
        assert_eq!(copies(&item), 1);
        let item = item.with("GSI1PK", "x").with("GSI1SK", "y");
        assert_eq!(copies(&item), 2);
        assert_eq!(copies(&item.with("board", "x").with("score", 1)), 3);
    }
}
