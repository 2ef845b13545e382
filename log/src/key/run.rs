//! The keys of experiments and runs, and of the latest values of the metrics of runs.

use event::Id;
use sha2::{Digest, Sha256};
use table::{Key, KeyRange, key::END};

use super::LogId;

/// Experiment of runs without one, and its id in MLflow.
pub const DEFAULT_EXPERIMENT: (&str, &str) = ("Default", "0");

/// The partition of the experiments and runs of a workspace.
fn runs_partition(workspace: &Id) -> String {
    format!("w#{workspace}/run")
}

/// The partition of the latest values of the metrics of runs.
fn latest_partition(workspace: &Id) -> String {
    format!("w#{workspace}/latest")
}

/// Partitions of the data of runs of a workspace, besides their metrics in the log.
pub fn of_runs(workspace: &Id) -> [String; 2] {
    [runs_partition(workspace), latest_partition(workspace)]
}

/// Id of the experiment with this name, derived from the name, so that a name has one experiment.
pub fn experiment_id(name: &str) -> String {
    if name == DEFAULT_EXPERIMENT.0 {
        return DEFAULT_EXPERIMENT.1.to_owned();
    }
    let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    digest[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An experiment, by its id.
pub fn experiment(workspace: &Id, id: &str) -> Key {
    Key::new(runs_partition(workspace), format!("exp#{id}"))
}

/// All experiments of a workspace.
pub fn experiments(workspace: &Id) -> KeyRange {
    KeyRange::prefix(runs_partition(workspace), "exp#")
}

/// A run.
pub fn run(workspace: &Id, run: &Id) -> Key {
    Key::new(runs_partition(workspace), format!("run#{run}"))
}

/// The runs of a workspace, by age.
pub fn runs(workspace: &Id) -> KeyRange {
    KeyRange::prefix(runs_partition(workspace), "run#")
}

/// Parses the workspace and the run of a key of [`run`].
pub fn parse_run(key: &Key) -> Option<(Id, Id)> {
    let workspace = Id::parse(key.pk.strip_prefix("w#")?.strip_suffix("/run")?).ok()?;
    Some((workspace, Id::parse(key.sk.strip_prefix("run#")?).ok()?))
}

/// Parses the workspace and the experiment's id of a key of [`experiment`].
pub fn parse_experiment(key: &Key) -> Option<(Id, &str)> {
    let workspace = Id::parse(key.pk.strip_prefix("w#")?.strip_suffix("/run")?).ok()?;
    Some((workspace, key.sk.strip_prefix("exp#")?))
}

/// Place of a run in `GSI1`: the runs of an experiment, by age.
pub fn run_index(workspace: &Id, experiment: &str, run: &Id) -> (String, String) {
    (runs_of(workspace, experiment).pk, format!("run#{run}"))
}

/// The runs of an experiment, in `GSI1`.
pub fn runs_of(workspace: &Id, experiment: &str) -> KeyRange {
    KeyRange::prefix(format!("w#{workspace}/exp#{experiment}/r"), "run#")
}

/// The latest values of the metrics of a run: the first of their items.
pub fn latest(workspace: &Id, run: &Id) -> Key {
    Key::new(latest_partition(workspace), format!("run#{run}"))
}

/// Further item, for metrics that do not fit into the first.
pub fn latest_part(workspace: &Id, run: &Id, part: u8) -> Key {
    Key::new(latest_partition(workspace), format!("run#{run}/{part:02x}"))
}

/// All items with latest values of a run.
pub fn latest_of(workspace: &Id, run: &Id) -> KeyRange {
    KeyRange::prefix(latest_partition(workspace), &format!("run#{run}"))
}

/// The latest values of the runs from one to another, by age.
pub fn latest_between(workspace: &Id, first: &Id, last: &Id) -> KeyRange {
    KeyRange { pk: latest_partition(workspace), from: format!("run#{first}"), to: format!("run#{last}{END}") }
}

/// Key in `GSI1` of the first item with latest values of a run: beside the runs of its experiment.
pub fn latest_index(workspace: &Id, experiment: &str, run: &Id) -> (String, String) {
    (latest_partition_of(workspace, experiment), format!("run#{run}"))
}

/// The latest values of the runs of an experiment from one run to another, in `GSI1`.
pub fn latest_of_experiment(workspace: &Id, experiment: &str, first: &Id, last: &Id) -> KeyRange {
    let pk = latest_partition_of(workspace, experiment);
    KeyRange { pk, from: format!("run#{first}"), to: format!("run#{last}{END}") }
}

fn latest_partition_of(workspace: &Id, experiment: &str) -> String {
    format!("w#{workspace}/latest#{experiment}/r")
}

/// Parses the run of a key of latest values, if it is that of the first item.
pub fn parse_latest(key: &Key) -> Option<Id> {
    key.pk.strip_suffix("/latest")?;
    Id::parse(key.sk.strip_prefix("run#")?).ok()
}

/// All segments of a workspace from one to another, both included.
pub fn segments_from_to(first: (&LogId, u64), last: (&LogId, u64)) -> KeyRange {
    let (from, to) = (super::segment(first.0, first.1), super::segment(last.0, last.1));
    KeyRange { pk: from.pk, from: from.sk, to: to.sk }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let r = Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap();
        let index = |(pk, sk): (String, String)| format!("{pk} / {sk}");
        let strings = [
            experiment(&w, &experiment_id("churn")).to_string(),
            experiment(&w, &experiment_id("Default")).to_string(),
            run(&w, &r).to_string(),
            index(run_index(&w, "0", &r)),
            latest(&w, &r).to_string(),
            latest_part(&w, &r, 10).to_string(),
            index(latest_index(&w, "0", &r)),
        ];
        insta::assert_snapshot!(strings.join("\n"));
    }

    #[test]
    fn run_keys_are_parsed_and_ranges_cover_them() {
        let w = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let r = Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap();
        assert_eq!(parse_run(&run(&w, &r)), Some((w.clone(), r.clone())));
        assert_eq!(parse_run(&experiment(&w, "0")), None);
        assert_eq!(parse_experiment(&experiment(&w, "0")), Some((w.clone(), "0")));
        assert_eq!(parse_latest(&latest(&w, &r)), Some(r.clone()));
        assert_eq!(parse_latest(&latest_part(&w, &r, 1)), None);
        let holds =
            |range: &KeyRange, key: &Key| range.pk == key.pk && range.from <= key.sk && key.sk <= range.to;
        assert!(
            holds(&latest_of(&w, &r), &latest(&w, &r))
                && holds(&latest_of(&w, &r), &latest_part(&w, &r, 255))
        );
        assert!(holds(&latest_between(&w, &r, &r), &latest_part(&w, &r, 255)));
        assert!(holds(&runs(&w), &run(&w, &r)) && !holds(&runs(&w), &experiment(&w, "0")));
    }
}
