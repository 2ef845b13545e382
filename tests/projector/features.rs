//! Breakdown by feature: beside the rollup, behind it at times, and kept when events are gone.

use std::collections::{BTreeMap, BTreeSet};

use event::{Column, ErrorKind, Kind, Values};
use log::{key, projection::Applied};
use projector::{
    dead_letters::{self, DeadLetter, LetterState, Refused, Stopped},
    evaluate::evaluate,
    features::sketch,
    project::project,
    rebuild::{Pace, rebuild},
    retry::{self, Retried},
    sweep::sweep_version,
};
use table::{Condition, Item, Query, item::Value, query_all};
use tests::{on_both_engines, world::at};

use crate::{
    bench::{Bench, day},
    letters::{until, work},
};

on_both_engines!(
    Bench::on:
    features_fold_after_rollup_and_sweep_finds_them,
    feature_breakdown_ahead_of_head_counts_once,
    feature_breakdown_survives_rebuild_and_expiry,
    features_of_lost_segments_are_an_error,
    damaged_features_block_only_features_until_skipped,
    rebuild_omits_features_of_skipped_segments,
    segment_with_restored_features_loses_its_letter,
    segment_keeps_one_letter_of_furthest_refusal,
);

/// A segment of two predictions, with these numbers of a feature.
async fn append(bench: &Bench, seq: u64, feature: &str, numbers: [f64; 2]) {
    let column = Column::new(format!("feature.{feature}"), Values::Float(numbers.to_vec()));
    bench.append_with(Kind::Predictions, seq, &["v0".into(), "v0".into()], vec![column]).await;
}

/// Head of the breakdown and its items, without their number of writes.
async fn stored(bench: &Bench, version: u32) -> Vec<Item> {
    let head = bench.table.get(&key::features(bench.id(), version, day())).await.unwrap();
    let range = key::all_features(bench.id(), version);
    let parts = query_all(&*bench.table, Query::table(range)).await.unwrap();
    let mut items: Vec<Item> = head.into_iter().chain(parts).collect();
    items.iter_mut().for_each(|item| drop(item.attributes.remove("ver")));
    items
}

/// Content of the items, in any version.
fn said(items: &[Item]) -> Vec<&BTreeMap<String, table::item::Value>> {
    items.iter().map(|item| &item.attributes).collect()
}

/// Folds new segments into the rollup alone.
async fn fold(bench: &Bench) -> Applied {
    let behind = sweep_version(&*bench.table, 1, bench.id()).await.unwrap();
    let logs: BTreeSet<_> = behind.logs.into_keys().collect();
    let projection = project(&*bench.table, 1, &bench.workspace_day(), &logs).await.unwrap();
    assert!(projection.has_features || stored(bench, 1).await.is_empty());
    projection.applied
}

fn pace() -> Pace {
    Pace { share: 1.0, clock: event::Clock::from_fn(|| at("2026-07-01T00:00:00Z")) }
}

async fn faults(bench: &Bench) -> Vec<String> {
    bench.verify().await.faults
}

