//! Latest value of each metric of a run, and the segments of the log in which the metric stands.
//!
//! Both depend on the set of its events alone, not on their order: the greatest by step, time and place, and the union of the
//! segments. So writing an event twice changes nothing, and needs no record of earlier writes. Ingest writes the events that it
//! has appended at once, so that a history has them; the projector writes them again before a rollup moves past them, so nothing
//! is left out when a process dies in between. For a batch that was sent again ingest does not know the place, and writes its
//! values alone.
//!
//! The first item of a run holds as many metrics as fit, by their names; others stand in parts, by a hash of the name.

use std::{cmp::Ordering, collections::BTreeMap};

use event::{
    Columns, Error, Id, Result, Timestamp,
    fields::Rule,
    lane::{Breakdown, By},
};
use futures::{StreamExt, TryStreamExt, stream};
use log::key::{self, LogId};
use table::{Change, Item, Policy, Query, Table, item::Value, query_all, update};

use super::{
    Run,
    span::{self, At, MAX_SPANS, Span},
};
use crate::Catalog;

/// Version of the items.
const ITEM_VERSION: i64 = 1;

/// Maximum bytes of the metrics of an item together.
const MOST_BYTES: usize = 300 * 1024;

/// Maximum bytes of a metric besides its name: its value and [`MAX_SPANS`] spans.
const METRIC_BYTES: usize = 100 + MAX_SPANS * 45;

/// Number of parts of a run written at one time, which an engine may commit together. Names fall into parts by a hash, so a few
/// hundred new ones are nearly as many parts.
const PARTS_AT_ONCE: usize = 64;

/// Place of an event in the log of its day: the number of its segment, and its row.
type Place = (u64, usize);

/// The latest value of a metric.
#[derive(Clone, Debug)]
pub struct LatestValue {
    /// The value; it may be NaN or infinite.
    pub value: f64,
    /// Time of the measurement.
    pub at: Timestamp,
    /// Step of the measurement.
    pub step: Option<i64>,
    /// Place of the event, once the projector has seen it.
    place: Option<Place>,
    /// Spans of segments in which the metric stands.
    pub(super) spans: Vec<Span>,
}

impl PartialEq for LatestValue {
    fn eq(&self, other: &Self) -> bool {
        let all = |one: &Self| (one.value.to_bits(), one.at, one.step, one.place);
        all(self) == all(other) && self.spans == other.spans
    }
}

impl LatestValue {
    /// Takes another value when it is later, and returns whether anything changed. Of two with one step and time the one with the
    /// later place in the log is later.
    fn merge(&mut self, other: &Self) -> bool {
        let order = (other.step, other.at).cmp(&(self.step, self.at));
        let is_later = match order {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => match (self.place, other.place) {
                (Some(known), Some(place)) => place > known,
                (Some(_), None) => false,
                (None, Some(_)) => true,
                // Both are of appends that the projector has not seen; the one recorded later was made later.
                (None, None) => self.value.to_bits() != other.value.to_bits(),
            },
        };
        if is_later {
            (self.value, self.at, self.step, self.place) = (other.value, other.at, other.step, other.place);
        }
        let mut has_grown = false;
        for span in &other.spans {
            has_grown |= span::add(&mut self.spans, span.first);
            has_grown |= span::add(&mut self.spans, span.last);
        }
        is_later || has_grown
    }

    /// Creates a value with these spans.
    #[cfg(test)]
    pub(super) fn noted(spans: impl Iterator<Item = Span>) -> Self {
        Self { value: 1.0, at: Timestamp::default(), step: None, place: None, spans: spans.collect() }
    }

    fn to_value(&self) -> Value {
        let number = |number: Option<i64>| number.map_or(Value::Null, Value::from);
        let place = self.place.map(|(seq, row)| (seq as i64, row as i64));
        let spans = self.spans.iter().map(|span| Value::S(span.to_text())).collect();
        Value::L(vec![
            // Stored as text, which holds every double, also NaN and the infinities.
            Value::S(format!("{:?}", self.value)),
            self.at.micros().into(),
            number(self.step),
            number(place.map(|(seq, _)| seq)),
            number(place.map(|(_, row)| row)),
            Value::L(spans),
        ])
    }

