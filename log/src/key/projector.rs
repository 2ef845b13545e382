//! Keys of the items that the projector writes: projections, dead letters, leases and heartbeats.

use std::{fmt, str::FromStr};

use event::{Day, Error, Id, Result, serde_as_text};
use table::{Key, KeyRange};

use super::{END, LogId, parse_place};

pub use event::lane::{Breakdown, By};

pub(super) fn rollup_partition(workspace: &Id, version: u32) -> String {
    format!("w#{workspace}/rollup/v{version}")
}

fn feature_partition(workspace: &Id, version: u32) -> String {
    format!("w#{workspace}/feature/v{version}")
}

/// The rollup of a day.
pub fn rollup(workspace: &Id, version: u32, day: Day) -> Key {
    Key::new(rollup_partition(workspace, version), format!("day#{day}"))
}

/// The evaluation of a day.
pub fn evaluation(workspace: &Id, version: u32, day: Day) -> Key {
    Key::new(rollup_partition(workspace, version), format!("day#{day}/eval"))
}

/// Identity of one writing of an evaluation, to which its parts belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    /// Version of the head that names it.
    pub ver: u64,
    /// Digest of all its parts.
    pub digest: u64,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:010}-{:016x}", self.ver, self.digest)
    }
}

serde_as_text!(Generation);

impl FromStr for Generation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('-').and_then(|(ver, digest)| {
            Some(Self { ver: ver.parse().ok()?, digest: u64::from_str_radix(digest, 16).ok()? })
        });
        let own = parsed.filter(|found| found.to_string() == text);
        own.ok_or_else(|| Error::invalid(format!("`{text}` is no generation")))
    }
}

/// A part of the evaluation of a day.
pub fn evaluation_part(workspace: &Id, version: u32, day: Day, generation: Generation, part: u32) -> Key {
    Key::new(rollup_partition(workspace, version), format!("day#{day}/eval/{generation}/{part:05}"))
}

/// All parts of the evaluation of a day, of any generation.
pub fn evaluation_parts(workspace: &Id, version: u32, day: Day) -> KeyRange {
    KeyRange::prefix(rollup_partition(workspace, version), &format!("day#{day}/eval/"))
}

/// The evaluation of a day with its parts.
pub fn evaluation_items(workspace: &Id, version: u32, day: Day) -> KeyRange {
    KeyRange { from: evaluation(workspace, version, day).sk, ..evaluation_parts(workspace, version, day) }
}

/// Part of the slices of the evaluation of a day. They stand apart, so that a read of a window is without them.
pub fn slice_part(workspace: &Id, version: u32, day: Day, generation: Generation, part: u32) -> Key {
    Key::new(rollup_partition(workspace, version), format!("slice#{day}/{generation}/{part:05}"))
}

/// The slices from day `from` to day `to`, of any generation.
pub fn slices_between(workspace: &Id, version: u32, from: Day, to: Day) -> KeyRange {
    KeyRange {
        pk: rollup_partition(workspace, version),
        from: format!("slice#{from}/"),
        to: format!("slice#{to}/{END}"),
    }
}

/// All slices.
pub fn all_slices(workspace: &Id, version: u32) -> KeyRange {
    KeyRange::prefix(rollup_partition(workspace, version), "slice#")
}

/// Parses the day, the generation and the number of a part of the slices. `None`, when the key is another one.
pub fn parse_slice(key: &Key) -> Option<(Day, Generation, u32)> {
    let mut parts = key.sk.strip_prefix("slice#")?.split('/');
    let day = parts.next()?.parse().ok()?;
    let (generation, part) = (parts.next()?.parse().ok()?, parts.next()?);
    (part.len() == 5 && parts.next().is_none()).then_some((day, generation, part.parse().ok()?))
}

/// Parses the generation of a part of an evaluation, or of its slices. `None`, when the key is another one.
pub fn generation_of(key: &Key) -> Option<Generation> {
    match parse_projection(key) {
        Ok((_, Projection::EvaluationPart(generation, _))) => Some(generation),
        _ => parse_slice(key).map(|(_, generation, _)| generation),
    }
}

