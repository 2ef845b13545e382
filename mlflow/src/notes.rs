//! What MLflow notes of registered models and versions, and Almanac has no field for: descriptions and tags. They are the
//! attribute `mlflow` of the model or the release.

use std::collections::BTreeMap;

use catalog::{Patch, attributes};
use event::ErrorKind;
use log::key::EntityId;
use serde_json::{Map, Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::Asked,
    door::Door,
    experiments::{pairs, texts},
};

/// The tag by which MLflow tells prompts from models.
const PROMPT: &str = "mlflow.prompt.is_prompt";

/// What MLflow notes of a model or a version stands under this attribute.
pub(crate) const NOTES: &str = "mlflow";

/// How often notes are changed again that another request changed in between.
const TRIES: usize = 10;

/// What MLflow notes of something.
pub(crate) fn notes(attributes: &attributes::Attributes) -> Value {
    attributes::to_json(attributes)[NOTES].clone()
}

/// Tags that were noted, as a list.
pub(crate) fn tags(notes: &Value) -> Vec<Value> {
    let text = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
    let texts: BTreeMap<String, String> = notes["tags"].as_object().into_iter().flatten().map(text).collect();
    pairs(&texts)
}

/// A tag that was noted. What says of nothing that it is a prompt, which MLflow's clients ask for, is none.
pub(crate) fn tag(attributes: &attributes::Attributes, name: &str) -> Option<String> {
    let noted = notes(attributes)["tags"][name].as_str().map(str::to_owned);
    noted.or_else(|| (name == PROMPT).then(|| "false".to_owned()))
}

/// The attributes of something that MLflow notes something of.
pub(crate) fn noted(asked: &Asked) -> Answer<Map<String, Value>> {
    let mut notes = Map::new();
    let tags = texts(asked.list("tags"))?;
    if !tags.is_empty() {
        notes.insert("tags".to_owned(), json!(tags));
    }
    if let Some(description) = asked.text_if("description") {
        notes.insert("description".to_owned(), description.into());
    }
    Ok([(NOTES.to_owned(), Value::Object(notes))].into_iter().collect())
}

/// A change of what is noted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note<'a> {
    /// Another description.
    Description(&'a str),
    /// A tag, with its value; without one it is taken away.
    Tag(&'a str, Option<&'a str>),
}

impl<'a> Note<'a> {
    /// The description that a request gives.
    pub(crate) fn description(asked: &'a Asked) -> Self {
        Self::Description(asked.text_if("description").unwrap_or_default())
    }

    /// The tag that a request sets, or takes away.
    pub(crate) fn tag(asked: &'a Asked, is_set: bool) -> Answer<Self> {
        Ok(Self::Tag(asked.text("key")?, is_set.then(|| asked.text_if("value").unwrap_or_default())))
    }

    /// The notes as they will be.
    fn apply(self, notes: &Value) -> Value {
        let mut notes = notes.as_object().cloned().unwrap_or_default();
        match self {
            Self::Description(text) => _ = notes.insert("description".to_owned(), text.into()),
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
    /// Changes what is noted of a model or a release.
    pub(crate) async fn note(&self, at: &EntityId, note: Note<'_>) -> Answer<()> {
        let catalog = self.ingest.catalog();
        for _ in 0..TRIES {
            let known = catalog.get(at).await?;
            let entity = known.entity();
            let changed = json!({ NOTES: note.apply(&notes(&entity.attributes)) });
            let changed = attributes::from_json(changed.as_object().unwrap_or(&Map::new()))?;
            let attributes = changed.into_iter().map(|(name, value)| (name, Some(value))).collect();
            let patch = Patch { attributes, ..Patch::default() };
            let (version, now) = (Some(entity.version), self.ingest.clock().now());
            match catalog.change(at, &patch, version, now).await {
                // Another request changed it in between.
                Err(error) if error.kind() == ErrorKind::Stale => {}
                done => return Ok(done.map(drop)?),
            }
        }
        Err(Failure::busy(at.kind().name()))
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
    }
}
