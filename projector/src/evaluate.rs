//! Evaluates a day: joins its predictions with its outcomes and writes their metrics.

use std::{collections::BTreeMap, sync::Arc};

use ::evaluate::{Failure, Reading, Unreadable, evaluate_day, judge_day};
use async_trait::async_trait;
use catalog::{DEFINED, Definitions};
use event::{Definition, Error, ErrorKind, Kind, Result};
use fold::{
    Evaluation,
    evaluation::{Evaluator, Grouping},
    paired::Meeting,
};
use log::{
    erased::ErasureEpoch,
    evaluated::{self, At, Content, Head, OfGone},
    expired,
    projection::Applied,
    scan,
    walk::{Heads, Note, Segments, Until, Walk},
};
use table::{Policy, Table, unless_overtaken};

use crate::{
    WorkspaceDay, caught,
    dead_letters::{self, Refused, Skipped, Stopped},
};

/// Refusals whose skipped segments an evaluation leaves out.
pub(crate) const SKIPPED: &[Refused] = &[Refused::Rollup, Refused::Evaluation];

/// Maximum predictions and outcomes unpacked at a time. The rows of a larger day are kept in a temporary file.
pub(crate) const ROWS_AT_ONCE: usize = 2_000_000;

/// Part of a rollup's coverage that an evaluation depends on: predictions and outcomes.
pub(crate) fn judged(applied: &Applied) -> Applied {
    let judged = |log: &str| {
        [Kind::Predictions, Kind::Outcomes].iter().any(|kind| log.split('/').next() == Some(kind.letter()))
    };
    applied.iter().filter(|(log, _)| judged(log)).map(|(log, seq)| (log.clone(), *seq)).collect()
}

/// Coverage that an evaluation of a day should have: of the logs that of the rollup, and the definitions.
pub(crate) fn wanted(day: &WorkspaceDay, rollup: &Applied, definitions: &Definitions) -> Applied {
    match judged(rollup) {
        logs if logs.is_empty() => logs,
        logs => definitions.cover(day.day, logs),
    }
}

/// Returns whether the coverage `applied` includes `wanted`.
pub(crate) fn covers(applied: &Applied, wanted: &Applied) -> bool {
    wanted.iter().all(|(log, seq)| applied.get(log).is_some_and(|known| known >= seq))
}

/// Effort of an evaluation or of a sketch of features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Number of joined rows.
    pub rows: u64,
    /// Number of repetitions, because another worker wrote in between.
    pub retries: u64,
    /// Segments that cannot be read. Then no evaluation was stored, and the features only of the segments before them.
    pub stopped: Vec<Stopped>,
}

