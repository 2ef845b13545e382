//! Compares live releases with others that predict beside them, day by day, and records the decision for the better one
//! once, as an event of the activity feed. The comparison equals that of `query challengers` over the days since the
//! release became live. Its bounds hold however often it is evaluated, so it may stop on the first day on which they
//! exclude zero.
//!
//! A day is compared once, from its stored evaluation, when it and the last event of it are a day old: then all its
//! events are closed. A day that still grows or has no outcomes is waited for until [`LONGEST_DAYS`] after its end. The
//! state of all comparisons after the day and the events of the feed are one transaction, under the condition that no
//! other process has compared the day. So each decision is recorded once, through all restarts and rebuilds.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Catalog, Challenge, Challenges, Definitions, LiveState, MAX_CHALLENGES, decision_item};
use event::{Day, Definition, Error, ErrorKind, Id, Kind, Result, Timestamp, time::DAY_MICROS};
use fold::{Evaluation, paired::Meeting};
use log::{
    active,
    evaluated::{self, At, Head},
    expired,
    projection::Applied,
    scan,
};
use table::{Condition, Table, Write, unless_overtaken};

use crate::{
    WorkspaceDay,
    dead_letters::{self, Skipped},
    early::latest,
    evaluate::{self, Prefix, SKIPPED, meet},
    vintages::closed,
};

/// Maximum days of a workspace compared at once.
const DAYS_AT_ONCE: usize = 4;

/// Seconds since its end and since its last event after which a day is compared.
const QUIET_SECONDS: i64 = DAY_SECONDS;

/// Days after its end at which a day is compared in any case, with the events present.
pub const LONGEST_DAYS: i64 = 30;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Result of the comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of compared days.
    pub days: u64,
    /// Number of decided comparisons.
    pub decided: u64,
}

/// Compares the days of a workspace that are ready by `now`, up to a maximum for each call. Takes two reads when no
/// release is live, and one when the next day is not over.
///
/// # Errors
/// Errors of the table, and `Corrupt`. It may be called again at any time.
pub async fn judge(table: &dyn Table, catalog: &Catalog, workspace: &Id, now: Timestamp) -> Result<Outcome> {
    let closed = closed(table, now);
    let mut outcome = Outcome::default();
    let Some(mut stored) = Challenges::load(table, workspace).await? else {
        if catalog.live_now(workspace).await?.values().any(|live| !live.is_empty()) {
            // The first compared day is today.
            let day = now.plus_seconds(-DAY_SECONDS).day();
            let first = Challenges { ver: 1, day, all: Vec::new() };
            unless_overtaken(table.put(first.to_item(workspace), Condition::Absent).await)?;
        }
        return Ok(outcome);
    };
    let of = |day| DayComparison {
        table,
        catalog,
        day: WorkspaceDay { workspace: workspace.clone(), day },
        closed,
    };
    if is_early(&stored, latest(table, now)) {
        let again = compared_again(&stored, &of, closed).await?;
        let put = table.put(again.to_item(workspace), Condition::unchanged(stored.ver)).await;
        if unless_overtaken(put)?.is_none() {
            return Ok(outcome);
        }
        tracing::warn!(%workspace, day = %stored.day, "a clock that was ahead had compared live releases on days that were not over; they are compared again");
        stored = again;
    }
    for _ in 0..DAYS_AT_ONCE {
        let Some(day) = stored.day.next() else { break };
        let comparison = of(day);
        let Some(after) = comparison.day(&stored).await? else { break };
        let Some(decided) = comparison.write(&after, now).await? else { break };
        outcome.days += 1;
        outcome.decided += decided;
        stored = after;
    }
    Ok(outcome)
}

/// Returns whether a clock that was ahead has compared a day that is not over for long enough by the latest clock. The
/// first version of the state names the day before the first compared one.
fn is_early(stored: &Challenges, latest: Timestamp) -> bool {
    let first_ended = if stored.ver == 1 { 0 } else { QUIET_SECONDS };
    stored.day.start().plus_seconds(DAY_SECONDS + first_ended) > latest
}

