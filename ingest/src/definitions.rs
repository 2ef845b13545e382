//! Changes of how the predictions of releases are judged, from a day on: one batch with a `define` event for each release.

use std::collections::BTreeSet;

use catalog::{Action, AnyEntity, Definitions, Workspace};
pub use event::NewDefinition;
use event::{Column, Day, Definition, DefinitionChange, Error, Id, Kind, Said, Task, fields::same_label};
use log::key::EntityId;
use serde_json::{Value, json};

use crate::{
    Batch, Ingest, Remember, SubmitError,
    defining::text,
    releases::{batch, check_note},
};

/// Adds fields of a definition to a release event.
pub(crate) fn say(event: &mut Value, said: Vec<(&'static str, Said)>) {
    for (name, said) in said {
        event[name] = match said {
            Said::Text(text) => text.into(),
            Said::Number(number) => number.into(),
        };
    }
}

/// Labels of fewer outcomes say little about whether the positive label is right.
const MIN_DOUBTED: usize = 20;

/// Maximum number of labels that a warning names.
const MAX_NAMED: usize = 5;

/// Maximum number of releases defined by one batch.
const MAX_AT_ONCE: usize = 5_000;

/// Refuses a definition without any.
pub(crate) const SAYS_NOTHING: &str = "a definition says something of the task, the positive label, the threshold, the \
                                       costs, the level of intervals, the dimensions or the metrics";

/// A release, and how it is judged from a day on.
pub type DefinedRelease = (String, Definition);

/// The releases that a change lets be judged otherwise on some day, with how they are judged from its day on.
fn changed(
    releases: &[impl AsRef<str>],
    change: &DefinitionChange,
    known: &Definitions,
) -> Result<Vec<DefinedRelease>, Error> {
    let mut found = Vec::new();
    for release in releases.iter().map(AsRef::as_ref) {
        // One that was deleted in this moment has none.
        let found_by = known.changed_by(release, change);
        let named = |error: Error| Error::new(error.kind(), format!("`{release}`: {error}"));
        let Some((after, is_new)) = found_by.map_err(named)? else { continue };
        if is_new {
            found.push((release.to_owned(), after));
        }
    }
    Ok(found)
}

impl Ingest {
    /// Says how the predictions of a release are judged, from a day on; today, when none is given. Days before
    /// it stay as they are. Where it is said already, nothing happens.
    ///
    /// # Errors
    /// When there is no such release, what is said is no good, or the table fails.
    pub async fn define_release(
        &self,
        workspace: &Workspace,
        release: &str,
        new: &NewDefinition,
    ) -> Result<Vec<DefinedRelease>, SubmitError> {
        let change = self.asked(new)?;
        let page = self.catalog().page(workspace.id()).await?;
        let found = page.releases.iter().find(|known| known.entity.name == release);
        let missing = || Error::not_found(format!("there is no release `{release}` in this workspace"));
        let model = found.ok_or_else(missing)?.model.clone();
        let known = self.catalog().definitions(workspace.id()).await?;
        let found = changed(&[release], &change, &known)?;
        self.define(workspace, &model, (&change, new.note.as_deref()), found).await
    }

    /// Defines all releases of a model by one batch, and those that will be registered.
    ///
    /// # Errors
    /// As [`Ingest::define_release`]. Made again after a failure, it goes on where it was.
    pub async fn define_model(
        &self,
        workspace: &Workspace,
        model: &str,
        new: &NewDefinition,
    ) -> Result<Vec<DefinedRelease>, SubmitError> {
        let change = self.asked(new)?;
        let catalog = self.catalog();
        let of_model = async || {
            let page = catalog.page(workspace.id()).await?;
            let releases = page.releases.into_iter().filter(|release| release.model == model);
            Ok::<_, Error>(releases.map(|release| release.entity.name).collect::<Vec<_>>())
        };
        let at = EntityId::Model(workspace.id().clone(), catalog.model_named(workspace.id(), model).await?);
        let known = catalog.definitions(workspace.id()).await?;
        let before = of_model().await?;
        changed(&before, &change, &known)?;
        if let (true, AnyEntity::Model(model)) = (before.is_empty(), catalog.get(&at).await?) {
            change.after(&model.definition)?;
        }
        catalog.define_model(&at, &change, self.clock().now()).await?;
        // The model comes first, then its releases, and last how they are judged. So a release that is registered in this
        // moment either begins with what the model says now, or is found here with what it began with.
        let releases = of_model().await?;
        let found = changed(&releases, &change, &catalog.definitions(workspace.id()).await?)?;
        self.define(workspace, model, (&change, new.note.as_deref()), found).await
    }

    /// The change that is asked for.
    fn asked(&self, new: &NewDefinition) -> Result<DefinitionChange, Error> {
        check_note(new.note.as_deref())?;
        let change = new.change(Some(new.from.unwrap_or_else(|| self.clock().now().day())))?;
        match change.is_empty() {
            true => Err(Error::invalid(SAYS_NOTHING)),
            false => Ok(change),
        }
    }

    /// Appends the events that change how releases of a model are judged, thousands in one batch.
    async fn define(
        &self,
        workspace: &Workspace,
        model: &str,
        (change, note): (&DefinitionChange, Option<&str>),
        found: Vec<DefinedRelease>,
    ) -> Result<Vec<DefinedRelease>, SubmitError> {
        let mut event = json!({
            "released_at": self.clock().now().to_string(), "model": model, "action": Action::Define.name(), "note": note,
        });
        say(&mut event, change.said());
        let event_of = |(release, _): &DefinedRelease| {
            let mut event = event.clone();
            event["release"] = release.as_str().into();
            event
        };
        for some in found.chunks(MAX_AT_ONCE) {
            let events = batch(some.iter().map(event_of).collect(), self)?;
            self.submit(workspace, events, None, Remember::Week).await?;
        }
        Ok(found)
    }

    /// Warns the sender of a batch that can be stored: none of its labels, of which there are 20 or more, is a positive
    /// label, in a workspace without a task of several classes. It asks definitions that were read some seconds ago at
    /// most.
    pub async fn warnings(&self, workspace: &Workspace, batch: &Batch) -> Vec<String> {
        let labels = (batch.kind == Kind::Outcomes).then(|| batch.columns.column("label")).flatten();
        let counts = labels.map(Column::counts).unwrap_or_default();
        let found: u64 = counts.values().sum();
        if found < MIN_DOUBTED as u64 {
            return Vec::new();
        }
        let definitions = match self.definitions(workspace.id()).await {
            Ok(definitions) => definitions,
            Err(error) => {
                tracing::debug!(%error, "the labels of outcomes cannot be looked at");
                return Vec::new();
            }
        };
        // A task with several classes takes any label.
        let tasks = definitions.tasks();
        let takes_any = tasks.contains(&Task::Multiclass);
        let positive: BTreeSet<&str> = tasks.iter().filter_map(Task::positive_label).collect();
        let is_known = |label: &&str| counts.keys().any(|found| same_label(found, label));
        if takes_any || positive.is_empty() || positive.iter().any(is_known) {
            return Vec::new();
        }
        let list = |labels: &mut dyn Iterator<Item = &&str>| {
            labels.take(MAX_NAMED).map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ")
        };
        vec![format!(
            "none of the {found} labels is a positive label of this workspace ({}); they are {}; if the positive label \
             is wrong, `almanac model define` changes it from a day on",
            list(&mut positive.iter()),
            list(&mut counts.keys()),
        )]
    }

    /// Notes that events are going to name the releases of a batch. The event that registers a release does not use
    /// it: it says nothing that is judged, and a release that was registered by mistake can be deleted.
    pub(crate) async fn use_named(&self, workspace: &Workspace, batch: &Batch) -> Result<(), Error> {
        let Some(column) = batch.columns.column("release") else { return Ok(()) };
        let mut named: BTreeSet<String> = match batch.kind {
            Kind::Releases => {
                let uses = |row: &usize| text(batch, "action", *row) != Some(Action::Register.name());
                (0..batch.rows()).filter(uses).filter_map(|row| column.text(row)).map(str::to_owned).collect()
            }
            _ => column.counts().into_keys().map(str::to_owned).collect(),
        };
        if let Some(known) = self.known_releases().get(workspace.id()) {
            named.retain(|name| !known.contains(name));
        }
        if named.is_empty() {
            return Ok(());
        }
        let page = self.catalog().page(workspace.id()).await?;
        for release in page.releases.iter().filter(|release| named.contains(&release.entity.name)) {
            self.catalog().use_release(workspace.id(), release).await?;
            let name = release.entity.name.clone();
            self.known_releases().entry(workspace.id().clone()).or_default().insert(name);
        }
        Ok(())
    }

    /// Records what events of some days define. They are in the log, so this is no failure of theirs when it
    /// fails: the projector does it again.
    pub(crate) async fn record_definitions(&self, workspace: &Id, days: &BTreeSet<Day>) {
        for day in days {
            if let Err(error) = self.catalog().record_definitions(workspace, *day).await {
                self.unrecorded().increment(1);
                tracing::warn!(%workspace, %day, %error, "what is defined is stored; the projector records it");
            }
        }
    }
}
