//! Contents of a release. They never change: events name a release by its name, and its metrics mean something only while its
//! contents stay.

mod baseline;

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp, Window, id::check_name};
use log::key::{EntityId, EntityKind};
use serde::{Deserialize, Serialize};
use table::item::Number;

use super::{
    AnyEntity, Approval, Attributes, Catalog, Entity, New, NewEntity, Secrets, WorkspacePage,
    attributes::check_attributes, no_model, secret, unexpected,
};

pub use baseline::{Baselines, MAX_BASELINES};

/// Maximum bytes in the URI of an artefact.
pub const MAX_URI_BYTES: usize = 2048;

/// Maximum bytes in a commit, a digest and the name of an author.
pub const MAX_DETAIL_BYTES: usize = 128;

/// Maximum bytes in the notes on a release.
pub const MAX_NOTES_BYTES: usize = 4096;

/// Maximum metrics that a release brings along.
pub const MAX_METRICS: usize = 64;

/// One version of a model with its configuration, for an environment. Its name and contents never change; its
/// `attributes`, approvals and baselines may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Id, name, age.
    #[serde(flatten)]
    pub entity: Entity,
    /// The workspace it belongs to.
    #[serde(skip_serializing)]
    pub workspace: Id,
    /// The model, by its name at that time.
    pub model: String,
    /// The id of the model, by which the index finds releases.
    #[serde(skip_serializing)]
    pub model_id: Id,
    /// The configuration, by its name at that time.
    pub configuration: Option<String>,
    /// The configuration.
    pub configuration_id: Option<Id>,
    /// The environment it was built for.
    pub environment: Option<String>,
    /// Its origin.
    #[serde(flatten)]
    pub details: Box<ReleaseDetails>,
    /// Principal that created it, as in the audit log.
    pub created_by: String,
    /// Approvals to make it live, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// Baselines: days from which drift is measured, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub baselines: Baselines,
}

/// Origin of a release, which never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseDetails {
    /// The commit of the code.
    pub commit: Option<String>,
    /// Where the trained model is.
    pub artefact_uri: Option<String>,
    /// Its digest, such as `sha256:9f86d081...`.
    pub artefact_digest: Option<String>,
    /// The days of the data that it was trained on.
    #[serde(rename = "snapshot_days")]
    pub snapshot: Option<Window>,
    /// The snapshot that it was tuned on.
    #[serde(flatten)]
    pub tuned_on: Option<TunedOn>,
    /// Metrics at training time, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Number>,
    /// Secrets that it needs, by name, with versions but without values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: Secrets,
    /// Remarks.
    pub notes: Option<String>,
    /// Author.
    pub author: Option<String>,
}

/// The snapshot that a release was tuned on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedOn {
    /// Its id.
    #[serde(rename = "snapshot_id")]
    pub id: Id,
    /// The name that it has, or had when it was deleted.
    #[serde(rename = "snapshot")]
    pub name: String,
}

impl ReleaseDetails {
    /// Refuses an origin that cannot be stored.
    ///
    /// # Errors
    /// `Invalid`, naming the field.
    pub fn check(&self) -> Result<()> {
        let texts = [
            ("commit", &self.commit, MAX_DETAIL_BYTES),
            ("artefact_uri", &self.artefact_uri, MAX_URI_BYTES),
            ("artefact_digest", &self.artefact_digest, MAX_DETAIL_BYTES),
            ("notes", &self.notes, MAX_NOTES_BYTES),
            ("author", &self.author, MAX_DETAIL_BYTES),
        ];
        for (name, text, most) in texts {
            if let Some(text) = text
                && (text.is_empty() || text.len() > most)
            {
                return Err(Error::invalid(format!("`{name}` should have 1 to {most} bytes")));
            }
        }
        if self.metrics.len() > MAX_METRICS {
            let found = self.metrics.len();
            return Err(Error::invalid(format!("`metrics` has {found} names, more than {MAX_METRICS}")));
        }
        secret::check(&self.secrets)?;
        self.metrics.keys().try_for_each(|name| check_name(name))
    }
}

/// Contents of a release, by names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSpec {
    /// Its name, unique in the workspace.
    pub name: String,
    /// The model, by name.
    pub model: String,
    /// The configuration, by name; created when it is new.
    pub configuration: Option<String>,
    /// The environment it is built for.
    pub environment: Option<String>,
}

