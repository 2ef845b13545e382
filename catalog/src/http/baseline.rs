//! Named baselines of releases as JSON. The append service changes them, beside approvals.

use serde_json::{Value, json};
use web::{
    openapi::{RefOr, Schema},
    schema,
};

use crate::{Baselines, MAX_BASELINES};

/// Schema of the baselines of a release, by name.
pub fn baselines_schema() -> RefOr<Schema> {
    schema::map(Some(schema::name()), schema::days()).max_properties(Some(MAX_BASELINES)).into()
}

/// The baselines of a release, in an answer.
pub fn baselines_json(release: &str, baselines: &Baselines) -> Value {
    json!({ "release": release, "baselines": of(baselines) })
}

/// The days of each baseline, by name.
pub(crate) fn of(baselines: &Baselines) -> Value {
    baselines.iter().map(|(name, days)| (name.clone(), json!(days.to_string()))).collect()
}
