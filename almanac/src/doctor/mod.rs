//! `almanac admin doctor`: checks everything that an installation needs, and prints a remedy for each fault.

use std::{path::Path, sync::Arc, time::Duration};

use catalog::Catalog;
use clap::Args;
use event::{Clock, Error, Result, Timestamp};
use log::{key, layout};
use projector::status::{Status, ahead, status};
use serde_json::{Value, json};
use table::{Position, Table, engine, probe, probe_write};
use tokio::time::timeout;

use crate::{
    config::Config,
    exit::Exit,
    open,
    output::{Lines, ShowFormat, Shown, print_json},
};

mod judge;

/// Maximum time of one question to the table: longer than a SQLite file waits for another process (10 s), so that its own error
/// is reported.
const WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    shown: Shown,
}

/// State of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// In order.
    Ok,
    /// Works, and needs attention.
    Warning,
    /// Does not work, or soon will not.
    Fault,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// Name of the check, such as `clock`.
    check: &'static str,
    /// State of the thing.
    level: Level,
    /// Observation.
    what: String,
    /// Remedy; empty if all is well.
    remedy: String,
}

impl Finding {
    fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, what: what.into(), remedy: String::new() }
    }

    fn warning(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, what: what.into(), remedy: remedy.into() }
    }

    fn fault(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Fault, what: what.into(), remedy: remedy.into() }
    }

    fn document(&self) -> Value {
        let remedy = Some(&self.remedy).filter(|remedy| !remedy.is_empty());
        json!({"check": self.check, "level": self.level.name(), "what": self.what, "remedy": remedy})
    }
}

/// Prints the findings. A refused configuration is a finding as well.
pub(crate) async fn command(config: Result<Config>, args: &DoctorArgs) -> anyhow::Result<Exit> {
    let findings = examine(config).await;
    let is_well = findings.iter().all(|finding| finding.level < Level::Fault);
    match args.shown.format {
        ShowFormat::Table => print!("{}", text(&findings)),
        ShowFormat::Json => {
            let findings: Vec<_> = findings.iter().map(Finding::document).collect();
            print_json(&json!({ "is_well": is_well, "findings": findings }));
        }
    }
    Ok(Exit::of_check(is_well))
}

