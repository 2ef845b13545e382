//! An evaluation as it stands in the table: a head, and parts of it when there are many releases.
//!
//! The head says what the evaluation covers. A small evaluation stands in it as a whole; of a larger one it
//! names the *generation* of the parts, which are items of their own and written before it. The key of a
//! part holds its generation: the `ver` that the head will have and a digest of all parts, so two writers
//! cannot mix theirs. Parts of older generations are deleted after the head is written. So a reader that
//! finds a part of its head missing was overtaken by a writer, and reads again ([`load`]).
//!
//! The slices stand in parts of their own, in another range of keys: who reads the evaluations of a window does not
//! read them ([`load_plain`]).

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

/// The form of a head that is the whole evaluation, and of a part.
const WHOLE: i64 = 1;

/// The form of a head whose evaluation stands in parts.
const IN_PARTS: i64 = 2;

/// Number of parts written or deleted at once.
const AT_ONCE: usize = 16;

/// Maximum reads of an evaluation that is rewritten while it is read.
const MAX_READS: usize = 20;

/// The most bytes of a state, on an engine whose items may have `item_bytes`: 340 KiB where they
/// may have 400, which leaves room for what it covers.
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
    /// Grows by one with each write; 0 when there is none.
    pub ver: i64,
    /// The prefix of the day's predictions and outcomes that it was made of.
    pub applied: Applied,
    /// Number of predictions and outcomes in that prefix, if it is known.
    pub rows: Option<u64>,
    place: States,
    /// The generation of the parts with the slices, and how many these are.
    slices: Option<(Generation, u32)>,
}

/// Storage of the states.
#[derive(Clone, Debug, PartialEq, Eq)]
enum States {
    Here(String),
    Parts { generation: Generation, count: u32 },
}

/// Results of an evaluation, and the prefix that it was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// See [`Head::applied`].
    pub applied: Applied,
    /// See [`Head::rows`].
    pub rows: Option<u64>,
    /// The results, in as many texts as are needed for each to fit an item: at least one.
    pub states: Vec<String>,
    /// The slices, in as many such texts: none, when there are no rows.
    pub slices: Vec<String>,
}

/// Right to write an evaluation of a day whose events are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfGone {
    /// No: it was computed of events. The write demands that the day is not marked, so whatever was deleted while it was computed, it is refused.
    Refused,
    /// No, and the write demands as well that no events were written again without their keys since this epoch was read.
    RefusedAfter(ErasureEpoch),
    /// Yes: it is a copy of one that covers the day.
    Allowed,
}

impl Head {
    /// There is no evaluation yet.
    pub fn none() -> Self {
        Self { ver: 0, applied: Applied::new(), rows: None, place: States::Here(String::new()), slices: None }
    }

    /// Reads a head from its item.
    ///
    /// # Errors
    /// `Corrupt`, when it is none, or of a form that is not known.
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

    /// The texts of all of it as those of the releases, and those of the slices that stand apart.
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
    /// There is none.
    Nothing,
    /// All of it, with or without the slices that stand apart.
    Whole(Head, Vec<String>),
    /// The head of this `ver`, but not all of its parts.
    Torn(i64),
}

/// Puts together what was read of a day: a head, parts of any generations, and whatever else there is. The slices are
/// left out.
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

/// The texts of the parts of a generation; `None`, when one is missing.
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

/// Reads an evaluation with the its slices: one query, another one for these, and more when the evaluation was
/// rewritten meanwhile.
///
/// # Errors
/// `Corrupt`, when a part of it is missing for good; those of the table.
pub async fn load(table: &dyn Table, at: At<'_>) -> Result<Option<(Head, Vec<String>)>> {
    read(table, at, true).await
}

/// Reads an evaluation without the slices that stand apart.
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

/// Writes an evaluation in the place of `before`: parts first, then the head, then what is left of older
/// generations is deleted.
///
/// # Errors
/// `Conflict`, when somebody else wrote it since `before` was read, or the day was marked and that is
/// [`OfGone::Refused`]; those of the table.
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

/// Deletes the parts that no head names any more, and those whose writer came too late. Parts of a `ver` that is still to come stay: somebody is about to write the head that names them.
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
