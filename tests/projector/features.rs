//! The breakdown by feature: beside the rollup, behind it at times, and kept when events are gone.

use std::collections::{BTreeMap, BTreeSet};

use event::{Column, ErrorKind, Kind, Values};
use log::{key, projection::Applied};
use projector::{
    features::sketch,
    project::project,
    rebuild::{Pace, rebuild},
    sweep::sweep_version,
};
use table::{Condition, Item, Query, query_all};
use tests::{on_both_engines, world::at};

use crate::bench::{Bench, day};

on_both_engines!(
    Bench::on:
    features_are_folded_after_the_rollup_and_found_by_a_sweep,
    a_breakdown_by_feature_that_is_ahead_of_its_head_counts_nothing_twice,
    a_rebuild_and_expiry_keep_the_breakdown_by_feature,
    features_of_segments_that_are_lost_are_an_error,
);

/// A segment of two predictions, with these numbers of a feature.
async fn append(bench: &Bench, seq: u64, feature: &str, numbers: [f64; 2]) {
    let column = Column::new(format!("feature.{feature}"), Values::Float(numbers.to_vec()));
    bench.append_with(Kind::Predictions, seq, &["v0".into(), "v0".into()], vec![column]).await;
}

/// The head of the breakdown and its items, but for how often they were written.
async fn stored(bench: &Bench, version: u32) -> Vec<Item> {
    let head = bench.table.get(&key::features(bench.id(), version, day())).await.unwrap();
    let range = key::all_features(bench.id(), version);
    let parts = query_all(&*bench.table, Query::table(range)).await.unwrap();
    let mut items: Vec<Item> = head.into_iter().chain(parts).collect();
    items.iter_mut().for_each(|item| drop(item.attributes.remove("ver")));
    items
}

/// What the items say, whatever version they are of.
fn said(items: &[Item]) -> Vec<&BTreeMap<String, table::item::Value>> {
    items.iter().map(|item| &item.attributes).collect()
}

/// Folds what is new into the rollup alone.
async fn fold(bench: &Bench) -> Applied {
    let behind = sweep_version(&*bench.table, 1, bench.id()).await.unwrap();
    let logs: BTreeSet<_> = behind.logs.into_keys().collect();
    let projection = project(&*bench.table, 1, &bench.workspace_day(), &logs).await.unwrap();
    assert!(projection.has_features || stored(bench, 1).await.is_empty());
    projection.applied
}

async fn faults(bench: &Bench) -> Vec<String> {
    bench.verify().await.faults
}

async fn features_are_folded_after_the_rollup_and_found_by_a_sweep(bench: Bench) {
    let unsketched = async || sweep_version(&*bench.table, 1, bench.id()).await.unwrap().features;
    bench.append(Kind::Predictions, 1, &["v0".into()]).await;
    let applied = fold(&bench).await;
    sketch(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap();
    assert_eq!(stored(&bench, 1).await, [], "a day without features has no breakdown of them");
    assert!(unsketched().await.is_empty());

    append(&bench, 2, "distance", [719.0, 1400.0]).await;
    let applied = fold(&bench).await;
    assert_eq!(stored(&bench, 1).await.len(), 1, "the head says that there are features");
    assert_eq!(unsketched().await, BTreeSet::from([bench.workspace_day()]));
    let report = bench.verify().await;
    assert_eq!((report.faults, report.behind), (vec![], 2), "the evaluation is behind as well");
    sketch(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap();
    assert!(unsketched().await.is_empty());
    let items = stored(&bench, 1).await;
    assert_eq!(items.len(), 2);
    assert!(items[0].text("state").unwrap().contains("\"v0\":{\"n\":3,"), "{:?}", items[0]);
    assert!(items[1].text("state").unwrap().contains("{\"distance\":{\"releases\""), "{:?}", items[1]);
    sketch(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap();
    assert_eq!(stored(&bench, 1).await, items);
    assert_eq!(faults(&bench).await, Vec::<String>::new());
    let wrong = items[1].text("state").unwrap().replacen("\"n\":2", "\"n\":3", 1);
    let item = bench.table.get(&items[1].key).await.unwrap().unwrap();
    bench.table.put(item.with("state", wrong), Condition::None).await.unwrap();
    let found = faults(&bench).await.join("\n");
    assert!(found.contains("the breakdown feature/81 is not what its segments fold to"), "{found}");
}

async fn a_breakdown_by_feature_that_is_ahead_of_its_head_counts_nothing_twice(bench: Bench) {
    append(&bench, 1, "distance", [719.0, 1400.0]).await;
    bench.project(1).await;
    let before = bench.table.get(&key::features(bench.id(), 1, day())).await.unwrap().unwrap();
    append(&bench, 2, "distance", [17.0, 0.5]).await;
    append(&bench, 3, "dep_delay", [2.0, 3.0]).await;
    bench.project(1).await;
    let expected = stored(&bench, 1).await;
    // As after a crash before the head was written.
    bench.table.put(before, Condition::None).await.unwrap();
    assert_eq!(faults(&bench).await, Vec::<String>::new());
    bench.project(1).await;
    assert_eq!(stored(&bench, 1).await, expected);
    assert_eq!(faults(&bench).await, Vec::<String>::new());
}

async fn a_rebuild_and_expiry_keep_the_breakdown_by_feature(bench: Bench) {
    append(&bench, 1, "distance", [719.0, 1400.0]).await;
    append(&bench, 2, "dep_delay", [2.0, 3.0]).await;
    bench.append(Kind::Outcomes, 1, &["v0".into()]).await;
    bench.project(1).await;
    let before = stored(&bench, 1).await;
    let pace = Pace { share: 1.0, clock: event::Clock::from_fn(|| at("2026-07-01T00:00:00Z")) };
    rebuild(&*bench.table, bench.id(), &pace, |_| {}).await.unwrap();
    let rebuilt = stored(&bench, 2).await;
    assert_eq!(said(&rebuilt), said(&before));
    assert_eq!(stored(&bench, 1).await, [], "the old version is deleted");
    bench.expire().await;
    assert_eq!(log::scan::heads(&*bench.table, bench.id()).await.unwrap(), []);
    rebuild(&*bench.table, bench.id(), &pace, |_| {}).await.unwrap();
    assert_eq!(said(&stored(&bench, 3).await), said(&before), "carried over, as the events are gone");
    let report = bench.verify().await;
    assert_eq!((report.faults, report.expired), (vec![], 1));
}

async fn features_of_segments_that_are_lost_are_an_error(bench: Bench) {
    append(&bench, 1, "distance", [719.0, 1400.0]).await;
    append(&bench, 2, "distance", [2.0, 3.0]).await;
    let applied = fold(&bench).await;
    let lost = key::segment(&bench.log(Kind::Predictions), 2);
    bench.table.delete(&lost, Condition::None).await.unwrap();
    let error = sketch(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    assert!(error.to_string().contains("p/00 ends at 1, the rollup covers it up to 2"), "{error}");
    assert_eq!(stored(&bench, 1).await.len(), 1, "nothing is made of a part of it");
}
