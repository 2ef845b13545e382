//! The catalog changes while events arrive: releases are registered, defined, promoted and retired by release
//! events, a model that has no release and the workspace are renamed.

use std::time::Duration;

use catalog::{Action, Catalog, Defined, Patch, ReleaseChange, ReleaseSpec, record, record_definitions};
use event::{
    Column, Columns, Day, Definition, DefinitionChange, Id, Kind, NOTHING, NewDefinition, Result, Said, Task,
    Values,
};
use log::{
    batch::{BatchId, BatchPart},
    key::{EntityId, LogId},
    segment_item::Segment,
};
use table::{Condition, Write};
use tokio::time::sleep;

use super::Scene;
use crate::sim::{ops::Change, world::Promoted};

/// Maximum tries of a client of the catalog.
const MAX_TRIES: usize = 500;

/// Wait between two tries.
const WAIT: Duration = Duration::from_millis(50);

/// Where releases are live.
pub(in crate::sim) const ENVIRONMENT: &str = "production";

/// The model that has all releases, and at first the name of one that has none.
pub(super) const MODEL: &str = "m";
pub(super) const SPARE: &str = "spare";

/// Expected names in the catalog.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// A model that has no release, and its name.
    spare: Option<(Id, String)>,
    renamed: u64,
    path: Option<String>,
}

impl Names {
    pub(super) fn new(spare: Id) -> Self {
        Self { spare: Some((spare, SPARE.to_owned())), ..Self::default() }
    }
}

/// A text of a release event, by its field.
type Field<'a> = (&'a str, &'a str);

impl Scene {
    pub(super) fn release_log(&self, number: usize) -> LogId {
        LogId { kind: Kind::Releases, lane: 0, ..self.log(number) }
    }

    pub(super) async fn change_catalog(&mut self, change: Change, recorded: bool) {
        let appended = match change {
            Change::Register { log } => self.register_release(log).await,
            Change::Define { log, release, positive, threshold, from } => {
                let from = format!("2026-06-{from:02}").parse::<Day>().ok();
                self.define(log, release, changed(positive, threshold, from))
            }
            Change::Promote { log, release } => self.put_live(log, release, Action::Promote),
            Change::Retire { log, release } => self.put_live(log, release, Action::Retire),
            Change::RenameModel => self.rename_model().await,
            Change::RenameWorkspace => self.rename_workspace().await,
        };
        if recorded && let Some(segment) = appended {
            let (_, table) = self.table("ingest");
            let recording = async || -> Result<()> {
                let changes = ReleaseChange::of(&segment.unpack(|_| true)?)?;
                record(&*table, &self.workspace, &changes).await?;
                record_definitions(&*table, &self.workspace, &Defined::in_segment(&segment)?).await
            };
            // Where it fails, a projector does it.
            _ = recording().await;
        }
    }

    /// Does something with the catalog until it is done.
    async fn with_catalog(&mut self, what: &str, call: impl AsyncFn(&Catalog) -> Result<()>) {
        let (_, table) = self.table("client");
        let catalog = Catalog::new(table);
        for _ in 0..MAX_TRIES {
            match call(&catalog).await {
                Ok(()) => return,
                Err(error) if error.may_pass() => sleep(WAIT).await,
                Err(error) => return self.violated(format!("{what} was refused: {error}")),
            }
        }
        self.violated(format!("{what} was never done"));
    }

    async fn register_release(&mut self, log: usize) -> Option<Segment> {
        let (name, model) = (format!("v{}", self.releases + 1), MODEL.to_owned());
        let first = Definition::of(Task::Binary { positive_label: "1".into() });
        // Before anybody can have seen it.
        self.world.lock().definitions.insert(name.clone(), first);
        let (workspace, now) = (self.workspace.clone(), self.clock.now());
        let spec = ReleaseSpec { name: name.clone(), model, configuration: None, environment: None };
        self.with_catalog("a release", async |catalog: &Catalog| {
            catalog.ensure_release(&workspace, &spec, now).await.map(|_| ())
        })
        .await;
        self.releases += 1;
        self.append_event(log, self.releases - 1, Action::Register, &[], None)
    }

    fn define(&mut self, log: usize, release: usize, change: DefinitionChange) -> Option<Segment> {
        let said = change.said();
        let texts = said.iter().filter_map(|(name, said)| match said {
            Said::Text(text) => Some((*name, text.as_str())),
            Said::Number(_) => None,
        });
        let fields: Vec<Field<'_>> = texts.collect();
        let mut numbers = said.iter().filter_map(|(name, said)| match said {
            Said::Number(number) if *name == "threshold" => Some(*number),
            _ => None,
        });
        let threshold = numbers.next_back();
        let segment = self.append_event(log, release, Action::Define, &fields, threshold)?;
        let release = format!("v{}", 1 + release % self.releases);
        self.world.lock().said.defined.insert((segment.log.clone(), segment.seq), (release, change));
        Some(segment)
    }

