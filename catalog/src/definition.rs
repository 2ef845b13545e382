//! How the predictions of releases are judged: a [`Definition`] says what they are (the task), which label
//! is the positive one, and from which score on a prediction is taken as positive.
//!
//! A definition is a release event. The first of a release is that of its model when it was registered, and
//! holds from the beginning; `define` says another one from a day on. A figure of day D, as of T, uses the last
//! definition with `effective_from` <= D that was appended by T, in the order of the log (days of `released_at`,
//! within a day the log's own order). So an event that says something from the first of June on holds until
//! a later event says otherwise, and days before it are what they were.
//!
//! The log is the truth. What stands here is a fold of it that answers by one query, and that no change of the
//! catalog touches: a release or a model that is deleted or renamed leaves it as it is. Definitions are numbered
//! as they are recorded, without holes, each put where nothing is yet; so the first `n` of them never change, and
//! an evaluation can say by a number which it knew ([`DEFINED`]). Recording one twice changes nothing.

use std::collections::BTreeMap;

use event::{
    Columns, Day, Definition, Error, Id, Kind, Result, Said, Task, Timestamp,
    lane::{Place, Placed},
    task::POSITIVE_SCORE,
};
use log::{
    key::{self, EntityId, LogId},
    projection::Applied,
    segment_item::Segment,
};
use table::{Condition, Item, Policy, Query, Table, Write, query_all, unless_overtaken};

use super::{Action, AnyEntity, Catalog, change::update, first::First};

/// What an evaluation covers of the definitions stands among the logs that it covers, under this name: the number
/// of the last one that concerns its day.
pub const DEFINED: &str = "def";

/// The attribute of one whose segment was not placed by keys.
const BY_BATCH: &str = "by_batch";

/// Version of the items.
const ITEM_VERSION: i64 = 1;

/// A definition that a release event made, and where the event stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Defined {
    /// The release, by name.
    pub release: String,
    /// What it says.
    pub definition: Definition,
    /// The log of its event.
    pub log: LogId,
    /// The segment of its event.
    pub place: Place,
    /// The row of its event.
    pub row: u32,
    /// When that segment was appended.
    pub appended_at: Timestamp,
}

impl Defined {
    /// Its place in the order of the logs.
    fn order(&self) -> (Day, Place, u32) {
        (self.log.day, self.place, self.row)
    }

    /// The definitions that the release events of a segment make.
    ///
    /// # Errors
    /// `Corrupt`, when the segment cannot be read, or a definition lacks what it must have.
    pub fn in_segment(segment: &Segment) -> Result<Vec<Self>> {
        match segment.log.kind {
            Kind::Releases => Self::in_columns(&segment.unpack(|_| true)?, segment),
            _ => Ok(Vec::new()),
        }
    }

