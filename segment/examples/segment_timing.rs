//! Prints how long segments take to pack and unpack, and how large they are, on synthetic
//! predictions. Run it with `cargo run --release -p almanac-segment --example segment_timing`.

#![expect(clippy::disallowed_methods, reason = "measuring time needs a clock")]

use std::{hint::black_box, time::Instant};

use event::{Column, Columns, Values, columns::Strings};

const RUNS: usize = 41;
const DAY_US: u64 = 86_400_000_000;

fn main() {
    println!("rows    scores     bytes   bytes/row  encode ns/row  decode ns/row  3 of 7 ns/row");
    for rows in [1, 10, 100, 1_000, 10_000] {
        for (name, full) in [("4 places", false), ("doubles", true)] {
            let columns = predictions(rows, full);
            let bytes = almanac_segment::encode(&columns).expect("within bounds");
            assert_eq!(almanac_segment::decode(&bytes).expect("just encoded"), columns);
            let encode = median_ns(rows, || drop(black_box(almanac_segment::encode(black_box(&columns)))));
            let all = median_ns(rows, || drop(black_box(almanac_segment::decode(black_box(&bytes)))));
            let three = ["predicted_at", "score", "label"];
            let some = median_ns(rows, || {
                drop(black_box(almanac_segment::decode_only(black_box(&bytes), |name| {
                    three.contains(&name)
                })));
            });
            let per_row = bytes.len() as f64 / rows as f64;
            println!(
                "{rows:<7} {name:<8} {:>7} {per_row:>11.2} {encode:>14.1} {all:>14.1} {some:>14.1}",
                bytes.len()
            );
        }
    }
    println!();
    let columns = predictions(10_000, true);
    let bytes = almanac_segment::encode(&columns).expect("within bounds");
    for (column, stored) in
        columns.columns.iter().zip(almanac_segment::header(&bytes).expect("just encoded").columns)
    {
        let one = Columns { rows: columns.rows, columns: vec![column.clone()] };
        let encode = median_ns(10_000, || drop(black_box(almanac_segment::encode(black_box(&one)))));
        let only = |name: &str| name == column.name;
        let decode =
            median_ns(10_000, || drop(black_box(almanac_segment::decode_only(black_box(&bytes), only))));
        println!(
            "{:<14} {:?} encoding {}: {:>6.3} bytes/row, encode {encode:>5.1}, decode {decode:>5.1} ns/row",
            stored.name,
            stored.kind,
            stored.encoding,
            stored.stored_bytes as f64 / 1e4
        );
    }
}

/// The median of several runs. Few rows are repeated so that a run lasts long enough to measure.
fn median_ns(rows: usize, mut run: impl FnMut()) -> f64 {
    let repeat = (10_000 / rows).clamp(1, 1_000);
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            (0..repeat).for_each(|_| run());
            start.elapsed().as_nanos() as f64 / (repeat * rows) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

/// A small generator of well-mixed numbers (splitmix64), so that every run sees the same rows.
struct Mix(u64);

impl Mix {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// One day of predictions: random keys, ascending times, two releases, two labels, two tags.
fn predictions(rows: usize, full_doubles: bool) -> Columns {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut mix = Mix(7);
    let keys: Strings = (0..rows)
        .map(|_| (0..12).map(|_| char::from(ALPHABET[mix.below(36) as usize])).collect::<String>())
        .collect::<Vec<_>>()
        .iter()
        .map(String::as_str)
        .collect();
    let mut times: Vec<i64> = (0..rows).map(|_| 1_370_044_800_000_000 + mix.below(DAY_US) as i64).collect();
    times.sort_unstable();
    let scores = (0..rows).map(|_| match full_doubles {
        true => mix.below(1 << 53) as f64 / (1u64 << 53) as f64,
        false => mix.below(10_001) as f64 / 1e4,
    });
    let scores = scores.collect();
    let mut pick = |from: &[String]| -> Values {
        Values::Text((0..rows).map(|_| from[mix.below(from.len() as u64) as usize].as_str()).collect())
    };
    let words = |count: usize, prefix: &str| -> Vec<String> {
        (0..count).map(|i| format!("{prefix}{}", char::from(b'A' + i as u8))).collect()
    };
    let releases = ["2gQvKFpc1ZbCJHnQVJ2iT4rW9xL".to_owned(), "2gXk0f3bQmUnR5yTQhB8cL1sVzE".to_owned()];
    let columns = vec![
        Column::new("key", Values::Text(keys)),
        Column::new("predicted_at", Values::Time(times)),
        Column::new("release", pick(&releases)),
        Column::new("score", Values::Float(scores)),
        Column::new("label", pick(&["late".to_owned(), "on_time".to_owned()])),
        Column::new("tag.carrier", pick(&words(14, "A"))),
        Column::new("tag.origin", pick(&words(3, "JF"))),
    ];
    Columns { rows, columns }
}
