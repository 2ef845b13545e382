//! Segments that are stored must stay readable. The bytes of a new segment may differ
//! from them, as zstd is free to compress better tomorrow, so the test goes from bytes to columns.
//! `segment/examples/segment_golden.rs` writes the files.

use std::fmt::Write as _;

use event::{Column, Columns, Values, columns::Coded};

use crate::{ColumnKind, Header, decode, encode, header};

#[path = "../../tests/golden/fixtures.rs"]
mod fixtures;

fn golden(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/golden/segment-{name}.seg", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn golden_segments_decode_to_what_was_stored() {
    for (name, columns) in fixtures::all() {
        assert_eq!(decode(&golden(name)).expect(name), columns, "{name}");
    }
}

#[test]
fn todays_headers_are_like_the_golden_ones() {
    for (name, columns) in fixtures::all() {
        let today = header(&encode(&columns).expect(name)).expect(name);
        let stored = header(&golden(name)).expect(name);
        let encodings = |header: &Header| -> Vec<(String, u8)> {
            header.columns.iter().map(|column| (column.name.clone(), column.encoding)).collect()
        };
        assert_eq!(encodings(&today), encodings(&stored), "{name}");
    }
}

fn describe(header: &Header) -> String {
    let mut text = format!("version {}, {} rows\n", header.version, header.rows);
    for column in &header.columns {
        let constant = match (column.constant, column.kind) {
            (None, _) => String::new(),
            (Some(bits), ColumnKind::Float) => format!(" {:e}", f64::from_bits(bits)),
            (Some(bits), _) => format!(" {}", bits as i64),
        };
        let _ = writeln!(
            text,
            "{}: {:?}/{}, {} nulls, {} bytes{constant}",
            column.name, column.kind, column.encoding, column.nulls, column.stored_bytes
        );
    }
    text
}

/// Describes the headers of all golden files.
fn headers(names: &[&str]) -> String {
    let text: Vec<String> = names
        .iter()
        .map(|name| format!("{name}: {}", describe(&header(&golden(name)).expect(name))))
        .collect();
    text.join("\n")
}

#[test]
fn golden_headers() {
    insta::assert_snapshot!(headers(&["empty", "one-row", "mixed", "encodings", "singles"]));
    assert_eq!(header(&golden("wide")).expect("a golden segment").columns.len(), 300);
}
