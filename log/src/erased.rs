//! Erasing keys: replacing them by pseudonyms in segments, and the epoch of erasures.
//!
//! An event with an erased key keeps its times, its release and the inputs of metrics: score, label, value. Its key
//! becomes a pseudonym, the same one everywhere; its tags, features and texts are removed. An erasure with values also
//! removes score, label and value: the event still counts, without a value. The segment keeps its place, rows, time and
//! batches.
//!
//! **Write-once items are conditional on the [`ErasureEpoch`], so none mixes data from before and after an erasure.**
//! An evaluation, a vintage or a match of an unmatched outcome is computed from many segments, some of which may be
//! rewritten meanwhile. So the item of erased keys has an epoch, which is incremented before the first segment is
//! rewritten and after the last. A writer of such an item reads the epoch first, waits while events are being
//! rewritten, and writes on the condition that the epoch is the same.

use std::collections::{BTreeMap, BTreeSet};

use event::{Column, Columns, Error, Id, Kind, Result, Values};
use segment::ColumnKind;
use table::{Condition, Item, Table, Write};

use crate::{key, segment_item::Segment};

/// Attribute of the item of erased keys that exists while events are being rewritten.
pub const REWRITING: &str = "rewriting";

/// Attribute of that item with the erasure in progress.
pub const OPEN: &str = "open";

/// Attribute of that item with the erasure begun last. With the number of changes of the epoch it tells two histories
/// of erasures apart: a table restored from a backup may count to the same number.
pub const LAST: &str = "last";

/// Pseudonym of each erased key.
pub type Pseudonyms = BTreeMap<String, String>;

/// Returns a segment without some keys (`with_values`: also without scores, labels and values of their events), and the
/// number of its events that had one of the keys; `None` if none had.
///
/// # Errors
/// `Corrupt`, when it cannot be unpacked, or has columns that this Almanac does not know.
pub fn erase(
    segment: &Segment,
    pseudonyms: &Pseudonyms,
    with_values: bool,
) -> Result<Option<(Segment, u64)>> {
    let kind = segment.log.kind;
    let rows = rows_of(&segment.unpack(|name| kind.is_key(name))?, kind, pseudonyms);
    if rows.is_empty() {
        return Ok(None);
    }
    let header = segment::header(&segment.data)?;
    let is_unknown = |kind| matches!(kind, ColumnKind::Unknown(_));
    if let Some(column) = header.columns.iter().find(|column| is_unknown(column.kind)) {
        return Err(Error::corrupt(format!(
            "segment {}: column `{}` is of a type that this Almanac does not know",
            key::segment(&segment.log, segment.seq),
            column.name
        )));
    }
    let columns = segment.unpack(|_| true)?;
    let data = segment::encode(&without(columns, kind, (&rows, with_values), pseudonyms))?;
    let count = rows.len() as u64;
    Ok(Some((
        Segment { ver: segment.ver + 1, erased: segment.erased + count, data, ..segment.clone() },
        count,
    )))
}

/// Returns the rows of some keys.
fn rows_of(columns: &Columns, kind: Kind, pseudonyms: &Pseudonyms) -> BTreeSet<usize> {
    let keys = columns.columns.iter().filter(|column| kind.is_key(&column.name));
    let of = |column: &Column| -> Vec<usize> {
        let is_erased = |row: &usize| column.text(*row).is_some_and(|key| pseudonyms.contains_key(key));
        (0..columns.rows).filter(is_erased).collect()
    };
    keys.flat_map(of).collect()
}

/// Returns the columns with pseudonyms in some rows, without the other data of their keys.
fn without(
    columns: Columns,
    kind: Kind,
    (rows, with_values): (&BTreeSet<usize>, bool),
    pseudonyms: &Pseudonyms,
) -> Columns {
    let all = columns.rows;
    let column = |column: Column| match () {
        () if kind.is_key(&column.name) => {
            let key =
                |row| column.text(row).map_or("", |key| pseudonyms.get(key).map_or(key, String::as_str));
            Column { values: Values::Text((0..all).map(key).collect()), ..column }
        }
        () if !kind.is_erased(&column.name, with_values) => column,
        // A required value, that of a metric, becomes NaN, which counts as an event and is no part of sums.
        () if kind.requires(&column.name) => no_numbers(column, rows),
        () => nulled(column, all, rows),
    };
    Columns { rows: all, columns: columns.columns.into_iter().map(column).collect() }
}

