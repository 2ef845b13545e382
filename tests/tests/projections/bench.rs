//! A workspace on a table of its own, whose log is appended to by hand.

use std::{collections::BTreeSet, sync::Arc};

use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{Clock, Column, Columns, Day, Id, Kind, Task, Timestamp, Values};
use log::{
    batch::{BatchId, BatchPart},
    counted::{self, CountedTime},
    evaluated::{self, At, Head},
    key::LogId,
    segment_item::Segment,
};
use projector::{
    Report, WorkspaceDay, evaluate::evaluate, expire::expire, project::project, sweep::sweep_version,
};
use table::{
    Condition, Table,
    dynamodb::{self, DynamoTable},
    sqlite::SqliteTable,
};
use tests::local::fresh_table;

/// A test for each of the named functions of a [`Bench`], on SQLite and on DynamoDB Local.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::Bench::sqlite().await).await;
            })*
        }

        mod dynamodb_local {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::Bench::dynamodb_local().await).await;
            })*
        }
    };
}

pub(crate) use on_both;

pub(crate) const DAY: &str = "2026-06-01";

pub(crate) fn day() -> Day {
    DAY.parse().unwrap()
}

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) table: Arc<dyn Table>,
    pub(crate) catalog: Catalog,
    pub(crate) workspace: Workspace,
    pub(crate) _folder: Option<Arc<tempfile::TempDir>>,
}

impl Bench {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        Self::of(Arc::new(table), Some(Arc::new(folder))).await
    }

    pub(crate) async fn dynamodb_local() -> Self {
        let config = fresh_table(Clock::system());
        dynamodb::create(&config).await.unwrap();
        Self::of(Arc::new(DynamoTable::connect(config).await.unwrap()), None).await
    }

    /// `credit/prod` with the binary model `m` and its release `v0`.
    async fn of(table: Arc<dyn Table>, folder: Option<Arc<tempfile::TempDir>>) -> Self {
        let catalog = Catalog::new(Arc::clone(&table));
        let now = at("2026-06-01T00:00:00Z");
        let workspace = catalog.ensure_workspace("credit/prod", now).await.unwrap();
        let task = Task::Binary { positive_label: "1".into() };
        catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
        let bench = Self { table, catalog, workspace, _folder: folder };
        bench.register("v0").await;
        bench
    }

    pub(crate) async fn register(&self, name: &str) {
        let spec =
            ReleaseSpec { name: name.into(), model: "m".into(), configuration: None, environment: None };
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

    /// Appends a segment of one event for each release: a prediction, or what it is judged by.
    pub(crate) async fn append(&self, kind: Kind, seq: u64, releases: &[String]) {
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
        let columns = Columns { rows: releases.len(), columns };
        let part = BatchPart { batch: BatchId([seq as u8; 16]), first: 0, rows: columns.rows };
        let at = at("2026-06-02T00:00:00Z");
        let segment = Segment::pack(self.log(kind), seq, at, vec![part], &columns).unwrap();
        self.table.put(segment.to_item(), Condition::Absent).await.unwrap();
    }

    /// Three segments of predictions and three of what judges them.
    pub(crate) async fn append_some(&self) {
        for seq in 1..=3 {
            for kind in [Kind::Predictions, Kind::Outcomes] {
                self.append(kind, seq, &["v0".into(), "v0".into()]).await;
            }
        }
    }

    /// Folds and evaluates in a version what is behind in it, as a worker does.
    pub(crate) async fn project(&self, version: u32) {
        let behind = sweep_version(&*self.table, version, self.id()).await.unwrap();
        let logs: BTreeSet<LogId> = behind.logs.into_keys().collect();
        let projection = project(&*self.table, version, &self.workspace_day(), &logs).await.unwrap();
        evaluate(&*self.table, version, &self.workspace_day(), &projection.applied).await.unwrap();
    }

    pub(crate) fn at(&self, version: u32) -> At<'_> {
        At { workspace: self.id(), version, day: day() }
    }

    /// The evaluation of a version.
    pub(crate) async fn evaluation(&self, version: u32) -> Option<(Head, Vec<String>)> {
        evaluated::load(&*self.table, self.at(version)).await.unwrap()
    }

    /// What a sweep deletes long after the day, when the table has counted that long.
    pub(crate) async fn expire(&self) {
        let now = at("2026-07-01T00:00:00Z");
        self.catalog.set_retention(self.id(), Some(2), at("2026-06-20T00:00:00Z")).await.unwrap();
        // The first notices the setting, the second goes by it an hour later.
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
