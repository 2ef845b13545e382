//! Files of every format, with good rows and bad ones.

use std::{collections::BTreeMap, io::Write as _};

use event::Kind;
use polars::prelude::{DataType, IntoColumn as _, NamedFrom as _, Series, TimeUnit, TimeZone};
use polars_io::{
    SerWriter as _,
    ipc::{IpcStreamWriter, IpcWriter},
    parquet::write::ParquetWriter,
};

use super::*;

mod arrow;

fn now() -> Timestamp {
    Timestamp::parse("2016-06-02T00:00:00Z").unwrap()
}

fn spec(mapping: Mapping) -> FileSpec {
    FileSpec { kind: Kind::Predictions, mapping }
}

fn chunks(path: &Path, spec: &FileSpec) -> Vec<Chunk> {
    FileReader::open(path, spec, now()).unwrap().map(Result::unwrap).collect()
}

/// The digests of all batches, and how many rows they have.
fn digests(chunks: &[Chunk]) -> (Vec<String>, usize) {
    let batches = || chunks.iter().filter_map(|chunk| chunk.batch.as_ref());
    (batches().map(Batch::digest).collect(), batches().map(Batch::rows).sum())
}

/// Rows of many days: more than a batch may touch.
fn rows(count: usize) -> Vec<(String, i64, f64)> {
    let day = |row: usize| 1_370_000_000_000_000 + row as i64 / 60 * event::time::DAY_MICROS;
    (0..count).map(|row| (format!("k{row}"), day(row), row as f64 / count as f64)).collect()
}

fn frame(rows: &[(String, i64, f64)], with_zone: bool) -> DataFrame {
    let (unit, divisor, zone) = match with_zone {
        true => (TimeUnit::Microseconds, 1, Some(TimeZone::UTC)),
        false => (TimeUnit::Milliseconds, 1_000, None),
    };
    let times = rows.iter().map(|row| row.1 / divisor).collect::<Vec<_>>();
    let times = Series::new("at".into(), times).cast(&DataType::Datetime(unit, zone)).unwrap();
    let columns = vec![
        Series::new("id".into(), rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>()).into_column(),
        times.into_column(),
        Series::new("release".into(), vec!["v1"; rows.len()]).into_column(),
        Series::new("score".into(), rows.iter().map(|row| row.2).collect::<Vec<_>>()).into_column(),
        Series::new("carrier".into(), vec!["UA"; rows.len()]).into_column(),
    ];
    DataFrame::new(rows.len(), columns).unwrap()
}

fn mapping() -> Mapping {
    Mapping {
        renames: vec![("key".into(), "id".into()), ("predicted_at".into(), "at".into())],
        tags: vec!["carrier".into()],
        ..Mapping::default()
    }
}

#[test]
fn every_format_gives_the_same_batches_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let rows = rows(60_000);
    let time = |micros| Timestamp::from_micros(micros).unwrap().to_string();
    let lines: String = rows
        .iter()
        .map(|(key, at, score)| {
            format!(
                "{{\"id\":\"{key}\",\"at\":\"{}\",\"release\":\"v1\",\"score\":{score:?},\"carrier\":\"UA\"}}\n",
                time(*at)
            )
        })
        .collect();
    fs::write(path("a.ndjson"), &lines).unwrap();
    fs::write(path("a.jsonl.zst"), zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    fs::write(path("a.ndjson.gz"), gzip.finish().unwrap()).unwrap();
    fs::write(path("a.json"), format!("[{}]", lines.trim_end().replace('\n', ","))).unwrap();
    let csv = rows.iter().map(|(key, at, score)| format!("{key},{},v1,{score:?},UA\n", time(*at)));
    let csv: String = std::iter::once("id,at,release,score,carrier\n".to_owned()).chain(csv).collect();
    fs::write(path("a.csv"), csv).unwrap();
    let mut zoned = frame(&rows, true);
    ParquetWriter::new(fs::File::create(path("a.parquet")).unwrap()).finish(&mut zoned).unwrap();
    IpcStreamWriter::new(fs::File::create(path("a.arrows")).unwrap()).finish(&mut zoned).unwrap();
    IpcWriter::new(fs::File::create(path("a.arrow")).unwrap()).finish(&mut zoned).unwrap();
    let expected = digests(&chunks(&path("a.ndjson"), &spec(mapping())));
    assert_eq!(expected.1, 60_000);
    assert_eq!(expected.0.len(), 2, "50,000 rows and the rest");
    let mut known_by = BTreeMap::<String, Vec<&str>>::new();
    let names =
        ["a.ndjson", "a.jsonl.zst", "a.ndjson.gz", "a.json", "a.csv", "a.parquet", "a.arrows", "a.arrow"];
    for name in names {
        let chunks = self::chunks(&path(name), &spec(mapping()));
        assert_eq!(digests(&chunks), expected, "{name}");
        assert!(chunks.iter().all(|chunk| chunk.bad.is_empty()), "{name}");
        let size = fs::metadata(path(name)).unwrap().len();
        assert_eq!(chunks.last().unwrap().bytes, size, "{name}");
        assert_eq!(chunks.iter().map(|chunk| chunk.origin.first).collect::<Vec<_>>(), [1, 50_001]);
        known_by.entry(chunks[0].origin.digest.clone()).or_default().push(name);
        // 50,000 rows touch 834 days, the other 10,000 then 167.
        assert_eq!(read_file(&path(name), &spec(mapping()), now()).unwrap().len(), 4);
    }
    // A row of text is known by its text, however it is packed; a column by its values.
    let mut families: Vec<_> = known_by.values().cloned().collect();
    families.sort();
    let columns = vec!["a.parquet", "a.arrows", "a.arrow"];
    assert_eq!(families, [vec!["a.csv"], vec!["a.ndjson", "a.jsonl.zst", "a.ndjson.gz", "a.json"], columns]);
    let other = Mapping { tags: Vec::new(), ignore_extra: true, ..mapping() };
    for name in names {
        let other = chunks(&path(name), &spec(other.clone())).remove(0).origin.digest;
        assert!(!known_by.contains_key(&other), "{name}: other options make other events of it");
        let lenient = Mapping { ignore_extra: true, ..mapping() };
        let lenient = chunks(&path(name), &spec(lenient)).remove(0).origin.digest;
        assert!(known_by.contains_key(&lenient), "{name}: this one only decides what is good");
    }
    assert_eq!(batches_of(&zoned, &spec(mapping()), now()).unwrap().len(), 4);
}

