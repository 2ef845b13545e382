//! Version 4 knew neither costs nor levels of intervals, nor splits; all are absent.

use serde_json::Value;

/// The evaluation as version 5 wrote it.
pub(super) fn evaluation(state: Value) -> Result<Value, String> {
    Ok(state)
}
