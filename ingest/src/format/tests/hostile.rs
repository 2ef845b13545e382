//! Hostile bodies.

use polars::prelude::{DataFrame, IntoColumn as _, NamedFrom as _, Series};
use polars_io::{ipc::IpcCompression, parquet::write::ParquetCompression};

use super::*;

#[test]
fn unclosed_quote_is_one_bad_row() {
    let header = "key,predicted_at,release,score,tag.note\n";
    let row = |key: &str, note: &str| format!("{key},2013-06-01T04:30:00Z,v1,0.5,{note}\n");
    let told = |body: &str, cut: usize| {
        let (first, second) = body.as_bytes().split_at(cut.min(body.len()));
        read_in(Kind::Predictions, (Format::Csv, Encoding::Identity), &[first, second])
            .map(|batch| batch.rows())
    };
    let open = ["\"open", "\"", "\"\"\"", "\"a\"\"", "\"a, b\n"];
    for note in open {
        let body = header.to_owned() + &row("a", "ok") + &row("b", note) + &row("c", "ok") + &row("d", "ok");
        for cut in [0, 50, body.len() - 1] {
            let refused = told(&body, cut).unwrap_err().to_string();
            assert!(
                refused.contains("1 bad row") && refused.contains("row 2: opens a quote"),
                "{note}: {refused}"
            );
        }
        assert!(told(&format!("{header}a,2013-06-01T04:30:00Z,v1,0.5,{note}"), 9).is_err(), "cut off");
    }
    for note in ["\"\"", "\"a \"\"b\"\"\"", "5\" screen", "\"a,\nb\"", "\"\"\"\"", "a\"\""] {
        let body = header.to_owned() + &row("a", note) + &row("b", note);
        for body in [&body[..], body.trim_end()] {
            assert_eq!(told(body, 60), Ok(2), "{note}");
        }
    }
    assert!(told("key,\"release", 0).unwrap_err().to_string().contains("the header opens a quote"));
}

#[test]
fn text_after_a_closing_quote_is_refused() {
    let body = |cell: &str| format!("key,predicted_at,release,label\na,2013-06-01T04:30:00Z,v1,{cell}\n");
    for good in ["\"late\"", "\"a \"\"b\"\"\"", "a\"b", "\"a,b\"", "\"\"\"late\"\"\""] {
        assert!(read(Format::Csv, body(good).as_bytes()).is_ok(), "{good}");
    }
    for wrong in ["\"late\"r", "\"late\" ", "\"a\"b\"c\""] {
        let refused = read(Format::Csv, body(wrong).as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("row 1: has text after a closing quote"), "{wrong}: {refused}");
    }
    let header = body("x").replace("label", "\"label\"s");
    let refused = read(Format::Csv, header.as_bytes()).unwrap_err().to_string();
    assert!(refused.starts_with("the header has text after a closing quote"), "{refused}");
}

#[test]
fn numbers_that_json_lacks_name_their_field() {
    let row = |rest: &str| {
        format!(
            "{{\"key\":\"a \\\" b\",\"predicted_at\":\"2013-06-01T04:30:00Z\",\"release\":\"v1\",{rest}}}"
        )
    };
    let told = |format, body: &str| match read(format, body.as_bytes()).unwrap_err() {
        Refused::Rows { errors, error_count: 1 } => {
            format!("{} {}: {}", errors[0].row, errors[0].field.as_deref().unwrap_or("-"), errors[0].message)
        }
        other => panic!("{other}"),
    };
    let good = row("\"score\":0.5");
    for (rest, field, token) in [
        ("\"score\":NaN", "score", "NaN"),
        ("\"label\":\"NaN\",\"score\": -Infinity", "score", "-Infinity"),
        ("\"score\":0.5,\"features\":{\"age\":1,\"income\":Infinity}", "feature.income", "Infinity"),
        ("\"score\":0.5,\"feature.age\":NaN", "feature.age", "NaN"),
    ] {
        let expected = format!("2 {field}: is {token}, which is no JSON");
        let lines = told(Format::Ndjson, &format!("{good}\n{}\n", row(rest)));
        assert!(lines.starts_with(&expected), "{lines}");
        let array = told(Format::Json, &format!("[{good}, {}, {good}]", row(rest)));
        assert!(array.starts_with(&expected), "{array}");
    }
    let columns = "{\"key\":[\"a\",\"b\"],\"predicted_at\":[\"2013-06-01T04:30:00Z\",\"2013-06-01T04:30:00Z\"],\
                   \"release\":[\"v1\",\"v1\"],\"score\":[0.5,NaN]}";
    let columns = told(Format::Json, columns);
    assert!(
        columns.starts_with("2 score: should be a number, but is NaN or infinite, which is no JSON"),
        "{columns}"
    );
}