#[test]
fn local_times_are_read_where_the_mapping_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let mut local = frame(&rows(10), false);
    ParquetWriter::new(fs::File::create(&path).unwrap()).finish(&mut local).unwrap();
    let refused = read_file(&path, &spec(mapping()), now()).unwrap_err().to_string();
    assert!(refused.contains("its times have no time zone"), "{refused}");
    let mapping = Mapping { time_zone: Some(chrono_tz::America::New_York), ..mapping() };
    let batches = read_file(&path, &spec(mapping.clone()), now()).unwrap();
    let at = batches[0].columns.column("predicted_at").unwrap().time(0);
    assert_eq!(at, Some(1_370_000_000_000_000 + 4 * 3_600_000_000));
    let path = dir.path().join("a.csv");
    let rows = "2013-05-31 11:33:20\n1,2013-11-03T01:30:00\n2,2013-03-10T02:30:00\n3,2013-05-31T00:00:00Z";
    let csv =
        format!("id,at,release,score\n0,{rows}\n").replace('\n', ",v1,0.5\n").replacen(",v1,0.5", "", 1);
    fs::write(&path, csv).unwrap();
    let read = chunks(&path, &spec(Mapping { tags: Vec::new(), ..mapping }));
    assert_eq!(read[0].batch.as_ref().unwrap().columns.column("predicted_at").unwrap().time(0), at);
    let bad: Vec<_> = read[0].bad.iter().map(|row| (row.number, row.problems[0].message.as_str())).collect();
    insta::assert_debug_snapshot!(bad);
}

