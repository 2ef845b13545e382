//! Changes of releases: they are created, promoted to an environment, rolled back and retired, each by an event in the release
//! log; and unregistered ones are registered, if a workspace is set so.

use std::collections::{BTreeSet, HashMap};

use catalog::{
    Action, DetailedSpec, Override, Release, ReleaseChange, ReleaseDetails, ReleaseSpec, Workspace,
    WorkspacePage,
};
use event::{Error, Id, Kind, id::check_name};
use serde_json::{Value, json};

use crate::{
    Batch, Ingest, Refused, Remember, SubmitError,
    batch::RowIssue,
    definitions::say,
    json::read_json_array,
    limits::MAX_NOTE_BYTES,
    promotion::{Gates, check_reason},
};

/// Maximum releases that one batch may register by naming them.
pub const MAX_NEW_RELEASES: usize = 100;

/// Result of a request to create a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedRelease {
    /// The release.
    pub release: Release,
    /// True if this request created it as requested: in the catalog, or by registering a release that an earlier, failed request
    /// like it had created.
    pub is_new: bool,
    /// True if the log had its `register` event before.
    pub was_registered: bool,
}

impl Ingest {
    /// Creates a release in the catalog and appends the event that registers it: the one way to create a release, over HTTP, from
    /// the command line, and for events that name an unregistered one. Made again, it finds the release, and appends the event if
    /// a crash came before it.
    ///
    /// # Errors
    /// Errors of [`catalog::Catalog::create_release`] and [`Ingest::submit`].
    pub async fn create_release(
        &self,
        workspace: &Workspace,
        new: DetailedSpec,
    ) -> Result<CreatedRelease, SubmitError> {
        let new = self.catalog().with_snapshot(workspace.id(), new).await?;
        let (details, attributes) = (new.details.clone(), new.attributes.clone());
        let (release, is_new) =
            self.catalog().create_release(workspace.id(), new, self.clock().now()).await?;
        let was_registered = !is_new && self.catalog().is_registered(&release).await?;
        let was_registered = was_registered || self.register(workspace, &release, is_new).await?;
        let is_as_asked = *release.details == details && release.entity.attributes == attributes;
        Ok(CreatedRelease { is_new: is_new || !was_registered && is_as_asked, release, was_registered })
    }