    fn in_columns(columns: &Columns, segment: &Segment) -> Result<Vec<Self>> {
        let text = |name: &str, row| columns.column(name).and_then(|column| column.text(row));
        let mut found = Vec::new();
        for row in 0..columns.rows {
            if text("action", row) != Some(Action::Define.name()) {
                continue;
            }
            let number = |name: &str| columns.column(name).and_then(|column| column.float(row));
            let (task, from) = (text("task", row), text("effective_from", row));
            let (Some(release), Some(_), Some(_)) = (text("release", row), task, from) else {
                return Err(Error::corrupt(format!("row {row} is a definition and lacks a field")));
            };
            let definition = Definition::read(|name| text(name, row), number);
            let definition = definition.map_err(|error| Error::corrupt(error.to_string()))?;
            found.push(Self {
                release: release.to_owned(),
                definition: definition.plain(),
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
            .with("release", self.release.as_str())
            .with("log", self.log.to_string())
            .with("seq", self.place.seq as i64)
            .with("row", i64::from(self.row))
            .with("appended_at", self.appended_at.micros());
        let item = with_definition(item, &self.definition);
        if self.place.placed == Placed::ByBatch { item.with(BY_BATCH, 1) } else { item }
    }

    fn from_item(workspace: &Id, item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let log = key::parse_log(workspace, item.text("log")?);
        let log = log.ok_or_else(|| item.corrupt("`log` is no log"))?;
        let is_by_batch = item.attributes.contains_key(BY_BATCH);
        let placed = if is_by_batch { Placed::ByBatch } else { Placed::ByKey };
        let number =
            |name: &str| item.int(name).and_then(|n| u64::try_from(n).map_err(|_| item.corrupt(name)));
        Ok(Self {
            release: item.text("release")?.to_owned(),
            definition: definition(item)?,
            place: Place { placed, lane: log.lane, seq: number("seq")? },
            log,
            row: u32::try_from(number("row")?).map_err(|_| item.corrupt("`row` is too large"))?,
            appended_at: Timestamp::from_micros(item.int("appended_at")?)
                .ok_or_else(|| item.corrupt("`appended_at` is no time"))?,
        })
    }
}

/// An item with what a definition says. Numbers are texts: they are any doubles.
pub(super) fn with_definition(item: Item, definition: &Definition) -> Item {
    definition.said().into_iter().fold(item, |item, (name, said)| match said {
        Said::Text(text) => item.with(name, text),
        // The usual one.
        Said::Number(POSITIVE_SCORE) if name == "threshold" => item,
        Said::Number(number) => item.with(name, number.to_string()),
    })
}

/// What the definition of an item says.
pub(super) fn definition(item: &Item) -> Result<Definition> {
    item.text("task")?;
    for name in ["threshold", "interval_level"] {
        if item.optional_text(name).is_some_and(|text| text.parse::<f64>().is_err()) {
            return Err(item.corrupt(format_args!("`{name}` is no number")));
        }
    }
    let number = |name: &str| item.optional_text(name)?.parse().ok();
    Definition::read(|name| item.optional_text(name), number).map_err(|error| item.corrupt(error))
}

/// The definitions of a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// The first of each release, by its name.
    pub(super) first: BTreeMap<String, First>,
    /// Those that release events made, as they were recorded.
    defined: Vec<Defined>,
    /// Whether the first definition of every release is among them.
    pub(super) is_adopted: bool,
}

impl Definitions {
    /// Reads them: one query. Releases of an older Almanac may be missing ([`super::Catalog::definitions`]).
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let mut found = Self::default();
        for item in query_all(table, Query::table(key::definitions(workspace))).await? {
            if item.key == key::definitions_adopted(workspace) {
                found.is_adopted = true;
            } else if let Some(release) = key::parse_first_definition(&item.key) {
                found.first.insert(release.to_owned(), First::from_item(&item)?);
            } else if key::parse_definition(&item.key).is_some() {
                found.defined.push(Defined::from_item(workspace, &item)?);
            }
        }
        Ok(found)
    }

    /// How each release is judged on a day.
    pub fn of(&self, day: Day) -> BTreeMap<String, Definition> {
        let first = self.first.iter();
        let mut of: BTreeMap<_, _> =
            first.map(|(name, first)| (name.clone(), first.definition.clone())).collect();
        let concerns = |one: &&Defined| one.definition.from.is_none_or(|from| from <= day);
        let mut defined: Vec<&Defined> = self.defined.iter().filter(concerns).collect();
        defined.sort_by_key(|one| one.order());
        of.extend(defined.into_iter().map(|one| (one.release.clone(), one.definition.clone())));
        of
    }

    /// How a release is judged on a day; `None`, when there is no such release.
    pub fn of_release(&self, release: &str, day: Day) -> Option<Definition> {
        self.of(day).remove(release)
    }

    /// How a release is judged on a day, and how otherwise on later ones.
    pub fn of_release_from(&self, release: &str, day: Day) -> Vec<Definition> {
        let changes = self.defined.iter().filter(|one| one.release == release);
        let later = changes.filter_map(|one| one.definition.from).filter(|from| *from > day);
        [day].into_iter().chain(later).filter_map(|day| self.of_release(release, day)).collect()
    }

    /// The number of the last definition that concerns a day; 0, when only the first ones do.
    pub fn last_of(&self, day: Day) -> u64 {
        let concerns = |one: &Defined| one.definition.from.is_none_or(|from| from <= day);
        (1..).zip(&self.defined).filter(|(_, one)| concerns(one)).map(|(n, _)| n).last().unwrap_or(0)
    }

    /// The definitions up to a number: what somebody knew who covers that many.
    #[must_use]
    pub fn until(&self, number: u64) -> Self {
        let known = usize::try_from(number).unwrap_or(usize::MAX).min(self.defined.len());
        Self { defined: self.defined[..known].to_vec(), ..self.clone() }
    }

    /// The definitions whose events `is_known` knows: those of another time.
    #[must_use]
    pub fn known(&self, is_known: impl Fn(&Defined) -> bool) -> Self {
        let defined = self.defined.iter().filter(|one| is_known(one)).cloned().collect();
        Self { defined, ..self.clone() }
    }

    /// Adds to what an evaluation of a day covers which definitions it knows.
    #[must_use]
    pub fn cover(&self, day: Day, mut logs: Applied) -> Applied {
        if let number @ 1.. = self.last_of(day) {
            logs.insert(DEFINED.to_owned(), number);
        }
        logs
    }

    /// What an evaluation that covers `applied` knew.
    #[must_use]
    pub fn covered(&self, applied: &Applied) -> Self {
        self.until(applied.get(DEFINED).copied().unwrap_or(0))
    }

    /// The releases that have a definition, or had.
    pub fn releases(&self) -> impl Iterator<Item = &str> {
        self.first.keys().map(String::as_str)
    }

    /// The tasks that any release was ever judged by.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        let first = self.first.values().map(|first| &first.definition.task);
        first.chain(self.defined.iter().map(|one| &one.definition.task))
    }

