//! Timeline of the demo: nightly predictions, outcomes four times a day, in order.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::Context;
use catalog::{Catalog, Workspace};
use event::{Clock, Day, Kind, Timestamp, Window};
use ingest::{
    Ingest, Refused, Remember,
    file::{FileSpec, Mapping, batches_of},
    json::read_json_array,
};
use log::{active, key::LogId, scan};
use polars::prelude::DataFrame;
use projector::{WorkspaceDay, project::project, unmatched::resolve};
use serde_json::json;
use table::Table;

use super::set::{Change, PRODUCTION, Release, Set};
use crate::{adapters::ByIngest, progress::Progress};

/// Interval of the job that posts outcomes, in microseconds.
const OUTCOMES_EVERY: i64 = 6 * 60 * 60 * 1_000_000;
/// Time that the nightly job takes to predict the day, in seconds.
const SCORING_SECONDS: i64 = 90;

/// Clock of the replayed months: it stands at the step that is being posted.
#[derive(Clone, Default)]
pub(super) struct ReplayClock(Arc<AtomicI64>);

impl ReplayClock {
    pub(super) fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::from_fn(move || Timestamp::from_micros(now.load(Ordering::Relaxed)).unwrap_or_default())
    }

    fn set(&self, now: Timestamp) {
        self.0.store(now.micros(), Ordering::Relaxed);
    }
}

/// One post of a pipeline.
struct Step {
    at: Timestamp,
    kind: Kind,
    key: String,
    rows: DataFrame,
    /// True if its rows do not say which predictions they judge.
    is_undated: bool,
}

/// Posts of a set.
pub(super) struct Replay {
    set: &'static Set,
    steps: Vec<Step>,
}

/// Counts of a replay.
#[derive(Default)]
pub(super) struct Appended {
    predictions: usize,
    outcomes: usize,
    resolved: u64,
    batches: usize,
    known: usize,
    seconds: f64,
}

impl Replay {
    /// Makes the posts up to the end of the day `until`, or all.
    ///
    /// # Errors
    /// `Invalid`, when there are none up to then.
    pub(super) fn new(set: &'static Set, until: Option<Day>) -> anyhow::Result<Self> {
        let mut steps = prediction_steps(&set.predictions()?)?;
        let first = steps.iter().map(|step| step.at).min().context("a set without predictions")?.day();
        steps.extend(outcome_steps(&set.outcomes()?, set.undated()?)?);
        steps.retain(|step| until.is_none_or(|until| step.at.day() <= until));
        if steps.is_empty() {
            let message =
                format!("there is nothing to replay until then; the first prediction is of {first}");
            return Err(event::Error::invalid(message).into());
        }
        steps.sort_by(|a, b| (a.at, a.kind, &a.key).cmp(&(b.at, b.kind, &b.key)));
        Ok(Self { set, steps })
    }

    /// Posts all steps, each at its time by `clock`.
    pub(super) async fn run(
        self,
        table: &Arc<dyn Table>,
        ingest: &Arc<Ingest>,
        workspace: &Workspace,
        clock: &ReplayClock,
    ) -> anyhow::Result<Appended> {
        let append = ByIngest(Arc::clone(ingest));
        let total = self.steps.iter().map(|step| step.rows.height()).sum::<usize>() as u64;
        let mut progress = Progress::new("replaying", total);
        let started = tokio::time::Instant::now();
        let mut appended = Appended::default();
        let mut changes = self.set.changes()?.into_iter().peekable();
        for step in self.steps {
            while let Some((at, release, change)) = changes.next_if(|(at, ..)| *at <= step.at) {
                clock.set(at);
                post_change(ingest, workspace, self.set, (at, release, change)).await?;
            }
            clock.set(step.at);
            appended.batches += 1;
            match step.kind {
                Kind::Predictions => appended.predictions += step.rows.height(),
                _ => appended.outcomes += step.rows.height(),
            }
            appended.known += usize::from(post(ingest, workspace, self.set, &step).await?);
            if step.is_undated {
                appended.resolved += resolved(table, &append, workspace, step.at).await?;
            }
            progress.at((appended.predictions + appended.outcomes) as u64, &step.at.day().to_string());
        }
        progress.finish();
        appended.seconds = started.elapsed().as_secs_f64();
        Ok(appended)
    }
}

/// Posts a change of a release under a fixed key, so the same demo has the same bytes, also when it is run again.
async fn post_change(
    ingest: &Ingest,
    workspace: &Workspace,
    set: &Set,
    (at, release, change): (Timestamp, &Release, Change),
) -> anyhow::Result<()> {
    let mut event = json!({
        "release": release.name, "released_at": at.to_string(), "model": set.model, "environment": PRODUCTION,
    });
    let key = match change {
        Change::Registered => {
            event["action"] = "register".into();
            event["configuration"] = release.configuration.into();
            format!("demo/release/{}", release.name)
        }
        Change::Promoted => {
            event["action"] = "promote".into();
            format!("demo/promote/{}", release.name)
        }
    };
    let events = json!([event]).to_string();
    let batch = read_json_array(Kind::Releases, events.as_bytes(), ingest.clock().now())?;
    ingest.submit(workspace, batch, Some(&key), Remember::Forever).await?;
    Ok(())
}

