//! Definitions of how predictions are evaluated: the task, the positive label, the threshold and other fields
//! ([`Definition`]).
//!
//! A definition is a release event. The first of a release is its model's at registration, and holds from the
//! beginning; a `define` event changes the fields that it names, from a day on. A metric of day D as of T applies the
//! changes with `effective_from` <= D that were appended by T, in the order of `effective_from`, then of the log (days
//! of `released_at`, within a day the log's own order). So a threshold set from 1 June on holds until a change from a
//! later day names the threshold; earlier days keep theirs.
//!
//! The log is the source of truth. The items here are a fold of it that one query reads; changes of the catalog, such
//! as deleting or renaming a release or model, do not touch them. Definitions are numbered in the order of recording,
//! without gaps, each put only if its number is free. So the first `n` never change, and an evaluation names by a
//! number those it knew ([`DEFINED`]). Recording one twice changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use event::{
    Columns, Day, Definition, DefinitionChange, Error, Id, Kind, Result, Said, Task, Timestamp,
    lane::LogPosition, task::POSITIVE_SCORE,
};
use log::{
    key::{self, EntityId, LogId},
    projection::Applied,
    segment_item::Segment,
};
use table::{Condition, Item, Policy, Query, Table, Write, item::Value, query_all, unless_overtaken};

use super::{Action, AnyEntity, Catalog, change::update, first::First};

/// Name of the definitions among the logs that an evaluation covers; its prefix is the number of the last definition
/// for its day.
pub const DEFINED: &str = "def";

/// Attribute of a model: for each field the day from which its last change holds.
pub(super) const NAMED: &str = "named";

/// Number of entries from which on those of removed custom metrics are forgotten.
const MAX_NAMED: usize = 100;

/// Version of the items.
const ITEM_VERSION: i64 = 1;

/// Maximum releases whose definition one item changes.
const MAX_RELEASES: usize = 1_000;

/// A change of definitions by release events, and their position in the log. Consecutive events of a segment with the
/// same change for several releases are one.
#[derive(Clone, Debug, PartialEq)]
pub struct Defined {
    /// The releases, by name.
    pub releases: BTreeSet<String>,
    /// The change.
    pub change: DefinitionChange,
    /// The log of its events.
    pub log: LogId,
    /// Position of the segment of its events.
    pub place: LogPosition,
    /// Row of its first event.
    pub row: u32,
    /// Time at which that segment was appended.
    pub appended_at: Timestamp,
}

impl Defined {
    /// Returns its position in the order of the logs.
    fn order(&self) -> (Day, LogPosition, u32) {
        (self.log.day, self.place, self.row)
    }

    fn concerns(&self, day: Day) -> bool {
        self.change.from.is_none_or(|from| from <= day)
    }

    /// Returns the definitions made by the release events of a segment.
    ///
    /// # Errors
    /// `Corrupt` if the segment cannot be read, or a definition lacks a required field.
    pub fn in_segment(segment: &Segment) -> Result<Vec<Self>> {
        match segment.log.kind {
            Kind::Releases => Self::in_columns(&segment.unpack(|_| true)?, segment),
            _ => Ok(Vec::new()),
        }
    }

    fn in_columns(columns: &Columns, segment: &Segment) -> Result<Vec<Self>> {
        let text = |name: &str, row| columns.column(name).and_then(|column| column.text(row));
        let number = |name: &str, row| columns.column(name).and_then(|column| column.float(row));
        let is_like = |row, other| {
            let is_same =
                |name| text(name, row) == text(name, other) && number(name, row) == number(name, other);
            text("action", other) == Some(Action::Define.name())
                && Definition::FIELDS.into_iter().all(is_same)
        };
        let mut found: Vec<Self> = Vec::new();
        for row in 0..columns.rows {
            if text("action", row) != Some(Action::Define.name()) {
                continue;
            }
            let (Some(release), Some(_)) = (text("release", row), text("effective_from", row)) else {
                return Err(Error::corrupt(format!("row {row} is a definition and lacks a field")));
            };
            let before = found.last_mut().filter(|_| row > 0 && is_like(row, row - 1));
            if let Some(before) = before.filter(|before| before.releases.len() < MAX_RELEASES) {
                before.releases.insert(release.to_owned());
                continue;
            }
            let change = DefinitionChange::read(|name| text(name, row), |name| number(name, row));
            found.push(Self {
                releases: BTreeSet::from([release.to_owned()]),
                change: change.map_err(|error| Error::corrupt(error.to_string()))?,
                log: segment.log.clone(),
                place: segment.place(),
                row: row as u32,
                appended_at: segment.appended_at,
            });
        }
        Ok(found)
    }

