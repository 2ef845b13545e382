//! `almanac status`: the lag of projections, and warnings of the last days; `GET /v1/workers`: the workers by their heartbeats.

use std::sync::Arc;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use catalog::Catalog;
use event::{Clock, Right, Timestamp};
use projector::{
    heartbeat::{Heartbeat, heartbeats},
    status::{Status, WorkspaceStatus, status},
    warnings::{Warning, Warnings},
};
use serde_json::{Value, json};
use table::Table;
use web::{Problem, RequiredPermission, Routes};

use crate::{
    config::Config,
    open, openapi,
    output::{Lines, ShowFormat},
};

pub(crate) async fn command(config: &Config, format: ShowFormat) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let now = Clock::system().now();
    let status = status(&*table, &Catalog::new(table.clone()), now).await?;
    match format {
        ShowFormat::Table => print!("{}", text(&status, now)),
        ShowFormat::Json => println!("{:#}", document(&status, now)),
    }
    Ok(())
}

fn ago(now: Timestamp, at: Timestamp) -> String {
    format!("{:.0} s ago", seconds(now, at))
}

fn text(status: &Status, now: Timestamp) -> String {
    let mut workspaces = Lines::new(&[
        "WORKSPACE",
        "version",
        "lag",
        "oldest",
        "dirty days",
        "to evaluate",
        "dead letters",
        "unwritten",
        "skipped",
        "merged up to",
    ]);
    for one in &status.workspaces {
        workspaces.add(vec![
            one.path.clone(),
            version(one),
            format!("{} segments", one.lag_segments),
            format!("{:.0} s", one.lag_seconds),
            one.dirty_days.to_string(),
            one.unevaluated_days.to_string(),
            one.dead_letters.to_string(),
            one.unwritten.to_string(),
            one.skipped.to_string(),
            one.compacted.last_day().map_or_else(|| "-".into(), |day| day.to_string()),
        ]);
    }
    let mut workers = Lines::new(&["WORKER", "heartbeat", "shards", "dirty days", "oldest", "CAS retries"]);
    for one in &status.workers {
        workers.add(vec![
            one.worker.clone(),
            ago(now, one.at),
            one.shards.to_string(),
            one.dirty.to_string(),
            format!("{:.0} s", one.oldest_ms as f64 / 1e3),
            one.retries.to_string(),
        ]);
    }
    let mut leases = Lines::new(&["LEASE", "state", "owner", "epoch", "written"]);
    for one in &status.leases {
        leases.add(vec![
            one.shard.clone(),
            if one.is_done { "done" } else { "open" }.to_owned(),
            one.owner.clone().unwrap_or_else(|| "nobody".into()),
            one.epoch.to_string(),
            ago(now, one.at),
        ]);
    }
    let sweeper = status.sweeper.as_deref().unwrap_or("nobody");
    let warnings = warning_lines(status);
    format!("{workspaces}{warnings}\n{workers}\n{leases}\nswept now and then by {sweeper}\n")
}

/// Lists the warnings of all workspaces; empty if there are none.
fn warning_lines(status: &Status) -> String {
    let mut lines = Lines::new(&["WARNING", "days", "what"]);
    for one in &status.workspaces {
        for (warnings, warning) in of_workspace(one) {
            let days = format!("{} to {}", warnings.from, warnings.to);
            lines.add(vec![one.path.clone(), days, warning.to_string()]);
        }
    }
    if lines.is_empty() { String::new() } else { format!("\n{lines}") }
}

fn of_workspace(one: &WorkspaceStatus) -> impl Iterator<Item = (&Warnings, &Warning)> {
    one.warnings.iter().flat_map(|warnings| warnings.found.iter().map(move |warning| (warnings, warning)))
}

fn warning_document((of, warning): (&Warnings, &Warning)) -> Value {
    let mut document = json!({"kind": warning.kind(), "from": of.from.to_string(), "to": of.to.to_string()});
    let more = match warning {
        Warning::NeverPositive { release, positive_label, outcomes, labels } => json!({
            "release": release,
            "positive_label": positive_label,
            "outcomes": outcomes,
            "labels": labels,
        }),
        Warning::Orphaned { orphaned, outcomes } => json!({"orphaned": orphaned, "outcomes": outcomes}),
        Warning::Unreadable { day, reason } => json!({"day": day.to_string(), "reason": reason}),
    };
    if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
        document.extend(more);
    }
    document
}

fn version(of: &WorkspaceStatus) -> String {
    match of.building {
        Some(building) => format!("v{} (v{building} is built)", of.version),
        None => format!("v{}", of.version),
    }
}

