//! Segments stored by earlier builds must stay readable. The bytes of a new segment may differ from them, as zstd is
//! free to compress better tomorrow, so the test goes from bytes to columns. `segment/examples/segment_golden.rs`
//! writes the files.

use std::fmt::Write as _;

use event::{Column, Columns, Values, columns::Coded};

use crate::{Header, Range, decode, encode, header};

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

#[test]
fn only_what_needs_version_2_is_written_in_it() {
    for (name, columns) in fixtures::all() {
        let stored = header(&golden(name)).expect(name);
        assert_eq!(name[1..2], stored.version.to_string(), "{name}");
        assert_eq!(header(&encode(&columns).expect(name)).expect(name).version, stored.version, "{name}");
    }
    let mut wide = golden("v2-wide");
    assert_eq!(header(&wide).expect("a golden segment").columns.len(), 300);
    wide[4] = 1;
    assert!(header(&wide).expect_err("too many columns").to_string().contains("columns"));
}

fn describe(header: &Header) -> String {
    let mut text = format!("version {}, {} rows\n", header.version, header.rows);
    for column in &header.columns {
        let range = match column.range {
            None => String::new(),
            Some(Range::Time { min, max }) => format!(" {min}..{max}"),
            Some(Range::Float { min, max }) => format!(" {min:e}..{max:e}"),
        };
        let _ = writeln!(
            text,
            "{}: {:?}/{}, {} nulls, {} bytes{range}",
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
    let names = ["v1-empty", "v1-one-row", "v1-mixed", "v1-encodings", "v1-few-bounds"];
    insta::assert_snapshot!(headers(&names), @"
    v1-empty: version 1, 0 rows
    predicted_at: Time/0, 0 nulls, 0 bytes
    score: Float/0, 0 nulls, 0 bytes
    label: Text/0, 0 nulls, 0 bytes

    v1-one-row: version 1, 1 rows
    key: Text/0, 0 nulls, 13 bytes
    predicted_at: Time/0, 0 nulls, 0 bytes 1370077620000000..1370077620000000
    release: Text/0, 0 nulls, 27 bytes
    score: Float/0, 0 nulls, 0 bytes 8.125e-1..8.125e-1
    label: Text/0, 0 nulls, 4 bytes
    tag.carrier: Text/0, 0 nulls, 2 bytes
    tag.origin: Text/0, 1 nulls, 0 bytes

    v1-mixed: version 1, 9 rows
    time: Time/2, 0 nulls, 75 bytes -9223372036854775808..9223372036854775807
    time.nulls: Time/2, 3 nulls, 58 bytes -9223372036854775808..9223372036854775807
    float: Float/2, 0 nulls, 59 bytes -inf..inf
    float.nulls: Float/2, 3 nulls, 53 bytes -inf..inf
    float.none: Float/0, 9 nulls, 0 bytes
    text: Text/3, 0 nulls, 74 bytes
    text.nulls: Text/3, 4 nulls, 40 bytes
    text.none: Text/0, 9 nulls, 0 bytes
    coded: Text/1, 1 nulls, 14 bytes
    größe: Float/2, 0 nulls, 51 bytes -2.25e0..1e15

    v1-encodings: version 1, 400 rows
    time.constant: Time/0, 0 nulls, 0 bytes 1370044800000000..1370044800000000
    time.frame: Time/1, 0 nulls, 975 bytes 1370045172000000..1370131154000000
    time.delta: Time/2, 0 nulls, 764 bytes 1370044800002293..1370124600004692
    time.steady: Time/2, 0 nulls, 13 bytes 1370044800000000..1370068740000000
    float.constant: Float/0, 0 nulls, 0 bytes -0e0..-0e0
    float.decimal: Float/1, 0 nulls, 706 bytes 3.6e-3..9.956e-1
    float.bits: Float/2, 0 nulls, 2778 bytes 1.174996475010575e-3..9.941940174179478e-1
    text.constant: Text/0, 0 nulls, 49 bytes
    text.dictionary.1: Text/1, 0 nulls, 70 bytes
    text.dictionary.2: Text/1, 0 nulls, 136 bytes
    text.dictionary.4: Text/1, 0 nulls, 289 bytes
    text.dictionary.8: Text/1, 0 nulls, 657 bytes
    text.fixed: Text/2, 0 nulls, 1654 bytes
    text.plain: Text/3, 0 nulls, 3207 bytes
    time.nulls: Time/2, 134 nulls, 87 bytes 1370044800001000..1370044800398000
    float.nulls: Float/1, 360 nulls, 98 bytes 0e0..4.875e1
    text.nulls: Text/3, 207 nulls, 1323 bytes

    v1-few-bounds: version 1, 400 rows
    time.constant: Time/0, 0 nulls, 0 bytes 1370044800000000..1370044800000000
    time.frame: Time/1, 0 nulls, 975 bytes
    time.delta: Time/2, 0 nulls, 764 bytes
    time.steady: Time/2, 0 nulls, 13 bytes
    float.constant: Float/0, 0 nulls, 0 bytes -0e0..-0e0
    float.decimal: Float/1, 0 nulls, 706 bytes
    float.bits: Float/2, 0 nulls, 2778 bytes
    text.constant: Text/0, 0 nulls, 49 bytes
    text.dictionary.1: Text/1, 0 nulls, 70 bytes
    text.dictionary.2: Text/1, 0 nulls, 136 bytes
    text.dictionary.4: Text/1, 0 nulls, 289 bytes
    text.dictionary.8: Text/1, 0 nulls, 657 bytes
    text.fixed: Text/2, 0 nulls, 1654 bytes
    text.plain: Text/3, 0 nulls, 3207 bytes
    time.nulls: Time/2, 134 nulls, 87 bytes
    float.nulls: Float/1, 360 nulls, 98 bytes
    text.nulls: Text/3, 207 nulls, 1323 bytes
    ");
}

#[test]
fn golden_headers_of_version_2() {
    insta::assert_snapshot!(headers(&["v2-singles"]), @"
    v2-singles: version 2, 300 rows
    feature.thirds: Float/3, 0 nulls, 711 bytes
    feature.nulls: Float/3, 43 nulls, 705 bytes
    feature.odd: Float/3, 0 nulls, 87 bytes
    feature.double: Float/2, 0 nulls, 1960 bytes
    score.late: Float/3, 1 nulls, 968 bytes
    ");
}
