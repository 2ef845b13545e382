//! Contents of a release. They never change: events name a release by its name, and its metrics mean something only while its
//! contents stay.

mod baseline;

use std::collections::BTreeMap;

use event::{Day, Error, Id, Result, Timestamp, Window, id::check_name};
use log::key::{EntityId, EntityKind};
use table::{
    Item,
    item::{Number, Value},
};

use super::{
    AnyEntity, Approval, Attributes, Catalog, Entity, New, NewEntity, Secrets, WorkspacePage,
    attributes::check_attributes, no_model, promotion::with_approvals, secret, unexpected,
};

pub(super) use baseline::baselines_of;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Id, name, age.
    pub entity: Entity,
    /// The workspace that it is in.
    pub workspace: Id,
    /// The model, by the name that it had.
    pub model: String,
    /// The model.
    pub model_id: Id,
    /// The configuration, by the name that it had.
    pub configuration: Option<String>,
    /// The configuration.
    pub configuration_id: Option<Id>,
    /// The environment that it was made for.
    pub environment: Option<String>,
    /// Where it comes from.
    pub details: Box<ReleaseDetails>,
    /// Principal that created it, as in the audit log.
    pub created_by: String,
    /// Who approves that it is live, and where; the latest last.
    pub approvals: Vec<Approval>,
    /// Days that it is measured from, by name.
    pub baselines: Baselines,
}

/// The attribute of who created a release.
pub(super) const CREATED_BY: &str = "created_by";

/// Where a release comes from: what is known of it once and for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseDetails {
    /// The commit of the code.
    pub commit: Option<String>,
    /// Where the trained model is.
    pub artefact_uri: Option<String>,
    /// Its digest, such as `sha256:9f86d081...`.
    pub artefact_digest: Option<String>,
    /// The days of the data that it was trained on.
    pub snapshot: Option<Window>,
    /// The snapshot that it was tuned on.
    pub tuned_on: Option<TunedOn>,
    /// What it measured at training time, by name.
    pub metrics: BTreeMap<String, Number>,
    /// The secrets that it needs, by name, each with its version; never what they are.
    pub secrets: Secrets,
    /// Remarks.
    pub notes: Option<String>,
    /// Who made it.
    pub author: Option<String>,
}

/// The snapshot that a release was tuned on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedOn {
    /// Its id.
    pub id: Id,
    /// The name that it has, or had when it was deleted.
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

    fn to_item(&self, mut item: Item) -> Item {
        let texts = [
            ("commit", &self.commit),
            ("artefact_uri", &self.artefact_uri),
            ("artefact_digest", &self.artefact_digest),
            ("notes", &self.notes),
            ("author", &self.author),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                item = item.with(name, text.as_str());
            }
        }
        if let Some(window) = self.snapshot {
            item = item
                .with("snapshot_from", window.from().to_string())
                .with("snapshot_to", window.to().to_string());
        }
        if let Some(on) = &self.tuned_on {
            item = item.with("snapshot_id", on.id.as_str()).with("snapshot", on.name.as_str());
        }
        if !self.metrics.is_empty() {
            // As texts: engines do not keep every double as a number.
            let metrics: BTreeMap<String, Value> =
                self.metrics.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            item = item.with("metrics", metrics);
        }
        secret::to_item(&self.secrets, item)
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        let text = |name| item.optional_text(name).map(str::to_owned);
        let day = |name| item.optional_text(name).map(str::parse::<Day>).transpose();
        let snapshot = match (day("snapshot_from")?, day("snapshot_to")?) {
            (Some(from), Some(to)) => Some(Window::new(from, to)?),
            _ => None,
        };
        let tuned_on = match (item.optional_text("snapshot_id"), text("snapshot")) {
            (Some(id), Some(name)) => Some(TunedOn { id: Id::parse(id)?, name }),
            _ => None,
        };
        let metrics = match item.attributes.get("metrics") {
            Some(Value::M(metrics)) => metrics
                .iter()
                .map(|(name, value)| {
                    let number = if let Value::S(text) = value { Number::parse(text).ok() } else { None };
                    let wrong = || item.corrupt(format_args!("the metric `{name}` is no number"));
                    Ok((name.clone(), number.ok_or_else(wrong)?))
                })
                .collect::<Result<_>>()?,
            _ => BTreeMap::new(),
        };
        Ok(Self {
            commit: text("commit"),
            artefact_uri: text("artefact_uri"),
            artefact_digest: text("artefact_digest"),
            snapshot,
            tuned_on,
            metrics,
            secrets: secret::from_item(item)?,
            notes: text("notes"),
            author: text("author"),
        })
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

impl Release {
    pub(super) fn to_item(&self, item: Item) -> Item {
        let texts = [
            ("configuration", self.configuration.as_deref()),
            ("configuration_id", self.configuration_id.as_ref().map(Id::as_str)),
            ("environment", self.environment.as_deref()),
            (CREATED_BY, Some(&*self.created_by)),
        ];
        let item = item.with("model", self.model.as_str());
        let item = texts.into_iter().fold(item, |item, (name, text)| match text {
            Some(text) => item.with(name, text),
            None => item,
        });
        baseline::with_baselines(with_approvals(self.details.to_item(item), &self.approvals), &self.baselines)
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
