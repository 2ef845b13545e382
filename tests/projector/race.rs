//! Events that expire while they are folded and evaluated.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use event::{Clock, ErrorKind, Kind};
use log::{
    active,
    evaluated::{self, Content, Head, OfGone},
    expired, key,
    projection::Applied,
    scan,
};
use projector::{
    evaluate::evaluate,
    rebuild::{Pace, rebuild},
};
use table::{Condition, Table};
use tests::{
    between::{Between, Call, Happens},
    on_both_engines,
    world::at,
};

use crate::bench::{Bench, day};

on_both_engines!(
    Bench::on:
    rebuild_racing_retention_leaves_no_partial_evaluation,
    evaluation_of_a_meanwhile_expired_day_is_refused,
    rebuild_replaces_less_complete_evaluation_of_expired_day,
    verify_reports_inconsistent_projections_of_expired_day,
);

fn pace() -> Pace {
    Pace { share: 1.0, clock: Clock::from_fn(|| at("2026-07-01T00:00:00Z")) }
}

/// A sweep that deletes the day just before a call `when`.
fn expiring(bench: &Bench, when: impl Fn(&Call) -> bool + Send + 'static) -> Arc<dyn Table> {
    let (sweeper, mut is_over) = (bench.clone(), false);
    Arc::new(Between::new(Arc::clone(&bench.table), move |call| {
        if is_over || !when(call) {
            return None;
        }
        is_over = true;
        let sweeper = sweeper.clone();
        Some(Box::pin(async move { sweeper.expire().await }) as Happens)
    }))
}

/// Returns whether a call reads segments of a kind, rather than their keys.
fn reads_segments(call: &Call, kind: Kind) -> bool {
    let Call::Query(query) = call else { return false };
    query.attributes.is_none() && query.range.from.contains(&format!("/{}/", kind.letter()))
}

/// The sweep deletes the day when half of its log was read for the evaluation of the new version.
async fn rebuild_racing_retention_leaves_no_partial_evaluation(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    let (before, states) = bench.evaluation(1).await.unwrap();
    // They are read first for the fold, then for the evaluation, after the outcomes.
    let reads = AtomicU32::new(0);
    let table = expiring(&bench, move |call| {
        reads_segments(call, Kind::Predictions) && reads.fetch_add(1, Ordering::Relaxed) == 1
    });
    rebuild(&*table, bench.id(), &pace(), |_| {}).await.unwrap();
    assert!(expired::load(&*bench.table, bench.id(), day()).await.unwrap().is_some());
    let (after, same) = bench.evaluation(2).await.unwrap();
    assert_eq!((after.applied, after.rows, same), (before.applied, Some(12), states));
    let report = bench.verify().await;
    assert_eq!((report.faults.as_slice(), report.expired), ([].as_slice(), 1));
}

async fn evaluation_of_a_meanwhile_expired_day_is_refused(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    let applied = bench.evaluation(1).await.unwrap().0.applied;
    let table = expiring(&bench, |call| call.writes("/rollup/v2", "/eval"));
    let day = bench.workspace_day();
    let effort = evaluate(&*table, 2, &day, &applied).await.unwrap();
    assert_eq!(effort.rows, 12, "it was computed");
    assert_eq!(bench.evaluation(2).await, None, "and is not what a marked day takes");
    // An evaluation that begins when all is gone.
    let effort = evaluate(&*bench.table, 2, &day, &applied).await.unwrap();
    assert_eq!((effort.rows, bench.evaluation(2).await), (0, None));
    // Without the mark, missing events are an error.
    bench.table.delete(&key::expired(bench.id(), day.day), Condition::None).await.unwrap();
    let error = evaluate(&*bench.table, 2, &day, &applied).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    let text = error.to_string();
    assert!(text.contains("expected 3 segments of day#2026-06-01/o/00 from 1 up to 3, read 0"), "{text}");
}

async fn rebuild_replaces_less_complete_evaluation_of_expired_day(bench: Bench) {
    bench.append(Kind::Predictions, 1, &["v0".into()]).await;
    bench.append(Kind::Outcomes, 1, &["v0".into()]).await;
    // An interrupted rebuild has the first part, a worker all of it.
    bench.project(2).await;
    bench.append(Kind::Predictions, 2, &["v0".into()]).await;
    bench.project(1).await;
    let (all, states) = bench.evaluation(1).await.unwrap();
    let some = bench.evaluation(2).await.unwrap().0;
    assert!(some.applied != all.applied);
    bench.expire().await;
    assert_eq!(scan::heads(&*bench.table, bench.id()).await.unwrap(), []);
    rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap();
    let (carried, same) = bench.evaluation(2).await.unwrap();
    assert_eq!((carried.applied, same), (all.applied, states));
    assert!(carried.ver > some.ver, "a worker that read the one before cannot write over it");
    let found = active::load(&*bench.table, bench.id()).await.unwrap();
    assert_eq!((found.version, found.oldest), (2, 2));
    assert_eq!(bench.verify().await.faults, Vec::<String>::new());
}

async fn verify_reports_inconsistent_projections_of_expired_day(bench: Bench) {
    bench.append_some().await;
    bench.project(1).await;
    let (head, states) = bench.evaluation(1).await.unwrap();
    bench.expire().await;
    assert_eq!(bench.verify().await.faults, Vec::<String>::new());
    let content = Content { applied: head.applied.clone(), rows: head.rows, states, slices: Vec::new() };
    let less: Applied = head.applied.iter().map(|(log, seq)| (log.clone(), seq - 1)).collect();
    let other = |from: &str, to: &str| {
        let states = content.states.iter().map(|state| state.replacen(from, to, 1)).collect();
        Content { states, ..content.clone() }
    };
    for (wrong, fault) in [
        (Content { applied: less, ..content.clone() }, "but the evaluation covers"),
        (Content { rows: Some(7), ..content.clone() }, "made of 7 events, the rollup of 12"),
        (
            other("\"predictions\":6", "\"predictions\":7"),
            "7 predictions of release v0, of which there were 6",
        ),
        (other("\"v0\"", "\"v9\""), "0 predictions of release v0, of which there were 6"),
    ] {
        let now = evaluated::head(&*bench.table, bench.at(1)).await.unwrap();
        evaluated::write(&*bench.table, bench.at(1), &now, wrong, OfGone::Allowed).await.unwrap();
        let faults = bench.verify().await.faults;
        assert!(faults.len() == 1 && faults[0].contains(fault), "{faults:?}");
    }
    bench.table.delete(&bench.at(1).key(), Condition::None).await.unwrap();
    assert!(bench.verify().await.faults[0].contains("was not evaluated"));
    evaluated::write(&*bench.table, bench.at(1), &Head::none(), content, OfGone::Allowed).await.unwrap();
    let rollup = key::rollup(bench.id(), 1, day());
    bench.table.delete(&rollup, Condition::None).await.unwrap();
    let faults = bench.verify().await.faults.join("\n");
    assert!(faults.contains("but the rollup covers {}"), "{faults}");
}
