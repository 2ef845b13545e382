//! Named reference days: the days of a snapshot, of the training data of a release, and of its baselines.

use event::{Error, Id, Result};

use log::key::{EntityId, EntityKind};

use super::{AnyEntity, Catalog};

/// Prefix of the name of a release whose training data, or baseline after a slash, is the reference.
const RELEASE: &str = "release:";

/// Prefix of the name of a snapshot.
const SNAPSHOT: &str = "snapshot:";

/// Words of a snapshot that only choose its days or their order; all others leave some of their rows out.
const WHOLE: [&str; 3] = ["from", "to", "order"];

impl Catalog {
    /// Resolves reference days of a query: `release:NAME`, `release:NAME/BASELINE` and `snapshot:NAME` are looked up, other words
    /// are returned unchanged.
    ///
    /// # Errors
    /// `NotFound`, when there is no such release, baseline or snapshot; `Invalid`, when the release does not name its training
    /// data, or the snapshot has only a part of the predictions of its days; those of the table.
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
