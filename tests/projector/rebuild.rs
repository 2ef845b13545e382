//! Rebuilds of a growing log, and of lost events.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catalog::ErasurePhase;
use event::{Clock, ErrorKind, Kind};
use log::{active, key};
use projector::{
    dead_letters::{self, DeadLetter, LetterState, Refused},
    erase::{self, carry_out},
    rebuild::{Pace, Progress, rebuild},
    retry::{self, Retried},
    status::status,
};
use table::{Condition, Item};
use tests::{
    between::{Between, Call, Happens},
    on_both_engines,
    world::at,
};

use crate::bench::Bench;

on_both_engines!(
    Bench::on:
    rebuild_finishes_while_the_log_keeps_growing,
    rebuild_missing_a_segment_keeps_old_version,
    stopped_rebuild_finishes_after_skipping_damaged_segment,
    stopped_rebuild_finishes_after_restoring_damaged_segment,
    stopped_erasure_finishes_after_skipping_damaged_segment,
);

fn pace() -> Pace {
    Pace { share: 1.0, clock: Clock::from_fn(|| at("2026-07-01T00:00:00Z")) }
}

async fn rebuild_finishes_while_the_log_keeps_growing(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    let appended = Arc::new(AtomicU64::new(3));
    let table = Between::new(Arc::clone(&bench.table), {
        let (bench, appended) = (bench.clone(), Arc::clone(&appended));
        move |call| {
            let Call::Write(_) = call else { return None };
            let (bench, seq) = (bench.clone(), appended.fetch_add(1, Ordering::Relaxed) + 1);
            Some(Box::pin(async move { bench.append(Kind::Predictions, seq, &["v0".into()]).await })
                as Happens)
        }
    });
    let told = Mutex::new(Vec::new());
    let tell = |now: Progress| told.lock().unwrap().push(now);
    let report = rebuild(&table, bench.id(), &pace(), tell).await.unwrap();
    assert_eq!((report.version, report.days), (2, 1));
    let told = told.into_inner().unwrap();
    assert_eq!(told.len(), 5, "four passes, and one after the flip");
    assert!(told.iter().all(|now| now.segments <= now.of), "{told:?}");
    let found = active::load(&*bench.table, bench.id()).await.unwrap();
    assert_eq!((found.version, found.building, found.oldest), (2, None, 2));
    let appended = appended.load(Ordering::Relaxed);
    assert!(appended > 20, "{appended} segments");
    let report = bench.verify().await;
    assert!(report.faults.is_empty() && report.behind > 0, "{report:?}");
    // The workers fold the rest.
    bench.project(2).await;
    let report = bench.verify().await;
    assert_eq!((report.faults.as_slice(), report.behind, report.segments), ([].as_slice(), 0, appended + 3));
}

async fn rebuild_missing_a_segment_keeps_old_version(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    let lost = key::segment(&bench.log(Kind::Predictions), 2);
    bench.table.delete(&lost, Condition::None).await.unwrap();
    let error = rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    assert_eq!(
        error.to_string(),
        "version 2 can fold 2026-06-01 p/00 only up to segment 1, version 1 is at 3; version 1 stays"
    );
    assert_eq!(active::load(&*bench.table, bench.id()).await.unwrap().version, 1);
    assert!(bench.verify().await.faults.iter().any(|fault| fault.contains("has a hole after segment 1")));
}

/// Damages the second segment of predictions once it is folded, and rebuilds, which is refused; returns the segment undamaged.
async fn stopped(bench: &Bench) -> Item {
    bench.append_some().await;
    bench.project(1).await;
    let whole = bench.damage(2).await;
    let error = rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let way_out = format!("`almanac admin dead-letters skip 2026-06-01/p/00/2 -w {}`", bench.id());
    assert!(error.to_string().contains(&way_out), "{error}");
    let letter = dead_letters::find(&*bench.table, &bench.log(Kind::Predictions), 2).await.unwrap();
    assert_eq!((letter.version, letter.refused, letter.state), (2, Refused::Rollup, LetterState::Stopped));
    assert_eq!(letters(bench).await, [letter]);
    assert_eq!(counted(bench).await, (1, 0));
    whole
}

async fn letters(bench: &Bench) -> Vec<DeadLetter> {
    dead_letters::list(&*bench.table, bench.id()).await.unwrap()
}

/// Numbers of dead letters and of skipped segments in the status.
async fn counted(bench: &Bench) -> (usize, usize) {
    let found = status(&*bench.table, &bench.catalog, at("2026-07-01T00:00:00Z")).await.unwrap();
    (found.workspaces[0].dead_letters, found.workspaces[0].skipped)
}

async fn stopped_rebuild_finishes_after_skipping_damaged_segment(bench: Bench) {
    stopped(&bench).await;
    let letter = letters(&bench).await.remove(0);
    assert!(matches!(retry::segment(&*bench.table, &letter).await, Ok(Retried::Refused(_))));
    dead_letters::skip(&*bench.table, &letter).await.unwrap();
    assert_eq!(counted(&bench).await, (0, 0), "what is read has it still");
    let report = rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap();
    assert_eq!((report.version, report.stopped), (2, vec![]));
    assert_eq!(counted(&bench).await, (0, 1));
    let report = bench.verify().await;
    assert_eq!((report.faults, report.behind), (vec![], 0));
}

async fn stopped_rebuild_finishes_after_restoring_damaged_segment(bench: Bench) {
    let whole = stopped(&bench).await;
    bench.table.put(whole, Condition::Exists).await.unwrap();
    let report = rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap();
    assert_eq!((report.version, report.stopped), (2, vec![]));
    assert_eq!(letters(&bench).await, []);
    let report = bench.verify().await;
    assert_eq!((report.faults, report.behind, report.skipped), (vec![], 0, 0));
}

async fn stopped_erasure_finishes_after_skipping_damaged_segment(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    bench.damage(2).await;
    let (keys, now) = (["3-0".to_owned()], pace().clock.now());
    let begun = bench.catalog.begin_erasure(bench.id(), (&keys, false), "a letter", now).await.unwrap();
    let pace = erase::Pace { wait: Duration::ZERO, ..erase::Pace::new(pace().clock) };
    let carry = async || carry_out(&bench.table, (bench.id(), &begun.id), &pace, &|_| ()).await;
    let error = carry().await.unwrap_err();
    assert!(error.to_string().contains("`almanac admin dead-letters skip 2026-06-01/p/00/2 -w "), "{error}");
    dead_letters::skip(&*bench.table, &letters(&bench).await.remove(0)).await.unwrap();
    let done = carry().await.unwrap();
    assert_eq!((done.phase, done.rows), (ErasurePhase::Done, 2), "a prediction and its outcome");
    assert_eq!(active::load(&*bench.table, bench.id()).await.unwrap().version, 2);
}
