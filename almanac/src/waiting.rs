//! Waits until projectors, of this process or others, have projected all appended events.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event::{Error, Id, Result};
use log::active;
use projector::{
    dead_letters::{self, LetterState},
    heartbeat::heartbeats,
    sweep::{Behind, sweep},
};
use table::Table;
use tokio::time::{Instant, sleep};

/// Interval between checks for the projectors to have caught up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time without progress after which the cause is looked for, at intervals.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// Maximum time without progress, when no cause is known: a day whose evaluation takes a minute rests for ten.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Maximum days that a message about the lag names.
const MAX_NAMED: usize = 3;

/// Time in which projectors caught up, and number of days.
pub(crate) struct Lag {
    pub(crate) days: usize,
    pub(crate) seconds: f64,
}

/// Waits until projectors, of which one must be running, have projected all appended events of a workspace.
///
/// # Errors
/// `Corrupt`, when an unreadable segment stops them; `Unavailable`, when none is at work or none makes progress; errors of the
/// table.
pub(crate) async fn caught_up(table: &Arc<dyn Table>, workspace: &Id) -> Result<Lag> {
    let started = Instant::now();
    let (mut least, mut moved, mut asked) = (usize::MAX, started, started);
    let mut beats = beats(&**table).await?;
    loop {
        let behind = sweep(&**table, workspace).await?;
        let left = behind.logs.len() + behind.evaluations.len();
        if left == 0 {
            return Ok(Lag { days: behind.days, seconds: started.elapsed().as_secs_f64() });
        }
        if left < least {
            (least, moved, asked) = (left, Instant::now(), Instant::now());
        }
        if asked.elapsed() > ASK_EVERY {
            asked = Instant::now();
            stopped(&**table, workspace, &behind, &mut beats).await?;
            if moved.elapsed() > PATIENCE {
                let message =
                    format!("projectors are at work, but {} for a quarter of an hour", waits(&behind));
                return Err(Error::unavailable(message));
            }
            tracing::info!(
                "{}; a large day is evaluated the more rarely the longer that takes",
                waits(&behind)
            );
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Fails with the known cause that stops projectors, if any.
async fn stopped(
    table: &dyn Table,
    workspace: &Id,
    behind: &Behind,
    known: &mut BTreeMap<String, i64>,
) -> Result<()> {
    let version = active::load(table, workspace).await?.version;
    let letters = dead_letters::list_version(table, version, workspace).await?;
    if let Some(letter) = letters.into_iter().find(|letter| letter.state == LetterState::Stopped) {
        return Err(Error::corrupt(format!(
            "the projector is stopped by segment {} of {}: {}; `almanac admin dead-letters list` says what can be done",
            letter.seq, letter.log, letter.reason
        )));
    }
    let now = beats(table).await?;
    let is_alive = now.iter().any(|(worker, beat)| known.get(worker) != Some(beat));
    *known = now;
    match is_alive {
        true => Ok(()),
        false => Err(Error::unavailable(format!("{}, and no projector is at work", waits(behind)))),
    }
}

/// Number of each worker's last heartbeat.
async fn beats(table: &dyn Table) -> Result<BTreeMap<String, i64>> {
    Ok(heartbeats(table).await?.into_iter().map(|one| (one.worker, one.beat)).collect())
}

/// Describes the waiting work in words.
fn waits(behind: &Behind) -> String {
    let logs = behind.logs.keys().map(|log| format!("{log} to be folded"));
    let days = behind.evaluations.iter().map(|day| format!("{} to be evaluated", day.day));
    let all: Vec<String> = logs.chain(days).collect();
    let named = all[..all.len().min(MAX_NAMED)].join(", ");
    match (all.len(), all.len().saturating_sub(MAX_NAMED)) {
        (1, _) => format!("{named} waits"),
        (_, 0) => format!("{named} wait"),
        (_, more) => format!("{named} and {more} more wait"),
    }
}

#[cfg(test)]
mod tests {
    use event::{ErrorKind, Kind, Task};

    use super::*;
    use crate::Embedded;

    #[tokio::test]
    async fn waiting_without_projector_reports_its_absence() {
        let folder = tempfile::tempdir().unwrap();
        let almanac = Embedded::open(&folder.path().join("almanac.db")).unwrap();
        let workspace = almanac.register("credit/prod", "risk", &Task::Regression, "v1").await.unwrap();
        let prediction =
            r#"{"key":"loan-1","predicted_at":"2026-11-20T02:00:00Z","release":"v1","value":3.5}"#;
        almanac.append("credit/prod", Kind::Predictions, prediction.as_bytes(), None).await.unwrap();
        tokio::time::pause();
        let error = caught_up(almanac.table(), workspace.id()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("day#2026-11-20/p/00 to be folded"), "{error}");
        assert!(error.to_string().ends_with("and no projector is at work"), "{error}");
    }

    #[test]
    fn what_waits_is_named_up_to_three() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let log = |lane| log::key::LogId {
            workspace: workspace.clone(),
            day: "2026-06-01".parse().unwrap(),
            kind: Kind::Predictions,
            lane,
        };
        let behind =
            |lanes: u8| Behind { logs: (0..lanes).map(|lane| (log(lane), 1)).collect(), ..Behind::default() };
        assert_eq!(waits(&behind(1)), "day#2026-06-01/p/00 to be folded waits");
        assert!(waits(&behind(2)).ends_with("day#2026-06-01/p/01 to be folded wait"));
        assert!(waits(&behind(9)).ends_with("day#2026-06-01/p/02 to be folded and 6 more wait"));
    }
}
