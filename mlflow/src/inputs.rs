//! The datasets of a run: each is a tag of the run, so that Almanac's own lists show it too.

use catalog::{MAX_RUN_VALUE_BYTES, Texts, Workspace};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::Asked,
    door::Door,
    experiments::{pairs, texts},
    runs::tagging,
};

/// What the names of the tags that hold datasets begin with.
const DATASET: &str = "almanac.dataset/";

/// What a dataset is known by.
const KNOWN_BY: [&str; 2] = ["name", "digest"];

/// What else MLflow says of a dataset. The last are left out first, where a tag has no room for all.
const SAID: [&str; 4] = ["source_type", "source", "schema", "profile"];

/// The tag of a dataset that says in which context a run used it.
const CONTEXT: &str = "mlflow.data.context";

/// The tag of a dataset: its name and digest in the tag's name, all that is said of it in the value.
fn tag_of(input: &Value) -> Answer<(String, String)> {
    let dataset = &input["dataset"];
    let mut said = json!({});
    for field in KNOWN_BY {
        let text = dataset[field].as_str().filter(|text| !text.is_empty());
        said[field] = text
            .ok_or_else(|| Failure::invalid(format!("Missing value for required parameter '{field}'.")))?
            .into();
    }
    let tags = texts(input["tags"].as_array().map_or(&[], Vec::as_slice))?;
    if !tags.is_empty() {
        said["tags"] = json!(tags);
    }
    for field in SAID {
        let Some(text) = dataset[field].as_str() else { continue };
        let mut more = said.clone();
        more[field] = text.into();
        if more.to_string().len() > MAX_RUN_VALUE_BYTES {
            break;
        }
        said = more;
    }
    let [name, digest] = KNOWN_BY.map(|field| said[field].as_str().unwrap_or_default());
    Ok((format!("{DATASET}{name}@{digest}"), said.to_string()))
}

/// The dataset of a tag, as MLflow has it.
fn dataset_of(value: &str) -> Option<Value> {
    let Value::Object(mut dataset) = serde_json::from_str(value).ok()? else { return None };
    let tags = dataset.remove("tags").and_then(|tags| serde_json::from_value::<Texts>(tags).ok());
    Some(json!({ "tags": pairs(&tags.unwrap_or_default()), "dataset": dataset }))
}

/// The tags of a run without those that hold datasets, and the datasets.
pub(crate) fn without_datasets(tags: &Texts) -> (Texts, Vec<Value>) {
    let mut datasets = Vec::new();
    let mut others = tags.clone();
    others.retain(|name, value| {
        let dataset = name.starts_with(DATASET).then(|| dataset_of(value)).flatten();
        let is_other = dataset.is_none();
        datasets.extend(dataset);
        is_other
    });
    (others, datasets)
}

/// What is said of the datasets of a run that has these tags: of each its name or digest, or the context in which it was used.
pub(crate) fn said_of_datasets(tags: &Texts, what: &str) -> Vec<String> {
    let datasets = tags.iter().filter(|(name, _)| name.starts_with(DATASET));
    let said = datasets.filter_map(|(_, value)| {
        let said = serde_json::from_str::<Value>(value).ok()?;
        let text = if what == "context" { &said["tags"][CONTEXT] } else { &said[what] };
        text.as_str().map(str::to_owned)
    });
    said.collect()
}

impl Door {
    pub(crate) async fn log_inputs(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        if !asked.list("models").is_empty() {
            return Err(Failure::invalid(
                "A run of Almanac has datasets as inputs alone: note a logged model by a tag of the run",
            ));
        }
        let tags: Vec<_> = asked.list("datasets").iter().map(tag_of).collect::<Answer<_>>()?;
        let tags = tags.into_iter().map(|(name, value)| (name, Some(value)));
        self.change(workspace, asked, &tagging(tags)).await?;
        Ok(json!({}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(schema: &str) -> Value {
        json!({
            "tags": [{ "key": "mlflow.data.context", "value": "training" }],
            "dataset": {
                "name": "loans", "digest": "ab12", "source_type": "local", "source": "{}", "schema": schema,
                "profile": "{\"rows\":3}",
            },
        })
    }

    #[test]
    fn a_dataset_comes_back_as_it_was_said() {
        let (name, value) = tag_of(&input("[]")).unwrap();
        assert_eq!(name, "almanac.dataset/loans@ab12");
        let tags = [(name, value), ("almanac.dataset/by hand".into(), "june".into())].into();
        let (others, datasets) = without_datasets(&tags);
        assert_eq!(datasets, [input("[]")]);
        assert_eq!(others.keys().map(String::as_str).collect::<Vec<_>>(), ["almanac.dataset/by hand"]);
    }

    #[test]
    fn runs_are_found_by_what_is_said_of_their_datasets() {
        let tags = [tag_of(&input("[]")).unwrap(), ("almanac.dataset/by hand".into(), "june".into())].into();
        assert_eq!(said_of_datasets(&tags, "name"), ["loans"]);
        assert_eq!(said_of_datasets(&tags, "digest"), ["ab12"]);
        assert_eq!(said_of_datasets(&tags, "context"), ["training"]);
        assert!(said_of_datasets(&Texts::new(), "name").is_empty());
    }

    #[test]
    fn what_a_tag_has_no_room_for_is_left_out() {
        let (_, value) = tag_of(&input(&"x".repeat(MAX_RUN_VALUE_BYTES))).unwrap();
        assert!(value.len() <= MAX_RUN_VALUE_BYTES);
        let kept = dataset_of(&value).unwrap();
        assert_eq!((&kept["dataset"]["source"], &kept["dataset"]["schema"]), (&json!("{}"), &Value::Null));
    }

    #[test]
    fn a_dataset_has_a_name_and_a_digest() {
        let mut nameless = input("[]");
        nameless["dataset"]["name"] = "".into();
        assert!(tag_of(&nameless).unwrap_err().message.contains("'name'"));
    }
}
