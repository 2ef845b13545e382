use event::{Timestamp, columns::Coded, surrogate::surrogate_of};
use proptest::prelude::*;

use super::*;
use crate::{
    batch::{BatchId, BatchPart},
    key::LogId,
};

fn log(kind: Kind) -> LogId {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    LogId { workspace, day: "2013-06-01".parse().unwrap(), kind, lane: 3 }
}

fn surrogates(keys: &[&str]) -> Surrogates {
    keys.iter().map(|key| ((*key).to_owned(), surrogate_of(key, &[4]))).collect()
}

/// A row of a prediction: key, score, a tag, a feature, a reason.
type Row = (String, Option<f64>, Option<String>, Option<f64>, Option<String>);

fn texts(texts: Vec<Option<&str>>, is_coded: bool) -> (Values, Option<Vec<bool>>) {
    let valid = texts.iter().map(Option::is_some).collect();
    let distinct: Vec<&str> = texts.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let values = match is_coded && distinct.len() <= 256 {
        true => {
            let code = |text: &Option<&str>| {
                text.map_or(0, |text| distinct.iter().position(|one| *one == text).unwrap() as u8)
            };
            Values::Coded(Coded {
                codes: texts.iter().map(code).collect(),
                dictionary: distinct.iter().copied().collect(),
            })
        }
        false => Values::Text(texts.iter().map(|text| text.unwrap_or_default()).collect()),
    };
    (values, Some(valid))
}

fn floats(numbers: &[Option<f64>]) -> (Values, Option<Vec<bool>>) {
    let values = numbers.iter().map(|number| number.unwrap_or_default()).collect();
    (Values::Float(values), Some(numbers.iter().map(Option::is_some).collect()))
}

fn packed(rows: &[Row], is_coded: bool) -> Segment {
    let column = |name: &str, (values, valid)| Column { name: name.into(), values, valid };
    let keys = Values::Text(rows.iter().map(|row| row.0.as_str()).collect());
    let columns = vec![
        Column::new("key", keys),
        Column::new(
            "predicted_at",
            Values::Time((0..rows.len() as i64).map(|n| 1_370_000_000_000_000 + n).collect()),
        ),
        column("score", floats(&rows.iter().map(|row| row.1).collect::<Vec<_>>())),
        column("reason", texts(rows.iter().map(|row| row.4.as_deref()).collect(), is_coded)),
        column("tag.branch", texts(rows.iter().map(|row| row.2.as_deref()).collect(), is_coded)),
        column("feature.age", floats(&rows.iter().map(|row| row.3).collect::<Vec<_>>())),
        column("score.late", floats(&rows.iter().map(|row| row.1).collect::<Vec<_>>())),
    ];
    let columns = Columns { rows: rows.len(), columns };
    let parts = vec![BatchPart { batch: BatchId([7; 16]), first: 0, rows: rows.len() }];
    let segment = Segment::pack(log(Kind::Predictions), 5, Timestamp::default(), parts, &columns).unwrap();
    Segment { retracted: 1, ..segment }
}

