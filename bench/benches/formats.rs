//! Reading bodies: from the bytes of each format to a checked batch; beside it the parsers of libraries that only
//! find the values of the rows, which are neither checked nor put into columns.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::{collections::BTreeMap, hint::black_box, io::Write as _};

use bench::{
    data::{BATCH_ROWS, Data, frame},
    uploads::Form,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use event::{Kind, Timestamp};
use ingest::{
    Batch,
    format::{BodyReader, Encoding, Format},
};
use polars_io::{SerWriter as _, csv::write::CsvWriter, parquet::write::ParquetWriter};
use serde::Deserialize;

/// Number of bytes of the pieces of a body that a server passes on.
const PIECE_BYTES: usize = 64 * 1024;

/// Returns one batch of predictions in every supported format, with some compressions.
fn bodies() -> Vec<(&'static str, Format, Encoding, Vec<u8>)> {
    let predictions = Data::new(300_000).predictions(3, 0);
    let body = |form: Form| form.body(&predictions).expect("in memory");
    let lines = body(Form::Lines);
    let text = String::from_utf8(lines.clone()).expect("JSON is text");
    let array = format!("[{}]", text.lines().collect::<Vec<_>>().join(","));
    // Escaped letters prevent the fast path.
    let unusual = text.replace("\"key\"", "\"\\u006bey\"");
    let mut table = frame::predictions(&predictions).expect("in memory");
    let (mut csv, mut parquet) = (Vec::new(), Vec::new());
    let seconds = Some("%Y-%m-%dT%H:%M:%S%.6fZ".into());
    CsvWriter::new(&mut csv).with_datetime_format(seconds).finish(&mut table).expect("in memory");
    ParquetWriter::new(&mut parquet).finish(&mut table).expect("in memory");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&lines).expect("in memory");
    let gzip = gzip.finish().expect("in memory");
    let zstd = zstd::encode_all(lines.as_slice(), 1).expect("in memory");
    vec![
        ("ndjson", Format::Ndjson, Encoding::Identity, lines),
        ("ndjson-unusual", Format::Ndjson, Encoding::Identity, unusual.into_bytes()),
        ("ndjson-gzip", Format::Ndjson, Encoding::Gzip, gzip),
        ("ndjson-zstd", Format::Ndjson, Encoding::Zstd, zstd),
        ("json-array", Format::Json, Encoding::Identity, array.into_bytes()),
        ("json-columns", Format::Json, Encoding::Identity, body(Form::Columns)),
        ("csv", Format::Csv, Encoding::Identity, csv),
        ("arrow", Format::Arrow, Encoding::Identity, body(Form::Arrow)),
        ("parquet", Format::Parquet, Encoding::Identity, parquet),
    ]
}

fn read(format: Format, encoding: Encoding, body: &[u8]) -> Batch {
    let now = Timestamp::parse("2025-03-01T00:00:00Z").expect("a time");
    let mut reader = BodyReader::new(Kind::Predictions, format, encoding, now);
    for piece in body.chunks(PIECE_BYTES) {
        reader.push(piece).expect("a good body");
    }
    let batch = reader.finish().expect("a good body");
    assert_eq!(batch.rows(), BATCH_ROWS);
    batch
}

fn formats(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("formats");
    group.throughput(Throughput::Elements(BATCH_ROWS as u64));
    for (name, format, encoding, body) in bodies() {
        group.bench_with_input(BenchmarkId::new(name, BATCH_ROWS), &body, |bencher, body| {
            bencher.iter(|| read(format, encoding, black_box(body)));
        });
    }
    group.finish();
}

/// A row of NDJSON, as parsed by libraries.
#[derive(Deserialize)]
#[expect(dead_code, reason = "that they are found is what is measured")]
struct Row<'a> {
    key: &'a str,
    predicted_at: &'a str,
    release: &'a str,
    score: f64,
    label: &'a str,
    #[serde(borrow)]
    tags: BTreeMap<&'a str, &'a str>,
}

fn parse_alone(criterion: &mut Criterion) {
    let body = Form::Lines.body(&Data::new(300_000).predictions(3, 0)).expect("in memory");
    let lines = || body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    assert_eq!(lines().count(), BATCH_ROWS);
    let mut group = criterion.benchmark_group("parse-alone");
    group.throughput(Throughput::Elements(BATCH_ROWS as u64));
    group.bench_function("serde_json", |bencher| {
        bencher.iter(|| {
            for line in lines() {
                black_box(serde_json::from_slice::<Row<'_>>(line).expect("a row"));
            }
        });
    });
    group.bench_function("simd-json", |bencher| {
        // The parser modifies the text.
        let (mut buffers, mut text) = (simd_json::Buffers::default(), Vec::new());
        bencher.iter(|| {
            for line in lines() {
                text.clear();
                text.extend_from_slice(line);
                let row = simd_json::serde::from_slice_with_buffers::<Row<'_>>(&mut text, &mut buffers);
                black_box(row.expect("a row"));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, formats, parse_alone);
criterion_main!(benches);