    /// The name of the model of each release, as it was when the release was registered. The releases of a model that was
    /// renamed in between have one name together: that of the last of them, in the order of their names.
    pub fn models(&self) -> BTreeMap<String, String> {
        let names: BTreeMap<&Id, &str> =
            self.first.values().map(|first| (&first.model_id, first.model.as_str())).collect();
        let name = |first: &First| names.get(&first.model_id).map_or(&*first.model, |name| *name).to_owned();
        self.first.iter().map(|(release, first)| (release.clone(), name(first))).collect()
    }

    /// The first definition of a release.
    pub fn first(&self, release: &str) -> Option<&First> {
        self.first.get(release)
    }
}

/// Records definitions that stand in the log. It may be called again with the same at any time.
///
/// # Errors
/// Those of the table.
pub async fn record_definitions(table: &dyn Table, workspace: &Id, found: &[Defined]) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let mut known = Definitions::load(table, workspace).await?.defined;
    for one in found {
        let mut tries = Policy::of(&"the definitions of releases").tries();
        while !known.iter().any(|known| known.order() == one.order()) {
            tries.next().await?;
            let next = one.to_item(known.len() as u64 + 1);
            match unless_overtaken(table.put(next, Condition::Absent).await)? {
                Some(()) => known.push(one.clone()),
                None => known = Definitions::load(table, workspace).await?.defined,
            }
        }
    }
    Ok(())
}

impl Catalog {
    /// Records what the release events of a day define.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub async fn record_definitions(&self, workspace: &Id, day: Day) -> Result<()> {
        let range = key::segments_of_kind(workspace, day, Kind::Releases);
        let mut found = Vec::new();
        for item in query_all(&*self.table, Query::table(range)).await? {
            found.extend(Defined::in_segment(&Segment::from_item(item)?)?);
        }
        record_definitions(&*self.table, workspace, &found).await
    }

    /// Changes what a model says of its predictions, for the releases that will be registered.
    ///
    /// # Errors
    /// `NotFound`; what `change` refuses; those of the table.
    pub async fn define_model(
        &self,
        at: &EntityId,
        change: impl Fn(&Definition) -> Result<Definition>,
        now: Timestamp,
    ) -> Result<()> {
        let mut tries = Policy::of(&"the model").tries();
        loop {
            tries.next().await?;
            let before = self.get(at).await?;
            let AnyEntity::Model(model) = &before else {
                return Err(Error::invalid(format!("`{at}` is no model")));
            };
            let mut after = model.clone();
            after.definition = Definition { from: None, ..change(&model.definition)? };
            if after == *model {
                return Ok(());
            }
            after.entity.version += 1;
            after.entity.updated_at = now;
            let after = AnyEntity::Model(after);
            let write = Write::Update(update(&before, &after, &Definition::FIELDS));
            if unless_overtaken(self.table.transact(vec![write]).await)?.is_some() {
                return Ok(());
            }
        }
    }
}