    /// Appends the event that registers a release. Returns whether it was in the log before.
    async fn register(
        &self,
        workspace: &Workspace,
        release: &Release,
        is_new: bool,
    ) -> Result<bool, SubmitError> {
        let event = batch(vec![self.register_event(release).await?], self)?;
        // Keyed by its id, since another release of the name may have been deleted.
        let key = format!("register/{}", release.entity.id);
        // A batch that names an unknown release registers it before it is stored itself, so this calls itself.
        match Box::pin(self.submit(workspace, event, Some(&key), Remember::Forever)).await {
            Ok(receipt) => Ok(receipt.replayed),
            // It was registered when its model had another name.
            Err(SubmitError::Store(error)) if error.is_conflict() && !is_new => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Makes a release the live one of its model in an environment. Does nothing if it is live already.
    ///
    /// # Errors
    /// `Conflict`, when it does not pass the promotion gates of its model, with the reason of each; when there is no such
    /// release, the environment is no name, or the table fails.
    pub async fn promote(
        &self,
        workspace: &Workspace,
        release: &str,
        environment: &str,
        note: Option<&str>,
    ) -> Result<Option<ReleaseChange>, SubmitError> {
        self.promote_despite(workspace, release, environment, note, None).await
    }

    /// Promotes a release even if it does not pass its gates, when a reason is given to override them. The reason is recorded in
    /// the audit log with the failed gates, and is the remark of the event if that has none.
    ///
    /// # Errors
    /// As [`Ingest::promote`]; `Invalid`, when the reason is empty.
    pub async fn promote_despite(
        &self,
        workspace: &Workspace,
        release: &str,
        environment: &str,
        note: Option<&str>,
        overridden: Option<Override<'_>>,
    ) -> Result<Option<ReleaseChange>, SubmitError> {
        check_note(note)?;
        check_reason(overridden)?;
        let page = self.catalog().page(workspace.id()).await?;
        let model = model_of(&page, release)?;
        let now = self.clock().now();
        let live = self.catalog().live_at(workspace.id(), environment, now).await?;
        if live.get(&model).is_some_and(|live| live.release == release) {
            return Ok(None);
        }
        let change = self.drafted(
            (Action::Promote, release, &model),
            environment,
            note.or(overridden.map(|of| of.reason)),
        );
        self.pass_gates(workspace, &page, &change, overridden).await?;
        self.append_change(workspace, change).await.map(Some)
    }

    /// Makes the release live again that was live in an environment before, or the named one. The model need not be named if only
    /// one is live. A release that was never live there must pass the promotion gates of its model.
    ///
    /// # Errors
    /// `Conflict`, when none was live before or the model is ambiguous; those of [`Ingest::promote`].
    pub async fn roll_back(
        &self,
        workspace: &Workspace,
        environment: &str,
        model: Option<&str>,
        to: Option<&str>,
        note: Option<&str>,
    ) -> Result<Option<ReleaseChange>, SubmitError> {
        check_note(note)?;
        let live = self.catalog().live_at(workspace.id(), environment, self.clock().now()).await?;
        let page = self.catalog().page(workspace.id()).await?;
        let model = match (to, model) {
            (Some(to), model) => {
                let of = model_of(&page, to)?;
                if model.is_some_and(|model| model != of) {
                    return Err(Error::invalid(format!("`{to}` is a release of `{of}`")).into());
                }
                of
            }
            (None, Some(model)) => model.to_owned(),
            (None, None) => {
                let mut models = live.keys();
                match (models.next(), models.next()) {
                    (Some(model), None) => model.clone(),
                    (None, _) => return Err(nothing_live(environment, &page).into()),
                    _ => {
                        let found = live.len();
                        let message =
                            format!("{found} models are live in `{environment}`; say which one to roll back");
                        return Err(Error::conflict(message).into());
                    }
                }
            }
        };
        let release = match to {
            Some(to) => to.to_owned(),
            None => {
                let before = self.catalog().live_before(workspace.id(), environment, &model).await?;
                before.ok_or_else(|| {
                    Error::conflict(format!(
                        "no other release of `{model}` was live in `{environment}` before"
                    ))
                })?
            }
        };
        if live.get(&model).is_some_and(|live| live.release == release) {
            return Ok(None);
        }
        let change = self.drafted((Action::Rollback, &release, &model), environment, note);
        self.pass_gates(workspace, &page, &change, None).await?;
        self.append_change(workspace, change).await.map(Some)
    }

    /// Takes a release out of an environment, or out of all in which it is live.
    ///
    /// # Errors
    /// `Conflict`, when it is not live there; those of [`Ingest::promote`].
    pub async fn retire(
        &self,
        workspace: &Workspace,
        release: &str,
        environment: Option<&str>,
        note: Option<&str>,
    ) -> Result<Vec<ReleaseChange>, SubmitError> {
        let model = model_of(&self.catalog().page(workspace.id()).await?, release)?;
        let mut live = self.catalog().live_now(workspace.id()).await?;
        live.retain(|name, state| {
            let is_live = state.get(&model).is_some_and(|live| live.release == release);
            is_live && environment.is_none_or(|environment| environment == name)
        });
        if live.is_empty() {
            let place = environment.unwrap_or("any environment");
            return Err(Error::conflict(format!("`{release}` is not live in {place}")).into());
        }
        let mut changes = Vec::with_capacity(live.len());
        for environment in live.keys() {
            let what = (Action::Retire, release, model.as_str());
            changes.push(self.append_change(workspace, self.drafted(what, environment, note)).await?);
        }
        Ok(changes)
    }

    /// Drafts a change that happens now.
    fn drafted(
        &self,
        (action, release, model): (Action, &str, &str),
        environment: &str,
        note: Option<&str>,
    ) -> ReleaseChange {
        ReleaseChange {
            at: self.clock().now(),
            action,
            release: release.to_owned(),
            model: model.to_owned(),
            environment: Some(environment.to_owned()),
            note: note.map(str::to_owned),
        }
    }

    /// Appends a change whose gates have been judged.
    async fn append_change(
        &self,
        workspace: &Workspace,
        change: ReleaseChange,
    ) -> Result<ReleaseChange, SubmitError> {
        let event = json!({
            "release": change.release, "released_at": change.at.to_string(), "model": change.model,
            "action": change.action.name(), "environment": change.environment, "note": change.note,
        });
        let batch = batch(vec![event], self)?;
        // Each call is a change of its own, also one equal to the last but one.
        self.submit_judged(workspace, (batch, Gates::Asked), None, Remember::Never).await?;
        Ok(change)
    }

    /// Finds the rows that name a missing release.
    pub(crate) async fn unknown_releases(
        &self,
        workspace: &Id,
        batch: &Batch,
    ) -> Result<Vec<RowIssue>, Error> {
        let Some(column) = batch.columns.column("release") else { return Ok(Vec::new()) };
        let named = column.counts();
        let known = |releases: &HashMap<Id, BTreeSet<String>>| {
            let names = releases.get(workspace);
            named.keys().all(|name| names.is_some_and(|names| names.contains(*name)))
        };
        if known(&self.known_releases()) {
            return Ok(Vec::new());
        }
        let page = self.catalog().page(workspace).await?;
        let names: BTreeSet<String> =
            page.releases.iter().map(|release| release.entity.name.clone()).collect();
        let reason = match named.keys().all(|name| names.contains(*name)) {
            true => None,
            false => self.refusal(&page).await?,
        };
        let issue = |row| {
            let name = column.text(row).filter(|name| !names.contains(*name))?;
            match (&reason, check_name(name)) {
                (None, Ok(())) => None,
                (None, Err(error)) => Some((row, "release", error.to_string())),
                (Some(reason), _) => Some((row, "release", format!("`{name}` {reason}"))),
            }
        };
        Ok((0..batch.rows()).filter_map(issue).collect())
    }

    /// Returns why releases that a workspace does not know are refused; `None`, when they will be registered.
    pub(crate) async fn refusal(&self, page: &WorkspacePage) -> Result<Option<String>, Error> {
        Ok(self.model_of_unknown(page).await?.err())
    }

    /// Returns the model of unregistered releases, or the reason that there is none.
    async fn model_of_unknown(&self, page: &WorkspacePage) -> Result<Result<String, String>, Error> {
        let settings = self.catalog().settings(page.workspace.id()).await?;
        if !settings.accept_unknown_releases {
            return Ok(Err("is no release of this workspace; register it first".to_owned()));
        }
        Ok(match (settings.model_of_unknown, page.models.as_slice()) {
            (Some(model), _) => Ok(model),
            (None, [only]) => Ok(only.entity.name.clone()),
            (None, models) => Err(format!(
                "is not known, and of which of the {} models it is neither; set the model of unknown releases",
                models.len()
            )),
        })
    }

    /// Registers the unregistered releases that a batch names, if the workspace is set so.
    pub(crate) async fn register_unknown(
        &self,
        workspace: &Workspace,
        batch: &Batch,
    ) -> Result<(), SubmitError> {
        let Some(column) = batch.columns.column("release") else { return Ok(()) };
        let mut unknown: BTreeSet<String> = column.counts().into_keys().map(str::to_owned).collect();
        if let Some(known) = self.known_releases().get(workspace.id()) {
            unknown.retain(|name| !known.contains(name));
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let page = self.catalog().page(workspace.id()).await?;
        unknown.retain(|name| !page.releases.iter().any(|release| release.entity.name == *name));
        if unknown.len() > MAX_NEW_RELEASES {
            let found = unknown.len();
            let message =
                format!("{found} releases are not known, and a batch registers at most {MAX_NEW_RELEASES}");
            return Err(Refused::Whole(message).into());
        }
        for name in unknown {
            let model = self.model_of_unknown(&page).await?.map_err(Error::invalid)?;
            let spec = ReleaseSpec { name, model, configuration: None, environment: None };
            self.create_release(workspace, spec.into()).await?;
        }
        Ok(())
    }

    /// Event that registers a release with its first definition. Its time is that of the creation, so that a repeat after a
    /// failure is the same event.
    async fn register_event(&self, release: &Release) -> Result<Value, Error> {
        let definitions = self.catalog().definitions(&release.workspace).await?;
        let mut event = json!({
            "release": release.entity.name, "released_at": release.entity.created_at.to_string(),
            "model": release.model, "action": Action::Register.name(),
            "configuration": release.configuration, "environment": release.environment,
            "note": note_of(&release.details),
        });
        if let Some(first) = definitions.first(&release.entity.name) {
            say(&mut event, first.definition.said());
        }
        Ok(event)
    }
}

/// Finds the model of a release.
fn model_of(page: &WorkspacePage, release: &str) -> Result<String, Error> {
    let found = page.releases.iter().find(|known| known.entity.name == release);
    let missing = || Error::not_found(format!("there is no release `{release}` in this workspace"));
    found.map(|release| release.model.clone()).ok_or_else(missing)
}

/// Error that nothing is live in an environment, with the environments in which something is.
fn nothing_live(environment: &str, page: &WorkspacePage) -> Error {
    let others = page.live.iter().filter(|(_, live)| !live.is_empty()).map(|(name, _)| format!("`{name}`"));
    let others = others.collect::<Vec<_>>().join(", ");
    let elsewhere = match others.is_empty() {
        true => "nor in any other environment".to_owned(),
        false => format!("and something is in {others}"),
    };
    Error::conflict(format!("nothing is live in `{environment}`, {elsewhere}"))
}

/// Remark of the event on the origin of a release: its notes, and the snapshot that it was tuned on.
fn note_of(details: &ReleaseDetails) -> Option<String> {
    let on = details.tuned_on.as_ref().map(|on| format!("tuned on the snapshot {}", on.name));
    let notes = details.notes.clone();
    match (notes, on) {
        (Some(notes), Some(on)) => {
            let both = format!("{on}; {notes}");
            // Both stand with the release, too.
            Some(if both.len() <= MAX_NOTE_BYTES { both } else { notes })
        }
        (notes, on) => notes.or(on),
    }
}

pub(crate) fn check_note(note: Option<&str>) -> Result<(), Error> {
    match note.map_or(0, str::len) {
        ..=MAX_NOTE_BYTES => Ok(()),
        bytes => {
            Err(Error::invalid(format!("the note has {bytes} bytes; at most {MAX_NOTE_BYTES} are taken")))
        }
    }
}

/// Makes a batch of release events.
pub(crate) fn batch(mut events: Vec<Value>, ingest: &Ingest) -> Result<Batch, Refused> {
    for fields in events.iter_mut().filter_map(Value::as_object_mut) {
        fields.retain(|_, value| !value.is_null());
    }
    read_json_array(Kind::Releases, Value::Array(events).to_string().as_bytes(), ingest.clock().now())
}