    fn to_item(&self, number: u64) -> Item {
        let item = Item::new(key::definition(&self.log.workspace, number))
            .with("v", ITEM_VERSION)
            .with("releases", Value::record(&self.releases))
            .with("log", self.log.to_string())
            .with("seq", self.place.seq as i64)
            .with("row", i64::from(self.row))
            .with("appended_at", self.appended_at.to_string());
        with_said(item, self.change.said())
    }

    fn from_item(workspace: &Id, item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let log = key::parse_log(workspace, item.text("log")?);
        let log = log.ok_or_else(|| item.corrupt("`log` is no log"))?;
        Ok(Self {
            releases: item.field("releases")?,
            change: change(item)?,
            place: LogPosition::of(log.lane, item.field("seq")?),
            log,
            row: item.field("row")?,
            appended_at: item.field("appended_at")?,
        })
    }
}

/// Adds a definition to an item.
pub(super) fn with_definition(item: Item, definition: &Definition) -> Item {
    let is_usual = |said: &(&str, Said)| *said == ("threshold", Said::Number(POSITIVE_SCORE));
    with_said(item, definition.said().into_iter().filter(|said| !is_usual(said)).collect())
}

/// Adds fields of a definition to an item. Numbers are stored as text, since they may be any double.
fn with_said(item: Item, said: Vec<(&'static str, Said)>) -> Item {
    said.into_iter().fold(item, |item, (name, said)| match said {
        Said::Text(text) => item.with(name, text),
        Said::Number(number) => item.with(name, number.to_string()),
    })
}

/// Decodes the definition of an item.
pub(super) fn definition(item: &Item) -> Result<Definition> {
    item.text("task")?;
    let read = Definition::read(|name| item.optional_text(name), |name| number(item, name));
    check_numbers(item).and(read.map_err(|error| item.corrupt(error)))
}

/// Decodes the change of a definition of an item.
fn change(item: &Item) -> Result<DefinitionChange> {
    let read = DefinitionChange::read(|name| item.optional_text(name), |name| number(item, name));
    check_numbers(item).and(read.map_err(|error| item.corrupt(error)))
}

fn number(item: &Item, name: &str) -> Option<f64> {
    item.optional_text(name)?.parse().ok()
}

fn check_numbers(item: &Item) -> Result<()> {
    let is_wrong = |name: &&str| item.optional_text(name).is_some() && number(item, name).is_none();
    let wrong = ["threshold", "interval_level"].into_iter().find(is_wrong);
    wrong.map_or(Ok(()), |name| Err(item.corrupt(format_args!("`{name}` is no number"))))
}

/// The definitions of a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// The first definition of each release, by its name.
    pub(super) first: BTreeMap<String, First>,
    /// Definitions made by release events, in the order of recording.
    defined: Vec<Defined>,
}