    fn put_live(&mut self, log: usize, release: usize, action: Action) -> Option<Segment> {
        let release = release % self.releases;
        let segment = self.append_event(log, release, action, &[("environment", ENVIRONMENT)], None)?;
        let promoted = Promoted {
            at: released_at(&segment.log, segment.seq),
            is_live: action == Action::Promote,
            release: format!("v{}", 1 + release),
            model: MODEL.to_owned(),
        };
        self.world.lock().said.promoted.push(promoted);
        Some(segment)
    }

    /// Appends a release event, unless its day takes none any more.
    fn append_event(
        &mut self,
        log: usize,
        release: usize,
        action: Action,
        fields: &[Field<'_>],
        threshold: Option<f64>,
    ) -> Option<Segment> {
        let log = self.release_log(log);
        if self.closed == Some(log.day) {
            return None;
        }
        let release = release % self.releases;
        let seq = self.world.lock().logs.get(&log).map_or(0, Vec::len) as u64 + 1;
        let text = |text: &str| Values::Text([text].into_iter().collect());
        let mut columns = vec![
            Column::new("release", text(&format!("v{}", 1 + release))),
            Column::new("released_at", Values::Time(vec![released_at(&log, seq)])),
            Column::new("model", text(MODEL)),
            Column::new("action", text(action.name())),
        ];
        columns.extend(fields.iter().map(|(name, value)| Column::new(*name, text(value))));
        columns.extend(threshold.map(|threshold| Column::new("threshold", Values::Float(vec![threshold]))));
        let columns = Columns { rows: 1, columns };
        let part = BatchPart { batch: BatchId([seq as u8; 16]), first: 0, rows: 1 };
        let segment = Segment::pack(log.clone(), seq, self.clock.now(), vec![part], &columns);
        let segment = segment.expect("a segment");
        // First into the list: a projector may see it at once.
        self.world.lock().logs.entry(log).or_default().push(Some(columns));
        if let Err(error) = self.world.write(vec![Write::Put(segment.to_item(), Condition::Absent)]) {
            self.violated(format!("a release event was refused: {error}"));
        }
        Some(segment)
    }

    async fn rename_model(&mut self) -> Option<Segment> {
        self.names.renamed += 1;
        let (id, _) = self.names.spare.clone()?;
        let name = format!("{SPARE}{}", self.names.renamed);
        let at = EntityId::Model(self.workspace.clone(), id.clone());
        self.rename("the name of a model", &at, &name).await;
        self.names.spare = Some((id, name));
        None
    }

    async fn rename_workspace(&mut self) -> Option<Segment> {
        self.names.renamed += 1;
        let name = format!("w{}", self.names.renamed);
        let at = EntityId::Workspace(self.workspace.clone());
        self.rename("the name of a workspace", &at, &name).await;
        self.names.path = Some(format!("sim/{name}"));
        None
    }

    async fn rename(&mut self, what: &str, at: &EntityId, name: &str) {
        let (patch, now) = (Patch::rename(name), self.clock.now());
        self.with_catalog(what, async |catalog: &Catalog| {
            catalog.change(at, &patch, None, now).await.map(|_| ())
        })
        .await;
    }

    /// In the end every name leads to what has it.
    pub(super) async fn look_at_names(&mut self) {
        let path = self.names.path.clone().unwrap_or_else(|| "sim/one".to_owned());
        let (workspace, spare) = (self.workspace.clone(), self.names.spare.clone());
        let (_, table) = self.table("client");
        let catalog = Catalog::new(table);
        match catalog.workspace(&path).await {
            Ok(found) if *found.id() == workspace => {}
            other => self.violated(format!("{path} leads to {other:?}")),
        }
        let Some((id, name)) = spare else { return };
        match catalog.model_named(&workspace, &name).await {
            Ok(found) if found == id => {}
            other => self.violated(format!("the model {name} is {other:?}")),
        }
    }
}

/// Makes a definition from a day on. The bits of the threshold also select what it names: the label, the threshold, costs,
/// dimensions and metrics of its own, which another one takes away.
fn changed(positive: u64, threshold: u64, from: Option<Day>) -> DefinitionChange {
    let has = |part: u64| threshold & part > 0;
    let nothing = || Some(NOTHING.to_owned());
    let hits = "sum(case when (score > 0.3) = (outcome_label = '1') then 0.1 else 0 end)".to_owned();
    let metrics = [("hits", hits), ("middle", "median(score / 3)".to_owned())];
    let metrics = metrics.map(|(name, text)| (name.to_owned(), has(4).then_some(text)));
    let new = NewDefinition {
        positive_label: has(3).then(|| positive.to_string()),
        threshold: (!has(3) || has(8)).then_some(threshold as f64 / 10.0),
        costs: if has(1) {
            Some("tp=1.5,fp=0.7".to_owned())
        } else if has(2) {
            nothing()
        } else {
            None
        },
        dimensions: has(2).then(|| vec!["tag.place".to_owned(), "feature.f1:3:9".to_owned()]),
        custom_metrics: has(5).then(|| metrics.into()),
        ..NewDefinition::default()
    };
    new.change(from).expect("a change")
}

/// The instant of a release event, in microseconds since 1970: another one for each.
fn released_at(log: &LogId, seq: u64) -> i64 {
    log.day.start().micros() + seq as i64 * 1_000
}
