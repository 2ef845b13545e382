//! Runs and experiments as items.

use event::Result;
use log::key;
use table::Item;

use super::{Experiment, Run};

/// Version of the items.
const ITEM_VERSION: i64 = 1;

impl Run {
    pub(super) fn to_item(&self) -> Item {
        let index = key::run_index(&self.workspace, &self.experiment_id(), &self.id);
        Item::record(key::run(&self.workspace, &self.id), ITEM_VERSION, self).indexed(index)
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        let parsed = key::parse_run(&item.key);
        let (workspace, id) = parsed.ok_or_else(|| item.corrupt("its key is not one of a run"))?;
        item.to_record_with(ITEM_VERSION, [("workspace", workspace.as_str()), ("id", id.as_str())])
    }
}

impl Experiment {
    pub(super) fn to_item(&self) -> Item {
        Item::record(key::experiment(&self.workspace, &self.id()), ITEM_VERSION, self)
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        let parsed = key::parse_experiment(&item.key);
        let (workspace, _) = parsed.ok_or_else(|| item.corrupt("its key is not one of an experiment"))?;
        item.to_record_with(ITEM_VERSION, [("workspace", workspace.as_str())])
    }
}

#[cfg(test)]
mod tests {
    use event::Id;
    use table::item::Value;

    use super::*;
    use crate::run::RunStatus;

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
            .with("started_at", "1970-01-01T00:00:01Z")
            .with("ended_at", "1970-01-01T00:00:02Z")
            .with("created_at", "1970-01-01T00:00:01Z")
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
            .with("created_at", "1970-01-01T00:00:01Z")
            .with("updated_at", "1970-01-01T00:00:01Z")
            .with("archived_at", "1970-01-01T00:00:02Z");
        let experiment = Experiment::from_item(&stored).unwrap();
        assert_eq!((experiment.name.as_str(), experiment.to_item()), ("Default", stored));
    }
}