/// Keeps the recorded decisions, and begins all other comparisons again from their first day.
async fn compared_again<'a>(
    stored: &Challenges,
    of: &impl Fn(Day) -> DayComparison<'a>,
    closed: Timestamp,
) -> Result<Challenges> {
    let over = closed.plus_seconds(-2 * DAY_SECONDS).day();
    let first = stored.all.iter().filter(|one| !one.is_told).map(|one| one.since).min();
    let day = first.and_then(Day::before).map_or(over, |before| before.min(over));
    let mut again = Challenges { ver: stored.ver, day, all: Vec::new() };
    while let Some(day) = again.day.next().filter(|day| *day <= over) {
        let Some(after) = of(day).day(&again).await? else { break };
        again = after;
    }
    let told: Vec<Challenge> = stored.all.iter().filter(|one| one.is_told).cloned().collect();
    again.all.retain(|one| !told.iter().any(|known| known.is_of_same(one)));
    again.all.splice(..0, told);
    Ok(Challenges { ver: stored.ver + 1, day: again.day.min(over), ..again })
}

/// A day while it is compared.
struct DayComparison<'a> {
    table: &'a dyn Table,
    catalog: &'a Catalog,
    day: WorkspaceDay,
    closed: Timestamp,
}

impl DayComparison<'_> {
    /// State of all comparisons after the day; `None`, when it cannot be compared yet.
    async fn day(&self, before: &Challenges) -> Result<Option<Challenges>> {
        let WorkspaceDay { workspace, day } = &self.day;
        let end = day.start().plus_seconds(DAY_SECONDS);
        if end.plus_seconds(QUIET_SECONDS) > self.closed {
            return Ok(None);
        }
        let last = Timestamp::from_micros(day.start().micros() + DAY_MICROS - 1).unwrap_or(end);
        let live = self.catalog.all_live_at(workspace, last).await?;
        let mut after = Challenges { ver: before.ver + 1, day: *day, all: before.all.clone() };
        after.all.retain(|one| {
            let champion = live.get(&one.environment).and_then(|live| live.get(&one.model));
            champion.is_some_and(|live| live.release == one.champion)
        });
        if live.values().all(LiveState::is_empty)
            || expired::load(self.table, workspace, *day).await?.is_some()
        {
            return Ok(Some(after));
        }
        let at = At { workspace, version: active::load(self.table, workspace).await?.version, day: *day };
        let Some((head, evaluation)) = self.evaluated(at).await? else {
            let is_ready = self.is_ready(&Applied::new(), end).await?;
            return Ok(is_ready.then_some(after));
        };
        if !self.is_ready(&head.applied, end).await? {
            return Ok(None);
        }
        let definitions = Definitions::load(self.table, workspace).await?;
        let models = definitions.models();
        let has_met = |release: &String| {
            evaluation.releases.get(release).is_some_and(|release| !release.record.is_empty())
        };
        let met: BTreeMap<&String, &String> = models.iter().filter(|(release, _)| has_met(release)).collect();
        begin(&mut after.all, &live, &met, &self.day);
        let by = definitions.covered(&head.applied).of(*day);
        if !self.add(&mut after.all, &met, (&head, at.version), &by).await? {
            return Ok(None);
        }
        Ok(Some(after))
    }

    /// Reads the stored evaluation of the day.
    async fn evaluated(&self, at: At<'_>) -> Result<Option<(Head, Evaluation)>> {
        let Some((head, states)) = evaluated::load_plain(self.table, at).await? else { return Ok(None) };
        let evaluation = Evaluation::from_states(&states);
        let evaluation = evaluation.map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))?;
        Ok(Some((head, evaluation)))
    }

    /// Returns whether the day is complete: all its events are evaluated and none is young, or it ended long ago.
    async fn is_ready(&self, applied: &Applied, end: Timestamp) -> Result<bool> {
        if end.plus_seconds(LONGEST_DAYS * DAY_SECONDS) <= self.closed {
            return Ok(true);
        }
        let quiet = self.closed.plus_seconds(-QUIET_SECONDS);
        let mut has = [false; 2];
        for (kind, has) in [Kind::Predictions, Kind::Outcomes].into_iter().zip(&mut has) {
            for head in scan::heads_of_kind(self.table, &self.day.workspace, self.day.day, kind).await? {
                *has = true;
                let last = match scan::last_of(self.table, &head.log).await {
                    // The time of the append is unknown; a dead letter reports it.
                    Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
                    last => last?,
                };
                let is_covered = applied.get(&head.log.name()).is_some_and(|covered| *covered >= head.seq);
                if !is_covered || last.is_some_and(|last| last.appended_at > quiet) {
                    return Ok(false);
                }
            }
        }
        let [has_predictions, has_outcomes] = has;
        Ok(!has_predictions || has_outcomes)
    }

    /// Adds the day to the undecided comparisons. Returns whether its events could be read.
    async fn add(
        &self,
        all: &mut [Challenge],
        met_any: &BTreeMap<&String, &String>,
        (head, version): (&Head, u32),
        by: &BTreeMap<String, Definition>,
    ) -> Result<bool> {
        let wanted = all.iter().filter(|one| !one.is_told);
        let both = wanted.map(|one| [&one.challenger, &one.champion]);
        let both = both.filter(|pair| pair.iter().all(|release| met_any.contains_key(release)));
        // A pair that is live in two environments is compared once.
        let pairs: BTreeSet<[String; 2]> = both.map(|pair| pair.map(Clone::clone)).collect();
        if pairs.is_empty() {
            return Ok(true);
        }
        let skipped = dead_letters::skipped(self.table, version, &self.day, SKIPPED).await?;
        // With one champion there are at most as many meetings as predictions; a large day is compared in parts.
        let mut by_champion = BTreeMap::<String, Vec<[String; 2]>>::new();
        pairs.into_iter().for_each(|pair| by_champion.entry(pair[1].clone()).or_default().push(pair));
        for some in by_champion.values() {
            let add = |[challenger, champion]: &[String; 2], meetings: Vec<Meeting>| {
                let of = |one: &&mut Challenge| {
                    !one.is_told && one.challenger == *challenger && one.champion == *champion
                };
                all.iter_mut().filter(of).for_each(|one| one.ongoing.add(meetings.clone()));
            };
            if !self.meet(&head.applied, by, &skipped, some, add).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the common predictions of each pair, and calls `add` with those of some keys at a time. Returns false when a
    /// segment cannot be read: then the evaluation has a dead letter.
    async fn meet(
        &self,
        applied: &Applied,
        by: &BTreeMap<String, Definition>,
        skipped: &Skipped,
        pairs: &[[String; 2]],
        mut add: impl FnMut(&[String; 2], Vec<Meeting>) + Send,
    ) -> Result<bool> {
        let add = |pair: usize, met| add(&pairs[pair], met);
        let prefix = Prefix::new(self.table, &self.day, applied, skipped, evaluate::ROWS_AT_ONCE);
        match meet(&prefix, by, pairs, add).await {
            // The events are being deleted: the next round finds the day gone.
            Err(error) if error.kind() == ErrorKind::Incomplete => {
                match expired::load(self.table, &self.day.workspace, self.day.day).await? {
                    Some(_) => Ok(false),
                    None => Err(error),
                }
            }
            met => Ok(met?.is_ok()),
        }
    }

    /// Writes the state and the decisions; returns their number, or `None` when another process has compared the day.
    async fn write(&self, after: &Challenges, now: Timestamp) -> Result<Option<u64>> {
        let WorkspaceDay { workspace, day } = &self.day;
        let (mut after, mut writes, mut texts) = (after.clone(), Vec::new(), Vec::new());
        for one in &mut after.all {
            let Some(decision) = one.decision(*day, now) else { continue };
            one.is_told = true;
            let item = decision_item(self.table, workspace, &decision).await?;
            writes.push(Write::Put(item, Condition::Absent));
            texts.push(decision.text);
        }
        writes.push(Write::Put(after.to_item(workspace), Condition::unchanged(after.ver - 1)));
        let written = unless_overtaken(self.table.transact(writes).await)?;
        if written.is_some() {
            texts.iter().for_each(|text| tracing::info!(day = %self.day, "{text}"));
        }
        Ok(written.map(|()| texts.len() as u64))
    }
}

/// Begins to compare the releases that predict beside a live release of their model, up to the maximum.
fn begin(
    all: &mut Vec<Challenge>,
    live: &BTreeMap<String, LiveState>,
    met: &BTreeMap<&String, &String>,
    day: &WorkspaceDay,
) {
    for (environment, state) in live {
        for (challenger, model) in met {
            let Some(champion) = state.get(*model).map(|live| &live.release) else { continue };
            let is_of = |one: &Challenge| {
                one.environment == *environment && one.model == **model && one.challenger == **challenger
            };
            if champion == *challenger || !met.contains_key(champion) || all.iter().any(is_of) {
                continue;
            }
            if all.len() >= MAX_CHALLENGES {
                tracing::warn!(%day, challenger, champion, "too many comparisons with live releases go on; this one is begun later");
                continue;
            }
            all.push(Challenge::new([challenger, champion], model, environment, day.day));
        }
    }
}
