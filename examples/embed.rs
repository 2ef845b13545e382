//! Almanac as a library: open a file, append, project, query to a frame. No service runs.
//!
//! `cargo run --example embed -- FILE` prints
//! ```text
//! 2026-11-20: 2 predictions of v1, 2 labelled, accuracy 1, Brier score 0.0205
//! ```

use std::path::{Path, PathBuf};

use almanac::{Embedded, Kind, Params, Task};

const WORKSPACE: &str = "credit/prod";
const PREDICTIONS: &[u8] =
    br#"{"key":"loan-1","predicted_at":"2026-11-20T02:00:00Z","release":"v1","score":0.81}
{"key":"loan-2","predicted_at":"2026-11-20T02:00:00Z","release":"v1","score":0.07}"#;
const OUTCOMES: &[u8] =
    br#"{"key":"loan-1","predicted_on":"2026-11-20","observed_at":"2026-11-20T17:30:00Z","label":"default"}
{"key":"loan-2","predicted_on":"2026-11-20","observed_at":"2026-11-20T17:30:00Z","label":"repaid"}"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let file = std::env::args_os().nth(1).map_or_else(|| "embed.db".into(), PathBuf::from);
    println!("{}", judge(&file).await?);
    Ok(())
}

/// Stores two predictions with what happened to them in `file`, and says how good they were.
pub async fn judge(file: &Path) -> anyhow::Result<String> {
    let almanac = Embedded::open(file)?;
    let task = Task::Binary { positive_label: "default".into() };
    almanac.register(WORKSPACE, "default-risk", &task, "v1").await?;

    // Under an idempotency key it is safe to run this again.
    almanac.append(WORKSPACE, Kind::Predictions, PREDICTIONS, Some("predictions-2026-11-20")).await?;
    almanac.append(WORKSPACE, Kind::Outcomes, OUTCOMES, Some("outcomes-2026-11-20")).await?;
    almanac.project().await?;

    let day = Params { from: "2026-11-20", to: "2026-11-20", release: Some("v1"), ..Params::default() };
    let frame = almanac.read(WORKSPACE, "evaluations", &day).await?;
    let count = |column: &str| anyhow::Ok(frame.column(column)?.i64()?.get(0).unwrap_or_default());
    let metric = |column: &str| anyhow::Ok(frame.column(column)?.f64()?.get(0).unwrap_or(f64::NAN));
    Ok(format!(
        "2026-11-20: {} predictions of v1, {} labelled, accuracy {}, Brier score {:.4}",
        count("predictions")?,
        count("labelled")?,
        metric("accuracy")?,
        metric("brier")?,
    ))
}
