//! Content of the golden segments. The test that reads them and the example that writes them share this file; both
//! bring the types into scope one module up.

use super::{Coded, Column, Columns, Values};

/// Returns the name of each file (`segment-<name>.seg`) with its columns.
pub(crate) fn all() -> Vec<(&'static str, Columns)> {
    vec![
        ("empty", empty()),
        ("one-row", one_row()),
        ("mixed", mixed()),
        ("encodings", encodings()),
        ("singles", singles()),
        ("wide", wide()),
    ]
}

fn columns(rows: usize, columns: Vec<Column>) -> Columns {
    Columns { rows, columns }
}

fn text<'a>(values: impl IntoIterator<Item = &'a str>) -> Values {
    Values::Text(values.into_iter().collect())
}

fn nullable(name: &str, values: Values, is_null: impl Fn(usize) -> bool) -> Column {
    let valid = (0..values.len()).map(|row| !is_null(row)).collect();
    Column { name: name.into(), values, valid: Some(valid) }
}

/// Returns columns without rows.
fn empty() -> Columns {
    let time = Column::new("predicted_at", Values::Time(vec![]));
    let score = Column::new("score", Values::Float(vec![]));
    columns(0, vec![time, score, Column::new("label", text([]))])
}

/// Returns a single prediction: every column is constant and inside the header.
fn one_row() -> Columns {
    columns(
        1,
        vec![
            Column::new("key", text(["UA1545-EWR-01"])),
            Column::new("predicted_at", Values::Time(vec![1_370_077_620_000_000])),
            Column::new("release", text(["2gQvKFpc1ZbCJHnQVJ2iT4rW9xL"])),
            Column::new("score", Values::Float(vec![0.8125])),
            Column::new("label", text(["late"])),
            Column::new("tag.carrier", text(["UA"])),
            nullable("tag.origin", text([""]), |_| true),
        ],
    )
}

/// Returns every type with nulls, and error-prone values.
fn mixed() -> Columns {
    let times = vec![0, -1, i64::MIN, i64::MAX, 1_370_077_620_000_000, 5, 0, 1, 2];
    let floats = vec![
        -0.0,
        0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.1 + 0.2,
        f64::from_bits(1),
        f64::from_bits(0x7ff8_0000_0000_beef),
        f64::MAX,
    ];
    let strings =
        ["", "a", "ñandú", "日本語", "", "🛫 take-off", "quote \" and \\ slash", "tab\tline\n", "a"];
    let coded = Coded {
        codes: vec![2, 2, 0, 2, 0, 0, 2, 0, 2],
        dictionary: ["no", "unused", "yes"].into_iter().collect(),
    };
    columns(
        9,
        vec![
            Column::new("time", Values::Time(times.clone())),
            nullable("time.nulls", Values::Time(times), |row| row % 4 == 0),
            Column::new("float", Values::Float(floats.clone())),
            nullable("float.nulls", Values::Float(floats), |row| row < 3),
            nullable("float.none", Values::Float(vec![0.0; 9]), |_| true),
            Column::new("text", text(strings)),
            nullable("text.nulls", text(strings), |row| row % 2 == 1),
            nullable("text.none", text([""; 9]), |_| true),
            nullable("coded", Values::Coded(coded), |row| row == 8),
            Column::new("größe", Values::Float(vec![1.5, -2.25, 3.0, 0.0, 1e15, 0.0, 0.0, 7.0, -0.5])),
        ],
    )
}

/// Returns enough rows for every encoding and every way to store a chunk.
fn encodings() -> Columns {
    const ROWS: usize = 400;
    let start = 1_370_044_800_000_000_i64;
    // Well mixed, and the same everywhere.
    let mix = |row: usize, salt: u64| {
        let mixed = (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt << 40);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
    };
    let times = |time: &dyn Fn(usize) -> i64| Values::Time((0..ROWS).map(time).collect());
    let floats = |float: &dyn Fn(usize) -> f64| Values::Float((0..ROWS).map(float).collect());
    let words = |word: &dyn Fn(usize) -> String| {
        let words: Vec<String> = (0..ROWS).map(word).collect();
        text(words.iter().map(String::as_str))
    };
    let few = |count: u64| words(&|row| format!("value {}", mix(row, count) % count));
    columns(
        ROWS,
        vec![
            Column::new("time.constant", times(&|_| start)),
            Column::new("time.frame", times(&|row| start + (mix(row, 1) % 86_400) as i64 * 1_000_000)),
            Column::new(
                "time.delta",
                times(&|row| start + row as i64 * 200_000_000 + (mix(row, 2) % 9_999) as i64),
            ),
            Column::new("time.steady", times(&|row| start + row as i64 * 60_000_000)),
            Column::new("float.constant", floats(&|_| -0.0)),
            Column::new("float.decimal", floats(&|row| (mix(row, 3) % 10_001) as f64 / 1e4)),
            Column::new("float.bits", floats(&|row| (mix(row, 4) % 1_000_003) as f64 / 1_000_003.0)),
            Column::new(
                "text.constant",
                words(&|_| "always the same, and longer than thirty-two bytes".into()),
            ),
            Column::new("text.dictionary.1", few(2)),
            Column::new("text.dictionary.2", few(4)),
            Column::new("text.dictionary.4", few(16)),
            Column::new("text.dictionary.8", few(100)),
            Column::new("text.fixed", words(&|row| format!("key-{:08x}", mix(row, 5) as u32))),
            Column::new("text.plain", words(&|row| format!("{}-{:x}", "é".repeat(row % 7), mix(row, 6)))),
            nullable("time.nulls", times(&|row| start + row as i64 * 1_000), |row| row % 3 == 0),
            nullable("float.nulls", floats(&|row| row as f64 / 8.0), |row| row % 10 != 0),
            nullable("text.nulls", words(&|row| format!("{:012}", mix(row, 7))), |row| mix(row, 8) % 2 == 0),
        ],
    )
}

/// Doubles that are exactly singles, with nulls and error-prone values.
fn singles() -> Columns {
    let thirds = |row: usize| f64::from((row * row) as f32 / 3.0 - 700.0);
    let odd = [-0.0, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::INFINITY, 0.1];
    let values = |value: &dyn Fn(usize) -> f64| Values::Float((0..300).map(value).collect());
    columns(
        300,
        vec![
            Column::new("feature.thirds", values(&thirds)),
            nullable("feature.nulls", values(&thirds), |row| row % 7 == 3),
            Column::new("feature.odd", values(&|row| f64::from(odd[row % 6]))),
            Column::new("feature.double", values(&|row| 1.0 / (row + 1) as f64)),
            nullable("score.late", values(&|row| f64::from(1.0f32 / (row + 1) as f32)), |row| row == 0),
        ],
    )
}

/// Many columns.
fn wide() -> Columns {
    let column = |at: usize| {
        let name = format!("feature.{at:03}");
        let values = Values::Float((0..3).map(|row| (at * 3 + row) as f64 / 4.0).collect());
        nullable(&name, values, |row| row == at % 5)
    };
    columns(3, (0..300).map(column).collect())
}
