//! Evaluates a day of many predictions and their outcomes in SQLite, and prints the time and the greatest memory:
//!
//! ```sh
//! cargo run --release --package almanac-evaluate --example large_day -- 50000000
//! ```
//!
//! The table is made first, in a temporary folder of about 25 bytes a prediction. Linux only: it reads `/proc`.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use almanac_evaluate::{Reading, Unreadable, evaluate_day};
use async_trait::async_trait;
use event::{Clock, Column, Columns, Day, Definition, Error, Id, Kind, Result, Task, Timestamp, Values};
use fold::evaluation::{Evaluator, Measures};
use log::{
    key::LogId,
    segment_item::{MAX_SEGMENT_ROWS, Segment},
    walk::{Heads, Note, Until, Walk},
};
use table::{Condition, Table, sqlite::SqliteTable};
use tokio::time::Instant;

/// Number of rows held in memory, as the projector has it.
const ROWS_AT_ONCE: usize = 2_000_000;

/// Microseconds between the prediction and its outcome.
const DELAY: i64 = 3_600_000_000;

struct LargeDay {
    table: SqliteTable,
    workspace: Id,
    day: Day,
    segments: u64,
}

impl LargeDay {
    fn log(&self, kind: Kind) -> LogId {
        LogId { workspace: self.workspace.clone(), day: self.day, kind, lane: 0 }
    }

    /// Appends the predictions or the outcomes.
    async fn fill(&self, kind: Kind, from: Timestamp) -> Result<()> {
        for seq in 1..=self.segments {
            let first = (seq - 1) * MAX_SEGMENT_ROWS as u64;
            let columns = columns(kind, first..first + MAX_SEGMENT_ROWS as u64, from.micros());
            let segment = Segment::pack(self.log(kind), seq, from, Vec::new(), &columns)?;
            self.table.put(segment.to_item(), Condition::Absent).await?;
        }
        Ok(())
    }
}

/// Returns evenly distributed bits, the same for the same number.
fn bits(number: u64) -> u64 {
    let mixed = (number ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// Returns a number from 0 to below 1.
fn unit(number: u64) -> f64 {
    (bits(number) >> 11) as f64 / (1u64 << 53) as f64
}

fn columns(kind: Kind, rows: std::ops::Range<u64>, from: i64) -> Columns {
    let texts = |text: &dyn Fn(u64) -> String| {
        let texts: Vec<String> = rows.clone().map(text).collect();
        Values::Text(texts.iter().map(String::as_str).collect())
    };
    let times = |delay| Values::Time(rows.clone().map(|row| from + row as i64 + delay).collect());
    let key = Column::new("key", texts(&|row| format!("{:016x}", bits(row))));
    let more = if kind == Kind::Predictions {
        let scores = Values::Float(rows.clone().map(|row| unit(!row)).collect());
        let release = texts(&|row| format!("v{}", row % 2));
        vec![
            Column::new("predicted_at", times(0)),
            Column::new("release", release),
            Column::new("score", scores),
        ]
    } else {
        let is_late = |row: u64| unit(row << 20) < 0.3 + 0.4 * unit(!row);
        let label = texts(&|row| if is_late(row) { "late" } else { "on time" }.to_owned());
        vec![Column::new("observed_at", times(DELAY)), Column::new("label", label)]
    };
    Columns { rows: MAX_SEGMENT_ROWS, columns: [key].into_iter().chain(more).collect() }
}

#[async_trait]
impl Reading for LargeDay {
    fn table(&self) -> &dyn Table {
        &self.table
    }

    fn walk(&self, kind: Kind) -> Result<Walk> {
        let until = Until::Heads(Heads::from([(self.log(kind), self.segments)]));
        Ok(Walk::new(&self.workspace, self.day, kind, until, Arc::default()))
    }

    fn note(&self, _: Vec<Note>) {}

    fn unpacks(&self, _: usize) {}

    fn failed(&self, error: Error) -> Error {
        error
    }

    fn leaves_out(&self, _: &Unreadable) -> bool {
        false
    }

    fn rows_at_once(&self) -> usize {
        ROWS_AT_ONCE
    }

    async fn grow(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn shrink(&self, _: u64) {}

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let predictions: u64 = std::env::args().nth(1).as_deref().unwrap_or("10000000").parse()?;
    let folder = tempfile::tempdir_in(".")?;
    let from = Timestamp::parse("2013-06-01T00:00:00Z")?;
    let table = SqliteTable::open(&Path::new(folder.path()).join("almanac.db"), Clock::system())?;
    let segments = predictions.div_ceil(MAX_SEGMENT_ROWS as u64);
    let day = LargeDay { table, workspace: Id::new(from), day: from.day(), segments };
    for kind in [Kind::Predictions, Kind::Outcomes] {
        day.fill(kind, from).await?;
    }
    let late = || Definition::of(Task::Binary { positive_label: "late".into() });
    let definitions = BTreeMap::from(["v0", "v1"].map(|release| (release.to_owned(), late())));
    // Forgets the memory in which the table was made.
    fs::write("/proc/self/clear_refs", "5")?;
    let began = Instant::now();
    let evaluated = evaluate_day(&day, Evaluator::new(definitions)).await;
    let (evaluation, rows) = evaluated.map_err(|failure| format!("{failure:?}"))?;
    let seconds = began.elapsed().as_secs_f64();
    for (name, release) in &evaluation.releases {
        let Some(Measures::Binary(of)) = &release.measures else { continue };
        println!("{name}: {} predictions, {} labelled, AUC {:?}", release.predictions, of.judged, of.auc);
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    println!("{rows} rows evaluated in {seconds:.1} s, greatest memory {}", peak.trim());
    Ok(())
}
