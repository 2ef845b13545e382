//! Files of every format, with good rows and bad ones.

use std::{collections::BTreeMap, io::Write as _};

use event::Kind;
use polars::prelude::{DataType, IntoColumn as _, NamedFrom as _, Series, TimeUnit, TimeZone};
use polars_io::{
    SerWriter as _,
    ipc::{IpcStreamWriter, IpcWriter},
    parquet::write::ParquetWriter,
};
use serde_json::{Value, json};

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

/// Digests of all batches, and the number of their rows.
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
    fs::write(path("b.json"), &lines).unwrap();
    let csv = rows.iter().map(|(key, at, score)| format!("{key},{},v1,{score:?},UA\n", time(*at)));
    let csv: String = std::iter::once("id,at,release,score,carrier\n".to_owned()).chain(csv).collect();
    fs::write(path("a.tsv"), csv.replace(',', "\t")).unwrap();
    fs::write(path("a.csv"), csv).unwrap();
    let mut zoned = frame(&rows, true);
    ParquetWriter::new(fs::File::create(path("a.parquet")).unwrap()).finish(&mut zoned).unwrap();
    IpcStreamWriter::new(fs::File::create(path("a.arrows")).unwrap()).finish(&mut zoned).unwrap();
    IpcWriter::new(fs::File::create(path("a.arrow")).unwrap()).finish(&mut zoned).unwrap();
    let expected = digests(&chunks(&path("a.ndjson"), &spec(mapping())));
    assert_eq!(expected.1, 60_000);
    assert_eq!(expected.0.len(), 2, "50,000 rows and the rest");
    let mut known_by = BTreeMap::<String, Vec<&str>>::new();
    let names = "a.ndjson a.jsonl.zst a.ndjson.gz a.json b.json a.csv a.tsv a.parquet a.arrows a.arrow";
    for name in names.split(' ') {
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
    // A row of text is identified by its text in any packing; a column by its values.
    let mut families: Vec<_> = known_by.values().map(|names| names.join(" ")).collect();
    families.sort();
    let [csv, lines, columns, tsv] = &families[..] else { panic!("{families:?}") };
    assert_eq!((&**csv, &**columns, &**tsv), ("a.csv", "a.parquet a.arrows a.arrow", "a.tsv"));
    assert_eq!(lines, "a.ndjson a.jsonl.zst a.ndjson.gz a.json b.json");
    let other = Mapping { tags: Vec::new(), ignore_extra: true, ..mapping() };
    for name in names.split(' ') {
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
    let bad: Vec<_> =
        read[0].bad.iter().map(|(number, problems)| (*number, problems[0].message.as_str())).collect();
    insta::assert_debug_snapshot!(bad);
}

#[test]
fn bad_rows_are_rejected_and_good_ones_kept() {
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
    insta::assert_snapshot!(rejects(&read));
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
    let rejected: Vec<Value> =
        rejects(&read).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row =
        json!({ "key": "b\n", "predicted_at": "2013-06-01T04:30:00Z", "release": "v1", "score": "nan" });
    assert_eq!((&rejected[0]["row"], &rejected[0]["event"]), (&json!(2), &row));
    assert_eq!((&rejected[1]["row"], &rejected[1]["text"]), (&json!(3), &json!("c,,v1")), "too few cells");
}

/// Makes a file of the bad rows of these chunks.
fn rejects(chunks: &[Chunk]) -> String {
    let mut lines = String::new();
    for chunk in chunks {
        let rows = chunk.source.rows(chunk.bad.iter().map(|(number, _)| *number));
        for ((row, errors), source) in chunk.bad.iter().zip(rows) {
            let rejected = Rejected { file: "a".into(), row: *row, errors, source: source.unwrap() };
            lines += &format!("{}\n", serde_json::to_string(&rejected).unwrap());
        }
    }
    lines
}

/// A frame of 40 rows of which two are bad, with columns of many types.
fn with_bad_rows() -> DataFrame {
    let rows = rows(40);
    let mut frame = frame(&rows, true);
    let scores: Vec<f64> = (0..40).map(|row| if [7, 8].contains(&row) { 7.5 } else { 0.5 }).collect();
    let local = Series::new("local".into(), rows.iter().map(|row| row.1).collect::<Vec<_>>());
    let local = local.cast(&DataType::Datetime(TimeUnit::Microseconds, None)).unwrap();
    let days = local.cast(&DataType::Date).unwrap().with_name("day".into());
    frame.with_column(Series::new("score".into(), scores).into_column()).unwrap();
    frame.with_column(Series::new("age".into(), (0..40).collect::<Vec<i32>>()).into_column()).unwrap();
    frame.with_column(Series::new("is_new".into(), vec![true; 40]).into_column()).unwrap();
    frame.with_column(days.cast(&DataType::String).unwrap().into_column()).unwrap();
    frame
}

#[test]
fn corrected_rejects_of_every_format_are_imported() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut frame = with_bad_rows();
    ParquetWriter::new(fs::File::create(path("a.parquet")).unwrap()).finish(&mut frame).unwrap();
    IpcStreamWriter::new(fs::File::create(path("a.arrows")).unwrap()).finish(&mut frame).unwrap();
    IpcWriter::new(fs::File::create(path("a.arrow")).unwrap()).finish(&mut frame).unwrap();
    let row = |row: usize, score: f64| {
        let (key, at, _) = rows(40).remove(row);
        let at = Timestamp::from_micros(at).unwrap();
        json!({ "id": key, "at": at.to_string(), "release": "v1", "score": score, "carrier": "UA",
            "age": row, "is_new": true, "day": at.day().to_string() })
    };
    let all: Vec<Value> = (0..40).map(|at| row(at, if [7, 8].contains(&at) { 7.5 } else { 0.5 })).collect();
    let lines: String = all.iter().map(|row| format!("{row}\n")).collect();
    fs::write(path("a.ndjson"), &lines).unwrap();
    fs::write(path("array.json"), serde_json::to_string_pretty(&all).unwrap()).unwrap();
    let names = ["id", "at", "release", "score", "carrier", "age", "is_new", "day"];
    let columns: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), all.iter().map(|row| row[*name].clone()).collect()))
        .collect();
    fs::write(path("columns.json"), Value::from(columns).to_string()).unwrap();
    let cells = |row: &Value| names.map(|name| row[name].to_string().replace('"', "")).join(",");
    let csv: Vec<String> = std::iter::once(names.join(",")).chain(all.iter().map(cells)).collect();
    fs::write(path("a.csv"), csv.join("\n")).unwrap();
    let mut mapping = mapping();
    mapping.tags.extend(["is_new".into(), "day".into()]);
    mapping.features.push("age".into());
    let corrected: String = [7, 8].map(|at| format!("{}\n", row(at, 0.75))).concat();
    fs::write(path("corrected.ndjson"), corrected).unwrap();
    let expected = read_file(&path("corrected.ndjson"), &spec(mapping.clone()), now()).unwrap().remove(0);
    for name in ["a.parquet", "a.arrows", "a.arrow", "a.ndjson", "array.json", "columns.json", "a.csv"] {
        let read = chunks(&path(name), &spec(mapping.clone()));
        assert_eq!((read[0].batch.as_ref().unwrap().rows(), read[0].bad.len()), (38, 2), "{name}");
        let rejected = rejects(&read);
        fs::write(path("rejects.ndjson"), &rejected).unwrap();
        let again = chunks(&path("rejects.ndjson"), &spec(mapping.clone()));
        let (was, is) = (&read[0].bad, &again[0].bad);
        assert!(again[0].batch.is_none(), "{name}: they are as bad as before");
        let messages = |bad: &[(u64, Vec<event::RowProblem>)]| -> Vec<String> {
            bad.iter().flat_map(|(_, problems)| problems).map(|problem| problem.message.clone()).collect()
        };
        assert_eq!(messages(was), messages(is), "{name}");
        assert_eq!(is.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2], "{name}: its own lines");
        fs::write(path("rejects.ndjson"), rejected.replace("7.5", "0.75")).unwrap();
        let mended = read_file(&path("rejects.ndjson"), &spec(mapping.clone()), now()).unwrap().remove(0);
        assert_eq!(mended.columns, expected.columns, "{name}: {rejected}");
    }
}

