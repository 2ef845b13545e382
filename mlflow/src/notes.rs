//! MLflow's notes of registered models and versions, for which Almanac has no fields: descriptions and tags. They are the
//! attribute `mlflow` of the model or the release.

use std::collections::BTreeMap;

use catalog::{Entity, Patch, attributes};
use event::ErrorKind;
use log::key::EntityId;
use serde_json::{Map, Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::Asked,
    door::Door,
    experiments::{is_own, own_name, pairs, texts},
};

/// The tag by which MLflow distinguishes prompts from models.
const PROMPT: &str = "mlflow.prompt.is_prompt";

/// The attribute with MLflow's notes of a model or a version.
pub(crate) const NOTES: &str = "mlflow";

/// Name of the note of a model with the last number given to a version.
pub(crate) const GIVEN: &str = "last_version";

/// Maximum number of attempts of a change that other requests overtake: enough for some dozens at the same time.
pub(crate) const TRIES: usize = 50;

/// Returns MLflow's notes.
pub(crate) fn notes(attributes: &attributes::Attributes) -> Value {
    attributes::to_json(attributes)[NOTES].clone()
}

/// Returns the noted tags, as a list.
pub(crate) fn tags(notes: &Value) -> Vec<Value> {
    let text = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
    let texts: BTreeMap<String, String> = notes["tags"].as_object().into_iter().flatten().map(text).collect();
    pairs(&texts)
}

/// Returns a noted tag. The tag of prompts, which MLflow's clients look for, is `false` by default.
pub(crate) fn tag(attributes: &attributes::Attributes, name: &str) -> Option<String> {
    let noted = notes(attributes)["tags"][name].as_str().map(str::to_owned);
    noted.or_else(|| (name == PROMPT).then(|| "false".to_owned()))
}

/// Returns the attributes with the description and the tags of a request, in which only the tags `may_be` of Almanac's own are
/// allowed.
pub(crate) fn noted(asked: &Asked, may_be: &[&str]) -> Answer<Map<String, Value>> {
    let mut notes = Map::new();
    let tags = texts(asked.list("tags")?)?;
    if let Some(name) = tags.keys().find(|name| is_own(name) && !may_be.contains(&name.as_str())) {
        return Err(own_name(name));
    }
    if !tags.is_empty() {
        notes.insert("tags".to_owned(), json!(tags));
    }
    if let Some(description) = asked.text_if("description")? {
        notes.insert("description".to_owned(), description.into());
    }
    Ok([(NOTES.to_owned(), Value::Object(notes))].into_iter().collect())
}

/// A change of the notes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note<'a> {
    /// A description.
    Description(&'a str),
    /// A tag, with its value; `None` removes it.
    Tag(&'a str, Option<&'a str>),
    /// The last version number given.
    Given(u64),
}

impl<'a> Note<'a> {
    /// Reads the description of a request.
    pub(crate) fn description(asked: &'a Asked) -> Answer<Self> {
        Ok(Self::Description(asked.text_if("description")?.unwrap_or_default()))
    }

    /// Reads the tag that a request sets or removes.
    pub(crate) fn tag(asked: &'a Asked, is_set: bool) -> Answer<Self> {
        let (key, value) = (asked.text("key")?, asked.text_if("value")?.unwrap_or_default());
        if is_own(key) { Err(own_name(key)) } else { Ok(Self::Tag(key, is_set.then_some(value))) }
    }

    /// Returns the notes after the change.
    fn apply(self, notes: &Value) -> Value {
        let mut notes = notes.as_object().cloned().unwrap_or_default();
        match self {
            Self::Description(text) => _ = notes.insert("description".to_owned(), text.into()),
            Self::Given(number) => _ = notes.insert(GIVEN.to_owned(), number.into()),
            Self::Tag(key, value) => {
                let mut tags = notes.get("tags").and_then(Value::as_object).cloned().unwrap_or_default();
                match value {
                    Some(value) => _ = tags.insert(key.to_owned(), value.into()),
                    None => _ = tags.remove(key),
                }
                notes.insert("tags".to_owned(), tags.into());
            }
        }
        notes.into()
    }
}

impl Door {
    /// Changes the notes of a model or a release.
    pub(crate) async fn note(&self, at: &EntityId, note: Note<'_>) -> Answer<()> {
        for _ in 0..TRIES {
            let known = self.ingest.catalog().get(at).await?;
            if self.note_as_read(at, known.entity(), note).await? {
                return Ok(());
            }
        }
        Err(Failure::overtaken(at.kind().name()))
    }

    /// Changes the notes unless something has changed since `read`; returns true if it did.
    pub(crate) async fn note_as_read(&self, at: &EntityId, read: &Entity, note: Note<'_>) -> Answer<bool> {
        let changed = json!({ NOTES: note.apply(&notes(&read.attributes)) });
        let changed = attributes::from_json(changed.as_object().unwrap_or(&Map::new()))?;
        let attributes = changed.into_iter().map(|(name, value)| (name, Some(value))).collect();
        let patch = Patch { attributes, ..Patch::default() };
        let (version, now) = (Some(read.version), self.ingest.clock().now());
        match self.ingest.catalog().change(at, &patch, version, now).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Stale => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_changes_nothing_else() {
        let noted = json!({ "run_link": "here", "tags": { "a": "1" }, "description": "old" });
        let tagged = Note::Tag("b", Some("")).apply(&noted);
        assert_eq!(tagged["tags"], json!({ "a": "1", "b": "" }));
        assert_eq!((&tagged["run_link"], &tagged["description"]), (&json!("here"), &json!("old")));
        assert_eq!(Note::Tag("a", None).apply(&noted)["tags"], json!({}));
        let none = Note::Tag("a", None).apply(&Value::Null);
        assert_eq!(none, json!({ "tags": {} }), "of what has no notes nothing is taken away");
        assert_eq!(Note::Description("new").apply(&noted)["description"], "new");
        let given = Note::Given(3).apply(&noted);
        assert_eq!((&given[GIVEN], &given["tags"]), (&json!(3), &noted["tags"]));
    }
}
