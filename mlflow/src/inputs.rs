//! The datasets of a run: each is stored in a tag of the run, so that Almanac's own lists show it too.

use catalog::{MAX_RUN_BYTES, MAX_RUN_VALUE_BYTES, Texts, Workspace};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::{Asked, needed, objects, text},
    door::Door,
    experiments::{pairs, texts},
    runs::tagging,
};

/// Prefix of the names of tags that hold datasets.
const DATASET: &str = "almanac.dataset/";

/// Prefix of the names of tags that hold pieces of a field of a dataset.
const PIECE: &str = "almanac.dataset.";

/// The fields that identify a dataset.
const KNOWN_BY: [&str; 2] = ["name", "digest"];

/// The other fields of a dataset in MLflow.
const SAID: [&str; 4] = ["source_type", "source", "schema", "profile"];

/// Maximum number of tags for a field that does not fit into the tag of its dataset.
const MAX_PIECES: usize = MAX_RUN_BYTES / MAX_RUN_VALUE_BYTES + 1;

/// The tag of a dataset with the context in which a run used it.
const CONTEXT: &str = "mlflow.data.context";

/// Returns the name of the tag with a piece of a field of a dataset, such as of its schema.
fn piece_name(field: &str, piece: usize, dataset: &str) -> String {
    format!("{PIECE}{field}.{piece:02}/{dataset}")
}

/// Returns the tags of a dataset: its name and digest are in the tag's name, all its fields in the value. Fields without room
/// there have tags of their own, in pieces.
fn tags_of(input: &Value) -> Answer<Vec<(String, Option<String>)>> {
    let dataset = input.get("dataset").filter(|dataset| dataset.is_object());
    let dataset = needed(dataset, "dataset")?;
    let mut said = json!({});
    for field in KNOWN_BY {
        said[field] = needed(text(dataset.get(field), field)?, field)?.into();
    }
    let tags = texts(objects(input.get("tags"), "tags")?)?;
    if !tags.is_empty() {
        said["tags"] = json!(tags);
    }
    let [name, digest] = KNOWN_BY.map(|field| dataset[field].as_str().unwrap_or_default());
    let known_by = format!("{name}@{digest}");
    let mut all = Vec::new();
    for field in SAID {
        let mut rest = text(dataset.get(field), field)?.unwrap_or_default();
        let mut more = said.clone();
        if !rest.is_empty() {
            more[field] = rest.into();
        }
        if more.to_string().len() <= MAX_RUN_VALUE_BYTES {
            (said, rest) = (more, "");
        }
        // Pieces of an earlier, longer value are removed.
        for piece in 0..MAX_PIECES {
            let (some, after) = rest.split_at(rest.floor_char_boundary(MAX_RUN_VALUE_BYTES));
            all.push((
                piece_name(field, piece, &known_by),
                Some(some.to_owned()).filter(|some| !some.is_empty()),
            ));
            rest = after;
        }
        if !rest.is_empty() {
            return Err(Failure::invalid(format!(
                "The {field} of the dataset '{name}' is too long: a run keeps {MAX_RUN_BYTES} bytes in all."
            )));
        }
    }
    all.push((format!("{DATASET}{known_by}"), Some(said.to_string())));
    Ok(all)
}

/// Returns the dataset of a tag in MLflow's form, with the fields in pieces among these tags.
fn dataset_of(known_by: &str, value: &str, tags: &Texts) -> Option<Value> {
    let Value::Object(mut dataset) = serde_json::from_str(value).ok()? else { return None };
    for field in SAID {
        let pieces = (0..MAX_PIECES).map_while(|piece| tags.get(&piece_name(field, piece, known_by)));
        let whole: String = pieces.map(String::as_str).collect();
        if !whole.is_empty() {
            dataset.insert(field.to_owned(), whole.into());
        }
    }
    let tags = dataset.remove("tags").and_then(|tags| serde_json::from_value::<Texts>(tags).ok());
    Some(json!({ "tags": pairs(&tags.unwrap_or_default()), "dataset": dataset }))
}

/// Splits the tags of a run into those without datasets, and the datasets.
pub(crate) fn without_datasets(tags: &Texts) -> (Texts, Vec<Value>) {
    let (mut datasets, mut others) = (Vec::new(), Texts::new());
    for (name, value) in tags {
        let known_by = name.strip_prefix(DATASET);
        match known_by.and_then(|known_by| dataset_of(known_by, value, tags)) {
            Some(dataset) => datasets.push(dataset),
            None if name.starts_with(PIECE) => {}
            None => _ = others.insert(name.clone(), value.clone()),
        }
    }
    (others, datasets)
}

/// Returns a field of each dataset of a run with these tags: its name or digest, or the context in which it was used.
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
        if !asked.list("models")?.is_empty() {
            return Err(Failure::invalid(
                "A run of Almanac has datasets as inputs alone: note a logged model by a tag of the run",
            ));
        }
        let tags: Vec<_> = asked.list("datasets")?.iter().map(tags_of).collect::<Answer<_>>()?;
        self.change(workspace, asked, &tagging(tags.into_iter().flatten())).await?;
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

    /// Returns the tags of a run with a dataset, and a similar tag made by hand.
    fn tags(input: &Value) -> Texts {
        let of_dataset = tags_of(input).unwrap().into_iter().filter_map(|(name, value)| Some((name, value?)));
        of_dataset.chain([("almanac.dataset/by hand".into(), "june".into())]).collect()
    }

    #[test]
    fn a_dataset_survives_the_round_trip() {
        let long = "é".repeat(MAX_RUN_VALUE_BYTES * 3);
        for schema in ["[]", "", &long] {
            let tags = tags(&input(schema));
            assert!(tags.contains_key("almanac.dataset/loans@ab12"));
            assert!(tags.values().all(|value| value.len() <= MAX_RUN_VALUE_BYTES));
            let (others, datasets) = without_datasets(&tags);
            let mut expected = input(schema);
            if schema.is_empty() {
                expected["dataset"].as_object_mut().unwrap().remove("schema");
            }
            assert_eq!(datasets, [expected]);
            assert_eq!(others.keys().map(String::as_str).collect::<Vec<_>>(), ["almanac.dataset/by hand"]);
        }
    }

    #[test]
    fn runs_are_searchable_by_their_datasets() {
        let tags = tags(&input("[]"));
        assert_eq!(said_of_datasets(&tags, "name"), ["loans"]);
        assert_eq!(said_of_datasets(&tags, "digest"), ["ab12"]);
        assert_eq!(said_of_datasets(&tags, "context"), ["training"]);
        assert!(said_of_datasets(&Texts::new(), "name").is_empty());
    }

    #[test]
    fn oversized_dataset_is_refused() {
        let refused = tags_of(&input(&"x".repeat(2 * MAX_RUN_BYTES))).unwrap_err();
        assert!(
            refused.message.contains("The schema of the dataset 'loans' is too long"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn a_dataset_of_wrong_types_is_refused() {
        for (field, value) in
            [("name", json!("")), ("source", json!(5)), ("schema", json!({})), ("digest", json!(null))]
        {
            let mut wrong = input("[]");
            wrong["dataset"][field] = value;
            let refused = tags_of(&wrong).unwrap_err();
            assert!(refused.message.contains(&format!("'{field}'")), "{}", refused.message);
        }
        for wrong in [json!({}), json!({ "dataset": "loans" })] {
            assert!(tags_of(&wrong).unwrap_err().message.contains("'dataset'"));
        }
    }
}
