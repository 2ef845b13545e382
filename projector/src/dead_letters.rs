//! Dead letters: segments that a projection refused, and why.
//!
//! An unreadable segment stops its own log only. Its dead letter stays until an operator tries again ([`crate::retry`])
//! or skips the segment ([`skip`]), which moves `applied` past it in the same write. A projection that cannot be
//! written although its segments are readable has a letter of its own ([`crate::unwritten`]).
//!
//! A version being built has its own letters: a segment damaged after the active version folded it stops only the
//! rebuild. Operators see the letters of both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use event::{Error, Id, Result, Timestamp};
use fold::rollup::Folding;
use log::{
    active::{self, Active},
    audit::Audited,
    key::{self, LogId},
    projection::{Applied, Projected},
};
use serde::Deserialize;
use table::{Condition, Item, KeyRange, Query, Table, Write, item::Value, query_all, unless_overtaken};

pub use crate::letter::LetterState;
use crate::{
    WorkspaceDay,
    letter::{self, Why, shortened},
};

/// Attribute by which the decisions of two operators do not overwrite each other.
pub(crate) const STATE: &str = log::skipped::STATE;

/// Projection that refused a segment. A skipped segment is left out of it and of all before it in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refused {
    /// Breakdown by feature, which reads the columns of features. Only the breakdown stops.
    Features,
    /// Evaluation, which reads other columns. Only the day's evaluation stops.
    Evaluation,
    /// Fold of the rollup. Its log is not folded any further.
    Rollup,
}

impl Refused {
    /// All projections.
    pub const ALL: &'static [Self] = &[Self::Features, Self::Evaluation, Self::Rollup];

    /// Name, as stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Features => log::skipped::BY_FEATURES,
            Self::Evaluation => log::skipped::BY_EVALUATION,
            Self::Rollup => log::skipped::BY_ROLLUP,
        }
    }

    /// Returns whether a segment skipped for `self` is left out of `other` as well.
    pub(crate) fn reaches(self, other: Self) -> bool {
        self >= other
    }
}

/// A segment that cannot be decoded or folded. Its log is folded up to the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Log of the segment.
    pub log: LogId,
    /// Sequence of the segment.
    pub seq: u64,
    /// Reason of the refusal.
    pub reason: String,
}

/// A segment that a projection refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Version of the projections.
    pub version: u32,
    /// Log of the segment.
    pub log: LogId,
    /// Sequence of the segment.
    pub seq: u64,
    /// Projection that refused it.
    pub refused: Refused,
    /// Reason of the refusal.
    pub reason: String,
    /// Time of the refusal, by the clock of the process that found it.
    pub at: Timestamp,
    /// State of the letter.
    pub state: LetterState,
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:010}", self.log, self.seq)
    }
}

impl DeadLetter {
    /// Creates the letter of a segment that stopped a projection of a version.
    pub fn new(version: u32, stopped: Stopped, refused: Refused, at: Timestamp) -> Self {
        let reason = shortened(&stopped.reason);
        Self { version, log: stopped.log, seq: stopped.seq, refused, reason, at, state: LetterState::Stopped }
    }

    fn to_item(&self) -> Item {
        let key = key::dead_letter(&self.log, self.version, self.seq);
        let why = Why { reason: &self.reason, at: self.at };
        why.to_item(key, self.refused.name(), self.state)
    }

    fn from_item(item: &Item) -> Result<Self> {
        let Why { reason, at } = Why::of(item)?;
        let (log, seq, version) = key::parse_dead_letter(&item.key)
            .ok_or_else(|| item.corrupt("its key is not one of a segment"))?;
        Ok(Self {
            version,
            log,
            seq,
            refused: item.field(log::skipped::REFUSED)?,
            reason: reason.to_owned(),
            at,
            state: item.field(STATE)?,
        })
    }

    /// Name of its segment on a command line: `2013-06-01/p/00/42`.
    pub fn segment(&self) -> String {
        format!("{}/{}/{}", self.log.day, self.log.name(), self.seq)
    }

