//! Warnings of the evaluations of the last days.

use std::time::Duration;

use event::Kind;
use projector::{
    status::{ahead, status},
    warnings::Warning,
};
use tests::{on_both_engines, world::at};

use crate::bench::{Bench, day};

on_both_engines!(
    Bench::on:
    status_warns_of_orphaned_and_never_positive_outcomes,
    logs_ahead_of_the_clock_are_found,
);

async fn status_warns_of_orphaned_and_never_positive_outcomes(bench: Bench) {
    let warnings = async || {
        let found = status(&*bench.table, &bench.catalog, at("2026-06-02T00:00:00Z")).await.unwrap();
        found.workspaces.into_iter().next().unwrap().warnings
    };
    assert_eq!(warnings().await, None, "nothing is projected");
    // The first event of each segment has the label 0, and the positive label is 1.
    let one = ["v0".into()];
    for seq in 1..=20 {
        bench.append(Kind::Predictions, seq, &one).await;
        bench.append(Kind::Outcomes, seq, &one).await;
    }
    bench.append(Kind::Outcomes, 21, &one).await;
    bench.project(1).await;
    let found = warnings().await.unwrap();
    assert_eq!((found.from, found.to), ("2026-05-26".parse().unwrap(), day()));
    let never_positive = Warning::NeverPositive {
        release: "v0".into(),
        positive_label: "1".into(),
        outcomes: 20,
        labels: vec!["0".into()],
    };
    assert_eq!(found.found, [never_positive, Warning::Orphaned { orphaned: 1, outcomes: 21 }]);
    // The second event has the label 1; the missing prediction comes as well.
    let two = ["v0".into(), "v0".into()];
    bench.append(Kind::Predictions, 21, &one).await;
    bench.append(Kind::Predictions, 22, &two).await;
    bench.append(Kind::Outcomes, 22, &two).await;
    bench.project(1).await;
    assert_eq!(warnings().await.unwrap().found, []);
}

/// All events are marked as appended at the beginning of 2 June.
async fn logs_ahead_of_the_clock_are_found(bench: Bench) {
    bench.append(Kind::Predictions, 1, &["v0".into()]).await;
    let ahead = async |now: &str| ahead(&*bench.table, bench.id(), at(now)).await.unwrap();
    let by = Duration::from_secs(60 * 60);
    assert_eq!(ahead("2026-06-01T23:00:00Z").await, Some((bench.log(Kind::Predictions), by)));
    assert_eq!(ahead("2026-06-02T00:00:00Z").await, None);
}
