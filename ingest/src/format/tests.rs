//! Every format over the same events and over any bytes.

mod columns;
mod events;
mod hostile;

use std::io::Write as _;

use proptest::prelude::*;

use self::events::{arrow, bodies, event, parquet};
use super::*;
use crate::{
    builder::row::Row,
    limits::{MAX_BATCH_ROWS, MAX_LINE_BYTES},
};

fn now() -> Timestamp {
    Timestamp::parse("2013-06-03T00:00:00Z").unwrap()
}

fn read_in(kind: Kind, (format, encoding): (Format, Encoding), pieces: &[&[u8]]) -> Result<Batch, Refused> {
    let mut reader = BodyReader::new(kind, format, encoding, now());
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

fn read(format: Format, body: &[u8]) -> Result<Batch, Refused> {
    read_in(Kind::Predictions, (format, Encoding::Identity), &[body])
}

fn packed(encoding: Encoding, body: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Identity => body.to_vec(),
        Encoding::Gzip => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(body).unwrap();
            writer.finish().unwrap()
        }
        Encoding::Zstd => zstd::encode_all(body, 1).unwrap(),
    }
}

fn split<'a>(body: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    ends.push(body.len());
    ends.sort_unstable();
    let mut start = 0;
    let part = |end| {
        let part = &body[start..end];
        start = end;
        part
    };
    ends.into_iter().map(part).collect()
}