#[test]
fn reject_line_without_its_row_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ndjson");
    fs::write(&path, "oops\n").unwrap();
    let lines = rejects(&chunks(&path, &spec(Mapping::default())));
    fs::write(&path, &lines).unwrap();
    let read = chunks(&path, &spec(Mapping::default()));
    assert!(read[0].bad[0].1[0].message.contains("write the row into it"), "{:?}", read[0].bad);
    assert!(rejects(&read).contains(r#""text":"oops""#), "{}", rejects(&read));
    // A row in the place of the line is a row.
    let row = r#"{"key":"c","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":0.5}"#;
    fs::write(&path, format!("{lines}{row}\n")).unwrap();
    assert_eq!(chunks(&path, &spec(Mapping::default()))[0].batch.as_ref().unwrap().rows(), 1);
}

#[test]
fn one_column_fills_several_fields_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let row = json!({ "id": "a", "t": "2013-06-01T04:30:00Z", "prob": 0.25, "amount": 12.5, "note": "UA" });
    fs::write(path("a.ndjson"), row.to_string()).unwrap();
    let columns: serde_json::Map<String, Value> =
        row.as_object().unwrap().iter().map(|(name, value)| (name.clone(), json!([value]))).collect();
    fs::write(path("a.json"), Value::from(columns).to_string()).unwrap();
    fs::write(path("a.csv"), "id,t,prob,amount,note\na,2013-06-01T04:30:00Z,0.25,12.5,UA\n").unwrap();
    let mut frame = DataFrame::new(
        1,
        vec![
            Series::new("id".into(), ["a"]).into_column(),
            Series::new("t".into(), ["2013-06-01T04:30:00Z"]).into_column(),
            Series::new("prob".into(), [0.25]).into_column(),
            Series::new("amount".into(), [12.5]).into_column(),
            Series::new("note".into(), ["UA"]).into_column(),
        ],
    )
    .unwrap();
    ParquetWriter::new(fs::File::create(path("a.parquet")).unwrap()).finish(&mut frame).unwrap();
    IpcStreamWriter::new(fs::File::create(path("a.arrows")).unwrap()).finish(&mut frame).unwrap();
    let renames = [
        ("key", "id"),
        ("tag.id", "id"),
        ("predicted_at", "t"),
        ("score", "prob"),
        ("feature.p", "prob"),
        ("value", "amount"),
        ("label", "note"),
    ];
    let mapping = Mapping {
        renames: renames.map(|(field, column)| (field.to_owned(), column.to_owned())).to_vec(),
        features: vec!["amount".into()],
        tags: vec!["note".into()],
        set: vec![("release".into(), "v1".into())],
        ..Mapping::default()
    };
    for name in ["a.ndjson", "a.json", "a.csv", "a.parquet", "a.arrows"] {
        let batch = read_file(&path(name), &spec(mapping.clone()), now()).unwrap().remove(0);
        let text = |name: &str| batch.columns.column(name).and_then(|column| column.text(0));
        let number = |name: &str| batch.columns.column(name).and_then(|column| column.float(0));
        let texts = ["key", "tag.id", "label", "tag.note", "release"];
        assert_eq!(texts.map(text), ["a", "a", "UA", "UA", "v1"].map(Some), "{name}");
        let numbers = ["score", "feature.p", "value", "feature.amount"];
        assert_eq!(numbers.map(number), [0.25, 0.25, 12.5, 12.5].map(Some), "{name}");
    }
}

