//! From what one request costs to what a month costs: a pure function of the load, the sample and the prices.

use projector::{PAID_REST, SMALL};
use table::units::{READ_UNIT_BYTES, write_units};

use super::{
    GIGABYTE,
    counted::ITEM_OVERHEAD,
    prices::{Paid, Prices},
    sample::{BASE_COLUMNS, Packed, Sample},
};

/// The days, hours and seconds of a month, as Amazon's own estimates take them.
const DAYS: f64 = 30.0;
const HOURS: f64 = 730.0;
const SECONDS: f64 = 2.628e6;
const DAY_SECONDS: f64 = 86_400.0;
const MILLION: f64 = 1e6;

/// How many days a projector folds a second at most, on DynamoDB: a fold is some calls one after the other.
const FOLDS_A_SECOND: f64 = 10.0;
/// The bytes that an evaluation reads a second, on DynamoDB. An assumption: it was not measured on an account.
const EVALUATED_BYTES_A_SECOND: f64 = 20e6;
/// The pause between two evaluations of a day that changes all the time, in durations of the last one and its own.
const EVALUATION_PERIODS: f64 = 11.0;
/// The least pause between two sketches of features.
const SKETCH_SECONDS: f64 = 60.0;
/// A worker writes its heartbeat and looks at those of others every so many seconds.
const HEARTBEAT_SECONDS: f64 = 2.0;
/// The shards of a new table on demand, and how often a second each is asked for changes.
const SHARDS: f64 = 4.0;
const ASKED_A_SECOND: f64 = 1.4;
/// The changes that one answer of the stream holds at most.
const CHANGES: f64 = 1_000.0;
/// The three tasks of `terraform/examples/basic`, one a role.
const LEAST_CPUS: f64 = 0.75;
const LEAST_GIGABYTES: f64 = 2.5;
/// Seconds of a processor that an event takes, from request to evaluation (`docs/benchmarks.md`), and how many times that is there.
const EVENT_CPU_SECONDS: f64 = 1.27e-6;
const CPU_RESERVE: f64 = 6.0;

/// What comes, and how long it stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Predictions a day.
    pub(super) predictions: f64,
    /// Outcomes a prediction.
    pub(super) outcomes: f64,
    /// The columns of a prediction.
    pub(super) columns: usize,
    /// Rows a request.
    pub(super) rows: f64,
    /// Days.
    pub(super) retention: f64,
}

/// What is paid for in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Month {
    /// Write request units, of appending, of projecting, and of deleting what has expired.
    pub(super) appended: f64,
    pub(super) projected: f64,
    pub(super) expired: f64,
    /// Read request units.
    pub(super) read: f64,
    /// Gigabytes that are there once the retention is over.
    pub(super) gigabytes: f64,
    /// Calls that read the stream.
    pub(super) stream: f64,
    /// Hours of virtual CPUs and of gigabytes of memory.
    pub(super) cpu_hours: f64,
    pub(super) memory_hours: f64,
}

/// A line of a bill.
pub(super) struct Line {
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) quantity: f64,
    pub(super) usd: f64,
}

impl Month {
    /// What each thing costs.
    pub(super) fn bill(&self, prices: &Prices) -> Vec<Line> {
        let millions = |what, quantity: f64, paid| {
            let usd = quantity / MILLION * prices.usd(paid);
            Line { what, unit: "units", quantity, usd }
        };
        let compute = self.cpu_hours * prices.usd(Paid::Cpu) + self.memory_hours * prices.usd(Paid::Memory);
        let kept = |what, paid| Line {
            what,
            unit: "GB",
            quantity: self.gigabytes,
            usd: self.gigabytes * prices.usd(paid),
        };
        vec![
            millions("write: append", self.appended, Paid::Write),
            millions("write: project", self.projected, Paid::Write),
            millions("write: expire", self.expired, Paid::Write),
            millions("read", self.read, Paid::Read),
            kept("storage", Paid::Storage),
            kept("point-in-time recovery", Paid::Recovery),
            Line { unit: "calls", ..millions("stream", self.stream, Paid::Stream) },
            Line { what: "compute", unit: "vCPU hours", quantity: self.cpu_hours, usd: compute },
        ]
    }
}

/// How long a day rests between folds that began so many seconds ago and grows evenly: until it has grown by a share of its
/// segments, and no longer than any day rests.
fn rest(at: f64) -> f64 {
    (at / SMALL as f64).min(PAID_REST.as_secs_f64())
}