    fn from_value(value: &Value) -> Option<Self> {
        let Value::L(parts) = value else { return None };
        let [Value::S(text), Value::N(at), step, seq, row, Value::L(spans)] = parts.as_slice() else {
            return None;
        };
        let number = |value: &Value| match value {
            Value::N(number) => number.as_i64(),
            _ => None,
        };
        let span = |value: &Value| match value {
            Value::S(text) => Span::parse(text),
            _ => None,
        };
        let place = number(seq).zip(number(row));
        let place = place.and_then(|(seq, row)| Some((seq.try_into().ok()?, row.try_into().ok()?)));
        Some(Self {
            value: text.parse().ok()?,
            at: Timestamp::from_micros(at.as_i64()?)?,
            step: number(step),
            place,
            spans: spans.iter().map(span).collect::<Option<_>>()?,
        })
    }
}

/// Latest values of a run, by the names of metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latest {
    /// Values by metric.
    pub metrics: BTreeMap<String, LatestValue>,
}

impl Latest {
    /// Decodes the values of an item.
    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let metric = |(name, value): (&String, &Value)| {
            let value = LatestValue::from_value(value);
            value
                .map(|value| (name.clone(), value))
                .ok_or_else(|| item.corrupt(format_args!("the metric `{name}`")))
        };
        let metrics = item.attributes.contains_key("metrics").then(|| item.map("metrics")).transpose()?;
        Ok(Self { metrics: metrics.into_iter().flatten().map(metric).collect::<Result<_>>()? })
    }

    fn to_item(&self, item: Item) -> Item {
        let metrics = self.metrics.iter().map(|(name, value)| (name.clone(), value.to_value())).collect();
        item.with("v", ITEM_VERSION).with("metrics", Value::M(metrics))
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.metrics)
    }

    /// Merges values as far as they fit. Returns whether anything changed, and the values that do not fit.
    fn merge(&mut self, noted: Self) -> (bool, Self) {
        let (mut has_changed, mut rest, mut bytes) = (false, Self::default(), self.bytes());
        for (name, value) in noted.metrics {
            if let Some(known) = self.metrics.get_mut(&name) {
                has_changed |= known.merge(&value);
            } else if bytes + name.len() + METRIC_BYTES <= MOST_BYTES {
                bytes += name.len() + METRIC_BYTES;
                self.metrics.insert(name, value);
                has_changed = true;
            } else {
                rest.metrics.insert(name, value);
            }
        }
        (has_changed, rest)
    }

    /// Keeps the later value of each metric.
    fn take(&mut self, name: String, value: LatestValue) {
        match self.metrics.get_mut(&name) {
            Some(known) => _ = known.merge(&value),
            None => _ = self.metrics.insert(name, value),
        }
    }
}

fn bytes_of(metrics: &BTreeMap<String, LatestValue>) -> usize {
    metrics.keys().map(|name| name.len() + METRIC_BYTES).sum()
}

/// Returns whether a first item may have no room for another metric, so that there may be parts.
pub(super) fn is_full(metrics: &BTreeMap<String, LatestValue>) -> bool {
    bytes_of(metrics) + Rule::Plain.max_bytes() + METRIC_BYTES > MOST_BYTES
}

/// Metrics of runs to be recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noted {
    runs: BTreeMap<String, Latest>,
    metrics: usize,
}

impl Noted {
    /// Adds metrics. `place` is their log, with the first and the last segment that has some of them, if known.
    pub fn add(&mut self, columns: &Columns, place: Option<(&LogId, (u64, u64))>) {
        let Some(runs) = columns.column("run") else { return };
        let column = |name: &str| columns.column(name);
        let (Some(names), Some(times), Some(values)) =
            (column("name"), column("measured_at"), column("value"))
        else {
            return;
        };
        let steps = column("step");
        for row in 0..columns.rows {
            let (Some(run), Some(name), Some(at), Some(value)) =
                (runs.text(row), names.text(row), times.time(row), values.float(row))
            else {
                continue;
            };
            let Some(at) = Timestamp::from_micros(at) else { continue };
            let span = place.map(|(log, (first, last))| {
                let at = |seq| -> At { (log.day, log.lane, seq) };
                Span { first: at(first), last: at(last) }
            });
            let noted = LatestValue {
                value,
                at,
                step: steps.and_then(|steps| steps.float(row)).map(|step| step as i64),
                // Ingest knows the row in its batch, which is at most the row in the segment: the projector's place is never
                // earlier.
                place: place.map(|(_, (first, _))| (first, row)),
                spans: span.into_iter().collect(),
            };
            if !self.runs.contains_key(run) {
                self.runs.insert(run.to_owned(), Latest::default());
            }
            if let Some(latest) = self.runs.get_mut(run) {
                match latest.metrics.get_mut(name) {
                    Some(known) => _ = known.merge(&noted),
                    None => {
                        latest.metrics.insert(name.to_owned(), noted);
                        self.metrics += 1;
                    }
                }
            }
        }
    }