#[test]
fn field_listed_as_feature_stays_a_field() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv");
    fs::write(&path, "key,predicted_at,release,score\na,2013-06-01T04:30:00Z,v1,0.25\n").unwrap();
    let mapping = Mapping { features: vec!["score".into()], tags: vec!["key".into()], ..Mapping::default() };
    let batch = read_file(&path, &spec(mapping), now()).unwrap().remove(0);
    let number = |name: &str| batch.columns.column(name).unwrap().float(0);
    assert_eq!(["score", "feature.score"].map(number), [Some(0.25); 2]);
    assert_eq!(batch.columns.column("tag.key").unwrap().text(0), Some("a"));
}

#[test]
fn swapped_names_are_read_as_the_options_say() {
    let dir = tempfile::tempdir().unwrap();
    let row = json!({ "key": "a", "predicted_at": "2013-06-01T04:30:00Z", "release": "v1", "label": 0.25, "score": "late" });
    let renames = [("score", "label"), ("label", "score")];
    let renames = renames.map(|(field, column)| (field.to_owned(), column.to_owned())).to_vec();
    let swapped = spec(Mapping { renames, ..Mapping::default() });
    let csv = "key,predicted_at,release,label,score\na,2013-06-01T04:30:00Z,v1,0.25,late\n".to_owned();
    for (name, content) in [("a.ndjson", row.to_string()), ("a.csv", csv)] {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        let batch = read_file(&path, &swapped, now()).unwrap().remove(0);
        assert_eq!(batch.columns.column("score").unwrap().float(0), Some(0.25), "{name}");
        assert_eq!(batch.columns.column("label").unwrap().text(0), Some("late"), "{name}");
        // A column that holds a field has no other meaning.
        let moved = Mapping { renames: vec![("score".into(), "label".into())], ..Mapping::default() };
        let refused = read_file(&path, &spec(moved), now()).unwrap_err().to_string();
        assert!(refused.contains("is read from `label`"), "{name}: {refused}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let wrong = |mapping: Mapping| spec(mapping).names().unwrap_err().to_string();
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(field, column)| ((*field).to_owned(), (*column).to_owned())).collect()
    };
    let twice = pairs(&[("score", "a"), ("score", "b")]);
    assert_eq!(wrong(Mapping { renames: twice, ..Mapping::default() }), "--map: `score` is given twice");
    let both =
        Mapping { renames: pairs(&[("score", "a")]), set: pairs(&[("score", "1")]), ..Mapping::default() };
    assert_eq!(wrong(both), "`score` is given by --set and by --map; leave one of the two out");
    let left =
        Mapping { renames: pairs(&[("score", "a")]), select: vec!["key".into()], ..Mapping::default() };
    assert_eq!(wrong(left), "--map names the column `a`, which --select leaves out");
    let typo = wrong(Mapping { renames: pairs(&[("lable", "a")]), ..Mapping::default() });
    assert!(typo.contains("did you mean `label`?"), "{typo}");
}