/// A body of some KiB is refused before its values are decoded.
#[test]
fn small_bodies_that_become_too_large_are_refused() {
    let rows = MAX_BATCH_ROWS;
    let numbers = Series::new("x".into(), vec![0.25; rows]);
    // More texts than a dictionary of a column has, each as long as a tag may be.
    let texts = (0..rows).map(|row| format!("{:0128}", row % 300)).collect::<Vec<_>>();
    let texts = Series::new("x".into(), texts);
    for (column, name, count) in [(numbers, "feature.f", 90), (texts, "tag.t", 8)] {
        let columns =
            (0..count).map(|at| column.clone().with_name(format!("{name}{at}").into()).into_column());
        let mut frame = DataFrame::new(rows, columns.collect()).unwrap();
        for (format, body) in [
            (Format::Parquet, parquet(&mut frame, ParquetCompression::Zstd(None))),
            (Format::Arrow, arrow(&mut frame, Some(IpcCompression::ZSTD(Default::default())))),
        ] {
            assert!(body.len() < 4 << 20, "{}", body.len());
            let refused = read(format, &body).unwrap_err();
            assert!(matches!(&refused, Refused::TooLarge(_)), "{format:?}: {refused}");
        }
    }
}

/// A row with many columns fills each up to that row, also after short rows.
#[test]
fn late_columns_of_many_rows_are_counted() {
    let members: Vec<String> = (0..250).map(|at| format!("\"f{at}\":1")).collect();
    let wide = format!("{{\"features\":{{{}}}}}", members.join(","));
    let body = format!("{}{wide}", "{}\n".repeat(MAX_BATCH_ROWS - 1));
    let refused = read(Format::Ndjson, body.as_bytes()).unwrap_err();
    assert!(matches!(&refused, Refused::TooLarge(_)), "{refused}");
    let form = (Kind::Predictions, Format::Ndjson, Encoding::Identity);
    let small = |bytes: usize| {
        let mut reader = BodyReader::within_bytes(bytes, form, now());
        reader.push(format!("{ROW}}}\n").repeat(100).as_bytes()).and_then(|()| reader.finish())
    };
    assert_eq!(small(1_000).unwrap_err(), Refused::NoRoom);
    assert_eq!(small(1 << 20).unwrap().rows(), 100);
}

#[test]
fn stream_of_too_many_empty_batches_is_refused() {
    let column = |name: &str| Series::new(name.into(), ["v1"]).into_column();
    let frame = DataFrame::new(1, vec![column("key"), column("release")]).unwrap();
    let bytes = arrow(&mut frame.clear(), None);
    let end = [255, 255, 255, 255, 0, 0, 0, 0];
    let schema = 8 + u32::from_le_bytes(*bytes[4..].first_chunk().unwrap()) as usize;
    let (schema, batch) = bytes.strip_suffix(&end).unwrap().split_at(schema);
    assert!(!batch.is_empty(), "a batch without rows");
    let stream = |batches: usize| [schema, &batch.repeat(batches), &end].concat();
    assert_eq!(read(Format::Arrow, &stream(3)).unwrap().rows(), 0);
    assert!(matches!(read(Format::Arrow, &stream(MAX_BATCH_ROWS + 1)), Err(Refused::TooLarge(_))));
}

#[test]
fn stream_with_duplicate_column_is_refused() {
    let column = |name: &str| Series::new(name.into(), ["v1"]).into_column();
    let mut frame = DataFrame::new(1, vec![column("key"), column("release"), column("releasf")]).unwrap();
    let mut bytes = arrow(&mut frame, None);
    let at = bytes.windows(7).position(|name| name == b"releasf").unwrap();
    bytes[at..at + 7].copy_from_slice(b"release");
    let twice = Refused::Whole("the column `release` is given twice".into());
    assert_eq!(read(Format::Arrow, &bytes).unwrap_err(), twice);
}

