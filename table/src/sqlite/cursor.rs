//! End of a page, as text: the index, and the sort key and key of the last item.

use event::{Error, Result};
use rusqlite::types::Value;

use crate::{Cursor, Index, Key};

/// Sort key of an item along an index.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SortKey {
    /// Sort key along the table and `GSI1`.
    Text(String),
    /// Sort key along `board`.
    Score(f64),
}

/// Place of an item along an index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IndexEntry {
    pub(super) sort: SortKey,
    pub(super) key: Key,
}

impl IndexEntry {
    /// Converts the place to a cursor.
    pub(super) fn cursor(self, index: Index) -> Cursor {
        let sort = match self.sort {
            SortKey::Text(text) => text,
            // Bit for bit: a rounded score would skip or repeat items.
            SortKey::Score(score) => format!("{:016x}", score.to_bits()),
        };
        let name = name(index).to_owned();
        Cursor::of(match index {
            Index::Table => vec![name, self.key.pk, self.key.sk],
            Index::Gsi1 | Index::Board => vec![name, self.key.pk, self.key.sk, sort],
        })
    }

    /// Parses the place of a cursor along `index`.
    ///
    /// # Errors
    /// `Invalid`, when the cursor is not one of this engine and index.
    pub(super) fn read(cursor: &Cursor, index: Index) -> Result<Self> {
        let place = || match (index, cursor.parts()) {
            (Index::Table, [_, pk, sk]) => {
                Some(Self { sort: SortKey::Text(sk.clone()), key: Key::new(pk, sk) })
            }
            (Index::Gsi1, [_, pk, sk, sort]) => {
                Some(Self { sort: SortKey::Text(sort.clone()), key: Key::new(pk, sk) })
            }
            (Index::Board, [_, pk, sk, bits]) => {
                let score = f64::from_bits(u64::from_str_radix(bits, 16).ok()?);
                Some(Self { sort: SortKey::Score(score), key: Key::new(pk, sk) })
            }
            _ => None,
        };
        let ours = cursor.parts().first().is_some_and(|found| found == name(index));
        place().filter(|_| ours).ok_or_else(|| Error::invalid("the cursor belongs to another query"))
    }

    /// Values of the columns that order an index.
    pub(super) fn columns(self, index: Index) -> Vec<Value> {
        let sort = match self.sort {
            SortKey::Text(text) => Value::Text(text),
            SortKey::Score(score) => Value::Real(score),
        };
        match index {
            Index::Table => vec![sort],
            Index::Gsi1 | Index::Board => vec![sort, Value::Text(self.key.pk), Value::Text(self.key.sk)],
        }
    }
}

fn name(index: Index) -> &'static str {
    match index {
        Index::Table => "table",
        Index::Gsi1 => "gsi1",
        Index::Board => "board",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_of_another_index_is_refused() {
        let place = IndexEntry { sort: SortKey::Text("s".into()), key: Key::new("p", "s") };
        let cursor = place.clone().cursor(Index::Gsi1);
        assert_eq!(IndexEntry::read(&cursor, Index::Gsi1).unwrap(), place);
        assert!(IndexEntry::read(&cursor, Index::Table).is_err());
        assert!(IndexEntry::read(&cursor, Index::Board).is_err());
        assert!(IndexEntry::read(&Cursor::of(Vec::new()), Index::Table).is_err());
    }

    proptest! {
        #[test]
        fn scores_round_trip_bit_for_bit(score in any::<f64>()) {
            let place = IndexEntry { sort: SortKey::Score(score), key: Key::new("p", "s") };
            let read = IndexEntry::read(&place.cursor(Index::Board), Index::Board).unwrap();
            let SortKey::Score(found) = read.sort else { panic!("{read:?}") };
            prop_assert_eq!(found.to_bits(), score.to_bits());
        }
    }
}
