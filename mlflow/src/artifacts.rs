//! Addresses of artifacts: clients store and fetch artifacts themselves, and Almanac keeps the address.

use std::{fmt::Write, path::Path};

use catalog::{Experiment, Run};
use event::Id;

use crate::{door::Door, experiments::ARTIFACTS};

/// Value of the address if artifacts have no place.
pub const NO_ARTIFACTS: &str = "none";

/// Normalises the address under which clients put artifacts: without slashes at its end; or [`NO_ARTIFACTS`].
///
/// # Errors
/// A suggestion, if clients could put nothing there.
pub fn artifact_root(address: &str) -> Result<String, String> {
    let advice =
        "name a place that clients write to, such as s3://bucket/mlflow or file:///shared/mlflow, or none";
    match address.split_once(":/") {
        None if address == NO_ARTIFACTS => Ok(address.to_owned()),
        Some(("mlflow-artifacts", _)) => Err(format!("Almanac keeps no artifacts itself; {advice}")),
        Some((scheme, path)) if !scheme.is_empty() && !path.trim_matches('/').is_empty() => {
            Ok(address.trim_end_matches('/').to_owned())
        }
        _ => Err(format!("`{address}` is no address with a scheme; {advice}")),
    }
}

/// Returns the address of a folder of this machine, for clients on the same machine. `None`, if it has none.
pub fn artifact_folder(folder: &Path) -> Option<String> {
    let folder = std::path::absolute(folder).ok()?;
    let mut address = String::from("file://");
    for byte in folder.to_str()?.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                address.push(byte.into())
            }
            _ => write!(address, "%{byte:02X}").ok()?,
        }
    }
    Some(address)
}

impl Door {
    /// Returns the address of the artifacts of an experiment: the one given at its creation, or else one below the root, if there
    /// is a root.
    pub(crate) fn location_of(&self, experiment: &Experiment) -> Option<String> {
        let below = |root: &String| format!("{root}/{}/{}", experiment.workspace, experiment.id());
        experiment.tags.get(ARTIFACTS).cloned().or_else(|| self.artifacts.as_ref().map(below))
    }

    /// Returns this address, or, if there is none, an address that accepts nothing.
    pub(crate) fn artifact_location(&self, experiment: &Experiment) -> String {
        self.location_of(experiment).unwrap_or_else(|| format!("mlflow-artifacts:/{}", experiment.id()))
    }
}

/// Returns the address of the artifacts of a run below that of its experiment. The run keeps the address.
pub(crate) fn artifacts_of_run(location: &str, run: &Id) -> String {
    format!("{location}/{run}/artifacts")
}

/// Returns the address at which MLflow's clients put the artifacts of a run: its own, or else one that accepts nothing.
pub(crate) fn artifact_uri(run: &Run) -> String {
    let told = run.tags.get(ARTIFACTS).cloned();
    told.unwrap_or_else(|| artifacts_of_run(&format!("mlflow-artifacts:/{}", run.experiment_id()), &run.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifact_root_must_be_a_client_writable_address() {
        assert_eq!(artifact_root("s3://bucket/mlflow/").unwrap(), "s3://bucket/mlflow");
        assert_eq!(artifact_root("file:///shared/mlflow").unwrap(), "file:///shared/mlflow");
        assert_eq!(artifact_root(NO_ARTIFACTS).unwrap(), NO_ARTIFACTS);
        assert_eq!(artifact_folder(Path::new("/my data/é")).unwrap(), "file:///my%20data/%C3%A9");
        for wrong in ["", "/shared/mlflow", "s3://", "://x", "file:///", "mlflow-artifacts:/x"] {
            let refused = artifact_root(wrong).unwrap_err();
            assert!(refused.contains("s3://bucket/mlflow"), "{wrong}: {refused}");
        }
    }
}
