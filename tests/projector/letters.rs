//! Projections that cannot be written.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use event::{Clock, ErrorKind, Kind};
use log::key::{self, OfDay, OfWorkspace};
use projector::{
    Options, Projector,
    dead_letters::{self, DeadLetter, Refused, Stopped},
    retry::{self, Retried},
    status::status,
    undone, unwritten,
};
use table::{Condition, Item, Table};
use tests::{
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
    world::at,
};
use tokio::sync::oneshot;

use crate::bench::{Bench, day};

on_both_engines!(
    Bench::on:
    unwritable_evaluation_is_dead_letter_until_written,
    unreadable_rollup_is_dead_letter_until_written,
    failed_workspace_work_is_dead_letter_until_done,
    restored_segment_is_folded_and_loses_its_letter,
    sweep_deletes_letter_of_folded_segment,
);

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = tokio::time::Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A worker, and its stop.
pub(crate) fn work(table: &Arc<dyn Table>) -> (Projector, oneshot::Sender<()>) {
    let options = Options { period: Duration::from_millis(100), ..Options::new(Clock::system()) };
    let projector = Projector::new(Arc::clone(table), options);
    let (stop, stopped) = oneshot::channel();
    let runs = projector.clone();
    tokio::spawn(async move { runs.run(async move { _ = stopped.await }).await });
    (projector, stop)
}

impl Bench {
    /// Projections that cannot be written, by name.
    async fn unwritten(&self) -> Vec<String> {
        let letters = unwritten::list(&*self.table, self.id()).await.unwrap();
        letters.iter().map(ToString::to_string).collect()
    }
}

async fn unwritable_evaluation_is_dead_letter_until_written(bench: Bench) {
    bench.append_some().await;
    let is_too_large = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&is_too_large);
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&bench.table), move |asked| match asked {
        Asked::Write(key) if key.sk.ends_with("/eval") && refuses.load(Ordering::Relaxed) => {
            Turn::Fail(ErrorKind::Invalid)
        }
        _ => Turn::Pass,
    });
    let (worker, stop) = work(&table);
    until("the letter", async || bench.unwritten().await == ["2026-06-01/evaluation"]).await;
    until("its metric", async || worker.health().unwritten == 1).await;
    let health = worker.health();
    let example = health.unwritten_example.unwrap();
    assert!(example.starts_with("the evaluation of ") && example.ends_with("fails this call"), "{example}");
    until("the count of the sweeper", async || worker.health().stopped == 1).await;
    let now = at("2026-06-02T00:00:00Z");
    let found = status(&*bench.table, &bench.catalog, now).await.unwrap();
    assert_eq!((found.workspaces[0].unwritten, found.workspaces[0].dead_letters), (1, 0));
    // The rollup exists, and unreadable segments are listed elsewhere.
    assert_eq!(dead_letters::list(&*bench.table, bench.id()).await.unwrap(), []);
    assert_eq!(bench.verify().await.rollups, 1);
    let letter = unwritten::find(&*bench.table, &bench.workspace_day(), OfDay::Evaluation).await.unwrap();
    let refused = retry::projection(&*table, &letter).await.unwrap();
    assert!(matches!(refused, Retried::Refused(reason) if reason.ends_with("fails this call")));
    stop.send(()).unwrap();
    // The obstacle is gone: the first sweep of a worker tries again.
    is_too_large.store(false, Ordering::Relaxed);
    let (worker, stop) = work(&table);
    until("the evaluation", async || bench.unwritten().await.is_empty()).await;
    assert_eq!(bench.evaluation(1).await.unwrap().0.rows, Some(12));
    until("nothing to tell of", async || worker.health().unwritten == 0).await;
    stop.send(()).unwrap();
}