fn text(findings: &[Finding]) -> String {
    let mut lines = Lines::new(&["CHECK", "level", "what"]);
    for finding in findings {
        lines.add(vec![finding.check.into(), finding.level.name().into(), finding.what.clone()]);
        if !finding.remedy.is_empty() {
            lines.add(vec![String::new(), "to do".into(), finding.remedy.clone()]);
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    format!("{lines}\nfaults: {}, warnings: {}\n", count(Level::Fault), count(Level::Warning))
}

/// Runs all checks that do not depend on a failed one.
async fn examine(config: Result<Config>) -> Vec<Finding> {
    let config = match config {
        Ok(config) => config,
        Err(error) => return vec![judge::refused(&error)],
    };
    let store = &config.store;
    let mut findings =
        vec![Finding::ok("settings", format!("the store is {} ({})", store.value, store.origin))];
    let file = store.value.file();
    findings.extend(file.and_then(disk));
    let shape = match shape(&config).await {
        Ok(shape) => shape,
        Err(error) => {
            findings.push(judge::no_table(&error));
            return findings;
        }
    };
    let (table, is_usable) = judge::table(&shape);
    findings.extend(table);
    if !is_usable {
        return findings;
    }
    findings.extend(judge::safety(&shape));
    match open::existing(&config).await {
        Ok(table) => findings.extend(of_table(&table, file.is_some(), &shape).await),
        Err(error) => findings.push(judge::no_table(&error)),
    }
    findings
}

/// Reads the engine's description of the table, which must exist.
async fn shape(config: &Config) -> Result<engine::Lines> {
    let store = &config.store.value;
    if store.file().is_some_and(|file| !file.exists()) {
        // The error says where a table was looked for, and how to make one.
        open::existing(config).await?;
    }
    store.engine.describe(&store.place, &config.surroundings()).await
}

/// Checks the free space of a file's disk.
fn disk(file: &Path) -> Option<Finding> {
    // A file that does not exist yet: use the nearest existing folder.
    let folder = file.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.is_dir())?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let found = rustix::fs::statvfs(folder);
    let free = found.map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    Some(judge::disk(free.map_err(|error| error.to_string()), &folder.display().to_string()))
}

/// Checks an existing table. `is_file`: the clock of its engine is that of this machine.
async fn of_table(table: &Arc<dyn Table>, is_file: bool, shape: &engine::Lines) -> Vec<Finding> {
    let clock = Clock::system();
    let tries = [
        ("read", within(probe(&**table, &key::probe())).await),
        ("write", within(probe_write(&**table, key::write_probe(), clock.now())).await),
    ];
    let engine_time = table.engine_time().filter(|_| !is_file);
    let mut findings = vec![judge::permissions(&tries), judge::clock(engine_time, clock.now())];
    findings.push(judge::stream(within(shards(&**table)).await));
    findings.extend(progress(table, &clock, shape).await);
    findings
}

/// Checks the progress of projections, by the clock from before the read: a heartbeat that is young then may be old when a slow
/// table has answered.
async fn progress(table: &Arc<dyn Table>, clock: &Clock, shape: &engine::Lines) -> Vec<Finding> {
    let now = clock.now();
    let status = match status(&**table, &Catalog::new(Arc::clone(table)), now).await {
        Ok(status) => status,
        Err(error) => return vec![judge::no_status(&error)],
    };
    let mut findings = judge::projector(&status, now);
    findings.push(judge::versions(&status, shape));
    findings.extend(times(&**table, &status, clock.now()).await.ok());
    findings.extend(layout::load(&**table).await.ok().as_ref().map(judge::layout));
    findings
}

/// Checks for logs ahead of the clock.
async fn times(table: &dyn Table, status: &Status, now: Timestamp) -> Result<Finding> {
    let mut found = Vec::new();
    for workspace in &status.workspaces {
        let furthest = ahead(table, &workspace.id, now).await?;
        found.extend(furthest.map(|(log, by)| (workspace.path.clone(), log, by)));
    }
    Ok(judge::times(&found))
}

/// Counts the shards of the change feed, and reads the last.
async fn shards(table: &dyn Table) -> Result<usize> {
    let shards = table.shards().await?;
    if let Some(last) = shards.last() {
        table.changes(&last.id, &Position::Latest, Duration::ZERO).await?;
    }
    Ok(shards.len())
}

async fn within<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| {
        Error::unavailable(format!(
            "there is no answer within {} s; see how busy the table, its disk and the way to it are, and try again",
            WITHIN.as_secs()
        ))
    };
    timeout(WITHIN, asked).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use table::{Condition, Item, sqlite::SqliteTable};

    use super::*;

    #[tokio::test]
    async fn slow_table_does_not_make_projector_dead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let table: Arc<dyn Table> = Arc::new(SqliteTable::open(&path, Clock::system()).unwrap());
        let start = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let mut heartbeat = Item::new(key::worker("w1")).with("v", 1).with("at", start.to_string());
        for metric in ["beat", "shards", "dirty", "oldest_ms", "retries", "layout"] {
            heartbeat = heartbeat.with(metric, 1);
        }
        table.put(heartbeat, Condition::None).await.unwrap();
        // Each look at the clock advances it by a minute.
        let minutes = AtomicI64::new(0);
        let clock = Clock::from_fn(move || start.plus_seconds(60 * minutes.fetch_add(1, Ordering::Relaxed)));
        let findings = progress(&table, &clock, &Vec::new()).await;
        let found = findings.iter().find(|finding| finding.check == "projector").unwrap();
        assert_eq!((found.level, &*found.what), (Level::Ok, "1 at work"));
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_is_reported_as_slow_not_missing_rights() {
        let never = within(std::future::pending()).await;
        let found = judge::permissions(&[("read", Ok(())), ("write", never)]);
        assert_eq!(found.what, "no write: there is no answer within 15 s");
        assert!(found.remedy.starts_with("see how busy the table"), "{found:?}");
        let never = within(std::future::pending()).await;
        assert_eq!(
            judge::stream(never).what,
            "the change feed cannot be read: there is no answer within 15 s"
        );
    }
}
