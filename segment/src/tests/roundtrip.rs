//! Round trips of columns.

use event::{
    Column, Columns, ErrorKind, Values,
    columns::{Coded, Strings},
};
use proptest::prelude::*;

use super::strategies::segments;
use crate::{ColumnKind, MAX_COLUMNS, MAX_ROWS, MAX_TEXT_BYTES, decode, decode_only, encode, header};

fn one(column: Column) -> Columns {
    Columns { rows: column.values.len(), columns: vec![column] }
}

fn words(count: usize) -> Strings {
    let words: Vec<String> = (0..count).map(|i| format!("word {i}")).collect();
    words.iter().map(String::as_str).collect()
}

proptest! {
    #[test]
    fn segments_round_trip(columns in segments()) {
        let bytes = encode(&columns).expect("within bounds");
        let decoded = decode(&bytes).expect("just encoded");
        prop_assert_eq!(&decoded, &columns);
        prop_assert_eq!(encode(&decoded).expect("within bounds"), bytes.clone(), "one form for equal columns");

        let header = header(&bytes).expect("just encoded");
        prop_assert_eq!(header.rows, columns.rows);
        for (stored, column) in header.columns.iter().zip(&columns.columns) {
            prop_assert_eq!(&stored.name, &column.name);
            prop_assert_eq!(stored.nulls, column.nulls());
            prop_assert_eq!(stored.constant, expected_constant(column));
            let alone = decode_only(&bytes, |name| name == column.name).expect("just encoded");
            prop_assert_eq!(alone, Columns { rows: columns.rows, columns: vec![column.clone()] });
        }
    }
}

/// Returns the value that a constant column of times or floats stores; other columns store none.
fn expected_constant(column: &Column) -> Option<u64> {
    let bits = |row| match column.values {
        Values::Time(_) => column.time(row).map(|time| time as u64),
        _ => column.float(row).map(f64::to_bits),
    };
    let is_text = matches!(column.values, Values::Text(_) | Values::Coded(_));
    let mut values = (0..column.values.len()).filter_map(bits);
    let first = values.next().filter(|_| !is_text)?;
    let is_nan = matches!(column.values, Values::Float(_)) && f64::from_bits(first).is_nan();
    (!is_nan && values.all(|value| value == first)).then_some(first)
}

#[test]
fn only_few_distinct_strings_decode_as_codes() {
    for (distinct, coded) in [(1, true), (2, true), (256, true), (257, false), (1000, false)] {
        let words = words(distinct);
        let strings: Strings = (0..2000).map(|row| words.get(row % distinct)).collect();
        let columns = one(Column::new("word", Values::Text(strings)));
        let decoded = decode(&encode(&columns).expect("within bounds")).expect("just encoded");
        assert_eq!(decoded, columns);
        assert_eq!(matches!(decoded.columns[0].values, Values::Coded(_)), coded, "{distinct} distinct");
    }
}

#[test]
fn a_single_prediction_is_small() {
    let text = |value: &str| Values::Text([value].into_iter().collect());
    let columns = Columns {
        rows: 1,
        columns: vec![
            Column::new("key", text("8f3kq02mzx1p")),
            Column::new("predicted_at", Values::Time(vec![1_370_077_620_123_456])),
            Column::new("release", text("v1")),
            Column::new("score", Values::Float(vec![0.123_456_789])),
            Column::new("label", text("late")),
            Column::new("tag.carrier", text("UA")),
            Column::new("tag.origin", text("EWR")),
        ],
    };
    let bytes = encode(&columns).expect("within bounds");
    assert!(bytes.len() <= 135, "{} bytes", bytes.len());
    assert_eq!(decode(&bytes).expect("just encoded"), columns);
}

#[test]
fn float_payloads_survive_bit_for_bit() {
    let bits = [0, 1 << 63, 0x7ff8_0000_0000_1234, 0xfff0_0000_0000_0001, 0x7ff0_0000_0000_0000, 1];
    for bits in [&bits[..], &bits[2..3], &bits[1..2]] {
        let columns =
            one(Column::new("score", Values::Float(bits.iter().copied().map(f64::from_bits).collect())));
        let decoded = decode(&encode(&columns).expect("within bounds")).expect("just encoded");
        let Values::Float(floats) = &decoded.columns[0].values else { panic!("floats come back as floats") };
        assert_eq!(floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>(), bits);
    }
}

#[test]
fn exceeded_bounds_are_refused() {
    let refusal = |columns: &Columns| {
        let error = encode(columns).expect_err("out of bounds");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let float = |name: &str, rows| Column::new(name, Values::Float(vec![0.5; rows]));
    assert!(refusal(&one(float("x", MAX_ROWS + 1))).contains("rows"));
    let many = (0..=MAX_COLUMNS).map(|i| float(&i.to_string(), 1)).collect();
    assert!(refusal(&Columns { rows: 1, columns: many }).contains("columns"));
    assert!(refusal(&one(float(&"x".repeat(256), 1))).contains("256 bytes"));
    let twice = Columns { rows: 1, columns: vec![float("x", 1), float("y", 1), float("x", 1)] };
    assert!(refusal(&twice).contains("`x` occurs twice"));
    let uneven = Columns { rows: 2, columns: vec![float("x", 2), float("y", 1)] };
    assert!(refusal(&uneven).contains("`y` has 1 rows instead of 2"));
    let coded = Coded { codes: vec![0, 1], dictionary: ["a"].into_iter().collect() };
    assert!(refusal(&one(Column::new("x", Values::Coded(coded)))).contains("`x`: a code"));
    let long = "x".repeat(MAX_TEXT_BYTES + 1);
    let long = Column::new("x", Values::Text([long.as_str()].into_iter().collect()));
    assert!(refusal(&one(long)).contains("bytes of text"));
}

#[test]
fn the_header_can_be_read_without_the_blocks() {
    let columns = one(Column::new("word", Values::Text(words(500))));
    let bytes = encode(&columns).expect("within bounds");
    let stored = header(&bytes).expect("just encoded");
    let cut = bytes.len() - stored.columns[0].stored_bytes;
    assert_eq!(header(&bytes[..cut]).expect("the header is whole"), stored);
    assert!(decode(&bytes[..cut]).is_err(), "the block is missing");
    assert_eq!(stored.column("word").map(|column| column.kind), Some(ColumnKind::Text));
}
