//! The line of metrics that every service writes once a minute, for operators without Prometheus: filters of a log service make
//! metrics and alarms of it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use log::store::Denials;
use projector::{Health, Projector};

/// Interval of the line.
pub(crate) const EVERY: Duration = Duration::from_secs(60);

/// Status of a request refused for a limit.
const TOO_MANY: u16 = 429;

/// Requests since the start, without those for `/healthz`, `/readyz` and `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    requests: AtomicU64,
    errors: AtomicU64,
    turned_away: AtomicU64,
}

impl Traffic {
    /// Counts an answered request by its status. Turned away is a request beyond a limit, or one that met a busy service; any
    /// other status from 500 on is an error.
    pub(super) fn note(&self, status: u16, is_busy: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(status >= 500 && !is_busy), Ordering::Relaxed);
        self.turned_away.fetch_add(u64::from(status == TOO_MANY || is_busy), Ordering::Relaxed);
    }
}

/// Writer of the line.
#[derive(Debug)]
pub(crate) struct Reporter {
    traffic: Arc<Traffic>,
    projector: Option<Projector>,
    denials: Arc<Denials>,
    /// Counts up to the last line.
    told: Counts,
}

/// Counts of a line since the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    errors: u64,
    turned_away: u64,
    denied: u64,
}

impl Reporter {
    /// Reports this traffic, the state of a projector, and the denials of the table.
    pub(crate) fn new(traffic: Arc<Traffic>, projector: Option<Projector>, denials: Arc<Denials>) -> Self {
        Self { traffic, projector, denials, told: Counts::default() }
    }

    /// Writes a line after each `every`, and a last one at `end`.
    pub(crate) async fn run(mut self, every: Duration, end: impl Future<Output = ()>) {
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => self.line(),
                () = &mut end => return self.line(),
            }
        }
    }

    fn line(&mut self) {
        let metric = |metric: &AtomicU64| metric.load(Ordering::Relaxed);
        let now = Counts {
            requests: metric(&self.traffic.requests),
            errors: metric(&self.traffic.errors),
            turned_away: metric(&self.traffic.turned_away),
            denied: self.denials.count(),
        };
        let before = std::mem::replace(&mut self.told, now);
        let counts = Counts {
            requests: now.requests - before.requests,
            errors: now.errors - before.errors,
            turned_away: now.turned_away - before.turned_away,
            denied: now.denied - before.denied,
        };
        write(self.projector.as_ref().map(Projector::health).as_ref(), counts);
    }
}

/// Unknown values have no field: the lag is known after the first sweep. Ages of events that never happened count from the start.
fn write(health: Option<&Health>, counts: Counts) {
    let swept = health.filter(|health| health.has_swept);
    let seconds = |age: Duration| age.as_secs_f64();
    tracing::info!(
        lag_segments = swept.map(|health| health.waiting),
        lag_seconds = swept.map(|health| seconds(health.oldest)),
        unevaluated_days = swept.map(|health| health.unevaluated_days),
        dead_letters = health.map(|health| health.stopped),
        heartbeat_seconds = health.map(|health| seconds(health.heartbeat_age.unwrap_or(health.age))),
        checkpoint_seconds = health.map(|health| seconds(health.oldest_checkpoint)),
        fold_seconds = health.map(|health| seconds(health.fold_age)),
        feed_seconds = health.map(|health| seconds(health.feed_age)),
        sweep_seconds = health.and_then(|health| health.sweep_age).map(seconds),
        requests = counts.requests,
        errors = counts.errors,
        turned_away = counts.turned_away,
        denied = counts.denied,
        "telemetry"
    );
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Mutex, MutexGuard},
    };

    use serde_json::{Value, json};

    use super::*;

    /// Destination of the lines of a test.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn text(&self) -> MutexGuard<'_, Vec<u8>> {
            self.0.lock().unwrap()
        }

        fn objects(&self) -> Vec<Value> {
            let text = self.text();
            text.split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.text().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(write: impl FnOnce()) -> Vec<Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let subscriber = subscriber.json().flatten_event(true).with_span_list(false).finish();
        tracing::subscriber::with_default(subscriber, write);
        lines.objects()
    }

    #[test]
    fn a_line_has_numbers_beside_its_message() {
        let health =
            Health { waiting: 3, oldest: Duration::from_millis(1_500), stopped: 2, ..Health::default() };
        let health = Health { has_swept: true, age: Duration::from_secs(70), ..health };
        let counts = |requests, errors| Counts { requests, errors, ..Counts::default() };
        let lines = written(|| {
            write(Some(&health), counts(10, 1));
            write(None, counts(4, 0));
            let blind = Health { has_swept: false, sweep_age: Some(health.age), ..health.clone() };
            write(Some(&blind), Counts { turned_away: 7, denied: 9, ..Counts::default() });
        });
        let metrics = |line: &Value| {
            ["message", "level", "lag_segments", "lag_seconds", "dead_letters", "requests", "errors"]
                .map(|name| line[name].clone())
        };
        let info = json!("INFO");
        let telemetry = json!("telemetry");
        assert_eq!(
            metrics(&lines[0]),
            [telemetry.clone(), info.clone(), json!(3), json!(1.5), json!(2), json!(10), json!(1)]
        );
        let none = Value::Null;
        assert_eq!(
            metrics(&lines[1]),
            [telemetry, info, none.clone(), none.clone(), none, json!(4), json!(0)]
        );
        assert!(lines[1].get("lag_segments").is_none(), "what is not known has no field");
        assert!(lines[0].get("sweep_seconds").is_none(), "another worker sweeps");
        let blind = &lines[2];
        assert!(blind.get("lag_seconds").is_none(), "who has not looked does not say that nothing waits");
        assert_eq!((&blind["heartbeat_seconds"], &blind["sweep_seconds"]), (&json!(70.0), &json!(70.0)));
        assert_eq!((&blind["turned_away"], &blind["denied"]), (&json!(7), &json!(9)));
    }

    #[test]
    fn traffic_line_each_minute_reports_new_requests() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let traffic = Arc::new(Traffic::default());
        let reporter = Reporter::new(Arc::clone(&traffic), None, Arc::default());
        let lines = written(|| {
            runtime.block_on(async {
                let end = async {
                    tokio::time::sleep(EVERY / 2).await;
                    (0..5).for_each(|at| traffic.note(if at == 0 { 500 } else { 200 }, false));
                    tokio::time::sleep(EVERY * 2).await;
                    traffic.note(503, true);
                    traffic.note(429, false);
                };
                reporter.run(EVERY, end).await;
            });
        });
        let told =
            |line: &Value| ["requests", "errors", "turned_away"].map(|name| line[name].as_u64().unwrap());
        assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), [[5, 1, 0], [0, 0, 0], [2, 0, 2]]);
    }
}
