//! The end of a page as text: the index, the key of the last item, and its sort key in the index.

use aws_sdk_dynamodb::types::AttributeValue;
use event::{Error, Result};
use table::{Cursor, Index, Item, Key, Query};

use super::{
    codec::{Attributes, decode_key, encode, encode_key},
    schema::along,
};

/// Converts DynamoDB's `LastEvaluatedKey` to a cursor.
///
/// # Errors
/// `Corrupt` if it lacks a part.
pub(super) fn write(mut last: Attributes, index: Index) -> Result<Cursor> {
    let key = decode_key(&mut last)?;
    let mut parts = vec![name(index).to_owned(), key.pk, key.sk];
    if index != Index::Table {
        // A number exactly as DynamoDB writes it: a rounded score would skip or repeat items.
        match last.remove(along(index).range) {
            Some(AttributeValue::S(sort) | AttributeValue::N(sort)) => parts.push(sort),
            _ => return Err(Error::corrupt("DynamoDB ended a page of an index without saying where")),
        }
    }
    Ok(Cursor::of(parts))
}

/// Returns the cursor after `item`.
///
/// # Errors
/// See [`write`].
pub(super) fn after(item: &Item, index: Index) -> Result<Cursor> {
    let mut last = encode_key(&item.key);
    let sort = along(index).range;
    last.extend(item.attributes.get(sort).map(|value| (sort.to_owned(), encode(value))));
    write(last, index)
}

/// Converts the cursor of `query` to an `ExclusiveStartKey`.
///
/// # Errors
/// `Invalid` if the cursor is not one of this engine and index.
pub(super) fn read(cursor: &Cursor, query: &Query) -> Result<Attributes> {
    let index = query.index;
    let found = match (index, cursor.parts()) {
        (Index::Table, [found, pk, sk]) => Some((found, encode_key(&Key::new(pk, sk)))),
        (Index::Gsi1 | Index::Board, [found, pk, sk, sort]) => {
            let mut start = encode_key(&Key::new(pk, sk));
            let along = along(index);
            let sort =
                if index == Index::Board { AttributeValue::N } else { AttributeValue::S }(sort.clone());
            start.insert(along.hash.to_owned(), AttributeValue::S(query.range.pk.clone()));
            start.insert(along.range.to_owned(), sort);
            Some((found, start))
        }
        _ => None,
    };
    match found {
        Some((found, start)) if found == name(index) => Ok(start),
        _ => Err(Error::invalid("the cursor belongs to another query")),
    }
}

fn name(index: Index) -> &'static str {
    match index {
        Index::Table => "dynamodb/table",
        Index::Gsi1 => "dynamodb/gsi1",
        Index::Board => "dynamodb/board",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn last(index: Index, pk: &str, sk: &str, sort: &str) -> Attributes {
        let mut last = encode_key(&Key::new(pk, sk));
        match index {
            Index::Table => {}
            Index::Gsi1 => {
                last.insert("GSI1PK".into(), AttributeValue::S("partition".into()));
                last.insert("GSI1SK".into(), AttributeValue::S(sort.into()));
            }
            Index::Board => {
                last.insert("board".into(), AttributeValue::S("partition".into()));
                last.insert("score".into(), AttributeValue::N(sort.into()));
            }
        }
        last
    }

    #[test]
    fn a_cursor_of_another_index_is_refused() {
        let cursor = write(last(Index::Gsi1, "p", "s", "x"), Index::Gsi1).unwrap();
        for index in [Index::Table, Index::Board] {
            assert!(read(&cursor, &Query::index(index, "partition")).is_err());
        }
        assert!(read(&Cursor::of(Vec::new()), &Query::index(Index::Table, "p")).is_err());
        assert!(write(last(Index::Table, "p", "s", ""), Index::Gsi1).is_err());
    }

    proptest! {
        #[test]
        fn cursors_round_trip(pk in any::<String>(), sk in any::<String>(), sort in any::<String>()) {
            for index in [Index::Table, Index::Gsi1, Index::Board] {
                let last = last(index, &pk, &sk, &sort);
                let cursor = write(last.clone(), index).unwrap();
                let query = match index {
                    Index::Table => Query::index(index, pk.clone()),
                    _ => Query::index(index, "partition"),
                };
                prop_assert_eq!(read(&cursor, &query).unwrap(), last);
            }
        }
    }
}
