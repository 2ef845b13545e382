//! Monitoring of the services: metrics, log lines, and a line of metrics a minute.
//!
//! The metrics are listed in [`meter::catalogue`]; they are recorded for the whole process (`install`), and current values are
//! added when they are read (`Exposition`). `requests` measures and logs HTTP requests, `logs` formats log lines and `sink`
//! writes them, `report` writes the line of metrics.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use event::Clock;
use ingest::admission::Admission;
use meter::{Shape, catalogue};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use projector::{Health, Projector, alert::FiringRule};
use table::sqlite;

use self::models::ModelMetrics;

pub(crate) mod logs;
pub(crate) mod models;
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

/// Adds up the records of histograms and reads the metrics of models, if they are wanted, forever.
pub(crate) async fn keep_up(models: Option<Arc<ModelMetrics>>) {
    let reading = async {
        if let Some(models) = models {
            models.run().await;
        }
    };
    tokio::join!(reading, add_up());
}

async fn add_up() {
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
    /// Metrics of live releases, if wanted in the role query.
    pub(crate) models: Option<Arc<ModelMetrics>>,
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
        tell_process();
        handle.render() + &firing + &self.models.as_ref().map(|models| models.text()).unwrap_or_default()
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
        (catalogue::PROJECTOR_FOLD_AGE, health.fold_age.as_secs_f64()),
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

/// Unit of processor time in Linux, in ticks a second, on every machine that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// Sets the metrics of the system about this process. Linux gives them in files; other systems give none.
fn tell_process() {
    let read = |name: &str| fs::read_to_string(Path::new("/proc/self").join(name)).unwrap_or_default();
    let status = read("status");
    if let Some(kib) = field(&status, "VmRSS:") {
        catalogue::PROCESS_MEMORY.gauge([]).set(kib as f64 * 1024.0);
    }
    if let Some(threads) = field(&status, "Threads:") {
        catalogue::PROCESS_THREADS.gauge([]).set(threads as f64);
    }
    if let Some(most) = field(&read("limits"), "Max open files") {
        catalogue::PROCESS_MAX_FILES.gauge([]).set(most as f64);
    }
    if let Some(ticks) = ticks(&read("stat")) {
        catalogue::PROCESS_CPU.counter([]).absolute(ticks / TICKS_PER_SECOND);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        catalogue::PROCESS_FILES.gauge([]).set(files.count() as f64);
    }
}

/// First number after `name` on its line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Ticks in user and in system mode: fields 14 and 15 of `stat`, whose second field, the name in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
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

    #[test]
    fn metrics_are_found_in_what_linux_writes() {
        let status = "Name:\talmanac\nVmHWM:\t  9 kB\nVmRSS:\t  5124 kB\nThreads:\t7\n";
        assert_eq!((field(status, "VmRSS:"), field(status, "Threads:")), (Some(5_124), Some(7)));
        let limits =
            "Max processes             95  95  processes\nMax open files            1024 4096 files\n";
        assert_eq!(field(limits, "Max open files"), Some(1_024));
        assert_eq!(field("Max open files            unlimited unlimited files\n", "Max open files"), None);
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 2 0 0 0 150 50 0 0 20 0 7 0 9 1 2";
        assert_eq!(ticks(stat), Some(200));
        assert_eq!(ticks(""), None);
    }
}