/// How often a day is evaluated that grows evenly up to `bytes` by a change every `gap` seconds, and the units of all those reads.
/// Each reads what is there, at the pace above, and rests ten times as long.
fn evaluations(bytes: f64, gap: f64) -> (f64, f64) {
    let (mut at, mut times, mut units) = (0.0, 0.0, 0.0);
    // With changes less than 0.3 s apart the day is never quiet, and evaluated once a minute at most.
    let least = if gap < 0.3 { 60.0 } else { gap };
    while at < DAY_SECONDS {
        let there = bytes * (at / DAY_SECONDS);
        times += 1.0;
        units += (there / READ_UNIT_BYTES as f64).max(1.0);
        at += least.max(rest(at)).max(EVALUATION_PERIODS * there / EVALUATED_BYTES_A_SECOND).max(1.0);
    }
    (times, units)
}

/// How often a day is folded that grows evenly, by a change every `gap` seconds.
fn folds(gap: f64) -> f64 {
    let (mut at, mut times) = (0.0, 0.0);
    let least = gap.max(1.0 / FOLDS_A_SECOND);
    while at < DAY_SECONDS {
        times += 1.0;
        at += least.max(rest(at));
    }
    times
}

/// What is the same however events are stored: who polls, and who computes.
fn standing(load: &Load, changes: f64) -> Month {
    let events = load.predictions * (1.0 + load.outcomes) / DAY_SECONDS;
    let cpus = LEAST_CPUS.max(events * EVENT_CPU_SECONDS * CPU_RESERVE);
    let polled = SHARDS * ASKED_A_SECOND * SECONDS;
    Month {
        stream: polled.max(changes * DAYS / CHANGES),
        cpu_hours: cpus * HOURS,
        memory_hours: LEAST_GIGABYTES * (cpus / LEAST_CPUS) * HOURS,
        ..Month::default()
    }
}

/// A month with packed segments, as Almanac stores events.
pub(super) fn packed(load: &Load, sample: &Sample) -> Month {
    // Requests that are larger than those of the sample cost as much a row.
    let requests = load.predictions / load.rows.min(sample.rows as f64);
    let judged = requests * load.outcomes;
    let sum = |packed: fn(&Packed) -> f64| {
        requests * packed(&sample.predictions_packed) + judged * packed(&sample.outcomes_packed)
    };
    let changes = requests + judged;
    let gap = DAY_SECONDS / changes.max(1.0);
    let folds = folds(gap).min(changes);
    let has_features = load.columns > BASE_COLUMNS;
    let sketches = if has_features { folds.min(DAY_SECONDS / SKETCH_SECONDS) } else { 0.0 };
    let bytes = sum(|packed| packed.bytes);
    let (evaluated, judged_reads) = evaluations(bytes, gap);
    let beats = DAY_SECONDS / HEARTBEAT_SECONDS;
    let checkpoints = folds.min(DAY_SECONDS);
    let projected = folds * sample.fold.written as f64
        + sketches * sample.sketch.written as f64
        + evaluated * sample.evaluation.written as f64
        + checkpoints
        + beats;
    // A sketch reads what came since the last one: all of it once more.
    let sketched = if has_features { bytes / READ_UNIT_BYTES as f64 } else { 0.0 };
    let read = requests * sample.predictions.read as f64
        + judged * sample.outcomes.read as f64
        + folds * sample.fold.read as f64
        + (changes - folds) * (bytes / changes.max(1.0) / READ_UNIT_BYTES as f64)
        + sketched
        + judged_reads
        + 2.0 * beats;
    let kept = |items: f64, bytes: f64| bytes + items * ITEM_OVERHEAD as f64;
    let a_day = kept(sum(|packed| packed.items), sum(|packed| packed.bytes))
        + kept(sample.projections.items, sample.projections.bytes);
    let appended = requests * sample.predictions.written as f64 + judged * sample.outcomes.written as f64;
    Month {
        appended: DAYS * appended,
        projected: DAYS * projected,
        expired: DAYS * sum(|packed| packed.units),
        read: DAYS * read,
        gigabytes: load.retention * a_day / GIGABYTE,
        ..standing(load, appended)
    }
}

/// A month with an item for each event, written and judged by the same schedule, and nothing else: no rollups, no markers. DynamoDB
/// deletes what has expired for nothing, since each item can say when.
pub(super) fn item_per_event(load: &Load, sample: &Sample) -> Month {
    let outcomes = load.predictions * load.outcomes;
    let appended = load.predictions * write_units(sample.prediction_item) as f64
        + outcomes * write_units(sample.outcome_item) as f64;
    let bytes = load.predictions * sample.prediction_item as f64 + outcomes * sample.outcome_item as f64;
    let gap = DAY_SECONDS / (load.predictions + outcomes).max(1.0);
    let (_, judged_reads) = evaluations(bytes, gap);
    let a_day = bytes + (load.predictions + outcomes) * ITEM_OVERHEAD as f64;
    Month {
        appended: DAYS * appended,
        read: DAYS * judged_reads,
        gigabytes: load.retention * a_day / GIGABYTE,
        ..standing(load, load.predictions + outcomes)
    }
}
