//! Breakdowns in items beside the rollup: a crash between the two, a damaged one, many releases.

use std::{collections::BTreeSet, sync::Arc};

use catalog::{Catalog, Workspace};
use event::{Clock, Kind, Task};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::{
    key::{self, Breakdown, By, Counted, LogId},
    projection::PROJECTION_VERSION,
};
use projector::{Report, WorkspaceDay, project};
use table::{Condition, Item, Query, Table, item::Value, query_all};
use tests::{engine::Fresh, register::release_of, world::at};

struct Bench {
    table: Arc<dyn Table>,
    workspace: Workspace,
    day: WorkspaceDay,
    _fresh: Fresh,
}

fn clock() -> Clock {
    let now = at("2026-06-10T00:00:00Z");
    Clock::from_fn(move || now)
}

impl Bench {
    async fn new(releases: usize) -> Self {
        let fresh = Fresh::sqlite(clock());
        let table = Arc::clone(&fresh.table);
        let catalog = Catalog::new(Arc::clone(&table));
        let now = clock().now();
        let workspace = catalog.ensure_workspace("sim/one", now).await.unwrap();
        let task = Task::Binary { positive_label: "1".into() };
        for model in ["a", "b"] {
            catalog.ensure_model(workspace.id(), model, &task, now).await.unwrap();
        }
        for release in 0..releases {
            let model = if release % 2 == 0 { "a" } else { "b" };
            let spec = release_of(model, &format!("v{release}"));
            catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
        }
        let day = WorkspaceDay { workspace: workspace.id().clone(), day: "2026-06-01".parse().unwrap() };
        Self { table, workspace, day, _fresh: fresh }
    }

    async fn append(&self, kind: Kind, rows: impl Iterator<Item = String>) {
        let body = rows.collect::<Vec<_>>().join("\n");
        let events = read_ndjson(kind, body.as_bytes(), clock().now()).unwrap();
        let ingest = Ingest::new(Arc::clone(&self.table), clock());
        ingest.submit(&self.workspace, events, None, Remember::Week).await.unwrap();
    }

    async fn project(&self) {
        let log = |kind| LogId { workspace: self.day.workspace.clone(), day: self.day.day, kind, lane: 0 };
        let logs: BTreeSet<LogId> = Kind::ALL.map(log).into();
        project::project(&*self.table, PROJECTION_VERSION, &self.day, &logs).await.unwrap();
    }

    async fn verify(&self) -> Report {
        projector::verify(&self.table, self.workspace.id(), |_, _| {}).await.unwrap()
    }

    fn rollup(&self) -> table::Key {
        key::rollup(self.workspace.id(), 1, self.day.day)
    }

    /// All projections without their number of writes.
    async fn projections(&self) -> Vec<Item> {
        let range = key::all_projections(self.workspace.id(), 1);
        let mut items = query_all(&*self.table, Query::table(range)).await.unwrap();
        items.iter_mut().for_each(|item| drop(item.attributes.remove("ver")));
        items
    }
}

fn prediction(row: usize, release: usize) -> String {
    format!(
        r#"{{"key":"k{row}","predicted_at":"2026-06-01T04:30:00Z","release":"v{release}","score":0.{row},"latency_ms":{row}.5,"tags":{{"branch":"b{}"}}}}"#,
        row % 3
    )
}

fn metric(row: usize) -> String {
    format!(
        r#"{{"name":"m{}","measured_at":"2026-06-01T0{}:30:00Z","value":{row},"release":"v0"}}"#,
        row % 4,
        row % 10
    )
}

#[tokio::test]
async fn part_ahead_of_rollup_counts_once() {
    let bench = Bench::new(1).await;
    bench.append(Kind::Predictions, (0..10).map(|row| prediction(row, 0))).await;
    bench.append(Kind::Metrics, (0..10).map(metric)).await;
    bench.project().await;
    let before = bench.table.get(&bench.rollup()).await.unwrap().unwrap();
    bench.append(Kind::Predictions, (10..30).map(|row| prediction(row, 0))).await;
    bench.project().await;
    let expected = bench.projections().await;

    // State after a crash before the rollup was written.
    bench.table.put(before, Condition::None).await.unwrap();
    let report = bench.verify().await;
    assert_eq!((report.faults.clone(), report.behind), (vec![], 1), "{report}");
    bench.project().await;
    assert_eq!(bench.projections().await, expected);

    // State after a crash when only one part was written.
    let tag = key::breakdown(bench.workspace.id(), 1, bench.day.day, Breakdown::of(By::Tag, "branch"));
    for item in
        query_all(&*bench.table, Query::table(key::all_projections(bench.workspace.id(), 1))).await.unwrap()
    {
        if item.key != tag {
            bench.table.delete(&item.key, Condition::None).await.unwrap();
        }
    }
    bench.project().await;
    assert_eq!(bench.projections().await, expected);
    let report = bench.verify().await;
    assert_eq!(report.faults, Vec::<String>::new());
    // v0, four metrics, one tag.
    assert_eq!(report.parts, 6);
}

#[tokio::test]
async fn a_damaged_or_missing_part_is_a_fault() {
    let bench = Bench::new(1).await;
    bench.append(Kind::Predictions, (0..10).map(|row| prediction(row, 0))).await;
    bench.project().await;
    assert_eq!(bench.verify().await.faults, Vec::<String>::new());
    let part = key::breakdown(bench.workspace.id(), 1, bench.day.day, Breakdown::of(By::Tag, "branch"));
    let sound = bench.table.get(&part).await.unwrap().unwrap();
    let other = sound.text("state").unwrap().replacen("\"n\":4", "\"n\":5", 1);
    assert_ne!(other, sound.text("state").unwrap());
    bench.table.put(sound.clone().with("state", other), Condition::None).await.unwrap();
    let faults = bench.verify().await.faults.join("\n");
    assert!(
        faults.contains("the breakdown tag/") && faults.contains("not what its segments fold to"),
        "{faults}"
    );
    bench.table.put(sound.with("state", "{}"), Condition::None).await.unwrap();
    assert!(bench.verify().await.faults.join("\n").contains("a breakdown by tag cannot be read"));
    bench.table.delete(&part, Condition::None).await.unwrap();
    assert!(bench.verify().await.faults.join("\n").contains("is not there"));
}

#[tokio::test]
async fn six_hundred_releases_are_counted_one_by_one() {
    const RELEASES: usize = 600;
    let bench = Bench::new(RELEASES).await;
    for times in 1..=2i64 {
        bench
            .append(Kind::Predictions, (0..RELEASES).map(|row| prediction(row + times as usize * 1000, row)))
            .await;
        bench.project().await;
        let catalog = Catalog::new(Arc::clone(&bench.table));
        let page = catalog.page_with_counts(bench.workspace.id()).await.unwrap();
        for release in 0..RELEASES {
            let counts = page.counts_of(&Counted::Release(format!("v{release}"))).unwrap();
            assert_eq!(counts["predictions"], times, "v{release}");
        }
        assert_eq!(page.model_counts("a")["predictions"], 300 * times);
        assert_eq!(page.counts_of(&Counted::Workspace).unwrap()["predictions"], 600 * times);
    }
    let rollup = bench.table.get(&bench.rollup()).await.unwrap().unwrap();
    assert!(rollup.size() < 20_000, "{} bytes", rollup.size());
    assert_eq!(rollup.attributes["applied"], Value::M([("p/00".to_owned(), Value::from(2))].into()));
    assert_eq!(bench.verify().await.faults, Vec::<String>::new());
}
