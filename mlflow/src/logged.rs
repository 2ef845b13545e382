//! Logged models: each is stored in tags of the run that made it, and its files are among the artifacts of the run.

use catalog::{MAX_RUN_VALUE_BYTES, Run, RunChange, Texts, Workspace};
use event::{Error, ErrorKind, Id};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::{Asked, millis, needed, text, whole},
    door::Door,
    experiments::{ARTIFACTS, pairs, texts},
    logged_metrics::metrics_of,
    runs::tagging,
};

/// Prefix of the names of tags that hold logged models. The id of the model follows, and then the part of it.
pub(crate) const MODEL: &str = "almanac.model/";

/// Status of a model until its files are there.
const PENDING: &str = "LOGGED_MODEL_PENDING";

/// Final statuses of a model.
const ENDS: [&str; 2] = ["LOGGED_MODEL_READY", "LOGGED_MODEL_UPLOAD_FAILED"];

/// Parts of a model in numbered tags, each a JSON object of as many texts as fit: names in MLflow may be as long as those of
/// tags.
const PARAMS: &str = "params";
const TAGS: &str = "tags";

/// The part of a deleted model with the time of its deletion, in milliseconds.
const DELETED: &str = "deleted";

/// Returns the run that made a model, which is part of the model's id.
pub(crate) fn run_in(model: &str) -> Option<Id> {
    let (run, own) = model.strip_prefix("m-")?.rsplit_once('-')?;
    Id::parse(own).ok()?;
    Id::parse(run).ok()
}

fn no_model(model: &str) -> Failure {
    Failure::missing(format!("Logged model with ID '{model}' not found."))
}

/// Returns a model in MLflow's form, from the tags of its run, unless it was deleted.
pub(crate) fn shown(run: &Run, id: &str) -> Option<Value> {
    if run.tags.contains_key(&format!("{MODEL}{id}/{DELETED}")) {
        return None;
    }
    let said: Value = serde_json::from_str(run.tags.get(&format!("{MODEL}{id}"))?).ok()?;
    Some(json!({
        "info": {
            "model_id": id,
            "experiment_id": run.experiment_id(),
            "name": said["name"],
            "model_type": said["model_type"],
            "source_run_id": run.id.as_str(),
            "artifact_uri": said["artifact_uri"],
            "creation_timestamp_ms": said["created"],
            "last_updated_timestamp_ms": said["created"],
            "status": run.tags.get(&format!("{MODEL}{id}/status")).map_or(PENDING, String::as_str),
            "tags": pairs(&kept(run, id, TAGS)),
        },
        "data": { "params": pairs(&kept(run, id, PARAMS)), "metrics": metrics_of(run, id) },
    }))
}

/// Returns the models that a run made, in the order of their ids.
pub(crate) fn models_of(run: &Run) -> impl Iterator<Item = Value> + '_ {
    let ids = run.tags.keys().filter_map(|name| name.strip_prefix(MODEL)).filter(|id| !id.contains('/'));
    ids.filter_map(move |id| shown(run, id))
}

/// Removes the tags that hold logged models, and returns the models that are outputs of the run.
pub(crate) fn take_outputs(tags: &mut Texts) -> Vec<Value> {
    let mut outputs = Vec::new();
    tags.retain(|name, value| {
        let Some(said) = name.strip_prefix(MODEL) else { return true };
        if let Some((id, "step")) = said.split_once('/') {
            outputs.push(json!({ "model_id": id, "step": value.parse::<i64>().unwrap_or(0) }));
        }
        false
    });
    outputs
}

/// Returns the values of the numbered tags with some texts of a model, in their order.
pub(crate) fn parts_of<'a>(run: &'a Run, id: &str, what: &str) -> impl Iterator<Item = &'a String> + use<'a> {
    let prefix = format!("{MODEL}{id}/{what}/");
    (0..).map_while(move |part: usize| run.tags.get(&format!("{prefix}{part}")))
}

/// Returns the texts of a part of a model.
pub(crate) fn kept(run: &Run, id: &str, what: &str) -> Texts {
    parts_of(run, id, what).filter_map(|part| serde_json::from_str::<Texts>(part).ok()).flatten().collect()
}

