//! Runs and experiments as items.

use std::collections::BTreeMap;

use event::{Id, Result, Timestamp};
use log::key;
use table::{Item, item::Value};

use super::{Experiment, Run, RunStatus, Texts};

/// Version of the items.
const ITEM_VERSION: i64 = 1;

fn texts(texts: &Texts) -> Value {
    Value::M(texts.iter().map(|(name, text)| (name.clone(), Value::S(text.clone()))).collect())
}

fn texts_of(item: &Item, name: &str) -> Result<Texts> {
    let Some(Value::M(map)) = item.attributes.get(name) else { return Ok(Texts::new()) };
    let text = |(key, value): (&String, &Value)| match value {
        Value::S(text) => Ok((key.clone(), text.clone())),
        _ => Err(item.corrupt(format_args!("`{key}` of `{name}` is no text"))),
    };
    map.iter().map(text).collect()
}

fn time(item: &Item, name: &str) -> Result<Timestamp> {
    Timestamp::from_micros(item.int(name)?).ok_or_else(|| item.corrupt(format_args!("`{name}` is no time")))
}

fn time_if(item: &Item, name: &str) -> Result<Option<Timestamp>> {
    item.attributes.contains_key(name).then(|| time(item, name)).transpose()
}

impl Run {
    pub(super) fn to_item(&self) -> Item {
        let experiment = self.experiment_id();
        let (pk, sk) = key::run_index(&self.workspace, &experiment, &self.id);
        let item = Item::new(key::run(&self.workspace, &self.id))
            .with("v", ITEM_VERSION)
            .with("ver", self.version)
            .with("experiment", self.experiment.as_str())
            .with("name", self.name.as_str())
            .with("status", self.status.name())
            .with("started_at", self.started_at.micros())
            .with("created_at", self.created_at.micros())
            .with("GSI1PK", pk)
            .with("GSI1SK", sk);
        let times = [("ended_at", self.ended_at), ("archived_at", self.archived_at)];
        let item = times.into_iter().fold(item, |item, (name, at)| match at {
            Some(at) => item.with(name, at.micros()),
            None => item,
        });
        let names =
            [("parent", self.parent.as_ref().map(Id::as_str)), ("snapshot", self.snapshot.as_deref())];
        let item = names.into_iter().fold(item, |item, (name, text)| match text {
            Some(text) => item.with(name, text),
            None => item,
        });
        [("params", &self.params), ("tags", &self.tags)]
            .into_iter()
            .fold(item, |item, (name, map)| if map.is_empty() { item } else { item.with(name, texts(map)) })
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let (workspace, id) =
            key::parse_run(&item.key).ok_or_else(|| item.corrupt("its key is not one of a run"))?;
        Ok(Self {
            id,
            workspace,
            experiment: item.text("experiment")?.to_owned(),
            name: item.text("name")?.to_owned(),
            status: RunStatus::parse(item.text("status")?).map_err(|error| item.corrupt(error))?,
            started_at: time(item, "started_at")?,
            ended_at: time_if(item, "ended_at")?,
            parent: item.optional_text("parent").map(Id::parse).transpose()?,
            snapshot: item.optional_text("snapshot").map(str::to_owned),
            params: texts_of(item, "params")?,
            tags: texts_of(item, "tags")?,
            created_at: time(item, "created_at")?,
            archived_at: time_if(item, "archived_at")?,
            version: item.int("ver")?,
        })
    }
}

impl Experiment {
    pub(super) fn to_item(&self) -> Item {
        let item = Item::new(key::experiment(&self.workspace, &self.id()))
            .with("v", ITEM_VERSION)
            .with("ver", self.version)
            .with("name", self.name.as_str())
            .with("created_at", self.created_at.micros())
            .with("updated_at", self.updated_at.micros());
        let item = match self.archived_at {
            Some(at) => item.with("archived_at", at.micros()),
            None => item,
        };
        if self.tags.is_empty() { item } else { item.with("tags", texts(&self.tags)) }
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let (workspace, _) = key::parse_experiment(&item.key)
            .ok_or_else(|| item.corrupt("its key is not one of an experiment"))?;
        Ok(Self {
            workspace,
            name: item.text("name")?.to_owned(),
            tags: texts_of(item, "tags")?,
            created_at: time(item, "created_at")?,
            updated_at: time(item, "updated_at")?,
            archived_at: time_if(item, "archived_at")?,
            version: item.int("ver")?,
        })
    }
}

/// Decodes a map of an item, or an empty one.
pub(super) fn map_of(item: &Item, name: &str) -> Result<BTreeMap<String, Value>> {
    match item.attributes.contains_key(name) {
        true => item.map(name).cloned(),
        false => Ok(BTreeMap::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    /// Version 1 stays readable for good.
    #[test]
    fn the_items_of_version_1_are_read() {
        let (w, r) = (id("2NBs0sLBnJxEcoDLgVnQdJkhEgV"), id("2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        let stored = Item::new(key::run(&w, &r))
            .with("v", 1i64)
            .with("ver", 3i64)
            .with("experiment", "churn")
            .with("name", "first")
            .with("status", "finished")
            .with("started_at", 1_000_000i64)
            .with("ended_at", 2_000_000i64)
            .with("created_at", 1_000_000i64)
            .with("parent", "2NBs0sLBnJxEcoDLgVnQdJkhEgV")
            .with("snapshot", "june")
            .with("params", Value::M([("depth".to_owned(), Value::S("6".into()))].into()))
            .with("tags", Value::M([("team".to_owned(), Value::S("risk".into()))].into()))
            .with("GSI1PK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/exp#c83eaa42573b3c784fe0a5d3/r")
            .with("GSI1SK", "run#2NBs0tD5Ihm2PVFzM3kZvMYdQX9");
        let run = Run::from_item(&stored).unwrap();
        assert_eq!((run.status, run.version, run.params["depth"].as_str()), (RunStatus::Finished, 3, "6"));
        let mut again = run.to_item();
        // A name's hash is its SHA-256, so it is checked apart.
        let pk = format!("w#{w}/exp#{}/r", run.experiment_id());
        assert_eq!(
            again.attributes.insert("GSI1PK".into(), stored.attributes["GSI1PK"].clone()),
            Some(pk.as_str().into())
        );
        assert_eq!(again, stored);
        let newer = stored.with("v", 2i64);
        assert!(Run::from_item(&newer).is_err(), "what a newer version wrote is refused");

        let stored = Item::new(key::experiment(&w, "0"))
            .with("v", 1i64)
            .with("ver", 1i64)
            .with("name", "Default")
            .with("created_at", 1_000_000i64)
            .with("updated_at", 1_000_000i64)
            .with("archived_at", 2_000_000i64);
        let experiment = Experiment::from_item(&stored).unwrap();
        assert_eq!((experiment.name.as_str(), experiment.to_item()), ("Default", stored));
    }
}