#[test]
fn column_absent_from_all_rows_names_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let row = json!({ "key": "a", "predicted_at": "2013-06-01T04:30:00Z", "release": "v1", "score": 0.25, "truth": "x", "amount": 1 });
    let csv = "key,predicted_at,release,score,truth,amount\na,2013-06-01T04:30:00Z,v1,0.25,x,1\n".to_owned();
    let columns: serde_json::Map<String, Value> =
        row.as_object().unwrap().iter().map(|(name, value)| (name.clone(), json!([value]))).collect();
    let label = Mapping { renames: vec![("label".into(), "truht".into())], ..Mapping::default() };
    let tag = Mapping { tags: vec!["truht".into()], ..Mapping::default() };
    let feature = Mapping { features: vec!["amuont".into()], ..Mapping::default() };
    for mapping in [label, tag, feature] {
        let spec = spec(Mapping { ignore_extra: true, ..mapping.clone() });
        for (name, content) in [("a.csv", csv.clone()), ("a.json", Value::from(columns.clone()).to_string())]
        {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            let refused = read_file(&path, &spec, now()).unwrap_err().to_string();
            assert!(refused.contains("which is not in it; did you mean"), "{name}: {refused}");
        }
        // A row may lack a field of others, so for rows it is reported at the end.
        for (name, content) in [("a.ndjson", row.to_string()), ("array.json", format!("[{row}]"))] {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            let mut reader = FileReader::open(&path, &spec, now()).unwrap();
            assert!(reader.by_ref().all(|chunk| chunk.unwrap().bad.is_empty()), "{name}");
            let lacking = reader.lacking().unwrap().values().next().unwrap();
            assert!(lacking.contains("which is not in it; did you mean"), "{name}: {lacking}");
        }
    }
    let path = dir.path().join("a.ndjson");
    let has_it = spec(Mapping { tags: vec!["truth".into()], ignore_extra: true, ..Mapping::default() });
    let mut reader = FileReader::open(&path, &has_it, now()).unwrap();
    assert_eq!(reader.by_ref().count(), 1);
    assert!(reader.lacking().unwrap().is_empty());
}

