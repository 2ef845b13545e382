//! A workspace with all that belongs to it, read by one query.

use std::collections::BTreeMap;

use crate::{
    Error, Item, Result,
    item::Value,
    key::{self, Counted},
};

use crate::rollup::COUNTER_VERSION;

use super::{Configuration, Model, Release, Task, Workspace};

/// A workspace with its models, configurations, releases and counters.
#[derive(Clone, Debug)]
pub struct WorkspacePage {
    /// The workspace.
    pub workspace: Workspace,
    /// Its models, oldest first.
    pub models: Vec<Model>,
    /// Its configurations, oldest first.
    pub configurations: Vec<Configuration>,
    /// Its releases, oldest first.
    pub releases: Vec<Release>,
    /// How many events were counted, by what they are counted for and by kind.
    pub counts: BTreeMap<Counted, BTreeMap<String, i64>>,
}

impl WorkspacePage {
    pub(super) fn from_items(items: &[Item]) -> Result<Self> {
        let mut workspace = None;
        let (mut models, mut configurations, mut releases) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = BTreeMap::<Counted, BTreeMap<String, i64>>::new();
        for item in items {
            match item.key.sk.split('#').next().unwrap_or_default() {
                "w" => workspace = Some(Workspace::from_item(item)?),
                "m" => models.push(Model::from_item(item)?),
                "c" => configurations.push(Configuration::from_item(item)?),
                "r" => releases.push(Release::from_item(item)?),
                "count" => add_counts(item, &mut counts)?,
                // What a newer Almanac keeps here is none of our business.
                _ => {}
            }
        }
        let workspace = workspace.ok_or_else(|| Error::not_found("the workspace does not exist"))?;
        // Ids of one instant have no order of their own.
        models.sort_by(|a: &Model, b| a.entity.by_age(&b.entity));
        configurations.sort_by(|a: &Configuration, b| a.entity.by_age(&b.entity));
        releases.sort_by(|a: &Release, b| a.entity.by_age(&b.entity));
        Ok(Self { workspace, models, configurations, releases, counts })
    }

    /// The task of each release, by the name of the release.
    pub fn tasks(&self) -> BTreeMap<String, Task> {
        let task = |name: &str| self.models.iter().find(|model| model.entity.name == name);
        let releases = self.releases.iter();
        releases
            .filter_map(|release| Some((release.entity.name.clone(), task(&release.model)?.task.clone())))
            .collect()
    }
}

impl WorkspacePage {
    /// How many events of each kind the releases of a model have together. (A release belongs to one
    /// model for good, so nothing more need be stored.)
    pub fn model_counts(&self, model: &str) -> BTreeMap<String, i64> {
        let mut totals = BTreeMap::<String, i64>::new();
        for release in self.releases.iter().filter(|release| release.model == model) {
            let counts = self.counts.get(&Counted::Release(release.entity.name.clone()));
            counts.into_iter().flatten().for_each(|(kind, n)| *totals.entry(kind.clone()).or_default() += n);
        }
        totals
    }
}

fn add_counts(item: &Item, counts: &mut BTreeMap<Counted, BTreeMap<String, i64>>) -> Result<()> {
    let Some((counted, _)) = key::parse_counter(&item.key) else { return Ok(()) };
    item.check_version(COUNTER_VERSION)?;
    let totals = counts.entry(counted).or_default();
    for days in item.map("days")?.values() {
        let Value::M(kinds) = days else { return Err(item.corrupt("`days` is not a map of maps")) };
        for (kind, count) in kinds {
            let Value::N(count) = count else { return Err(item.corrupt("a count is no number")) };
            *totals.entry(kind.clone()).or_default() += count.as_i64().unwrap_or_default();
        }
    }
    Ok(())
}