    /// Deletes it, unless it was skipped or is about another refusal by now.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn delete(&self, table: &dyn Table) -> Result<()> {
        let key = key::dead_letter(&self.log, self.version, self.seq);
        let same = Condition::All(vec![
            Condition::Equals(STATE, Value::from(LetterState::Stopped.name())),
            Condition::Equals(log::skipped::REFUSED, Value::from(self.refused.name())),
        ]);
        unless_overtaken(table.delete(&key, same).await).map(|_| ())
    }

    /// Day of the segment.
    pub(crate) fn day(&self) -> WorkspaceDay {
        WorkspaceDay { workspace: self.log.workspace.clone(), day: self.log.day }
    }
}

/// Segments that an operator left out of a projection: the names of their logs and their sequences.
pub(crate) type Skipped = BTreeSet<(String, u64)>;

/// Returns whether a segment is skipped.
pub(crate) fn is_skipped(skipped: &Skipped, log: &LogId, seq: u64) -> bool {
    !skipped.is_empty() && skipped.contains(&(log.name(), seq))
}

/// Returns the segments that are in a prefix.
pub(crate) fn within(segments: &Skipped, applied: &Applied) -> Skipped {
    let is_of = |(log, seq): &&(String, u64)| applied.get(log).is_some_and(|last| seq <= last);
    segments.iter().filter(is_of).cloned().collect()
}

/// Segments that a fold leaves out.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// Segments left out in any case.
    pub(crate) always: Skipped,
    /// Segments left out if they cannot be folded.
    pub(crate) unreadable: Skipped,
}

impl LeftOut {
    /// Reads the segments that the fold of a day's rollup, or of its breakdown by feature, leaves out.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub(crate) async fn of(
        table: &dyn Table,
        version: u32,
        day: &WorkspaceDay,
        folding: Folding,
    ) -> Result<Self> {
        let skipped = async |refused| skipped(table, version, day, refused).await;
        Ok(match folding {
            Folding::Rollup => Self { always: skipped(&[Refused::Rollup]).await?, ..Self::default() },
            // A segment that the evaluation refused may have been sketched before it was skipped: then it stays
            // counted.
            Folding::Features => Self {
                always: skipped(&[Refused::Rollup, Refused::Features]).await?,
                unreadable: skipped(&[Refused::Evaluation]).await?,
            },
        })
    }

    /// Returns whether a segment is left out if it cannot be folded.
    pub(crate) fn is_unreadable(&self, log: &LogId, seq: u64) -> bool {
        is_skipped(&self.always, log, seq) || is_skipped(&self.unreadable, log, seq)
    }
}

/// Records a dead letter; returns whether it was new. A segment has one letter: the refusal whose skip leaves the
/// segment out of more replaces another.
///
/// # Errors
/// Errors of the table.
pub async fn record(table: &dyn Table, letter: &DeadLetter) -> Result<bool> {
    let item = letter.to_item();
    if letter::record(table, item.clone()).await? {
        return Ok(true);
    }
    match find_version(table, letter.version, &letter.log, letter.seq).await? {
        Some(there) if there.refused < letter.refused => {
            let before = Condition::Equals(log::skipped::REFUSED, Value::from(there.refused.name()));
            unless_overtaken(table.put(item, before).await).map(|put| put.is_some())
        }
        _ => Ok(false),
    }
}

/// Deletes the letters of `refused` on a day whose segments are covered by now.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub(crate) async fn clear(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    refused: Refused,
    covered: &Applied,
) -> Result<()> {
    let letters =
        list_within(table, key::dead_letters_between(&day.workspace, version, day.day, day.day)).await?;
    let is_past = |letter: &DeadLetter| covered.get(&letter.log.name()).is_some_and(|seq| *seq >= letter.seq);
    let is_stopped = |letter: &DeadLetter| letter.refused == refused && letter.state == LetterState::Stopped;
    for letter in letters.iter().filter(|letter| is_stopped(letter) && is_past(letter)) {
        letter.delete(table).await?;
    }
    Ok(())
}

/// Returns the letters that still hold, and deletes the rest. Once its log is folded past a segment, its letter is
/// settled: the bytes were restored, and a sweep or a rebuild has folded it.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn unsettled(table: &dyn Table, letters: Vec<DeadLetter>) -> Result<Vec<DeadLetter>> {
    let mut left = Vec::with_capacity(letters.len());
    for letter in letters {
        match is_folded(table, &letter).await? {
            true => letter.delete(table).await?,
            false => left.push(letter),
        }
    }
    Ok(left)
}

