//! `docs/segment.md` is right: a reader written from it alone, in another language, reads what the
//! codec wrote.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{Located, block_on, ndjson, run_ok};
use catalog::Catalog;
use event::{Columns, Values};
use log::{key, segment_item::Segment};
use serde_json::{Value, json};
use table::{Query, query_all};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The output of the independent reader for a file.
fn read(file: &Path) -> std::process::Output {
    // tests/run makes an environment that has the one module it needs.
    let python = std::env::var("ALMANAC_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(python).arg(root().join("tests/segment_reader.py")).arg(file).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !error.contains("No module named"),
        "run the tests with tests/run, which installs what they need: {error}"
    );
    output
}

/// The rows of the codec, in the words of the independent reader.
fn rows(columns: &Columns) -> Vec<Value> {
    let cell = |column: &event::Column, row: usize| match &column.values {
        Values::Time(_) => json!(column.time(row)),
        // Numbers that JSON does not know are told apart by their text.
        Values::Float(_) => column.float(row).map_or(Value::Null, |number| json!(format!("{number:?}"))),
        Values::Text(_) | Values::Coded(_) => json!(column.text(row)),
    };
    let row = |row| columns.columns.iter().map(|column| (column.name.clone(), cell(column, row))).collect();
    (0..columns.rows).map(|at| Value::Object(row(at))).collect()
}

fn assert_agrees(bytes: &[u8], file: &Path) {
    let output = read(file);
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    let columns = segment::decode(bytes).unwrap();
    let read = ndjson(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(read.len(), columns.rows, "{}", file.display());
    for (read, expected) in read.iter().zip(rows(&columns)) {
        let read = read.as_object().unwrap();
        for (name, expected) in expected.as_object().unwrap() {
            let found = &read[name];
            let same = match (found, expected) {
                (Value::Number(number), Value::String(float)) => number.as_f64() == float.parse().ok(),
                _ => found == expected,
            };
            assert!(same, "{}: {name}: {found} is not {expected}", file.display());
        }
    }
}

#[test]
fn it_reads_the_segments_of_the_demo() {
    let data = tempfile::tempdir().unwrap();
    run_ok(data.path(), &["demo", "--until", "2013-04-03"]);
    let segments: Vec<Segment> = block_on(async {
        let table = data.path().store().open().await;
        let workspace = Catalog::new(table.clone()).workspace("flights/nyc").await.unwrap();
        let items = query_all(&*table, Query::table(key::segments(workspace.id()))).await.unwrap();
        items.into_iter().map(|item| Segment::from_item(item).unwrap()).collect()
    });
    assert!(segments.len() > 10);
    for (at, segment) in segments.iter().enumerate() {
        let file = data.path().join(format!("{at}.seg"));
        std::fs::write(&file, &segment.data).unwrap();
        assert_agrees(&segment.data, &file);
    }
}

/// The first segment of a day of several lanes has no columns.
#[test]
fn it_reads_a_segment_without_rows() {
    let data = tempfile::tempdir().unwrap();
    let golden = std::fs::read(root().join("segment/tests/golden/segment-empty.seg")).unwrap();
    for bytes in [segment::encode(&Columns::default()).unwrap(), golden] {
        let file = data.path().join("empty.seg");
        std::fs::write(&file, &bytes).unwrap();
        assert_agrees(&bytes, &file);
    }
}

#[test]
fn it_refuses_damaged_segments() {
    let data = tempfile::tempdir().unwrap();
    let golden = root().join("segment/tests/golden/segment-one-row.seg");
    let good = std::fs::read(golden).unwrap();
    let file = data.path().join("damaged.seg");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        std::fs::write(&file, &bad).unwrap();
        assert!(segment::decode(&bad).is_err(), "byte {at} may be damaged unnoticed");
        // One process a byte would take long; some will do.
        if at % 16 == 0 {
            assert_eq!(read(&file).status.code(), Some(2), "byte {at}");
        }
    }
}
