//! A hundred thousand broken bodies in every format: each is refused as the client's fault, and the log is unchanged.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{io::Write as _, sync::Arc};

use almanac_ingest::{Ingest, format::Format, http::routes};
use axum::{
    Router,
    body::Body,
    http::{Request, header},
};
use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{Clock, Task, Timestamp};
use log::scan;
use polars::prelude::{Column, DataFrame, IntoColumn, NamedFrom, Series};
use polars_io::{
    SerWriter,
    ipc::IpcStreamWriter,
    parquet::write::{ParquetCompression, ParquetWriter},
};
use table::{Table, sqlite::SqliteTable};
use tower::ServiceExt;

/// Number of bodies sent.
const BODIES: usize = 100_000;

/// Texts put into the middle of a body.
const ODDITIES: &[&[u8]] = &[
    b"NaN",
    b"Infinity",
    b"-1e999",
    b"1e308",
    b"18446744073709551616",
    b"null",
    b"\"\"",
    b"{}",
    b"[]",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":{\"a\":",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x00",
    b"\n",
    b"\r\n\r\n",
    b",,,,",
    b"\"",
    b"\\u0000\\ud800",
    b"0000-00-00T99:99:99Z",
    b"9999999-12-31T23:59:60+99:99",
];

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end.max(1) as u64) as usize
    }
}

/// Rows of which the first two are bad in their own way: so their remains after any change cannot be good.
fn rows() -> [(&'static str, &'static str, f64); 4] {
    [("a", "v1", 7.5), ("b", "nope", -3.0), ("c", "v1", 0.5), ("d", "v1", 0.25)]
}

const TIME: &str = "2026-06-01T04:30:00Z";

fn objects() -> Vec<String> {
    let object = |(key, release, score)| {
        format!(
            r#"{{"key":"{key}","predicted_at":"{TIME}","release":"{release}","score":{score},"tags":{{"t":"x"}},"scores":{{"a":0.25,"b":0.75}},"features":{{"f":{score}}}}}"#
        )
    };
    rows().map(object).to_vec()
}

fn frame() -> DataFrame {
    let text = |name: &str, of: fn(&(&'static str, &'static str, f64)) -> &'static str| -> Column {
        Series::new(name.into(), rows().iter().map(of).collect::<Vec<_>>()).into_column()
    };
    let scores: Vec<f64> = rows().iter().map(|row| row.2).collect();
    let columns = vec![
        text("key", |row| row.0),
        text("predicted_at", |_| TIME),
        text("release", |row| row.1),
        Series::new("score".into(), scores).into_column(),
        text("tag.t", |_| "x"),
        Series::new("score.a".into(), vec![0.25; rows().len()]).into_column(),
        Series::new("score.b".into(), vec![0.75; rows().len()]).into_column(),
        Series::new("feature.f".into(), rows().iter().map(|row| row.2 as f32).collect::<Vec<_>>())
            .into_column(),
    ];
    DataFrame::new(rows().len(), columns).unwrap()
}

/// Well-formed body of each format.
fn bodies() -> Vec<(Format, Vec<u8>)> {
    let quoted = |of: fn(&(&'static str, &'static str, f64)) -> &'static str| {
        rows().iter().map(|row| format!("\"{}\"", of(row))).collect::<Vec<_>>().join(",")
    };
    let scores = rows().map(|row| row.2.to_string()).join(",");
    let columnar = format!(
        r#"{{"key":[{}],"predicted_at":[{}],"release":[{}],"score":[{scores}],"features":{{"f":[{scores}]}}}}"#,
        quoted(|row| row.0),
        quoted(|_| TIME),
        quoted(|row| row.1)
    );
    let lines = rows().map(|(key, release, score)| format!("{key},{TIME},{release},{score}\n")).concat();
    let (mut arrow, mut parquet, mut packed) = (Vec::new(), Vec::new(), Vec::new());
    IpcStreamWriter::new(&mut arrow).finish(&mut frame()).unwrap();
    let uncompressed = ParquetCompression::Uncompressed;
    ParquetWriter::new(&mut parquet).with_compression(uncompressed).finish(&mut frame()).unwrap();
    ParquetWriter::new(&mut packed).finish(&mut frame()).unwrap();
    vec![
        (Format::Ndjson, objects().join("\n").into_bytes()),
        (Format::Json, format!("[{}]", objects().join(",")).into_bytes()),
        (Format::Json, columnar.into_bytes()),
        (Format::Csv, format!("key,predicted_at,release,score\n{lines}").into_bytes()),
        (Format::Arrow, arrow),
        (Format::Parquet, parquet),
        (Format::Parquet, packed),
    ]
}

