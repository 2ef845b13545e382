//! Bodies that are made to do harm.

use polars::prelude::{DataFrame, IntoColumn as _, NamedFrom as _, Series};
use polars_io::{ipc::IpcCompression, parquet::write::ParquetCompression};

use super::*;

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
fn columns_that_claim_too_much_are_refused_before_they_are_read() {
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