/// Evaluates a day up to `applied` and stores the result, unless the stored one covers it. The definitions are read
/// after `applied`, so they include all of its releases; the evaluation states the release events that they cover.
///
/// Its events may be deleted meanwhile. Then the read fails for missing segments, or the write fails on the condition
/// that the day is not marked. The evaluation that was made of all events stays.
///
/// # Errors
/// Errors of the table, `Incomplete` when segments are lost, `Unavailable` while keys are being erased, and `Corrupt`.
pub async fn evaluate(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    applied: &Applied,
) -> Result<Effort> {
    let at = At { workspace: &day.workspace, version, day: day.day };
    let mut effort = Effort::default();
    if judged(applied).is_empty() {
        return Ok(effort);
    }
    let is_gone = async || Ok::<_, Error>(expired::load(table, &day.workspace, day.day).await?.is_some());
    let key = at.key();
    let mut tries = Policy::of(&key).tries();
    loop {
        tries.next().await?;
        effort.retries = tries.retries();
        // Before any event is read.
        let epoch = ErasureEpoch::free(table, &day.workspace).await?;
        let stored = evaluated::head(table, at).await?;
        // Read after the stored evaluation, so they cover at least its definitions.
        let definitions = Definitions::load(table, &day.workspace).await?;
        let mut wanted = wanted(day, applied, &definitions);
        // A day whose events are gone keeps the evaluation made of all of them.
        if covers(&stored.applied, &wanted) || is_gone().await? {
            return Ok(effort);
        }
        // Coverage never shrinks.
        for (log, seq) in &stored.applied {
            let wanted = wanted.entry(log.clone()).or_default();
            *wanted = (*wanted).max(*seq);
        }
        if let Some(states) = unchanged(table, at, &stored, &wanted, &definitions).await? {
            let (states, slices) = stored.apart(states);
            let new = Content { applied: wanted, rows: stored.rows, states, slices };
            let written = evaluated::write(table, at, &stored, new, OfGone::RefusedAfter(epoch)).await;
            match unless_overtaken(written)? {
                Some(()) => return Ok(effort),
                None => continue,
            }
        }
        let by = definitions.covered(&wanted).of(day.day);
        let skipped = dead_letters::skipped(table, version, day, SKIPPED).await?;
        let (evaluation, rows) = match compute(table, day, &wanted, &by, &skipped).await {
            Ok(Ok(computed)) => computed,
            Ok(Err(stopped)) => return Ok(Effort { stopped: vec![stopped], ..effort }),
            Err(error) if error.kind() == ErrorKind::Incomplete && is_gone().await? => return Ok(effort),
            Err(error) => return Err(error),
        };
        effort.rows += rows;
        let (states, slices) = evaluation.to_texts(evaluated::state_bytes(table.item_bytes()));
        let new = Content { applied: wanted.clone(), rows: Some(rows), states, slices };
        let written = evaluated::write(table, at, &stored, new, OfGone::RefusedAfter(epoch)).await;
        if unless_overtaken(written)?.is_some() {
            dead_letters::clear(table, version, day, Refused::Evaluation, &wanted).await?;
            return Ok(effort);
        }
    }
}

/// Returns the stored evaluation, if it need not be repeated to cover `wanted`: the day has not grown, and no
/// definition of its releases has changed.
async fn unchanged(
    table: &dyn Table,
    at: At<'_>,
    stored: &Head,
    wanted: &Applied,
    definitions: &Definitions,
) -> Result<Option<Vec<String>>> {
    if wanted.iter().any(|(log, seq)| log != DEFINED && stored.applied.get(log) != Some(seq)) {
        return Ok(None);
    }
    let Some((_, states)) = evaluated::load(table, at).await?.filter(|(head, _)| head == stored) else {
        return Ok(None);
    };
    let evaluation = Evaluation::from_states(&states);
    let evaluation = evaluation.map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))?;
    let (before, now) = (definitions.covered(&stored.applied).of(at.day), definitions.of(at.day));
    let is_redefined = evaluation.releases.keys().any(|release| before.get(release) != now.get(release));
    Ok((!is_redefined).then_some(states))
}

/// Evaluates the prefix `applied` of a day's logs, without the segments that are `skipped`. Returns the evaluation with
/// the number of joined rows, or the segment that cannot be read.
pub(crate) async fn compute(
    table: &dyn Table,
    day: &WorkspaceDay,
    applied: &Applied,
    by: &BTreeMap<String, Definition>,
    skipped: &Skipped,
) -> Result<Result<(Evaluation, u64), Stopped>> {
    compute_in_partitions(table, day, applied, by, skipped, ROWS_AT_ONCE).await
}

/// Evaluates as [`compute`] does; a day of more than `at_once` rows one partition after the other.
pub(crate) async fn compute_in_partitions(
    table: &dyn Table,
    day: &WorkspaceDay,
    applied: &Applied,
    by: &BTreeMap<String, Definition>,
    skipped: &Skipped,
    at_once: usize,
) -> Result<Result<(Evaluation, u64), Stopped>> {
    let prefix = Prefix::new(table, day, applied, skipped, at_once);
    unless_stopped(day, evaluate_day(&prefix, Evaluator::new(by.clone())).await)
}