#[test]
fn texts_of_windows_may_begin_with_a_mark() {
    let row = r#"{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":0.5}"#;
    let columns = r#"{"key":["a"],"predicted_at":["2013-06-01T04:30:00Z"],"release":["v1"],"score":[0.5]}"#;
    let csv = "key,predicted_at,release,score\na,2013-06-01T04:30:00Z,v1,0.5\n";
    let as_json = format!(" [{row}]");
    for (format, text) in
        [(Format::Ndjson, row), (Format::Json, &as_json), (Format::Json, columns), (Format::Csv, csv)]
    {
        let marked = format!("\u{feff}{text}");
        let batch = read(format, marked.as_bytes()).unwrap();
        assert_eq!(batch, read(format, text.as_bytes()).unwrap(), "{text}");
        assert_eq!(batch.columns.column("key").unwrap().text(0), Some("a"));
    }
    let second = format!("{row}\n\u{feff}{row}");
    assert!(matches!(read(Format::Ndjson, second.as_bytes()), Err(Refused::Rows { error_count: 1, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equal_events_give_equal_batches(
        events in prop::collection::vec(event(), 1..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let expected = crate::json::read_ndjson(Kind::Predictions, &bodies(&events)[0].1, now()).unwrap();
        for (format, body) in bodies(&events) {
            for encoding in Encoding::ALL {
                let body = packed(encoding, &body);
                let batch = read_in(Kind::Predictions, (format, encoding), &split(&body, &cuts)).unwrap();
                prop_assert_eq!(&batch, &expected);
                prop_assert_eq!(batch.digest(), expected.digest());
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for format in Format::ALL {
            for encoding in Encoding::ALL {
                for kind in Kind::ALL {
                    _ = read_in(kind, (format, encoding), &split(&bytes, &cuts));
                }
                _ = read_in(Kind::Metrics, (format, encoding), &split(&packed(encoding, &bytes), &cuts));
            }
        }
    }

    #[test]
    fn damaged_bodies_are_refused_or_read(
        events in prop::collection::vec(event(), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for (format, body) in bodies(&events) {
            for encoding in Encoding::ALL {
                let mut body = packed(encoding, &body);
                for (at, byte) in &damage {
                    let at = at.index(body.len());
                    body[at] = *byte;
                }
                _ = read_in(Kind::Predictions, (format, encoding), &[&body]);
                body.truncate(cut.index(body.len()));
                if damage.is_empty() && encoding != Encoding::Identity {
                    prop_assert!(read_in(Kind::Predictions, (format, encoding), &[&body]).is_err());
                }
            }
        }
    }

    #[test]
    fn rows_read_by_hand_are_those_of_serde(text in odd_row(), cut in prop::option::of(any::<prop::sample::Index>())) {
        let mut text = text;
        if let Some(cut) = cut {
            text = text.chars().take(cut.index(text.chars().count() + 1)).collect();
        }
        for kind in Kind::ALL {
            let names = Names::new(kind);
            let mut row = Row::new(kind);
            let mut lean = fast_path::Lean::default();
            for _ in 0..2 {
                row.clear();
                if let Some(end) = lean.object(&names, &text, token::skip_white(text.as_bytes(), 0), &mut row) {
                    let expected = object::read(&names, &text.as_bytes()[..end]);
                    prop_assert_eq!(&row, &expected.unwrap(), "{}", text);
                }
            }
            // By way of the columns, with a second row that shares the first one's memory.
            let lines = format!("{text}\n{text}");
            let by_hand = crate::json::read_ndjson(kind, lines.as_bytes(), now());
            let mut out = Collector::new(kind, now(), Reading::default());
            for (number, line) in (1..).zip(lines.split('\n')) {
                if line.trim_matches([' ', '\t', '\r', '\u{c}']).is_empty() {
                    continue;
                }
                match object::read(&names, line.as_bytes()) {
                    Ok(mut row) => out.row(number, &mut row, &[]).unwrap(),
                    Err(error) => out.unreadable(number, ndjson::not_an_object(&names, &error, line.as_bytes()), &[]).unwrap(),
                }
            }
            prop_assert_eq!(by_hand, out.finish());
        }
    }
}

/// Object of known and unknown fields, with all oddities of JSON.
fn odd_row() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "key",
        "predicted_at",
        "release",
        "score",
        "label",
        "value",
        "lower",
        "upper",
        "tags",
        "tag.a",
        "tag.b",
        "scores",
        "score.a",
        "score.1.0",
        "features",
        "feature.a",
        "event_id",
        "observed_at",
        "predicted_on",
        "name",
        "measured_at",
        "x",
        "k\\u0065y",
        "",
    ]);
    let plain = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        "-?[0-9]{1,20}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        Just("\"2013-06-01T04:30:00Z\"".to_owned()),
        Just("\"2013-06-01\"".to_owned()),
        "\"v[0-9]\"",
        "\"\\PC{0,6}\"",
        "\"[a-z]{0,3}\\\\[nu\"/x]([0-9a-f]{4})?\"",
        Just("[1,{\"a\":[]}]".to_owned()),
        Just("{\"a\":{\"b\":1}}".to_owned()),
        "[0-9a-z\"]{0,3}",
    ];
    let tags = prop::collection::vec(("[a-c ]{0,2}", plain.clone()), 0..4).prop_map(|tags| {
        let tags: Vec<String> = tags.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", tags.join(" ,"))
    });
    let value = prop_oneof![4 => plain, 1 => tags];
    let white = prop::sample::select(vec!["", "", "", " ", "\t", "\r", " \t "]);
    let field = (white.clone(), names, white.clone(), value, white.clone())
        .prop_map(|(a, name, b, value, c)| format!("{a}\"{name}\"{b}:{c}{value}{a}"));
    (white.clone(), prop::collection::vec(field, 0..8), white)
        .prop_map(|(a, fields, b)| format!("{a}{{{}}}{b}", fields.join(",")))
}

const ROW: &str = r#"{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":0.5"#;

#[test]
fn pieces_that_follow_each_other_are_one_body() {
    let body = format!("{ROW}}}\n");
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let mut twice = packed(encoding, body.as_bytes());
        twice.extend_from_slice(&packed(encoding, body.as_bytes()));
        let batch = read_in(Kind::Predictions, (Format::Ndjson, encoding), &[&twice]).unwrap();
        assert_eq!(batch.rows(), 2);
        let single: Vec<&[u8]> = twice.chunks(1).collect();
        assert_eq!(read_in(Kind::Predictions, (Format::Ndjson, encoding), &single).unwrap(), batch);
        twice.extend_from_slice(b"garbage that is neither");
        assert!(read_in(Kind::Predictions, (Format::Ndjson, encoding), &[&twice]).is_err());
        assert!(read_in(Kind::Predictions, (Format::Ndjson, encoding), &[]).is_err());
    }
}

#[test]
fn truncated_compressed_text_is_reported() {
    let body = format!("{ROW}}}\n");
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let bytes = packed(encoding, body.as_bytes());
        let told = |bytes: &[u8]| {
            let read = read_in(Kind::Predictions, (Format::Ndjson, encoding), &[bytes]);
            read.unwrap_err().to_string()
        };
        for end in 0..bytes.len() {
            let said = told(&bytes[..end]);
            assert!(said.ends_with("it ends too early"), "{encoding:?}, {end} of {}: {said}", bytes.len());
        }
        // Cut off in the second of two members.
        let twice = [&bytes[..], &bytes[..bytes.len() - 1]].concat();
        assert!(told(&twice).ends_with("it ends too early"), "{}", told(&twice));
    }
    let mut wrong = packed(Encoding::Gzip, body.as_bytes());
    let sum = wrong.len() - 8;
    wrong[sum] ^= 1;
    let read = read_in(Kind::Predictions, (Format::Ndjson, Encoding::Gzip), &[&wrong]);
    assert!(read.unwrap_err().to_string().contains("checksum"));
}

#[test]
fn single_event_may_carry_its_own_id() {
    let event = |id: &str| format!("{ROW},\"event_id\":{id}}}");
    let batch = read(Format::Ndjson, event("\"a-1\"").as_bytes()).unwrap();
    assert_eq!(batch.event_id.as_deref(), Some("a-1"));
    assert!(batch.columns.column("event_id").is_none());
    let batch = read(Format::Json, format!("[{}]", event("17")).as_bytes()).unwrap();
    assert_eq!(batch.event_id.as_deref(), Some("17"));
    let csv = "key,predicted_at,release,score,event_id\na,2013-06-01T04:30:00Z,v1,0.5,a-1\n";
    assert_eq!(read(Format::Csv, csv.as_bytes()).unwrap().event_id.as_deref(), Some("a-1"));
    assert_eq!(read(Format::Ndjson, format!("{ROW}}}").as_bytes()).unwrap().event_id, None);
    let told = |body: &str| match read(Format::Ndjson, body.as_bytes()).unwrap_err() {
        Refused::Rows { errors, .. } => {
            let error = &errors[0];
            format!("{} {} {}", error.row, error.field.as_deref().unwrap_or("-"), error.message)
        }
        other => panic!("{other}"),
    };
    let alone = "event_id names a single event; send it alone, or give the whole batch an Idempotency-Key";
    assert_eq!(told(&format!("{ROW}}}\n{}", event("\"a\""))), format!("2 {alone}"));
    assert_eq!(told(&event("\"\"")), "1 event_id is empty");
    assert_eq!(
        told(&event("\"a b\"")),
        "1 event_id holds something else than printable ASCII without blanks"
    );
    assert_eq!(
        told(&event(&format!("\"{}\"", "x".repeat(257)))),
        "1 event_id is 257 bytes long, more than 256"
    );
    assert_eq!(told(&event("[]")), "1 event_id should be a string, but is a list");
}