async fn features_fold_after_rollup_and_sweep_finds_them(bench: Bench) {
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

async fn feature_breakdown_ahead_of_head_counts_once(bench: Bench) {
    append(&bench, 1, "distance", [719.0, 1400.0]).await;
    bench.project(1).await;
    let before = bench.table.get(&key::features(bench.id(), 1, day())).await.unwrap().unwrap();
    append(&bench, 2, "distance", [17.0, 0.5]).await;
    append(&bench, 3, "dep_delay", [2.0, 3.0]).await;
    bench.project(1).await;
    let expected = stored(&bench, 1).await;
    // State after a crash before the head was written.
    bench.table.put(before, Condition::None).await.unwrap();
    assert_eq!(faults(&bench).await, Vec::<String>::new());
    bench.project(1).await;
    assert_eq!(stored(&bench, 1).await, expected);
    assert_eq!(faults(&bench).await, Vec::<String>::new());
}

async fn feature_breakdown_survives_rebuild_and_expiry(bench: Bench) {
    append(&bench, 1, "distance", [719.0, 1400.0]).await;
    append(&bench, 2, "dep_delay", [2.0, 3.0]).await;
    bench.append(Kind::Outcomes, 1, &["v0".into()]).await;
    bench.project(1).await;
    let before = stored(&bench, 1).await;
    rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap();
    let rebuilt = stored(&bench, 2).await;
    assert_eq!(said(&rebuilt), said(&before));
    assert_eq!(stored(&bench, 1).await, [], "the old version is deleted");
    bench.expire().await;
    assert_eq!(log::scan::heads(&*bench.table, bench.id()).await.unwrap(), []);
    rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap();
    assert_eq!(said(&stored(&bench, 3).await), said(&before), "carried over, as the events are gone");
    let report = bench.verify().await;
    assert_eq!((report.faults, report.expired), (vec![], 1));
}

async fn features_of_lost_segments_are_an_error(bench: Bench) {
    append(&bench, 1, "distance", [719.0, 1400.0]).await;
    append(&bench, 2, "distance", [2.0, 3.0]).await;
    let applied = fold(&bench).await;
    let lost = key::segment(&bench.log(Kind::Predictions), 2);
    bench.table.delete(&lost, Condition::None).await.unwrap();
    let error = sketch(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    assert!(error.to_string().contains("p/00 ends at 1, and is to be folded up to 2"), "{error}");
    assert_eq!(stored(&bench, 1).await.len(), 1, "nothing is made of a part of it");
}

/// Number of predictions that puts the features of a segment into a block of their own.
const MANY: usize = 40;

/// Appends a segment of many predictions with a feature.
async fn append_many(bench: &Bench, seq: u64) {
    let numbers = (0..MANY).map(|row| ((row * 7 + 1) as f64 * seq as f64).sqrt());
    let column = Column::new("feature.distance", Values::Float(numbers.collect()));
    bench.append_with(Kind::Predictions, seq, &vec!["v0".into(); MANY], vec![column]).await;
}

/// Damages the last column of a segment of predictions, which is the feature; returns the segment undamaged.
async fn damage(bench: &Bench, seq: u64) -> Item {
    let item = bench.table.get(&key::segment(&bench.log(Kind::Predictions), seq)).await.unwrap().unwrap();
    let mut data = item.bytes("data").unwrap().to_vec();
    *data.last_mut().unwrap() ^= 0x55;
    bench.table.put(item.clone().with("data", Value::B(data)), Condition::Exists).await.unwrap();
    item
}

/// Appends three segments of predictions with a feature, and damages the second; returns it undamaged.
async fn append_damaged(bench: &Bench) -> Item {
    for seq in 1..=3 {
        append_many(bench, seq).await;
    }
    bench.append(Kind::Outcomes, 1, &["v0".into()]).await;
    damage(bench, 2).await
}

/// Dead letters: the segment, the projection that refused it, the state.
async fn letters(bench: &Bench) -> Vec<(u64, Refused, LetterState)> {
    let letters = dead_letters::list(&*bench.table, bench.id()).await.unwrap();
    letters.iter().map(|letter| (letter.seq, letter.refused, letter.state)).collect()
}

async fn letter(bench: &Bench) -> DeadLetter {
    dead_letters::find(&*bench.table, &bench.log(Kind::Predictions), 2).await.unwrap()
}

impl Bench {
    /// Records that the second segment of predictions is refused; returns true if that is new.
    async fn refuse(&self, refused: Refused) -> bool {
        let stopped = Stopped { log: self.log(Kind::Predictions), seq: 2, reason: "damaged".into() };
        let letter = DeadLetter::new(1, stopped, refused, at("2026-06-02T00:00:00Z"));
        dead_letters::record(&*self.table, &letter).await.unwrap()
    }
}

/// Last segment of predictions that the breakdown by feature covers.
async fn sketched(bench: &Bench, version: u32) -> Option<u64> {
    let head = bench.table.get(&key::features(bench.id(), version, day())).await.unwrap()?;
    log::projection::Projected::applied_of(&head).unwrap().get("p/00").copied()
}

async fn damaged_features_block_only_features_until_skipped(bench: Bench) {
    const ROWS: u64 = 3 * MANY as u64 + 1;
    append_damaged(&bench).await;
    let (_, stop) = work(&bench.table);
    until("the letter", async || letters(&bench).await == [(2, Refused::Features, LetterState::Stopped)])
        .await;
    until("the evaluation", async || {
        bench.evaluation(1).await.is_some_and(|(head, _)| head.rows == Some(ROWS))
    })
    .await;
    until("the features before it", async || sketched(&bench, 1).await == Some(1)).await;
    stop.send(()).unwrap();
    let refused = letter(&bench).await;
    assert!(refused.reason.contains("feature.distance"), "{}", refused.reason);
    assert_eq!(fold(&bench).await, Applied::from([("o/00".into(), 1), ("p/00".into(), 3)]));

    let report = rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap();
    assert_eq!((report.version, report.stopped.len()), (2, 1), "a rebuild ends, and stands where it stood");
    assert_eq!(letters(&bench).await, [(2, Refused::Features, LetterState::Stopped)]);
    assert_eq!(sketched(&bench, 2).await, Some(1));
    bench.expire().await;
    assert_eq!(log::scan::heads(&*bench.table, bench.id()).await.unwrap().len(), 2, "it waits");
    assert!(matches!(retry::segment(&*bench.table, &letter(&bench).await).await, Ok(Retried::Refused(_))));

    dead_letters::skip(&*bench.table, &letter(&bench).await).await.unwrap();
    let again = dead_letters::skip(&*bench.table, &letter(&bench).await).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    bench.project(2).await;
    assert_eq!(sketched(&bench, 2).await, Some(3));
    assert_eq!(bench.evaluation(2).await.unwrap().0.rows, Some(ROWS), "its events count");
    let report = bench.verify().await;
    assert_eq!((report.faults, report.skipped, report.behind), (vec![], 0, 0));
    bench.expire().await;
    assert_eq!(log::scan::heads(&*bench.table, bench.id()).await.unwrap(), []);
    let report = bench.verify().await;
    assert_eq!((report.faults, report.expired), (vec![], 1));
}

async fn rebuild_omits_features_of_skipped_segments(bench: Bench) {
    append_damaged(&bench).await;
    bench.project(1).await;
    assert!(bench.refuse(Refused::Features).await);
    dead_letters::skip(&*bench.table, &letter(&bench).await).await.unwrap();
    bench.project(1).await;
    let before = stored(&bench, 1).await;
    let report = rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap();
    assert_eq!((report.version, report.stopped), (2, vec![]));
    assert_eq!(letters(&bench).await, [(2, Refused::Features, LetterState::Skipped)]);
    assert_eq!(said(&stored(&bench, 2).await), said(&before));
    assert_eq!(faults(&bench).await, Vec::<String>::new());

    // Segments skipped for the features are still folded as events: the rollup of the next version does not lack any silently.
    bench.damage(2).await;
    let error = rebuild(&*bench.table, bench.id(), &pace(), |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("version 3 can fold 2026-06-01 p/00 only up to segment 1"), "{error}");
}

async fn segment_with_restored_features_loses_its_letter(bench: Bench) {
    for retries in [true, false] {
        let whole = match retries {
            true => append_damaged(&bench).await,
            false => damage_next(&bench).await,
        };
        let seq = if retries { 2 } else { 4 };
        let applied = fold(&bench).await;
        let effort = sketch(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap();
        assert_eq!(effort.stopped.iter().map(|stopped| stopped.seq).collect::<Vec<_>>(), [seq]);
        let stopped = effort.stopped[0].clone();
        let found = DeadLetter::new(1, stopped, Refused::Features, at("2026-06-02T00:00:00Z"));
        assert!(dead_letters::record(&*bench.table, &found).await.unwrap());
        assert_eq!(sketched(&bench, 1).await, Some(seq - 1));
        bench.table.put(whole, Condition::Exists).await.unwrap();
        match retries {
            true => assert_eq!(retry::segment(&*bench.table, &found).await.unwrap(), Retried::Done),
            false => bench.project(1).await,
        }
        assert_eq!(letters(&bench).await, []);
        bench.project(1).await;
        assert_eq!(faults(&bench).await, Vec::<String>::new());
    }
}

/// Appends a fourth, damaged segment; returns it undamaged.
async fn damage_next(bench: &Bench) -> Item {
    append_many(bench, 4).await;
    damage(bench, 4).await
}

async fn segment_keeps_one_letter_of_furthest_refusal(bench: Bench) {
    for seq in 1..=2 {
        append_many(&bench, seq).await;
    }
    bench.append(Kind::Outcomes, 1, &["v0".into()]).await;
    fold(&bench).await;
    let begun = stored(&bench, 1).await.remove(0);
    bench.project(1).await;
    let before = stored(&bench, 1).await;
    for (refused, is_new) in
        [(Refused::Features, true), (Refused::Evaluation, true), (Refused::Features, false)]
    {
        assert_eq!(bench.refuse(refused).await, is_new);
    }
    assert_eq!(letters(&bench).await, [(2, Refused::Evaluation, LetterState::Stopped)]);
    // Its features were counted before and can be read: they stay, and a new fold gives the same.
    dead_letters::skip(&*bench.table, &letter(&bench).await).await.unwrap();
    bench.table.delete(&bench.at(1).key(), Condition::None).await.unwrap();
    let applied = fold(&bench).await;
    evaluate(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap();
    assert_eq!(bench.evaluation(1).await.unwrap().0.rows, Some(MANY as u64 + 1), "without the second");
    assert_eq!(stored(&bench, 1).await, before);
    assert_eq!(faults(&bench).await, Vec::<String>::new());
    // A fold that cannot read them skips them.
    damage(&bench, 2).await;
    bench.table.put(begun.with("ver", 1), Condition::Exists).await.unwrap();
    for item in query_all(&*bench.table, Query::table(key::all_features(bench.id(), 1))).await.unwrap() {
        bench.table.delete(&item.key, Condition::None).await.unwrap();
    }
    let effort = sketch(&*bench.table, 1, &bench.workspace_day(), &applied).await.unwrap();
    assert_eq!((effort.stopped, sketched(&bench, 1).await), (vec![], Some(2)));
    assert_eq!(faults(&bench).await, Vec::<String>::new());
}