/// Returns tags with some texts of a model, in as many parts as they need, replacing `before` earlier parts.
pub(crate) fn parts(id: &str, what: &str, texts: Texts, before: usize) -> Vec<(String, Option<String>)> {
    let mut parts = Vec::<Texts>::new();
    for (key, value) in texts {
        let with_it = parts.last().map(|last| {
            let mut last = last.clone();
            last.insert(key.clone(), value.clone());
            last
        });
        match (with_it, parts.last_mut()) {
            (Some(fits), Some(last)) if json!(fits).to_string().len() <= MAX_RUN_VALUE_BYTES => *last = fits,
            _ => parts.push([(key, value)].into()),
        }
    }
    let gone = before.saturating_sub(parts.len());
    let texts = parts.into_iter().map(|part| Some(json!(part).to_string())).chain((0..gone).map(|_| None));
    (0..).zip(texts).map(|(part, text): (usize, _)| (format!("{MODEL}{id}/{what}/{part}"), text)).collect()
}

impl Door {
    /// Changes tags of the run that made a model, to the result of `tags` for the stored run.
    async fn change_model(
        &self,
        workspace: &Workspace,
        id: &str,
        tags: impl Fn(&Run) -> Vec<(String, Option<String>)>,
    ) -> Answer<Run> {
        let run = run_in(id).ok_or_else(|| no_model(id))?;
        let (catalog, now) = (self.ingest.catalog(), self.ingest.clock().now());
        let changed = catalog.change_run_by(workspace.id(), &run, now, |stored| match shown(stored, id) {
            Some(_) => Ok(tagging(tags(stored))),
            None => Err(Error::not_found("the run did not log this model")),
        });
        changed.await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => no_model(id),
            _ => Self::not_changed(&run, error),
        })
    }

    /// Changes some texts of a model by `change`.
    async fn change_texts(
        &self,
        workspace: &Workspace,
        (id, what): (&str, &str),
        change: impl Fn(&mut Texts),
    ) -> Answer<Run> {
        let changed = |run: &Run| {
            let (mut texts, before) = (kept(run, id, what), parts_of(run, id, what).count());
            change(&mut texts);
            parts(id, what, texts, before)
        };
        self.change_model(workspace, id, changed).await
    }

    /// Returns a model, and the run that made it.
    pub(crate) async fn logged_model(&self, workspace: &Workspace, id: &str) -> Answer<(Run, Value)> {
        let run = run_in(id).ok_or_else(|| no_model(id))?;
        let run = self.ingest.catalog().find_run(workspace.id(), &run).await?.ok_or_else(|| no_model(id))?;
        let model = shown(&run, id).ok_or_else(|| no_model(id))?;
        Ok((run, model))
    }

    pub(crate) async fn get_logged_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (_, model) = self.logged_model(workspace, asked.text("model_id")?).await?;
        Ok(json!({ "model": model }))
    }

    /// Adds a model to its run. It is refused if artifacts have no place, since its files would be nowhere.
    pub(crate) async fn create_logged_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let Some(run) = asked.text_if("source_run_id")? else {
            return Err(Failure::invalid(
                "Almanac keeps logged models of runs alone: start a run, and log the model in it",
            ));
        };
        let run = self.find_run(workspace, run).await?;
        let Some(location) =
            run.tags.get(ARTIFACTS).and_then(|at| at.strip_suffix(&format!("/{}/artifacts", run.id)))
        else {
            return Err(Failure::invalid(
                "Almanac keeps no files of models, and the artifacts of this run have no place: create the experiment with an \
                 artifact_location, or start Almanac with --mlflow-artifacts; or log no models, as by autolog(log_models=False)",
            ));
        };
        let now = self.ingest.clock().now();
        let id = format!("m-{}-{}", run.id, Id::new(now));
        let said = json!({
            "name": asked.text_if("name")?.unwrap_or("model"),
            "model_type": asked.text_if("model_type")?.unwrap_or_default(),
            "artifact_uri": format!("{location}/models/{id}/artifacts"),
            "created": millis(now),
        });
        let mut tags = vec![(format!("{MODEL}{id}"), Some(said.to_string()))];
        tags.extend(parts(&id, PARAMS, texts(asked.list("params")?)?, 0));
        tags.extend(parts(&id, TAGS, texts(asked.list("tags")?)?, 0));
        let run = self.change_run(workspace, &run.id, &tagging(tags)).await?;
        Ok(json!({ "model": shown(&run, &id) }))
    }

    /// Deletes a model, as MLflow does: it stays stored, but hidden. Deleting it again changes nothing.
    pub(crate) async fn delete_logged_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let id = asked.text("model_id")?;
        let run = run_in(id).ok_or_else(|| no_model(id))?;
        let (catalog, now) = (self.ingest.catalog(), self.ingest.clock().now());
        let name = format!("{MODEL}{id}/{DELETED}");
        let changed = catalog.change_run_by(workspace.id(), &run, now, |stored| {
            if !stored.tags.contains_key(&format!("{MODEL}{id}")) {
                return Err(Error::not_found("the run did not log this model"));
            }
            let at = stored.tags.get(&name).cloned().unwrap_or_else(|| millis(now).to_string());
            Ok(RunChange { tags: [(name.clone(), Some(at))].into(), ..RunChange::default() })
        });
        changed.await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => no_model(id),
            _ => Self::not_changed(&run, error),
        })?;
        Ok(json!({}))
    }

    pub(crate) async fn end_logged_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (id, status) = (asked.text("model_id")?, asked.text("status")?);
        if !ENDS.contains(&status) {
            let all = ENDS.join(" and ");
            return Err(Failure::invalid(format!(
                "Invalid status {status} of a logged model; there are {all}."
            )));
        }
        let tags = |_: &Run| vec![(format!("{MODEL}{id}/status"), Some(status.to_owned()))];
        let run = self.change_model(workspace, id, tags).await?;
        Ok(json!({ "model": shown(&run, id) }))
    }

    pub(crate) async fn tag_logged_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let id = asked.text("model_id")?;
        let new = texts(asked.list("tags")?)?;
        let run = self.change_texts(workspace, (id, TAGS), |tags| tags.extend(new.clone())).await?;
        Ok(json!({ "model": shown(&run, id) }))
    }

    pub(crate) async fn untag_logged_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (id, key) = (asked.text("model_id")?, asked.text("tag_key")?);
        self.change_texts(workspace, (id, TAGS), |tags| _ = tags.remove(key)).await?;
        Ok(json!({}))
    }

    pub(crate) async fn log_model_params(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let id = asked.text("model_id")?;
        let new = texts(asked.list("params")?)?;
        self.change_texts(workspace, (id, PARAMS), |params| params.extend(new.clone())).await?;
        Ok(json!({}))
    }

    /// Adds models to the outputs of a run.
    pub(crate) async fn log_outputs(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let mut tags = Vec::new();
        for model in asked.list("models")? {
            let id = needed(text(model.get("model_id"), "model_id")?, "model_id")?;
            self.logged_model(workspace, id).await?;
            let step = whole(&model["step"], "step")?.unwrap_or(0);
            tags.push((format!("{MODEL}{id}/step"), Some(step.to_string())));
        }
        let change: RunChange = tagging(tags);
        self.change(workspace, asked, &change).await?;
        Ok(json!({}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_model_says_its_run() {
        let (run, own) = ("2NBs0tD5Ihm2PVFzM3kZvMYdQX9", "2NBs0sLBnJxEcoDLgVnQdJkhEgV");
        assert_eq!(run_in(&format!("m-{run}-{own}")).unwrap().as_str(), run);
        for other in ["", "m-", "m-x", "risk", run] {
            assert_eq!(run_in(other), None, "{other}");
        }
    }

    #[test]
    fn long_texts_are_split_over_several_tags() {
        let params: Texts =
            (0..40).map(|n| (format!("p{n:02}{}", "x".repeat(240)), "x".repeat(500))).collect();
        let tags = parts("m", PARAMS, params.clone(), 0);
        assert!(tags.len() > 1);
        let mut all = Texts::new();
        for (at, (name, value)) in tags.iter().enumerate() {
            let value = value.as_deref().unwrap();
            assert_eq!(*name, format!("almanac.model/m/params/{at}"));
            assert!(value.len() <= MAX_RUN_VALUE_BYTES);
            all.extend(serde_json::from_str::<Texts>(value).unwrap());
        }
        assert_eq!(all, params);
        assert!(parts("m", PARAMS, Texts::new(), 0).is_empty());
        // Fewer parts than before remove the rest.
        let one: Texts = [("a".to_owned(), "1".to_owned())].into();
        let fewer = parts("m", TAGS, one, 2);
        assert_eq!(fewer[0].1.as_deref(), Some(r#"{"a":"1"}"#));
        assert_eq!(fewer[1], ("almanac.model/m/tags/1".to_owned(), None));
    }

    #[test]
    fn outputs_are_no_tags() {
        let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut tags: Texts =
            [tag("almanac.model/m", "{}"), tag("almanac.model/m/step", "3"), tag("team", "risk")].into();
        assert_eq!(take_outputs(&mut tags), [json!({ "model_id": "m", "step": 3 })]);
        assert_eq!(tags, Texts::from([tag("team", "risk")]));
    }
}