/// Returns whether the log of a letter is folded past its segment.
async fn is_folded(table: &dyn Table, letter: &DeadLetter) -> Result<bool> {
    if letter.refused != Refused::Rollup || letter.state != LetterState::Stopped {
        return Ok(false);
    }
    let rollup = table.get(&key::rollup(&letter.log.workspace, letter.version, letter.log.day)).await?;
    // The coverage of an unreadable rollup is unknown.
    let applied = rollup.and_then(|item| Projected::applied_of(&item).ok()).unwrap_or_default();
    Ok(applied.get(&letter.log.name()).is_some_and(|seq| *seq >= letter.seq))
}

/// Lists all dead letters of a version.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn list_version(table: &dyn Table, version: u32, workspace: &Id) -> Result<Vec<DeadLetter>> {
    list_within(table, key::dead_letters(workspace, version)).await
}

/// Lists all dead letters of segments in a range.
async fn list_within(table: &dyn Table, range: KeyRange) -> Result<Vec<DeadLetter>> {
    let items = query_all(table, Query::table(range)).await?;
    let of_segments = items.iter().filter(|item| key::parse_unwritten(&item.key).is_none());
    of_segments.map(DeadLetter::from_item).collect()
}

/// Reads the segments of a day that were skipped for any of `refused`.
pub(crate) async fn skipped(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    refused: &[Refused],
) -> Result<Skipped> {
    let counts = |name: &str| refused.iter().any(|refused| refused.name() == name);
    let skipped = log::skipped::between(table, &day.workspace, version, (day.day, day.day), counts).await?;
    Ok(skipped.into_iter().map(|(log, seq)| (log.name(), seq)).collect())
}

pub(crate) async fn find_version(
    table: &dyn Table,
    version: u32,
    log: &LogId,
    seq: u64,
) -> Result<Option<DeadLetter>> {
    table.get(&key::dead_letter(log, version, seq)).await?.as_ref().map(DeadLetter::from_item).transpose()
}

/// Skips a segment: for the rollup, `applied` moves past it in the same write as the state of its letter. The
/// evaluation and the breakdown by feature pass it when they are next made.
///
/// # Errors
/// `Conflict`, when it was skipped already, or the projection does not stop at it.
pub async fn skip(table: &dyn Table, letter: &DeadLetter) -> Result<()> {
    if letter.state == LetterState::Skipped {
        return Err(Error::conflict(format!("{letter} was skipped already")));
    }
    let skipped = DeadLetter { state: LetterState::Skipped, ..letter.clone() };
    let before = Condition::Equals(STATE, Value::from(LetterState::Stopped.name()));
    let table = &Audited::over(table);
    let day = letter.day();
    let head_of = match letter.refused {
        Refused::Evaluation => return table.put(skipped.to_item(), before).await,
        Refused::Features => key::features,
        Refused::Rollup => key::rollup,
    };
    let key = head_of(&day.workspace, letter.version, day.day);
    let stored = match table.get(&key).await? {
        Some(item) => Projected::from_item(&item)?,
        None => Projected { state: fold::Rollup::default().to_state(), ..Projected::empty() },
    };
    let applied = stored.applied.get(&letter.log.name()).copied().unwrap_or(0);
    if applied + 1 != letter.seq {
        return Err(Error::conflict(format!(
            "{} is folded up to {applied}, so segment {} is not what stops it; `almanac admin dead-letters retry` looks again",
            letter.log, letter.seq
        )));
    }
    let head = if letter.refused == Refused::Rollup {
        let mut past = stored.applied.clone();
        past.insert(letter.log.name(), letter.seq);
        let (rollup, unchanged) = stored.replace(key, &past, stored.state.clone());
        Write::Put(rollup, unchanged)
    } else {
        Write::Check(key, Condition::unchanged(stored.ver))
    };
    table.transact(vec![head, Write::Put(skipped.to_item(), before)]).await
}

/// Lists all dead letters of a workspace, in the active version and in the one being built: one for each segment.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn list(table: &dyn Table, workspace: &Id) -> Result<Vec<DeadLetter>> {
    list_of(table, active::load(table, workspace).await?, workspace).await
}

