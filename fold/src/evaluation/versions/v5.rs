//! Version 5 did not count predictions whose keys were erased: there are none.

use serde_json::Value;

/// The evaluation as version 6 wrote it.
pub(super) fn evaluation(state: Value) -> Result<Value, String> {
    Ok(state)
}