async fn unreadable_rollup_is_dead_letter_until_written(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    let rollup = bench.table.get(&key::rollup(bench.id(), 1, day())).await.unwrap().unwrap();
    let broken = rollup.clone().with("state", "{\"v\":99}");
    bench.table.put(broken, Condition::None).await.unwrap();
    bench.append(Kind::Predictions, 4, &["v0".into()]).await;
    let (worker, stop) = work(&bench.table);
    until("the letter", async || bench.unwritten().await == ["2026-06-01/rollup"]).await;
    until("its metric", async || worker.health().unwritten == 1).await;
    stop.send(()).unwrap();
    let letter = unwritten::find(&*bench.table, &bench.workspace_day(), OfDay::Rollup).await.unwrap();
    assert!(letter.reason.contains("its form is version 99"), "{}", letter.reason);
    let refused = retry::projection(&*bench.table, &letter).await.unwrap();
    assert_eq!(refused, Retried::Refused(letter.reason.clone()));
    bench.table.put(rollup, Condition::None).await.unwrap();
    assert_eq!(retry::projection(&*bench.table, &letter).await.unwrap(), Retried::Done);
    assert_eq!(bench.unwritten().await, [""; 0]);
}

async fn failed_workspace_work_is_dead_letter_until_done(bench: Bench) {
    bench.append_some().await;
    let undone = async || {
        let letters = undone::list(&*bench.table, bench.id()).await.unwrap();
        letters.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // A setting of a newer Almanac: nothing may be deleted by it.
    let retention = Item::new(key::retention(bench.id())).with("v", 99).with("ver", 1);
    bench.table.put(retention, Condition::None).await.unwrap();
    let (worker, stop) = work(&bench.table);
    until("the letter", async || undone().await == ["workspace/expiry"]).await;
    until("its metric", async || worker.health().unwritten == 1).await;
    let example = worker.health().unwritten_example.unwrap();
    assert!(example.starts_with("the expiry of "), "{example}");
    until("the count of the sweeper", async || worker.health().stopped == 1).await;
    let now = at("2026-06-02T00:00:00Z");
    let found = status(&*bench.table, &bench.catalog, now).await.unwrap();
    assert_eq!((found.workspaces[0].unwritten, found.workspaces[0].dead_letters), (1, 0));
    // Projections that do not need it are made.
    until("the evaluation", async || bench.evaluation(1).await.is_some()).await;
    stop.send(()).unwrap();
    let letter = undone::find(&*bench.table, bench.id(), OfWorkspace::Expiry).await.unwrap();
    let retry = async || retry::task(&*bench.table, &bench.catalog, &letter, now).await.unwrap();
    assert_eq!(retry().await, Retried::Refused(letter.reason.clone()));
    bench.table.delete(&key::retention(bench.id()), Condition::None).await.unwrap();
    // The first sweep of a worker tries again.
    let (worker, stop) = work(&bench.table);
    until("no letter", async || undone().await.is_empty()).await;
    until("nothing to tell of", async || worker.health().unwritten == 0).await;
    stop.send(()).unwrap();
    assert_eq!(retry().await, Retried::Done);
}

async fn restored_segment_is_folded_and_loses_its_letter(bench: Bench) {
    bench.append_some().await;
    let whole = bench.damage(2).await;
    let (worker, stop) = work(&bench.table);
    until("the letter", async || worker.health().stopped == 1).await;
    bench.table.put(whole, Condition::Exists).await.unwrap();
    until("no letter", async || dead_letters::list(&*bench.table, bench.id()).await.unwrap().is_empty())
        .await;
    until("nothing to tell of", async || worker.health().stopped == 0).await;
    stop.send(()).unwrap();
}

async fn sweep_deletes_letter_of_folded_segment(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    // State after a worker that folded the segment without knowing of a letter.
    let stopped = Stopped { log: bench.log(Kind::Predictions), seq: 2, reason: "damaged".into() };
    let letter = DeadLetter::new(1, stopped, Refused::Rollup, at("2026-06-02T00:00:00Z"));
    assert!(dead_letters::record(&*bench.table, &letter).await.unwrap());
    let (_, stop) = work(&bench.table);
    until("no letter", async || dead_letters::list(&*bench.table, bench.id()).await.unwrap().is_empty())
        .await;
    stop.send(()).unwrap();
}
