//! What one request costs, counted: some requests go through the code that services run, on a file of their own.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf, sync::Arc};

use anyhow::Context;
use event::{Clock, Day, Kind, Task, Timestamp};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::{key, scan};
use projector::{WorkspaceDay, evaluate::evaluate, features::sketch, project::project};
use table::{Item, Key, Table, sqlite::SqliteTable, units::write_units};

use super::counted::{Counting, Units};

/// The columns that each prediction has: key, time, release, score and label. All after these are features.
pub(super) const BASE_COLUMNS: usize = 5;
/// The most rows of a request that is counted; larger ones cost as much a row.
pub(super) const MAX_ROWS: usize = 10_000;
/// How many requests are sent, of predictions and of outcomes each. The last is counted: by then the logs have begun.
const REQUESTS: usize = 3;
/// The version of the projections.
const VERSION: u32 = 1;
/// The middle of the day of all events.
const NOON: &str = "2026-06-01T12:00:00Z";
/// The time between two predictions, and from a prediction to its outcome.
const APART_MICROS: i64 = 8_640;
const OBSERVED_AFTER_MICROS: i64 = 3_600_123_457;

/// What was counted.
#[derive(Debug)]
pub(super) struct Sample {
    /// The rows of a request.
    pub(super) rows: usize,
    /// Appending a request of predictions, and one of outcomes.
    pub(super) predictions: Units,
    pub(super) outcomes: Units,
    /// Folding a request into rollups and counters, what it appended read.
    pub(super) fold: Units,
    /// Sketching features, and evaluating the day: what they write.
    pub(super) sketch: Units,
    pub(super) evaluation: Units,
    /// The bytes of the segments of a request of predictions and of one of outcomes, and how many items they are.
    pub(super) predictions_packed: Packed,
    pub(super) outcomes_packed: Packed,
    /// The bytes of all projections of the day.
    pub(super) projections: Packed,
    /// The bytes of an item that holds one prediction, and one outcome, each by itself.
    pub(super) prediction_item: usize,
    pub(super) outcome_item: usize,
}

/// Items that are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Packed {
    pub(super) items: f64,
    pub(super) bytes: f64,
    /// The units of writing or deleting them.
    pub(super) units: f64,
}

impl Packed {
    fn of(sizes: &[usize], requests: usize) -> Self {
        let a_request = |sum: f64| sum / requests as f64;
        Self {
            items: a_request(sizes.len() as f64),
            bytes: a_request(sizes.iter().sum::<usize>() as f64),
            units: a_request(sizes.iter().map(|bytes| write_units(*bytes)).sum::<u64>() as f64),
        }
    }
}

/// A folder that goes when it is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it is small, and in the folder of what may be deleted.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Numbers that look random and are the same in each run (xorshift64*, Vigna 2016).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A quarter each of the features are whole numbers below 100, amounts with two decimals, singles and doubles.
    fn feature(&mut self, at: usize) -> f64 {
        match at % 4 {
            0 => (self.unit() * 100.0).floor(),
            1 => (self.unit() * 1e6).floor() / 100.0,
            2 => f64::from(self.unit() as f32),
            _ => self.unit(),
        }
    }
}

/// Predictions and their outcomes as lines of requests.
struct Rows {
    numbers: Numbers,
    features: usize,
    made: usize,
}

