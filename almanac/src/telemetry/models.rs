//! Metrics of live releases for `/metrics`, read from stored evaluations in the background.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catalog::{Catalog, Recent, Workspace, last_whole_day};
use event::{Clock, Result};
use fold::{Metric, Windowed, evaluation::ReleaseEvaluation};
use log::active;
use meter::catalogue;
use table::Table;

/// Pause between two readings.
const READ_EVERY: Duration = Duration::from_secs(60);

/// Maximum days, backwards from yesterday or the last projected one, in which labels of a live release are looked for.
const DAYS_LOOKED_AT: usize = 31;

/// Maximum series of each metric.
const MAX_SERIES: usize = 1_000;

/// Live release of a model in an environment, as evaluated on its latest whole day that has labels.
#[derive(Clone, Debug, Default)]
struct LiveRelease {
    workspace: String,
    model: String,
    release: String,
    environment: String,
    /// Main metrics of its task, by name.
    metrics: Vec<(&'static str, f64)>,
    labelled: u64,
    maturity: Option<f64>,
}

impl LiveRelease {
    /// Reads the values of a day.
    fn of(workspace: &Workspace, release: &str, day: &ReleaseEvaluation) -> Self {
        let metrics = Metric::ranking_ones().filter(|metric| metric.is_main).filter_map(|metric| {
            let mut window = Windowed::new(metric);
            window.add(day);
            Some((metric.name, window.value().filter(|value| value.is_finite())?))
        });
        Self {
            workspace: workspace.path.clone(),
            release: release.to_owned(),
            metrics: metrics.collect(),
            labelled: day.judged(),
            maturity: day.maturity(),
            ..Self::default()
        }
    }

    fn labels(&self) -> [&str; 4] {
        [&self.workspace, &self.model, &self.release, &self.environment]
    }
}

/// The metrics as last read.
#[derive(Debug)]
pub(crate) struct ModelMetrics {
    table: Arc<dyn Table>,
    clock: Clock,
    text: Mutex<String>,
}

impl ModelMetrics {
    /// Creates metrics without series, to be read from a table.
    pub(crate) fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self { table, clock, text: Mutex::new(text_of(&[])) }
    }

    /// Returns the series that were read last, in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the metrics again and again.
    pub(crate) async fn run(&self) {
        loop {
            // A value that is not known to hold any more is none.
            let found = self.read().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the metrics of models cannot be read; trying again");
                Vec::new()
            });
            *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text_of(&found);
            tokio::time::sleep(READ_EVERY).await;
        }
    }

    async fn read(&self) -> Result<Vec<LiveRelease>> {
        let catalog = Catalog::new(Arc::clone(&self.table));
        let mut found = Vec::new();
        for workspace in catalog.workspaces().await? {
            let series: usize = found.iter().map(|one: &LiveRelease| one.metrics.len()).sum();
            if series >= MAX_SERIES {
                tracing::warn!(
                    "there are more than {MAX_SERIES} metrics of models; the releases from workspace {} on are left out",
                    workspace.path
                );
                break;
            }
            if let Err(error) = self.read_workspace(&catalog, &workspace, &mut found).await {
                tracing::warn!(workspace = workspace.path, %error, "the metrics of its models cannot be read");
            }
        }
        Ok(found)
    }

    /// Adds the live releases of a workspace: reads what is live, and days from the latest whole one backwards until each has
    /// labels.
    async fn read_workspace(
        &self,
        catalog: &Catalog,
        workspace: &Workspace,
        found: &mut Vec<LiveRelease>,
    ) -> Result<()> {
        let mut live = BTreeMap::<String, Vec<(String, String)>>::new();
        for (environment, state) in catalog.live_now(workspace.id()).await? {
            for (model, release) in state {
                live.entry(release.release).or_default().push((model, environment.clone()));
            }
        }
        if live.is_empty() {
            return Ok(());
        }
        let version = active::load(&*self.table, workspace.id()).await?.version;
        let Some(recent) = Recent::of(&*self.table, version, workspace.id()).await? else { return Ok(()) };
        let mut recent = recent.until(last_whole_day(self.clock.now(), 0));
        for _ in 0..DAYS_LOOKED_AT {
            let day = recent.step_back();
            let releases = recent.evaluation(day).await?.map(|evaluation| evaluation.releases);
            for (release, of) in releases.iter().flatten().filter(|(_, of)| of.judged() > 0) {
                let Some(places) = live.remove(release) else { continue };
                let one = LiveRelease::of(workspace, release, of);
                found.extend(places.into_iter().map(|(model, environment)| LiveRelease {
                    model,
                    environment,
                    ..one.clone()
                }));
            }
            if live.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// Writes the series of the main metrics of each release, of its labels and of its maturity, in the text format of Prometheus.
fn text_of(found: &[LiveRelease]) -> String {
    let mut series = 0;
    // Whole releases.
    let is_within = |one: &&LiveRelease| {
        series += one.metrics.len();
        series <= MAX_SERIES
    };
    let found: Vec<&LiveRelease> = found.iter().take_while(is_within).take(MAX_SERIES).collect();
    let metrics = found.iter().flat_map(|one| {
        let [workspace, model, release, environment] = one.labels();
        let series = one.metrics.iter();
        series.map(move |(metric, value)| ([workspace, model, release, environment, metric], *value))
    });
    let labelled = found.iter().map(|one| (one.labels(), one.labelled as f64));
    let maturity = found.iter().filter_map(|one| Some((one.labels(), one.maturity?)));
    catalogue::MODEL_METRIC.text(metrics)
        + &catalogue::MODEL_LABELLED.text(labelled)
        + &catalogue::MODEL_MATURITY.text(maturity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_models_are_bounded_in_number() {
        let one = |n: usize| LiveRelease {
            workspace: "credit/prod".into(),
            model: "risk".into(),
            release: format!("v{n}"),
            environment: "production".into(),
            metrics: vec![("accuracy", 0.5), ("auc", 0.75)],
            labelled: 8,
            maturity: (n > 0).then_some(0.25),
        };
        let labels = r#"workspace="credit/prod",model="risk",release="v1",environment="production""#;
        let text = text_of(&[one(0), one(1)]);
        for series in [
            format!("almanac_model_metric{{{labels},metric=\"auc\"}} 0.75"),
            format!("almanac_model_labelled{{{labels}}} 8"),
            format!("almanac_model_maturity{{{labels}}} 0.25"),
        ] {
            assert!(text.lines().any(|line| line == series), "{series}\n{text}");
        }
        assert_eq!(text.matches("release=\"v0\"").count(), 3, "it has no maturity");
        let many: Vec<_> = (1..2_000).map(one).collect();
        for (name, count) in [("metric", 1_000), ("labelled", 500), ("maturity", 500)] {
            assert_eq!(text_of(&many).matches(&format!("\nalmanac_model_{name}{{")).count(), count, "{name}");
        }
    }
}
