//! The entities of the catalog and the items that store them.

use std::fmt;

use crate::{Error, Id, Item, Result, Timestamp, id::MAX_NAME_BYTES, key, key::Key};

/// Version of the items of entities.
const ITEM_VERSION: i64 = 1;

/// What the predictions of a model say, and so how they are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// One of two labels; `score` is the probability of the positive one.
    Binary {
        /// The label that the score is the probability of.
        positive_label: String,
    },
    /// One of several labels.
    Multiclass,
    /// A number.
    Regression,
}

impl Task {
    /// All tasks, by name; the one with a positive label comes first.
    pub const NAMES: [&str; 3] = ["binary", "multiclass", "regression"];

    /// Reads a task from its name and, for `binary`, its positive label (`1` when none is given).
    ///
    /// # Errors
    /// `Invalid`, for a name that is not one of the three, or a positive label where none belongs.
    pub fn parse(name: &str, positive_label: Option<&str>) -> Result<Self> {
        match (name, positive_label) {
            ("binary", Some(label)) if label.is_empty() || label.len() > MAX_NAME_BYTES => {
                Err(Error::invalid(format!("a positive label has 1 to {MAX_NAME_BYTES} bytes")))
            }
            ("binary", label) => Ok(Task::Binary { positive_label: label.unwrap_or("1").to_owned() }),
            ("multiclass", None) => Ok(Task::Multiclass),
            ("regression", None) => Ok(Task::Regression),
            ("multiclass" | "regression", Some(_)) => {
                Err(Error::invalid(format!("a positive label belongs to a binary task, not to `{name}`")))
            }
            _ => Err(Error::invalid(format!("the task `{name}` is none of {}", Self::NAMES.join(", ")))),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Task::Binary { .. } => "binary",
            Task::Multiclass => "multiclass",
            Task::Regression => "regression",
        }
    }

    /// The positive label of a binary task.
    pub fn positive_label(&self) -> Option<&str> {
        match self {
            Task::Binary { positive_label } => Some(positive_label),
            _ => None,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.positive_label() {
            Some(label) => write!(f, "{}, positive `{label}`", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

/// What every entity has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Its id.
    pub id: Id,
    /// Its name, unique among its siblings of the same type.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Entity {
    /// Oldest first; those of one instant by their names.
    pub fn by_age(&self, other: &Self) -> std::cmp::Ordering {
        (self.created_at, &self.name).cmp(&(other.created_at, &other.name))
    }
}

/// A group of workspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// Id, name, age.
    pub entity: Entity,
    /// How many workspaces it has.
    pub count_of_workspaces: i64,
}

/// A place for models, configurations, releases and their events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Id, name, age.
    pub entity: Entity,
    /// The category it lives in.
    pub category: Id,
    /// `category/name`.
    pub path: String,
}

/// Something that predicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Id, name, age.
    pub entity: Entity,
    /// What its predictions say.
    pub task: Task,
}

/// How a model is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Id, name, age.
    pub entity: Entity,
}

/// One version of a model with its configuration, put to an environment. Immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Id, name, age.
    pub entity: Entity,
    /// The model, by name.
    pub model: String,
    /// The configuration, by name.
    pub configuration: Option<String>,
    /// The environment that it was made for.
    pub environment: Option<String>,
}

impl Entity {
    fn to_item(&self, key: Key) -> Item {
        Item::new(key)
            .with("v", ITEM_VERSION)
            .with("ver", 1)
            .with("id", self.id.as_str())
            .with("name", self.name.as_str())
            .with("created_at", self.created_at.micros())
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Ok(Self {
            id: Id::parse(item.text("id")?)?,
            name: item.text("name")?.to_owned(),
            created_at: Timestamp::from_micros(item.int("created_at")?)
                .ok_or_else(|| item.corrupt("`created_at` is no time"))?,
        })
    }
}

fn indexed(item: Item, (pk, sk): (String, String)) -> Item {
    item.with("GSI1PK", pk).with("GSI1SK", sk)
}

impl Category {
    pub(super) fn to_item(&self) -> Item {
        let id = &self.entity.id;
        let item =
            self.entity.to_item(key::category(id)).with("count_of_workspaces", self.count_of_workspaces);
        indexed(item, key::category_index(id))
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        Ok(Self { entity: Entity::from_item(item)?, count_of_workspaces: item.int("count_of_workspaces")? })
    }
}

impl Workspace {
    /// Its id.
    pub fn id(&self) -> &Id {
        &self.entity.id
    }

    pub(super) fn to_item(&self) -> Item {
        let id = &self.entity.id;
        let item = self
            .entity
            .to_item(key::workspace(id))
            .with("category", self.category.as_str())
            .with("path", self.path.as_str())
            .with("count_of_models", 0)
            .with("count_of_configurations", 0)
            .with("count_of_releases", 0);
        indexed(item, key::workspace_index(&self.category, id))
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        Ok(Self {
            entity: Entity::from_item(item)?,
            category: Id::parse(item.text("category")?)?,
            path: item.text("path")?.to_owned(),
        })
    }
}

impl Model {
    pub(super) fn to_item(&self, workspace: &Id) -> Item {
        let item = self.entity.to_item(key::model(workspace, &self.entity.id)).with("task", self.task.name());
        match self.task.positive_label() {
            Some(label) => item.with("positive_label", label),
            None => item,
        }
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        let task = Task::parse(item.text("task")?, item.optional_text("positive_label"))?;
        Ok(Self { entity: Entity::from_item(item)?, task })
    }
}

impl Configuration {
    pub(super) fn to_item(&self, workspace: &Id) -> Item {
        self.entity.to_item(key::configuration(workspace, &self.entity.id))
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        Ok(Self { entity: Entity::from_item(item)? })
    }
}

impl Release {
    pub(super) fn to_item(&self, workspace: &Id, model: &Id) -> Item {
        let id = &self.entity.id;
        let mut item = self.entity.to_item(key::release(workspace, id)).with("model", self.model.as_str());
        if let Some(configuration) = &self.configuration {
            item = item.with("configuration", configuration.as_str());
        }
        if let Some(environment) = &self.environment {
            item = item.with("environment", environment.as_str());
        }
        indexed(item, key::release_index(model, id))
    }

    pub(super) fn from_item(item: &Item) -> Result<Self> {
        Ok(Self {
            entity: Entity::from_item(item)?,
            model: item.text("model")?.to_owned(),
            configuration: item.optional_text("configuration").map(str::to_owned),
            environment: item.optional_text("environment").map(str::to_owned),
        })
    }
}
