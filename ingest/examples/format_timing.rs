//! Prints how long each format takes from the bytes of a body to a checked batch, on synthetic
//! predictions: the fastest and the median of several runs. Build it with `cargo build --workspace
//! --example format_timing`; an argument chooses the formats whose names begin with it.

#![expect(clippy::disallowed_methods, reason = "measuring time needs a clock")]

use std::{hint::black_box, io::Write as _, time::Instant};

use almanac_ingest::format::{BodyReader, Encoding, Format};
use event::{Kind, Timestamp};
use polars::prelude::{
    Column, DataFrame, DataType, IntoColumn as _, NamedFrom as _, Series, TimeUnit, TimeZone,
};
use polars_io::{SerWriter as _, ipc::IpcStreamWriter, parquet::write::ParquetWriter};

const RUNS: usize = 31;
const ROWS: usize = 10_000;
/// As a server hands a body on.
const PIECE_BYTES: usize = 64 * 1024;

fn main() {
    let rows = rows();
    let lines: String = rows.iter().map(|row| format!("{}\n", row.json())).collect();
    let array = format!("[{}]", rows.iter().map(Row::json).collect::<Vec<_>>().join(","));
    let csv: String = std::iter::once("key,predicted_at,release,score,label,tag.carrier\n".to_owned())
        .chain(rows.iter().map(Row::csv))
        .collect();
    let mut frame = frame(&rows);
    let (mut arrow, mut parquet) = (Vec::new(), Vec::new());
    IpcStreamWriter::new(&mut arrow).finish(&mut frame).expect("in memory");
    ParquetWriter::new(&mut parquet).finish(&mut frame).expect("in memory");
    let chosen = std::env::args().nth(1).unwrap_or_default();
    println!("format                    bytes/row  fastest   median  (ns/row)");
    let show = |name: &str, bytes: usize, run: &mut dyn FnMut()| {
        if name.starts_with(&chosen) {
            let (fastest, median) = fastest_and_median_ns(run);
            println!("{name:<24} {:>10.1} {fastest:>8.1} {median:>8.1}", bytes as f64 / ROWS as f64);
        }
    };
    show("serde_json to values", lines.len(), &mut || {
        for line in lines.lines() {
            black_box(serde_json::from_str::<serde_json::Value>(black_box(line)).expect("valid"));
        }
    });
    let bodies: [(&str, Format, Vec<u8>); 7] = [
        ("NDJSON", Format::Ndjson, lines.clone().into_bytes()),
        ("NDJSON, unusual", Format::Ndjson, lines.replace("\"k0", "\"\\u006b0").into_bytes()),
        ("JSON array", Format::Json, array.into_bytes()),
        ("columnar JSON", Format::Json, columnar(&rows).into_bytes()),
        ("CSV", Format::Csv, csv.into_bytes()),
        ("Arrow", Format::Arrow, arrow),
        ("Parquet", Format::Parquet, parquet),
    ];
    for (name, format, body) in &bodies {
        show(name, body.len(), &mut || drop(black_box(read(*format, Encoding::Identity, black_box(body)))));
    }
    let body = &bodies[0].2;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(body).expect("in memory");
    let gzip = gzip.finish().expect("in memory");
    let zstd = zstd::encode_all(body.as_slice(), 1).expect("in memory");
    for (name, encoding, body) in [("gzip", Encoding::Gzip, gzip), ("zstd", Encoding::Zstd, zstd)] {
        let name = format!("NDJSON in {name}");
        show(&name, body.len(), &mut || drop(black_box(read(Format::Ndjson, encoding, black_box(&body)))));
    }
}

fn read(format: Format, encoding: Encoding, body: &[u8]) -> almanac_ingest::Batch {
    let now = Timestamp::parse("2013-06-02T00:00:00Z").expect("a time");
    let mut reader = BodyReader::new(Kind::Predictions, format, encoding, now);
    for piece in body.chunks(PIECE_BYTES) {
        reader.push(piece).expect("a good body");
    }
    let batch = reader.finish().expect("a good body");
    assert_eq!(batch.rows(), ROWS);
    batch
}

fn fastest_and_median_ns(run: &mut dyn FnMut()) -> (f64, f64) {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64 / ROWS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[RUNS / 2])
}

struct Row {
    key: String,
    micros: i64,
    release: &'static str,
    score: f64,
    label: &'static str,
    carrier: &'static str,
}

impl Row {
    fn time(&self) -> String {
        Timestamp::from_micros(self.micros).expect("in range").to_string()
    }

    fn json(&self) -> String {
        let Self { key, release, score, label, carrier, .. } = self;
        let time = self.time();
        format!(
            r#"{{"key":"{key}","predicted_at":"{time}","release":"{release}","score":{score},"label":"{label}","tags":{{"carrier":"{carrier}"}}}}"#
        )
    }

    fn csv(&self) -> String {
        let Self { key, release, score, label, carrier, .. } = self;
        format!("{key},{},{release},{score},{label},{carrier}\n", self.time())
    }
}

/// Rows of one day, from a small generator of well-mixed numbers (splitmix64).
fn rows() -> Vec<Row> {
    const CARRIERS: [&str; 8] = ["UA", "AA", "DL", "B6", "EV", "MQ", "US", "WN"];
    let mut state = 7u64;
    let mut below = |limit: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    };
    (0..ROWS)
        .map(|row| Row {
            key: format!("k{:011}", below(100_000_000)),
            micros: 1_370_044_800_000_000 + row as i64 * 8_640_000 + 123_000,
            release: if below(10) == 0 { "v2" } else { "v1" },
            score: below(10_000_000) as f64 / 1e7,
            label: if below(3) == 0 { "1" } else { "0" },
            carrier: CARRIERS[below(8) as usize],
        })
        .collect()
}

fn columnar(rows: &[Row]) -> String {
    let texts = |cell: &dyn Fn(&Row) -> String| rows.iter().map(cell).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"key":[{}],"predicted_at":[{}],"release":[{}],"score":[{}],"label":[{}],"tag.carrier":[{}]}}"#,
        texts(&|row| format!("\"{}\"", row.key)),
        texts(&|row| format!("\"{}\"", row.time())),
        texts(&|row| format!("\"{}\"", row.release)),
        texts(&|row| row.score.to_string()),
        texts(&|row| format!("\"{}\"", row.label)),
        texts(&|row| format!("\"{}\"", row.carrier)),
    )
}

fn frame(rows: &[Row]) -> DataFrame {
    let text = |name: &str, cell: &dyn Fn(&Row) -> String| -> Column {
        Series::new(name.into(), rows.iter().map(cell).collect::<Vec<_>>()).into_column()
    };
    let times = Series::new("predicted_at".into(), rows.iter().map(|row| row.micros).collect::<Vec<_>>());
    let times = times
        .cast(&DataType::Datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)))
        .expect("whole numbers are times");
    let scores = Series::new("score".into(), rows.iter().map(|row| row.score).collect::<Vec<_>>());
    let columns = vec![
        text("key", &|row| row.key.clone()),
        times.into_column(),
        text("release", &|row| row.release.to_owned()),
        scores.into_column(),
        text("label", &|row| row.label.to_owned()),
        text("tag.carrier", &|row| row.carrier.to_owned()),
    ];
    DataFrame::new(ROWS, columns).expect("columns of one length")
}
