//! Version 1 counted neither what is repeated nor what is unmatched; both are absent. It did not say its threshold, which
//! was [`POSITIVE_SCORE`].

use event::task::POSITIVE_SCORE;
use serde_json::{Value, json};

/// The evaluation as version 2 wrote it.
pub(super) fn evaluation(mut state: Value) -> Result<Value, String> {
    let releases = state["releases"].as_object_mut().ok_or("an evaluation has no releases")?;
    for release in releases.values_mut() {
        if let Some(Value::Object(binary)) = release.pointer_mut("/measures/binary") {
            binary.insert("threshold".into(), json!(POSITIVE_SCORE));
        }
    }
    Ok(state)
}