#[test]
fn null_texts_are_recognized_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let row = json!({ "key": "a", "predicted_at": "2013-06-01T04:30:00Z", "release": "v1", "score": 0.25, "label": "NA", "value": "\\N", "tag.x": "NA" });
    fs::write(path("a.ndjson"), row.to_string()).unwrap();
    let columns: serde_json::Map<String, Value> =
        row.as_object().unwrap().iter().map(|(name, value)| (name.clone(), json!([value]))).collect();
    fs::write(path("a.json"), Value::from(columns).to_string()).unwrap();
    let csv = "key,predicted_at,release,score,label,value,tag.x\na,2013-06-01T04:30:00Z,v1,0.25,NA,\\N,NA\n";
    fs::write(path("a.csv"), csv).unwrap();
    let texts = ["key", "predicted_at", "release", "label", "value", "tag.x"];
    let mut columns: Vec<_> =
        texts.map(|name| Series::new(name.into(), [row[name].as_str().unwrap()]).into_column()).to_vec();
    columns.push(Series::new("score".into(), [0.25]).into_column());
    let mut frame = DataFrame::new(1, columns).unwrap();
    ParquetWriter::new(fs::File::create(path("a.parquet")).unwrap()).finish(&mut frame).unwrap();
    let null = vec!["NA".to_owned(), "\\N".to_owned()];
    for name in ["a.ndjson", "a.json", "a.csv", "a.parquet"] {
        let mapping = Mapping { null: null.clone(), ..Mapping::default() };
        let batch = read_file(&path(name), &spec(mapping), now()).unwrap().remove(0);
        let names: Vec<&str> = batch.columns.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["key", "predicted_at", "release", "score"], "{name}");
    }
}

