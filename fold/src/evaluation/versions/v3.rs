//! Version 3 looked neither at the scores of classes nor at predicted intervals.

use serde_json::{Value, json};

/// The evaluation as version 4 wrote it.
pub(super) fn evaluation(mut state: Value) -> Result<Value, String> {
    let releases = state["releases"].as_object_mut().ok_or("an evaluation has no releases")?;
    for release in releases.values_mut() {
        for (task, field) in [("multiclass", "scores"), ("regression", "bounds")] {
            if let Some(Value::Object(measures)) = release.pointer_mut(&format!("/measures/{task}")) {
                measures.insert(field.into(), json!(null));
            }
        }
    }
    Ok(state)
}
