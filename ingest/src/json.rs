//! Readers of whole bodies in the JSON formats.

use event::{Kind, Timestamp};

use crate::{
    batch::{Batch, Refused},
    format::{BodyReader, Encoding, Format},
};

/// Reads one JSON object a line; blank lines are skipped, rows are counted by line.
///
/// # Errors
/// Faults of the rows, with their line numbers, or of the whole.
pub fn read_ndjson(kind: Kind, body: &[u8], now: Timestamp) -> Result<Batch, Refused> {
    read(kind, Format::Ndjson, body, now)
}

/// Reads an array of JSON objects, or an object of arrays; rows are counted from 1.
///
/// # Errors
/// Faults of the rows or of the whole.
pub fn read_json_array(kind: Kind, body: &[u8], now: Timestamp) -> Result<Batch, Refused> {
    read(kind, Format::Json, body, now)
}

fn read(kind: Kind, format: Format, body: &[u8], now: Timestamp) -> Result<Batch, Refused> {
    let mut reader = BodyReader::new(kind, format, Encoding::Identity, now);
    reader.push(body)?;
    reader.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::parse("2013-06-02T00:00:00Z").unwrap()
    }

    fn refused(kind: Kind, body: &str) -> String {
        match read_ndjson(kind, body.as_bytes(), now()).unwrap_err() {
            Refused::Rows { errors, .. } => errors
                .iter()
                .map(|error| {
                    format!("{} {} {}\n", error.row, error.field.as_deref().unwrap_or("-"), error.message)
                })
                .collect(),
            other => other.to_string(),
        }
    }

    #[test]
    fn every_bad_row_is_named() {
        let body = concat!(
            r#"{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":0.5}"#,
            "\n",
            r#"{"key":"b","predicted_at":"2013-06-31T04:30:00Z","release":"v1","score":1.5}"#,
            "\n\n",
            r#"{"key":"c","predicted_at":"2013-06-01T04:30:00Z","relase":"v1","score":"high"}"#,
            "\n",
            r#"{"key":"d","predicted_at":"2013-06-01T04:30:00Z","release":"v1"}"#,
            "\n",
            r#"["key"]"#,
            "\n",
            r#"{"key":"e","predicted_at":"2013-07-01T04:30:00Z","release":"v/1","score":1e999}"#,
            "\n",
            r#"{"key":"f","predicted_at":"2013-07-01T04:30:00Z","release":"v/1","score":1}"#,
            "\n",
            r#"{"key":"g","key":"h","predicted_at":1,"release":"v1","score":1,"tags":{"a b":"x","c":[1]}}"#,
            "\n",
            r#"{"key":"i","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":1} trailing"#,
        );
        insta::assert_snapshot!(refused(Kind::Predictions, body));
    }

    #[test]
    fn outcomes_must_name_what_they_judge() {
        let body = concat!(
            r#"{"key":"a","observed_at":"2013-06-01T09:00:00Z","retracted":true,"reason":"wrong"}"#,
            "\n",
            r#"{"key":"b","observed_at":"2013-06-01T09:00:00Z","label":"late","predicted_on":"2013-02-30"}"#,
            "\n",
            r#"{"key":"c","observed_at":"2013-06-01T09:00:00Z","predicted_on":"2013-06-01"}"#,
            "\n",
            r#"{"key":"d","observed_at":"2013-06-01T09:00:00Z","label":1,"predicted_on":"2013-06-01","predicted_at":"2013-06-02T00:00:00Z"}"#,
        );
        insta::assert_snapshot!(refused(Kind::Outcomes, body));
    }

    /// On any day it is the same batch.
    #[test]
    fn an_outcome_that_names_no_prediction_waits() {
        let waits = r#"{"key":"a","observed_at":"2013-06-01T09:00:00Z","label":"late"}"#;
        let since = r#"{"key":"b","observed_at":"2013-06-01T09:00:00Z","label":"late","predicted_since":"2013-05-01T00:00:00Z"}"#;
        let dated = r#"{"key":"c","observed_at":"2013-06-01T09:00:00Z","label":"late","predicted_at":"2013-05-31T00:00:00Z"}"#;
        let body = [waits, dated, since].join("\n");
        let batch = read_ndjson(Kind::Outcomes, body.as_bytes(), now()).unwrap();
        assert_eq!((0..3).map(|row| batch.is_waiting(row)).collect::<Vec<_>>(), [true, false, true]);
        let tomorrow = now().plus_seconds(24 * 60 * 60);
        let again = read_ndjson(Kind::Outcomes, body.as_bytes(), tomorrow).unwrap();
        assert!(again.days != batch.days && again.digest() == batch.digest());
        let other = [
            waits.replace("\"late\"", "\"late\",\"predicted_on\":\"2013-06-01\""),
            dated.into(),
            since.into(),
        ];
        let other = read_ndjson(Kind::Outcomes, other.join("\n").as_bytes(), now()).unwrap();
        assert_ne!(other.digest(), batch.digest());
        let parts = batch.clone().into_parts();
        let names = |day: Option<&str>| {
            let part = &parts[&day.map(|day| day.parse().unwrap())];
            let columns = part.columns.columns.iter().map(|column| column.name.as_str());
            (part.numbers.clone(), columns.collect::<Vec<_>>())
        };
        assert_eq!(names(None), (vec![1, 3], vec!["key", "observed_at", "label", "predicted_since"]));
        assert_eq!(names(Some("2013-05-31")), (vec![2], vec!["key", "predicted_at", "observed_at", "label"]));
        assert_eq!(batch.take(&[1]).waits, Vec::<bool>::new());
        assert_eq!(batch.take(&[1, 2]).waits, [false, true]);
        let all = waits.replace("\"late\"", "\"late\",\"applies_to\":\"all\"");
        let all = read_ndjson(Kind::Outcomes, all.as_bytes(), now()).unwrap();
        assert_eq!(all.columns.column("applies_to").and_then(|column| column.text(0)), Some("all"));
        for (field, refused_for) in [
            (r#""applies_to":"first""#, "`first` is none of latest, all"),
            (r#""applies_to":"all","predicted_on":"2013-06-01""#, "neither `predicted_at` nor"),
            (r#""predicted_since":"2013-06-01T09:00:01Z""#, "is after `observed_at`"),
            (r#""predicted_since":"2012-04-26T08:59:59Z""#, "is more than 400 days before `observed_at`"),
            (
                r#""predicted_since":"2013-05-01T00:00:00Z","predicted_on":"2013-06-01""#,
                "neither `predicted_at` nor",
            ),
        ] {
            let row = waits.replace("\"label\"", &format!("{field},\"label\""));
            let why = refused(Kind::Outcomes, &row);
            assert!(why.contains(refused_for), "{why}");
        }
    }

    #[test]
    fn both_formats_give_the_same_batch() {
        let rows = [
            r#"{"key":"a\u00e9","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":0.1,"tags":{"carrier":"UA"}}"#,
            r#"{"key":7,"predicted_at":"2013-05-31T23:59:59.999999Z","release":"v1","label":true}"#,
        ];
        let lines = read_ndjson(Kind::Predictions, rows.join("\n").as_bytes(), now()).unwrap();
        let array =
            read_json_array(Kind::Predictions, format!("[{}]", rows.join(",")).as_bytes(), now()).unwrap();
        assert_eq!(lines, array);
        assert_eq!(lines.digest(), array.digest());
        assert_eq!(lines.clone().into_parts().len(), 2);
        assert_eq!(lines.columns.column("key").unwrap().text(0), Some("aé"));
        assert_eq!(lines.columns.column("label").unwrap().text(1), Some("true"));
        assert_eq!(lines.columns.column("tag.carrier").unwrap().text(1), None);
    }

    /// A stored event is recognized by its digest, so events keep theirs when kinds gain fields. These were computed
    /// independently of this program.
    #[test]
    fn events_without_new_fields_keep_their_digests() {
        for (kind, body, digest) in [
            (
                Kind::Predictions,
                concat!(
                    r#"{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":0.25,"#,
                    r#""value":3.5,"latency_ms":12,"tags":{"carrier":"UA"}}"#,
                    "\n",
                    r#"{"key":"b","predicted_at":"2013-06-01T05:00:00Z","release":"v1","label":"late","#,
                    r#""lower":null,"tags":{"carrier":"B6"}}"#,
                ),
                "dda3b71eff6026d7c1ff05e46a2c7d67dad9ed7ab7c813b54c1169b8c0919977",
            ),
            (
                Kind::Outcomes,
                r#"{"key":"a","observed_at":"2013-06-02T00:00:00Z","predicted_on":"2013-06-01","label":"late"}"#,
                "365ad56b75d732b93606b6ddff95a5a3c12e4514440a62fd08d0e43f63fc8ffe",
            ),
            (
                Kind::Metrics,
                concat!(
                    r#"{"name":"n","measured_at":"2013-06-01T04:30:00Z","value":1.5,"release":"v1","#,
                    r#""tags":{"host":"h"}}"#,
                ),
                "d0f254bb8704ea401082b25323b03d104b39a8ebab81de0a3e1b4342f022cf4e",
            ),
        ] {
            assert_eq!(read_ndjson(kind, body.as_bytes(), now()).unwrap().digest(), digest, "{kind}");
        }
    }

    #[test]
    fn an_interval_has_its_ends_in_order() {
        let row = |fields: &str| {
            format!(r#"{{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1",{fields}}}"#)
        };
        let good = [
            r#""value":9,"lower":1,"upper":2"#,
            r#""value":1,"lower":-1e308,"upper":1e308"#,
            r#""value":1,"lower":2,"upper":2"#,
            r#""value":1,"lower":2"#,
            r#""value":1,"upper":2"#,
        ]
        .map(row)
        .join("\n");
        let batch = read_ndjson(Kind::Predictions, good.as_bytes(), now()).unwrap();
        let ends =
            |name: &str| (0..5).map(|row| batch.columns.column(name).unwrap().float(row)).collect::<Vec<_>>();
        assert_eq!(ends("lower"), [Some(1.0), Some(-1e308), Some(2.0), Some(2.0), None]);
        assert_eq!(ends("upper"), [Some(2.0), Some(1e308), Some(2.0), None, Some(2.0)]);
        let bad =
            [r#""value":1,"lower":2.5,"upper":2"#, r#""lower":1,"upper":2"#, r#""value":1,"upper":"x""#];
        insta::assert_snapshot!(refused(Kind::Predictions, &bad.map(row).join("\n")), @"
        1 lower is 2.5, which is more than `upper`, 2.0; swap the two
        2 - a prediction needs a score, a label, a value or scores
        3 upper should be a number, but is a string
        ");
    }

    #[test]
    fn a_metric_may_name_a_prediction() {
        let row = |fields: &str| {
            format!(r#"{{"name":"n","measured_at":"2013-06-01T04:30:00Z","value":1{fields}}}"#)
        };
        let good = [
            "",
            r#","key":"a","predicted_at":"2013-05-31T04:30:00Z""#,
            r#","key":7,"predicted_on":"2013-05-31""#,
            r#","key":"a","predicted_on":"2013-05-31","predicted_at":"2013-05-31T23:59:59Z""#,
        ];
        let batch = read_ndjson(Kind::Metrics, good.map(row).join("\n").as_bytes(), now()).unwrap();
        let texts =
            |name: &str| (0..4).map(|row| batch.columns.column(name).unwrap().text(row)).collect::<Vec<_>>();
        assert_eq!(texts("key"), [None, Some("a"), Some("7"), Some("a")]);
        assert_eq!(texts("predicted_on"), [None, None, Some("2013-05-31"), Some("2013-05-31")]);
        assert_eq!(batch.columns.column("predicted_at").unwrap().nulls(), 2);
        let bad = [
            r#","key":"a""#,
            r#","predicted_on":"2013-05-31""#,
            r#","predicted_at":"2013-05-31T04:30:00Z""#,
            r#","key":"a","predicted_on":"31.05.2013""#,
            r#","key":"a","predicted_on":"2013-06-01","predicted_at":"2013-05-31T04:30:00Z""#,
            r#","key":"a","predicted_at":"2013-07-31T04:30:00Z""#,
            r#","key":[],"predicted_on":"2013-05-31""#,
        ];
        insta::assert_snapshot!(refused(Kind::Metrics, &bad.map(row).join("\n")));
    }

    #[test]
    fn the_probabilities_of_classes_add_up_to_one() {
        let row = |fields: &str| {
            format!(r#"{{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1",{fields}}}"#)
        };
        let softmax = [0.333_333_34f32, 0.333_333_34, 0.333_333_34].map(f64::from);
        let softmax =
            format!(r#""scores":{{"a b":{:?},"b":{:?},"1.0":{:?}}}"#, softmax[0], softmax[1], softmax[2]);
        let good = [&softmax, r#""scores":{"b":0.999,"1":null}"#, r#""score.True":1.001,"label":"x""#];
        let good = [&row(good[0]), &row(good[1]), &row(good[2]).replace("1.001", "1.0")]
            .map(String::as_str)
            .join("\n");
        let batch = read_ndjson(Kind::Predictions, good.as_bytes(), now()).unwrap();
        let names: Vec<&str> = batch.columns.columns.iter().map(|column| column.name.as_str()).collect();
        let classes = ["score.1", "score.a b", "score.b", "score.true"];
        assert_eq!(names[names.len() - 4..], classes, "labels are made plain, also as names");
        let third = Some(f64::from(0.333_333_34f32).to_bits());
        assert_eq!(batch.columns.column("score.a b").unwrap().float(0).map(f64::to_bits), third);
        assert_eq!(batch.columns.column("score.b").unwrap().float(1), Some(0.999));
        let bad = [
            r#""scores":{"a":0.5,"b":0.4}"#,
            r#""scores":{"a":0.998}"#,
            r#""scores":{"a":1.5,"b":-0.5}"#,
            r#""scores":{"a":"x","b":1}"#,
            r#""scores":{"1":0.5,"1.0":0.5}"#,
            r#""scores":{"":1}"#,
            r#""scores":[1],"label":"x""#,
            r#""features":{"age":1}"#,
            r#""label":"x","features":{"a b":1}"#,
            r#""label":"x","features":{"age":"old","size":1e999}"#,
        ];
        insta::assert_snapshot!(refused(Kind::Predictions, &bad.map(row).join("\n")));
        let many = |family: &str, count: usize| {
            let members: Vec<String> =
                (0..count).map(|n| format!(r#""m{n}":{}"#, 1.0 / count as f64)).collect();
            row(&format!(r#""value":1,"{family}":{{{}}}"#, members.join(",")))
        };
        for family in ["scores", "features"] {
            let most = read_ndjson(Kind::Predictions, many(family, 256).as_bytes(), now()).unwrap();
            assert_eq!(most.columns.columns.len(), 4 + 256);
            assert_eq!(
                refused(Kind::Predictions, &many(family, 257)),
                format!("1 {family} 257 are more than the 256 of an event\n")
            );
        }
    }

    #[test]
    fn sparse_columns_cannot_fill_the_memory() {
        let row = |n: usize| {
            let name = n % 256;
            format!(
                r#"{{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","value":1,"feature.f{name}":1}}"#
            )
        };
        let body: Vec<String> = (0..40_000).map(row).collect();
        let said = refused(Kind::Predictions, &body.join("\n"));
        assert_eq!(
            said,
            "32769 rows of 256 scores and features are more than the 8388608 numbers of a batch; send several"
        );
    }

    #[test]
    fn excess_score_names_are_reported_before_missing_values() {
        let row = |n: usize| {
            let scores = format!(r#""a{n}":0.3,"b{n}":0.3,"c{n}":0.4"#);
            format!(
                r#"{{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","scores":{{{scores}}}}}"#
            )
        };
        let body = |rows: usize| (0..rows).map(row).collect::<Vec<_>>().join("\n");
        read_ndjson(Kind::Predictions, body(85).as_bytes(), now()).unwrap();
        for rows in [86, 87, 100] {
            assert_eq!(
                refused(Kind::Predictions, &body(rows)),
                "there are more than the 256 different scores of a batch"
            );
        }
    }

    #[test]
    fn limits_are_checked_before_memory_grows() {
        let row = |n: usize| {
            let tags: Vec<String> = (0..64).map(|tag| format!(r#""t{n}-{tag}":"x""#)).collect();
            let tags = tags.join(",");
            format!(
                r#"{{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":1,"tags":{{{tags}}}}}"#
            )
        };
        let body: Vec<String> = (0..5_000).map(row).collect();
        assert_eq!(
            refused(Kind::Predictions, &body.join("\n")),
            "there are more than the 256 different tags of a batch"
        );
        let fields: Vec<String> = (0..100_000).map(|field| format!(r#""f{field}":1"#)).collect();
        let said = refused(Kind::Predictions, &format!("{{{}}}", fields.join(",")));
        assert!(said.contains("more than 1024 fields"), "{said}");
        let many = format!("[{}1]", "1,".repeat(150_000));
        assert!(matches!(read_json_array(Kind::Metrics, many.as_bytes(), now()), Err(Refused::TooLarge(_))));
        let late =
            r#"{"key":"a","predicted_on":"2206-01-01","observed_at":"2013-06-01T04:30:00Z","label":"x"}"#;
        assert_eq!(refused(Kind::Outcomes, late), "1 predicted_on is more than 24 hours in the future\n");
    }

    #[test]
    fn what_is_no_batch_is_refused_whole() {
        assert_eq!(read_ndjson(Kind::Metrics, b"\n \n", now()).unwrap().rows(), 0);
        assert_eq!(read_json_array(Kind::Metrics, b"[]", now()).unwrap().rows(), 0);
        let none = br#"{"name":[],"measured_at":[],"value":[]}"#;
        assert_eq!(read_json_array(Kind::Metrics, none, now()).unwrap().rows(), 0);
        assert!(
            read_json_array(Kind::Metrics, b"{}", now())
                .unwrap_err()
                .to_string()
                .contains("`name` is missing")
        );
        assert!(read_json_array(Kind::Metrics, b"", now()).is_err());
        assert!(read_json_array(Kind::Metrics, b"[1]", now()).is_err());
        assert!(read_json_array(Kind::Metrics, b"[[[[[", now()).is_err());
    }

    /// JSON of any shape, nested a little.
    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let names = prop::sample::select(vec![
            "key",
            "predicted_at",
            "release",
            "score",
            "label",
            "tags",
            "tag.a",
            "x",
            "",
        ]);
        let times =
            prop::sample::select(vec!["2013-06-01T04:30:00Z", "2013-06-01", "v1", "a/b", "\u{0}", "é"]);
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            times.prop_map(Into::into),
            ".{0,300}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 24, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((names.clone(), inner), 0..8).prop_map(|fields| {
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect::<serde_json::Map<_, _>>()
                        .into()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..400)) {
            for kind in Kind::ALL {
                _ = read_ndjson(kind, &body, now());
                _ = read_json_array(kind, &body, now());
            }
        }

        #[test]
        fn any_json_is_read_or_refused(rows in prop::collection::vec(any_json(), 1..5)) {
            let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
            for kind in Kind::ALL {
                let lines = read_ndjson(kind, lines.join("\n").as_bytes(), now());
                let array = read_json_array(kind, serde_json::to_string(&rows).unwrap().as_bytes(), now());
                prop_assert_eq!(&lines, &array);
                if let Ok(batch) = lines {
                    prop_assert_eq!(batch.rows(), rows.len());
                    let split = batch.clone().into_parts();
                    prop_assert_eq!(split.values().map(|part| part.columns.rows).sum::<usize>(), rows.len());
                }
            }
        }

        #[test]
        fn scores_are_kept_bit_for_bit(score in 0.0f64..=1.0) {
            let row = format!(r#"{{"key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1","score":{score:?}}}"#);
            let batch = read_ndjson(Kind::Predictions, row.as_bytes(), now()).unwrap();
            prop_assert_eq!(batch.columns.column("score").unwrap().float(0).map(f64::to_bits), Some(score.to_bits()));
        }
    }
}
