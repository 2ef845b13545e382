//! Evaluations as items: a head, and parts if there are many releases.
//!
//! The head has the covered prefix. A small evaluation is in the head; of a larger one the head names the *generation*
//! of its parts, which are items written before the head. The key of a part has its generation: the `ver` that the head
//! will have and a digest of all parts, so parts of two writers do not mix. Parts of older generations are deleted
//! after the head is written. So a reader that misses a part of its head was overtaken by a writer, and reads again
//! ([`load`]).
//!
//! The slices are in parts of their own, in another range of keys, so readers of the evaluations of a window skip them
//! ([`load_plain`]).

use std::collections::BTreeMap;

use event::{Day, Error, Id, Result};
use futures::future::try_join_all;
use sha2::{Digest, Sha256};
use table::{
    Condition, Item, Key, Query, Table, Write,
    item::{MAX_ITEM_BYTES, Value},
    query_all,
};

use crate::{
    erased::ErasureEpoch,
    key::{self, Generation, Projection},
    projection::{Applied, Projected},
};

/// Form of a head with the whole evaluation, and of a part.
const WHOLE: i64 = 1;

/// Form of a head whose evaluation is in parts.
const IN_PARTS: i64 = 2;

/// Number of parts written or deleted at once.
const AT_ONCE: usize = 16;

/// Maximum reads of an evaluation that is rewritten while it is read.
const MAX_READS: usize = 20;

/// Maximum bytes of a state on an engine with items of up to `item_bytes`: 340 KiB of 400, which leaves room for the
/// covered prefix.
pub const fn state_bytes(item_bytes: usize) -> usize {
    item_bytes / 400 * 340
}

// Room for the prefixes of all lanes of all kinds beside a state.
const _: () = assert!(state_bytes(MAX_ITEM_BYTES) <= 340 * 1024);

/// Identity of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The workspace.
    pub workspace: &'a Id,
    /// The version of the projections.
    pub version: u32,
    /// The day.
    pub day: Day,
}

impl At<'_> {
    /// The key of its head.
    pub fn key(&self) -> Key {
        key::evaluation(self.workspace, self.version, self.day)
    }
}

/// The head of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of writes; 0 if there is no evaluation.
    pub ver: i64,
    /// The covered prefix of the day's predictions and outcomes.
    pub applied: Applied,
    /// Number of predictions and outcomes in that prefix, if it is known.
    pub rows: Option<u64>,
    place: States,
    /// Generation of the parts with the slices, and their number.
    slices: Option<(Generation, u32)>,
}

/// Storage of the states.
#[derive(Clone, Debug, PartialEq, Eq)]
enum States {
    Here(String),
    Parts { generation: Generation, count: u32 },
}

/// Results of an evaluation, with the covered prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// See [`Head::applied`].
    pub applied: Applied,
    /// See [`Head::rows`].
    pub rows: Option<u64>,
    /// The results, as at least one text, each of which fits an item.
    pub states: Vec<String>,
    /// The slices, likewise; none if there are no rows.
    pub slices: Vec<String>,
}

/// Rule for writing an evaluation of a day whose events are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfGone {
    /// Refused: it was computed from events. The write is conditional on the day not being marked as expired, so it
    /// fails if events were deleted during the computation.
    Refused,
    /// Refused, and also conditional on the erasure epoch: it fails if events were rewritten without their keys since.
    RefusedAfter(ErasureEpoch),
    /// Allowed: it is a copy of an evaluation that covers the day.
    Allowed,
}

impl Head {
    /// Returns the head for no evaluation.
    pub fn none() -> Self {
        Self { ver: 0, applied: Applied::new(), rows: None, place: States::Here(String::new()), slices: None }
    }

    /// Decodes an item.
    ///
    /// # Errors
    /// `Corrupt` if it is no head, or of an unknown form.
    pub fn from_item(item: &Item) -> Result<Self> {
        let place = match item.int("v")? {
            IN_PARTS => States::Parts { generation: item.field("generation")?, count: item.field("parts")? },
            _ => States::Here(item.text("state")?.to_owned()),
        };
        let slices: Option<u32> = item.field("slices")?;
        let of_slices = |count| Ok::<_, Error>((item.field("slice_generation")?, count));
        Ok(Self {
            ver: item.int("ver")?,
            applied: Projected::applied_of(item)?,
            rows: item.field("rows")?,
            place,
            slices: slices.map(of_slices).transpose()?,
        })
    }

