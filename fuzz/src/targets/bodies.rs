//! Bodies of events in every format and encoding, whole and in two pieces.

use std::io::Write as _;

use event::{Kind, Timestamp};
use ingest::{
    Batch, Refused,
    format::{BodyReader, Encoding, Format},
};
use polars::prelude::{Column, DataFrame};

use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "bodies",
    about: "bodies of events: NDJSON, JSON, CSV, Arrow, Parquet; plain, gzip, zstd",
    seeds,
    words: &[
        "\"key\":",
        "\"predicted_at\":",
        "\"observed_at\":",
        "\"measured_at\":",
        "\"happened_at\":",
        "\"release\":",
        "\"score\":",
        "\"scores\":{",
        "\"tags\":{",
        "\"features\":{",
        "\"value\":",
        "\"label\":",
        "\"event_id\":",
        "2026-06-01T04:30:00Z",
        "null",
        "1e309",
        "\\u0000",
        "\\ud800",
        "},{",
        "]}",
        "\r\n",
        "\"\"",
        "PAR1",
        "ARROW1",
        "\u{feff}",
    ],
    take,
};

/// What the first three bytes of an input say: the kind, the format with its encoding, and where the body is cut in two.
const HEAD: usize = 3;

fn now() -> Timestamp {
    Timestamp::parse("2026-06-02T00:00:00Z").unwrap()
}

fn seed(kind: Kind, format: Format, encoding: Encoding, body: &[u8]) -> Vec<u8> {
    let place = |is_it: &dyn Fn(usize) -> bool| (0..8).position(is_it).unwrap_or_default() as u8;
    let kind = place(&|at| Kind::ALL.get(at) == Some(&kind));
    let format = place(&|at| Format::ALL.get(at) == Some(&format));
    let encoding = place(&|at| Encoding::ALL.get(at) == Some(&encoding));
    [&[kind, format + encoding * Format::ALL.len() as u8, 7], body].concat()
}

const PREDICTION: &str = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9,"tags":{"b":"c"},"features":{"age":7}}"#;
const OUTCOME: &str =
    r#"{"key":"a","observed_at":"2026-06-01T05:30:00Z","predicted_on":"2026-06-01","label":"late"}"#;
const METRIC: &str = r#"{"name":"loss","measured_at":"2026-06-01T05:30:00Z","value":0.25}"#;
const CSV: &str =
    "key,predicted_at,release,score,tag.b\na,2026-06-01T04:30:00Z,v1,0.5,\"x, y\"\nb,1780288200,v2,1,\n";
const COLUMNS: &str = r#"{"key":["a","b"],"predicted_at":["2026-06-01T04:30:00Z",1780288200],"release":["v1","v1"],"score":[0.5,null],"label":["x","y"]}"#;

/// Two predictions as columns of a frame.
pub(super) fn frame() -> DataFrame {
    let columns = vec![
        Column::new("key".into(), ["a", "b"]),
        Column::new("predicted_at".into(), ["2026-06-01T04:30:00Z", "2026-06-01T05:30:00Z"]),
        Column::new("release".into(), ["v1", "v1"]),
        Column::new("score".into(), [Some(0.5), None]),
        Column::new("label".into(), [None, Some("late")]),
        Column::new("latency_ms".into(), [12_500i64, 7]),
        Column::new("feature.a".into(), [0.25f32, 0.7]),
    ];
    DataFrame::new(2, columns).unwrap()
}

fn seeds() -> Vec<Vec<u8>> {
    let (plain, kind) = (Encoding::Identity, Kind::Predictions);
    let mut seeds = vec![
        seed(kind, Format::Ndjson, plain, format!("{PREDICTION}\n\n{PREDICTION}\n").as_bytes()),
        seed(kind, Format::Json, plain, format!(" [{PREDICTION}, {PREDICTION}]").as_bytes()),
        seed(kind, Format::Json, plain, COLUMNS.as_bytes()),
        seed(kind, Format::Csv, plain, CSV.as_bytes()),
        seed(Kind::Outcomes, Format::Ndjson, plain, OUTCOME.as_bytes()),
        seed(Kind::Metrics, Format::Json, plain, format!("[{METRIC}]").as_bytes()),
        seed(kind, Format::Ndjson, Encoding::Zstd, &zstd::encode_all(PREDICTION.as_bytes(), 1).unwrap()),
    ];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(PREDICTION.as_bytes()).unwrap();
    seeds.push(seed(kind, Format::Ndjson, Encoding::Gzip, &gzip.finish().unwrap()));
    let mut frame = frame();
    for (format, of) in [(query::Format::Parquet, Format::Parquet), (query::Format::IpcStream, Format::Arrow)]
    {
        let mut body = Vec::new();
        format.write(&mut frame, &mut body).unwrap();
        seeds.push(seed(kind, of, plain, &body));
    }
    seeds
}

fn read(kind: Kind, format: Format, encoding: Encoding, pieces: &[&[u8]]) -> Result<Batch, Refused> {
    let mut reader = BodyReader::new(kind, format, encoding, now());
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

fn take(input: &[u8]) -> bool {
    let Some(([kind, format, cut], body)) = input.split_first_chunk::<HEAD>() else { return false };
    let kind = Kind::ALL[usize::from(*kind) % Kind::ALL.len()];
    let encoding = Encoding::ALL[usize::from(*format) / Format::ALL.len() % Encoding::ALL.len()];
    let format = Format::ALL[usize::from(*format) % Format::ALL.len()];
    let whole = read(kind, format, encoding, &[body]);
    let (one, other) = body.split_at(usize::from(*cut).min(body.len()));
    let pieces = read(kind, format, encoding, &[one, other]);
    assert_eq!(whole.is_ok(), pieces.is_ok(), "a body in pieces is the same body: {whole:?} and {pieces:?}");
    let (Ok(whole), Ok(pieces)) = (whole, pieces) else { return false };
    assert_eq!(whole.digest(), pieces.digest(), "a body in pieces is the same body");
    assert_eq!(whole.numbers.len(), whole.rows());
    // What is taken can be stored, and is read as it was.
    for batch in whole.by_days() {
        let bytes = segment::encode(&batch.columns).unwrap();
        assert_eq!(segment::decode(&bytes).unwrap().rows, batch.rows());
    }
    true
}
