//! Numbers of rows in ascending sets: the stored rows of a chunk of a file.

use segment::bytes::{Checked, Cursor, put_varint};

/// Form of a set as runs.
const RUNS: u64 = 0;
/// Form of a set as steps, if that is shorter.
const STEPS: u64 = 1;

/// Maximum numbers in a set.
const MAX_INDEXES: usize = 1 << 20;

/// Encodes a set: the count of its numbers, then if there are any, the form, and either runs (the gap before each, and the count
/// of numbers that follow its first) or steps (the gap before each number).
pub(crate) fn put(out: &mut Vec<u8>, indexes: &[u32]) {
    put_varint(out, indexes.len() as u64);
    if indexes.is_empty() {
        return;
    }
    let runs: Vec<(u32, u32)> = runs(indexes);
    let is_short = 2 * runs.len() <= indexes.len();
    put_varint(out, if is_short { RUNS } else { STEPS });
    let mut next = 0;
    if is_short {
        for (first, more) in runs {
            put_varint(out, u64::from(first - next));
            put_varint(out, u64::from(more));
            next = first + more + 1;
        }
    } else {
        for index in indexes {
            put_varint(out, u64::from(index - next));
            next = index + 1;
        }
    }
}

/// Decodes the output of [`put`].
pub(crate) fn take(cursor: &mut Cursor<'_>) -> Checked<Vec<u32>> {
    let count = cursor.varint_at_most(MAX_INDEXES, "the number of rows")?;
    let mut indexes = Vec::new();
    if count == 0 {
        return Ok(indexes);
    }
    let form = cursor.varint()?;
    let mut next = 0u64;
    while indexes.len() < count {
        let first = next.saturating_add(cursor.varint()?);
        let more = match form {
            RUNS => cursor.varint_at_most(count - indexes.len() - 1, "the rest of a run")? as u64,
            STEPS => 0,
            _ => return Err(format!("sets of rows have no form {form}").into()),
        };
        if first.saturating_add(more) >= u64::from(u32::MAX) {
            return Err(format!("there is no row {first}").into());
        }
        indexes.extend((first..=first + more).map(|index| index as u32));
        next = first + more + 1;
    }
    Ok(indexes)
}

/// Encodes a single set.
pub fn encode(indexes: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, indexes);
    out
}

/// Decodes the output of [`encode`].
///
/// # Errors
/// Fault of the bytes.
pub fn decode(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let mut cursor = Cursor::new(bytes);
    match take(&mut cursor) {
        Ok(indexes) if cursor.remaining() == 0 => Ok(indexes),
        Ok(_) => Err("bytes are left over".into()),
        Err(flaw) => Err(flaw.into_owned()),
    }
}

/// Runs of a set: the first number of each, and the count of numbers that follow it.
fn runs(indexes: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((first, more)) if *first + *more + 1 == *index => *more += 1,
            _ => runs.push((*index, 0)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;

    #[test]
    fn golden_bytes() {
        for (indexes, bytes) in [
            (vec![], &b"\x00"[..]),
            (vec![5], b"\x01\x01\x05"),
            ((0..300).collect(), b"\xac\x02\x00\x00\xab\x02"),
            (vec![1, 2, 3, 4, 9, 10], b"\x06\x00\x01\x03\x04\x01"),
            (vec![1, 3, 5, 6], b"\x04\x01\x01\x01\x01\x00"),
        ] {
            assert_eq!(encode(&indexes), bytes, "{indexes:?}");
            assert_eq!(decode(bytes).unwrap(), indexes);
        }
        for wrong in
            [&b""[..], b"\x02\x02\x01", b"\x01\x00\x05\x01", b"\x01\x01\x05\x00", b"\xff\xff\xff\x7f\x00"]
        {
            assert!(decode(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn sets_round_trip(set in collection::btree_set(0u32..5_000, 0..400)) {
            let indexes: Vec<u32> = set.into_iter().collect();
            prop_assert_eq!(decode(&encode(&indexes)).unwrap(), indexes);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }
}
