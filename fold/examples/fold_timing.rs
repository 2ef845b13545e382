//! What the folds cost: one day of a million predictions and a million outcomes in segments of
//! 10,000 rows, as nanoseconds a row. Run it with `cargo run -p almanac-fold --example fold_timing`.

use std::{collections::BTreeMap, hint::black_box, time::Duration};

use almanac_fold::{
    Delta, ExactSum, LogSegment, evaluate, join,
    rollup::{Merge, wants},
};
use event::{
    Column, Columns, Definition, Kind, Task, Values,
    columns::{Coded, Strings},
    lane::Place,
};

const ROWS: usize = 1_000_000;
const SEGMENT_ROWS: usize = 10_000;
const RUNS: usize = 5;

/// A small generator of numbers that look random, the same in every run (Vigna's SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn coded(names: &[&str], codes: Vec<u8>) -> Values {
    Values::Coded(Coded { codes, dictionary: names.iter().copied().collect() })
}

fn keys(rows: &[usize]) -> Values {
    let mut keys = Strings::default();
    rows.iter().for_each(|row| keys.push(&format!("2013-06-01/UA{row:08}/EWR")));
    Values::Text(keys)
}

fn instant(row: usize) -> i64 {
    1_370_044_800_000_000 + row as i64 * 86_400
}

fn predictions(rows: &[usize], numbers: &mut Numbers) -> Columns {
    let releases = rows.iter().map(|row| (row % 3) as u8).collect();
    let columns = vec![
        Column::new("key", keys(rows)),
        Column::new("predicted_at", Values::Time(rows.iter().map(|&row| instant(row)).collect())),
        Column::new("release", coded(&["delay-1", "delay-2", "delay-3"], releases)),
        Column::new("score", Values::Float(rows.iter().map(|_| numbers.unit()).collect())),
    ];
    Columns { rows: rows.len(), columns }
}

fn outcomes(rows: &[usize], numbers: &mut Numbers, with_instant: bool) -> Columns {
    let labels = rows.iter().map(|_| (numbers.next() % 2) as u8).collect();
    let observed = rows.iter().map(|&row| instant(row) + 3_600_000_000).collect();
    let mut columns = vec![
        Column::new("key", keys(rows)),
        Column::new("observed_at", Values::Time(observed)),
        Column::new("label", coded(&["on time", "late"], labels)),
    ];
    if with_instant {
        let times = rows.iter().map(|&row| instant(row)).collect();
        columns.push(Column::new("predicted_at", Values::Time(times)));
    }
    Columns { rows: rows.len(), columns }
}

/// The same with a tag of 16 values and one of 100.
fn tagged(segments: &[Columns]) -> Vec<Columns> {
    let names: Vec<String> = (0..100).map(|n| format!("value {n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let with = |columns: &Columns| {
        let mut columns = columns.clone();
        for (tag, count) in [("tag.carrier", 16), ("tag.airport", 100)] {
            let codes = (0..columns.rows).map(|row| (row * 31 % count) as u8).collect();
            columns.columns.push(Column::new(tag, coded(&names[..count], codes)));
        }
        columns
    };
    segments.iter().map(with).collect()
}

fn log(segments: &[Columns]) -> Vec<LogSegment<'_>> {
    segments.iter().zip(1..).map(|(columns, seq)| LogSegment { place: Place::of(0, seq), columns }).collect()
}

/// The best of a few runs, which is the one that was disturbed least.
#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn measure<T>(what: &str, rows: usize, run: impl Fn() -> T) {
    let once = |_| {
        let start = std::time::Instant::now();
        black_box(run());
        start.elapsed()
    };
    let best: Duration = (0..RUNS).map(once).min().unwrap_or_default();
    println!(
        "{what:<52} {:>8.2} ms {:>7.1} ns/row",
        best.as_secs_f64() * 1e3,
        best.as_nanos() as f64 / rows as f64
    );
}

fn main() -> almanac_fold::Result<()> {
    let mut numbers = Numbers(1);
    let in_order: Vec<usize> = (0..ROWS).collect();
    let mut shuffled = in_order.clone();
    (1..ROWS).rev().for_each(|at| shuffled.swap(at, (numbers.next() % (at as u64 + 1)) as usize));
    let cut = |rows: &[usize], make: &mut dyn FnMut(&[usize]) -> Columns| -> Vec<Columns> {
        rows.chunks(SEGMENT_ROWS).map(make).collect()
    };
    let left = cut(&in_order, &mut |rows| predictions(rows, &mut numbers));
    let same_order = cut(&in_order, &mut |rows| outcomes(rows, &mut numbers, false));
    let any_order = cut(&shuffled, &mut |rows| outcomes(rows, &mut numbers, false));
    let with_instant = cut(&shuffled, &mut |rows| outcomes(rows, &mut numbers, true));
    let tasks: BTreeMap<String, Definition> = ["delay-1", "delay-2", "delay-3"]
        .map(|release| {
            (release.to_owned(), Definition::of(Task::Binary { positive_label: "late".to_owned() }))
        })
        .into();

    let terms: Vec<f64> = (0..ROWS).map(|_| numbers.unit()).collect();
    measure("exact sum", ROWS, || terms.iter().copied().collect::<ExactSum>().value());
    measure("plain sum", ROWS, || terms.iter().sum::<f64>());
    let rollup = |kind: Kind, segments: &[Columns]| -> almanac_fold::Result<Vec<String>> {
        let mut day = Delta::default();
        segments.iter().zip(1..).try_for_each(|(columns, seq)| {
            let segment = LogSegment { place: Place::of(0, seq), columns };
            Delta::of(kind, segment).map(|delta| day.merge(&delta))
        })?;
        let parts = day.parts.iter().map(|(breakdown, part)| format!("{breakdown} {}", part.to_state()));
        Ok([day.rollup.to_state()].into_iter().chain(parts).collect())
    };
    measure("rollup of predictions, score only", ROWS, || rollup(Kind::Predictions, &left));
    let with_tags = tagged(&left);
    measure("rollup of predictions, score and two tags", ROWS, || rollup(Kind::Predictions, &with_tags));
    let packed: Vec<Vec<u8>> =
        with_tags.iter().map(|columns| segment::encode(columns).expect("within bounds")).collect();
    let decode = |wanted: &dyn Fn(&str) -> bool| {
        packed.iter().for_each(|bytes| drop(black_box(segment::decode_only(bytes, wanted))));
    };
    measure("decode of all columns, with two tags", ROWS, || decode(&|_| true));
    measure("decode of what their rollup needs", ROWS, || decode(&|name| wants(Kind::Predictions, name)));
    measure("rollup of outcomes, label only", ROWS, || rollup(Kind::Outcomes, &same_order));
    let cases = [
        ("outcomes in the order of predictions", &same_order),
        ("outcomes in any order", &any_order),
        ("outcomes in any order, with instant", &with_instant),
    ];
    for (what, right) in cases {
        measure(&format!("join, {what}"), ROWS, || join(&log(&left), &log(right)));
        measure(&format!("evaluate, {what}"), ROWS, || evaluate(&log(&left), &log(right), &tasks));
    }
    let evaluation = evaluate(&log(&left), &log(&any_order), &tasks)?;
    let states = rollup(Kind::Predictions, &with_tags)?;
    states.iter().for_each(|state| println!("{} B of state: {state:.60}...", state.len()));
    println!("state of the evaluation: {} B", evaluation.to_state().len());
    Ok(())
}
