//! Versions of registered models are releases: version 3 of `risk` is the release `risk-3`.

use catalog::{Model, Release, Workspace, WorkspacePage, new::NewRelease};
use ingest::SubmitError;
use log::key::EntityId;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::{Asked, millis},
    door::Door,
    experiments::page,
    filter::{Attributes, Filter, Order, Subject},
    logged::run_in,
    models::{aliases_of, time_of, versions},
    notes::{GIVEN, NOTES, Note, TRIES, noted, notes, tag, tags},
};

/// The attributes of versions.
const ATTRIBUTES: Attributes = Attributes {
    numbers: &["version_number", "creation_timestamp", "last_updated_timestamp"],
    texts: &["name", "run_id", "source_path"],
    datasets: &[],
};

/// Maximum number of versions of a page.
const MAX_VERSIONS: usize = 200_000;

/// The stages of MLflow, of which Almanac has only the first.
const STAGES: [&str; 4] = [NO_STAGE, "Staging", "Production", "Archived"];

/// The stage of all versions.
pub(crate) const NO_STAGE: &str = "None";

/// Returns the number of a version, if the release is one.
pub(crate) fn number_of(release: &Release) -> Option<u64> {
    release.entity.name.strip_prefix(&release.model)?.strip_prefix('-')?.parse().ok()
}

/// Returns the run that a release was made from.
fn run_of(release: &Release) -> String {
    let attributes = catalog::attributes::to_json(&release.entity.attributes);
    attributes["run"].as_str().unwrap_or_default().to_owned()
}

/// Returns a version in MLflow's form.
pub(crate) fn shown_version(page: &WorkspacePage, release: &Release) -> Value {
    let (entity, notes) = (&release.entity, notes(&release.entity.attributes));
    json!({
        "name": release.model,
        "version": number_of(release).unwrap_or_default().to_string(),
        "creation_timestamp": millis(entity.created_at),
        "last_updated_timestamp": millis(entity.updated_at),
        "current_stage": NO_STAGE,
        "description": notes["description"].as_str().unwrap_or_default(),
        "source": release.details.artefact_uri,
        "run_id": run_of(release),
        "status": "READY",
        "tags": tags(&notes),
        "aliases": aliases_of(page, release),
    })
}

/// Returns the number of the next version of a model: one more than the last number given, to an existing or a deleted version.
fn next_number(page: &WorkspacePage, model: &Model) -> u64 {
    let there = versions(page, &model.entity.name).last().map_or(0, |(number, _)| *number);
    let given = notes(&model.entity.attributes)[GIVEN].as_u64().unwrap_or(0);
    there.max(given).saturating_add(1)
}

impl Subject for Release {
    fn text(&self, of: &str, name: &str) -> Option<String> {
        match (of, name) {
            ("attributes", "name") => Some(self.model.clone()),
            ("attributes", "run_id") => Some(run_of(self)),
            ("attributes", "source_path") => self.details.artefact_uri.clone(),
            ("tags", name) => tag(&self.entity.attributes, name),
            _ => None,
        }
    }

    fn number(&self, of: &str, name: &str) -> Option<f64> {
        match (of, name) {
            ("attributes", "version_number") => number_of(self).map(|number| number as f64),
            ("attributes", name) => time_of(&self.entity, name),
            _ => None,
        }
    }
}

impl Door {
    /// Returns the version that a request names.
    pub(crate) async fn version_of(
        &self,
        workspace: &Workspace,
        asked: &Asked,
    ) -> Answer<(WorkspacePage, Release)> {
        let (name, version) = (asked.text("name")?, asked.text("version")?);
        let page = self.page_with(workspace, name).await?;
        let wanted = version.parse::<u64>().ok();
        let found = versions(&page, name).into_iter().find(|(number, _)| Some(*number) == wanted);
        let found = found.map(|(_, release)| release.clone());
        let missing =
            || Failure::missing(format!("Model Version (name={name}, version={version}) not found"));
        Ok((page, found.ok_or_else(missing)?))
    }

    /// Returns the address of the files of a new version. For a logged model it is that of the model.
    async fn source_of(&self, workspace: &Workspace, asked: &Asked) -> Answer<Option<String>> {
        let Some(source) = asked.text_if("source")? else { return Ok(None) };
        match source.strip_prefix("models:/").filter(|id| run_in(id).is_some()) {
            Some(id) => {
                let (_, model) = self.logged_model(workspace, id).await?;
                Ok(model["info"]["artifact_uri"].as_str().map(str::to_owned))
            }
            None => Ok(Some(source.to_owned())),
        }
    }