/// Item of a breakdown of a day. Those by feature have a partition of their own.
pub fn breakdown(workspace: &Id, version: u32, day: Day, breakdown: Breakdown) -> Key {
    let partition = match breakdown.by {
        By::Release | By::Metric | By::Tag => rollup_partition(workspace, version),
        By::Feature => feature_partition(workspace, version),
    };
    Key::new(partition, format!("day#{day}/{breakdown}"))
}

/// Head of the features of a day, with the coverage of their breakdown. It stands beside the rollup.
pub fn features(workspace: &Id, version: u32, day: Day) -> Key {
    Key::new(rollup_partition(workspace, version), format!("day#{day}/features"))
}

/// The breakdowns by feature from day `from` to day `to`.
pub fn features_between(workspace: &Id, version: u32, from: Day, to: Day) -> KeyRange {
    KeyRange { pk: feature_partition(workspace, version), ..projections(workspace, version, from, to) }
}

/// All breakdowns by feature.
pub fn all_features(workspace: &Id, version: u32) -> KeyRange {
    KeyRange { pk: feature_partition(workspace, version), ..all_projections(workspace, version) }
}

/// The rollups, breakdowns, but for those by feature, and evaluations from day `from` to day `to`.
pub fn projections(workspace: &Id, version: u32, from: Day, to: Day) -> KeyRange {
    KeyRange {
        pk: rollup_partition(workspace, version),
        from: format!("day#{from}"),
        to: format!("day#{to}/{END}"),
    }
}

/// Such projections from day `first` on.
pub fn projections_since(workspace: &Id, version: u32, first: Day) -> KeyRange {
    KeyRange { from: format!("day#{first}"), ..all_projections(workspace, version) }
}

/// All rollups, breakdowns, but for those by feature, and evaluations.
pub fn all_projections(workspace: &Id, version: u32) -> KeyRange {
    KeyRange::prefix(rollup_partition(workspace, version), "day#")
}

/// Kind of item stored under a day of the projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// Counts, sums, histograms.
    Rollup,
    /// Part of the rollup by release, metric, tag or feature.
    Breakdown(Breakdown),
    /// Coverage of the breakdown by feature, and the predictions that it counts.
    Features,
    /// Predictions judged by outcomes.
    Evaluation,
    /// Part of an evaluation, by its generation and its number.
    EvaluationPart(Generation, u32),
}

/// Parses the day and the kind of a projection.
///
/// # Errors
/// `Corrupt`, when the key is of no projection.
pub fn parse_projection(key: &Key) -> Result<(Day, Projection)> {
    let parse = || {
        let mut parts = key.sk.strip_prefix("day#")?.split('/');
        let day = parts.next()?.parse().ok()?;
        let found = match (parts.next(), parts.next()) {
            (None, None) => Projection::Rollup,
            (Some("eval"), None) => Projection::Evaluation,
            (Some("features"), None) => Projection::Features,
            (Some("eval"), Some(generation)) => {
                let part = parts.next().filter(|part| part.len() == 5)?;
                part.bytes().all(|digit| digit.is_ascii_digit()).then_some(())?;
                Projection::EvaluationPart(generation.parse().ok()?, part.parse().ok()?)
            }
            (Some(by), Some(bucket)) => {
                let by = By::ALL.into_iter().find(|one| one.name() == by)?;
                let breakdown = Breakdown { by, bucket: u8::from_str_radix(bucket, 16).ok()? };
                (format!("{breakdown}") == format!("{}/{bucket}", by.name())).then_some(())?;
                Projection::Breakdown(breakdown)
            }
            (None, Some(_)) | (Some(_), None) => return None,
        };
        parts.next().is_none().then_some((day, found))
    };
    parse().ok_or_else(|| Error::corrupt(format!("{key} is not the key of a projection")))
}

/// Active version of a workspace's projections.
pub fn active(workspace: &Id) -> Key {
    Key::new(format!("w#{workspace}/proj"), "active")
}

/// Parses the workspace of a key of [`active`]. `None`, when it is another key.
pub fn parse_active(key: &Key) -> Option<Id> {
    let workspace = key.pk.strip_prefix("w#")?.strip_suffix("/proj").filter(|_| key.sk == "active")?;
    Id::parse(workspace).ok()
}

pub(super) fn dead_letter_partition(workspace: &Id, version: u32) -> String {
    format!("w#{workspace}/dlq/v{version}")
}