    fn to_item(&self, key: Key) -> Item {
        let mut item = Item::new(key).with("ver", self.ver).with("applied", Value::record(&self.applied));
        if let Some(rows) = self.rows {
            item = item.with("rows", rows as i64);
        }
        if let Some((generation, count)) = &self.slices {
            item = item.with("slice_generation", generation.to_string()).with("slices", i64::from(*count));
        }
        match &self.place {
            States::Here(state) => item.with("v", WHOLE).with("state", state.as_str()),
            States::Parts { generation, count } => item
                .with("v", IN_PARTS)
                .with("generation", generation.to_string())
                .with("parts", i64::from(*count)),
        }
    }

    /// Separates the texts of the releases from those of the slices, which have parts of their own.
    pub fn apart(&self, mut states: Vec<String>) -> (Vec<String>, Vec<String>) {
        let count = self.slices.map_or(0, |(_, count)| count as usize);
        let slices = states.split_off(states.len().saturating_sub(count));
        (states, slices)
    }

    fn has_parts(&self) -> bool {
        self.generation().is_some() || self.slices.is_some()
    }

    fn generation(&self) -> Option<Generation> {
        match self.place {
            States::Here(_) => None,
            States::Parts { generation, .. } => Some(generation),
        }
    }
}

/// Result of reading a day's evaluation once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is no evaluation.
    Nothing,
    /// The whole evaluation, with or without the separate slices.
    Whole(Head, Vec<String>),
    /// The head with this `ver`, without some of its parts.
    Torn(i64),
}

/// Assembles an evaluation from the items of a day: a head, parts of any generations, and other items. It leaves the
/// slices out.
///
/// # Errors
/// `Corrupt`.
pub fn assemble<'a>(items: impl IntoIterator<Item = &'a Item>) -> Result<Found> {
    let (mut head, mut parts) = (None, BTreeMap::new());
    for item in items {
        match key::parse_projection(&item.key)? {
            (_, Projection::Evaluation) => head = Some(Head::from_item(item)?),
            (_, Projection::EvaluationPart(generation, part)) => _ = parts.insert((generation, part), item),
            _ => {}
        }
    }
    let Some(head) = head else { return Ok(Found::Nothing) };
    let states = match &head.place {
        States::Here(state) => vec![state.clone()],
        States::Parts { generation, count } => {
            let Some(states) = gathered(&parts, *generation, *count)? else {
                return Ok(Found::Torn(head.ver));
            };
            states
        }
    };
    Ok(Found::Whole(head, states))
}

/// Adds the slices, from parts of the same day of any generations.
///
/// # Errors
/// `Corrupt`.
pub fn with_slices<'a>(found: Found, items: impl IntoIterator<Item = &'a Item>) -> Result<Found> {
    let Found::Whole(head, mut states) = found else { return Ok(found) };
    if let Some((generation, count)) = head.slices {
        let part = |item: &'a Item| {
            let (_, generation, part) = key::parse_slice(&item.key)?;
            Some(((generation, part), item))
        };
        let parts = items.into_iter().filter_map(part).collect();
        match gathered(&parts, generation, count)? {
            Some(slices) => states.extend(slices),
            None => return Ok(Found::Torn(head.ver)),
        }
    }
    Ok(Found::Whole(head, states))
}

/// Returns the texts of the parts of a generation; `None` if one is missing.
fn gathered(
    parts: &BTreeMap<(Generation, u32), &Item>,
    generation: Generation,
    count: u32,
) -> Result<Option<Vec<String>>> {
    let found: Option<Vec<&Item>> = (0..count).map(|part| parts.get(&(generation, part)).copied()).collect();
    let state = |item: &Item| {
        item.check_version(WHOLE)?;
        item.text("state").map(str::to_owned)
    };
    found.map(|found| found.into_iter().map(state).collect()).transpose()
}

/// Reads the head of an evaluation; [`Head::none`], when there is none.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn head(table: &dyn Table, at: At<'_>) -> Result<Head> {
    table.get(&at.key()).await?.as_ref().map_or(Ok(Head::none()), Head::from_item)
}

/// Reads an evaluation with its slices: two queries, and more if it was rewritten meanwhile.
///
/// # Errors
/// `Corrupt` if a part is missing for good; errors of the table.
pub async fn load(table: &dyn Table, at: At<'_>) -> Result<Option<(Head, Vec<String>)>> {
    read(table, at, true).await
}

/// Reads an evaluation without the slices.
///
/// # Errors
/// As [`load`].
pub async fn load_plain(table: &dyn Table, at: At<'_>) -> Result<Option<(Head, Vec<String>)>> {
    read(table, at, false).await
}

