//! Monitoring of the services: metrics, log lines, and a line of metrics a minute.
//!
//! The metrics are listed in [`meter::catalogue`]; they are recorded for the whole process (`install`), and current values are
//! added when they are read (`Exposition`). `requests` measures and logs HTTP requests, `logs` formats log lines and `sink`
//! writes them, `report` writes the line of metrics, `process` asks the system about the process.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use event::Clock;
use ingest::admission::Admission;
use meter::{Shape, catalogue};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use projector::{Health, Projector, alert::FiringRule};
use table::sqlite;

pub(crate) mod logs;
mod process;
pub(crate) mod report;
pub(crate) mod requests;
mod sink;

/// Interval at which records of histograms are added up, so that they do not pile up between reads of `/metrics`.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Maximum rules that are named: those of at least 16 workspaces.
const MAX_FIRING_SERIES: usize = 16 * catalog::MAX_ALERT_RULES;

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Begins to record metrics. Handles taken before it do nothing, so it is called before the table is opened. A process has one
/// recorder, however often this is called.
pub(crate) fn install() -> &'static PrometheusHandle {
    RECORDER.get_or_init(|| {
        let mut builder = PrometheusBuilder::new();
        for metric in meter::ALL {
            if let Shape::Histogram(bounds) = metric.shape {
                let matcher = Matcher::Full(metric.name.to_owned());
                builder = builder.set_buckets_for_metric(matcher, bounds).expect("the list has bounds");
            }
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // A failure means that a program which embeds Almanac records metrics in its own way.
        _ = metrics::set_global_recorder(recorder);
        meter::ALL.iter().for_each(meter::Instrument::describe);
        catalogue::BUILD_INFO.gauge([env!("CARGO_PKG_VERSION")]).set(1.0);
        catalogue::PROCESS_START.gauge([]).set(Clock::system().now().micros() as f64 / 1e6);
        handle
    })
}

/// Adds up the records of histograms, forever.
pub(crate) async fn keep_up() {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        install().run_upkeep();
    }
}

/// Sources of current metrics.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    /// Projector, in that role.
    pub(crate) projector: Option<Projector>,
    /// Admission of appends, in the role ingest.
    pub(crate) gate: Option<Arc<Admission>>,
    /// File of the store, if it is one.
    pub(crate) file: Option<PathBuf>,
}

impl Exposition {
    /// Metrics of this process, in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let handle = install();
        let mut firing = String::new();
        if let Some(projector) = &self.projector {
            let health = projector.health();
            of_projector(&health);
            firing = firing_rules(health.firing.as_deref().unwrap_or_default());
        }
        if let Some(gate) = &self.gate {
            let load = gate.load();
            catalogue::GATE_IN_FLIGHT.gauge(["small"]).set(load.small as f64);
            catalogue::GATE_IN_FLIGHT.gauge(["large"]).set(load.large as f64);
            catalogue::GATE_IN_FLIGHT.gauge(["reading"]).set(load.reading as f64);
            catalogue::GATE_WAITING.gauge([]).set(load.waiting as f64);
            catalogue::GATE_BYTES.gauge([]).set(load.bytes as f64);
        }
        if let Some(file) = &self.file {
            let (db, wal) = sqlite::file_bytes(file);
            catalogue::SQLITE_FILE_BYTES.gauge(["db"]).set(db as f64);
            catalogue::SQLITE_FILE_BYTES.gauge(["wal"]).set(wal as f64);
        }
        logs::tell();
        process::tell();
        handle.render() + &firing
    }
}

/// Firing rules, each as a series of its own. The recorder would keep the series of a rule that no longer fires, so the text is
/// written here.
fn firing_rules(firing: &[FiringRule]) -> String {
    let series = firing.iter().take(MAX_FIRING_SERIES);
    catalogue::PROJECTOR_FIRING_RULE.text(series.map(|one| ([&*one.workspace, &*one.rule], 1.0)))
}

fn of_projector(health: &Health) {
    for (gauge, value) in [
        (catalogue::PROJECTOR_DIRTY_DAYS, health.dirty_days as f64),
        (catalogue::PROJECTOR_LAG_SEGMENTS, health.waiting as f64),
        (catalogue::PROJECTOR_LAG_SECONDS, health.oldest.as_secs_f64()),
        (catalogue::PROJECTOR_UNMATCHED_DAYS, health.unevaluated_days as f64),
        (catalogue::PROJECTOR_LEASES, health.shards as f64),
        (catalogue::PROJECTOR_HEARTBEAT_AGE, health.heartbeat_age.unwrap_or(health.age).as_secs_f64()),
        (catalogue::PROJECTOR_CHECKPOINT_AGE, health.oldest_checkpoint.as_secs_f64()),
        (catalogue::PROJECTOR_FEED_AGE, health.feed_age.as_secs_f64()),
        (catalogue::PROJECTOR_SWEEP_AGE, health.sweep_age.unwrap_or_default().as_secs_f64()),
        (catalogue::PROJECTOR_SWEPT_BEHIND, health.swept_behind as f64),
        (catalogue::PROJECTOR_WAITING, health.unmatched as f64),
        (catalogue::PROJECTOR_DEAD_LETTERS, health.stopped as f64),
    ] {
        gauge.gauge([]).set(value);
    }
    if let Some(firing) = &health.firing {
        catalogue::PROJECTOR_FIRING.gauge([]).set(firing.len() as f64);
    }
    for (counter, value) in [
        (catalogue::PROJECTOR_DEAD_LETTERS_FOUND, health.dead_letters),
        (catalogue::PROJECTOR_SWEEPS, health.sweeps),
        (catalogue::PROJECTOR_SEGMENTS, health.segments),
        (catalogue::PROJECTOR_EVALUATED, health.evaluated_rows),
        (catalogue::PROJECTOR_RETRIES, health.retries),
    ] {
        counter.counter([]).absolute(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firing_rule_metrics_are_limited_in_number() {
        let rule = |rule: usize| FiringRule { workspace: "credit/prod".into(), rule: format!("r{rule}") };
        let text = firing_rules(&[rule(1), rule(2)]);
        let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let of =
            |rule: &str| format!(r#"almanac_alert_rule_firing{{workspace="credit/prod",rule="{rule}"}} 1"#);
        assert_eq!(series, [of("r1"), of("r2")]);
        // A rule that does not fire has no series, though the metric is described.
        assert_eq!(firing_rules(&[]).lines().count(), 2);
        let many: Vec<_> = (0..MAX_FIRING_SERIES + 5).map(rule).collect();
        assert_eq!(firing_rules(&many).lines().count(), 2 + 1_024);
    }
}