/// Written by pandas, whose days are times at midnight without a zone.
#[test]
fn a_midnight_without_a_zone_is_its_day() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let day: event::Day = "2013-06-01".parse().unwrap();
    let observed = Timestamp::parse("2013-06-01T15:00:00Z").unwrap().micros();
    let times = |name: &str, at: i64, zone: Option<TimeZone>| {
        Series::new(name.into(), [at]).cast(&DataType::Datetime(TimeUnit::Microseconds, zone)).unwrap()
    };
    let read = |on: Series, mapping: Mapping| {
        let mut frame = DataFrame::new(
            1,
            vec![
                Series::new("key".into(), ["a"]).into_column(),
                on.with_name("predicted_on".into()).into_column(),
                times("observed_at", observed, Some(TimeZone::UTC)).into_column(),
                Series::new("label".into(), ["x"]).into_column(),
            ],
        )
        .unwrap();
        ParquetWriter::new(fs::File::create(&path).unwrap()).finish(&mut frame).unwrap();
        read_file(&path, &FileSpec { kind: Kind::Outcomes, mapping }, now())
    };
    let in_tokyo = Mapping { time_zone: Some(chrono_tz::Asia::Tokyo), ..Mapping::default() };
    let midnight = times("on", day.start().micros(), None);
    for mapping in [Mapping::default(), in_tokyo.clone()] {
        let date = midnight.cast(&DataType::Date).unwrap();
        for on in [midnight.clone(), date, Series::new("on".into(), ["2013-06-01"])] {
            assert_eq!(read(on, mapping.clone()).unwrap()[0].days, [day]);
        }
        let told =
            read(times("on", day.start().micros() + 1, None), mapping.clone()).unwrap_err().to_string();
        assert!(told.contains("should be a day, but has a time of day"), "{told}");
    }
    // A date as a time is the midnight of its text.
    let mut frame = DataFrame::new(
        1,
        vec![
            Series::new("key".into(), ["a"]).into_column(),
            midnight.cast(&DataType::Date).unwrap().with_name("predicted_at".into()).into_column(),
            Series::new("release".into(), ["v1"]).into_column(),
            Series::new("score".into(), [0.5]).into_column(),
        ],
    )
    .unwrap();
    ParquetWriter::new(fs::File::create(&path).unwrap()).finish(&mut frame).unwrap();
    let csv = dir.path().join("a.csv");
    fs::write(&csv, "key,predicted_at,release,score\na,2013-06-01,v1,0.5\n").unwrap();
    let at = |path: &Path| {
        let batch = read_file(path, &spec(in_tokyo.clone()), now()).unwrap().remove(0);
        Timestamp::from_micros(batch.columns.column("predicted_at").unwrap().time(0).unwrap())
            .unwrap()
            .to_string()
    };
    assert_eq!([at(&path), at(&csv)], ["2013-05-31T15:00:00Z"; 2]);
}

#[test]
fn a_file_without_rows_has_no_batches() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut none = frame(&[], true);
    ParquetWriter::new(fs::File::create(path("a.parquet")).unwrap()).finish(&mut none).unwrap();
    IpcStreamWriter::new(fs::File::create(path("a.arrows")).unwrap()).finish(&mut none).unwrap();
    IpcWriter::new(fs::File::create(path("a.arrow")).unwrap()).finish(&mut none).unwrap();
    let texts = [
        ("a.ndjson", ""),
        ("blank.ndjson", "\n \n"),
        ("a.csv", ""),
        ("header.csv", "id,at,release,score,carrier\n"),
        ("a.json", "[]"),
        ("columns.json", "{}"),
        ("lists.json", r#"{"id":[],"at":[],"release":[],"score":[],"carrier":[]}"#),
    ];
    for (name, text) in texts {
        fs::write(path(name), text).unwrap();
    }
    for name in ["a.parquet", "a.arrows", "a.arrow"].into_iter().chain(texts.map(|(name, _)| name)) {
        assert_eq!(read_file(&path(name), &spec(mapping()), now()), Ok(Vec::new()), "{name}");
    }
}

#[test]
fn what_is_no_such_file_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.ndjson", "a.csv", "a.json", "a.parquet", "a.arrow", "a.ndjson.gz", "a.csv.zst"] {
        let path = dir.path().join(name);
        assert!(read_file(&path, &spec(Mapping::default()), now()).is_err(), "{name} is not there");
        for content in [&b""[..], b"\xff\xff\xff\xff garbage", b"ARROW1", b"PAR1PAR1"] {
            fs::write(&path, content).unwrap();
            let read = read_file(&path, &spec(Mapping::default()), now());
            match content.is_empty() && ["a.ndjson", "a.csv"].contains(&name) {
                true => assert_eq!(read, Ok(Vec::new()), "{name}"),
                false => {
                    let said = read.unwrap_err().to_string();
                    let names_it = said.contains(name) || said.contains("bad row");
                    assert!(names_it, "{name}: {content:?}: {said}");
                }
            }
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
fn parquet_dictionaries_are_read_as_their_text() {
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
        // Equal bytes, sent as the body of a request.
        let mut reader =
            crate::format::BodyReader::new(Kind::Predictions, Format::Parquet, Encoding::Identity, now());
        reader.push(bytes).unwrap();
        assert_eq!(reader.finish().unwrap().digest(), batch.digest());
    }
}