/// Sets some rows of a column to NaN.
fn no_numbers(mut column: Column, rows: &BTreeSet<usize>) -> Column {
    if let Values::Float(numbers) = &mut column.values {
        rows.iter().for_each(|row| numbers[*row] = f64::NAN);
    }
    column
}

/// Sets some rows of a column to null.
fn nulled(column: Column, all: usize, rows: &BTreeSet<usize>) -> Column {
    let valid: Vec<bool> = (0..all).map(|row| column.is_valid(row) && !rows.contains(&row)).collect();
    let values = match &column.values {
        // Without its dictionary, which would keep texts that no row has any more.
        Values::Text(_) | Values::Coded(_) => {
            let text = |row: usize| if valid[row] { column.text(row).unwrap_or_default() } else { "" };
            Values::Text((0..all).map(text).collect())
        }
        Values::Float(numbers) => Values::Float(
            numbers.iter().zip(&valid).map(|(number, is)| if *is { *number } else { 0.0 }).collect(),
        ),
        Values::Time(times) => {
            Values::Time(times.iter().zip(&valid).map(|(time, is)| if *is { *time } else { 0 }).collect())
        }
    };
    Column { name: column.name, values, valid: Some(valid) }
}

/// Returns the number of keys erased in a workspace so far: one read.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn count(table: &dyn Table, workspace: &Id) -> Result<u64> {
    let Some(item) = table.get(&key::erased(workspace)).await? else { return Ok(0) };
    u64::try_from(item.int("n")?).map_err(|_| item.corrupt("`n` is no count"))
}

/// State of the erasures of a workspace, with a count of its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasureEpoch {
    /// Number of changes; 0 if no key was ever erased.
    pub ver: i64,
    /// True while events are being rewritten.
    pub is_rewriting: bool,
    /// True while an erasure is in progress, until all projections of the events are folded again.
    pub is_open: bool,
}

impl ErasureEpoch {
    /// Reads the epoch of a workspace: one read.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        table.get(&key::erased(workspace)).await?.as_ref().map_or(Ok(Self::default()), Self::of)
    }

    /// Decodes an item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of(item: &Item) -> Result<Self> {
        let has = |name| item.attributes.contains_key(name);
        Ok(Self { ver: item.int("ver")?, is_rewriting: has(REWRITING), is_open: has(OPEN) })
    }

    /// Reads the epoch of a workspace in which no events are being rewritten.
    ///
    /// # Errors
    /// `Unavailable` while they are; errors of [`ErasureEpoch::load`].
    pub async fn free(table: &dyn Table, workspace: &Id) -> Result<Self> {
        match Self::load(table, workspace).await? {
            epoch if epoch.is_rewriting => Err(Error::unavailable(format!(
                "keys are being erased in the workspace {workspace}; what is made of its events waits until that is done"
            ))),
            epoch => Ok(epoch),
        }
    }

    /// Check that the epoch is unchanged.
    pub fn check(self, workspace: &Id) -> Write {
        Write::Check(key::erased(workspace), Condition::unchanged(self.ver))
    }
}

#[cfg(test)]
mod tests {
    use event::{ErrorKind, Timestamp, columns::Coded, pseudonym::pseudonym_of};
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

    fn pseudonyms(keys: &[&str]) -> Pseudonyms {
        keys.iter().map(|key| ((*key).to_owned(), pseudonym_of(key, &[4]))).collect()
    }

    /// A row of a prediction: key, score, a tag, a feature, a reason.
    type Row = (String, Option<f64>, Option<String>, Option<f64>, Option<String>);

