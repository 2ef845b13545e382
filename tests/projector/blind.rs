//! Reports of a projector that cannot see or may not write: its lag is as old as the stored events, and a denied call delays
//! nothing else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use event::{Clock, ErrorKind};
use log::{
    key::{self, OfWorkspace},
    store::Store,
};
use projector::{Health, Options, Projector, undone};
use table::Table;
use tests::{
    hooked::{Asked, Hooked, Turn},
    on_both_engines,
    world::at,
};
use tokio::sync::oneshot;

use crate::{bench::Bench, letters::until};

on_both_engines!(
    Bench::on:
    waiting_age_counts_from_append_across_restarts,
    denied_expiry_does_not_block_other_work,
);

/// Delay of the workers of this test after the appends of the bench, in seconds.
const LATER_SECONDS: i64 = 600;

/// A worker with a clock that much later, and its stop.
fn later(table: &Arc<dyn Table>) -> (Projector, oneshot::Sender<()>) {
    let now = at("2026-06-02T00:00:00Z").plus_seconds(LATER_SECONDS);
    let options = Options::new(Clock::from_fn(move || now));
    let projector =
        Projector::new(Arc::clone(table), Options { period: Duration::from_millis(100), ..options });
    let (stop, stopped) = oneshot::channel();
    let runs = projector.clone();
    tokio::spawn(async move { runs.run(async move { _ = stopped.await }).await });
    (projector, stop)
}

async fn waiting_age_counts_from_append_across_restarts(bench: Bench) {
    bench.append_some().await;
    let folds = Arc::new(AtomicBool::new(false));
    let may = Arc::clone(&folds);
    // Reads and leases go on; nothing can be folded.
    let rollups = key::rollup(bench.id(), 1, bench.workspace_day().day).pk;
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&bench.table), move |asked| match asked {
        Asked::Write(key) if key.pk == rollups && !may.load(Ordering::Relaxed) => {
            Turn::Fail(ErrorKind::Unavailable)
        }
        _ => Turn::Pass,
    });
    let least = Duration::from_secs(LATER_SECONDS as u64);
    for _ in 0..2 {
        let (worker, stop) = later(&table);
        assert!(!worker.health().has_swept, "what a worker has not looked at is not known to be well");
        until("the age of the append", async || worker.health().oldest >= least).await;
        until("the sweep", async || worker.health().has_swept).await;
        until("failing folds", async || worker.health().fold_age > Duration::from_millis(1_500)).await;
        stop.send(()).unwrap();
    }
    folds.store(true, Ordering::Relaxed);
    let (worker, stop) = later(&table);
    let is_well = |health: &Health| {
        health.has_swept && health.oldest < least && health.dirty_days == 0 && health.fold_age.is_zero()
    };
    until("nothing that waits", async || is_well(&worker.health())).await;
    stop.send(()).unwrap();
}

async fn denied_expiry_does_not_block_other_work(bench: Bench) {
    bench.append_some().await;
    let denies = Arc::new(AtomicBool::new(true));
    let is_denied = Arc::clone(&denies);
    let expiry = key::retention(bench.id());
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&bench.table), move |asked| match asked {
        Asked::Get(key) if *key == expiry && is_denied.load(Ordering::Relaxed) => {
            Turn::Fail(ErrorKind::Denied)
        }
        _ => Turn::Pass,
    });
    let store = Store::over(table);
    let (denials, table) = (Arc::clone(store.denials()), store as Arc<dyn Table>);
    let (worker, stop) = later(&table);
    until("the sweep", async || worker.health().has_swept).await;
    until("the evaluation", async || bench.evaluation(1).await.is_some()).await;
    let letters = async || undone::list(&*bench.table, bench.id()).await.unwrap();
    until("the letter", async || letters().await.iter().any(|letter| letter.what == OfWorkspace::Expiry))
        .await;
    let said = denials.lately().unwrap();
    assert!(said.starts_with("the credentials of this process may not get;"), "{said}");
    assert!(denials.count() > 0);
    stop.send(()).unwrap();
    denies.store(false, Ordering::Relaxed);
    let (_worker, stop) = later(&table);
    until("no letter", async || letters().await.is_empty()).await;
    stop.send(()).unwrap();
}

/// The feed is denied: announced changes are not heard, but the worker lives, reports it, and hears them once allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_feed_is_reported_and_recovers() {
    let fresh = tests::engine::Fresh::sqlite(Clock::system());
    let denies = Arc::new(AtomicBool::new(true));
    let is_denied = Arc::clone(&denies);
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&fresh.table), move |asked| match asked {
        Asked::Changes if is_denied.load(Ordering::Relaxed) => Turn::Fail(ErrorKind::Denied),
        _ => Turn::Pass,
    });
    let store = Store::over(table);
    let (denials, table) = (Arc::clone(store.denials()), store as Arc<dyn Table>);
    tests::register::register(&table, "sim/one", &["v1"], at("2026-06-10T00:00:00Z")).await;
    let (worker, stop) = crate::letters::work(&table);
    until("the denial", async || denials.lately().is_some_and(|said| said.contains("may not changes"))).await;
    until("the silence", async || worker.health().feed_age > Duration::from_millis(1_500)).await;
    assert!(worker.health().heartbeat_age.is_some_and(|age| age < Duration::from_secs(5)), "it lives");
    denies.store(false, Ordering::Relaxed);
    until("an answer", async || worker.health().feed_age < Duration::from_millis(500)).await;
    stop.send(()).unwrap();
}

/// The shards of the stream cannot be listed from the beginning on: the worker folds what sweeps find, and reports the age of the
/// silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlistable_feed_is_reported_while_sweeps_continue() {
    let bench = Bench::on(tests::engine::Engine::Sqlite).await;
    bench.append_some().await;
    let fails = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&fails);
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&bench.table), move |asked| match asked {
        Asked::Shards if is_down.load(Ordering::Relaxed) => Turn::Fail(ErrorKind::Unavailable),
        _ => Turn::Pass,
    });
    let (worker, stop) = later(&table);
    // The first one needs no lease.
    until("a sweep under the lease", async || worker.health().sweeps >= 2).await;
    until("the evaluation", async || bench.evaluation(1).await.is_some()).await;
    until("the silence", async || worker.health().feed_age > Duration::from_millis(1_500)).await;
    fails.store(false, Ordering::Relaxed);
    until("an answer", async || worker.health().feed_age < Duration::from_millis(500)).await;
    stop.send(()).unwrap();
}

/// A missing stream does not pass: the worker ends with an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanently_unlistable_shards_end_the_worker() {
    let fresh = tests::engine::Fresh::sqlite(Clock::system());
    let table: Arc<dyn Table> = Hooked::new(Arc::clone(&fresh.table), |asked| match asked {
        Asked::Shards => Turn::Fail(ErrorKind::Invalid),
        _ => Turn::Pass,
    });
    let worker = Projector::new(table, Options::new(Clock::system()));
    let ended = worker.run(std::future::pending()).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Invalid, "{ended}");
}