fn broken(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.below(body.len() + 1);
        match dice.below(6) {
            0 => body.truncate(at),
            1 => {
                let byte = dice.below(256) as u8;
                body.get_mut(at).into_iter().for_each(|it| *it = byte);
            }
            2 => body.get_mut(at).into_iter().for_each(|it| *it ^= 1 << dice.below(8)),
            3 => {
                let oddity = ODDITIES[dice.below(ODDITIES.len())];
                body.splice(at..at, oddity.iter().copied());
            }
            4 => {
                let end = (at + dice.below(20)).min(body.len());
                body.drain(at..end);
            }
            _ => {
                let end = (at + dice.below(40)).min(body.len());
                let again = body[at..end].to_vec();
                body.splice(at..at, again);
            }
        }
    }
    body
}

async fn send(router: &Router, format: Format, encoding: &str, body: Vec<u8>) -> u16 {
    let request = Request::post("/v1/workspaces/fuzz/one/predictions")
        .header(header::CONTENT_TYPE, format.media_type())
        .header(header::CONTENT_ENCODING, encoding)
        .header(header::CONTENT_LENGTH, body.len())
        .body(Body::from(body))
        .unwrap();
    router.clone().oneshot(request).await.unwrap().status().as_u16()
}

async fn register(table: &Arc<dyn Table>) -> Workspace {
    let catalog = Catalog::new(Arc::clone(table));
    let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
    let workspace = catalog.ensure_workspace("fuzz/one", now).await.unwrap();
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
    let spec = ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
    catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
    workspace
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_bodies_are_refused_and_nothing_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
    let clock = Clock::from_fn(move || now);
    let table: Arc<dyn Table> = Arc::new(SqliteTable::open(&dir.path().join("t.db"), clock.clone()).unwrap());
    let workspace = register(&table).await;
    let router = routes(Arc::new(Ingest::new(Arc::clone(&table), clock))).into_router();
    let bodies = bodies();
    for (format, body) in &bodies {
        assert_eq!(send(&router, *format, "identity", body.clone()).await, 422, "{format:?} as it is");
    }
    let mut tasks = tokio::task::JoinSet::new();
    for half in 0..2 {
        let (router, bodies) = (router.clone(), bodies.clone());
        tasks.spawn(async move {
            let mut dice = Dice(half + 1);
            for number in 0..BODIES / 2 {
                let (format, body) = &bodies[dice.below(bodies.len())];
                let (encoding, broken) = match dice.below(10) {
                    0 => ("gzip", broken(&mut dice, &gzip(body))),
                    1 => ("zstd", broken(&mut dice, &zstd::encode_all(&body[..], 1).unwrap())),
                    2 => ("gzip", gzip(&broken(&mut dice, body))),
                    _ => ("identity", broken(&mut dice, body)),
                };
                let status = send(&router, *format, encoding, broken.clone()).await;
                // A body without rows is no mistake, and stores nothing.
                assert!(
                    (400..500).contains(&status) || status == 201,
                    "{status} for body {number} of half {half}, {format:?} {encoding}: {:?}",
                    String::from_utf8_lossy(&broken)
                );
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(scan::heads(&*table, workspace.id()).await.unwrap().is_empty(), "something was stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_and_abysses_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let table: Arc<dyn Table> =
        Arc::new(SqliteTable::open(&dir.path().join("t.db"), Clock::system()).unwrap());
    let workspace = register(&table).await;
    let router = routes(Arc::new(Ingest::new(Arc::clone(&table), Clock::system()))).into_router();
    let zeros = vec![b' '; 256 << 20];
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("zstd", zstd::encode_all(&zeros[..], 1).unwrap())] {
        assert!(bomb.len() < 2 << 20);
        for format in Format::ALL {
            let status = send(&router, format, encoding, bomb.clone()).await;
            assert!(matches!(status, 413 | 422), "{status}, {format:?} {encoding}");
        }
    }
    for deep in ["[".repeat(200_000), "{\"a\":".repeat(200_000), "{\"tags\":".repeat(100_000)] {
        for format in [Format::Ndjson, Format::Json] {
            assert_eq!(send(&router, format, "identity", deep.clone().into_bytes()).await, 422);
        }
    }
    assert!(scan::heads(&*table, workspace.id()).await.unwrap().is_empty());
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}