    fn texts(texts: Vec<Option<&str>>, is_coded: bool) -> (Values, Option<Vec<bool>>) {
        let valid = texts.iter().map(Option::is_some).collect();
        let distinct: Vec<&str> =
            texts.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
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
        let segment =
            Segment::pack(log(Kind::Predictions), 5, Timestamp::default(), parts, &columns).unwrap();
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
            let pseudonyms = pseudonyms(&keys);
            let of = rows.iter().filter(|row| pseudonyms.contains_key(&row.0)).count() as u64;
            let after = erase(&before, &pseudonyms, false).unwrap();
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
                    let pseudonym = pseudonyms.get(&row.0);
                    match was.name.as_str() {
                        "key" => prop_assert_eq!(is.text(at).unwrap(), pseudonym.unwrap_or(&row.0)),
                        "tag.branch" | "feature.age" | "reason" if pseudonym.is_some() => prop_assert!(!is.is_valid(at)),
                        _ => prop_assert_eq!((was.text(at), was.float(at), was.time(at)), (is.text(at), is.float(at), is.time(at))),
                    }
                }
            }
            // Erased again, nothing is left to erase.
            prop_assert_eq!(erase(&after, &pseudonyms, false).unwrap(), None);
        }

        #[test]
        fn erased_row_leaves_no_text_in_bytes(texts in prop::collection::vec("[A-Z]{40}", 3..6), is_coded: bool) {
            let row = |(n, text): (usize, &String)| {
                (format!("{text}-{n}"), Some(0.5), Some(format!("{text}tag")), Some(0.25), Some(format!("{text}why")))
            };
            let rows: Vec<Row> = texts.iter().enumerate().map(row).collect();
            let keys: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
            let (after, count) = erase(&packed(&rows, is_coded), &pseudonyms(&keys), false).unwrap().unwrap();
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
        let segment =
            Segment::pack(log(Kind::Metrics), 1, Timestamp::default(), Vec::new(), &columns).unwrap();
        let pseudonyms = pseudonyms(&["loan-1"]);
        let (after, count) = erase(&segment, &pseudonyms, false).unwrap().unwrap();
        let after = after.unpack(|_| true).unwrap();
        assert_eq!(count, 1);
        assert_eq!(after.column("name").unwrap().text(0), Some("loan-1"), "a name is no key");
        assert_eq!(after.column("key").unwrap().text(0), Some("loan-2"));
        assert_eq!(after.column("key").unwrap().text(1), Some(pseudonyms["loan-1"].as_str()));
    }

    #[test]
    fn unreadable_segment_is_not_partly_erased() {
        let row = |key: &str| (key.to_owned(), Some(0.5), Some("north".to_owned()), None, None);
        let segment = packed(&[row("a"), row("b")], false);
        let pseudonyms = pseudonyms(&["a"]);
        let damaged = Segment { data: segment.data[..segment.data.len() - 1].to_vec(), ..segment.clone() };
        assert_eq!(erase(&damaged, &pseudonyms, false).unwrap_err().kind(), ErrorKind::Corrupt);
        let shorter = Segment { rows: 3, ..segment };
        assert!(
            erase(&shorter, &pseudonyms, false).unwrap_err().to_string().contains("the item says 3 rows")
        );
    }

    /// With its values erased, an event has no content; a required value becomes NaN.
    #[test]
    fn values_are_erased_with_key_on_request() {
        let some = |key: &str| (key.to_owned(), Some(0.25), None, None, None);
        let before = packed(&[some("a"), some("b")], false);
        let (after, count) = erase(&before, &pseudonyms(&["a"]), true).unwrap().unwrap();
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
        let (after, _) = erase(&before, &pseudonyms(&["a"]), true).unwrap().unwrap();
        let columns = after.unpack(|_| true).unwrap();
        let values = columns.column("value").unwrap();
        assert!(values.float(0).is_some_and(f64::is_nan) && values.float(1) == Some(5.5));
    }
}