/// Output of pyarrow 25.0.1 for a column `key` without rows: its pages are claimed to stand at the beginning.
const NO_ROWS: &[u8] = b"PAR1\x15\x04\x19,5\x00\x18\x06schema\x15\x02\x00\x15\x0c%\x02\x18\x03key%\x00L\x1c\x00\x00\x00\
    \x16\x00\x19\x1c\x19\x1c&\x00\x1c\x15\x0c\x19\x15\x06\x19\x18\x03key\x15\x00\x16\x00\x16\x00\x16\x00&\x00I\x0c\x00\x00\
    \x16\x00\x16\x00&\x00\x16\x00\x00( parquet-cpp-arrow version 25.0.1\x19\x1c\x1c\x00\x00\x00t\x00\x00\x00PAR1";

#[test]
fn a_parquet_file_without_rows_is_read() {
    assert_eq!(read(Format::Parquet, NO_ROWS).unwrap().rows(), 0);
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    // A gigabyte of zeros, made of one member or frame for each 16 MiB.
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let part = packed(encoding, &vec![0; 16 << 20]);
        let bomb: Vec<u8> = std::iter::repeat_n(&part, 64).flatten().copied().collect();
        for format in Format::ALL {
            let refused = read_in(Kind::Metrics, (format, encoding), &[&bomb]).unwrap_err();
            let is_told = matches!(refused, Refused::TooLarge(_)) || format == Format::Json;
            assert!(is_told, "{format:?}: {refused}");
        }
        let spaces = packed(encoding, &vec![b'\n'; 80 << 20]);
        for format in Format::ALL {
            let refused = read_in(Kind::Metrics, (format, encoding), &[&spaces]).unwrap_err();
            assert!(matches!(refused, Refused::TooLarge(_)), "{format:?}: {refused}");
        }
    }
    let deep = format!("[{}", "[".repeat(100_000));
    let deep_columns = format!("{{\"key\":{}", "[".repeat(100_000));
    for body in [&deep, &deep_columns, &format!("{}{}", deep, "]".repeat(100_001))] {
        assert!(read(Format::Json, body.as_bytes()).is_err());
        assert!(read(Format::Ndjson, body.as_bytes()).is_err());
    }
    let long = "x".repeat(MAX_LINE_BYTES + 1);
    for format in [Format::Ndjson, Format::Csv] {
        assert!(matches!(read(format, long.as_bytes()), Err(Refused::TooLarge(_))), "{format:?}");
    }
    assert!(matches!(read(Format::Json, format!("[{long}").as_bytes()), Err(Refused::TooLarge(_))));
    let rows = "{}\n".repeat(MAX_BATCH_ROWS + 1);
    assert!(matches!(read(Format::Ndjson, rows.as_bytes()), Err(Refused::TooLarge(_))));
    let nulls = vec!["null"; MAX_BATCH_ROWS + 1].join(",");
    assert!(matches!(
        read(Format::Json, format!("{{\"key\":[{nulls}]}}").as_bytes()),
        Err(Refused::TooLarge(_))
    ));
}

#[test]
fn oversized_columns_are_refused_before_decoding() {
    let rows = MAX_BATCH_ROWS + 1;
    let mut nulls =
        DataFrame::new(rows, vec![Series::new("key".into(), vec![Some("x"); rows]).into_column()]).unwrap();
    for (format, body) in [
        (Format::Parquet, parquet(&mut nulls, ParquetCompression::Snappy)),
        (Format::Arrow, arrow(&mut nulls, Some(IpcCompression::LZ4))),
    ] {
        assert!(body.len() < 2 << 20);
        assert!(matches!(read(format, &body), Err(Refused::TooLarge(_))), "{format:?}");
    }
    // 80 MiB of one letter in a few rows.
    let long = "x".repeat(16 << 20);
    let mut long = DataFrame::new(
        5,
        vec![
            Series::new("key".into(), (0..5).map(|n| format!("{n}{long}")).collect::<Vec<_>>()).into_column(),
        ],
    )
    .unwrap();
    for (format, body) in [
        (Format::Parquet, parquet(&mut long, ParquetCompression::Zstd(None))),
        (Format::Arrow, arrow(&mut long, Some(IpcCompression::ZSTD(Default::default())))),
    ] {
        assert!(body.len() < 1 << 20, "{}", body.len());
        assert!(matches!(read(format, &body), Err(Refused::TooLarge(_))), "{format:?}");
    }
}