/// Posts a step; returns true if it had been posted before.
async fn post(ingest: &Ingest, workspace: &Workspace, set: &Set, step: &Step) -> anyhow::Result<bool> {
    let tags = match step.kind {
        Kind::Predictions => set.tags.iter().map(|&tag| tag.into()).collect(),
        _ => Vec::new(),
    };
    let spec = FileSpec { kind: step.kind, mapping: Mapping { tags, ..Mapping::default() } };
    let mut batches = batches_of(&step.rows, &spec, ingest.clock().now())?;
    let batch = match (batches.pop(), batches.is_empty()) {
        (Some(batch), true) => batch,
        _ => anyhow::bail!(Refused::Whole(format!("{} does not fit one batch", step.key))),
    };
    let receipt = ingest.submit(workspace, batch, Some(&step.key), Remember::Forever).await;
    Ok(receipt.with_context(|| format!("posting {}", step.key))?.replayed)
}

/// Has the projector resolve at once the predictions of outcomes just posted without them, as of `now`; returns the number
/// resolved. So the knowledge at any instant equals that of outcomes which name their predictions.
async fn resolved(
    table: &Arc<dyn Table>,
    append: &ByIngest,
    workspace: &Workspace,
    now: Timestamp,
) -> anyhow::Result<u64> {
    let (id, day) = (workspace.id(), now.day());
    let heads = scan::heads_of_kind(&**table, id, day, Kind::Unmatched).await?;
    let logs: BTreeSet<LogId> = heads.into_iter().map(|head| head.log).collect();
    let of_day = WorkspaceDay { workspace: id.clone(), day };
    let version = active::load(&**table, id).await?.version;
    project(&**table, version, &of_day, &logs).await?;
    let (catalog, days) = (Catalog::new(Arc::clone(table)), BTreeSet::new());
    Ok(resolve(&**table, &catalog, append, id, (Some(day), &days), now).await?.found)
}

impl Appended {
    pub(super) fn print(&self) {
        let rows = self.predictions + self.outcomes;
        if self.known == self.batches {
            println!("appended      nothing: all {rows} events were there already, so nothing changed");
            return;
        }
        let rate = rows as f64 / self.seconds;
        println!("appended      {} predictions and {} outcomes", self.predictions, self.outcomes);
        println!(
            "              in {} batches, each durable before the next: {:.1} s, {rate:.0} events/s",
            self.batches, self.seconds
        );
        if self.resolved > 0 {
            println!(
                "              {} outcomes came without a date; their predictions were found",
                self.resolved
            );
        }
        if self.known > 0 {
            println!("              {} batches were there already and were not counted again", self.known);
        }
    }
}

/// Instants of a column, in microseconds.
pub(super) fn instants(frame: &DataFrame, column: &str) -> anyhow::Result<Vec<i64>> {
    let values = frame.column(column)?.datetime()?.physical().clone();
    Ok(values.into_no_null_iter().collect())
}

/// Runs of equal values: the first row of each and its length.
fn runs<T: PartialEq>(values: &[T]) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    for row in 0..values.len() {
        match runs.last_mut() {
            Some((first, rows)) if values[*first] == values[row] => *rows += 1,
            _ => runs.push((row, 1)),
        }
    }
    runs
}

/// Makes one post for each night and release.
fn prediction_steps(frame: &DataFrame) -> anyhow::Result<Vec<Step>> {
    let releases = frame.column("release")?.str()?;
    let release = |row| releases.get(row).unwrap_or_default();
    let values: Vec<(i64, &str)> = instants(frame, "predicted_at")?
        .into_iter()
        .enumerate()
        .map(|(row, at)| (at, release(row)))
        .collect();
    let steps = runs(&values).into_iter().map(|(first, rows)| {
        let (at, release) = values[first];
        let at = Timestamp::from_micros(at).context("an instant out of range")?;
        let key = format!("demo/predictions/{}/{release}", at.day());
        let rows = frame.slice(first as i64, rows);
        let at = at.plus_seconds(SCORING_SECONDS);
        Ok(Step { at, kind: Kind::Predictions, key, rows, is_undated: false })
    });
    steps.collect()
}

/// Makes one post every six hours, of the outcomes observed since the last; on some days without the instants of predictions.
fn outcome_steps(frame: &DataFrame, undated: Option<Window>) -> anyhow::Result<Vec<Step>> {
    let posted_at = |observed_at: i64| (observed_at.div_euclid(OUTCOMES_EVERY) + 1) * OUTCOMES_EVERY;
    let values: Vec<i64> = instants(frame, "observed_at")?.into_iter().map(posted_at).collect();
    let steps = runs(&values).into_iter().map(|(first, rows)| {
        let at = Timestamp::from_micros(values[first]).context("an instant out of range")?;
        let is_undated = undated.is_some_and(|days| (days.from()..=days.to()).contains(&at.day()));
        let mut rows = frame.slice(first as i64, rows);
        if is_undated {
            rows = rows.drop("predicted_at")?;
        }
        Ok(Step { at, kind: Kind::Outcomes, key: format!("demo/outcomes/{at}"), rows, is_undated })
    });
    steps.collect()
}