/// Calls `add` with the number of each pair of releases and their common predictions in a prefix of a day's logs, after each
/// part of the day. Returns the segment that cannot be read, if there is one.
pub(crate) async fn meet(
    prefix: &Prefix<'_>,
    by: &BTreeMap<String, Definition>,
    pairs: &[[String; 2]],
    mut add: impl FnMut(usize, Vec<Meeting>) + Send,
) -> Result<Result<(), Stopped>> {
    // No release needs metrics of its own.
    let only = pairs.iter().flatten().map(|release| (release.clone(), false)).collect();
    let grouping = Grouping { only: Some(only), ..Grouping::default() };
    let evaluator = Evaluator::new(by.clone()).grouped(Arc::new(grouping)).between(pairs);
    let after = |evaluator: &mut Evaluator| {
        for (pair, duels) in evaluator.take_meetings().into_iter().enumerate() {
            add(pair, duels.into_values().flatten().collect());
        }
    };
    Ok(unless_stopped(prefix.day, judge_day(prefix, evaluator, after).await)?.map(|_| ()))
}

fn unless_stopped<T>(
    day: &WorkspaceDay,
    evaluated: std::result::Result<T, Failure>,
) -> Result<Result<T, Stopped>> {
    match evaluated {
        Ok(evaluated) => Ok(Ok(evaluated)),
        Err(Failure::Stopped(Unreadable { log, seq, reason, .. })) => Ok(Err(Stopped { log, seq, reason })),
        Err(Failure::Error(error)) if error.kind() == ErrorKind::Corrupt => {
            Err(Error::corrupt(format!("{day}: {error}")))
        }
        Err(Failure::Error(error)) => Err(error),
    }
}

/// Returns the segments of a day that are left out.
pub(crate) fn segments_of(day: &WorkspaceDay, skipped: &Skipped) -> Arc<Segments> {
    let log = |name: &String| scan::log_named(&day.workspace, day.day, name);
    Arc::new(skipped.iter().filter_map(|(name, seq)| Some((log(name)?, *seq))).collect())
}

/// Prefix of the logs of a day. An unreadable segment in it stops the evaluation.
pub(crate) struct Prefix<'a> {
    table: &'a dyn Table,
    day: &'a WorkspaceDay,
    heads: Heads,
    left_out: Arc<Segments>,
    at_once: usize,
}

impl<'a> Prefix<'a> {
    pub(crate) fn new(
        table: &'a dyn Table,
        day: &'a WorkspaceDay,
        applied: &Applied,
        skipped: &Skipped,
        at_once: usize,
    ) -> Self {
        let log = |name: &String| scan::log_named(&day.workspace, day.day, name);
        let heads = applied.iter().filter_map(|(name, last)| Some((log(name)?, *last))).collect();
        Self { table, day, heads, left_out: segments_of(day, skipped), at_once }
    }
}