/// Reads the bytes of a Parquet file as a request, without a time zone.
fn posted(bytes: &[u8]) -> Result<Batch, Refused> {
    let mut reader =
        crate::format::BodyReader::new(Kind::Predictions, Format::Parquet, Encoding::Identity, now());
    reader.push(bytes)?;
    reader.finish()
}

/// Parquet has no durations: they are whole numbers there, and a note of the writer holds their unit.
#[test]
fn durations_of_parquet_are_milliseconds_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    // Written by pandas: 12.5 ms as timedelta64[ns], and none.
    let pandas = include_bytes!("data/timedelta.parquet");
    fs::write(&path, pandas).unwrap();
    let [batch] = &read_file(&path, &spec(Mapping::default()), now()).unwrap()[..] else { panic!() };
    let latency = |batch: &Batch, row| batch.columns.column("latency_ms").unwrap().float(row);
    assert_eq!([0, 1].map(|row| latency(batch, row)), [Some(12.5), None]);
    assert_eq!(posted(pandas).unwrap().digest(), batch.digest());
    for (unit, ticks) in
        [(TimeUnit::Milliseconds, 12), (TimeUnit::Microseconds, 12_500), (TimeUnit::Nanoseconds, 12_500_000)]
    {
        let mut frame = frame(&rows(1), true);
        let took = Series::new("latency_ms".into(), [ticks]).cast(&DataType::Duration(unit)).unwrap();
        frame.with_column(took.into_column()).unwrap();
        let mut bytes = Vec::new();
        ParquetWriter::new(&mut bytes).finish(&mut frame).unwrap();
        fs::write(&path, &bytes).unwrap();
        let [batch] = &read_file(&path, &spec(mapping()), now()).unwrap()[..] else { panic!() };
        assert_eq!(latency(batch, 0), Some(if ticks == 12 { 12.0 } else { 12.5 }), "{unit:?}");
        // A file with another duration is not the same file.
        let known = chunks(&path, &spec(mapping()))[0].origin.digest.clone();
        let other = Series::new("latency_ms".into(), [ticks + 1]).cast(&DataType::Duration(unit)).unwrap();
        let mut other = frame.clone().with_column(other.into_column()).unwrap().clone();
        ParquetWriter::new(fs::File::create(&path).unwrap()).finish(&mut other).unwrap();
        assert_ne!(chunks(&path, &spec(mapping()))[0].origin.digest, known, "{unit:?}");
        fs::write(&path, &bytes).unwrap();
        let mut stream = Vec::new();
        IpcStreamWriter::new(&mut stream).finish(&mut frame).unwrap();
        let arrow = dir.path().join("a.arrow");
        fs::write(&arrow, &stream).unwrap();
        assert_eq!(latency(&read_file(&arrow, &spec(mapping()), now()).unwrap()[0], 0), latency(batch, 0));
        // The unit of a feature or of another number is not known.
        let elsewhere = Mapping {
            renames: vec![
                ("key".into(), "id".into()),
                ("predicted_at".into(), "at".into()),
                ("feature.wait".into(), "latency_ms".into()),
            ],
            tags: vec!["carrier".into()],
            ..Mapping::default()
        };
        for path in [&path, &arrow] {
            let refused = read_file(path, &spec(elsewhere.clone()), now()).unwrap_err().to_string();
            assert!(refused.contains("the column `latency_ms`: its values are durations"), "{refused}");
        }
    }
}

