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

/// The most bytes in the URI of an artefact.
pub const MAX_URI_BYTES: usize = 2048;

/// The most bytes in a commit, a digest and the name of an author.
pub const MAX_DETAIL_BYTES: usize = 128;

/// The most bytes in the notes on a release.
pub const MAX_NOTES_BYTES: usize = 4096;

/// The most metrics that a release brings along.
pub const MAX_METRICS: usize = 64;

/// One version of a model with its configuration, put to an environment. Its name and what it is made of
/// never change; what people note in its `attributes`, approvals and baselines may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Id, name, age.
    #[serde(flatten)]
    pub entity: Entity,
    /// The workspace that it is in.
    #[serde(skip_serializing)]
    pub workspace: Id,
    /// The model, by the name that it had.
    pub model: String,
    /// The model, which the index of releases names.
    #[serde(skip_serializing)]
    pub model_id: Id,
    /// The configuration, by the name that it had.
    pub configuration: Option<String>,
    /// The configuration.
    pub configuration_id: Option<Id>,
    /// The environment that it was made for.
    pub environment: Option<String>,
    /// Where it comes from.
    #[serde(flatten)]
    pub details: Box<ReleaseDetails>,
    /// Principal that created it, as in the audit log.
    pub created_by: String,
    /// Who approves that it is live, and where; the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// Days that it is measured from, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub baselines: Baselines,
}

/// Where a release comes from: what is known of it once and for all.
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
    /// What it measured at training time, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Number>,
    /// The secrets that it needs, by name, each with its version; never what they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: Secrets,
    /// Remarks.
    pub notes: Option<String>,
    /// Who made it.
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
    /// Refuses what cannot be stored.
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
    /// The environment that it is made for.
    pub environment: Option<String>,
}

/// What a release is created from: what it is made of, where it comes from, and what people note of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailedSpec {
    /// What it is made of.
    pub spec: ReleaseSpec,
    /// Where it comes from.
    pub details: ReleaseDetails,
    /// The snapshot that it was tuned on, by name.
    pub snapshot: Option<String>,
    /// What people note of it.
    pub attributes: Attributes,
}

impl From<ReleaseSpec> for DetailedSpec {
    fn from(spec: ReleaseSpec) -> Self {
        Self { spec, details: ReleaseDetails::default(), snapshot: None, attributes: Attributes::new() }
    }
}

impl ReleaseSpec {
    /// A release never changes: `known` must be made of what this says.
    pub(super) fn check_same(&self, known: &Release) -> Result<()> {
        if known.model == self.model
            && known.configuration == self.configuration
            && known.environment == self.environment
        {
            return Ok(());
        }
        Err(self.differs())
    }

    /// The release of this name is made of something else.
    pub(super) fn differs(&self) -> Error {
        Error::conflict(format!(
            "the release `{}` exists with another model, configuration or environment; \
             a release never changes, so give the new one a new name",
            self.name
        ))
    }
}

impl Catalog {
    /// The release that `new` describes, created when there is none of its name; and whether it was created. It stands in
    /// the catalog alone: `ingest::Ingest::create_release` also appends the event that registers it.
    ///
    /// # Errors
    /// `Conflict`, when there is one of that name made of something else; `NotFound`, when its model
    /// is unknown; `Invalid`, when a part of it cannot be stored.
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
        // It has the names of when it was made; what counts is what has them now.
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

    /// The same, with the snapshot that it names among its details.
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

    /// The release that `spec` describes, created when it is new: [`Catalog::create_release`] without details.
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