/// Lists the letters when these versions are known.
pub(crate) async fn list_of(table: &dyn Table, found: Active, workspace: &Id) -> Result<Vec<DeadLetter>> {
    let mut letters: BTreeMap<String, DeadLetter> = BTreeMap::new();
    for version in versions(found) {
        for letter in list_version(table, version, workspace).await? {
            let name = letter.to_string();
            let first = first_of(letters.remove(&name), Some(letter));
            letters.extend(first.map(|letter| (name, letter)));
        }
    }
    Ok(letters.into_values().collect())
}

/// Active version, and then the one being built.
fn versions(found: Active) -> impl Iterator<Item = u32> {
    std::iter::once(found.version).chain(found.building)
}

/// Chooses the letter of a segment to show: one that stops something first, then the one of the refusal whose skip leaves the
/// segment out of more, then the one of the active version.
fn first_of(active: Option<DeadLetter>, building: Option<DeadLetter>) -> Option<DeadLetter> {
    let weight = |letter: &DeadLetter| (letter.state == LetterState::Stopped, letter.refused);
    match (active, building) {
        (Some(active), Some(building)) if weight(&building) > weight(&active) => Some(building),
        (active, building) => active.or(building),
    }
}

/// Finds the dead letter of a segment, in the active version or in the one being built.
///
/// # Errors
/// `NotFound`, when it has none.
pub async fn find(table: &dyn Table, log: &LogId, seq: u64) -> Result<DeadLetter> {
    let mut found = None;
    for version in versions(active::load(table, &log.workspace).await?) {
        found = first_of(found, find_version(table, version, log, seq).await?);
    }
    found.ok_or_else(|| Error::not_found(format!("there is no dead letter {log}/{seq:010}")))
}

#[cfg(test)]
mod tests {
    use event::Kind;

    use super::*;
    use crate::letter::MAX_REASON_BYTES;

    #[test]
    fn dead_letter_round_trips_with_bounded_reason() {
        let log = LogId {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2013-06-01".parse().unwrap(),
            kind: Kind::Predictions,
            lane: 3,
        };
        let stopped = Stopped { log, seq: 7, reason: "ä".repeat(900) };
        let letter = DeadLetter::new(2, stopped, Refused::Evaluation, Timestamp::default());
        assert_eq!(letter.reason.len(), MAX_REASON_BYTES);
        assert_eq!(letter.to_string(), "day#2013-06-01/p/03/0000000007");
        assert_eq!(DeadLetter::from_item(&letter.to_item()).unwrap(), letter);
        let skipped = DeadLetter { state: LetterState::Skipped, refused: Refused::Rollup, ..letter };
        assert_eq!(DeadLetter::from_item(&skipped.to_item()).unwrap(), skipped);
        assert!(DeadLetter::from_item(&skipped.to_item().with(STATE, "lost")).is_err());
    }

    fn letter(version: u32, refused: Refused, state: LetterState) -> DeadLetter {
        let log = LogId {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: "2013-06-01".parse().unwrap(),
            kind: Kind::Predictions,
            lane: 0,
        };
        let stopped = Stopped { log, seq: 42, reason: "damaged".into() };
        DeadLetter { state, ..DeadLetter::new(version, stopped, refused, Timestamp::default()) }
    }

    #[test]
    fn dead_letter_that_stops_more_is_shown() {
        use LetterState::{Skipped, Stopped};
        use Refused::{Features, Rollup};
        assert_eq!(letter(1, Rollup, Stopped).segment(), "2013-06-01/p/00/42");
        let shown = |active: Option<(Refused, LetterState)>, building: Option<(Refused, LetterState)>| {
            let of = |version, one: Option<_>| one.map(|(refused, state)| letter(version, refused, state));
            first_of(of(1, active), of(2, building)).map(|letter| letter.version)
        };
        assert_eq!(shown(None, None), None);
        assert_eq!(shown(None, Some((Rollup, Stopped))), Some(2));
        assert_eq!(shown(Some((Rollup, Stopped)), Some((Rollup, Stopped))), Some(1));
        assert_eq!(shown(Some((Features, Stopped)), Some((Rollup, Stopped))), Some(2));
        assert_eq!(shown(Some((Rollup, Skipped)), Some((Features, Stopped))), Some(2));
        assert_eq!(shown(Some((Features, Stopped)), Some((Rollup, Skipped))), Some(1));
    }
}