#[async_trait]
impl Reading for Prefix<'_> {
    fn table(&self) -> &dyn Table {
        self.table
    }

    fn walk(&self, kind: Kind) -> Result<Walk> {
        let (until, left_out) = (Until::Heads(self.heads.clone()), Arc::clone(&self.left_out));
        Ok(Walk::new(&self.day.workspace, self.day.day, kind, until, left_out))
    }

    fn note(&self, _: Vec<Note>) {}

    fn unpacks(&self, _: usize) {}

    fn failed(&self, error: Error) -> Error {
        error
    }

    fn leaves_out(&self, segment: &Unreadable) -> bool {
        if segment.has_panicked {
            caught::count().increment(1);
        }
        false
    }

    fn rows_at_once(&self) -> usize {
        self.at_once
    }

    async fn grow(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn shrink(&self, _: u64) {}

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::{Clock, Column, Columns, Dimension, Id, Task, Timestamp, Values};
    use fold::paired::Ongoing;
    use log::{key::LogId, segment_item::Segment};
    use table::{Condition, sqlite::SqliteTable};

    use super::*;

    /// Appends a segment with some rows; `column` makes each column.
    async fn append(table: &dyn Table, day: &WorkspaceDay, kind: Kind, seq: u64, columns: Vec<Column>) {
        let log = LogId { workspace: day.workspace.clone(), day: day.day, kind, lane: 0 };
        let columns = Columns { rows: columns[0].values.len(), columns };
        let segment = Segment::pack(log, seq, Timestamp::default(), Vec::new(), &columns).unwrap();
        table.put(segment.to_item(), Condition::Absent).await.unwrap();
    }

    const SEGMENTS: u64 = 8;
    const ROWS: u64 = 200;

    /// Appends segments of predictions of two releases, and of outcomes.
    async fn fill(table: &dyn Table, day: &WorkspaceDay) {
        // Every fourth row has the same key, so some partitions are larger than intended.
        let key = |n: u64| if n.is_multiple_of(4) { "same".to_owned() } else { format!("flight-{}", n / 2) };
        let texts = |text: &dyn Fn(u64) -> String, seq: u64| {
            let texts: Vec<String> = (seq * ROWS..(seq + 1) * ROWS).map(text).collect();
            Values::Text(texts.iter().map(String::as_str).collect())
        };
        let times = |seq: u64| Values::Time((seq * ROWS..(seq + 1) * ROWS).map(|n| n as i64).collect());
        for seq in 1..=SEGMENTS {
            let scores = (0..ROWS).map(|n| (n * seq % 97) as f64 / 97.0).collect();
            let predictions = vec![
                Column::new("key", texts(&key, seq)),
                Column::new("predicted_at", times(seq)),
                Column::new("release", texts(&|n| format!("v{}", n % 2), seq)),
                Column::new("score", Values::Float(scores)),
                Column::new("tag.t", texts(&|n| format!("t{}", n % 3), seq)),
                Column::new("feature.f", Values::Float((0..ROWS).map(|n| n as f64).collect())),
            ];
            append(table, day, Kind::Predictions, seq, predictions).await;
            let outcomes = vec![
                Column::new("key", texts(&key, seq)),
                Column::new("observed_at", times(seq)),
                Column::new(
                    "label",
                    texts(&|n| if n.is_multiple_of(3) { "late" } else { "on time" }.into(), seq),
                ),
            ];
            append(table, day, Kind::Outcomes, seq, outcomes).await;
        }
    }

    #[tokio::test]
    async fn a_large_day_is_evaluated_partition_by_partition() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let day = WorkspaceDay {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2013-06-01".parse().unwrap(),
        };
        fill(&table, &day).await;
        let late = Definition {
            dimensions: Dimension::parse_all("tag.t,feature.f:0:100").unwrap(),
            ..Definition::of(Task::Binary { positive_label: "late".into() })
        };
        let by = BTreeMap::from(["v0", "v1"].map(|name| (name.to_owned(), late.clone())));
        let applied = Applied::from([("p/00".into(), SEGMENTS), ("o/00".into(), SEGMENTS)]);
        let skipped = Skipped::from([("p/00".into(), 3)]);
        let evaluate = async |at_once| {
            let computed = compute_in_partitions(&table, &day, &applied, &by, &skipped, at_once).await;
            computed.unwrap().unwrap()
        };
        let (whole, rows) = evaluate(usize::MAX).await;
        assert_eq!(rows, (2 * SEGMENTS - 1) * ROWS);
        let labelled: u64 = whole.releases.values().map(|release| release.labelled).sum();
        assert_eq!(labelled, (SEGMENTS - 1) * ROWS);
        let slices: Vec<usize> = whole.slices["v0"].values().map(Vec::len).collect();
        assert_eq!(slices, [2, 3], "values of each dimension");
        for at_once in [100, 1_000, 2_000] {
            assert_eq!(evaluate(at_once).await, (whole.clone(), rows), "{at_once} at once");
        }
        let pairs = [["v0", "v1"].map(str::to_owned)];
        let meet = async |at_once| {
            let prefix = Prefix::new(&table, &day, &applied, &skipped, at_once);
            let (mut ongoing, mut met, mut parts) = (Ongoing::default(), 0, 0);
            let add = |_, meetings: Vec<Meeting>| {
                (met, parts) = (met + meetings.len() as u64, parts + 1);
                ongoing.add(meetings);
            };
            super::meet(&prefix, &by, &pairs, add).await.unwrap().unwrap();
            (ongoing.says(), met, parts)
        };
        let (whole, met, parts) = meet(usize::MAX).await;
        // Of every other flight one row has the key `same`, so only one release predicted it.
        assert_eq!((met, parts), ((SEGMENTS - 1) * ROWS / 4, 1));
        let in_parts = meet(100).await;
        assert_eq!((in_parts.0, in_parts.1), (whole, met));
        assert!(in_parts.2 > 10, "{} parts", in_parts.2);
    }
}
