//! Cost of features: bytes a prediction with none, 10 and 100 of them, and the write units of appending and sketching
//! them on DynamoDB. A quarter each are integers below 100, amounts with two decimals, singles and doubles.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use ::event::{Clock, Kind};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::scan;
use polars::prelude::{Column as Series, DataFrame, Float64Chunked, IntoColumn};
use projector::{WorkspaceDay, features::sketch, project::project};
use table::{Table, sqlite::SqliteTable};

use crate::{
    context::Context,
    counting::CountingTable,
    data::{Numbers, Prediction, RELEASES, frame},
    line::{Figures, Line},
    place,
    samples::Samples,
    service::WORKSPACE,
};

/// Number of predictions counted, of one day.
const ROWS: usize = 20_000;
/// Number of predictions in a request.
const BATCH: usize = 5_000;

/// Counts of predictions with a number of features.
struct Counted {
    /// Number of bytes of all segments.
    packed: u64,
    /// Number of bytes of the same data as a Parquet file.
    parquet: u64,
    /// Write units of the segments, and of the markers of their batches.
    appended: u64,
    /// Write units of sketching all of it once.
    sketched: u64,
}

/// Returns the numbers of a feature, of all rows.
fn numbers(feature: usize, rows: usize) -> Vec<f64> {
    let mut numbers = Numbers::new(feature as u64);
    let number = |numbers: &mut Numbers| match feature % 4 {
        0 => numbers.below(100) as f64,
        1 => numbers.below(1_000_000) as f64 / 100.0,
        2 => f64::from(numbers.unit() as f32),
        _ => numbers.unit(),
    };
    (0..rows).map(|_| number(&mut numbers)).collect()
}

/// Writes the rows as the lines of a request.
fn lines(rows: &[Prediction], features: &[Vec<f64>], first: usize) -> String {
    let mut body = String::new();
    for (at, row) in (first..).zip(rows) {
        let key = String::from_utf8_lossy(&row.key);
        let predicted_at = ::event::Timestamp::from_micros(row.predicted_at).unwrap_or_default();
        let (release, score) = (RELEASES[row.release], row.score);
        _ = write!(
            body,
            r#"{{"key":"{key}","predicted_at":"{predicted_at}","release":"{release}","score":{score}"#
        );
        for (name, numbers) in features.iter().enumerate() {
            let begin = if name == 0 { ",\"features\":{" } else { "," };
            _ = write!(body, "{begin}\"f{name}\":{}", numbers[at]);
        }
        body.push_str(if features.is_empty() { "}\n" } else { "}}\n" });
    }
    body
}

async fn count(context: &Context, rows: &[Prediction], features: usize) -> anyhow::Result<Counted> {
    let features: Vec<Vec<f64>> = (0..features).map(|feature| numbers(feature, rows.len())).collect();
    let folder = context.place.fresh("features")?;
    let inner: Arc<dyn Table> = Arc::new(SqliteTable::open(&folder.join("almanac.db"), Clock::system())?);
    let counting = Arc::new(CountingTable::new(inner));
    let table: Arc<dyn Table> = Arc::clone(&counting) as _;
    let ingest = Ingest::new(Arc::clone(&table), Clock::system());
    let now = ingest.clock().now();
    let workspace = ingest.catalog().ensure_workspace(WORKSPACE, now).await?;
    let task = ::event::Task::Binary { positive_label: "1".into() };
    ingest.catalog().ensure_model(workspace.id(), "model", &task, now).await?;
    for name in RELEASES {
        let (name, model) = (name.to_owned(), "model".to_owned());
        let spec = catalog::ReleaseSpec { name, model, configuration: None, environment: None };
        ingest.catalog().ensure_release(workspace.id(), &spec, now).await?;
    }
    let before = counting.counted();
    for (first, some) in (0..).step_by(BATCH).zip(rows.chunks(BATCH)) {
        let batch = read_ndjson(Kind::Predictions, lines(some, &features, first).as_bytes(), now)?;
        ingest.submit(&workspace, batch, None, Remember::Week).await?;
    }
    let appended = counting.counted();
    let day = WorkspaceDay { workspace: workspace.id().clone(), day: context.data.day(0) };
    let heads = scan::heads_of_kind(&*table, workspace.id(), day.day, Kind::Predictions).await?;
    let mut packed = 0;
    for head in &heads {
        let segments = scan::segments(&*table, &head.log, 1, head.seq).await?;
        packed += segments.iter().map(|segment| segment.item_bytes() as u64).sum::<u64>();
    }
    let logs = heads.into_iter().map(|head| head.log).collect();
    let projection = project(&*table, 1, &day, &logs).await?;
    let folded = counting.counted();
    sketch(&*table, 1, &day, &projection.applied).await?;
    let sketched = counting.counted().projections - folded.projections;
    let mut frame: DataFrame =
        frame::predictions(rows)?.select(["key", "predicted_at", "release", "score"])?;
    for (name, numbers) in features.into_iter().enumerate() {
        let column: Series =
            Float64Chunked::from_vec(format!("f{name}").as_str().into(), numbers).into_column();
        frame.with_column(column)?;
    }
    let parquet = context.place.fresh("features-parquet")?;
    frame::parquet(frame, &parquet.join("rows.parquet"))?;
    let parquet = place::bytes_of(&parquet)?;
    let units = appended.segments - before.segments + appended.others - before.others;
    Ok(Counted { packed, parquet, appended: units, sketched })
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let day = (0..context.data.batches_of(0)).flat_map(|batch| context.data.predictions(0, batch));
    let rows: Vec<Prediction> = day.take(ROWS).collect();
    let one = |number: f64| Samples::new(vec![number]);
    let mut counted = BTreeMap::new();
    for features in [0, 10, 100] {
        counted.insert(features, context.runtime.block_on(count(context, &rows, features))?);
    }
    let all = rows.len() as f64;
    let mut lines = Vec::new();
    for (features, id) in [(0, "features-0/bytes"), (10, "features-10/bytes"), (100, "features-100/bytes")] {
        let of = &counted[&features];
        let figures =
            Figures { almanac: one(of.packed as f64 / all), peer: Some(one(of.parquet as f64 / all)) };
        let work = format!("bytes a prediction with {features} features, as it is packed");
        let peer = Some("Parquet zstd, one file (polars)".to_owned());
        lines.push(Line { id, work, unit: "B", peer, figures: Ok(figures) });
    }
    for (features, id) in [(0, "features-0/units"), (10, "features-10/units"), (100, "features-100/units")] {
        let of = &counted[&features];
        let kilobytes = of.packed as f64 / 1024.0;
        let figures = Figures { almanac: one(of.appended as f64), peer: Some(one(kilobytes)) };
        let work = format!("appending {} predictions with {features} features", rows.len());
        let peer = Some("kilobytes of their segments".to_owned());
        lines.push(Line { id, work, unit: "WRU", peer, figures: Ok(figures) });
    }
    for (features, id) in [(10, "features-10/sketch"), (100, "features-100/sketch")] {
        let work =
            format!("write units of sketching {features} features of {} releases once", RELEASES.len());
        lines.push(Line::alone(id, work, "WRU", Ok(one(counted[&features].sketched as f64))));
    }
    Ok(lines)
}