impl Rows {
    /// The bodies of a request of predictions and of one of their outcomes.
    fn bodies(&mut self, rows: usize, noon: Timestamp) -> anyhow::Result<[String; 2]> {
        let (mut predictions, mut outcomes) = (String::new(), String::new());
        for _ in 0..rows {
            let key = format!("{:012x}", self.numbers.next() >> 16);
            let score = self.numbers.unit();
            let predicted_at =
                Timestamp::from_micros(noon.micros() + self.made as i64 * APART_MICROS).unwrap_or(noon);
            let label = u8::from(score > 0.5);
            write!(
                predictions,
                r#"{{"key":"{key}","predicted_at":"{predicted_at}","release":"v1","score":{score},"label":"{label}""#
            )?;
            for at in 0..self.features {
                let begin = if at == 0 { r#","features":{"# } else { "," };
                write!(predictions, r#"{begin}"feature_{at:03}":{}"#, self.numbers.feature(at))?;
            }
            predictions.push_str(if self.features == 0 { "}\n" } else { "}}\n" });
            let came = u8::from(self.numbers.unit() < score);
            let observed_at =
                Timestamp::from_micros(predicted_at.micros() + OBSERVED_AFTER_MICROS).unwrap_or(noon);
            writeln!(
                outcomes,
                r#"{{"key":"{key}","predicted_at":"{predicted_at}","observed_at":"{observed_at}","label":"{came}"}}"#
            )?;
            self.made += 1;
        }
        Ok([predictions, outcomes])
    }
}

/// The bytes of the first line of a body as an item of its own, keyed by day and key.
fn alone(body: &str, day: Day) -> anyhow::Result<usize> {
    let row: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(body.lines().next().unwrap_or_default())?;
    let text = |name: &str| row.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    let mut item = Item::new(Key::new(day.to_string(), format!("{}/{}", text("key"), text("predicted_at"))));
    let features = row.get("features").and_then(|features| features.as_object());
    for (name, value) in row.iter().chain(features.into_iter().flatten()) {
        if !["key", "predicted_at", "features"].contains(&name.as_str()) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            item = item.with(name, value);
        }
    }
    Ok(item.size())
}

/// Sends requests of so many rows with so many columns through ingest and projector, and counts.
///
/// # Errors
/// When the folder for temporary files takes none, and those of the table.
pub(super) async fn count(columns: usize, rows: usize, has_keys: bool) -> anyhow::Result<Sample> {
    let rows = rows.clamp(1, MAX_ROWS);
    let scratch =
        Scratch(std::env::temp_dir().join(format!("almanac-cost-{}-{columns}-{rows}", std::process::id())));
    let context = || format!("nothing can be counted in {}", scratch.0.display());
    std::fs::create_dir_all(&scratch.0).with_context(context)?;
    let inner = SqliteTable::open(&scratch.0.join("almanac.db"), Clock::system())?;
    let counting = Arc::new(Counting::new(Arc::new(inner)));
    let table: Arc<dyn Table> = Arc::clone(&counting) as _;
    let ingest = Ingest::new(Arc::clone(&table), Clock::system());
    let now = ingest.clock().now();
    let workspace = ingest.catalog().ensure_workspace("cost/model", now).await?;
    ingest
        .catalog()
        .ensure_model(workspace.id(), "model", &Task::Binary { positive_label: "1".into() }, now)
        .await?;
    let (name, model) = ("v1".to_owned(), "model".to_owned());
    let spec = ::catalog::ReleaseSpec { name, model, configuration: None, environment: None };
    ingest.catalog().ensure_release(workspace.id(), &spec, now).await?;
    let noon = Timestamp::parse(NOON)?;
    let day = WorkspaceDay { workspace: workspace.id().clone(), day: noon.day() };
    let mut made = Rows {
        numbers: Numbers(0x9E37_79B9_7F4A_7C15),
        features: columns.saturating_sub(BASE_COLUMNS),
        made: 0,
    };
    let mut appended = [Units::default(); 2];
    let (mut folded, mut items) = (Units::default(), [0; 2]);
    let mut applied = Default::default();
    for request in 0..REQUESTS {
        let bodies = made.bodies(rows, noon)?;
        for (at, (kind, body)) in [Kind::Predictions, Kind::Outcomes].into_iter().zip(&bodies).enumerate() {
            items[at] = alone(body, day.day)?;
            let batch = read_ndjson(kind, body.as_bytes(), now)?;
            let key = has_keys.then(|| format!("cost-{kind:?}-{request}"));
            counting.take();
            ingest.submit(&workspace, batch, key.as_deref(), Remember::Week).await?;
            appended[at] = counting.take();
            let heads = scan::heads_of_kind(&*table, workspace.id(), day.day, kind).await?;
            let logs: BTreeSet<_> = heads.into_iter().map(|head| head.log).collect();
            counting.take();
            applied = project(&*table, VERSION, &day, &logs).await?.applied;
            folded = counting.take();
        }
    }
    sketch(&*table, VERSION, &day, &applied).await?;
    let sketched = counting.take();
    evaluate(&*table, VERSION, &day, &applied).await?;
    let evaluated = counting.take();
    let of = |wanted: Kind| {
        let is_wanted = |key: &Key| key::parse_segment(key).is_some_and(|(log, _)| log.kind == wanted);
        Packed::of(&counting.stored(is_wanted), REQUESTS)
    };
    Ok(Sample {
        rows,
        predictions: appended[0],
        outcomes: appended[1],
        fold: folded,
        sketch: sketched,
        evaluation: evaluated,
        predictions_packed: of(Kind::Predictions),
        outcomes_packed: of(Kind::Outcomes),
        projections: Packed::of(&counting.stored(|key| key::parse_projection(key).is_ok()), 1),
        prediction_item: items[0],
        outcome_item: items[1],
    })
}
