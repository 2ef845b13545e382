//! Vintages of days at some ages.

use std::sync::Arc;

use event::Id;
use fold::{Rollup, rollup::Part};
use log::{
    compacted::Compacted,
    erased::ErasureEpoch,
    key::{self, Breakdown, By},
    rollup_vintage::{self, RollupVintage},
    vintage::{self, Vintage, VintageUntil},
};
use table::{Condition, Query, Table, query_all};

use super::{Ids, now, section};

/// Stores the evaluation of a day at an age, its rollup with a part, and the days up to which vintages are kept and small segments
/// are merged.
pub(super) async fn keep(table: &Arc<dyn Table>, workspace: &Id) {
    let vintage = Vintage {
        applied: [("p/00".to_owned(), 3), ("o/00".to_owned(), 2)].into(),
        rows: Some(0),
        left_out: [("o/00".to_owned(), 1)].into(),
        states: vec![fold::Evaluation::default().to_state()],
    };
    vintage::write(&**table, ErasureEpoch::default(), (workspace, now().day(), 24), &vintage).await.unwrap();
    let rollup = RollupVintage {
        applied: vintage.applied.clone(),
        rollup: Rollup::default().to_state(),
        parts: [(Breakdown::of(By::Metric, "queue_seconds"), Part::of(By::Metric).to_state().into())].into(),
        ..RollupVintage::default()
    };
    rollup_vintage::write(&**table, ErasureEpoch::default(), (workspace, now().day(), 24), &rollup, None)
        .await
        .unwrap();
    VintageUntil::write(&**table, workspace, None, now()).await.unwrap();
    let compacted = Compacted { until: [(2, now().day())].into(), merged: 3, deleted: 812 };
    table.put(compacted.to_item(workspace), Condition::Absent).await.unwrap();
}

/// Section about the rollup of a day at an age.
pub(super) async fn page(table: &Arc<dyn Table>, ids: &mut Ids, workspace: &Id) -> String {
    let parts = Query::table(key::rollup_vintage_parts(workspace, now().day()));
    let part = query_all(&**table, parts).await.unwrap().remove(0).key;
    let head = key::rollup_vintage(workspace, now().day(), 24);
    let rollup = section(table, ids, "The rollup of a day when it was a day old", head).await;
    rollup + &section(table, ids, "A part of it, by the digest of what it says", part).await
}