async fn read(table: &dyn Table, at: At<'_>, has_slices: bool) -> Result<Option<(Head, Vec<String>)>> {
    let range = key::evaluation_items(at.workspace, at.version, at.day);
    let mut before = None;
    for _ in 0..MAX_READS {
        let items = query_all(table, Query::table(range.clone())).await?;
        let mut found = assemble(&items)?;
        if has_slices && matches!(&found, Found::Whole(head, _) if head.slices.is_some()) {
            let range = key::slices_between(at.workspace, at.version, at.day, at.day);
            found = with_slices(found, &query_all(table, Query::table(range)).await?)?;
        }
        match found {
            Found::Nothing => return Ok(None),
            Found::Whole(head, states) => return Ok(Some((head, states))),
            // The head has not changed since the read before, so no writer has deleted its parts.
            Found::Torn(ver) if before == Some(ver) => {
                return Err(Error::corrupt(format!(
                    "item {}: a part of its generation is missing; `almanac admin rebuild` makes it again",
                    at.key()
                )));
            }
            Found::Torn(ver) => before = Some(ver),
        }
    }
    Err(Error::unavailable(format!("the evaluation {} is written again and again; try again", at.key())))
}

/// Writes an evaluation over `before`: parts first, then the head; then it deletes parts of older generations.
///
/// # Errors
/// `Conflict` if another writer wrote it since `before` was read, or if the day is marked and that is
/// [`OfGone::Refused`]; errors of the table.
pub async fn write(
    table: &dyn Table,
    at: At<'_>,
    before: &Head,
    new: Content,
    of_gone: OfGone,
) -> Result<()> {
    let Content { applied, rows, mut states, slices } = new;
    let ver = before.ver + 1;
    let place = match states.len() {
        0 | 1 => States::Here(states.pop().unwrap_or_default()),
        count => {
            let generation = Generation { ver: ver as u64, digest: digest(&states) };
            let key = |part| key::evaluation_part(at.workspace, at.version, at.day, generation, part);
            write_parts(table, states, key).await?;
            States::Parts { generation, count: count as u32 }
        }
    };
    let slices = match slices.len() {
        0 => None,
        count => {
            let generation = Generation { ver: ver as u64, digest: digest(&slices) };
            let key = |part| key::slice_part(at.workspace, at.version, at.day, generation, part);
            write_parts(table, slices, key).await?;
            Some((generation, count as u32))
        }
    };
    let head = Head { ver, applied, rows, place, slices };
    let (item, unchanged) = (head.to_item(at.key()), Condition::unchanged(before.ver));
    let is_kept = Write::Check(key::expired(at.workspace, at.day), Condition::Absent);
    let epoch =
        if let OfGone::RefusedAfter(epoch) = of_gone { Some(epoch.check(at.workspace)) } else { None };
    match of_gone == OfGone::Allowed {
        // One write alone: a transaction costs twice as many write units.
        true => table.put(item, unchanged).await?,
        false => {
            table.transact([Write::Put(item, unchanged), is_kept].into_iter().chain(epoch).collect()).await?
        }
    }
    match before.has_parts() || head.has_parts() {
        true => tidy(table, at).await,
        false => Ok(()),
    }
}

async fn write_parts(table: &dyn Table, states: Vec<String>, key: impl Fn(u32) -> Key) -> Result<()> {
    let item = |(part, state): (u32, String)| Item::new(key(part)).with("v", WHOLE).with("state", state);
    let parts: Vec<Item> = (0..).zip(states).map(item).collect();
    for some in parts.chunks(AT_ONCE) {
        // All writers of one generation write the same parts.
        try_join_all(some.iter().map(|part| table.put(part.clone(), Condition::None))).await?;
    }
    Ok(())
}

/// Deletes parts that no head names any more, and parts of writers that came too late. Parts of a greater `ver` stay: a
/// writer is about to write the head that names them.
///
/// # Errors
/// Errors of the table.
pub async fn tidy(table: &dyn Table, at: At<'_>) -> Result<()> {
    let now = head(table, at).await?;
    let parts = key::evaluation_parts(at.workspace, at.version, at.day);
    let slices = key::slices_between(at.workspace, at.version, at.day, at.day);
    let mut old = Vec::new();
    for (range, named) in [(parts, now.generation()), (slices, now.slices.map(|(generation, _)| generation))]
    {
        for item in query_all(table, Query::table(range).only(&["v"])).await? {
            let is_old = |one: Generation| one.ver <= now.ver as u64 && Some(one) != named;
            if key::generation_of(&item.key).is_some_and(is_old) {
                old.push(item.key);
            }
        }
    }
    for some in old.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|key| table.delete(key, Condition::None))).await?;
    }
    Ok(())
}

pub(crate) fn digest(states: impl IntoIterator<Item = impl AsRef<str>>) -> u64 {
    let mut sha = Sha256::new();
    for state in states {
        sha.update((state.as_ref().len() as u64).to_le_bytes());
        sha.update(state.as_ref());
    }
    sha.finalize().first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests;
