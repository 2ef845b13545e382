//! A lineage as events of OpenLineage (openlineage.io), which catalogs of data understand: which run of which job made
//! which datasets of which others.
//!
//! The jobs are those that sources name, and two of Almanac: what appends without naming a job, and what evaluates a day. The datasets
//! are those that sources name, and of a workspace what it holds of each release: `credit/prod/predictions/v1` and
//! `credit/prod/evaluations/v1`, and `credit/prod/releases/v1` for the release itself, which predictions are made with. A release
//! that was trained on a snapshot is made of `credit/prod/snapshots/june`, and that of the events that it holds.
//! Ids of runs are derived from what the run is, so the same lineage says the same twice, and a catalog of data keeps one of it.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Release, WorkspacePage};
use event::{Day, Kind, Timestamp};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    flows::{Flow, Flows},
    request::LineageRequest,
};

/// The namespace of what belongs to Almanac, when none is named.
pub(crate) const DEFAULT_NAMESPACE: &str = "almanac";

/// What an event is, what says how many rows were written, and what says of which day a run is.
const EVENT_SCHEMA: &str = "https://openlineage.io/spec/1-0-5/OpenLineage.json#/$defs/RunEvent";
const ROWS_SCHEMA: &str = "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet";
const DAY_SCHEMA: &str =
    "https://openlineage.io/spec/facets/1-0-1/NominalTimeRunFacet.json#/$defs/NominalTimeRunFacet";

/// Who says all this.
const PRODUCER: &str = concat!("urn:almanac:", env!("CARGO_PKG_VERSION"));

/// A job or a dataset: its namespace, and its name there.
type Named = (String, String);

/// A run of a job.
struct Run {
    job: Named,
    id: String,
    /// Whether somebody else runs it, and says when it starts and ends.
    is_of_others: bool,
    span: (Timestamp, Timestamp),
    day: Option<Day>,
    inputs: BTreeSet<Named>,
    /// The datasets, with how many rows were written to each: at least, and at most.
    outputs: BTreeMap<Named, (u64, u64)>,
}

/// The events of the flows that are asked for, in the order of time.
pub(super) fn events(
    flows: &Flows,
    request: &LineageRequest,
    page: &WorkspacePage,
    namespace: &str,
) -> Vec<Value> {
    let house = House { namespace, path: &page.workspace.path, page };
    let mut runs = BTreeMap::new();
    for flow in flows.wanted(request) {
        house.append(&mut runs, flow);
        house.evaluate(&mut runs, flow, flows);
        house.keep(&mut runs, flow, flows);
    }
    let mut events: Vec<(Timestamp, Value)> = runs.values().flat_map(Run::events).collect();
    events.sort_by_key(|(at, _)| *at);
    events.into_iter().map(|(_, event)| event).collect()
}

/// How what a workspace holds is called.
struct House<'a> {
    namespace: &'a str,
    path: &'a str,
    page: &'a WorkspacePage,
}