fn row() -> impl Strategy<Value = Row> {
    let number = || prop::option::of((0u32..1_000).prop_map(|n| f64::from(n) / 1_000.0));
    let text = || prop::option::of("[A-Z]{12}");
    ("[a-f]{1,2}", number(), text(), number(), text())
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

proptest! {
    #[test]
    fn erased_row_keeps_metrics_and_other_rows_stay(
        rows in prop::collection::vec(row(), 1..60),
        keys in prop::collection::btree_set("[a-f]{1,2}", 1..4),
        is_coded: bool,
    ) {
        let before = packed(&rows, is_coded);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let surrogates = surrogates(&keys);
        let of = rows.iter().filter(|row| surrogates.contains_key(&row.0)).count() as u64;
        let after = erase(&before, &surrogates, false).unwrap();
        prop_assert_eq!(has(&before, &surrogates).unwrap(), of > 0);
        let Some((after, count)) = after else {
            prop_assert_eq!(of, 0);
            return Ok(());
        };
        prop_assert_eq!((count, after.erased, after.ver), (of, of, 1));
        // The rest of the item is unchanged, and it is read as it is written.
        let plain = Segment { ver: 0, erased: 0, data: before.data.clone(), ..after.clone() };
        prop_assert_eq!(&plain, &before);
        prop_assert_eq!(&Segment::from_item(after.to_item()).unwrap(), &after);
        let (was, is) = (before.unpack(|_| true).unwrap(), after.unpack(|_| true).unwrap());
        let names = |columns: &Columns| columns.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        prop_assert_eq!(names(&was), names(&is));
        for (was, is) in was.columns.iter().zip(&is.columns) {
            for (at, row) in rows.iter().enumerate() {
                let surrogate = surrogates.get(&row.0);
                match was.name.as_str() {
                    "key" => prop_assert_eq!(is.text(at).unwrap(), surrogate.unwrap_or(&row.0)),
                    "tag.branch" | "feature.age" | "reason" if surrogate.is_some() => prop_assert!(!is.is_valid(at)),
                    _ => prop_assert_eq!((was.text(at), was.float(at), was.time(at)), (is.text(at), is.float(at), is.time(at))),
                }
            }
        }
        // Erased again, nothing is left to erase.
        prop_assert_eq!(erase(&after, &surrogates, false).unwrap(), None);
    }

    #[test]
    fn erased_row_leaves_no_text_in_bytes(texts in prop::collection::vec("[A-Z]{40}", 3..6), is_coded: bool) {
        let row = |(n, text): (usize, &String)| {
            (format!("{text}-{n}"), Some(0.5), Some(format!("{text}tag")), Some(0.25), Some(format!("{text}why")))
        };
        let rows: Vec<Row> = texts.iter().enumerate().map(row).collect();
        let keys: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
        let (after, count) = erase(&packed(&rows, is_coded), &surrogates(&keys), false).unwrap().unwrap();
        prop_assert_eq!(count, rows.len() as u64);
        for text in &texts {
            prop_assert!(!holds(&after.data, text));
        }
    }
}

#[test]
fn erased_metric_loses_its_key_but_not_name() {
    let text = |text: &[&str]| Values::Text(text.iter().copied().collect());
    let columns = Columns {
        rows: 2,
        columns: vec![
            Column::new("name", text(&["loan-1", "accepted"])),
            Column::new("measured_at", Values::Time(vec![1, 2])),
            Column::new("value", Values::Float(vec![1.0, 2.0])),
            Column::new("key", text(&["loan-2", "loan-1"])),
        ],
    };
    let segment = Segment::pack(log(Kind::Metrics), 1, Timestamp::default(), Vec::new(), &columns).unwrap();
    let surrogates = surrogates(&["loan-1"]);
    let (after, count) = erase(&segment, &surrogates, false).unwrap().unwrap();
    let after = after.unpack(|_| true).unwrap();
    assert_eq!(count, 1);
    assert_eq!(after.column("name").unwrap().text(0), Some("loan-1"), "a name is no key");
    assert_eq!(after.column("key").unwrap().text(0), Some("loan-2"));
    assert_eq!(after.column("key").unwrap().text(1), Some(surrogates["loan-1"].as_str()));
}

#[test]
fn unreadable_segment_is_not_partly_erased() {
    let row = |key: &str| (key.to_owned(), Some(0.5), Some("north".to_owned()), None, None);
    let segment = packed(&[row("a"), row("b")], false);
    let surrogates = surrogates(&["a"]);
    let damaged = Segment { data: segment.data[..segment.data.len() - 1].to_vec(), ..segment.clone() };
    assert_eq!(erase(&damaged, &surrogates, false).unwrap_err().kind(), ErrorKind::Corrupt);
    let shorter = Segment { rows: 3, ..segment };
    assert!(erase(&shorter, &surrogates, false).unwrap_err().to_string().contains("the item says 3 rows"));
}

/// With its values erased, an event has no content; a required value becomes NaN.
#[test]
fn values_are_erased_with_key_on_request() {
    let some = |key: &str| (key.to_owned(), Some(0.25), None, None, None);
    let before = packed(&[some("a"), some("b")], false);
    let (after, count) = erase(&before, &surrogates(&["a"]), true).unwrap().unwrap();
    assert_eq!((count, after.erased, after.rows), (1, 1, 2));
    let columns = after.unpack(|_| true).unwrap();
    for name in ["score", "score.late"] {
        let column = columns.column(name).unwrap();
        assert_eq!((column.float(0), column.float(1)), (None, Some(0.25)), "{name}");
    }
    assert!(columns.column("predicted_at").unwrap().time(0).is_some());
    let texts = |texts: [&str; 2]| Values::Text(texts.into_iter().collect());
    let metrics = vec![
        Column::new("name", texts(["size", "size"])),
        Column::new("measured_at", Values::Time(vec![1_370_000_000_000_000; 2])),
        Column::new("value", Values::Float(vec![4.5, 5.5])),
        Column::new("key", texts(["a", "b"])),
    ];
    let columns = Columns { rows: 2, columns: metrics };
    let parts = vec![BatchPart { batch: BatchId([7; 16]), first: 0, rows: 2 }];
    let before = Segment::pack(log(Kind::Metrics), 5, Timestamp::default(), parts, &columns).unwrap();
    let (after, _) = erase(&before, &surrogates(&["a"]), true).unwrap().unwrap();
    let columns = after.unpack(|_| true).unwrap();
    let values = columns.column("value").unwrap();
    assert!(values.float(0).is_some_and(f64::is_nan) && values.float(1) == Some(5.5));
}
