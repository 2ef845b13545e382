//! Batches of a segment, in a form small enough to name a thousand single events.

use std::{collections::BTreeMap, fmt};

use event::{Id, Result};
use segment::bytes::{Checked, Cursor, put_varint};
use table::{Item, item::Value};

use crate::{
    indexes,
    key::{self, LogId},
};

/// Number of bytes of a [`BatchId`].
const ID_BYTES: usize = 16;

/// Name of a batch within the logs of one workspace: 128 bits that its writer derives from the idempotency key or the
/// events. No two batches of one log share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub [u8; ID_BYTES]);

impl fmt::Display for BatchId {
    /// Writes 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Share of a batch that a segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPart {
    /// Id of the batch.
    pub batch: BatchId,
    /// Index of its first row among the batch's rows for this log.
    pub first: usize,
    /// Number of its rows.
    pub rows: usize,
}

/// Encodes the parts: for each its id, its first row and its rows (both as varints).
pub(crate) fn encode(parts: &[BatchPart]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.len() * (ID_BYTES + 2));
    for part in parts {
        out.extend_from_slice(&part.batch.0);
        put_varint(&mut out, part.first as u64);
        put_varint(&mut out, part.rows as u64);
    }
    out
}

/// Decodes the output of [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> Checked<Vec<BatchPart>> {
    let mut cursor = Cursor::new(bytes);
    let mut parts = Vec::with_capacity(bytes.len() / (ID_BYTES + 2));
    while cursor.remaining() > 0 {
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(cursor.take(ID_BYTES)?);
        let first = cursor.varint_at_most(u32::MAX as usize, "the first row of a batch")?;
        let rows = cursor.varint_at_most(u32::MAX as usize, "the rows of a batch")?;
        parts.push(BatchPart { batch: BatchId(id), first, rows });
    }
    Ok(parts)
}

/// Encodes the rows of its chunk that each part holds: a set for each.
pub(crate) fn encode_indexes(sets: &[Vec<u32>]) -> Vec<u8> {
    let mut out = Vec::new();
    sets.iter().for_each(|set| indexes::put(&mut out, set));
    out
}

/// Decodes the output of [`encode_indexes`]: for each part none, or as many as it has rows.
pub(crate) fn decode_indexes(bytes: &[u8], parts: &[BatchPart]) -> Checked<Vec<Vec<u32>>> {
    let mut cursor = Cursor::new(bytes);
    let mut sets = Vec::with_capacity(parts.len());
    for part in parts {
        let set = indexes::take(&mut cursor)?;
        if !set.is_empty() && set.len() != part.rows {
            return Err(format!("{} rows of a part of {}", set.len(), part.rows).into());
        }
        sets.push(set);
    }
    if cursor.remaining() > 0 { Err("bytes are left over".into()) } else { Ok(sets) }
}

/// Encodes as an attribute, for each log, a segment before any of the batch.
pub fn after_to_item(after: &BTreeMap<LogId, u64>) -> BTreeMap<String, Value> {
    after.iter().map(|(log, seq)| (log.to_string(), Value::from(*seq as i64))).collect()
}

/// Reads the attribute `after` of an item, which [`after_to_item`] encodes.
///
/// # Errors
/// `Corrupt`, when it is not segment numbers of logs.
pub fn after_from_item(item: &Item, workspace: &Id) -> Result<BTreeMap<LogId, u64>> {
    let mut after = BTreeMap::new();
    for (log, seq) in item.map("after")? {
        let seq = match seq {
            Value::N(seq) => seq.as_i64().and_then(|seq| u64::try_from(seq).ok()),
            _ => None,
        };
        let (Some(log), Some(seq)) = (key::parse_log(workspace, log), seq) else {
            return Err(item.corrupt("`after` is not segment numbers of logs"));
        };
        after.insert(log, seq);
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;

    #[test]
    fn golden_bytes() {
        let id = BatchId(*b"0123456789abcdef");
        let parts =
            [BatchPart { batch: id, first: 0, rows: 1 }, BatchPart { batch: id, first: 300, rows: 2 }];
        let bytes = encode(&parts);
        assert_eq!(bytes, b"0123456789abcdef\x00\x010123456789abcdef\xac\x02\x02");
        assert_eq!(decode(&bytes).unwrap(), parts);
        assert!(decode(&bytes[..17]).is_err(), "cut short");
        assert_eq!(id.to_string(), "30313233343536373839616263646566");
    }

    proptest! {
        #[test]
        fn parts_round_trip(parts in collection::vec((any::<[u8; 16]>(), any::<u32>(), any::<u32>()), 0..20)) {
            let part = |(id, first, rows)| BatchPart { batch: BatchId(id), first: first as usize, rows: rows as usize };
            let parts: Vec<BatchPart> = parts.into_iter().map(part).collect();
            prop_assert_eq!(decode(&encode(&parts)).unwrap(), parts);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes);
        }
    }
}
