//! Two versions side by side, where the one that writes is ahead of the one that reads: what a runbook that rolls out readers
//! last would meet. The newer version is made of the item that it would write.

use log::key;
use projector::{dead_letters, retry, undone, unwritten};
use table::Condition;
use tests::on_both_engines;

use crate::{
    bench::Bench,
    letters::{until, work},
};

on_both_engines!(
    Bench::on:
    newer_segment_waits_for_a_newer_reader,
);

async fn newer_segment_waits_for_a_newer_reader(bench: Bench) {
    bench.append_some().await;
    let log = bench.log(event::Kind::Predictions);
    let newest = key::segment(&log, 3);
    let known = bench.table.get(&newest).await.unwrap().unwrap();
    bench.table.put(known.clone().with("v", 99), Condition::Exists).await.unwrap();
    // The older reader: it says what it cannot read, and serves all that it can.
    let (worker, stop) = work(&bench.table);
    let letters = async || dead_letters::list(&*bench.table, bench.id()).await.unwrap();
    until("the letter", async || letters().await.len() == 1).await;
    until("the metric", async || worker.health().stopped == 1).await;
    let letter = letters().await.remove(0);
    assert_eq!((&letter.log, letter.seq), (&log, 3));
    assert!(letter.reason.contains("99"), "{}", letter.reason);
    until("the evaluation of the rest", async || bench.evaluation(1).await.is_some()).await;
    stop.send(()).unwrap();
    // The newer reader, to which the segment is as good as any: an operator has it tried again, and nothing is lost.
    bench.table.put(known, Condition::Exists).await.unwrap();
    retry::segment(&*bench.table, &letter).await.unwrap();
    let (_worker, stop) = work(&bench.table);
    until("all of it", async || letters().await.is_empty() && bench.verify().await.faults.is_empty()).await;
    assert!(undone::list(&*bench.table, bench.id()).await.unwrap().is_empty());
    assert!(unwritten::list(&*bench.table, bench.id()).await.unwrap().is_empty());
    stop.send(()).unwrap();
}
