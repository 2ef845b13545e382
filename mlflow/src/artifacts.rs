//! Where artifacts are: clients put them there and fetch them themselves, and Almanac keeps the address.

use std::{fmt::Write, path::Path};

use catalog::{Experiment, Run};
use event::Id;

use crate::{door::Door, experiments::ARTIFACTS};

/// What stands in the place of an address where artifacts are to have no place.
pub const NO_ARTIFACTS: &str = "none";

/// The address under which clients put artifacts, as it is used: without slashes at its end; or [`NO_ARTIFACTS`].
///
/// # Errors
/// What to write instead, when clients could put nothing there.
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

/// The address of a folder of this machine, for clients on the same machine. `None`, when it has none.
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
    /// Where the artifacts of an experiment are: where the client that created it said, or else below the root, if there is one.
    pub(crate) fn location_of(&self, experiment: &Experiment) -> Option<String> {
        let below = |root: &String| format!("{root}/{}/{}", experiment.workspace, experiment.id());
        experiment.tags.get(ARTIFACTS).cloned().or_else(|| self.artifacts.as_ref().map(below))
    }

    /// The same; of an experiment that has no such place an address at which nothing is taken.
    pub(crate) fn artifact_location(&self, experiment: &Experiment) -> String {
        self.location_of(experiment).unwrap_or_else(|| format!("mlflow-artifacts:/{}", experiment.id()))
    }
}

/// Where the artifacts of a run are, in the place of its experiment. The run keeps the address.
pub(crate) fn artifacts_of_run(location: &str, run: &Id) -> String {
    format!("{location}/{run}/artifacts")
}

/// Where MLflow's clients put the artifacts of a run: where it says. Of one that says nothing, nothing is taken.
pub(crate) fn artifact_uri(run: &Run) -> String {
    let told = run.tags.get(ARTIFACTS).cloned();
    told.unwrap_or_else(|| artifacts_of_run(&format!("mlflow-artifacts:/{}", run.experiment_id()), &run.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_an_address_that_clients_write_to() {
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
