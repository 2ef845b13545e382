//! Segments of a later version: unknown parts are left out if that is safe, and else named in an error.

use event::{Column, Columns, ErrorKind, Values};

use super::repair;
use crate::{ColumnKind, decode, decode_only, encode, header};

/// Encodes three columns and replaces the byte with type and encoding of the middle one.
fn with_code(rows: usize, code: u8) -> Vec<u8> {
    let floats = || Values::Float((0..rows).map(|row| row as f64 / 3.0).collect());
    let columns = ["first", "middle", "last"].map(|name| Column::new(name, floats())).to_vec();
    let mut bytes = encode(&Columns { rows, columns }).expect("within bounds");
    let name = bytes.windows(6).position(|bytes| bytes == b"middle").expect("the name is in the header");
    bytes[name + 6] = code;
    repair(&mut bytes);
    bytes
}

fn names(columns: &Columns) -> Vec<&str> {
    columns.columns.iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn column_of_unknown_type_is_skipped() {
    for rows in [1, 100] {
        let bytes = with_code(rows, 0x79);
        let columns = decode(&bytes).expect("the other columns are fine");
        assert_eq!(names(&columns), ["first", "last"]);
        assert_eq!(columns.columns[1].float(rows - 1), Some((rows - 1) as f64 / 3.0));
        let stored = header(&bytes).expect("the header is fine");
        assert_eq!(stored.columns[1].kind, ColumnKind::Unknown(9));
        assert_eq!(stored.columns[1].encoding, 7);
    }
}

#[test]
fn unknown_encoding_fails_only_when_column_is_read() {
    for rows in [1, 100] {
        let bytes = with_code(rows, 0xf2);
        let error = decode(&bytes).expect_err("encoding 15 is unknown");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let text = error.to_string();
        assert!(text.starts_with("segment column `middle`: ") && text.contains("encoding 15"), "{text}");
        assert!(text.contains("newer Almanac"), "{text}");
        let others = decode_only(&bytes, |name| name != "middle").expect("the other columns are fine");
        assert_eq!(names(&others), ["first", "last"]);
    }
}

#[test]
fn an_unknown_version_or_flag_is_refused() {
    let mut bytes = with_code(5, 0x22);
    bytes[4] = 2;
    repair(&mut bytes);
    let text = decode(&bytes).expect_err("version 2").to_string();
    assert!(text.contains("version 2") && text.contains("newer Almanac"), "{text}");

    let mut bytes = with_code(5, 0x22);
    let name = bytes.windows(6).position(|bytes| bytes == b"middle").expect("the name is in the header");
    bytes[name + 7] |= 0x80;
    let text = decode(&bytes).expect_err("an unknown flag").to_string();
    assert!(text.contains("`middle`") && text.contains("newer Almanac"), "{text}");
}
