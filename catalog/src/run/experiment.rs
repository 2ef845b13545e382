//! Experiments: groups of runs.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp};
use log::key;
use serde::{Deserialize, Serialize};
use table::{Change, Condition, Policy, Query, query_all, update};

use super::{Texts, check_run_name, check_texts};
use crate::Catalog;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// The workspace.
    #[serde(skip_serializing)]
    pub workspace: Id,
    /// Name, which never changes.
    pub name: String,
    /// Tags that people give to it.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub tags: Texts,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
    /// Time since which it is archived, if it is: then it takes no more runs.
    pub archived_at: Option<Timestamp>,
    /// Version: counts its changes, from 1 on.
    #[serde(rename = "ver")]
    pub version: i64,
}

/// Change of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExperimentChange {
    /// Tags to set, or to remove where `None`.
    pub tags: BTreeMap<String, Option<String>>,
    /// True to archive it, false to unarchive it.
    pub archived: Option<bool>,
}

impl Experiment {
    /// Id, which is made of its name.
    pub fn id(&self) -> String {
        key::experiment_id(&self.name)
    }
}

impl Catalog {
    /// Creates an experiment.
    ///
    /// # Errors
    /// `Conflict`, when there is one of this name; `Invalid`, when a part of it cannot be stored.
    pub async fn create_experiment(
        &self,
        workspace: &Id,
        name: &str,
        tags: Texts,
        now: Timestamp,
    ) -> Result<Experiment> {
        check_run_name("name of an experiment", name)?;
        check_texts(&Texts::new(), &tags)?;
        let experiment = Experiment {
            workspace: workspace.clone(),
            name: name.to_owned(),
            tags,
            created_at: now,
            updated_at: now,
            archived_at: None,
            version: 1,
        };
        match self.table.put(experiment.to_item(), Condition::Absent).await {
            Err(error) if error.is_conflict() => {
                Err(Error::conflict(format!("there is an experiment called `{name}` already")))
            }
            written => written.map(|()| experiment),
        }
    }

    /// Finds the experiment of an id.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn find_experiment(&self, workspace: &Id, id: &str) -> Result<Option<Experiment>> {
        let item = self.table.get(&key::experiment(workspace, id)).await?;
        item.as_ref().map(Experiment::from_item).transpose()
    }

    /// Reads the experiment of an id.
    ///
    /// # Errors
    /// `NotFound`, when it does not exist.
    pub async fn experiment(&self, workspace: &Id, id: &str) -> Result<Experiment> {
        let found = self.find_experiment(workspace, id).await?;
        found.ok_or_else(|| missing(id))
    }

    /// Reads all experiments of a workspace, by age.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn experiments(&self, workspace: &Id) -> Result<Vec<Experiment>> {
        let items = query_all(&*self.table, Query::table(key::experiments(workspace))).await?;
        let mut all = items.iter().map(Experiment::from_item).collect::<Result<Vec<_>>>()?;
        all.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
        Ok(all)
    }

    /// Changes an experiment, and returns the changed one.
    ///
    /// # Errors
    /// `NotFound`; `Invalid`, when the change is not valid.
    pub async fn change_experiment(
        &self,
        workspace: &Id,
        id: &str,
        change: &ExperimentChange,
        now: Timestamp,
    ) -> Result<Experiment> {
        let key = key::experiment(workspace, id);
        update(&*self.table, &key, Policy { pauses: true, ..Policy::of(&"the experiment") }, async |stored| {
            let before =
                stored.as_ref().map(Experiment::from_item).transpose()?.ok_or_else(|| missing(id))?;
            let mut after = before.clone();
            set_texts(&mut after.tags, &change.tags);
            check_texts(&Texts::new(), &after.tags)?;
            after.archived_at = archived(before.archived_at, change.archived, now);
            if after == before {
                return Ok(Change::Leave(before));
            }
            (after.updated_at, after.version) = (now, before.version + 1);
            Ok(Change::Put(after.to_item(), after))
        })
        .await
    }
}

/// Sets texts, and removes those that are `None`.
pub(super) fn set_texts(texts: &mut Texts, change: &BTreeMap<String, Option<String>>) {
    for (name, value) in change {
        match value {
            Some(value) => _ = texts.insert(name.clone(), value.clone()),
            None => _ = texts.remove(name),
        }
    }
}

/// Time since which something is archived, after a change at `now`.
pub(super) fn archived(before: Option<Timestamp>, change: Option<bool>, now: Timestamp) -> Option<Timestamp> {
    match change {
        Some(true) => before.or(Some(now)),
        Some(false) => None,
        None => before,
    }
}

fn missing(id: &str) -> Error {
    let id: String = id.chars().take(100).collect();
    Error::not_found(format!("there is no experiment `{id}` in this workspace"))
}
