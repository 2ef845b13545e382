//! A workspace on a table of its own; tests append to its log directly.

use std::{collections::BTreeSet, sync::Arc};

use catalog::{Catalog, Workspace};
use event::{Clock, Column, Columns, Day, Id, Kind, Values};
use log::{
    batch::{BatchId, BatchPart},
    counted::{self, CountedTime},
    evaluated::{self, At, Head},
    key::{self, LogId},
    segment_item::Segment,
};
use projector::{
    Report, WorkspaceDay, evaluate::evaluate, expire::expire, features::sketch, project::project,
    sweep::sweep_version,
};
use table::{Condition, Item, Table, item::Value};
use tests::{
    engine::{Engine, Fresh},
    register::{register, release_of},
    world::at,
};

pub(crate) const DAY: &str = "2026-06-01";

pub(crate) fn day() -> Day {
    DAY.parse().unwrap()
}

#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) table: Arc<dyn Table>,
    pub(crate) catalog: Catalog,
    pub(crate) workspace: Workspace,
    pub(crate) _fresh: Fresh,
}

impl Bench {
    /// `credit/prod` with the binary model `m` and its release `v0`, on a new table of an engine.
    pub(crate) async fn on(engine: Engine) -> Self {
        let fresh = engine.fresh(Clock::system()).await;
        let table = Arc::clone(&fresh.table);
        let workspace = register(&table, "credit/prod", &["v0"], at("2026-06-01T00:00:00Z")).await;
        Self { catalog: Catalog::new(Arc::clone(&table)), table, workspace, _fresh: fresh }
    }

    pub(crate) async fn register(&self, name: &str) {
        let spec = release_of("m", name);
        self.catalog.ensure_release(self.id(), &spec, at("2026-06-01T00:00:00Z")).await.unwrap();
    }

    pub(crate) fn id(&self) -> &Id {
        self.workspace.id()
    }

    pub(crate) fn workspace_day(&self) -> WorkspaceDay {
        WorkspaceDay { workspace: self.id().clone(), day: day() }
    }

    pub(crate) fn log(&self, kind: Kind) -> LogId {
        LogId { workspace: self.id().clone(), day: day(), kind, lane: 0 }
    }

    /// Appends a segment of one event for each release: a prediction, or the outcome that judges it.
    pub(crate) async fn append(&self, kind: Kind, seq: u64, releases: &[String]) {
        self.append_with(kind, seq, releases, Vec::new()).await;
    }

    /// Appends such a segment with more columns.
    pub(crate) async fn append_with(&self, kind: Kind, seq: u64, releases: &[String], more: Vec<Column>) {
        let texts = |text: &dyn Fn(usize) -> String| {
            let all: Vec<String> = (0..releases.len()).map(text).collect();
            Values::Text(all.iter().map(String::as_str).collect())
        };
        let times = (0..releases.len()).map(|row| day().start().micros() + seq as i64 * 1_000 + row as i64);
        let mut columns = vec![
            Column::new("key", texts(&|row| format!("{seq}-{row}"))),
            Column::new(kind.time_field(), Values::Time(times.collect())),
        ];
        match kind {
            Kind::Predictions => {
                columns.push(Column::new("release", texts(&|row| releases[row].clone())));
                let scores = (0..releases.len()).map(|row| (row * 7_919 % 9_973) as f64 / 9_973.0);
                columns.push(Column::new("score", Values::Float(scores.collect())));
            }
            _ => columns.push(Column::new("label", texts(&|row| (row % 2).to_string()))),
        }
        columns.extend(more);
        let columns = Columns { rows: releases.len(), columns };
        let part = BatchPart { batch: BatchId([seq as u8; 16]), first: 0, rows: columns.rows };
        let at = at("2026-06-02T00:00:00Z");
        let segment = Segment::pack(self.log(kind), seq, at, vec![part], &columns).unwrap();
        self.table.put(segment.to_item(), Condition::Absent).await.unwrap();
    }

    /// Appends three segments of predictions and three of their outcomes.
    pub(crate) async fn append_some(&self) {
        for seq in 1..=3 {
            for kind in [Kind::Predictions, Kind::Outcomes] {
                self.append(kind, seq, &["v0".into(), "v0".into()]).await;
            }
        }
    }

    /// Makes a segment of predictions unreadable; returns it undamaged.
    pub(crate) async fn damage(&self, seq: u64) -> Item {
        let item = self.table.get(&key::segment(&self.log(Kind::Predictions), seq)).await.unwrap().unwrap();
        let damaged = item.clone().with("data", Value::B(vec![1, 2, 3]));
        self.table.put(damaged, Condition::Exists).await.unwrap();
        item
    }

    /// Folds and evaluates all that is behind in a version, as a worker does.
    pub(crate) async fn project(&self, version: u32) {
        let behind = sweep_version(&*self.table, version, self.id()).await.unwrap();
        let logs: BTreeSet<LogId> = behind.logs.into_keys().collect();
        let projection = project(&*self.table, version, &self.workspace_day(), &logs).await.unwrap();
        evaluate(&*self.table, version, &self.workspace_day(), &projection.applied).await.unwrap();
        sketch(&*self.table, version, &self.workspace_day(), &projection.applied).await.unwrap();
    }

    pub(crate) fn at(&self, version: u32) -> At<'_> {
        At { workspace: self.id(), version, day: day() }
    }

    /// Evaluation of a version.
    pub(crate) async fn evaluation(&self, version: u32) -> Option<(Head, Vec<String>)> {
        evaluated::load(&*self.table, self.at(version)).await.unwrap()
    }

    /// Deletes as a sweep does long after the day, once the table has counted that time.
    pub(crate) async fn expire(&self) {
        let now = at("2026-07-01T00:00:00Z");
        self.catalog.set_retention(self.id(), Some(2), at("2026-06-20T00:00:00Z")).await.unwrap();
        // The first notices the setting, the second applies it an hour later.
        for later in [0, 60] {
            let before = counted::load(&*self.table).await.unwrap();
            let (ver, minutes) = before.map_or((0, 0), |time| (time.ver, time.minutes));
            let time = CountedTime { ver: ver + 1, minutes: minutes + later, at: now };
            time.write(&*self.table).await.unwrap();
            expire(&*self.table, &self.catalog, self.id(), now).await.unwrap();
        }
    }

    pub(crate) async fn verify(&self) -> Report {
        projector::verify(&self.table, self.id(), |_, _| {}).await.unwrap()
    }
}
