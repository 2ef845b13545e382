//! Bytes that were damaged or made up give an error, never a panic.

use event::{Column, Columns, ErrorKind, Values, columns::Strings};
use proptest::{prelude::*, sample::Index};

use super::{repair, strategies::segments};
use crate::{
    MAX_CELLS, MAX_ROWS, MAX_TEXT_BYTES, VERSION, bytes::put_varint, decode, decode_only, encode, header,
    header::MAGIC,
};

/// Reads `bytes` in every way. The columns read must themselves make a valid segment.
fn read(bytes: &[u8]) {
    let _ = header(bytes);
    let _ = decode_only(bytes, |name| name.len() % 2 == 0);
    match decode(bytes) {
        Ok(columns) => {
            for column in &columns.columns {
                assert_eq!(column.values.len(), columns.rows);
                for row in 0..columns.rows {
                    let _ = (column.text(row), column.float(row), column.time(row));
                }
            }
            encode(&columns).expect("what was decoded can be encoded");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
    }
}

proptest! {
    #[test]
    fn changed_segments_never_panic(
        columns in segments(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        near_the_start in any::<bool>(),
        repaired in prop::bool::weighted(0.8),
    ) {
        let mut bytes = encode(&columns).expect("within bounds");
        let limit = if near_the_start { bytes.len().min(80) } else { bytes.len() };
        for (place, value) in changes {
            bytes[place.index(limit)] ^= value;
        }
        if repaired {
            repair(&mut bytes);
        }
        read(&bytes);
    }

    #[test]
    fn every_damaged_byte_is_noticed(
        columns in segments(),
        place in any::<Index>(),
        flip in 1..=255u8,
    ) {
        let mut bytes = encode(&columns).expect("within bounds");
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn cut_segments_are_refused(columns in segments(), length in any::<Index>()) {
        let mut bytes = encode(&columns).expect("within bounds");
        bytes.truncate(length.index(bytes.len()));
        repair(&mut bytes);
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn made_up_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&tail);
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        bytes.extend(&tail);
        read(&bytes);
        repair(&mut bytes);
        read(&bytes);
    }

    #[test]
    fn made_up_blocks_never_panic(
        block in prop::collection::vec(prop_oneof![any::<u8>(), 0..4u8], 1..=32),
        code in (1..=3u8, 0..=3u8).prop_map(|(kind, encoding)| kind | encoding << 4),
        rows in 1..40u64,
        nulls in 0..3u64,
    ) {
        read(&segment_of(rows, code, nulls, &block));
    }
}

/// Builds a segment of one column with valid checksums around a made-up block of at most 32 bytes.
fn segment_of(rows: u64, code: u8, nulls: u64, block: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    put_varint(&mut bytes, rows);
    bytes.extend([1, 1, b'x', code, 4]);
    put_varint(&mut bytes, nulls);
    bytes.push(block.len() as u8);
    bytes.extend(block);
    bytes.extend([0; 4]);
    repair(&mut bytes);
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    let error = decode(bytes).expect_err("hostile");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    error.to_string()
}

#[test]
fn claims_are_checked_before_memory_is_taken() {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    put_varint(&mut bytes, MAX_ROWS as u64 + 1);
    assert!(refusal(&bytes).contains("the number of rows"), "too many rows");

    bytes.truncate(5);
    put_varint(&mut bytes, MAX_ROWS as u64);
    put_varint(&mut bytes, 200);
    assert!(refusal(&bytes).contains(&MAX_CELLS.to_string()), "too many values");

    // Plain text, two rows, one length for both: just over half of the maximum.
    let mut block = vec![0];
    put_varint(&mut block, (MAX_TEXT_BYTES as u64 / 2 + 1) << 1);
    let text = refusal(&segment_of(2, 0x33, 0, &block));
    assert!(text.starts_with("segment column `x`: ") && text.contains("bytes of text"), "{text}");

    // A repeated byte expands to at most as many bytes as the rows need.
    let mut block = vec![1, 0, 1];
    put_varint(&mut block, 1 << 40 | 2);
    block.push(7);
    let text = refusal(&segment_of(5, 0x11, 0, &block));
    assert!(text.contains("does not fit"), "{text}");
}

#[test]
fn text_of_all_columns_shares_one_budget() {
    let long = "x".repeat(MAX_TEXT_BYTES / 2 - 8);
    let strings: Strings = [long.as_str()].into_iter().collect();
    let columns = ["a", "b"].map(|name| Column::new(name, Values::Text(strings.clone()))).to_vec();
    let mut columns = Columns { rows: 1, columns };
    let bytes = encode(&columns).expect("two halves fit");
    assert_eq!(decode(&bytes).expect("just encoded"), columns);
    columns.columns.push(Column::new("c", Values::Text(strings)));
    assert_eq!(encode(&columns).expect_err("three halves do not").kind(), ErrorKind::Invalid);
}

#[test]
fn errors_name_the_column() {
    let words: Vec<String> = (0..300).map(|i| format!("word {}", i * i)).collect();
    let words = Values::Text(words.iter().map(String::as_str).collect());
    let columns = Columns { rows: 300, columns: vec![Column::new("key", words)] };
    let mut bytes = encode(&columns).expect("within bounds");
    *bytes.last_mut().expect("not empty") ^= 1;
    assert_eq!(refusal(&bytes), "segment column `key`: its checksum does not match");
    bytes.push(0);
    assert!(refusal(&bytes).starts_with("segment: it has "));
    assert_eq!(refusal(b"PAR1"), "segment: these are not the bytes of a segment");
}