impl Definitions {
    /// Reads the definitions: one query.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let mut found = Self::default();
        for item in query_all(table, Query::table(key::definitions(workspace))).await? {
            if let Some(release) = key::parse_first_definition(&item.key) {
                found.first.insert(release.to_owned(), First::from_item(&item)?);
            } else if key::parse_definition(&item.key).is_some() {
                found.defined.push(Defined::from_item(workspace, &item)?);
            }
        }
        Ok(found)
    }

    /// Returns the definition of each release on a day.
    pub fn of(&self, day: Day) -> BTreeMap<String, Definition> {
        let first = self.first.iter();
        let mut of: BTreeMap<_, _> =
            first.map(|(name, first)| (name.clone(), first.definition.clone())).collect();
        for one in self.changes(|one| one.concerns(day)) {
            for release in &one.releases {
                if let Some(definition) = of.get_mut(release) {
                    *definition = one.change.on(definition);
                }
            }
        }
        of
    }

    /// Returns the definition of a release on a day; `None` if there is no such release.
    pub fn of_release(&self, release: &str, day: Day) -> Option<Definition> {
        let first = self.first(release)?.definition.clone();
        let changes = self.changes(|one| one.concerns(day) && one.releases.contains(release));
        Some(changes.iter().fold(first, |definition, one| one.change.on(&definition)))
    }

    /// Returns the definition of a release from the day of a further change on, and whether the change has any effect;
    /// `None` if there is no such release.
    ///
    /// # Errors
    /// `Invalid` if the change names a field that does not belong to the task of the release on that day.
    pub fn changed_by(&self, release: &str, change: &DefinitionChange) -> Result<Option<(Definition, bool)>> {
        let Some(first) = self.first(release) else { return Ok(None) };
        let mut changes = self.changes(|one| one.releases.contains(release));
        let later = changes.split_off(changes.partition_point(|one| one.change.from <= change.from));
        let mut before = changes.iter().fold(first.definition.clone(), |known, one| one.change.on(&known));
        let after = change.after(&before)?;
        let mut now = after.clone();
        let mut is_new = !before.is_like(&now);
        for one in later {
            (before, now) = (one.change.on(&before), one.change.on(&now));
            is_new |= before != now;
        }
        Ok(Some((after, is_new)))
    }

    /// Returns some changes, in the order in which they apply.
    fn changes(&self, is_wanted: impl Fn(&Defined) -> bool) -> Vec<&Defined> {
        let mut changes: Vec<_> = self.defined.iter().filter(|one| is_wanted(one)).collect();
        changes.sort_by_key(|one| (one.change.from, one.order()));
        changes
    }

    /// Returns the number of the last definition for a day; 0 if only first ones apply.
    pub fn last_of(&self, day: Day) -> u64 {
        (1..).zip(&self.defined).filter(|(_, one)| one.concerns(day)).map(|(n, _)| n).last().unwrap_or(0)
    }

    /// Returns the first `n` definitions: those known to an evaluation that covers them.
    #[must_use]
    pub fn until(&self, number: u64) -> Self {
        let known = usize::try_from(number).unwrap_or(usize::MAX).min(self.defined.len());
        Self { defined: self.defined[..known].to_vec(), ..self.clone() }
    }

    /// Returns the definitions whose events `is_known` accepts: those known at another time.
    #[must_use]
    pub fn known(&self, is_known: impl Fn(&Defined) -> bool) -> Self {
        let defined = self.defined.iter().filter(|one| is_known(one)).cloned().collect();
        Self { defined, ..self.clone() }
    }

    /// Adds the number of definitions known for a day to the prefixes that its evaluation covers.
    #[must_use]
    pub fn cover(&self, day: Day, mut logs: Applied) -> Applied {
        if let number @ 1.. = self.last_of(day) {
            logs.insert(DEFINED.to_owned(), number);
        }
        logs
    }

    /// Returns the definitions known to an evaluation that covers `applied`.
    #[must_use]
    pub fn covered(&self, applied: &Applied) -> Self {
        self.until(applied.get(DEFINED).copied().unwrap_or(0))
    }

    /// Returns the releases that have or had a definition.
    pub fn releases(&self) -> impl Iterator<Item = &str> {
        self.first.keys().map(String::as_str)
    }

    /// Returns all tasks of the releases, present and past.
    pub fn tasks(&self) -> Vec<Task> {
        let first =
            self.first.iter().map(|(release, first)| (release.as_str(), first.definition.task.clone()));
        let mut now: BTreeMap<&str, Task> = first.collect();
        let mut tasks: Vec<Task> = now.values().cloned().collect();
        let changes = self.changes(|one| one.change.names_task());
        for (one, release) in changes.iter().flat_map(|one| one.releases.iter().map(move |of| (one, of))) {
            if let Some(task) = now.get_mut(release.as_str()) {
                *task = one.change.task_on(task);
                tasks.push(task.clone());
            }
        }
        tasks
    }

    /// Returns the name of the model of each release, as at its registration. If the model was renamed in between, its
    /// releases share one name: that of the last release in the order of names.
    pub fn models(&self) -> BTreeMap<String, String> {
        let names: BTreeMap<&Id, &str> =
            self.first.values().map(|first| (&first.model_id, first.model.as_str())).collect();
        let name = |first: &First| names.get(&first.model_id).map_or(&*first.model, |name| *name).to_owned();
        self.first.iter().map(|(release, first)| (release.clone(), name(first))).collect()
    }

    /// Returns the first definition of a release.
    pub fn first(&self, release: &str) -> Option<&First> {
        self.first.get(release)
    }
}