    /// Returns whether there is nothing to record.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of metrics of runs to record.
    pub fn len(&self) -> usize {
        self.metrics
    }
}

/// Records metrics of runs. It may be called again with the same metrics at any time. Metrics of a missing run are ignored: the
/// run was deleted. Returns the number of metrics that have no room beside their runs.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn record_metrics(table: &dyn Table, workspace: &Id, noted: Noted) -> Result<usize> {
    let mut left_out = 0;
    for (run, latest) in noted.runs {
        let Ok(run) = Id::parse(&run) else { continue };
        let first = key::latest(workspace, &run);
        let Some(rest) = merge_into(table, (workspace, &run), &first, latest).await? else { continue };
        let mut parts = BTreeMap::<u8, Latest>::new();
        for (name, value) in rest.metrics {
            let part = Breakdown::of(By::Metric, &name).bucket;
            parts.entry(part).or_default().metrics.insert(name, value);
        }
        let run = &run;
        let merges = parts.into_iter().map(|(part, latest)| {
            let key = key::latest_part(workspace, run, part);
            async move { merge_into(table, (workspace, run), &key, latest).await }
        });
        let merges = stream::iter(merges.collect::<Vec<_>>()).buffer_unordered(PARTS_AT_ONCE);
        let beyond: Vec<Option<Latest>> = merges.try_collect().await?;
        left_out += beyond.into_iter().flatten().map(|beyond| beyond.metrics.len()).sum::<usize>();
    }
    Ok(left_out)
}

/// Merges latest values into the item at `key`, and returns those that do not fit; `None`, when the run does not exist.
async fn merge_into(
    table: &dyn Table,
    (workspace, run): (&Id, &Id),
    key: &table::Key,
    latest: Latest,
) -> Result<Option<Latest>> {
    let policy = Policy { pauses: true, ..Policy::of(&"the latest metrics of the run") };
    update(table, key, policy, async |stored| {
        let mut known = stored.as_ref().map_or(Ok(Latest::default()), Latest::from_item)?;
        let (has_changed, rest) = known.merge(latest.clone());
        if !has_changed {
            return Ok(Change::Leave(Some(rest)));
        }
        let index = match &stored {
            Some(item) => item.optional_text("GSI1PK").zip(item.optional_text("GSI1SK")).map(owned),
            None => {
                let Some(item) = table.get(&key::run(workspace, run)).await? else {
                    return Ok(Change::Leave(None));
                };
                let experiment = Run::from_item(&item)?.experiment_id();
                let is_first = key::parse_latest(key).is_some();
                is_first.then(|| key::latest_index(workspace, &experiment, run))
            }
        };
        let item = known.to_item(Item::new(key.clone()));
        let item = match index {
            Some((pk, sk)) => item.with("GSI1PK", pk.as_str()).with("GSI1SK", sk.as_str()),
            None => item,
        };
        Ok(Change::Put(item, Some(rest)))
    })
    .await
}

fn owned((pk, sk): (&str, &str)) -> (String, String) {
    (pk.to_owned(), sk.to_owned())
}

impl Catalog {
    /// Records metrics of runs: see [`record_metrics`].
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn record_metrics(&self, workspace: &Id, noted: Noted) -> Result<usize> {
        record_metrics(&*self.table, workspace, noted).await
    }