    pub(crate) async fn create_version(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        workspace.check_open()?;
        let name = asked.text("name")?;
        let source = self.source_of(workspace, asked).await?;
        for _ in 0..TRIES {
            let (page, model) = self.model_of(workspace, asked).await?;
            let number = next_number(&page, &model);
            let mut attributes = noted(asked, &[])?;
            if let Some(link) = asked.text_if("run_link")? {
                attributes[NOTES]["run_link"] = link.into();
            }
            let new = NewRelease {
                workspace: workspace.id().to_string(),
                name: format!("{name}-{number}"),
                model: name.to_owned(),
                artefact_uri: source.clone(),
                from_run: asked.text_if("run_id")?.map(str::to_owned),
                notes: asked.text_if("description")?.map(str::to_owned),
                attributes: Some(attributes),
                ..NewRelease::default()
            };
            let new = new.with_run(self.ingest.catalog(), workspace.id()).await?.spec()?;
            // The first request that notes the number owns it.
            let at = EntityId::Model(workspace.id().clone(), model.entity.id.clone());
            if !self.note_as_read(&at, &model.entity, Note::Given(number)).await? {
                continue;
            }
            match self.ingest.create_release(workspace, new).await {
                Ok(created) if created.is_new => {
                    return Ok(json!({ "model_version": shown_version(&page, &created.release) }));
                }
                // Another request took the number at this moment.
                Ok(_) => {}
                Err(SubmitError::Store(error)) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::overtaken("model"))
    }

    pub(crate) async fn get_version(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (page, release) = self.version_of(workspace, asked).await?;
        Ok(json!({ "model_version": shown_version(&page, &release) }))
    }

    /// Changes MLflow's notes of a version, and answers as [`Door::get_version`] does.
    pub(crate) async fn note_version(&self, workspace: &Workspace, asked: &Asked, note: Note<'_>) -> Answer {
        let (_, release) = self.version_of(workspace, asked).await?;
        self.note(&EntityId::Release(workspace.id().clone(), release.entity.id), note).await?;
        self.get_version(workspace, asked).await
    }

    /// Deletes a version, unless its release has events.
    pub(crate) async fn delete_version(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (_, release) = self.version_of(workspace, asked).await?;
        self.delete_entity(&EntityId::Release(workspace.id().clone(), release.entity.id)).await
    }

    /// Refuses a stage: MLflow itself advises aliases instead, which are environments here.
    pub(crate) async fn set_stage(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (page, release) = self.version_of(workspace, asked).await?;
        let stage = asked.text("stage")?;
        let known = STAGES.iter().find(|known| known.eq_ignore_ascii_case(stage));
        match known {
            Some(&NO_STAGE) => Ok(json!({ "model_version": shown_version(&page, &release) })),
            Some(stage) => Err(Failure::invalid(format!(
                "Almanac keeps no stages: give the version an alias in place of {stage}, by set_registered_model_alias"
            ))),
            None => Err(Failure::invalid(format!(
                "Invalid Model Version stage: {stage}. Value must be one of {}.",
                STAGES.join(", ")
            ))),
        }
    }

    pub(crate) async fn version_uri(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (_, release) = self.version_of(workspace, asked).await?;
        Ok(json!({ "artifact_uri": release.details.artefact_uri }))
    }

    pub(crate) async fn search_versions(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let limit = asked.limit(MAX_VERSIONS, MAX_VERSIONS)?;
        let filter = Filter::parse(asked.text_if("filter")?.unwrap_or_default(), &ATTRIBUTES)?;
        let orders = Order::parse_all(&asked.texts("order_by")?, &ATTRIBUTES)?;
        let known = self.ingest.catalog().page(workspace.id()).await?;
        let mut found: Vec<_> = known
            .releases
            .iter()
            .filter_map(|release| Some((&release.model, number_of(release)?, release)))
            .filter(|(_, _, release)| filter.matches(*release))
            .collect();
        // Ordered by name, and within a name the latest first, by default.
        found.sort_by(|a, b| Order::compare_by(&orders, a.2, b.2).then_with(|| (a.0, b.1).cmp(&(b.0, a.1))));
        let (some, next) = page(&found, asked.text_if("page_token")?, limit)?;
        let shown: Vec<Value> = some.iter().map(|(_, _, release)| shown_version(&known, release)).collect();
        Ok(json!({ "model_versions": shown, "next_page_token": next }))
    }
}