/// Records definitions of the log. Can be repeated at any time.
///
/// # Errors
/// Errors of the table.
pub async fn record_definitions(table: &dyn Table, workspace: &Id, found: &[Defined]) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let places = |known: &[Defined]| known.iter().map(Defined::order).collect::<BTreeSet<_>>();
    let mut known = places(&Definitions::load(table, workspace).await?.defined);
    for one in found {
        let mut tries = Policy::of(&"the definitions of releases").tries();
        while !known.contains(&one.order()) {
            tries.next().await?;
            let next = one.to_item(known.len() as u64 + 1);
            match unless_overtaken(table.put(next, Condition::Absent).await)? {
                Some(()) => _ = known.insert(one.order()),
                None => known = places(&Definitions::load(table, workspace).await?.defined),
            }
        }
    }
    Ok(())
}

impl Catalog {
    /// Records the definitions made by the release events of a day.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn record_definitions(&self, workspace: &Id, day: Day) -> Result<()> {
        let range = key::segments_of_kind(workspace, day, Kind::Releases);
        let mut found = Vec::new();
        for item in query_all(&*self.table, Query::table(range)).await? {
            found.extend(Defined::in_segment(&Segment::from_item(item)?)?);
        }
        record_definitions(&*self.table, workspace, &found).await
    }

    /// Changes the definition of a model, for releases registered later: the fields of `change` that no change from a
    /// later day has named.
    ///
    /// # Errors
    /// `NotFound`; `Invalid`, when it is no model; those of the table.
    pub async fn define_model(&self, at: &EntityId, change: &DefinitionChange, now: Timestamp) -> Result<()> {
        let mut tries = Policy::of(&"the model").tries();
        loop {
            tries.next().await?;
            let before = self.get(at).await?;
            let AnyEntity::Model(model) = &before else {
                return Err(Error::invalid(format!("`{at}` is no model")));
            };
            let change = change.only(|name| model.named.get(name).copied() <= change.from);
            let mut after = model.clone();
            after.definition = Definition { from: None, ..change.on(&model.definition) };
            after.named.extend(change.names().into_iter().filter_map(|name| Some((name, change.from?))));
            if after.named.len() > MAX_NAMED {
                let is_known =
                    |name: &str| after.definition.custom_metrics.iter().any(|metric| metric.name == name);
                after.named.retain(|name, _| name.strip_prefix("metrics.").is_none_or(is_known));
            }
            if after == *model {
                return Ok(());
            }
            after.entity.version += 1;
            after.entity.updated_at = now;
            let after = AnyEntity::Model(after);
            let fields: Vec<&str> = Definition::FIELDS.into_iter().chain([NAMED]).collect();
            let write = Write::Update(update(&before, &after, &fields));
            if unless_overtaken(self.table.transact(vec![write]).await)?.is_some() {
                return Ok(());
            }
        }
    }
}