fn document(status: &Status, now: Timestamp) -> Value {
    let workspaces = status.workspaces.iter().map(|one| {
        json!({
            "path": one.path,
            "id": one.id.as_str(),
            "version": one.version,
            "building": one.building,
            "lag_segments": one.lag_segments,
            "lag_seconds": one.lag_seconds,
            "dirty_days": one.dirty_days,
            "unevaluated_days": one.unevaluated_days,
            "dead_letters": one.dead_letters,
            "unwritten": one.unwritten,
            "skipped": one.skipped,
            "compaction": {
                "until": one.compacted.last_day().map(|day| day.to_string()),
                "merged_items": one.compacted.merged,
                "deleted_items": one.compacted.deleted,
            },
            "warnings": of_workspace(one).map(warning_document).collect::<Vec<_>>(),
        })
    });
    let workers = status.workers.iter().map(|one| worker_document(one, now));
    let leases = status.leases.iter().map(|one| {
        json!({
            "shard": one.shard,
            "state": if one.is_done { "done" } else { "open" },
            "owner": one.owner,
            "epoch": one.epoch,
            "written_seconds_ago": seconds(now, one.at),
        })
    });
    json!({
        "workspaces": workspaces.collect::<Vec<_>>(),
        "workers": workers.collect::<Vec<_>>(),
        "leases": leases.collect::<Vec<_>>(),
        "sweeper": status.sweeper,
    })
}

/// Route of the workers of a table, by their heartbeats.
pub(crate) fn routes(table: Arc<dyn Table>, clock: Clock) -> Routes {
    let show = move || {
        let (table, clock) = (Arc::clone(&table), clock.clone());
        async move { all_workers(&*table, clock.now()).await }
    };
    Routes::new().add(openapi::workers(), RequiredPermission::server(Right::Read), show)
}

async fn all_workers(table: &dyn Table, now: Timestamp) -> Result<Response, Problem> {
    let found = heartbeats(table).await?;
    let workers: Vec<Value> = found.iter().map(|one| worker_document(one, now)).collect();
    Ok(Json(json!({ "workers": workers })).into_response())
}

/// JSON document of a worker.
fn worker_document(one: &Heartbeat, now: Timestamp) -> Value {
    json!({
        "worker": one.worker,
        "heartbeat_seconds_ago": seconds(now, one.at),
        "shards": one.shards,
        "dirty_days": one.dirty,
        "oldest_dirty_seconds": one.oldest_ms as f64 / 1e3,
        "cas_retries": one.retries,
        "layout": one.layout,
    })
}

/// Age in seconds.
fn seconds(now: Timestamp, at: Timestamp) -> f64 {
    ((now.micros() - at.micros()) as f64 / 1e6).max(0.0)
}

#[cfg(test)]
mod tests {
    use event::Id;
    use log::compacted::Compacted;
    use projector::{heartbeat::Heartbeat, lease::Lease};

    use super::*;

    #[test]
    fn status_renders_as_text_and_json() {
        let now = Timestamp::parse("2026-06-10T00:00:30Z").unwrap();
        let at = Timestamp::parse("2026-06-10T00:00:28Z").unwrap();
        let workspace = WorkspaceStatus {
            path: "flights/nyc".into(),
            id: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            version: 1,
            building: Some(2),
            lag_segments: 12,
            lag_seconds: 3.4,
            dirty_days: 2,
            unevaluated_days: 1,
            dead_letters: 1,
            unwritten: 1,
            skipped: 0,
            compacted: Compacted {
                until: [(2, "2026-06-08".parse().unwrap()), (9, "2026-06-01".parse().unwrap())].into(),
                merged: 3,
                deleted: 812,
            },
            warnings: Some(Warnings {
                from: "2026-06-03".parse().unwrap(),
                to: "2026-06-09".parse().unwrap(),
                found: vec![
                    Warning::NeverPositive {
                        release: "v1".into(),
                        positive_label: "late".into(),
                        outcomes: 40,
                        labels: vec!["0".into(), "1".into()],
                    },
                    Warning::Orphaned { orphaned: 12, outcomes: 400 },
                    Warning::Unreadable {
                        day: "2026-06-04".parse().unwrap(),
                        reason: "it is of a newer Almanac".into(),
                    },
                ],
            }),
        };
        let lease = Lease {
            stream: "feed".into(),
            shard: "sqlite".into(),
            parent: None,
            owner: Some("w1".into()),
            epoch: 3,
            checkpoint: None,
            is_done: false,
            at,
        };
        let worker = Heartbeat { worker: "w1".into(), at, shards: 1, dirty: 2, ..Heartbeat::default() };
        let status = Status {
            workspaces: vec![workspace],
            workers: vec![worker],
            leases: vec![lease],
            sweeper: Some("w1".into()),
        };
        insta::assert_snapshot!(text(&status, now));
        insta::assert_snapshot!(format!("{:#}", document(&status, now)));
    }
}