    /// Reads the latest value of each metric of a run, by one query.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn latest_metrics(&self, workspace: &Id, run: &Id) -> Result<Latest> {
        let mut all = Latest::default();
        for item in query_all(&*self.table, Query::table(key::latest_of(workspace, run))).await? {
            Latest::from_item(&item)?.metrics.into_iter().for_each(|(name, value)| all.take(name, value));
        }
        Ok(all)
    }

    /// Decodes the run and the latest values of an item of a page.
    pub(super) fn latest_of_item(item: &Item) -> Result<(Id, BTreeMap<String, LatestValue>)> {
        let run = item.key.sk.strip_prefix("run#").and_then(|rest| rest.split('/').next());
        let run = run.and_then(|run| Id::parse(run).ok());
        let run: Result<Id, Error> = run.ok_or_else(|| item.corrupt("its key is not one of a run"));
        Ok((run?, Latest::from_item(item)?.metrics))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(value: f64, step: i64, at: i64, place: Option<Place>) -> LatestValue {
        let at = Timestamp::from_micros(at).unwrap();
        let span = place.map(|(seq, _)| ("2026-06-01".parse().unwrap(), 0, seq));
        let spans = span.map(|at| Span { first: at, last: at }).into_iter().collect();
        LatestValue { value, at, step: Some(step), place, spans }
    }

    #[test]
    fn values_are_kept_to_the_bit() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.1 + 0.2, f64::MIN_POSITIVE, 5e-324]
        {
            let value = value(number, -3, 1_000_001, Some((7, 2)));
            assert_eq!(LatestValue::from_value(&value.to_value()), Some(value), "{number}");
        }
        let without = LatestValue { step: None, ..value(1.5, 0, 1, None) };
        assert_eq!(LatestValue::from_value(&without.to_value()), Some(without));
    }

    /// Version 1 stays readable for good.
    #[test]
    fn the_item_of_version_1_is_read() {
        let (w, r) = ("2NBs0sLBnJxEcoDLgVnQdJkhEgV", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9");
        let key = key::latest(&Id::parse(w).unwrap(), &Id::parse(r).unwrap());
        let metric = Value::L(vec![
            Value::S("NaN".into()),
            Value::from(1_000_001i64),
            Value::from(4i64),
            Value::from(7i64),
            Value::from(2i64),
            Value::L(vec![Value::S("2026-06-01/00/3>2026-06-01/00/7".into())]),
        ]);
        let metrics = Value::M([("loss".to_owned(), metric)].into());
        let stored = Item::new(key.clone()).with("v", 1i64).with("metrics", metrics);
        let latest = Latest::from_item(&stored).unwrap();
        let loss = &latest.metrics["loss"];
        assert!(loss.value.is_nan() && loss.step == Some(4) && loss.place == Some((7, 2)));
        assert_eq!(latest.to_item(Item::new(key)), stored);
        assert!(Latest::from_item(&stored.with("v", 2i64)).is_err(), "what a newer version wrote is refused");
    }

    #[test]
    fn what_does_not_fit_stands_elsewhere() {
        let mut latest = Latest::default();
        let many = |count: usize| {
            let names = (0..count).map(|at| (format!("metric-{at}"), value(1.0, 0, 1, Some((1, at)))));
            Latest { metrics: names.collect() }
        };
        let (has_changed, rest) = latest.merge(many(1_000));
        assert!(has_changed && latest.bytes() <= MOST_BYTES);
        assert_eq!(latest.metrics.len() + rest.metrics.len(), 1_000);
        let (has_changed, again) = latest.merge(many(1_000));
        assert!(!has_changed && again == rest, "a repeat changes nothing");
    }

    proptest! {
        /// In any order and number of writes by ingest and projectors, the projector's result is the same.
        #[test]
        fn the_latest_is_the_latest_in_any_order(
            events in prop::collection::vec((-2i64..3, 0i64..3, 0u32..5), 1..12),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let events: Vec<LatestValue> = (0..)
                .zip(&events)
                .map(|(seq, (step, at, number))| value(f64::from(*number), *step, *at, Some((seq + 1, 0))))
                .collect();
            let expected = events.iter().max_by_key(|event| (event.step, event.at, event.place)).unwrap();
            let mut latest = Latest::default();
            for (n, index) in order.iter().enumerate() {
                let event = index.get(&events).clone();
                // Ingest, which knows no place, records every other one.
                let event = match n % 2 {
                    0 => event,
                    _ => LatestValue { place: None, spans: Vec::new(), ..event },
                };
                latest.take("m".to_owned(), event);
            }
            for event in &events {
                latest.take("m".to_owned(), event.clone());
            }
            let found = &latest.metrics["m"];
            let all = |one: &LatestValue| (one.value.to_bits(), one.step, one.at, one.place);
            prop_assert_eq!(all(found), all(expected));
            prop_assert_eq!(found.spans.len(), 1);
        }
    }
}