/// Written by pyarrow: UUIDs, halves, decimals as whole numbers and as bytes, and whole numbers without a sign.
#[test]
fn decimals_halves_and_uuids_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("a.parquet", &include_bytes!("data/types.parquet")[..]),
        ("a.arrow", include_bytes!("data/types.arrow")),
    ];
    let mut digests = Vec::new();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let chunk = &chunks(&path, &spec(Mapping::default()))[0];
        let batch = chunk.batch.as_ref().unwrap();
        let text = |name: &str, row| batch.columns.column(name).unwrap().text(row).map(str::to_owned);
        let float = |name: &str, row| batch.columns.column(name).unwrap().float(row);
        let uuid = "12345678-9abc-def0-1234-56789abcdef0";
        assert_eq!(text("key", 0).as_deref(), Some(uuid), "{name}");
        assert_eq!((float("score", 0), float("score", 1)), (Some(0.7), None), "{name}");
        assert_eq!((float("value", 0), float("value", 1)), (Some(-12.34), Some(3.0)), "{name}");
        assert_eq!((float("lower", 0), float("lower", 1)), (Some(-99.5), Some(1.0)), "{name}");
        assert_eq!(text("tag.account", 0).as_deref(), Some("12345678901234567890"), "{name}");
        assert_eq!(text("tag.n", 0).as_deref(), Some("18446744073709551615"), "{name}");
        digests.push(batch.digest());
        let Some(SourceRow::Event(event)) = chunk.source.rows([1].into_iter()).remove(0) else { panic!() };
        let event: Value = serde_json::from_str(event.get()).unwrap();
        assert_eq!((&event["key"], &event["tag.account"]), (&json!(uuid), &json!("12345678901234567890")));
        assert_eq!((&event["tag.n"], &event["value"]), (&json!("18446744073709551615"), &json!(-12.34)));
    }
    assert_eq!(digests[0], digests[1]);
    assert_eq!(posted(files[0].1).unwrap().digest(), digests[0]);
}

/// INT96 covers all times; nanoseconds in 64 bits only cover the years 1677 to 2262.
#[test]
fn times_that_nanoseconds_cannot_tell_are_bad_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    // Written by pyarrow with INT96: the years 1, 2013 and 1600; and scores of single precision.
    fs::write(&path, include_bytes!("data/int96.parquet")).unwrap();
    let utc = Mapping { time_zone: Some(chrono_tz::UTC), ..Mapping::default() };
    let chunk = &chunks(&path, &spec(utc))[0];
    let batch = chunk.batch.as_ref().unwrap();
    assert_eq!(batch.days, ["2013-06-01".parse().unwrap()]);
    assert_eq!(batch.columns.column("score").unwrap().float(0), Some(0.7), "and not a little less");
    assert_eq!(chunk.bad.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 3]);
    for (_, problems) in &chunk.bad {
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.field.as_deref(), Some("predicted_at"));
        assert!(problem.message.contains("outside of the years 1677 to 2262"), "{}", problem.message);
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
        // The decoder may read it or not; but it must report the failure.
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
    assert!(refused.contains("the column `raw`: values of type BinaryView"), "{refused}");
}

#[test]
fn mapping_can_omit_columns_and_set_constant_values() {
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
    // An equal row in JSON.
    let path = dir.path().join("p.ndjson");
    let row = r#"{"loan":"a","at":"2013-06-01T04:30:00Z","release":"v1","p_late":0.25,"p_on_time":0.75,"age":41,"features":{"sum":1e3}}"#;
    std::fs::write(&path, row).unwrap();
    let same = read_file(&path, &spec, now()).unwrap().remove(0);
    assert_eq!(same.columns, batch.columns);
    std::fs::write(&path, row.replace("\"release\"", "\"score.late\":0.25,\"release\"")).unwrap();
    let said = read_file(&path, &spec, now()).unwrap_err().to_string();
    assert!(said.contains("`score.late` is given twice"), "{said}");
}