impl House<'_> {
    fn own(&self, what: &str, release: Option<&str>) -> Named {
        let of = release.map(|release| format!("/{release}")).unwrap_or_default();
        (self.namespace.to_owned(), format!("{}/{what}{of}", self.path))
    }

    /// A dataset by the name that a source or a release gives it. A URI names its namespace itself.
    fn dataset(&self, text: &str, system: Option<&str>) -> Named {
        let parts = text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('/')?)));
        match parts {
            Some((scheme, (host, name))) if !name.is_empty() => {
                (format!("{scheme}://{host}"), name.to_owned())
            }
            _ => (system.unwrap_or(self.namespace).to_owned(), text.to_owned()),
        }
    }

    /// The run that appended a flow: that which its source names, else one of each day.
    fn append(&self, runs: &mut BTreeMap<String, Run>, flow: &Flow) {
        let [system, job, run, dataset] = flow.source();
        let job = (
            system.unwrap_or(self.namespace).to_owned(),
            job.map_or_else(|| format!("{}/append", self.path), str::to_owned),
        );
        let given = run.and_then(as_uuid);
        let is_of_others = given.is_some();
        let day = run.is_none().then_some(flow.day);
        let word = run.map_or_else(|| flow.day.to_string(), str::to_owned);
        let id = given.unwrap_or_else(|| derived(&["append", &job.0, &job.1, self.path, &word]));
        let span = flow.appended;
        let run = runs.entry(id.clone()).or_insert_with(|| Run {
            job,
            id,
            is_of_others,
            span,
            day,
            inputs: BTreeSet::new(),
            outputs: BTreeMap::new(),
        });
        run.span = (run.span.0.min(span.0), run.span.1.max(span.1));
        run.inputs.extend(dataset.map(|dataset| self.dataset(dataset, system)));
        match (flow.kind, flow.release_name()) {
            (Kind::Predictions, Some(release)) => _ = run.inputs.insert(self.own("releases", Some(release))),
            (Kind::Releases, Some(release)) => {
                let details = self.made(release).map(|made| &*made.details);
                let artefact = details.and_then(|details| details.artefact_uri.as_deref());
                run.inputs.extend(artefact.map(|artefact| self.dataset(artefact, None)));
                let snapshot = details.and_then(|details| details.tuned_on.as_ref());
                run.inputs.extend(snapshot.map(|on| self.own("snapshots", Some(&on.name))));
            }
            _ => {}
        }
        let written = run.outputs.entry(self.own(flow.kind.name(), flow.release_name())).or_default();
        *written = (written.0 + flow.rows, written.1 + flow.rows_at_most);
    }

    fn made(&self, release: &str) -> Option<&Release> {
        self.page.releases.iter().find(|made| made.entity.name == release)
    }

    /// The run that made the snapshot on which the release of a flow was trained, of those of its events that are in the window.
    fn keep(&self, runs: &mut BTreeMap<String, Run>, flow: &Flow, flows: &Flows) {
        let release = flow.release_name().and_then(|name| self.made(name));
        let Some(on) = release.and_then(|release| release.details.tuned_on.as_ref()) else { return };
        let Some(snapshot) = self.page.snapshots.iter().find(|one| one.entity.id == on.id) else { return };
        let (content, job) = (&snapshot.content, self.own("snapshot", None));
        let id = derived(&["snapshot", &job.0, &job.1, snapshot.entity.id.as_str()]);
        let of_release = content.words.get("release").map(String::as_str);
        let kinds: &[Kind] = match Kind::from_name(&content.what) {
            Some(kind) => &[kind],
            None => &[Kind::Predictions, Kind::Outcomes],
        };
        let is_kept = |flow: &&Flow| {
            let is_of =
                of_release.is_none() || flow.release_name().is_none() || flow.release_name() == of_release;
            kinds.contains(&flow.kind) && content.window.contains(flow.day) && is_of
        };
        let kept = flows.all().filter(is_kept).map(|flow| self.own(flow.kind.name(), flow.release_name()));
        let at = snapshot.entity.created_at;
        runs.entry(id.clone()).or_insert_with(|| Run {
            job,
            id,
            is_of_others: false,
            span: (at, at),
            day: None,
            inputs: kept.collect(),
            outputs: [(self.own("snapshots", Some(&on.name)), (content.rows, content.rows))].into(),
        });
    }

    /// The run that evaluated the day of a flow, if what it appended is in the evaluation.
    fn evaluate(&self, runs: &mut BTreeMap<String, Run>, flow: &Flow, flows: &Flows) {
        let Some(ver) = flows.evaluation(flow.day).filter(|_| flow.evaluated > 0) else { return };
        let (day, job) = (flow.day, self.own("evaluate", None));
        let id = derived(&["evaluate", &job.0, &job.1, &day.to_string(), &ver.to_string()]);
        let at = flow.appended.1;
        let run = runs.entry(id.clone()).or_insert_with(|| Run {
            job,
            id,
            is_of_others: false,
            span: (at, at),
            day: Some(day),
            inputs: BTreeSet::new(),
            outputs: BTreeMap::new(),
        });
        // It is made of the last that was appended, so it began then at the earliest.
        run.span = (run.span.0.max(at), run.span.1.max(at));
        run.inputs.insert(self.own(flow.kind.name(), flow.release_name()));
        for release in flow.release_name().into_iter().chain(flows.judges(flow)) {
            run.outputs.entry(self.own("evaluations", Some(release))).or_insert((0, u64::MAX));
        }
    }
}