/// The dead letter of a segment that a projection of this version refused.
pub fn dead_letter(log: &LogId, version: u32, seq: u64) -> Key {
    Key::new(dead_letter_partition(&log.workspace, version), format!("{log}/{seq:010}"))
}

/// Parses the workspace of a dead letter of any sort, and the name of the refused thing. `None`, when it is another key.
pub fn parse_letter(key: &Key) -> Option<(Id, &str)> {
    let (workspace, _) = key.pk.strip_prefix("w#")?.split_once("/dlq/v")?;
    Some((Id::parse(workspace).ok()?, &key.sk))
}

/// All dead letters of a version.
pub fn dead_letters(workspace: &Id, version: u32) -> KeyRange {
    KeyRange::prefix(dead_letter_partition(workspace, version), "day#")
}

/// The dead letters from day `from` to day `to`.
pub fn dead_letters_between(workspace: &Id, version: u32, from: Day, to: Day) -> KeyRange {
    KeyRange {
        pk: dead_letter_partition(workspace, version),
        from: format!("day#{from}/"),
        to: format!("day#{to}/{END}"),
    }
}

/// Parses the segment and the version of a dead letter. `None`, when the key is another one.
pub fn parse_dead_letter(key: &Key) -> Option<(LogId, u64, u32)> {
    let (workspace, version) = key.pk.strip_prefix("w#")?.split_once("/dlq/v")?;
    let (log, seq) = parse_place(workspace, &key.sk)?;
    Some((log, seq, version.parse().ok()?))
}

/// Projection or other record of a day whose write may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfDay {
    /// Its rollup, with the breakdowns and counters that are written before it.
    Rollup,
    /// Its evaluation.
    Evaluation,
    /// Its breakdown by feature.
    Features,
    /// Live releases, by its release events.
    Live,
}

impl OfDay {
    /// All of them.
    pub const ALL: [OfDay; 4] = [OfDay::Rollup, OfDay::Evaluation, OfDay::Features, OfDay::Live];

    /// Name in keys.
    pub fn name(self) -> &'static str {
        match self {
            OfDay::Rollup => "rollup",
            OfDay::Evaluation => "evaluation",
            OfDay::Features => "features",
            OfDay::Live => "live",
        }
    }

    /// Finds the one with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Dead letter of a record of a day that cannot be written.
pub fn unwritten(workspace: &Id, version: u32, day: Day, what: OfDay) -> Key {
    Key::new(dead_letter_partition(workspace, version), format!("day#{day}/{}", what.name()))
}

/// Parses a key of [`unwritten`]. `None`, when it is another key.
pub fn parse_unwritten(key: &Key) -> Option<(Id, u32, Day, OfDay)> {
    let (workspace, version) = key.pk.strip_prefix("w#")?.split_once("/dlq/v")?;
    let (day, what) = key.sk.strip_prefix("day#")?.split_once('/')?;
    Some((Id::parse(workspace).ok()?, version.parse().ok()?, day.parse().ok()?, OfDay::of_name(what)?))
}

pub(super) fn lease_partition(stream: &str) -> String {
    format!("sys/lease#{stream}")
}

/// The lease of a shard of a stream.
pub fn lease(stream: &str, shard: &str) -> Key {
    Key::new(lease_partition(stream), format!("shard#{shard}"))
}

/// All leases of a stream.
pub fn leases(stream: &str) -> KeyRange {
    KeyRange::prefix(lease_partition(stream), "shard#")
}

/// Parses the shard of a lease. `None`, when the key is another one.
pub fn parse_lease(key: &Key) -> Option<&str> {
    key.pk.strip_prefix("sys/lease#")?;
    key.sk.strip_prefix("shard#")
}

/// Cursor of the sweep of all days: the workspace after which it goes on.
pub fn sweep_cursor() -> Key {
    Key::new("sys/sweep", "cursor")
}

/// The demand for a sweep of all days of all workspaces, while there is one.
pub fn full_sweep() -> Key {
    Key::new("sys/sweep", "full")
}

/// The partition of the heartbeats of workers.
pub const WORKERS: &str = "sys/worker";

/// The heartbeat of a worker.
pub fn worker(id: &str) -> Key {
    Key::new(WORKERS, id)
}
