//! Columns of every sort for property tests.

use event::{Column, Columns, Values, columns::Coded};
use proptest::{collection::vec, prelude::*, sample::select};

/// Segments of 0 to 600 rows: enough for more than 256 distinct strings.
pub(super) fn segments() -> impl Strategy<Value = Columns> {
    let rows = prop_oneof![2 => Just(0usize), 4 => Just(1), 10 => 2..40usize, 3 => 200..600usize];
    rows.prop_flat_map(|rows| {
        vec(column(rows), 0..5).prop_map(move |mut columns| {
            for (i, column) in columns.iter_mut().enumerate() {
                column.name = format!("{}{i}", column.name);
            }
            Columns { rows, columns }
        })
    })
}

fn column(rows: usize) -> impl Strategy<Value = Column> {
    let values = prop_oneof![times(rows), floats(rows), texts(rows), coded(rows)];
    let name = prop_oneof![Just(""), Just("score"), Just("größe")];
    (name, values, valid(rows)).prop_map(|(name, values, valid)| Column { name: name.into(), values, valid })
}

fn valid(rows: usize) -> impl Strategy<Value = Option<Vec<bool>>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(vec![true; rows])),
        1 => Just(Some(vec![false; rows])),
        3 => vec(any::<bool>(), rows).prop_map(Some),
    ]
}

fn times(rows: usize) -> BoxedStrategy<Values> {
    let extremes = select(vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX]);
    let ascending = (any::<i64>(), vec(0..5_000i64, rows), select(vec![1i64, 1_000, 1_000_000])).prop_map(
        |(mut time, gaps, unit)| {
            gaps.into_iter()
                .map(|gap| {
                    time = time.wrapping_add(gap * unit);
                    time
                })
                .collect::<Vec<_>>()
        },
    );
    prop_oneof![
        vec(any::<i64>(), rows),
        vec(extremes, rows),
        vec((0..86_400i64).prop_map(|second| second * 1_000_000), rows),
        ascending,
    ]
    .prop_map(Values::Time)
    .boxed()
}

fn floats(rows: usize) -> BoxedStrategy<Values> {
    let special = select(vec![
        0.0,
        -0.0,
        1.0,
        0.1,
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0001),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        f64::MAX,
        2f64.powi(51),
        2f64.powi(53) + 2.0,
    ]);
    let decimal = (0..=15i32, any::<i32>()).prop_map(|(scale, whole)| f64::from(whole) / 10f64.powi(scale));
    prop_oneof![
        vec(any::<u64>().prop_map(f64::from_bits), rows),
        vec(special, rows),
        vec(decimal, rows),
        vec((0..=10_000u32).prop_map(|score| f64::from(score) / 1e4), rows),
        vec(any::<f32>().prop_map(f64::from), rows),
    ]
    .prop_map(Values::Float)
    .boxed()
}

fn strings(rows: usize) -> BoxedStrategy<Vec<String>> {
    prop_oneof![
        vec("[a-c]{0,2}", rows),
        vec("[a-z]{1,4}", rows),
        vec("[0-9a-f]{12}", rows),
        vec("[äöü]{3}", rows),
        vec("[a-z é€😀\n]{0,20}", rows),
        vec("[a-z]{70}", rows),
        vec(Just(String::new()), rows),
    ]
    .boxed()
}

fn texts(rows: usize) -> BoxedStrategy<Values> {
    strings(rows).prop_map(|strings| Values::Text(strings.iter().map(String::as_str).collect())).boxed()
}

fn coded(rows: usize) -> BoxedStrategy<Values> {
    (1..=256usize)
        .prop_flat_map(move |entries| {
            (strings(entries), vec(0..entries, rows)).prop_map(|(entries, codes)| {
                Values::Coded(Coded {
                    codes: codes.into_iter().map(|code| code as u8).collect(),
                    dictionary: entries.iter().map(String::as_str).collect(),
                })
            })
        })
        .boxed()
}
