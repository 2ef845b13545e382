//! Reference days that have a name: those of a snapshot, those of the data that a release was trained on, and its baselines.

use event::{Error, Id, Result};

use log::key::{EntityId, EntityKind};

use super::{AnyEntity, Catalog};

/// What stands before the name of a release whose training data, or baseline after a slash, is the reference.
const RELEASE: &str = "release:";

/// What stands before the name of a snapshot.
const SNAPSHOT: &str = "snapshot:";

/// The words of a snapshot that say which days it is of; all others but the order of rows leave some of their rows out.
const WHOLE: [&str; 3] = ["from", "to", "order"];

impl Catalog {
    /// Reference days as a query takes them: `release:NAME`, `release:NAME/BASELINE` and `snapshot:NAME` are looked up, all else is what it was.
    ///
    /// # Errors
    /// `NotFound`, when there is no such release, baseline or snapshot; `Invalid`, when the release does not say what it was trained on, or
    /// the snapshot has only a part of the predictions of its days; those of the table.
    pub async fn reference_days(&self, workspace: &Id, word: &str) -> Result<String> {
        if let Some(named) = word.strip_prefix(RELEASE) {
            let (name, baseline) = match named.split_once('/') {
                Some((name, baseline)) => (name, Some(baseline)),
                None => (named, None),
            };
            let at = EntityId::Workspace(workspace.clone());
            let Some(AnyEntity::Release(release)) = self.named(Some(&at), EntityKind::Release, name).await?
            else {
                return Err(Error::not_found(format!(
                    "reference: there is no release `{name}` in this workspace"
                )));
            };
            if let Some(baseline) = baseline {
                let days = release.baseline(baseline);
                return days
                    .map(|days| days.to_string())
                    .map_err(|error| Error::new(error.kind(), format!("reference: {error}")));
            }
            let days = release.details.snapshot.ok_or_else(|| {
                Error::invalid(format!(
                    "reference: release `{name}` does not say of which days its training data is"
                ))
            })?;
            return Ok(days.to_string());
        }
        let Some(name) = word.strip_prefix(SNAPSHOT) else { return Ok(word.to_owned()) };
        let content = self.snapshot(workspace, name).await?.content;
        match content.words.keys().find(|word| !WHOLE.contains(&word.as_str())) {
            Some(word) => Err(Error::invalid(format!(
                "reference: snapshot `{name}` has only a part of its days (`{word}`), and a reference is whole days: name them"
            ))),
            None => Ok(content.window.to_string()),
        }
    }
}