#[test]
fn bad_rows_are_handed_out_and_the_good_ones_kept() {
    let dir = tempfile::tempdir().unwrap();
    let good = |key: &str| {
        format!(r#"{{"key":"{key}","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":0.5}}"#)
    };
    let path = dir.path().join("a.ndjson");
    let with_id = good("c").replace("}", r#","event_id":"x"}"#);
    let lines =
        [good("a"), "oops".into(), String::new(), good("b").replace("0.5", "1.5"), good("d"), with_id];
    fs::write(&path, lines.join("\n")).unwrap();
    let read = chunks(&path, &spec(Mapping::default()));
    assert_eq!(read.len(), 1);
    let batch = read[0].batch.as_ref().unwrap();
    assert_eq!((batch.rows(), batch.numbers.as_slice()), (2, [1, 5].as_slice()));
    assert_eq!(batch.columns.column("key").unwrap().text(1), Some("d"));
    let bad: Vec<_> = read[0]
        .bad
        .iter()
        .map(|row| (row.number, row.raw.as_deref().map(String::from_utf8_lossy), &row.problems[0].message))
        .collect();
    insta::assert_debug_snapshot!(bad);
    assert!(matches!(
        read_file(&path, &spec(Mapping::default()), now()),
        Err(Refused::Rows { error_count: 3, .. })
    ));
    let path = dir.path().join("a.csv");
    fs::write(
        &path,
        "key,predicted_at,release,score\r\n\r\na,2013-06-01T04:30:00Z,v1,0.5\r\n\"b\n\",2013-06-01T04:30:00Z,v1,nan\r\nc,,v1\n",
    )
    .unwrap();
    let read = chunks(&path, &spec(Mapping::default()));
    assert_eq!(read[0].batch.as_ref().unwrap().rows(), 1);
    let raw: Vec<_> = read[0].bad.iter().map(|row| (row.number, row.raw.clone().unwrap())).collect();
    let expected = [(2, b"\"b\n\",2013-06-01T04:30:00Z,v1,nan".to_vec()), (3, b"c,,v1".to_vec())];
    assert_eq!(raw, expected);
}

#[test]
fn what_is_no_such_file_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.ndjson", "a.csv", "a.json", "a.parquet", "a.arrow", "a.ndjson.gz", "a.csv.zst"] {
        let path = dir.path().join(name);
        assert!(read_file(&path, &spec(Mapping::default()), now()).is_err(), "{name} is not there");
        for content in [&b""[..], b"\xff\xff\xff\xff garbage", b"ARROW1", b"PAR1PAR1"] {
            fs::write(&path, content).unwrap();
            assert!(read_file(&path, &spec(Mapping::default()), now()).is_err(), "{name}: {content:?}");
        }
    }
    for name in ["a.txt", "a", "a.gz", "a.parquet.gz"] {
        assert!(
            FileReader::open(&dir.path().join(name), &spec(Mapping::default()), now()).is_err(),
            "{name}"
        );
    }
    let wrong = Mapping { renames: vec![("prob".into(), "score".into())], ..Mapping::default() };
    let path = dir.path().join("a.ndjson");
    let refused = read_file(&path, &spec(wrong), now()).unwrap_err().to_string();
    assert!(refused.starts_with("the field `prob` is not known"), "{refused}");
}

#[test]
fn dictionaries_of_parquet_are_read_as_the_text_that_they_stand_for() {
    let dir = tempfile::tempdir().unwrap();
    // Written by polars (Categorical, Enum) and by pyarrow (dictionary), as pandas does.
    let files = [&include_bytes!("data/categorical.parquet")[..], include_bytes!("data/dictionary.parquet")];
    for (at, bytes) in files.into_iter().enumerate() {
        let path = dir.path().join(format!("{at}.parquet"));
        fs::write(&path, bytes).unwrap();
        let batches = read_file(&path, &spec(Mapping::default()), now()).unwrap();
        let [batch] = batches.as_slice() else { panic!("{} batches", batches.len()) };
        let text = |name: &str, row| batch.columns.column(name).unwrap().text(row);
        assert_eq!(batch.rows(), 300);
        assert_eq!([0, 1, 299].map(|row| text("release", row)), [Some("v1"), Some("v2"), Some("v2")]);
        assert_eq!([0, 1, 2].map(|row| text("label", row)), [Some("late"), None, Some("on time")]);
        // The same bytes as the body of a request.
        let mut reader =
            crate::format::BodyReader::new(Kind::Predictions, Format::Parquet, Encoding::Identity, now());
        reader.push(bytes).unwrap();
        assert_eq!(reader.finish().unwrap().digest(), batch.digest());
    }
}

#[test]
fn broken_parquet_is_refused_whatever_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        &include_bytes!("data/categorical.parquet")[..],
        include_bytes!("data/dictionary.parquet"),
        include_bytes!("data/extra.parquet"),
    ];
    let path = dir.path().join("a.parquet");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        // Whether it can be read still is for the decoder to say; but it says so.
        let _ = read_file(&path, &spec(Mapping::default()), now()).map_err(|refused| refused.to_string());
    };
    for bytes in files {
        for end in (0..bytes.len()).step_by(997) {
            read(&bytes[..end]);
        }
        for at in (0..bytes.len()).step_by(397) {
            let mut broken = bytes.to_vec();
            broken[at] ^= 0x55;
            read(&broken);
        }
    }
    fs::write(&path, files[2]).unwrap();
    let refused = read_file(&path, &spec(Mapping::default()), now()).unwrap_err().to_string();
    assert!(refused.contains("the column `price`: values of type Decimal"), "{refused}");
}

