//! Changing runs: tags, status, name; and setting parameters.

use std::{collections::BTreeMap, future::ready};

use event::{Error, Id, Result, Timestamp};
use log::key;
use table::{Change, Item, Policy, update};

use super::{
    Run, RunStatus, Texts, check_run_name, check_texts,
    experiment::{archived, set_texts},
    no_run,
};
use crate::Catalog;

/// Change of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunChange {
    /// New name.
    pub name: Option<String>,
    /// New status. One that ends the run without `ended_at` ends it now.
    pub status: Option<RunStatus>,
    /// Time at which it ended.
    pub ended_at: Option<Timestamp>,
    /// Parameters to set. One that was set before must have the same value.
    pub params: Texts,
    /// Tags to set, or to remove where `None`.
    pub tags: BTreeMap<String, Option<String>>,
    /// True to archive it, false to unarchive it.
    pub archived: Option<bool>,
    /// True if an archived run is refused.
    pub unless_archived: bool,
}

impl RunChange {
    /// Applies the change to a run.
    ///
    /// # Errors
    /// `Conflict`, when a parameter has another value already; `Invalid`, when the change is not valid.
    pub fn apply(&self, before: &Run, now: Timestamp) -> Result<Run> {
        if self.unless_archived {
            before.check_active()?;
        }
        let mut after = before.clone();
        if let Some(name) = &self.name {
            check_run_name("name", name)?;
            after.name.clone_from(name);
        }
        if let Some(status) = self.status {
            after.status = status;
            after.ended_at = match status.is_end() {
                true => self.ended_at.or(before.ended_at).or(Some(now)),
                false => None,
            };
        } else if let Some(ended_at) = self.ended_at {
            after.ended_at = Some(ended_at);
        }
        for (name, value) in &self.params {
            match before.params.get(name) {
                Some(known) if known != value => {
                    return Err(Error::conflict(format!(
                        "the parameter `{name}` is `{}` and never changes",
                        known.chars().take(200).collect::<String>()
                    )));
                }
                _ => _ = after.params.insert(name.clone(), value.clone()),
            }
        }
        set_texts(&mut after.tags, &self.tags);
        check_texts(&after.params, &after.tags)?;
        after.archived_at = archived(before.archived_at, self.archived, now);
        if after != *before {
            after.version += 1;
        }
        Ok(after)
    }
}

impl Catalog {
    /// Changes a run, and returns the changed run.
    ///
    /// # Errors
    /// `NotFound`; those of [`RunChange::apply`].
    pub async fn change_run(
        &self,
        workspace: &Id,
        run: &Id,
        change: &RunChange,
        now: Timestamp,
    ) -> Result<Run> {
        self.change_run_to(workspace, run, |before| change.apply(before, now)).await
    }

    /// Changes a run by the result of `change` for the stored run, and returns the changed run. If another process writes first,
    /// `change` is called again with the newly stored run, so that nothing of the other change is lost.
    ///
    /// # Errors
    /// `NotFound`; those of `change` and of [`RunChange::apply`].
    pub async fn change_run_by(
        &self,
        workspace: &Id,
        run: &Id,
        now: Timestamp,
        mut change: impl FnMut(&Run) -> Result<RunChange>,
    ) -> Result<Run> {
        self.change_run_to(workspace, run, |before| change(before)?.apply(before, now)).await
    }

    /// Writes the result of `make` for a run, and repeats it if another process writes first.
    async fn change_run_to(
        &self,
        workspace: &Id,
        run: &Id,
        mut make: impl FnMut(&Run) -> Result<Run>,
    ) -> Result<Run> {
        let key = key::run(workspace, run);
        let mut changed = |stored: Option<Item>| -> Result<Change<Run>> {
            let before = stored.as_ref().map(Run::from_item).transpose()?;
            let before = before.ok_or_else(|| no_run(run.as_str()))?;
            let after = make(&before)?;
            Ok(if after == before { Change::Leave(after) } else { Change::Put(after.to_item(), after) })
        };
        let policy = Policy { pauses: true, ..Policy::of(&"the run") };
        update(&*self.table, &key, policy, |stored| ready(changed(stored))).await
    }
}