impl Run {
    /// That it started and completed; of a run of somebody else, only what it has to do with Almanac.
    fn events(&self) -> Vec<(Timestamp, Value)> {
        match self.is_of_others {
            true => vec![(self.span.1, self.event("OTHER", self.span.1, true))],
            false => vec![
                (self.span.0, self.event("START", self.span.0, false)),
                (self.span.1, self.event("COMPLETE", self.span.1, true)),
            ],
        }
    }

    fn event(&self, kind: &str, at: Timestamp, is_whole: bool) -> Value {
        let facet = |schema: &str, mut of: Value| {
            of["_producer"] = PRODUCER.into();
            of["_schemaURL"] = schema.into();
            of
        };
        let mut facets = Map::new();
        if let Some(day) = self.day {
            let end = day.next().map_or(day.start(), Day::start);
            let nominal =
                json!({ "nominalStartTime": day.start().to_string(), "nominalEndTime": end.to_string() });
            facets.insert("nominalTime".to_owned(), facet(DAY_SCHEMA, nominal));
        }
        let inputs = self.inputs.iter().filter(|_| is_whole);
        let inputs = inputs.map(|(namespace, name)| json!({ "namespace": namespace, "name": name }));
        let outputs = self.outputs.iter().filter(|_| is_whole).map(|((namespace, name), (least, most))| {
            let mut output = json!({ "namespace": namespace, "name": name });
            if least == most {
                let rows = facet(ROWS_SCHEMA, json!({ "rowCount": least }));
                output["outputFacets"] = json!({ "outputStatistics": rows });
            }
            output
        });
        json!({
            "eventType": kind,
            "eventTime": at.to_string(),
            "run": { "runId": self.id, "facets": facets },
            "job": { "namespace": self.job.0, "name": self.job.1 },
            "inputs": inputs.collect::<Vec<_>>(),
            "outputs": outputs.collect::<Vec<_>>(),
            "producer": PRODUCER,
            "schemaURL": EVENT_SCHEMA,
        })
    }
}

/// The text, if it is a UUID, as UUIDs are compared.
fn as_uuid(text: &str) -> Option<String> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let is_good = |(at, letter): (usize, u8)| match DASHES.contains(&at) {
        true => letter == b'-',
        false => letter.is_ascii_hexdigit(),
    };
    (text.len() == 36 && text.bytes().enumerate().all(is_good)).then(|| text.to_ascii_lowercase())
}

/// A UUID of version 8 (RFC 9562) that these words always have.
fn derived(words: &[&str]) -> String {
    let mut sha = Sha256::new();
    for word in words {
        sha.update((word.len() as u64).to_le_bytes());
        sha.update(word);
    }
    let mut hex: Vec<u8> = Vec::with_capacity(36);
    for (at, byte) in sha.finalize().iter().take(16).enumerate() {
        let byte = match at {
            6 => byte & 0x0f | 0x80,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        if [4, 6, 8, 10].contains(&at) {
            hex.push(b'-');
        }
        hex.extend(format!("{byte:02x}").bytes());
    }
    hex.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_runs_are_uuids_and_always_the_same() {
        let one = derived(&["append", "airflow", "nightly"]);
        assert_eq!(one, derived(&["append", "airflow", "nightly"]));
        assert_ne!(one, derived(&["append", "airflow", "night", "ly"]));
        assert_ne!(one, derived(&["append", "airflown", "ightly"]));
        assert_eq!(as_uuid(&one), Some(one.clone()), "{one}");
        assert!(one.as_bytes()[14] == b'8' && b"89ab".contains(&one.as_bytes()[19]), "{one}");
        let given = "3F2504E0-4F89-11D3-9A0C-0305E82C3301";
        assert_eq!(as_uuid(given).as_deref(), Some("3f2504e0-4f89-11d3-9a0c-0305e82c3301"));
        for wrong in ["", "17", "3f2504e04f8911d39a0c0305e82c3301", "3f2504e0-4f89-11d3-9a0c-0305e82c330g"] {
            assert_eq!(as_uuid(wrong), None, "{wrong}");
        }
    }
}