/// Contents, origin and attributes of a new release.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailedSpec {
    /// Contents.
    pub spec: ReleaseSpec,
    /// Origin.
    pub details: ReleaseDetails,
    /// The snapshot that it was tuned on, by name.
    pub snapshot: Option<String>,
    /// Attributes set by users.
    pub attributes: Attributes,
}

impl From<ReleaseSpec> for DetailedSpec {
    fn from(spec: ReleaseSpec) -> Self {
        Self { spec, details: ReleaseDetails::default(), snapshot: None, attributes: Attributes::new() }
    }
}

impl ReleaseSpec {
    /// Refuses contents that differ from those of `known`: a release never changes.
    pub(super) fn check_same(&self, known: &Release) -> Result<()> {
        if known.model == self.model
            && known.configuration == self.configuration
            && known.environment == self.environment
        {
            return Ok(());
        }
        Err(self.differs())
    }

    /// Makes the error that the release of this name has other contents.
    pub(super) fn differs(&self) -> Error {
        Error::conflict(format!(
            "the release `{}` exists with another model, configuration or environment; \
             a release never changes, so give the new one a new name",
            self.name
        ))
    }
}

impl Catalog {
    /// Creates the release `new` if there is none of its name; returns it, and whether it was created. It is written to
    /// the catalog only: `ingest::Ingest::create_release` also appends the event that registers it.
    ///
    /// # Errors
    /// `Conflict` if a release of that name has other contents; `NotFound` if its model is unknown; `Invalid` if a part
    /// of it cannot be stored.
    pub async fn create_release(
        &self,
        workspace: &Id,
        new: DetailedSpec,
        now: Timestamp,
    ) -> Result<(Release, bool)> {
        let DetailedSpec { spec, details, attributes, .. } = self.with_snapshot(workspace, new).await?;
        details.check()?;
        check_attributes(&attributes)?;
        let parent = EntityId::Workspace(workspace.clone());
        let model = self.id_named(Some(&parent), EntityKind::Model, &spec.model).await?;
        let model = model.ok_or_else(|| no_model(&spec.model))?;
        let what = New::Release {
            workspace: workspace.clone(),
            model: spec.model.clone(),
            configuration: spec.configuration.clone(),
            environment: spec.environment.clone(),
            details: Box::new(details),
        };
        let new = NewEntity { name: spec.name.clone(), attributes, what };
        let (found, is_new) = self.find_or_create(Some(&parent), new, now).await?;
        let AnyEntity::Release(mut release) = found else { return Err(unexpected(&found)) };
        // It stores names as of its creation; the ids decide.
        if release.model_id != model {
            return Err(spec.differs());
        }
        release.model.clone_from(&spec.model);
        if let (Some(id), Some(name)) = (&release.configuration_id, &spec.configuration)
            && self.id_named(Some(&parent), EntityKind::Configuration, name).await?.as_ref() == Some(id)
        {
            release.configuration = Some(name.clone());
        }
        spec.check_same(&release)?;
        Ok((release, is_new))
    }

    /// Returns `new` with its snapshot added to the origin.
    ///
    /// # Errors
    /// `NotFound`, when there is no such snapshot.
    pub async fn with_snapshot(&self, workspace: &Id, mut new: DetailedSpec) -> Result<DetailedSpec> {
        if let Some(name) = new.snapshot.take() {
            let snapshot = self.snapshot(workspace, &name).await?;
            new.details.tuned_on = Some(TunedOn { id: snapshot.entity.id, name });
            new.details.snapshot = Some(snapshot.content.window);
        }
        Ok(new)
    }

    /// Creates the release `spec` if it is new: [`Catalog::create_release`] without origin.
    ///
    /// # Errors
    /// As [`Catalog::create_release`].
    pub async fn ensure_release(
        &self,
        workspace: &Id,
        spec: &ReleaseSpec,
        now: Timestamp,
    ) -> Result<Release> {
        self.create_release(workspace, spec.clone().into(), now).await.map(|(release, _)| release)
    }

    /// Checks, without writing, that [`Catalog::ensure_release`] would succeed by what `page` shows.
    ///
    /// # Errors
    /// As [`Catalog::ensure_release`].
    pub fn check_release(page: &WorkspacePage, spec: &ReleaseSpec) -> Result<()> {
        check_name(&spec.name)?;
        if let Some(known) = page.releases.iter().find(|release| release.entity.name == spec.name) {
            return spec.check_same(known);
        }
        match page.models.iter().any(|model| model.entity.name == spec.model) {
            true => Ok(()),
            false => Err(no_model(&spec.model)),
        }
    }
}
