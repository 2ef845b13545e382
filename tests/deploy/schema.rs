//! What the provider and IAM know: `schema/aws.json` and `schema/iam.json`.

use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::Value;

/// What an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Number,
    Bool,
    List,
    Map,
}

impl Kind {
    /// The kind of a type such as `list(string)`; `None` of one that takes anything.
    pub(crate) fn of(text: &str) -> Option<Self> {
        match text.split('(').next()?.trim() {
            "string" => Some(Kind::String),
            "number" => Some(Kind::Number),
            "bool" => Some(Kind::Bool),
            "list" | "set" | "tuple" => Some(Kind::List),
            "map" | "object" => Some(Kind::Map),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Bool => "true or false",
            Kind::List => "a list",
            Kind::Map => "a map",
        }
    }
}

/// An argument.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) kind: Option<Kind>,
    pub(crate) is_required: bool,
}

/// A resource type, a data type, or a block in one.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) arguments: BTreeMap<String, Argument>,
    pub(crate) blocks: BTreeMap<String, Type>,
    /// What can only be read.
    attributes: Vec<String>,
    /// Of a block: whether one is needed.
    pub(crate) is_required: bool,
    /// Of a block: whether there may be one only.
    pub(crate) is_single: bool,
}

impl Type {
    fn parse(value: &Value) -> Self {
        let entries = |name: &str| value[name].as_object().into_iter().flatten();
        let argument = |value: &Value| Argument {
            kind: value["type"].as_str().and_then(Kind::of),
            is_required: value["required"] == true,
        };
        Self {
            arguments: entries("arguments").map(|(name, value)| (name.clone(), argument(value))).collect(),
            blocks: entries("blocks").map(|(name, value)| (name.clone(), Self::parse(value))).collect(),
            attributes: value["attributes"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            is_required: value["required"] == true,
            is_single: value["single"] == true,
        }
    }

    /// What can only be read.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &String> {
        self.attributes.iter()
    }

    /// Whether other resources may refer to this.
    pub(crate) fn has_attribute(&self, name: &str) -> bool {
        self.arguments.contains_key(name)
            || self.blocks.contains_key(name)
            || self.attributes.iter().any(|one| one == name)
    }
}

/// What IAM knows of an action.
#[derive(Debug)]
pub(crate) struct Action {
    /// The types of resources that it can be bound to; none when it cannot.
    pub(crate) resources: Vec<String>,
    /// The condition keys, beside those that begin with `aws:`.
    pub(crate) conditions: Vec<String>,
}

/// Everything that is known.
#[derive(Debug)]
pub(crate) struct Schema {
    types: BTreeMap<(String, String), Type>,
    actions: BTreeMap<String, Action>,
}

/// The schema, read once.
pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let aws: Value = serde_json::from_str(include_str!("schema/aws.json")).unwrap();
        let iam: Value = serde_json::from_str(include_str!("schema/iam.json")).unwrap();
        let mut types = BTreeMap::new();
        for kind in ["resource", "data"] {
            for (name, value) in aws[kind].as_object().unwrap() {
                types.insert((kind.to_owned(), name.clone()), Type::parse(value));
            }
        }
        let texts = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        let action = |value: &Value| Action {
            resources: texts(&value["resources"]),
            conditions: texts(&value["conditions"]),
        };
        let actions = iam["actions"].as_object().unwrap().iter();
        Schema { types, actions: actions.map(|(name, value)| (name.clone(), action(value))).collect() }
    })
}

impl Schema {
    /// A type of `resource` or `data`.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<&Type> {
        self.types.get(&(kind.to_owned(), name.to_owned()))
    }

    /// An action of IAM, such as `dynamodb:GetItem`.
    pub(crate) fn action(&self, name: &str) -> Option<&Action> {
        self.actions.get(name)
    }
}