#[test]
fn columns_may_be_left_out_and_values_given_for_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let row =
        r#"{"key":"a","predicted_at":"2013-06-01T04:30:00Z","score":0.5,"more":{"x":[1]},"tag.c":"UA"}"#;
    let columns = r#"{"key":["a"],"more":[{"x":[1]}],"predicted_at":["2013-06-01T04:30:00Z"],"score":[0.5],"tag.c":["UA"]}"#;
    let csv = "key,predicted_at,score,more,tag.c\na,2013-06-01T04:30:00Z,0.5,\"[1]\",UA\n";
    let set = vec![
        ("release".into(), "v1".into()),
        ("value".into(), "2".into()),
        ("tag.source".into(), "nightly".into()),
    ];
    let ignoring = Mapping { set: set.clone(), ignore_extra: true, ..Mapping::default() };
    let select = ["key", "predicted_at", "score"].map(String::from).to_vec();
    let selecting = Mapping { set, select, ..Mapping::default() };
    let mut found = Vec::new();
    for (name, content) in [("a.ndjson", row), ("a.json", columns), ("a.csv", csv)] {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        let refused = read_file(&path, &spec(Mapping::default()), now()).unwrap_err().to_string();
        assert!(refused.contains("more") && refused.contains("is not known"), "{name}: {refused}");
        for mapping in [&ignoring, &selecting] {
            let batches = read_file(&path, &spec(mapping.clone()), now()).unwrap();
            let columns = &batches[0].columns;
            assert_eq!(columns.column("release").unwrap().text(0), Some("v1"), "{name}");
            assert_eq!(columns.column("value").unwrap().float(0), Some(2.0), "{name}");
            assert_eq!(columns.column("tag.source").unwrap().text(0), Some("nightly"), "{name}");
            assert_eq!(columns.column("tag.c").is_some(), mapping.ignore_extra, "{name}");
            found.push(batches[0].digest());
        }
        let twice = Mapping { set: vec![("score".into(), "1".into())], ..ignoring.clone() };
        let refused = read_file(&path, &spec(twice), now()).unwrap_err().to_string();
        assert!(refused.contains("is given by --set as well"), "{name}: {refused}");
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 2, "every format gives the same events");
    let path = dir.path().join("a.parquet");
    fs::write(&path, include_bytes!("data/extra.parquet")).unwrap();
    let ignoring = Mapping { ignore_extra: true, ..Mapping::default() };
    assert_eq!(read_file(&path, &spec(ignoring), now()).unwrap()[0].rows(), 300);
    for wrong in [("kex", "1"), ("event_id", "1"), ("tags", "1")] {
        let wrong = Mapping { set: vec![(wrong.0.into(), wrong.1.into())], ..Mapping::default() };
        let refused = read_file(&path, &spec(wrong), now()).unwrap_err().to_string();
        assert!(refused.contains("is not known"), "{refused}");
    }
    let wrong = Mapping { select: vec!["kex".into()], ..Mapping::default() };
    assert!(read_file(&path, &spec(wrong), now()).unwrap_err().to_string().contains("`kex` is not known"));
    let far = Mapping {
        set: vec![("value".into(), "high".into())],
        ..Mapping { ignore_extra: true, ..Mapping::default() }
    };
    assert!(matches!(read_file(&path, &spec(far), now()), Err(Refused::Rows { error_count: 300, .. })));
}

#[test]
fn columns_of_a_file_become_features_and_scores() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.csv");
    let rows =
        "loan,at,release,p_late,p_on_time,age,feature.sum\na,2013-06-01T04:30:00Z,v1,0.25,0.75,41,1e3\n";
    std::fs::write(&path, rows).unwrap();
    let renames =
        [("key", "loan"), ("predicted_at", "at"), ("score.late", "p_late"), ("score.on time", "p_on_time")];
    let mapping = Mapping {
        renames: renames.map(|(field, column)| (field.to_owned(), column.to_owned())).to_vec(),
        features: vec!["age".into()],
        ..Mapping::default()
    };
    let spec = FileSpec { kind: Kind::Predictions, mapping };
    let batch = read_file(&path, &spec, now()).unwrap().remove(0);
    let number = |name: &str| batch.columns.column(name).unwrap().float(0);
    let names = ["score.late", "score.on time", "feature.age", "feature.sum"];
    assert_eq!(names.map(number), [Some(0.25), Some(0.75), Some(41.0), Some(1000.0)]);
    // The same in JSON.
    let path = dir.path().join("p.ndjson");
    let row = r#"{"loan":"a","at":"2013-06-01T04:30:00Z","release":"v1","p_late":0.25,"p_on_time":0.75,"age":41,"features":{"sum":1e3}}"#;
    std::fs::write(&path, row).unwrap();
    let same = read_file(&path, &spec, now()).unwrap().remove(0);
    assert_eq!(same.columns, batch.columns);
    std::fs::write(&path, row.replace("\"release\"", "\"score.late\":0.25,\"release\"")).unwrap();
    let said = read_file(&path, &spec, now()).unwrap_err().to_string();
    assert!(said.contains("`score.late` is given twice"), "{said}");
}
